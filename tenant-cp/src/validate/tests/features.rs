//! Feature gates and API versions: what no program would start with, and what the platform is asked for.

use super::*;
use crate::validate::{admit, check_settings};

fn asked(version: &str, control_plane: &Value) -> TenantCluster {
    tc(&json!({"spec": {"version": version, "controlPlane": control_plane}}))
}

fn said(tc: &TenantCluster, settings: &Settings) -> Vec<String> {
    let nobody: [TenantCluster; 0] = [];
    let problems = admit(None, tc, &nobody, settings);
    problems.iter().map(ToString::to_string).collect()
}

fn allowing(gates: &[&str], apis: &[&str]) -> Settings {
    let policy = json!({"apiServer": {"featureGates": gates, "runtimeConfig": apis}});
    serde_json::from_value(policy).unwrap()
}

#[test]
fn gates_that_no_program_would_start_with_are_refused() {
    let settings = allowing(
        &[
            "ImageVolume",
            "GangScheduling",
            "GenericWorkload",
            "EnvFiles",
        ],
        &["scheduling.k8s.io/v1alpha2", "resource.k8s.io/v1beta2"],
    );
    let gates = |version: &str, gates: Value| {
        said(&asked(version, &json!({"featureGates": gates})), &settings)
    };
    let field = "spec.controlPlane.featureGates";
    assert_eq!(
        gates("1.35.4", json!({"Nonsense": true, "a,B\n": true, "AllAlpha": true})),
        ["AllAlpha", "Nonsense", "a,B\\n"].map(|name| format!(
            "{field}[{name}]: \"{name}\" is not one of the feature gates that can be set: remove it \
             (docs/flags.md lists those that can)"
        ))
    );
    assert_eq!(
        gates("1.36.1", json!({"ImageVolume": true})),
        [format!(
            "{field}[ImageVolume]: ImageVolume can be set in Kubernetes 1.34 to 1.35, and not in 1.36: \
             remove it"
        )]
    );
    for without in [
        json!({"GangScheduling": true}),
        json!({"GangScheduling": true, "GenericWorkload": false}),
    ] {
        assert_eq!(
            gates("1.35.4", without),
            [format!(
                "{field}[GangScheduling]: GangScheduling does not work without GenericWorkload: set that to \
                 true, too"
            )]
        );
    }
    for fine in [
        json!({"GangScheduling": true, "GenericWorkload": true}),
        json!({"GangScheduling": false, "EnvFiles": false}),
    ] {
        assert_eq!(gates("1.35.4", fine), [""; 0]);
    }
    let apis = |apis: Value| said(&asked("1.35.4", &json!({"runtimeConfig": apis})), &settings);
    assert_eq!(
        apis(json!({"api/all": true, "apps/v1": false, "scheduling.k8s.io/v1alpha2": true})),
        [
            "spec.controlPlane.runtimeConfig[api/all]: \"api/all\" is not one of the API versions that can be \
             set: remove it (docs/flags.md lists those that can)",
            "spec.controlPlane.runtimeConfig[apps/v1]: \"apps/v1\" is not one of the API versions that can be \
             set: remove it (docs/flags.md lists those that can)",
            "spec.controlPlane.runtimeConfig[scheduling.k8s.io/v1alpha2]: scheduling.k8s.io/v1alpha2 can be set \
             in Kubernetes 1.36, and not in 1.35: remove it",
        ]
    );
    assert_eq!(apis(json!({"resource.k8s.io/v1beta2": true})), [""; 0]);
}

#[test]
fn platform_says_which_of_them_users_may_set() {
    let tc = asked(
        "1.35.4",
        &json!({
            "featureGates": {"EnvFiles": false},
            "runtimeConfig": {"resource.k8s.io/v1beta2": true},
        }),
    );
    assert_eq!(
        said(&tc, &Settings::default()),
        [
            "spec.controlPlane.featureGates[EnvFiles]: \"EnvFiles\" is not allowed here: remove it, or have \
             whoever runs the management cluster allow it (config.apiServer.featureGates of the chart)",
            "spec.controlPlane.runtimeConfig[resource.k8s.io/v1beta2]: \"resource.k8s.io/v1beta2\" is not \
             allowed here: remove it, or have whoever runs the management cluster allow it \
             (config.apiServer.runtimeConfig of the chart)",
        ]
    );
    let others = allowing(&["HPAScaleToZero"], &[]);
    assert!(said(&tc, &others)[0].contains("choose of HPAScaleToZero, or have"));
    let settings = allowing(&["EnvFiles"], &["resource.k8s.io/v1beta2"]);
    assert_eq!(said(&tc, &settings), [""; 0]);
    assert!(check_settings(&settings).is_empty());
    let odd = check_settings(&allowing(&["EnvFile"], &["apps/v1"]));
    let odd: Vec<_> = odd.iter().map(ToString::to_string).collect();
    assert_eq!(
        odd,
        [
            "apiServer.featureGates: \"EnvFile\" is not one of the feature gates that can be set: remove it \
             (docs/flags.md lists those that can)",
            "apiServer.runtimeConfig: \"apps/v1\" is not one of the API versions that can be set: remove it \
             (docs/flags.md lists those that can)",
        ]
    );
}

/// From when flags were not looked at.
#[test]
fn what_a_flag_says_already_is_not_said_twice() {
    let old = asked(
        "1.35.4",
        &json!({"scheduler": {"extraArgs": {"feature-gates": "A=true"}}}),
    );
    let mut new = old.clone();
    new.spec.control_plane.feature_gates = [("EnvFiles".to_owned(), true)].into();
    let nobody: [TenantCluster; 0] = [];
    let problems = admit(Some(&old), &new, &nobody, &allowing(&["EnvFiles"], &[]));
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "spec.controlPlane.scheduler.extraArgs[feature-gates]: --feature-gates is said by \
          spec.controlPlane.featureGates already: remove it here"
        ]
    );
}

#[test]
fn version_that_lacks_a_gate_is_refused_until_the_gate_is_gone() {
    let settings = allowing(&["ImageVolume"], &[]);
    let old = asked("1.35.4", &json!({"featureGates": {"ImageVolume": true}}));
    let mut new = old.clone();
    new.spec.version = "1.36.1".to_owned();
    let nobody: [TenantCluster; 0] = [];
    let problems = admit(Some(&old), &new, &nobody, &settings);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].reason, "FeatureGateUnknown");
    new.spec.control_plane.feature_gates.clear();
    assert!(admit(Some(&old), &new, &nobody, &settings).is_empty());
}
