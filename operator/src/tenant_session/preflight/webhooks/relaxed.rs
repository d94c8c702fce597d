//! Webhooks that would keep a tenant cluster from waking: they let requests pass while nobody is there to answer for them,
//! and have to answer again afterwards.
//!
//! Without nodes none of its pods runs. A webhook that has to answer, is answered by such a pod and is asked about what nodes
//! and their pods need would refuse the very objects that its pod needs to run (gardener#1630). Which ones had to answer
//! stands in an annotation of their configuration, and is written in the same request as the change.
//! Invariant: nothing but `failurePolicy` and that annotation is written, and only over the version that was read.

use std::collections::BTreeSet;

use http::Request;
use http::header::CONTENT_TYPE;
use kit_client::errors::chain;
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::super::answers::Answer;
use super::super::request::get;
use super::{
    API, Configuration, Declared, JSON, LEASES, Labels, MOST_SERVICES, RESOURCES, SYSTEM, Service,
    Slices, configurations, is_label, labels, slices_of,
};
use crate::status::one_line;

/// Names of the webhooks of a configuration that have to answer once somebody is there to, with commas between.
pub const RELAXED: &str = "covey.dev/relaxed-webhooks";
/// The same as part of a JSON pointer (RFC 6901).
const POINTER: &str = "/metadata/annotations/covey.dev~1relaxed-webhooks";

/// Names of those that would keep it from waking.
///
/// # Errors
/// Why that is not known.
pub async fn blocking(client: &Client) -> Answer<Vec<String>> {
    let selected = selected(client).await?;
    let mut all = Vec::new();
    for resource in RESOURCES {
        for configuration in &configurations(client, resource).await? {
            let names = configuration.blocking(&selected).into_iter();
            all.extend(names.map(|name| configuration.called(name)));
        }
    }
    Ok(all)
}

/// Lets requests pass all of those.
///
/// # Errors
/// Why one of them may still refuse some.
pub async fn relax(client: &Client) -> Answer<()> {
    let selected = selected(client).await?;
    for resource in RESOURCES {
        for configuration in &configurations(client, resource).await? {
            let names = configuration.blocking(&selected);
            if !names.is_empty() {
                let noted = configuration.noted().union(&names).copied().collect();
                let change = configuration.change(&names, "Ignore", &noted);
                write(client, resource, configuration, change).await?;
            }
        }
    }
    Ok(())
}

/// Has those answer again that somebody is there for; names of the others.
///
/// # Errors
/// Why it is not known whether all of them do.
pub async fn restore(client: &Client) -> Answer<Vec<String>> {
    let (mut all, mut asked) = (Vec::new(), 0);
    for resource in RESOURCES {
        for configuration in &configurations(client, resource).await? {
            let noted = configuration.noted();
            let (mut answered, mut left) = (BTreeSet::new(), BTreeSet::new());
            for (name, service) in configuration.relaxed(&noted) {
                asked += 1;
                // As many as one reconcile may ask about; the next one goes on.
                let is_there = asked <= MOST_SERVICES && answers(client, service).await?;
                let names = if is_there { &mut answered } else { &mut left };
                names.insert(name);
            }
            if left != noted {
                let change = configuration.change(&answered, "Fail", &left);
                write(client, resource, configuration, change).await?;
            }
            all.extend(left.into_iter().map(|name| configuration.called(name)));
        }
    }
    Ok(all)
}

async fn selected(client: &Client) -> Answer<[Labels; 2]> {
    Ok([labels(client, SYSTEM).await?, labels(client, LEASES).await?])
}

impl Configuration {
    fn called(&self, webhook: &str) -> String {
        one_line(&format!("{}/{webhook}", self.metadata.name), 253)
    }

    /// Those of its webhooks that would keep a tenant cluster from waking.
    fn blocking(&self, selected: &[Labels; 2]) -> BTreeSet<&str> {
        let is_inside = |declared: &&Declared| declared.client_config.service.is_some();
        let declared = self.webhooks.iter().filter(is_inside);
        let declared = declared.filter(|one| one.must_answer() && one.concerns(selected).is_some());
        declared.map(|declared| declared.name.as_str()).collect()
    }

