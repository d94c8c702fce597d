//! Conditions in the standard form (KEP-1623), and the one way to set them.
//!
//! Invariant: `lastTransitionTime` changes only when `status` changes, so that a condition which
//! stays as it is never causes a write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::reason::ConditionReason;

/// The conditions of our kinds; the first three are every kind's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ConditionType {
    /// The API answered a consistent read, at its published endpoint or, where the operator does not reach
    /// that, at its Service.
    Ready,
    /// The operator is on its way from the observed to the desired state.
    Progressing,
    /// Something is wrong and needs a person, or time; the reason says which.
    Degraded,
    /// The etcd members are ready.
    EtcdReady,
    /// The control plane's pods, kube-apiserver with konnectivity's server, are ready.
    ControlPlaneReady,
    /// The pods of kube-controller-manager and kube-scheduler are ready.
    ControllersReady,
    /// The endpoint has an address.
    EndpointReady,
    /// The operator reached the API at its published endpoint; Unknown where it did not, because users
    /// may all the same.
    EndpointReachable,
    /// Every certificate is issued and not due for renewal.
    CertificatesReady,
    /// The objects which a tenant cluster needs inside are in place.
    BootstrapReady,
    /// CoreDNS answers, where it is wanted and there are nodes for it.
    CoreDNSReady,
    /// kube-proxy runs on the nodes, where it is wanted.
    KubeProxyReady,
    /// The network between pods is there, where Covey makes it.
    NetworkReady,
    /// The overlay among nodes runs on them, where it is wanted, and no two sites lack a way to each other.
    OverlayReady,
    /// The API server reaches nodes and pods.
    KonnectivityReady,
    /// The cloud controller manager runs, where it is wanted.
    CloudControllerReady,
    /// The CSI driver and its sidecars run, where they are wanted, and on a node.
    CSIReady,
    /// The Cluster Autoscaler and its adapter run, where they are wanted.
    AutoscalerReady,
    /// What changes is in the backup soon after, where one is wanted.
    BackupReady,
    /// Of a TenantCluster: it runs an older version than the operator's configuration allows, now or soon. Absent where it
    /// does not.
    VersionOutdated,
    /// Of a NodePool: the autoscaler sets `replicas`, and nobody else.
    Autoscaling,
    /// Of a NodePool: the autoscaler asked for what cannot be, or the pool is one that it cannot size.
    AutoscalingRefused,
    /// Of a NodePool: the management cluster has room, and quota, for one machine more.
    Capacity,
    /// Of a NodePool over several locations: none is lost, suspected to be, or on its way back.
    LocationsHealthy,
    /// Of a NodePool over several locations: all nodes that come by the published endpoint are silent together, so that may be
    /// why. Absent where they are not.
    EndpointUnreachable,
    /// Of a NodePool: the KubeVirt that runs its machines has published holes. Absent where it has none.
    KubeVirtOutdated,
    /// Of a TenantQuota: more is taken than it allows.
    Exceeded,
    /// Of a Machine: its virtual machine runs.
    VirtualMachineReady,
    /// Of a Machine: its node joined and is ready.
    NodeReady,
    /// Of a Machine: its kubelet was told of a rotation in place, and has a certificate that was signed since. Absent where
    /// nobody tried.
    KubeletRenewed,
    /// Of a Machine that goes: no pod is left that has to leave its node first.
    Drained,
    /// Of a Host: every hop showed a pinned key, and let the operator in.
    Reachable,
    /// Of a Host: it is the machine that it was, is listed once, and can become a node. Of a Snapshot: it was read
    /// again, with all that follows it, and was whole.
    Verified,
    /// Of a Host: nothing of a node is on it.
    Clean,
    /// Of a BackupTarget: it can hold backups.
    Usable,
    /// Of a ProviderConfig: something of a Machine that is gone is there still, and costs.
    Leaks,
    /// Of a ProviderConfig: Machines need it, so it stays, and so do its credentials.
    InUse,
    /// Of a ProviderConfig: what Machines take is within its limits, and none waits for more. Of a NodePool with a budget: the
    /// same of that.
    Budget,
    /// Of a Restore: the backup has what was asked for.
    Possible,
    /// Of a Restore: the tenant cluster serves what it was then.
    Restored,
    /// Of a Restore: there are load balancers that the tenant cluster of then does not know.
    Orphans,
    /// Of a Restore: there are volumes or snapshots that the tenant cluster of then does not know.
    OrphanedVolumes,
}

