//! Whose kubelets may have a client certificate that another generation signed, and which nodes were never told of one.
//!
//! Nobody sees a kubelet's certificate, and it asks for another one only when most of its life is over. So what counts is
//! when its machine was made: its first certificate is younger. One that was told in place counts as made when that was begun:
//! Covey saw the certificate that was signed for a key which asked with a token of then, and that token stood nowhere but
//! beside the bundle of then.
//! Invariant: a node of which nobody knows when its machine was made counts as one of before.

use std::collections::{BTreeMap, BTreeSet};

use api::machine::{KubeletRenewal, KubeletRenewalPhase};
use api::tenant_cluster::{NodesOfBefore, RotationPhase, RotationStatus};
use api::{Machine, TenantCluster, names};
use jiff::{SignedDuration, Timestamp};
use kit_objects::known::Known;
use kube::ResourceExt as _;

/// What `spec.rotation` and the status call the authority that signs kubelets' client certificates.
pub const NAME: &str = "clientCA";

/// What they call the authority by which nodes believe the kube-apiserver.
pub const CLUSTER: &str = "clusterCA";

/// Most names that are said.
const MOST_NAMED: usize = 3;

/// The nodes of a tenant cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Kubelets {
    /// When each of its Machines was made, or told in place, by name, which is that of its node; none where it took over a node
    /// that ran before it.
    pub machines: BTreeMap<String, Option<Timestamp>>,
    /// Names of the nodes that its API has, or why they are not known; none where it was not asked in this reconcile.
    pub nodes: Option<Result<BTreeSet<String>, String>>,
}

impl Kubelets {
    /// Those of these Machines; its API was not asked. What goes counts until it is gone.
    pub fn of<'a>(machines: impl Iterator<Item = &'a Machine>) -> Self {
        let one = |machine: &Machine| (machine.name_any(), known_since(machine));
        Self {
            machines: machines.map(one).collect(),
            nodes: None,
        }
    }

    /// The end of the time in which another generation signed, where it ends now: no Machine that is there is younger, whatever
    /// the clock of the management cluster says.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Timestamp {
        let newest = self.machines.values().flatten().max();
        // Times of objects are whole seconds.
        let after = newest.and_then(|made| made.checked_add(SignedDuration::from_secs(1)).ok());
        after.map_or(now, |after| after.max(now))
    }

    /// Nodes that may have a certificate of before, for people; absent where there are none. Machines are known anyway; nodes
    /// that are nobody's are asked for only where those are over.
    #[must_use]
    pub fn of_before(&self, until: Timestamp) -> Known<String> {
        let is_before = |made: &Option<Timestamp>| made.is_none_or(|made| made < until);
        let machines = self.machines.iter();
        let before: Vec<_> = machines
            .filter(|(_, made)| is_before(made))
            .map(|(name, _)| name.as_str())
            .collect();
        if !before.is_empty() {
            return Known::Known(listed(&before));
        }
        match &self.nodes {
            None => Known::Unknown {
                why: "which nodes there are has not been asked",
            },
            Some(Err(_)) => Known::Unknown {
                why: "which nodes there are, because the tenant's API does not say",
            },
            Some(Ok(nodes)) => {
                let is_strange = |name: &&String| !self.machines.contains_key(*name);
                let strange = nodes.iter().filter(is_strange);
                let strange: Vec<_> = strange.map(String::as_str).collect();
                Known::found((!strange.is_empty()).then(|| listed(&strange)))
            }
        }
    }

    /// Whether its API has to be asked which nodes there are.
    #[must_use]
    pub fn are_to_be_asked(&self, until: Timestamp) -> bool {
        self.nodes.is_none() && matches!(self.of_before(until), Known::Unknown { .. })
    }
}

/// Since when what a machine's kubelet has is younger; none where nobody knows.
#[must_use]
pub fn known_since(machine: &Machine) -> Option<Timestamp> {
    let created = machine.metadata.creation_timestamp.as_ref();
    let is_adopted = machine.annotations().contains_key(names::ANNOTATION_ADOPTS);
    let made = created.map(|at| at.0).filter(|_| !is_adopted);
    made.max(renewed(machine))
}

/// When its kubelet was last told in place.
#[must_use]
pub fn renewed(machine: &Machine) -> Option<Timestamp> {
    let status = machine.status.as_ref()?;
    status.renewed.as_ref().map(|renewed| renewed.0)
}

/// How far its kubelet is told in place of what is asked for since then.
#[must_use]
pub fn renewal(machine: &Machine, since: Timestamp) -> Option<&KubeletRenewal> {
    let renewal = machine.status.as_ref()?.renewal.as_ref()?;
    (renewal.since.0 == since).then_some(renewal)
}

