//! Requests for objects of any kind of the table, without a type and without discovery.
//!
//! Invariant: a kind without namespaces is never asked for in one.

use kit_objects::kinds::Kind;
use kube::Client;
use kube::api::{Api, DynamicObject};

/// An untyped API for this kind: in `namespace` where the kind has namespaces and one is given, else over
/// all of them.
pub fn of(kind: Kind, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = kind.resource();
    match namespace.filter(|_| kind.namespaced) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
