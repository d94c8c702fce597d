//! Webhooks that are asked about what a control plane needs, and whether somebody is there to answer.
//!
//! Which resources these are is Gardener's list (`operations.md` §2.2, C8).
//! Invariant: what a tenant wrote is bounded before it is asked about; a name that is none is not put into a path.

use std::collections::BTreeMap;

use kube::Client;
use serde::Deserialize;

use super::answers::{Answer, Responder, Webhook};
use super::request::get;
use crate::status::one_line;

pub mod relaxed;

/// Configurations of each kind.
const MOST_CONFIGURATIONS: usize = 100;
/// Services that are looked for.
const MOST_SERVICES: usize = 32;
const JSON: &str = "application/json";
const API: &str = "/apis/admissionregistration.k8s.io/v1";
const RESOURCES: [&str; 2] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];
const NAME: &str = "kubernetes.io/metadata.name";
const LEASES: &str = "kube-node-lease";
const SYSTEM: &str = "kube-system";

/// Resources that a control plane and its nodes need, by group; whether they are in namespaces.
const CRITICAL: [(&str, &str, bool); 20] = [
    ("", "nodes", false),
    ("", "namespaces", false),
    ("", "pods", true),
    ("", "services", true),
    ("", "endpoints", true),
    ("", "configmaps", true),
    ("", "secrets", true),
    ("", "serviceaccounts", true),
    ("apiextensions.k8s.io", "customresourcedefinitions", false),
    ("apiregistration.k8s.io", "apiservices", false),
    ("apps", "daemonsets", true),
    ("apps", "deployments", true),
    ("coordination.k8s.io", "leases", true),
    ("discovery.k8s.io", "endpointslices", true),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", false),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        false,
    ),
    ("rbac.authorization.k8s.io", "clusterroles", false),
    ("rbac.authorization.k8s.io", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io", "roles", true),
    ("rbac.authorization.k8s.io", "rolebindings", true),
];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Configurations {
    items: Vec<Configuration>,
    metadata: Meta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Configuration {
    metadata: Meta,
    webhooks: Vec<Declared>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: Option<BTreeMap<String, String>>,
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    r#continue: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Declared {
    name: String,
    #[serde(default)]
    failure_policy: Option<String>,
    #[serde(default)]
    timeout_seconds: Option<u64>,
    #[serde(default)]
    client_config: ClientConfig,
    #[serde(default)]
    namespace_selector: Option<Selector>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClientConfig {
    service: Option<Service>,
}

#[derive(Clone, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(default)]
struct Service {
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Expression>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Slices {
    items: Vec<Slice>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Slice {
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Endpoint {
    conditions: Conditions,
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

type Labels = BTreeMap<String, String>;

/// Those that are asked about what a control plane needs.
pub(super) async fn critical(client: &Client) -> Answer<Vec<Webhook>> {
    let labels = [labels(client, SYSTEM).await?, labels(client, LEASES).await?];
    let mut responders = BTreeMap::new();
    let mut webhooks = Vec::new();
    for resource in RESOURCES {
        for configuration in &configurations(client, resource).await? {
            for declared in &configuration.webhooks {
                let Some(of_leases) = declared.concerns(&labels) else {
                    continue;
                };
                let responder = match &declared.client_config.service {
                    Some(service) => responder(client, service, &mut responders).await,
                    None => Responder::Answered,
                };
                webhooks.push(Webhook {
                    name: one_line(
                        &format!("{}/{}", configuration.metadata.name, declared.name),
                        253,
                    ),
                    must_answer: declared.must_answer(),
                    // Left out it is ten.
                    seconds: declared.timeout_seconds.unwrap_or(10),
                    of_leases,
                    responder,
                });
            }
        }
    }
    Ok(webhooks)
}

async fn configurations(client: &Client, resource: &str) -> Answer<Vec<Configuration>> {
    let path = format!("{API}/{resource}?limit={MOST_CONFIGURATIONS}");
    let all: Configurations = get(client, &path, JSON).await?;
    if !all.metadata.r#continue.is_empty() || all.items.len() > MOST_CONFIGURATIONS {
        return Err(format!(
            "there are more than {MOST_CONFIGURATIONS} {resource}"
        ));
    }
    Ok(all.items)
}

async fn labels(client: &Client, namespace: &str) -> Answer<Labels> {
    let found: Answer<Configuration> =
        get(client, &format!("/api/v1/namespaces/{namespace}"), JSON).await;
    let mut labels = found?.metadata.labels;
    labels.insert(NAME.to_owned(), namespace.to_owned());
    Ok(labels)
}

impl Declared {
    /// Left out it has to.
    fn must_answer(&self) -> bool {
        self.failure_policy.as_deref() != Some("Ignore")
    }

    /// Whether it is asked about Leases; none where it is asked about nothing that a control plane needs.
    fn concerns(&self, [system, leases]: &[Labels; 2]) -> Option<bool> {
        let selects = |labels| {
            let selector = self.namespace_selector.as_ref();
            selector.is_none_or(|selector| selector.selects(labels))
        };
        let is_asked = |(group, resource, namespaced): &(&str, &str, bool)| {
            let of_leases = *resource == "leases" && selects(leases);
            // Of a namespace the selector sees its own labels; whatever else has none is always selected.
            let is_selected = match (*namespaced, *resource) {
                (true, _) | (_, "namespaces") => of_leases || selects(system),
                (false, _) => true,
            };
            is_selected && self.rules.iter().any(|rule| rule.has(group, resource))
        };
        let asked: Vec<_> = CRITICAL.iter().filter(|one| is_asked(one)).collect();
        let of_leases = asked.iter().any(|(_, resource, _)| *resource == "leases");
        (!asked.is_empty()).then_some(of_leases)
    }
}

impl Rule {
    fn has(&self, group: &str, resource: &str) -> bool {
        let groups = self.api_groups.iter();
        let mut resources = self.resources.iter().map(|named| {
            let (resource, part) = named.split_once('/').unwrap_or((named, ""));
            (resource, part)
        });
        groups
            .into_iter()
            .any(|named| named == "*" || named == group)
            && resources.any(|(named, part)| {
                (named == "*" || named == resource) && ["", "*", "status"].contains(&part)
            })
    }
}

impl Selector {
    fn selects(&self, labels: &Labels) -> bool {
        let mut pairs = self.match_labels.iter();
        let mut expressions = self.match_expressions.iter();
        pairs.all(|(key, value)| labels.get(key) == Some(value))
            && expressions.all(|expression| {
                let value = labels.get(&expression.key);
                let is_named = value.is_some_and(|value| expression.values.contains(value));
                match expression.operator.as_str() {
                    "In" => is_named,
                    "NotIn" => !is_named,
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => true,
                }
            })
    }
}

/// Whether a Service has a ready pod; each is looked for once.
async fn responder(
    client: &Client,
    service: &Service,
    seen: &mut BTreeMap<Service, Responder>,
) -> Responder {
    if let Some(responder) = seen.get(service) {
        return responder.clone();
    }
    let responder = match () {
        () if seen.len() >= MOST_SERVICES => {
            return Responder::Unknown(format!("they have more than {MOST_SERVICES} Services"));
        }
        // The API lets anything be written there, and nothing of such a name can be.
        () if !is_label(&service.namespace) || !is_label(&service.name) => Responder::Nobody,
        () => ready(client, service).await,
    };
    seen.insert(service.clone(), responder.clone());
    responder
}

async fn ready(client: &Client, service: &Service) -> Responder {
    match get::<Slices>(client, &slices_of(service), JSON).await {
        Ok(slices) => match slices.ready().next() {
            Some(_) => Responder::Answered,
            None => Responder::Nobody,
        },
        Err(why) => Responder::Unknown(why),
    }
}

fn slices_of(service: &Service) -> String {
    format!(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?limit=20&labelSelector=kubernetes.io%2Fservice-name%3D{}",
        service.namespace, service.name
    )
}

impl Slices {
    fn ready(&self) -> impl Iterator<Item = &Endpoint> {
        let slices = self.items.iter();
        let endpoints = slices.flat_map(|slice| slice.endpoints.iter().flatten());
        // Left out it is taken for ready (`EndpointConditions`).
        endpoints.filter(|endpoint| endpoint.conditions.ready != Some(false))
    }
}

fn is_label(name: &str) -> bool {
    let is_one = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(is_one)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn concerns(webhook: Value) -> Option<bool> {
        let mut whole = json!({ "name": "a.example.com" });
        for (field, value) in webhook.as_object().unwrap() {
            whole[field] = value.clone();
        }
        let declared: Declared = serde_json::from_value(whole).unwrap();
        let labels = |name: &str| Labels::from([(NAME.to_owned(), name.to_owned())]);
        declared.concerns(&[labels(SYSTEM), labels(LEASES)])
    }

    fn rules(group: &str, resource: &str) -> Value {
        json!([{ "apiGroups": [group], "resources": [resource], "apiVersions": ["*"], "operations": ["*"] }])
    }

    #[test]
    fn webhook_concerns_a_control_plane_by_what_it_is_asked_about() {
        for (group, resource, wanted) in [
            ("", "nodes", Some(false)),
            ("", "nodes/status", Some(false)),
            ("*", "*", Some(true)),
            ("*", "*/*", Some(true)),
            ("coordination.k8s.io", "leases", Some(true)),
            ("", "pods/exec", None),
            ("shop.example.com", "*", None),
            ("apps", "statefulsets", None),
        ] {
            let asked = concerns(json!({ "rules": rules(group, resource) }));
            assert_eq!(asked, wanted, "{group} {resource}");
        }
    }

    #[test]
    fn namespaces_that_are_not_selected_are_not_asked_about() {
        let without = |namespaces: &[&str]| json!({ "matchExpressions": [{ "key": NAME, "operator": "NotIn", "values": namespaces }] });
        let asked = |group: &str, resource: &str, selector: Value| {
            concerns(json!({ "rules": rules(group, resource), "namespaceSelector": selector }))
        };
        assert_eq!(asked("", "pods", without(&[SYSTEM])), None);
        assert_eq!(asked("", "nodes", without(&[SYSTEM])), Some(false));
        let leases = "coordination.k8s.io";
        assert_eq!(asked(leases, "leases", without(&[SYSTEM])), Some(true));
        assert_eq!(asked(leases, "leases", without(&[SYSTEM, LEASES])), None);
        let labelled = json!({ "matchLabels": { "policy": "on" } });
        assert_eq!(asked("", "pods", labelled), None);
    }
}
