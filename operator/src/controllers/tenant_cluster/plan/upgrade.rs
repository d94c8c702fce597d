//! Whether an upgrade that is asked for may begin, and what is told of it.
//!
//! Until it may, everything is planned for the version that serves: certificates are renewed, what is lost comes
//! back, other changes of the spec are carried out. Once the control plane's template is of the new version it has
//! begun: new kube-apiservers serve the minor before for a while ([`soak`]), and then their own.
//! Invariant: computed from what runs; erasing what the status says of it changes nothing but the time.

use std::time::Duration;

use api::Reason;
use api::tenant_cluster::{UpgradeFinding, UpgradeGuard, UpgradePhase, UpgradeStatus};
use jiff::Timestamp;
use kit::events::Notice;
use tenant_cp::{Settings, Validated};

use super::endpoint;
use super::etcd::identity;
use super::types::{Action, Part, Plan};
use crate::controllers::tenant_cluster::observed::{Etcd, Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;
use crate::upgrades::finding::{Check, Finding, Verdict, told};
use crate::upgrades::versions::{self, Template, Wanted};

mod facts;
mod soak;

use facts::{findings, inside, servers, soak_of, until_calm};
use soak::{Soak, soak};

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
    /// Its kube-apiservers serve the minor before.
    Emulating { wanted: Wanted, soak: Soak },
    /// They are brought to serve their own.
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
        match live
            .there()
            .map(|live| versions::template(live, &wanted.to))
        {
            Some(Template::Serves) => return Self::Begun(wanted),
            Some(Template::Emulates) => {
                let soak = soak(&wanted, valid, observed, settings, now);
                return Self::Emulating { wanted, soak };
            }
            Some(Template::Other) | None => {}
        }
        let Some(inside) = inside(observed) else {
            return Self::Asking(wanted);
        };
        let findings = findings(&wanted, (valid, &inside), observed, settings, now);
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
            Self::Asking(wanted)
            | Self::Judged { wanted, .. }
            | Self::Emulating { wanted, .. }
            | Self::Begun(wanted) => Some(wanted),
        }
    }

    fn is_held(&self) -> bool {
        match self {
            Self::Asking(_) => true,
            Self::Judged { may_begin, .. } => !may_begin,
            Self::None | Self::Emulating { .. } | Self::Begun(_) => false,
        }
    }

    /// Whether kube-apiservers are to serve the minor before.
    fn emulates(&self, valid: &Validated, observed: &Observed) -> bool {
        match self {
            Self::Judged {
                wanted,
                may_begin: true,
                ..
            } => wanted.emulates(valid, soak_of(observed)),
            Self::Emulating { soak, .. } => !matches!(soak, Soak::Over),
            _ => false,
        }
    }

    /// Whether it goes on, so that other pods are what its user asked for.
    pub(super) fn goes_on(&self) -> bool {
        self.wanted().is_some() && !self.is_held()
    }

    /// The tenant cluster as it is to be now; none where that is as it is asked for.
    pub(super) fn as_it_is_now(&self, valid: &Validated, observed: &Observed) -> Option<Validated> {
        let wanted = self.wanted()?;
        match (self.is_held(), self.emulates(valid, observed)) {
            (true, _) => Some(versions::at(valid, &wanted.from)),
            (false, true) => Some(versions::emulating(valid, wanted.from.minor)),
            (false, false) => None,
        }
    }

    /// Asks once all else is `settled`, and says what it waits for.
    pub(super) fn part(&self, valid: &Validated, observed: &Observed, settled: bool) -> Part {
        let mut part = Part::new(PartName::Upgrade);
        match self {
            Self::Asking(_)
            | Self::Emulating {
                soak: Soak::Asking, ..
            } if settled && matches!(observed.tenant, Tenant::Answers { .. }) => {
                part.actions.extend(ask(valid, observed));
            }
            Self::Judged {
                wanted,
                findings,
                may_begin: false,
            } => part.waiting = Some(waiting(wanted, findings)),
            Self::Emulating {
                wanted,
                soak: Soak::Blocked(findings),
            } => part.waiting = Some(waiting(wanted, findings)),
            Self::Emulating {
                wanted,
                soak: Soak::Goes(_),
            } => {
                part.waiting = Some(Waiting {
                    reason: Reason::Upgrading,
                    message: format!(
                        "kube-apiservers are of Kubernetes {} and serve 1.{} for {}; spec.version may be set back",
                        wanted.to, wanted.from.minor, observed.cluster.spec.upgrade.soak.0
                    ),
                });
            }
            _ => {}
        }
        part
    }

    /// What the status and Events say of it; `valid` is what is planned for now.
    pub(super) fn report(
        &self,
        plan: &mut Plan,
        valid: &Validated,
        observed: &Observed,
        now: Timestamp,
    ) {
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
                after.phase = match wanted.emulates(valid, soak_of(observed)) {
                    true => UpgradePhase::Finalizing,
                    false => UpgradePhase::Rolling,
                };
                after.blockers = Vec::new();
            }
            Self::Emulating { soak, .. } => {
                after.phase = match soak {
                    Soak::Rolling => UpgradePhase::Rolling,
                    Soak::Goes(_) | Soak::Asking | Soak::Blocked(_) => UpgradePhase::Soaking,
                    Soak::Over => UpgradePhase::Finalizing,
                };
                let pause = match soak {
                    Soak::Goes(left) => Some(*left + Duration::from_secs(1)),
                    Soak::Blocked(_) => Some(PAUSE),
                    _ => None,
                };
                sooner(plan, pause);
                if let Soak::Blocked(findings) = soak {
                    after.blockers = told(findings.iter());
                    plan.events
                        .extend(notice(&after, before.as_ref(), findings, false));
                } else if !matches!(soak, Soak::Asking) {
                    after.blockers = Vec::new();
                }
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
                sooner(plan, (!may_begin).then(|| pause(findings, observed, now)));
            }
        }
        plan.status.upgrade = Some(after);
    }
}

fn sooner(plan: &mut Plan, again: Option<Duration>) {
    plan.requeue_after = plan.requeue_after.into_iter().chain(again).min();
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

/// When to look again.
fn pause(findings: &[Finding], observed: &Observed, now: Timestamp) -> Duration {
    let waits = findings.iter().any(|f| f.check == Check::Rest);
    let left = until_calm(observed, now).filter(|left| waits && !left.is_zero());
    let second = Duration::from_secs(1);
    left.map_or(PAUSE, |left| (left + second).min(PAUSE))
}
