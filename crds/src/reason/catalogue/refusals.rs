//! Reasons of what is refused, by admission or in `Degraded`: the catalogue's last group.
//!
//! Invariant: that of the catalogue.

/// Makes the catalogue of what it is given and of these.
macro_rules! with_refusals {
    ($($others:tt)*) => { $crate::reason::class::reasons! {
    $($others)*
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
        /// The version is older than the platform allows.
        /// Cause: A manifest of before the platform named the version as the least one, most often for a hole that it mends.
        VersionBelowMinimum: Person, "Set `spec.version` to the one that the message names, or a newer patch of that minor.", since "0.2.0";
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
        /// This is a time, and none that can be had here.
        /// Cause: It is far shorter or longer than what is usual.
        DurationRange: Person, "Choose a time for `spec.backup.full` or `spec.backup.delta` as the message says.", since "0.2.0";
        /// A tenant cluster cannot sleep by this schedule.
        /// Cause: A field is missing or out of its range, a day that no month has, or a time zone by its abbreviation.
        ScheduleRefused: Person, "Correct the field of `spec.hibernation.schedules` that is named, as the message says.", since "0.2.0";
        /// Nobody can say when such a window of a tenant cluster is open.
        /// Cause: A field is missing or out of its range, a day that no month has, or a time zone by its abbreviation.
        WindowRefused: Person, "Correct the field of `spec.maintenance.windows` that is named, as the message says.", since "0.2.0";
        /// A tenant cluster cannot be held back until then.
        /// Cause: A day that no month has, or one that is more than 90 days ahead.
        HoldRefused: Person, "Choose a `spec.maintenance.heldUntil` as the message says, or remove it.", since "0.2.0";
        /// This is no name of a BackupTarget.
        /// Cause: A capital letter, an underscore or a slash in it.
        TargetNameMalformed: Person, "Write `spec.backup.target` as `kubectl get backuptargets` shows it.", since "0.2.0";
        /// A time is too short for what has to happen in it.
        /// Cause: A value for tests, or seconds where minutes were meant.
        TimeoutTooShort: Person, "Use `30s` or more.";
        /// This is no quantity.
        /// Cause: A unit that Kubernetes does not have, such as GB or a blank before it.
        QuantityMalformed: Person, "Write the field that the message names as `500m`, `2` or `4Gi`.";
        /// A request is above its limit.
        /// Cause: A limit was lowered, or only the request raised; where one is left out its default counts.
        RequestAboveLimit: Person, "Lower `requests` or raise `limits`.";
        /// A kind cannot be encrypted at rest, or Secrets are not to be.
        /// Cause: A spelling, such as a name without its API group; a wildcard; events or a custom resource.
        EncryptionKindUnknown: Person, "Choose kinds that the message names for `spec.encryption.resources`, `secrets` among them.", since "0.2.0";
        /// The platform has no KMS of this name, or cannot run it.
        /// Cause: A spelling; or a KMS was taken out of the operator's configuration.
        KmsUnknown: Person, "Name a KMS in `spec.encryption.kms` that the message names, or have whoever runs the management cluster add it to `config.encryption.kms`.", since "0.2.0";
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
        /// This is no name that a cloud or a ProviderConfig could have.
        /// Cause: A blank or a quote in it, or a description where an ID was meant.
        CloudNameMalformed: Person, "Correct the field below `spec.provider` that the message names.", since "0.2.0";
        /// This is no key of a label or taint.
        /// Cause: A blank or a second / in the key, or a name of more than 63 characters.
        KeyMalformed: Person, "Write the key as the message says, in the `config` or SSH field that it names.";
        /// A label of nodes is not one, or is not a user's to set.
        /// Cause: A prefix of `kubernetes.io` that the kubelet may not set, or a value with a blank.
        LabelInvalid: Person, "Correct or remove it from `spec.labels` of the pool.";
        /// A taint of nodes is not one, or is not a user's to set.
        /// Cause: An effect in lower case, or a prefix that Kubernetes keeps for itself.
        TaintInvalid: Person, "Correct or remove it from `spec.taints` of the pool.";
        /// A selector of nodes or of Hosts is not one.
        /// Cause: A number or `true` without quotes, or a key with two /.
        NodeSelectorMalformed: Person, "Correct the `nodeSelector` or `matchLabels` that the message names.";
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
        /// The overlay needs flannel, whose packets go through it.
        /// Cause: A network plugin of the user's own, which the overlay does not know.
        OverlayNeedsFlannel: Person, "Set `spec.addons.cni.type` to flannel, or switch `spec.addons.overlay.enabled` off.";
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
        /// The generation that is asked for was dropped, and cannot come back.
        /// Cause: A manifest of before the rotation was applied again.
        RotationRefused: Person, "Set `spec.rotation` to the generation that signs (`status.rotation`), or to a number above all that there were.";
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
    } };
}
pub(super) use with_refusals;
