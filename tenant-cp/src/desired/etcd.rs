//! StatefulSet `etcd`: one or three members with mutual TLS towards clients and peers.
//!
//! Peers are known by the name in their certificate (`--peer-cert-allowed-hostname`), not by the
//! address they come from: that check needs reverse look-ups which lag behind a starting pod.
//! Invariant: a member's data is only ever on its own volume; nothing here removes it. A change of the
//! template restarts nobody by itself.

pub(crate) mod volumes;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy},
        core::v1::{
            Container, ContainerPort, EnvVar, PersistentVolumeClaim, PodSpec, PodTemplateSpec,
        },
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kit_objects::object::{self, Object};
use serde_json::json;

use crate::desired::pod;
use crate::flags::table::CIPHER_SUITES;
use crate::generations::bundle;
use crate::material::Material;
use crate::meta::{labels, meta, pod_meta, selector};
use crate::names;
use crate::network::addresses::{Addresses, any_address};
use crate::profile::{self, Runtime};
use crate::settings::{ETCD_BOOTSTRAP_DEFRAG_MIB, Settings};
use crate::validate::quantity::nanos;
use crate::validate::validated::Validated;

const MIB: u64 = 1024 * 1024;

pub(crate) fn flags(v: &Validated, addresses: &Addresses) -> Vec<String> {
    let any = any_address(addresses);
    let dir = names::SECRET_DIR;
    let (client, peer) = (names::ETCD_CLIENT_PORT, names::ETCD_PEER_PORT);
    let quota = quota_backend_bytes(v);
    [
        (
            "advertise-client-urls",
            format!("https://$(POD_NAME):{client}"),
        ),
        // Live defragmentation holds up whoever asks that member; one that starts serves nobody yet.
        (
            "bootstrap-defrag-threshold-megabytes",
            ETCD_BOOTSTRAP_DEFRAG_MIB.to_string(),
        ),
        ("cert-file", format!("{dir}/$(POD_NAME)-server.crt")),
        ("cipher-suites", CIPHER_SUITES.to_owned()),
        ("client-cert-auth", "true".to_owned()),
        ("data-dir", data_dir()),
        // Members compare their data when they start, and at each compaction.
        (
            "feature-gates",
            "CompactHashCheck=true,InitialCorruptCheck=true".to_owned(),
        ),
        (
            "initial-advertise-peer-urls",
            format!("https://$(POD_NAME):{peer}"),
        ),
        (
            "initial-cluster",
            names::INITIAL_CLUSTER_OF_SECRET.to_owned(),
        ),
        ("initial-cluster-state", INITIAL_CLUSTER_STATE.to_owned()),
        ("initial-cluster-token", v.identity.uid.clone()),
        ("key-file", format!("{dir}/$(POD_NAME)-server.key")),
        // What is HTTP and not gRPC has its own port, which the operator asks now and then: with both on one, gRPC goes
        // through Go's own HTTP/2 server, which is slower and lets watches starve.
        // https://etcd.io/docs/v3.6/op-guide/configuration/
        (
            "listen-client-http-urls",
            format!("https://{any}:{}", names::ETCD_HTTP_PORT),
        ),
        ("listen-client-urls", format!("https://{any}:{client}")),
        (
            "listen-metrics-urls",
            format!("http://{any}:{}", names::ETCD_METRICS_PORT),
        ),
        ("listen-peer-urls", format!("https://{any}:{peer}")),
        ("name", "$(POD_NAME)".to_owned()),
        ("peer-cert-allowed-hostname", names::ETCD_PEERS.to_owned()),
        ("peer-cert-file", format!("{dir}/$(POD_NAME)-peer.crt")),
        ("peer-client-cert-auth", "true".to_owned()),
        ("peer-key-file", format!("{dir}/$(POD_NAME)-peer.key")),
        ("peer-skip-client-san-verification", "true".to_owned()),
        ("peer-trusted-ca-file", format!("{dir}/etcd-ca.crt")),
        ("quota-backend-bytes", quota.to_string()),
        ("tls-min-version", "TLS1.2".to_owned()),
        ("trusted-ca-file", format!("{dir}/etcd-ca.crt")),
        // Bookmarks of idle watches, which clients get every minute, come from it. The kube-apiserver
        // asks by itself when a read has to be fresh, so kubeadm's 5s only costs: every fifth of what
        // a tenant cluster at rest takes of a core.
        ("watch-progress-notify-interval", "30s".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| format!("--{name}={value}"))
    .collect()
}

/// Most bytes of its database.
pub(crate) fn quota_backend_bytes(v: &Validated) -> u64 {
    let asked = v.etcd.quota_backend_bytes;
    asked.unwrap_or_else(|| quota(&v.etcd.storage_size))
}

/// Half the volume: defragmentation writes a second copy of the database, and the write-ahead log
/// and snapshots need some hundred MiB. At most 8 GiB (etcd's own advice), and 512 MiB at least.
pub(super) fn quota(volume: &str) -> u64 {
    let bytes = nanos(volume).unwrap_or(0) / 1_000_000_000;
    u64::try_from(bytes / 2)
        .unwrap_or(u64::MAX)
        .clamp(512 * MIB, 8192 * MIB)
}

/// Annotation of the pods: hash of whom members believe, which they read when they start.
pub(super) const ANNOTATION_AUTHORITY: &str = "covey.dev/authority-hash";

pub(crate) fn stateful_set(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    material: &Material,
) -> Object {
    let authority = object::hash(&json!(bundle(&material.store, names::ETCD_CA)));
    Object::new(&StatefulSet {
        metadata: meta(v, names::ETCD, names::ETCD),
        spec: Some(StatefulSetSpec {
            replicas: Some(v.etcd.replicas),
            revision_history_limit: Some(2),
            service_name: Some(names::ETCD_PEERS.to_owned()),
            // Three members must start together: none is ready without a second.
            pod_management_policy: Some("Parallel".to_owned()),
            // It would replace them by number, whoever is healthy; the operator goes by that.
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                rolling_update: None,
            }),
            selector: LabelSelector {
                match_labels: Some(selector(names::ETCD)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(pod_meta(
                    v,
                    names::ETCD,
                    BTreeMap::from([(ANNOTATION_AUTHORITY.to_owned(), authority)]),
                    &v.etcd.pod_metadata,
                )),
                spec: Some(PodSpec {
                    init_containers: Some(vec![gate(v, settings)]),
                    containers: vec![container(v, settings, addresses)],
                    termination_grace_period_seconds: Some(30),
                    volumes: Some(vec![
                        pod::secret_volume(names::ETCD),
                        pod::secret_key_volume(IDENTITY, names::ETCD, names::ETCD_IDENTITY),
                    ]),
                    ..pod::spec(names::ETCD, &v.etcd.scheduling)
                }),
            },
            // The claims are made by [`volumes`] beforehand. This counts only where somebody deletes one, and
            // cannot be changed: who applies it keeps the size that it was made with.
            volume_claim_templates: Some(vec![PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some("data".to_owned()),
                    labels: Some(labels(v, names::ETCD)),
                    ..ObjectMeta::default()
                },
                spec: Some(volumes::spec(v, &v.etcd.storage_size)),
                ..PersistentVolumeClaim::default()
            }]),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    })
}

