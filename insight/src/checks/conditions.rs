//! What conditions say: which check a reason belongs to, and how bad it is.
//!
//! Invariant: a condition that is Unknown is never told as one that is False. Reasons that the catalogue does not have
//! are told as they were read.

use api::reason::class::Class;
use api::{ConditionType, Reason};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::check::Check;
use crate::finding::{Finding, Level, Scope, Subject};

/// How long something may go on by itself before it is worth a warning.
pub(super) const GRACE: SignedDuration = SignedDuration::from_mins(2);
/// The same for what is being changed: a rollout takes its time.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// The group of the catalogue with reasons of specs that cannot be carried out, by one of its members.
const A_REFUSAL: Reason = Reason::InvalidSpec;

/// Whose conditions they are, and how patient to be with them.
pub(super) struct About<'a> {
    pub(super) subject: &'a Subject,
    pub(super) scope: &'a Scope,
    pub(super) now: Timestamp,
    /// How long machines may take.
    pub(super) grace: SignedDuration,
}

/// What these conditions find. A person's turn comes before what goes on by itself: it says more.
pub(super) fn check(conditions: &[Condition], about: &About<'_>) -> Vec<Finding> {
    let told = conditions.iter().filter_map(|c| finding(c, about));
    let mut told: Vec<_> = told.collect();
    told.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    told
}

fn finding(condition: &Condition, about: &About<'_>) -> Option<Finding> {
    let since = condition.last_transition_time.0;
    let age = about.now.duration_since(since);
    let reason = condition.reason.parse::<Reason>().ok();
    if !is_bad(condition, reason, age) {
        return None;
    }
    let check = match about.subject.kind.as_str() {
        // Nothing of the tenant cluster is wrong by it.
        "AccessGrant" => Check::Grants,
        kind => reason
            .and_then(by_reason)
            .unwrap_or_else(|| by_type(condition, reason, kind)),
    };
    let level = level(reason, age, about.grace)?;
    let (subject, message) = (about.subject.clone(), condition.message.as_str());
    let finding = match reason {
        Some(reason) => Finding::of_reason(check, level, subject, reason, message),
        None => {
            let what = match message.is_empty() {
                true => condition.reason.clone(),
                false => format!("{}: {message}", condition.reason),
            };
            let kind = about.subject.kind.to_lowercase();
            let mend = format!("see `kubectl describe {kind} {}`", about.subject.name);
            Finding::new(check, level, subject, &what, &mend)
        }
    };
    let mut finding = finding.within(about.scope);
    finding.since = Some(since);
    let told_by = format!("{} is {}", condition.type_, condition.status);
    Some(finding.told_by(&told_by))
}

/// Whether a condition says that something is not as it should be.
fn is_bad(condition: &Condition, reason: Option<Reason>, age: SignedDuration) -> bool {
    let is = |type_: ConditionType| condition.type_ == type_.as_str();
    let value = condition.status.as_str();
    let persons = reason.is_some_and(|reason| reason.class() == Class::Person);
    let bad_when_true = [
        ConditionType::Degraded,
        ConditionType::AutoscalingRefused,
        ConditionType::KubeVirtOutdated,
        ConditionType::EndpointUnreachable,
        ConditionType::VersionOutdated,
        ConditionType::Exceeded,
        ConditionType::Leaks,
        ConditionType::Orphans,
        ConditionType::OrphanedVolumes,
    ];
    if bad_when_true.into_iter().any(is) {
        value == "True"
    } else if is(ConditionType::Progressing) {
        // It ended because of something, or does not end.
        (value == "False" && persons) || (value == "True" && age > PATIENCE)
    } else if is(ConditionType::EndpointReachable) {
        value != "True" && persons
    } else if is(ConditionType::Drained) || reason == Some(Reason::NotReadAgain) {
        // Of snapshots only the newest is read again.
        false
    } else {
        value == "False"
    }
}

/// How bad; none where there is nothing to tell.
fn level(reason: Option<Reason>, age: SignedDuration, grace: SignedDuration) -> Option<Level> {
    use Reason as R;
    let by_itself = if age > grace {
        Level::Warning
    } else {
        Level::Info
    };
    match reason {
        // Machines are drained first, and machines boot.
        Some(R::FallingAsleep | R::Waking) => Some(match age > PATIENCE {
            true => Level::Warning,
            false => Level::Info,
        }),
        // A tenant cluster without nodes is whole, and so is one that waits for the window that its user chose.
        Some(R::NoNodes | R::WaitingForWindow) => None,
        // What runs goes on as it is.
        Some(
            R::Paused
            | R::NotReachedByOperator
            | R::KubeVirtOutdated
            | R::VersionBelowMinimum
            | R::AboveLimits
            | R::AddonOff
            | R::AutoscalingRefused
            | R::UpgradeBlocked
            | R::UpgradeFailed
            | R::RolledBack
            | R::FleetHeld
            | R::FleetPolicyIgnored,
        ) => Some(Level::Warning),
        // It may be known for long that there is no room, and hurts once somebody needs it.
        Some(R::NoRoom | R::QuotaExhausted | R::MemberLost | R::SpaceLow) => Some(Level::Warning),
        Some(reason) => match reason.class() {
            Class::Fine => None,
            Class::Waiting => Some(by_itself),
            Class::Person | Class::Bug => Some(Level::Error),
        },
        None => Some(by_itself),
    }
}

