//! Volumes of etcd's members: what they hold now, and that they grow.
//!
//! Growing is a part of its own: a StorageClass that lets no volume grow refuses it, and nothing else of a
//! tenant cluster may wait for that.
//! Invariant: no claim is asked for less than it was before, and etcd never takes a volume to be larger than
//! it is.

use std::cmp::Ordering;

use api::Reason;
use kit_objects::known::Known;
use kit_objects::object::Object;
use kit_objects::quantity::billionths;
use serde_json::{Value, json};
use tenant_cp::{Validated, names};

use super::super::types::Part;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

/// Where a claim says what it asks for.
const REQUEST: &str = "/spec/resources/requests/storage";
/// Where a claim says of which class it is.
const CLASS: &str = "/spec/storageClassName";
/// Where a claim says which PersistentVolume it has.
const VOLUME: &str = "/spec/volumeName";
/// Where a claim says what it holds.
const CAPACITY: &str = "/status/capacity/storage";

fn claim<'a>(observed: &'a Observed, name: &str) -> Known<&'a Value> {
    observed.find("PersistentVolumeClaim", &observed.tenant_namespace(), name)
}

fn text<'a>(claim: &'a Value, pointer: &str) -> Option<&'a str> {
    claim.pointer(pointer)?.as_str()
}

/// What the claim of a member asks for; none where that is not known.
pub(in super::super) fn request(observed: &Observed, member: &str) -> Option<String> {
    let claim = claim(observed, &names::volume_of(member)).there()?;
    text(claim, REQUEST).map(str::to_owned)
}

/// The PersistentVolume of the claim of a member; none where it has none, or that is not known.
pub(in super::super) fn bound_to(observed: &Observed, member: &str) -> Option<String> {
    let claim = claim(observed, &names::volume_of(member)).there()?;
    text(claim, VOLUME).map(str::to_owned)
}

/// The tenant cluster as its etcd may see it, where that is another than what is asked for: with volumes of
/// the size that the smallest of them has.
pub(in super::super) fn smaller(valid: &Validated, observed: &Observed) -> Option<Validated> {
    let asked = billionths(&valid.etcd.storage_size);
    let held = (0..valid.etcd.replicas).filter_map(|member| {
        let claim = claim(observed, &names::etcd_volume(member)).there()?;
        let held = text(claim, CAPACITY).or_else(|| text(claim, REQUEST))?;
        Some((billionths(held)?, held.to_owned()))
    });
    let (_, held) = held
        .min()
        .filter(|(held, _)| asked.is_some_and(|asked| *held < asked))?;
    Some(Validated {
        etcd: valid.etcd.within(&held),
        ..valid.clone()
    })
}

/// Claims as they may be written beside everything else: one that is there keeps its size and its class.
pub(super) fn keeping_their_size(objects: Vec<Object>, observed: &Observed) -> Vec<Object> {
    let keep = |object: Object| {
        let live = claim(observed, &object.name).there();
        let Some(live) = live.filter(|_| object.kind == "PersistentVolumeClaim") else {
            return object;
        };
        let object = with_class_of(object, live);
        match text(live, REQUEST) {
            Some(size) => with_request(object, size),
            None => object,
        }
    };
    objects.into_iter().map(keep).collect()
}

/// The StatefulSet with size and class in its templates of claims that it was made with, which cannot be changed.
/// Hashes stay those of what is wanted.
pub(super) fn keeping_their_template(mut members: Object, observed: &Observed) -> Object {
    const TEMPLATES: &str = "/spec/volumeClaimTemplates";
    let live = observed.objects.get(&members.key());
    let live = live.and_then(|live| live.pointer(TEMPLATES));
    if let (Some(wanted), Some(live)) = (members.value.pointer_mut(TEMPLATES), live) {
        keep_requests(wanted, live);
    }
    members
}

fn keep_requests(templates: &mut Value, live: &Value) {
    let live = live.as_array().into_iter().flatten();
    let templates = templates.as_array_mut().into_iter().flatten();
    for (template, live) in templates.zip(live) {
        if let Some(size) = text(live, REQUEST) {
            template["spec"]["resources"]["requests"]["storage"] = json!(size);
        }
        keep_class(template, live);
    }
}

/// A claim's class cannot be changed, nor a StatefulSet's.
fn keep_class(wanted: &mut Value, live: &Value) {
    let Some(spec) = wanted["spec"].as_object_mut() else {
        return;
    };
    match text(live, CLASS) {
        // What the default gave it is not ours to say.
        Some(class) if spec.contains_key("storageClassName") => {
            spec.insert("storageClassName".to_owned(), json!(class));
        }
        Some(_) => {}
        None => {
            spec.remove("storageClassName");
        }
    }
}

fn with_class_of(object: Object, live: &Value) -> Object {
    if text(&object.value, CLASS) == text(live, CLASS) {
        return object;
    }
    let mut value = object.value;
    keep_class(&mut value, live);
    Object::from_value(value)
}

fn with_request(object: Object, size: &str) -> Object {
    if text(&object.value, REQUEST) == Some(size) {
        return object;
    }
    let mut value = object.value;
    value["spec"]["resources"]["requests"]["storage"] = json!(size);
    Object::from_value(value)
}

/// What makes claims that are there larger, and says so where they are larger than asked for.
pub(in super::super) fn plan(valid: &Validated, observed: &Observed, claims: Vec<Object>) -> Part {
    let mut part = Part::new(PartName::EtcdVolumes);
    let asked = billionths(&valid.etcd.storage_size);
    let (mut grow, mut larger) = (Vec::new(), None);
    for object in claims {
        let Some(live) = claim(observed, &object.name).there() else {
            continue;
        };
        let Some(request) = text(live, REQUEST) else {
            continue;
        };
        match billionths(request).cmp(&asked) {
            Ordering::Less => grow.push(with_class_of(object, live)),
            Ordering::Greater => larger = Some(request.to_owned()),
            Ordering::Equal => {}
        }
    }
    part.apply("larger volumes of etcd", observed, grow);
    part.problem = larger.map(|request| Waiting {
        reason: Reason::StorageShrinks,
        message: format!(
            "spec.etcd.storage.size: {} is less than {request}, which etcd's volumes were given: volumes \
             cannot shrink; set it to {request} or more",
            valid.etcd.storage_size
        ),
    });
    part
}
