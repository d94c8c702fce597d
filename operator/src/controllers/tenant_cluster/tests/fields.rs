//! Every field is set, set wrong, and set back: the same spec ends in the same objects, whatever was before.
//!
//! The fields and their values are out of the schema ([`fields`](crate::controllers::fields)), so a field
//! that is added is among them, or fails here.
//! Invariant: of what was observed only keys, certificates and what the simulated cluster numbers itself are
//! left out of a comparison.

use std::cell::RefCell;

use api::TenantCluster;
use tenant_cp::validate;

use super::*;
use crate::controllers::fields::{Schema, differences, each};

/// A value where the one of the documentation is abridged, or is what every base has.
pub(super) fn value(schema: &Schema, path: &str, authority: &str) -> Value {
    match path {
        "version" => json!("1.35.5"),
        "nodes.trustedCAs" => json!([authority]),
        _ if path.ends_with(".certificateAuthority") => json!(authority),
        _ => schema.example(path),
    }
}

/// What a field is for some tenant clusters only.
pub(super) fn base(path: &str) -> Value {
    let mut base = minimal();
    let endpoint = path.strip_prefix("controlPlane.endpoint.");
    match endpoint {
        Some(
            "allocateLoadBalancerNodePorts"
            | "externalTrafficPolicy"
            | "konnectivityPort"
            | "loadBalancerClass"
            | "sourceRanges",
        ) => base["controlPlane"] = json!({ "endpoint": { "type": "LoadBalancer" } }),
        _ if path == "nodes.proxy.noProxy" => {
            base["nodes"] = json!({ "proxy": { "https": "http://proxy.example.com:3128" } });
        }
        _ if path.starts_with("addons.cloudController.") => {
            base["addons"] = json!({ "cloudController": { "enabled": true } });
        }
        _ if path.starts_with("addons.csi.") => {
            base["addons"] = json!({ "csi": { "enabled": true } });
        }
        _ if path.starts_with("addons.overlay.") => {
            let on = path != "addons.overlay.enabled";
            base["addons"] = json!({ "overlay": { "enabled": on, "cidr": "198.19.0.0/16" } });
        }
        _ if path.starts_with("addons.autoscaler.") => {
            base["addons"] = json!({ "autoscaler": { "enabled": true } });
        }
        _ => {}
    }
    base
}

/// What may be set back only while nothing followed it.
const GROWS_ONLY: &str = "etcd.storage.size";

/// Where none is named any will do, and the one stays that was named before.
const STAYS: &str = "etcd.storage.storageClassName";

/// What begins a rotation: whoever says nothing of it any more has what signs by then.
const TURNS: [&str; 23] = [
    "rotation",
    "rotation.clientCA",
    "rotation.clientCA.complete",
    "rotation.clientCA.generation",
    "rotation.clientCA.nodes",
    "rotation.clusterCA",
    "rotation.clusterCA.complete",
    "rotation.clusterCA.compromised",
    "rotation.clusterCA.generation",
    "rotation.clusterCA.nodes",
    "rotation.encryptionKeys",
    "rotation.encryptionKeys.generation",
    "rotation.frontProxyCA",
    "rotation.frontProxyCA.complete",
    "rotation.frontProxyCA.generation",
    "rotation.kubeconfig",
    "rotation.kubeconfig.generation",
    "rotation.serviceAccountKeys",
    "rotation.serviceAccountKeys.complete",
    "rotation.serviceAccountKeys.generation",
    "rotation.usersCA",
    "rotation.usersCA.complete",
    "rotation.usersCA.generation",
];

/// Texts that may be anything, because each is written as a value into a file of JSON, or into an object.
const FREE: [&str; 9] = [
    "controlPlane.authentication.issuers[].audiences",
    "controlPlane.authentication.issuers[].groupsClaim",
    "controlPlane.authentication.issuers[].groupsPrefix",
    "controlPlane.authentication.issuers[].requiredClaims",
    "controlPlane.authentication.issuers[].usernameClaim",
    "controlPlane.authentication.issuers[].usernamePrefix",
    "controlPlane.endpoint.annotations",
    "controlPlane.podMetadata.annotations",
    "etcd.podMetadata.annotations",
];

