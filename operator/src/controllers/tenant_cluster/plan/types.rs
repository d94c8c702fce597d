//! What a plan is: parts, each with what is to be written, deleted and done for it.
//!
//! Invariant: a part is planned and applied by itself; what it needs of another one it takes from what
//! was observed, never from what the other one is about to do.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use api::tenant_cluster::{
    EndpointStatus, EtcdStatus, HibernationStatus, NetworkStatus, RestoreProgress, RolloutStatus,
    TenantClusterStatus, TenantIdentity,
};
use kit::events::Notice;
use kit_objects::difference::difference;
use kit_objects::known::Known;
use kit_objects::object::{Key, Object};
use serde_json::Value;
use tenant_cp::certificates;
use tenant_cp::encrypted_kinds::EncryptedKinds;
use tenant_cp::rollout::order::Cause;

use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::etcd_replacement::step::Step;
use crate::etcd_space;
use crate::hibernation::place::Entry;
use crate::hibernation::webhooks;
use crate::status::Waiting;
use crate::tenant_session::aggregated::Field;

/// Longest time between two reconciles of a tenant cluster where nothing happens.
pub const SLOW_SWEEP: Duration = Duration::from_secs(10 * 3600);
/// Longest time between two lists of the objects inside a tenant cluster: a little less, so that the
/// slow sweep lists them too.
pub const LIST_SWEEP: Duration = Duration::from_secs(9 * 3600);

/// The next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Carried out side by side.
    pub parts: Vec<Part>,
    /// The status as it should be.
    pub status: TenantClusterStatus,
    /// Events to publish.
    pub events: Vec<Notice>,
    /// What keeps the tenant cluster from being Ready; waiting is not an error.
    pub waiting_on: Option<Waiting>,
    /// When to reconcile again although nothing happened.
    pub requeue_after: Option<Duration>,
    /// The rollout that waits or is under way: it keeps its place in the queue.
    pub rollout: Option<Cause>,
}

impl Plan {
    /// One that leaves everything as it is.
    pub(super) fn unchanged(observed: &Observed) -> Self {
        Self {
            status: observed.cluster.status.clone().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// A write to the TenantCluster itself, before anything else.
    pub(super) fn own(observed: &Observed, action: Action) -> Self {
        let mut part = Part::new(PartName::TenantCluster);
        part.actions.push(action);
        Self {
            parts: vec![part],
            ..Self::unchanged(observed)
        }
    }

    /// True when nothing is left to do but, perhaps, to write the status.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.parts.iter().all(Part::is_settled)
    }

    /// Every deletion of every part.
    pub fn deletions(&self) -> impl Iterator<Item = &Target> {
        self.parts.iter().flat_map(|part| &part.deletions)
    }

    /// Every action of every part.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.parts.iter().flat_map(|part| &part.actions)
    }
}

/// What is to be done for one part.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Which.
    pub name: PartName,
    /// Objects to write, stage after stage.
    pub stages: Vec<Stage>,
    /// Objects to delete.
    pub deletions: Vec<Target>,
    /// What is not a write of a Kubernetes object of the management cluster.
    pub actions: Vec<Action>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// What only a person can mend; the rest of the part goes on as far as it can.
    pub problem: Option<Waiting>,
}

impl Part {
    pub(super) fn new(name: PartName) -> Self {
        Self {
            name,
            stages: Vec::new(),
            deletions: Vec::new(),
            actions: Vec::new(),
            waiting: None,
            problem: None,
        }
    }

    /// True when nothing is to be done for it now.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.stages.is_empty() && self.deletions.is_empty() && self.actions.is_empty()
    }

    /// The objects that it writes.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.stages.iter().flat_map(|stage| &stage.objects)
    }

    /// Nothing more is tried for it now, because that failed a moment ago.
    fn rest(&mut self) {
        self.stages.clear();
        self.deletions.clear();
        self.actions.clear();
    }

    /// Adds a stage with those objects that are not yet as wanted.
    pub(super) fn apply(&mut self, name: &'static str, observed: &Observed, objects: Vec<Object>) {
        let differs = |object: &Object| {
            match observed.look_up(&object.key()) {
                Known::Known(live) => difference(&object.value, live).is_some(),
                Known::Absent => true,
                // Once it can be seen it is compared.
                Known::Unknown { .. } => false,
            }
        };
        self.stage(name, Mode::Apply, objects.into_iter().filter(differs));
    }

    /// Adds a stage with those objects that are absent.
    pub(super) fn create(&mut self, name: &'static str, observed: &Observed, objects: Vec<Object>) {
        let absent = |object: &Object| observed.look_up(&object.key()).is_absent();
        self.stage(name, Mode::Create, objects.into_iter().filter(absent));
    }

    fn stage(&mut self, name: &'static str, mode: Mode, objects: impl Iterator<Item = Object>) {
        let objects: Vec<_> = objects.collect();
        if !objects.is_empty() {
            self.stages.push(Stage {
                name,
                mode,
                objects,
            });
        }
    }
}

