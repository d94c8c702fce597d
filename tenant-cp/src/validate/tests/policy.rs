//! What a platform does not allow, and who keeps what was allowed.

use super::*;
use crate::settings::{EndpointPolicy, Prefixes};
use crate::validate::{admit, admit_pool};

fn said(old: Option<&TenantCluster>, new: &TenantCluster, settings: &Settings) -> Vec<String> {
    let others: [TenantCluster; 0] = [];
    let problems = admit(old, new, &others, settings);
    problems.iter().map(ToString::to_string).collect()
}

fn prefixes(list: &[&str]) -> Prefixes {
    Prefixes(list.iter().map(|&text| text.to_owned()).collect())
}

pub(super) fn mirrors() -> Settings {
    Settings {
        allowed_registries: prefixes(&["mirror.example.com/k8s"]),
        ..Settings::default()
    }
}

#[test]
fn registry_of_a_users_own_choice_is_refused_with_the_setting() {
    for other in [
        "evil.example/x",
        "mirror.example.com",
        "mirror.example.com/k8s-evil",
        "mirror.example.com:5000/k8s",
    ] {
        assert_eq!(
            said(None, &tc(&registry(other)), &mirrors()),
            [format!(
                "spec.images.registry: \"{other}\" is not allowed here: choose of \
                 registry.k8s.io, mirror.example.com/k8s, or have whoever runs the management \
                 cluster allow it (config.allowedRegistries of the chart)"
            )]
        );
    }
    for fine in [
        "registry.k8s.io",
        "registry.k8s.io/",
        "mirror.example.com/k8s",
        "mirror.example.com/k8s/a",
    ] {
        assert_eq!(said(None, &tc(&registry(fine)), &mirrors()), [""; 0]);
    }
    let mirror = tc(&registry("mirror.example.com/k8s"));
    assert_eq!(said(None, &mirror, &Settings::default()).len(), 1);
}

#[test]
fn endpoint_and_storage_that_steer_the_management_cluster_are_refused_with_the_setting() {
    let mut asked = endpoint(&json!({
        "type": "LoadBalancer",
        "loadBalancerClass": "metallb",
        "annotations": {"external-dns.alpha.kubernetes.io/hostname": "www.victim.example"},
    }));
    merge(
        &mut asked,
        &etcd(&json!({"storage": {"storageClassName": "gold"}})),
    );
    let way = |setting: &str| {
        format!("have whoever runs the management cluster allow it (config.{setting} of the chart)")
    };
    let key = "external-dns.alpha.kubernetes.io/hostname";
    let field = "spec.controlPlane.endpoint";
    assert_eq!(
        said(None, &tc(&asked), &Settings::default()),
        [
            format!(
                "{field}.loadBalancerClass: \"metallb\" is not allowed here: remove it, or {}",
                way("endpoint.classes")
            ),
            format!(
                "{field}.annotations[{key}]: \"{key}\" is not allowed here: remove it, or {}",
                way("endpoint.annotations")
            ),
            format!(
                "spec.etcd.storage.storageClassName: \"gold\" is not allowed here: remove it, or {}",
                way("etcdStorageClasses")
            ),
        ]
    );
    let mut settings = Settings {
        endpoint: EndpointPolicy {
            annotations: vec!["external-dns.alpha.kubernetes.io/".to_owned()],
            classes: vec!["metallb".to_owned()],
            ..EndpointPolicy::default()
        },
        etcd_storage_classes: vec!["gold".to_owned()],
        ..Settings::default()
    };
    assert_eq!(said(None, &tc(&asked), &settings), [""; 0]);
    settings.endpoint.types = vec![api::tenant_cluster::EndpointType::ClusterIP];
    assert_eq!(
        said(None, &tc(&asked), &settings),
        [format!(
            "{field}.type: \"LoadBalancer\" is not allowed here: choose of ClusterIP, or {}",
            way("endpoint.types")
        )]
    );
    settings.endpoint.types = EndpointPolicy::default().types;
    settings.endpoint.annotations = vec!["external-dns.alpha.kubernetes.io/host".to_owned()];
    assert_eq!(said(None, &tc(&asked), &settings).len(), 1);
}