/// A platform that lets users choose what the documentation shows.
fn generous() -> Settings {
    let settings = json!({
        "allowedRegistries": ["mirror.example.com"],
        "endpoint": {
            "annotations": ["metallb.io/"], "labels": ["example.com/"], "classes": ["example.com/internal"],
        },
        "loadBalancers": {
            "annotations": ["metallb.io/"], "addresses": ["203.0.113.0/24"], "classes": ["example.com/internal"],
            "labels": ["example.com/"],
        },
        "apiServer": {
            "auditWebhook": true, "authorizationWebhooks": true,
            "featureGates": ["HPAScaleToZero"], "runtimeConfig": ["resource.k8s.io/v1beta2"],
        },
        "encryption": { "kms": [{ "name": "vault", "image": "registry.example.com/vault:v1" }] },
        "etcdStorageClasses": ["fast"],
        "storage": { "classes": [{ "name": "fast", "storageClass": "ceph", "default": true }] },
        "tenantPods": { "allowed": {
            "nodeLabels": ["topology.kubernetes.io/zone"], "taints": ["example.com/control-planes"],
            "priorityClasses": ["tenants-gold"], "runtimeClasses": ["gvisor"],
            "podLabels": ["example.com/"], "podAnnotations": ["example.com/"],
        } },
    });
    serde_json::from_value(settings).unwrap()
}

pub(super) fn world(spec: &Value) -> World {
    let mut world = World::new(spec.clone());
    world.settings = generous();
    come_to_rest(&mut world);
    world
}

fn come_to_rest(world: &mut World) {
    world.settle();
    if world.cluster.spec.control_plane.endpoint.type_
        == api::tenant_cluster::EndpointType::LoadBalancer
    {
        world.give_address();
        world.settle();
    }
}

fn change(world: &mut World, spec: &TenantCluster) {
    world.cluster.spec = spec.spec.clone();
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    come_to_rest(world);
    etcd_sizes::play(world);
    come_to_rest(world);
}

/// The world's TenantCluster with another spec; none where it could not be read.
fn with_spec(world: &World, spec: &Value) -> Option<TenantCluster> {
    let mut object = serde_json::to_value(&world.cluster).unwrap();
    object["spec"] = spec.clone();
    serde_json::from_value(object).ok()
}

fn said(old: Option<&TenantCluster>, new: &TenantCluster) -> Vec<String> {
    let nobody: [TenantCluster; 0] = [];
    let problems = validate::admit(old, new, &nobody, &generous());
    problems.iter().map(ToString::to_string).collect()
}

/// What is asked for, outside and inside.
fn rendered(world: &World) -> BTreeMap<String, Value> {
    let outside = world
        .objects
        .iter()
        .map(|(key, live)| (format!("outside {key}"), live));
    let inside = world
        .inside
        .iter()
        .map(|(key, live)| (format!("inside {key}"), live));
    outside
        .chain(inside)
        .map(|(key, live)| (key, plain(live)))
        .collect()
}

/// What hashes are made of is compared itself.
const HASHES: [&str; 7] = [
    "authority-hash",
    "certificate-hash",
    "covey.dev/hash",
    "files-hash",
    "keys-hash",
    "replaced-until",
    "template-hash",
];

pub(super) fn plain(live: &Value) -> Value {
    let mut plain = live.clone();
    if live["kind"] == "Secret" {
        // What once was encrypted may come back with a Restore.
        if let Some(data) = plain["data"].as_object_mut() {
            data.remove(tenant_cp::names::ENCRYPTED_KINDS);
        }
        for (file, content) in plain["data"].as_object_mut().into_iter().flatten() {
            let configured = file.ends_with(".yaml") && file != "encryption.yaml";
            if !configured {
                *content = Value::Null;
            }
        }
    }
    let object = plain.as_object_mut().unwrap();
    object.remove("status");
    object.remove("hash");
    for numbered in ["generation", "managedFields", "resourceVersion"] {
        object["metadata"].as_object_mut().unwrap().remove(numbered);
    }
    without_keys(&mut plain);
    // What a StatefulSet would make a claim of cannot be changed, and stays as it was at first.
    if let Some(claim) = plain.pointer_mut("/spec/volumeClaimTemplates/0/spec") {
        claim["resources"] = Value::Null;
    }
    plain
}

/// Without certificates, and without hashes that they are in.
fn without_keys(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !HASHES.iter().any(|end| key.ends_with(end)));
            map.values_mut().for_each(without_keys);
        }
        Value::Array(list) => list.iter_mut().for_each(without_keys),
        Value::String(text) if has_certificates(text) => *text = "certificates".to_owned(),
        _ => {}
    }
}

