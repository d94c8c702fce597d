//! The VirtualMachine of a Machine.
//!
//! Invariant: a function of the Machine and the operator's settings alone, so that it can be made
//! again after a crash; what it boots is what the Machine's status has, whatever the settings say
//! since; nothing in it is secret (the user data is in a Secret that it names).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use api::foreign::kubevirt::virtual_machine as kv;
use api::foreign::kubevirt::{VirtualMachine, VirtualMachineSpec};
use api::machine::MachineRequest;
use api::node_pool::{Disk, HostDevice, KernelBoot, KubeVirt};
use api::{Machine, names};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use providers::Error;
use serde_json::json;
use tenant_cp::settings::{ImagePullPolicy, KubeVirtSettings};

use crate::identity::place;
use crate::needs;
use crate::resolve::resolve;

/// The network interface; KubeVirt's cloud controller looks for this name, too.
pub const INTERFACE: &str = "default";
const ROOT_DISK: &str = "root";
const USER_DATA: &str = "user-data";
/// KubeVirt refuses a largest memory that is no multiple of this, and then does without one
/// (`pkg/liveupdate/memory`, `HotplugBlockAlignmentBytes`).
const MEMORY_BLOCK: u64 = 2 << 20;

/// What is to be made for a Machine, as the settings are now.
///
/// # Errors
/// When the Machine names another provider, or the operator has none.
pub fn request(machine: &Machine, settings: &KubeVirtSettings) -> Result<MachineRequest, Error> {
    let wanted = wanted(machine, settings)?;
    let resolved = resolve(wanted, &machine.spec.version, settings);
    Ok(MachineRequest {
        type_: instance_type(wanted),
        image: resolved.image,
        kernel_boot: resolved.kernel_boot,
        account: None,
    })
}

fn wanted<'a>(machine: &'a Machine, settings: &KubeVirtSettings) -> Result<&'a KubeVirt, Error> {
    let wanted = machine.spec.provider.kubevirt.as_ref();
    let wanted = wanted.ok_or(Error::NoneNamed)?;
    match settings.enabled {
        true => Ok(wanted),
        false => Err(Error::NotConfigured("kubevirt")),
    }
}

/// The VirtualMachine of a Machine, as its status says what to ask for.
///
/// # Errors
/// When the Machine names another provider, or the operator has none, or nothing is stored of what to ask for.
pub fn virtual_machine(
    machine: &Machine,
    settings: &KubeVirtSettings,
) -> Result<VirtualMachine, Error> {
    let wanted = wanted(machine, settings)?;
    let stored = machine.status.as_ref();
    let stored = stored.and_then(|status| status.request.clone());
    let request = stored.ok_or(Error::NoRequest)?;
    let labels = labels(machine, settings);
    let template = kv::VirtualMachineTemplate {
        // These become labels of the virt-launcher pod, by which NetworkPolicies select it.
        metadata: Some(BTreeMap::from([("labels".to_owned(), json!(labels))])),
        spec: Some(kv::VirtualMachineTemplateSpec {
            affinity: Some(apart_from_its_pool(machine)),
            dns_config: own_resolver(settings),
            dns_policy: own_resolver(settings).map(|_| "None".to_owned()),
            domain: domain(wanted, request.kernel_boot.as_ref(), settings),
            // An eviction of its pod is refused and noted in status.evacuationNodeName of the
            // instance instead; the operator then drains the node and deletes the machine.
            eviction_strategy: Some("External".to_owned()),
            hostname: Some(machine.name_any()),
            networks: Some(networks(wanted)),
            node_selector: some(node_selector(wanted, settings)),
            termination_grace_period_seconds: wanted
                .shutdown_timeout
                .get()
                .and_then(|timeout| i64::try_from(timeout.as_secs()).ok()),
            tolerations: tolerations(wanted, settings),
            volumes: Some(volumes(machine, wanted, &request, settings)),
        }),
    };
    let (namespace, name) = place(machine);
    Ok(VirtualMachine {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            labels: Some(with_instance_type(labels, &request)),
            ..ObjectMeta::default()
        },
        spec: VirtualMachineSpec {
            // Its disk is a fresh copy of the image at every start. One that was shut down from
            // inside stays down (Always would start it, empty, for nothing), so that the operator
            // sees it and replaces the machine; one whose pod failed before it joined starts again.
            run_strategy: Some("RerunOnFailure".to_owned()),
            template,
        },
        status: None,
    })
}

