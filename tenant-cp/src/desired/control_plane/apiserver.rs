//! The kube-apiserver: flags and container.
//!
//! What it writes to its node's disk it asks for (`ephemeral-storage`), so that the scheduler of the
//! management cluster fills no node with control planes whose logs have no room.
//! Invariant: a flag that Covey manages is set here and nowhere else.

pub(crate) mod files;

use api::tenant_cluster::AuditLog;
use k8s_openapi::api::core::v1::{Capabilities, Container, ContainerPort, SecurityContext, Volume};

use crate::desired::{etcd_events, pod};
use crate::flags::apiserver::{EVENTS_ELSEWHERE, TOKENS_SIGNED_BY, TOKENS_VERIFIED_BY};
use crate::flags::{EMULATED_VERSION, Program, args, features};
use crate::material::{Material, service_account_file};
use crate::names::{self, API_PORT};
use crate::network::addresses::Addresses;
use crate::profile::{self, Runtime};
use crate::validate::quantity::with_at_least;
use crate::validate::validated::Validated;

pub(crate) fn flags(v: &Validated, addresses: &Addresses, material: &Material) -> Vec<String> {
    let own = format!("https://kubernetes.default.svc.{}", v.network.dns_domain);
    let tokens = &v.service_accounts;
    let issuer = tokens.issuer.clone().unwrap_or_else(|| own.clone());
    let jwks = tokens.jwks_uri.clone();
    // The first signs. Tokens of pods that run when the issuer changes are of the one before.
    let mut issuers = vec![issuer.clone()];
    issuers.extend(tokens.accepted_issuers.iter().cloned());
    if tokens.issuer.is_some() {
        issuers.push(own.clone());
    }
    let mut audiences = vec![own];
    audiences.extend(tokens.issuer.iter().cloned());
    audiences.extend(tokens.audiences.iter().cloned());
    let servers: Vec<_> = (0..v.etcd.servers)
        .map(|member| {
            format!(
                "https://{}:{}",
                names::etcd_member(member),
                names::ETCD_CLIENT_PORT
            )
        })
        .collect();
    let mut computed = vec![
        ("advertise-address", addresses.cluster_ip.to_string()),
        ("api-audiences", audiences.join(",")),
        ("etcd-servers", servers.join(",")),
        (
            "service-account-jwks-uri",
            jwks.unwrap_or_else(|| format!("{}/openid/v1/jwks", issuer.trim_end_matches('/'))),
        ),
        (
            "service-cluster-ip-range",
            v.network.service_cidr.to_string(),
        ),
    ];
    computed.extend(
        issuers
            .into_iter()
            .map(|issuer| ("service-account-issuer", issuer)),
    );
    computed.extend(names_events(v).then(|| (EVENTS_ELSEWHERE, etcd_events::overrides())));
    computed.extend(audit(v));
    let emulated = v.emulated.map(|minor| format!("1.{minor}"));
    computed.extend(emulated.map(|version| (EMULATED_VERSION, version)));
    computed.extend(features::flag("feature-gates", &v.feature_gates));
    computed.extend(features::flag("runtime-config", &v.runtime_config));
    computed.push(match v.authorization_webhooks.is_empty() {
        true => ("authorization-mode", "Node,RBAC".to_owned()),
        false => ("authorization-config", in_folder(names::AUTHORIZATION)),
    });
    let file = |generation, end| {
        let file = service_account_file(generation);
        format!("{}/{file}.{end}", names::SECRET_DIR)
    };
    let keys = &material.service_account;
    for (generation, _) in keys.active_first() {
        computed.push((TOKENS_VERIFIED_BY, file(generation, "pub")));
    }
    if let Some((generation, _)) = keys.active() {
        computed.push((TOKENS_SIGNED_BY, file(generation, "key")));
    }
    if v.addons.konnectivity.enabled {
        let file = format!("{}/egress-selector.yaml", names::SECRET_DIR);
        computed.push(("egress-selector-config-file", file));
    }
    let extra = &v.api_server.extra_args;
    computed.extend(profile::flags(v.profile, Program::ApiServer, extra));
    args(Program::ApiServer, &computed, extra)
}

/// Whether it is told to keep Events in an etcd of their own.
fn names_events(v: &Validated) -> bool {
    v.etcd.events.as_ref().is_some_and(|events| events.named)
}

/// Where it is asked whether it works. What has Events alone may be away: without them it serves all else. It names the
/// checks of each further etcd by a number (`addEtcdHealthEndpoint` of kubernetes `apiserver/pkg/server/options/etcd.go`, 1.35
/// and 1.37).
///
/// `without_kms`: nor does `/readyz` fail where a KMS plugin, or its KMS, is away: what needs no decryption is served. There is
/// one check for all of them, because the file is read again by itself, and `/livez` has none
/// (`addHealthChecksWithoutLivez` there).
fn probe_path(v: &Validated, path: &str, checks: &[&str], without_kms: bool) -> String {
    let checks = checks.iter().filter(|_| names_events(v));
    let checks = checks.copied().chain(without_kms.then_some(KMS_CHECK));
    let excluded: Vec<_> = checks.map(|check| format!("exclude={check}")).collect();
    match excluded.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", excluded.join("&")),
    }
}

