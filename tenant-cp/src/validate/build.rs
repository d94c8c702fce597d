//! From a checked TenantCluster to [`Validated`].
//!
//! Invariant: called only when [`check`](super::check) found nothing; what can still fail is what
//! depends on the status.

use std::collections::BTreeMap;

use api::storage::Offer;
use api::tenant_cluster::{Audit, Autoscaler, Component as Spec, CoreDns, Csi};
use api::{Reason, TenantCluster};
use kube::ResourceExt;

use crate::network::DEFAULT_DNS_DOMAIN;
use crate::network::ranges::Use;
use crate::problem::Problem;
use crate::profile;
use crate::settings::Settings;
use crate::validate::validated::{Component, Dns, Endpoint, Etcd, EtcdEvents, Network, Validated};
use crate::validate::{limits, load_balancers, quantity, scheduling};
use crate::version;

pub(crate) fn build(tc: &TenantCluster, settings: &Settings) -> Result<Validated, Problem> {
    let spec = &tc.spec;
    let (name, uid) = (tc.name_any(), tc.uid().unwrap_or_default());
    if uid.is_empty() {
        return Err(Problem::new(
            "metadata.uid",
            Reason::NotStored,
            "the tenant cluster has no UID yet: only one that was read from the API can be built",
        ));
    }
    let version = version::parse_supported(&spec.version)
        .map_err(|error| Problem::new("spec.version", error.reason(), error.to_string()))?;
    let control_plane = &spec.control_plane;
    let profile = control_plane.profile.unwrap_or_default();
    let defaults = &profile::requests(profile, &settings.resources);
    let most = &profile::memory_limits(profile, &settings.memory_limits);
    let (requests, limits) = quantity::in_force(&spec.etcd.resources, &defaults.etcd);
    let limits = quantity::with_memory_limit(limits, &requests, &most.etcd);
    Ok(Validated {
        tenant_namespace: tc.tenant_namespace(),
        name,
        namespace: tc.namespace().unwrap_or_default(),
        uid,
        identity: tc.identity(),
        generation: tc.metadata.generation.unwrap_or_default(),
        version,
        emulated: None,
        replicas: control_plane.replicas,
        profile,
        endpoint: endpoint(&control_plane.endpoint, spec.addons.konnectivity.enabled),
        api_server: component(
            &control_plane.api_server,
            &defaults.api_server,
            &most.api_server,
        ),
        controller_manager: component(
            &control_plane.controller_manager,
            &defaults.controller_manager,
            &most.controller_manager,
        ),
        scheduler: component(
            &control_plane.scheduler,
            &defaults.scheduler,
            &most.scheduler,
        ),
        scheduling: scheduling::in_force(&control_plane.scheduling, &settings.tenant_pods),
        pod_metadata: control_plane.pod_metadata.clone(),
        etcd: Etcd {
            replicas: spec.etcd.replicas,
            wanted: spec.etcd.replicas,
            servers: spec.etcd.replicas,
            storage_size: spec.etcd.storage.size.0.clone(),
            storage_class_name: spec.etcd.storage.storage_class_name.clone(),
            requests,
            limits,
            quota_backend_bytes: quota_backend_bytes(&spec.etcd),
            auto_replace: spec.etcd.auto_replace,
            events: spec.etcd.events.as_ref().map(|events| {
                let (requests, limits) = quantity::in_force(&events.resources, &defaults.etcd);
                EtcdEvents {
                    size: events.size.0.clone(),
                    requests,
                    limits,
                    ..EtcdEvents::default()
                }
            }),
            pod_metadata: spec.etcd.pod_metadata.clone(),
            scheduling: scheduling::in_force(&spec.etcd.scheduling, &settings.tenant_pods),
        },
        network: network(tc)?,
        addons: spec.addons.clone(),
        issuers: control_plane.authentication.issuers.clone(),
        authorization_webhooks: match spec.addons.konnectivity.enabled {
            true => control_plane.authorization.webhooks.clone(),
            false => Vec::new(),
        },
        audit: audit(tc),
        service_accounts: control_plane.service_accounts.clone(),
        feature_gates: control_plane.feature_gates.clone(),
        runtime_config: control_plane.runtime_config.clone(),
        dns: dns(&spec.addons.core_dns),
        kube_proxy_mode: spec.addons.kube_proxy.mode.unwrap_or_default(),
        pod_security: control_plane.pod_security.clone(),
        storage: storage(&spec.addons.csi, settings),
        autoscaler: autoscaler(&spec.addons.autoscaler),
        load_balancers: load_balancers::in_force(
            &spec.addons.cloud_controller.load_balancers,
            &settings.load_balancers,
        ),
        kms: spec
            .encryption
            .kms
            .iter()
            .map(|kms| kms.name.clone())
            .collect(),
        registry: spec
            .images
            .registry
            .as_deref()
            .unwrap_or(&settings.registry)
            .trim_end_matches('/')
            .to_owned(),
    })
}

