//! Whether an upgrade that is asked for may begin, and what is told of it.
//!
//! Until it may, everything is planned for the version that serves: certificates are renewed, what is lost comes
//! back, other changes of the spec are carried out. Once the control plane's template is of the new version it has
//! begun: new kube-apiservers serve the minor before for a while ([`soak`]), and then their own. One that fails
//! ([`failing`]) goes back by itself ([`back`]).
//! Invariant: computed from what runs; erasing what the status says of it changes nothing but the time, and an upgrade
//! that failed is tried once more.

use api::Reason;
use api::tenant_cluster::{UpgradeFailurePolicy, UpgradeFinding, UpgradeGuard, UpgradePhase};
use jiff::Timestamp;
use tenant_cp::{Settings, Validated};

use super::endpoint;
use super::etcd::identity;
use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::{Etcd, Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;
use crate::upgrades::finding::{Finding, Verdict, told};
use crate::upgrades::snapshot;
use crate::upgrades::versions::{self, Template, Wanted};

mod back;
mod facts;
mod failing;
mod report;
mod soak;

use back::Back;
use facts::{findings, inside, servers, soak_of};
use failing::Watched;
use soak::{Soak, soak};

/// How far an upgrade is.
pub(super) enum Upgrade {
    /// None is wanted.
    None,
    /// It is not known yet what speaks against it.
    Asking(Wanted),
    /// It is known: something does, or it may begin, once the status says what was found.
    Judged {
        wanted: Wanted,
        findings: Vec<Finding>,
        may_begin: bool,
        is_told: bool,
        snapshot: snapshot::State,
        /// It is the operator's wish, and has not had its turn: it does not begin before.
        awaits_turn: bool,
    },
    /// Nothing does, and a Snapshot is made, or waited for.
    Snapshotting {
        wanted: Wanted,
        findings: Vec<Finding>,
        snapshot: snapshot::State,
    },
    /// Its kube-apiservers serve the minor before.
    Emulating {
        wanted: Wanted,
        soak: Soak,
        watched: Watched,
    },
    /// They are brought to serve their own.
    Begun { wanted: Wanted, watched: Watched },
    /// It failed, and is taken back.
    Failed { wanted: Wanted, back: Back },
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
        if let Some(back) = Back::new(&wanted, valid, observed, settings) {
            return Self::Failed { wanted, back };
        }
        let watch = |phase, wanted: &Wanted, valid: &Validated| {
            Watched::new((phase, wanted), valid, observed, settings, now)
        };
        let live = observed.started();
        match live
            .there()
            .map(|live| versions::template(live, &wanted.to))
        {
            Some(Template::Serves) => {
                let phase = match wanted.emulates(valid, soak_of(observed)) {
                    true => UpgradePhase::Finalizing,
                    false => UpgradePhase::Rolling,
                };
                let watched = watch(phase, &wanted, valid);
                return Self::Begun { wanted, watched };
            }
            Some(Template::Emulates) => {
                let soak = soak(&wanted, valid, observed, settings, now);
                let emulating = versions::emulating(valid, wanted.from.minor);
                let watched = watch(soak.phase(), &wanted, &emulating).with(&soak);
                return Self::Emulating {
                    wanted,
                    soak,
                    watched,
                };
            }
            Some(Template::Other) | None => {}
        }
        let Some(inside) = inside(observed) else {
            return Self::Asking(wanted);
        };
        let mut findings = findings(&wanted, (valid, &inside), observed, settings, now);
        let awaits_turn = observed.patch.awaits_turn(&observed.cluster);
        let snapshot = facts::snapshot(&wanted, observed, now);
        if let snapshot::State::Unavailable(finding) = &snapshot {
            findings.push(finding.clone());
        }
        let stands = findings.iter().any(|f| f.verdict != Verdict::Warn);
        let may_begin = !stands || observed.cluster.spec.upgrade.guard == UpgradeGuard::Warn;
        let is_awaited = matches!(
            snapshot,
            snapshot::State::Absent | snapshot::State::Awaited(_)
        );
        match may_begin && is_awaited && !awaits_turn {
            true => Self::Snapshotting {
                wanted,
                findings,
                snapshot,
            },
            false => Self::Judged {
                is_told: facts::is_told(&wanted, &findings, observed),
                wanted,
                findings,
                may_begin,
                snapshot,
                awaits_turn,
            },
        }
    }

    /// Whether it is the operator's wish, and not its user's.
    pub(super) fn is_own(&self, observed: &Observed) -> bool {
        let wanted = self.wanted();
        wanted.is_some_and(|wanted| observed.patch.is_own(&wanted.to))
    }

    /// Whether it waits for nobody's turn: it is taken back, or is a patch that was, and is no other's meanwhile.
    pub(super) fn keeps_its_place(&self, observed: &Observed) -> bool {
        self.goes_back() || (matches!(self, Self::Failed { .. }) && self.is_own(observed))
    }

    /// Whether the operator takes a patch by itself: it may begin, or has begun. One that failed keeps its place, so that one
    /// that is bad breaks no more than are rolled out at a time.
    pub(super) fn takes_patch(&self, observed: &Observed) -> bool {
        let may_be = match self {
            Self::None => false,
            Self::Judged {
                awaits_turn: true,
                may_begin,
                is_told,
                ..
            } => *may_begin && *is_told,
            Self::Asking(_) => !observed.patch.awaits_turn(&observed.cluster),
            _ => true,
        };
        may_be && self.is_own(observed)
    }

    fn wanted(&self) -> Option<&Wanted> {
        match self {
            Self::None => None,
            Self::Asking(wanted)
            | Self::Judged { wanted, .. }
            | Self::Snapshotting { wanted, .. }
            | Self::Emulating { wanted, .. }
            | Self::Begun { wanted, .. }
            | Self::Failed { wanted, .. } => Some(wanted),
        }
    }

    fn is_held(&self) -> bool {
        match self {
            Self::Asking(_) | Self::Snapshotting { .. } => true,
            Self::Judged {
                may_begin,
                is_told,
                awaits_turn,
                ..
            } => !(*may_begin && *is_told) || *awaits_turn,
            Self::None | Self::Emulating { .. } | Self::Begun { .. } | Self::Failed { .. } => false,
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
            // One that fails goes no further.
            Self::Emulating { soak, watched, .. } => {
                !matches!(soak, Soak::Over) || watched.failed.is_some()
            }
            _ => false,
        }
    }

    /// Whether pods of another version are being taken back.
    pub(super) fn goes_back(&self) -> bool {
        matches!(self, Self::Failed { back, .. } if !back.is_over)
    }

    /// Whether it goes on, so that other pods are what its user asked for.
    pub(super) fn goes_on(&self) -> bool {
        let is_back = matches!(self, Self::Failed { .. }) && !self.goes_back();
        self.wanted().is_some() && !self.is_held() && !is_back
    }

    /// The tenant cluster as it is to be now; none where that is as it is asked for.
    pub(super) fn as_it_is_now(&self, valid: &Validated, observed: &Observed) -> Option<Validated> {
        let wanted = self.wanted()?;
        if let Self::Failed { back, .. } = self {
            return Some(back.target(valid, wanted));
        }
        match (self.is_held(), self.emulates(valid, observed)) {
            (true, _) => Some(versions::at(valid, &wanted.from)),
            (false, true) => Some(versions::emulating(valid, wanted.from.minor)),
            (false, false) => None,
        }
    }

    /// Asks once all else is `settled`, and says what it waits for.
    pub(super) fn part(
        &self,
        valid: &Validated,
        observed: &Observed,
        settled: bool,
        now: Timestamp,
    ) -> Part {
        let mut part = Part::new(PartName::Upgrade);
        match self {
            Self::Snapshotting {
                wanted,
                snapshot: snapshot::State::Absent,
                ..
            } if settled => {
                let snapshot = snapshot::object(wanted, &observed.cluster, now);
                let snapshot = Box::new(snapshot);
                part.actions.push(Action::AskForSnapshot { snapshot });
            }
            Self::Asking(_)
            | Self::Emulating {
                soak: Soak::Asking, ..
            } if settled && matches!(observed.tenant, Tenant::Answers { .. }) => {
                part.actions.extend(ask(valid, observed));
            }
            _ => part.waiting = self.waiting(observed),
        }
        part
    }

    fn waiting(&self, observed: &Observed) -> Option<Waiting> {
        if let Self::Emulating {
            wanted, watched, ..
        }
        | Self::Begun { wanted, watched } = self
            && let Some(failed) = &watched.failed
        {
            return Some(match observed.cluster.spec.upgrade.on_failure {
                UpgradeFailurePolicy::Hold => Waiting {
                    reason: Reason::UpgradeFailed,
                    message: format!(
                        "the upgrade to Kubernetes {} failed, and stays as far as it came: {}",
                        wanted.to, failed.message
                    ),
                },
                UpgradeFailurePolicy::RollBack => Waiting {
                    reason: Reason::RollingBack,
                    message: format!(
                        "the upgrade to Kubernetes {} failed: {}",
                        wanted.to, failed.message
                    ),
                },
            });
        }
        match self {
            Self::Failed { wanted, back } if self.goes_back() => Some(back.told(wanted)),
            Self::Snapshotting { wanted, .. } => Some(Waiting {
                reason: Reason::UpgradeWaiting,
                message: format!(
                    "the upgrade from Kubernetes {} to {} begins once the Snapshot {} is in the backup and was read \
                     again",
                    wanted.from,
                    wanted.to,
                    snapshot::name(wanted, &observed.cluster)
                ),
            }),
            Self::Judged {
                wanted,
                may_begin: true,
                is_told: false,
                ..
            } => Some(Waiting {
                reason: Reason::UpgradeWaiting,
                message: format!(
                    "the upgrade from Kubernetes {} to {} begins",
                    wanted.from, wanted.to
                ),
            }),
            Self::Judged {
                wanted,
                findings,
                may_begin: false,
                ..
            } => {
                let what = format!(
                    "the upgrade from Kubernetes {} to {} does not begin",
                    wanted.from, wanted.to
                );
                Some(waiting(&what, findings))
            }
            Self::Emulating {
                wanted,
                soak: Soak::Blocked(findings),
                ..
            } => {
                let what = format!(
                    "kube-apiservers are of Kubernetes {} and go on serving 1.{}",
                    wanted.to, wanted.from.minor
                );
                Some(waiting(&what, findings))
            }
            Self::Emulating {
                wanted,
                soak: Soak::Goes(_),
                ..
            } => Some(Waiting {
                reason: Reason::Upgrading,
                message: format!(
                    "kube-apiservers are of Kubernetes {} and serve 1.{} for {}; spec.version may be set back",
                    wanted.to, wanted.from.minor, observed.cluster.spec.upgrade.soak.0
                ),
            }),
            _ => None,
        }
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

fn waiting(what: &str, findings: &[Finding]) -> Waiting {
    let stands = findings.iter().filter(|f| f.verdict != Verdict::Warn);
    let found = told(stands);
    Waiting {
        reason: reason(findings),
        message: format!("{what}; {}", sentences(&found)),
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