/// Volume with the gate's file.
const IDENTITY: &str = "etcd-identity";

/// Ends with 0 only where etcd may start: never on a volume that lost its data or has somebody else's
/// (docs/etcd.md). It is given no keys.
fn gate(v: &Validated, settings: &Settings) -> Container {
    let images = &settings.images;
    let (registry, image) = (&images.etcd_agent_registry, &images.etcd_agent);
    Container {
        name: names::ETCD_GATE.to_owned(),
        image: Some(pod::own_image(settings, registry, image)),
        args: Some(vec![
            "gate".to_owned(),
            format!("--data-dir={}", data_dir()),
            "--member=$(POD_NAME)".to_owned(),
            format!("--initial-cluster-state={INITIAL_CLUSTER_STATE}"),
            format!(
                "--identity={}/{}",
                names::ETCD_IDENTITY_DIR,
                names::ETCD_IDENTITY
            ),
        ]),
        env: Some(variables()),
        // It runs before etcd and not beside it, so this asks for nothing more.
        resources: Some(pod::resources(&v.etcd.requests, &v.etcd.limits)),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![
            pod::mount(IDENTITY, names::ETCD_IDENTITY_DIR, true),
            pod::mount("data", names::ETCD_DATA_DIR, false),
        ]),
        ..Container::default()
    }
}

