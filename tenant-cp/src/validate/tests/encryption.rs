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

#[test]
fn kms_is_one_of_the_platform_and_its_plugins_can_be_built() {
    let settings = |kms: Value| -> Settings {
        serde_json::from_value(json!({ "encryption": { "kms": kms } })).unwrap()
    };
    let plugin = |name: &str| json!({ "name": name, "image": "registry.example.com/kms:v1" });
    let asks =
        tc(&json!({"spec": {"encryption": {"resources": ["secrets"], "kms": {"name": "vault"}}}}));
    let nobody: [TenantCluster; 0] = [];
    let said = |settings: &Settings| -> Vec<String> {
        let problems = admit(None, &asks, &nobody, settings);
        problems.iter().map(ToString::to_string).collect()
    };
    assert_eq!(said(&settings(json!([plugin("vault")]))), [""; 0]);
    let allow =
        "have whoever runs the management cluster allow it (config.encryption.kms of the chart)";
    assert_eq!(
        said(&settings(json!([plugin("other")]))),
        [format!(
            "spec.encryption.kms.name: \"vault\" is not allowed here: choose of other, or {allow}"
        )]
    );
    let wrong = settings(json!([
        plugin("vault"), plugin("vault"), plugin("Vault"),
        { "name": "a", "image": "https://registry.example.com/a", "limits": { "memory": "much" } },
    ]));
    let problems = check_settings(&wrong);
    let fields: Vec<_> = problems
        .iter()
        .map(|problem| problem.field.as_str())
        .collect();
    let at = |field: &str| format!("encryption.kms{field}");
    assert_eq!(
        fields,
        [
            at("[1].name"),
            at("[2].name"),
            at("[3].image"),
            at("[3].limits")
        ]
    );
}
