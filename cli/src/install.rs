//! What `covey up` applies: the chart with its defaults and the few values that have flags; and what of it has to be
//! written.
//!
//! Invariant: pure. The objects are those that helm renders: tests of the chart compare the golden files with it, and
//! definitions are those that the chart's are generated from.

use kit_objects::difference::{difference, stale_field};
use kit_objects::kinds::{self, Kind};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::exit::{Exit, Failure};

const OBJECTS: &str = include_str!("../../deploy/tests/golden/defaults.yaml");
const ROLES: &str = include_str!("../../deploy/tests/golden/roles.yaml");

/// Where it is installed; the golden files name it everywhere.
pub(crate) const NAMESPACE: &str = "covey-system";
/// The version that is installed.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Name of the operator's Deployment.
pub(crate) const OPERATOR: &str = "covey-operator";

const CONFIG_MAP: &str = "covey-config";
const CONFIG_FILE: &str = "config.yaml";
const LABEL_VERSION: &str = "app.kubernetes.io/version";
const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const LABEL_CHART: &str = "helm.sh/chart";
/// Restarts pods when the configuration changes.
const CHECKSUM: &str = "covey.dev/config-checksum";
/// What helm writes on objects of a release.
const RELEASE: &str = "meta.helm.sh/release-name";
/// What the configuration has that changes other objects of the chart, too.
const OF_THE_CHART: [&str; 2] = ["/loadBalancers", "/storage/hotplug"];

/// In this order: what others need comes first, and the fence of admission policies stands before the operator runs.
const ORDER: [&str; 15] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "Service",
    "Deployment",
    "ValidatingWebhookConfiguration",
];

/// What is ours, by its labels.
pub(crate) const SELECTOR: &str =
    "app.kubernetes.io/managed-by=covey-cli,app.kubernetes.io/part-of=covey";

/// The kinds of all objects but definitions, in the order in which they are applied.
pub(crate) fn kinds() -> Vec<Kind> {
    let of_name = |name: &&str| kinds::ALL.iter().find(|kind| kind.kind == *name).copied();
    let all = ORDER
        .iter()
        .filter(|kind| **kind != "CustomResourceDefinition");
    all.filter_map(of_name).collect()
}

/// What flags say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Image of operator and webhook.
    pub(crate) image: Option<String>,
    /// The whole text of the operator's configuration.
    pub(crate) config: Option<String>,
    /// Names of Secrets.
    pub(crate) pull_secrets: Vec<String>,
}

/// One object to apply.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) value: Value,
}

impl Object {
    fn of(value: Value) -> Result<Self, Failure> {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let kind = kinds::find(text("apiVersion"), text("kind"));
        let kind =
            kind.ok_or_else(|| mistake(&format!("the kind {} is not known", text("kind"))))?;
        Ok(Self { kind, value })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace, where its kind has one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.value["metadata"]["namespace"].as_str()
    }

    /// Whether it is an object of the same name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.kind, self.namespace(), self.name()) == (other.kind, other.namespace(), other.name())
    }

    /// As kubectl names it: `deployment.apps/covey-operator`.
    pub(crate) fn id(&self) -> String {
        let kind = self.kind.kind.to_lowercase();
        match self.kind.group {
            "" => format!("{kind}/{}", self.name()),
            group => format!("{kind}.{group}/{}", self.name()),
        }
    }

    fn is(&self, kind: &str) -> bool {
        self.kind.kind == kind
    }
}

/// A mistake that only we can mend.
fn mistake(what: &str) -> Failure {
    let what = format!("what is built into covey cannot be read: {what}");
    Failure::new(Exit::Failed, &what, "report this: it is a mistake of covey")
}

