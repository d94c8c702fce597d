//! The lives of a node that matter most; what holds for any is in [`laws`].
//!
//! Invariant: [`Clusters`] assert that no Node is deleted and none is declared out of service
//! without proof; the tests only live in it.

mod elsewhere;
mod laws;

use k8s_openapi::api::core::v1::{NodeAddress, Taint};
use serde_json::{Value, json};

use super::plan::{Action, Heartbeat, Known, Observed, Plan, plan};
use api::machine_addresses::RemoteState;

use crate::cache::objects::{Instance, Node, Phase, Remote, Vm};
use crate::names::{self, OUT_OF_SERVICE_BY_US, TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN};

/// Both clusters, as far as one node is concerned.
#[derive(Clone, Debug, PartialEq)]
struct Clusters {
    node: Option<Node>,
    /// What was published of its machine, where that is no virtual machine.
    remote: Option<Remote>,
    vm: Option<Vm>,
    instance: Option<Instance>,
    /// What the watches know may be behind: these are missing there though they exist.
    blind: bool,
    /// The management API answers.
    answers: bool,
    /// What the kubelet's Lease tells.
    heartbeat: Heartbeat,
    /// Volumes have been waited for.
    waited: bool,
    published: Vec<&'static str>,
}

impl Clusters {
    fn new() -> Self {
        Self {
            node: Some(Node {
                name: "n".to_owned(),
                uid: "u".to_owned(),
                resource_version: "1".to_owned(),
                taints: vec![taint(names::TAINT_UNINITIALIZED, None)],
                addresses: vec![address("Hostname", "n")],
                ..Node::default()
            }),
            remote: None,
            vm: Some(Vm {
                name: "n".to_owned(),
                uid: "v".to_owned(),
                created: true,
                topology: [
                    Some("zone-a".to_owned()),
                    Some("here".to_owned()),
                    Some("small".to_owned()),
                ],
            }),
            instance: Some(instance()),
            blind: false,
            answers: true,
            heartbeat: Heartbeat::Recent,
            waited: false,
            published: Vec::new(),
        }
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("there is a Node")
    }

    fn node_mut(&mut self) -> &mut Node {
        self.node.as_mut().expect("there is a Node")
    }

    fn observe(&self) -> Option<Observed> {
        fn watched<T: Clone>(object: Option<&T>, blind: bool) -> Known<T> {
            Known::watched(object.filter(|_| !blind))
        }
        let remote = self.own_remote();
        let (vm, instance) = match remote {
            Some(remote) => remote.observed("n"),
            None => (
                watched(self.vm.as_ref(), self.blind),
                watched(self.instance.as_ref(), self.blind),
            ),
        };
        Some(Observed {
            node: self.node.clone()?,
            remote: remote.map(|remote| remote.provider_id.clone()),
            vm,
            instance,
            heartbeat: Heartbeat::Unknown,
            waited: self.waited,
            zones: true,
        })
    }

    /// One reconcile; `budget` writes are carried out, then the process dies. Gives the writes.
    fn reconcile(&mut self, budget: usize) -> usize {
        let mut writes = 0;
        let Some(mut observed) = self.observe() else {
            return writes;
        };
        for _ in 0..8 {
            let Plan { action, events, .. } = plan(&observed);
            let Some(action) = action else {
                self.published.extend(events.iter().map(|e| e.reason));
                return writes;
            };
            if action == Action::MakeSure {
                assert_eq!(observed.remote, None, "nobody else knows of it");
                if !self.answers {
                    return writes;
                }
                observed.vm = certain(observed.vm, self.vm.as_ref());
                observed.instance = certain(observed.instance, self.instance.as_ref());
                continue;
            }
            if action == Action::CheckHeartbeat {
                observed.heartbeat = self.heartbeat;
                continue;
            }
            if writes == budget {
                return writes;
            }
            writes += 1;
            self.write(&action);
            self.published.extend(events.iter().map(|e| e.reason));
            match &self.node {
                Some(node) => observed.node = node.clone(),
                None => return writes,
            }
        }
        panic!("the plan does not come to an end: {self:?}");
    }

