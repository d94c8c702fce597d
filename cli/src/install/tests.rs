//! What is applied over what is there: order, flags, what is written, and what is refused.
//!
//! Invariant: that of the module.

use std::collections::BTreeSet;

use super::*;

fn all(wanted: &Wanted) -> Vec<Object> {
    objects(wanted).unwrap()
}

fn pick<'a>(all: &'a [Object], id: &str) -> &'a Value {
    let found = all.iter().find(|object| object.id() == id);
    &found.unwrap_or_else(|| panic!("no {id}")).value
}

/// As the API has them: with what it fills in.
fn live(all: &[Object]) -> Vec<Option<Value>> {
    let filled = all.iter().map(|object| {
        let mut value = object.value.clone();
        value["metadata"]["uid"] = json!("a");
        if object.is("Deployment") {
            value["spec"]["revisionHistoryLimit"] = json!(10);
        }
        Some(value)
    });
    filled.collect()
}

#[test]
fn everything_is_ours_and_in_an_order_in_which_it_can_be_applied() {
    let all = all(&Wanted::default());
    let ids: BTreeSet<_> = all.iter().map(|o| (o.namespace(), o.id())).collect();
    assert_eq!(ids.len(), all.len());
    for object in &all {
        assert!(ORDER.contains(&object.kind.kind), "{}", object.id());
        assert_eq!(
            object.namespace().is_some(),
            object.kind.namespaced,
            "{}",
            object.id()
        );
        assert!(object.namespace().is_none_or(|space| space == NAMESPACE));
        let labels = &object.value["metadata"]["labels"];
        assert_eq!(labels[LABEL_MANAGED_BY], "covey-cli", "{}", object.id());
        assert_eq!(labels[LABEL_VERSION], VERSION);
        assert!(labels[LABEL_CHART].is_null());
    }
    let place = |id: &str| all.iter().position(|object| object.id() == id).unwrap();
    let (operator, fence) = (
        place("deployment.apps/covey-operator"),
        place(
            "validatingadmissionpolicybinding.admissionregistration.k8s.io/covey-operator-secrets",
        ),
    );
    assert_eq!(place("namespace/covey-system"), 0);
    assert!(
        place("customresourcedefinition.apiextensions.k8s.io/tenantclusters.covey.dev") < fence
    );
    assert!(place("clusterrole.rbac.authorization.k8s.io/covey-operator") < operator);
    assert!(fence < operator);
    // The roles that the bindings name are there.
    for object in all.iter().filter(|o| o.kind.kind.ends_with("RoleBinding")) {
        let role = &object.value["roleRef"];
        let (kind, name) = (
            role["kind"].as_str().unwrap(),
            role["name"].as_str().unwrap(),
        );
        place(&format!(
            "{}.rbac.authorization.k8s.io/{name}",
            kind.to_lowercase()
        ));
    }
}

#[test]
fn flags_change_the_images_the_accounts_and_the_configuration_and_restart_the_pods() {
    let wanted = Wanted {
        image: Some("registry.example.com/covey/operator@sha256:ab".to_owned()),
        config: Some(
            config("registry: registry.example.com\nmanagementApi: {ports: [6443]}\n").unwrap(),
        ),
        pull_secrets: vec!["pull".to_owned()],
    };
    let (usual, all) = (all(&Wanted::default()), all(&wanted));
    for name in ["covey-operator", "covey-webhook"] {
        let id = format!("deployment.apps/{name}");
        let checksum = |all: &[Object]| {
            pick(all, &id)["spec"]["template"]["metadata"]["annotations"][CHECKSUM].clone()
        };
        assert!(checksum(&all).is_string() && checksum(&all) != checksum(&usual));
        assert_eq!(image_of(Some(pick(&all, &id))), wanted.image.as_deref());
        let account = pick(&all, &format!("serviceaccount/{name}"));
        assert_eq!(account["imagePullSecrets"], json!([{"name": "pull"}]));
        assert!(pick(&usual, &format!("serviceaccount/{name}"))["imagePullSecrets"].is_null());
    }
    let text = config_of(Some(pick(&all, "configmap/covey-config"))).unwrap();
    let read: Value = serde_saphyr::from_str(text).unwrap();
    let expected = json!({"registry": "registry.example.com", "operatorNamespace": NAMESPACE,
        "managementApi": {"cidrs": [], "ports": [6443]}});
    assert_eq!(read, expected);
}

#[test]
fn a_configuration_that_only_the_chart_can_install_is_refused() {
    for (text, exit) in [
        (
            "loadBalancers: {addresses: [203.0.113.0/24]}",
            Exit::Refused,
        ),
        ("storage: {hotplug: declarative}", Exit::Refused),
        ("- a", Exit::Usage),
        ("a: [", Exit::Usage),
    ] {
        assert_eq!(config(text).unwrap_err().exit, exit, "{text}");
    }
    // Nobody says where the operator is but the installation.
    let said = config("operatorNamespace: elsewhere").unwrap();
    assert!(
        said.contains(NAMESPACE) && !said.contains("elsewhere"),
        "{said}"
    );
    assert_eq!(config("").unwrap(), config("{}").unwrap());
}

