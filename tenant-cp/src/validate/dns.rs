//! Validation of `spec.addons.coreDNS`.
//!
//! Invariant: what is let through is a Corefile's word, and takes no name of the tenant cluster away.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::{Reason, TenantCluster};

use crate::network::DEFAULT_DNS_DOMAIN;
use crate::network::metadata::is_nobodys;
use crate::problem::Problem;
use crate::text;

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    const FIELD: &str = "spec.addons.coreDNS";
    let core_dns = &tc.spec.addons.core_dns;
    if let Some(pods) = core_dns.replicas.filter(|pods| !(1..=32).contains(pods)) {
        problems.push(Problem::new(
            format!("{FIELD}.replicas"),
            Reason::ReplicasRange,
            format!("{pods} pods cannot be had: choose 1 to 32"),
        ));
    }
    let domain = tc.spec.network.dns_domain.as_deref();
    let domain = domain.unwrap_or(DEFAULT_DNS_DOMAIN);
    let mut seen = BTreeSet::new();
    for (number, forwarded) in core_dns.forward.iter().enumerate() {
        let field = format!("{FIELD}.forward[{number}]");
        let zone = forwarded.zone.as_str();
        let own = zone
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let message = if let Err(message) = text::dns_name(zone) {
            Some(message)
        } else if own {
            Some(format!(
                "{zone} is the tenant cluster's own: choose a zone outside of {domain}"
            ))
        } else if seen.contains(zone) {
            Some(format!("{zone} is named twice: put it into one entry"))
        } else {
            None
        };
        seen.insert(zone);
        if let Some(message) = message {
            problems.push(Problem::new(
                format!("{field}.zone"),
                Reason::ZoneMalformed,
                message,
            ));
        }
        for (at, server) in forwarded.servers.iter().enumerate() {
            let is_fine = server
                .parse::<IpAddr>()
                .is_ok_and(|address| !is_nobodys(address));
            if !is_fine || forwarded.servers[..at].contains(server) {
                let message = format!(
                    "\"{server}\" is not the address of a server, or is named before: write one such \
                     as 10.1.0.53"
                );
                let field = format!("{field}.servers[{at}]");
                problems.push(Problem::new(field, Reason::ServerMalformed, message));
            }
        }
    }
}
