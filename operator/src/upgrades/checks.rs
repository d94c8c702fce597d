//! The checks before an upgrade. Each looks at one thing and says all that it finds.
//!
//! Sources: version skew policy (<https://kubernetes.io/releases/version-skew-policy/>); webhooks that a control
//! plane depends on (Gardener's list and limits, `operations.md` §2.2).
//! Invariant: pure, and none stops at the first.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use tenant_cp::version::WORKER_SKEW;

use super::finding::{Check, Finding};
use super::surge::SurgeAnswer;
use super::versions::Wanted;
use crate::tenant_session::etcd::answers::MemberStatus;
use crate::tenant_session::preflight::answers::{Answer, Counted, Inside, Responder, Webhook};
use crate::tenant_session::preflight::names::Names;

/// A webhook that takes longer holds up a control plane, in seconds.
const SLOW: u64 = 15;
/// The same where it is asked about Leases: they are renewed every few seconds.
const SLOW_FOR_LEASES: u64 = 3;
/// Entries of the log that a member of etcd may be behind.
const MOST_BEHIND: u64 = 1000;
/// Of a hundred: a database that is larger has no room for what an upgrade writes anew.
const MOST_IN_USE: u64 = 70;
/// An authority has to last so long.
const AUTHORITY_LASTS: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Everything that the checks look at.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Which upgrade.
    pub wanted: &'a Wanted,
    /// Why the tenant cluster is not at rest; none where it is.
    pub unrest: Option<String>,
    /// How many members of etcd there are to be.
    pub members: usize,
    /// What they say of themselves, by name; or why that is not known.
    pub etcd: BTreeMap<&'a str, Result<&'a MemberStatus, &'a str>>,
    /// Authorities by name, and when they end.
    pub authorities: Vec<(&'a str, Timestamp)>,
    /// Whether certificates are issued and not due.
    pub certificates_ready: bool,
    /// What the tenant's API said.
    pub inside: &'a Inside,
    /// Whether the management cluster has room for new pods, as far as that is known.
    pub room: &'a [SurgeAnswer],
    /// Whether there are node pools, whose nodes are replaced afterwards.
    pub has_pools: bool,
}

/// All that is found.
#[must_use]
pub fn all(facts: &Facts<'_>, now: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    let unrest = facts.unrest.as_ref();
    found.extend(unrest.map(|why| Finding::wait(Check::Rest, why)));
    etcd(facts, &mut found);
    certificates(facts, now, &mut found);
    kubelets(facts, &mut found);
    found.extend(facts.room.iter().filter_map(SurgeAnswer::finding));
    found.extend(deprecated_apis(facts.wanted, facts.inside));
    found.extend(stored_objects(facts.inside));
    match &facts.inside.webhooks {
        Ok(all) => webhooks(all, &mut found),
        Err(why) => {
            let message = format!("it is not known which webhooks there are: {why}");
            found.push(Finding::block(Check::Webhooks, message));
        }
    }
    warnings(facts, &mut found);
    found.sort();
    found
}

/// What is found of deprecated APIs alone.
#[must_use]
pub fn deprecated_apis(wanted: &Wanted, inside: &Inside) -> Vec<Finding> {
    let mut found = Vec::new();
    match &inside.counted {
        Ok(counted) => deprecated(wanted, counted, &mut found),
        Err(why) => {
            let message = format!(
                "it is not known which deprecated APIs are called, and whether all that is stored can be read: {why}"
            );
            found.push(Finding::block(Check::DeprecatedApis, message));
        }
    }
    found
}

fn many(count: usize, one: &str, more: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    }
}