#[test]
fn tenant_cluster_that_serves_keeps_what_is_no_longer_allowed() {
    let settings = Settings::default();
    let mut old = tc(&registry("mirror.example.com/k8s"));
    let problems = validate(&old, &settings).unwrap_err();
    assert_eq!(problems[0].reason, "RegistryNotAllowed");
    old.status = Some(TenantClusterStatus {
        version: Some("1.35.4".to_owned()),
        ..TenantClusterStatus::default()
    });
    assert!(validate(&old, &settings).is_ok());
    let mut new = old.clone();
    new.spec.control_plane.replicas = 3;
    assert_eq!(said(Some(&old), &new, &settings), [""; 0]);
    new.spec.images.registry = Some("evil.example".to_owned());
    assert_eq!(said(Some(&old), &new, &settings).len(), 1);
}

#[test]
fn machines_of_foreign_images_are_refused_with_the_setting() {
    let pool = |kubevirt: &Value| -> api::NodePool {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
            "metadata": {"name": "workers", "namespace": "team-a"},
            "spec": {"clusterName": "demo", "provider": {"kubevirt": kubevirt}},
        }))
        .unwrap()
    };
    let settings = Settings {
        allowed_machine_images: prefixes(&["images.example/team"]),
        ..Settings::default()
    };
    let none: [TenantCluster; 0] = [];
    let said = |old: Option<&api::NodePool>, new: &api::NodePool| -> Vec<String> {
        let problems = admit_pool(old, new, &none, &settings);
        problems.iter().map(ToString::to_string).collect()
    };
    let bad = pool(&json!({
        "image": "evil.example/disk:v1",
        "kernelBoot": {"image": "images.example/teams/kernel:6"},
    }));
    let way = "is not allowed here: choose of ghcr.io/covey-dev/worker, images.example/team, or \
               have whoever runs the management cluster allow it (config.allowedMachineImages of \
               the chart)";
    let field = "spec.provider.kubevirt";
    assert_eq!(
        said(None, &bad),
        [
            format!("{field}.image: \"evil.example/disk:v1\" {way}"),
            format!("{field}.kernelBoot.image: \"images.example/teams/kernel:6\" {way}"),
        ]
    );
    let fine = json!({
        "image": "ghcr.io/covey-dev/worker:v1.34.4",
        "kernelBoot": {"image": "images.example/team/kernel"},
    });
    assert_eq!(said(None, &pool(&fine)), [""; 0]);
    // Docker's own names and a port are no way around.
    for other in ["worker", "ghcr.io:5000/covey-dev/worker:v1", "team/ghcr.io"] {
        assert_eq!(
            said(None, &pool(&json!({"image": other}))).len(),
            1,
            "{other}"
        );
    }
    let mut larger = bad.clone();
    larger.spec.replicas = 3;
    assert_eq!(said(Some(&bad), &larger), [""; 0]);
}

#[test]
fn only_flags_that_tune_may_be_set() {
    let refused = |version: &str, program: &str, flag: &str, value: &str| {
        let patch = json!({"spec": {"version": version, "controlPlane": {
            program: {"extraArgs": {flag: value}},
        }}});
        said(None, &tc(&patch), &Settings::default())
    };
    let field = "spec.controlPlane.apiServer.extraArgs";
    for flag in [
        "service-node-port-range",
        "enable-logs-handler",
        "allow-metric-labels-manifest",
        "vmodule",
        "flag-of-a-newer-minor",
    ] {
        assert_eq!(
            refused("1.35.4", "apiServer", flag, "1"),
            [format!(
                "{field}[{flag}]: --{flag} is not one of the flags that may be set: remove it \
                 (docs/flags.md lists those that may)"
            )]
        );
    }
    for (flag, instead) in [
        ("feature-gates", "featureGates"),
        ("runtime-config", "runtimeConfig"),
    ] {
        assert_eq!(
            refused("1.35.4", "apiServer", flag, "A=true"),
            [format!(
                "{field}[{flag}]: --{flag} is not set this way: use spec.controlPlane.{instead} instead"
            )]
        );
    }
    for value in ["5", "10", "-1", "", "04x", "256"] {
        assert_eq!(
            refused("1.35.4", "apiServer", "v", value),
            [format!(
                "{field}[v]: \"{value}\" is not allowed: choose 0 to 4, because with more the log \
                 holds Secrets"
            )]
        );
    }
    for (program, flag, value) in [
        ("apiServer", "event-ttl", "2h"),
        ("apiServer", "v", "4"),
        ("controllerManager", "node-monitor-grace-period", "60s"),
        ("scheduler", "kube-api-qps", "60"),
    ] {
        assert_eq!(refused("1.34.4", program, flag, value), [""; 0], "{flag}");
    }
    let flag = "concurrent-resourceclaim-syncs";
    assert_eq!(
        refused("1.35.4", "controllerManager", flag, "1"),
        [format!(
            "spec.controlPlane.controllerManager.extraArgs[{flag}]: --{flag} may be set from \
             Kubernetes 1.36 on: remove it"
        )]
    );
    assert_eq!(refused("1.36.1", "controllerManager", flag, "1"), [""; 0]);
}

