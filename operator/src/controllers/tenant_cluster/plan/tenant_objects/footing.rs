//! Addons that others go by: one that was switched off stays until no pod goes by it any more.
//!
//! Invariant: of two nodes that reach each other without it none is cut off while it goes.

use std::collections::BTreeMap;

use api::Reason;
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::Validated;
use tenant_cp::addons::registry;
use tenant_cp::network::overlay;

use super::changes::addon;

/// So many Machines are named.
const NAMED: usize = 5;

/// An addon that was switched off and that something still goes by.
pub(super) struct Held {
    /// Its name.
    pub(super) addon: &'static str,
    /// Why it is not gone.
    pub(super) reason: Reason,
    /// What is waited for.
    pub(super) message: String,
}

/// None where every such addon is wanted, or nothing of it is there, or nothing goes by it. `left`: Machines whose nodes
/// are known by an address in the overlay.
pub(super) fn held(
    valid: &Validated,
    live: &BTreeMap<Key, Value>,
    left: &[String],
) -> Option<Held> {
    registry::wanted(valid).find_map(|user| {
        let footing = user.footing()?;
        let is_wanted = registry::wanted(valid).any(|one| one.name() == footing.addon);
        let is_there = || live.values().any(|one| addon(one) == Some(footing.addon));
        if is_wanted || !is_there() {
            return None;
        }
        let key = user.workload()?;
        let is_back = live
            .get(&key)
            .is_some_and(|pods| is_without(pods, footing.mark));
        let held = |message| Held {
            addon: footing.addon,
            reason: footing.reason,
            message,
        };
        if !is_back {
            return Some(held(format!(
                "the addon {} goes once the {} {}/{} is of its newest template on every node",
                footing.addon, key.kind, key.namespace, key.name
            )));
        }
        let is_left = footing.addon == overlay::ADDON && !left.is_empty();
        is_left.then(|| held(still_in_overlay(left)))
    })
}

/// Without it nobody would find these nodes.
fn still_in_overlay(left: &[String]) -> String {
    let named: Vec<_> = left.iter().take(NAMED).map(String::as_str).collect();
    let more = match left.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the addon {} goes once no node is known by its address there: delete Machines {}{more}, each of which is \
         replaced by one that is known by its Host's address",
        overlay::ADDON,
        named.join(", ")
    )
}

/// Whether no pod of a DaemonSet has the mark. What was just written says nothing of its pods.
fn is_without(daemon_set: &Value, mark: &str) -> bool {
    let number = |pointer: &str| daemon_set.pointer(pointer).and_then(Value::as_i64);
    let seen = number("/status/observedGeneration").zip(number("/metadata/generation"));
    let of = |field: &str| number(&format!("/status/{field}")).unwrap_or_default();
    let pod = &daemon_set["spec"]["template"]["spec"];
    !pod.to_string().contains(mark)
        && seen.is_some_and(|(seen, newest)| seen >= newest)
        && of("updatedNumberScheduled") >= of("desiredNumberScheduled")
        && of("numberUnavailable") == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn daemon_set(script: &str, status: &Value) -> Value {
        json!({
            "metadata": { "generation": 3 },
            "spec": { "template": { "spec": { "containers": [{ "command": ["sh", "-c", script] }] } } },
            "status": status,
        })
    }

    #[test]
    fn nothing_goes_by_it_once_all_pods_are_of_the_template_without_the_mark() {
        let over = |status: &Value| is_without(&daemon_set("flanneld", status), "--iface=");
        let all = json!({ "observedGeneration": 3, "updatedNumberScheduled": 2, "desiredNumberScheduled": 2 });
        assert!(over(&all));
        let with = daemon_set("flanneld --iface=covey0", &all);
        assert!(!is_without(&with, "--iface="));
        for (field, value) in [
            ("observedGeneration", json!(2)),
            ("observedGeneration", json!(null)),
            ("updatedNumberScheduled", json!(1)),
            ("numberUnavailable", json!(1)),
        ] {
            let mut status = all.clone();
            status[field] = value;
            assert!(!over(&status), "{status}");
        }
        assert!(!over(&json!(null)), "what was just written");
        assert!(over(&json!({ "observedGeneration": 3 })), "without nodes");
    }
}