/// Labels of the VirtualMachine, its instance and its pod.
fn labels(machine: &Machine, settings: &KubeVirtSettings) -> BTreeMap<String, String> {
    let mut labels = machine.labels_of_parts();
    if !settings.nameservers.is_empty() {
        // The tenant namespace's NetworkPolicy `dns` knows by it whom to keep from the management
        // cluster's DNS.
        labels.insert(
            names::LABEL_RESOLVER.to_owned(),
            names::RESOLVER_OWN.to_owned(),
        );
    }
    labels.insert(
        names::LABEL_COMPONENT.to_owned(),
        names::COMPONENT_WORKER.to_owned(),
    );
    labels
}

/// Resolvers that the machine is told by DHCP, which passes on what its pod has. None: the pod has
/// the management cluster's DNS, and with it the names of all Services there.
fn own_resolver(settings: &KubeVirtSettings) -> Option<kv::VirtualMachineTemplateSpecDnsConfig> {
    let nameservers = settings.nameservers.iter().map(Ipv4Addr::to_string);
    (!settings.nameservers.is_empty()).then(|| kv::VirtualMachineTemplateSpecDnsConfig {
        nameservers: Some(nameservers.collect()),
    })
}

/// The cloud controller manager copies this label to the node. On the VirtualMachine alone: nobody
/// selects pods by it.
fn with_instance_type(
    mut labels: BTreeMap<String, String>,
    request: &MachineRequest,
) -> BTreeMap<String, String> {
    if let Some(instance_type) = &request.type_ {
        labels.insert(names::LABEL_INSTANCE_TYPE.to_owned(), instance_type.clone());
    }
    labels
}

/// What a node of this size is called: processors and whole mebibytes of memory, however these were
/// written, e.g. `kubevirt-2cpu-4096Mi`. None for an amount that cannot be read.
pub(crate) fn instance_type(wanted: &KubeVirt) -> Option<String> {
    let mebibytes = tenant_cp::validate::bytes(&wanted.memory.0)? >> 20;
    Some(format!("kubevirt-{}cpu-{mebibytes}Mi", wanted.cpu))
}

/// Rather on a node of the management cluster where no other machine of the pool is; where there is
/// none, together is better than not at all.
fn apart_from_its_pool(machine: &Machine) -> kv::VirtualMachineTemplateSpecAffinity {
    use kv::VirtualMachineTemplateSpecAffinityPodAntiAffinity as AntiAffinity;
    use kv::VirtualMachineTemplateSpecAffinityPodAntiAffinityPreferredDuringSchedulingIgnoredDuringExecution as Preferred;
    use kv::VirtualMachineTemplateSpecAffinityPodAntiAffinityPreferredDuringSchedulingIgnoredDuringExecutionPodAffinityTerm as Term;
    use kv::VirtualMachineTemplateSpecAffinityPodAntiAffinityPreferredDuringSchedulingIgnoredDuringExecutionPodAffinityTermLabelSelector as Selector;
    let pool = BTreeMap::from([(
        names::LABEL_NODE_POOL.to_owned(),
        machine.spec.pool_name.clone(),
    )]);
    let preferred = Preferred {
        weight: 100,
        pod_affinity_term: Term {
            label_selector: Some(Selector {
                match_labels: Some(pool),
            }),
            topology_key: "kubernetes.io/hostname".to_owned(),
        },
    };
    kv::VirtualMachineTemplateSpecAffinity {
        pod_anti_affinity: Some(AntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]),
        }),
    }
}

