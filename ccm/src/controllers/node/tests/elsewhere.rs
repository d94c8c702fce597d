//! Nodes of machines that are no virtual machines, and nodes of nobody that Covey knows.
//!
//! Invariant: what is known of such a machine is what was published of it.

use super::*;

impl Clusters {
    /// What was published is of this node.
    pub(super) fn own_remote(&self) -> Option<&Remote> {
        let id = self.node.as_ref()?.provider_id.as_ref();
        let is_own = |remote: &&Remote| id.is_none_or(|id| *id == remote.provider_id);
        self.remote.as_ref().filter(is_own)
    }
}

#[test]
fn nodes_of_others_are_left_alone() {
    for id in [Some("aws:///zone/i-1"), None] {
        let mut clusters = Clusters::new();
        clusters.vm = None;
        clusters.instance = None;
        clusters.node_mut().provider_id = id.map(ToOwned::to_owned);
        let before = clusters.node().clone();
        clusters.reconcile(ALL);
        assert_eq!(clusters.node, Some(before));
    }
}

pub(super) fn remote(state: RemoteState) -> Remote {
    Remote {
        provider_id: "static://rack-a-1/n".to_owned(),
        addresses: vec!["192.0.2.10".parse().unwrap()],
        topology: [Some("rack-a".to_owned()), None, Some("large".to_owned())],
        state,
    }
}

/// A node of a machine that is no virtual machine, as kubelets are started that are not told their providerID.
fn elsewhere() -> Clusters {
    let mut clusters = Clusters::new();
    (clusters.vm, clusters.instance) = (None, None);
    clusters.remote = Some(remote(RemoteState::Present));
    clusters.reconcile(ALL);
    clusters
}

#[test]
fn node_of_a_machine_elsewhere_is_initialised_by_what_the_operator_published() {
    let clusters = elsewhere();
    let node = clusters.node();
    assert_eq!(node.taints, []);
    assert_eq!(node.provider_id.as_deref(), Some("static://rack-a-1/n"));
    assert_eq!(texts(node), ["InternalIP 192.0.2.10", "Hostname n"]);
    assert_eq!(
        node.labels.get(names::TOPOLOGY[0][0]).map(String::as_str),
        Some("rack-a")
    );
    assert_eq!(
        node.labels.get(names::TOPOLOGY[2][0]).map(String::as_str),
        Some("large")
    );
    assert_eq!(clusters.clone().reconcile(ALL), 0);
}

#[test]
fn node_of_a_machine_elsewhere_goes_once_its_absence_was_published_and_its_kubelet_is_silent() {
    let mut clusters = elsewhere();
    clusters.node_mut().ready = true;
    // The object was lost, or the operator is away: that says nothing.
    clusters.remote = None;
    assert_eq!(clusters.reconcile(ALL), 0);
    clusters.remote = Some(remote(RemoteState::Gone));
    assert_eq!(clusters.reconcile(ALL), 0, "it reports");
    clusters.heartbeat = Heartbeat::Silent;
    clusters.reconcile(ALL);
    assert_eq!(clusters.node, None);
    assert!(clusters.published.contains(&"DeletingNode"));
}

#[test]
fn machine_elsewhere_that_is_stopped_is_tainted_and_never_declared_out_of_service() {
    for state in [RemoteState::Stopped, RemoteState::Gone] {
        let mut clusters = elsewhere();
        clusters.node_mut().volumes_attached = true;
        clusters.remote = Some(remote(state));
        clusters.reconcile(ALL);
        let node = clusters.node();
        assert!(node.is_tainted(TAINT_SHUTDOWN), "{state:?}");
        assert!(!node.is_tainted(TAINT_OUT_OF_SERVICE), "{state:?}");
    }
}

#[test]
fn node_that_has_the_name_of_a_machine_elsewhere_and_another_id_is_left_alone() {
    let mut clusters = elsewhere();
    clusters.node_mut().provider_id = Some("static://rack-a-2/n".to_owned());
    clusters.remote = Some(remote(RemoteState::Gone));
    assert_eq!(clusters.reconcile(ALL), 0);
}
