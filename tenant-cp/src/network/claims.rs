//! Claims of ranges: who holds which, and who gives way when two ask for the same addresses.
//!
//! Invariant: a range in force (`status.network`) never gives way; between two that are only asked
//! for, exactly one is the older. Users read what is said here, so it never tells one namespace what
//! is in another.

use std::borrow::Borrow;

use api::tenant_cluster::NetworkStatus;
use api::{Reason, TenantCluster};
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
    let mut claims = held_by(tc);
    claims.extend(claim(Use::Pods, spec.pod_cidr.as_deref()));
    claims.extend(claim(Use::Services, spec.service_cidr.as_deref()));
    claims.sort_unstable();
    claims.dedup();
    claims
}

/// The ranges of `tc` that are in force.
fn held_by(tc: &TenantCluster) -> Vec<Claim> {
    let status = tc.status.as_ref();
    let held = status.and_then(|status| status.network.as_ref());
    let pods = held.map(|network| network.pod_cidr.as_str());
    let services = held.map(|network| network.service_cidr.as_str());
    let claims = [claim(Use::Pods, pods), claim(Use::Services, services)];
    claims.into_iter().flatten().collect()
}

fn claim(use_: Use, text: Option<&str>) -> Option<Claim> {
    let range = text?.parse::<IpNet>().ok()?.trunc();
    Some(Claim { use_, range })
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
    conflicts_where(tc, mine, others, settings, |other| {
        !same_object(tc, other) && !is_kin(tc, other)
    })
}

pub(super) fn conflicts_where<T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    mine: &[(Use, IpNet)],
    others: &[T],
    settings: &NetworkSettings,
    counts: impl Fn(&TenantCluster) -> bool,
) -> Vec<Problem> {
    let others = to_be_named(tc, others, counts);
    let mut problems = Vec::new();
    for (use_, range) in mine {
        if let Some(reserved) = settings.reserved.iter().find(|net| overlap(net, range)) {
            problems.push(Problem::new(
                use_.field(),
                Reason::CIDRReserved,
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
            let whose = whose(tc, other, claim);
            problems.push(Problem::new(
                use_.field(),
                Reason::CIDROverlap,
                format!(
                    "{range} overlaps {whose}: choose another range, or leave the field out to be \
                     given a free one"
                ),
            ));
        }
    }
    problems
}

/// What the younger of two is told whose ranges are in force and meet all the same: what a former leader
/// wrote last, and came late, makes such a pair. Of a pair exactly one is told; none where the ranges of
/// `tc` are its own.
#[must_use]
pub fn contested<T: Borrow<TenantCluster>>(tc: &TenantCluster, others: &[T]) -> Option<Problem> {
    let mine = held_by(tc);
    if mine.is_empty() {
        return None;
    }
    let others = to_be_named(tc, others, |other| {
        !same_object(tc, other) && !is_kin(tc, other) && older(other, tc)
    });
    let met = others.iter().find_map(|other| {
        let theirs = held_by(other);
        let meets = |claim: &&Claim| theirs.iter().any(|c| overlap(&c.range, &claim.range));
        let mine = mine.iter().find(meets)?;
        let theirs = theirs.iter().find(|c| overlap(&c.range, &mine.range))?;
        Some((mine, whose(tc, other, *theirs)))
    });
    met.map(|(claim, whose)| {
        Problem::new(
            claim.use_.field(),
            Reason::CIDROverlap,
            format!(
                "{} was given twice: it overlaps {whose}, which is older and keeps it; nothing of \
                 this tenant cluster is stopped, delete it and create it anew to be given free ranges",
                claim.range
            ),
        )
    })
}

/// Those that count, in an order that does not depend on how they were read. Those of the same namespace
/// come first, because they can be named.
fn to_be_named<'a, T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    others: &'a [T],
    counts: impl Fn(&TenantCluster) -> bool,
) -> Vec<&'a TenantCluster> {
    let others = others.iter().map(Borrow::borrow);
    let mut others: Vec<&TenantCluster> = others.filter(|other| counts(other)).collect();
    let key = |other: &&TenantCluster| (is_foreign(tc, other), other.namespace(), other.name_any());
    others.sort_by_key(key);
    others
}

fn is_foreign(tc: &TenantCluster, other: &TenantCluster) -> bool {
    other.namespace() != tc.namespace()
}

fn whose(tc: &TenantCluster, other: &TenantCluster, claim: Claim) -> String {
    match is_foreign(tc, other) {
        true => "a range of another tenant cluster".to_owned(),
        false => format!(
            "{} {} of tenant cluster {}/{}",
            claim.use_.name(),
            claim.range,
            other.namespace().unwrap_or_default(),
            other.name_any(),
        ),
    }
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
            Reason::CIDROverlap,
            format!(
                "{services} overlaps podCIDR {pods} of the same tenant cluster: choose ranges \
                     that do not meet"
            ),
        )
    })
}

/// By the UID that its parts bear, which is that of both while one takes over what was made for the other; on creation, or
/// where a TenantCluster was deleted and made anew, by name.
pub(super) fn same_object(one: &TenantCluster, other: &TenantCluster) -> bool {
    (!one.identity_uid().is_empty() && one.identity_uid() == other.identity_uid())
        || (one.namespace() == other.namespace() && one.name_any() == other.name_any())
}

/// Whether one of the two is a copy of the other, or both are of the same one (`spec.etcd.copyOf`): what is in etcd names
/// its addresses, so a copy has those of what it is a copy of. Never those of another namespace.
#[must_use]
pub fn is_kin(one: &TenantCluster, other: &TenantCluster) -> bool {
    if is_foreign(one, other) {
        return false;
    }
    let of = |tc: &TenantCluster| tc.spec.etcd.copy_of.clone();
    let is_of = |one: &TenantCluster, other: &TenantCluster| {
        of(one).is_some_and(|of| Some(of) == other.uid())
    };
    is_of(one, other) || is_of(other, one) || (of(one).is_some() && of(one) == of(other))
}

/// The ranges in force of the TenantCluster that `tc` is a copy of; none where it is no copy, or that one is not there.
pub(super) fn of_original<'a, T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    others: &'a [T],
) -> Option<&'a NetworkStatus> {
    let of = tc.spec.etcd.copy_of.as_ref()?;
    let mut others = others.iter().map(Borrow::borrow);
    let original = others.find(|other| is_kin(tc, other) && other.uid().as_ref() == Some(of))?;
    original.status.as_ref()?.network.as_ref()
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