#[test]
fn flag_that_was_let_in_before_stops_no_upgrade() {
    let gates = args(&json!({"feature-gates": "A=true"}));
    let old = tc(&gates);
    let mut new = old.clone();
    new.spec.version = "1.36.1".to_owned();
    assert_eq!(said(Some(&old), &new, &Settings::default()), [""; 0]);
}

#[test]
fn machines_run_where_the_platform_says_and_take_what_it_lets_them() {
    let pool = |kubevirt: Value| -> api::NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "workers", "namespace": "team-a"},
            "spec": {"clusterName": "demo", "provider": {"kubevirt": kubevirt}},
        }))
        .unwrap()
    };
    let said = |pool: &api::NodePool, settings: &Settings| {
        let none: [TenantCluster; 0] = [];
        let problems = admit_pool(None, pool, &none, settings);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let asked = pool(json!({
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpus"}],
        "dedicatedCpus": true,
        "hugePages": "2Mi",
        "gpus": [{"deviceName": "nvidia.com/T4"}],
        "hostDevices": [{"deviceName": "intel.com/qat", "count": 2}],
        "disks": [{"name": "a", "size": "6Gi"}, {"name": "b", "size": "5Gi"}],
        "networks": [{"name": "networks/storage"}],
    }));
    let field = "spec.provider.kubevirt";
    let refused = |name: &str, asked: &str, setting: &str| {
        format!(
            "{field}.{name}: \"{asked}\" is not allowed here: remove it, or have whoever runs the \
             management cluster allow it (config.providers.kubevirt.allowed.{setting} of the chart)"
        )
    };
    assert_eq!(
        said(&asked, &Settings::default()),
        [
            refused("nodeSelector[zone]", "zone", "nodeLabels"),
            refused("tolerations[0].key", "gpus", "taints"),
            refused("gpus[0].deviceName", "nvidia.com/T4", "devices"),
            refused("hostDevices[0].deviceName", "intel.com/qat", "devices"),
            refused("dedicatedCpus", "true", "dedicatedCpus"),
            refused("hugePages", "2Mi", "hugePages"),
            refused("disks", "disks", "disks"),
            refused("networks[0].name", "networks/storage", "networks"),
        ]
    );
    let allowed = json!({"providers": {"kubevirt": {
        "nodeSelector": {"pool": "machines"},
        "allowed": {
            "nodeLabels": ["zone", "pool"], "taints": ["gpus"], "dedicatedCpus": true,
            "devices": ["intel.com/qat", "nvidia.com/T4"], "hugePages": true,
            "disks": "11Gi", "networks": ["networks/storage"],
        },
    }}});
    let mut settings: Settings = serde_json::from_value(allowed).unwrap();
    assert_eq!(said(&asked, &settings), [""; 0]);
    settings.providers.kubevirt.allowed.disks = Some("10Gi".into());
    assert_eq!(
        said(&asked, &settings),
        [format!(
            "{field}.disks: they are more than 10Gi together, which is the most here: ask for less, or \
             have whoever runs the management cluster allow it \
             (config.providers.kubevirt.allowed.disks of the chart)"
        )]
    );
    assert_eq!(
        said(
            &pool(json!({"nodeSelector": {"pool": "control-planes"}})),
            &settings
        ),
        [format!(
            "{field}.nodeSelector[pool]: the platform's nodes for this have pool=machines: remove it"
        )]
    );
}
