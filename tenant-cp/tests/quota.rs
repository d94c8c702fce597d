//! What quotas count is what is made: `quota::takes` beside the pods and volumes themselves.
//!
//! Invariant: whatever pod or container is added to a tenant namespace is counted, or this fails.

mod fixtures;

use api::{BackupTarget, BackupTargetSpec, TenantCluster};
use fixtures::{addresses, offer};
use pki::KeyPair;
use serde_json::{Value, json};
use tenant_cp::amounts::Resource;
use tenant_cp::backup::process;
use tenant_cp::quota::takes;
use tenant_cp::settings::MemoryLimits;
use tenant_cp::validate::validate;
use tenant_cp::{Settings, management_objects};

fn cluster(spec: &Value) -> TenantCluster {
    let mut all = json!({ "version": "1.35.4" });
    for (field, value) in spec.as_object().expect("a map") {
        all[field] = value.clone();
    }
    let cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "spec": all,
        "metadata": {
            "name": "demo", "namespace": "team-a", "uid": "0a1b2c3d-0000-4000-8000-000000000000",
        },
        "status": { "network": {
            "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local",
        } },
    });
    serde_json::from_value(cluster).expect("a TenantCluster")
}

/// Millicores or bytes.
fn number(text: &str) -> u64 {
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().expect("a number"),
        None => tenant_cp::validate::bytes(text).expect("an amount"),
    }
}

/// Millicores, bytes of memory and bytes of storage of all that is made.
fn made(tc: &TenantCluster, settings: &Settings) -> [u64; 3] {
    let valid = validate(tc, settings).expect("it is valid");
    let hosts = addresses("demo.example.com");
    let mut objects = management_objects::base(&valid, settings);
    objects.extend(management_objects::workloads(
        &valid,
        settings,
        &hosts,
        &fixtures::keys(),
    ));
    objects.extend(tc.spec.backup.as_ref().map(|backup| {
        let secrets = process::Secrets {
            data_key: Vec::new(),
            wrapped_key: Vec::new(),
            wrapped_for: String::new(),
            identity: None,
            certificate: KeyPair {
                certificate: String::new(),
                key: pki::Key::new(String::new()),
            },
            authority: String::new(),
            credentials: None,
        };
        process::deployment(
            &valid,
            backup,
            &BackupTarget::new("main", BackupTargetSpec::default()),
            &secrets,
            settings,
        )
    }));
    let [mut cores, mut memory, mut storage] = [0; 3];
    for object in objects {
        let spec = &object.value["spec"];
        if object.kind == "PersistentVolumeClaim" {
            let size = spec["resources"]["requests"]["storage"].as_str();
            storage += number(size.expect("a size"));
        }
        let replicas = spec["replicas"].as_u64().unwrap_or(1);
        for list in ["initContainers", "containers"] {
            let containers = spec["template"]["spec"][list].as_array();
            for container in containers.into_iter().flatten() {
                // What ends before the pod runs takes nothing beside the rest.
                if list == "initContainers" && container["restartPolicy"] != "Always" {
                    continue;
                }
                let resources = &container["resources"];
                let amount = |kind: &str, name: &str| resources[kind][name].as_str().map(number);
                cores += replicas * amount("requests", "cpu").unwrap_or(0);
                let most = amount("limits", "memory").or_else(|| amount("requests", "memory"));
                memory += replicas * most.unwrap_or(0);
            }
        }
    }
    [cores, memory, storage]
}

fn counted(tc: &TenantCluster, settings: &Settings) -> [u64; 3] {
    let taken = takes::cluster(tc, settings);
    let whole = |resource, unit: i128| {
        u64::try_from(taken.get(resource) / unit).expect("not beyond measure")
    };
    [
        whole(Resource::Cores, 1_000_000),
        whole(Resource::Memory, 1_000_000_000),
        whole(Resource::Storage, 1_000_000_000),
    ]
}

#[test]
fn what_is_counted_is_what_is_made() {
    // Limits of the operator's own do not count.
    let none = || "0".to_owned();
    let plain = Settings {
        memory_limits: MemoryLimits {
            api_server: none(),
            controller_manager: none(),
            scheduler: none(),
            konnectivity: none(),
            etcd: none(),
        },
        ..Settings::default()
    };
    let stocked = Settings {
        storage: offer(),
        ..plain.clone()
    };
    let every_addon = json!({ "addons": {
        "cloudController": { "enabled": true }, "csi": { "enabled": true },
        "autoscaler": { "enabled": true },
    } });
    let large = json!({
        "etcd": {
            "replicas": 3, "storage": { "size": "8Gi" }, "events": { "size": "4Gi" },
            "resources": { "requests": { "cpu": "250m" }, "limits": { "memory": "1Gi" } },
        },
        "controlPlane": {
            "replicas": 3,
            "apiServer": { "resources": {
                "requests": { "memory": "1Gi" }, "limits": { "cpu": "3000m", "memory": "3Gi" },
            } },
            "scheduler": { "resources": { "limits": { "memory": "32Mi" } } },
        },
        "addons": {
            "cloudController": { "enabled": true }, "konnectivity": { "enabled": false },
            "csi": { "enabled": true, "classes": ["slow"] },
        },
    });
    for (what, spec, settings) in [
        ("minimal", json!({}), &plain),
        ("every addon", every_addon, &stocked),
        (
            "a backup",
            json!({ "backup": { "target": "main" } }),
            &plain,
        ),
        (
            "small profile",
            json!({ "controlPlane": { "profile": "Small", "replicas": 2 } }),
            &plain,
        ),
        (
            "large profile",
            json!({
                "etcd": { "replicas": 3, "events": {} },
                "controlPlane": {
                    "profile": "Large",
                    "apiServer": { "resources": { "limits": { "memory": "2Gi" } } },
                },
            }),
            &plain,
        ),
        ("large", large, &stocked),
    ] {
        let tc = cluster(&spec);
        let made = made(&tc, settings);
        assert_eq!(counted(&tc, settings), made, "{what}");
        let limited = Settings {
            memory_limits: MemoryLimits::default(),
            ..settings.clone()
        };
        assert_eq!(counted(&tc, &limited), made, "{what}");
    }
}
