//! What is waited for, and whether an object is there yet.
//!
//! Invariant: pure. What an object said before the change that is waited for counts for nothing, and neither does what
//! is not known.

use api::reason::class::Class;
use api::{ConditionType, Reason};
use insight::text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ObjectMeta;

/// What is waited for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Goal {
    /// The condition has this status.
    Condition {
        /// Its type.
        type_: String,
        /// `True`, `False` or `Unknown`.
        status: String,
    },
    /// It runs this version of Kubernetes and is Ready.
    Version(String),
    /// So many machines of a pool are ready, and no others are wanted.
    Machines(i32),
    /// So many nodes, or more, are ready in its node pools.
    Nodes(i32),
    /// Nothing of it runs, as it was asked to.
    Asleep,
    /// It is gone.
    Deleted,
}

impl Goal {
    /// The condition Ready is True.
    pub(crate) fn ready() -> Self {
        Self::Condition {
            type_: ConditionType::Ready.as_str().to_owned(),
            status: "True".to_owned(),
        }
    }
}

/// Reads `--for`.
pub(crate) fn goal(text: &str) -> Result<Goal, String> {
    let form = "write ready, asleep, deleted, version=VERSION, nodes=NUMBER, condition=TYPE or condition=TYPE=STATUS";
    match text {
        "ready" => return Ok(Goal::ready()),
        "asleep" => return Ok(Goal::Asleep),
        "deleted" | "delete" => return Ok(Goal::Deleted),
        _ => {}
    }
    if let Some(version) = text.strip_prefix("version=").filter(|v| !v.is_empty()) {
        return Ok(Goal::Version(version.trim_start_matches('v').to_owned()));
    }
    if let Some(nodes) = text.strip_prefix("nodes=") {
        let nodes = nodes.parse().ok().filter(|nodes: &i32| *nodes >= 0);
        return nodes.map(Goal::Nodes).ok_or_else(|| form.to_owned());
    }
    let condition = text.strip_prefix("condition=").ok_or(form)?;
    let (type_, status) = condition.split_once('=').unwrap_or((condition, "True"));
    let all = ["True", "False", "Unknown"];
    let mut all = all.into_iter();
    let status = all.find(|known| known.eq_ignore_ascii_case(status));
    match (type_, status) {
        ("", _) | (_, None) => Err(form.to_owned()),
        (type_, Some(status)) => Ok(Goal::Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
        }),
    }
}

/// What is seen of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Its UID: one of the same name made later is another.
    pub(crate) uid: Option<String>,
    /// Its version.
    pub(crate) resource_version: Option<String>,
    /// The generation of its spec.
    pub(crate) generation: i64,
    /// The generation that its status speaks of.
    pub(crate) observed: i64,
    /// Its conditions.
    pub(crate) conditions: Vec<Condition>,
    /// Machines that are ready; only of pools.
    pub(crate) ready: i32,
    /// The version that runs; none until something answered.
    pub(crate) version: Option<String>,
}

impl Seen {
    /// Of an object's parts.
    pub(crate) fn new(
        meta: &ObjectMeta,
        observed: Option<i64>,
        conditions: &[Condition],
        ready: i32,
        version: Option<&str>,
    ) -> Self {
        Self {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            generation: meta.generation.unwrap_or_default(),
            observed: observed.unwrap_or_default(),
            conditions: conditions.to_vec(),
            ready,
            version: version.map(str::to_owned),
        }
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_ == type_)
    }
}

/// The object that waiting began with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun {
    /// Its UID.
    pub(crate) uid: Option<String>,
    /// The version that it had; whoever is degraded in it may just be getting better.
    pub(crate) resource_version: Option<String>,
    /// The generation that was written; what is of an older one says nothing.
    pub(crate) generation: i64,
}

/// Where an object stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// It is as was wanted.
    Done,
    /// Not yet; what is waited for.
    Wait(String),
    /// It will not be, unless a person does something. It may pass.
    Stuck(String),
    /// It is gone, or another one by now.
    Gone,
}

