//! The Deployments of the adapter and of the Cluster Autoscaler.
//!
//! Flags are those of the Cluster Autoscaler 1.34 to 1.36, `config/flags`.
//! Invariant: one pod of each at a time, so that no size is decided twice; what a program reads only
//! when it starts shows in its pod.

use std::collections::BTreeMap;

use api::Duration;
use api::tenant_cluster::{Autoscaler, AutoscalerLimits};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
        core::v1::{Container, PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kit_objects::object::{self, Object};
use pki::Store;
use serde_json::json;

use crate::addons::adapter::{self, ADMIN_PORT};
use crate::addons::autoscaler::certificates::CLOUD_CONFIG;
use crate::addons::autoscaler::names::{AUTHORITY, CLIENT, GRPC_DIR, NAME, PORT, SERVER, STOCK};
use crate::desired::pod;
use crate::generations::{bundle, later_signer};
use crate::meta::{labels, meta, selector};
use crate::names;
use crate::settings::Settings;
use crate::validate::quantity::bytes;
use crate::validate::validated::Validated;

/// Port of the Cluster Autoscaler for probes and metrics, its default.
const STOCK_PORT: i32 = 8085;
/// Annotation of a pod: hash of the certificates that it starts with.
const ANNOTATION_CERTIFICATE: &str = "covey.dev/certificate-hash";
/// How long the adapter answers from memory while the management API is away.
const PATIENCE: &str = "2m";
/// How often the Cluster Autoscaler looks at the tenant cluster, its default.
const SCAN: &str = "10s";
/// In this unit the Cluster Autoscaler counts memory.
const GIB: u64 = 1 << 30;

/// The Deployments. `store` is what their Secrets hold.
pub(crate) fn deployments(
    v: &Validated,
    settings: &Settings,
    wanted: &Autoscaler,
    store: &Store,
) -> [Object; 2] {
    // What else the adapter is given, it reads again when it changes.
    let adapter = Pod {
        name: NAME,
        account: true,
        certificates: &[NAME, names::CA],
        secrets: [NAME, SERVER],
        container: adapter(v, settings),
    };
    // Its pair for the tenant's API it reads again when it changes, whom it believes there it does not
    // (client-go).
    let stock = Pod {
        name: STOCK,
        account: false,
        certificates: &[AUTHORITY, CLIENT, names::CA],
        secrets: [STOCK, CLIENT],
        container: stock(v, settings, wanted),
    };
    [adapter, stock].map(|pod| deployment(v, store, pod))
}

struct Pod {
    name: &'static str,
    /// Whether it speaks to the management API.
    account: bool,
    /// What it reads only when it starts.
    certificates: &'static [&'static str],
    /// For the tenant's API, and for each other.
    secrets: [&'static str; 2],
    container: Container,
}

fn deployment(v: &Validated, store: &Store, pod: Pod) -> Object {
    let mut start: Vec<_> = pod
        .certificates
        .iter()
        .map(|name| bundle(store, name))
        .collect();
    // Nobody can see when a pair is read again: of another signer than the first it is a rollout.
    start.extend(later_signer(store, pod.name, names::CLIENT_CA).map(Some));
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(v, pod.name)),
            annotations: Some(BTreeMap::from([(
                ANNOTATION_CERTIFICATE.to_owned(),
                object::hash(&json!(start)),
            )])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            automount_service_account_token: Some(pod.account),
            containers: vec![pod.container],
            volumes: Some(pod.secrets.map(pod::secret_volume).into()),
            ..pod::lone(pod.name, &v.scheduling)
        }),
    };
    Object::new(&Deployment {
        metadata: meta(v, pod.name, pod.name),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            revision_history_limit: Some(2),
            selector: LabelSelector {
                match_labels: Some(selector(pod.name)),
                ..LabelSelector::default()
            },
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

fn adapter(v: &Validated, settings: &Settings) -> Container {
    let images = &settings.images;
    Container {
        name: NAME.to_owned(),
        image: Some(pod::own_image(
            settings,
            &images.autoscaler_registry,
            &images.autoscaler,
        )),
        args: Some(vec![
            format!("--tenant-kubeconfig={}/kubeconfig", names::SECRET_DIR),
            format!("--namespace={}", v.tenant_namespace),
            format!("--user-namespace={}", v.namespace),
            format!("--cluster-name={}", v.name),
            format!("--cluster-uid={}", v.identity.uid),
            format!("--listen=0.0.0.0:{PORT}"),
            format!("--grpc-certificate={GRPC_DIR}/tls.crt"),
            format!("--grpc-key={GRPC_DIR}/tls.key"),
            format!("--grpc-client-ca={GRPC_DIR}/ca.crt"),
            format!("--admin-address=0.0.0.0:{ADMIN_PORT}"),
            format!("--patience={PATIENCE}"),
        ]),
        env: Some(vec![pod::own_name("POD_NAME")]),
        ports: Some(vec![adapter::admin_port()]),
        resources: Some(pod::resources(
            &settings.resources.autoscaler,
            &BTreeMap::new(),
        )),
        security_context: Some(pod::container_security()),
        liveness_probe: Some(pod::probe("/livez", ADMIN_PORT, "HTTP", 20, 6)),
        // Ready once both APIs were listed.
        readiness_probe: Some(pod::probe("/readyz", ADMIN_PORT, "HTTP", 5, 3)),
        volume_mounts: Some(vec![
            pod::mount(NAME, names::SECRET_DIR, true),
            pod::mount(SERVER, GRPC_DIR, true),
        ]),
        ..Container::default()
    }
}

fn stock(v: &Validated, settings: &Settings, wanted: &Autoscaler) -> Container {
    let none = BTreeMap::new();
    let image = settings.images.cluster_autoscaler(v.version.minor);
    Container {
        name: STOCK.to_owned(),
        image: Some(pod::trusted_image(settings, image)),
        command: Some(vec!["/cluster-autoscaler".to_owned()]),
        args: Some(flags(wanted)),
        env: pod::go_threads(&none),
        resources: Some(pod::resources(
            &settings.resources.cluster_autoscaler,
            &none,
        )),
        security_context: Some(pod::container_security()),
        // It ends itself when its loop has got nowhere for a quarter of an hour.
        liveness_probe: Some(pod::probe("/health-check", STOCK_PORT, "HTTP", 20, 6)),
        readiness_probe: Some(pod::probe("/health-check", STOCK_PORT, "HTTP", 5, 3)),
        volume_mounts: Some(vec![
            pod::mount(STOCK, names::SECRET_DIR, true),
            pod::mount(CLIENT, GRPC_DIR, true),
        ]),
        ..Container::default()
    }
}

fn flags(wanted: &Autoscaler) -> Vec<String> {
    let mut flags = vec![
        format!("--address=:{STOCK_PORT}"),
        "--cloud-provider=externalgrpc".to_owned(),
        format!("--cloud-config={GRPC_DIR}/{CLOUD_CONFIG}"),
        format!("--kubeconfig={}/kubeconfig", names::SECRET_DIR),
        "--namespace=kube-system".to_owned(),
        // Whoever moves a pod by hand may have two for a moment.
        "--leader-elect=true".to_owned(),
        format!("--leader-elect-resource-name={STOCK}"),
        "--write-status-configmap=true".to_owned(),
        "--expander=priority,least-waste".to_owned(),
        "--enforce-node-group-min-size=true".to_owned(),
        format!("--scan-interval={SCAN}"),
    ];
    let Autoscaler {
        enabled: _,
        limits: AutoscalerLimits { nodes, cpu, memory },
        balance_similar_node_groups,
        startup_taints,
        max_node_provision_time,
        scale_down_unready_time,
        scale_down_delay_after_add,
    } = wanted;
    if *balance_similar_node_groups {
        flags.push("--balance-similar-node-groups=true".to_owned());
    }
    flags.extend(
        startup_taints
            .iter()
            .map(|key| format!("--startup-taint={key}")),
    );
    let times: [(&str, &Option<Duration>); 3] = [
        ("max-node-provision-time", max_node_provision_time),
        ("scale-down-unready-time", scale_down_unready_time),
        ("scale-down-delay-after-add", scale_down_delay_after_add),
    ];
    for (flag, time) in times {
        flags.extend(time.as_ref().map(|time| format!("--{flag}={}", time.0)));
    }
    flags.extend(nodes.map(|nodes| format!("--max-nodes-total={nodes}")));
    flags.extend(cpu.map(|cores| format!("--cores-total=0:{cores}")));
    let memory = memory.as_ref().and_then(|memory| bytes(&memory.0));
    flags.extend(memory.map(|bytes| format!("--memory-total=0:{}", bytes / GIB)));
    flags
}
