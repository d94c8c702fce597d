//! Rotation: a generation that was dropped cannot be had back.

use api::{Reason, TenantCluster};

use crate::problem::Problem;

/// Why a generation cannot sign that is asked for, and how to mend it. `signs` is the one that does, `newest` the highest
/// that there was.
#[must_use]
pub fn refusal(asked: u32, signs: u32, newest: u32) -> String {
    format!(
        "{asked} is believed no more; set it to {signs}, or to {} for a new one",
        newest.saturating_add(1)
    )
}

/// What speaks against asking for other generations.
pub(super) fn transition(old: &TenantCluster, new: &TenantCluster) -> Vec<Problem> {
    let mut problems = Vec::new();
    for ((name, wanted), (_, before)) in asked(new).into_iter().zip(asked(old)) {
        let wanted = wanted.filter(|wanted| before != Some(*wanted));
        problems.extend(wanted.and_then(|wanted| one(old, name, wanted)));
    }
    problems
}

/// The generations that are asked for, by what `spec.rotation` calls them.
fn asked(cluster: &TenantCluster) -> [(&'static str, Option<u32>); 7] {
    let rotation = &cluster.spec.rotation;
    let users = rotation.users_ca.as_ref();
    let clients = rotation.client_ca.as_ref();
    let keys = rotation.service_account_keys.as_ref();
    let encryption = rotation.encryption_keys.as_ref();
    let front_proxy = rotation.front_proxy_ca.as_ref();
    let kubeconfig = rotation.kubeconfig.as_ref();
    let own = rotation.cluster_ca.as_ref();
    [
        ("clusterCA", own.map(|turn| turn.generation)),
        ("usersCA", users.map(|turn| turn.generation)),
        ("clientCA", clients.map(|turn| turn.generation)),
        ("serviceAccountKeys", keys.map(|turn| turn.generation)),
        ("frontProxyCA", front_proxy.map(|turn| turn.generation)),
        ("kubeconfig", kubeconfig.map(|turn| turn.generation)),
        ("encryptionKeys", encryption.map(|turn| turn.generation)),
    ]
}

fn one(old: &TenantCluster, name: &str, wanted: u32) -> Option<Problem> {
    let mut told = old.status.as_ref()?.rotation.iter();
    let told = told.find(|told| told.name == name)?;
    let newest = told.believed.iter().copied().max()?;
    // Of a higher one that was dropped nothing stands there: the operator says so.
    let is_dropped = wanted < newest && !told.believed.contains(&wanted);
    is_dropped.then(|| {
        Problem::new(
            format!("spec.rotation.{name}.generation"),
            Reason::RotationRefused,
            refusal(wanted, told.signs, newest),
        )
    })
}
