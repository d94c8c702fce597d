//! The page of a tenant cluster: what is wrong with it first, then all of it.
//!
//! Invariant: pure. What could not be read is said in its place, and lists that are cut say so.
//! Long because it is one page, section by section.

use api::{AccessGrant, Machine, NodePool, Restore, Snapshot, TenantCluster};
use insight::description::told;
use insight::description::types::{Description, State};
use insight::facts::Facts;
use insight::finding::{Finding, Level};
use insight::text::shown;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit_objects::known::Known;
use kube::ResourceExt as _;
use maud::{Markup, html};

use super::layout::{Page, Viewer, form_token, page};
use super::object::{machines, scale};
use super::parts::{
    ago, badge, bytes, code, conditions, details, link, reason, section, table, word,
};
use crate::access::{Access, Act};
use crate::kinds::Kind;
use crate::paths;

/// Findings that are shown.
const MOST_FINDINGS: usize = 30;
/// Rows of each list on the page.
const MOST_ROWS: usize = 100;
/// Events that are shown.
const MOST_EVENTS: usize = 40;

/// Everything that the page shows.
#[derive(Debug)]
pub struct ClusterPage<'a> {
    /// The tenant cluster.
    pub cluster: &'a TenantCluster,
    /// Its tree.
    pub description: &'a Description,
    /// What is wrong, the cause first.
    pub findings: &'a [Finding],
    /// Its pools.
    pub pools: &'a Known<Vec<NodePool>>,
    /// Its machines.
    pub machines: &'a Known<Vec<Machine>>,
    /// Its snapshots.
    pub snapshots: &'a Known<Vec<Snapshot>>,
    /// Its restores.
    pub restores: &'a Known<Vec<Restore>>,
    /// Who was let into it.
    pub grants: &'a Known<Vec<AccessGrant>>,
    /// Its Events.
    pub events: &'a Known<Vec<Event>>,
    /// What the user may do.
    pub access: &'a Access,
    /// When all of it was read.
    pub now: Timestamp,
}

impl<'a> ClusterPage<'a> {
    /// Of what was read, and what was made of that: its tree, and what is wrong.
    #[must_use]
    pub fn new(
        cluster: &'a TenantCluster,
        (facts, events): (&'a Facts, &'a Known<Vec<Event>>),
        (description, findings): (&'a Description, &'a [Finding]),
        access: &'a Access,
    ) -> Self {
        Self {
            cluster,
            description,
            findings,
            pools: &facts.pools,
            machines: &facts.machines,
            snapshots: &facts.snapshots,
            restores: &facts.restores,
            grants: &facts.grants,
            events,
            access,
            now: facts.now,
        }
    }
}

