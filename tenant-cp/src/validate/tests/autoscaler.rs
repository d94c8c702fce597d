//! What is said of the limits of an autoscaler.

use super::*;

fn limited(limits: &Value) -> Value {
    json!({ "spec": { "addons": { "autoscaler": { "enabled": true, "limits": limits } } } })
}

#[test]
fn limits_that_nothing_fits_are_refused_with_what_to_write() {
    for (limits, message) in [
        (
            json!({ "nodes": 0 }),
            "spec.addons.autoscaler.limits.nodes: 0 lets nothing grow: choose 1 or more, or remove it \
             for no limit",
        ),
        (
            json!({ "cpu": -4 }),
            "spec.addons.autoscaler.limits.cpu: -4 lets nothing grow: choose 1 or more, or remove it \
             for no limit",
        ),
        (
            json!({ "memory": "plenty" }),
            "spec.addons.autoscaler.limits.memory: \"plenty\" is not a quantity: write a number with \
             an optional suffix, such as 500m, 2 or 1Gi",
        ),
        (
            json!({ "memory": "512m" }),
            "spec.addons.autoscaler.limits.memory: \"512m\" is not a quantity: write a number with an \
             optional suffix, such as 500m, 2 or 1Gi",
        ),
        (
            json!({ "memory": "64" }),
            "spec.addons.autoscaler.limits.memory: 64 is less than 1Gi, and whole GiB are counted: \
             choose 1Gi or more (gibibytes are written Gi), or remove it for no limit",
        ),
    ] {
        assert_eq!(seen(&limited(&limits)), [message]);
    }
}

#[test]
fn limits_are_built_only_where_it_is_on() {
    let built = |patch: &Value| {
        let cluster = tc(patch);
        validate(&cluster, &Settings::default()).unwrap().autoscaler
    };
    let limits = json!({ "nodes": 20, "memory": "256Gi" });
    let found = built(&limited(&limits)).unwrap();
    assert_eq!((found.nodes, found.cpu), (Some(20), None));
    let mut off = limited(&limits);
    off["spec"]["addons"]["autoscaler"]["enabled"] = json!(false);
    assert_eq!(built(&off), None);
    assert_eq!(built(&json!({})), None);
}

#[test]
fn image_of_a_minor_that_no_tenant_cluster_has_is_a_mistake_of_the_configuration() {
    let with = |minor: &str| {
        let mut settings = Settings::default();
        let images = &mut settings.images.cluster_autoscaler;
        images.insert(minor.to_owned(), "autoscaling/mine:1".to_owned());
        check_settings(&settings)
            .into_iter()
            .map(|problem| (problem.field, problem.reason))
            .collect::<Vec<_>>()
    };
    assert_eq!(with("1.35"), []);
    let field = |minor: &str| format!("images.clusterAutoscaler[{minor}]");
    for minor in ["1.20", "35", "latest"] {
        assert_eq!(with(minor), [(field(minor), api::Reason::MinorUnknown)]);
    }
}