    fn write(&mut self, action: &Action) {
        let remote = self.own_remote().map(|remote| remote.state);
        let is_gone = match remote {
            Some(state) => state == RemoteState::Gone,
            None => self.answers && self.instance.is_none(),
        };
        let proven = is_gone && !self.node().ready;
        match action {
            Action::MakeSure | Action::CheckHeartbeat => unreachable!("it is no write"),
            Action::NotReady { resource_version } => {
                assert_eq!(*resource_version, self.node().resource_version);
                let off = remote.is_some() || self.vm.as_ref().is_none_or(|vm| !vm.created);
                assert!(
                    is_gone && off && self.heartbeat == Heartbeat::Silent,
                    "not ready without proof: {self:?}"
                );
                let node =
                    self.patched(&json!({"metadata": {"resourceVersion": resource_version}}));
                node.ready = false;
            }
            Action::Delete { uid } => {
                assert_eq!(*uid, self.node().uid);
                assert!(
                    proven && (remote.is_some() || self.vm.is_none()),
                    "deleted without proof: {self:?}"
                );
                assert!(
                    self.waited || !self.node().volumes_attached,
                    "deleted with volumes: {self:?}"
                );
                self.node = None;
            }
            Action::PatchStatus(patch) => {
                let addresses = patch["status"]["addresses"].clone();
                let node = self.patched(patch);
                node.addresses = serde_json::from_value(addresses).unwrap();
                assert!(!node.addresses.is_empty());
            }
            Action::Patch(patch) => {
                let dead = |node: &Node| node.taints.iter().any(ours);
                let was = dead(self.node());
                let off = self.vm.as_ref().is_none_or(|vm| !vm.created);
                let node = self.patched(patch);
                for (key, value) in patch["metadata"]["labels"]
                    .as_object()
                    .into_iter()
                    .flatten()
                {
                    let value = value.as_str().unwrap().to_owned();
                    node.labels.insert(key.clone(), value);
                }
                if let Some(id) = patch["spec"]["providerID"].as_str() {
                    assert_eq!(node.provider_id, None, "a providerID never changes");
                    node.provider_id = Some(id.to_owned());
                }
                if let Some(taints) = patch["spec"].get("taints") {
                    node.taints = serde_json::from_value(taints.clone()).unwrap();
                }
                let now = dead(node);
                assert!(
                    was || !now || (remote.is_none() && proven && off),
                    "out of service without proof: {self:?}"
                );
            }
        }
    }

    fn patched(&mut self, patch: &Value) -> &mut Node {
        let node = self.node_mut();
        assert_eq!(patch["metadata"]["resourceVersion"], node.resource_version);
        let version: u64 = node.resource_version.parse().unwrap();
        node.resource_version = (version + 1).to_string();
        node
    }
}

fn certain<T: Clone>(seen: Known<T>, real: Option<&T>) -> Known<T> {
    match (seen, real) {
        (Known::Present(object), _) => Known::Present(object),
        (_, Some(object)) => Known::Present(object.clone()),
        (_, None) => Known::Absent,
    }
}

fn ours(taint: &Taint) -> bool {
    taint.key == TAINT_OUT_OF_SERVICE && taint.value.as_deref() == Some(OUT_OF_SERVICE_BY_US)
}

fn instance() -> Instance {
    Instance {
        name: "n".to_owned(),
        uid: "i".to_owned(),
        phase: Phase::Running,
        addresses: vec!["10.0.0.5".parse().unwrap(), "2001:db8::5".parse().unwrap()],
        ..Instance::default()
    }
}

fn taint(key: &str, value: Option<&str>) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.map(ToOwned::to_owned),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    }
}

fn address(type_: &str, address: &str) -> NodeAddress {
    NodeAddress {
        type_: type_.to_owned(),
        address: address.to_owned(),
    }
}

fn texts(node: &Node) -> Vec<String> {
    let text = |a: &NodeAddress| format!("{} {}", a.type_, a.address);
    node.addresses.iter().map(text).collect()
}

const ALL: usize = usize::MAX;

