//! Narrows an operator to one user's namespace, so that many can share a management API.
//!
//! Lists and watches of all objects of our kinds become those of the namespace, and watches of owned
//! objects select the namespace's label; so do those of nodes, pods, quotas of either kind, BackupTargets, ServiceCIDRs
//! and KubeVirts, which only tests about them label. Invariant: nothing else is changed, and what the operator
//! asks for needs the same rights as before.

use std::task::{Context, Poll};

use http::{Request, Uri};
use tower::{Layer, Service};

/// The layer; clones share the namespace.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    namespace: String,
}

impl Scope {
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
        }
    }

    fn narrowed(&self, uri: &Uri) -> Option<Uri> {
        const ALL: &str = "/apis/covey.dev/v1alpha1/";
        const KINDS: [&str; 8] = [
            "accessgrants",
            "hosts",
            "machines",
            "nodepools",
            "providerconfigs",
            "restores",
            "snapshots",
            "tenantclusters",
        ];
        const LABELLED: [&str; 8] = [
            "/api/v1/nodes",
            "/api/v1/pods",
            "/api/v1/resourcequotas",
            "/apis/covey.dev/v1alpha1/backuptargets",
            "/apis/covey.dev/v1alpha1/fleetpolicies",
            "/apis/covey.dev/v1alpha1/tenantquotas",
            "/apis/kubevirt.io/v1/kubevirts",
            "/apis/networking.k8s.io/v1/servicecidrs",
        ];
        const SELECTOR: &str = "labelSelector=covey.dev%2Ftenant-cluster-uid";
        let text = uri.to_string();
        let all = uri.path().split_once(ALL).map(|(_, kind)| kind);
        let labelled = LABELLED.contains(&uri.path());
        let text = if labelled {
            let label = api::names::LABEL_TENANT_NAMESPACE.replace('/', "%2F");
            let between = if uri.query().is_some() { '&' } else { '?' };
            format!("{text}{between}labelSelector={label}%3D{}", self.namespace)
        } else if all.is_some_and(|kind| KINDS.contains(&kind)) {
            text.replacen(ALL, &format!("{ALL}namespaces/{}/", self.namespace), 1)
        } else if text.contains(SELECTOR) {
            let label = api::names::LABEL_TENANT_NAMESPACE.replace('/', "%2F");
            text.replacen(
                SELECTOR,
                &format!("{SELECTOR}%2C{label}%3D{}", self.namespace),
                1,
            )
        } else {
            return None;
        };
        Some(
            text.parse()
                .expect("invariant: a URI stays one when its middle changes"),
        )
    }
}

impl<S> Layer<S> for Scope {
    type Service = Scoped<S>;

    fn layer(&self, inner: S) -> Scoped<S> {
        Scoped {
            scope: self.clone(),
            inner,
        }
    }
}

/// A service behind a [`Scope`].
#[derive(Clone, Debug)]
pub(crate) struct Scoped<S> {
    scope: Scope,
    inner: S,
}

impl<S, B> Service<Request<B>> for Scoped<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(uri) = self.scope.narrowed(request.uri()) {
            *request.uri_mut() = uri;
        }
        self.inner.call(request)
    }
}

#[test]
fn only_watches_of_everything_are_narrowed() {
    let scope = Scope::new("users");
    let narrowed = |uri: &'static str| {
        scope
            .narrowed(&Uri::from_static(uri))
            .map(|u| u.to_string())
    };
    assert_eq!(
        narrowed("/apis/covey.dev/v1alpha1/tenantclusters?watch=true").as_deref(),
        Some("/apis/covey.dev/v1alpha1/namespaces/users/tenantclusters?watch=true")
    );
    assert_eq!(
        narrowed("/apis/covey.dev/v1alpha1/machines?limit=5").as_deref(),
        Some("/apis/covey.dev/v1alpha1/namespaces/users/machines?limit=5")
    );
    assert_eq!(
        narrowed("/api/v1/services?labelSelector=covey.dev%2Ftenant-cluster-uid&limit=500")
            .as_deref(),
        Some(
            "/api/v1/services?labelSelector=covey.dev%2Ftenant-cluster-uid%2Ccovey.dev%2Ftenant-cluster-namespace%3Dusers&limit=500"
        )
    );
    assert_eq!(
        narrowed("/api/v1/pods?limit=50").as_deref(),
        Some("/api/v1/pods?limit=50&labelSelector=covey.dev%2Ftenant-cluster-namespace%3Dusers")
    );
    assert_eq!(narrowed("/api/v1/nodes/a"), None);
    assert_eq!(
        narrowed("/apis/covey.dev/v1alpha1/namespaces/a/tenantclusters/b"),
        None
    );
    assert_eq!(narrowed("/api/v1/namespaces/a/secrets"), None);
}
