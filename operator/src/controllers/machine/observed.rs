//! What one reconcile of a Machine saw: a plain value, so that a plan can be tested on any world.
//!
//! Invariant: nothing here is fetched lazily, and what the tenant's API said is reduced to typed,
//! bounded data.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::machine::MachineRequest;
use api::machine_addresses::{PublishedAddresses, RemoteMachine};
use api::tenant_cluster::EndpointStatus;
use api::{Machine, TenantCluster};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kit_objects::known::Known;
use providers::{Capabilities, Description};
use tenant_cp::node::bootstrap_token::Token;

use crate::creations::Outcome;
use crate::overlay::allotments::Allotment;
use crate::tenant_session::budget::Budget;

/// Everything that a plan may depend on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Machine, read just now.
    pub machine: Machine,
    /// The TenantCluster that it was made for, as last seen; none when that is gone.
    pub cluster: Option<TenantCluster>,
    /// Whether that cluster's tenant namespace is there. Only asked where the cluster is gone or going.
    pub namespace: Known<()>,
    /// What its provider can do.
    pub capabilities: Capabilities,
    /// What provider and node call the machine, where that is known before it is made.
    pub provider_id: Option<String>,
    /// What its provider would be asked for today; only where nothing is stored, nothing is there and it may be asked.
    pub request: Option<MachineRequest>,
    /// What became of the creations that were asked for.
    pub creations: Outcome,
    /// The virtual machine; absent only where that is proven, when neither it nor an instance of it is there.
    pub vm: Known<Description>,
    /// Its addresses, as they are published for whoever maps traffic onto it.
    pub published: Option<PublishedAddresses>,
    /// What is published of it for the cloud controller manager, where that does not read the machine itself.
    pub remote: Option<RemoteMachine>,
    /// Addresses of other Machines of the tenant cluster that were made before it, with their names; asked for only
    /// where its kubelet wants a certificate.
    pub others: Vec<(IpAddr, String)>,
    /// What it may have in the overlay of its tenant cluster; none where there is none.
    pub overlay: Option<Allotment>,
    /// The Secret with the user data. Not known once the machine has joined, until it goes.
    pub user_data: Known<UserData>,
    /// UID of the Secret of that name that a namesake has left which was forgotten without its finalizer.
    pub left_user_data: Option<String>,
    /// A token that was drawn in this reconcile and is stored nowhere yet.
    pub drawn: Option<Token>,
    /// What the tenant's API said.
    pub tenant: Tenant,
    /// The image of the pod that tells its kubelet in place.
    pub renewal_image: String,
    /// Pods were asked to leave in this reconcile.
    pub evicted: bool,
    /// What this reconcile may still ask of the tenant's API.
    pub budget: Budget,
}

/// The Secret that the virtual machine boots with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UserData {
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// The token in it; none once it was blanked.
    pub token: Option<Token>,
}

/// What the tenant's API said.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tenant {
    /// It was not asked: it has not answered since this operator runs, or there was no need to.
    #[default]
    NotAsked,
    /// It is to be asked later, when other tenants that are slow are done with: nothing is known.
    Postponed,
    /// It did not answer.
    Silent {
        /// Why, for people.
        message: String,
    },
    /// It answered.
    Answers(Box<Seen>),
}

/// What is there of the machine in its tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Where nodes reach the API.
    pub endpoint: EndpointStatus,
    /// The certificates of the tenant's authority, PEM.
    pub authority: String,
    /// The Node with the machine's name.
    pub node: Option<Node>,
    /// The machine's bootstrap token. Not known once it was revoked.
    pub token: Known<TokenSeen>,
    /// Requests for a serving certificate that its kubelet made and nobody decided yet.
    pub requests: Vec<CertificateSigningRequest>,
    /// Pods on the node; only known while it is drained.
    pub pods: Known<Vec<Pod>>,
    /// What is there of telling its kubelet in place. Not known where nobody asks for that.
    pub renewal: Known<RenewalSeen>,
}

/// What is there of telling a kubelet in place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RenewalSeen {
    /// The pod that does so.
    pub pod: Option<RenewalPod>,
    /// UID of the Secret with what it writes, and of which try that is.
    pub secret: Option<(String, String)>,
    /// The certificate that was signed for the request of this try, PEM.
    pub signed: Option<String>,
    /// Why the API of the tenant cluster refused the pod in this reconcile.
    pub refused: Option<String>,
}

/// The pod that tells a kubelet in place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RenewalPod {
    /// Its UID.
    pub uid: String,
    /// Of which try it is: when that was begun.
    pub begun: String,
    /// How it ended; none while it did not.
    pub succeeded: Option<bool>,
    /// What it said, or why it does not run, cut short.
    pub message: String,
    /// It is being deleted.
    pub going: bool,
}

/// A Node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// Its UID.
    pub uid: String,
    /// `spec.providerID`.
    pub provider_id: String,
    /// The public key that it says it has in the overlay; none where it says none, or no key.
    pub overlay_key: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Nothing new is scheduled there.
    pub unschedulable: bool,
    /// Load balancers send nothing there.
    pub excluded: bool,
    /// Somebody has proven that nothing runs there any more (KEP-2268).
    pub out_of_service: bool,
    /// The condition Ready; none while nobody knows.
    pub ready: Option<bool>,
    /// Why it is not ready, in the kubelet's words, cut short.
    pub message: String,
    /// The attach-detach controller has volumes attached to it.
    pub volumes_attached: bool,
}

/// A bootstrap token in the tenant cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenSeen {
    /// UID of its Secret.
    pub uid: String,
    /// Until when it is valid.
    pub expires: Option<Timestamp>,
    /// The token.
    pub token: Token,
}

/// A pod that may have to leave.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// It is being deleted.
    pub going: bool,
}

impl Observed {
    /// What the tenant's API said, where it answered.
    #[must_use]
    pub fn seen(&self) -> Option<&Seen> {
        match &self.tenant {
            Tenant::Answers(seen) => Some(seen),
            Tenant::NotAsked | Tenant::Postponed | Tenant::Silent { .. } => None,
        }
    }

    /// The same, to take in what was written.
    pub fn seen_mut(&mut self) -> Option<&mut Seen> {
        match &mut self.tenant {
            Tenant::Answers(seen) => Some(seen),
            Tenant::NotAsked | Tenant::Postponed | Tenant::Silent { .. } => None,
        }
    }

    /// Whether somebody asked for the Machine to go.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.machine.metadata.deletion_timestamp.is_some()
    }

    /// Whether its node joined at some time.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        let status = self.machine.status.as_ref();
        status.is_some_and(|s| s.node_name.is_some())
    }

    /// The virtual machine that is this machine's, where that is known.
    #[must_use]
    pub fn own_vm(&self) -> Option<&Description> {
        self.vm.as_ref().there().filter(|vm| !vm.foreign)
    }

    /// The cluster, where it is there and stays.
    #[must_use]
    pub fn home(&self) -> Option<&TenantCluster> {
        let stays = |c: &&TenantCluster| c.metadata.deletion_timestamp.is_none();
        self.cluster.as_ref().filter(stays)
    }
}
