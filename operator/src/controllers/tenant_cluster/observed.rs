//! What one reconcile saw: a plain value, so that a plan can be tested on any world.
//!
//! Invariant: nothing here is fetched lazily; whatever a plan may depend on is a field. Long because all of it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::condition::is_true;
use api::tenant_cluster::{NetworkStatus, RolloutStatus, TenantIdentity};
use api::{ConditionType, Snapshot, TenantCluster};
use kit_client::errors::Class;
use kit_objects::known::Known;
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::certificates::Material;
use tenant_cp::encrypted_kinds::EncryptedKinds;
use tenant_cp::generations::{is_authority, of_service_account};
use tenant_cp::names;
use tenant_cp::problem::Problem;

pub mod component_pods;
pub mod restore;

use super::part_name::PartName;
use crate::backups::Said;
use crate::etcd_disks::speed::Disks;
use crate::etcd_replacement::patience::Patience;
use crate::etcd_space::looks::{Glance, LastSaid};
use crate::hibernation::idle::Usage;
use crate::hibernation::seen::Seen as HibernationSeen;
use crate::maintenance::patches::Patch;
use crate::overlay::members::Overlay;
use crate::rollouts::queue::Answer;
use crate::rotation::kubelets::Kubelets;
use crate::standby::takeover::Taker;
use crate::tenant_session::aggregated::Believed;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::etcd::answers::{DataHash, ListedMember, MemberStatus};
use crate::tenant_session::held_tokens::HeldToken;
use crate::tenant_session::largest::Size;
use crate::tenant_session::preflight::answers::Inside;
use crate::upgrades::nodes::Nodes;
use crate::upgrades::surge::SurgeAnswer;
use component_pods::ComponentPod;
use restore::RestoreSeen;