#[test]
fn new_node_gets_everything_and_then_loses_its_taint() {
    let mut clusters = Clusters::new();
    assert_eq!(clusters.reconcile(1), 1);
    assert!(
        clusters.node().is_tainted(names::TAINT_UNINITIALIZED),
        "addresses come first"
    );
    assert_eq!(
        texts(clusters.node()),
        [
            "InternalIP 10.0.0.5",
            "InternalIP 2001:db8::5",
            "Hostname n"
        ]
    );
    assert_eq!(clusters.reconcile(ALL), 1);
    let node = clusters.node();
    assert_eq!(node.taints, []);
    assert_eq!(node.provider_id.as_deref(), Some("kubevirt://n"));
    for (keys, value) in names::TOPOLOGY.iter().zip(["zone-a", "here", "small"]) {
        for key in *keys {
            assert_eq!(
                node.labels.get(*key).map(String::as_str),
                Some(value),
                "{key}"
            );
        }
    }
    assert_eq!(clusters.published, ["Synced"]);
    assert_eq!(clusters.reconcile(ALL), 0);
}

#[test]
fn node_waits_for_its_machine_to_have_an_address() {
    let mut clusters = Clusters::new();
    clusters.instance.as_mut().unwrap().addresses.clear();
    assert_eq!(
        clusters.reconcile(ALL),
        1,
        "the machine is known, so labels may come"
    );
    assert!(clusters.node().is_tainted(names::TAINT_UNINITIALIZED));
    clusters.instance = Some(instance());
    clusters.reconcile(ALL);
    assert!(!clusters.node().is_tainted(names::TAINT_UNINITIALIZED));
}

#[test]
fn address_that_the_kubelet_was_told_is_the_only_one_of_its_type() {
    let mut clusters = Clusters::new();
    clusters.node_mut().provided_ip = Some("2001:db8::5".to_owned());
    clusters.reconcile(ALL);
    assert_eq!(
        texts(clusters.node()),
        ["InternalIP 2001:db8::5", "Hostname n"]
    );
    let mut both = Clusters::new();
    both.node_mut().provided_ip = Some("2001:db8::5,10.0.0.5".to_owned());
    both.reconcile(ALL);
    assert_eq!(
        texts(both.node()),
        [
            "InternalIP 2001:db8::5",
            "InternalIP 10.0.0.5",
            "Hostname n"
        ]
    );
}

#[test]
fn address_that_the_machine_does_not_have_keeps_the_node_uninitialised_and_says_so() {
    let mut clusters = Clusters::new();
    clusters.node_mut().provided_ip = Some("192.0.2.1".to_owned());
    clusters.reconcile(ALL);
    assert!(clusters.node().is_tainted(names::TAINT_UNINITIALIZED));
    assert!(clusters.published.contains(&"ProvidedNodeIP"));
}

/// Initialised, and then not ready.
fn settled() -> Clusters {
    let mut clusters = Clusters::new();
    clusters.reconcile(ALL);
    clusters.published.clear();
    clusters
}

fn stopped() -> Clusters {
    let mut clusters = settled();
    clusters.instance = None;
    clusters.vm.as_mut().unwrap().created = false;
    clusters
}

#[test]
fn stopped_machine_is_tainted_and_comes_back_as_the_same_node() {
    let mut clusters = stopped();
    clusters.reconcile(ALL);
    assert!(clusters.node().is_tainted(TAINT_SHUTDOWN));
    assert!(clusters.node().taints.iter().any(ours));
    assert_eq!(clusters.published, ["OutOfService"]);
    clusters.instance = Some(instance());
    clusters.vm.as_mut().unwrap().created = true;
    clusters.reconcile(ALL);
    assert!(
        !clusters.node().taints.iter().any(ours),
        "it starts: its volumes must stay"
    );
    assert!(
        clusters.node().is_tainted(TAINT_SHUTDOWN),
        "until the kubelet reports"
    );
    clusters.node_mut().ready = true;
    clusters.reconcile(ALL);
    assert_eq!(clusters.node().taints, []);
    assert_eq!(clusters.node().uid, "u");
}

