//! Raw TenantCluster to [`Validated`], or the list of everything that is wrong with it.
//!
//! Invariant: later steps see only [`Validated`]; whatever they would have to check again is
//! checked here once, and admission calls the same functions.

use api::TenantCluster;

use crate::settings::Settings;

mod admit;
mod api_server;
mod attached;
mod authentication;
mod autoscaler;
mod backup;
pub(crate) mod build;
mod certificate;
mod check;
mod component;
mod configuration;
mod dns;
mod encryption;
mod endpoint;
mod etcd;
mod features;
mod hibernation;
pub(crate) mod limits;
mod load_balancers;
pub mod maintenance;
mod nodes;
mod overlay;
mod pod_metadata;
mod pod_security;
mod policy;
mod pool;
pub(crate) mod quantity;
mod refusal;
pub mod rotation;
mod scheduling;
mod service;
mod upgrade;
pub mod validated;

pub use admit::{admit, transition_warnings};
pub use check::{check, check_settings, warnings};
pub use pool::{admit_pool, check_pool, cluster_of, left_behind, pool_warnings};
pub use quantity::bytes;
pub use validated::{Component, Dns, Endpoint, Etcd, Network, Scheduling, Validated};

use crate::problem::Problem;

/// A TenantCluster that can be built, or everything that is wrong with it. Ranges are those of
/// `status.network`, else those of the spec. What the platform allows is asked until it has served.
///
/// # Errors
/// At least one [`Problem`]; reason `NetworkUndecided` alone means that
/// [`crate::network::decide`] comes first.
pub fn validate(tc: &TenantCluster, settings: &Settings) -> Result<Validated, Vec<Problem>> {
    let mut problems = check(tc, settings);
    if tc
        .status
        .as_ref()
        .is_none_or(|status| status.version.is_none())
    {
        problems.extend(policy::check(tc, settings));
    }
    if problems.is_empty() {
        build::build(tc, settings).map_err(|p| vec![p])
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests;
