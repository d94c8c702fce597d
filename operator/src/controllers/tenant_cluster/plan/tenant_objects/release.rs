//! What the cloud controller manager leaves on the tenant's Services when it is switched off: a
//! finalizer that nobody takes off any more, and addresses that lead nowhere.
//!
//! Invariant: the finalizer goes last, so that whoever still has it is not done; Services of a class
//! are somebody else's.

use api::names::FINALIZER_LOAD_BALANCER;
use serde_json::{Value, json};

/// The next write to one of the tenant's Services: a merge patch that is refused for another one of
/// its name.
#[derive(Clone, Debug, PartialEq)]
pub enum Release {
    /// Of its status: it has no address any more.
    Status(Value),
    /// Of itself, only as it was seen: the finalizer goes, others stay.
    Finalizers(Value),
}

/// Most writes that one Service needs.
pub const MOST: usize = 2;

/// What is to be written to a Service that has no load balancer any more; none when it is free.
#[must_use]
pub fn release(service: &Value) -> Option<Release> {
    let meta = &service["metadata"];
    let finalizers: Vec<_> = meta["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let kept: Vec<_> = finalizers
        .iter()
        .filter(|finalizer| **finalizer != FINALIZER_LOAD_BALANCER)
        .collect();
    if kept.len() == finalizers.len() || !service["spec"]["loadBalancerClass"].is_null() {
        return None;
    }
    let addresses = service["status"]["loadBalancer"]["ingress"].as_array();
    if addresses.is_some_and(|list| !list.is_empty()) && meta["deletionTimestamp"].is_null() {
        return Some(Release::Status(json!({
            "metadata": { "uid": meta["uid"] },
            "status": { "loadBalancer": { "ingress": null } },
        })));
    }
    Some(Release::Finalizers(json!({ "metadata": {
        "uid": meta["uid"],
        "resourceVersion": meta["resourceVersion"],
        "finalizers": kept,
    } })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(finalizers: &[&str], addresses: &Value) -> Value {
        json!({
            "metadata": { "uid": "u", "resourceVersion": "7", "finalizers": finalizers },
            "spec": {}, "status": { "loadBalancer": addresses },
        })
    }

    #[test]
    fn addresses_go_first_then_the_finalizer_and_nothing_else() {
        let has = json!({ "ingress": [{ "ip": "192.0.2.1" }] });
        let mut service = service(&["example.com/a", FINALIZER_LOAD_BALANCER], &has);
        let status = json!({
            "metadata": { "uid": "u" }, "status": { "loadBalancer": { "ingress": null } },
        });
        assert_eq!(release(&service), Some(Release::Status(status)));
        let finalizers = json!({ "metadata": {
            "uid": "u", "resourceVersion": "7", "finalizers": ["example.com/a"],
        } });
        service["status"]["loadBalancer"] = json!({});
        assert_eq!(
            release(&service),
            Some(Release::Finalizers(finalizers.clone()))
        );
        service["metadata"]["finalizers"] = finalizers["metadata"]["finalizers"].clone();
        assert_eq!(release(&service), None);
    }

    #[test]
    fn service_that_is_being_deleted_takes_one_write() {
        let has = json!({ "ingress": [{ "ip": "192.0.2.1" }] });
        let mut service = service(&[FINALIZER_LOAD_BALANCER], &has);
        service["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        let Some(Release::Finalizers(patch)) = release(&service) else {
            panic!("it keeps its finalizer")
        };
        assert_eq!(patch["metadata"]["finalizers"], json!([]));
    }

    #[test]
    fn service_of_another_class_and_one_that_never_had_a_load_balancer_are_left_alone() {
        let has = json!({ "ingress": [{ "ip": "192.0.2.1" }] });
        let mut theirs = service(&[FINALIZER_LOAD_BALANCER], &has);
        theirs["spec"]["loadBalancerClass"] = json!("example.com/theirs");
        assert_eq!(release(&theirs), None);
        assert_eq!(release(&service(&["example.com/a"], &has)), None);
        assert_eq!(release(&json!({})), None);
    }
}
