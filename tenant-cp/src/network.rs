//! Address ranges of a tenant cluster: the user's where given, else the lowest free one of
//! the operator's pools, and for ever what `status.network` already says.
//!
//! Invariant: two tenant clusters whose ranges were decided with knowledge of each other never
//! overlap, but a copy and what it is a copy of ([`claims::is_kin`]). [`reservations`] supplies that knowledge for the moments in which a decision is made but not
//! yet visible in the status.

use std::borrow::Borrow;

use api::tenant_cluster::NetworkStatus;
use api::{Reason, TenantCluster};
use ipnet::IpNet;

use crate::problem::Problem;
use crate::settings::{NetworkSettings, Pool};
use crate::text;
use claims::{overlap_within, taken_by};
use ranges::Use;

pub mod addresses;
pub mod claims;
pub mod metadata;
pub(crate) mod node_ranges;
pub mod overlay;
pub mod pools;
pub mod ranges;
pub mod reservations;
pub mod reserved;

/// The DNS domain of tenant clusters that name none; the default of kubeadm.
pub const DEFAULT_DNS_DOMAIN: &str = "cluster.local";

/// The ranges of `tc`, given every other TenantCluster of the management cluster (its own entry,
/// if among `others`, is passed over). What stands in `status.network` is returned as it is.
/// Of two that ask for overlapping ranges, the one whose ranges are in force keeps them, else the
/// older one (`creationTimestamp`, then UID). A copy of another one has that one's, unless it asks for others.
///
/// # Errors
/// One [`Problem`]: a range that cannot be used, overlaps (`CIDROverlap`, `CIDRReserved`), or a
/// pool without a free range (`AddressPoolExhausted`).
pub fn decide<T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    others: &[T],
    settings: &NetworkSettings,
) -> Result<NetworkStatus, Problem> {
    decide_ours(tc, others, settings, &|_| true)
}

/// As [`decide`]; of the pools' ranges such that are ours ([`pools::allocate_ours`]).
///
/// # Errors
/// Those of [`decide`].
pub fn decide_ours<T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    others: &[T],
    settings: &NetworkSettings,
    is_ours: &dyn Fn(&IpNet) -> bool,
) -> Result<NetworkStatus, Problem> {
    if let Some(decided) = tc
        .status
        .as_ref()
        .and_then(|status| status.network.as_ref())
    {
        return Ok(decided.clone());
    }
    let spec = &tc.spec.network;
    let original = claims::of_original(tc, others);
    // What is written here is in force for ever, so nothing malformed may get in.
    if let Some(problem) = spec.dns_domain.as_deref().and_then(check_dns_domain) {
        return Err(problem);
    }
    let pods = spec.pod_cidr.as_ref();
    let pods = pods.or_else(|| original.map(|network| &network.pod_cidr));
    let services = spec.service_cidr.as_ref();
    let services = services.or_else(|| original.map(|network| &network.service_cidr));
    let pods = requested(pods.map(String::as_str), Use::Pods, settings)?;
    let services = requested(services.map(String::as_str), Use::Services, settings)?;
    let mine: Vec<(Use, IpNet)> = [(Use::Pods, pods), (Use::Services, services)]
        .into_iter()
        .filter_map(|(use_, range)| Some((use_, range?)))
        .collect();
    if let Some(problem) = overlap_within(&mine) {
        return Err(problem);
    }
    let found = claims::conflicts_where(tc, &mine, others, settings, |other| {
        !claims::same_object(tc, other)
            && !claims::is_kin(tc, other)
            && (claims::in_force(other) || claims::older(other, tc))
    });
    if let Some(problem) = found.into_iter().next() {
        return Err(problem);
    }

    let mut taken: Vec<IpNet> = mine.iter().map(|(_, range)| *range).collect();
    // Nodes have addresses there; that other tenant clusters' do, too, is nothing to this one.
    taken.extend(overlay::range(&tc.spec.addons));
    for other in others
        .iter()
        .map(Borrow::borrow)
        .filter(|other| !claims::same_object(tc, other))
    {
        taken.extend(taken_by(other).into_iter().map(|claim| claim.range));
    }
    let free = |pool: &Pool, taken: &[IpNet]| {
        pools::allocate_ours(pool, taken, &settings.reserved, is_ours)
    };
    let pods = or_allocated(pods, Use::Pods, &settings.pods, |pool| free(pool, &taken))?;
    taken.push(pods);
    let pool = &settings.services;
    let services = or_allocated(services, Use::Services, pool, |pool| free(pool, &taken))?;
    Ok(NetworkStatus {
        pod_cidr: pods.to_string(),
        service_cidr: services.to_string(),
        dns_domain: spec
            .dns_domain
            .clone()
            .or_else(|| original.map(|network| network.dns_domain.clone()))
            .unwrap_or_else(|| DEFAULT_DNS_DOMAIN.to_owned()),
    })
}

/// What is wrong with a DNS domain.
pub(crate) fn check_dns_domain(domain: &str) -> Option<Problem> {
    let message = text::dns_name(domain).err()?;
    Some(Problem::new(
        "spec.network.dnsDomain",
        Reason::DNSDomainMalformed,
        message,
    ))
}

fn requested(
    text: Option<&str>,
    use_: Use,
    settings: &NetworkSettings,
) -> Result<Option<IpNet>, Problem> {
    text.map(|text| ranges::parse(text, use_, settings))
        .transpose()
}

fn or_allocated(
    requested: Option<IpNet>,
    use_: Use,
    pool: &Pool,
    free: impl FnOnce(&Pool) -> Option<IpNet>,
) -> Result<IpNet, Problem> {
    requested.or_else(|| free(pool)).ok_or_else(|| {
        Problem::new(
            use_.field(),
            Reason::AddressPoolExhausted,
            format!(
                "no free /{} is left in the pool {}: delete tenant clusters that nobody needs, \
                 set {} to a range of your own, or give the operator a larger pool \
                 (network.{}.cidr in its configuration)",
                pool.prefix,
                pool.cidr,
                use_.field(),
                use_.pool_name(),
            ),
        )
    })
}

#[cfg(test)]
mod tests;
