//! The pod around an instance, with the addresses that the management cluster's network gave it.
//!
//! Invariant: a namespace whose control plane has no account has no such pods; nobody who is tested there
//! looks for them.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::super::cache::kind;
use super::objects::MANAGER;

fn pods(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &kind("", "v1", "Pod", "pods"))
}

fn name(instance: &str) -> String {
    format!("virt-launcher-{instance}")
}

/// Makes the pod of an instance that begins to run, before anybody is told that it does.
pub(super) async fn make(
    client: &Client,
    namespace: &str,
    instance: &DynamicObject,
    (node, addresses): (&str, &[String]),
) -> Result<(), kube::Error> {
    let (pods, name) = (pods(client, namespace), name(&instance.name_any()));
    let uid = instance.uid().unwrap_or_default();
    let params = PatchParams::apply(MANAGER).force();
    let made = pods
        .patch(
            &name,
            &params,
            &Patch::Apply(pod(&name, &instance.name_any(), &uid, node)),
        )
        .await;
    match made {
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
        made => made?,
    };
    let ips: Vec<_> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    let status = json!({ "status": {
        "phase": "Running", "podIP": addresses.first(), "podIPs": ips,
    } });
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .map(drop)
}

/// Ends the pod of an instance, as the node would.
pub(super) async fn end(
    client: &Client,
    namespace: &str,
    instance: &str,
) -> Result<(), kube::Error> {
    let at_once = DeleteParams::default().grace_period(0);
    match pods(client, namespace)
        .delete(&name(instance), &at_once)
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}

fn pod(name: &str, instance: &str, uid: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": {
            "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid,
        }, "ownerReferences": [{
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": instance,
            "uid": uid, "controller": true,
        }] },
        // What the pod runs is not played; this passes Pod Security.
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "serviceAccountName": "control-plane",
            // Nobody plays the kubelet of that node.
            "terminationGracePeriodSeconds": 0,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "compute", "image": "played.invalid/played",
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    })
}
