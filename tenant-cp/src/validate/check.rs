//! Validation of one TenantCluster taken by itself: everything that is wrong with it.
//!
//! Invariant: total and in a fixed order; admission and the reconciler call this same function, so
//! that what was accepted can be built.

use std::collections::BTreeSet;

use api::names::MAX_NAME_LENGTH;
use api::{Reason, TenantCluster};
use ipnet::IpNet;

use crate::flags::managed_flags;
use crate::network::check_dns_domain;
use crate::network::claims::overlap_within;
use crate::network::pools::check_pools;
use crate::network::ranges::{self, Use, is_private};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::validate::component::{self, Managed};
use crate::validate::pool::machine::check_kernel;
use crate::validate::{
    api_server, authentication, autoscaler, backup, configuration, dns, encryption, endpoint, etcd,
    features, hibernation, limits, load_balancers, maintenance, nodes, overlay, pod_metadata,
    pod_security, quantity, scheduling, upgrade,
};
use crate::{text, version};

/// Everything that is wrong with `tc` by itself; ranges of other tenant clusters are
/// [`crate::network::claims::conflicts`].
#[must_use]
pub fn check(tc: &TenantCluster, settings: &Settings) -> Vec<Problem> {
    check_with(tc, settings, &managed_flags)
}

pub(super) fn check_with(
    tc: &TenantCluster,
    settings: &Settings,
    managed: Managed<'_>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    name(tc, &mut problems);
    version(tc, &mut problems);
    let control_plane = &tc.spec.control_plane;
    if !(1..=9).contains(&control_plane.replicas) {
        problems.push(Problem::new(
            "spec.controlPlane.replicas",
            Reason::ReplicasRange,
            format!(
                "{} pods cannot be had: choose 1 to 9",
                control_plane.replicas
            ),
        ));
    }
    endpoint::check(&control_plane.endpoint, &mut problems);
    component::check(control_plane, managed, &mut problems);
    etcd::check(&tc.spec.etcd, &mut problems);
    encryption::check(tc, &mut problems);
    scheduling::check(tc, &mut problems);
    nodes::check(&tc.spec.nodes, &mut problems);
    authentication::check(tc, &mut problems);
    api_server::check(tc, &mut problems);
    features::check(tc, &mut problems);
    pod_security::check(&control_plane.pod_security, &mut problems);
    pod_metadata::check(tc, &mut problems);
    dns::check(tc, &mut problems);
    load_balancers::check(tc, &mut problems);
    limits::check(tc, settings, &mut problems);
    network(tc, settings, &mut problems);
    overlay::check(tc, settings, &mut problems);
    autoscaler::check(&tc.spec.addons.autoscaler, &mut problems);
    backup::check(tc, &mut problems);
    upgrade::check(tc, &mut problems);
    hibernation::check(tc, &mut problems);
    maintenance::check(tc, &mut problems);
    if let Some(registry) = &tc.spec.images.registry
        && let Err(message) = text::registry(registry.trim_end_matches('/'))
    {
        problems.push(Problem::new(
            "spec.images.registry",
            Reason::RegistryMalformed,
            message,
        ));
    }
    problems
}

fn name(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let name = tc.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() && tc.metadata.generate_name.is_some() {
        return; // not generated yet; checked again once it is
    }
    if !text::is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(Problem::new(
            "metadata.name",
            Reason::NameMalformed,
            format!(
                "\"{name}\" cannot become part of a namespace's name: use lower-case letters, \
                 digits and -, beginning with a letter"
            ),
        ));
    } else if name.len() > MAX_NAME_LENGTH {
        problems.push(Problem::new(
            "metadata.name",
            Reason::NameTooLong,
            format!(
                "{} characters are too many: at most {MAX_NAME_LENGTH}, because the tenant \
                 namespace is called covey-<name>-<10 characters>",
                name.len()
            ),
        ));
    }
}

/// The version asked for, also against the one that runs: nobody may go up two minors in two quick
/// edits.
fn version(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let running = tc
        .status
        .as_ref()
        .and_then(|status| status.version.as_deref());
    let running = running.and_then(|text| version::parse(text).ok());
    let result = version::parse_supported(&tc.spec.version)
        .and_then(|new| running.map_or(Ok(()), |old| version::check_upgrade(&old, &new)));
    if let Err(error) = result {
        problems.push(Problem::new(
            "spec.version",
            error.reason(),
            error.to_string(),
        ));
    }
}

