//! Whose an object is, and that nobody is woken by what anybody may write.

use kube::runtime::reflector;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::*;

const UID: &str = "0a1b2c3d-4000-4000-8000-000000000000";
const TENANT_NAMESPACE: &str = "covey-demo-0a1b2c3d40";

fn cluster(namespace: &str, name: &str, uid: &str) -> TenantCluster {
    let mut cluster = TenantCluster::new(name, Default::default());
    cluster.metadata.namespace = Some(namespace.to_owned());
    cluster.metadata.uid = Some(uid.to_owned());
    cluster
}

fn clusters() -> Store<TenantCluster> {
    let (store, mut writer) = reflector::store();
    for cluster in [cluster("team", "demo", UID), cluster("team", "other", "u2")] {
        writer.apply_watcher_event(&Event::Apply(cluster));
    }
    store
}

fn meta(namespace: Option<&str>, name: &str, labels: &Value) -> ObjectMeta {
    let meta = json!({ "namespace": namespace, "name": name, "labels": labels });
    serde_json::from_value(meta).unwrap()
}

fn labels() -> Value {
    json!({ LABEL_TENANT_NAME: "demo", LABEL_TENANT_NAMESPACE: "team", LABEL_TENANT_UID: UID })
}

#[test]
fn what_lies_in_a_tenant_namespace_wakes_its_tenant_cluster() {
    let demo = Some(ObjectRef::new("demo").within("team"));
    for object in [
        meta(Some(TENANT_NAMESPACE), "etcd", &labels()),
        meta(None, TENANT_NAMESPACE, &labels()),
        meta(Some("team"), "covey-autoscaler-demo", &labels()),
    ] {
        assert_eq!(owner(&object, &clusters()), demo, "{object:?}");
    }
}

#[test]
fn foreign_labels_wake_nobody() {
    let with = |key: &str, value: &str| {
        let mut labels = labels();
        labels[key] = json!(value);
        labels
    };
    let without = |key: &str| {
        let mut labels = labels();
        labels.as_object_mut().unwrap().remove(key);
        labels
    };
    for object in [
        // Elsewhere, the user's own namespace included.
        meta(Some("elsewhere"), "etcd", &labels()),
        meta(Some("team"), "etcd", &labels()),
        meta(Some("elsewhere"), "covey-autoscaler-demo", &labels()),
        meta(None, "covey-demo-0000000000", &labels()),
        // In a namespace that is made to look like one of it.
        meta(
            Some("covey-demo-ffffffffff"),
            "etcd",
            &with(LABEL_TENANT_UID, "ffffffffff"),
        ),
        meta(
            Some("covey-other-0a1b2c3d40"),
            "etcd",
            &with(LABEL_TENANT_NAME, "other"),
        ),
        meta(
            Some(TENANT_NAMESPACE),
            "etcd",
            &with(LABEL_TENANT_NAMESPACE, "elsewhere"),
        ),
        meta(Some(TENANT_NAMESPACE), "etcd", &without(LABEL_TENANT_UID)),
        meta(Some(TENANT_NAMESPACE), "etcd", &json!({})),
    ] {
        assert_eq!(owner(&object, &clusters()), None, "{object:?}");
    }
}

#[test]
fn binding_of_the_operator_wakes_all_that_work_by_it() {
    let all = clusters().state();
    let names = |namespace: &str| {
        let users = users_of_binding(namespace, &all);
        let mut names: Vec<_> = users.iter().map(|user| user.name_any()).collect();
        names.sort();
        names
    };
    assert_eq!(names("team"), ["demo", "other"]);
    assert_eq!(names(TENANT_NAMESPACE), ["demo"]);
    assert!(names("elsewhere").is_empty());
}

/// Bench `neighbours`: each TenantCluster that came to a namespace had all others there read, which took all
/// requests of the operator.
#[test]
fn who_comes_to_a_namespace_wakes_no_other_there() {
    let settings = Settings::default();
    let all = clusters().state();
    let (demo, other) = (by_name(&all, "demo"), by_name(&all, "other"));
    let wanted = tenant_cp::desired::tenant_namespace::user_binding("team", &settings);
    let mut binding: RoleBinding = serde_json::from_value(wanted.value).unwrap();
    let owner = |cluster: &TenantCluster| cluster.owner_ref(&()).unwrap();
    binding.metadata.owner_references = Some(vec![owner(demo), owner(other)]);
    let looks =
        |user, binding: &RoleBinding| has_to_look(user, binding, is_whole(binding, &settings));
    assert!(!looks(demo, &binding) && !looks(other, &binding));

    let mut less = binding.clone();
    less.metadata.owner_references = Some(vec![owner(demo)]);
    assert!(
        !looks(demo, &less) && looks(other, &less),
        "whose part is lost"
    );
    let mut spoilt = binding.clone();
    spoilt.subjects = None;
    assert!(looks(demo, &spoilt));
    let mut more = binding.clone();
    let mut subject = more.subjects.clone().unwrap().remove(0);
    subject.name = "somebody".to_owned();
    more.subjects.as_mut().unwrap().push(subject);
    assert!(looks(demo, &more));
    let mut unmarked = binding.clone();
    unmarked.metadata.labels = None;
    assert!(looks(demo, &unmarked));
    // Its own, in the tenant namespace.
    binding.metadata.namespace = Some(TENANT_NAMESPACE.to_owned());
    assert!(looks(demo, &binding));
}

fn by_name<'a>(all: &'a [Arc<TenantCluster>], name: &str) -> &'a TenantCluster {
    all.iter()
        .find(|cluster| cluster.name_any() == name)
        .unwrap()
}
