//! A simulated provider and tenant cluster around one Machine.
//!
//! Invariant: what is observed is what [`super::super::observe`] would read, no more; and nothing of
//! it changes but by an action, or because a test says that it happens. Long because every action of a plan is carried
//! out in one place.

use api::machine::{MachinePhase, MachineRequest};
use api::machine_addresses::{PublishedAddresses, RemoteMachine, RemoteState};
use api::names::ANNOTATION_RENEWAL as RENEWAL;
use api::tenant_cluster::EndpointStatus;
use api::{Machine, MachineStatus, TenantCluster, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use kube::ResourceExt;
use providers::{Capabilities, Description};
use serde_json::{Value, json};
use tenant_cp::node::bootstrap_token::{Token, read_token};

use crate::controllers::machine::observed::{
    Node, Observed, Pod, RenewalPod, RenewalSeen, Seen, Tenant, TokenSeen, UserData,
};
use crate::controllers::machine::plan::{Action, Plan, is_to_be_renewed, plan};
use crate::controllers::stored::{keep_their_times, stored};
use crate::creations::Creations;
use crate::overlay::allotments::Allotment;
use crate::tenant_session::budget::Budget;

mod platform;
pub(super) use platform::Creation;

const CLUSTER: &str = "c1a1b2c3-1111-4222-8333-444455556666";
pub(super) const NAME: &str = "workers-x2k9p";

/// How the tenant's API behaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Api {
    Up,
    Silent,
    NotAsked,
    Postponed,
}

/// A world that does what it is told.
#[derive(Clone)]
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) cluster: Option<TenantCluster>,
    pub(super) namespace: bool,
    pub(super) capabilities: Capabilities,
    pub(super) provider_id: Option<String>,
    pub(super) vm: Option<Description>,
    pub(super) published: Option<PublishedAddresses>,
    pub(super) others: Vec<(std::net::IpAddr, String)>,
    /// What it may have in the overlay.
    pub(super) overlay: Option<Allotment>,
    /// What the cloud controller manager can read of it.
    pub(super) remote: Option<RemoteMachine>,
    /// How far it was told that it is, one after the other.
    pub(super) told_states: Vec<RemoteState>,
    pub(super) user_data: Option<UserData>,
    /// UID of what a namesake left in its place.
    pub(super) left_user_data: Option<String>,
    pub(super) node: Option<Node>,
    pub(super) token: Option<TokenSeen>,
    pub(super) requests: Vec<Value>,
    /// What there is of telling its kubelet in place.
    pub(super) renewal: RenewalSeen,
    /// Admission in the tenant cluster refuses its pod.
    pub(super) refuses_pods: bool,
    /// Pods that were made to tell it.
    pub(super) pods_made: usize,
    pub(super) pods: Vec<Pod>,
    /// Pods that a disruption budget protects.
    pub(super) protected: bool,
    pub(super) api: Api,
    pub(super) now: Timestamp,
    pub(super) writes: usize,
    pub(super) status_writes: usize,
    pub(super) vms_made: usize,
    /// How often it was started anew.
    pub(super) restarted: usize,
    /// What its provider would be asked for today.
    pub(super) request: MachineRequest,
    pub(super) creation: Creation,
    /// When a creation that was not answered is done, at the latest possible time.
    pub(super) under_way: Option<Timestamp>,
    /// What is under way was answered, and nobody finds it yet.
    pub(super) lags: bool,
    /// What this process knows of its creations.
    pub(super) creations: Creations,
    /// What was asked for, by the status as it was stored.
    pub(super) asked: Vec<MachineRequest>,
    /// What the virtual machine was given.
    booted_with: Option<Token>,
    pub(super) drawn: u8,
    pub(super) decided: Vec<(String, bool)>,
    pub(super) events: Vec<&'static str>,
    pub(super) gone: bool,
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn authority() -> &'static str {
    static PEM: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    PEM.get_or_init(|| {
        let want = pki::Want {
            signer: pki::Signer::Own,
            ..tenant_cp::certificates::super_admin()
        };
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        pki::issue(&want, None, now).unwrap().certificate
    })
}