fn network(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    let (ranges, malformed) = ranges(tc, settings);
    problems.extend(malformed);
    problems.extend(overlap_within(&ranges));
    let spec = &tc.spec.network;
    problems.extend(spec.dns_domain.as_deref().and_then(check_dns_domain));
    let Some(decided) = tc
        .status
        .as_ref()
        .and_then(|status| status.network.as_ref())
    else {
        return;
    };
    for (field, asked, decided) in [
        (Use::Pods.field(), &spec.pod_cidr, &decided.pod_cidr),
        (
            Use::Services.field(),
            &spec.service_cidr,
            &decided.service_cidr,
        ),
        (
            "spec.network.dnsDomain",
            &spec.dns_domain,
            &decided.dns_domain,
        ),
    ] {
        if let Some(asked) = asked.as_ref().filter(|asked| *asked != decided) {
            problems.push(Problem::new(
                field,
                Reason::NetworkInForce,
                format!(
                    "{asked} differs from {decided}, which is in force and cannot change: set the \
                     field to {decided} or create a new tenant cluster"
                ),
            ));
        }
    }
}

/// Volumes of classes that nobody offers; asked on admission alone, because who runs the management
/// cluster may take a class off the list at any time.
pub(super) fn storage(tc: &TenantCluster, settings: &Settings) -> Option<Problem> {
    let csi = &tc.spec.addons.csi;
    if !csi.enabled {
        return None;
    }
    let offered: Vec<_> = settings.storage.classes.iter().map(|c| &c.name).collect();
    if offered.is_empty() {
        return Some(Problem::new(
            "spec.addons.csi.enabled",
            Reason::StorageNotOffered,
            "no storage is offered here: have whoever runs the management cluster list its classes \
             (config.storage.classes of the chart), or set enabled to false",
        ));
    }
    let unknown = |name: &&String| !offered.contains(name);
    let asked = csi.classes.iter().flatten().find(unknown)?;
    let names: Vec<_> = offered.iter().map(|name| name.as_str()).collect();
    Some(Problem::new(
        "spec.addons.csi.classes",
        Reason::StorageNotOffered,
        format!("\"{asked}\" is not offered: choose of {}", names.join(", ")),
    ))
}

/// The ranges that the user gave, as far as they can be read, and what is wrong with the others.
pub(super) fn ranges(tc: &TenantCluster, settings: &Settings) -> (Vec<(Use, IpNet)>, Vec<Problem>) {
    let (mut ranges, mut problems) = (Vec::new(), Vec::new());
    let spec = &tc.spec.network;
    for (use_, text) in [
        (Use::Pods, &spec.pod_cidr),
        (Use::Services, &spec.service_cidr),
    ] {
        match text
            .as_deref()
            .map(|text| ranges::parse(text, use_, &settings.network))
        {
            Some(Ok(range)) => ranges.push((use_, range)),
            Some(Err(problem)) => problems.push(problem),
            None => {}
        }
    }
    (ranges, problems)
}

/// What is accepted but probably not meant; each in one sentence of at most 256 characters (longer
/// ones are cut by the API).
#[must_use]
pub fn warnings(tc: &TenantCluster, settings: &Settings) -> Vec<String> {
    let mut warnings = endpoint::warnings(&tc.spec.control_plane.endpoint);
    warnings.extend(etcd::warning(&tc.spec.etcd));
    for (use_, range) in ranges(tc, settings).0 {
        if !is_private(&range) {
            warnings.push(format!(
                "{}: {range} is not a private range: hosts on the Internet that have these \
                 addresses cannot be reached from the tenant cluster",
                use_.field()
            ));
        }
    }
    if !tc.spec.addons.konnectivity.enabled {
        warnings.push(
            "spec.addons.konnectivity: without it the API server reaches no webhook and no \
             aggregated API that is served by pods"
                .to_owned(),
        );
    }
    warnings
}

