//! What is under way in a tenant cluster, or was and failed: upgrades, rotations, sleep.
//!
//! Invariant: of what is not wanted and not there nothing is said.

use api::TenantCluster;
use api::tenant_cluster::{
    HibernationPhase, RotationPhase, RotationStatus, UpgradePhase, UpgradeStatus,
};

use super::types::{Part, State};
use crate::text;

/// Most findings of an upgrade that are told.
const TOLD: usize = 3;

/// The flows of a tenant cluster.
pub(super) fn parts(cluster: &TenantCluster) -> Vec<Part> {
    let Some(status) = &cluster.status else {
        return Vec::new();
    };
    let mut all: Vec<_> = status.upgrade.iter().map(upgrade).collect();
    all.extend(status.rotation.iter().filter_map(rotation));
    let told = status.hibernation.iter();
    let told = told.filter(|told| told.phase != HibernationPhase::Awake);
    all.extend(told.map(|told| Part {
        name: "sleep",
        state: match told.phase {
            HibernationPhase::Asleep => State::Off,
            _ => State::Waiting,
        },
        text: text::shown(&format!("{:?}, sent to sleep {}", told.phase, told.since)),
    }));
    all
}

fn upgrade(upgrade: &UpgradeStatus) -> Part {
    let UpgradeStatus { from, to, .. } = upgrade;
    let failed = upgrade.failure.as_ref();
    let is_returning = matches!(
        upgrade.phase,
        UpgradePhase::RollingBack | UpgradePhase::RolledBack
    );
    let state = match failed.is_some() || is_returning {
        true => State::Failing,
        false => State::Waiting,
    };
    let mut words = vec![format!("{from} -> {to} {:?}", upgrade.phase)];
    words.extend(failed.map(|failed| failed.message.clone()));
    let blockers = upgrade.blockers.iter().take(TOLD);
    words.extend(blockers.map(|blocker| format!("{}: {}", blocker.check, blocker.message)));
    let more = upgrade.blockers.len().saturating_sub(TOLD);
    words.extend((more > 0).then(|| format!("and {more} more")));
    Part {
        name: "upgrade",
        state,
        text: text::shown(&words.join("; ")),
    }
}

/// A rotation that goes on; none of one that is through.
fn rotation(rotation: &RotationStatus) -> Option<Part> {
    if rotation.phase == RotationPhase::Idle {
        return None;
    }
    let RotationStatus {
        name, generation, ..
    } = rotation;
    let waits = rotation.waiting_for.as_ref();
    let waits = waits.map_or(String::new(), |what| format!(", waits for {what}"));
    let told = format!(
        "{name} to generation {generation}: {:?}{waits}",
        rotation.phase
    );
    Some(Part {
        name: "rotation",
        state: State::Waiting,
        text: text::shown(&told),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(status: &Value) -> Vec<(&'static str, State, String)> {
        let cluster = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "namespace": "team-a"}, "spec": {"version": "1.36.3"}, "status": status});
        let parts = parts(&serde_json::from_value(cluster).unwrap());
        let parts = parts.into_iter();
        parts
            .map(|part| (part.name, part.state, part.text))
            .collect()
    }

    #[test]
    fn an_upgrade_says_how_far_it_is_and_what_keeps_it() {
        let mut upgrade = json!({"from": "1.35.4", "to": "1.36.3", "phase": "Checking", "since": "2026-11-27T11:00:00Z",
            "blockers": [{"check": "Kubelets", "message": "2 nodes are too old"}]});
        let text = "1.35.4 -> 1.36.3 Checking; Kubelets: 2 nodes are too old";
        let expected = vec![("upgrade", State::Waiting, text.to_owned())];
        assert_eq!(told(&json!({ "upgrade": upgrade })), expected);
        upgrade["phase"] = json!("RolledBack");
        upgrade["blockers"] = json!([]);
        let text = "1.35.4 -> 1.36.3 RolledBack";
        let expected = vec![("upgrade", State::Failing, text.to_owned())];
        assert_eq!(told(&json!({ "upgrade": upgrade })), expected);
        assert_eq!(told(&json!({})), []);
    }

    #[test]
    fn a_rotation_is_told_while_it_goes_on() {
        let turned = |phase: &str| {
            json!({"rotation": [{"name": "usersCA", "generation": 2, "signs": 1, "believed": [1, 2], "phase": phase,
                "since": "2026-11-27T11:00:00Z", "waitingFor": "pods of the control plane"}]})
        };
        assert_eq!(told(&turned("Idle")), []);
        let text = "usersCA to generation 2: Preparing, waits for pods of the control plane";
        let expected = vec![("rotation", State::Waiting, text.to_owned())];
        assert_eq!(told(&turned("Preparing")), expected);
    }
}
