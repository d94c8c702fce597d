//! Which upgrade is wanted, and whether it has begun.
//!
//! Invariant: what runs says so: the version that serves, and the image of the live Deployment. Nothing is
//! remembered.

use api::TenantCluster;
use semver::Version;
use serde_json::Value;
use tenant_cp::{Validated, names, version};

/// An upgrade that is wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// The version that serves.
    pub from: Version,
    /// The version that is asked for.
    pub to: Version,
}

/// The version that serves (`status.version`), where it is another one than is asked for.
#[must_use]
pub fn wanted(cluster: &TenantCluster) -> Option<Wanted> {
    let to = version::parse(&cluster.spec.version).ok()?;
    let status = cluster.status.as_ref()?;
    // Before it has answered it starts, and there is nothing to go from.
    status.bootstrap_hash.as_ref()?;
    let from = version::parse(status.version.as_deref()?).ok()?;
    (from != to).then_some(Wanted { from, to })
}

/// The version of the kube-apiserver that a Deployment makes pods of; none where it does not say.
#[must_use]
pub fn of_deployment(deployment: &Value) -> Option<Version> {
    let containers = deployment.pointer("/spec/template/spec/containers")?;
    let mut containers = containers.as_array()?.iter();
    let server = containers.find(|container| container["name"] == names::API_SERVER)?;
    let (_, tag) = server["image"].as_str()?.rsplit_once(':')?;
    version::parse(tag).ok()
}

/// A tenant cluster as it is at another version: what that one does not know of features is left out.
#[must_use]
pub fn at(valid: &Validated, version: &Version) -> Validated {
    let mut at = valid.clone();
    at.version = version.clone();
    at.feature_gates = tenant_cp::flags::features::known_to(version.minor, &valid.feature_gates);
    at.runtime_config = tenant_cp::flags::features::served_by(version.minor, &valid.runtime_config);
    at
}
