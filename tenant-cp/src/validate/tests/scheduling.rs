//! Where users may have their tenant cluster's pods run.

use super::*;
use crate::settings::SchedulingPolicy;
use crate::validate::admit;
use api::tenant_cluster::Spread;

fn said(tc: &TenantCluster, settings: &Settings) -> Vec<String> {
    let others: [TenantCluster; 0] = [];
    let problems = admit(None, tc, &others, settings);
    problems.iter().map(ToString::to_string).collect()
}

fn scheduling(scheduling: &Value) -> TenantCluster {
    tc(&json!({"spec": {"controlPlane": {"scheduling": scheduling}}}))
}

fn platform(tenant_pods: Value) -> Settings {
    serde_json::from_value(json!({"tenantPods": tenant_pods})).unwrap()
}

#[test]
fn scheduling_that_cannot_be_written_is_refused_whoever_asks() {
    let asked = scheduling(&json!({
        "nodeSelector": {"a b": "x", "zone": "-"},
        "tolerations": [{"key": "/"}, {"key": "x", "value": "a b"}],
        "priorityClassName": "High Priority",
        "runtimeClassName": "g/visor",
    }));
    let settings = Settings::default();
    let seen = check_with(&asked, &settings, &managed);
    let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
    let field = "spec.controlPlane.scheduling";
    let key = "use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends";
    let before = "and before it, where wanted, a DNS name and /";
    assert_eq!(
        seen,
        [
            format!("{field}.nodeSelector[a b]: \"a b\" cannot be a key: {key}, {before}"),
            format!("{field}.nodeSelector[zone]: \"-\" cannot be a value: {key}"),
            format!("{field}.tolerations[0]: \"/\" cannot be a key: {key}, {before}"),
            format!("{field}.tolerations[1]: \"a b\" cannot be a value: {key}"),
            format!(
                "{field}.priorityClassName: \"High Priority\" is not the name of a PriorityClass: \
                 name one of the management cluster's, or remove the field"
            ),
            format!(
                "{field}.runtimeClassName: \"g/visor\" is not the name of a RuntimeClass: name one \
                 of the management cluster's, or remove the field"
            ),
        ]
    );
}

#[test]
fn scheduling_is_the_platforms_but_for_what_it_lets_users_choose() {
    let asked = json!({
        "nodeSelector": {"topology.kubernetes.io/zone": "a"},
        "tolerations": [{"key": "example.com/gold"}],
        "priorityClassName": "system-cluster-critical",
        "runtimeClassName": "gvisor",
        "spread": "Required",
    });
    let field = "spec.controlPlane.scheduling";
    let way = |asked: &str, setting: &str| {
        format!(
            "\"{asked}\" is not allowed here: remove it, or have whoever runs the management cluster \
             allow it (config.tenantPods.allowed.{setting} of the chart)"
        )
    };
    let zone = "topology.kubernetes.io/zone";
    assert_eq!(
        said(&scheduling(&asked), &Settings::default()),
        [
            format!("{field}.nodeSelector[{zone}]: {}", way(zone, "nodeLabels")),
            format!(
                "{field}.tolerations[0].key: {}",
                way("example.com/gold", "taints")
            ),
            format!(
                "{field}.priorityClassName: {}",
                way("system-cluster-critical", "priorityClasses")
            ),
            format!(
                "{field}.runtimeClassName: {}",
                way("gvisor", "runtimeClasses")
            ),
        ]
    );
    let mut settings = Settings::default();
    settings.tenant_pods.allowed = SchedulingPolicy {
        node_labels: vec![zone.to_owned()],
        taints: vec!["example.com/gold".to_owned()],
        priority_classes: vec!["system-cluster-critical".to_owned()],
        runtime_classes: vec!["gvisor".to_owned()],
        ..SchedulingPolicy::default()
    };
    assert_eq!(said(&scheduling(&asked), &settings), [""; 0]);
    settings.tenant_pods.node_selector = [(zone.to_owned(), "b".to_owned())].into();
    assert_eq!(
        said(&scheduling(&asked), &settings),
        [format!(
            "{field}.nodeSelector[{zone}]: the platform's nodes for this have {zone}=b: \
             remove it"
        )]
    );
    let etcd = tc(&json!({"spec": {"etcd": {"scheduling": {"priorityClassName": "gold"}}}}));
    let seen = said(&etcd, &Settings::default());
    assert!(seen[0].starts_with("spec.etcd.scheduling.priorityClassName: \"gold\""));
    let own = platform(json!({"priorityClassName": "gold"}));
    assert_eq!(said(&etcd, &own), [""; 0], "what the platform gives anyhow");
}

#[test]
fn what_users_choose_comes_on_top_of_what_the_platform_says() {
    let settings = platform(json!({
        "nodeSelector": {"pool": "tenants"},
        "tolerations": [{"key": "tenants", "operator": "Exists"}],
        "priorityClassName": "tenants",
        "allowed": {"nodeLabels": ["zone", "pool"], "taints": ["gold"], "priorityClasses": ["gold"]},
    }));
    let built = |tc: &TenantCluster| validate(tc, &settings).unwrap();
    let plain = built(&tc(&json!({})));
    assert_eq!(plain.scheduling, plain.etcd.scheduling);
    assert_eq!(plain.scheduling.spread, Spread::Preferred);
    assert_eq!(
        plain.scheduling.priority_class_name.as_deref(),
        Some("tenants")
    );

    let chosen = built(&scheduling(&json!({
        "nodeSelector": {"zone": "a", "pool": "tenants"},
        "tolerations": [{"key": "gold", "value": "yes", "effect": "NoSchedule"}],
        "priorityClassName": "gold",
        "spread": "Required",
    })));
    assert_eq!(chosen.etcd.scheduling, plain.etcd.scheduling);
    let chosen = chosen.scheduling;
    assert_eq!(
        json!(chosen.node_selector),
        json!({"zone": "a", "pool": "tenants"})
    );
    assert_eq!(
        json!(chosen.tolerations),
        json!([
            {"key": "tenants", "operator": "Exists"},
            {"key": "gold", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        ])
    );
    assert_eq!(chosen.priority_class_name.as_deref(), Some("gold"));
    assert_eq!(chosen.runtime_class_name, None);
    assert_eq!(chosen.spread, Spread::Required);
}
