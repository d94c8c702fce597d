//! Where machines of a node pool are made, and the sentence for each mistake in it.

use api::NodePool;

use super::*;

fn pool(spec: &Value) -> NodePool {
    let mut all = json!({"clusterName": "demo"});
    merge(&mut all, spec);
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "workers", "namespace": "team-a"}, "spec": all,
    }))
    .unwrap()
}

fn said(old: Option<&NodePool>, new: &NodePool) -> Vec<String> {
    let none: [TenantCluster; 0] = [];
    let problems = admit_pool(old, new, &none, &Settings::default());
    problems.iter().map(ToString::to_string).collect()
}

fn at(name: &str, kubevirt: &Value) -> Value {
    json!({"name": name, "provider": {"kubevirt": kubevirt}})
}

#[test]
fn pool_has_one_of_both_forms() {
    let plain = json!({});
    assert_eq!(
        said(None, &pool(&json!({}))),
        ["spec.provider: name exactly one provider, such as kubevirt: {}"]
    );
    let both = json!({"provider": {"kubevirt": {}}, "locations": [at("north", &plain)]});
    assert_eq!(
        said(None, &pool(&both)),
        ["spec.locations: provider is the short form of one location: set exactly one of the two"]
    );
    let right = json!({"locations": [at("north", &plain), at("south", &plain)]});
    assert_eq!(said(None, &pool(&right)), [""; 0]);
}

#[test]
fn mistakes_in_locations_are_explained() {
    let plain = json!({});
    let with = |name: &str, field: &str, number: i32| {
        let mut location = at(name, &plain);
        location[field] = json!(number);
        location
    };
    let locations = |all: &[Value]| pool(&json!({"locations": all}));
    assert_eq!(
        said(
            None,
            &locations(&[with("a", "weight", 0), with("b", "weight", 0)])
        ),
        [
            "spec.locations: the weight of every location is 0, so no machine could be made anywhere: give \
          one of them 1 or more"
        ]
    );
    let many: Vec<_> = (0..17).map(|n| at(&format!("l{n}"), &plain)).collect();
    assert_eq!(
        said(None, &locations(&many)),
        ["spec.locations: 17 locations are more than 16: make another node pool of some"]
    );
    let wrong = [
        at("North", &plain),
        at("a", &plain),
        at("a", &plain),
        with("b", "weight", 1001),
        with("c", "max", -1),
    ];
    assert_eq!(
        said(None, &locations(&wrong)),
        [
            "spec.locations[0].name: \"North\" cannot be the name of a location: use up to 40 lower-case \
             letters, digits and -, beginning with a letter",
            "spec.locations[2].name: a is named twice: choose another name",
            "spec.locations[b].weight: 1001 is out of range: choose 0 to 1000",
            "spec.locations[c].max: -1 is out of range: choose 0 to 1000",
        ]
    );
}

#[test]
fn every_location_is_judged_as_a_provider_alone_would_be() {
    let bad = json!({"image": "evil.example/disk:v1", "memory": "much"});
    let below = |field: &str, problems: Vec<String>| -> Vec<String> {
        let rest = problems.iter().map(|said| said.strip_prefix(field));
        let mut rest: Vec<_> = rest.map(|rest| rest.unwrap().to_owned()).collect();
        rest.sort();
        rest
    };
    let alone = said(None, &pool(&json!({"provider": {"kubevirt": bad}})));
    let spread = pool(&json!({"locations": [at("north", &json!({})), at("south", &bad)]}));
    assert!(alone.len() >= 2, "{alone:?}");
    assert_eq!(
        below("spec.locations[south].provider", said(None, &spread)),
        below("spec.provider", alone)
    );
}

/// What was wrong before is not held against a change of something else.
#[test]
fn another_order_of_the_list_is_no_other_mistake() {
    let bad = json!({"image": "evil.example/disk:v1"});
    let old = pool(&json!({"locations": [at("north", &bad), at("south", &json!({}))]}));
    let new = pool(&json!({"locations": [at("south", &json!({})), at("north", &bad)]}));
    assert_eq!(said(None, &new).len(), 1);
    assert_eq!(said(Some(&old), &new), [""; 0]);
}