fn etcd(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut block = |message: String| found.push(Finding::block(Check::Etcd, message));
    let silent: Names = (facts.etcd.iter())
        .filter(|(_, answer)| answer.is_err())
        .map(|(name, _)| *name)
        .collect();
    let answers =
        || (facts.etcd.iter()).filter_map(|(name, answer)| Some((*name, *answer.as_ref().ok()?)));
    let votes = answers().filter(|(_, member)| !member.is_learner).count();
    if silent.count > 0 {
        block(format!(
            "{} of etcd did not say how it is: {}; see its pod in the tenant namespace",
            many(silent.count, "member", "members"),
            silent.list()
        ));
    } else if votes < facts.members {
        block(format!(
            "{votes} of {} members of etcd are whole; wait until all are, or see the condition EtcdReady",
            facts.members
        ));
    }
    let mut leaders: Vec<_> = answers()
        .map(|(_, member)| member.leader.as_deref())
        .collect();
    leaders.sort_unstable();
    leaders.dedup();
    if leaders.len() > 1 || leaders.first() == Some(&None) {
        block("members of etcd do not agree on who leads; see their logs, and the network between them".to_owned());
    }
    let indexes = || answers().map(|(_, member)| member.index);
    let behind = indexes().max().zip(indexes().min());
    if behind.is_some_and(|(most, least)| most - least >= MOST_BEHIND) {
        block(
            "a member of etcd is far behind the others; wait until it is not, or see its disk"
                .to_owned(),
        );
    }
    if answers().any(|(_, member)| !member.alarms.is_empty()) {
        block("etcd has an alarm; see the condition EtcdReady".to_owned());
    }
    let full = |member: &MemberStatus| {
        let most = u128::from(member.quota) * u128::from(MOST_IN_USE) / 100;
        member.quota > 0 && u128::from(member.size_in_use) > most
    };
    if answers().any(|(_, member)| full(member)) {
        block(format!(
            "more than {MOST_IN_USE} of a hundred bytes that etcd's database may have are in use; delete what is not \
             needed, or make spec.etcd.storage.size larger"
        ));
    }
}

fn certificates(facts: &Facts<'_>, now: Timestamp, found: &mut Vec<Finding>) {
    if !facts.certificates_ready {
        let message = "certificates are due, or not issued; see the condition CertificatesReady";
        found.push(Finding::wait(Check::Certificates, message));
    }
    let ends = |end: &Timestamp| end.duration_since(now) < AUTHORITY_LASTS;
    let ending: Names = (facts.authorities.iter())
        .filter(|(_, end)| ends(end))
        .map(|(name, _)| *name)
        .collect();
    if ending.count > 0 {
        let message = format!(
            "{} of certificates within 30 days: {}; what is upgraded now would have to be replaced then",
            many(ending.count, "authority ends", "authorities end"),
            ending.list()
        );
        found.push(Finding::block(Check::Certificates, message));
    }
}

fn kubelets(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut block = |message: String| found.push(Finding::block(Check::Kubelets, message));
    let kubelets = match &facts.inside.kubelets {
        Ok(kubelets) => kubelets,
        Err(why) => return block(format!("it is not known which versions nodes have: {why}")),
    };
    let (mut old, mut odd) = (Names::default(), Names::default());
    let oldest = facts.wanted.to.minor.saturating_sub(WORKER_SKEW);
    for (said, nodes) in kubelets {
        match minor(said) {
            None => odd = odd.and(nodes),
            Some(minor) if minor < oldest => old = old.and(nodes),
            Some(_) => {}
        }
    }
    if old.count > 0 {
        block(format!(
            "{} than Kubernetes 1.{} takes: {}; bring it to 1.{oldest} or newer (spec.version of its NodePool), or \
             delete it",
            many(old.count, "node is older", "nodes are older"),
            facts.wanted.to.minor,
            old.list()
        ));
    }
    if odd.count > 0 {
        block(format!(
            "{} no version that can be read: {}; delete it, or see its kubelet",
            many(odd.count, "node says", "nodes say"),
            odd.list()
        ));
    }
}

/// The minor (of 1.x) of what a kubelet says, which a distributor may have added to.
fn minor(said: &str) -> Option<u64> {
    let version = semver::Version::parse(said.strip_prefix('v').unwrap_or(said)).ok()?;
    (version.major == 1).then_some(version.minor)
}

fn deprecated(wanted: &Wanted, counted: &Counted, found: &mut Vec<Finding>) {
    let of = |minors: &dyn Fn(u64) -> bool| -> Names {
        let called = counted.deprecated.iter().filter(|one| minors(one.removed));
        called.map(|one| &one.resource).collect()
    };
    let to = wanted.to.minor;
    let who = "an audit event of such a request has the annotation k8s.io/deprecated and says who sent it";
    // What the version that serves lacks already is nobody's to lose.
    let gone = of(&|removed| removed > wanted.from.minor && removed <= to);
    if gone.count > 0 {
        let message = format!(
            "clients call {} that 1.{to} does not serve: {}; move them to another version of it ({who})",
            many(gone.count, "API", "APIs"),
            gone.list()
        );
        found.push(Finding::block(Check::DeprecatedApis, message));
    }
    let next = of(&|removed| removed == to + 1);
    if next.count > 0 {
        let message = format!(
            "clients call {} that 1.{} will not serve: {} ({who})",
            many(next.count, "API", "APIs"),
            to + 1,
            next.list()
        );
        found.push(Finding::warn(Check::DeprecatedApis, message));
    }
}

