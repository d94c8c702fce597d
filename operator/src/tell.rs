//! What plans tell people: Events, and what is waited for.
//!
//! Invariant: reasons are PascalCase and from a closed set, because conditions, Events and metrics
//! share them.

use k8s_openapi::api::core::v1::ObjectReference;
use kit::events::{Event, Publisher, Severity};

/// An Event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// Normal or Warning.
    pub warning: bool,
    /// PascalCase.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// What is waited for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// PascalCase, also the condition's reason and the metric's label.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// Publishes an Event; that it fails is only logged.
pub async fn publish(events: &Publisher, about: &ObjectReference, notice: &Notice) {
    let event = Event {
        severity: match notice.warning {
            true => Severity::Warning,
            false => Severity::Normal,
        },
        reason: notice.reason.to_owned(),
        message: notice.message.clone(),
        action: "Reconcile".to_owned(),
    };
    events.publish(about, &event).await;
}