#[test]
fn each_missing_part_of_the_proof_keeps_a_node_in_service() {
    type Spoil = fn(&mut Clusters);
    let spoil: [(&str, Spoil); 4] = [
        ("virt-controller sees an instance", |w| {
            w.vm.as_mut().unwrap().created = true;
        }),
        ("the kubelet reports", |w| w.node_mut().ready = true),
        ("the API is silent", |w| w.answers = false),
        ("there is an instance after all", |w| {
            w.instance = Some(instance());
            w.blind = true;
        }),
    ];
    for (why, spoil) in spoil {
        let mut clusters = stopped();
        spoil(&mut clusters);
        clusters.reconcile(ALL);
        assert!(!clusters.node().taints.iter().any(ours), "{why}");
    }
}

#[test]
fn taint_of_an_administrator_is_neither_doubled_nor_taken_off() {
    let mut clusters = stopped();
    clusters.node_mut().taints = vec![taint(TAINT_OUT_OF_SERVICE, Some("nodeshutdown"))];
    clusters.reconcile(ALL);
    let there = |w: &Clusters| {
        let all = w.node().taints.iter();
        all.filter(|t| t.key == TAINT_OUT_OF_SERVICE).count()
    };
    assert_eq!(there(&clusters), 1);
    clusters.instance = Some(instance());
    clusters.node_mut().ready = true;
    clusters.reconcile(ALL);
    assert_eq!(there(&clusters), 1);
}

#[test]
fn node_goes_with_its_machine_and_never_on_an_error() {
    let gone = || {
        let mut clusters = settled();
        (clusters.vm, clusters.instance) = (None, None);
        clusters
    };
    let mut silent = gone();
    silent.answers = false;
    silent.reconcile(ALL);
    assert!(
        silent.node.is_some(),
        "an API that is silent proves nothing"
    );
    let mut reports = gone();
    reports.node_mut().ready = true;
    reports.reconcile(ALL);
    assert!(
        reports.node.is_some(),
        "a kubelet that reports is a reason to doubt"
    );
    let mut blind = settled();
    blind.blind = true;
    blind.reconcile(ALL);
    assert!(blind.node.is_some(), "a watch alone proves nothing");
    let mut half = gone();
    half.instance = Some(instance());
    half.reconcile(ALL);
    assert!(half.node.is_some(), "its instance goes on running");
    let mut clusters = gone();
    clusters.reconcile(ALL);
    assert_eq!(
        (clusters.node, clusters.published),
        (None, vec!["DeletingNode"])
    );
}

#[test]
fn a_silent_kubelet_is_not_waited_for_and_one_that_is_heard_is() {
    for gone in [false, true] {
        let mut clusters = stopped();
        clusters.node_mut().ready = true;
        if gone {
            clusters.vm = None;
        }
        clusters.reconcile(ALL);
        assert!(clusters.node().ready, "it was heard");
        assert!(!clusters.node().taints.iter().any(ours));
        clusters.heartbeat = Heartbeat::Silent;
        clusters.reconcile(ALL);
        match gone {
            true => assert_eq!(clusters.node, None),
            false => {
                assert!(!clusters.node().ready);
                assert!(clusters.node().taints.iter().any(ours));
            }
        }
    }
}

#[test]
fn node_of_a_machine_that_is_gone_stays_out_of_service_until_its_volumes_are_detached() {
    let gone = || {
        let mut clusters = settled();
        (clusters.vm, clusters.instance) = (None, None);
        clusters.node_mut().volumes_attached = true;
        clusters.reconcile(ALL);
        assert!(
            clusters.node().taints.iter().any(ours),
            "its volumes may move"
        );
        assert_eq!(clusters.published, ["OutOfService"]);
        assert_eq!(clusters.reconcile(ALL), 0);
        clusters
    };
    let mut detached = gone();
    detached.node_mut().volumes_attached = false;
    detached.reconcile(ALL);
    assert_eq!(detached.node, None);
    let mut stuck = gone();
    stuck.waited = true;
    stuck.reconcile(ALL);
    assert_eq!(stuck.node, None, "nobody waits for ever");
}
