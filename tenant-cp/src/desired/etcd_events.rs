//! Deployment `etcd-events`: an etcd that has Events alone, and what goes with it.
//!
//! It has no volume: whoever ends its pod ends its Events, and nothing else is lost. So it needs neither identity nor
//! start gate, and one that does not work is made anew rather than mended.
//! Invariant: nothing here is started by, or waits for, anything of a kube-apiserver.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
        core::v1::{
            Container, ContainerPort, PodSpec, PodTemplateSpec, Service, ServiceAccount,
            ServiceSpec,
        },
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kit_objects::kinds;
use kit_objects::object::{self, Key, Object};
use serde_json::json;

use crate::desired::etcd::{ANNOTATION_AUTHORITY, data_dir, environment, quota};
use crate::desired::{pod, services};
use crate::flags::table::CIPHER_SUITES;
use crate::generations::bundle;
use crate::material::Material;
use crate::meta::{meta, pod_meta, selector};
use crate::names;
use crate::network::addresses::{Addresses, any_address};
use crate::settings::Settings;
use crate::validate::quantity::with_at_least;
use crate::validate::validated::{EtcdEvents, Validated};

/// Seconds for which its pod has to have been ready until the Deployment calls it available, and kube-apiservers are told to
/// keep Events there.
const STEADY_SECONDS: i32 = 30;
/// Where its peers would reach it, of which there are none.
const PEER_URL: &str = "http://127.0.0.1:2380";

/// What kube-apiservers are told: which resource is where.
pub(crate) fn overrides() -> String {
    format!(
        "/events#https://{}:{}",
        names::ETCD_EVENTS,
        names::ETCD_CLIENT_PORT
    )
}

/// What has to be there before it.
pub(crate) fn base(v: &Validated) -> Vec<Object> {
    if v.etcd.events.is_none() {
        return Vec::new();
    }
    let (name, port) = (names::ETCD_EVENTS, names::ETCD_CLIENT_PORT);
    vec![
        Object::new(&Service {
            metadata: meta(v, name, name),
            spec: Some(ServiceSpec {
                type_: Some("ClusterIP".to_owned()),
                selector: Some(selector(name)),
                ports: Some(vec![services::service_port("client", port, port)]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }),
        Object::new(&ServiceAccount {
            metadata: meta(v, name, name),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        }),
    ]
}

/// Everything of it, in the order in which it goes once no kube-apiserver names it: what runs first.
#[must_use]
pub fn parts(tenant_namespace: &str) -> Vec<Key> {
    [
        kinds::DEPLOYMENT,
        kinds::SERVICE,
        kinds::SERVICE_ACCOUNT,
        kinds::NETWORK_POLICY,
        kinds::SECRET,
    ]
    .map(|kind| Key::new(kind.kind, tenant_namespace, names::ETCD_EVENTS))
    .into()
}

pub(crate) fn deployment(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    material: &Material,
) -> Option<Object> {
    let events = v.etcd.events.as_ref()?;
    let name = names::ETCD_EVENTS;
    let authority = object::hash(&json!(bundle(&material.store, names::ETCD_CA)));
    let mut metadata = meta(v, name, name);
    metadata.annotations = events
        .lost
        .clone()
        .map(|lost| BTreeMap::from([(names::EVENTS_LOST.to_owned(), lost)]));
    let template = PodTemplateSpec {
        metadata: Some(pod_meta(
            v,
            name,
            BTreeMap::from([(ANNOTATION_AUTHORITY.to_owned(), authority)]),
            &v.etcd.pod_metadata,
        )),
        spec: Some(PodSpec {
            containers: vec![container(v, events, settings, addresses)],
            termination_grace_period_seconds: Some(10),
            volumes: Some(vec![
                pod::secret_volume(name),
                pod::empty_dir("data", &events.size),
            ]),
            ..pod::lone(name, &v.etcd.scheduling)
        }),
    };
    Some(Object::new(&Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            min_ready_seconds: Some(STEADY_SECONDS),
            revision_history_limit: Some(2),
            selector: LabelSelector {
                match_labels: Some(selector(name)),
                ..LabelSelector::default()
            },
            // Two would have different Events, and requests would reach either.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }))
}

fn flags(v: &Validated, events: &EtcdEvents, addresses: &Addresses) -> Vec<String> {
    let any = any_address(addresses);
    let dir = names::SECRET_DIR;
    let (name, client) = (names::ETCD_EVENTS, names::ETCD_CLIENT_PORT);
    [
        ("advertise-client-urls", format!("https://{name}:{client}")),
        ("cert-file", format!("{dir}/{name}-server.crt")),
        ("cipher-suites", CIPHER_SUITES.to_owned()),
        ("client-cert-auth", "true".to_owned()),
        ("data-dir", data_dir()),
        ("initial-advertise-peer-urls", PEER_URL.to_owned()),
        ("initial-cluster", format!("{name}={PEER_URL}")),
        // There is nothing that it could lose: where its directory is empty it begins.
        ("initial-cluster-state", "new".to_owned()),
        (
            "initial-cluster-token",
            format!("{}-events", v.identity.uid),
        ),
        ("key-file", format!("{dir}/{name}-server.key")),
        ("listen-client-urls", format!("https://{any}:{client}")),
        (
            "listen-metrics-urls",
            format!("http://{any}:{}", names::ETCD_METRICS_PORT),
        ),
        ("listen-peer-urls", PEER_URL.to_owned()),
        ("name", name.to_owned()),
        ("quota-backend-bytes", quota(&events.size).to_string()),
        ("tls-min-version", "TLS1.2".to_owned()),
        ("trusted-ca-file", format!("{dir}/etcd-ca.crt")),
        ("watch-progress-notify-interval", "30s".to_owned()),
    ]
    .into_iter()
    .map(|(flag, value)| format!("--{flag}={value}"))
    .collect()
}

fn container(
    v: &Validated,
    events: &EtcdEvents,
    settings: &Settings,
    addresses: &Addresses,
) -> Container {
    let metrics = names::ETCD_METRICS_PORT;
    let port = |name: &str, number| ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let requests = with_at_least(
        "ephemeral-storage",
        &events.size,
        &events.requests,
        &events.limits,
    );
    Container {
        name: names::ETCD_EVENTS.to_owned(),
        image: Some(format!("{}/{}", v.registry, settings.etcd_image)),
        command: Some(vec!["etcd".to_owned()]),
        args: Some(flags(v, events, addresses)),
        env: pod::variables(environment(v, &events.limits)),
        ports: Some(vec![
            port("client", names::ETCD_CLIENT_PORT),
            port("metrics", metrics),
        ]),
        startup_probe: Some(pod::startup_probe("/livez", metrics, "HTTP")),
        // Unlike `/readyz` it also says no where the database is full and takes no writes.
        readiness_probe: Some(pod::probe("/health", metrics, "HTTP", 5, 3)),
        liveness_probe: Some(pod::probe("/livez", metrics, "HTTP", 10, 9)),
        resources: Some(pod::resources(&requests, &events.limits)),
        termination_message_policy: pod::last_lines(),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![
            pod::mount(names::ETCD_EVENTS, names::SECRET_DIR, true),
            pod::mount("data", names::ETCD_DATA_DIR, false),
        ]),
        ..Container::default()
    }
}
