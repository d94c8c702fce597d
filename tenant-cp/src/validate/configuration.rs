//! What is wrong with the operator's configuration of machines and pods; more of
//! [`check_settings`](super::check_settings).
//!
//! Invariant: fields are those of the configuration, and each sentence says what to write instead.

use std::net::Ipv4Addr;

use api::Reason;
use api::access_grant::{ADMIN, LEAST_SECONDS, MOST_SECONDS, VIEW};

use crate::network::metadata::is_no_hosts;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::settings::access::AccessSettings;
use crate::settings::golden_start::GoldenStart;
use crate::text;
use crate::validate::{
    attached, encryption, features, load_balancers, maintenance, quantity, scheduling,
};
use crate::version;

/// As many as the resolver of a Linux machine reads, and Kubernetes and KubeVirt take
/// (apimachinery `MaxDNSNameservers`; KubeVirt's `vmi-create-admitter.go`).
const MOST_NAMESERVERS: usize = 3;
/// Longest name of a ClusterRole, in bytes (a segment of a path).
const MAX_ROLE: usize = 253;
/// Longest name of a golden file, in bytes: what a pod's status says of a start begins with it.
const MOST_FILE_NAME: usize = 128;
/// Most control planes of a version that wait for somebody who wants one.
const MOST_STANDBY: u16 = 50;

pub(super) fn check(settings: &Settings, problems: &mut Vec<Problem>) {
    features::check_settings(settings, problems);
    encryption::check_settings(settings, problems);
    load_balancers::check_settings(&settings.load_balancers, problems);
    maintenance::check_settings(settings, problems);
    nameservers(&settings.providers.kubevirt.nameservers, problems);
    access(&settings.access, problems);
    golden_starts(settings, problems);
    standby(settings, problems);
    let pods = &settings.tenant_pods;
    scheduling::check_selector("tenantPods.nodeSelector", &pods.node_selector, problems);
    let (pods, machines) = (&pods.allowed, &settings.providers.kubevirt.allowed);
    for (field, keys) in [
        ("tenantPods.allowed.nodeLabels", &pods.node_labels),
        ("tenantPods.allowed.taints", &pods.taints),
        (
            "providers.kubevirt.allowed.nodeLabels",
            &machines.node_labels,
        ),
        ("providers.kubevirt.allowed.taints", &machines.taints),
        ("providers.kubevirt.allowed.devices", &machines.devices),
    ] {
        for key in keys.iter().filter(|key| !text::is_qualified_name(key)) {
            let message = scheduling::malformed_key(key);
            problems.push(Problem::new(field, Reason::KeyMalformed, message));
        }
    }
    for (field, keys) in [
        ("tenantPods.allowed.podLabels", &pods.pod_labels),
        ("tenantPods.allowed.podAnnotations", &pods.pod_annotations),
        (
            "loadBalancers.annotations",
            &settings.load_balancers.annotations,
        ),
        ("loadBalancers.labels", &settings.load_balancers.labels),
    ] {
        for key in keys.iter().filter(|key| !text::is_key_or_prefix(key)) {
            let message = scheduling::malformed_key(key);
            problems.push(Problem::new(field, Reason::KeyMalformed, message));
        }
    }
    let root_disk = &settings.providers.kubevirt.root_disk_request;
    for (field, amount) in [
        ("providers.kubevirt.allowed.disks", machines.disks.as_ref()),
        ("providers.kubevirt.rootDiskRequest", Some(root_disk)),
    ] {
        if let Some(amount) = amount.filter(|amount| quantity::bytes(&amount.0).is_none()) {
            let message = quantity::malformed(&amount.0);
            problems.push(Problem::new(field, Reason::QuantityMalformed, message));
        }
    }
    let networks = machines.networks.iter();
    for name in networks.filter(|name| !attached::is_network(name)) {
        let message = format!(
            "\"{name}\" is not a network: write namespace and name of a NetworkAttachmentDefinition, \
             such as networks/storage"
        );
        let field = "providers.kubevirt.allowed.networks";
        problems.push(Problem::new(field, Reason::NetworkMalformed, message));
    }
}

