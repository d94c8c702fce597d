//! The subresource `eviction` of pods, as far as a drain notices it
//! (kubernetes `pkg/registry/core/pod/storage/eviction.go`).
//!
//! Invariant: a refusal changes nothing, and each eviction uses up one of the disruptions that the
//! budget of its pod allows. A pod with a grace period stays, marked, until a test ends it as the
//! kubelet would.

use serde_json::{Value, json};

use super::select::Selection;
use super::store::Store;

/// What became of an eviction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Evicted {
    /// The pod is gone, or going.
    Yes,
    /// The request names another pod than its path.
    BadRequest,
    /// There is no such pod.
    NotFound,
    /// There is one of the same name that is not the one meant.
    Conflict,
    /// A budget is in the way.
    Refused,
    /// Several budgets select the pod.
    Ambiguous,
}

impl Evicted {
    /// Status of the answer.
    pub(super) fn code(self) -> u16 {
        match self {
            Self::Yes => 201,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Refused => 429,
            Self::Ambiguous => 500,
        }
    }
}

/// `path`: the pod's.
pub(super) fn evict(store: &mut Store, path: &str, eviction: &Value, dry: bool) -> Evicted {
    let Some(pod) = store.get(path) else {
        return Evicted::NotFound;
    };
    let meta = &pod["metadata"];
    let name = path.rsplit('/').next().unwrap_or_default();
    if eviction["metadata"]["name"] != name {
        return Evicted::BadRequest;
    }
    let wanted = &eviction["deleteOptions"]["preconditions"]["uid"];
    if !wanted.is_null() && *wanted != meta["uid"] {
        return Evicted::Conflict;
    }
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let going = !meta["deletionTimestamp"].is_null();
    if !going && !["Succeeded", "Failed", "Pending"].contains(&phase) {
        match budgets(store, path, &pod).as_slice() {
            [] => {}
            [(budget, allowed)] if *allowed > 0 => {
                let fewer = json!({ "status": { "disruptionsAllowed": allowed - 1 } });
                store.merge(budget, &fewer, dry);
            }
            [_] => return Evicted::Refused,
            _ => return Evicted::Ambiguous,
        }
    }
    let grace = &eviction["deleteOptions"]["gracePeriodSeconds"];
    let at_once = *grace == 0 || pod["spec"]["terminationGracePeriodSeconds"] == 0;
    match at_once {
        true => drop(store.delete(path, dry)),
        false if !going => {
            let now = jiff::Timestamp::now().to_string();
            let marked = json!({ "metadata": { "deletionTimestamp": now } });
            store.merge(path, &marked, dry);
        }
        false => {}
    }
    Evicted::Yes
}

/// Path of each budget that selects the pod, and how many disruptions it allows.
fn budgets(store: &Store, path: &str, pod: &Value) -> Vec<(String, i64)> {
    let namespace = path.split('/').nth(4).unwrap_or_default();
    let collection = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let all = match collection.parse() {
        Ok(uri) => store.list(&Selection::new(&uri)),
        Err(_) => Value::Null,
    };
    let items = all["items"].as_array().into_iter().flatten();
    let selecting = items.filter(|budget| selects(&budget["spec"]["selector"], pod));
    selecting
        .map(|budget| {
            let name = budget["metadata"]["name"].as_str().unwrap_or_default();
            let allowed = budget["status"]["disruptionsAllowed"].as_i64();
            (format!("{collection}/{name}"), allowed.unwrap_or_default())
        })
        .collect()
}

/// By `matchLabels`; an empty selector selects every pod.
fn selects(selector: &Value, pod: &Value) -> bool {
    let labels = &pod["metadata"]["labels"];
    let mut wanted = selector["matchLabels"].as_object().into_iter().flatten();
    selector.is_object() && wanted.all(|(key, value)| labels[key] == *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "/api/v1/namespaces/a/pods/b";
    const BUDGET: &str = "/apis/policy/v1/namespaces/a/poddisruptionbudgets/c";

    fn stored(phase: &str, grace: i64) -> Store {
        let mut store = Store::default();
        let pod = json!({
            "kind": "Pod", "metadata": { "name": "b", "labels": { "x": "y" } },
            "spec": { "terminationGracePeriodSeconds": grace }, "status": { "phase": phase },
        });
        store.create(POD, pod, false);
        store
    }

    fn with_budget(mut store: Store, labels: &Value, allowed: i64) -> Store {
        let budget = json!({
            "metadata": { "name": "c" }, "spec": { "selector": { "matchLabels": labels } },
            "status": { "disruptionsAllowed": allowed },
        });
        store.create(BUDGET, budget, false);
        store
    }

    fn ask(store: &mut Store) -> Evicted {
        evict(store, POD, &json!({ "metadata": { "name": "b" } }), false)
    }

    #[test]
    fn budget_allows_as_many_as_it_says_and_no_more() {
        let mut store = with_budget(stored("Running", 0), &json!({ "x": "y" }), 1);
        assert_eq!(ask(&mut store), Evicted::Yes);
        assert!(store.get(POD).is_none());
        let allowed = store.get(BUDGET).unwrap()["status"]["disruptionsAllowed"].clone();
        assert_eq!(allowed, 0);
        assert_eq!(ask(&mut store), Evicted::NotFound);
        let mut store = with_budget(stored("Running", 0), &json!({ "x": "y" }), 0);
        let before = store.get(POD);
        assert_eq!(ask(&mut store), Evicted::Refused);
        assert_eq!(store.get(POD), before);
    }

    #[test]
    fn budget_of_other_pods_and_pods_that_never_ran_are_not_in_the_way() {
        let mut store = with_budget(stored("Running", 0), &json!({ "x": "z" }), 0);
        assert_eq!(ask(&mut store), Evicted::Yes);
        let mut store = with_budget(stored("Pending", 0), &json!({}), 0);
        assert_eq!(ask(&mut store), Evicted::Yes);
    }

    #[test]
    fn pod_with_a_grace_period_is_marked_once_and_stays() {
        let mut store = stored("Running", 30);
        assert_eq!(ask(&mut store), Evicted::Yes);
        let marked = store.get(POD);
        assert!(marked.as_ref().unwrap()["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(ask(&mut store), Evicted::Yes);
        assert_eq!(store.get(POD), marked);
    }

    #[test]
    fn namesake_is_a_conflict_and_another_name_is_a_mistake() {
        let mut store = stored("Running", 0);
        let mut eviction = json!({
            "metadata": { "name": "b" }, "deleteOptions": { "preconditions": { "uid": "z" } },
        });
        assert_eq!(evict(&mut store, POD, &eviction, false), Evicted::Conflict);
        eviction["metadata"]["name"] = json!("z");
        assert_eq!(
            evict(&mut store, POD, &eviction, false),
            Evicted::BadRequest
        );
        assert!(store.get(POD).is_some());
    }
}