fn machine() -> Machine {
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": {
            "name": NAME, "namespace": "users", "uid": "0a1b2c3d-1111-4222-8333-444455556666",
            "generation": 1, "resourceVersion": "1", "finalizers": [names::FINALIZER_MACHINE],
            "creationTimestamp": "2026-11-21T12:00:00Z",
        },
        "spec": {
            "clusterName": "demo", "clusterUID": CLUSTER, "poolName": "workers",
            "version": "1.35.4", "provider": { "kubevirt": {} },
            "labels": { "tier": "gold", "node-role.kubernetes.io/worker": "" },
        },
    }))
}

impl World {
    pub(super) fn new() -> Self {
        let cluster = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "namespace": "users", "uid": CLUSTER },
            "spec": { "version": "1.35.4" },
            "status": { "version": "1.35.4", "conditions": [{
                "type": "Ready", "status": "True", "reason": "Answering", "message": "",
                "lastTransitionTime": "2026-11-21T10:00:00Z",
            }] },
        });
        Self {
            machine: machine(),
            cluster: Some(read(cluster)),
            namespace: true,
            capabilities: provider_kubevirt::provider::CAPABILITIES,
            provider_id: Some(format!("kubevirt://{NAME}")),
            vm: None,
            published: None,
            others: Vec::new(),
            overlay: None,
            remote: None,
            told_states: Vec::new(),
            user_data: None,
            left_user_data: None,
            node: None,
            token: None,
            requests: Vec::new(),
            renewal: RenewalSeen::default(),
            refuses_pods: false,
            pods_made: 0,
            pods: Vec::new(),
            protected: false,
            api: Api::Up,
            // Within a second, as clocks are: what is stored of it is the second alone.
            now: "2026-11-21T12:00:00.7Z".parse().unwrap(),
            writes: 0,
            status_writes: 0,
            vms_made: 0,
            restarted: 0,
            request: MachineRequest {
                image: "registry.example.com/worker:v1.35.4".into(),
                ..MachineRequest::default()
            },
            creation: Creation::Answered,
            under_way: None,
            lags: false,
            creations: Creations::default(),
            asked: Vec::new(),
            booted_with: None,
            drawn: 0,
            decided: Vec::new(),
            events: Vec::new(),
            gone: false,
        }
    }

    /// With its node ready.
    pub(super) fn running() -> Self {
        let mut world = Self::new();
        world.comes_up();
        world
    }

    /// From wherever it is to a node that is ready.
    pub(super) fn comes_up(&mut self) {
        self.settle();
        self.vm_runs();
        self.settle();
        self.node_joins();
        self.settle();
        self.node_is(Some(true));
        self.settle();
        assert_eq!(
            self.phase(),
            MachinePhase::Running,
            "{:#?}",
            self.machine.status
        );
    }

    pub(super) fn observe(&self) -> Observed {
        let joined = self
            .machine
            .status
            .as_ref()
            .is_some_and(|s| s.node_name.is_some());
        let going = self.machine.metadata.deletion_timestamp.is_some();
        let deep = !joined || going;
        let status = self.machine.status.as_ref();
        let is_begun = status.is_some_and(|status| status.renewal.is_some());
        let is_asked = |cluster: &TenantCluster| is_to_be_renewed(&self.machine, cluster);
        let renews = !going && joined && (is_begun || self.cluster.as_ref().is_some_and(is_asked));
        let tenant = match self.api {
            Api::Up => Tenant::Answers(Box::new(Seen {
                endpoint: EndpointStatus {
                    host: "192.0.2.7".into(),
                    port: 6443,
                },
                authority: authority().to_owned(),
                node: self.node.clone(),
                token: match deep || renews {
                    true => Known::found(self.token.clone()),
                    false => Known::default(),
                },
                requests: self.requests.iter().cloned().map(read).collect(),
                pods: match going {
                    true => Known::Known(self.pods.clone()),
                    false => Known::default(),
                },
                renewal: match renews {
                    true => Known::Known(self.renewal.clone()),
                    false => Known::default(),
                },
            })),
            Api::Silent => Tenant::Silent {
                message: "connection refused".into(),
            },
            Api::NotAsked => Tenant::NotAsked,
            Api::Postponed => Tenant::Postponed,
        };
        Observed {
            machine: self.machine.clone(),
            cluster: self.cluster.clone(),
            namespace: Known::found(self.namespace.then_some(())),
            capabilities: self.capabilities,
            provider_id: self.provider_id.clone(),
            request: {
                let status = self.machine.status.as_ref();
                let stored = status.and_then(|s| s.request.as_ref());
                let asks = !joined && !going && stored.is_none() && self.vm.is_none();
                asks.then(|| self.request.clone())
            },
            creations: self.creations.outcome(NAME, self.now),
            vm: match self.lags {
                true => Known::Unknown {
                    why: "it was made, and is not found yet",
                },
                false => Known::found(self.vm.clone()),
            },
            published: self.published.clone(),
            remote: self.remote.clone(),
            others: self.others.clone(),
            overlay: self.overlay.clone().filter(|_| !going),
            user_data: match deep {
                true => Known::found(self.user_data.clone()),
                false => Known::default(),
            },
            left_user_data: self.left_user_data.clone().filter(|_| deep),
            drawn: None,
            renewal_image: "registry.example.com/link-node:1".into(),
            tenant,
            evicted: false,
            budget: Budget::default(),
        }
    }

    fn spend(&mut self, budget: &mut usize) -> bool {
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        self.writes += 1;
        true
    }

    /// Carries actions out, at most `budget` writes of them; false when it was cut off, or one of them failed.
    pub(super) fn carry_out(
        &mut self,
        plan: &Plan,
        seen: &mut Observed,
        budget: &mut usize,
    ) -> bool {
        for action in &plan.actions {
            if *action != Action::DrawToken && !self.spend(budget) {
                return false;
            }
            if !self.act(action, seen) {
                return false;
            }
        }
        self.events.extend(plan.events.iter().map(|e| e.reason));
        let (drawn, evicted) = (seen.drawn.clone(), seen.evicted);
        let renewal = seen.seen().map(|seen| seen.renewal.clone());
        let refused = renewal.and_then(|renewal| renewal.there()?.refused);
        *seen = Observed {
            drawn,
            evicted,
            ..self.observe()
        };
        if let Some(found) = seen
            .seen_mut()
            .and_then(|seen| seen.renewal.as_mut().there())
        {
            found.refused = refused;
        }
        true
    }

    /// False when it failed.
    fn act(&mut self, action: &Action, seen: &mut Observed) -> bool {
        let inside = matches!(
            action,
            Action::ApplyToken(..)
                | Action::RevokeToken { .. }
                | Action::StoreRenewal(_)
                | Action::StartRenewal(_)
                | Action::EndRenewal { .. }
                | Action::DeleteRenewal { .. }
                | Action::LabelNode(_)
                | Action::Decide { .. }
                | Action::Cordon { .. }
                | Action::Exclude { .. }
                | Action::Evict(_)
                | Action::End(_)
                | Action::DeleteNode { .. }
        );
        assert!(
            !inside || self.api == Api::Up,
            "{action:?} while the API is {:?}",
            self.api
        );
        match action {
            Action::AddFinalizer => {
                self.machine.metadata.finalizers = Some(vec![names::FINALIZER_MACHINE.into()]);
            }
            Action::RemoveFinalizer => {
                let taken_along = self.capabilities.goes_with_namespace && seen.home().is_none();
                let foreign = self.vm.as_ref().is_some_and(|vm| vm.foreign);
                assert!(
                    self.vm.is_none() || foreign || taken_along && !self.namespace,
                    "left behind"
                );
                assert!(self.under_way.is_none() || taken_along, "appears later");
                self.gone = true;
            }
            Action::DeleteSelf => self.delete(),
            Action::DrawToken => {
                self.drawn += 1;
                let uid = self.machine.uid().unwrap();
                seen.drawn = Some(Token::from_random(&[self.drawn; 16], &uid));
            }
            Action::CreateUserData(object) => {
                assert!(self.user_data.is_none());
                assert!(self.left_user_data.is_none(), "Conflict for ever");
                self.store(&object.value["data"]);
            }
            Action::ChangeUserData(patch) => {
                assert!(self.user_data.is_some());
                self.store(&patch["data"]);
            }
            Action::DeleteUserData { uid } if self.left_user_data.as_ref() == Some(uid) => {
                self.left_user_data = None;
            }
            Action::DeleteUserData { .. } => self.user_data = None,
            Action::NameNode { provider_id, .. } => {
                let node = self.node.as_mut().unwrap();
                assert_eq!(node.provider_id, "", "a name is for good");
                node.provider_id.clone_from(provider_id);
            }
            Action::CreateVm if self.machine.adopts().is_some() => {
                assert!(self.user_data.is_some() && self.drawn == 0);
                return self.create();
            }
            Action::CreateVm => {
                let stored = self.user_data.as_ref().and_then(|s| s.token.as_ref());
                let valid = self.token.as_ref().map(|t| &t.token);
                assert!(
                    stored.is_some() && stored == valid,
                    "boots without a valid token"
                );
                assert!(self.vm.is_none(), "a second virtual machine");
                self.booted_with = stored.cloned();
                return self.create();
            }
            Action::LabelVm(topology) => {
                self.vm.as_mut().unwrap().labelled = topology.clone();
            }
            Action::PublishAddresses(addresses) => self.published.clone_from(addresses),
            Action::PublishMachine(remote) => {
                let state = remote.as_ref().map(|remote| remote.state);
                assert!(
                    state != Some(RemoteState::Gone) || self.vm.is_none() && !self.lags,
                    "told to be gone without proof"
                );
                self.told_states.extend(state);
                self.remote.clone_from(remote);
            }
            Action::RestartVm => {
                assert!(self.capabilities.restarts && self.node.is_none());
                let status = self.machine.status.as_ref();
                let told = status.and_then(|status| status.restarts.as_ref());
                assert!(
                    told.is_some_and(|it| it.last == stored(&Time(self.now))),
                    "nobody would know"
                );
                self.restarted += 1;
            }
            Action::DeleteVm => self.vm.as_mut().unwrap().deleting = true,
            Action::ApplyToken(object, expires) => {
                self.token = Some(TokenSeen {
                    uid: "uid-of-token".into(),
                    expires: Some(*expires),
                    token: read_token(&object.value, NAME).unwrap(),
                });
            }
            Action::RevokeToken { .. } => self.token = None,
            Action::StoreRenewal(object) => {
                let begun = self.begun();
                assert_eq!(
                    object.value["metadata"]["annotations"][RENEWAL],
                    begun.as_str()
                );
                self.renewal.secret = Some(("uid-of-secret".into(), begun));
            }
            Action::StartRenewal(object) => {
                let begun = self.begun();
                assert_eq!(
                    object.value["metadata"]["annotations"][RENEWAL],
                    begun.as_str()
                );
                assert!(self.renewal.pod.is_none(), "two pods on one node");
                assert!(self.renewal.secret.is_some() && self.token.is_some());
                if self.refuses_pods {
                    let found = seen
                        .seen_mut()
                        .and_then(|seen| seen.renewal.as_mut().there());
                    found.unwrap().refused = Some("no privileged pods".into());
                    return true;
                }
                self.pods_made += 1;
                self.renewal.pod = Some(RenewalPod {
                    uid: format!("uid-of-pod-{}", self.pods_made),
                    begun,
                    ..RenewalPod::default()
                });
            }
            Action::EndRenewal { uid } => {
                let pod = self.renewal.pod.take();
                assert_eq!(pod.map(|pod| pod.uid).as_ref(), Some(uid));
            }
            Action::DeleteRenewal { .. } => self.renewal.secret = None,
            Action::LabelNode(patch) => {
                let node = self.node.as_mut().unwrap();
                assert_eq!(patch["metadata"]["uid"], node.uid.as_str());
                let labels = patch["metadata"]["labels"].clone();
                node.labels
                    .extend(read::<std::collections::BTreeMap<_, _>>(labels));
            }
            Action::Decide { name, denied } => {
                self.requests
                    .retain(|r| r["metadata"]["name"] != name.as_str());
                self.decided.push((name.clone(), denied.is_none()));
            }
            Action::Cordon { .. } => self.node.as_mut().unwrap().unschedulable = true,
            Action::Evict(pods) => {
                seen.evicted = true;
                let evicted = |p: &Pod| pods.iter().any(|e| e.uid == p.uid) && !self.protected;
                for pod in self.pods.iter_mut().filter(|p| evicted(p)) {
                    pod.going = true;
                }
            }
            Action::Exclude { .. } => self.node.as_mut().unwrap().excluded = true,
            Action::End(pods) => {
                assert!(self.vm.is_none(), "ends pods that may run");
                seen.evicted = true;
                self.pods.retain(|p| pods.iter().all(|e| e.uid != p.uid));
            }
            Action::DeleteNode { uid } => {
                assert_eq!(self.node.as_ref().map(|n| &n.uid), Some(uid));
                self.node = None;
            }
        }
        true
    }

    /// Which try the status has: it is there before anything of it is made.
    fn begun(&self) -> String {
        let status = self.machine.status.as_ref();
        let renewal = status.and_then(|status| status.renewal.as_ref());
        renewal.expect("a try is stored first").begun.0.to_string()
    }

    fn store(&mut self, data: &Value) {
        let key = crate::controllers::machine::plan::TOKEN;
        let token = data.get(key).and_then(Value::as_str).map(|text| {
            use base64::Engine as _;
            let secret = base64::engine::general_purpose::STANDARD
                .decode(text)
                .unwrap();
            Token {
                id: tenant_cp::node::bootstrap_token::token_id(&self.machine.uid().unwrap()),
                secret: pki::Key::new(String::from_utf8(secret).unwrap()),
            }
        });
        self.user_data = Some(UserData {
            uid: "uid-of-user-data".into(),
            resource_version: "1".into(),
            token,
        });
    }

    /// One reconcile; false when it was cut off, or failed.
    pub(super) fn reconcile(&mut self, budget: &mut usize) -> bool {
        let mut seen = self.observe();
        for _ in 0..crate::controllers::machine::MAX_STEPS {
            let plan = plan(&seen, self.now);
            let before = self.machine.status.as_ref();
            let before = before.map(|before| &before.conditions);
            keep_their_times(before, &plan.status.conditions);
            let changed = self.machine.status.as_ref() != Some(&plan.status);
            if (plan.is_settled() || plan.reports_first()) && changed {
                if !self.spend(budget) {
                    return false;
                }
                self.status_writes += 1;
                let pending = |status: &MachineStatus| status.creation_pending_since.is_some();
                let before = self.machine.status.as_ref();
                let begins = pending(&plan.status) && !before.is_some_and(pending);
                if begins {
                    self.creations.begins(NAME);
                }
                self.machine.status = Some(stored(&plan.status));
                seen.machine.status = Some(stored(&plan.status));
            }
            if plan.is_settled() {
                self.events.extend(plan.events.iter().map(|e| e.reason));
                return true;
            }
            if !self.carry_out(&plan, &mut seen, budget) {
                return false;
            }
            if self.gone || plan.actions.contains(&Action::DeleteSelf) {
                return true;
            }
        }
        panic!(
            "a plan does not come to an end: {:#?}",
            plan(&seen, self.now)
        );
    }

    /// A reconcile that nothing cuts off; it fails where the provider does.
    pub(super) fn settle(&mut self) {
        let done = self.reconcile(&mut usize::MAX.clone());
        assert!(done || self.creation != Creation::Answered);
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observe(), self.now)
    }

    pub(super) fn delete(&mut self) {
        let now = Time(self.now);
        self.machine.metadata.deletion_timestamp.get_or_insert(now);
    }

    pub(super) fn phase(&self) -> MachinePhase {
        let status = self.machine.status.as_ref();
        status.and_then(|s| s.phase).unwrap_or_default()
    }

    /// Status and reason.
    pub(super) fn condition(&self, type_: &str) -> (String, String) {
        let status = self.machine.status.as_ref().unwrap();
        let found = status.conditions.iter().find(|c| c.type_ == type_);
        found
            .map(|c| (c.status.clone(), c.reason.clone()))
            .unwrap_or_default()
    }

    pub(super) fn told(&self, reason: &str) -> usize {
        self.events.iter().filter(|e| **e == reason).count()
    }
}
