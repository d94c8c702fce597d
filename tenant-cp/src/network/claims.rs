//! Claims of ranges: who holds which, and who gives way when two ask for the same addresses.
//!
//! Invariant: a range in force (`status.network`) never gives way; between two that are only asked
//! for, exactly one is the older. Users read what is said here, so it never tells one namespace what
//! is in another.

use std::borrow::Borrow;

use api::TenantCluster;
use ipnet::IpNet;
use kube::ResourceExt;

use crate::network::ranges::{Use, overlap};
use crate::problem::Problem;
use crate::settings::NetworkSettings;

/// A range that a TenantCluster holds or asks for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Claim {
    /// What for.
    pub use_: Use,
    /// The range.
    pub range: IpNet,
}

/// Every range that `tc` holds (status) or asks for (spec); what cannot be read claims nothing.
#[must_use]
pub fn taken_by(tc: &TenantCluster) -> Vec<Claim> {
    let spec = &tc.spec.network;
    let status = tc
        .status
        .as_ref()
        .and_then(|status| status.network.as_ref());
    let texts = [
        (Use::Pods, spec.pod_cidr.as_deref()),
        (Use::Services, spec.service_cidr.as_deref()),
        (Use::Pods, status.map(|network| network.pod_cidr.as_str())),
        (
            Use::Services,
            status.map(|network| network.service_cidr.as_str()),
        ),
    ];
    let mut claims: Vec<Claim> = texts
        .into_iter()
        .filter_map(|(use_, text)| {
            Some(Claim {
                use_,
                range: text?.parse::<IpNet>().ok()?.trunc(),
            })
        })
        .collect();
    claims.sort_unstable();
    claims.dedup();
    claims
}

/// Where the ranges `mine` of `tc` meet a reserved range or one of another TenantCluster, whoever
/// is older: what admission refuses.
#[must_use]
pub fn conflicts<T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    mine: &[(Use, IpNet)],
    others: &[T],
    settings: &NetworkSettings,
) -> Vec<Problem> {
    conflicts_where(tc, mine, others, settings, |other| !same_object(tc, other))
}

pub(super) fn conflicts_where<T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    mine: &[(Use, IpNet)],
    others: &[T],
    settings: &NetworkSettings,
    counts: impl Fn(&TenantCluster) -> bool,
) -> Vec<Problem> {
    // Sorted, so that the message does not depend on the order in which others were read. Those of
    // the same namespace come first, because they can be named.
    let mut others: Vec<&TenantCluster> = others
        .iter()
        .map(Borrow::borrow)
        .filter(|other| counts(other))
        .collect();
    let foreign = |other: &TenantCluster| other.namespace() != tc.namespace();
    others.sort_by_key(|other| (foreign(other), other.namespace(), other.name_any()));
    let mut problems = Vec::new();
    for (use_, range) in mine {
        if let Some(reserved) = settings.reserved.iter().find(|net| overlap(net, range)) {
            problems.push(Problem::new(
                use_.field(),
                "CIDRReserved",
                format!(
                    "{range} overlaps {reserved}, which belongs to the management cluster: choose \
                     another range, or leave the field out to be given a free one"
                ),
            ));
        }
        let met = others.iter().find_map(|other| {
            taken_by(other)
                .into_iter()
                .find(|c| overlap(&c.range, range))
                .map(|c| (other, c))
        });
        if let Some((other, claim)) = met {
            let whose = match foreign(other) {
                true => "a range of another tenant cluster".to_owned(),
                false => format!(
                    "{} {} of tenant cluster {}/{}",
                    claim.use_.name(),
                    claim.range,
                    other.namespace().unwrap_or_default(),
                    other.name_any(),
                ),
            };
            problems.push(Problem::new(
                use_.field(),
                "CIDROverlap",
                format!(
                    "{range} overlaps {whose}: choose another range, or leave the field out to be \
                     given a free one"
                ),
            ));
        }
    }
    problems
}

/// Pods and Services of one tenant cluster in each other's way.
#[must_use]
pub(crate) fn overlap_within(mine: &[(Use, IpNet)]) -> Option<Problem> {
    let [(_, pods), (_, services)] = mine else {
        return None;
    };
    overlap(pods, services).then(|| {
        Problem::new(
            Use::Services.field(),
            "CIDROverlap",
            format!(
                "{services} overlaps podCIDR {pods} of the same tenant cluster: choose ranges \
                     that do not meet"
            ),
        )
    })
}

/// By UID; on creation, or where a TenantCluster was deleted and made anew, by name.
pub(super) fn same_object(one: &TenantCluster, other: &TenantCluster) -> bool {
    (one.uid().is_some() && one.uid() == other.uid())
        || (one.namespace() == other.namespace() && one.name_any() == other.name_any())
}

/// Whether the ranges of `tc` are decided.
pub(super) fn in_force(tc: &TenantCluster) -> bool {
    tc.status
        .as_ref()
        .is_some_and(|status| status.network.is_some())
}

/// Whether `one` was created before `other`; the UID decides between the same second.
pub(super) fn older(one: &TenantCluster, other: &TenantCluster) -> bool {
    // One without a time is not stored yet and thus the youngest.
    let age = |tc: &TenantCluster| {
        let created = tc.creation_timestamp().map(|time| time.0);
        (created.is_none(), created, tc.uid())
    };
    age(one) < age(other)
}
