//! The catalogue itself: every reason that a component of Covey writes, with what it means, whose turn it
//! is and what that one does.
//!
//! Invariant: one line each for meaning and remedy; what a person has to do names a field or a command.
//! Long because it is one table, and a table in two files is looked up twice.

use super::class::{Class, reasons};

reasons! {
    "Every kind" {
        /// Nothing is wrong.
        AsExpected: Fine, "";
        /// Everything is as the spec wants it.
        AsDesired: Fine, "";
        /// Objects are being written that differ from the wanted state.
        Applying: Waiting, "Nothing; it takes seconds.";
        /// It is being deleted; the message says what still holds it.
        Deleting: Waiting, "If it stays: look at the finalizer or the object that the message names.";
        /// `spec.paused` of the TenantCluster is true: nothing is changed but certificates that end.
        Paused: Person, "Set `spec.paused` of the TenantCluster to false to go on.";
        /// The management cluster's API refused, or was not reached; it is tried again.
        TransientFailure: Waiting, "If it stays: read the operator's log.";
        /// An API refused what was written, because something in it is not valid there.
        InvalidInput: Person, "Change what the message names: `kubectl describe` of the object shows it in full.";
        /// Somebody else wrote the object at the same moment; it is planned anew.
        Conflict: Waiting, "If it stays: find out who else writes the object, in its `metadata.managedFields`.";
        /// The operator met something that cannot be: a bug.
        InternalError: Bug, "Report it with the operator's log: `kubectl logs` of its Deployment.";
        /// A TenantQuota does not allow it; what ran before keeps running as it is.
        QuotaExceeded: Person, "Ask for less, delete what is not needed, or have `kubectl edit tenantquota` raise the quota.";
        /// Pods, machines or tenant clusters are being replaced by newer ones, one after the other.
        RollingOut: Waiting, "Nothing. If it stays: look at the pods or machines that the message counts.";
        /// Others that are slow to answer have all the places; this one is asked next, and its conditions stay.
        WaitingForTurn: Waiting, "Nothing.";
        /// The tenant's API answered before and does not now; it is asked again by itself.
        ApiUnreachable: Person, "Look at the control plane: `kubectl describe pods` in the tenant namespace.";
        /// No node of the management cluster has a place for a pod or a virtual machine.
        Unschedulable: Person, "Add nodes to the management cluster, free some, or ask for less: `kubectl describe pod` says what lacks.";
    }
    "Of a TenantCluster" {
        /// The API answered a consistent read.
        Answering: Fine, "";
        /// The API became ready.
        Ready: Fine, "";
        /// The operator did not reach the published endpoint; users may all the same.
        NotReachedByOperator: Person, "Open the way from the operator to the endpoint, or check `spec.controlPlane.endpoint.host`, where clients do not reach it either.";
        /// The pods are there, and the API does not answer for the first time yet.
        Starting: Waiting, "If it takes minutes: read pods and logs in the tenant namespace.";
        /// Other control planes are starting; this one has its place in the queue.
        WaitingForStart: Waiting, "Nothing, or raise `config.maxConcurrentStarts` of the chart.";
        /// Its pods are to be replaced, and others are rolled out first; it runs as before.
        WaitingForRollout: Waiting, "Nothing. If it stays: see which tenant clusters are `RollingOut`, and why.";
        /// New pods of the control plane are not ready after ten minutes; the old ones serve on.
        RolloutStuck: Person, "Mend what the pods say, or set `spec.version` or the flags back.";
        /// The API answers, and not all addons work although there are nodes.
        AddonsNotReady: Person, "See the addons' own conditions: `kubectl describe tenantcluster`.";
        /// The Service of the endpoint has no address yet.
        WaitingForAddress: Waiting, "If it stays: a load balancer of the management cluster has to give one; see `spec.controlPlane.endpoint`.";
        /// The endpoint has an address.
        HasAddress: Fine, "";
        /// The load balancer of the endpoint has no address any more; the last one stays in certificates and kubeconfigs.
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
        /// The objects inside the tenant cluster are in place.
        InPlace: Fine, "";
        /// The objects inside the tenant cluster are written once the API answers.
        WaitingForApi: Waiting, "Nothing, once the API answers.";
        /// The addon was switched off, and its pods or its load balancers are not gone yet.
        RemovingCloudController: Waiting, "If it stays: see who is to take off the finalizer of the Service that is named.";
        /// A certificate authority or key was deleted, and a new one would make it another tenant cluster.
        CertificateAuthorityLost: Person, "Restore the Secret that is named from a backup: `kubectl apply` it in the tenant namespace.";
        /// The tenant namespace is being deleted, and etcd's data with it.
        NamespaceDeleted: Person, "If a finalizer still holds it, save what is needed: `kubectl get namespace -o yaml`.";
        /// The tenant namespace is gone, with etcd's data and all keys; no empty tenant cluster is made in its place.
        DataLost: Person, "Restore it from a backup, or `kubectl delete tenantcluster` and create it anew.";
        /// A namespace of the tenant namespace's name is not this TenantCluster's.
        NamespaceTaken: Person, "Delete that namespace or the TenantCluster: `kubectl get namespace --show-labels` says whose it is.";
        /// The TenantCluster that the namespace was made for is gone without the operator; everything in it goes on.
        TenantClusterGone: Person, "`kubectl delete namespace` if nobody needs what is in it, before the time that the message names.";
        /// Of metrics: a namespace outlives the TenantCluster that it was made for.
        Orphaned: Waiting, "Nothing beside what its Event says.";
        /// A namespace is deleted whose TenantCluster has been gone for long enough.
        RemovingOrphan: Fine, "";
        /// Members of etcd have different data, and nobody can say which is right.
        Corrupt: Person, "Restore from a backup, or replace the odd one of three: `etcdctl alarm list`.";
        /// etcd's database has its most bytes; only reads and deletions go on.
        NoSpace: Person, "Delete what is not needed, raise `spec.etcd.storage.size` (and `quotaBackendBytes`), then compact, defragment and disarm.";
        /// The data of an etcd member is gone: its claim, its volume, or what was on it.
        VolumeLost: Person, "Bring the volume back or restore it from a backup; else `kubectl delete tenantcluster` and create it anew.";
        /// The volume of an etcd member has another etcd cluster's data.
        ForeignData: Person, "Bind the right volume to the claim: `kubectl get pvc,pv`, and docs/etcd.md.";
        /// The volume of an etcd member has another member's data.
        OtherMember: Person, "Bind the right volume to the claim: `kubectl get pvc,pv`, and docs/etcd.md.";
        /// The volume of an etcd member was first given to another claim, so it may be a step back in time.
        OtherClaim: Person, "Bind the newest volume, or accept this one by removing `covey-etcd-member.json` from it; docs/etcd.md.";
        /// Files of an etcd member are damaged.
        Damaged: Person, "Look at the volume's file system and disk; examine a copy with `etcdutl`; docs/etcd.md.";
        /// The operator's file does not name this member of etcd yet, or the pod is older than the member.
        IdentityUnusable: Waiting, "If it stays: read the operator's log, and delete the pod if the message asks for it.";
        /// An error of the file system keeps etcd's data from being read; it is tried again.
        VolumeUnreadable: Waiting, "If it stays: look at storage, permissions and a full or read-only volume.";
        /// The volume of an etcd member did not answer in time; it is tried again.
        TimedOut: Waiting, "If it stays: storage hangs; look at the node and the driver.";
        /// An image of the control plane or of etcd cannot be pulled.
        ImagePullFailed: Person, "Check `spec.version`, the registry and its credentials; setting the version back works.";
        /// A container ends whenever it is started; the message has what it said last.
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
        ClusterDeleted: Person, "`kubectl delete nodepool`, or create the TenantCluster anew.";
        /// There is no TenantCluster of that name in the namespace.
        ClusterNotFound: Person, "Create it, correct `spec.clusterName`, or `kubectl delete nodepool`.";
        /// All nodes of the tenant cluster went silent together, so none is replaced.
        AllNodesSilent: Person, "Look at konnectivity and the network first; replace by hand with `kubectl delete machine`.";
        /// More machines are lost than may be replaced at a time.
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
        AddonOff: Person, "Set `spec.addons.autoscaler.enabled` of the TenantCluster to true, or remove `spec.autoscaling`.";
        /// The autoscaler asked for what cannot be, or the pool is one that it cannot size.
        AutoscalingRefused: Person, "Change what the message names: `spec.autoscaling` or `spec.provider` of the pool.";
        /// The management cluster has room for one machine more.
        Fits: Fine, "";
        /// No node of the management cluster has room for one machine more.
        NoRoom: Person, "Add nodes, free some, or make machines smaller: `spec.provider.kubevirt.cpu` and `.memory`.";
        /// A ResourceQuota of the tenant namespace does not allow one machine more; the message names it.
        QuotaExhausted: Person, "Raise it with `kubectl edit resourcequota`, or make other pools smaller.";
    }
    "Of a Machine" {
        /// Its API has to answer before the machine can join.
        WaitingForControlPlane: Waiting, "If it stays: look at the TenantCluster.";
        /// The certificate authority that nodes trust cannot be read; the message says why.
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
        /// A node of this name has another providerID.
        NodeOfAnother: Person, "`kubectl delete node` in the tenant cluster, or rename that machine.";
        /// Something keeps the virtual machine from running; the message says what.
        VirtualMachineFailing: Person, "Mend what the message says; `kubectl describe vmi` in the tenant namespace has more.";
        /// The virtual machine is another one's.
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
        VirtualMachineFailed: Person, "`kubectl describe vmi` in the tenant namespace; delete the Machine to have another one made.";
        /// The management cluster's node below does not report.
        VirtualMachineUnknown: Person, "Look at that node: `kubectl get nodes` in the management cluster.";
        /// Somebody paused the virtual machine.
        VirtualMachinePaused: Person, "`virtctl unpause vm` lets it go on.";
        /// The management cluster's node below is drained, so another machine takes this one's place.
        Evacuating: Fine, "";
        /// Pods have to leave the node; those that disruption budgets hold are named.
        Draining: Waiting, "If it stays: loosen the budget, or shorten `drainTimeout` of the pool.";
        /// No pod is left that has to leave the node first.
        Drained: Fine, "";
        /// The machine goes although pods are left on its node; the message says why.
        DrainGivenUp: Person, "Look at the pods that are named; `drainTimeout` of the pool is the time they have.";
        /// Volumes are not detached yet from the node of a machine that is gone.
        VolumesAttached: Waiting, "If it stays: `kubectl get volumeattachments` in the tenant cluster.";
        /// The tenant's API did not answer, so the Node of a machine that is gone may be left.
        NodeLeftBehind: Person, "`kubectl delete node` in the tenant cluster.";
        /// A node asked for a serving certificate that it may not have.
        CertificateDenied: Person, "See who asks: `kubectl get csr` in the tenant cluster; names and addresses must be the machine's.";
        /// Of a serving certificate's request: names and addresses are the machine's.
        CoveyApprove: Fine, "";
        /// Of a serving certificate's request: another user than the node asks.
        WrongRequestor: Person, "See who asks: `kubectl get csr` in the tenant cluster.";
        /// Of a serving certificate's request: the subject is not the node's.
        WrongSubject: Person, "See what asks: `kubectl get csr -o yaml` in the tenant cluster.";
        /// Of a serving certificate's request: it has a name that is not the machine's.
        WrongName: Person, "Have the kubelet ask for its own name only: `--hostname-override` must not be set.";
        /// Of a serving certificate's request: it has an address that is not the machine's.
        WrongAddress: Person, "Have the kubelet ask for the machine's addresses only: see `--node-ip`.";
        /// Of a serving certificate's request: its usages are not those of a server.
        WrongUsages: Person, "See what asks: `kubectl get csr -o yaml` in the tenant cluster.";
        /// Of a serving certificate's request: it is no request that is signed with its own key.
        Unreadable: Person, "See what asks: `kubectl get csr -o yaml` in the tenant cluster.";
        /// Of a serving certificate's request: its key is weaker than a kubelet's.
        WeakKey: Person, "Have the kubelet make its own key: delete `kubelet-server-current.pem` on the node.";
        /// The operator is not configured for any provider that the pool names.
        ProviderMissing: Person, "Set a provider below `spec.provider` of the pool, such as kubevirt.";
        /// The provider is switched off.
        ProviderNotConfigured: Person, "Use another provider, or ask for `config.providers` of the chart.";
        /// The management cluster does not have the provider's kinds.
        ProviderNotInstalled: Person, "Install it: `kubectl get crds` of the management cluster lacks them.";
        /// The provider's API refused, or was not reached; it is tried again.
        ProviderFailed: Waiting, "If it stays: the message has what the API said.";
        /// Something has the machine's name and was not made for it.
        NameTaken: Person, "Delete that object, or `kubectl delete machine` to have one of another name.";
    }
    "Of a TenantQuota" {
        /// No more is taken than the quota allows.
        WithinLimits: Fine, "";
        /// More is taken than the quota allows; nothing is stopped, and nothing grows.
        AboveLimits: Person, "Delete or shrink what is not needed, or raise `spec` of the quota.";
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
        UnAvailableLoadBalancer: Person, "Have a node with a ready pod: `kubectl get nodes`, and `externalTrafficPolicy` of the Service.";
        /// The load balancer is left to whoever implements the Service's class.
        OtherClass: Fine, "Leave `spec.loadBalancerClass` out to have Covey make it.";
        /// A port of the Service has no node port, by which the nodes are reached.
        NoNodePort: Person, "Set `spec.allocateLoadBalancerNodePorts` to true, or the port's `nodePort`.";
        /// The Service asks for an address that the tenant cluster may not ask for.
        AddressNotAllowed: Person, "Remove it from `spec.externalIPs` or `spec.loadBalancerIP`, or have it allowed.";
        /// A new node has its addresses and may run pods.
        Synced: Fine, "";
        /// The kubelet asks for a node address that the machine does not have.
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
    "Of what is refused, by admission or in Degraded" {
        /// The object cannot be read, because its form is another one.
        Undecodable: Person, "Compare it with `kubectl explain` of its kind.";
        /// The spec cannot be carried out.
        InvalidSpec: Person, "Change the fields that the message names, below `spec`.";
        /// A name cannot be part of the names that are made of it.
        NameMalformed: Person, "Choose a `metadata.name` of lower-case letters, digits and -, beginning with a letter.";
        /// A name is too long for the names that are made of it.
        NameTooLong: Person, "Choose a shorter `metadata.name`.";
        /// It was not read from the API, so it has no UID.
        NotStored: Bug, "Report it with the operator's log: `kubectl logs` of its Deployment.";
        /// This is no version.
        VersionMalformed: Person, "Write `spec.version` as 1.35.4.";
        /// Covey does not run this version.
        VersionUnsupported: Person, "Set `spec.version` to one that the message names.";
        /// A control plane cannot go back to an older version.
        VersionDowngrade: Person, "Set `spec.version` to the one that runs, or a newer one.";
        /// A control plane goes up one minor at a time.
        VersionSkipsMinor: Person, "Set `spec.version` to the next minor first.";
        /// Nodes cannot be newer than the control plane.
        VersionNewerThanControlPlane: Person, "Upgrade the TenantCluster first, or lower `spec.version` of the pool.";
        /// Nodes of that version are too old for the control plane.
        VersionTooOld: Person, "Raise `spec.version` of the pool.";
        /// A pool's nodes would be too old for the new control plane.
        NodePoolTooOld: Person, "Raise `spec.version` of that NodePool first, and wait until its machines are replaced.";
        /// The image of etcd does not say its version.
        EtcdVersionUnknown: Person, "Have `config.images.etcd` end in a version, such as 3.6.5-0.";
        /// The image of etcd is older than what Covey can run.
        EtcdTooOld: Person, "Set a newer `config.images.etcd`.";
        /// The image of etcd is older than what runs, or more than a minor newer; etcd stays as it is.
        EtcdVersionStep: Person, "Set `config.images.etcd` to the image that the message names.";
        /// The cluster autoscaler of a minor is named that no tenant cluster can have.
        MinorUnknown: Person, "Correct or remove the line in `config.images.clusterAutoscaler`.";
        /// This is no image.
        ImageMalformed: Person, "Write the image as registry/name:tag; the message names the `image` field.";
        /// This is no registry.
        RegistryMalformed: Person, "Write `registry` as a host with a path, without a scheme.";
        /// Images may not come from this registry.
        RegistryNotAllowed: Person, "Choose one of those that the message names for `spec.images.registry`.";
        /// A registry has its mirrors twice.
        RegistryTwice: Person, "Put the mirrors into one entry of `spec.nodes.registryMirrors`.";
        /// The machine image is not among those that are allowed.
        MachineImageNotAllowed: Person, "Choose one of those that the message names for `spec.provider.kubevirt.image`.";
        /// A path inside an image is not one.
        PathMalformed: Person, "Write the path below `spec.provider.kubevirt` from /, without .. and blanks.";
        /// Arguments of the kernel cannot be passed on as they are.
        KernelArgsMalformed: Person, "Correct the arguments below `spec.provider.kubevirt`.";
        /// A number of pods, nodes or members is out of its range.
        ReplicasRange: Person, "Choose a number that the message allows for `replicas`.";
        /// A bound of the autoscaler lets nothing grow.
        AutoscalerLimitRange: Person, "Raise or remove the field of `spec.addons.autoscaler.limits`.";
        /// No number of machines is between the bounds.
        BoundsImpossible: Person, "Choose a `spec.autoscaling.min` and `max` with a number between them.";
        /// A node would be taken away as soon as it joined.
        DelayZero: Person, "Use a time above zero for `spec.autoscaling.scaleDownDelay`, or remove it.";
        /// No machine could ever be replaced.
        RolloutImpossible: Person, "Set `spec.rollout.maxSurge` or `maxUnavailable` to 1 or more.";
        /// This is neither a number of machines nor a share.
        AmountMalformed: Person, "Write the field of `spec.rollout` or `spec.health` as 1 or as 25%.";
        /// This is no time.
        DurationMalformed: Person, "Write the field that the message names as `10m` or `1h30m`.";
        /// A time is too short for what has to happen in it.
        TimeoutTooShort: Person, "Use `30s` or more.";
        /// This is no quantity.
        QuantityMalformed: Person, "Write the field that the message names as `500m`, `2` or `4Gi`.";
        /// A request is above its limit.
        RequestAboveLimit: Person, "Lower `requests` or raise `limits`.";
        /// A resource cannot be set here.
        ResourceUnknown: Person, "Use `cpu`, `memory` or `ephemeral-storage`, as the message says.";
        /// A limit of 0 lets nothing run.
        LimitZero: Person, "Raise the field of `limits`, or remove it.";
        /// There is too little memory for what has to run.
        MemoryTooSmall: Person, "Raise the `memory` field that the message names.";
        /// There is more memory than a machine can have.
        MemoryTooLarge: Person, "Lower `spec.provider.kubevirt.memory`.";
        /// Memory is no whole number of huge pages.
        MemoryNotInPages: Person, "Choose another `spec.provider.kubevirt.memory`, or other `hugePages`.";
        /// A machine cannot have that many processors.
        ProcessorsRange: Person, "Choose a number that the message allows for `spec.provider.kubevirt.cpu`.";
        /// A device is not named as Kubernetes names devices, or twice.
        DeviceMalformed: Person, "Correct the entry of `spec.provider.kubevirt.gpus` or `hostDevices`.";
        /// A device may not be chosen.
        DeviceNotAllowed: Person, "Choose another device, or have `config.providers.kubevirt.allowed` list it.";
        /// This is no further disk.
        DiskMalformed: Person, "Correct the entry of `spec.provider.kubevirt.disks`, as the message says.";
        /// Two further disks have one name.
        DiskTwice: Person, "Give each entry of `spec.provider.kubevirt.disks` a name of its own.";
        /// Further disks may not be so large, or not be there at all.
        DiskNotAllowed: Person, "Ask for less in `spec.provider.kubevirt.disks`, or have `config.providers.kubevirt.allowed.disks` raised.";
        /// Two further disks are mounted at one path.
        PathTwice: Person, "Give each entry of `spec.provider.kubevirt.disks` a `mountPath` of its own.";
        /// This is not the name of a further network.
        NetworkMalformed: Person, "Write each entry of `spec.provider.kubevirt.networks` as namespace/name.";
        /// A further network may not be chosen.
        NetworkNotAllowed: Person, "Remove it from `spec.provider.kubevirt.networks`, or have `config.providers.kubevirt.allowed.networks` list it.";
        /// This is no key of a label or taint.
        KeyMalformed: Person, "Write the key as the message says, in the `config` or SSH field that it names.";
        /// A label of nodes is not one, or is not a user's to set.
        LabelInvalid: Person, "Correct or remove it from `spec.labels` of the pool.";
        /// A taint of nodes is not one, or is not a user's to set.
        TaintInvalid: Person, "Correct or remove it from `spec.taints` of the pool.";
        /// A selector of nodes is not one.
        NodeSelectorMalformed: Person, "Correct the `nodeSelector` that the message names.";
        /// A toleration is not one.
        TolerationMalformed: Person, "Correct the entry of `tolerations` that the message names.";
        /// A class cannot have this name.
        ClassMalformed: Person, "Name a class of the management cluster in the `scheduling` field, or remove it.";
        /// Pods or machines may not choose this.
        SchedulingNotAllowed: Person, "Remove it from `scheduling`, or have the operator's `config` allow it.";
        /// A node can have no such number of pods.
        PodsRange: Person, "Choose a number that the message allows for `spec.kubelet.maxPods`.";
        /// The pod range has no addresses for that many nodes, or pods on a node.
        PodRangeTooSmall: Person, "Lower `spec.kubelet.maxPods` or the pool's size; `spec.network.podCIDR` cannot change.";
        /// Nothing of a machine would be left for pods.
        ReservedTooMuch: Person, "Lower `spec.kubelet.systemReserved` or `kubeReserved`.";
        /// This is no signal of a kubelet.
        SignalUnknown: Person, "Choose one that the message names for `spec.kubelet.evictionHard`.";
        /// This is neither an amount nor a share.
        ThresholdMalformed: Person, "Write the field of `spec.kubelet.evictionHard` as 500Mi or 10%.";
        /// This is no address range.
        CIDRMalformed: Person, "Write the range as `10.96.0.0/16`.";
        /// An address range begins in the middle of itself.
        CIDRHostBits: Person, "Write the `CIDR` that the message names.";
        /// An address range is of another family than it has to be.
        CIDRFamily: Person, "Use IPv4 for the `CIDR` field that the message names.";
        /// An address range is too large or too small.
        CIDRSize: Person, "Use a prefix that the message allows for the `CIDR` field.";
        /// An address range is not for clusters: loopback, multicast and the like.
        CIDRSpecial: Person, "Use a private range for the `CIDR` field, such as one of 10.0.0.0/8.";
        /// An address range is in use by another tenant cluster, or by another field.
        CIDROverlap: Person, "Choose another range below `spec.network`, or leave it out to be given one.";
        /// An address range is the management cluster's own.
        CIDRReserved: Person, "Choose another range below `spec.network`, or leave it out to be given one.";
        /// A pool of ranges cannot be cut into pieces of that size.
        PoolPrefix: Person, "Use a `prefix` that the message allows in `config.network`.";
        /// No address range is left to be given.
        AddressPoolExhausted: Person, "Delete tenant clusters, or have a larger range in `config.network`; it goes on by itself.";
        /// Two families of addresses are not supported.
        DualStackUnsupported: Person, "Write one range into the field of `spec.network`.";
        /// The address range is not decided yet.
        NetworkUndecided: Waiting, "Nothing; the operator writes it to `status.network`.";
        /// What the status says of the address ranges cannot be read.
        NetworkUnreadable: Person, "Restore `status.network` as the operator wrote it.";
        /// An address range or the DNS domain that is in force cannot change.
        NetworkInForce: Person, "Set the field of `spec.network` back, or create a new tenant cluster.";
        /// It is not known which addresses machines must not reach; none is made or deleted.
        ReservedRangesUnknown: Person, "Set `config.network.reserved`, or give the operator the right that the message names.";
        /// This is no DNS domain.
        DNSDomainMalformed: Person, "Write `spec.network.dnsDomain` as cluster.local.";
        /// A zone of DNS is not one, or is Covey's own.
        ZoneMalformed: Person, "Correct `zone` in `spec.addons.coreDNS.forward`.";
        /// This is no address of a server, or it is named before.
        ServerMalformed: Person, "Correct `servers` in `spec.addons.coreDNS.forward`.";
        /// This is no address of a nameserver.
        NameserverMalformed: Person, "Correct `nameservers` in the operator's `config`.";
        /// There are more nameservers than a resolver asks.
        NameserversTooMany: Person, "Name fewer `nameservers` in the operator's `config`.";
        /// This type of endpoint may not be chosen.
        EndpointTypeNotAllowed: Person, "Choose another `spec.controlPlane.endpoint.type`; the message has those that are allowed.";
        /// A NodePort needs an address at which clients reach the nodes.
        HostRequired: Person, "Set `spec.controlPlane.endpoint.host`.";
        /// This is neither an address nor a DNS name.
        HostMalformed: Person, "Write the `host` that the message names as an address or a DNS name.";
        /// This port cannot be had.
        PortRange: Person, "Choose another `spec.controlPlane.endpoint.port`.";
        /// This is no name for a certificate.
        SANMalformed: Person, "Correct the entry of `spec.controlPlane.endpoint.certSANs`.";
        /// This is no range of clients' addresses.
        SourceRangeMalformed: Person, "Correct the entry of `spec.controlPlane.endpoint.sourceRanges`.";
        /// This is no class of load balancers.
        LoadBalancerClassMalformed: Person, "Correct `spec.controlPlane.endpoint.loadBalancerClass`.";
        /// This class of load balancers may not be chosen.
        LoadBalancerClassNotAllowed: Person, "Choose another `spec.controlPlane.endpoint.loadBalancerClass`.";
        /// This is no annotation.
        AnnotationMalformed: Person, "Correct `spec.controlPlane.endpoint.annotations`.";
        /// This annotation is Covey's or Kubernetes' own.
        AnnotationManaged: Person, "Remove it from `spec.controlPlane.endpoint.annotations`.";
        /// This annotation may not be set.
        AnnotationNotAllowed: Person, "Remove it from `spec.controlPlane.endpoint.annotations`, or have `config.endpoint` allow it.";
        /// There are more annotations than an object can have.
        AnnotationsTooLarge: Person, "Shorten `spec.controlPlane.endpoint.annotations`.";
        /// This is no label.
        LabelMalformed: Person, "Correct `spec.controlPlane.endpoint.labels`.";
        /// This label may not be set.
        LabelNotAllowed: Person, "Remove it from `spec.controlPlane.endpoint.labels`, or have `config.endpoint` allow it.";
        /// This is no label or annotation of a pod.
        PodMetadataMalformed: Person, "Correct `podMetadata` of `spec.controlPlane` or `spec.etcd`, as the message says.";
        /// This label or annotation of pods is Covey's or Kubernetes' own.
        PodMetadataManaged: Person, "Remove it from `podMetadata` of `spec.controlPlane` or `spec.etcd`.";
        /// The platform lets nobody set this label or annotation of pods.
        PodMetadataNotAllowed: Person, "Remove it from `podMetadata`, or have `config.tenantPods.allowed` list it.";
        /// This is no flag.
        FlagMalformed: Person, "Write the key of `extraArgs` without -- and =.";
        /// Covey sets this flag itself.
        FlagManaged: Person, "Remove it from `extraArgs`.";
        /// This flag may not be set.
        FlagNotAllowed: Person, "Remove it from `extraArgs`; docs/flags.md has those that may be set.";
        /// This value cannot be passed on.
        FlagValueMalformed: Person, "Correct the value in `extraArgs`.";
        /// This flag may not have that value.
        FlagValueNotAllowed: Person, "Correct the value in `extraArgs`, as the message says.";
        /// No such feature gate can be set, or not in this version.
        FeatureGateUnknown: Person, "Remove it from `spec.controlPlane.featureGates`; docs/flags.md has those that can be set.";
        /// The platform lets nobody set this feature gate.
        FeatureGateNotAllowed: Person, "Remove it from `spec.controlPlane.featureGates`, or have `config.apiServer.featureGates` list it.";
        /// A feature needs another one.
        FeatureGateMissing: Person, "Set the gate that the message names in `spec.controlPlane.featureGates`, too.";
        /// No such API version can be set, or not in this version.
        RuntimeConfigUnknown: Person, "Remove it from `spec.controlPlane.runtimeConfig`; docs/flags.md has those that can be set.";
        /// The platform lets nobody set this API version.
        RuntimeConfigNotAllowed: Person, "Remove it from `spec.controlPlane.runtimeConfig`, or have `config.apiServer.runtimeConfig` list it.";
        /// The volume of etcd is too small.
        StorageTooSmall: Person, "Raise `spec.etcd.storage.size`.";
        /// etcd's database cannot have this as the most, or not on this volume.
        EtcdQuotaRange: Person, "Correct `spec.etcd.quotaBackendBytes`, or raise `spec.etcd.storage.size`.";
        /// A volume cannot become smaller.
        StorageShrinks: Person, "Set `spec.etcd.storage.size` back, or to more.";
        /// This is no StorageClass.
        StorageClassMalformed: Person, "Correct `spec.etcd.storage.className`.";
        /// This StorageClass may not be chosen for etcd.
        StorageClassNotAllowed: Person, "Choose another `spec.etcd.storage.className`; the message has those that are allowed.";
        /// The list of StorageClasses that tenants are offered is wrong.
        StorageMalformed: Person, "Correct `config.storage.classes`.";
        /// No storage is offered, or not this one.
        StorageNotOffered: Person, "Set `spec.addons.csi.enabled` to false, or have `config.storage.classes` list it.";
        /// Issuers are asked from the tenant cluster's nodes, which are not reached without konnectivity.
        KonnectivityMissing: Person, "Set `spec.addons.konnectivity.enabled` to true, or remove the issuers.";
        /// The issuer is the tenant cluster itself.
        IssuerIsCluster: Person, "Choose another issuer in `spec.controlPlane.authentication.issuers`.";
        /// The platform lets nobody have the kube-apiserver ask or tell others.
        WebhookNotAllowed: Person, "Remove it, or have `config.apiServer` allow it.";
        /// This is no rule of an audit policy.
        AuditRuleMalformed: Person, "Correct the entry of `spec.controlPlane.audit.rules`, as the message says.";
        /// This is no audience of tokens.
        AudienceMalformed: Person, "Correct `spec.controlPlane.serviceAccounts.audiences`, as the message says.";
        /// An issuer is named twice.
        IssuerTwice: Person, "Put it into one entry of `spec.controlPlane.authentication.issuers`.";
        /// There is no audience, or one is named twice.
        AudiencesMalformed: Person, "Name each once, and one at least, in `audiences`.";
        /// A prefix is Kubernetes' own.
        PrefixReserved: Person, "Choose another `prefix` than one that begins with system:.";
        /// This is no URL, or not of the kind that is needed.
        URLMalformed: Person, "Correct the `url`, proxy or endpoint field that the message names.";
        /// A URL is named twice.
        URLTwice: Person, "Remove one of the two entries of the `url` field.";
        /// This is no certificate in PEM.
        CertificateMalformed: Person, "Write the certificate in PEM, beginning with `-----BEGIN CERTIFICATE-----`.";
        /// A namespace cannot have this name.
        NamespaceMalformed: Person, "Correct `spec.controlPlane.podSecurity`.";
        /// No proxy is named.
        ProxyMissing: Person, "Name one in `spec.nodes.proxy.http` or `https`, or remove `proxy`.";
        /// This is no name of a TenantCluster.
        ClusterNameMalformed: Person, "Correct `spec.clusterName`.";
    }
}
