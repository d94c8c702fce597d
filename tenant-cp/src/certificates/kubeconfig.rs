//! The administrator's kubeconfig in the user's namespace.
//!
//! Invariant: the same certificate, authority and server give the same bytes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use pki::Store;

use crate::{Object, Validated};

/// Secret `<name>-kubeconfig`, key `value`. None while `ca` or `admin` is not in the store.
/// `server` is the URL, e.g. `https://203.0.113.7:6443`.
#[must_use]
pub fn kubeconfig(
    v: &Validated,
    store: &Store,
    server: &str,
    owner: Option<OwnerReference>,
) -> Option<Object> {
    let _ = (v, store, server, owner);
    None
}
