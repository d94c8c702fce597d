//! Everything that exists for one TenantCluster, made comparable with that of another one.
//!
//! Invariant: what differs from one run to the next by nature (UIDs, times, keys, addresses given
//! by the server, names of namespaces) is masked; everything else is kept, fields of others too.

use std::collections::BTreeMap;

use anyhow::Result;
use api::TenantCluster;
use kit_objects::kinds::{self, Kind};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use testkit::difference;

use super::Site;
use super::site::tenant_namespace;

/// What may be in a tenant namespace.
pub(crate) const PARTS: [Kind; 10] = [
    kinds::SECRET,
    kinds::CONFIG_MAP,
    kinds::SERVICE,
    kinds::SERVICE_ACCOUNT,
    kinds::PERSISTENT_VOLUME_CLAIM,
    kinds::STATEFUL_SET,
    kinds::DEPLOYMENT,
    kinds::NETWORK_POLICY,
    kinds::POD_DISRUPTION_BUDGET,
    kinds::ROLE_BINDING,
];

/// Objects by `Kind namespace/name`, with namespaces masked.
pub(crate) type State = BTreeMap<String, Value>;

impl Site {
    /// Every object of the tenant namespace, and the namespace.
    pub(crate) async fn parts(
        &self,
        cluster: &TenantCluster,
    ) -> Result<Vec<(Kind, DynamicObject)>> {
        let ns = tenant_namespace(cluster);
        let mut found = Vec::new();
        if let Some(namespace) = self.objects(kinds::NAMESPACE, "").get_opt(&ns).await? {
            found.push((kinds::NAMESPACE, namespace));
        }
        for kind in PARTS {
            found.extend(self.list(kind, &ns).await?);
        }
        Ok(found)
    }

    /// Ours in the user's namespace: the kubeconfig and the binding.
    pub(crate) async fn user_parts(&self) -> Result<Vec<(Kind, DynamicObject)>> {
        let mut found = self.list(kinds::SECRET, &self.users).await?;
        found.extend(self.list(kinds::ROLE_BINDING, &self.users).await?);
        Ok(found)
    }

    async fn list(&self, kind: Kind, namespace: &str) -> Result<Vec<(Kind, DynamicObject)>> {
        let list = self
            .objects(kind, namespace)
            .list(&ListParams::default())
            .await?;
        Ok(list
            .items
            .into_iter()
            .map(|object| (kind, object))
            .collect())
    }

    /// Everything about one TenantCluster, masked.
    pub(crate) async fn state(&self, name: &str) -> Result<State> {
        let (masks, objects) = self.look(name).await?;
        Ok(objects
            .iter()
            .map(|(kind, object)| masks.masked(*kind, object))
            .collect())
    }

    /// Every object of one TenantCluster, itself included, and how to mask them.
    pub(crate) async fn look(&self, name: &str) -> Result<(Masks, Vec<(Kind, DynamicObject)>)> {
        let cluster = self.clusters().get(name).await?;
        let mut objects = self.parts(&cluster).await?;
        objects.extend(self.user_parts().await?);
        let own = self.objects(kinds::TENANT_CLUSTER, &self.users);
        objects.push((kinds::TENANT_CLUSTER, own.get(name).await?));
        let mut masks = vec![
            (cluster.uid().unwrap_or_default(), "<uid>".to_owned()),
            (tenant_namespace(&cluster), "<tenant>".to_owned()),
            (self.system.clone(), "<system>".to_owned()),
            (self.users.clone(), "<users>".to_owned()),
            (name.to_owned(), "<name>".to_owned()),
        ];
        for (_, object) in objects.iter().filter(|(kind, _)| *kind == kinds::SERVICE) {
            let address = object.data["spec"]["clusterIP"].as_str();
            if let Some(address) = address.filter(|address| *address != "None") {
                let name = object.name_any();
                masks.push((format!("\"{address}\""), format!("\"<address of {name}>\"")));
                masks.push((format!("={address}\""), format!("=<address of {name}>\"")));
            }
        }
        Ok((Masks(masks), objects))
    }

    /// Names of tenant namespaces whose TenantCluster is (or was) in this site.
    pub(crate) async fn tenant_namespaces(&self) -> Result<Vec<String>> {
        let label = format!("{}={}", api::names::LABEL_TENANT_NAMESPACE, self.users);
        let params = ListParams::default().labels(&label);
        let list = self.objects(kinds::NAMESPACE, "").list(&params).await?;
        Ok(list.items.iter().map(ResourceExt::name_any).collect())
    }
}

/// Texts that differ by nature, and what stands for them.
pub(crate) struct Masks(Vec<(String, String)>);

impl Masks {
    /// What is replaced first comes first.
    pub(crate) fn new(masks: Vec<(String, String)>) -> Self {
        Self(
            masks
                .into_iter()
                .filter(|(from, _)| !from.is_empty())
                .collect(),
        )
    }

    /// Key and content of an object.
    pub(crate) fn masked(&self, kind: Kind, object: &DynamicObject) -> (String, Value) {
        let mask = |text: &str| {
            self.0
                .iter()
                .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
        };
        let place = object.namespace().unwrap_or_default();
        let key = mask(&format!("{} {place}/{}", kind.kind, object.name_any()));
        let text = mask(&plain(kind, object).to_string());
        (
            key,
            serde_json::from_str(&text).expect("invariant: masks keep JSON what it is"),
        )
    }
}

/// The object without what differs by nature.
fn plain(kind: Kind, object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Lists leave them out.
    value["apiVersion"] = json!(kind.api_version());
    value["kind"] = json!(kind.kind);
    if let Some(meta) = value["metadata"].as_object_mut() {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            meta.remove(key);
        }
        // Hashes of what is masked.
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(kit_objects::object::ANNOTATION_HASH);
        }
        for owner in meta
            .get_mut("ownerReferences")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            owner["uid"] = json!("<owner>");
        }
    }
    if kind == kinds::SECRET {
        let data = value["data"].as_object().into_iter().flatten();
        value["data"] = data.map(|(key, _)| json!(key)).collect();
    }
    mask_times(&mut value);
    value
}

fn mask_times(value: &mut Value) {
    const BY_NATURE: [&str; 13] = [
        "covey.dev/authority-hash",
        "covey.dev/certificate-hash",
        "covey.dev/keys-hash",
        "covey.dev/konnectivity-certificate-hash",
        // Of the one before, too.
        kit_objects::object::ANNOTATION_TEMPLATE_HASH,
        "rollout",
        "lastTransitionTime",
        "notAfter",
        "observedGeneration",
        "bootstrapHash",
        "volumeUID",
        "currentRevision",
        "updateRevision",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !BY_NATURE.contains(&key.as_str()));
            map.values_mut().for_each(mask_times);
        }
        Value::Array(list) => list.iter_mut().for_each(mask_times),
        _ => {}
    }
}

/// What is different, for the message of a failed test.
pub(crate) fn differences(wanted: &State, found: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for key in wanted
        .keys()
        .chain(found.keys().filter(|key| !wanted.contains_key(*key)))
    {
        match (wanted.get(key), found.get(key)) {
            (Some(_), None) => lines.push(format!("{key} is missing")),
            (None, Some(_)) => lines.push(format!("{key} is too much")),
            (Some(a), Some(b)) => difference::each(key, a, b, &mut |path, a, b| {
                lines.push(format!("{path}: wanted {a}, found {b}"));
            }),
            (None, None) => {}
        }
    }
    lines
}
