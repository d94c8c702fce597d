//! Validation of `spec.controlPlane.endpoint`.
//!
//! Invariant: an endpoint without problems makes a Service that the management cluster's API
//! accepts, and certificates whose names are valid.

use api::Reason;
use api::tenant_cluster::{Endpoint, EndpointType};

use crate::problem::Problem;
use crate::text;
use crate::validate::service;

const FIELD: &str = "spec.controlPlane.endpoint";
/// Annotations of one object together (apimachinery `TotalAnnotationSizeLimitB` is 256 KiB);
/// Covey's own need a little.
const MOST_ANNOTATIONS: usize = 255 * 1024;
/// The default of kube-apiserver's `--service-node-port-range`.
const NODE_PORTS: std::ops::RangeInclusive<i32> = 30000..=32767;

pub(super) fn check(endpoint: &Endpoint, problems: &mut Vec<Problem>) {
    let mut add = |field: &str, reason, message: String| {
        problems.push(Problem::new(format!("{FIELD}.{field}"), reason, message));
    };
    match &endpoint.host {
        None if endpoint.type_ == EndpointType::NodePort => add(
            "host",
            Reason::HostRequired,
            "a NodePort needs the address or DNS name under which clients reach the management \
             cluster's nodes"
                .to_owned(),
        ),
        Some(host) => {
            if let Err(message) = text::host(host, Some("endpoint.port")) {
                add("host", Reason::HostMalformed, message);
            }
        }
        None => {}
    }
    let ports = [
        ("port", endpoint.port),
        ("konnectivityPort", endpoint.konnectivity_port),
    ];
    for (field, port) in ports {
        if let Some(port) = port.filter(|port| !(1..=65535).contains(port)) {
            add(
                field,
                Reason::PortRange,
                format!("{port} is not a port: choose one from 1 to 65535"),
            );
        }
    }
    for (at, san) in endpoint.cert_sans.iter().enumerate() {
        let name = san.strip_prefix("*.").unwrap_or(san);
        let wildcard = name.len() != san.len();
        let result = if wildcard {
            text::dns_name(name)
        } else {
            text::host(san, None)
        };
        if let Err(message) = result {
            let message = if name.contains('*') {
                format!("\"{san}\" has a * that is not the whole first part: write *.example.com")
            } else {
                message
            };
            add(&format!("certSANs[{at}]"), Reason::SANMalformed, message);
        }
    }
    for (at, range) in endpoint.source_ranges.iter().enumerate() {
        if let Err(message) = service::range(range) {
            add(
                &format!("sourceRanges[{at}]"),
                Reason::SourceRangeMalformed,
                message,
            );
        }
    }
    let class = endpoint.load_balancer_class.as_deref();
    if let Some(message) = class.and_then(service::class) {
        add(
            "loadBalancerClass",
            Reason::LoadBalancerClassMalformed,
            message,
        );
    }
    for key in endpoint.annotations.keys() {
        if let Some((reason, message)) = annotation(key) {
            add(&format!("annotations[{key}]"), reason, message);
        }
    }
    for (key, value) in &endpoint.labels {
        if let Some(message) = service::label(key, value) {
            add(&format!("labels[{key}]"), Reason::LabelMalformed, message);
        }
    }
    let size: usize = endpoint
        .annotations
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > MOST_ANNOTATIONS {
        add(
            "annotations",
            Reason::AnnotationsTooLarge,
            format!("{size} bytes of annotations are too many: keep within {MOST_ANNOTATIONS}"),
        );
    }
}

fn annotation(key: &str) -> Option<(Reason, String)> {
    if !text::is_qualified_name(key) {
        return Some((
            Reason::AnnotationMalformed,
            format!(
                "\"{key}\" is not a key of an annotation: write prefix/name, with a DNS name as \
                 prefix and at most 63 letters, digits and - _ . as name"
            ),
        ));
    }
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let ours = prefix == api::GROUP
        || prefix
            .strip_suffix(api::GROUP)
            .is_some_and(|p| p.ends_with('.'));
    (ours || key == "kubectl.kubernetes.io/last-applied-configuration").then(|| {
        (
            Reason::AnnotationManaged,
            format!("\"{key}\" is written by Covey or kubectl themselves: remove it"),
        )
    })
}

/// What works only on some management clusters.
pub(super) fn warnings(endpoint: &Endpoint) -> Vec<String> {
    let mut warnings = Vec::new();
    let ports = [
        ("port", endpoint.port),
        ("konnectivityPort", endpoint.konnectivity_port),
    ];
    for (field, port) in ports {
        if let (EndpointType::NodePort, Some(port)) = (endpoint.type_, port)
            && !NODE_PORTS.contains(&port)
        {
            warnings.push(format!(
                "{FIELD}.{field}: {port} is outside {}-{}, the usual range of node ports",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            ));
        }
    }
    let host = endpoint.host.as_deref();
    let is_name = host.is_some_and(|host| host.parse::<std::net::IpAddr>().is_err());
    if endpoint.konnectivity_port.is_some() && is_name {
        warnings.push(format!(
            "{FIELD}.host: it is no IP address, so the Service kubernetes inside leads to an address of the \
             management cluster, and pods on Hosts do not find the API by it"
        ));
    }
    warnings
}
