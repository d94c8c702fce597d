//! Names of objects, labels and annotations that more than one component must agree on.
//!
//! Invariant: whatever must be unique is derived from a UID, never from namespace and name
//! (two tenants "a-b/c" and "a/b-c" must not meet).

/// Label on everything in a tenant namespace, and on the namespace: UID of the TenantCluster.
pub const LABEL_TENANT_UID: &str = "covey.dev/tenant-cluster-uid";
/// Label: name of the TenantCluster, for people.
pub const LABEL_TENANT_NAME: &str = "covey.dev/tenant-cluster";
/// Label: namespace of the TenantCluster, for people and to find the owner across namespaces.
pub const LABEL_TENANT_NAMESPACE: &str = "covey.dev/tenant-cluster-namespace";
/// Label on a tenant namespace that was made for another TenantCluster: UID of the one that took it over. It is written once,
/// and only where it is not there, so nobody else can have it then.
pub const LABEL_TAKEN_OVER_BY: &str = "covey.dev/taken-over-by";
/// Label on a TenantCluster of the operator's own: a control plane that runs until somebody wants one of its version.
pub const LABEL_STANDBY: &str = "covey.dev/standby";
/// Label: which part of the control plane an object is (`etcd`, `control-plane`, …).
pub const LABEL_COMPONENT: &str = "app.kubernetes.io/component";
/// Value of [`LABEL_COMPONENT`] on virtual machines and their pods.
pub const COMPONENT_WORKER: &str = "worker";
/// Value of [`LABEL_COMPONENT`] on what a tenant's Service of type LoadBalancer became in the tenant
/// namespace: a Service and its EndpointSlices.
pub const COMPONENT_LOAD_BALANCER: &str = "load-balancer";
/// Annotation on a load balancer in a tenant namespace: UID of the Restore of its tenant cluster. Whether there is a
/// Service for it in there or not, it stays while it has this: until it is decided what becomes of those for which there is
/// none (`spec.orphans` of the Restore), and for good where they are to stay.
pub const ANNOTATION_KEPT_FOR_RESTORE: &str = "covey.dev/kept-for-restore";
/// Annotation on a load balancer that is kept for a Restore: whether the tenant cluster of then knows no Service for it, as
/// the cloud controller manager sees it ([`orphan_answer`]).
pub const ANNOTATION_ORPHAN: &str = "covey.dev/orphan";
/// Annotation on a load balancer in a tenant namespace, for people: name of the tenant's Service.
pub const ANNOTATION_MADE_FOR: &str = "covey.dev/service";
/// Annotation on a load balancer in a tenant namespace, for people: namespace of the tenant's Service.
pub const ANNOTATION_MADE_FOR_NAMESPACE: &str = "covey.dev/service-namespace";
/// Value of [`LABEL_COMPONENT`] on the claim in a tenant namespace that a volume of the tenant cluster is.
pub const COMPONENT_VOLUME: &str = "volume";
/// What names of such claims begin with; the identifier of a volume (`spec.csi.volumeHandle`) is the name of its claim.
pub const VOLUME_PREFIX: &str = "vol-";
/// Value of [`LABEL_COMPONENT`] on the VolumeSnapshot in a tenant namespace that a snapshot of the tenant cluster is.
pub const COMPONENT_SNAPSHOT: &str = "snapshot";
/// What names of such VolumeSnapshots begin with; the identifier of a snapshot (`status.snapshotHandle`) is the name of
/// its VolumeSnapshot.
pub const SNAPSHOT_PREFIX: &str = "snap-";
/// Annotation on such a claim or VolumeSnapshot: the name under which the tenant cluster asked for it. The stock
/// provisioner asks for `pvc-` and the UID of the tenant's claim, and calls the PersistentVolume so; the stock snapshotter
/// for `snapshot-` and the UID of the tenant's VolumeSnapshot.
pub const ANNOTATION_VOLUME_NAME: &str = "covey.dev/volume-name";
/// Annotation on such a claim, for people: namespace and name of the tenant's claim.
pub const ANNOTATION_TENANT_CLAIM: &str = "covey.dev/tenant-claim";
/// Annotation on such a claim: the machines that are to have the volume, separated by commas.
pub const ANNOTATION_ATTACH_TO: &str = "covey.dev/attach-to";
/// Annotation on such a claim: the machines that may have the volume, separated by commas. It is written before the first
/// of them can, and a machine leaves it when it has been seen without.
pub const ANNOTATION_ATTACHED_TO: &str = "covey.dev/attached-to";
/// Annotation on DaemonSets of addons inside the tenant cluster: for how many nodes one was changed, so that Kubernetes counts
/// those that it has to run on anew.
pub const ANNOTATION_NODES_COUNTED: &str = "covey.dev/nodes-counted";
/// Annotation on Services of type LoadBalancer inside a copy of another tenant cluster (`spec.etcd.copyOf`), which has them
/// as they were there: no load balancer is made for one while it has this. Who wants one takes it off.
pub const ANNOTATION_COPIED: &str = "covey.dev/copied";