/// What is wrong with the operator's configuration; fields are those of the configuration. The
/// operator refuses to start with any.
#[must_use]
pub fn check_settings(settings: &Settings) -> Vec<Problem> {
    let mut problems = check_pools(&settings.network);
    if let Err(error) = version::etcd_version(&settings.etcd_image) {
        problems.push(Problem::new("etcdImage", error.reason(), error.to_string()));
    }
    if let Err(message) = text::registry(settings.registry.trim_end_matches('/')) {
        problems.push(Problem::new("registry", Reason::RegistryMalformed, message));
    }
    for (field, prefixes) in [
        ("allowedRegistries", &settings.allowed_registries),
        ("allowedMachineImages", &settings.allowed_machine_images),
    ] {
        for prefix in &prefixes.0 {
            if let Err(message) = text::registry(prefix.trim_end_matches('/')) {
                problems.push(Problem::new(field, Reason::RegistryMalformed, message));
            }
        }
    }
    let kept = settings.orphans.remove_after.as_ref();
    if let Some(text) = kept.filter(|text| text.get().is_none()) {
        problems.push(Problem::new(
            "orphans.removeAfter",
            Reason::DurationMalformed,
            format!(
                "\"{}\" is not a length of time: write hours, minutes and seconds, such as 24h, or null \
                 to remove nothing",
                text.0
            ),
        ));
    }
    if let Err(message) = settings.storage.check() {
        problems.push(Problem::new(
            "storage.classes",
            Reason::StorageMalformed,
            format!("it {message}"),
        ));
    }
    for class in &settings.storage.classes {
        if !text::is_subdomain(&class.name) && !class.name.is_empty() {
            problems.push(Problem::new(
                "storage.classes",
                Reason::StorageMalformed,
                format!(
                    "\"{}\" cannot be the name of a StorageClass: use lower-case letters, digits, - \
                     and .",
                    class.name
                ),
            ));
        }
    }
    for minor in settings.images.cluster_autoscaler.keys() {
        if version::parse_supported(&format!("{minor}.0")).is_err() {
            problems.push(Problem::new(
                format!("images.clusterAutoscaler[{minor}]"),
                Reason::MinorUnknown,
                "no tenant cluster can have this minor: write one that is supported, such as 1.35, \
                 or remove the line",
            ));
        }
    }
    let defaults = &settings.resources;
    for (field, amounts) in [
        ("apiServer", &defaults.api_server),
        ("controllerManager", &defaults.controller_manager),
        ("scheduler", &defaults.scheduler),
        ("konnectivity", &defaults.konnectivity),
        ("cloudController", &defaults.cloud_controller),
        ("csi", &defaults.csi),
        ("csiSidecar", &defaults.csi_sidecar),
        ("autoscaler", &defaults.autoscaler),
        ("clusterAutoscaler", &defaults.cluster_autoscaler),
        ("etcd", &defaults.etcd),
    ] {
        let malformed: BTreeSet<&String> = amounts
            .values()
            .filter(|amount| quantity::nanos(amount).is_none())
            .collect();
        problems.extend(malformed.into_iter().map(|amount| {
            Problem::new(
                format!("resources.{field}"),
                Reason::QuantityMalformed,
                quantity::malformed(amount),
            )
        }));
    }
    let most = &settings.memory_limits;
    for (field, amount) in [
        ("apiServer", &most.api_server),
        ("controllerManager", &most.controller_manager),
        ("scheduler", &most.scheduler),
        ("konnectivity", &most.konnectivity),
        ("etcd", &most.etcd),
    ] {
        if quantity::nanos(amount).is_none() {
            problems.push(Problem::new(
                format!("memoryLimits.{field}"),
                Reason::QuantityMalformed,
                quantity::malformed(amount),
            ));
        }
    }
    // In the place of {version} stands a version once a machine is made.
    let (image, kernel) = settings.providers.kubevirt.images("1.35.4");
    if let Err(message) = text::image::image(&image) {
        let field = "providers.kubevirt.image";
        problems.push(Problem::new(field, Reason::ImageMalformed, message));
    }
    if let Some(kernel) = kernel {
        check_kernel("providers.kubevirt.kernel", &kernel, &mut problems);
    }
    configuration::check(settings, &mut problems);
    problems
}