/// All objects, in the order in which they are applied.
pub(crate) fn objects(wanted: &Wanted) -> Result<Vec<Object>, Failure> {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let metadata = json!({"name": NAMESPACE, "labels": labels});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let mut all = vec![Object::of(namespace)?];
    for definition in api::crds() {
        let value = serde_json::to_value(definition);
        all.push(Object::of(value.map_err(|e| mistake(&e.to_string()))?)?);
    }
    for text in [ROLES, OBJECTS] {
        for document in text.split("\n---\n") {
            let value = serde_saphyr::from_str::<Value>(document);
            all.push(Object::of(value.map_err(|e| mistake(&e.to_string()))?)?);
        }
    }
    let first = |kind: &str| ORDER.iter().position(|known| *known == kind);
    all.sort_by_key(|object| first(object.kind.kind));
    let usual = default_image(&all).to_owned();
    let config = match &wanted.config {
        Some(text) => text.clone(),
        None => default_config(&all).to_owned(),
    };
    let checksum = hex(digest(&SHA256, config.as_bytes()).as_ref());
    for object in &mut all {
        label(&mut object.value);
        if object.is("ConfigMap") && object.name() == CONFIG_MAP {
            object.value["data"][CONFIG_FILE] = json!(config);
        }
        if object.is("ServiceAccount") && !wanted.pull_secrets.is_empty() {
            let names = wanted.pull_secrets.iter();
            let names: Vec<_> = names.map(|name| json!({ "name": name })).collect();
            object.value["imagePullSecrets"] = json!(names);
        }
        if object.is("Deployment") {
            let template = &mut object.value["spec"]["template"];
            template["metadata"]["annotations"][CHECKSUM] = json!(checksum);
            let containers = template["spec"]["containers"].as_array_mut();
            for container in containers.into_iter().flatten() {
                if let Some(image) = &wanted.image
                    && container["image"] == json!(usual)
                {
                    container["image"] = json!(image);
                }
            }
        }
    }
    Ok(all)
}

/// Says whose it is: helm neither made it nor has to mind it.
fn label(object: &mut Value) {
    if object["metadata"]["labels"].is_null() {
        object["metadata"]["labels"] = json!({});
    }
    let Some(labels) = object["metadata"]["labels"].as_object_mut() else {
        return;
    };
    labels.remove(LABEL_CHART);
    for (key, value) in [
        ("app.kubernetes.io/name", "covey"),
        ("app.kubernetes.io/instance", "covey"),
        ("app.kubernetes.io/part-of", "covey"),
        (LABEL_VERSION, VERSION),
        (LABEL_MANAGED_BY, "covey-cli"),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn default_config(all: &[Object]) -> &str {
    let map = all
        .iter()
        .find(|o| o.is("ConfigMap") && o.name() == CONFIG_MAP);
    config_of(map.map(|map| &map.value)).unwrap_or_default()
}

fn default_image(all: &[Object]) -> &str {
    let operator = all
        .iter()
        .find(|o| o.is("Deployment") && o.name() == OPERATOR);
    image_of(operator.map(|operator| &operator.value)).unwrap_or_default()
}

fn config_of(map: Option<&Value>) -> Option<&str> {
    map?["data"][CONFIG_FILE].as_str()
}

fn image_of(deployment: Option<&Value>) -> Option<&str> {
    deployment?["spec"]["template"]["spec"]["containers"][0]["image"].as_str()
}

/// The operator's configuration of a file: as the chart merges `config` into what it has itself.
pub(crate) fn config(file: &str) -> Result<String, Failure> {
    let mend = "it is what `config` is in the chart's values.yaml";
    let refused =
        |what: &str| Failure::new(Exit::Usage, &format!("the configuration {what}"), mend);
    let is_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let over: Value = match file.lines().all(is_nothing) {
        true => Value::Null,
        false => serde_saphyr::from_str(file).map_err(|e| refused(&format!("is no YAML: {e}")))?,
    };
    let over = match over {
        Value::Null => Map::new(),
        Value::Object(over) => over,
        _ => return Err(refused("is no mapping")),
    };
    let mut over = Value::Object(over);
    let mut of_the_chart = OF_THE_CHART.iter();
    if let Some(field) = of_the_chart.find(|field| over.pointer(field).is_some()) {
        let field = field.trim_start_matches('/').replace('/', ".");
        let what = format!("has {field}, by which the chart decides on other objects, too");
        let mend = "install it with helm, or leave it out";
        return Err(Failure::new(
            Exit::Refused,
            &format!("the configuration {what}"),
            mend,
        ));
    }
    let all = objects(&Wanted::default())?;
    let mut base: Value =
        serde_saphyr::from_str(default_config(&all)).map_err(|e| mistake(&e.to_string()))?;
    // Only the installation knows it.
    over["operatorNamespace"] = json!(NAMESPACE);
    merge(&mut base, over);
    serde_saphyr::to_string(&base).map_err(|e| mistake(&e.to_string()))
}

fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// What an object needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Nothing: it is as it should be.
    Nothing,
    /// It is not there.
    Made,
    /// It is otherwise, first here.
    Changed(String),
    /// It is ours, and not wanted any more.
    Gone,
}

/// What has to be done so that the live object is as wanted.
pub(crate) fn change(object: &Object, live: Option<&Value>, manager: &str) -> Change {
    let Some(live) = live else {
        return Change::Made;
    };
    let differs = difference(&object.value, live);
    let differs = differs.or_else(|| stale_field(&object.value, live, manager));
    differs.map_or(Change::Nothing, |found| Change::Changed(found.path))
}

/// The configuration that is there, which stays where none is named.
pub(crate) fn live_config(all: &[Object], live: &[Option<Value>]) -> Option<String> {
    let map = find(all, live, "ConfigMap", CONFIG_MAP);
    config_of(map).map(str::to_owned)
}

fn find<'a>(
    all: &[Object],
    live: &'a [Option<Value>],
    kind: &str,
    name: &str,
) -> Option<&'a Value> {
    let mut pairs = all.iter().zip(live);
    let found = pairs.find(|(object, _)| object.is(kind) && object.name() == name);
    found?.1.as_ref()
}

