//! From nothing to a node that joined.
//!
//! Invariant: the token is stored (with the user data) before it is valid and before anything boots
//! with it; it is valid for [`VALID`] at a time and for as long as the machine may join, and revoked
//! when it has; after that no copy of it is left in either cluster. What the provider is asked for is stored before
//! it is asked, and never changes.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Machine, Reason, names};
use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use kit_objects::object::Object;
use kube::ResourceExt;
use providers::State;
use serde_json::{Value, json};
use tenant_cp::flags::features;
use tenant_cp::node::bootstrap_token::{self, Token};
use tenant_cp::node::user_data::{self, AUTHORITY, USER_DATA};

use super::{Action, Plan, overlay};
use crate::controllers::machine::observed::{Node, Observed, Seen, Tenant, TokenSeen};

/// How long a token is valid at a time.
pub(super) const VALID: SignedDuration = SignedDuration::from_mins(30);
/// It is made valid for longer when less than this is left.
const REFRESH: SignedDuration = SignedDuration::from_mins(10);
/// When to look again where what is to be asked for was not looked up.
const UNASKED: Duration = Duration::from_secs(1);
/// When to look again for an address in the overlay, where there was none left.
const UNADDRESSED: Duration = Duration::from_secs(30);
/// Key of the Secret with the token's secret half: the user data cannot be read back.
pub(crate) const TOKEN: &str = "token-secret";

pub(super) fn plan(plan: &mut Plan, observed: &Observed, now: Timestamp) {
    let seen = match &observed.tenant {
        Tenant::Answers(seen) => seen,
        Tenant::Silent { message } => {
            plan.wait(
                Reason::WaitingForControlPlane,
                format!("its API does not answer: {message}"),
            );
            return;
        }
        // What is not known stays.
        Tenant::Postponed => return,
        Tenant::NotAsked => {
            let message = "its API has not answered since the operator started";
            plan.wait(Reason::WaitingForControlPlane, message);
            return;
        }
    };
    // A token that may stand somewhere is neither drawn anew nor left there.
    if let (Known::Unknown { why }, _) | (_, Known::Unknown { why }) =
        (observed.user_data.as_ref(), seen.token.as_ref())
    {
        plan.wait(Reason::TransientFailure, why);
        return;
    }
    let node = own_node(observed, seen).filter(|_| is_told(observed));
    match (node, observed.machine.adopts()) {
        (Some(node), _) => joined(plan, observed, seen, node),
        (None, None) => boot(plan, observed, seen, now),
        (None, Some(_)) => adopt(plan, observed, seen, now),
    }
}

/// A node that is taken over is there all the time; its machine has to be shown the way, too.
pub(super) fn is_told(observed: &Observed) -> bool {
    let vm = observed.own_vm();
    observed.machine.adopts().is_none() || vm.is_some_and(|vm| vm.state == State::Running)
}

/// A node that is to be taken over may be there, and its machine did not say yet whose it is.
pub(super) fn awaits_takeover(observed: &Observed) -> bool {
    let vm = observed.own_vm();
    observed.machine.adopts().is_some() && vm.is_none_or(|vm| vm.provider_id.is_none())
}

/// What is needed to take over the node that runs: no token, since it has joined.
fn adopt(plan: &mut Plan, observed: &Observed, seen: &Seen, now: Timestamp) {
    if observed.user_data.is_absent() {
        match adoption_data(observed, seen) {
            Ok(secret) => store(plan, observed, secret),
            Err(error) => {
                plan.wait(Reason::AuthorityUnreadable, error.to_string());
                return;
            }
        }
    }
    if observed.vm.is_absent() {
        ask(plan, observed, now);
    }
}

/// Makes the Secret with the user data, where a namesake that was forgotten has left its own in the place of that.
fn store(plan: &mut Plan, observed: &Observed, secret: Object) {
    if let Some(uid) = &observed.left_user_data {
        plan.actions
            .push(Action::DeleteUserData { uid: uid.clone() });
    }
    plan.actions.push(Action::CreateUserData(secret));
}

/// The Node of this very machine.
pub(super) fn own_node<'a>(observed: &Observed, seen: &'a Seen) -> Option<&'a Node> {
    let wanted = provider_id(observed)?;
    let is_adopted = observed.machine.adopts().is_some();
    let is_own = |node: &&Node| {
        // One that joined by itself is called nothing until it is taken over.
        node.provider_id == wanted || is_adopted && node.provider_id.is_empty()
    };
    seen.node.as_ref().filter(is_own)
}

/// What a node that is taken over is called: as it is already, since that never changes; where it is nothing, as its
/// provider says. None while the machine did not say whose it is, and of a node that has the name of another machine.
fn adopted_id(observed: &Observed) -> Option<&str> {
    let described = observed.own_vm()?.provider_id.as_deref()?;
    let node = observed.seen()?.node.as_ref()?;
    let (called, name) = (node.provider_id.as_str(), observed.machine.name_any());
    match called {
        "" => Some(described),
        called => names::is_static_provider_id_of(called, &name).then_some(called),
    }
}

