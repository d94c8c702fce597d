//! What a Machine is made from, and what it is called.
//!
//! A Machine holds the pool's `provider` as it stands there; what the pool leaves out the provider
//! fills in when it makes the virtual machine. So a changed default of the operator rolls nobody's
//! pool.
//! Invariant: the version is never newer than the control plane's that runs, nor more than
//! [`MOST_MINORS_OLDER`] older; there is one location at least.

use std::collections::BTreeMap;

use api::node_pool::locations::LocationRef;
use api::node_pool::{Kubelet, Provider};
use api::tenant_cluster::TenantIdentity;
use api::{Machine, MachineSpec, NodePool, NodePoolSpec, Reason, TenantCluster, names};
use jiff::Timestamp;
use kit_objects::object::Object;
use kube::ResourceExt;
use serde_json::json;
use tenant_cp::problem::Problem;
use tenant_cp::version;

use super::Change;
use crate::controllers::node_pool::nodes::Node;
use crate::controllers::node_pool::observed::label;
use crate::rotation::kubelets::{is_given_up, renewed, renewed_before, replaced_before};

/// What a suffix consists of: no vowels, so no words, as in Kubernetes' own generated names
/// (apimachinery `util/rand`).
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// What new Machines are made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    /// Kubernetes version, without the leading `v`.
    pub(super) version: String,
    /// Where they are made, and of what size there.
    pub(super) locations: Vec<Location>,
    kubelet: Kubelet,
    /// Machines that were made before do not fit; none: when one was made says nothing.
    since: Option<Timestamp>,
    /// Neither do those whose kubelets could not be told in place of what is asked for since then.
    told_since: Option<Timestamp>,
}

/// A location of the pool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Location {
    /// What its Machines say; none where the pool has `spec.provider`.
    name: Option<String>,
    /// What the status calls it.
    pub(super) shown: String,
    /// Its share.
    pub(super) weight: u32,
    /// Most machines there.
    pub(super) max: Option<u32>,
    provider: Provider,
}

/// All locations of the pool, in the order of its spec.
pub(super) fn locations(spec: &NodePoolSpec) -> Vec<Location> {
    spec.places().iter().map(Location::of).collect()
}

/// The one of `locations` that a Machine is in; none where the pool has it no more. One that was made while the
/// pool had `spec.provider` is in the location with the same provider, so that changing the form replaces nobody;
/// of several the one whose name comes first, whatever the order of the list.
pub(super) fn location_of<'a>(
    locations: &'a [Location],
    machine: &Machine,
) -> Option<&'a Location> {
    let spec = &machine.spec;
    match (locations, &spec.location) {
        ([only], _) if only.name.is_none() => Some(only),
        (all, None) => {
            let same = all.iter().filter(|at| at.provider == spec.provider);
            same.min_by(|a, b| a.name.cmp(&b.name))
        }
        (all, name) => all.iter().find(|at| at.name == *name),
    }
}

impl Location {
    fn of(place: &LocationRef<'_>) -> Self {
        Self {
            name: place.name.map(str::to_owned),
            shown: place.shown().to_owned(),
            weight: place.weight,
            max: place.max,
            provider: place.provider.clone(),
        }
    }
}

impl Template {
    /// Whether a Machine is made from this. Labels, taints and keys are those of the day it was
    /// made: a change of them replaces nobody, nor does one of weights.
    pub(super) fn fits(&self, machine: &Machine) -> bool {
        let spec = &machine.spec;
        let location = self.location_of(machine);
        spec.version == self.version
            && location.is_some_and(|location| location.provider == spec.provider)
            && spec.kubelet == self.kubelet
            && self.is_young_enough(machine)
    }

    fn is_young_enough(&self, machine: &Machine) -> bool {
        let made = machine.metadata.creation_timestamp.as_ref();
        let made = made.map(|made| made.0).max(renewed(machine));
        let is_young = match (self.since, made) {
            (Some(since), Some(made)) => made >= since,
            _ => true,
        };
        let told_since = self.told_since;
        is_young && told_since.is_none_or(|since| !is_given_up(machine, since))
    }

    /// The location that a Machine is in: [`location_of`].
    pub(super) fn location_of(&self, machine: &Machine) -> Option<&Location> {
        location_of(&self.locations, machine)
    }
}

