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
fn what_the_cluster_autoscaler_could_not_be_told_is_refused() {
    let configured = |field: &str, value: Value| json!({ "spec": { "addons": { "autoscaler": { "enabled": true, field: value } } } });
    for (field, value, message) in [
        (
            "startupTaints",
            json!(["example.com/a", "a b"]),
            "spec.addons.autoscaler.startupTaints[1]: ",
        ),
        (
            "startupTaints",
            json!(["example.com/a", "example.com/a"]),
            "spec.addons.autoscaler.startupTaints[1]: example.com/a is named twice: remove one of them",
        ),
        (
            "maxNodeProvisionTime",
            json!("5s"),
            "spec.addons.autoscaler.maxNodeProvisionTime: 5s is too short: no machine boots that fast; \
             use 30s or more",
        ),
        (
            "scaleDownUnreadyTime",
            json!("0s"),
            "spec.addons.autoscaler.scaleDownUnreadyTime: 0s is too short: a kubelet that restarts would \
             lose its machine; use 30s or more",
        ),
        (
            "scaleDownDelayAfterAdd",
            json!("2 minutes"),
            "spec.addons.autoscaler.scaleDownDelayAfterAdd: \"2 minutes\" is not a length of time: write \
             hours, minutes and seconds, such as 90s, 5m or 1h30m",
        ),
    ] {
        let said = seen(&configured(field, value));
        assert!(said.len() == 1 && said[0].starts_with(message), "{said:?}");
    }
    for (field, value) in [
        ("balanceSimilarNodeGroups", json!(true)),
        ("startupTaints", json!(["node.cilium.io/agent-not-ready"])),
        ("maxNodeProvisionTime", json!("25m")),
        ("scaleDownUnreadyTime", json!("30s")),
        ("scaleDownDelayAfterAdd", json!("0s")),
    ] {
        assert_eq!(seen(&configured(field, value)), [""; 0], "{field}");
    }
}

#[test]
fn limits_are_built_only_where_it_is_on() {
    let built = |patch: &Value| {
        let cluster = tc(patch);
        validate(&cluster, &Settings::default()).unwrap().autoscaler
    };
    let limits = json!({ "nodes": 20, "memory": "256Gi" });
    let found = built(&limited(&limits)).unwrap().limits;
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
