//! A table of mistakes and the sentence for each, and what is let through. Long because it is one table,
//! which is read against the documentation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn pool(change: &Value) -> NodePool {
    let mut pool = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": {"name": "workers", "namespace": "team-a"},
        "spec": {"clusterName": "demo", "provider": {"kubevirt": {}}},
    });
    merge(&mut pool, change);
    serde_json::from_value(pool).unwrap()
}

fn spec(change: &Value) -> NodePool {
    pool(&json!({"spec": change}))
}

fn autoscaling(change: &Value) -> NodePool {
    spec(&json!({"autoscaling": change}))
}

fn kubevirt(change: &Value) -> NodePool {
    spec(&json!({"provider": {"kubevirt": change}}))
}

fn merge(target: &mut Value, change: &Value) {
    match change {
        Value::Object(change) => change
            .iter()
            .for_each(|(key, value)| merge(&mut target[key], value)),
        other => *target = other.clone(),
    }
}

fn cluster(name: &str, version: &str) -> TenantCluster {
    let mut tc = TenantCluster::new(name, api::TenantClusterSpec::default());
    tc.metadata.namespace = Some("team-a".to_owned());
    tc.spec.version = version.to_owned();
    tc
}

fn said(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// What is wrong, and the whole of what is said.
fn mistakes() -> Vec<(NodePool, &'static str)> {
    let key = |key: &str| spec(&json!({"sshAuthorizedKeys": [key]}));
    let label = |key: &str, value: &str| spec(&json!({"labels": {key: value}}));
    let taint = |key: &str, value: &str| {
        spec(&json!({"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]}))
    };
    vec![
        (
            pool(&json!({"metadata": {"name": "Workers"}})),
            "metadata.name: \"Workers\" cannot become part of the names of nodes: use lower-case letters, digits and -, beginning with a letter",
        ),
        (
            pool(&json!({"metadata": {"name": "n".repeat(47)}})),
            "metadata.name: 47 characters are too many: at most 46, because nodes are called <name>-<5 characters> and certificates hold their names",
        ),
        (
            spec(&json!({"clusterName": "Demo Cluster"})),
            "spec.clusterName: \"Demo Cluster\" is not the name of a TenantCluster: `kubectl get tc` lists those of this namespace",
        ),
        (
            spec(&json!({"replicas": -1})),
            "spec.replicas: -1 machines cannot be had: choose 0 or more",
        ),
        (
            kubevirt(&json!({"disks": [{"name": "Data", "size": "1Gi"}]})),
            "spec.provider.kubevirt.disks[0].name: \"Data\" cannot be the name of a disk: use up to 20 lower-case letters, digits and -",
        ),
        (
            kubevirt(
                &json!({"disks": [{"name": "a", "size": "1Gi"}, {"name": "a", "size": "1Gi"}]}),
            ),
            "spec.provider.kubevirt.disks[1].name: a is named twice: choose another name",
        ),
        (
            kubevirt(&json!({"disks": [{"name": "a", "size": "20M"}]})),
            "spec.provider.kubevirt.disks[0].size: 20M is less than 1Gi: write gibibytes as Gi, as in 20Gi",
        ),
        (
            kubevirt(&json!({"disks": [{"name": "a", "size": "1Gi", "mountPath": "/usr"}]})),
            "spec.provider.kubevirt.disks[0].mountPath: \"/usr\" is no place for a disk: choose a path below /var, /mnt, /srv or /opt, of letters, digits, ., _ and -",
        ),
        (
            kubevirt(
                &json!({"disks": [{"name": "a", "size": "1Gi", "mountPath": "/var/lib/cloud/x"}]}),
            ),
            "spec.provider.kubevirt.disks[0].mountPath: \"/var/lib/cloud/x\" has what the machine starts with: choose a path beside it",
        ),
        (
            kubevirt(
                &json!({"disks": [{"name": "a", "size": "1Gi", "mountPath": "/mnt/a"}, {"name": "b", "size": "1Gi", "mountPath": "/mnt/a/b"}]}),
            ),
            "spec.provider.kubevirt.disks[1].mountPath: /mnt/a/b and another disk's path lie in each other: choose another",
        ),
        (
            kubevirt(&json!({"networks": [{"name": "storage"}]})),
            "spec.provider.kubevirt.networks[0].name: \"storage\" is not a network: write namespace and name of a NetworkAttachmentDefinition, such as networks/storage",
        ),
        (
            spec(&json!({"version": "latest"})),
            "spec.version: \"latest\" is not a version: write major.minor.patch in full, such as 1.35.4",
        ),
        (
            spec(&json!({"version": "1.30.1"})),
            "spec.version: Kubernetes 1.30.1 is not supported: choose a patch release of 1.34, 1.35 or 1.36",
        ),
        (
            spec(&json!({"provider": {"kubevirt": null}})),
            "spec.provider: name exactly one provider, such as kubevirt: {}",
        ),
        (
            kubevirt(&json!({"cpu": 0})),
            "spec.provider.kubevirt.cpu: 0 processors cannot be had: choose 1 to 128",
        ),
        (
            kubevirt(&json!({"cpu": 500})),
            "spec.provider.kubevirt.cpu: 500 processors cannot be had: choose 1 to 128",
        ),
        (
            kubevirt(&json!({"memory": "lots"})),
            "spec.provider.kubevirt.memory: \"lots\" is not a quantity: write a number with an optional suffix, such as 500m, 2 or 1Gi",
        ),
        (
            kubevirt(&json!({"memory": "512m"})),
            "spec.provider.kubevirt.memory: 512m is less than 1Gi, with which no node becomes ready: write gibibytes as Gi, as in 4Gi (a number alone counts bytes)",
        ),
        (
            spec(&json!({"kubelet": {"maxPods": 0}})),
            "spec.kubelet.maxPods: 0 pods cannot be had on a node: choose 1 to 1000",
        ),
        (
            spec(&json!({"kubelet": {"systemReserved": {"pid": "100"}}})),
            "spec.kubelet.systemReserved[pid]: pid cannot be reserved: choose of cpu, ephemeral-storage, memory",
        ),
        (
            spec(&json!({"kubelet": {"kubeReserved": {"cpu": "few"}}})),
            "spec.kubelet.kubeReserved[cpu]: \"few\" is not a quantity: write a number with an optional suffix, such as 500m, 2 or 1Gi",
        ),
        (
            spec(
                &json!({"kubelet": {"kubeReserved": {"memory": "3Gi"}, "systemReserved": {"memory": "1Gi"}}}),
            ),
            "spec.kubelet: systemReserved and kubeReserved leave pods no memory of the machine's 4Gi: reserve less",
        ),
        (
            spec(&json!({"kubelet": {"evictionHard": {"memory": "1Gi"}}})),
            "spec.kubelet.evictionHard[memory]: memory is no signal of a kubelet: choose of imagefs.available, imagefs.inodesFree, memory.available, nodefs.available, nodefs.inodesFree, pid.available",
        ),
        (
            spec(&json!({"kubelet": {"evictionHard": {"nodefs.available": "100%"}}})),
            "spec.kubelet.evictionHard[nodefs.available]: \"100%\" is neither an amount nor a share: write it as 500Mi, or as 10% (more than 0% and less than 100%)",
        ),
        (
            kubevirt(&json!({"nodeSelector": {"zone": "-"}})),
            "spec.provider.kubevirt.nodeSelector[zone]: \"-\" cannot be a value: use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends",
        ),
        (
            kubevirt(&json!({"tolerations": [{"key": "/"}]})),
            "spec.provider.kubevirt.tolerations[0]: \"/\" cannot be a key: use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends, and before it, where wanted, a DNS name and /",
        ),
        (
            kubevirt(&json!({"gpus": [{"deviceName": "tesla"}]})),
            "spec.provider.kubevirt.gpus[0]: \"tesla\" is not the name of a device: write it as nodes do, such as nvidia.com/GP102GL_Tesla_P40",
        ),
        (
            kubevirt(&json!({"hostDevices": [{"deviceName": "a.example/x", "count": 0}]})),
            "spec.provider.kubevirt.hostDevices[0]: 0 devices cannot be had: choose 1 to 16",
        ),
        (
            kubevirt(
                &json!({"hostDevices": [{"deviceName": "a.example/x"}, {"deviceName": "a.example/x"}]}),
            ),
            "spec.provider.kubevirt.hostDevices[1]: a.example/x is named twice: use count",
        ),
        (
            kubevirt(&json!({"hugePages": "1Gi", "memory": "2500Mi"})),
            "spec.provider.kubevirt.hugePages: 2500Mi is no whole number of pages of 1Gi: choose another memory",
        ),
        (
            kubevirt(&json!({"memory": 4})),
            "spec.provider.kubevirt.memory: 4 is less than 1Gi, with which no node becomes ready: write gibibytes as Gi, as in 4Gi (a number alone counts bytes)",
        ),
        (
            kubevirt(&json!({"memory": "4Pi"})),
            "spec.provider.kubevirt.memory: 4Pi is more than 16Ti: check the suffix; 4Gi are four gibibytes",
        ),
        (
            kubevirt(&json!({"image": "https://example.com/worker:v1"})),
            "spec.provider.kubevirt.image: \"https://example.com/worker:v1\" is not an image: leave out the scheme, as in registry.example.com/worker:v1.35.4",
        ),
        (
            kubevirt(&json!({"kernelBoot": {"image": "a b"}})),
            "spec.provider.kubevirt.kernelBoot.image: \"a b\" is not an image: leave out the spaces",
        ),
        (
            kubevirt(&json!({"kernelBoot": {"image": "a:b", "kernelPath": "vmlinuz"}})),
            "spec.provider.kubevirt.kernelBoot.kernelPath: \"vmlinuz\" is not a path in the image: begin with /, as in /boot/vmlinuz",
        ),
        (
            kubevirt(
                &json!({"kernelBoot": {"image": "a:b", "kernelArgs": "quiet\nroot=/dev/vdb"}}),
            ),
            "spec.provider.kubevirt.kernelBoot.kernelArgs: arguments are one line: put spaces between them",
        ),
        (
            kubevirt(&json!({"shutdownTimeout": "2h"})),
            "spec.provider.kubevirt.shutdownTimeout: \"2h\" is not a length of time up to one hour: write minutes and seconds, such as 30s or 2m",
        ),
        (
            label("a/b/c", "x"),
            "spec.labels[a/b/c]: \"a/b/c\" cannot be a key: use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends, and before it, where wanted, a DNS name and /",
        ),
        (
            label("disk", "very fast"),
            "spec.labels[disk]: \"very fast\" cannot be the value of a label: use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends",
        ),
        (
            label("kubernetes.io/hostname", "other"),
            "spec.labels[kubernetes.io/hostname]: kubernetes.io/hostname is Kubernetes' own: use a prefix of yours, or one of kubelet.kubernetes.io, node-restriction.kubernetes.io, node-role.kubernetes.io, node.kubernetes.io, topology.kubernetes.io",
        ),
        (
            label("covey.dev/node-pool", "other"),
            "spec.labels[covey.dev/node-pool]: covey.dev/node-pool is Covey's own: choose a prefix of yours",
        ),
        (
            taint("-gpu", "yes"),
            "spec.taints[0]: \"-gpu\" cannot be a key: use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends, and before it, where wanted, a DNS name and /",
        ),
        (
            taint("gpu", "a/b"),
            "spec.taints[0]: \"a/b\" cannot be the value of a taint: use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends",
        ),
        (
            taint("node.kubernetes.io/not-ready", ""),
            "spec.taints[0]: node.kubernetes.io/not-ready is Kubernetes' own: use a prefix of yours, or one of node-restriction.kubernetes.io, node-role.kubernetes.io",
        ),
        (
            spec(&json!({"taints": [
                {"key": "gpu", "value": "a", "effect": "NoExecute"},
                {"key": "gpu", "value": "b", "effect": "NoExecute"},
            ]})),
            "spec.taints[1]: gpu has the effect NoExecute twice: remove one of them",
        ),
        (
            key("-----BEGIN OPENSSH PRIVATE KEY----- b3Bl"),
            "spec.sshAuthorizedKeys[0]: this is a private key: give the public one (the file that ends in .pub), and make a new pair, because this one is no secret any more",
        ),
        (
            key("ssh-ed25519 AAAAC3Nz a\nssh-ed25519 AAAAC3Nz b"),
            "spec.sshAuthorizedKeys[0]: a key is one line: make each line an entry of its own",
        ),
        (
            key("jane's key"),
            "spec.sshAuthorizedKeys[0]: this is not a public SSH key: write it as in authorized_keys, such as \"ssh-ed25519 AAAA… jane@example.com\"",
        ),
        (
            spec(&json!({"rollout": {"maxSurge": 0, "maxUnavailable": "0%"}})),
            "spec.rollout: maxSurge and maxUnavailable cannot both be 0: no machine could ever be replaced; set one of them to 1 or more",
        ),
        (
            spec(&json!({"placement": {"budget": {"hourly": "12,50", "currency": "EUR"}}})),
            "spec.placement.budget.hourly: write an amount of money, such as 12.50: up to eight digits, and up to six behind the point",
        ),
        (
            spec(&json!({"placement": {"budget": {"hourly": "12.50", "currency": "euro"}}})),
            "spec.placement.budget.currency: write the three capital letters of a currency, such as EUR",
        ),
        (
            spec(&json!({"rollout": {"maxSurge": "many"}})),
            "spec.rollout.maxSurge: write a number of machines, such as 1, or a share, such as 25%",
        ),
        (
            spec(&json!({"drainTimeout": "5 minutes"})),
            "spec.drainTimeout: \"5 minutes\" is not a length of time: write hours, minutes and seconds, such as 90s, 5m or 1h30m",
        ),
        (
            spec(&json!({"health": {"joinTimeout": "1s"}})),
            "spec.health.joinTimeout: 1s is too short: no machine boots that fast; use 30s or more",
        ),
        (
            spec(&json!({"health": {"notReadyTimeout": "0s"}})),
            "spec.health.notReadyTimeout: 0s is too short: a kubelet that restarts would lose its machine; use 30s or more",
        ),
        (
            autoscaling(&json!({"min": 5, "max": 2})),
            "spec.autoscaling: no number of machines is between min 5 and max 2: choose a min of 0 or more, and a max of 1 or more that is not below it",
        ),
        (
            autoscaling(&json!({"min": -1, "max": 2})),
            "spec.autoscaling: no number of machines is between min -1 and max 2: choose a min of 0 or more, and a max of 1 or more that is not below it",
        ),
        (
            autoscaling(&json!({"max": 2, "scaleDownDelay": "0m"})),
            "spec.autoscaling.scaleDownDelay: 0m would take a node away as soon as it joined: use a time above zero, or remove it for 10m",
        ),
        (
            autoscaling(&json!({"max": 2, "scaleDownDelay": "-5m"})),
            "spec.autoscaling.scaleDownDelay: \"-5m\" is not a length of time: write hours, minutes and seconds, such as 90s, 5m or 1h30m",
        ),
    ]
}

#[test]
fn every_mistake_has_one_sentence_that_says_how_to_mend_it() {
    for (pool, message) in mistakes() {
        let problems = check_pool(&pool, &Settings::default());
        assert_eq!(said(&problems), [message]);
    }
}

#[test]
fn reasons_are_pascal_case_and_messages_neither_shout_nor_end_with_a_stop() {
    let mut reasons = BTreeSet::new();
    for (pool, _) in mistakes() {
        for problem in check_pool(&pool, &Settings::default()) {
            assert!(!problem.message.ends_with('.'), "{problem:?}");
            reasons.insert(problem.reason);
        }
    }
    assert!(reasons.len() >= 15, "{reasons:?}");
}

#[test]
fn paths_of_kernels_do_not_lead_upwards() {
    for name in ["kernelPath", "initrdPath"] {
        let of = |path: &str| {
            let kernel = json!({"image": "a:b", name: path});
            let pool = kubevirt(&json!({"kernelBoot": kernel}));
            said(&check_pool(&pool, &Settings::default()))
        };
        for path in [
            "/../etc/shadow",
            "/boot/../../vmlinuz",
            "/boot/..",
            "../vmlinuz",
        ] {
            let expected = format!(
                "spec.provider.kubevirt.kernelBoot.{name}: \"{path}\" leads upwards: name the file \
                 without .., as in /boot/vmlinuz"
            );
            assert_eq!(of(path), [expected]);
        }
        assert!(of("/boot/vmlinuz..old").is_empty());
    }
}

#[test]
fn a_key_that_was_pasted_is_never_repeated() {
    let pasted = "-----BEGIN OPENSSH PRIVATE KEY----- c2VjcmV0";
    let problems = check_pool(
        &spec(&json!({"sshAuthorizedKeys": [pasted]})),
        &Settings::default(),
    );
    assert!(!said(&problems).concat().contains("c2VjcmV0"));
}

#[test]
fn a_pool_with_everything_is_let_through() {
    let everything = spec(&json!({
        "replicas": 3,
        "autoscaling": {
            "min": 3, "max": 3, "scaleDownDelay": "2m", "utilizationThreshold": 70, "priority": 10,
        },
        "version": "v1.35.4",
        "provider": {"kubevirt": {
            "cpu": 4, "memory": "1Gi", "image": "example.com:5000/worker:v1.35.4",
            "kernelBoot": {"image": "example.com/kernel:6.1", "initrdPath": ""},
            "serialConsole": true, "shutdownTimeout": "0s",
        }},
        "labels": {
            "node-role.kubernetes.io/worker": "", "node-restriction.kubernetes.io/tier": "gold",
            "topology.kubernetes.io/zone": "a", "example.com/Disk_1": "fast", "plain": "x",
        },
        "taints": [
            {"key": "example.com/gpu", "effect": "NoSchedule"},
            {"key": "example.com/gpu", "effect": "NoExecute"},
        ],
        "sshAuthorizedKeys": [
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyKey jane@example.com",
            "from=\"10.0.0.0/8\",no-pty ssh-rsa AAAAB3NzaC1yc2E=",
        ],
        "rollout": {"maxSurge": 0, "maxUnavailable": "25%"},
        "drainTimeout": "0s",
        "health": {"joinTimeout": "30s", "notReadyTimeout": "1h", "maxReplaced": 0},
    }));
    assert_eq!(
        said(&check_pool(&everything, &Settings::default())),
        [""; 0]
    );
    let mut unnamed = pool(&json!({}));
    unnamed.metadata.name = None;
    unnamed.metadata.generate_name = Some("workers-".to_owned());
    assert_eq!(said(&check_pool(&unnamed, &Settings::default())), [""; 0]);
}

#[test]
fn a_provider_that_is_switched_off_is_refused() {
    let mut settings = Settings::default();
    settings.providers.kubevirt.enabled = false;
    let problems = check_pool(&pool(&json!({})), &settings);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].reason, "ProviderNotConfigured");
    let hosts = spec(&json!({"provider": {"kubevirt": null, "static": {"selector": {"cpu": 1}}}}));
    assert_eq!(said(&check_pool(&hosts, &settings)), [""; 0]);
    settings.providers.static_.enabled = false;
    let problems = check_pool(&hosts, &settings);
    assert_eq!(problems.len(), 1);
    assert_eq!(
        (problems[0].reason, &*problems[0].field),
        (Reason::ProviderNotConfigured, "spec.provider.static")
    );
}

#[test]
fn a_cloud_that_is_switched_off_and_names_that_are_none_there_are_refused() {
    let told = |cloud: &str, of_it: Value, enabled: bool| {
        let pool = spec(&json!({"provider": {"kubevirt": null, cloud: of_it}}));
        let mut settings = Settings::default();
        settings.providers.hetzner.enabled = enabled;
        settings.providers.gcp.enabled = enabled;
        settings.providers.azure.enabled = enabled;
        settings.providers.aws.enabled = enabled;
        let problems = check_pool(&pool, &settings);
        problems
            .iter()
            .map(|problem| (problem.reason, problem.field.clone()))
            .collect::<Vec<_>>()
    };
    let images = [
        ("hetzner", "98765432", "projects/p/global/images/i"),
        ("gcp", "projects/p/global/images/i", "../i"),
        (
            "azure",
            "/subscriptions/s/resourceGroups/g_(1)/providers/Microsoft.Compute/images/i",
            "subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/i",
        ),
        ("aws", "ami-0123456789abcdef0", "debian-13"),
    ];
    for (cloud, image, none) in images {
        let of = |image: &str| json!({"configName": "c", "types": ["a-1"], "image": image});
        let fine = told(cloud, of(image), true);
        assert!(fine.is_empty(), "{fine:?}");
        let field = |name: &str| format!("spec.provider.{cloud}{name}");
        let off = (Reason::ProviderNotConfigured, field(""));
        assert_eq!(told(cloud, of(image), false), [off]);
        let malformed = (Reason::CloudNameMalformed, field(".image"));
        assert_eq!(told(cloud, of(none), true), [malformed]);
        let sizes = json!({"configName": "c", "types": ["a b"]});
        let malformed = (Reason::CloudNameMalformed, field(".types[0]"));
        assert_eq!(told(cloud, sizes, true), [malformed]);
    }
}

#[test]
fn an_amount_of_memory_of_hosts_that_is_none_is_refused() {
    let of = |memory: &str| {
        let selector = json!({"selector": {"memory": memory}});
        let hosts = spec(&json!({"provider": {"kubevirt": null, "static": selector}}));
        let problems = check_pool(&hosts, &Settings::default());
        problems.iter().map(|p| p.reason).collect::<Vec<_>>()
    };
    assert_eq!(of("8Gi"), [""; 0]);
    assert_eq!(of("8 gigabytes"), [Reason::QuantityMalformed]);
}

#[test]
fn a_pool_may_not_be_newer_than_the_control_plane_that_is_asked_for() {
    let wanted = spec(&json!({"version": "1.36.3"}));
    let admit = |clusters: &[TenantCluster]| {
        let problems = admit_pool(None, &wanted, clusters, &Settings::default());
        problems.iter().map(|p| p.reason).collect::<Vec<_>>()
    };
    let mut elsewhere = cluster("demo", "1.34.4");
    elsewhere.metadata.namespace = Some("team-b".to_owned());
    assert_eq!(
        admit(&[cluster("demo", "1.35.4")]),
        ["VersionNewerThanControlPlane"]
    );
    assert_eq!(admit(&[cluster("demo", "1.36.3")]), [""; 0]);
    // Of a tenant cluster that is not there, or not this one, nothing is known.
    assert_eq!(admit(&[elsewhere, cluster("other", "1.34.4")]), [""; 0]);
    assert_eq!(admit(&[]), [""; 0]);
}

#[test]
fn more_nodes_than_the_pod_range_has_shares_for_are_refused() {
    let said = |old: Option<&NodePool>, new: &NodePool, clusters: &[TenantCluster]| {
        said(&admit_pool(old, new, clusters, &Settings::default()))
    };
    let demo = cluster("demo", "1.35.4");
    let sentence = |field: &str| {
        format!(
            "{field}: at most 64 nodes get pod addresses, because the pod range of TenantCluster \
             demo is a /18 and each node has a /24 of it: choose 64 or fewer, or create a tenant \
             cluster with a larger network.podCIDR"
        )
    };
    let demos = std::slice::from_ref(&demo);
    let many = spec(&json!({"replicas": 65}));
    assert_eq!(said(None, &many, demos), [sentence("spec.replicas")]);
    let growing = autoscaling(&json!({"min": 1, "max": 500}));
    assert_eq!(
        said(None, &growing, demos),
        [sentence("spec.autoscaling.max")]
    );
    assert_eq!(said(None, &spec(&json!({"replicas": 64})), demos), [""; 0]);
    assert_eq!(said(None, &many, &[]), [""; 0]);
    // One that was let in before may still change, and shrink.
    let fewer = spec(&json!({"replicas": 64}));
    let others = spec(&json!({"replicas": 66}));
    assert_eq!(said(Some(&many), &fewer, demos), [""; 0]);
    assert_eq!(said(Some(&many), &others, demos), [""; 0]);
    // Smaller shares, and a larger range.
    let mut smaller = demo.clone();
    let flags = &mut smaller.spec.control_plane.controller_manager.extra_args;
    flags.insert("node-cidr-mask-size".to_owned(), "25".to_owned());
    assert_eq!(said(None, &many, &[smaller]), [""; 0]);
    let mut larger = demo.clone();
    larger.spec.network.pod_cidr = Some("10.128.0.0/16".to_owned());
    assert_eq!(said(None, &many, &[larger]), [""; 0]);
}

#[test]
fn more_pods_than_a_node_has_addresses_for_are_refused() {
    let said = |pods: i32, tc: &TenantCluster| {
        let pool = spec(&json!({"kubelet": {"maxPods": pods}}));
        let clusters = std::slice::from_ref(tc);
        said(&admit_pool(None, &pool, clusters, &Settings::default()))
    };
    let mut demo = cluster("demo", "1.35.4");
    assert_eq!(said(253, &demo), [""; 0]);
    assert_eq!(
        said(254, &demo),
        [
            "spec.kubelet.maxPods: 254 pods are more than 253, for which a node has addresses, because \
          its share of the pod range of TenantCluster demo is a /24: choose 253 or fewer"
        ]
    );
    let flags = &mut demo.spec.control_plane.controller_manager.extra_args;
    flags.insert("node-cidr-mask-size".to_owned(), "23".to_owned());
    assert_eq!(said(254, &demo), [""; 0]);
    demo.spec.addons.cni.type_ = api::tenant_cluster::CniType::None;
    assert_eq!(
        said(900, &demo),
        [""; 0],
        "another network may have its own addresses"
    );
}

#[test]
fn a_tenant_cluster_that_is_not_there_yet_is_worth_a_warning() {
    let none: [TenantCluster; 0] = [];
    let warnings = pool_warnings(&pool(&json!({})), &none);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("no TenantCluster demo"),
        "{warnings:?}"
    );
    assert_eq!(
        pool_warnings(&pool(&json!({})), &[cluster("demo", "1.35.4")]),
        [""; 0]
    );
    let untagged = kubevirt(&json!({"image": "example.com/worker"}));
    assert_eq!(
        pool_warnings(&untagged, &[cluster("demo", "1.35.4")]).len(),
        1
    );
}

#[test]
fn what_no_node_can_offer_is_refused() {
    let said = |resource: &str, amount: Value| {
        let pool = autoscaling(&json!({ "max": 2, "capacity": { resource: amount } }));
        let problems = check_pool(&pool, &Settings::default());
        problems
            .into_iter()
            .map(|p| p.to_string())
            .collect::<Vec<_>>()
    };
    for (resource, amount, message) in [
        (
            "cpu",
            json!(4),
            "spec.autoscaling.capacity[cpu]: cpu follows from spec.provider.kubevirt.cpu: remove it here",
        ),
        (
            "gpu",
            json!(1),
            "spec.autoscaling.capacity[gpu]: \"gpu\" is no resource that a node can have more of: write \
             ephemeral-storage, or an extended resource with its domain, such as nvidia.com/gpu",
        ),
        (
            "nvidia.com/gpu",
            json!("500m"),
            "spec.autoscaling.capacity[nvidia.com/gpu]: \"500m\" is no number of devices: write a whole \
             number from 0 to 1000000",
        ),
        (
            "ephemeral-storage",
            json!("20"),
            "spec.autoscaling.capacity[ephemeral-storage]: 20 is less than 1Gi, which no node works with: \
             write its size with a suffix, such as 20Gi",
        ),
    ] {
        assert_eq!(said(resource, amount), [message]);
    }
    for resource in [
        "kubernetes.io/gpu",
        "a.kubernetes.io/gpu",
        "requests.example.com/gpu",
        "a b/c",
    ] {
        assert_eq!(said(resource, json!(1)).len(), 1, "{resource}");
    }
    for (resource, amount) in [
        ("nvidia.com/gpu", json!(0)),
        ("example.com/fpga", json!("2")),
        ("ephemeral-storage", json!("20Gi")),
    ] {
        assert_eq!(said(resource, amount), [""; 0], "{resource}");
    }
}

#[test]
fn a_size_that_the_autoscaler_moves_or_that_nobody_does_is_worth_a_warning() {
    let mut off = cluster("demo", "1.35.4");
    let mut on = off.clone();
    on.spec.addons.autoscaler.enabled = true;
    let outside = spec(&json!({"replicas": 9, "autoscaling": {"max": 5}}));
    assert_eq!(said(&check_pool(&outside, &Settings::default())), [""; 0]);
    assert_eq!(
        pool_warnings(&outside, &[on.clone()]),
        ["spec.replicas: 9 is outside of spec.autoscaling, so the autoscaler makes it 5"]
    );
    let within = autoscaling(&json!({"min": 1, "max": 5}));
    assert_eq!(pool_warnings(&within, &[on]), [""; 0]);
    let warning = "spec.autoscaling: TenantCluster demo has the addon autoscaler off, so nothing \
                   changes replicas; set its spec.addons.autoscaler.enabled to true";
    for pool in [&within, &outside] {
        assert_eq!(pool_warnings(pool, &[off.clone()]), [warning]);
    }
    off.metadata.name = Some("other".to_owned());
    assert_eq!(pool_warnings(&within, &[off]).len(), 1, "it is not there");
}

#[test]
fn what_was_wrong_before_is_not_held_against_a_change() {
    let old = spec(&json!({"version": "1.30.1"}));
    let settings = Settings::default();
    let none: [TenantCluster; 0] = [];
    let bigger = spec(&json!({"version": "1.30.1", "replicas": 2}));
    assert_eq!(
        said(&admit_pool(Some(&old), &bigger, &none, &settings)),
        [""; 0]
    );
    let worse = spec(&json!({"version": "1.30.2"}));
    assert_eq!(admit_pool(Some(&old), &worse, &none, &settings).len(), 1);
    let mut going = worse;
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        jiff::Timestamp::from_second(0).unwrap(),
    ));
    assert_eq!(
        said(&admit_pool(Some(&old), &going, &none, &settings)),
        [""; 0]
    );
    assert_eq!(
        said(&admit_pool(Some(&old), &old, &none, &settings)),
        [""; 0]
    );
}

#[test]
fn a_control_plane_does_not_leave_its_workers_behind() {
    let mut following = pool(&json!({"metadata": {"name": "following"}}));
    following.status = Some(api::NodePoolStatus {
        version: Some("1.32.4".to_owned()),
        ..Default::default()
    });
    let pools = [
        spec(&json!({"version": "1.32.0"})),
        following,
        spec(&json!({"version": "1.33.0"})),
        spec(&json!({"version": "1.20.0", "clusterName": "other"})),
        pool(&json!({})),
    ];
    let problems = left_behind(&cluster("demo", "1.36.3"), &pools);
    let reasons: Vec<_> = problems.iter().map(|p| p.reason).collect();
    assert_eq!(reasons, ["NodePoolTooOld", "NodePoolTooOld"]);
    assert_eq!(
        problems[1].message,
        "node pool workers runs 1.32.0, which 1.36.3 does not support: nodes may be at most 3 \
         minors older; upgrade the NodePool first and wait until its machines are replaced"
    );
    assert_eq!(
        said(&left_behind(&cluster("demo", "1.35.4"), &pools)),
        [""; 0]
    );
}
