//! What a request to a Kubernetes API asks for: verb and resource, from method and URI.
//!
//! Invariant: the verbs are those of the audit log and of RBAC
//! (apiserver `pkg/endpoints/request/requestinfo.go`), so that all parts of this crate agree.

use http::{Method, Uri};

/// A request, taken apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the
    /// lower-case method for paths that are no resources.
    pub verb: String,
    /// API group; empty for the core group and for paths that are no resources.
    pub group: String,
    /// Namespace, if any.
    pub namespace: Option<String>,
    /// Resource in the plural; empty for paths that are no resources.
    pub resource: String,
    /// Subresource, if any.
    pub subresource: Option<String>,
    /// Name of the object, if any.
    pub name: Option<String>,
    /// The query has `dryRun`.
    pub dry_run: bool,
}

impl RequestInfo {
    /// Takes method and URI apart.
    #[must_use]
    pub fn new(method: &Method, uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let has = |key: &str| query.split('&').any(|pair| pair.starts_with(key));
        let mut info = Self {
            dry_run: has("dryRun="),
            ..Self::default()
        };
        let mut parts = uri
            .path()
            .split('/')
            .filter(|part| !part.is_empty())
            .peekable();
        let is_resource = match parts.next() {
            Some("api") => parts.next().is_some(),
            Some("apis") => {
                info.group = parts.next().unwrap_or_default().to_owned();
                parts.next().is_some()
            }
            _ => false,
        };
        if is_resource {
            info.take_resource(&mut parts);
        }
        if info.resource.is_empty() {
            info.verb = method.as_str().to_ascii_lowercase();
            return info;
        }
        let watch = has("watch=true") || has("watch=1");
        info.verb = match (method.as_str(), &info.name) {
            ("GET" | "HEAD", _) if watch => "watch",
            ("GET" | "HEAD", Some(_)) => "get",
            ("GET" | "HEAD", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            (other, _) => other,
        }
        .to_owned();
        info
    }

    fn take_resource<'a>(&mut self, parts: &mut impl Iterator<Item = &'a str>) {
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            // `namespaces/x` and its own subresources are cluster-scoped.
            ["namespaces", name] => (None, vec!["namespaces", name]),
            ["namespaces", name, sub @ ("status" | "finalize")] => {
                (None, vec!["namespaces", name, sub])
            }
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest.to_vec()),
            other => (None, other.to_vec()),
        };
        self.namespace = namespace;
        self.resource = rest.first().copied().unwrap_or_default().to_owned();
        self.name = rest.get(1).map(|part| (*part).to_owned());
        self.subresource = rest.get(2).map(|part| (*part).to_owned());
    }

    /// Whether the request changes something: a mutating verb, not a dry run and not a review
    /// (`subjectaccessreviews` and the like are created but never stored).
    #[must_use]
    pub fn is_write(&self) -> bool {
        let mutating = ["create", "update", "patch", "delete", "deletecollection"];
        mutating.contains(&self.verb.as_str())
            && !self.dry_run
            && !["authentication.k8s.io", "authorization.k8s.io"].contains(&self.group.as_str())
    }

    /// `group/resource/subresource`, without what is empty: `apps/statefulsets/status`.
    #[must_use]
    pub fn kind(&self) -> String {
        let parts = [
            self.group.as_str(),
            &self.resource,
            self.subresource.as_deref().unwrap_or(""),
        ];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, uri: &'static str) -> RequestInfo {
        RequestInfo::new(&method, &Uri::from_static(uri))
    }

    #[test]
    fn requests_are_named_as_in_the_audit_log() {
        let status = info(
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/statefulsets/etcd/status",
        );
        assert_eq!(
            (status.verb.as_str(), status.kind().as_str()),
            ("patch", "apps/statefulsets/status")
        );
        assert_eq!(status.namespace.as_deref(), Some("a"));
        assert_eq!(status.name.as_deref(), Some("etcd"));
        assert_eq!(
            info(Method::GET, "/api/v1/secrets?watch=true&timeoutSeconds=290").verb,
            "watch"
        );
        assert_eq!(
            info(Method::GET, "/api/v1/namespaces/a/secrets?limit=5").verb,
            "list"
        );
        assert_eq!(
            info(Method::DELETE, "/api/v1/namespaces/a/pods").verb,
            "deletecollection"
        );
        let namespace = info(Method::DELETE, "/api/v1/namespaces/a");
        assert_eq!(
            (namespace.verb.as_str(), namespace.namespace),
            ("delete", None)
        );
        assert_eq!(info(Method::GET, "/readyz").verb, "get");
        assert_eq!(info(Method::GET, "/apis/apps/v1").resource, "");
    }

    #[test]
    fn reviews_and_dry_runs_are_no_writes() {
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert!(!info(Method::POST, review).is_write());
        assert!(!info(Method::PATCH, "/api/v1/namespaces/a/secrets/b?dryRun=All").is_write());
        assert!(info(Method::PATCH, "/api/v1/namespaces/a/secrets/b?force=true").is_write());
        assert!(!info(Method::GET, "/api/v1/namespaces/a/secrets/b").is_write());
    }
}
