//! Every pod that is wanted satisfies Pod Security "restricted", and what it mounts exists.
//!
//! The rules are those of the Pod Security Standards (kubernetes.io/docs/concepts/security), written
//! here again on purpose: the code under test must not check itself.

mod fixtures;

use std::collections::{BTreeMap, BTreeSet};

use fixtures::{addresses, any_addresses, minimal, objects, validated};
use kit_objects::object::Object;
use proptest::prelude::*;
use serde_json::{Value, json};
use tenant_cp::certificates::Material;
use tenant_cp::kms::Provider;
use tenant_cp::{Addresses, Settings, Validated, certificates, management_objects};

/// Kind and pod spec of everything that makes pods.
fn pods(objects: &[Object]) -> Vec<(&str, &Value)> {
    objects
        .iter()
        .filter_map(|object| {
            Some((
                object.kind.as_str(),
                object.value.pointer("/spec/template/spec")?,
            ))
        })
        .collect()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .filter_map(|list| pod[list].as_array())
        .flatten()
}

/// Violations of "restricted" (which holds "baseline").
fn violations(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |ok: bool, what: String| {
        if !ok {
            found.push(what);
        }
    };
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        must(pod[host].is_null(), format!("{host} is set"));
    }
    let allowed = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        for source in volume.as_object().into_iter().flat_map(|map| map.keys()) {
            must(
                source == "name" || allowed.contains(&source.as_str()),
                format!("volume source {source}"),
            );
        }
    }
    let security = &pod["securityContext"];
    must(security["runAsNonRoot"] == true, "runAsNonRoot".to_owned());
    must(security["runAsUser"] != 0, "runAsUser".to_owned());
    must(
        security["seccompProfile"]["type"] == "RuntimeDefault",
        "seccompProfile".to_owned(),
    );
    must(security["sysctls"].is_null(), "sysctls".to_owned());
    for container in containers(pod) {
        let name = &container["name"];
        let own = &container["securityContext"];
        must(own["privileged"].is_null(), format!("{name}: privileged"));
        must(
            own["allowPrivilegeEscalation"] == false,
            format!("{name}: escalation"),
        );
        must(
            own["capabilities"]["drop"] == serde_json::json!(["ALL"]),
            format!("{name}: drop"),
        );
        for added in own["capabilities"]["add"].as_array().into_iter().flatten() {
            must(added == "NET_BIND_SERVICE", format!("{name}: adds {added}"));
        }
        for field in [
            "runAsUser",
            "runAsNonRoot",
            "seccompProfile",
            "procMount",
            "seLinuxOptions",
        ] {
            must(own[field].is_null(), format!("{name}: overrides {field}"));
        }
        for port in container["ports"].as_array().into_iter().flatten() {
            must(port["hostPort"].is_null(), format!("{name}: hostPort"));
        }
        // Beyond "restricted": ours.
        must(
            own["readOnlyRootFilesystem"] == true,
            format!("{name}: root file system"),
        );
    }
    // These two alone speak to the management API with every container that they have.
    let account = pod["serviceAccountName"].as_str().unwrap_or_default();
    must(
        pod["automountServiceAccountToken"] == ["autoscaler", "ccm"].contains(&account),
        "service account token".to_owned(),
    );
    found
}

#[test]
fn checker_finds_what_is_not_restricted() {
    let objects = objects(&minimal(), &addresses("x"));
    let (_, pod) = pods(&objects)[0];
    let spoil: [(&str, Value); 5] = [
        ("/hostNetwork", true.into()),
        ("/securityContext/runAsNonRoot", false.into()),
        ("/containers/0/securityContext/privileged", true.into()),
        (
            "/containers/0/securityContext/capabilities/drop",
            serde_json::json!([]),
        ),
        ("/volumes/0/hostPath", serde_json::json!({"path": "/"})),
    ];
    assert_eq!(violations(pod), Vec::<String>::new());
    for (pointer, value) in spoil {
        let mut pod = pod.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value;
        assert_eq!(violations(&pod).len(), 1, "{pointer}");
    }
}

