//! Whether the management cluster has room for one pod more of what an upgrade replaces: a new pod is ready before an
//! old one ends.
//!
//! Invariant: pure, and by requests alone. What is not known speaks against nothing: nodes may not be to be seen, and
//! of their labels only those are kept that machines ask for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use providers::Needs;
use serde::Deserialize;
use serde_json::Value;

use super::finding::{Check, Finding};
use crate::capacity::decide::{Answer, cores, mebibytes};
use crate::capacity::kinds::PodSpec;
use crate::capacity::read::asked;

/// What quotas count one of for a pod (<https://kubernetes.io/docs/concepts/policy/resource-quotas/>).
const OBJECTS: &[&str] = &["count/pods", "pods"];

/// What one pod more takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Surge {
    /// What it needs of a node, and of quotas.
    pub needs: Needs,
    /// Whether it is of a priority class, for which other pods may have to go.
    pub preempts: bool,
}

/// How it is about one pod more of a Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct SurgeAnswer {
    /// Name of the Deployment.
    pub component: &'static str,
    /// What its pod takes.
    pub surge: Surge,
    /// Whether that fits.
    pub answer: Answer,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Placement {
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    priority_class_name: Option<String>,
}

impl Surge {
    /// Of a live Deployment; none where its template cannot be read.
    #[must_use]
    pub fn of(deployment: &Value) -> Option<Self> {
        let spec = deployment.pointer("/spec/template/spec")?;
        let takes = asked(&PodSpec::deserialize(spec).ok()?);
        let placement = Placement::deserialize(spec).ok()?;
        Some(Self {
            needs: Needs {
                cpu: takes.cpu,
                memory: takes.memory,
                storage: takes.storage,
                node_labels: placement.node_selector,
                tolerations: placement.tolerations,
                objects: OBJECTS,
            },
            preempts: placement
                .priority_class_name
                .is_some_and(|class| !class.is_empty()),
        })
    }
}