/// Why this may not be installed over what is there: all reasons, each with what mends it.
pub(crate) fn refusals(
    all: &[Object],
    live: &[Option<Value>],
    wanted: &Wanted,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    // Definitions stay when a release is uninstalled, and keep what helm wrote on them.
    let rest = all
        .iter()
        .zip(live)
        .filter(|(o, _)| !o.is("CustomResourceDefinition"));
    let mut release =
        rest.filter_map(|(_, live)| live.as_ref()?["metadata"]["annotations"][RELEASE].as_str());
    if let Some(release) = release.next() {
        found.push((
            format!("helm has installed Covey here as the release {release}"),
            format!("upgrade it with `helm upgrade {release}`"),
        ));
    }
    let operator = find(all, live, "Deployment", OPERATOR);
    let version = operator.and_then(|o| o["metadata"]["labels"][LABEL_VERSION].as_str());
    if let (Some(text), Some(here)) = (version, version.and_then(parts))
        && let Some(ours) = parts(VERSION)
    {
        if here > ours {
            found.push((
                format!("Covey {text} is here, which is newer than {VERSION}"),
                format!("take covey {text}"),
            ));
        } else if here.0 != ours.0 || ours.1 - here.1 > 1 {
            found.push((
                format!("Covey {text} is here, and goes to {VERSION} one minor version at a time"),
                format!("take covey {}.{} first", here.0, here.1 + 1),
            ));
        }
    }
    if let (Some(image), None) = (image_of(operator), &wanted.image)
        && repository(image) != repository(default_image(all))
    {
        found.push((
            format!("the operator here is the image {image}"),
            format!("name its image of version {VERSION} with `--image`"),
        ));
    }
    found
}

fn parts(version: &str) -> Option<(u64, u64, u64)> {
    let version = version.trim_start_matches('v').split(['-', '+']).next()?;
    let mut parts = version.split('.').map(str::parse::<u64>);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ))
}

/// An image without tag and digest.
fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => image,
    }
}

#[cfg(test)]
mod tests;