/// Nothing more is tried in this reconcile for parts that failed in it.
pub(super) fn rest_what_failed(parts: &mut [Part], observed: &Observed) {
    for part in parts {
        if observed.failures.contains_key(&part.name) {
            part.rest();
        }
    }
}

/// Objects that may be written side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name for logs.
    pub name: &'static str,
    /// How they are written.
    pub mode: Mode,
    /// The objects.
    pub objects: Vec<Object>,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Server-side apply.
    Apply,
    /// Only if absent: keys that must never be overwritten. Somebody else's is read, not replaced.
    Create,
}

/// An object to delete.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// What.
    pub key: Key,
    /// Only this one, not a namesake.
    pub uid: String,
    /// Only as it was seen, where that matters.
    pub resource_version: Option<String>,
    /// Whether it stays, marked, until what it owns is gone, instead of the other way round.
    pub with_dependents: bool,
}

impl Target {
    /// The one that was seen; none where there is none, or it goes already: asked once is enough.
    #[must_use]
    pub fn seen(objects: &BTreeMap<Key, Value>, key: Key) -> Option<Self> {
        let live = objects.get(&key)?;
        let is_going = !live["metadata"]["deletionTimestamp"].is_null();
        let uid = live["metadata"]["uid"].as_str().filter(|_| !is_going)?;
        Some(Self {
            uid: uid.to_owned(),
            resource_version: None,
            with_dependents: false,
            key,
        })
    }
}

/// What to do inside the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Objects to apply.
    pub apply: Vec<Object>,
    /// Whether the tenant's Services are to be released (`tenant_objects::release`) before anything is deleted:
    /// what is deleted is how one sees that it is still to be done.
    pub release: bool,
    /// Objects to delete.
    pub delete: Vec<Target>,
}

impl Changes {
    /// True when everything is as it should be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.apply.is_empty() && self.delete.is_empty()
    }
}