/// Annotation on a TenantCluster: members of its etcd of which no newer entry of the log than this one is noted
/// (`status.etcd.members[].lastIndex`) start on older volumes, too. What was acknowledged since is lost. Example: `5678`.
pub const ANNOTATION_ACCEPT_ETCD_INDEX: &str = "covey.dev/accept-etcd-index";
/// On a Restore that was made because the volumes of etcd are gone: the identifier of that etcd cluster, hexadecimal.
pub const ANNOTATION_LOST_ETCD: &str = "covey.dev/lost-etcd";
/// Label on what belongs to a BackupTarget: its UID.
pub const LABEL_BACKUP_TARGET: &str = "covey.dev/backup-target";
/// Value of [`LABEL_COMPONENT`] on what checks a BackupTarget.
pub const COMPONENT_BACKUP_CHECK: &str = "backup-check";
/// Label: who manages the object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "covey";
/// Label on objects inside a tenant cluster: the addon that they belong to, and go with.
pub const LABEL_ADDON: &str = "covey.dev/addon";
/// Value of [`LABEL_COMPONENT`] on a tenant namespace.
pub const COMPONENT_TENANT_NAMESPACE: &str = "tenant-namespace";
/// Annotation on a tenant namespace: when it was found that its TenantCluster is gone (RFC 3339).
pub const ANNOTATION_ORPHANED_SINCE: &str = "covey.dev/orphaned-since";
/// Value of [`LABEL_COMPONENT`] on pods of the activator, in the operator's namespace.
pub const COMPONENT_ACTIVATOR: &str = "activator";
/// ConfigMap in the operator's namespace: at which port the activator waits for which tenant cluster that sleeps
/// ([`crate::activator`]).
pub const SLEEPERS: &str = "covey-sleepers";
/// Annotation on a Lease of [`wake_lease`]: when requests woke the tenant cluster in the last hour, RFC 3339, by commas.
pub const ANNOTATION_WAKES: &str = "covey.dev/wakes";

/// Lease in the operator's namespace by which the activator asks to wake the tenant cluster of this UID.
#[must_use]
pub fn wake_lease(uid: &str) -> String {
    format!("wake-{uid}")
}

/// Value of [`ANNOTATION_ORPHAN`]: the Restore that it is kept for is in it, so that the answer for another one is none.
#[must_use]
pub fn orphan_answer(restore: &str, is_orphan: bool) -> String {
    format!("{restore}={is_orphan}")
}

