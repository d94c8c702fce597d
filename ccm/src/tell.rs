//! What plans tell people: Events on the tenant's own objects.
//!
//! Invariant: reasons are those of k8s.io/cloud-provider where it has one, so that dashboards and
//! alerts made for other clouds go on working.

use k8s_openapi::api::core::v1::ObjectReference;
use kit::events::{Event, Publisher, Severity};

/// One Event to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Notice {
    /// Shown as Warning.
    pub warning: bool,
    /// PascalCase.
    pub reason: &'static str,
    /// A sentence that says what is wrong and how to mend it.
    pub message: String,
}

impl Notice {
    /// Something that went as it should.
    #[must_use]
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            message: message.into(),
        }
    }

    /// Something that somebody has to mend.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            message: message.into(),
        }
    }
}

/// Publishes Events one after the other.
pub async fn publish(publisher: &Publisher, about: &ObjectReference, notices: &[Notice]) {
    for notice in notices {
        let severity = match notice.warning {
            true => Severity::Warning,
            false => Severity::Normal,
        };
        let event = Event {
            severity,
            reason: notice.reason.to_owned(),
            message: notice.message.clone(),
            action: notice.reason.to_owned(),
        };
        publisher.publish(about, &event).await;
    }
}
