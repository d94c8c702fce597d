//! The pages of node pools, machines and hosts.
//!
//! Invariant: pure. What could not be read is said in its place.

use api::host::HostPhase;
use api::machine::MachinePhase;
use api::{ConditionType, Host, Machine, NodePool};
use insight::description::types::State;
use insight::text::shown;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use maud::{Markup, html};

use super::fields::input;
use super::layout::{Page, Viewer, form_token, page};
use super::parts::{ago, badge, conditions, details, link, reason, section, state_of, table};
use crate::access::{Access, Act};
use crate::form::{Filled, pool::REPLICAS};
use crate::kinds::Kind;
use crate::paths;

/// Rows of a list of machines.
const MOST_ROWS: usize = 200;

/// What the page of an object shows besides its own kind's facts.
#[derive(Debug)]
pub struct ObjectPage<'a> {
    /// The kind.
    pub kind: Kind,
    /// Name, namespace and age.
    pub metadata: &'a ObjectMeta,
    /// Its conditions.
    pub conditions: &'a [Condition],
    /// Its state in a word.
    pub state: (State, &'a str),
    /// Names and values.
    pub facts: Vec<(&'a str, Markup)>,
    /// What can be done with it.
    pub acts: Markup,
    /// Further sections: id, title, what stands in it.
    pub sections: Vec<(&'a str, &'a str, Markup)>,
    /// When all of it was read.
    pub now: Timestamp,
}

/// The page.
#[must_use]
pub fn object(
    viewer: Viewer<'_>,
    one: &ObjectPage<'_>,
    live: &str,
    notice: Option<&str>,
) -> String {
    let name = one.metadata.name.as_deref().unwrap_or_default();
    let namespace = one.metadata.namespace.as_deref().unwrap_or_default();
    let is_going = one.metadata.deletion_timestamp.is_some();
    let (state, word) = if is_going {
        (State::Waiting, "Deleting")
    } else {
        one.state
    };
    let body = html! {
        div #title data-live="" {
            h1 { (name) " " (badge(state, word)) }
            (details(&one.facts))
        }
        @if !viewer.is_read_only { div #acts data-live="" { (one.acts) } }
        @for (id, title, body) in &one.sections { (section(id, title, body)) }
        (section("conditions", "Conditions", &conditions(one.conditions, one.now)))
    };
    page(&Page {
        title: name,
        viewer: Some(viewer),
        at: Some(one.kind),
        namespace: Some(namespace),
        live: Some(live),
        notice,
        body,
    })
}

fn ready(all: &[Condition]) -> (State, &'static str) {
    let found = all
        .iter()
        .find(|c| c.type_ == ConditionType::Ready.as_str());
    match found.map(state_of) {
        Some(State::Ok) => (State::Ok, "Ready"),
        Some(State::Waiting) => (State::Waiting, "On its way"),
        Some(State::Off) => (State::Off, "At rest"),
        Some(State::Failing) => (State::Failing, "Not ready"),
        Some(State::Unknown) | None => (State::Unknown, "Not known"),
    }
}

/// The conditions of a status, if there is one.
fn all(conditions: Option<&Vec<Condition>>) -> &[Condition] {
    conditions.map_or(&[], Vec::as_slice)
}

fn age(metadata: &ObjectMeta, now: Timestamp) -> Markup {
    html! { @if let Some(at) = metadata.creation_timestamp.as_ref() { (ago(at.0, now)) } }
}

/// The form that changes how many machines a pool has, or why it cannot.
#[must_use]
pub fn scale(
    viewer: Viewer<'_>,
    pool: &NodePool,
    access: &Access,
    filled: Option<&Filled>,
) -> Markup {
    let (name, namespace) = (pool.name_any(), pool.namespace().unwrap_or_default());
    if let Some(by) = &pool.spec.autoscaling {
        return html! { p .why { "The autoscaler decides, between " (by.min) " and " (by.max) "." } };
    }
    if let Some(why) = access.refuses(Act::new("patch", "nodepools", Some(&name)), &namespace) {
        return html! { p .why { (why) } };
    }
    let action = paths::act(Kind::Pools.word(), &namespace, &name, "scale");
    let id = format!("scale-{name}");
    html! {
        form .inline method="post" action=(action) novalidate {
            (form_token(viewer))
            @match filled {
                Some(filled) => (input(&REPLICAS, filled)),
                None => {
                    label .hidden for=(id) { "Machines of " (name) }
                    input .number id=(id) name=(REPLICAS.name) type="number" min="0" max="1000" required value=(pool.spec.replicas) autocomplete="off";
                }
            }
            button type="submit" { "Scale" }
        }
    }
}

fn delete(kind: Kind, resource: &str, metadata: &ObjectMeta, access: &Access) -> Markup {
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    match access.refuses(Act::new("delete", resource, Some(name)), namespace) {
        None => {
            html! { a .button .danger href=(paths::act(kind.word(), namespace, name, "delete")) { "Delete…" } }
        }
        Some(why) => html! {
            span .off-button {
                button disabled aria-describedby="why-delete" { "Delete…" }
                span .why #why-delete { (why) }
            }
        },
    }
}

/// A node pool, with its machines or why they are not known.
#[must_use]
pub fn pool<'a>(
    viewer: Viewer<'_>,
    pool: &'a NodePool,
    of_it: Result<&[Machine], &str>,
    access: &Access,
    filled: Option<&Filled>,
    now: Timestamp,
) -> ObjectPage<'a> {
    let status = pool.status.as_ref();
    let (namespace, wanted) = (pool.namespace().unwrap_or_default(), pool.spec.replicas);
    let (ready_now, updated) = status.map_or((0, 0), |s| (s.ready_replicas, s.updated_replicas));
    let version = status
        .and_then(|s| s.version.as_deref())
        .unwrap_or_default();
    let facts = vec![
        ("Namespace", html! { (namespace) }),
        (
            "Tenant cluster",
            link(Kind::Clusters, &namespace, &pool.spec.cluster_name),
        ),
        (
            "Machines",
            html! { (ready_now) " of " (wanted) " ready, " (updated) " of the newest spec" },
        ),
        ("Version", html! { (shown(version)) }),
        ("Age", age(&pool.metadata, now)),
    ];
    let acts = html! {
        (scale(viewer, pool, access, filled))
        div .row { (delete(Kind::Pools, "nodepools", &pool.metadata, access)) }
    };
    let machines = match of_it {
        Ok([]) => html! { p .empty { "There are no machines." } },
        Ok(all) => machines(all, now),
        Err(why) => html! { p .empty { "They are not known: " (why) "." } },
    };
    let conditions = all(status.map(|s| &s.conditions));
    ObjectPage {
        kind: Kind::Pools,
        metadata: &pool.metadata,
        conditions,
        state: ready(conditions),
        facts,
        acts,
        sections: vec![("machines", "Machines", machines)],
        now,
    }
}

