//! Kinds that are to be encrypted at rest.

use super::*;

#[test]
fn kinds_that_cannot_be_encrypted_are_refused_and_secrets_always_are() {
    let said = |kinds: &[&str]| seen(&json!({"spec": {"encryption": {"resources": kinds}}}));
    assert_eq!(said(&["secrets"]), [""; 0]);
    assert_eq!(said(&["pods", "secrets", "deployments.apps"]), [""; 0]);
    let known = "configmaps, controllerrevisions.apps, cronjobs.batch, daemonsets.apps, deployments.apps, jobs.batch, \
                 leases.coordination.k8s.io, persistentvolumeclaims, pods, replicasets.apps, serviceaccounts, \
                 statefulsets.apps";
    for kind in ["*.*", "*.apps", "events", "nodes", "deployments"] {
        let wanted = format!(
            "spec.encryption.resources: {kind} cannot be encrypted at rest: choose among secrets, {known}"
        );
        assert_eq!(said(&["secrets", kind]), [wanted]);
    }
    let lacks =
        "spec.encryption.resources: secrets are always encrypted at rest: add secrets to the list";
    assert_eq!(said(&[]), [lacks]);
    assert_eq!(said(&["configmaps"]), [lacks]);
    // The definition names the same.
    let definition = serde_json::to_string(&api::crds()).unwrap();
    for kind in known.split(", ") {
        assert!(definition.contains(&format!("'{kind}'")), "{kind}");
    }
}
