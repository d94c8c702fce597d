//! Whether an upgrade that is asked for may begin, and what is told of it.
//!
//! Until it may, everything is planned for the version that serves: certificates are renewed, what is lost comes
//! back, other changes of the spec are carried out. Once the control plane's template is of the new version it has
//! begun, and nothing is asked any more.
//! Invariant: computed from what runs; erasing what the status says of it changes nothing but the time.

use std::net::IpAddr;
use std::time::Duration;

use api::names::LABEL_COMPONENT;
use api::tenant_cluster::{UpgradeFinding, UpgradeGuard, UpgradePhase, UpgradeStatus};
use api::{ConditionType, Reason};
use jiff::Timestamp;
use kit::events::Notice;
use tenant_cp::generations::of_authority;
use tenant_cp::rollout::order::Progress;
use tenant_cp::{Settings, Validated, names};

use super::NamespacePlan;
use super::endpoint;
use super::etcd::identity;
use super::types::{Action, Part, Plan};
use crate::controllers::tenant_cluster::observed::{Etcd, Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::pod_failures;
use crate::status::Waiting;
use crate::upgrades::checks::{self, Facts};
use crate::upgrades::finding::{Check, Finding, Verdict, told};
use crate::upgrades::inside::Inside;
use crate::upgrades::versions::{self, Wanted};

/// Pause between two looks at what speaks against one: nobody is woken when it is gone.
const PAUSE: Duration = Duration::from_secs(60);

/// How far an upgrade is.
pub(super) enum Upgrade {
    /// None is wanted.
    None,
    /// It is not known yet what speaks against it.
    Asking(Wanted),
    /// It is known: something does, or it may begin.
    Judged {
        wanted: Wanted,
        findings: Vec<Finding>,
        may_begin: bool,
    },
    /// It has begun.
    Begun(Wanted),
}

impl Upgrade {
    pub(super) fn new(
        valid: &Validated,
        observed: &Observed,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let Some(wanted) = versions::wanted(&observed.cluster) else {
            return Self::None;
        };
        let live = observed.started();
        if live.there().and_then(versions::of_deployment).as_ref() == Some(&wanted.to) {
            return Self::Begun(wanted);
        }
        let unknown;
        let inside = match (&observed.preflight, &observed.tenant) {
            (Some(inside), _) => inside,
            (None, Tenant::Silent { message }) => {
                unknown = Inside::unknown(&format!("the API does not answer: {message}"));
                &unknown
            }
            (None, _) => return Self::Asking(wanted),
        };
        let findings = findings(&wanted, (valid, inside), observed, settings, now);
        let stands = findings.iter().any(|f| f.verdict != Verdict::Warn);
        let may_begin = !stands || observed.cluster.spec.upgrade.guard == UpgradeGuard::Warn;
        Self::Judged {
            wanted,
            findings,
            may_begin,
        }
    }

    fn wanted(&self) -> Option<&Wanted> {
        match self {
            Self::None => None,
            Self::Asking(wanted) | Self::Judged { wanted, .. } | Self::Begun(wanted) => {
                Some(wanted)
            }
        }
    }

    fn is_held(&self) -> bool {
        match self {
            Self::Asking(_) => true,
            Self::Judged { may_begin, .. } => !may_begin,
            Self::None | Self::Begun(_) => false,
        }
    }

    /// Whether it goes on, so that other pods are what its user asked for.
    pub(super) fn goes_on(&self) -> bool {
        self.wanted().is_some() && !self.is_held()
    }

    /// The tenant cluster as it is to be now; none where that is as it is asked for.
    pub(super) fn held(&self, valid: &Validated) -> Option<Validated> {
        let wanted = self.wanted().filter(|_| self.is_held())?;
        Some(versions::at(valid, &wanted.from))
    }

    /// Asks once all else is `settled`, and says what it waits for.
    pub(super) fn part(&self, valid: &Validated, observed: &Observed, settled: bool) -> Part {
        let mut part = Part::new(PartName::Upgrade);
        match self {
            Self::Asking(_) if settled && matches!(observed.tenant, Tenant::Answers { .. }) => {
                part.actions.extend(ask(valid, observed));
            }
            Self::Judged {
                wanted,
                findings,
                may_begin: false,
            } => part.waiting = Some(waiting(wanted, findings)),
            _ => {}
        }
        part
    }

    /// What the status and Events say of it.
    pub(super) fn report(&self, plan: &mut Plan, observed: &Observed, now: Timestamp) {
        let before = observed.cluster.status.as_ref();
        let before = before.and_then(|status| status.upgrade.clone());
        let Some(wanted) = self.wanted() else {
            let served = plan.status.version.clone().unwrap_or_default();
            if before.is_some_and(|before| before.to == served) {
                let message = format!("the control plane has Kubernetes {served}");
                plan.events.push(Notice::normal(Reason::Upgraded, message));
            }
            plan.status.upgrade = None;
            return;
        };
        let same = |before: &UpgradeStatus| {
            before.from == wanted.from.to_string() && before.to == wanted.to.to_string()
        };
        let before = before.filter(same);
        let mut after = before.clone().unwrap_or_else(|| UpgradeStatus {
            from: wanted.from.to_string(),
            to: wanted.to.to_string(),
            since: now.to_string(),
            ..UpgradeStatus::default()
        });
        match self {
            // What was found stays until it is known again.
            Self::None | Self::Asking(_) => {}
            Self::Begun(_) => {
                after.phase = UpgradePhase::Rolling;
                after.blockers = Vec::new();
            }
            Self::Judged {
                findings,
                may_begin,
                ..
            } => {
                let of = |holds: bool| {
                    let holds =
                        move |f: &&Finding| (!may_begin && f.verdict != Verdict::Warn) == holds;
                    told(findings.iter().filter(holds))
                };
                after.phase = UpgradePhase::Checking;
                (after.blockers, after.warnings) = (of(true), of(false));
                plan.events
                    .extend(notice(&after, before.as_ref(), findings, *may_begin));
                if !may_begin {
                    let again = pause(findings, observed, now);
                    let pause = plan.requeue_after.map_or(again, |pause| pause.min(again));
                    plan.requeue_after = Some(pause);
                }
            }
        }
        plan.status.upgrade = Some(after);
    }
}

/// An Event where something else is found than before.
fn notice(
    after: &UpgradeStatus,
    before: Option<&UpgradeStatus>,
    findings: &[Finding],
    may_begin: bool,
) -> Option<Notice> {
    let same = |before: &UpgradeStatus| {
        before.blockers == after.blockers && before.warnings == after.warnings
    };
    if before.is_some_and(same) || findings.is_empty() {
        return None;
    }
    let all = match after.blockers.is_empty() {
        true => &after.warnings,
        false => &after.blockers,
    };
    let message = format!(
        "from Kubernetes {} to {}: {}",
        after.from,
        after.to,
        sentences(all)
    );
    match may_begin {
        true => Some(Notice::normal(Reason::UpgradeWarned, message)),
        false => Some(Notice::warning(reason(findings), message)),
    }
}

fn reason(findings: &[Finding]) -> Reason {
    match findings.iter().any(|f| f.verdict == Verdict::Block) {
        true => Reason::UpgradeBlocked,
        false => Reason::UpgradeWaiting,
    }
}

fn sentences(findings: &[UpgradeFinding]) -> String {
    let each: Vec<_> = findings
        .iter()
        .map(|finding| format!("{}: {}", finding.check, finding.message))
        .collect();
    each.join("; ")
}

fn waiting(wanted: &Wanted, findings: &[Finding]) -> Waiting {
    let stands = findings.iter().filter(|f| f.verdict != Verdict::Warn);
    let found = told(stands);
    Waiting {
        reason: reason(findings),
        message: format!(
            "the upgrade from Kubernetes {} to {} does not begin; {}",
            wanted.from,
            wanted.to,
            sentences(&found)
        ),
    }
}

fn ask(valid: &Validated, observed: &Observed) -> Option<Action> {
    if observed.etcd == Etcd::NotAsked {
        let (members, list) = (identity::addresses(valid, observed), false);
        return Some(Action::AskEtcd { members, list });
    }
    let addresses = endpoint::addresses(valid, observed)?;
    let address = (addresses.cluster_ip, endpoint::service_port(valid));
    let servers = servers(observed);
    Some(Action::AskPreflight { address, servers })
}

/// Addresses of pods that serve; none where they are not known.
fn servers(observed: &Observed) -> Vec<IpAddr> {
    let ns = observed.tenant_namespace();
    let all = observed.objects.iter();
    let pods = all.filter(|(key, pod)| {
        let component = &pod["metadata"]["labels"][LABEL_COMPONENT];
        key.kind == "Pod" && key.namespace == ns && *component == names::CONTROL_PLANE
    });
    let serving = pods.filter(|(_, pod)| pod_failures::is_ready(pod));
    serving
        .filter_map(|(_, pod)| pod["status"]["podIP"].as_str()?.parse().ok())
        .collect()
}

fn findings(
    wanted: &Wanted,
    (valid, inside): (&Validated, &Inside),
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Vec<Finding> {
    let held = versions::at(valid, &wanted.from);
    let progress = NamespacePlan::new(&held, observed, settings).progress;
    let store = &observed.material.store;
    let is_authority = |name: &str| {
        names::AUTHORITIES
            .iter()
            .any(|of| of_authority(name, of).is_some())
    };
    let authorities = store.iter().filter(|(name, _)| is_authority(name));
    let authorities = authorities
        .filter_map(|(name, pair)| Some((name.as_str(), pki::not_after(&pair.certificate)?)));
    let asked = match &observed.etcd {
        Etcd::NotAsked => None,
        Etcd::Asked(answers) => Some(answers),
    };
    let etcd = asked.into_iter().flatten().map(|(name, answer)| {
        let answer = answer.as_ref().map_err(String::as_str);
        (name.as_str(), answer)
    });
    let facts = Facts {
        wanted,
        unrest: unrest(observed, &progress, now),
        members: usize::try_from(held.etcd.replicas).unwrap_or(0),
        etcd: etcd.collect(),
        authorities: authorities.collect(),
        certificates_ready: is_true(observed, ConditionType::CertificatesReady),
        inside,
        has_pools: observed.workers,
    };
    checks::all(&facts, now)
}

fn is_true(observed: &Observed, type_: ConditionType) -> bool {
    let status = observed.cluster.status.as_ref();
    status.is_some_and(|status| api::condition::is_true(&status.conditions, type_))
}

/// Why it is not at rest.
fn unrest(observed: &Observed, progress: &[Progress], now: Timestamp) -> Option<String> {
    let status = observed.cluster.status.as_ref();
    if observed.restore.is_some() {
        return Some(
            "it is brought back to a moment of its backup; wait until that is over".to_owned(),
        );
    }
    let etcd = status.and_then(|status| status.etcd.as_ref());
    if etcd.is_some_and(|etcd| etcd.replacing.is_some()) {
        return Some("a member of etcd is replaced; wait until that is over".to_owned());
    }
    let Some(pods) = &observed.pods else {
        return Some("its pods are not known".to_owned());
    };
    if progress.contains(&Progress::Rolling) || pods.iter().any(|pod| pod.terminating) {
        return Some(
            "pods are being replaced, or not all are ready; wait until all are".to_owned(),
        );
    }
    let left = until_calm(observed, now)?;
    (!left.is_zero()).then(|| {
        format!(
            "it is not Ready for {} seconds yet; wait, or see the condition Ready",
            observed.upgrade_calm.as_secs()
        )
    })
}

/// How long until it was Ready for long enough; none where that is not asked for.
fn until_calm(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let calm = observed.upgrade_calm;
    if calm.is_zero() && observed.was_ready() {
        return None;
    }
    let status = observed.cluster.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str())?;
    if ready.status != "True" {
        return Some(calm.max(Duration::from_secs(1)));
    }
    let since = Duration::try_from(now.duration_since(ready.last_transition_time.0));
    Some(calm.saturating_sub(since.unwrap_or_default()))
}

/// When to look again.
fn pause(findings: &[Finding], observed: &Observed, now: Timestamp) -> Duration {
    let waits = findings.iter().any(|f| f.check == Check::Rest);
    let left = until_calm(observed, now).filter(|left| waits && !left.is_zero());
    let second = Duration::from_secs(1);
    left.map_or(PAUSE, |left| (left + second).min(PAUSE))
}