/// A machine.
#[must_use]
pub fn machine<'a>(machine: &'a Machine, access: &Access, now: Timestamp) -> ObjectPage<'a> {
    let (status, spec) = (machine.status.as_ref(), &machine.spec);
    let namespace = machine.namespace().unwrap_or_default();
    let phase = status.and_then(|s| s.phase).unwrap_or_default().as_str();
    let addresses = status.map(|s| s.addresses.as_slice()).unwrap_or_default();
    let addresses: Vec<_> = addresses.iter().map(|a| shown(&a.address)).collect();
    let node = status
        .and_then(|s| s.node_name.as_deref())
        .unwrap_or("none yet");
    let facts = vec![
        ("Namespace", html! { (namespace) }),
        (
            "Tenant cluster",
            link(Kind::Clusters, &namespace, &spec.cluster_name),
        ),
        ("Node pool", link(Kind::Pools, &namespace, &spec.pool_name)),
        ("Phase", html! { (phase) }),
        ("Node", html! { (shown(node)) }),
        ("Version", html! { (shown(&spec.version)) }),
        ("Addresses", html! { (addresses.join(", ")) }),
        ("Age", age(&machine.metadata, now)),
    ];
    let acts = html! {
        div .row { (delete(Kind::Machines, "machines", &machine.metadata, access)) }
    };
    let conditions = all(status.map(|s| &s.conditions));
    ObjectPage {
        kind: Kind::Machines,
        metadata: &machine.metadata,
        conditions,
        state: ready(conditions),
        facts,
        acts,
        sections: Vec::new(),
        now,
    }
}

