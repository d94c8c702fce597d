//! The tenant that floods: what it has, and what it goes on to change.
//!
//! Invariant: objects are only made and changed in its own stand-in, as its administrator could, and no
//! faster than [`PACE`], so that the bench itself leaves the processors to what it measures.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use testkit::fakes::tenant_api::Mode;
use testkit::{TenantApis, certs};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// One object of each kind is changed so often.
const PACE: Duration = Duration::from_millis(20);
/// How long its webhook takes to let a decision about a certificate through.
const WEBHOOK: Duration = Duration::from_secs(4);

/// A flood that goes on until it is dropped.
pub(crate) struct Flood(JoinHandle<()>);

impl Flood {
    /// Makes `objects` of each kind in this tenant namespace, whose node has this name, and goes on to
    /// change them.
    pub(crate) fn start(
        tenants: &Arc<TenantApis>,
        namespace: &str,
        node: &str,
        objects: usize,
    ) -> Result<Self> {
        // The request is another node's, by whose user it was made through impersonation.
        let user = format!("system:node:{node}");
        let pem = certs::request(&user, "system:nodes", &["another"])?;
        let waters = Waters {
            tenants: Arc::clone(tenants),
            namespace: namespace.to_owned(),
            request: json!({
                "signerName": "kubernetes.io/kubelet-serving", "username": user,
                "groups": ["system:nodes", "system:authenticated"],
                "usages": ["digital signature", "server auth"],
                "request": ByteString(pem.into_bytes()),
            }),
        };
        ensure!(
            tenants.set(namespace, Mode::SlowApprovals(WEBHOOK)),
            "the tenant that floods has no API"
        );
        for number in 0..objects {
            waters.pour(number, 0);
        }
        Ok(Self(tokio::spawn(waters.flow(objects))))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Waters {
    tenants: Arc<TenantApis>,
    namespace: String,
    request: Value,
}

impl Waters {
    async fn flow(self, objects: usize) {
        let mut ticks = tokio::time::interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if objects == 0 {
            return;
        }
        let all = (1_u64..).flat_map(|round| (0..objects).map(move |number| (number, round)));
        for (number, round) in all {
            ticks.tick().await;
            self.pour(number, round);
        }
    }

    /// One of each kind.
    fn pour(&self, number: usize, round: u64) {
        for (path, object) in objects(number, round, &self.request) {
            self.tenants.put(&self.namespace, &path, &object);
        }
    }
}

/// Paths and objects; each round they are others.
fn objects(number: usize, round: u64, request: &Value) -> [(String, Value); 4] {
    let name = format!("flood-{number}");
    let meta = json!({
        "name": name, "annotations": { "flood": round.to_string() },
        "labels": { api::names::LABEL_MANAGED_BY: api::names::MANAGED_BY },
    });
    let mut inside = meta.clone();
    inside["namespace"] = json!("default");
    [
        (
            format!("/api/v1/namespaces/default/configmaps/{name}"),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": inside,
                "data": { "flood": "x".repeat(1000) },
            }),
        ),
        (
            format!("/api/v1/namespaces/default/events/{name}"),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": inside,
                "involvedObject": { "kind": "Node", "name": name },
                "reason": "Flood", "message": "x".repeat(1000), "type": "Warning",
            }),
        ),
        (
            format!("/api/v1/nodes/{name}"),
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": meta,
                "spec": { "providerID": format!("kubevirt://{name}") },
            }),
        ),
        (
            format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"),
            json!({
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                "metadata": meta, "spec": request,
            }),
        ),
    ]
}