/// Whether a load balancer that is kept for the Restore of this UID is an orphan; none where nobody has said so.
#[must_use]
pub fn is_orphan(answer: Option<&str>, restore: &str) -> Option<bool> {
    match answer?.strip_prefix(restore)?.strip_prefix('=')? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Finalizer on a TenantCluster: removed once its tenant namespace is gone.
pub const FINALIZER: &str = "covey.dev/tenant-cluster";

/// Label: name of the NodePool, on its Machines and on everything that belongs to one of them.
pub const LABEL_NODE_POOL: &str = "covey.dev/node-pool";
/// Label of nodes: `true` on those of machines that are not in the management cluster's network.
pub const LABEL_ELSEWHERE: &str = "covey.dev/elsewhere";
/// Label: name of the Machine, on its virtual machine, the pod of that and its Secrets.
pub const LABEL_MACHINE: &str = "covey.dev/machine";
/// Selects what does not belong to a Machine: what machines boot with is none of the control plane's
/// business.
pub const NOT_OF_MACHINES: &str = "!covey.dev/machine";
/// Label: UID of the Machine, so that one of the same name is never taken for it.
pub const LABEL_MACHINE_UID: &str = "covey.dev/machine-uid";
/// Label on a machine's virtual machine and its pod: whose resolver it asks for names.
pub const LABEL_RESOLVER: &str = "covey.dev/resolver";
/// Value of [`LABEL_RESOLVER`]: not the management cluster's.
pub const RESOLVER_OWN: &str = "own";
/// Annotation on a Machine: its number in the node pool, from which its name is derived.
pub const ANNOTATION_MACHINE_NUMBER: &str = "covey.dev/machine-number";
/// Annotation on a Machine that takes a node over as it runs: UID of the Host whose machine that is, `/`, and the
/// fingerprint by which its authority is the tenant cluster's.
pub const ANNOTATION_ADOPTS: &str = "covey.dev/adopts";
/// Annotation on a Machine, any value: it was made in the place of one that is lost with its location, and goes once
/// that is back.
pub const ANNOTATION_FOR_LOST: &str = "covey.dev/for-lost";
/// Annotation on a Machine: it has its turn to have its kubelet told of a rotation in place; since when nodes are to have
/// been told (RFC 3339, `believedSince` or `signedUntil` of `status.rotation`). Its node pool writes it.
pub const ANNOTATION_RENEW_KUBELET: &str = "covey.dev/renew-kubelet";
/// Annotation on the pod and the Secret that do so in the tenant cluster: which try they are of.
pub const ANNOTATION_RENEWAL: &str = "covey.dev/kubelet-renewal";
/// Annotation on a Machine, any value: goes first when its node pool shrinks. On a NodePool, names
/// of Machines separated by commas: they go now; who shrinks the pool writes it together with
/// `spec.replicas`, so that no other Machine goes in their place.
pub const ANNOTATION_DELETE_MACHINE: &str = "covey.dev/delete-machine";
/// Annotation on a NodePool: what the autoscaler's adapter refused last, and in which generation
/// ([`crate::node_pool::Refused`]); the operator shows it in a condition.
pub const ANNOTATION_AUTOSCALING_REFUSED: &str = "covey.dev/autoscaling-refused";
/// Annotation on a node: the Cluster Autoscaler does not take it away while it is `true`
/// (`utils/scaledown`).
pub const ANNOTATION_SCALE_DOWN_DISABLED: &str =
    "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Annotation beside [`ANNOTATION_SCALE_DOWN_DISABLED`]: who put it there, so that nobody takes off
/// what somebody else wants.
pub const ANNOTATION_SCALE_DOWN_DISABLED_BY: &str = "covey.dev/scale-down-disabled-by";
/// ConfigMap in `kube-system` of a tenant cluster: which pools grow first. The Cluster Autoscaler
/// knows it by this name (`expander/priority`).
pub const PRIORITY_EXPANDER: &str = "cluster-autoscaler-priority-expander";
/// Label on a virtual machine, and by way of the cloud controller manager on its node: of what size
/// it is (a well-known label of Kubernetes).
pub const LABEL_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The zone that a node, or a virtual machine, is in.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// The region that a node, or a virtual machine, is in.
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// Taint on a node that no cloud controller manager has looked at yet.
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Label on a node: load balancers send nothing there (KEP-1143).
pub const LABEL_EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Taint on a node of which it is proven that nothing runs there any more (KEP-2268).
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Lease of the cloud controller manager, in the tenant namespace.
pub const LEASE_CLOUD_CONTROLLER: &str = "covey-ccm";
/// Finalizer on a tenant's Service while it may have a load balancer (k8s.io/cloud-provider
/// `service/helpers`).
pub const FINALIZER_LOAD_BALANCER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// Finalizer on a Machine: removed once its virtual machine and the instance of that are gone.
pub const FINALIZER_MACHINE: &str = "covey.dev/machine";
/// Finalizer on a Host: removed once no Machine has it.
pub const FINALIZER_HOST: &str = "covey.dev/host";
/// Annotation on a Host: UID of the Machine of its claim, whose remains a person has removed. The claim is given
/// up for it; whether the machine is clean is looked at all the same.
pub const ANNOTATION_HOST_IS_CLEAN: &str = "covey.dev/host-is-clean";
/// Annotation on a Host that is being deleted: its own UID. It goes although a Machine has it.
pub const ANNOTATION_ABANDON: &str = "covey.dev/abandon";
/// Annotation on a Host whose node is to be taken over: UID of the Machine that the file on the machine names, which a
/// person knows to be gone for good. It is not waited until nobody has looked after the machine for long.
pub const ANNOTATION_TAKE_OVER: &str = "covey.dev/take-over";
/// Annotation on a Host: the machine-id of the machine that has taken the place of the one that was known.
pub const ANNOTATION_ACCEPT_MACHINE_ID: &str = "covey.dev/accept-machine-id";
/// Annotation on a ProviderConfig: the end of one of its `status.gaps`. What was made in it, or in an earlier one, and is of
/// no Machine is nobody's, and deleted.
pub const ANNOTATION_DELETE_UNKNOWN: &str = "covey.dev/delete-unknown";
/// Annotation on a Node of a tenant cluster with an overlay: its WireGuard public key, as base64. The node
/// writes it itself; its private key never leaves the machine.
pub const ANNOTATION_OVERLAY_KEY: &str = "covey.dev/overlay-public-key";
/// Annotation on such a Node: `address:port` at which nodes of the same site reach it.
pub const ANNOTATION_OVERLAY_ENDPOINT: &str = "covey.dev/overlay-endpoint";
/// Annotation on such a Node: MTU of the network that carries its tunnel, in bytes.
pub const ANNOTATION_OVERLAY_MTU: &str = "covey.dev/overlay-mtu";
/// ConfigMap in kube-system of a tenant cluster with an overlay: for each node by name, its address in the
/// overlay and where it is.
pub const OVERLAY_MEMBERS: &str = "covey-overlay";
/// Finalizer on a ProviderConfig, on the Secret that it names and on the operator's RoleBinding beside them: removed once
/// no Machine needs them.
pub const FINALIZER_PROVIDER_CONFIG: &str = "covey.dev/provider-config";
/// Label on the operator's RoleBinding of a user's namespace that was needed by Machines of clouds: the operator may
/// write it on, though not make it, when no TenantCluster is there any more. An admission policy of the chart relies on it.
pub const LABEL_NEEDED_BY_MACHINES: &str = "covey.dev/needed-by-machines";
/// Finalizer on an AccessGrant: removed once it has no rights inside its tenant cluster.
pub const FINALIZER_ACCESS_GRANT: &str = "covey.dev/access-grant";
/// Label on the binding inside a tenant cluster that an AccessGrant has there, and on the Secret that one writes: its UID.
pub const LABEL_ACCESS_GRANT: &str = "covey.dev/access-grant";
/// Finalizer on a NodePool: removed once it has no Machine.
pub const FINALIZER_NODE_POOL: &str = "covey.dev/node-pool";

/// Name of the RoleBinding that lets the operator work in a tenant namespace or a user's namespace.
pub const OPERATOR_BINDING: &str = "covey-operator";

/// Prefix of the RoleBinding of [`autoscaler_binding`].
pub const AUTOSCALER_BINDING_PREFIX: &str = "covey-autoscaler-";

/// Prefix of every tenant namespace; admission policies of the chart rely on it.
pub const TENANT_NAMESPACE_PREFIX: &str = "covey-";
/// Longest name of a TenantCluster: the tenant namespace must stay within 63 characters
/// (`covey-` + name + `-` + ten of the UID).
pub const MAX_NAME_LENGTH: usize = 63 - TENANT_NAMESPACE_PREFIX.len() - 1 - UID_LENGTH;
/// How many digits of its UID a tenant namespace is called after; admission policies of the chart
/// rely on it. Forty bits, all of them random (RFC 9562, version 4): among a million tenant clusters
/// of one name half a pair meets, and nobody makes namesakes until one meets a certain other.
pub const UID_LENGTH: usize = 10;

/// Characters that a node pool appends to its name for a Machine, without the `-`.
pub const MACHINE_SUFFIX_LENGTH: usize = 5;
/// Longest name of a Machine, its virtual machine and its node: certificates hold
/// `system:node:<node>` as common name, which has at most 64 characters (RFC 5280, appendix A,
/// `ub-common-name`).
pub const MAX_MACHINE_NAME_LENGTH: usize = 64 - "system:node:".len();
/// Longest name of a NodePool: its Machines are called `<name>-<suffix>`.
pub const MAX_POOL_NAME_LENGTH: usize = MAX_MACHINE_NAME_LENGTH - 1 - MACHINE_SUFFIX_LENGTH;

/// The name of a Machine, its virtual machine and its node.
#[must_use]
pub fn machine(pool: &str, suffix: &str) -> String {
    format!("{pool}-{suffix}")
}

/// The selector of a node pool's Machines, as the scale subresource wants it.
#[must_use]
pub fn pool_selector(pool: &str) -> String {
    format!("{LABEL_NODE_POOL}={pool}")
}

/// What a machine of KubeVirt is called by provider and node: `kubevirt://<virtual machine>`, as
/// KubeVirt's own cloud controller does.
#[must_use]
pub fn kubevirt_provider_id(machine: &str) -> String {
    format!("kubevirt://{machine}")
}

/// The virtual machine that [`kubevirt_provider_id`] names; none of another provider, and none that no
/// object can be called (a DNS subdomain, RFC 1123): a kubelet chooses its providerID, and what it says
/// becomes part of a request's path.
#[must_use]
pub fn kubevirt_machine(provider_id: &str) -> Option<&str> {
    let name = provider_id.strip_prefix("kubevirt://")?;
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (name.len() <= 253 && name.split('.').all(is_label)).then_some(name)
}

/// What a machine that is there already is called by provider and node: `static://<Host>/<Machine>`. With the
/// Machine in it, because the next one that has the same Host is another machine to everybody.
#[must_use]
pub fn static_provider_id(host: &str, machine: &str) -> String {
    format!("static://{host}/{machine}")
}

/// Whether it is that of a machine of this name, on whatever Host.
#[must_use]
pub fn is_static_provider_id_of(id: &str, machine: &str) -> bool {
    let rest = id.strip_prefix("static://");
    let host = rest.and_then(|rest| rest.strip_suffix(machine)?.strip_suffix('/'));
    host.is_some_and(|host| {
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !host.is_empty() && host.len() <= 63 && host.bytes().all(is_name)
    })
}

/// The Secret in the tenant namespace with the user data that a machine boots with.
#[must_use]
pub fn user_data_secret(machine: &str) -> String {
    format!("{machine}-user-data")
}

/// The tenant namespace of a TenantCluster: `covey-<name>-<first ten digits of the UID>`.
#[must_use]
pub fn tenant_namespace(name: &str, uid: &str) -> String {
    let short: String = uid
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(UID_LENGTH)
        .collect();
    format!("{TENANT_NAMESPACE_PREFIX}{name}-{short}")
}

/// The Secret with the administrator's kubeconfig, in the namespace of the TenantCluster; its key
/// is `value`, as Cluster API, Flux and Argo CD expect.
#[must_use]
pub fn kubeconfig_secret(name: &str) -> String {
    format!("{name}-kubeconfig")
}

/// The RoleBinding in a user's namespace that lets the adapter of one tenant cluster read Machines and
/// size NodePools there. The chart's admission policies rely on the name.
#[must_use]
pub fn autoscaler_binding(cluster: &str) -> String {
    format!("{AUTOSCALER_BINDING_PREFIX}{cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_for_another_restore_or_of_another_form_is_none() {
        for said in [true, false] {
            let answer = orphan_answer("r", said);
            assert_eq!(is_orphan(Some(&answer), "r"), Some(said));
            assert_eq!(is_orphan(Some(&answer), "s"), None);
            assert_eq!(is_orphan(Some(&answer), "r-1"), None);
        }
        for none in [None, Some(""), Some("r"), Some("r=maybe"), Some("true")] {
            assert_eq!(is_orphan(none, "r"), None);
        }
    }

    #[test]
    fn longest_name_still_fits_into_a_namespace() {
        let name = "n".repeat(MAX_NAME_LENGTH);
        let namespace = tenant_namespace(&name, "0a1b2c3d-0000-0000-0000-000000000000");
        assert_eq!(namespace.len(), 63);
        assert!(namespace.ends_with("-0a1b2c3d00"));
    }

    #[test]
    fn namesakes_whose_uids_begin_alike_have_namespaces_of_their_own() {
        let one = tenant_namespace("demo", "0a1b2c3d-4000-4000-8000-000000000000");
        let other = tenant_namespace("demo", "0a1b2c3d-4100-4000-8000-000000000000");
        assert_eq!(one, "covey-demo-0a1b2c3d40");
        assert_ne!(one, other);
    }

    #[test]
    fn longest_names_of_pools_and_machines_are_those_of_the_rules() {
        assert_eq!((MAX_POOL_NAME_LENGTH, MAX_MACHINE_NAME_LENGTH), (46, 52));
        let node = machine(
            &"n".repeat(MAX_POOL_NAME_LENGTH),
            &"x".repeat(MACHINE_SUFFIX_LENGTH),
        );
        assert_eq!(format!("system:node:{node}").len(), 64);
    }
}
