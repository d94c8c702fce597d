//! Lists and objects as facts, or why they are not known.
//!
//! Invariant: what could not be read is unknown and never absent; a missing right becomes a line and never an error.

use std::sync::Mutex;

use insight::facts::{NO_ANSWER, NOT_ALLOWED, TOO_MANY};
use kit_objects::known::Known;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

use crate::request::{self, Unread};

/// Why something is not known: this cluster does not have the kind.
const NO_KIND: &str = "this cluster has no such kind";
/// Why something is not known: what was answered cannot be read.
const UNREADABLE: &str = "it was answered in a form that is not understood";

/// Notes what may not be read.
#[derive(Debug, Default)]
pub struct Reader {
    not_allowed: Mutex<Vec<String>>,
}

impl Reader {
    /// What may not be read, in order.
    #[must_use]
    pub fn not_allowed(self) -> Vec<String> {
        let all = self.not_allowed.into_inner();
        let mut all = all.unwrap_or_else(std::sync::PoisonError::into_inner);
        all.sort();
        all.dedup();
        all
    }

    /// A list, or why it is not known. `what` says which: `pods in covey-demo-0a1b2c3d11`.
    pub async fn list<K>(
        &self,
        api: &Api<K>,
        params: ListParams,
        pages: usize,
        what: &str,
    ) -> Known<Vec<K>>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        match request::all(api, params, pages).await {
            Ok(all) => Known::Known(all),
            Err(Unread::TooMany) => Known::Unknown { why: TOO_MANY },
            // A list that is not found is of a kind that is not there.
            Err(Unread::Failed(error)) => Known::Unknown {
                why: self.why(&error, &format!("list {what}")),
            },
        }
    }

    /// An object, that it is absent, or why it is not known.
    pub async fn get<K>(&self, api: &Api<K>, name: &str, what: &str) -> Known<K>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        match api.get_opt(name).await {
            Ok(found) => Known::found(found),
            Err(error) => Known::Unknown {
                why: self.why(&error, &format!("get {what}")),
            },
        }
    }

    fn why(&self, error: &kube::Error, act: &str) -> &'static str {
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                let all = self.not_allowed.lock();
                let mut all = all.unwrap_or_else(std::sync::PoisonError::into_inner);
                all.push(act.to_owned());
                NOT_ALLOWED
            }
            kube::Error::Api(status) if status.code == 404 => NO_KIND,
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => UNREADABLE,
            _ => NO_ANSWER,
        }
    }
}