impl SurgeAnswer {
    /// What is found of it. Without what is left: that changes with every pod of the management cluster.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let needs = &self.surge.needs;
        let pod = format!("one pod more of the Deployment {}", self.component);
        let message = match &self.answer {
            Answer::Unknown | Answer::Fits => return None,
            Answer::QuotaExhausted(found) => {
                let (namespace, name) = &found.quota;
                format!(
                    "{pod} takes {} of {}, which ResourceQuota {namespace}/{name} (at most {}) has not left; raise it",
                    found.needs, found.resource, found.hard
                )
            }
            Answer::NoRoom(shortage) if shortage.left.is_none() => format!(
                "no node of the management cluster takes {pod}: each lacks a label that \
                 spec.controlPlane.scheduling asks for, or has a taint that it does not tolerate"
            ),
            Answer::NoRoom(_) => format!(
                "{pod} takes {} of cpu, {} of memory and {} of ephemeral-storage, and no node of the management \
                 cluster has all of it and a place for a pod left; add nodes or free some. Where nodes are added for \
                 pods that wait, set spec.upgrade.guard: Warn",
                cores(needs.cpu),
                mebibytes(needs.memory, true),
                mebibytes(needs.storage, true),
            ),
        };
        Some(match self.surge.preempts {
            // Others may have to go for it, and quotas of other classes do not count it.
            true => Finding::warn(Check::Room, message),
            false => Finding::block(Check::Room, message),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::finding::Verdict;
    use super::*;
    use crate::capacity::cache::{Cache, Kind, WatchedObject};
    use crate::capacity::decide::decide_by_what_is_kept;

    const NS: &str = "covey-demo-0a1b2c3d11";

    fn deployment(cpu: &str, placement: Value) -> Value {
        let container = json!({ "resources": { "requests": { "cpu": cpu, "memory": "256Mi" },
            "limits": { "memory": "4Gi" } } });
        let mut spec = json!({ "containers": [container],
            "initContainers": [{ "restartPolicy": "Always",
                "resources": { "requests": { "cpu": "50m" } } }] });
        for (field, value) in placement.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({ "spec": { "template": { "spec": spec } } })
    }

    fn node(name: &str, cpu: &str, taint: Value) -> WatchedObject {
        let node = json!({
            "metadata": { "name": name, "labels": { "disk": "fast" } }, "spec": { "taints": taint },
            "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "9" } },
        });
        WatchedObject::Node(serde_json::from_value(node).unwrap())
    }

    fn quota(hard: &str, used: &str) -> WatchedObject {
        let quota = json!({
            "metadata": { "name": "all", "namespace": NS },
            "status": { "hard": { "pods": hard }, "used": { "pods": used } },
        });
        WatchedObject::Quota(serde_json::from_value(quota).unwrap())
    }

    fn finding(deployment: &Value, seen: &[WatchedObject]) -> Option<Finding> {
        let mut cache = Cache::new(["disk".to_owned()].into());
        Kind::ALL.iter().for_each(|kind| cache.begin(*kind));
        for seen in seen {
            cache.apply(seen);
        }
        Kind::ALL.iter().for_each(|kind| cache.end(*kind));
        let surge = Surge::of(deployment).unwrap();
        let room = SurgeAnswer {
            component: "control-plane",
            answer: decide_by_what_is_kept(&cache, &surge.needs, NS),
            surge,
        };
        room.finding()
    }

    fn told(deployment: &Value, seen: &[WatchedObject]) -> (Verdict, String) {
        let found = finding(deployment, seen).unwrap();
        assert_eq!(found.check, Check::Room);
        (found.verdict, found.message)
    }

    #[test]
    fn surge_takes_what_its_containers_ask_for_together() {
        let surge = Surge::of(&deployment("250m", json!({}))).unwrap();
        assert_eq!((surge.needs.cpu, surge.needs.memory), (300, 256 << 20));
        assert!(!surge.preempts);
        assert_eq!(Surge::of(&json!({ "spec": {} })), None);
    }

    #[test]
    fn pod_that_no_node_has_room_for_blocks_and_says_what_it_takes() {
        let of = deployment("250m", json!({}));
        let (small, large) = (node("a", "299m", json!([])), node("b", "300m", json!([])));
        let (verdict, message) = told(&of, std::slice::from_ref(&small));
        assert_eq!(verdict, Verdict::Block);
        assert!(
            message.starts_with(
                "one pod more of the Deployment control-plane takes 300m of cpu, 256Mi of memory and 0Mi of"
            ),
            "{message}"
        );
        assert!(message.contains("spec.upgrade.guard"), "{message}");
        assert_eq!(finding(&of, &[small, large]), None);
    }

    #[test]
    fn node_that_keeps_it_away_is_none_unless_it_is_tolerated() {
        let taint = json!([{ "key": "for", "value": "others", "effect": "NoSchedule" }]);
        let away = [node("a", "4", taint)];
        let (verdict, message) = told(&deployment("1", json!({})), &away);
        assert_eq!(verdict, Verdict::Block);
        assert!(
            message.contains("a taint that it does not tolerate"),
            "{message}"
        );
        let tolerates = json!({ "tolerations": [{ "key": "for", "operator": "Exists" }] });
        assert_eq!(finding(&deployment("1", tolerates), &away), None);
    }

    #[test]
    fn quota_that_is_used_up_blocks_and_is_named() {
        let nodes = [node("a", "4", json!([])), quota("4", "4")];
        let (verdict, message) = told(&deployment("1", json!({})), &nodes);
        assert_eq!(verdict, Verdict::Block);
        assert_eq!(
            message,
            format!(
                "one pod more of the Deployment control-plane takes 1 of pods, which ResourceQuota {NS}/all (at most \
                 4) has not left; raise it"
            )
        );
        let nodes = [node("a", "4", json!([])), quota("4", "3")];
        assert_eq!(finding(&deployment("1", json!({})), &nodes), None);
    }

    #[test]
    fn pod_for_which_others_may_have_to_go_is_only_told_of() {
        let first = json!({ "priorityClassName": "control-planes" });
        let full = [node("a", "1m", json!([]))];
        assert_eq!(told(&deployment("1", first), &full).0, Verdict::Warn);
    }

    #[test]
    fn what_is_not_known_speaks_against_nothing() {
        let of = deployment("64", json!({}));
        assert_eq!(finding(&of, &[]), None, "nodes are not to be seen");
        let label = |label: &str| deployment("64", json!({ "nodeSelector": { label: "x" } }));
        let small = [node("a", "1", json!([]))];
        assert_eq!(finding(&label("zone"), &small), None, "it is not kept");
        assert!(finding(&label("disk"), &small).is_some());
    }

    proptest! {
        /// What others take changes all the time, and nobody is to be told each time.
        #[test]
        fn words_change_only_with_the_verdict(cpus in prop::collection::vec(0..2000_u32, 1..6)) {
            let of = deployment("250m", json!({}));
            let nodes: Vec<_> = cpus
                .iter()
                .enumerate()
                .map(|(n, cpu)| node(&format!("n{n}"), &format!("{cpu}m"), json!([])))
                .collect();
            let found = finding(&of, &nodes);
            prop_assert_eq!(found.is_none(), cpus.iter().any(|cpu| *cpu >= 300));
            let (_, empty) = told(&of, &[node("n", "0", json!([]))]);
            prop_assert!(found.is_none_or(|found| found.message == empty));
        }
    }
}