/// Everything that a plan may depend on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The TenantCluster, read just now.
    pub cluster: TenantCluster,
    /// Address ranges: those in force, or those that are free now.
    pub network: Result<NetworkStatus, Problem>,
    /// What quotas say against it; nothing where it was let in.
    pub quotas: Vec<Problem>,
    /// Whose identity it may take over, in this order; none where something was made for it already.
    pub standby: Vec<TenantIdentity>,
    /// Whoever took its own identity over; none where it is nobody else's.
    pub taker: Option<Taker>,
    /// All other TenantClusters, in any order.
    pub others: Vec<Arc<TenantCluster>>,
    /// Hosts of the namespace that Machines have, by name and UID; asked for only while it is being deleted.
    pub claimed_hosts: Vec<(String, String)>,
    /// Machines of the namespace that clouds make, by name and UID; asked for only while it is being deleted.
    pub cloud_machines: Vec<(String, String)>,
    /// Live objects: the tenant namespace, what is in it, and ours in the user's namespace.
    pub objects: BTreeMap<Key, Value>,
    /// Whether [`Self::objects`] has what is in the tenant namespace: where nobody let us in, nothing of
    /// it is known, and nothing of it is absent.
    pub readable: bool,
    /// The same for the kubeconfig in the user's namespace.
    pub user_readable: bool,
    /// Keys and certificates: read from the Secrets, or issued in this reconcile and not yet
    /// written.
    pub material: Material,
    /// Pods of etcd, the control plane and its controllers; none where they were not listed, and nothing is known of them.
    pub pods: Option<Vec<ComponentPod>>,
    /// Whether this tenant cluster may start its pods.
    pub start: Answer,
    /// Whether it may be rolled out; none where that was not asked for in this reconcile.
    pub turn: Option<Answer>,
    /// Hash of the templates that the operator has now.
    pub templates: String,
    /// Which patch of Kubernetes the operator takes by itself. The version of `cluster` is the one that is to run.
    pub patch: Patch,
    /// Whether there are node pools or machines, so that there are (or will be) nodes.
    pub workers: bool,
    /// Whether the objects inside the tenant cluster have to be listed again.
    pub list_due: bool,
    /// What the tenant's API said when it was last asked in this reconcile.
    pub tenant: Tenant,
    /// What the members of etcd said.
    pub etcd: Etcd,
    /// Which members etcd has; none where that was not asked in this reconcile.
    pub etcd_listing: Option<EtcdListing>,
    /// What this reconcile did to the members of etcd.
    pub etcd_steps: EtcdSteps,
    /// PersistentVolumes that members had whose claims are gone, by UID of the claim, as far as they were asked for in this
    /// reconcile: known where it is there and that claim's still.
    pub etcd_volumes: BTreeMap<String, Known<()>>,
    /// When the newest change in the backup came, as far as that was asked for in this reconcile; none in it where nobody
    /// knows.
    pub newest_backup: Option<Option<jiff::Timestamp>>,
    /// Names of Restores that somebody asked for and that are not over.
    pub restores_asked: BTreeSet<String>,
    /// What is known of the space in etcd beside what its members say.
    pub etcd_space: EtcdSpace,
    /// What was seen of etcd outside of reconciles.
    pub etcd_glance: Glance,
    /// The same of its members' disks.
    pub etcd_disks: Disks,
    /// What members last said of their logs, in or outside of reconciles, by name; of those that ever did.
    pub etcd_said: BTreeMap<String, LastSaid>,
    /// How long something has to be so before a member of etcd is replaced.
    pub etcd_patience: Patience,
    /// What the tenant's API said of an upgrade that is wanted; none where it was not asked in this reconcile.
    pub preflight: Option<Inside>,
    /// Tokens of service accounts that Secrets hold inside, or why they are not known; none where that was not asked in this
    /// reconcile.
    pub held_tokens: Option<Result<Vec<HeldToken>, String>>,
    /// What is encrypted as it was to be when it was looked at, and how many of the objects inside are as that says, or why
    /// that is not known; none where that was not asked in this reconcile.
    pub rewritten: Option<(EncryptedKinds, Result<Rewritten, String>)>,
    /// Whom aggregated API servers believe, or why that is not known; none where that was not asked in this reconcile.
    pub aggregated: Option<Result<Believed, String>>,
    /// Bundles by which pods and nodes are told to believe the tenant's API, or why they are not known; none where that was
    /// not asked in this reconcile.
    pub roots: Option<Result<BTreeSet<String>, String>>,
    /// The Snapshot before an upgrade that is wanted, as last seen or just made; none where there is none.
    pub upgrade_snapshot: Option<Arc<Snapshot>>,
    /// Whether the management cluster has room for one pod more of what an upgrade that is wanted replaces; empty where
    /// none is.
    pub room: Vec<SurgeAnswer>,
    /// Nodes of its Machines; none where no upgrade is wanted.
    pub nodes: Nodes,
    /// Its Machines, and the nodes that its API has.
    pub kubelets: Kubelets,
    /// How long it has to be Ready before an upgrade begins.
    pub upgrade_calm: Duration,
    /// Parts that could not be carried out in this reconcile, and are not tried again in it.
    pub failures: BTreeMap<PartName, Failure>,
    /// What is known of its backup; none where nothing is known.
    pub backup: Option<Said>,
    /// Generations of encryption keys that its backup has for certain; none where that is not known.
    pub saved_keys: Option<BTreeSet<u32>>,
    /// The overlay among its nodes; none where it wants none.
    pub overlay: Option<Overlay>,
    /// Machines whose nodes are known by an address in an overlay that it does not want any more.
    pub left_in_overlay: Vec<String>,
    /// The Restore that is under way or next; none where there is none.
    pub restore: Option<RestoreSeen>,
    /// What is seen of its sleep; none where it is awake and to stay so.
    pub hibernation: Option<HibernationSeen>,
    /// What is known of its use; nothing where it is never put to sleep for want of it.
    pub usage: Usage,
    /// What this reconcile may still ask of the tenant's API.
    pub budget: Budget,
}

/// How many of the objects inside a tenant cluster are in etcd as they are to be: encrypted with the key that writes, or not
/// at all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Rewritten {
    /// All.
    All,
    /// Some of those that were not are now; there may be more.
    Some,
    /// All but those whose update the tenant's API refuses.
    Refused {
        /// Kind, namespace and name of the first of them. Example: `Secret shop/robot`.
        first: String,
    },
}

/// Why a part could not be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What kind of error it was.
    pub class: Class,
    /// For people.
    pub message: String,
}

/// What the members of etcd said.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Etcd {
    /// Not asked in this reconcile.
    #[default]
    NotAsked,
    /// By name of the member: what it said, or why that is not known.
    Asked(BTreeMap<String, Result<MemberStatus, String>>),
}

impl Etcd {
    /// What is known, by name of the member.
    pub fn answers(&self) -> impl Iterator<Item = (&str, &MemberStatus)> {
        let asked = match self {
            Self::NotAsked => None,
            Self::Asked(answers) => Some(answers),
        };
        let answers = asked.into_iter().flatten();
        answers.filter_map(|(name, answer)| Some((name.as_str(), answer.as_ref().ok()?)))
    }
}

/// What etcd says of all its members.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EtcdListing {
    /// Its list, as a majority has it; none where it is not known.
    pub members: Option<Vec<ListedMember>>,
    /// Hashes of members' data, by name, all up to one revision; of those that said it, where it was asked.
    pub hashes: BTreeMap<String, DataHash>,
}