/// A host.
#[must_use]
pub fn host(host: &Host, now: Timestamp) -> ObjectPage<'_> {
    let status = host.status.as_ref();
    let namespace = host.namespace().unwrap_or_default();
    let state = match status.and_then(|s| s.phase).unwrap_or_default() {
        HostPhase::Unverified => (State::Waiting, "Unverified"),
        HostPhase::Available => (State::Ok, "Available"),
        HostPhase::Claimed => (State::Waiting, "Claimed"),
        HostPhase::Joining => (State::Waiting, "Joining"),
        HostPhase::Joined => (State::Ok, "Joined"),
        HostPhase::Resetting => (State::Waiting, "Resetting"),
        HostPhase::Quarantined => (State::Failing, "Quarantined"),
        HostPhase::Adoptable => (State::Ok, "Adoptable"),
    };
    let mut facts = vec![
        ("Namespace", html! { (namespace) }),
        (
            "Address",
            html! { (shown(&host.spec.address)) ":" (host.spec.port) },
        ),
        ("Age", age(&host.metadata, now)),
    ];
    if let Some(claim) = status.and_then(|s| s.claim.as_ref()) {
        facts.push((
            "Machine",
            link(Kind::Machines, &namespace, &claim.machine_name),
        ));
    }
    if let Some(seen) = status.and_then(|s| s.facts.as_ref()) {
        let memory = serde_json::to_value(&seen.memory).unwrap_or_default();
        facts.push((
            "Hardware",
            html! { (shown(&seen.architecture)) ", " (seen.cpu) " cores, " (shown(memory.as_str().unwrap_or_default())) " of memory" },
        ));
        facts.push((
            "System",
            html! { (shown(&seen.os)) ", Linux " (shown(&seen.kernel)) },
        ));
    }
    if host.spec.maintenance {
        facts.push(("Maintenance", html! { "on: no machine is made of it" }));
    }
    ObjectPage {
        kind: Kind::Hosts,
        metadata: &host.metadata,
        conditions: all(status.map(|s| &s.conditions)),
        state,
        facts,
        acts: html! {},
        sections: Vec::new(),
        now,
    }
}

/// A table of machines, those first that are not as they should be.
#[must_use]
pub fn machines(all: &[Machine], now: Timestamp) -> Markup {
    let mut all: Vec<_> = all.iter().map(|machine| (of(machine), machine)).collect();
    all.sort_by_key(|((state, _), machine)| (std::cmp::Reverse(*state), machine.name_any()));
    let rows: Vec<_> = all
        .iter()
        .take(MOST_ROWS)
        .map(|((state, phase), machine)| {
            let namespace = machine.namespace().unwrap_or_default();
            let status = machine.status.as_ref();
            let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
            let told = conditions.iter().find(|c| c.type_ == ConditionType::Ready.as_str());
            vec![
                link(Kind::Machines, &namespace, &machine.name_any()),
                badge(*state, phase),
                html! { (shown(&machine.spec.pool_name)) },
                html! { (shown(&machine.spec.version)) },
                html! { @if let Some(c) = told && *state != State::Ok { (reason(&c.reason)) ": " (super::parts::said(state_of(c), c)) } },
                html! { @if let Some(at) = machine.metadata.creation_timestamp.as_ref() { (ago(at.0, now)) } },
            ]
        })
        .collect();
    html! {
        (table("Machines", &["Machine", "State", "Pool", "Version", "What it says", "Age"], &rows))
        @if all.len() > MOST_ROWS { p .hint { (MOST_ROWS) " of " (all.len()) "." } }
    }
}

/// The state of a machine, and its phase.
fn of(machine: &Machine) -> (State, &'static str) {
    let status = machine.status.as_ref();
    let phase = status.and_then(|status| status.phase).unwrap_or_default();
    let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
    let is_ready = ready(conditions).0 == State::Ok;
    let state = match phase {
        _ if machine.metadata.deletion_timestamp.is_some() => State::Waiting,
        MachinePhase::Failed => State::Failing,
        MachinePhase::Running if is_ready => State::Ok,
        MachinePhase::Running => State::Failing,
        MachinePhase::Pending
        | MachinePhase::Creating
        | MachinePhase::Booting
        | MachinePhase::Joining
        | MachinePhase::Draining
        | MachinePhase::Deleting => State::Waiting,
    };
    (state, phase.as_str())
}