    /// Those that had to answer before they were let off.
    fn noted(&self) -> BTreeSet<&str> {
        let annotations = self.metadata.annotations.as_ref();
        let noted = annotations.and_then(|annotations| annotations.get(RELAXED));
        let noted = noted.map_or("", String::as_str).split(',');
        noted.filter(|name| !name.is_empty()).collect()
    }

    /// Those of them that still let requests pass, with who answers for them. Whatever else is noted somebody else has
    /// changed since: it is his.
    fn relaxed<'a>(&'a self, noted: &BTreeSet<&str>) -> Vec<(&'a str, &'a Service)> {
        let declared = self.webhooks.iter();
        let declared = declared.filter(|one| !one.must_answer() && noted.contains(&*one.name));
        let relaxed = declared.filter_map(|declared| {
            let service = declared.client_config.service.as_ref()?;
            Some((declared.name.as_str(), service))
        });
        relaxed.collect()
    }

    /// The JSON patch (RFC 6902) that gives `webhooks` another policy, and notes these.
    fn change(
        &self,
        webhooks: &BTreeSet<&str>,
        policy: &str,
        noted: &BTreeSet<&str>,
    ) -> Vec<Value> {
        let version = &self.metadata.resource_version;
        let mut change =
            vec![json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version })];
        for (place, declared) in self.webhooks.iter().enumerate() {
            if webhooks.contains(&*declared.name) {
                let path = format!("/webhooks/{place}/failurePolicy");
                change.push(json!({ "op": "add", "path": path, "value": policy }));
            }
        }
        let noted = noted.iter().copied().collect::<Vec<_>>().join(",");
        let annotations = self.metadata.annotations.as_ref();
        let is_noted = annotations.is_some_and(|annotations| annotations.contains_key(RELAXED));
        change.extend(match (noted.is_empty(), annotations) {
            (true, _) => is_noted.then(|| json!({ "op": "remove", "path": POINTER })),
            (false, None) => Some(
                json!({ "op": "add", "path": "/metadata/annotations", "value": { RELAXED: noted } }),
            ),
            (false, Some(_)) => Some(json!({ "op": "add", "path": POINTER, "value": noted })),
        });
        change
    }
}

async fn write(
    client: &Client,
    resource: &str,
    configuration: &Configuration,
    change: Vec<Value>,
) -> Answer<()> {
    let name = &configuration.metadata.name;
    // What an API says is put into a path only where it can be one part of it (`ValidatePathSegmentName`).
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if [".", ".."].contains(&&**name) || !name.chars().all(is_part) {
        return Err(format!("{} is no name of {resource}", one_line(name, 253)));
    }
    let body = serde_json::to_vec(&change).map_err(|error| chain(&error))?;
    let request = Request::patch(format!("{API}/{resource}/{name}"));
    let request = request.header(CONTENT_TYPE, "application/json-patch+json");
    let request = request.body(body).map_err(|error| chain(&error))?;
    let written = client.request::<IgnoredAny>(request).await;
    written.map(drop).map_err(|error| chain(&error))
}