/// What one reconcile knows of the space in etcd.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EtcdSpace {
    /// Whether what can be dropped was, in this reconcile.
    pub is_compacted: bool,
    /// Whether the rest is left to the next reconcile: a member writes its database anew now, or this one took
    /// long enough.
    pub is_left: bool,
    /// The largest resources; none where that was not asked.
    pub largest: Option<Vec<Size>>,
}

/// What one reconcile did to the members of etcd.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EtcdSteps {
    /// Steps that were carried out.
    pub done: usize,
    /// Why the last one was not, for people.
    pub refusal: Option<String>,
}

/// What the tenant's API said.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tenant {
    /// Not asked in this reconcile.
    #[default]
    NotAsked,
    /// It is to be asked later, when other tenants that are slow are done with: nothing is known.
    Postponed,
    /// It did not answer an authenticated request.
    Silent {
        /// Why, for people.
        message: String,
    },
    /// It answered an authenticated request.
    Answers {
        /// Version it serves, e.g. `1.35.4`.
        version: String,
        /// Where it answered.
        way: Way,
        /// What is known of the objects inside.
        seen: Seen,
        /// Pods of those workloads that were asked about.
        pods: BTreeMap<Key, Pods>,
    },
}

/// Where the tenant's API answered a consistent read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Way {
    /// At the endpoint that nodes and users have.
    #[default]
    Published,
    /// At its Service. The operator is not where users are, so this says nothing of them.
    Service {
        /// Why not at the published endpoint, for people.
        message: String,
    },
}

/// What is known of the objects inside the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seen {
    /// They were not listed.
    #[default]
    Nothing,
    /// We have no right to list them.
    Hidden,
    /// All of them were applied just now.
    Applied,
    /// Everything that is labelled as ours.
    Objects(BTreeMap<Key, Value>),
}

/// How many pods of an addon run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pods {
    /// Ready ones.
    pub ready: i64,
    /// Wanted ones: of a DaemonSet as many as there are nodes.
    pub wanted: i64,
}

/// The pods of a Deployment or DaemonSet.
#[must_use]
pub fn pods(workload: &Value) -> Pods {
    let number = |pointer: &str| {
        workload
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or(0)
    };
    match workload["kind"].as_str() {
        Some("DaemonSet") => Pods {
            ready: number("/status/numberReady"),
            wanted: number("/status/desiredNumberScheduled"),
        },
        _ => Pods {
            ready: number("/status/readyReplicas"),
            wanted: number("/spec/replicas"),
        },
    }
}

/// Names of the Secrets of generations that nobody is to believe any more.
pub fn dropped(objects: &BTreeMap<Key, Value>) -> impl Iterator<Item = &String> {
    let secrets = objects.iter().filter(|(key, secret)| {
        key.kind == "Secret"
            && (is_authority(&key.name) || of_service_account(&key.name).is_some())
            && !secret["metadata"]["annotations"][names::DROPPED].is_null()
    });
    secrets.map(|(key, _)| &key.name)
}

impl Observed {
    /// The Deployment of the control plane: it is there once pods were asked for.
    #[must_use]
    pub fn started(&self) -> Known<&Value> {
        let ns = self.tenant_namespace();
        self.find("Deployment", &ns, names::CONTROL_PLANE)
    }

    /// Whether pods may have been asked for, also before: from then on keys must never be made anew.
    #[must_use]
    pub fn was_running(&self) -> bool {
        !self.started().is_absent() || self.has_been_bootstrapped()
    }

    /// True once etcd had a leader, or, which is later, the API answered.
    #[must_use]
    pub fn has_been_bootstrapped(&self) -> bool {
        let status = self.cluster.status.as_ref();
        status.is_some_and(|s| s.etcd.is_some()) || self.has_been_ready()
    }

    /// True once the API answered for the first time.
    #[must_use]
    pub fn has_been_ready(&self) -> bool {
        let status = self.cluster.status.as_ref();
        status.is_some_and(|s| s.bootstrap_hash.is_some())
    }

    /// Whether the status says that the API answers, with its addons or without.
    #[must_use]
    pub fn answered_before(&self) -> bool {
        let status = self.cluster.status.as_ref();
        status.is_some_and(|status| status.answers_since().is_some())
    }

    /// Whether this reconcile knows no more of the tenant's API than what the status says of it already.
    #[must_use]
    pub fn is_postponed(&self) -> bool {
        let conditions = self.cluster.status.iter().flat_map(|s| &s.conditions);
        let mut ready = conditions.filter(|c| c.type_ == ConditionType::Ready.as_str());
        self.tenant == Tenant::Postponed && ready.next().is_some()
    }

