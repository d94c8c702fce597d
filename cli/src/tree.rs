//! A tenant cluster's objects by who owns them.
//!
//! Invariant: pure. Every object is shown once, whatever its owners say of themselves, and what others wrote is fit to be
//! shown.

use std::collections::{BTreeMap, BTreeSet};

use insight::age::since;
use insight::text;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::render::Symbols;

/// How far down owners are followed.
const DEEPEST: usize = 8;

/// An object.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// UIDs of those that it belongs to.
    pub(crate) owners: Vec<String>,
    /// How it does, in a word or two; empty where it does not say.
    pub(crate) state: String,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
}

/// Where objects are.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    /// What it is: `namespace team-a`.
    pub(crate) place: String,
    pub(crate) items: Vec<Item>,
}

/// An object as any API gives it. `kind` is what lists leave out.
pub(crate) fn item(kind: &str, object: &Value) -> Item {
    let meta = &object["metadata"];
    let word = |value: &Value| text::shown(value.as_str().unwrap_or_default());
    let owners = meta["ownerReferences"].as_array();
    let owners = owners
        .into_iter()
        .flatten()
        .map(|owner| word(&owner["uid"]));
    let created = meta["creationTimestamp"].as_str();
    Item {
        kind: kind.to_owned(),
        name: word(&meta["name"]),
        uid: word(&meta["uid"]),
        owners: owners.collect(),
        state: text::shown(&state(kind, object)),
        created: created.and_then(|at| at.parse().ok()),
    }
}

/// How it does, as its kind says it.
fn state(kind: &str, object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ready = |wanted: &Value, ready: &Value| {
        let (wanted, ready) = (wanted.as_i64().unwrap_or(1), ready.as_i64().unwrap_or(0));
        format!("{ready} of {wanted} ready")
    };
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => {
            ready(&spec["replicas"], &status["readyReplicas"])
        }
        "DaemonSet" => ready(&status["desiredNumberScheduled"], &status["numberReady"]),
        "PersistentVolumeClaim" => text(&status["phase"]),
        "Service" => text(&spec["type"]),
        "VirtualMachine" => text(&status["printableStatus"]),
        _ => {
            let conditions = status["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            match conditions.find(|c| c["type"] == "Ready") {
                Some(ready) if ready["status"] == "True" => "Ready".to_owned(),
                Some(ready) => text(&ready["reason"]),
                None => text(&status["phase"]),
            }
        }
    }
}

/// Old ReplicaSets, which are kept for going back, are no part of anything.
pub(crate) fn is_part(item: &Item) -> bool {
    !(item.kind == "ReplicaSet" && item.state == "0 of 0 ready")
}

/// The trees of all places.
pub(crate) fn written(places: &[Place], now: Timestamp, symbols: Symbols) -> String {
    let mut out = String::new();
    for place in places {
        let mut lines = vec![place.place.clone()];
        let mut told = BTreeSet::new();
        let known: BTreeSet<_> = place.items.iter().map(|item| item.uid.as_str()).collect();
        let mut below: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut roots = Vec::new();
        for (at, item) in place.items.iter().enumerate() {
            let owner = item.owners.iter().find(|uid| known.contains(uid.as_str()));
            match owner.filter(|uid| **uid != item.uid) {
                Some(owner) => below.entry(owner).or_default().push(at),
                None => roots.push(at),
            }
        }
        let drawing = Drawing {
            items: &place.items,
            below,
            now,
            symbols,
        };
        drawing.level(&roots, "", DEEPEST, &mut told, &mut lines);
        // Owners in a ring, and whoever is below them, have no beginning.
        let left = (0..place.items.len()).filter(|at| !told.contains(at));
        let left: Vec<_> = left.collect();
        drawing.level(&left, "", 0, &mut told, &mut lines);
        out.extend(lines.into_iter().map(|line| line + "\n"));
    }
    out
}

struct Drawing<'a> {
    items: &'a [Item],
    below: BTreeMap<&'a str, Vec<usize>>,
    now: Timestamp,
    symbols: Symbols,
}

impl Drawing<'_> {
    fn level(
        &self,
        all: &[usize],
        trunk: &str,
        deeper: usize,
        told: &mut BTreeSet<usize>,
        lines: &mut Vec<String>,
    ) {
        let mut all: Vec<_> = all
            .iter()
            .copied()
            .filter(|at| !told.contains(at))
            .collect();
        all.sort_by_key(|at| (&self.items[*at].kind, &self.items[*at].name));
        let ((branch, last), (line, none)) = (self.symbols.branches(), self.symbols.trunks());
        for (place, at) in all.iter().enumerate() {
            told.insert(*at);
            let item = &self.items[*at];
            let is_last = place + 1 == all.len();
            let own = if is_last { last } else { branch };
            let age = item
                .created
                .map(|at| since(at, self.now))
                .unwrap_or_default();
            let words = [
                format!("{}/{}", item.kind, item.name),
                item.state.clone(),
                age,
            ];
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            lines.push(format!("{trunk}{own}{}", words.join("  ")));
            let Some(below) = self.below.get(item.uid.as_str()).filter(|_| deeper > 0) else {
                continue;
            };
            let trunk = format!("{trunk}{}", if is_last { none } else { line });
            self.level(below, &trunk, deeper - 1, told, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(kind: &str, name: &str, uid: &str, owner: Option<&str>) -> Item {
        Item {
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            owners: owner.into_iter().map(str::to_owned).collect(),
            ..Item::default()
        }
    }

    fn now() -> Timestamp {
        "2026-11-27T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn who_belongs_to_somebody_stands_below() {
        let mut cluster = named("TenantCluster", "demo", "a", None);
        cluster.state = "Ready".to_owned();
        cluster.created = Some("2026-11-27T09:00:00Z".parse().unwrap());
        let place = Place {
            place: "namespace team-a".to_owned(),
            items: vec![
                named("Machine", "web-2", "d", Some("b")),
                named("Machine", "web-1", "c", Some("b")),
                named("NodePool", "web", "b", Some("a")),
                cluster,
                named("Restore", "tuesday", "e", Some("a")),
            ],
        };
        let expected = "\
namespace team-a
└ TenantCluster/demo  Ready  3h
  ├ NodePool/web
  │ ├ Machine/web-1
  │ └ Machine/web-2
  └ Restore/tuesday
";
        assert_eq!(written(&[place], now(), Symbols::new(true)), expected);
    }

    #[test]
    fn owners_in_a_ring_are_shown_once_and_end() {
        let place = Place {
            place: "inside".to_owned(),
            items: vec![
                named("Pod", "a", "1", Some("2")),
                named("Pod", "b", "2", Some("1")),
                named("Pod", "c", "3", Some("3")),
            ],
        };
        let told = written(&[place], now(), Symbols::new(false));
        for name in ["Pod/a", "Pod/b", "Pod/c"] {
            assert_eq!(told.matches(name).count(), 1, "{told}");
        }
    }

    #[test]
    fn a_state_is_what_its_kind_says() {
        let state = |kind: &str, object: Value| item(kind, &object).state;
        let half = json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 1}});
        assert_eq!(state("Deployment", half), "1 of 2 ready");
        let old = item(
            "ReplicaSet",
            &json!({"spec": {"replicas": 0}, "status": {}}),
        );
        assert!(!is_part(&old));
        let bound = json!({"status": {"phase": "Bound"}});
        assert_eq!(state("PersistentVolumeClaim", bound), "Bound");
        let ill = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "No\u{1b}[31m"}]}});
        assert_eq!(state("Node", ill), "No [31m");
        assert_eq!(state("Node", json!({})), "");
    }
}
