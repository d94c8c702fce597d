//! The catalogue itself: every reason that a component of Covey writes, with what it means, whose turn it
//! is and what that one does.
//!
//! Invariant: one line each for meaning, cause and remedy; what a person has to do names a field or a
//! command. The cause is what usually makes it so, most likely first, for a person's and the developers'
//! turn. A reason that a later version adds says so: `Name: Fine, "", since "0.2.0";`.
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
        NoSpace: Person, "Delete what is not needed, raise `spec.etcd.storage.size` (and `quotaBackendBytes`), then compact, defragment and disarm.";
        /// The data of an etcd member is gone: its claim, its volume, or what was on it.
        /// Cause: Somebody deleted the claim or the volume, or the node with a local volume is gone.
        VolumeLost: Person, "Bring the volume back or restore it from a backup; else `kubectl delete tenantcluster` and create it anew.";
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
        /// Of a serving certificate's request: names and addresses are the machine's.
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
    }
    "Of a TenantQuota" {
        /// No more is taken than the quota allows.
        WithinLimits: Fine, "";
        /// More is taken than the quota allows; nothing is stopped, and nothing grows.
        /// Cause: The quota was lowered below what runs, or was made after it.
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
        /// Cause: No node has joined yet or all are being replaced; else the Service's pods are on none that is ready.
        UnAvailableLoadBalancer: Person, "Have a node with a ready pod: `kubectl get nodes`, and `externalTrafficPolicy` of the Service.";
        /// The load balancer is left to whoever implements the Service's class.
        OtherClass: Fine, "Leave `spec.loadBalancerClass` out to have Covey make it.";
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
    "Of what is refused, by admission or in Degraded" {
        /// The object cannot be read, because its form is another one.
        /// Cause: It was written by a newer version of Covey, or past the schema.
        Undecodable: Person, "Compare it with `kubectl explain` of its kind.";
        /// The spec cannot be carried out.
        /// Cause: A value that does not go with another one; the message has both.
        InvalidSpec: Person, "Change the fields that the message names, below `spec`.";
        /// A name cannot be part of the names that are made of it.
        /// Cause: It begins with a digit or has a dot, which names of Services may not have; else a name of a webhook that is none.
        NameMalformed: Person, "Choose a `metadata.name` of lower-case letters, digits and -, beginning with a letter.";
        /// A name is too long for the names that are made of it.
        /// Cause: A name that a tool composed of several parts.
        NameTooLong: Person, "Choose a shorter `metadata.name`.";
        /// It was not read from the API, so it has no UID.
        /// Cause: The operator was given an object that it made itself; a cache or a test in the place of the API.
        NotStored: Bug, "Report it with the operator's log: `kubectl logs` of its Deployment.";
        /// This is no version.
        /// Cause: A missing patch level, or a `v` before it.
        VersionMalformed: Person, "Write `spec.version` as 1.35.4.";
        /// Covey does not run this version.
        /// Cause: A release that is newer than this Covey, or one that this Covey takes no more.
        VersionUnsupported: Person, "Set `spec.version` to one that the message names.";
        /// A control plane cannot go back to an older version.
        /// Cause: A manifest that was not brought up to date since the last upgrade.
        VersionDowngrade: Person, "Set `spec.version` to the one that runs, or a newer one.";
        /// A control plane goes up one minor at a time.
        /// Cause: Several upgrades were missed and are to be made in one step.
        VersionSkipsMinor: Person, "Set `spec.version` to the next minor first.";
        /// Nodes cannot be newer than the control plane.
        /// Cause: Pool and TenantCluster were changed together, or the pool first.
        VersionNewerThanControlPlane: Person, "Upgrade the TenantCluster first, or lower `spec.version` of the pool.";
        /// Nodes of that version are too old for the control plane.
        /// Cause: The control plane was upgraded several times and the pool was left.
        VersionTooOld: Person, "Raise `spec.version` of the pool.";
        /// A pool's nodes would be too old for the new control plane.
        /// Cause: The pool was left behind at earlier upgrades.
        NodePoolTooOld: Person, "Raise `spec.version` of that NodePool first, and wait until its machines are replaced.";
        /// The image of etcd does not say its version.
        /// Cause: The image is named by digest alone, or with a tag such as latest.
        EtcdVersionUnknown: Person, "Have `config.images.etcd` end in a version, such as 3.6.5-0.";
        /// The image of etcd is older than what Covey can run.
        /// Cause: The image was set for an older Covey and stayed.
        EtcdTooOld: Person, "Set a newer `config.images.etcd`.";
        /// The image of etcd is older than what runs, or more than a minor newer; etcd stays as it is.
        /// Cause: A rollback of the chart, or an upgrade of it over several releases.
        EtcdVersionStep: Person, "Set `config.images.etcd` to the image that the message names.";
        /// The cluster autoscaler of a minor is named that no tenant cluster can have.
        /// Cause: A line for a minor that this Covey takes no more, or not yet.
        MinorUnknown: Person, "Correct or remove the line in `config.images.clusterAutoscaler`.";
        /// This is no image.
        /// Cause: A scheme before it, a blank in it, or a tag left out.
        ImageMalformed: Person, "Write the image as registry/name:tag; the message names the `image` field.";
        /// This is no registry.
        /// Cause: A scheme before it, or a / at its end.
        RegistryMalformed: Person, "Write `registry` as a host with a path, without a scheme.";
        /// Images may not come from this registry.
        /// Cause: A mirror that the platform was not told of; it lists those that may be used in `config.images`.
        RegistryNotAllowed: Person, "Choose one of those that the message names for `spec.images.registry`.";
        /// A registry has its mirrors twice.
        /// Cause: Two parts of a manifest were merged.
        RegistryTwice: Person, "Put the mirrors into one entry of `spec.nodes.registryMirrors`.";
        /// The machine image is not among those that are allowed.
        /// Cause: A tag or a registry that the platform has not listed yet.
        MachineImageNotAllowed: Person, "Choose one of those that the message names for `spec.provider.kubevirt.image`.";
        /// A path inside an image is not one.
        /// Cause: It is relative, or was copied from a shell with its variables.
        PathMalformed: Person, "Write the path below `spec.provider.kubevirt` from /, without .. and blanks.";
        /// Arguments of the kernel cannot be passed on as they are.
        /// Cause: A line break, most often from a block of YAML that keeps its lines.
        KernelArgsMalformed: Person, "Correct the arguments below `spec.provider.kubevirt`.";
        /// A number of pods, nodes or members is out of its range.
        /// Cause: An even number for etcd, or zero.
        ReplicasRange: Person, "Choose a number that the message allows for `replicas`.";
        /// A bound of the autoscaler lets nothing grow.
        /// Cause: Zero where no limit was meant, or `memory` with a unit too small.
        AutoscalerLimitRange: Person, "Raise or remove the field of `spec.addons.autoscaler.limits`.";
        /// No number of machines is between the bounds.
        /// Cause: `min` was raised and `max` was not; else both are set by different tools.
        BoundsImpossible: Person, "Choose a `spec.autoscaling.min` and `max` with a number between them.";
        /// A node would be taken away as soon as it joined.
        /// Cause: Zero where the default was meant.
        DelayZero: Person, "Use a time above zero for `spec.autoscaling.scaleDownDelay`, or remove it.";
        /// No machine could ever be replaced.
        /// Cause: Both are zero or round to it: a small share of a small pool.
        RolloutImpossible: Person, "Set `spec.rollout.maxSurge` or `maxUnavailable` to 1 or more.";
        /// This is neither a number of machines nor a share.
        /// Cause: A sign or a blank in it, or a share above 100%.
        AmountMalformed: Person, "Write the field of `spec.rollout` or `spec.health` as 1 or as 25%.";
        /// This is no time.
        /// Cause: A number without its unit, or days, which these times do not have.
        DurationMalformed: Person, "Write the field that the message names as `10m` or `1h30m`.";
        /// A time is too short for what has to happen in it.
        /// Cause: A value for tests, or seconds where minutes were meant.
        TimeoutTooShort: Person, "Use `30s` or more.";
        /// This is no quantity.
        /// Cause: A unit that Kubernetes does not have, such as GB or a blank before it.
        QuantityMalformed: Person, "Write the field that the message names as `500m`, `2` or `4Gi`.";
        /// A request is above its limit.
        /// Cause: A limit was lowered, or only the request raised; where one is left out its default counts.
        RequestAboveLimit: Person, "Lower `requests` or raise `limits`.";
        /// A resource cannot be set here.
        /// Cause: A spelling, or a device that control planes cannot have.
        ResourceUnknown: Person, "Use `cpu`, `memory` or `ephemeral-storage`, as the message says.";
        /// A limit of 0 lets nothing run.
        /// Cause: Zero where no limit was meant.
        LimitZero: Person, "Raise the field of `limits`, or remove it.";
        /// There is too little memory for what has to run.
        /// Cause: `M` or `m` where `Mi` or `Gi` was meant.
        MemoryTooSmall: Person, "Raise the `memory` field that the message names.";
        /// There is more memory than a machine can have.
        /// Cause: A unit too many, such as `Ti` where `Gi` was meant.
        MemoryTooLarge: Person, "Lower `spec.provider.kubevirt.memory`.";
        /// Memory is no whole number of huge pages.
        /// Cause: Memory in `M` or `G` instead of `Mi` or `Gi`.
        MemoryNotInPages: Person, "Choose another `spec.provider.kubevirt.memory`, or other `hugePages`.";
        /// A machine cannot have that many processors.
        /// Cause: More than a node of the management cluster may give, or a share of a core.
        ProcessorsRange: Person, "Choose a number that the message allows for `spec.provider.kubevirt.cpu`.";
        /// A device is not named as Kubernetes names devices, or twice.
        /// Cause: The domain before the / is left out, or the entry was pasted twice.
        DeviceMalformed: Person, "Correct the entry of `spec.provider.kubevirt.gpus` or `hostDevices`.";
        /// A device may not be chosen.
        /// Cause: The platform has not listed the device yet.
        DeviceNotAllowed: Person, "Choose another device, or have `config.providers.kubevirt.allowed` list it.";
        /// This is no further disk.
        /// Cause: A size without unit, a name with capital letters, or a file system that the image does not have.
        DiskMalformed: Person, "Correct the entry of `spec.provider.kubevirt.disks`, as the message says.";
        /// Two further disks have one name.
        /// Cause: An entry was copied and its name left.
        DiskTwice: Person, "Give each entry of `spec.provider.kubevirt.disks` a name of its own.";
        /// Further disks may not be so large, or not be there at all.
        /// Cause: The platform gives no further disks unless it is told to, and then up to a size.
        DiskNotAllowed: Person, "Ask for less in `spec.provider.kubevirt.disks`, or have `config.providers.kubevirt.allowed.disks` raised.";
        /// Two further disks are mounted at one path.
        /// Cause: An entry was copied and its path left.
        PathTwice: Person, "Give each entry of `spec.provider.kubevirt.disks` a `mountPath` of its own.";
        /// This is not the name of a further network.
        /// Cause: The namespace before the / is left out.
        NetworkMalformed: Person, "Write each entry of `spec.provider.kubevirt.networks` as namespace/name.";
        /// A further network may not be chosen.
        /// Cause: The platform has not listed the network yet.
        NetworkNotAllowed: Person, "Remove it from `spec.provider.kubevirt.networks`, or have `config.providers.kubevirt.allowed.networks` list it.";
        /// This is no key of a label or taint.
        /// Cause: A blank or a second / in the key, or a name of more than 63 characters.
        KeyMalformed: Person, "Write the key as the message says, in the `config` or SSH field that it names.";
        /// A label of nodes is not one, or is not a user's to set.
        /// Cause: A prefix of `kubernetes.io` that the kubelet may not set, or a value with a blank.
        LabelInvalid: Person, "Correct or remove it from `spec.labels` of the pool.";
        /// A taint of nodes is not one, or is not a user's to set.
        /// Cause: An effect in lower case, or a prefix that Kubernetes keeps for itself.
        TaintInvalid: Person, "Correct or remove it from `spec.taints` of the pool.";
        /// A selector of nodes is not one.
        /// Cause: A number or `true` without quotes, or a key with two /.
        NodeSelectorMalformed: Person, "Correct the `nodeSelector` that the message names.";
        /// A toleration is not one.
        /// Cause: `value` together with `operator: Exists`, or an effect in lower case.
        TolerationMalformed: Person, "Correct the entry of `tolerations` that the message names.";
        /// A class cannot have this name.
        /// Cause: Capital letters or a blank in it.
        ClassMalformed: Person, "Name a class of the management cluster in the `scheduling` field, or remove it.";
        /// Pods or machines may not choose this.
        /// Cause: The platform keeps these nodes or classes for itself, or has not listed them yet.
        SchedulingNotAllowed: Person, "Remove it from `scheduling`, or have the operator's `config` allow it.";
        /// A node can have no such number of pods.
        /// Cause: Zero where the default was meant.
        PodsRange: Person, "Choose a number that the message allows for `spec.kubelet.maxPods`.";
        /// The pod range has no addresses for that many nodes, or pods on a node.
        /// Cause: The default range is for 64 nodes; a pool grew beyond it.
        PodRangeTooSmall: Person, "Lower `spec.kubelet.maxPods` or the pool's size; `spec.network.podCIDR` cannot change.";
        /// Nothing of a machine would be left for pods.
        /// Cause: Reservations that were taken over from larger machines.
        ReservedTooMuch: Person, "Lower `spec.kubelet.systemReserved` or `kubeReserved`.";
        /// This is no signal of a kubelet.
        /// Cause: A spelling, or a signal of another system than Linux.
        SignalUnknown: Person, "Choose one that the message names for `spec.kubelet.evictionHard`.";
        /// This is neither an amount nor a share.
        /// Cause: A unit that Kubernetes does not have, or a share without %.
        ThresholdMalformed: Person, "Write the field of `spec.kubelet.evictionHard` as 500Mi or 10%.";
        /// This is no address range.
        /// Cause: The prefix after the / is left out, or a range is written as from - to.
        CIDRMalformed: Person, "Write the range as `10.96.0.0/16`.";
        /// An address range begins in the middle of itself.
        /// Cause: The address of a host with the prefix of its network.
        CIDRHostBits: Person, "Write the `CIDR` that the message names.";
        /// An address range is of another family than it has to be.
        /// Cause: An IPv6 range, which nodes of Covey do not have yet.
        CIDRFamily: Person, "Use IPv4 for the `CIDR` field that the message names.";
        /// An address range is too large or too small.
        /// Cause: A prefix of one host or of the whole Internet; else one that leaves too few addresses.
        CIDRSize: Person, "Use a prefix that the message allows for the `CIDR` field.";
        /// An address range is not for clusters: loopback, multicast and the like.
        /// Cause: A range for tests, or that of a link.
        CIDRSpecial: Person, "Use a private range for the `CIDR` field, such as one of 10.0.0.0/8.";
        /// An address range is in use by another tenant cluster, or by another field.
        /// Cause: The same manifest for several tenant clusters, or pod and Service ranges that meet.
        CIDROverlap: Person, "Choose another range below `spec.network`, or leave it out to be given one.";
        /// An address range is the management cluster's own.
        /// Cause: A range such as 10.0.0.0/8 that has the management cluster's pods, Services or nodes in it.
        CIDRReserved: Person, "Choose another range below `spec.network`, or leave it out to be given one.";
        /// A pool of ranges cannot be cut into pieces of that size.
        /// Cause: A prefix that is shorter than the pool's own, so that one piece would be larger than the pool.
        PoolPrefix: Person, "Use a `prefix` that the message allows in `config.network`.";
        /// No address range is left to be given.
        /// Cause: More tenant clusters than the pool has pieces, or some that were forgotten.
        AddressPoolExhausted: Person, "Delete tenant clusters, or have a larger range in `config.network`; it goes on by itself.";
        /// Two families of addresses are not supported.
        /// Cause: A manifest for a cluster with IPv6 beside IPv4.
        DualStackUnsupported: Person, "Write one range into the field of `spec.network`.";
        /// The address range is not decided yet.
        NetworkUndecided: Waiting, "Nothing; the operator writes it to `status.network`.";
        /// What the status says of the address ranges cannot be read.
        /// Cause: Somebody edited the status, or a restore changed it.
        NetworkUnreadable: Person, "Restore `status.network` as the operator wrote it.";
        /// An address range or the DNS domain that is in force cannot change.
        /// Cause: A manifest with other ranges than those that were given at creation.
        NetworkInForce: Person, "Set the field of `spec.network` back, or create a new tenant cluster.";
        /// It is not known which addresses machines must not reach; none is made or deleted.
        /// Cause: The cluster does not say its ranges where the operator looks, as with some CNIs, or its right was taken away.
        ReservedRangesUnknown: Person, "Set `config.network.reserved`, or give the operator the right that the message names.";
        /// This is no DNS domain.
        /// Cause: An underscore, capital letters or a dot at its end.
        DNSDomainMalformed: Person, "Write `spec.network.dnsDomain` as cluster.local.";
        /// A zone of DNS is not one, or is Covey's own.
        /// Cause: A blank or a scheme in it, or the cluster's own domain.
        ZoneMalformed: Person, "Correct `zone` in `spec.addons.coreDNS.forward`.";
        /// This is no address of a server, or it is named before.
        /// Cause: A name instead of an address, or an entry that was pasted twice.
        ServerMalformed: Person, "Correct `servers` in `spec.addons.coreDNS.forward`.";
        /// This is no address of a nameserver.
        /// Cause: A name instead of an address, or a port behind it.
        NameserverMalformed: Person, "Correct `nameservers` in the operator's `config`.";
        /// There are more nameservers than a resolver asks.
        /// Cause: A list that was made for a forwarder and not for a resolver, which asks three.
        NameserversTooMany: Person, "Name fewer `nameservers` in the operator's `config`.";
        /// This type of endpoint may not be chosen.
        /// Cause: The platform does not give load balancers or node ports to this user.
        EndpointTypeNotAllowed: Person, "Choose another `spec.controlPlane.endpoint.type`; the message has those that are allowed.";
        /// A NodePort needs an address at which clients reach the nodes.
        /// Cause: The type was changed from LoadBalancer, which brings an address of its own.
        HostRequired: Person, "Set `spec.controlPlane.endpoint.host`.";
        /// This is neither an address nor a DNS name.
        /// Cause: A scheme before it or a port behind it.
        HostMalformed: Person, "Write the `host` that the message names as an address or a DNS name.";
        /// This port cannot be had.
        /// Cause: A number above 65535; else a NodePort outside of the range that the management cluster gives, or one that is taken.
        PortRange: Person, "Choose another `spec.controlPlane.endpoint.port`.";
        /// This is no name for a certificate.
        /// Cause: A scheme before it or a port behind it, or a * that is not the first label.
        SANMalformed: Person, "Correct the entry of `spec.controlPlane.endpoint.certSANs`.";
        /// This is no range of clients' addresses.
        /// Cause: An address without its prefix, such as /32.
        SourceRangeMalformed: Person, "Correct the entry of `spec.controlPlane.endpoint.sourceRanges`.";
        /// This is no class of load balancers.
        /// Cause: A blank in it, or a name without a domain where one is needed.
        LoadBalancerClassMalformed: Person, "Correct `spec.controlPlane.endpoint.loadBalancerClass`.";
        /// This class of load balancers may not be chosen.
        /// Cause: A name from another management cluster, or one that the platform has not listed yet.
        LoadBalancerClassNotAllowed: Person, "Choose another `spec.controlPlane.endpoint.loadBalancerClass`.";
        /// This is no annotation.
        /// Cause: A number or `true` without quotes, or a key with two /.
        AnnotationMalformed: Person, "Correct `spec.controlPlane.endpoint.annotations`.";
        /// This annotation is Covey's or Kubernetes' own.
        /// Cause: The annotations were copied from a Service that runs.
        AnnotationManaged: Person, "Remove it from `spec.controlPlane.endpoint.annotations`.";
        /// This annotation may not be set.
        /// Cause: The platform lists what its controllers of load balancers may be told, and this is not on it.
        AnnotationNotAllowed: Person, "Remove it from `spec.controlPlane.endpoint.annotations`, or have `config.endpoint` allow it.";
        /// There are more annotations than an object can have.
        /// Cause: A whole document in an annotation.
        AnnotationsTooLarge: Person, "Shorten `spec.controlPlane.endpoint.annotations`.";
        /// This is no label.
        /// Cause: A value with a blank or a /, or of more than 63 characters.
        LabelMalformed: Person, "Correct `spec.controlPlane.endpoint.labels`.";
        /// This label may not be set.
        /// Cause: The platform lists what users may set, and this is not on it.
        LabelNotAllowed: Person, "Remove it from `spec.controlPlane.endpoint.labels`, or have `config.endpoint` allow it.";
        /// This is nothing that load balancers can be given.
        /// Cause: A key with a blank, or an address where a range is expected.
        LoadBalancerMalformed: Person, "Correct `spec.addons.cloudController.loadBalancers`, as the message says.";
        /// Load balancers of this platform may not be given this.
        /// Cause: The platform lists what tenant clusters may ask of its load balancers, and this is not on it.
        LoadBalancerNotAllowed: Person, "Remove it from `spec.addons.cloudController.loadBalancers`, or have `config.loadBalancers` allow it.";
        /// A limit is higher than what the platform gives, or no number of things.
        /// Cause: The platform gives less than whoever wrote the TenantCluster thought; a limit here can only lower it.
        AddonLimitRange: Person, "Lower or remove the field of `spec.addons.cloudController.limits` or `spec.addons.csi.limits`, or have the setting raised that the message names.";
        /// This is no label or annotation of a pod.
        /// Cause: A value with a blank or a /, or of more than 63 characters.
        PodMetadataMalformed: Person, "Correct `podMetadata` of `spec.controlPlane` or `spec.etcd`, as the message says.";
        /// This label or annotation of pods is Covey's or Kubernetes' own.
        /// Cause: The labels were copied from a pod that runs.
        PodMetadataManaged: Person, "Remove it from `podMetadata` of `spec.controlPlane` or `spec.etcd`.";
        /// The platform lets nobody set this label or annotation of pods.
        /// Cause: The platform lists what users may set, since labels of pods steer policies, and this is not on it.
        PodMetadataNotAllowed: Person, "Remove it from `podMetadata`, or have `config.tenantPods.allowed` list it.";
        /// This is no flag.
        /// Cause: It was copied from a command line with its -- or its value.
        FlagMalformed: Person, "Write the key of `extraArgs` without -- and =.";
        /// Covey sets this flag itself.
        /// Cause: A flag for which the spec has a field, or on which the control plane stands.
        FlagManaged: Person, "Remove it from `extraArgs`.";
        /// This flag may not be set.
        /// Cause: A flag of another component or version, or one that opens the management cluster.
        FlagNotAllowed: Person, "Remove it from `extraArgs`; docs/flags.md has those that may be set.";
        /// This value cannot be passed on.
        /// Cause: A line break, or quotes that were meant for a shell.
        FlagValueMalformed: Person, "Correct the value in `extraArgs`.";
        /// This flag may not have that value.
        /// Cause: A value that is good for another version, or more than the platform gives.
        FlagValueNotAllowed: Person, "Correct the value in `extraArgs`, as the message says.";
        /// No such feature gate can be set, or not in this version.
        /// Cause: A spelling, or a gate that came or went with another minor.
        FeatureGateUnknown: Person, "Remove it from `spec.controlPlane.featureGates`; docs/flags.md has those that can be set.";
        /// The platform lets nobody set this feature gate.
        /// Cause: The platform has not listed it yet, most often because it is alpha.
        FeatureGateNotAllowed: Person, "Remove it from `spec.controlPlane.featureGates`, or have `config.apiServer.featureGates` list it.";
        /// A feature needs another one.
        /// Cause: One gate of a pair was set alone.
        FeatureGateMissing: Person, "Set the gate that the message names in `spec.controlPlane.featureGates`, too.";
        /// No such API version can be set, or not in this version.
        /// Cause: A spelling, or a version that came or went with another minor.
        RuntimeConfigUnknown: Person, "Remove it from `spec.controlPlane.runtimeConfig`; docs/flags.md has those that can be set.";
        /// The platform lets nobody set this API version.
        /// Cause: The platform has not listed it yet, most often because it is alpha or beta.
        RuntimeConfigNotAllowed: Person, "Remove it from `spec.controlPlane.runtimeConfig`, or have `config.apiServer.runtimeConfig` list it.";
        /// The volume of etcd is too small.
        /// Cause: A unit was left out, or `M` where `Gi` was meant.
        StorageTooSmall: Person, "Raise `spec.etcd.storage.size`.";
        /// etcd's database cannot have this as the most, or not on this volume.
        /// Cause: A quota as large as the volume, which needs room for the log and a snapshot as well.
        EtcdQuotaRange: Person, "Correct `spec.etcd.quotaBackendBytes`, or raise `spec.etcd.storage.size`.";
        /// A volume cannot become smaller.
        /// Cause: A manifest from before the volume was grown.
        StorageShrinks: Person, "Set `spec.etcd.storage.size` back, or to more.";
        /// This is no StorageClass.
        /// Cause: Capital letters or a blank in it.
        StorageClassMalformed: Person, "Correct `spec.etcd.storage.className`.";
        /// This StorageClass may not be chosen for etcd.
        /// Cause: A name from another management cluster, or a class that the platform keeps from etcd.
        StorageClassNotAllowed: Person, "Choose another `spec.etcd.storage.className`; the message has those that are allowed.";
        /// The list of StorageClasses that tenants are offered is wrong.
        /// Cause: A class that is named twice, two defaults, or a field that is not one.
        StorageMalformed: Person, "Correct `config.storage.classes`.";
        /// No storage is offered, or not this one.
        /// Cause: The addon was switched on where the platform offers no volumes.
        StorageNotOffered: Person, "Set `spec.addons.csi.enabled` to false, or have `config.storage.classes` list it.";
        /// Issuers are asked from the tenant cluster's nodes, which are not reached without konnectivity.
        /// Cause: The addon was switched off while issuers were set.
        KonnectivityMissing: Person, "Set `spec.addons.konnectivity.enabled` to true, or remove the issuers.";
        /// The issuer is the tenant cluster itself.
        /// Cause: The issuer of the service accounts' tokens was taken for one of people.
        IssuerIsCluster: Person, "Choose another issuer in `spec.controlPlane.authentication.issuers`.";
        /// The platform lets nobody have the kube-apiserver ask or tell others.
        /// Cause: The platform has not allowed it, since it makes control planes ask addresses of the user's choice.
        WebhookNotAllowed: Person, "Remove it, or have `config.apiServer` allow it.";
        /// This is no rule of an audit policy.
        /// Cause: A level or a verb that audit policies do not have, or a rule that names resources and URLs.
        AuditRuleMalformed: Person, "Correct the entry of `spec.controlPlane.audit.rules`, as the message says.";
        /// This is no audience of tokens.
        /// Cause: A blank in it, or an entry that was pasted twice.
        AudienceMalformed: Person, "Correct `spec.controlPlane.serviceAccounts.audiences`, as the message says.";
        /// An issuer is named twice.
        /// Cause: An entry was copied and its URL left.
        IssuerTwice: Person, "Put it into one entry of `spec.controlPlane.authentication.issuers`.";
        /// There is no audience, or one is named twice.
        /// Cause: The list was left out, or an entry was pasted twice.
        AudiencesMalformed: Person, "Name each once, and one at least, in `audiences`.";
        /// A prefix is Kubernetes' own.
        /// Cause: A prefix that would have let users be taken for parts of Kubernetes.
        PrefixReserved: Person, "Choose another `prefix` than one that begins with system:.";
        /// This is no URL, or not of the kind that is needed.
        /// Cause: http where https is needed, a user or a query in it, or the scheme left out.
        URLMalformed: Person, "Correct the `url`, proxy or endpoint field that the message names.";
        /// A URL is named twice.
        /// Cause: An entry was copied and its URL left.
        URLTwice: Person, "Remove one of the two entries of the `url` field.";
        /// This is no certificate in PEM.
        /// Cause: It is in DER or base64 only, has a key with it, or lost its line breaks in YAML.
        CertificateMalformed: Person, "Write the certificate in PEM, beginning with `-----BEGIN CERTIFICATE-----`.";
        /// A namespace cannot have this name.
        /// Cause: Capital letters or a dot in it, or a namespace that Kubernetes keeps for itself.
        NamespaceMalformed: Person, "Correct `spec.controlPlane.podSecurity`.";
        /// No proxy is named.
        /// Cause: Only `noProxy` was set.
        ProxyMissing: Person, "Name one in `spec.nodes.proxy.http` or `https`, or remove `proxy`.";
        /// This is no name of a TenantCluster.
        /// Cause: A namespace before it, or capital letters.
        ClusterNameMalformed: Person, "Correct `spec.clusterName`.";
    }
}