/// The template in force; none while the control plane has not said which version it runs.
pub(super) fn template(
    pool: &NodePool,
    cluster: &TenantCluster,
) -> Result<Option<Template>, Problem> {
    let status = cluster.status.as_ref();
    let Some(running) = status.and_then(|s| s.version.as_deref()) else {
        return Ok(None);
    };
    let wanted = pool.spec.version.as_deref().unwrap_or(running);
    let read = |text| version::parse(text);
    let checked = read(running).and_then(|running| {
        let wanted = read(wanted)?;
        version::check_worker(&running, &wanted).map(|()| wanted)
    });
    let wanted = checked.map_err(|e| Problem::new("spec.version", e.reason(), e.to_string()))?;
    let locations = locations(&pool.spec);
    // A rule keeps it out; a definition of before `locations` takes them off what is stored, and no machine goes
    // because of that.
    if locations.is_empty() {
        let message = "name exactly one provider, such as kubevirt: {}, or locations";
        let problem = Problem::new("spec.provider", Reason::ProviderMissing, message);
        return Err(problem);
    }
    Ok(Some(Template {
        version: wanted.to_string(),
        locations,
        kubelet: pool.spec.kubelet.clone(),
        since: replaced_before(cluster),
        told_since: renewed_before(cluster),
    }))
}

/// The name of the pool's Machine of this number.
pub(super) fn name(pool: &NodePool, number: i64) -> String {
    let digest = kit_objects::object::hash(&json!([pool.uid(), number]));
    let mut rest = u64::from_str_radix(&digest, 16).unwrap_or_default();
    let mut letters = String::new();
    for _ in 0..names::MACHINE_SUFFIX_LENGTH {
        let letter = usize::try_from(rest % LETTERS.len() as u64).unwrap_or_default();
        letters.push(char::from(LETTERS[letter]));
        rest /= LETTERS.len() as u64;
    }
    names::machine(&pool.name_any(), &letters)
}

/// A Machine to be made there.
pub(super) fn machine(
    pool: &NodePool,
    cluster: &TenantCluster,
    (template, location): (&Template, &Location),
    name: &str,
    number: i64,
) -> Object {
    let spec = MachineSpec {
        cluster_name: pool.spec.cluster_name.clone(),
        cluster_uid: cluster.identity_uid().to_owned(),
        tenant_namespace: cluster.taken_over().map(TenantIdentity::tenant_namespace),
        pool_name: pool.name_any(),
        location: location.name.clone(),
        version: template.version.clone(),
        provider: location.provider.clone(),
        kubelet: template.kubelet.clone(),
        labels: pool.spec.labels.clone(),
        taints: pool.spec.taints.clone(),
        ssh_authorized_keys: pool.spec.ssh_authorized_keys.clone(),
        drain_timeout: pool.spec.drain_timeout.clone(),
    };
    Object::from_value(json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": pool.namespace(),
            "labels": labels(pool, cluster.identity_uid()),
            "annotations": { names::ANNOTATION_MACHINE_NUMBER: number.to_string() },
            // From the first moment on, so that none goes without its virtual machine going first.
            "finalizers": [names::FINALIZER_MACHINE],
            "ownerReferences": [{
                "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
                "kind": "NodePool",
                "name": pool.name_any(),
                "uid": pool.uid(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    }))
}

/// The same, in the place of one that is lost with its location.
pub(super) fn for_lost(mut machine: Object) -> Object {
    machine.value["metadata"]["annotations"][names::ANNOTATION_FOR_LOST] = json!("true");
    Object::from_value(machine.value)
}

/// A Machine that takes over a node that runs there: of the node's name, and of the version that the node has, so that it
/// is rolled as any other.
pub(super) fn adopting(
    pool: &NodePool,
    cluster: &TenantCluster,
    from: (&Template, &Location),
    node: &Node,
    number: i64,
) -> Object {
    let mut machine = machine(pool, cluster, from, &node.name, number).value;
    machine["spec"]["version"] = json!(node.version);
    machine["metadata"]["annotations"][names::ANNOTATION_ADOPTS] =
        json!(format!("{}/{}", node.host, node.fingerprint));
    Object::from_value(machine)
}

fn labels(pool: &NodePool, cluster_uid: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (names::LABEL_NODE_POOL, pool.name_any()),
        (names::LABEL_TENANT_NAME, pool.spec.cluster_name.clone()),
        (names::LABEL_TENANT_UID, cluster_uid.to_owned()),
        (names::LABEL_MANAGED_BY, names::MANAGED_BY.to_owned()),
    ])
}

/// What a Machine follows its pool in, and the labels that somebody spoilt.
pub(super) fn change(pool: &NodePool, machine: &Machine) -> Option<Change> {
    let spoilt = |(key, value): &(&'static str, String)| label(machine, key) != Some(value);
    let labels: BTreeMap<_, _> = labels(pool, &machine.spec.cluster_uid)
        .into_iter()
        .filter(spoilt)
        .collect();
    let mut patch = json!({});
    if !labels.is_empty() {
        patch["metadata"]["labels"] = json!(labels);
    }
    if machine.spec.drain_timeout != pool.spec.drain_timeout {
        patch["spec"]["drainTimeout"] = json!(pool.spec.drain_timeout);
    }
    if patch == json!({}) {
        return None;
    }
    patch["metadata"]["uid"] = json!(machine.uid());
    patch["metadata"]["resourceVersion"] = json!(machine.resource_version());
    Some(Change {
        name: machine.name_any(),
        patch,
    })
}
