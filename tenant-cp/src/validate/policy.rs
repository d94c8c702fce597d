//! Admission policy of the platform: what users may choose of what could be built.
//!
//! Invariant: asked at admission and until a tenant cluster has served, never of one that runs,
//! because who runs the management cluster may take something off a list at any time.

use api::node_pool::{KubeVirt, Provider};
use api::tenant_cluster::{Component, EndpointType};
use api::{NodePool, Reason, TenantCluster};

use crate::flags::{Program, allowed_since, managed_flags};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::settings::policy::Prefixes;
use crate::settings::providers::KubeVirtSettings;
use crate::text;
use crate::text::image::{image, repository};
use crate::validate::refusal::not_allowed;
use crate::validate::{
    api_server, attached, component, encryption, features, limits, load_balancers, pod_metadata,
    scheduling,
};
use crate::version;

/// From the next on the programs log bodies of requests, of Secrets too.
const MOST_VERBOSE: u8 = 4;

/// What `tc` asks for and this platform does not give.
pub(super) fn check(tc: &TenantCluster, settings: &Settings) -> Vec<Problem> {
    let mut problems = Vec::new();
    endpoint(tc, settings, &mut problems);
    for (field, program, component) in component::programs(&tc.spec.control_plane) {
        let field = format!("spec.controlPlane.{field}.extraArgs");
        extra_args(&field, program, component, &tc.spec.version, &mut problems);
    }
    storage_class(tc, settings, &mut problems);
    scheduling::check_policy(tc, &settings.tenant_pods, &mut problems);
    registry(tc, settings, &mut problems);
    load_balancers::check_policy(tc, &settings.load_balancers, &mut problems);
    limits::check_policy(tc, settings, &mut problems);
    api_server::check_policy(tc, settings, &mut problems);
    features::check_policy(tc, &settings.api_server, &mut problems);
    encryption::check_policy(tc, settings, &mut problems);
    pod_metadata::check_policy(tc, &settings.tenant_pods.allowed, &mut problems);
    problems
}

fn endpoint(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    let (endpoint, policy) = (&tc.spec.control_plane.endpoint, &settings.endpoint);
    let mut refuse = |field: &str, reason, asked: &str, allowed: &[String], setting: &str| {
        problems.push(Problem::new(
            format!("spec.controlPlane.endpoint.{field}"),
            reason,
            not_allowed(asked, allowed, &format!("endpoint.{setting}")),
        ));
    };
    if !policy.types.contains(&endpoint.type_) {
        let allowed = policy.types.iter().copied().map(EndpointType::as_str);
        let allowed: Vec<String> = allowed.map(str::to_owned).collect();
        let asked = endpoint.type_.as_str();
        refuse(
            "type",
            Reason::EndpointTypeNotAllowed,
            asked,
            &allowed,
            "types",
        );
    }
    if let Some(class) = &endpoint.load_balancer_class
        && text::is_qualified_name(class)
        && !policy.classes.contains(class)
    {
        let reason = Reason::LoadBalancerClassNotAllowed;
        refuse(
            "loadBalancerClass",
            reason,
            class,
            &policy.classes,
            "classes",
        );
    }
    for key in endpoint.annotations.keys() {
        if text::is_qualified_name(key) && !policy.allows_annotation(key) {
            let (field, allowed) = (format!("annotations[{key}]"), &policy.annotations);
            refuse(
                &field,
                Reason::AnnotationNotAllowed,
                key,
                allowed,
                "annotations",
            );
        }
    }
    for key in endpoint.labels.keys() {
        if text::is_qualified_name(key) && !text::is_ours(key) && !policy.allows_label(key) {
            let (field, allowed) = (format!("labels[{key}]"), &policy.labels);
            refuse(&field, Reason::LabelNotAllowed, key, allowed, "labels");
        }
    }
}

/// Flags that Covey sets itself are said by [`super::check`].
fn extra_args(
    field: &str,
    program: Program,
    component: &Component,
    version: &str,
    problems: &mut Vec<Problem>,
) {
    let Ok(version) = version::parse(version) else {
        return;
    };
    let managed = managed_flags(program);
    for (name, value) in &component.extra_args {
        if managed.contains(name.as_str()) || component::malformed(name).is_some() {
            continue;
        }
        let (reason, message) = match allowed_since(program, name) {
            None => (
                Reason::FlagNotAllowed,
                match features::field_of(name) {
                    Some(field) => {
                        format!(
                            "--{name} is not set this way: use spec.controlPlane.{field} instead"
                        )
                    }
                    None => format!(
                        "--{name} is not one of the flags that may be set: remove it (docs/flags.md \
                         lists those that may)"
                    ),
                },
            ),
            Some(minor) if version.minor < minor => (
                Reason::FlagNotAllowed,
                format!("--{name} may be set from Kubernetes 1.{minor} on: remove it"),
            ),
            Some(_) if name == "v" && !is_calm(value) => (
                Reason::FlagValueNotAllowed,
                format!(
                    "\"{value}\" is not allowed: choose 0 to {MOST_VERBOSE}, because with more \
                     the log holds Secrets"
                ),
            ),
            Some(_) => continue,
        };
        problems.push(Problem::new(format!("{field}[{name}]"), reason, message));
    }
}

fn is_calm(verbosity: &str) -> bool {
    verbosity
        .parse()
        .is_ok_and(|level: u8| level <= MOST_VERBOSE)
}

