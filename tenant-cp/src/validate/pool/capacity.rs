//! Whether the pod addresses of a tenant cluster are enough for the nodes of a pool.
//!
//! Invariant: the sentence does not depend on how many nodes are asked for, so that a pool that was
//! too large before may still change.

use api::{NodePool, Reason, TenantCluster};
use ipnet::IpNet;

use crate::network::node_ranges::{MASK_FLAG, node_count, node_mask};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::validate::pool::kubelet;

pub(super) fn check(pool: &NodePool, tc: &TenantCluster, settings: &Settings) -> Vec<Problem> {
    let Some((pods, mask)) = shares(tc, settings) else {
        return Vec::new();
    };
    let few = kubelet::check_addresses(pool, tc, &pods, mask);
    nodes(pool, &pods, mask).into_iter().chain(few).collect()
}

fn nodes(pool: &NodePool, pods: &IpNet, mask: u8) -> Option<Problem> {
    let most = node_count(pods, mask);
    let replicas = pool.spec.replicas;
    let (field, wanted) = match &pool.spec.autoscaling {
        Some(bounds) if bounds.max > replicas => ("spec.autoscaling.max", bounds.max),
        _ => ("spec.replicas", replicas),
    };
    let is_more = u64::try_from(wanted).is_ok_and(|wanted| wanted > most);
    is_more.then(|| {
        Problem::new(
            field,
            Reason::PodRangeTooSmall,
            format!(
                "at most {most} nodes get pod addresses, because the pod range of TenantCluster {} \
                 is a /{} and each node has a /{mask} of it: choose {most} or fewer, or create a \
                 tenant cluster with a larger network.podCIDR",
                pool.spec.cluster_name,
                pods.prefix_len()
            ),
        )
    })
}

/// The range in force, or the one that is asked for or will be given, and each node's share.
fn shares(tc: &TenantCluster, settings: &Settings) -> Option<(IpNet, u8)> {
    let status = tc.status.as_ref();
    let decided = status.and_then(|status| status.network.as_ref());
    let decided = decided.map(|network| network.pod_cidr.as_str());
    let pods = match decided.or(tc.spec.network.pod_cidr.as_deref()) {
        Some(text) => text.parse().ok()?,
        None => {
            let pool = &settings.network.pods;
            IpNet::new(pool.cidr.addr(), pool.prefix).ok()?
        }
    };
    let flags = &tc.spec.control_plane.controller_manager.extra_args;
    let asked = flags.get(MASK_FLAG).and_then(|mask| mask.parse().ok());
    Some((pods, asked.unwrap_or_else(|| node_mask(&pods))))
}