impl ConditionType {
    /// The name as it stands in `status.conditions[].type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::EtcdReady => "EtcdReady",
            Self::ControlPlaneReady => "ControlPlaneReady",
            Self::ControllersReady => "ControllersReady",
            Self::EndpointReady => "EndpointReady",
            Self::EndpointReachable => "EndpointReachable",
            Self::CertificatesReady => "CertificatesReady",
            Self::BootstrapReady => "BootstrapReady",
            Self::CoreDNSReady => "CoreDNSReady",
            Self::KubeProxyReady => "KubeProxyReady",
            Self::NetworkReady => "NetworkReady",
            Self::OverlayReady => "OverlayReady",
            Self::KonnectivityReady => "KonnectivityReady",
            Self::CloudControllerReady => "CloudControllerReady",
            Self::CSIReady => "CSIReady",
            Self::AutoscalerReady => "AutoscalerReady",
            Self::BackupReady => "BackupReady",
            Self::VersionOutdated => "VersionOutdated",
            Self::Autoscaling => "Autoscaling",
            Self::AutoscalingRefused => "AutoscalingRefused",
            Self::Capacity => "Capacity",
            Self::LocationsHealthy => "LocationsHealthy",
            Self::EndpointUnreachable => "EndpointUnreachable",
            Self::KubeVirtOutdated => "KubeVirtOutdated",
            Self::Exceeded => "Exceeded",
            Self::VirtualMachineReady => "VirtualMachineReady",
            Self::NodeReady => "NodeReady",
            Self::KubeletRenewed => "KubeletRenewed",
            Self::Drained => "Drained",
            Self::Reachable => "Reachable",
            Self::Verified => "Verified",
            Self::Clean => "Clean",
            Self::Usable => "Usable",
            Self::Leaks => "Leaks",
            Self::InUse => "InUse",
            Self::Budget => "Budget",
            Self::Possible => "Possible",
            Self::Restored => "Restored",
            Self::Orphans => "Orphans",
            Self::OrphanedVolumes => "OrphanedVolumes",
        }
    }
}

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Not known (yet).
    Unknown,
}

impl ConditionStatus {
    /// The text of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// Sets one condition in a list sorted by type; keeps the transition time when the status stays.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: ConditionType,
    status: ConditionStatus,
    reason: impl Into<ConditionReason>,
    message: &str,
    generation: Option<i64>,
    now: Time,
) {
    let found = conditions.iter().find(|c| c.type_ == type_.as_str());
    let last_transition_time = match found {
        Some(c) if c.status == status.as_str() => c.last_transition_time.clone(),
        _ => now,
    };
    let new = Condition {
        type_: type_.as_str().to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.into().as_str().to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time,
    };
    conditions.retain(|c| c.type_ != new.type_);
    let at = conditions.partition_point(|c| c.type_ < new.type_);
    conditions.insert(at, new);
}

/// Gives every condition whose status is what it was before the time that it had before, whatever was said of it
/// meanwhile: who says two things one after the other, and ends with the first, has changed nothing.
pub fn keep_transition_times(before: &[Condition], after: &mut [Condition]) {
    for condition in after {
        let mut before = before.iter();
        let stayed = before.find(|c| c.type_ == condition.type_ && c.status == condition.status);
        if let Some(stayed) = stayed {
            condition.last_transition_time = stayed.last_transition_time.clone();
        }
    }
}

/// Takes one condition out of a list.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: ConditionType) {
    conditions.retain(|c| c.type_ != type_.as_str());
}

/// Whether a condition is there and `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: ConditionType) -> bool {
    conditions
        .iter()
        .any(|c| c.type_ == type_.as_str() && c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn at(second: i64) -> Time {
        Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let mut set = |status, reason: Reason, second| {
            set_condition(
                &mut conditions,
                ConditionType::Ready,
                status,
                reason,
                "",
                Some(1),
                at(second),
            );
            conditions[0].clone()
        };
        let first = set(ConditionStatus::False, Reason::Starting, 1);
        let reworded = set(ConditionStatus::False, Reason::WaitingForTurn, 2);
        assert_eq!(reworded.last_transition_time, first.last_transition_time);
        assert_eq!(reworded.reason, Reason::WaitingForTurn.as_str());
        assert_eq!(
            set(ConditionStatus::True, Reason::Answering, 3).last_transition_time,
            at(3)
        );
    }

    #[test]
    fn conditions_stay_sorted_whatever_the_order_of_setting() {
        let mut conditions = Vec::new();
        for type_ in [
            ConditionType::Ready,
            ConditionType::Degraded,
            ConditionType::EtcdReady,
        ] {
            set_condition(
                &mut conditions,
                type_,
                true.into(),
                Reason::Answering,
                "",
                None,
                at(0),
            );
        }
        let types: Vec<&str> = conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(types, ["Degraded", "EtcdReady", "Ready"]);
        assert!(is_true(&conditions, ConditionType::EtcdReady));
        assert!(!is_true(&conditions, ConditionType::Progressing));
    }
}
