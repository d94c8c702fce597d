//! The management API's audit log: who asked for what since a moment.
//!
//! The lab's policy leaves out the stage RequestReceived, so a request is seen once its answer
//! begins. Invariant: each request counts once, whatever number of stages it has.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::{OPERATOR, OPERATOR_NAMESPACE};

/// The log's file.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

/// A moment in the log.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// get, list, watch, create, update, patch, delete …
    pub verb: String,
    /// `resource[.group][/subresource]`; empty for other paths.
    pub resource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object, where the request had one.
    pub name: String,
    /// Status of the answer.
    pub code: u16,
    /// Path and query.
    pub uri: String,
}

impl Request {
    /// Whether the operator asked.
    #[must_use]
    pub fn is_operators(&self) -> bool {
        self.user == format!("system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR}")
    }

    /// Whether it was to look at something, watches included; the operator's Lease does not count.
    #[must_use]
    pub fn is_read(&self) -> bool {
        ["get", "list", "watch"].contains(&self.verb.as_str()) && !self.is_operators_lease()
    }

    fn is_operators_lease(&self) -> bool {
        self.resource == "leases.coordination.k8s.io"
            && self.namespace == OPERATOR_NAMESPACE
            && self.name == OPERATOR
    }

    /// Whether it was to change something; the operator's Lease and access reviews do not count.
    #[must_use]
    pub fn is_write(&self) -> bool {
        let mutating = ["create", "update", "patch", "delete", "deletecollection"];
        mutating.contains(&self.verb.as_str())
            && !self.is_operators_lease()
            && !self.resource.ends_with(".authorization.k8s.io")
            && !self.resource.ends_with(".authentication.k8s.io")
            && !self.uri.contains("dryRun=")
    }
}

impl AuditLog {
    /// The log at `path`.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The present end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn mark(&self) -> Result<Mark> {
        let meta = std::fs::metadata(&self.path);
        let meta = meta.with_context(|| format!("{} cannot be read", self.path.display()))?;
        Ok(Mark(meta.len()))
    }

    /// All requests since then.
    ///
    /// # Errors
    /// When the file cannot be read or is another one by now.
    pub fn since(&self, mark: Mark) -> Result<Vec<Request>> {
        let mut file = File::open(&self.path)?;
        ensure!(
            file.metadata()?.len() >= mark.0,
            "the audit log was rotated meanwhile"
        );
        file.seek(SeekFrom::Start(mark.0))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(parse(&text))
    }
}

/// Counts by `verb resource`.
#[must_use]
pub fn by_verb_and_resource<'a>(
    requests: impl IntoIterator<Item = &'a Request>,
) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let key = match request.resource.is_empty() {
            true => format!("{} {}", request.verb, request.uri),
            false => format!("{} {}", request.verb, request.resource),
        };
        *counts.entry(key).or_default() += 1;
    }
    counts
}

fn parse(text: &str) -> Vec<Request> {
    let mut seen = HashSet::new();
    let mut requests = Vec::new();
    // The last line may still be in writing.
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in complete.lines() {
        let Ok(event) = serde_json::from_str::<Event>(line) else {
            continue;
        };
        // A watch counts when it begins; its end may come hours later.
        let code = event.response_status.unwrap_or_default().code;
        let ended = event.verb == "watch" && event.stage == "ResponseComplete" && code == 200;
        if ended || !seen.insert(event.audit_id) {
            continue;
        }
        let object = event.object_ref.unwrap_or_default();
        let mut resource = object.resource;
        if !object.api_group.is_empty() {
            resource = format!("{resource}.{}", object.api_group);
        }
        if !object.subresource.is_empty() {
            resource = format!("{resource}/{}", object.subresource);
        }
        requests.push(Request {
            user: event.user.username,
            verb: event.verb,
            resource,
            namespace: object.namespace,
            name: object.name,
            code,
            uri: event.request_uri,
        });
    }
    requests
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    user: User,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(rename = "objectRef")]
    object_ref: Option<ObjectRef>,
    #[serde(rename = "responseStatus")]
    response_status: Option<Status>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    api_group: String,
    namespace: String,
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, verb: &str, object: &str) -> String {
        let stage = if verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        format!(
            r#"{{"auditID":"{id}","stage":"{stage}","verb":"{verb}","user":{{"username":"system:serviceaccount:covey-system:covey-operator"}},"requestURI":"/x","objectRef":{object},"responseStatus":{{"code":200}}}}"#
        ) + "\n"
    }

    #[test]
    fn stages_count_once_and_half_a_line_waits() {
        let text = line("1", "watch", r#"{"resource":"pods"}"#)
            + &line("1", "watch", r#"{"resource":"pods"}"#)
            + &line(
                "2",
                "patch",
                r#"{"resource":"deployments","apiGroup":"apps","subresource":"scale"}"#,
            )
            + r#"{"auditID":"3","#;
        let requests = parse(&text);
        let counts = by_verb_and_resource(&requests);
        let expected = [("patch deployments.apps/scale", 1), ("watch pods", 1)];
        assert_eq!(counts, expected.map(|(k, n)| (k.to_owned(), n)).into());
        assert!(requests[1].is_write() && requests[1].is_operators() && !requests[0].is_write());
        assert!(requests[0].is_read() && !requests[1].is_read());
    }

    #[test]
    fn only_the_operators_own_lease_is_neither_read_nor_write() {
        let lease = |verb: &str, namespace: &str| {
            let object = format!(
                r#"{{"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"{namespace}","name":"covey-operator"}}"#
            );
            parse(&line("1", verb, &object)).remove(0)
        };
        assert!(!lease("update", "covey-system").is_write());
        assert!(!lease("get", "covey-system").is_read());
        assert!(lease("update", "elsewhere").is_write());
        assert!(lease("get", "elsewhere").is_read());
    }
}
