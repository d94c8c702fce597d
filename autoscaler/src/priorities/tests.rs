//! The text of the ConfigMap.

use serde_json::json;

use super::*;
use crate::testing::{changed, pool, seen_pool, world};

#[test]
fn every_group_is_in_it_by_its_priority_whatever_its_shape() {
    let with = |name: &str, priority: i32| {
        let priority = json!({ "spec": { "autoscaling": { "priority": priority } } });
        seen_pool(&changed(&pool(name, 1, 0, 5), priority))
    };
    let plain = json!({ "spec": { "autoscaling": null } });
    let plain = seen_pool(&changed(&pool("plain", 1, 0, 5), plain));
    let text = world([with("b", 10), with("a-1", 0), with("c", 0), plain]).look(text);
    let expected = "0:\n\
                    - '^a-1\\.[0-9a-f]{8}$'\n\
                    - '^c\\.[0-9a-f]{8}$'\n\
                    10:\n\
                    - '^b\\.[0-9a-f]{8}$'\n";
    assert_eq!(text, expected);
}

#[test]
fn without_a_group_it_is_an_empty_map() {
    assert_eq!(world([]).look(text), "{}\n");
}
