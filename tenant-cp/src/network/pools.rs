//! Pools of ranges: the lowest free range of each, and what is wrong with a pool.
//!
//! Invariant: what [`allocate`] returns lies in the pool, has the pool's prefix and meets nothing
//! that is taken or reserved; no lower one does the same.

use std::net::{Ipv4Addr, Ipv6Addr};

use api::Reason;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::network::ranges::{self, Use, overlap};
use crate::problem::Problem;
use crate::settings::{NetworkSettings, Pool};

/// The lowest free range of `pool`; none when all are taken. Time grows with the number of taken
/// ranges, not with the size of the pool.
#[must_use]
pub fn allocate(pool: &Pool, taken: &[IpNet], reserved: &[IpNet]) -> Option<IpNet> {
    let host_bits = pool.cidr.max_prefix_len().checked_sub(pool.prefix)?;
    if pool.prefix < pool.cidr.prefix_len() {
        return None;
    }
    // Only a pool of all IPv6 addresses in one piece overflows, and nobody can have that.
    let size = 1_u128.checked_shl(host_bits.into())?;
    let (first, last) = span(&pool.cidr);
    let mut spans: Vec<(u128, u128)> = taken
        .iter()
        .chain(reserved)
        .filter(|net| same_family(net, &pool.cidr))
        .map(span)
        .collect();
    spans.sort_unstable();

    let mut start = first;
    for (from, to) in spans {
        if to < start {
            continue;
        }
        if from > start + (size - 1) {
            break;
        }
        // The next multiple of the size after `to`, counted from the pool's start.
        start = first.checked_add(((to - first) / size + 1).checked_mul(size)?)?;
        if start > last {
            return None;
        }
    }
    net(&pool.cidr, start, pool.prefix)
}

/// As [`allocate`], of those that are ours where there is one among the first [`TRIES`] that are free: of several that allocate
/// at the same moment each has others.
#[must_use]
pub fn allocate_ours(
    pool: &Pool,
    taken: &[IpNet],
    reserved: &[IpNet],
    is_ours: &dyn Fn(&IpNet) -> bool,
) -> Option<IpNet> {
    let mut passed = taken.to_vec();
    for _ in 0..TRIES {
        match allocate(pool, &passed, reserved) {
            Some(range) if is_ours(&range) => return Some(range),
            Some(range) => passed.push(range),
            None => break,
        }
    }
    allocate(pool, taken, reserved)
}

/// Of how many free ranges none is ours by chance: of five that share them, once in a million times.
const TRIES: usize = 64;

fn same_family(one: &IpNet, other: &IpNet) -> bool {
    matches!(
        (one, other),
        (IpNet::V4(_), IpNet::V4(_)) | (IpNet::V6(_), IpNet::V6(_))
    )
}

/// First and last address as numbers.
fn span(net: &IpNet) -> (u128, u128) {
    match net.trunc() {
        IpNet::V4(net) => (
            u32::from(net.network()).into(),
            u32::from(net.broadcast()).into(),
        ),
        IpNet::V6(net) => (net.network().into(), net.broadcast().into()),
    }
}

fn net(family: &IpNet, start: u128, prefix: u8) -> Option<IpNet> {
    match family {
        IpNet::V4(_) => {
            let address = Ipv4Addr::from(u32::try_from(start).ok()?);
            Ipv4Net::new(address, prefix).ok().map(IpNet::V4)
        }
        IpNet::V6(_) => Ipv6Net::new(Ipv6Addr::from(start), prefix)
            .ok()
            .map(IpNet::V6),
    }
}

/// What is wrong with the pools of the operator's configuration; the fields are those of the
/// configuration.
#[must_use]
pub fn check_pools(settings: &NetworkSettings) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (use_, pool) in [
        (Use::Pods, &settings.pods),
        (Use::Services, &settings.services),
    ] {
        let field = |name: &str| format!("network.{}.{name}", use_.pool_name());
        if pool.cidr != pool.cidr.trunc() {
            problems.push(Problem::new(
                field("cidr"),
                Reason::CIDRHostBits,
                format!(
                    "{} starts in the middle of a range: write {}",
                    pool.cidr,
                    pool.cidr.trunc()
                ),
            ));
        }
        if let Some((special, what)) = ranges::special(pool.cidr) {
            problems.push(Problem::new(
                field("cidr"),
                Reason::CIDRSpecial,
                format!(
                    "{} overlaps {special}, which {what}: use a private range",
                    pool.cidr
                ),
            ));
        }
        if pool.prefix < pool.cidr.prefix_len() || pool.prefix > pool.cidr.max_prefix_len() {
            problems.push(Problem::new(
                field("prefix"),
                Reason::PoolPrefix,
                format!(
                    "a /{} does not fit into {}: use a prefix from /{} to /{}",
                    pool.prefix,
                    pool.cidr,
                    pool.cidr.prefix_len(),
                    pool.cidr.max_prefix_len(),
                ),
            ));
        } else if let Some(Err(problem)) = allocate(pool, &[], &[])
            .filter(|_| problems.is_empty())
            .map(|first| ranges::parse(&first.to_string(), use_, settings))
        {
            problems.push(Problem::new(
                field("prefix"),
                problem.reason,
                problem.message,
            ));
        }
    }
    if overlap(&settings.pods.cidr, &settings.services.cidr) {
        problems.push(Problem::new(
            "network.services.cidr",
            Reason::CIDROverlap,
            format!(
                "{} overlaps network.pods.cidr {}: keep the pools apart",
                settings.services.cidr, settings.pods.cidr
            ),
        ));
    }
    if same_family(&settings.pods.cidr, &settings.services.cidr) {
        return problems;
    }
    problems.push(Problem::new(
        "network.services.cidr",
        Reason::CIDRFamily,
        "network.pods.cidr and network.services.cidr must both be IPv4 or both IPv6",
    ));
    problems
}
