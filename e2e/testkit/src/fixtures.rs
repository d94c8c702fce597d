//! Objects that tests begin with, waiting by watches, and what a failing test prints.
//!
//! Invariant: names made here are unique among processes and runs, and waiting never asks again and
//! again where there is something to watch.

mod dump;
mod kinds;
mod rights;
mod settled;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::tenant_cluster::{Endpoint, EndpointType};
use api::{Quantity, TenantCluster, TenantClusterSpec};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

use crate::apiserver::ManagementApi;
use crate::names;

pub use crate::waiting::{PATIENCE, ask_until, wait_for, wait_gone};
pub use dump::dump;
pub use rights::{wait_allowed, wait_allowed_to};
pub use settled::{is_settled, tenant_namespace};

/// Version of Kubernetes that the fixtures ask for.
pub const VERSION: &str = "1.35.4";

/// A TenantCluster with nothing but what is required.
#[must_use]
pub fn minimal(namespace: &str, name: &str) -> TenantCluster {
    let spec = TenantClusterSpec {
        version: VERSION.to_owned(),
        ..TenantClusterSpec::default()
    };
    let mut cluster = TenantCluster::new(name, spec);
    cluster.metadata.namespace = Some(namespace.to_owned());
    cluster
}

/// A TenantCluster with every field set to something other than its default.
#[must_use]
pub fn full(namespace: &str, name: &str) -> TenantCluster {
    let mut cluster = minimal(namespace, name);
    let spec = &mut cluster.spec;
    spec.control_plane.replicas = 2;
    spec.control_plane.endpoint = Endpoint {
        type_: EndpointType::LoadBalancer,
        host: Some(format!("{name}.example.com")),
        port: Some(443),
        cert_sans: vec![format!("api.{name}.example.com"), "192.0.2.7".to_owned()],
        annotations: map(&[("example.com/load-balancer", "internal")]),
        load_balancer_class: Some("example.com/balancer".to_owned()),
        source_ranges: vec!["10.0.0.0/8".to_owned(), "192.0.2.0/24".to_owned()],
        ..Endpoint::default()
    };
    let amounts = |cpu: &str, memory: &str| {
        [("cpu", cpu), ("memory", memory)]
            .map(|(name, amount)| (name.to_owned(), Quantity::from(amount)))
            .into()
    };
    let server = &mut spec.control_plane.api_server;
    server.extra_args = map(&[("event-ttl", "2h")]);
    server.resources.requests = amounts("200m", "600Mi");
    server.resources.limits = amounts("2", "2Gi");
    let manager = &mut spec.control_plane.controller_manager;
    manager.extra_args = map(&[("concurrent-deployment-syncs", "7")]);
    manager.resources.requests = amounts("50m", "100Mi");
    let scheduler = &mut spec.control_plane.scheduler;
    scheduler.extra_args = map(&[("kube-api-qps", "60")]);
    scheduler.resources.requests = amounts("20m", "50Mi");
    spec.etcd.replicas = 3;
    spec.etcd.storage.size = Quantity::from("3Gi");
    spec.etcd.storage.storage_class_name = Some("fast".to_owned());
    spec.etcd.resources.requests = amounts("100m", "128Mi");
    spec.network.pod_cidr = Some("10.200.0.0/18".to_owned());
    spec.network.service_cidr = Some("100.80.0.0/20".to_owned());
    spec.network.dns_domain = Some("tenant.example".to_owned());
    spec.images.registry = Some("mirror.example.com/k8s".to_owned());
    cluster
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

impl ManagementApi {
    /// A name that nothing else has (see [`names::unique`]).
    #[must_use]
    pub fn name(&self, prefix: &str) -> String {
        names::unique(prefix)
    }

    /// Makes a namespace with a unique name and returns the name. It goes with the server.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let name = self.name(prefix);
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.admin()?);
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("cannot make the namespace {name}"))?;
        Ok(name)
    }

    /// Deletes a namespace and waits until it is gone; needs the controllers of
    /// [`crate::apiserver::DELETION_CONTROLLERS`].
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.admin()?);
        namespaces
            .delete(name, &DeleteParams::default())
            .await
            .with_context(|| format!("cannot delete the namespace {name}"))?;
        wait_gone(&namespaces, name, PATIENCE).await
    }
}
