//! What a cloud controller manager and a CSI driver may write beside a control plane.
//!
//! Invariant: every rule of templates/adapter-policies.yaml has a line that it refuses, and what the
//! programs do is let through.

use serde_json::{Value, json};

use crate::objects::{RESTRICTED, UID, namespace, with};
use crate::{Installed, OPERATOR, is_refused, until, write};

const NS: &str = "covey-mapped-0a1b2c3d00";

fn labels(component: &str) -> Value {
    json!({ "app.kubernetes.io/component": component, UID: "u1" })
}

fn service(name: &str, component: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NS, "labels": labels(component) },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "targetPort": 30080 }] },
    })
}

fn slice(name: &str, of: &str) -> Value {
    slice_to(name, of, &["10.0.0.7"])
}

/// The addresses of machines, as the operator publishes them.
fn addresses(of: &[&str]) -> Value {
    let owner = json!({ "machine": "worker-1", "instance": "u", "node": "n", "primary": true });
    let owners: serde_json::Map<_, _> = of
        .iter()
        .map(|address| ((*address).to_owned(), owner.clone()))
        .collect();
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "MachineAddresses",
        "metadata": { "name": "machines", "namespace": NS },
        // What a user wrote of a machine elsewhere: traffic is led there by nobody.
        "spec": { "addresses": owners, "machines": { "far": {
            "providerID": "static://rack-a-1/far", "addresses": ["192.0.2.10"], "state": "Present",
            "since": "2026-11-26T12:00:00Z",
        } } },
    })
}

fn slice_to(name: &str, of: &str, to: &[&str]) -> Value {
    let mut labels = labels("load-balancer");
    labels["kubernetes.io/service-name"] = json!(of);
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "namespace": NS, "labels": labels },
        "addressType": "IPv4", "ports": [],
        "endpoints": to.iter().map(|to| json!({ "addresses": [to] })).collect::<Vec<_>>(),
    })
}

fn claim(name: &str, component: &str, spec: &Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": NS, "labels": labels(component) },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        claim["spec"][key] = value.clone();
    }
    claim
}

fn snapshot(name: &str, of: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": { "name": name, "namespace": NS, "labels": labels("snapshot") },
        "spec": { "source": { "persistentVolumeClaimName": of } },
    })
}

fn machine(volumes: &[Value], disks: &[&str]) -> Value {
    let disk = |name: &&str| json!({ "name": name, "disk": { "bus": "scsi" } });
    let root = json!({ "name": "root", "containerDisk": { "image": "a" } });
    let volumes: Vec<Value> = [root].into_iter().chain(volumes.iter().cloned()).collect();
    let disks: Vec<Value> = std::iter::once(&"root").chain(disks).map(disk).collect();
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": "worker-1", "namespace": NS, "labels": { "a": "b" } },
        "spec": { "runStrategy": "Always", "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "volumes": volumes, "domain": {
                "cpu": { "cores": 2 }, "devices": { "disks": disks, "rng": {} },
            } },
        } },
    })
}

fn volume(name: &str, claim: &str) -> Value {
    json!({ "name": name, "persistentVolumeClaim": { "claimName": claim, "hotpluggable": true } })
}

/// Verb, object, and with what it is refused.
type Asked = (&'static str, Value, Option<&'static str>);

