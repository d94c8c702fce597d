//! What of our kinds only the operator writes: its finalizers, and statuses.
//!
//! Invariant: every rule of templates/ownership-policies.yaml has a line that it refuses.

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::objects::namespace;
use crate::{Installed, OPERATOR, api_of, is_refused, until, write};

const NAMESPACE: &str = "owned";
/// A stranger's finalizer, which is none of ours.
const FOREIGN: &str = "example.com/hold";
/// Whoever might write a status by mistake, or by a right that was meant for something else.
const OTHERS: [&str; 3] = [
    "jane",
    "system:serviceaccount:covey-demo-0a1b2c3d00:autoscaler",
    "system:serviceaccount:kube-system:generic-garbage-collector",
];

/// An object of each kind, the finalizer that the operator gives it, and a status of it.
fn kinds() -> Vec<(Value, Option<&'static str>, Value)> {
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": kind, "spec": spec,
            "metadata": { "name": "owned", "namespace": NAMESPACE },
        })
    };
    let mut quota = object(
        "TenantQuota",
        json!({ "namespaces": [NAMESPACE], "clusters": 9 }),
    );
    quota["metadata"]["namespace"].take();
    let mut target = object(
        "BackupTarget",
        json!({ "claim": { "size": "1Gi" }, "encryption": { "keySecret": "backup-key" } }),
    );
    target["metadata"]["namespace"].take();
    let mut policy = object("FleetPolicy", json!({ "maxConcurrent": 1 }));
    policy["metadata"]["namespace"].take();
    vec![
        (
            object("TenantCluster", json!({ "version": "1.35.4" })),
            Some("covey.dev/tenant-cluster"),
            json!({ "version": "1.35.4" }),
        ),
        (
            object(
                "NodePool",
                json!({ "clusterName": "owned", "replicas": 0, "provider": { "kubevirt": {} } }),
            ),
            Some("covey.dev/node-pool"),
            json!({ "replicas": 3 }),
        ),
        (
            object(
                "Machine",
                json!({
                    "clusterName": "owned", "clusterUID": "u1", "poolName": "owned",
                    "version": "1.35.4", "provider": { "kubevirt": {} },
                }),
            ),
            Some("covey.dev/machine"),
            json!({ "nodeName": "stolen" }),
        ),
        (
            object(
                "Host",
                json!({
                    "address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh",
                    "hostKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"],
                }),
            ),
            Some("covey.dev/host"),
            json!({ "phase": "Available" }),
        ),
        (
            object(
                "ProviderConfig",
                json!({ "hetzner": {
                    "tokenSecretName": "hetzner", "location": "fsn1", "sshKeys": ["covey"],
                } }),
            ),
            Some("covey.dev/provider-config"),
            json!({ "observedGeneration": 7 }),
        ),
        (quota, None, json!({ "observedGeneration": 7 })),
        (target, None, json!({ "observedGeneration": 7 })),
        (policy, None, json!({ "observedGeneration": 7 })),
        (
            object("Restore", json!({ "clusterName": "owned", "dryRun": true })),
            None,
            json!({ "revision": 7 }),
        ),
        (
            object("Snapshot", json!({ "clusterName": "owned" })),
            None,
            json!({ "revision": 7 }),
        ),
        (
            object(
                "AccessGrant",
                json!({
                    "clusterName": "owned", "profile": "view", "user": "jane", "request": "r".repeat(64),
                }),
            ),
            Some("covey.dev/access-grant"),
            json!({ "notAfter": "2027-01-31T12:00:00Z" }),
        ),
    ]
}

fn held(object: &Value, finalizers: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["finalizers"] = finalizers.clone();
    object
}

async fn patch(api: &Api<DynamicObject>, finalizers: &Value) -> Result<(), String> {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let change = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let patched = api.patch("owned", &params, &change).await;
    patched.map(drop).map_err(|error| error.to_string())
}

async fn patch_status(api: &Api<DynamicObject>, status: &Value) -> Result<(), String> {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let change = Patch::Merge(json!({ "status": status }));
    let patched = api.patch_status("owned", &params, &change).await;
    patched.map(drop).map_err(|error| error.to_string())
}

fn client(installed: &Installed, user: &str) -> Client {
    installed.api.client_as(user, &["system:masters"]).unwrap()
}

#[tokio::test]
async fn finalizers_and_statuses_are_the_operators_alone() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    installed.create(namespace(NAMESPACE, &[])).await;
    let operator = client(installed, OPERATOR);
    for (object, own, _) in kinds() {
        let finalizers = json!(own.into_iter().chain([FOREIGN]).collect::<Vec<_>>());
        let object = held(&object, &finalizers);
        assert_eq!(write(&operator, &object, "create", false).await, Ok(()));
    }
    // The policies are in force a moment after they are stored.
    let jane = client(installed, "jane");
    let (cluster, _, status) = kinds().remove(0);
    let clusters = api_of(&jane, &cluster);
    until(async || is_refused(&patch(&clusters, &json!([])).await)).await;
    until(async || is_refused(&patch_status(&clusters, &status).await)).await;

    for (object, own, status) in kinds() {
        let by_the_operator = api_of(&operator, &object);
        assert_eq!(patch_status(&by_the_operator, &status).await, Ok(()));
        for user in OTHERS {
            let api = api_of(&client(installed, user), &object);
            let kind = object["kind"].as_str().unwrap();
            let refused = patch_status(&api, &status).await.unwrap_err();
            let message = format!("only the operator writes the status of {kind} owned");
            assert!(refused.contains(&message), "{user}: {refused}");
        }
        let Some(own) = own else { continue };
        let taken_off = Some("only the operator takes finalizers of covey.dev off");
        let not_known = Some("use a prefix of your own");
        for (finalizers, refusal) in [
            (json!(null), taken_off),
            (json!([FOREIGN]), taken_off),
            (json!([own]), None),
            (json!([own, FOREIGN, "example.com/more"]), None),
            (json!([own, FOREIGN, "covey.dev/other"]), not_known),
        ] {
            let api = api_of(&jane, &object);
            match (refusal, patch(&api, &finalizers).await) {
                (None, answer) => assert_eq!(answer, Ok(()), "{own}: {finalizers}"),
                (Some(part), answer) => {
                    let refused = answer.expect_err(part);
                    assert!(refused.contains(part), "{own}: {finalizers}: {refused}");
                }
            }
            let answer = patch(&by_the_operator, &finalizers).await;
            assert_eq!(answer, Ok(()), "{own}: {finalizers}");
        }
    }
}

#[tokio::test]
async fn backups_may_be_restored_with_the_operators_finalizer_and_with_no_other_of_ours() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    let jane = client(installed, "jane");
    for (mut object, own, _) in kinds() {
        let Some(own) = own.filter(|_| object["kind"] != "Machine") else {
            continue;
        };
        object["metadata"]["namespace"] = json!("default");
        let strange = held(&object, &json!([own, "covey.dev/other"]));
        until(async || is_refused(&write(&jane, &strange, "create", true).await)).await;
        let refused = write(&jane, &strange, "create", true).await.unwrap_err();
        assert!(refused.contains("use a prefix of your own"), "{refused}");
        let restored = held(&object, &json!([own, FOREIGN]));
        assert_eq!(write(&jane, &restored, "create", true).await, Ok(()));
    }
}