/// What both containers' arguments refer to.
fn variables() -> Vec<EnvVar> {
    vec![
        pod::own_name("POD_NAME"),
        pod::of_secret(
            "INITIAL_CLUSTER_STATE",
            names::ETCD,
            names::INITIAL_CLUSTER_STATE,
        ),
        // One that joins has to name those that there are: with a number that changes this is no flag of all.
        pod::of_secret("INITIAL_CLUSTER", names::ETCD, names::INITIAL_CLUSTER),
    ]
}

/// What Go's runtime is told, of a member with these limits.
pub(super) fn environment(v: &Validated, limits: &BTreeMap<String, String>) -> Vec<EnvVar> {
    profile::environment(v.profile, Runtime::Etcd, limits)
}

/// As the arguments refer to it.
const INITIAL_CLUSTER_STATE: &str = "$(INITIAL_CLUSTER_STATE)";

/// A subdirectory: the volume's own may hold lost+found and the gate's marker, and is not etcd's to
/// restrict.
pub(super) fn data_dir() -> String {
    format!("{}/data", names::ETCD_DATA_DIR)
}

fn container(v: &Validated, settings: &Settings, addresses: &Addresses) -> Container {
    let port = |name: &str, number| ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let metrics = names::ETCD_METRICS_PORT;
    Container {
        name: names::ETCD.to_owned(),
        image: Some(format!("{}/{}", v.registry, settings.etcd_image)),
        command: Some(vec!["etcd".to_owned()]),
        args: Some(flags(v, addresses)),
        env: Some(
            variables()
                .into_iter()
                .chain(environment(v, &v.etcd.limits))
                .collect(),
        ),
        ports: Some(vec![
            port("client", names::ETCD_CLIENT_PORT),
            port("http", names::ETCD_HTTP_PORT),
            port("peer", names::ETCD_PEER_PORT),
            port("metrics", metrics),
        ]),
        // `/livez` is true once the server runs, `/readyz` once it knows a leader.
        startup_probe: Some(pod::startup_probe("/livez", metrics, "HTTP")),
        readiness_probe: Some(pod::probe("/readyz", metrics, "HTTP", 5, 3)),
        liveness_probe: Some(pod::probe("/livez", metrics, "HTTP", 10, 9)),
        resources: Some(pod::resources(&v.etcd.requests, &v.etcd.limits)),
        // Why it did not start is in the pod's status then: a member that has other data than the rest is replaced.
        termination_message_policy: pod::last_lines(),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![
            pod::mount(names::ETCD, names::SECRET_DIR, true),
            pod::mount("data", names::ETCD_DATA_DIR, false),
        ]),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_leaves_room_for_a_second_copy() {
        assert_eq!(quota("2Gi"), 1024 * MIB);
        assert_eq!(quota("4e9"), 2_000_000_000);
        assert_eq!(quota("1.5G"), 750_000_000);
        assert_eq!(quota("500Mi"), 512 * MIB);
        assert_eq!(quota("1Ti"), 8192 * MIB);
        assert_eq!(quota("nonsense"), 512 * MIB);
    }
}
