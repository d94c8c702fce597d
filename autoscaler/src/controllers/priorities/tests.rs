//! The text of the ConfigMap.

use serde_json::json;

use super::*;
use crate::testing::{cache, changed, pool, pool_event};

#[test]
fn every_group_is_in_it_by_its_priority_whatever_its_shape() {
    let with = |name: &str, priority: i32| {
        let priority = json!({ "spec": { "autoscaling": { "priority": priority } } });
        pool_event(&changed(&pool(name, 1, 0, 5), priority))
    };
    let plain = json!({ "spec": { "autoscaling": null } });
    let plain = pool_event(&changed(&pool("plain", 1, 0, 5), plain));
    let text = cache([with("b", 10), with("a-1", 0), with("c", 0), plain]).read(text);
    let expected = "0:\n\
                    - '^a-1\\.[0-9a-f]{8}$'\n\
                    - '^c\\.[0-9a-f]{8}$'\n\
                    10:\n\
                    - '^b\\.[0-9a-f]{8}$'\n";
    assert_eq!(text, expected);
}

#[test]
fn without_a_group_it_is_an_empty_map() {
    assert_eq!(cache([]).read(text), "{}\n");
}

#[test]
fn it_is_written_only_when_another_text_stands_there_or_none() {
    let live = |data: serde_json::Value| {
        let map = json!({ "metadata": { "name": PRIORITY_EXPANDER }, "data": data });
        serde_json::from_value::<ConfigMap>(map).unwrap()
    };
    let wanted = "0:\n- '^a\\.[0-9a-f]{8}$'\n";
    assert!(!due(&live(json!({ KEY: wanted })), wanted));
    assert!(due(&live(json!({ KEY: "{}\n" })), wanted));
    assert!(due(&live(json!({ "other": wanted })), wanted));
    assert!(due(&live(json!(null)), wanted));
}