/// What is found of stored objects alone; that it is not known is said with deprecated APIs.
#[must_use]
pub fn stored_objects(inside: &Inside) -> Option<Finding> {
    let names: Names = inside.counted.as_ref().ok()?.undecodable.iter().collect();
    (names.count > 0).then(|| {
        let message = format!(
            "stored objects of {} cannot be read: {}; find them in the log of the kube-apiserver, and delete or \
             mend them",
            many(names.count, "resource", "resources"),
            names.list()
        );
        Finding::block(Check::StoredObjects, message)
    })
}

fn webhooks(all: &[Webhook], found: &mut Vec<Finding>) {
    let those = |of: &dyn Fn(&Webhook) -> bool| -> Names {
        let webhooks = all.iter().filter(|webhook| of(webhook));
        webhooks.map(|webhook| &webhook.name).collect()
    };
    let what = "what a control plane needs (nodes, Leases, kube-system, rights)";
    let dead = those(&|w| w.must_answer && w.responder == Responder::Nobody);
    if dead.count > 0 {
        let message = format!(
            "{} answer for {what}, and has no ready pod: {}; bring its pods back, or delete its configuration",
            many(dead.count, "webhook has to", "webhooks have to"),
            dead.list()
        );
        found.push(Finding::block(Check::Webhooks, message));
    }
    let unknown = those(&|w| w.must_answer && matches!(w.responder, Responder::Unknown(_)));
    if unknown.count > 0 {
        let whys = all.iter().find_map(|w| match &w.responder {
            Responder::Unknown(why) if w.must_answer => Some(why.as_str()),
            _ => None,
        });
        let message = format!(
            "it is not known whether somebody answers for {}: {}: {}",
            many(unknown.count, "webhook", "webhooks"),
            unknown.list(),
            whys.unwrap_or_default()
        );
        found.push(Finding::block(Check::Webhooks, message));
    }
    let slow = those(&|w| w.seconds > SLOW || (w.of_leases && w.seconds > SLOW_FOR_LEASES));
    if slow.count > 0 {
        let message = format!(
            "{} for long about {what}: {}; lower timeoutSeconds to {SLOW}, for Leases to {SLOW_FOR_LEASES}",
            many(
                slow.count,
                "webhook may be waited",
                "webhooks may be waited"
            ),
            slow.list()
        );
        found.push(Finding::warn(Check::Webhooks, message));
    }
    let strict = those(&|w| w.must_answer && w.responder == Responder::Answered);
    if strict.count > 0 {
        let message = format!(
            "{} answer for {what}: {}; see that its pods stay while nodes are replaced, or exclude kube-system",
            many(strict.count, "webhook has to", "webhooks have to"),
            strict.list()
        );
        found.push(Finding::warn(Check::Webhooks, message));
    }
}

/// What keeps nothing from beginning; nor does it where it could not be asked.
fn warnings(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut warn = |check, names: &Answer<Names>, which: &str, said: &dyn Fn(&Names) -> String| {
        let message = match names {
            Ok(names) if names.count == 0 => return,
            Ok(names) => said(names),
            Err(why) => format!("it is not known which {which}: {why}"),
        };
        found.push(Finding::warn(check, message));
    };
    let unavailable = &facts.inside.unavailable;
    let which = "APIServices are available";
    warn(Check::ApiServices, unavailable, which, &|names| {
        format!(
            "{} available before the upgrade: {}",
            many(names.count, "APIService is not", "APIServices are not"),
            names.list()
        )
    });
    if !facts.has_pools {
        return;
    }
    let tight = &facts.inside.tight_budgets;
    let which = "disruption budgets there are";
    warn(Check::DisruptionBudgets, tight, which, &|names| {
        format!(
            "{} no pod go now: {}; a node that is replaced later waits for it until the drainTimeout of its NodePool",
            many(
                names.count,
                "disruption budget lets",
                "disruption budgets let"
            ),
            names.list()
        )
    });
}
