//! Validation of `spec.nodes`.
//!
//! Invariant: what is let through is what `node::host_files` writes; no message repeats what might be a
//! key or a password.

use std::collections::BTreeSet;

use api::Reason;
use api::tenant_cluster::Nodes;

use crate::problem::Problem;
use crate::text::{self, url};
use crate::validate::certificate;

pub(super) fn check(nodes: &Nodes, problems: &mut Vec<Problem>) {
    let mut add = |field: String, reason: Reason, message: String| {
        problems.push(Problem::new(format!("spec.nodes.{field}"), reason, message));
    };
    let mut seen = BTreeSet::new();
    for (number, mirror) in nodes.registry_mirrors.iter().enumerate() {
        let field = format!("registryMirrors[{number}]");
        let registry = mirror.registry.as_str();
        if registry != "*"
            && let Err(message) = url::registry_host(registry)
        {
            add(
                format!("{field}.registry"),
                Reason::RegistryMalformed,
                message,
            );
        }
        if !seen.insert(registry) {
            let message = format!("\"{registry}\" has mirrors twice: put them into one entry");
            add(format!("{field}.registry"), Reason::RegistryTwice, message);
        }
        for (at, endpoint) in mirror.endpoints.iter().enumerate() {
            if let Err(message) = url::endpoint(endpoint) {
                add(
                    format!("{field}.endpoints[{at}]"),
                    Reason::URLMalformed,
                    message,
                );
            }
            if mirror.endpoints[..at].contains(endpoint) {
                let message = "it is named twice: remove one of them".to_owned();
                add(
                    format!("{field}.endpoints[{at}]"),
                    Reason::URLTwice,
                    message,
                );
            }
        }
    }
    if let Some(proxy) = &nodes.proxy {
        if proxy.http.is_none() && proxy.https.is_none() {
            let message = "name a proxy in http or https, or remove it".to_owned();
            add("proxy".to_owned(), Reason::ProxyMissing, message);
        }
        for (name, address) in [("http", &proxy.http), ("https", &proxy.https)] {
            if let Some(Err(message)) = address.as_deref().map(url::proxy) {
                add(format!("proxy.{name}"), Reason::URLMalformed, message);
            }
        }
        for (at, entry) in proxy.no_proxy.iter().enumerate() {
            if let Err(message) = url::no_proxy(entry) {
                add(
                    format!("proxy.noProxy[{at}]"),
                    Reason::HostMalformed,
                    message,
                );
            }
        }
    }
    for (number, pem) in nodes.trusted_cas.iter().enumerate() {
        let Some(message) = certificate::problem(pem) else {
            continue;
        };
        let field = format!("trustedCAs[{number}]");
        add(field, Reason::CertificateMalformed, message.to_owned());
    }
    for (number, server) in nodes.ntp_servers.iter().enumerate() {
        if let Err(message) = text::host(server, None) {
            add(
                format!("ntpServers[{number}]"),
                Reason::HostMalformed,
                message,
            );
        }
    }
}