fn domain(
    wanted: &KubeVirt,
    kernel_boot: Option<&KernelBoot>,
    settings: &KubeVirtSettings,
) -> kv::VirtualMachineTemplateSpecDomain {
    let memory = || IntOrString::String(wanted.memory.0.clone());
    let disk = |name: &str| kv::VirtualMachineTemplateSpecDomainDevicesDisks {
        name: name.to_owned(),
        disk: Some(kv::VirtualMachineTemplateSpecDomainDevicesDisksDisk {
            bus: Some("virtio".to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    };
    // In this order they are /dev/vda and /dev/vdb; what comes after is found by its serial.
    let mut disks = vec![disk(ROOT_DISK), disk(USER_DATA)];
    disks.extend(wanted.disks.iter().map(|further| {
        kv::VirtualMachineTemplateSpecDomainDevicesDisks {
            serial: Some(further.name.clone()),
            ..disk(&disk_name(further))
        }
    }));
    // The machine has its pod's address, by DHCP: each node needs an address of its own, and
    // behind masquerade all of them would be 10.0.2.2.
    let interface = |name: String| kv::VirtualMachineTemplateSpecDomainDevicesInterfaces {
        name,
        bridge: Some(kv::VirtualMachineTemplateSpecDomainDevicesInterfacesBridge {}),
        model: Some("virtio".to_owned()),
    };
    let interfaces = std::iter::once(INTERFACE.to_owned())
        .chain((0..wanted.networks.len()).map(further_interface))
        .map(interface)
        .collect();
    // A machine is replaced, never resized: neither processors nor memory can be plugged in later
    // (KubeVirt's live update otherwise prepares four times of each, which costs memory, and which
    // older ones of libvirt refuse).
    let most_memory = tenant_cp::validate::bytes(&wanted.memory.0)
        .filter(|bytes| bytes % MEMORY_BLOCK == 0)
        .map(|_| memory());
    let gpus: Vec<_> = devices("gpu", &wanted.gpus)
        .map(
            |(name, device_name)| kv::VirtualMachineTemplateSpecDomainDevicesGpus {
                name,
                device_name: Some(device_name),
            },
        )
        .collect();
    let host_devices: Vec<_> = devices("device", &wanted.host_devices)
        .map(
            |(name, device_name)| kv::VirtualMachineTemplateSpecDomainDevicesHostDevices {
                name,
                device_name: Some(device_name),
            },
        )
        .collect();
    kv::VirtualMachineTemplateSpecDomain {
        cpu: Some(kv::VirtualMachineTemplateSpecDomainCpu {
            cores: Some(wanted.cpu),
            dedicated_cpu_placement: wanted.dedicated_cpus.then_some(true),
            max_sockets: Some(1),
            sockets: Some(1),
        }),
        devices: kv::VirtualMachineTemplateSpecDomainDevices {
            autoattach_graphics_device: Some(false),
            autoattach_serial_console: Some(wanted.serial_console),
            disks: Some(disks),
            gpus: (!gpus.is_empty()).then_some(gpus),
            host_devices: (!host_devices.is_empty()).then_some(host_devices),
            interfaces: Some(interfaces),
            log_serial_console: Some(wanted.serial_console),
            // Keys are made at the first boot; without it that waits for entropy.
            rng: Some(kv::VirtualMachineTemplateSpecDomainDevicesRng {}),
        },
        firmware: kernel_boot.map(|kernel| kernel_from(kernel, settings.image_pull_policy)),
        memory: Some(kv::VirtualMachineTemplateSpecDomainMemory {
            guest: Some(memory()),
            hugepages: wanted.huge_pages.map(|size| {
                kv::VirtualMachineTemplateSpecDomainMemoryHugepages {
                    page_size: Some(size.as_str().to_owned()),
                }
            }),
            max_guest: most_memory,
        }),
        // All of it is reserved, whatever KubeVirt's memoryOvercommit says: the kubelet inside
        // promises it to pods. So are its disks, which are files of the node's: else tenants fill it.
        // KubeVirt adds what it needs itself to the pod's requests.
        resources: Some(kv::VirtualMachineTemplateSpecDomainResources {
            requests: Some(
                std::iter::once(("memory".to_owned(), memory()))
                    .chain(disks_request(wanted, settings))
                    .collect(),
            ),
        }),
    }
}

/// What its disks may fill on its node.
fn disks_request(wanted: &KubeVirt, settings: &KubeVirtSettings) -> Option<(String, IntOrString)> {
    let bytes = needs::disks(wanted, settings).filter(|bytes| *bytes > 0)?;
    let amount = IntOrString::String(bytes.to_string());
    Some(("ephemeral-storage".to_owned(), amount))
}

fn kernel_from(
    kernel: &KernelBoot,
    pull: ImagePullPolicy,
) -> kv::VirtualMachineTemplateSpecDomainFirmware {
    use kv::VirtualMachineTemplateSpecDomainFirmwareKernelBoot as Boot;
    use kv::VirtualMachineTemplateSpecDomainFirmwareKernelBootContainer as Container;
    let path = |path: &str| (!path.is_empty()).then(|| path.to_owned());
    kv::VirtualMachineTemplateSpecDomainFirmware {
        kernel_boot: Some(Boot {
            container: Some(Container {
                image: kernel.image.clone(),
                image_pull_policy: Some(pull.as_str().to_owned()),
                initrd_path: path(&kernel.initrd_path),
                kernel_path: path(&kernel.kernel_path),
            }),
            kernel_args: path(&kernel.kernel_args),
        }),
    }
}

/// Its pod's network first, by which it is a node; the others as they are asked for.
fn networks(wanted: &KubeVirt) -> Vec<kv::VirtualMachineTemplateSpecNetworks> {
    use kv::VirtualMachineTemplateSpecNetworksMultus as Multus;
    let pod = kv::VirtualMachineTemplateSpecNetworks {
        name: INTERFACE.to_owned(),
        pod: Some(kv::VirtualMachineTemplateSpecNetworksPod::default()),
        ..Default::default()
    };
    let further = wanted.networks.iter().enumerate();
    let further = further.map(|(number, network)| kv::VirtualMachineTemplateSpecNetworks {
        name: further_interface(number),
        multus: Some(Multus {
            network_name: network.name.clone(),
        }),
        ..Default::default()
    });
    std::iter::once(pod).chain(further).collect()
}

fn further_interface(number: usize) -> String {
    format!("network-{number}")
}

/// What KubeVirt calls it: no name of a user's is that of the root disk or of the user data.
fn disk_name(disk: &Disk) -> String {
    format!("disk-{}", disk.name)
}

fn volumes(
    machine: &Machine,
    wanted: &KubeVirt,
    request: &MachineRequest,
    settings: &KubeVirtSettings,
) -> Vec<kv::VirtualMachineTemplateSpecVolumes> {
    use kv::VirtualMachineTemplateSpecVolumesCloudInitNoCloud as NoCloud;
    use kv::VirtualMachineTemplateSpecVolumesCloudInitNoCloudSecretRef as SecretRef;
    use kv::VirtualMachineTemplateSpecVolumesContainerDisk as ContainerDisk;
    use kv::VirtualMachineTemplateSpecVolumesEmptyDisk as EmptyDisk;
    let secret = names::user_data_secret(&machine.name_any());
    let further = wanted.disks.iter();
    let further = further.map(|disk| kv::VirtualMachineTemplateSpecVolumes {
        name: disk_name(disk),
        empty_disk: Some(EmptyDisk {
            capacity: IntOrString::String(disk.size.0.clone()),
        }),
        ..Default::default()
    });
    let mut volumes = vec![
        kv::VirtualMachineTemplateSpecVolumes {
            name: ROOT_DISK.to_owned(),
            container_disk: Some(ContainerDisk {
                image: request.image.clone(),
                image_pull_policy: Some(settings.image_pull_policy.as_str().to_owned()),
            }),
            ..Default::default()
        },
        kv::VirtualMachineTemplateSpecVolumes {
            name: USER_DATA.to_owned(),
            cloud_init_no_cloud: Some(NoCloud {
                secret_ref: Some(SecretRef { name: Some(secret) }),
            }),
            ..Default::default()
        },
    ];
    volumes.extend(further);
    volumes
}

/// What the platform asks of nodes is never given up for what a user asks.
fn node_selector(wanted: &KubeVirt, settings: &KubeVirtSettings) -> BTreeMap<String, String> {
    let mut labels = wanted.node_selector.clone();
    labels.extend(settings.node_selector.clone());
    labels
}

fn tolerations(
    wanted: &KubeVirt,
    settings: &KubeVirtSettings,
) -> Option<Vec<kv::VirtualMachineTemplateSpecTolerations>> {
    let all = needs::tolerations(wanted, settings);
    let tolerations = all.into_iter();
    let tolerations: Vec<_> = tolerations
        .map(|t| kv::VirtualMachineTemplateSpecTolerations {
            effect: t.effect,
            key: t.key,
            operator: t.operator,
            toleration_seconds: t.toleration_seconds,
            value: t.value,
        })
        .collect();
    (!tolerations.is_empty()).then_some(tolerations)
}

/// Names of so many devices of each kind: what KubeVirt calls them in the machine, and what the node does.
fn devices<'a>(
    kind: &'a str,
    wanted: &'a [HostDevice],
) -> impl Iterator<Item = (String, String)> + 'a {
    let each = wanted.iter().flat_map(|device| {
        let count = usize::try_from(device.count).unwrap_or_default();
        std::iter::repeat_n(&device.device_name, count)
    });
    each.enumerate()
        .map(move |(number, device)| (format!("{kind}-{number}"), device.clone()))
}

fn some(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    (!map.is_empty()).then_some(map)
}