fn has_certificates(text: &str) -> bool {
    text.contains("BEGIN CERTIFICATE") || text.contains("certificate-authority-data")
}

fn without_classes(rendered: &mut BTreeMap<String, Value>) {
    for live in rendered.values_mut() {
        for claim in ["/spec", "/spec/volumeClaimTemplates/0/spec"] {
            if let Some(Value::Object(claim)) = live.pointer_mut(claim) {
                claim.remove("storageClassName");
            }
        }
    }
}

/// What no plan deletes inside.
const STAY: [&str; 2] = ["inside CustomResourceDefinition ", "inside Namespace "];

#[track_caller]
fn same(path: &str, when: &str, found: &BTreeMap<String, Value>, wanted: &BTreeMap<String, Value>) {
    let more = |some: &BTreeMap<String, Value>, others: &BTreeMap<String, Value>| -> Vec<String> {
        let more = some.keys().filter(|key| !others.contains_key(*key));
        more.cloned().collect()
    };
    // With a namespace, and with a kind, what users put there would go.
    let mut many = more(found, wanted);
    many.retain(|key| !STAY.iter().any(|kind| key.starts_with(kind)));
    let odd = (many, more(wanted, found));
    assert_eq!(
        odd,
        (Vec::new(), Vec::new()),
        "{path}, {when}: too many and too few"
    );
    for (key, found) in found.iter().filter(|(key, _)| wanted.contains_key(*key)) {
        let differences = differences(found, &wanted[key]);
        assert_eq!(differences, [""; 0], "{path}, {when}: {key}");
    }
}

/// What Ready says of it at rest: who sleeps is not.
fn readiness(world: &World) -> &'static str {
    match world.cluster.spec.hibernation.enabled {
        true => "False",
        false => "True",
    }
}

/// What runs is at its newest templates and says so.
#[track_caller]
fn is_well(world: &World, path: &str, when: &str) {
    let (ready, wanted) = (world.condition("Ready").0, readiness(world));
    assert_eq!(ready, wanted, "{path}, {when}");
    assert_eq!(
        world.condition("Degraded"),
        ("False".to_owned(), "AsExpected".to_owned()),
        "{path}, {when}"
    );
    for key in world.pods.keys() {
        assert!(world.is_newest(&key.name), "{path}, {when}: {key}");
    }
}

/// A change that leads to where nobody may go is refused, and if nobody refuses it, changes nothing.
fn mistakes_change_nothing(schema: &Schema, world: &mut World, path: &str, valid: &Value) {
    let before = rendered(world);
    for (what, wrong) in schema.mistakes(path) {
        let when = format!(
            "{what}: {}",
            wrong.to_string().chars().take(80).collect::<String>()
        );
        let spec = schema.with(valid, path, &wrong);
        let refused = schema.refusal(&spec);
        let Some(new) = with_spec(world, &spec) else {
            assert!(
                refused.is_some(),
                "{path}, {when}: nobody refuses what cannot be read"
            );
            continue;
        };
        let problems = said(Some(&world.cluster), &new);
        let is_free = what.starts_with("hostile") && FREE.contains(&path);
        assert!(
            is_free || refused.is_some() || !problems.is_empty(),
            "{path}, {when}: it is let in"
        );
        for problem in &problems {
            let mends = [": ", "; "]
                .iter()
                .any(|sign| problem.matches(sign).count() > 0);
            assert!(
                mends,
                "{path}, {when}: \"{problem}\" says not how to mend it"
            );
        }
        if refused.is_some() {
            continue;
        }
        // As it is while the webhook is away.
        let builds = validate::validate(&new, &world.settings).is_ok();
        change(world, &new);
        let (ready, wanted) = (world.condition("Ready").0, readiness(world));
        assert_eq!(ready, wanted, "{path}, {when}");
        if !builds {
            assert_eq!(world.condition("Degraded").0, "True", "{path}, {when}");
            same(path, &when, &rendered(world), &before);
        }
        let valid = with_spec(world, valid).unwrap();
        change(world, &valid);
        same(
            path,
            &format!("back from {when}"),
            &rendered(world),
            &before,
        );
    }
}

/// Worlds at rest, by their spec: what one field begins with many do.
type Bases = RefCell<BTreeMap<String, World>>;