/// Whether a ready pod of a Service is on a node that is there: slices of before it slept may not have been looked at yet by
/// who keeps them.
async fn answers(client: &Client, service: &Service) -> Answer<bool> {
    if !is_label(&service.namespace) || !is_label(&service.name) {
        return Ok(false);
    }
    let slices: Slices = get(client, &slices_of(service), JSON).await?;
    let mut nodes = BTreeSet::new();
    for endpoint in slices.ready() {
        match &endpoint.node_name {
            Some(node) => nodes.insert(node.as_str()),
            None => return Ok(true),
        };
    }
    for node in nodes.into_iter().take(2) {
        let path = format!("/api/v1/nodes?limit=1&fieldSelector=metadata.name%3D{node}");
        let is_name = node
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
        if is_name && !get::<Found>(client, &path, JSON).await?.items.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Found {
    items: Vec<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::super::NAME;
    use super::*;

    fn configuration(annotations: Value) -> Configuration {
        let webhook = |name: &str, policy: Option<&str>, config: Value, resource: &str| {
            json!({ "name": name, "failurePolicy": policy, "clientConfig": config,
                "rules": [{ "apiGroups": [""], "resources": [resource] }] })
        };
        let inside = || json!({ "service": { "namespace": "policy", "name": "webhook" } });
        let configuration = json!({
            "metadata": { "name": "policy", "resourceVersion": "7", "annotations": annotations },
            "webhooks": [
                webhook("nodes.policy.io", Some("Fail"), inside(), "nodes"),
                webhook("elsewhere.policy.io", Some("Fail"), json!({ "url": "https://192.0.2.1" }), "nodes"),
                webhook("lenient.policy.io", Some("Ignore"), inside(), "pods"),
                webhook("pods.policy.io", None, inside(), "pods"),
                webhook("tools.policy.io", Some("Fail"), inside(), "tools"),
            ],
        });
        serde_json::from_value(configuration).unwrap()
    }

    fn selected() -> [Labels; 2] {
        [SYSTEM, LEASES].map(|name| Labels::from([(NAME.to_owned(), name.to_owned())]))
    }

    /// What a kube-apiserver makes of it.
    fn patched(configuration: &Configuration, annotations: Value, change: &[Value]) -> Value {
        let policies = configuration.webhooks.iter();
        let policies = policies.map(|one| json!({ "failurePolicy": one.failure_policy }));
        let mut object = json!({
            "metadata": { "resourceVersion": "7", "annotations": annotations },
            "webhooks": policies.collect::<Vec<_>>(),
        });
        let change: json_patch::Patch = serde_json::from_value(json!(change)).unwrap();
        json_patch::patch(&mut object, &change).unwrap();
        object
    }

    #[test]
    fn those_alone_let_requests_pass_that_nobody_would_answer_and_it_is_noted() {
        for annotations in [json!(null), json!({ "a": "b" })] {
            let before = configuration(annotations.clone());
            let names = before.blocking(&selected());
            assert_eq!(names, ["nodes.policy.io", "pods.policy.io"].into());
            let change = before.change(&names, "Ignore", &names);
            let after = patched(&before, annotations.clone(), &change);
            let policies = ["Ignore", "Fail", "Ignore", "Ignore", "Fail"];
            for (place, policy) in policies.into_iter().enumerate() {
                assert_eq!(after["webhooks"][place]["failurePolicy"], policy, "{place}");
            }
            let noted = &after["metadata"]["annotations"];
            assert_eq!(noted[RELAXED], "nodes.policy.io,pods.policy.io");
            assert_eq!(noted["a"], annotations["a"]);
        }
    }

    #[test]
    fn who_answers_has_to_again_and_the_others_stay_noted() {
        let annotations = json!({ RELAXED: "gone.policy.io,lenient.policy.io,pods.policy.io" });
        let before = configuration(annotations.clone());
        let noted = before.noted();
        // One is gone, and one somebody has made strict himself.
        let relaxed = before.relaxed(&noted);
        assert_eq!(relaxed.len(), 1);
        let (name, service) = relaxed[0];
        assert_eq!((name, &*service.name), ("lenient.policy.io", "webhook"));
        let change = before.change(&[name].into(), "Fail", &BTreeSet::new());
        let after = patched(&before, annotations.clone(), &change);
        assert_eq!(after["webhooks"][2]["failurePolicy"], "Fail");
        assert_eq!(after["metadata"]["annotations"], json!({}));
        let change = before.change(&BTreeSet::new(), "Fail", &[name].into());
        let after = patched(&before, annotations, &change);
        assert_eq!(after["webhooks"][2]["failurePolicy"], "Ignore");
        assert_eq!(after["metadata"]["annotations"][RELAXED], name);
    }

    #[test]
    fn nothing_is_written_over_another_version() {
        let before = configuration(json!(null));
        let change = before.change(&BTreeSet::new(), "Fail", &BTreeSet::new());
        assert_eq!(
            change,
            [json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "7" })]
        );
    }
}