/// What provider and node call the machine: as it is known from the start, else as it was recorded, else as the
/// provider says. None until it is known, and then no node is the machine's.
pub(super) fn provider_id(observed: &Observed) -> Option<&str> {
    let recorded = || observed.machine.status.as_ref()?.provider_id.as_deref();
    let described = || observed.own_vm()?.provider_id.as_deref();
    let known = observed.provider_id.as_deref();
    if observed.machine.adopts().is_some() {
        return recorded().or_else(|| adopted_id(observed));
    }
    known.or_else(recorded).or_else(described)
}

/// Makes what is needed to join, as far as it is missing.
fn boot(plan: &mut Plan, observed: &Observed, seen: &Seen, now: Timestamp) {
    let stored = observed.user_data.as_ref().there();
    let seen_token = seen.token.as_ref().there();
    let known = seen_token.map(|t: &TokenSeen| &t.token);
    let token = stored
        .and_then(|s| s.token.as_ref())
        .or(observed.drawn.as_ref())
        .or(known);
    let Some(token) = token else {
        plan.actions.push(Action::DrawToken);
        return;
    };
    if stored.is_none_or(|s| s.token.is_none()) {
        match user_data(observed, seen, token) {
            Ok(secret) => match stored {
                None => store(plan, observed, secret),
                Some(stored) => plan.actions.push(Action::ChangeUserData(json!({
                    "metadata": { "uid": stored.uid, "resourceVersion": stored.resource_version },
                    "data": secret.value["data"],
                }))),
            },
            Err(error) => {
                plan.wait(Reason::AuthorityUnreadable, error.to_string());
                return;
            }
        }
    }
    let left = |t: &TokenSeen| t.expires.map(|expires| expires.duration_since(now));
    let valid = seen_token.filter(|t| t.token == *token);
    let left = valid.and_then(left).unwrap_or_default();
    if left < REFRESH {
        let expires = whole_seconds(now.saturating_add(VALID).unwrap_or(now));
        let object = bootstrap_token::token_secret(token, expires, &observed.machine.name_any());
        plan.actions.push(Action::ApplyToken(object, expires));
    } else {
        let until = Duration::try_from(left - REFRESH).unwrap_or_default();
        plan.look_after(until + Duration::from_secs(1));
    }
    if observed.vm.is_absent() {
        ask(plan, observed, now);
    }
}

/// Asks for the machine, once the status has for what, and that it was.
fn ask(plan: &mut Plan, observed: &Observed, now: Timestamp) {
    if overlay::lacks_address(observed) {
        let message = "the range of the overlay has no address left for its node, which is known by that: its Host is \
                       claimed once another Machine gives one back";
        plan.wait(Reason::OverlayRangeFull, message);
        plan.look_after(UNADDRESSED);
        return;
    }
    let status = &mut plan.status;
    if status.request.is_none() {
        status.request.clone_from(&observed.request);
    }
    if status.request.is_none() {
        let message = "it is not known yet what to ask the provider for";
        plan.wait(Reason::TransientFailure, message);
        plan.look_after(UNASKED);
        return;
    }
    let stored = observed.machine.status.as_ref();
    let is_stored = stored.is_some_and(|stored| {
        stored.request == status.request
            && stored.creation_pending_since.is_some()
            // What the provider is asked with says by which address the node is to be known.
            && stored.overlay == status.overlay
    });
    status.creation_pending_since.get_or_insert(Time(now));
    // Stored before the first call. Were it written before each, a refusal would be told anew each time, and each
    // write asks for the next try.
    plan.asks = !is_stored;
    plan.actions.push(Action::CreateVm);
}

/// The node is there: gives it what it may not give itself, and takes the token away.
fn joined(plan: &mut Plan, observed: &Observed, seen: &Seen, node: &Node) {
    let machine = &observed.machine;
    let name = machine.name_any();
    if node.provider_id.is_empty()
        && let Some(called) = provider_id(observed)
    {
        plan.actions.push(Action::NameNode {
            uid: node.uid.clone(),
            provider_id: called.to_owned(),
        });
    }
    let missing: BTreeMap<_, _> = labels(machine)
        .into_iter()
        .filter(|(key, value)| node.labels.get(key) != Some(value))
        .collect();
    if !missing.is_empty() {
        plan.actions.push(Action::LabelNode(json!({
            "apiVersion": "v1",
            "kind": "Node",
            // With the UID, so that none is made where it has gone.
            "metadata": { "name": name, "uid": node.uid, "labels": labels(machine) },
        })));
    }
    if let Known::Known(token) = &seen.token {
        plan.actions.push(Action::RevokeToken {
            name: bootstrap_token::token_secret_name(&machine.uid().unwrap_or_default()),
            uid: token.uid.clone(),
        });
    }
    // KubeVirt reads the Secret whenever the virtual machine starts, so it stays, without content.
    let stored = observed.user_data.as_ref().there();
    if let Some(stored) = stored.filter(|s| s.token.is_some()) {
        plan.actions.push(Action::ChangeUserData(json!({
            "metadata": { "uid": stored.uid, "resourceVersion": stored.resource_version },
            "data": { USER_DATA: base64(user_data::blank_user_data()), TOKEN: null },
        })));
    }
    plan.status.node_name = Some(name.clone());
    let vm = observed.vm.as_ref().there();
    plan.status.instance = vm.and_then(|vm| vm.instance.clone());
    if plan.is_settled() {
        plan.publish(false, Reason::Joined, format!("node {name} joined"));
    } else {
        // Written once all of it is done: until then the machine has not joined.
        plan.status.node_name = None;
        plan.status.instance = None;
    }
}

