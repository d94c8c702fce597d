//! Which upgrade is wanted, and whether it has begun.
//!
//! Invariant: what runs says so: the version that serves, and the image of the live Deployment. Nothing is
//! remembered.

use std::time::Duration;

use api::TenantCluster;
use api::tenant_cluster::UpgradeStatus;
use semver::Version;
use serde_json::Value;
use tenant_cp::flags::EMULATED_VERSION;
use tenant_cp::flags::features::{known_to, served_by};
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

/// The oldest minor (of 1.x) that a kube-apiserver emulates (KEP-4330).
const OLDEST_EMULATED: u64 = 31;

impl Wanted {
    /// Whether a status speaks of it.
    #[must_use]
    pub fn is_of(&self, status: &UpgradeStatus) -> bool {
        status.from == self.from.to_string() && status.to == self.to.to_string()
    }

    /// Whether the new kube-apiservers serve the minor before at first. Not where features are switched: one of
    /// 1.36.3 that serves 1.35 does not become ready with `GenericWorkload` on, although both minors have it.
    #[must_use]
    pub fn emulates(&self, valid: &Validated, soak: Duration) -> bool {
        let is_minor = self.to.minor == self.from.minor + 1;
        let is_plain = valid.feature_gates.is_empty() && valid.runtime_config.is_empty();
        is_minor && self.from.minor >= OLDEST_EMULATED && is_plain && !soak.is_zero()
    }
}

/// Which kube-apiserver a Deployment makes pods of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Template {
    /// One of the version that is wanted, that serves the minor before.
    Emulates,
    /// One of the version that is wanted.
    Serves,
    /// Another one, or that is not known.
    Other,
}

fn server_of(deployment: &Value) -> Option<&Value> {
    let containers = deployment.pointer("/spec/template/spec/containers")?;
    let mut containers = containers.as_array()?.iter();
    containers.find(|container| container["name"] == names::API_SERVER)
}

/// The version of the kube-apiservers that a Deployment makes pods of; none where its image says none.
#[must_use]
pub fn version_of(deployment: &Value) -> Option<Version> {
    let (_, tag) = server_of(deployment)?["image"].as_str()?.rsplit_once(':')?;
    version::parse(tag).ok()
}

/// Which kube-apiserver a Deployment makes pods of, before or after an upgrade to this version.
#[must_use]
pub fn template(deployment: &Value, to: &Version) -> Template {
    if version_of(deployment).as_ref() != Some(to) {
        return Template::Other;
    }
    let server = server_of(deployment);
    let mut args = server
        .and_then(|server| server["args"].as_array())
        .into_iter()
        .flatten();
    let flag = format!("--{EMULATED_VERSION}=");
    match args.any(|arg| arg.as_str().is_some_and(|arg| arg.starts_with(&flag))) {
        true => Template::Emulates,
        false => Template::Serves,
    }
}

/// A tenant cluster whose kube-apiservers are as asked for and serve another minor. They take no gate that this one
/// does not have: they would not start. An API version they would only call unsupported
/// (`staging/src/k8s.io/apiserver/pkg/server/options/api_enablement.go`).
#[must_use]
pub fn emulating(valid: &Validated, minor: u64) -> Validated {
    let mut emulating = with_features_of(valid, minor);
    emulating.emulated = Some(minor);
    emulating
}

/// A tenant cluster as it is at another version: what that one does not know of features is left out.
#[must_use]
pub fn at(valid: &Validated, version: &Version) -> Validated {
    let mut at = with_features_of(valid, version.minor);
    at.version = version.clone();
    at
}

fn with_features_of(valid: &Validated, minor: u64) -> Validated {
    let mut with = valid.clone();
    with.feature_gates = known_to(minor, &valid.feature_gates);
    with.runtime_config = served_by(minor, &valid.runtime_config);
    with
}