/// Judges what is seen.
pub(crate) fn judge(goal: &Goal, begun: &Begun, seen: Option<&Seen>) -> Verdict {
    let is_same = |seen: &&Seen| begun.uid.is_none() || seen.uid == begun.uid;
    let Some(seen) = seen.filter(is_same) else {
        return match goal {
            Goal::Deleted => Verdict::Done,
            Goal::Condition { .. }
            | Goal::Version(_)
            | Goal::Machines(_)
            | Goal::Nodes(_)
            | Goal::Asleep => Verdict::Gone,
        };
    };
    let is_current = seen.observed >= seen.generation.max(begun.generation);
    if let Goal::Deleted = goal {
        return Verdict::Wait("it is still there".to_owned());
    }
    if !is_current {
        return Verdict::Wait("the operator has not seen the change yet".to_owned());
    }
    let ready = ConditionType::Ready.as_str();
    let is_ready = seen.condition(ready).is_some_and(|c| c.status == "True");
    let (type_, reached) = match goal {
        Goal::Condition { type_, status } => {
            let found = seen.condition(type_);
            (type_.as_str(), found.is_some_and(|c| c.status == *status))
        }
        Goal::Version(version) => (ready, is_ready && seen.version.as_ref() == Some(version)),
        Goal::Machines(wanted) => (ready, is_ready && seen.ready == *wanted),
        Goal::Nodes(wanted) => (ready, seen.ready >= *wanted),
        Goal::Asleep => {
            let told = seen.condition(ready);
            (ready, told.is_some_and(|c| c.reason == Reason::Hibernated))
        }
        Goal::Deleted => (ready, false),
    };
    if reached {
        return Verdict::Done;
    }
    let is_new =
        begun.resource_version.is_none() || seen.resource_version != begun.resource_version;
    let degraded = degraded(seen);
    // A Restore that cannot be had says so in a condition of its own.
    let possible = seen.condition(ConditionType::Possible.as_str());
    let degraded = degraded.or_else(|| possible.filter(|c| c.status == "False"));
    let degraded = degraded.filter(|_| is_new);
    if let Some(condition) = degraded.filter(is_persons) {
        return Verdict::Stuck(sentence(condition));
    }
    if let (Goal::Version(version), true) = (goal, is_ready) {
        let runs = seen.version.as_deref().unwrap_or("no version");
        let progress = seen.condition(ConditionType::Progressing.as_str());
        let said = progress.map(sentence).unwrap_or_default();
        return Verdict::Wait(text::shown(&format!(
            "it runs {runs}, not {version}; {said}"
        )));
    }
    match seen.condition(type_) {
        Some(condition) => Verdict::Wait(sentence(condition)),
        None => Verdict::Wait(format!("it has no condition {} yet", text::shown(type_))),
    }
}

fn degraded(seen: &Seen) -> Option<&Condition> {
    let degraded = seen.condition(ConditionType::Degraded.as_str());
    degraded.filter(|c| c.status == "True")
}

/// Whether only a person can mend it.
fn is_persons(condition: &&Condition) -> bool {
    let reason = condition.reason.parse::<Reason>();
    reason.is_ok_and(|reason| reason.class() == Class::Person)
}

/// Judges the nodes of all pools of a tenant cluster: so many are wanted, or more. Of each pool its name, what is seen of
/// it, and whether that is newer than what waiting began with.
pub(crate) fn judge_nodes(wanted: i32, pools: &[(&str, &Seen, bool)]) -> Verdict {
    let ready: i32 = pools.iter().map(|(_, seen, _)| seen.ready).sum();
    if ready >= wanted {
        return Verdict::Done;
    }
    let are = format!("{ready} of {wanted} nodes are ready");
    if pools.is_empty() {
        return Verdict::Wait(format!("{are}: it has no node pool"));
    }
    let told = |(name, seen, _): &(&str, &Seen, bool)| {
        let ready = seen.condition(ConditionType::Ready.as_str());
        let ready = ready.filter(|c| c.status != "True");
        ready.map(|ready| text::shown(&format!("{name}: {}", sentence(ready))))
    };
    let stuck = pools.iter().find_map(|(name, seen, is_new)| {
        let is_current = *is_new && seen.observed >= seen.generation;
        let degraded = degraded(seen).filter(|_| is_current).filter(is_persons)?;
        Some(text::shown(&format!(
            "{are}; {name}: {}",
            sentence(degraded)
        )))
    });
    if let Some(what) = stuck {
        return Verdict::Stuck(what);
    }
    match pools.iter().find_map(told) {
        Some(why) => Verdict::Wait(format!("{are}; {why}")),
        None => Verdict::Wait(are),
    }
}

/// `EtcdReady False MembersNotReady: 0 of 3 members are ready`.
pub(crate) fn sentence(condition: &Condition) -> String {
    let Condition {
        type_,
        status,
        reason,
        message,
        ..
    } = condition;
    let meaning = reason.parse::<Reason>().map(Reason::meaning);
    let said = match message.is_empty() {
        false => message.as_str(),
        true => meaning.unwrap_or_default(),
    };
    let line = format!("{type_} {status} {reason}");
    match said.is_empty() {
        true => text::shown(&line),
        false => text::shown(&format!("{line}: {said}")),
    }
}

/// Lines of what is different in the conditions from one look to the next.
pub(crate) fn changes(before: &[Condition], now: &[Condition]) -> Vec<String> {
    let is_new = |c: &&Condition| {
        let mut old = before.iter();
        !old.any(|o| (&o.type_, &o.status, &o.reason) == (&c.type_, &c.status, &c.reason))
    };
    now.iter().filter(is_new).map(sentence).collect()
}

#[cfg(test)]
mod tests;
