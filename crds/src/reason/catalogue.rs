//! The catalogue itself: every reason that a component of Covey writes, what it means, whose turn it is, what to do.
//!
//! Invariant: one line each for meaning, cause (the likeliest first; of a person's and the developers' turn) and
//! remedy, which names a field or a command. A reason that a later version adds says so: `Name: Fine, "", since
//! "0.2.0";`. Of what is refused they stand in `refusals`, of backups in `backups`.
//! Long because each reason is a few lines, and which group it is in is seen at one glance.

mod backups;
mod refusals;

use super::class::Class;
use backups::with_backups;

with_backups! {
    "Every kind" {
        /// Nothing is wrong.
        AsExpected: Fine, "";
        /// Everything is as the spec wants it.
        AsDesired: Fine, "";
        /// Objects are being written that differ from the wanted state.
        Applying: Waiting, "Nothing; it takes seconds.";
        /// It is being deleted; the message says what still holds it.
        Deleting: Waiting, "If it stays: look at the finalizer or the object that the message names.";
        /// A control plane that ran already was taken over, so nothing had to be started.
        TookOver: Fine, "";
        /// `spec.paused` of the TenantCluster is true: nothing is changed but certificates that end.
        /// Cause: Somebody set it, most often for maintenance or a restore, and has not taken it back.
        Paused: Person, "Set `spec.paused` of the TenantCluster to false to go on.";
        /// The management cluster's API refused, or was not reached; it is tried again.
        TransientFailure: Waiting, "If it stays: read the operator's log.";
        /// An API refused what was written, because something in it is not valid there.
        /// Cause: An admission policy or webhook of the cluster refuses it; else a value of the spec that only that API knows to be wrong.
        InvalidInput: Person, "Change what the message names: `kubectl describe` of the object shows it in full.";
        /// Somebody else wrote the object at the same moment; it is planned anew.
        Conflict: Waiting, "If it stays: find out who else writes the object, in its `metadata.managedFields`.";
        /// The operator met something that cannot be: a bug.
        /// Cause: A case that nobody thought of, most often in a version of Kubernetes or KubeVirt that is newer than this one.
        InternalError: Bug, "Report it with the operator's log: `kubectl logs` of its Deployment.";
        /// A TenantQuota does not allow it; what ran before keeps running as it is.
        /// Cause: The user namespace grew to what it was given; or the quota was lowered below what is there.
        QuotaExceeded: Person, "Ask for less, delete what is not needed, or have `kubectl edit tenantquota` raise the quota.";
        /// Pods, machines or tenant clusters are being replaced by newer ones, one after the other.
        RollingOut: Waiting, "Nothing. If it stays: look at the pods or machines that the message counts.";
        /// Others that are slow to answer have all the places; this one is asked next, and its conditions stay.
        WaitingForTurn: Waiting, "Nothing.";
        /// The tenant's API answered before and does not now; it is asked again by itself.
        /// Cause: Pods of the control plane or of etcd are down or out of memory; else a NetworkPolicy or the CNI stands between them and the operator.
        ApiUnreachable: Person, "Look at the control plane: `kubectl describe pods` in the tenant namespace.";
        /// No node of the management cluster has a place for a pod or a virtual machine.
        /// Cause: The management cluster is full; else a `nodeSelector`, a taint or a zone of a volume leaves no node.
        Unschedulable: Person, "Add nodes to the management cluster, free some, or ask for less: `kubectl describe pod` says what lacks.";
    }
    "Of a TenantCluster" {
        /// The API answered a consistent read.
        Answering: Fine, "";
        /// The API became ready.
        Ready: Fine, "";
        /// The operator did not reach the published endpoint; users may all the same.
        /// Cause: A firewall or `sourceRanges` lets users in and not the operator; else a wrong `host`, or a load balancer without a ready pod.
        NotReachedByOperator: Person, "Open the way from the operator to the endpoint, or check `spec.controlPlane.endpoint.host`, where clients do not reach it either.";
        /// The pods are there, and the API does not answer for the first time yet.
        Starting: Waiting, "If it takes minutes: read pods and logs in the tenant namespace.";
        /// Other control planes are starting; this one has its place in the queue.
        WaitingForStart: Waiting, "Nothing, or raise `config.maxConcurrentStarts` of the chart.";
        /// Its pods are to be replaced, and others are rolled out first; it runs as before.
        WaitingForRollout: Waiting, "Nothing. If it stays: see which tenant clusters are `RollingOut`, and why.";
        /// Something speaks against the upgrade that is asked for; the version that serves stays.
        /// Cause: Nodes, clients or webhooks of the tenant cluster that would not work afterwards, or etcd is not whole.
        UpgradeBlocked: Person, "Mend all that `status.upgrade.blockers` names, set `spec.version` back, or set `spec.upgrade.guard` to Warn; see `docs/upgrades.md`.";
        /// The upgrade that is asked for begins once the tenant cluster is at rest; the version that serves stays.
        UpgradeWaiting: Waiting, "If it stays: read `status.upgrade.blockers`.";
        /// The new kube-apiservers run, and serve the minor before for a while.
        Upgrading: Waiting, "Nothing; `spec.upgrade.soak` says for how long.";
        /// The upgrade failed, and what ran before comes back.
        RollingBack: Waiting, "Nothing; `status.upgrade.failure` says why. If it stays: look at the pods of the tenant namespace.";
        /// The upgrade failed, what ran before runs and is looked after, and that version is not tried again by itself.
        /// Cause: A flag that the new version does not know, an image that cannot be pulled, or no room for one pod more.
        RolledBack: Person, "Mend what `status.upgrade.failure` says and set `spec.upgrade.retry` to another number, or set `spec.version` back.";
        /// The upgrade failed, and stays as far as it came, because `spec.upgrade.onFailure` is Hold.
        /// Cause: A flag that the new version does not know, an image that cannot be pulled, or no room for one pod more.
        UpgradeFailed: Person, "Mend what `status.upgrade.failure` says, set `spec.version` back, or set `spec.upgrade.onFailure` to RollBack.";
        /// The upgrade begins, and something was found that may trouble it.
        UpgradeWarned: Fine, "";
        /// All programs of the control plane have the version that was asked for.
        Upgraded: Fine, "";
        /// An authority or key is turned: another generation of it is made, believed, signs, and is at last the only one.
        Rotating: Waiting, "Nothing. If it stays: `status.rotation` says what it waits for.";
        /// Nothing but the wanted generation of an authority or key is believed any more.
        Rotated: Fine, "";
        /// No kube-apiserver became ready with the KMS that is asked for, and what encrypted before stays.
        /// Cause: Its plugin does not start or does not reach it: a Secret that lacks, a network policy, or rights at the KMS.
        KmsTakenBack: Person, "See why the container `kms-<name>` in a pod `control-plane` did not work, mend it, and set `spec.encryption.kms.generation` to another number.", since "0.2.0";
        /// It is put to sleep: machines are drained and deleted, then what runs ends, one after the other.
        FallingAsleep: Waiting, "If it stays: the message says what is left. Set `spec.hibernation.enabled` to false to keep it awake.", since "0.2.0";
        /// It sleeps, as `spec.hibernation` asks for: nothing of it runs, and its data, keys and addresses stay.
        Hibernated: Fine, "", since "0.2.0";
        /// It wakes: what ran before starts.
        Waking: Waiting, "Nothing; it takes seconds, and machines minutes.", since "0.2.0";
        /// Service account keys are turned, and tokens of before have not ended yet: they are let in meanwhile.
        WaitingForTokens: Fine, "";
        /// New pods of the control plane are not ready after ten minutes; the old ones serve on.
        /// Cause: An image that cannot be pulled, a flag that the new version does not know, or no room for one pod more.
        RolloutStuck: Person, "Mend what the pods say, or set `spec.version` or the flags back.";
        /// The API says that it is of another version than its pods can be; what it says is not believed.
        /// Cause: The registry has an image of another version under the tag; else a proxy answers in the API's place.
        ServesOtherVersion: Person, "Compare `kubectl version` with `spec.version`, and correct the image or `spec.images.registry`.";
        /// The API answers, and no pod of kube-controller-manager and kube-scheduler is ready: nothing that is written is carried out.
        /// Cause: A flag or feature gate that they do not take, or a memory limit; right after the first answer they start.
        ControllersNotReady: Person, "See the condition `ControllersReady`; if it says nothing for minutes: `kubectl describe pods` of the Deployment `controllers` in the tenant namespace.";
        /// The API answers, and not all addons work although there are nodes.
        /// Cause: Nodes cannot pull the addon's image or are not ready; else an object of the addon was changed inside.
        AddonsNotReady: Person, "See the addons' own conditions: `kubectl describe tenantcluster`.";
        /// The Service of the endpoint has no address yet.
        WaitingForAddress: Waiting, "If it stays: a load balancer of the management cluster has to give one; see `spec.controlPlane.endpoint`.";
        /// The endpoint has an address.
        HasAddress: Fine, "";
        /// The load balancer of the endpoint has no address any more; the last one stays in certificates and kubeconfigs.
        /// Cause: The controller of load balancers was reinstalled or its address pool changed; else somebody took the Service's status away.
        AddressLost: Person, "See to the load balancers of the management cluster: `kubectl describe service control-plane` in the tenant namespace.";
        /// Every certificate is issued.
        Issued: Fine, "";
        /// Certificates are being issued.
        Issuing: Waiting, "Nothing; it takes milliseconds unless writes fail.";
        /// All members of etcd are ready.
        MembersReady: Fine, "";
        /// Fewer members of etcd are ready than wanted.
        MembersNotReady: Waiting, "If it takes minutes: read pods and logs of etcd in the tenant namespace.";
        /// The pods are ready.
        PodsReady: Fine, "";
        /// Fewer pods are ready than wanted, or none.
        PodsNotReady: Waiting, "If it takes minutes: `kubectl describe pods`, in the tenant namespace or with the tenant's kubeconfig in kube-system.";
        /// There is no node yet that the addon could run on.
        NoNodes: Waiting, "Nothing; make a NodePool to have nodes.";
        /// The overlay runs, and there are nodes of two sites of which neither can be dialled.
        /// Cause: Hosts behind address translations without a port that leads to them; else their endpoint was never written down.
        OverlayWithoutWay: Person, "Forward a UDP port to a node of each site that the message names, and set `Host.spec.overlayEndpoint` to it.";
        /// The overlay's range has no address left for a machine.
        /// Cause: A range that was chosen for fewer nodes; each machine has one, also those that go.
        OverlayRangeFull: Person, "Have fewer machines; or switch `spec.addons.overlay.enabled` off, and on again with a larger `cidr`.";
        /// The overlay was switched off, and stays until flannel is back on the network below on every node, and no node is known by its address there.
        SwitchingOverlayOff: Waiting, "Delete the Machines that the message names, if any. Else, if it stays: `kubectl -n kube-flannel get daemonset kube-flannel-ds` with the tenant's kubeconfig; a node that does not answer holds it.";
        /// The objects inside the tenant cluster are in place.
        InPlace: Fine, "";
        /// The objects inside the tenant cluster are written once the API answers.
        WaitingForApi: Waiting, "Nothing, once the API answers.";
        /// The addon was switched off, and its pods or its load balancers are not gone yet.
        RemovingCloudController: Waiting, "If it stays: see who is to take off the finalizer of the Service that is named.";
        /// A certificate authority or key was deleted, and a new one would make it another tenant cluster.
        /// Cause: Somebody deleted or emptied the Secret, or a restore of the tenant namespace left it out.
        CertificateAuthorityLost: Person, "Restore the Secret that is named from a backup: `kubectl apply` it in the tenant namespace.";
        /// The tenant namespace is being deleted, and etcd's data with it.
        /// Cause: Somebody ran `kubectl delete namespace`, or a tool pruned it as not its own.
        NamespaceDeleted: Person, "If a finalizer still holds it, save what is needed: `kubectl get namespace -o yaml`.";
        /// The tenant namespace is gone, with etcd's data and all keys; no empty tenant cluster is made in its place.
        /// Cause: Somebody deleted the namespace, most often while the operator was away.
        DataLost: Person, "Restore it from a backup, or `kubectl delete tenantcluster` and create it anew.";
        /// A namespace of the tenant namespace's name is not this TenantCluster's.
        /// Cause: Another TenantCluster had the name before, or somebody made the namespace by hand or by a restore.
        NamespaceTaken: Person, "Delete that namespace or the TenantCluster: `kubectl get namespace --show-labels` says whose it is.";
        /// The TenantCluster that the namespace was made for is gone without the operator; everything in it goes on.
        /// Cause: Somebody took the finalizer off, or the management cluster was restored from before the TenantCluster was made.
        TenantClusterGone: Person, "`kubectl delete namespace` if nobody needs what is in it, before the time that the message names.";
        /// Of metrics: a namespace outlives the TenantCluster that it was made for.
        Orphaned: Waiting, "Nothing beside what its Event says.";
        /// A namespace is deleted whose TenantCluster has been gone for long enough.
        RemovingOrphan: Fine, "";
        /// Members of etcd have different data, and nobody can say which is right.
        /// Cause: A disk that lost or changed writes, or a member that was started from a copy of its files.
        Corrupt: Person, "Restore from a backup, or replace the odd one of three: `etcdctl alarm list`.";
        /// etcd's database has its most bytes; only reads and deletions go on.
        /// Cause: Something in the tenant cluster writes objects without end, most often Events, Leases or custom resources of a controller.
        NoSpace: Person, "Delete what the message names as largest, or raise `spec.etcd.storage.size` (and `quotaBackendBytes`): it is compacted, defragmented and takes writes again by itself.";
        /// etcd's database is close to its most bytes, with which only reads and deletions go on.
        /// Cause: Something in the tenant cluster writes ever more objects, most often Events or custom resources of a controller; else it grew to what it was given.
        SpaceLow: Person, "Delete what is not needed, or raise `spec.etcd.storage.size` (and `quotaBackendBytes`), before it is full.";
        /// The disk of a member of etcd is slow, and what the tenant cluster writes waits for it.
        /// Cause: A StorageClass on slow or shared disks, a limit of the volume's throughput, or something else that writes on the same disk; a disk that is about to fail.
        SlowDisk: Person, "Look at the volume, its node and who else writes there; take a faster class: `spec.etcd.storage.storageClassName`. One of three whose disk alone is slow does not lead, and is replaced after half an hour.";
        /// The etcd for Events does not work; the API goes on, and keeps Events with everything else.
        /// Cause: Its node has no room for it, its image cannot be pulled, or its database is full: then another pod takes its place after ten minutes.
        EventsUnavailable: Person, "`kubectl describe pods` of etcd-events in the tenant namespace: see to what keeps the pod from running; or remove `spec.etcd.events`.", since "0.2.0";
        /// Files of etcd's database are written anew without what is free in them.
        Defragmenting: Waiting, "Nothing; it takes seconds for each member.";
        /// etcd's database was full, and takes writes again.
        SpaceRelieved: Fine, "";
        /// The data of an etcd member is gone: its claim, its volume, or what was on it.
        /// Cause: Somebody deleted the claim or the volume, or the node with a local volume is gone.
        VolumeLost: Person, "Bring the volume back or restore it from a backup; else `kubectl delete tenantcluster` and create it anew.";
        /// One of three members of etcd has lost its data; the two others serve on, and nothing of the tenant cluster is lost.
        /// Cause: Somebody deleted the member's claim or its volume, the node with a local volume is gone, or files on it are damaged.
        MemberLost: Waiting, "Nothing: an empty member takes its place. If it stays: the message says what it waits for; with `spec.etcd.autoReplace: false` it is yours, see docs/etcd.md.";
        /// A member of etcd is being replaced by an empty one, which the others give the data.
        ReplacingMember: Waiting, "Nothing; it takes a minute or two. If it stays: `kubectl describe pods` of etcd in the tenant namespace.";
        /// A member of etcd that was lost is replaced, and all members serve.
        MemberReplaced: Fine, "";
        /// Members of etcd are added or taken away, because `spec.etcd.replicas` changed.
        ResizingEtcd: Waiting, "Nothing; it takes a minute or two, and may be set back. If it stays: the message says what it waits for.";
        /// There are as many members of etcd as `spec.etcd.replicas` says, and all serve.
        EtcdResized: Fine, "";
        /// Two of three members of etcd have lost their data: nothing is written or read, and nothing is begun anew.
        /// Cause: Claims or volumes of two members were deleted, or two nodes with local volumes are gone.
        QuorumLost: Person, "Bring one of the lost volumes back (`kubectl get pvc,pv`), or restore from a backup; leave the volume that is left as it is.";
        /// The volume of an etcd member has another etcd cluster's data.
        /// Cause: A volume was bound by hand, or restored from a backup of another tenant cluster.
        ForeignData: Person, "Bind the right volume to the claim: `kubectl get pvc,pv`, and docs/etcd.md.";
        /// The volume of an etcd member has another member's data.
        /// Cause: Volumes of two members were exchanged when they were bound by hand or restored.
        OtherMember: Person, "Bind the right volume to the claim: `kubectl get pvc,pv`, and docs/etcd.md.";
        /// The volume of an etcd member was first given to another claim, so it may be a step back in time.
        /// Cause: The volume was restored from a snapshot, or an older one was bound to a new claim.
        OtherClaim: Person, "Bind the newest volume, or accept this one by removing `covey-etcd-member.json` from it; docs/etcd.md.";
        /// Files of an etcd member are damaged.
        /// Cause: The disk or its file system lost writes, most often when a node lost power.
        Damaged: Person, "Look at the volume's file system and disk; examine a copy with `etcdutl`; docs/etcd.md.";
        /// The volume of an etcd member is its own, and older than what the member had: it was set back.
        /// Cause: A snapshot of the volume or a copy of it took its place, or a node came back with an old disk.
        OutdatedData: Person, "Bind the newest volume, restore from a backup, or accept the loss with `covey.dev/accept-etcd-index`; docs/etcd.md.", since "0.2.0";
        /// The operator's file does not name this member of etcd yet, or the pod is older than the member.
        IdentityUnusable: Waiting, "If it stays: read the operator's log, and delete the pod if the message asks for it.";
        /// An error of the file system keeps etcd's data from being read; it is tried again.
        VolumeUnreadable: Waiting, "If it stays: look at storage, permissions and a full or read-only volume.";
        /// The volume of an etcd member did not answer in time; it is tried again.
        TimedOut: Waiting, "If it stays: storage hangs; look at the node and the driver.";
        /// An image of the control plane or of etcd cannot be pulled.
        /// Cause: The tag does not exist in the registry, most often after a change of `spec.version` or `spec.images`; else credentials or the network.
        ImagePullFailed: Person, "Check `spec.version`, the registry and its credentials; setting the version back works.";
        /// A container ends whenever it is started; the message has what it said last.
        /// Cause: A flag or a feature gate that this version does not know, too little memory, or etcd that does not answer.
        CrashLooping: Person, "Read its log: `kubectl logs --previous`; a flag in `extraArgs` or a memory limit is at fault most often.";
        /// kubelet cannot make a container.
        ContainerNotCreated: Waiting, "If it stays: read the message; a Secret that is missing comes back by itself.";
    }
    "Of a NodePool" {
        /// As many nodes are ready as are wanted.
        NodesReady: Fine, "";
        /// Fewer nodes are ready than wanted; the message counts why.
        NodesNotReady: Waiting, "If it stays: `kubectl describe machines`.";
        /// Nodes are not ready yet.
        WaitingForNodes: Waiting, "If it stays: `kubectl describe machines`.";
        /// Machines are going; others are made once they are gone.
        WaitingForDeletion: Waiting, "If it stays: `kubectl describe machines` says what holds them.";
        /// The control plane does not say yet which version it runs.
        WaitingForCluster: Waiting, "If it stays: look at the TenantCluster.";
        /// The TenantCluster is being deleted, or is gone, and the machines go with it.
        /// Cause: Somebody deleted the TenantCluster and left its pools.
        ClusterDeleted: Person, "`kubectl delete nodepool`, or create the TenantCluster anew.";
        /// There is no TenantCluster of that name in the namespace.
        /// Cause: A wrong name or namespace, or the pool was applied before the TenantCluster.
        ClusterNotFound: Person, "Create it, correct `spec.clusterName`, or `kubectl delete nodepool`.";
        /// All nodes of the tenant cluster went silent together, so none is replaced.
        /// Cause: The tunnel or the network between nodes and control plane is down, rather than every machine at once.
        AllNodesSilent: Person, "Look at konnectivity and the network first; replace by hand with `kubectl delete machine`.";
        /// More machines are lost than may be replaced at a time.
        /// Cause: A node of the management cluster failed with several machines on it; else an image or kernel that does not come up.
        TooManyUnhealthy: Person, "See what they have in common, or raise `spec.health.maxReplaced`; by hand: `kubectl delete machine`.";
        /// Machines are made, because there are fewer than wanted.
        ScalingUp: Fine, "";
        /// Machines are deleted, because there are more than wanted or they were named.
        ScalingDown: Fine, "";
        /// Machines whose nodes are lost are deleted, and others take their place.
        Replacing: Fine, "";
        /// The autoscaler sets `replicas`, and nobody else.
        OwnedByAutoscaler: Fine, "";
        /// `spec.autoscaling` is set and the addon is off: nobody sets `replicas`.
        /// Cause: Autoscaling was set before the addon was switched on, or the addon was switched off after it.
        AddonOff: Person, "Set `spec.addons.autoscaler.enabled` of the TenantCluster to true, or remove `spec.autoscaling`.";
        /// The autoscaler asked for what cannot be, or the pool is one that it cannot size.
        /// Cause: Bounds were changed while the autoscaler acted, or the provider does not say how large its machines are.
        AutoscalingRefused: Person, "Change what the message names: `spec.autoscaling` or `spec.provider` of the pool.";
        /// No location may have more machines, so the pool has fewer than `replicas`; the message says why of each.
        /// Cause: The sum of `max` of the locations is less than `replicas`.
        LocationsFull: Person, "Raise `max` of a location in `spec.locations`, give one of weight 0 a weight, or lower `spec.replicas`.";
        /// No location is lost, or suspected to be.
        AllLocationsHealthy: Fine, "";
        /// A whole location is lost: its machines are silent while others are heard. Others have its share, and its machines are waited for.
        /// Cause: The provider's region or zone is down, or cut off from the control plane.
        LocationOut: Person, "Look at the provider and at the network to it; `kubectl get np -o wide` says what is where. Nothing has to be done for the replacements.";
        /// Something is wrong with a location, and it is not sure that its machines are lost: nothing new is made there, and nothing is replaced because of it.
        /// Cause: The provider's API does not answer, or all nodes that come by one endpoint are silent together.
        LocationSuspected: Waiting, "If it stays: look at the provider's API, or at the published endpoint, as the message says.";
        /// Nothing new is made in a location, because its provider does not let us in; what is there stays, and others have what is missing.
        /// Cause: The credentials of its ProviderConfig have ended, were revoked, or are of another account.
        LocationExcluded: Person, "Look at the condition `Ready` of the location's ProviderConfig, and put credentials of the same account that let in into the Secret that it names; the location counts again by itself.";
        /// A location that was lost is back, and has to stay so for a while before it counts.
        LocationRecovering: Waiting, "Nothing; `spec.placement.failover.returnAfter` says for how long.";
        /// A location that was lost counts again; machines that took its share go.
        LocationBack: Fine, "";
        /// All nodes that come by the published endpoint are silent together, and the operator gets in there, or nobody knows yet whether it does: nobody is replaced.
        /// Cause: The way from outside to the published address is cut, or the uplink of the management cluster; seldom all those locations at once.
        EndpointSilent: Waiting, "If it stays: try the address that the message names from where the nodes are: name, firewalls, the outer side of the load balancer. That the operator gets in proves only what lies between it and the load balancer.";
        /// All nodes that come by the published endpoint are silent together, and the operator does not get in there either: nobody is replaced.
        /// Cause: The load balancer has no healthy target, a firewall, or a name that leads elsewhere.
        EndpointNotAnswering: Person, "See what the message says of the address: look at the Service `control-plane` of the tenant namespace and its load balancer, then at firewalls and the name.";
        /// A machine is being moved to another location: the new one is ready before the old one goes.
        Rebalancing: Waiting, "Nothing; `spec.placement.rebalance: Never` stops it.";
        /// The management cluster has room for one machine more.
        Fits: Fine, "";
        /// No node of the management cluster has room for one machine more.
        /// Cause: The management cluster is full; else a `nodeSelector`, huge pages or a device that few nodes have.
        NoRoom: Person, "Add nodes, free some, or make machines smaller: `spec.provider.kubevirt.cpu` and `.memory`.";
        /// The KubeVirt that runs the machines is a release with published holes; machines run on.
        /// Cause: KubeVirt of the management cluster was not upgraded for long.
        KubeVirtOutdated: Person, "Have KubeVirt upgraded to a release that the message names; `kubectl get kubevirt -A -o yaml` says which one runs.";
        /// A ResourceQuota of the tenant namespace does not allow one machine more; the message names it.
        /// Cause: Pools grew to what the platform gives this tenant; or the ResourceQuota was lowered.
        QuotaExhausted: Person, "Raise it with `kubectl edit resourcequota`, or make other pools smaller.";
    }
    "Of a Machine" {
        /// Its API has to answer before the machine can join.
        WaitingForControlPlane: Waiting, "If it stays: look at the TenantCluster.";
        /// The certificate authority that nodes trust cannot be read; the message says why.
        /// Cause: Somebody deleted or changed the Secret; else the operator lost its right to read it.
        AuthorityUnreadable: Person, "Restore the Secret `ca` of the tenant namespace from a backup.";
        /// There is no virtual machine yet, or none any more.
        VirtualMachineNotCreated: Waiting, "If it stays: `kubectl describe machine` says what is waited for.";
        /// The virtual machine runs.
        Running: Fine, "";
        /// The virtual machine does not run.
        Stopped: Waiting, "If it stays: start it with `virtctl start`, or delete the Machine to have another one made.";
        /// The virtual machine runs; its node has not joined yet.
        Booting: Waiting, "If it takes minutes: `virtctl console`, with `serialConsole: true`.";
        /// Its node has not joined.
        NotJoined: Waiting, "If it takes minutes: `virtctl console`, with `serialConsole: true`.";
        /// Its node joined.
        Joined: Fine, "";
        /// Its node is ready.
        NodeReady: Fine, "";
        /// Its node joined and is not ready; the message is the node's own.
        NodeNotReady: Waiting, "If it stays: look at the addons of the TenantCluster.";
        /// Its node was deleted; the pool replaces the machine.
        NodeGone: Waiting, "Nothing.";
        /// A Restore of the tenant cluster took its node away, so the machine is started anew: its kubelet registers a node when it starts.
        RestartedForRestore: Fine, "", since "0.2.0";
        /// The kubelet was told of a rotation in place, and has a certificate that was signed since; no pod of the node ended.
        RenewedInPlace: Fine, "", since "0.2.0";
        /// The kubelet could not be told of a rotation in place; after the second time its node pool replaces the machine.
        /// Cause: An admission policy or a webhook of the tenant cluster refuses a privileged pod in kube-system; else the node cannot pull the image, or its kubelet did not start, or was set up otherwise than by kubeadm.
        RenewalFailed: Person, "Read what the message says; let pods that are named `covey-renew-…` into kube-system, or set `nodes` of the rotation to `Wait`.", since "0.2.0";
        /// A node of this name has another providerID.
        /// Cause: A machine's name was used before and its Node left; else a host that joined by hand with this name.
        NodeOfAnother: Person, "`kubectl delete node` in the tenant cluster, or rename that machine.";
        /// Something keeps the virtual machine from running; the message says what.
        /// Cause: The disk image cannot be pulled, the node has no `/dev/kvm`, or a limit is too small for the guest.
        VirtualMachineFailing: Person, "Mend what the message says; `kubectl describe vmi` in the tenant namespace has more.";
        /// The virtual machine is another one's.
        /// Cause: Somebody made a virtual machine of that name by hand, or restored one.
        VirtualMachineTaken: Person, "Delete or rename that one: `kubectl get vm` in the tenant namespace.";
        /// The virtual machine was deleted; the pool replaces the machine.
        VirtualMachineGone: Waiting, "Nothing.";
        /// The virtual machine was shut down, and would start with an empty disk; the pool replaces it.
        VirtualMachineStopped: Waiting, "Nothing.";
        /// The virtual machine was started anew, with an empty disk; the pool replaces it.
        InstanceReplaced: Waiting, "Nothing.";
        /// The VirtualMachine is gone, and an instance of it is left over.
        VirtualMachineMissing: Waiting, "Nothing; the pool replaces the machine.";
        /// The virtual machine ended with an error, or KubeVirt cannot make it.
        /// Cause: The guest ended itself, its node ran out of memory, or KubeVirt refuses the template.
        VirtualMachineFailed: Person, "`kubectl describe vmi` in the tenant namespace; delete the Machine to have another one made.";
        /// The management cluster's node below does not report.
        /// Cause: That node lost power or its network, or its kubelet or virt-handler does not run.
        VirtualMachineUnknown: Person, "Look at that node: `kubectl get nodes` in the management cluster.";
        /// Somebody paused the virtual machine.
        /// Cause: Somebody ran `virtctl pause`, or KubeVirt did for an error of a disk.
        VirtualMachinePaused: Person, "`virtctl unpause vm` lets it go on.";
        /// The management cluster's node below is drained, so another machine takes this one's place.
        Evacuating: Fine, "";
        /// Pods have to leave the node; those that disruption budgets hold are named.
        Draining: Waiting, "If it stays: loosen the budget, or shorten `drainTimeout` of the pool.";
        /// No pod is left that has to leave the node first.
        Drained: Fine, "";
        /// The machine goes although pods are left on its node; the message says why.
        /// Cause: A disruption budget that allows nothing, or a pod with a finalizer or a long grace period.
        DrainGivenUp: Person, "Look at the pods that are named; `drainTimeout` of the pool is the time they have.";
        /// Volumes are not detached yet from the node of a machine that is gone.
        VolumesAttached: Waiting, "If it stays: `kubectl get volumeattachments` in the tenant cluster.";
        /// The tenant's API did not answer, so the Node of a machine that is gone may be left.
        /// Cause: The control plane went away while the machine was deleted, most often with its tenant cluster.
        NodeLeftBehind: Person, "`kubectl delete node` in the tenant cluster.";
        /// A node asked for a serving certificate that it may not have.
        /// Cause: The guest reports addresses that are not its own, or `--node-ip` is set on it; else somebody tries another's name.
        CertificateDenied: Person, "See who asks: `kubectl get csr` in the tenant cluster; names and addresses must be the machine's.";
        /// A machine's bootstrap token was used for a second key: the request is denied, and the Machine replaced.
        /// Cause: Somebody else has the token, by the user data, a backup or the machine's disk; else the machine was reset while it joined and made a new key.
        TokenUsedTwice: Person, "See who asked, and from where: `kubectl get csr` and the audit log of the tenant cluster. A new Machine has a token of its own.";
        /// Of a certificate's request: it is what the machine may have.
        CoveyApprove: Fine, "";
        /// Of a serving certificate's request: another user than the node asks.
        /// Cause: Somebody with a kubeconfig of their own made the request by hand; else an attempt at another node's certificate.
        WrongRequestor: Person, "See who asks: `kubectl get csr` in the tenant cluster.";
        /// Of a serving certificate's request: the subject is not the node's.
        /// Cause: A request that was made by hand, or by a tool that is no kubelet.
        WrongSubject: Person, "See what asks: `kubectl get csr -o yaml` in the tenant cluster.";
        /// Of a serving certificate's request: it has a name that is not the machine's.
        /// Cause: The machine image sets another host name than the machine's.
        WrongName: Person, "Have the kubelet ask for its own name only: `--hostname-override` must not be set.";
        /// Of a serving certificate's request: it has an address that is not the machine's.
        /// Cause: The guest has an address of its own making, such as a bridge's or a VPN's.
        WrongAddress: Person, "Have the kubelet ask for the machine's addresses only: see `--node-ip`.";
        /// Of a serving certificate's request: its usages are not those of a server.
        /// Cause: A request that was made by hand, or by a tool that is no kubelet.
        WrongUsages: Person, "See what asks: `kubectl get csr -o yaml` in the tenant cluster.";
        /// Of a serving certificate's request: it is no request that is signed with its own key.
        /// Cause: A request that was made by hand, or was cut off on its way.
        Unreadable: Person, "See what asks: `kubectl get csr -o yaml` in the tenant cluster.";
        /// Of a serving certificate's request: its key is weaker than a kubelet's.
        /// Cause: An own tool made the key, with short RSA; a kubelet makes EC P-256.
        WeakKey: Person, "Have the kubelet make its own key: delete `kubelet-server-current.pem` on the node.";
        /// The operator is not configured for any provider that the pool names.
        /// Cause: The pool was written for another installation of Covey, or the block was left out.
        ProviderMissing: Person, "Set a provider below `spec.provider` of the pool, such as kubevirt.";
        /// The locations of a pool cannot be as they are written.
        /// Cause: A pool with both `provider` and `locations`, or a location that was copied without another name.
        LocationsMalformed: Person, "Correct the entry of `spec.locations` that the message names.";
        /// The provider is switched off.
        /// Cause: The platform installed Covey for control planes only.
        ProviderNotConfigured: Person, "Use another provider, or ask for `config.providers` of the chart.";
        /// The management cluster does not have the provider's kinds.
        /// Cause: KubeVirt was not installed yet, or was removed.
        ProviderNotInstalled: Person, "Install it: `kubectl get crds` of the management cluster lacks them.";
        /// The provider's API refused, or was not reached; it is tried again.
        ProviderFailed: Waiting, "If it stays: the message has what the API said.";
        /// Something has the machine's name and was not made for it.
        /// Cause: A machine of that name was there before and its object is left; else somebody made one by hand.
        NameTaken: Person, "Delete that object, or `kubectl delete machine` to have one of another name.";
        /// The provider has no machine left that fits what the pool asks for; it is tried again.
        NoneLeft: Waiting, "If it stays: add a Host, or mend one that is not `Available` (`kubectl get hosts`); at a cloud name more sizes or another place.", since "0.2.0";
        /// The account at the cloud may have no more of what is asked for; nothing was made.
        /// Cause: A limit that the cloud set, on servers, cores or addresses of a whole project; else `spec.limits` of the ProviderConfig.
        AccountLimitReached: Person, "Delete what nobody needs there, or have the limit raised that the message names, by the cloud or in the ProviderConfig; `kubectl describe machine` shows it in full.", since "0.2.0";
        /// The cloud does not take what is asked for, and will not by itself.
        /// Cause: A size, an image or a place that the cloud does not know, does not make any more, or that do not fit each other.
        RequestRefused: Person, "Change the field that the message names, of the NodePool (`spec.provider`) or of its ProviderConfig.", since "0.2.0";
    }
    "Of a ProviderConfig" {
        /// The credentials let the operator in, and what is named is there.
        ProviderChecked: Fine, "", since "0.2.0";
        /// Nobody is let in by them: they are missing, refused, or somebody else's than before. Nothing is made and nothing deleted meanwhile.
        /// Cause: A token that ended, was taken back, may only read or belongs to another project; else a Secret that is not there or lacks its field.
        CredentialsRefused: Person, "Put a token of the same account into the Secret that the ProviderConfig names; it is read again at once: `kubectl describe providerconfig`.", since "0.2.0";
        /// Nothing of a Machine that is gone was found in the account.
        NothingLeaked: Fine, "", since "0.2.0";
        /// Something was found of a Machine that is gone. Servers and addresses are deleted by the operator once that was seen twice, volumes never.
        LeaksFound: Waiting, "Delete volumes that the message names yourself, where nobody needs their data.", since "0.2.0";
        /// Something was found of Machines that are not there, and may be somebody's: so much that rather the Machines are missing, or of a time of which nobody knows what was made in it. It is not deleted.
        /// Cause: A management cluster that was brought back to an older state; else somebody took finalizers off many Machines.
        LeaksHeld: Person, "Drain and delete what is a node of a tenant cluster, then let the rest be deleted by the command that the message gives: `kubectl describe providerconfig` shows it.", since "0.2.0";
        /// Machines need it: it stays until the last of them is gone, and so do the Secret that it names and the operator's right to read it.
        NeededByMachines: Fine, "", since "0.2.0";
        /// No Machine needs it: it can be deleted, and so can the Secret that it names.
        NeededByNobody: Fine, "", since "0.2.0";
        /// A Machine waits, because with it more would be taken than `spec.limits` allows, or than `spec.placement.budget` of its node pool does. What is there stays.
        /// Cause: A node pool was scaled, or the machines of another location are made here while that is out.
        LimitReached: Person, "Raise `spec.limits` of the ProviderConfig, or the budget of the node pool, or lower `spec.replicas` of the node pools that name it.", since "0.2.0";
        /// A Machine waits, because `spec.limits.hourly` or a budget is set and nobody knows what a size costs, or in which currency.
        /// Cause: The cloud tells no price of that size in that place; else it was not asked for prices yet.
        PriceUnknown: Person, "Put the price of that size into `spec.prices` of the ProviderConfig, and under a budget its currency into `spec.currency`.", since "0.2.0";
    }
    "Of a Host" {
        /// The machine has not been looked at yet.
        NotLookedAt: Waiting, "Nothing; it takes seconds.", since "0.2.0";
        /// The machine, or the jump host before it, shows a host key that is not pinned; nothing was sent to it.
        /// Cause: The key was made anew with the system; else the address leads to another machine, or somebody stands between.
        HostKeyUnknown: Person, "Compare the fingerprint of the message with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine, and only if it is the same there put that key into `spec.hostKeys`.", since "0.2.0";
        /// The operator cannot log in: it has no private key that can be used, or the machine refuses the user or does not make it root.
        /// Cause: The public key is not in `authorized_keys`, sudo asks for a password, or the Secret is missing or has no field `ssh-privatekey`.
        LoginFailed: Person, "Do what the message says, or correct `spec.user`, `spec.sshKeySecretName` or `spec.escalation`.", since "0.2.0";
        /// The machine did not answer, or the connection broke; it is tried again by itself.
        /// Cause: It is off, or a firewall or a missing route is between it and the operator.
        HostUnreachable: Person, "Check the machine, `spec.address`, `spec.port` and firewalls; from the jump host, where there is `spec.via`.", since "0.2.0";
        /// It answered what nobody understands, or a script ended with an error.
        /// Cause: A program that the scripts need is another one than expected, or the disk is full.
        HostFailing: Person, "Run what the message names on the machine; `spec.maintenance` keeps it out of use meanwhile.", since "0.2.0";
        /// Something keeps the machine from becoming a node; the message has all of it.
        /// Cause: Swap is on, a kernel module or a program is missing, or another runtime runs there.
        NotUsable: Person, "Mend on the machine what the message says; `spec.maintenance` keeps it out of use meanwhile.", since "0.2.0";
        /// The machine has another machine-id than the one that was known.
        /// Cause: It was installed anew, or another one was put in its place.
        MachineChanged: Person, "If that was meant: annotate the Host with `covey.dev/accept-machine-id` and the ID that the message has.", since "0.2.0";
        /// Another Host is the same machine: it has the same machine-id or the same host key.
        /// Cause: The machine is listed twice; else a disk image was copied with its `/etc/machine-id` or its host keys.
        Duplicate: Person, "Delete one of both Hosts with `kubectl delete host`; of a copy run `systemd-machine-id-setup` after removing `/etc/machine-id`, and `ssh-keygen -A` after removing the host keys.", since "0.2.0";
        /// The machine says that it belongs to somebody else; nothing on it is touched.
        /// Cause: Another installation of Covey, or a Machine that is not known any more, has it.
        OwnedByAnother: Person, "Delete that Machine; if it is gone for good, clean the machine and remove `/var/lib/covey/owner.json` there, or have the node that runs there taken over with `spec.adopt: true`.", since "0.2.0";
        /// Something of a node is on the machine; the message says what.
        /// Cause: It was a node before and was not reset, or something could not be removed.
        TracesLeft: Person, "Remove what the message names, by `kubeadm reset` for most of it.", since "0.2.0";
        /// A Machine has the host, or what was done for one is being undone.
        InUse: Fine, "", since "0.2.0";
        /// The machine did not answer when its Machine went, so its kubelet may still run. Nobody gets it until it was reset.
        /// Cause: It is off or cut off; else its host key or login changed.
        ResetPending: Person, "Bring it back, and it is reset by itself; or clean it by hand and annotate the Host with `covey.dev/host-is-clean` and the UID of the Machine.", since "0.2.0";
        /// The Host was deleted with `covey.dev/abandon` although a Machine had it: what is on the machine stays.
        /// Cause: Somebody set the annotation.
        HostAbandoned: Person, "Clean the machine before anybody uses it: `kubeadm reset`, and remove `/var/lib/covey`.", since "0.2.0";
    }
    "Of a TenantQuota" {
        /// No more is taken than the quota, or `spec.limits` of the ProviderConfig, allows.
        WithinLimits: Fine, "";
        /// More is taken than the quota allows; nothing is stopped, and nothing grows.
        /// Cause: The quota was lowered below what runs, or was made after it.
        AboveLimits: Person, "Delete or shrink what is not needed, or raise `spec` of the quota.";
    }
    "Of a FleetPolicy" {
        /// Tenant clusters wait until a window opens: of the policy, or, where a TenantCluster says so, of its own.
        WaitingForWindow: Waiting, "Nothing; `spec.windows`, or `spec.maintenance.windows` of the TenantCluster, says when.", since "0.2.0";
        /// A wave is whole, and is looked at for a while before the next one begins.
        WaveSoaking: Waiting, "Nothing; `soak` of the wave says for how long.", since "0.2.0";
        /// The wave that is next does not begin before a moment.
        WaveHeld: Waiting, "Nothing; `heldUntil` of the wave says until when.", since "0.2.0";
        /// `spec.held` of the policy is true: nobody begins, and what has begun goes on.
        /// Cause: Somebody set it, and has not taken it back.
        FleetHeld: Person, "Set `spec.held` of the FleetPolicy to false to go on.", since "0.2.0";
        /// A tenant cluster failed with what the operator makes of it now, so nobody else begins.
        /// Cause: A template or image of this version of the operator that does not work there, or a node or registry that failed meanwhile.
        FleetHalted: Person, "Mend the tenant cluster that `status.halted` names, or go back with `helm rollback`; then set `spec.retry` of the FleetPolicy to another number.", since "0.2.0";
        /// The policy cannot be followed as it is written, so nobody begins; the message says what is wrong.
        /// Cause: A time of `spec.windows` that cannot be read, or a time zone that there is not.
        FleetPolicyUnusable: Person, "Mend what the message names: `kubectl edit fleetpolicy`.", since "0.2.0";
        /// Another FleetPolicy has a higher `spec.priority`, or is older, and that one is followed.
        /// Cause: There are two.
        FleetPolicyIgnored: Person, "Delete one of them: `kubectl get fleetpolicies`.", since "0.2.0";
        /// All tenant clusters that are awake run from the operator's templates.
        FleetRolledOut: Fine, "", since "0.2.0";
    }
    "Of an AccessGrant" {
        /// Its certificate is there, and its rights inside the tenant cluster are.
        GrantIssued: Fine, "", since "0.2.0";
        /// The tenant cluster cannot be asked now, so nothing is granted yet, or rights that end are still there; the message says which.
        GrantWaiting: Waiting, "Nothing, once the tenant cluster answers. One that sleeps: `covey wake`.", since "0.2.0";
        /// Its time is over: nobody is let in by it, and it goes by itself.
        GrantEnded: Fine, "Make another: `covey kubeconfig`.", since "0.2.0";
        /// There is no TenantCluster of the name in `spec.clusterName` in this namespace, or another one than when it was made.
        /// Cause: A typing error; else the tenant cluster was deleted, or made anew.
        GrantWithoutCluster: Person, "Make another AccessGrant whose `spec.clusterName` is right.", since "0.2.0";
        /// Nobody is let in by AccessGrants on this platform.
        /// Cause: The chart's admission policies are off, by which it is checked who asks for whom; else `config.access.enabled` is false.
        GrantsOff: Person, "Set `admissionPolicies.enabled` and `config.access.enabled` of the chart to true, or use the Secret of `covey kubeconfig --break-glass`.", since "0.2.0";
        /// The platform has no rights of that name.
        /// Cause: A typing error; else the line was taken out of the configuration.
        GrantProfileUnknown: Person, "Name one that the message has as `spec.profile`, or add it to `config.access.profiles`.", since "0.2.0";
        /// It asks for more time than the platform gives.
        /// Cause: The ceiling is lower than what the definition allows.
        GrantTooLong: Person, "Ask for less by `spec.ttlSeconds`, or raise `config.access.mostSeconds`.", since "0.2.0";
        /// What it carries is no request for a certificate that could be signed.
        /// Cause: It was signed with another key than it names, its key is weak or of an unusual kind, or lines were lost where it was pasted.
        GrantRequestUnusable: Person, "Make another by `covey kubeconfig`, or with an EC P-256 key and `openssl req -new`.", since "0.2.0";
        /// The Secret in `spec.secretName` is there, and is not the grant's: it is left as it is, and nobody is let in.
        /// Cause: Somebody else made it, or changed its labels or owner; else it is the administrator's of another tenant cluster.
        GrantSecretTaken: Person, "Delete that Secret where nobody needs it, or make another AccessGrant with another `spec.secretName`.", since "0.2.0";
        /// Many are let into that tenant cluster already.
        /// Cause: A program asks anew each time and keeps nothing.
        GrantsTooMany: Person, "Delete those that nobody needs: `covey kubeconfig list`; the ceiling is `config.access.mostGrants`.", since "0.2.0";
        /// Somebody deleted it, and its rights inside the tenant cluster ended.
        GrantRevoked: Fine, "", since "0.2.0";
    }
    "Events of the cloud controller manager, inside the tenant cluster" {
        /// The load balancer of a Service is being made.
        EnsuringLoadBalancer: Fine, "";
        /// The Service has a load balancer with an address.
        EnsuredLoadBalancer: Fine, "";
        /// The load balancer follows a change, or its address changed.
        UpdatedLoadBalancer: Fine, "";
        /// The load balancer of a Service is being deleted.
        DeletingLoadBalancer: Fine, "";
        /// The load balancer of a Service is gone.
        DeletedLoadBalancer: Fine, "";
        /// The load balancer could not be made or deleted; it is tried again.
        SyncLoadBalancerFailed: Waiting, "If it stays: the message has what the API said.";
        /// No node is ready that the load balancer could send traffic to.
        /// Cause: No node has joined yet or all are being replaced; else the Service's pods are on none that is ready.
        UnAvailableLoadBalancer: Person, "Have a node with a ready pod: `kubectl get nodes`, and `externalTrafficPolicy` of the Service.";
        /// The load balancer is left to whoever implements the Service's class.
        OtherClass: Fine, "Leave `spec.loadBalancerClass` out to have Covey make it.";
        /// The tenant cluster is a copy of another one, and the Service came with it: no load balancer is made for it yet.
        CopiedLoadBalancer: Fine, "Take the annotation `covey.dev/copied` off the Service to have one made.";
        /// A port of the Service has no node port, by which the nodes are reached.
        /// Cause: `allocateLoadBalancerNodePorts: false` was taken over from a cloud whose balancers reach pods directly.
        NoNodePort: Person, "Set `spec.allocateLoadBalancerNodePorts` to true, or the port's `nodePort`.";
        /// The Service asks for an address that the tenant cluster may not ask for.
        /// Cause: The Service was taken over from another cluster with its address.
        AddressNotAllowed: Person, "Remove it from `spec.externalIPs` or `spec.loadBalancerIP`, or have it allowed.";
        /// The Service gets no load balancer, or no more ports, because the tenant cluster has as many as it may have.
        /// Cause: `config.loadBalancers.maxServices` or `maxPorts` of the chart, `spec.addons.cloudController.limits` of the TenantCluster, or Services that nobody needs any more.
        TooManyLoadBalancers: Person, "Delete Services of type LoadBalancer that are not needed, raise `spec.addons.cloudController.limits` of the TenantCluster, or have `config.loadBalancers.maxServices` or `maxPorts` raised.";
        /// The load balancer leads to a part of the nodes, because there are more than one may have.
        FewerEndpoints: Fine, "";
        /// A field of the load balancer is not as the Service asks for, and the management cluster keeps it so.
        /// Cause: A policy or a webhook of the management cluster changes load balancers.
        LoadBalancerDiffers: Person, "Change the field of the Service that the message names, such as `spec.ipFamilyPolicy`, to what is given, or ask whoever runs the management cluster.";
        /// A new node has its addresses and may run pods.
        Synced: Fine, "";
        /// The kubelet asks for a node address that the machine does not have.
        /// Cause: The machine image or a drop-in of the kubelet sets `--node-ip`.
        ProvidedNodeIP: Person, "Take `--node-ip` off the kubelet, or give it an address of the machine.";
        /// The machine of the node is gone, and the Node is deleted.
        DeletingNode: Fine, "";
        /// The machine of the node is off for certain; its pods and volumes may move.
        OutOfService: Fine, "";
        /// The machine of the node starts again.
        InService: Fine, "";
        /// Of metrics: the machine's address is not known yet.
        MachineHasNoAddress: Waiting, "If it stays: look at the Machine.";
        /// Of metrics: the node's kubelet has reported a moment ago.
        KubeletReports: Waiting, "Nothing.";
        /// Of metrics: there is no virtual machine of the node's name.
        NoVirtualMachine: Waiting, "Nothing.";
        /// Of metrics: no port of the Service can be mapped; Events say why.
        NotMappable: Waiting, "Nothing that the Events do not say.";
        /// Of metrics: the load balancer's Service is being deleted.
        MirrorIsDeleted: Waiting, "If it stays: see who is to take off the finalizer of that Service.";
        /// Of metrics: the load balancer has no address yet.
        NoAddressYet: Waiting, "If it stays: see to the load balancers of the management cluster.";
        /// Of a Node's Ready: its machine is off for certain, and its kubelet is silent.
        MachineIsOff: Waiting, "If it stays: look at the Machine.";
    }
}