#[test]
fn what_is_as_it_should_be_is_not_written() {
    let wanted = all(&Wanted::default());
    let mut live = live(&wanted);
    let changes = |live: &[Option<Value>]| {
        let pairs = wanted.iter().zip(live);
        let pairs = pairs.map(|(object, live)| (object.id(), change(object, live.as_ref(), "m")));
        let mut changed: Vec<_> = pairs
            .filter(|(_, change)| *change != Change::Nothing)
            .collect();
        changed.pop().filter(|_| changed.is_empty())
    };
    assert_eq!(changes(&live), None);
    let last = wanted.len() - 1;
    live[last] = None;
    assert_eq!(changes(&live), Some((wanted[last].id(), Change::Made)));
    live[last] = Some(wanted[last].value.clone());
    let operator = wanted
        .iter()
        .position(|o| o.is("Deployment") && o.name() == OPERATOR)
        .unwrap();
    live[operator].as_mut().unwrap()["spec"]["replicas"] = json!(0);
    let expected = Change::Changed("spec.replicas".to_owned());
    assert_eq!(changes(&live), Some((wanted[operator].id(), expected)));
    // Written by us once, and not wanted any more.
    live[operator] = Some(wanted[operator].value.clone());
    let fields = json!({"f:spec": {"f:paused": {}}});
    live[operator].as_mut().unwrap()["metadata"]["managedFields"] =
        json!([{"manager": "m", "operation": "Apply", "fieldsV1": fields}]);
    let expected = Change::Changed("spec.paused".to_owned());
    assert_eq!(changes(&live), Some((wanted[operator].id(), expected)));
}

#[test]
fn what_others_installed_and_other_versions_are_left_alone() {
    let (usual, wanted) = (all(&Wanted::default()), Wanted::default());
    let operator = usual
        .iter()
        .position(|o| o.is("Deployment") && o.name() == OPERATOR)
        .unwrap();
    let refused = |pointer: &[&str], value: Value, wanted: &Wanted| {
        let mut live = live(&usual);
        let mut place = live[operator].as_mut().unwrap();
        for key in pointer {
            place = &mut place[*key];
        }
        *place = value;
        let found = refusals(&usual, &live, wanted);
        found
            .into_iter()
            .map(|(what, mend)| what + ": " + &mend)
            .collect::<Vec<_>>()
    };
    assert!(refusals(&usual, &live(&usual), &wanted).is_empty());
    assert!(refusals(&usual, &vec![None; usual.len()], &wanted).is_empty());
    let release = ["metadata", "annotations", RELEASE];
    let said = refused(&release, json!("covey"), &wanted);
    assert!(said[0].contains("helm upgrade covey"), "{said:?}");
    let version = ["metadata", "labels", LABEL_VERSION];
    let said = refused(&version, json!("99.0.0"), &wanted);
    assert!(said[0].contains("take covey 99.0.0"), "{said:?}");
    assert_eq!(refused(&version, json!("main"), &wanted), [] as [&str; 0]);
    let image = ["spec", "template", "spec", "containers"];
    let other = json!([{"name": "operator", "image": "registry.example.com:5000/operator:1"}]);
    let said = refused(&image, other.clone(), &wanted);
    assert!(said.len() == 1 && said[0].contains("`--image`"), "{said:?}");
    let named = Wanted {
        image: Some("x".to_owned()),
        ..Wanted::default()
    };
    assert_eq!(refused(&image, other, &named), [] as [&str; 0]);
    let older = json!([{"name": "operator", "image": "ghcr.io/covey-dev/operator:0.0.9"}]);
    assert_eq!(refused(&image, older, &wanted), [] as [&str; 0]);
    // Definitions stay behind when a release is uninstalled.
    let mut left = vec![None; usual.len()];
    left[1] = Some(json!({"metadata": {"annotations": {RELEASE: "covey"}}}));
    assert!(refusals(&usual, &left, &wanted).is_empty());
}

#[test]
fn images_and_versions_are_taken_apart() {
    for (image, is) in [
        (
            "registry.example.com:5000/a/b:v1",
            "registry.example.com:5000/a/b",
        ),
        (
            "registry.example.com:5000/a/b",
            "registry.example.com:5000/a/b",
        ),
        ("a/b:v1@sha256:ab", "a/b"),
        ("a/b@sha256:ab", "a/b"),
    ] {
        assert_eq!(repository(image), is);
    }
    assert_eq!(parts("v0.12.3-rc.1"), Some((0, 12, 3)));
    assert_eq!(parts("main"), None);
}
