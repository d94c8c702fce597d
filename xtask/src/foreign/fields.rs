//! Which fields of foreign kinds are used.
//!
//! Invariant: a field is here when code of ours writes or reads it, and not before.

/// Of `VirtualMachine`: what is written of its template, and the status that is read.
pub(super) const VIRTUAL_MACHINE: &[&str] = &[
    "spec.runStrategy",
    "spec.template.metadata",
    "spec.template.spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution.weight",
    "spec.template.spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution.podAffinityTerm.topologyKey",
    "spec.template.spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution.podAffinityTerm.labelSelector.matchLabels",
    "spec.template.spec.domain.cpu.cores",
    "spec.template.spec.domain.cpu.maxSockets",
    "spec.template.spec.domain.cpu.sockets",
    "spec.template.spec.domain.devices.autoattachGraphicsDevice",
    "spec.template.spec.domain.devices.autoattachSerialConsole",
    "spec.template.spec.domain.devices.disks.disk.bus",
    "spec.template.spec.domain.devices.disks.name",
    "spec.template.spec.domain.devices.interfaces.bridge",
    "spec.template.spec.domain.devices.interfaces.model",
    "spec.template.spec.domain.devices.interfaces.name",
    "spec.template.spec.domain.devices.logSerialConsole",
    "spec.template.spec.domain.devices.rng",
    "spec.template.spec.domain.firmware.kernelBoot.container.image",
    "spec.template.spec.domain.firmware.kernelBoot.container.imagePullPolicy",
    "spec.template.spec.domain.firmware.kernelBoot.container.initrdPath",
    "spec.template.spec.domain.firmware.kernelBoot.container.kernelPath",
    "spec.template.spec.domain.firmware.kernelBoot.kernelArgs",
    "spec.template.spec.domain.memory.guest",
    "spec.template.spec.domain.memory.maxGuest",
    "spec.template.spec.domain.resources.requests",
    "spec.template.spec.evictionStrategy",
    "spec.template.spec.hostname",
    "spec.template.spec.networks.name",
    "spec.template.spec.networks.pod",
    "spec.template.spec.nodeSelector",
    "spec.template.spec.terminationGracePeriodSeconds",
    "spec.template.spec.tolerations",
    "spec.template.spec.volumes.cloudInitNoCloud.secretRef",
    "spec.template.spec.volumes.containerDisk.image",
    "spec.template.spec.volumes.containerDisk.imagePullPolicy",
    "spec.template.spec.volumes.name",
    "status.conditions",
    "status.created",
    "status.printableStatus",
];

/// Of `VirtualMachineInstance`: what is read.
pub(super) const VIRTUAL_MACHINE_INSTANCE: &[&str] = &[
    "spec.hostname",
    "status.conditions",
    "status.evacuationNodeName",
    "status.interfaces.ipAddress",
    "status.interfaces.ipAddresses",
    "status.interfaces.name",
    "status.nodeName",
    "status.phase",
    "status.reason",
];