/// The page.
#[must_use]
pub fn cluster(
    viewer: Viewer<'_>,
    one: &ClusterPage<'_>,
    live: &str,
    notice: Option<&str>,
) -> String {
    let Description {
        name, namespace, ..
    } = one.description;
    let body = html! {
        div #title data-live="" { (title(one)) }
        @if !viewer.is_read_only { div #acts data-live="" { (acts(viewer, one)) } }
        (section("findings", "What is wrong", &findings(one)))
        (section("parts", "Parts", &parts(one)))
        (section("pools", "Node pools", &pools(viewer, one)))
        (section("machines", "Machines", &listed(one.machines, "machines", |all| machines(all, one.now))))
        (section("backups", "Backups", &backups(one)))
        (section("grants", "Access", &listed(one.grants, "accessgrants", |all| grants(all, one.now))))
        (section("conditions", "Conditions", &conditions(status_conditions(one.cluster), one.now)))
        (section("events", "Events", &listed(one.events, "Events", |all| events(all, one.now))))
    };
    page(&Page {
        title: name,
        viewer: Some(viewer),
        at: Some(Kind::Clusters),
        namespace: Some(namespace),
        live: Some(live),
        notice,
        body,
    })
}

fn status_conditions(cluster: &TenantCluster) -> &[Condition] {
    cluster
        .status
        .as_ref()
        .map_or(&[], |status| status.conditions.as_slice())
}

fn title(one: &ClusterPage<'_>) -> Markup {
    let said = one.description;
    let is_going = one.cluster.metadata.deletion_timestamp.is_some();
    let (state, word) = match said.state {
        _ if is_going => (State::Waiting, "Deleting"),
        State::Ok => (State::Ok, "Ready"),
        State::Failing => (State::Failing, "Not ready"),
        State::Off | State::Unknown | State::Waiting => (State::Unknown, "Not known"),
    };
    let status = one.cluster.status.as_ref();
    let endpoint = status.and_then(|s| s.endpoint.as_ref());
    let version = said.version.as_deref().unwrap_or("none yet");
    let mut facts = vec![
        (
            "Namespace",
            html! { a href=(paths::list("/clusters", Some(&said.namespace))) { (said.namespace) } },
        ),
        (
            "Kubernetes",
            html! {
                (shown(version))
                @if let Some(to) = one.cluster.version_to_be() { " (to be " (shown(to)) ")" }
            },
        ),
    ];
    if let Some(at) = endpoint {
        facts.push((
            "Endpoint",
            html! { code { "https://" (shown(&at.host)) ":" (at.port) } },
        ));
    }
    if let Some(space) = status.and_then(|s| s.namespace.as_ref()) {
        facts.push(("Tenant namespace", html! { (shown(space)) }));
    }
    if let Some(at) = one.cluster.metadata.creation_timestamp.as_ref() {
        facts.push(("Age", ago(at.0, one.now)));
    }
    facts.push((
        "Kubeconfig",
        html! { code { "covey kubeconfig -n " (said.namespace) " " (said.name) } },
    ));
    html! {
        h1 { (said.name) " " (badge(state, word)) }
        @if !said.reason.is_empty() {
            p .lead { (reason(&said.reason)) ": " (said.message) @if let Some(at) = said.since { " (" (ago(at, one.now)) ")" } }
        }
        @if !said.is_current && !is_going { p .hint { "The operator has not seen the newest spec yet: what stands here is of the one before." } }
        (details(&facts))
    }
}

/// A button that changes something, or why it is off.
fn act(
    viewer: Viewer<'_>,
    one: &ClusterPage<'_>,
    (word, label): (&str, &str),
    (verb, resource): (&str, &str),
) -> Markup {
    let Description {
        name, namespace, ..
    } = one.description;
    let object = (verb != "create").then_some(name.as_str());
    let refused = one
        .access
        .refuses(Act::new(verb, resource, object), namespace);
    let action = paths::act(Kind::Clusters.word(), namespace, name, word);
    let why = format!("why-{word}");
    html! {
        @if let Some(refused) = refused {
            span .off-button {
                button disabled aria-describedby=(why) { (label) }
                span .why id=(why) { (refused) }
            }
        } @else if matches!(word, "pause" | "resume") {
            form method="post" action=(action) { (form_token(viewer)) button type="submit" { (label) } }
        } @else {
            a .button .danger[word == "delete"] href=(action) { (label) }
        }
    }
}

fn acts(viewer: Viewer<'_>, one: &ClusterPage<'_>) -> Markup {
    let paused = one.cluster.spec.paused;
    let pause = if paused {
        ("resume", "Resume")
    } else {
        ("pause", "Pause")
    };
    html! {
        div .row {
            (act(viewer, one, ("new-pool", "New node pool"), ("create", "nodepools")))
            (act(viewer, one, pause, ("patch", "tenantclusters")))
            (act(viewer, one, ("delete", "Delete…"), ("delete", "tenantclusters")))
        }
        @if paused { p .hint { "It is paused: nothing of it is changed until it is resumed." } }
    }
}

fn findings(one: &ClusterPage<'_>) -> Markup {
    let told: Vec<_> = one
        .findings
        .iter()
        .filter(|f| f.level > Level::Skipped)
        .collect();
    html! {
        @if told.is_empty() { p .empty { (badge(State::Ok, "Nothing is wrong")) } }
        @for finding in told.iter().take(MOST_FINDINGS) { (self::finding(finding, one.now)) }
        @if told.len() > MOST_FINDINGS { p .hint { "And " (told.len() - MOST_FINDINGS) " more: covey doctor " (one.description.name) } }
        @if !one.description.not_read.is_empty() {
            details .not-read {
                summary { "What could not be looked at (" (one.description.not_read.len()) ")" }
                ul { @for line in &one.description.not_read { li { (shown(line)) } } }
            }
        }
    }
}

fn finding(finding: &Finding, now: Timestamp) -> Markup {
    let (state, class) = match finding.level {
        Level::Error => (State::Failing, "failing"),
        Level::Warning => (State::Waiting, "waiting"),
        Level::Info | Level::Skipped => (State::Off, "off"),
    };
    html! {
        article .card class=(class) {
            p .finding {
                (badge(state, finding.level.as_str())) " "
                strong { (finding.cause) }
                @if let Some(since) = finding.since { " (" (ago(since, now)) ")" }
            }
            p .hint { (finding.subject) ", check " (finding.check.id()) @if let Some(told) = &finding.reason { ", " (reason(told)) } }
            @if !finding.likely.is_empty() { p { "Likely: " (code(&finding.likely)) } }
            @if !finding.mend.is_empty() { p .mend { strong { "Do: " } (code(&finding.mend)) } }
            @if !finding.evidence.is_empty() {
                details { summary { "Told by" } ul { @for line in &finding.evidence { li { (line) } } } }
            }
        }
    }
}

fn parts(one: &ClusterPage<'_>) -> Markup {
    let rows: Vec<_> = one
        .description
        .parts
        .iter()
        .map(|part| {
            vec![
                html! { (part.name) },
                badge(part.state, word(part.state)),
                html! { (shown(&part.text)) },
            ]
        })
        .collect();
    table("Parts", &["Part", "State", "What it says"], &rows)
}

/// A list, that it is empty, or why it is not known.
fn listed<T>(known: &Known<Vec<T>>, what: &str, show: impl FnOnce(&[T]) -> Markup) -> Markup {
    match known {
        Known::Known(all) if !all.is_empty() => show(all),
        Known::Known(_) | Known::Absent => html! { p .empty { "There are no " (what) "." } },
        Known::Unknown { why } => html! { p .empty { "They are not known: " (why) "." } },
    }
}

fn pools(viewer: Viewer<'_>, one: &ClusterPage<'_>) -> Markup {
    listed(one.pools, "node pools", |all| {
        let namespace = &one.description.namespace;
        let rows: Vec<_> = all
            .iter()
            .take(MOST_ROWS)
            .map(|pool| {
                let name = pool.name_any();
                let told = one.description.pools.iter().find(|p| p.name == name);
                let (state, said) =
                    told.map_or((State::Unknown, ""), |p| (p.state, p.reason.as_str()));
                let ready = pool.status.as_ref().map_or(0, |s| s.ready_replicas);
                let version = pool.status.as_ref().and_then(|s| s.version.as_deref());
                let mut cells = vec![
                    link(Kind::Pools, namespace, &name),
                    badge(state, word(state)),
                    html! { (ready) " of " (pool.spec.replicas) " ready" },
                    html! { (shown(version.unwrap_or_default())) },
                    reason(said),
                ];
                if !viewer.is_read_only {
                    cells.push(scale(viewer, pool, one.access, None));
                }
                cells
            })
            .collect();
        let heads = ["Pool", "State", "Machines", "Version", "Reason", "Scale"];
        let heads = if viewer.is_read_only {
            &heads[..5]
        } else {
            &heads[..]
        };
        table("Node pools", heads, &rows)
    })
}

fn backups(one: &ClusterPage<'_>) -> Markup {
    let wanted = one.cluster.spec.backup.as_ref();
    let status = one.cluster.status.as_ref().and_then(|s| s.backup.as_ref());
    let text = |text: Option<&String>| html! { (text.map_or("none yet".to_owned(), |t| shown(t))) };
    let (namespace, now) = (one.description.namespace.as_str(), one.now);
    html! {
        @match wanted {
            None => p .empty { "It has no backup: spec.backup.target names one." },
            Some(backup) => (details(&[
                ("Target", html! { (shown(&backup.target)) }),
                ("Last full snapshot", text(status.and_then(|s| s.last_full.as_ref()))),
                ("Read again", text(status.and_then(|s| s.verified.as_ref()))),
            ])),
        }
        @if let Known::Known(all) = one.snapshots && !all.is_empty() {
            h3 { a href=(paths::list("/snapshots", Some(namespace))) { "Snapshots" } }
            (snapshots(all, now))
        }
        @if let Known::Known(all) = one.restores && !all.is_empty() {
            h3 { a href=(paths::list("/restores", Some(namespace))) { "Restores" } }
            (restores(all, now))
        }
    }
}

/// The state of a condition in a word, and what it says where it is not as it should be.
fn told_by(all: &[Condition], type_: &str) -> (Markup, Markup) {
    let Some(condition) = all.iter().find(|c| c.type_ == type_) else {
        return (badge(State::Unknown, "not known"), html! {});
    };
    let state = super::parts::state_of(condition);
    (
        badge(state, &shown(&condition.status)),
        super::parts::said(state, condition),
    )
}

fn age(metadata: &kube::core::ObjectMeta, now: Timestamp) -> Markup {
    let at = metadata.creation_timestamp.as_ref();
    html! { @if let Some(at) = at { (ago(at.0, now)) } }
}

fn snapshots(all: &[Snapshot], now: Timestamp) -> Markup {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.metadata.creation_timestamp.as_ref().map(|t| t.0)));
    let rows: Vec<_> = all
        .iter()
        .take(MOST_ROWS)
        .map(|snapshot| {
            let status = snapshot.status.clone().unwrap_or_default();
            let (state, said) = told_by(&status.conditions, "Ready");
            vec![
                html! { (snapshot.name_any()) },
                state,
                html! { (status.bytes.map(bytes).unwrap_or_default()) },
                html! { (shown(&status.taken.unwrap_or_default())) },
                said,
                age(&snapshot.metadata, now),
            ]
        })
        .collect();
    table(
        "Snapshots",
        &[
            "Snapshot",
            "In the backup",
            "Size",
            "Taken",
            "What it says",
            "Age",
        ],
        &rows,
    )
}

