//! What each type of condition says when it is True, for people who read one.
//!
//! Invariant: every type that Covey writes has one sentence. What the API's own comments say is said here in short.

use api::ConditionType;

/// Makes the table; a type that lacks does not compile.
macro_rules! meanings {
    ($( $name:ident: $meaning:literal; )+) => {
        /// All types of conditions.
        pub const TYPES: &[ConditionType] = &[$(ConditionType::$name,)+];

        /// What it means that a condition of this type is True: one sentence.
        #[must_use]
        pub fn of_type(type_: ConditionType) -> &'static str {
            match type_ { $(ConditionType::$name => $meaning,)+ }
        }
    };
}

meanings! {
    Ready: "It does what it is there for: of a TenantCluster, its API answered a consistent read.";
    Progressing: "The operator is on its way from what is there to what the spec wants.";
    Degraded: "Something is wrong and needs a person, or time; the reason says which.";
    EtcdReady: "The members of etcd are ready.";
    ControlPlaneReady: "The pods of kube-apiserver, with konnectivity's server, are ready.";
    ControllersReady: "The pods of kube-controller-manager and kube-scheduler are ready.";
    EndpointReady: "The endpoint has an address.";
    EndpointReachable: "The operator reached the API at its published endpoint; where it is Unknown, users may all the same.";
    CertificatesReady: "Every certificate is issued, and none is due for renewal.";
    BootstrapReady: "The objects that a tenant cluster needs inside are in place.";
    CoreDNSReady: "CoreDNS answers, where it is wanted and there are nodes for it.";
    KubeProxyReady: "kube-proxy runs on the nodes, where it is wanted.";
    NetworkReady: "The network between pods is there, where Covey makes it.";
    OverlayReady: "The overlay among nodes runs on them, where it is wanted, and no two sites lack a way to each other.";
    KonnectivityReady: "The API server reaches nodes and pods.";
    CloudControllerReady: "The cloud controller manager runs, where it is wanted.";
    CSIReady: "The CSI driver runs, where it is wanted, and on a node.";
    AutoscalerReady: "The Cluster Autoscaler runs, where it is wanted.";
    BackupReady: "What changes is in the backup soon after, where one is wanted.";
    VersionOutdated: "Of a TenantCluster: its patch of Kubernetes is older than the platform allows, now or soon.";
    Autoscaling: "Of a NodePool: the autoscaler sets how many machines there are, and nobody else.";
    AutoscalingRefused: "Of a NodePool: the autoscaler asked for what cannot be, or cannot size this pool.";
    Capacity: "Of a NodePool: there is room, and quota, for one machine more.";
    LocationsHealthy: "Of a NodePool over several locations: none is lost, suspected to be, or on its way back.";
    EndpointUnreachable: "Of a NodePool over several locations: all nodes that come by the published endpoint are silent together, so nobody is replaced.";
    KubeVirtOutdated: "Of a NodePool: the KubeVirt that runs its machines has published holes.";
    Exceeded: "Of a TenantQuota: more is taken than it allows.";
    VirtualMachineReady: "Of a Machine: its virtual machine runs.";
    NodeReady: "Of a Machine: its node joined and is ready.";
    KubeletRenewed: "Of a Machine: its kubelet was told of a rotation in place, and has a certificate that was signed since.";
    Drained: "Of a Machine that goes: no pod is left that has to leave its node first.";
    Reachable: "Of a Host: every hop showed a pinned key, and let the operator in.";
    Verified: "Of a Host: it is the machine that it was, and can become a node. Of a Snapshot: it was read again and was whole.";
    Clean: "Of a Host: nothing of a node is on it.";
    Usable: "Of a BackupTarget: it can hold backups.";
    Leaks: "Of a ProviderConfig: something of a Machine that is gone is there still, and costs.";
    InUse: "Of a ProviderConfig: Machines need it, so it stays, and so do its credentials.";
    Budget: "Of a ProviderConfig: what Machines take is within its limits, and none waits for more. Of a NodePool with a budget: the same of that.";
    Possible: "Of a Restore: the backup has what was asked for.";
    Restored: "Of a Restore: the tenant cluster serves what it was then.";
    Orphans: "Of a Restore: there are load balancers that the tenant cluster of then does not know.";
    OrphanedVolumes: "Of a Restore: there are volumes or snapshots that the tenant cluster of then does not know.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_type_is_there_once_and_has_a_sentence() {
        let names: BTreeSet<_> = TYPES.iter().map(|type_| type_.as_str()).collect();
        assert_eq!(names.len(), TYPES.len());
        for type_ in TYPES {
            assert!(of_type(*type_).ends_with('.'), "{}", type_.as_str());
        }
    }
}