#[test]
fn plugin_of_a_kms_is_restricted_and_first_and_asked_for_by_who_starts_alone() {
    let v = minimal();
    let settings = json!({ "encryption": { "kms": [{
        "name": "vault", "image": "registry.example.com/vault:v1",
        "args": ["--listen=$(KMS_SOCKET)"], "env": { "ADDRESS": "https://192.0.2.7" },
        "envFromSecret": "vault", "tokenAudience": "vault",
    }] } });
    let settings: Settings = serde_json::from_value(settings).unwrap();
    let host = addresses("demo.example.com");
    let wants = certificates::wants(&v, &settings, Some(&host));
    let mut material = fixtures::material(wants.iter().map(|want| want.name.as_str()), "C");
    let pod_of = |material: &Material| -> Value {
        let workloads = management_objects::workloads(&v, &settings, &host, material);
        let mut workloads = workloads.into_iter();
        let own = workloads.find(|object| object.name == "control-plane");
        own.unwrap().value["spec"]["template"]["spec"].clone()
    };
    let before = pod_of(&material);
    material.encrypted.kms.writes = Provider::read("vault-g1");
    let pod = pod_of(&material);
    assert_eq!(violations(&pod), [""; 0]);
    let plugin = &pod["initContainers"][0];
    assert_eq!(plugin["name"], "kms-vault");
    assert_eq!(plugin["restartPolicy"], "Always");
    let socket = json!({ "name": "KMS_SOCKET", "value": "/run/kms/vault/kms.sock" });
    assert_eq!(plugin["env"][0], socket);
    assert_eq!(plugin["envFrom"][0]["secretRef"]["name"], "vault");
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert_eq!(plugin[probe], Value::Null);
    }
    let path = |pod: &Value, probe: &str| pod["containers"][0][probe]["httpGet"]["path"].clone();
    assert_eq!(path(&pod, "startupProbe"), "/readyz");
    assert_eq!(
        path(&pod, "readinessProbe"),
        "/readyz?exclude=kms-providers"
    );
    assert_eq!(path(&pod, "livenessProbe"), "/livez");
    assert_eq!(path(&before, "startupProbe"), "/livez");
    assert_eq!(path(&before, "readinessProbe"), "/readyz");
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let own = mounts.iter().find(|mount| mount["name"] == "kms-vault");
    assert_eq!(own.unwrap()["readOnly"], true);
    let volumes = pod["volumes"].as_array().unwrap().iter();
    let token = volumes.filter(|volume| volume["name"] == "kms-vault-token");
    let token: Vec<_> = token
        .map(|volume| &volume["projected"]["sources"][0])
        .collect();
    assert_eq!(token[0]["serviceAccountToken"]["audience"], "vault");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_pod_is_restricted(v in validated(), addresses in any_addresses()) {
        let objects = objects(&v, &addresses);
        let pods = pods(&objects);
        let addons = usize::from(v.addons.cloud_controller.enabled) + usize::from(v.storage.is_some());
        let addons = addons + 2 * usize::from(v.autoscaler.is_some());
        // etcd, the control plane and its controllers.
        let events = usize::from(v.etcd.events.is_some());
        prop_assert_eq!(pods.len(), 3 + events + addons);
        for (kind, pod) in pods {
            prop_assert_eq!(violations(pod), Vec::<String>::new(), "{}", kind);
        }
    }

    #[test]
    fn every_mount_has_its_volume_and_every_file_its_secret(
        v in validated(),
        addresses in any_addresses(),
    ) {
        let secrets = secret_keys(&v, &addresses);
        let objects = objects(&v, &addresses);
        for (kind, pod) in pods(&objects) {
            let mut volumes: BTreeMap<&str, &Value> = pod["volumes"].as_array().unwrap().iter()
                .map(|volume| (volume["name"].as_str().unwrap(), volume)).collect();
            if kind == "StatefulSet" {
                volumes.insert("data", &Value::Null);
            }
            for container in containers(pod) {
                let mounts = container["volumeMounts"].as_array().unwrap();
                let mut files = BTreeSet::new();
                for mount in mounts {
                    let volume = volumes.get(mount["name"].as_str().unwrap());
                    prop_assert!(volume.is_some(), "{} is not a volume", mount["name"]);
                    let path = mount["mountPath"].as_str().unwrap();
                    if ["/etc/kubernetes", "/etc/covey/grpc"].contains(&path) {
                        let secret = &volume.unwrap()["secret"];
                        let keys = &secrets[secret["secretName"].as_str().unwrap()];
                        match secret["items"].as_array() {
                            Some(items) => for item in items {
                                let text = |field: &str| item[field].as_str().unwrap().to_owned();
                                prop_assert!(keys.contains(&text("key")), "{item}");
                                files.insert(format!("{path}/{}", text("path")));
                            },
                            None => files.extend(keys.iter().map(|key| format!("{path}/{key}"))),
                        }
                    }
                }
                for path in paths(container) {
                    let names: Vec<_> = if path.contains("$(POD_NAME)") {
                        (0..v.etcd.replicas)
                            .map(|i| path.replace("$(POD_NAME)", &format!("etcd-{i}"))).collect()
                    } else {
                        vec![path]
                    };
                    for name in names {
                        prop_assert!(files.contains(&name), "{} lacks {name}", container["name"]);
                    }
                }
            }
        }
    }
}

/// What the flags of a container name below the directories of its Secrets.
fn paths(container: &Value) -> Vec<String> {
    let args = container["args"].as_array().into_iter().flatten();
    args.filter_map(|arg| {
        let (_, value) = arg.as_str()?.split_once('=')?;
        let secret = ["/etc/kubernetes/", "/etc/covey/grpc/"];
        let is_file = secret.iter().any(|dir| value.starts_with(dir));
        is_file.then(|| value.to_owned())
    })
    .collect()
}

fn secret_keys(v: &Validated, addresses: &Addresses) -> BTreeMap<String, BTreeSet<String>> {
    let wants = certificates::wants(v, &Settings::default(), Some(addresses));
    let names = wants.iter().map(|want| want.name.as_str());
    let material = fixtures::material(names, "C");
    certificates::leaf_secrets(v, &material, Some(&fixtures::etcd_identity()))
        .into_iter()
        .map(|secret| {
            let data = secret.value["data"].as_object().expect("a Secret has data");
            (secret.name.clone(), data.keys().cloned().collect())
        })
        .collect()
}
