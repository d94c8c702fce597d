//! `covey explain-condition`: the catalogue of reasons, and what types of conditions mean.
//!
//! Invariant: without the name of a tenant cluster nothing is asked of any API.

use api::{ConditionType, Machine, NodePool, Reason, TenantCluster};
use insight::meaning;
use insight::text;
use insight_read::request::PAGES;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde::Serialize;

use super::describe::about;
use super::near::nearest;
use crate::args::read::Explain;
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::judge::sentence;
use crate::output::{result, say, structured};

/// `Reason` or `ConditionType` of `cli.covey.dev/v1`; they only ever gain fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    api_version: &'static str,
    kind: &'static str,
    name: &'static str,
    meaning: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cause: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    mend: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    runbook: Option<String>,
    /// Where a tenant cluster was named: what its conditions say now.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<Vec<Now>>,
}

/// A condition as it is now.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
struct Now {
    /// `TenantCluster/demo`.
    object: String,
    /// `EtcdReady False QuorumLost: 1 of 3 members are ready`.
    condition: String,
}

/// What a word names: a reason, a type, or both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Word {
    reason: Option<Reason>,
    type_: Option<ConditionType>,
}

pub(super) fn run(args: &Explain, format: Format) -> Result<Exit, Failure> {
    let word = find(&args.word)?;
    result(&written(word, None, format)?)?;
    Ok(Exit::Done)
}

/// The same, and what a tenant cluster's conditions say of it now.
pub(super) async fn present(global: &Global, args: &Explain, name: &str) -> Result<Exit, Failure> {
    let word = find(&args.word)?;
    let connection = connect(global).await?;
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let (cluster, facts) = about(client, namespace, name, PAGES).await?;
    let mut now = of_cluster(&cluster, word);
    for pool in facts.pools.as_ref().there().into_iter().flatten() {
        now.extend(of_pool(pool, word));
    }
    for machine in facts.machines.as_ref().there().into_iter().flatten() {
        now.extend(of_machine(machine, word));
    }
    if now.is_empty() && !global.quiet {
        say(&format!("no condition of {name} says so now"));
    }
    result(&written(word, Some(now), global.output)?)?;
    Ok(Exit::Done)
}

fn of_cluster(cluster: &TenantCluster, word: Word) -> Vec<Now> {
    let status = cluster.status.as_ref();
    let all = status.map(|status| &status.conditions[..]);
    matching("TenantCluster", &cluster.name_any(), all, word)
}

fn of_pool(pool: &NodePool, word: Word) -> Vec<Now> {
    let status = pool.status.as_ref();
    let all = status.map(|status| &status.conditions[..]);
    matching("NodePool", &pool.name_any(), all, word)
}

fn of_machine(machine: &Machine, word: Word) -> Vec<Now> {
    let status = machine.status.as_ref();
    let all = status.map(|status| &status.conditions[..]);
    matching("Machine", &machine.name_any(), all, word)
}

fn matching(kind: &str, name: &str, all: Option<&[Condition]>, word: Word) -> Vec<Now> {
    let is_meant = |condition: &&Condition| {
        let of_reason = word.reason.is_some_and(|reason| condition.reason == reason);
        let of_type = word
            .type_
            .is_some_and(|type_| condition.type_ == type_.as_str());
        of_reason || of_type
    };
    let all = all.unwrap_or_default().iter().filter(is_meant);
    let told = all.map(|condition| Now {
        object: text::shown(&format!("{kind}/{name}")),
        condition: sentence(condition),
    });
    told.collect()
}

fn written(word: Word, now: Option<Vec<Now>>, format: Format) -> Result<String, Failure> {
    match format {
        Format::Json | Format::Yaml => structured(&explained(word, now), format),
        Format::Name => {
            let reason = word.reason.map(Reason::as_str);
            let name = reason.or(word.type_.map(ConditionType::as_str));
            Ok(format!("{}\n", name.unwrap_or_default()))
        }
        Format::Table | Format::Wide => Ok(told(word, now.as_deref().unwrap_or_default())),
    }
}