/// In parts, because each takes some tens of seconds.
fn same_spec_ends_in_the_same_objects(part: impl Fn(&str) -> bool) {
    let schema = Schema::of("TenantCluster");
    let authority = base64_of(&ready(minimal()), "ca", "ca.crt");
    let bases = Bases::default();
    each(&schema, |path| {
        if part(path) {
            one_field(&schema, path, &authority, &bases);
        }
    });
}

#[test]
fn same_control_plane_ends_in_the_same_objects_whatever_was_before() {
    same_spec_ends_in_the_same_objects(|path| path.starts_with("controlPlane"));
}

#[test]
fn same_addons_and_nodes_end_in_the_same_objects_whatever_was_before() {
    same_spec_ends_in_the_same_objects(|path| !path.starts_with("controlPlane"));
}

fn one_field(schema: &Schema, path: &str, authority: &str, bases: &Bases) {
    let base = base(path);
    let value = value(schema, path, authority);
    let valid = schema.with(&base, path, &value);
    assert_eq!(
        schema.refusal(&valid),
        None,
        "{path}: its Example: is refused"
    );
    let new = with_spec(&World::new(base.clone()), &valid);
    let new = new.unwrap_or_else(|| panic!("{path}: its Example: cannot be read"));
    assert_eq!(said(None, &new), [""; 0], "{path}: its Example: is refused");
    let asked_first = world(&valid);
    if ["paused", "etcd.bootstrap", "etcd.copyOf"].contains(&path) {
        return; // nothing is made, or not before it is brought
    }
    is_well(&asked_first, path, "asked for at first");
    let frozen = schema.fields().into_iter().find(|field| {
        let inner = field.strip_prefix(&format!("{path}."));
        let is_set = inner.is_some_and(|inner| {
            let pointer = format!("/{}", inner.replace('.', "/"));
            value.pointer(&pointer).is_some()
        });
        (field == path || is_set) && schema.unchangeable(field).is_some()
    });
    if let Some(field) = frozen {
        let sentence = schema.unchangeable(&field).unwrap();
        assert!(
            sentence.contains("; "),
            "{field}: \"{sentence}\" says not what to do"
        );
        return;
    }
    let kept = bases.borrow().get(&base.to_string()).cloned();
    let mut world = kept.unwrap_or_else(|| world(&base));
    bases.borrow_mut().insert(base.to_string(), world.clone());
    let wanted = rendered(&world);
    let new = with_spec(&world, &valid).unwrap();
    assert_eq!(said(Some(&world.cluster), &new), [""; 0], "{path}");
    change(&mut world, &new);
    is_well(&world, path, "set");
    same(
        path,
        "set later",
        &rendered(&world),
        &rendered(&asked_first),
    );
    mistakes_change_nothing(schema, &mut world, path, &valid);
    let old = with_spec(&world, &base).unwrap();
    let back = said(Some(&world.cluster), &old);
    // What is around it is set with it.
    if GROWS_ONLY.starts_with(path) {
        let is_told = |sentence: &String| sentence.contains("cannot shrink; keep");
        assert!(back.len() == 1 && back.iter().all(is_told), "{back:?}");
        return;
    }
    assert_eq!(back, [""; 0], "{path}, back");
    change(&mut world, &old);
    is_well(&world, path, "set back");
    if TURNS.contains(&path) {
        same(
            path,
            "no more said",
            &rendered(&world),
            &rendered(&asked_first),
        );
        return;
    }
    let (mut found, mut wanted) = (rendered(&world), wanted);
    if path == STAYS {
        without_classes(&mut found);
        without_classes(&mut wanted);
    }
    same(path, "set back", &found, &wanted);
}

/// What a file of a Secret holds.
pub(super) fn base64_of(world: &World, secret: &str, file: &str) -> String {
    let content = world.secret(secret).unwrap()["data"][file]
        .as_str()
        .unwrap();
    let content = base64::engine::general_purpose::STANDARD.decode(content);
    String::from_utf8(content.unwrap()).unwrap()
}

#[test]
fn pausing_changes_nothing() {
    let mut world = world(&minimal());
    let before = rendered(&world);
    for paused in [true, false] {
        let mut other = world.cluster.clone();
        other.spec.paused = paused;
        change(&mut world, &other);
        same("paused", &paused.to_string(), &rendered(&world), &before);
    }
    is_well(&world, "paused", "no more");
}
