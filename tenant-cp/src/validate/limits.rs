//! `spec.addons.cloudController.limits` and `spec.addons.csi.limits`: what a tenant cluster takes of the
//! management cluster.
//!
//! Invariant: a limit of a TenantCluster lowers the platform's and never raises it, whatever the platform gave
//! when it was written.

use std::num::NonZeroU32;

use api::storage::{MAX_EACH, Offer};
use api::tenant_cluster::{LoadBalancerLimits, StorageLimits};
use api::{Reason, TenantCluster};

use crate::problem::Problem;
use crate::settings::Settings;
use crate::settings::policy::LoadBalancerPolicy;

/// One limit: what is asked for, and what there can be.
struct Limit {
    field: &'static str,
    asked: Option<i32>,
    least: i32,
    /// What the platform gives.
    most: u32,
    setting: &'static str,
}

fn all(tc: &TenantCluster, settings: &Settings) -> [Limit; 5] {
    let (policy, offer) = (&settings.load_balancers, &settings.storage);
    let LoadBalancerLimits {
        services,
        ports,
        endpoints,
    } = tc.spec.addons.cloud_controller.limits;
    let StorageLimits { volumes, snapshots } = tc.spec.addons.csi.limits;
    let limit = |field, asked, most, setting| Limit {
        field,
        asked,
        least: 0,
        most,
        setting,
    };
    [
        limit(
            "cloudController.limits.services",
            services,
            policy.max_services,
            "loadBalancers.maxServices",
        ),
        limit(
            "cloudController.limits.ports",
            ports,
            policy.max_ports,
            "loadBalancers.maxPorts",
        ),
        Limit {
            least: 1,
            ..limit(
                "cloudController.limits.endpoints",
                endpoints,
                policy.max_endpoints.get(),
                "loadBalancers.maxEndpoints",
            )
        },
        limit(
            "csi.limits.volumes",
            volumes,
            offer.max_volumes.unwrap_or(MAX_EACH),
            "storage.maxVolumes",
        ),
        limit(
            "csi.limits.snapshots",
            snapshots,
            offer.max_snapshots.unwrap_or(MAX_EACH),
            "storage.maxSnapshots",
        ),
    ]
}

/// What is wrong with them, whatever the platform gives. (The schema says it first.)
pub(super) fn check(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    for limit in all(tc, settings) {
        let least = limit.least;
        if let Some(asked) = limit.asked.filter(|asked| *asked < least) {
            let message = format!(
                "{asked} is below {least}: choose {least} or more, or remove it for what the platform gives"
            );
            problems.push(limit.problem(message));
        }
    }
}

/// What is more than this platform gives.
pub(super) fn check_policy(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    for limit in all(tc, settings) {
        let (most, setting) = (limit.most, limit.setting);
        let asked = limit.asked.and_then(|asked| u32::try_from(asked).ok());
        if let Some(asked) = asked.filter(|asked| *asked > most) {
            let message = format!(
                "{asked} is more than {most}, which is the most here: choose {most} or less, or have \
                 whoever runs the management cluster allow it (config.{setting} of the chart)"
            );
            problems.push(limit.problem(message));
        }
    }
}

impl Limit {
    fn problem(&self, message: String) -> Problem {
        let field = format!("spec.addons.{}", self.field);
        Problem::new(field, Reason::AddonLimitRange, message)
    }
}

/// The limits of load balancers in force: Services, their ports, endpoints.
pub(crate) fn of_load_balancers(
    asked: &LoadBalancerLimits,
    policy: &LoadBalancerPolicy,
) -> (u32, u32, NonZeroU32) {
    let endpoints = lower(asked.endpoints, policy.max_endpoints.get());
    (
        lower(asked.services, policy.max_services),
        lower(asked.ports, policy.max_ports),
        NonZeroU32::new(endpoints).unwrap_or(policy.max_endpoints),
    )
}

/// The same storage with the limits in force.
pub(super) fn of_storage(asked: &StorageLimits, mut offer: Offer) -> Offer {
    for (asked, most) in [
        (asked.volumes, &mut offer.max_volumes),
        (asked.snapshots, &mut offer.max_snapshots),
    ] {
        if asked.is_some() {
            *most = Some(lower(asked, most.unwrap_or(MAX_EACH)));
        }
    }
    offer
}

fn lower(asked: Option<i32>, most: u32) -> u32 {
    let asked = asked.and_then(|asked| u32::try_from(asked).ok());
    asked.map_or(most, |asked| asked.min(most))
}