fn of_ccm() -> Vec<Asked> {
    let ours = Some("write only what is of load balancers");
    let mirror = || service("lb-2", "load-balancer");
    let spec = |more: Value| {
        let mut mirror = mirror();
        for (key, value) in more.as_object().into_iter().flatten() {
            mirror["spec"][key] = value.clone();
        }
        mirror
    };
    vec![
        ("create", mirror(), None),
        ("create", slice("lb-2-a", "lb-2"), None),
        ("delete", service("lb-1", "load-balancer"), None),
        ("create", service("lb-2", "control-plane"), ours),
        ("apply", service("control-plane", "load-balancer"), ours),
        ("apply", service("lb-1", "control-plane"), ours),
        ("delete", service("control-plane", "control-plane"), ours),
        (
            "create",
            spec(json!({ "type": "ClusterIP" })),
            Some("are of type LoadBalancer"),
        ),
        (
            "create",
            spec(json!({ "selector": { "app.kubernetes.io/component": "etcd" } })),
            Some("select no pods"),
        ),
        (
            "create",
            spec(json!({ "externalIPs": ["192.0.2.1"] })),
            Some("config.loadBalancers.addresses"),
        ),
        (
            "create",
            spec(json!({ "loadBalancerIP": "192.0.2.1" })),
            Some("config.loadBalancers.addresses"),
        ),
        (
            "create",
            slice("a", "control-plane"),
            Some("of load balancers' Services alone"),
        ),
        // 10.0.0.9 was a machine's when lb-1 was made.
        ("apply", slice_to("lb-1-a", "lb-1", &["10.0.0.9"]), None),
        (
            "apply",
            slice_to("lb-1-a", "lb-1", &["10.0.0.7", "10.0.0.9"]),
            None,
        ),
        ("create", slice_to("lb-2-a", "lb-2", &[]), None),
        (
            "create",
            slice_to("lb-2-a", "lb-2", &["10.0.0.7", "10.0.0.9"]),
            Some("addresses of machines alone"),
        ),
        (
            "apply",
            slice_to("lb-1-a", "lb-1", &["10.96.0.1"]),
            Some("addresses of machines alone"),
        ),
    ]
}

fn of_csi() -> Vec<Asked> {
    let ours = Some("write only volumes and snapshots of tenant clusters");
    let from = |kind: &str, name: &str| json!({ "dataSource": { "kind": kind, "name": name } });
    let reference =
        json!({ "dataSourceRef": { "kind": "PersistentVolumeClaim", "name": "data-etcd-0" } });
    let made_of = Some("made of volumes and snapshots of tenant clusters alone");
    let nothing = json!({});
    vec![
        ("create", claim("vol-2", "volume", &nothing), None),
        (
            "create",
            claim("vol-2", "volume", &from("PersistentVolumeClaim", "vol-1")),
            None,
        ),
        ("create", snapshot("snap-1", "vol-1"), None),
        ("delete", claim("vol-1", "volume", &nothing), None),
        ("create", claim("data-etcd-1", "volume", &nothing), ours),
        ("create", claim("vol-2", "etcd", &nothing), ours),
        ("apply", claim("data-etcd-0", "volume", &nothing), ours),
        ("delete", claim("data-etcd-0", "etcd", &nothing), ours),
        (
            "create",
            claim(
                "vol-2",
                "volume",
                &from("PersistentVolumeClaim", "data-etcd-0"),
            ),
            made_of,
        ),
        ("create", claim("vol-2", "volume", &reference), made_of),
        (
            "create",
            claim("vol-2", "volume", &json!({ "volumeName": "pv-of-others" })),
            Some("choose no PersistentVolume"),
        ),
        (
            "create",
            snapshot("snap-1", "data-etcd-0"),
            Some("of volumes of tenant clusters alone"),
        ),
        (
            "apply",
            machine(&[volume("vol-1", "vol-1")], &["vol-1"]),
            None,
        ),
        (
            "apply",
            machine(&[volume("vol-1", "data-etcd-0")], &["vol-1"]),
            Some("claims of the same name"),
        ),
        (
            "apply",
            machine(&[volume("etcd", "data-etcd-0")], &[]),
            Some("change only disks of volumes"),
        ),
        (
            "apply",
            machine(&[], &["host"]),
            Some("change only disks of volumes"),
        ),
        (
            "apply",
            with(
                machine(&[], &[]),
                "/spec/template/spec/volumes",
                json!([{ "name": "root", "containerDisk": { "image": "evil" } }]),
            ),
            Some("change only disks of volumes"),
        ),
        (
            "apply",
            with(
                machine(&[], &[]),
                "/spec/template/spec/domain/devices",
                json!({ "disks": [{ "name": "root", "disk": { "bus": "scsi" } }], "rng": {},
                    "hostDevices": [{ "name": "a", "deviceName": "b" }] }),
            ),
            Some("change only volumes and disks"),
        ),
        (
            "apply",
            with(
                machine(&[], &[]),
                "/spec/template/spec/domain/cpu/cores",
                json!(8),
            ),
            Some("change only volumes and disks"),
        ),
        (
            "apply",
            with(machine(&[], &[]), "/spec/runStrategy", json!("Halted")),
            Some("change only volumes and disks"),
        ),
        (
            "apply",
            with(machine(&[], &[]), "/metadata/labels/a", json!("c")),
            Some("change nothing"),
        ),
    ]
}

