//! What a machine is given, read back as cloud-init and kubeadm would read it.
//!
//! Invariant: the bootstrap token never shows but in the file with mode 0600.

use proptest::prelude::*;

use super::*;

const UID: &str = "5d0a1c52-7d63-4b3c-9a56-0f2f2d1c9b11";

fn ca() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["kubernetes".to_owned()]).unwrap();
    params.self_signed(&key).unwrap().pem()
}

fn machine() -> Machine {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Machine {
        name: "demo-workers-a1b2c".to_owned(),
        provider_id: Some("kubevirt://demo-workers-a1b2c".to_owned()),
        labels: [
            label("example.com/tier", "gold"),
            label("node-role.kubernetes.io/worker", ""),
            label("topology.kubernetes.io/zone", "a"),
        ]
        .into(),
        taints: vec![Taint {
            key: "dedicated".to_owned(),
            value: Some("db".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        }],
        ssh_authorized_keys: vec!["ssh-ed25519 AAAA me".to_owned()],
        kubelet: Kubelet::default(),
        feature_gates: BTreeMap::new(),
        disks: Vec::new(),
        nodes: None,
        cloud_provider_external: false,
    }
}

fn endpoint() -> EndpointStatus {
    EndpointStatus {
        host: "10.96.3.7".to_owned(),
        port: 6443,
    }
}

fn token() -> Token {
    Token::from_random(b"0123456789abcdef", UID)
}

fn read(machine: &Machine) -> (String, Value, Value) {
    let text = user_data(&endpoint(), &ca(), &token(), machine).unwrap();
    let text = text.reveal().to_owned();
    let data: Value = serde_saphyr::from_str(&text).unwrap();
    let configuration = data["write_files"][0]["content"].as_str().unwrap();
    let configuration = serde_saphyr::from_str(configuration).unwrap();
    (text, data, configuration)
}

#[test]
fn session_data_has_the_same_configuration_and_what_changes_the_kubelets() {
    let (mut machine, ca) = (machine(), ca());
    machine.provider_id = None;
    let read = |machine: &Machine| -> Value {
        let data = session_data(&endpoint(), &ca, &token(), machine).unwrap();
        serde_json::from_str(data.reveal()).unwrap()
    };
    let data = read(&machine);
    let pins = pki::public_key_pins(&ca).unwrap();
    assert_eq!(
        data["configuration"],
        configuration(&endpoint(), &pins, &token(), &machine)
    );
    assert_eq!(authority_digest("abc").len(), 64);
    assert!(authority_digest("abc").starts_with("ba7816bf8f01cfea"));
    assert_eq!(data.get("kubelet"), None);
    machine.kubelet.max_pods = Some(50);
    let data = read(&machine);
    let patch: Value = serde_json::from_str(data["kubelet"].as_str().unwrap()).unwrap();
    assert_eq!(patch["maxPods"], 50);
    assert_eq!(
        data["configuration"]["patches"]["directory"],
        host_files::PATCHES
    );
    let none = session_data(&endpoint(), "none", &token(), &machine);
    assert_eq!(none.err(), Some(Error::AuthorityUnreadable));
}

#[test]
fn user_data_is_a_cloud_config_that_joins_and_forgets() {
    let (text, data, join) = read(&machine());
    assert!(text.starts_with("#cloud-config\n"));
    assert_eq!(data["write_files"][0]["path"], CONFIGURATION);
    assert_eq!(data["write_files"][0]["permissions"], "0600");
    let last = data["write_files"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (last["path"].as_str(), last["content"].as_str()),
        (Some(SCRIPT), Some(JOIN))
    );
    assert_eq!(data["manage_etc_hosts"], "localhost");
    assert_eq!(data["runcmd"][0], json!(["sh", SCRIPT]));
    assert_eq!(data["ssh_authorized_keys"], json!(["ssh-ed25519 AAAA me"]));

    let discovery = &join["discovery"]["bootstrapToken"];
    assert_eq!(discovery["apiServerEndpoint"], "10.96.3.7:6443");
    assert_eq!(discovery["token"], token().text());
    let pins = discovery["caCertHashes"].as_array().unwrap();
    assert!(pins.len() == 1 && pins[0].as_str().unwrap().len() == 7 + 64);
    assert_eq!(discovery.get("unsafeSkipCAVerification"), None);
    let node = &join["nodeRegistration"];
    assert_eq!(node["name"], "demo-workers-a1b2c");
    assert_eq!(node["taints"][0]["key"], "dedicated");
    assert_eq!(
        node["kubeletExtraArgs"],
        json!([
            { "name": "provider-id", "value": "kubevirt://demo-workers-a1b2c" },
            { "name": "node-labels",
              "value": "example.com/tier=gold,topology.kubernetes.io/zone=a" },
        ])
    );
}

#[test]
fn kubelet_is_configured_by_a_patch_that_kubeadm_reads_and_only_where_it_is_asked_for() {
    let (_, data, join) = read(&machine());
    assert_eq!(join.get("patches"), None);
    assert_eq!(data["write_files"].as_array().unwrap().len(), 2);
    let more = Machine {
        kubelet: Kubelet {
            max_pods: Some(50),
            ..Kubelet::default()
        },
        ..machine()
    };
    let (_, data, join) = read(&more);
    assert_eq!(
        join["patches"],
        json!({ "directory": "/run/covey/patches" })
    );
    let files = data["write_files"].as_array().unwrap();
    let paths: Vec<_> = files.iter().map(|file| file["path"].as_str()).collect();
    let patch = "/run/covey/patches/kubeletconfiguration+merge.json";
    assert_eq!(paths, [Some(CONFIGURATION), Some(patch), Some(SCRIPT)]);
}

#[test]
fn cloud_provider_is_external_only_where_a_cloud_controller_will_come() {
    let with = Machine {
        cloud_provider_external: true,
        ..machine()
    };
    let external = json!({ "name": "cloud-provider", "value": "external" });
    let has = |machine: &Machine| {
        let (_, _, join) = read(machine);
        let arguments = join["nodeRegistration"]["kubeletExtraArgs"]
            .as_array()
            .unwrap()
            .clone();
        arguments.contains(&external)
    };
    assert!(has(&with) && !has(&machine()));
}

#[test]
fn token_shows_in_the_one_file_that_only_root_can_read() {
    let (text, mut data, _) = read(&machine());
    let secret = token().secret.reveal().to_owned();
    assert_eq!(text.matches(&secret).count(), 1);
    data["write_files"][0] = Value::Null;
    assert!(!data.to_string().contains(&secret));
    assert!(!format!("{:?}", token()).contains(&secret));
    assert!(
        !format!("{:?}", user_data(&endpoint(), &ca(), &token(), &machine())).contains(&secret)
    );
}

#[test]
fn authority_that_cannot_be_read_gives_no_user_data() {
    let result = user_data(&endpoint(), "nonsense", &token(), &machine());
    assert_eq!(result, Err(Error::AuthorityUnreadable));
}

#[test]
fn labels_that_a_kubelet_may_not_set_are_told_apart() {
    for mine in [
        "tier",
        "example.com/tier",
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/anything",
        "x.kubelet.kubernetes.io/y",
        "mykubernetes.io/x",
    ] {
        assert!(is_self_assignable(mine), "{mine}");
    }
    for others in [
        "node-role.kubernetes.io/worker",
        "node-restriction.kubernetes.io/x",
        "kubernetes.io/role",
        "k8s.io/x",
        "x.k8s.io/y",
    ] {
        assert!(!is_self_assignable(others), "{others}");
    }
}

proptest! {
    /// Whatever stands in labels, keys and taints is quoted, and the rest stays what it is.
    #[test]
    fn nothing_in_a_machine_breaks_out_of_its_place(
        value in "\\PC{0,30}", key in "[a-z]{1,8}", ssh in "\\PC{1,60}",
    ) {
        let machine = Machine {
            labels: [(key.clone(), value.clone())].into(),
            ssh_authorized_keys: vec![ssh.clone()],
            ..machine()
        };
        let (_, data, join) = read(&machine);
        prop_assert_eq!(&data["ssh_authorized_keys"], &json!([ssh]));
        prop_assert_eq!(data["runcmd"].as_array().unwrap().len(), 2);
        let labels = join["nodeRegistration"]["kubeletExtraArgs"][1]["value"].as_str();
        let wanted = format!("{key}={value}");
        prop_assert_eq!(labels, Some(wanted.as_str()));
    }
}

#[test]
fn kubelet_is_not_told_an_id_that_nobody_knows_yet() {
    let unknown = Machine {
        provider_id: None,
        ..machine()
    };
    let (text, _, join) = read(&unknown);
    let arguments = join["nodeRegistration"]["kubeletExtraArgs"].as_array();
    assert_eq!(arguments.map(Vec::len), Some(1));
    assert!(!text.contains("provider-id"), "{text}");
}