/// Whether it cannot be told in place of what is asked for since then: its machine is replaced.
#[must_use]
pub fn is_given_up(machine: &Machine, since: Timestamp) -> bool {
    let renewal = renewal(machine, since);
    renewal.is_some_and(|renewal| renewal.phase == KubeletRenewalPhase::GivenUp)
}

fn listed(names: &[&str]) -> String {
    let some = names.iter().take(MOST_NAMED).copied();
    let some = some.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// Whether a rotation waits for nodes.
#[must_use]
pub fn is_for_nodes(told: &RotationStatus) -> bool {
    let is_of_nodes = [NAME, CLUSTER].contains(&told.name.as_str());
    let is_draining = is_of_nodes && told.phase == RotationPhase::Draining;
    is_draining || told.told_since.is_some()
}

/// Whether a rotation waits until Machines of before have gone.
#[must_use]
pub fn are_awaited(cluster: &TenantCluster) -> bool {
    [NAME, CLUSTER]
        .iter()
        .any(|name| told(cluster, name).is_some_and(is_for_nodes))
}

fn told<'a>(cluster: &'a TenantCluster, name: &str) -> Option<&'a RotationStatus> {
    let status = cluster.status.as_ref()?;
    status.rotation.iter().find(|told| told.name == name)
}

/// Machines that were made before are to be replaced; none where no machine is, because of it.
#[must_use]
pub fn replaced_before(cluster: &TenantCluster) -> Option<Timestamp> {
    let rotation = &cluster.spec.rotation;
    let signs = |name, asked: u32| told(cluster, name).filter(|told| told.signs == asked);
    let clients = rotation.client_ca.as_ref();
    let clients = clients.filter(|it| it.nodes == NodesOfBefore::Replace && !it.hold);
    let clients = clients.and_then(|it| signs(NAME, it.generation)?.signed_until.as_ref());
    let own = rotation.cluster_ca.as_ref();
    let own = own.filter(|it| it.nodes == NodesOfBefore::Replace && !it.hold);
    let own = own.and_then(|it| {
        let untold = untold(cluster, it.generation);
        untold.or_else(|| signs(CLUSTER, it.generation)?.believed_since.as_ref())
    });
    let both = clients.into_iter().chain(own);
    both.filter_map(|since| since.parse().ok()).max()
}

/// Kubelets of machines that were made before are to be told in place; none where none is. Only while it is waited for them: a
/// kubelet cannot be told any more when what it has is refused. Where both authorities are turned for that it is once, for
/// both: whoever is further waits.
#[must_use]
pub fn renewed_before(cluster: &TenantCluster) -> Option<Timestamp> {
    let rotation = &cluster.spec.rotation;
    let is_asked = |nodes, hold: bool| nodes == NodesOfBefore::InPlace && !hold;
    let clients = rotation.client_ca.as_ref();
    let clients = clients.filter(|it| is_asked(it.nodes, it.hold));
    let clients = clients.map(|it| (NAME, it.generation));
    let own = rotation.cluster_ca.as_ref();
    let own = own.filter(|it| is_asked(it.nodes, it.hold));
    let own = own.map(|it| (CLUSTER, it.generation));
    let mut last = None;
    for (name, generation) in clients.into_iter().chain(own) {
        if let Some(untold) = untold(cluster, generation).filter(|_| name == CLUSTER) {
            last = last.max(Some(untold.parse().ok()?));
            continue;
        }
        let told = told(cluster, name);
        let is_over =
            told.is_some_and(|told| told.signs == generation && told.phase == RotationPhase::Idle);
        if is_over {
            continue;
        }
        let told =
            told.filter(|told| told.signs == generation && told.phase == RotationPhase::Draining)?;
        let since = match name {
            NAME => told.signed_until.as_ref(),
            _ => told.believed_since.as_ref(),
        };
        last = last.max(Some(since?.parse().ok()?));
    }
    last.map(next_second)
}

/// Since when machines are made that are told what nodes have to be told of the cluster's authority, while it waits for those;
/// none where it does not, or where the status is of another generation.
fn untold(cluster: &TenantCluster, generation: u32) -> Option<&String> {
    let told = told(cluster, CLUSTER).filter(|told| told.generation == generation);
    told.and_then(|told| told.told_since.as_ref())
}

/// The first whole second that is not before: a status keeps no more of a time, and what is compared with what it keeps has
/// to be kept whole.
fn next_second(time: Timestamp) -> Timestamp {
    let seconds = time.as_second() + i64::from(time.subsec_nanosecond() > 0);
    Timestamp::from_second(seconds).unwrap_or(time)
}