/// Findings D3 and S4: a cloud controller manager that was taken over led load balancers anywhere. The
/// operator's word is needed, and nobody gives it in its place.
#[tokio::test]
async fn endpoints_need_addresses_that_the_operator_published() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    installed.api.install_kinds().await.unwrap();
    let ns = "covey-unpublished-0a1b2c3d00";
    installed
        .create(namespace(ns, &[(UID, "u2"), RESTRICTED]))
        .await;
    let of = |mut object: Value| {
        object["metadata"]["namespace"] = json!(ns);
        object
    };
    let ccm = format!("system:serviceaccount:{ns}:ccm");
    let ccm = installed.api.client_as(&ccm, &["system:masters"]).unwrap();
    let led = of(slice("lb-2-a", "lb-2"));
    let refused = async || write(&ccm, &led, "create", true).await.err();
    until(async || refused().await.is_some()).await;
    // Those of others are nobody's business here.
    let mut others = of(slice("control-plane-a", "control-plane"));
    others["metadata"]["labels"]["app.kubernetes.io/component"] = json!("control-plane");
    assert_eq!(
        write(&installed.admin(), &others, "create", true).await,
        Ok(())
    );
    let published = of(addresses(&["10.0.0.7"]));
    until(async || {
        write(&installed.admin(), &published, "create", true)
            .await
            .is_err()
    })
    .await;
    let by_another = write(&installed.admin(), &published, "create", true).await;
    let said = by_another.unwrap_err();
    assert!(
        said.contains("only the operator writes which addresses"),
        "{said}"
    );
    let operator = installed
        .api
        .client_as(OPERATOR, &["system:masters"])
        .unwrap();
    assert_eq!(write(&operator, &published, "create", false).await, Ok(()));
    until(async || refused().await.is_none()).await;
    let far = of(slice_to("lb-2-b", "lb-2", &["192.0.2.10"]));
    let said = write(&ccm, &far, "create", true).await.unwrap_err();
    assert!(said.contains("addresses of machines alone"), "{said}");
}

/// Finding S4: nothing narrowed the accounts of both inside their namespace.
#[tokio::test]
async fn programs_beside_a_control_plane_write_only_what_they_are_for() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    installed.api.install_kinds().await.unwrap();
    installed
        .create(namespace(NS, &[(UID, "u1"), RESTRICTED]))
        .await;
    for object in [
        service("control-plane", "control-plane"),
        service("lb-1", "load-balancer"),
        claim("data-etcd-0", "etcd", &json!({})),
        claim("vol-1", "volume", &json!({})),
        machine(&[], &[]),
    ] {
        installed.create(object).await;
    }
    let operator = installed
        .api
        .client_as(OPERATOR, &["system:masters"])
        .unwrap();
    let published = write(&operator, &addresses(&["10.0.0.7"]), "create", false).await;
    assert_eq!(published, Ok(()));
    // Where kube-proxies led before, what was published then: by anybody who is no cloud controller manager, once
    // the API has heard of the parameters.
    let before = slice_to("lb-1-a", "lb-1", &["10.0.0.9"]);
    until(async || {
        write(&installed.admin(), &before, "create", true)
            .await
            .is_ok()
    })
    .await;
    installed.create(before).await;
    for (account, rows) in [("ccm", of_ccm()), ("csi", of_csi())] {
        let user = format!("system:serviceaccount:{NS}:{account}");
        let client = installed.api.client_as(&user, &["system:masters"]).unwrap();
        let (verb, object, _) = rows
            .iter()
            .find(|(_, _, refusal)| refusal.is_some())
            .unwrap();
        // A policy is in force a moment after it is stored.
        until(async || is_refused(&write(&client, object, verb, true).await)).await;
        for (verb, object, refusal) in &rows {
            let answer = write(&client, object, verb, true).await;
            match (refusal, &answer) {
                (None, Ok(())) => {}
                (Some(words), Err(said)) if said.contains(words) => {}
                _ => panic!("{account} may {verb} {object}: {answer:?}, not {refusal:?}"),
            }
            // Whoever administers the management cluster is let do it.
            let admin = write(&installed.admin(), object, verb, true).await;
            assert_eq!(admin, Ok(()), "{verb} {object}");
        }
    }
}