fn restores(all: &[Restore], now: Timestamp) -> Markup {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.metadata.creation_timestamp.as_ref().map(|t| t.0)));
    let rows: Vec<_> = all
        .iter()
        .take(MOST_ROWS)
        .map(|restore| {
            let status = restore.status.clone().unwrap_or_default();
            let (possible, why) = told_by(&status.conditions, "Possible");
            let (restored, said) = told_by(&status.conditions, "Restored");
            vec![
                html! { (restore.name_any()) @if restore.spec.dry_run { " (dry)" } },
                possible,
                restored,
                html! { (shown(&status.time.unwrap_or_default())) },
                html! { (why) " " (said) },
                age(&restore.metadata, now),
            ]
        })
        .collect();
    table(
        "Restores",
        &[
            "Restore",
            "Possible",
            "Restored",
            "Moment",
            "What it says",
            "Age",
        ],
        &rows,
    )
}

/// Who was let in, the newest first.
fn grants(all: &[AccessGrant], now: Timestamp) -> Markup {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.metadata.creation_timestamp.as_ref().map(|t| t.0)));
    let rows: Vec<_> = all
        .iter()
        .take(MOST_ROWS)
        .map(|grant| {
            let spec = &grant.spec;
            let status = grant.status.clone().unwrap_or_default();
            let (ready, said) = told_by(&status.conditions, "Ready");
            let until = status.not_after.unwrap_or_default();
            vec![
                html! { (grant.name_any()) },
                html! { (shown(&spec.user)) },
                html! { (shown(&spec.profile)) },
                ready,
                html! {
                    (shown(&until))
                    @if let Some(secret) = &spec.secret_name { ", renewed in Secret " (shown(secret)) }
                },
                said,
                age(&grant.metadata, now),
            ]
        })
        .collect();
    let columns = [
        "Grant",
        "User",
        "Profile",
        "In force",
        "Until",
        "What it says",
        "Age",
    ];
    table("Grants of access", &columns, &rows)
}

/// Events, newest first.
#[must_use]
pub fn events(all: &[Event], now: Timestamp) -> Markup {
    let mut all: Vec<_> = all.iter().map(|event| (told(event), event)).collect();
    all.sort_by_key(|(event, _)| std::cmp::Reverse(event.at));
    let rows: Vec<_> = all
        .iter()
        .take(MOST_EVENTS)
        .map(|(said, event)| {
            let is_warning = event.type_.as_deref() == Some("Warning");
            vec![
                html! { @if let Some(at) = said.at { (ago(at, now)) } @else { "?" } },
                if is_warning {
                    badge(State::Failing, "Warning")
                } else {
                    badge(State::Off, "Normal")
                },
                html! { (said.object) },
                reason(&said.reason),
                html! { (said.message) },
            ]
        })
        .collect();
    html! {
        (table("Events", &["Age", "Type", "Object", "Reason", "Message"], &rows))
        @if all.len() > MOST_EVENTS { p .hint { "The newest " (MOST_EVENTS) " of " (all.len()) "." } }
    }
}