/// How many generations of the cluster's authority are believed.
#[must_use]
pub fn believed(cluster: &TenantCluster) -> usize {
    told(cluster, CLUSTER).map_or(1, |told| told.believed.len())
}

/// The generation that signs kubelets' client certificates.
#[must_use]
pub fn signs_clients(cluster: &TenantCluster) -> u32 {
    told(cluster, NAME).map_or(1, |told| told.signs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn kubelets(machines: &[(&str, Option<i64>)]) -> Kubelets {
        let one = |(name, made): &(&str, Option<i64>)| ((*name).to_owned(), made.map(at));
        Kubelets {
            machines: machines.iter().map(one).collect(),
            nodes: None,
        }
    }

    #[test]
    fn machines_tell_when_they_were_made_and_who_was_taken_over_does_not() {
        let machine = |name: &str, annotations: serde_json::Value| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
                "metadata": { "name": name, "creationTimestamp": "1970-01-01T00:00:07Z",
                    "annotations": annotations },
                "spec": { "clusterName": "demo", "clusterUID": "u", "poolName": "workers",
                    "version": "1.35.4", "provider": { "static": {} } },
            }))
            .unwrap()
        };
        let machines = [
            machine("a", json!({})),
            machine("b", json!({ names::ANNOTATION_ADOPTS: "host/print" })),
        ];
        let found = Kubelets::of(machines.iter());
        assert_eq!(found, kubelets(&[("a", Some(7)), ("b", None)]));
    }

    #[test]
    fn nobody_who_is_there_is_younger_than_the_end_whatever_the_clock_says() {
        let found = kubelets(&[("a", Some(7)), ("b", None), ("c", Some(20))]);
        assert_eq!(found.until(at(9)), at(21));
        assert_eq!(found.until(at(99)), at(99));
        assert_eq!(kubelets(&[]).until(at(9)), at(9));
    }

    #[test]
    fn machines_of_before_are_named_and_then_nodes_that_are_nobodys() {
        let all = [
            ("a", Some(7)),
            ("b", None),
            ("c", Some(8)),
            ("d", Some(9)),
            ("e", Some(7)),
        ];
        let mut found = kubelets(&all);
        let named = |text: &str| Known::Known(text.to_owned());
        assert_eq!(found.of_before(at(9)), named("a, b, c and 1 more"));
        assert!(!found.are_to_be_asked(at(9)));
        found = kubelets(&[("d", Some(9))]);
        assert!(matches!(found.of_before(at(9)), Known::Unknown { .. }));
        assert!(found.are_to_be_asked(at(9)));
        found.nodes = Some(Err("it is dark".to_owned()));
        assert!(matches!(found.of_before(at(9)), Known::Unknown { .. }));
        assert!(!found.are_to_be_asked(at(9)));
        found.nodes = Some(Ok(BTreeSet::from(["d".to_owned(), "own".to_owned()])));
        assert_eq!(found.of_before(at(9)), named("own"));
        found.nodes = Some(Ok(BTreeSet::from(["d".to_owned()])));
        assert_eq!(found.of_before(at(9)), Known::Absent);
    }

    #[test]
    fn machines_are_replaced_only_where_that_is_asked_for_and_the_wanted_one_signs() {
        let cluster = |turn: serde_json::Value, signs: u32| -> TenantCluster {
            serde_json::from_value(json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
                "metadata": { "name": "demo" },
                "spec": { "version": "1.35.4", "rotation": { "clientCA": turn } },
                "status": { "rotation": [{ "name": "clientCA", "generation": 2, "signs": signs,
                    "believed": [1, 2], "since": "x", "signedUntil": "1970-01-01T00:00:07Z" }] },
            }))
            .unwrap()
        };
        let replace = json!({ "generation": 2, "nodes": "Replace" });
        assert_eq!(replaced_before(&cluster(replace.clone(), 2)), Some(at(7)));
        assert_eq!(replaced_before(&cluster(replace, 1)), None);
        let held = json!({ "generation": 2, "nodes": "Replace", "hold": true });
        assert_eq!(replaced_before(&cluster(held, 2)), None);
        assert_eq!(
            replaced_before(&cluster(json!({ "generation": 2 }), 2)),
            None
        );
    }
    #[test]
    fn nodes_that_were_not_told_of_the_one_that_signs_are_replaced_where_that_is_asked_for() {
        let cluster = |turn: serde_json::Value, signs: u32| -> TenantCluster {
            serde_json::from_value(json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
                "metadata": { "name": "demo" },
                "spec": { "version": "1.35.4", "rotation": { "clusterCA": turn,
                    "clientCA": { "generation": 1, "nodes": "Replace" } } },
                "status": { "rotation": [
                    { "name": "clusterCA", "generation": 2, "signs": signs, "believed": [1, 2],
                        "phase": "Draining", "since": "x", "believedSince": "1970-01-01T00:00:09Z" },
                    { "name": "clientCA", "generation": 1, "signs": 1, "believed": [1],
                        "since": "x", "signedUntil": "1970-01-01T00:00:07Z" },
                ] },
            }))
            .unwrap()
        };
        let replace = json!({ "generation": 2, "nodes": "Replace" });
        assert_eq!(replaced_before(&cluster(replace.clone(), 2)), Some(at(9)));
        assert_eq!(replaced_before(&cluster(replace.clone(), 1)), Some(at(7)));
        assert!(are_awaited(&cluster(replace, 2)));
        let wait = json!({ "generation": 2 });
        assert_eq!(replaced_before(&cluster(wait, 2)), Some(at(7)));
    }

    #[test]
    fn kubelet_that_was_told_in_place_counts_as_of_then_also_where_its_node_was_taken_over() {
        let machine = |annotations: serde_json::Value, status: serde_json::Value| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
                "metadata": { "name": "a", "creationTimestamp": "1970-01-01T00:00:07Z",
                    "annotations": annotations },
                "spec": { "clusterName": "demo", "clusterUID": "u", "poolName": "workers",
                    "version": "1.35.4", "provider": { "static": {} } },
                "status": status,
            }))
            .unwrap()
        };
        let adopted = json!({ names::ANNOTATION_ADOPTS: "host/print" });
        let renewed = json!({ "renewed": "1970-01-01T00:00:09Z" });
        assert_eq!(known_since(&machine(json!({}), json!({}))), Some(at(7)));
        assert_eq!(
            known_since(&machine(json!({}), renewed.clone())),
            Some(at(9))
        );
        assert_eq!(known_since(&machine(adopted.clone(), renewed)), Some(at(9)));
        assert_eq!(known_since(&machine(adopted, json!({}))), None);
    }

    #[test]
    fn kubelets_are_told_in_place_only_while_it_is_waited_for_them_and_once_for_both() {
        let cluster = |nodes: [&str; 2], phases: [&str; 2]| -> TenantCluster {
            serde_json::from_value(json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
                "metadata": { "name": "demo" },
                "spec": { "version": "1.35.4", "rotation": {
                    "clusterCA": { "generation": 2, "nodes": nodes[0] },
                    "clientCA": { "generation": 2, "nodes": nodes[1] } } },
                "status": { "rotation": [
                    { "name": "clusterCA", "generation": 2, "signs": 2, "believed": [1, 2],
                        "phase": phases[0], "since": "x", "believedSince": "1970-01-01T00:00:09Z" },
                    { "name": "clientCA", "generation": 2, "signs": 2, "believed": [1, 2],
                        "phase": phases[1], "since": "x", "signedUntil": "1970-01-01T00:00:07Z" },
                ] },
            }))
            .unwrap()
        };
        let before = |nodes, phases| renewed_before(&cluster(nodes, phases));
        let both = ["InPlace", "InPlace"];
        assert_eq!(before(both, ["Draining", "Draining"]), Some(at(9)));
        assert_eq!(
            before(both, ["Switching", "Draining"]),
            None,
            "once for both"
        );
        assert_eq!(before(both, ["Idle", "Draining"]), Some(at(7)));
        assert_eq!(before(both, ["Dropping", "Draining"]), None);
        assert_eq!(before(both, ["Idle", "Idle"]), None);
        assert_eq!(
            before(["Wait", "InPlace"], ["Preparing", "Draining"]),
            Some(at(7))
        );
        assert_eq!(
            before(["InPlace", "Replace"], ["Draining", "Draining"]),
            Some(at(9))
        );
        assert_eq!(before(["Wait", "Replace"], ["Draining", "Draining"]), None);
        // A Machine's status keeps whole seconds of it.
        let mut fraction = cluster(both, ["Draining", "Draining"]);
        let told = &mut fraction.status.as_mut().unwrap().rotation[0];
        told.believed_since = Some("1970-01-01T00:00:09.25Z".to_owned());
        assert_eq!(renewed_before(&fraction), Some(at(10)));
        let mut held = cluster(both, ["Draining", "Idle"]);
        held.spec.rotation.cluster_ca.as_mut().unwrap().hold = true;
        assert_eq!(renewed_before(&held), None);
        // Another generation is asked for, and does not sign yet.
        let mut next = cluster(both, ["Draining", "Draining"]);
        next.spec.rotation.cluster_ca.as_mut().unwrap().generation = 3;
        assert_eq!(renewed_before(&next), None);
    }
}