/// Reasons that belong to one check, whichever condition says them.
fn by_reason(reason: Reason) -> Option<Check> {
    use Reason as R;
    Some(match reason {
        R::Paused => Check::Paused,
        R::FallingAsleep | R::Waking => Check::Sleep,
        R::UpgradeBlocked
        | R::UpgradeWaiting
        | R::UpgradeFailed
        | R::RollingBack
        | R::RolledBack
        | R::VersionBelowMinimum => Check::Upgrade,
        R::WaitingForStart => Check::Starts,
        R::CertificateAuthorityLost | R::AuthorityUnreadable => Check::Authorities,
        R::NamespaceDeleted | R::DataLost | R::NamespaceTaken => Check::TenantNamespace,
        R::NoSpace | R::SpaceLow | R::Defragmenting => Check::EtcdSpace,
        R::MemberLost | R::ReplacingMember => Check::LostMember,
        R::MembersNotReady
        | R::VolumeLost
        | R::QuorumLost
        | R::Corrupt
        | R::ForeignData
        | R::OtherMember
        | R::OtherClaim
        | R::Damaged
        | R::OutdatedData
        | R::IdentityUnusable
        | R::VolumeUnreadable
        | R::TimedOut => Check::Etcd,
        R::ApiUnreachable | R::Starting | R::ServesOtherVersion | R::WaitingForApi => {
            Check::ApiReady
        }
        R::WaitingForAddress | R::AddressLost => Check::EndpointAddress,
        R::NotReachedByOperator | R::EndpointSilent | R::EndpointNotAnswering => {
            Check::EndpointReach
        }
        R::ControllersNotReady | R::RolloutStuck => Check::ControlPlanePods,
        R::AddonsNotReady => Check::Addons,
        R::QuotaExceeded
        | R::NoRoom
        | R::QuotaExhausted
        | R::AboveLimits
        | R::AccountLimitReached => Check::Capacity,
        R::AddonOff | R::AutoscalingRefused => Check::Autoscaler,
        R::ReservedRangesUnknown => Check::ReservedRanges,
        R::ProviderMissing
        | R::ProviderNotConfigured
        | R::ProviderNotInstalled
        | R::KubeVirtOutdated => Check::Virtualization,
        R::TransientFailure | R::InvalidInput | R::Conflict | R::InternalError | R::Applying => {
            Check::OperatorMoves
        }
        R::Deleting => Check::Deleting,
        _ => return None,
    })
}

/// The check of a condition whose reason is nobody's in particular.
fn by_type(condition: &Condition, reason: Option<Reason>, kind: &str) -> Check {
    let is = |type_: ConditionType| condition.type_ == type_.as_str();
    let any = |types: &[ConditionType]| types.iter().any(|type_| is(*type_));
    let refused = reason.is_some_and(|reason| reason.group() == A_REFUSAL.group());
    if refused {
        Check::Spec
    } else if is(ConditionType::EtcdReady) {
        Check::Etcd
    } else if any(&[
        ConditionType::ControlPlaneReady,
        ConditionType::ControllersReady,
    ]) {
        Check::ControlPlanePods
    } else if is(ConditionType::EndpointReady) {
        Check::EndpointAddress
    } else if is(ConditionType::EndpointReachable) {
        Check::EndpointReach
    } else if is(ConditionType::CertificatesReady) {
        Check::Certificates
    } else if is(ConditionType::KonnectivityReady) {
        Check::Konnectivity
    } else if is(ConditionType::AutoscalerReady) {
        Check::Autoscaler
    } else if is(ConditionType::BackupReady) {
        Check::Backup
    } else if is(ConditionType::Capacity) {
        Check::Capacity
    } else if is(ConditionType::Leaks) {
        Check::Leaks
    } else if any(&[
        ConditionType::CoreDNSReady,
        ConditionType::KubeProxyReady,
        ConditionType::NetworkReady,
        ConditionType::OverlayReady,
        ConditionType::CloudControllerReady,
        ConditionType::CSIReady,
    ]) {
        Check::Addons
    } else {
        match kind {
            "NodePool" | "Machine" => by_pool(reason),
            "Host" => Check::Hosts,
            "BackupTarget" => Check::BackupTargets,
            "Snapshot" => Check::Snapshots,
            "Restore" => Check::Restores,
            "TenantQuota" => Check::Capacity,
            "ProviderConfig" => Check::CloudAccounts,
            "FleetPolicy" => Check::Fleet,
            // What keeps a part from being carried out, and is none of the above.
            _ if is(ConditionType::Degraded) => Check::ControlPlanePods,
            _ if is(ConditionType::Progressing) => Check::OperatorMoves,
            _ => Check::ApiReady,
        }
    }
}

fn by_pool(reason: Option<Reason>) -> Check {
    match reason {
        Some(
            Reason::ClusterNotFound
            | Reason::ClusterDeleted
            | Reason::LocationsMalformed
            | Reason::LocationsFull,
        ) => Check::Spec,
        _ => Check::Machines,
    }
}
