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

/// What speaks against asking for another generation.
pub(super) fn transition(old: &TenantCluster, new: &TenantCluster) -> Option<Problem> {
    let asked = |tc: &TenantCluster| Some(tc.spec.rotation.users_ca.as_ref()?.generation);
    let wanted = asked(new).filter(|wanted| asked(old) != Some(*wanted))?;
    let mut told = old.status.as_ref()?.rotation.iter();
    let told = told.find(|told| told.name == "usersCA")?;
    let newest = told.believed.iter().copied().max()?;
    // Of a higher one that was dropped nothing stands there: the operator says so.
    let is_dropped = wanted < newest && !told.believed.contains(&wanted);
    is_dropped.then(|| {
        Problem::new(
            "spec.rotation.usersCA.generation",
            Reason::RotationRefused,
            refusal(wanted, told.signs, newest),
        )
    })
}