/// Labels of the node that the operator sets: those that a kubelet may not set, and the pool's name.
fn labels(machine: &Machine) -> BTreeMap<String, String> {
    let spec = &machine.spec;
    let mut labels: BTreeMap<_, _> = spec
        .labels
        .iter()
        .filter(|(key, _)| !user_data::is_self_assignable(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    labels.insert(names::LABEL_NODE_POOL.to_owned(), spec.pool_name.clone());
    if spec.provider.kubevirt.is_none() {
        labels.insert(names::LABEL_ELSEWHERE.to_owned(), "true".to_owned());
    }
    labels
}

/// What the machine has besides its root disk.
fn disks(machine: &Machine) -> Vec<api::node_pool::Disk> {
    let kubevirt = machine.spec.provider.kubevirt.as_ref();
    kubevirt.map(|it| it.disks.clone()).unwrap_or_default()
}

/// What the tenant cluster switches, as far as the machine's own version knows of it.
fn feature_gates(
    machine: &Machine,
    cluster: Option<&api::TenantCluster>,
) -> BTreeMap<String, bool> {
    let version = tenant_cp::version::parse(&machine.spec.version).ok();
    match (version, cluster) {
        (Some(version), Some(cluster)) => {
            features::known_to(version.minor, &cluster.spec.control_plane.feature_gates)
        }
        _ => BTreeMap::new(),
    }
}

/// The Secret with the user data.
fn user_data(observed: &Observed, seen: &Seen, token: &Token) -> Result<Object, user_data::Error> {
    let machine = &observed.machine;
    let name = machine.name_any();
    let cluster = observed.cluster.as_ref();
    let of_machine = user_data::Machine {
        name,
        provider_id: observed.provider_id.clone(),
        labels: machine.spec.labels.clone(),
        taints: machine.spec.taints.iter().map(taint).collect(),
        ssh_authorized_keys: machine.spec.ssh_authorized_keys.clone(),
        kubelet: machine.spec.kubelet.clone(),
        feature_gates: feature_gates(machine, cluster),
        disks: disks(machine),
        nodes: cluster.map(|cluster| cluster.spec.nodes.clone()),
        cloud_provider_external: cluster.is_some_and(external_cloud_provider),
    };
    let is_told = machine.spec.provider.static_.is_some();
    let write = match is_told {
        true => user_data::session_data,
        false => user_data::user_data,
    };
    let data = write(&seen.endpoint, &seen.authority, token, &of_machine)?;
    let mut data =
        json!({ USER_DATA: base64(data.reveal()), TOKEN: base64(token.secret.reveal()) });
    if is_told {
        data[AUTHORITY] = base64(&user_data::authority_digest(&seen.authority));
    }
    Ok(secret_of(machine, &data))
}

/// The same of a machine whose node is taken over.
fn adoption_data(observed: &Observed, seen: &Seen) -> Result<Object, user_data::Error> {
    let data = user_data::adoption_data(&seen.endpoint, &seen.authority)?;
    let data = json!({
        USER_DATA: base64(&data),
        AUTHORITY: base64(&user_data::authority_digest(&seen.authority)),
    });
    Ok(secret_of(&observed.machine, &data))
}

fn secret_of(machine: &Machine, data: &Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": names::user_data_secret(&machine.name_any()),
            "namespace": machine.tenant_namespace(),
            "labels": machine.labels_of_parts(),
        },
        "type": "Opaque",
        "data": data,
    }))
}

fn taint(taint: &api::node_pool::Taint) -> k8s_openapi::api::core::v1::Taint {
    k8s_openapi::api::core::v1::Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    }
}

/// Whether a cloud controller initialises the tenant cluster's nodes.
fn external_cloud_provider(cluster: &api::TenantCluster) -> bool {
    cluster.spec.addons.cloud_controller.enabled
}

fn base64(text: &str) -> Value {
    json!(base64::engine::general_purpose::STANDARD.encode(text))
}

pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