fn storage_class(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    let (asked, allowed) = (
        &tc.spec.etcd.storage.storage_class_name,
        &settings.etcd_storage_classes,
    );
    if let Some(class) = asked.as_ref().filter(|class| text::is_subdomain(class))
        && !allowed.contains(class)
    {
        problems.push(Problem::new(
            "spec.etcd.storage.storageClassName",
            Reason::StorageClassNotAllowed,
            not_allowed(class, allowed, "etcdStorageClasses"),
        ));
    }
}

fn registry(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    let Some(registry) = &tc.spec.images.registry else {
        return;
    };
    let registry = registry.trim_end_matches('/');
    let allowed = registries(settings);
    if text::registry(registry).is_ok() && !allowed.allow(registry) {
        problems.push(Problem::new(
            "spec.images.registry",
            Reason::RegistryNotAllowed,
            not_allowed(registry, &allowed.0, "allowedRegistries"),
        ));
    }
}

/// What `pool` asks for and this platform does not give.
pub(super) fn check_pool(pool: &NodePool, settings: &Settings) -> Vec<Problem> {
    let providers = pool.spec.providers().into_iter();
    let problems = providers.flat_map(|(field, provider)| {
        let problems = check_provider(provider, settings).into_iter();
        problems.map(move |problem| problem.moved("spec.provider", &field))
    });
    problems.collect()
}

fn check_provider(provider: &Provider, settings: &Settings) -> Vec<Problem> {
    let Some(kubevirt) = &provider.kubevirt else {
        return Vec::new();
    };
    let kernel = kubevirt.kernel_boot.as_ref();
    let asked = [
        ("image", kubevirt.image.as_ref()),
        ("kernelBoot.image", kernel.map(|kernel| &kernel.image)),
    ];
    let allowed = machine_images(settings);
    let problem = |(field, asked): (&str, Option<&String>)| {
        machine_image(asked?, &allowed).map(|message| {
            let field = format!("spec.provider.kubevirt.{field}");
            Problem::new(field, Reason::MachineImageNotAllowed, message)
        })
    };
    let mut problems: Vec<Problem> = asked.into_iter().filter_map(problem).collect();
    placement(kubevirt, &settings.providers.kubevirt, &mut problems);
    problems
}

/// Where a machine may run, and what it may take there.
fn placement(kubevirt: &KubeVirt, settings: &KubeVirtSettings, problems: &mut Vec<Problem>) {
    const FIELD: &str = "spec.provider.kubevirt";
    const SETTING: &str = "providers.kubevirt.allowed";
    let allowed = &settings.allowed;
    scheduling::check_nodes_allowed(
        (FIELD, SETTING),
        (&kubevirt.node_selector, &kubevirt.tolerations),
        &settings.node_selector,
        (&allowed.node_labels, &allowed.taints),
        problems,
    );
    let mut refuse = |field: String, asked: &str, allowed: &[String], setting: &str| {
        let message = not_allowed(asked, allowed, &format!("{SETTING}.{setting}"));
        problems.push(Problem::new(
            format!("{FIELD}.{field}"),
            Reason::DeviceNotAllowed,
            message,
        ));
    };
    let lists = [
        ("gpus", &kubevirt.gpus),
        ("hostDevices", &kubevirt.host_devices),
    ];
    for (name, devices) in lists {
        for (number, device) in devices.iter().enumerate() {
            let called = &device.device_name;
            if text::is_qualified_name(called) && !allowed.devices.contains(called) {
                let field = format!("{name}[{number}].deviceName");
                refuse(field, called, &allowed.devices, "devices");
            }
        }
    }
    if kubevirt.dedicated_cpus && !allowed.dedicated_cpus {
        refuse("dedicatedCpus".to_owned(), "true", &[], "dedicatedCpus");
    }
    if let Some(pages) = kubevirt.huge_pages.filter(|_| !allowed.huge_pages) {
        refuse("hugePages".to_owned(), pages.as_str(), &[], "hugePages");
    }
    attached::check_policy(kubevirt, allowed, problems);
}

fn machine_image(asked: &str, allowed: &Prefixes) -> Option<String> {
    let is_refused = image(asked).is_ok() && !allowed.allow(&repository(asked));
    is_refused.then(|| not_allowed(asked, &allowed.0, "allowedMachineImages"))
}

/// The operator's own registry, and those of the setting.
fn registries(settings: &Settings) -> Prefixes {
    let own = settings.registry.trim_end_matches('/').to_owned();
    let more = settings.allowed_registries.0.iter().cloned();
    Prefixes(std::iter::once(own).chain(more).collect())
}

/// Images of the providers in any version, and those of the setting.
fn machine_images(settings: &Settings) -> Prefixes {
    let kubevirt = &settings.providers.kubevirt;
    let own = [Some(&kubevirt.image), kubevirt.kernel.image.as_ref()];
    let own = own.into_iter().flatten().filter_map(|text| {
        let name = repository(text);
        match name.split_once("{version}") {
            // The version is a part of the path: what stands before that part.
            Some((fixed, _)) => fixed.rsplit_once('/').map(|(parent, _)| parent.to_owned()),
            None => Some(name),
        }
    });
    let more = settings.allowed_machine_images.0.iter().cloned();
    let mut all: Vec<String> = own.chain(more).collect();
    all.dedup();
    Prefixes(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_may_always_be_made_of_the_operators_own_images() {
        let mut settings = Settings::default();
        let own = |settings: &Settings| machine_images(settings).0;
        assert_eq!(own(&settings), ["ghcr.io/covey-dev/worker"]);
        settings.providers.kubevirt.image = "m.example/v{version}/worker".to_owned();
        settings.providers.kubevirt.kernel.image = Some("m.example:5000/kernel:6".to_owned());
        assert_eq!(own(&settings), ["m.example", "m.example:5000/kernel"]);
    }
}