/// A word that is both is a reason, as it always was.
fn explained(word: Word, now: Option<Vec<Now>>) -> Explained {
    let api_version = "cli.covey.dev/v1";
    match (word.reason, word.type_) {
        (Some(reason), _) => Explained {
            api_version,
            kind: "Reason",
            name: reason.as_str(),
            meaning: reason.meaning(),
            cause: reason.cause(),
            mend: reason.mend(),
            class: reason.class().as_str(),
            runbook: Some(reason.runbook()),
            now,
        },
        (None, type_) => Explained {
            api_version,
            kind: "ConditionType",
            name: type_.map_or("", ConditionType::as_str),
            meaning: type_.map_or("", meaning::of_type),
            cause: "",
            mend: "",
            class: "",
            runbook: None,
            now,
        },
    }
}

fn told(word: Word, now: &[Now]) -> String {
    let mut lines = Vec::new();
    if let Some(type_) = word.type_ {
        let meaning = meaning::of_type(type_);
        lines.push((
            "",
            format!("{} (a type of conditions): {meaning}", type_.as_str()),
        ));
    }
    if let Some(reason) = word.reason {
        lines.extend([
            ("", format!("{reason}: {}", reason.meaning())),
            ("usually: ", reason.cause().to_owned()),
            ("to mend it: ", reason.mend().to_owned()),
            ("more: ", reason.runbook()),
        ]);
    }
    let now = now.iter();
    let now = now.map(|now| ("now: ", format!("{} {}", now.object, now.condition)));
    lines.extend(now);
    let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
    lines
        .map(|(what, text)| format!("{what}{text}\n"))
        .collect()
}

fn find(name: &str) -> Result<Word, Failure> {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    let mut reasons = Reason::ALL.iter().copied();
    let mut types = meaning::TYPES.iter().copied();
    let word = Word {
        reason: reasons.find(|reason| is(reason.as_str())),
        type_: types.find(|type_| is(type_.as_str())),
    };
    if word.reason.is_some() || word.type_.is_some() {
        return Ok(word);
    }
    let mut what = format!("there is no reason and no type of conditions {name} in the catalogue");
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
    let types = meaning::TYPES.iter().map(|type_| type_.as_str());
    if let Some(near) = nearest(name, reasons.chain(types)) {
        what.push_str(&format!("; did you mean {near}?"));
    }
    let mend =
        "a later version of Covey, or Kubernetes itself, may have said it; docs/reasons.md has all";
    Err(Failure::new(Exit::NotFound, &what, mend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn reasons_and_types_are_found_in_any_case_and_near_ones_are_guessed() {
        assert_eq!(find("quorumlost").unwrap().reason, Some(Reason::QuorumLost));
        let etcd = find("ETCDREADY").unwrap();
        assert_eq!(
            (etcd.reason, etcd.type_),
            (None, Some(ConditionType::EtcdReady))
        );
        let failure = find("QourumLost").unwrap_err();
        assert_eq!(failure.exit, Exit::NotFound);
        assert!(
            failure.what.ends_with("did you mean QuorumLost?"),
            "{failure}"
        );
        let lost = find("QuorumLost").unwrap();
        assert!(told(lost, &[]).contains("to mend it: "));
        assert!(told(etcd, &[]).contains("The members of etcd are ready."));
    }

    #[test]
    fn of_a_tenant_cluster_it_is_said_what_is_so_now() {
        let facts = fixture::facts();
        let cluster = &facts.clusters.as_ref().there().unwrap()[0];
        let of = |name: &str| of_cluster(cluster, find(name).unwrap());
        let ready = of("AddonsNotReady");
        let expected =
            "now: TenantCluster/demo Ready False AddonsNotReady: coreDNS: 0 of 2 pods are ready\n";
        let word = find("AddonsNotReady").unwrap();
        assert!(told(word, &ready).ends_with(expected), "{ready:?}");
        assert_eq!(of("CoreDNSReady").len(), 1);
        assert_eq!(of("QuorumLost"), []);
        let machines = facts.machines.as_ref().there().unwrap();
        let boots = of_machine(&machines[1], find("Booting").unwrap());
        assert_eq!(boots[0].object, "Machine/demo-workers-bbbbb");
    }
}
