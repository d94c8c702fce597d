//! What a machine boots with of what pool and tenant cluster say.

use base64::Engine as _;
use serde_json::{Value, json};

use super::world::{World, read};
use crate::controllers::machine::plan::Action;

/// Paths of the files that a machine of this pool and tenant cluster is given.
fn files(kubelet: Value, nodes: Value) -> Vec<String> {
    with_disks(kubelet, nodes, json!([]))
}

fn with_disks(kubelet: Value, nodes: Value, disks: Value) -> Vec<String> {
    let mut world = World::new();
    world.machine.spec.kubelet = read(kubelet);
    world.machine.spec.provider = read(json!({ "kubevirt": { "disks": disks } }));
    world.cluster.as_mut().unwrap().spec.nodes = read(nodes);
    let data = data(world);
    let paths = data.lines().filter_map(|line| line.split_once("path: "));
    let paths = paths.map(|(_, path)| path.trim_matches(['"', '\'']).to_owned());
    paths.filter(|path| path.starts_with('/')).collect()
}

/// The user data of the world's machine.
fn data(mut world: World) -> String {
    world.settle();
    world.user_data = None;
    let plan = world.plan();
    let found = plan.actions.iter().find_map(|action| match action {
        Action::CreateUserData(secret) => secret.value["data"]["userdata"].as_str(),
        _ => None,
    });
    let data = base64::engine::general_purpose::STANDARD.decode(found.unwrap());
    String::from_utf8(data.unwrap()).unwrap()
}

#[test]
fn machine_boots_with_what_its_pool_and_its_tenant_cluster_say() {
    let join = ["/run/covey/join.yaml", "/run/covey/join.sh"];
    assert_eq!(files(json!({}), json!({})), join);
    let nodes = json!({"registryMirrors": [
        {"registry": "docker.io", "endpoints": ["https://mirror.example.com"]},
    ]});
    assert_eq!(
        files(json!({"maxPods": 50}), nodes),
        [
            join[0],
            "/run/covey/patches/kubeletconfiguration+merge.json",
            "/etc/containerd/certs.d/docker.io/hosts.toml",
            "/run/covey/prepare.sh",
            join[1],
        ]
    );
    let disks = json!([{"name": "data", "size": "1Gi", "mountPath": "/var/lib/data"}]);
    assert_eq!(
        with_disks(json!({}), json!({}), disks),
        [
            join[0],
            "/run/covey/disks",
            "/run/covey/prepare.sh",
            join[1]
        ]
    );
}

#[test]
fn machine_that_is_told_in_a_session_gets_kubeadms_configuration_alone() {
    let mut world = World::new();
    world.machine.spec.provider = read(json!({ "static": {} }));
    world.capabilities = provider_static::provider::CAPABILITIES;
    world.provider_id = None;
    let spec = &mut world.cluster.as_mut().unwrap().spec;
    spec.addons.cloud_controller.enabled = true;
    world.settle();
    world.user_data = None;
    let plan = world.plan();
    let secret = plan.actions.iter().find_map(|action| match action {
        Action::CreateUserData(secret) => Some(&secret.value["data"]),
        _ => None,
    });
    let text = |key: &str| {
        let value = secret.unwrap()[key].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(value);
        String::from_utf8(bytes.unwrap()).unwrap()
    };
    let told: Value = serde_json::from_str(&text("userdata")).unwrap();
    let configuration = &told["configuration"];
    assert_eq!(configuration["kind"], "JoinConfiguration");
    let node = &configuration["nodeRegistration"];
    // No providerID, which is not known yet.
    assert_eq!(
        node["kubeletExtraArgs"],
        json!([
            { "name": "node-labels", "value": "tier=gold" },
            { "name": "cloud-provider", "value": "external" },
        ])
    );
    assert_eq!(text("authority").len(), 64);
}

/// A node may be older than its control plane, and a kubelet does not start with a gate that it lacks.
#[test]
fn machine_is_told_of_the_feature_gates_that_its_version_has() {
    let patch = |version: &str| {
        let mut world = World::new();
        world.machine.spec.version = version.to_owned();
        let spec = &mut world.cluster.as_mut().unwrap().spec;
        spec.version = "1.35.4".to_owned();
        spec.control_plane.feature_gates =
            read(json!({"EnvFiles": false, "GenericWorkload": true}));
        data(world)
    };
    let (old, new) = (patch("1.34.4"), patch("1.35.4"));
    let path = "patches/kubeletconfiguration+merge.json";
    for data in [&old, &new] {
        assert!(data.contains(path) && data.contains("EnvFiles"), "{data}");
    }
    assert!(!old.contains("GenericWorkload"), "{old}");
    assert!(new.contains("GenericWorkload"), "{new}");
}