/// What is not a write of a Kubernetes object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put our finalizer on the TenantCluster.
    AddFinalizer,
    /// Take our finalizer off.
    RemoveFinalizer,
    /// End the pods of the tenant namespace without grace, with whoever would make them anew, and
    /// delete its claims.
    Empty {
        /// The tenant namespace.
        namespace: String,
    },
    /// Bear the identity of one of these from now on, the first that is free, and write that into the status before
    /// anything depends on it.
    TakeOver(Vec<TenantIdentity>),
    /// See to it that nobody takes it over any more.
    Retire,
    /// Write the address ranges into the status before anything depends on them.
    KeepNetwork(NetworkStatus),
    /// Write into the status what etcd is, before its members are told that it exists.
    KeepEtcd(EtcdStatus),
    /// Write into the status how far a restore is.
    KeepRestore {
        /// That; none where it is over.
        restore: Option<Box<RestoreProgress>>,
        /// What etcd is from then on, written with it.
        etcd: Option<EtcdStatus>,
    },
    /// Write into the status that the operator begins to bring it to other templates of itself.
    KeepRollout(Box<RolloutStatus>),
    /// Write into the status how far sleep is, and tell people.
    KeepHibernation {
        /// That; none where it is awake.
        told: Option<HibernationStatus>,
        /// What is told once it is written.
        said: Option<Notice>,
    },
    /// Write into the ConfigMap of sleepers at which port the activator waits for it.
    KeepSleeper(Entry),
    /// Ask its kube-apiservers what they have counted of use.
    AskUse,
    /// Ask the tenant's API what is left on nodes.
    AskLeft {
        /// Address of the Service.
        address: (IpAddr, u16),
    },
    /// Ask the tenant's API about webhooks that would keep it from waking, and change them.
    AskWebhooks {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// What is asked or done.
        step: webhooks::Step,
    },
    /// Look whether PersistentVolumes are there that members of etcd had whose claims are gone.
    AskVolumes {
        /// UIDs of the claims, and names of their PersistentVolumes.
        volumes: Vec<(String, String)>,
    },
    /// Ask the process that backs up of when the newest change in the backup of this etcd cluster is.
    AskNewest {
        /// The etcd cluster, hexadecimal.
        cluster: String,
    },
    /// Ask for a Restore, unless there is one of that name.
    AskForRestore {
        /// The Restore.
        restore: Box<Object>,
    },
    /// Ask for a Snapshot, unless there is one of that name.
    AskForSnapshot {
        /// The Snapshot.
        snapshot: Box<Object>,
    },
    /// Delete Leases of before from the etcd of a tenant cluster that was restored, which no kube-apiserver uses yet.
    ForgetLeases {
        /// Names of the members, and addresses of their Services.
        members: Vec<(String, IpAddr)>,
    },
    /// Mark load balancers of the tenant namespace so that they stay, whether the tenant cluster knows them or not; or take
    /// that mark off.
    MarkBalancers {
        /// UID of the Restore.
        restore: String,
        /// Names of those to mark.
        keep: BTreeSet<String>,
        /// Names of those whose mark goes.
        release: BTreeSet<String>,
    },
    /// Ask the tenant's API which tokens of service accounts Secrets hold.
    AskHeldTokens {
        /// Address of the Service.
        address: (IpAddr, u16),
    },
    /// Ask the tenant's API which nodes there are.
    AskNodes {
        /// Address of the Service.
        address: (IpAddr, u16),
    },
    /// Ask the tenant's API whom pods and nodes are told to believe it by.
    AskRoots {
        /// Address of the Service.
        address: (IpAddr, u16),
    },
    /// Read whom aggregated API servers believe, or write it.
    Aggregated {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// A field, and authorities in PEM, which is all that it is to name; none where it is only read.
        write: Option<(Field, String)>,
    },
    /// Write some of the objects inside again that etcd has under another key, or encrypted although they are not to be, or
    /// not although they are.
    Rewrite {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// Names of the members of etcd, and addresses of their Services.
        members: Vec<(String, IpAddr)>,
        /// The generation of the key that kube-apiservers write by.
        generation: u32,
        /// What they write encrypted, and what not.
        kinds: EncryptedKinds,
    },
    /// Issue certificates and keys, to be written by the next plan.
    Issue {
        /// All certificates that are wanted.
        wants: Vec<pki::Want>,
        /// Which of them, and which keys.
        due: certificates::Plan,
    },
    /// Ask the tenant's API.
    Probe {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// Where nodes and users reach the API, once that is known.
        endpoint: Option<EndpointStatus>,
        /// Where it is published: it is asked there too.
        published: Option<EndpointStatus>,
        /// Whether it has to show that it takes a write: it did not answer before.
        prove_write: bool,
        /// Objects to apply first, whatever is there: all, where nothing can be seen yet.
        apply: Vec<Object>,
        /// Where the objects inside are to be listed: those that are then read in full.
        list: Option<Vec<Key>>,
        /// Whether that list is not the last, because something is held back.
        provisional: bool,
        /// Workloads whose pods are to be counted.
        workloads: Vec<Key>,
        /// Whether it starts for the first time: then it is asked once somebody serves there.
        starts: bool,
    },
    /// Ask for a turn to be rolled out.
    AskForTurn {
        /// Who wants it.
        cause: Cause,
        /// Whether it is under way already.
        is_under_way: bool,
    },
    /// Ask the members of etcd what they are, and for alarms.
    AskEtcd {
        /// Names of the members, and addresses of their Services.
        members: Vec<(String, IpAddr)>,
        /// Whether etcd's list of its members has to be known, and whether members have the same data.
        list: bool,
    },
    /// One step of the replacement of a member of etcd.
    ReplaceMember {
        /// Names of the members, and addresses of their Services.
        members: Vec<(String, IpAddr)>,
        /// The step.
        step: Step,
    },
    /// One step towards an etcd that takes writes again.
    RelieveEtcd {
        /// Names of the members, and addresses of their Services.
        members: Vec<(String, IpAddr)>,
        /// The step.
        step: etcd_space::plan::Step,
    },
    /// Ask the tenant's API which resources fill etcd.
    AskLargest {
        /// Address of the Service.
        address: (IpAddr, u16),
    },
    /// Ask the tenant's API what speaks against an upgrade.
    AskPreflight {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// Addresses of the pods that serve; none where they are not known.
        servers: Vec<IpAddr>,
    },
    /// Write what differs inside the tenant cluster.
    ApplyTenantObjects {
        /// Address of the Service.
        address: (IpAddr, u16),
        /// What differs.
        changes: Changes,
    },
}