fn quota_backend_bytes(etcd: &api::tenant_cluster::Etcd) -> Option<u64> {
    let quota = etcd.quota_backend_bytes.as_ref()?;
    quantity::bytes(&quota.0)
}

/// Classes that are no longer offered are passed over: what is wrong with them is said when they are
/// asked for (admission), and their volumes go on being served.
fn storage(csi: &Csi, settings: &Settings) -> Option<Offer> {
    let offered = || settings.storage.only(csi.classes.as_deref());
    let offered = || limits::of_storage(&csi.limits, offered());
    csi.enabled.then(offered)
}

/// Without konnectivity the control plane's pod itself would call the webhook; `validate` lets nobody ask
/// for that.
fn audit(tc: &TenantCluster) -> Option<Audit> {
    let mut audit = tc.spec.control_plane.audit.clone()?;
    if !tc.spec.addons.konnectivity.enabled {
        audit.webhook = None;
    }
    Some(audit)
}

fn dns(core_dns: &CoreDns) -> Dns {
    let default = Dns::default();
    Dns {
        replicas: core_dns.replicas.unwrap_or(default.replicas),
        forward: core_dns.forward.clone(),
    }
}

fn autoscaler(autoscaler: &Autoscaler) -> Option<Autoscaler> {
    autoscaler.enabled.then(|| autoscaler.clone())
}

fn endpoint(endpoint: &api::tenant_cluster::Endpoint, has_konnectivity: bool) -> Endpoint {
    Endpoint {
        type_: endpoint.type_,
        host: endpoint.host.clone(),
        port: endpoint.port,
        konnectivity_port: endpoint.konnectivity_port.filter(|_| {
            has_konnectivity && endpoint.type_ != api::tenant_cluster::EndpointType::ClusterIP
        }),
        cert_sans: endpoint.cert_sans.clone(),
        annotations: endpoint.annotations.clone(),
        labels: endpoint.labels.clone(),
        external_traffic_policy: endpoint.external_traffic_policy,
        allocate_node_ports: endpoint.allocate_load_balancer_node_ports,
        load_balancer_class: endpoint.load_balancer_class.clone(),
        source_ranges: endpoint.source_ranges.clone(),
    }
}

fn component(spec: &Spec, defaults: &BTreeMap<String, String>, most: &str) -> Component {
    let (requests, limits) = quantity::in_force(&spec.resources, defaults);
    let limits = quantity::with_memory_limit(limits, &requests, most);
    Component {
        requests,
        limits,
        extra_args: spec.extra_args.clone(),
    }
}

fn network(tc: &TenantCluster) -> Result<Network, Problem> {
    let spec = &tc.spec.network;
    let decided = tc
        .status
        .as_ref()
        .and_then(|status| status.network.as_ref());
    let range = |use_: Use, decided: Option<&str>, given: Option<&str>| {
        let undecided = || {
            Problem::new(
                use_.field(),
                Reason::NetworkUndecided,
                "the address range is not decided yet: the operator writes it to status.network",
            )
        };
        let text = decided.or(given).ok_or_else(undecided)?;
        text.parse().map_err(|_| {
            Problem::new(
                use_.field(),
                Reason::NetworkUnreadable,
                format!(
                    "status.network holds \"{text}\", which is not an address range: restore \
                         the status that the operator wrote"
                ),
            )
        })
    };
    Ok(Network {
        pod_cidr: range(
            Use::Pods,
            decided.map(|network| network.pod_cidr.as_str()),
            spec.pod_cidr.as_deref(),
        )?,
        service_cidr: range(
            Use::Services,
            decided.map(|network| network.service_cidr.as_str()),
            spec.service_cidr.as_deref(),
        )?,
        dns_domain: decided
            .map(|network| &network.dns_domain)
            .or(spec.dns_domain.as_ref())
            .map_or_else(|| DEFAULT_DNS_DOMAIN.to_owned(), String::clone),
    })
}