    /// Whether the status says that it is Ready.
    #[must_use]
    pub fn was_ready(&self) -> bool {
        let status = self.cluster.status.as_ref();
        status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready))
    }

    /// Whether a Deployment says that so many pods are of the newest template and ready.
    #[must_use]
    pub fn has_all_pods(&self, deployment: &str, replicas: i32) -> bool {
        let ns = self.tenant_namespace();
        let number = |pointer: &str| {
            let number = self.number("Deployment", &ns, deployment, pointer);
            number.or_absent(0)
        };
        let replicas = Some(i64::from(replicas));
        let (seen, newest) = (
            number("/status/observedGeneration"),
            number("/metadata/generation"),
        );
        seen.zip(newest)
            .is_some_and(|(seen, newest)| seen >= newest)
            && number("/status/updatedReplicas") == replicas
            && number("/status/replicas") == replicas
            && number("/status/readyReplicas") == replicas
    }

    /// What is known of rollouts that came to an end.
    #[must_use]
    pub fn rollout(&self) -> Option<&RolloutStatus> {
        self.cluster.status.as_ref()?.rollout.as_ref()
    }

    /// A live object, or whether it is known that there is none.
    #[must_use]
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Known<&Value> {
        self.look_up(&Key::new(kind, namespace, name))
    }

    /// The same, by key.
    #[must_use]
    pub fn look_up(&self, key: &Key) -> Known<&Value> {
        match self.objects.get(key) {
            Some(live) => Known::Known(live),
            None if self.is_hidden(key) => Known::Unknown {
                why: "the operator is not let into the namespace",
            },
            None => Known::Absent,
        }
    }

    /// Whether the namespace of an object is there and not what is in it. One that is not there holds
    /// nothing for certain.
    fn is_hidden(&self, key: &Key) -> bool {
        let is_binding = key.kind == "RoleBinding";
        // What lets the operator in is looked at with a right of its own.
        if key.namespace.is_empty() || (is_binding && key.name == api::names::OPERATOR_BINDING) {
            return false;
        }
        let ns = self.tenant_namespace();
        let is_there = self.objects.contains_key(&Key::new("Namespace", "", &ns));
        // The autoscaler's binding in the user's namespace is looked for with what is in the tenant's.
        match key.namespace == ns || is_binding {
            true => !self.readable && is_there,
            false => !self.user_readable,
        }
    }

    /// Text at a JSON pointer of a live object; absent where the object is, or has nothing there.
    #[must_use]
    pub fn text(&self, kind: &str, namespace: &str, name: &str, pointer: &str) -> Known<&str> {
        let live = self.find(kind, namespace, name);
        live.and_then(|live| match live.pointer(pointer) {
            None | Some(Value::Null) => Known::Absent,
            Some(text) => text.as_str().map_or(
                Known::Unknown {
                    why: "what stands there is no text",
                },
                Known::Known,
            ),
        })
    }

    /// Number at a JSON pointer of a live object; 0 where the object has none, as Kubernetes leaves
    /// zero counts out.
    #[must_use]
    pub fn number(&self, kind: &str, namespace: &str, name: &str, pointer: &str) -> Known<i64> {
        let live = self.find(kind, namespace, name);
        live.and_then(|live| match live.pointer(pointer) {
            None | Some(Value::Null) => Known::Known(0),
            Some(number) => number.as_i64().map_or(
                Known::Unknown {
                    why: "what stands there is no whole number",
                },
                Known::Known,
            ),
        })
    }

    /// Name of the tenant namespace.
    #[must_use]
    pub fn tenant_namespace(&self) -> String {
        self.cluster.tenant_namespace()
    }

    /// Takes in what the API server answered to a write.
    pub fn absorb(&mut self, key: Key, live: Value) {
        self.objects.insert(key, live);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_counted_as_each_kind_counts_them() {
        let daemon_set = json!({
            "kind": "DaemonSet", "status": { "numberReady": 2, "desiredNumberScheduled": 3 },
        });
        assert_eq!(
            pods(&daemon_set),
            Pods {
                ready: 2,
                wanted: 3
            }
        );
        let deployment = json!({
            "kind": "Deployment", "spec": { "replicas": 2 }, "status": { "readyReplicas": 1 },
        });
        assert_eq!(
            pods(&deployment),
            Pods {
                ready: 1,
                wanted: 2
            }
        );
        assert_eq!(pods(&json!({})), Pods::default());
    }
}