/// Checks of the etcd that has Events: whether it answers, and whether in time.
const EVENTS_CHECK: &str = "etcd-override-0";
const EVENTS_READY_CHECK: &str = "etcd-override-readiness-0";
/// Its check of KMS plugins.
const KMS_CHECK: &str = "kms-providers";

fn in_folder(file: &str) -> String {
    format!("{}/{file}", names::SECRET_DIR)
}

/// Where the audit log goes. In a container's log an event is cut, because a line there is kept whole by
/// whoever reads it; to a webhook too, and no more of them wait than fit beside the API server's own memory.
fn audit(v: &Validated) -> Vec<(&'static str, String)> {
    let chosen = v.audit.as_ref();
    let to_stdout = logs_to_stdout(v);
    let path = match to_stdout {
        true => "-".to_owned(),
        false => format!("{}/audit.log", names::AUDIT_DIR),
    };
    let mut flags = vec![("audit-log-path", path)];
    let cut = "audit-log-truncate-enabled";
    if to_stdout && !v.api_server.extra_args.contains_key(cut) {
        flags.push((cut, "true".to_owned()));
    }
    if chosen.is_some_and(|audit| audit.webhook.is_some()) {
        flags.push(("audit-webhook-batch-buffer-size", "1000".to_owned()));
        flags.push(("audit-webhook-config-file", in_folder(names::AUDIT_WEBHOOK)));
        flags.push(("audit-webhook-truncate-enabled", "true".to_owned()));
    }
    flags
}

fn logs_to_stdout(v: &Validated) -> bool {
    let chosen = v.audit.as_ref();
    chosen.is_some_and(|audit| audit.log.unwrap_or_default() == AuditLog::Stdout)
}

/// A directory that it writes to, on the disk of its node.
#[derive(Clone, Copy)]
pub(crate) struct Directory {
    name: &'static str,
    path: &'static str,
    mebibytes: u64,
}

impl Directory {
    pub(crate) fn volume(self) -> Volume {
        pod::empty_dir(self.name, &format!("{}Mi", self.mebibytes))
    }
}

/// All of them. An audit log that goes to the container's is kept small by the kubelet.
pub(crate) fn directories(v: &Validated) -> impl Iterator<Item = Directory> {
    let audit = Directory {
        name: "audit",
        path: names::AUDIT_DIR,
        // Eleven files of 100 MB (the flags audit-log-*), and spare.
        mebibytes: 1500,
    };
    let temporary = Directory {
        name: "tmp",
        path: "/tmp",
        mebibytes: 64,
    };
    let audit = (!logs_to_stdout(v)).then_some(audit);
    audit.into_iter().chain([temporary])
}

pub(crate) fn container(v: &Validated, addresses: &Addresses, material: &Material) -> Container {
    let mut mounts = vec![pod::mount(names::API_SERVER, names::SECRET_DIR, true)];
    let written = directories(v).map(|directory| pod::mount(directory.name, directory.path, false));
    mounts.extend(written);
    let mebibytes: u64 = directories(v).map(|directory| directory.mebibytes).sum();
    let requests = with_at_least(
        "ephemeral-storage",
        &format!("{mebibytes}Mi"),
        &v.api_server.requests,
        &v.api_server.limits,
    );
    if v.addons.konnectivity.enabled {
        mounts.push(pod::mount(
            names::KONNECTIVITY,
            names::KONNECTIVITY_DIR,
            true,
        ));
    }
    let has_kms = material.encrypted.kms.all().next().is_some();
    // One that starts has to find its KMS; those that serve meanwhile are taken away for nothing less.
    let livez = probe_path(v, "/livez", &[EVENTS_CHECK], false);
    let ready_checks = [EVENTS_CHECK, EVENTS_READY_CHECK];
    let readyz = probe_path(v, "/readyz", &ready_checks, has_kms);
    let starts = match has_kms {
        true => probe_path(v, "/readyz", &ready_checks, false),
        false => livez.clone(),
    };
    Container {
        name: names::API_SERVER.to_owned(),
        image: Some(format!("{}/kube-apiserver:v{}", v.registry, v.version)),
        command: Some(vec!["kube-apiserver".to_owned()]),
        args: Some(flags(v, addresses, material)),
        env: pod::variables(profile::environment(
            v.profile,
            Runtime::ApiServer,
            &v.api_server.limits,
        )),
        ports: Some(vec![ContainerPort {
            name: Some("https".to_owned()),
            container_port: API_PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        startup_probe: Some(pod::startup_probe(&starts, API_PORT, "HTTPS")),
        // The kubelet asks at once when the start-up probe has passed, so a longer period does not
        // delay the first answer, and a hundred idle tenants stay cheap.
        readiness_probe: Some(pod::probe(&readyz, API_PORT, "HTTPS", 3, 3)),
        liveness_probe: Some(pod::probe(&livez, API_PORT, "HTTPS", 10, 9)),
        resources: Some(pod::resources(&requests, &v.api_server.limits)),
        termination_message_policy: pod::last_lines(),
        security_context: Some(SecurityContext {
            // The published image gives its binary this capability (setcap), and without it in the
            // bounding set the kernel refuses to start such a binary. Nothing uses it.
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: Some(vec!["NET_BIND_SERVICE".to_owned()]),
            }),
            ..pod::container_security()
        }),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}