/// A profile that nobody could ask for, or that has no role; and a ceiling that no grant could keep.
fn access(settings: &AccessSettings, problems: &mut Vec<Problem>) {
    for (name, role) in &settings.profiles {
        let field = format!("access.profiles.{name}");
        let is_ours = [ADMIN, VIEW].contains(&name.as_str());
        if is_ours || !text::is_label(name) {
            let message = format!(
                "\"{name}\" is no name of rights: write lower-case letters, digits and -, and none of {ADMIN} and {VIEW}"
            );
            problems.push(Problem::new(field, Reason::KeyMalformed, message));
        } else if role.is_empty() || role.len() > MAX_ROLE {
            let message = format!("\"{role}\" is no ClusterRole: name one of the tenant clusters");
            problems.push(Problem::new(field, Reason::KeyMalformed, message));
        }
    }
    if !settings.has_possible_ceiling() {
        let message = format!(
            "{} is not a time that a grant may last: write {LEAST_SECONDS} to {MOST_SECONDS} seconds",
            settings.most_seconds
        );
        problems.push(Problem::new(
            "access.mostSeconds",
            Reason::DurationRange,
            message,
        ));
    }
}

/// A golden file that no member of etcd would find, or believe.
fn golden_starts(settings: &Settings, problems: &mut Vec<Problem>) {
    for (version, start) in &settings.golden_starts {
        let GoldenStart {
            etcd,
            objects,
            file,
            sha256,
        } = start;
        let is_hex = |text: &str, digits: usize| {
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == digits && text.bytes().all(is_digit)
        };
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_minor = etcd
            .strip_prefix("3.")
            .is_some_and(|minor| minor.parse::<u8>().is_ok());
        let is_name = (1..=MOST_FILE_NAME).contains(&file.len())
            && !file.starts_with('.')
            && file.bytes().all(is_name_byte);
        for (field, value, is_right, wanted) in [
            ("etcd", etcd, is_minor, "a minor such as 3.6"),
            (
                "objects",
                objects,
                is_hex(objects, 16),
                "what `operator print golden` says",
            ),
            (
                "file",
                file,
                is_name,
                "the name of a file, of letters, digits, ., - and _",
            ),
            (
                "sha256",
                sha256,
                is_hex(sha256, 64),
                "64 hexadecimal digits",
            ),
        ] {
            if !is_right {
                let message =
                    format!("\"{value}\" cannot be that of a golden file: write {wanted}");
                let field = format!("goldenStarts[{version}].{field}");
                problems.push(Problem::new(field, Reason::KeyMalformed, message));
            }
        }
    }
}

/// More control planes in waiting than anybody wants, or such as cannot be made.
fn standby(settings: &Settings, problems: &mut Vec<Problem>) {
    for (version, count) in &settings.standby {
        let field = format!("standby[{version}]");
        if let Err(error) = version::parse_supported(version) {
            problems.push(Problem::new(field, error.reason(), error.to_string()));
        } else if *count > MOST_STANDBY {
            let message = format!(
                "{count} control planes of a version are more than may wait: write 0 to {MOST_STANDBY}"
            );
            problems.push(Problem::new(field, Reason::ReplicasRange, message));
        }
    }
}

fn nameservers(nameservers: &[Ipv4Addr], problems: &mut Vec<Problem>) {
    const FIELD: &str = "providers.kubevirt.nameservers";
    if nameservers.len() > MOST_NAMESERVERS {
        problems.push(Problem::new(
            FIELD,
            Reason::NameserversTooMany,
            format!(
                "{} resolvers are more than a machine asks: name at most {MOST_NAMESERVERS}",
                nameservers.len()
            ),
        ));
    }
    for (number, address) in nameservers.iter().enumerate() {
        let message = if is_no_hosts((*address).into()) {
            format!(
                "{address} is no address at which machines reach a resolver: name one outside of \
                 them, such as 192.0.2.53"
            )
        } else if nameservers[..number].contains(address) {
            format!("{address} is named twice: remove one of them")
        } else {
            continue;
        };
        let field = format!("{FIELD}[{number}]");
        problems.push(Problem::new(field, Reason::NameserverMalformed, message));
    }
}

#[cfg(test)]
mod tests;
