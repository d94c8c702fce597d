//! Needs: operator
//!
//! The control-plane checks of the CIS Kubernetes benchmark (profile cis-1.12), on the flags of
//! the pods that run: every check by its number, and the exceptions with their reason.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{ResourceExt as _, api::ListParams};
use suites::{
    cluster::Tenant,
    scenario::{self, PATIENCE},
};

/// Flags of one program without dashes.
type Flags = BTreeMap<String, String>;

#[tokio::test]
async fn the_running_pods_pass_the_control_plane_checks_of_the_cis_benchmark() {
    scenario::run("cis", cis).await;
}

async fn cis(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    let programs = programs(&tenant).await?;
    let program = |name: &str| {
        programs
            .get(name)
            .with_context(|| format!("no {name} runs"))
    };
    let mut failed = Vec::new();
    api_server(program("kube-apiserver")?, &mut failed);
    controller_manager(program("kube-controller-manager")?, &mut failed);
    scheduler(program("kube-scheduler")?, &mut failed);
    etcd(program("etcd")?, program("kube-apiserver")?, &mut failed);
    files(&tenant, &mut failed).await?;
    ensure!(failed.is_empty(), "failed checks: {}", failed.join(", "));
    Ok(())
}

fn check(failed: &mut Vec<&'static str>, id: &'static str, passed: bool) {
    if !passed {
        failed.push(id);
    }
}

fn api_server(flags: &Flags, failed: &mut Vec<&'static str>) {
    let is = |name: &str, value: &str| flags.get(name).is_some_and(|found| found == value);
    let set = |name: &str| flags.get(name).is_some_and(|found| !found.is_empty());
    let listed = |name: &str, value: &str| {
        flags
            .get(name)
            .is_some_and(|list| list.split(',').any(|item| item == value))
    };
    let number = |name: &str| {
        flags
            .get(name)
            .and_then(|text| text.parse::<u32>().ok())
            .unwrap_or(0)
    };
    let on = "enable-admission-plugins";
    let off = "disable-admission-plugins";
    // 1.2.1 is checked in `files`: the flag is replaced by authentication-config (KEP-4633).
    check(
        failed,
        "1.2.1 anonymous-auth",
        is("anonymous-auth", "false") || set("authentication-config"),
    );
    check(failed, "1.2.2 token-auth-file", !set("token-auth-file"));
    check(
        failed,
        "1.2.3 DenyServiceExternalIPs",
        listed(on, "DenyServiceExternalIPs"),
    );
    let kubelet = set("kubelet-client-certificate") && set("kubelet-client-key");
    check(failed, "1.2.4 kubelet client certificate", kubelet);
    check(
        failed,
        "1.2.5 kubelet authority",
        set("kubelet-certificate-authority"),
    );
    check(
        failed,
        "1.2.6 AlwaysAllow",
        !listed("authorization-mode", "AlwaysAllow"),
    );
    check(failed, "1.2.7 Node", listed("authorization-mode", "Node"));
    check(failed, "1.2.8 RBAC", listed("authorization-mode", "RBAC"));
    check(
        failed,
        "1.2.9 EventRateLimit",
        listed(on, "EventRateLimit") && set("admission-control-config-file"),
    );
    check(failed, "1.2.10 AlwaysAdmit", !listed(on, "AlwaysAdmit"));
    // 1.2.11 AlwaysPullImages: considered and left to the user (a manual check of the benchmark);
    // it makes every start of a pod depend on the registry.
    check(
        failed,
        "1.2.12 ServiceAccount",
        !listed(off, "ServiceAccount"),
    );
    check(
        failed,
        "1.2.13 NamespaceLifecycle",
        !listed(off, "NamespaceLifecycle"),
    );
    check(
        failed,
        "1.2.14 NodeRestriction",
        listed(on, "NodeRestriction"),
    );
    check(failed, "1.2.15 profiling", is("profiling", "false"));
    check(failed, "1.2.16 audit-log-path", set("audit-log-path"));
    check(
        failed,
        "1.2.17 audit-log-maxage",
        number("audit-log-maxage") >= 30,
    );
    check(
        failed,
        "1.2.18 audit-log-maxbackup",
        number("audit-log-maxbackup") >= 10,
    );
    check(
        failed,
        "1.2.19 audit-log-maxsize",
        number("audit-log-maxsize") >= 100,
    );
    check(failed, "1.2.20 request-timeout", set("request-timeout"));
    check(
        failed,
        "1.2.21 service-account-lookup",
        is("service-account-lookup", "true"),
    );
    check(
        failed,
        "1.2.22 service-account-key-file",
        set("service-account-key-file"),
    );
    check(
        failed,
        "1.2.23 etcd client certificate",
        set("etcd-certfile") && set("etcd-keyfile"),
    );
    check(
        failed,
        "1.2.24 serving certificate",
        set("tls-cert-file") && set("tls-private-key-file"),
    );
    check(failed, "1.2.25 client-ca-file", set("client-ca-file"));
    check(failed, "1.2.26 etcd-cafile", set("etcd-cafile"));
    check(
        failed,
        "1.2.27 encryption-provider-config",
        set("encryption-provider-config"),
    );
    check(failed, "1.2.29 strong ciphers", strong(flags));
    let extended = is("service-account-extend-token-expiration", "false");
    check(failed, "1.2.30 extended token expiration", extended);
    check(failed, "3.2.1 audit-policy-file", set("audit-policy-file"));
}

fn controller_manager(flags: &Flags, failed: &mut Vec<&'static str>) {
    let is = |name: &str, value: &str| flags.get(name).is_some_and(|found| found == value);
    let set = |name: &str| flags.get(name).is_some_and(|found| !found.is_empty());
    check(
        failed,
        "1.3.1 terminated-pod-gc-threshold",
        set("terminated-pod-gc-threshold"),
    );
    check(failed, "1.3.2 profiling", is("profiling", "false"));
    check(
        failed,
        "1.3.3 use-service-account-credentials",
        is("use-service-account-credentials", "true"),
    );
    check(
        failed,
        "1.3.4 service-account-private-key-file",
        set("service-account-private-key-file"),
    );
    check(failed, "1.3.5 root-ca-file", set("root-ca-file"));
    let gates = flags
        .get("feature-gates")
        .map(String::as_str)
        .unwrap_or_default();
    check(
        failed,
        "1.3.6 RotateKubeletServerCertificate",
        !gates.contains("RotateKubeletServerCertificate=false"),
    );
    check(
        failed,
        "1.3.7 bind-address",
        is("bind-address", "127.0.0.1"),
    );
    check(failed, "1.3.7 strong ciphers", strong(flags));
}

fn scheduler(flags: &Flags, failed: &mut Vec<&'static str>) {
    let is = |name: &str, value: &str| flags.get(name).is_some_and(|found| found == value);
    check(failed, "1.4.1 profiling", is("profiling", "false"));
    check(
        failed,
        "1.4.2 bind-address",
        is("bind-address", "127.0.0.1"),
    );
}

fn etcd(flags: &Flags, api_server: &Flags, failed: &mut Vec<&'static str>) {
    let is = |name: &str, value: &str| flags.get(name).is_some_and(|found| found == value);
    let set = |name: &str| flags.get(name).is_some_and(|found| !found.is_empty());
    check(
        failed,
        "2.1 server certificate",
        set("cert-file") && set("key-file"),
    );
    check(
        failed,
        "2.2 client-cert-auth",
        is("client-cert-auth", "true") && set("trusted-ca-file"),
    );
    check(failed, "2.3 auto-tls", !is("auto-tls", "true"));
    check(
        failed,
        "2.4 peer certificate",
        set("peer-cert-file") && set("peer-key-file"),
    );
    check(
        failed,
        "2.5 peer-client-cert-auth",
        is("peer-client-cert-auth", "true"),
    );
    check(failed, "2.6 peer-auto-tls", !is("peer-auto-tls", "true"));
    let own = flags.get("trusted-ca-file");
    check(
        failed,
        "2.7 authority of its own",
        own.is_some() && own != api_server.get("client-ca-file"),
    );
}

fn strong(flags: &Flags) -> bool {
    let suites = flags
        .get("tls-cipher-suites")
        .map(String::as_str)
        .unwrap_or_default();
    let strong = |suite: &str| {
        suite.starts_with("TLS_ECDHE_") && (suite.contains("_GCM_") || suite.contains("CHACHA20"))
    };
    !suites.is_empty() && suites.split(',').all(strong)
}

/// Checks of what the flags point to.
async fn files(tenant: &Tenant, failed: &mut Vec<&'static str>) -> Result<()> {
    let text = async |secret: &str, key: &str| {
        anyhow::Ok(String::from_utf8_lossy(&tenant.secret(secret, key).await?).into_owned())
    };
    let anonymous = text("apiserver", "authentication.yaml").await?;
    let paths: Vec<_> = anonymous
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- path: "))
        .collect();
    let allowed = [
        "/livez",
        "/readyz",
        "/healthz",
        "/api/v1/namespaces/kube-public/configmaps/cluster-info",
    ];
    let only = !paths.is_empty() && paths.iter().all(|path| allowed.contains(path));
    check(
        failed,
        "1.2.1 anonymous requests for health and cluster-info alone",
        only,
    );
    let encryption = text("apiserver", "encryption.yaml").await?;
    let first = encryption.find("identity").unwrap_or(usize::MAX);
    let provider = ["secretbox", "aesgcm", "aescbc"]
        .iter()
        .filter_map(|p| encryption.find(p))
        .min();
    let encrypts = provider.is_some_and(|at| at < first) && encryption.contains("secrets");
    check(failed, "1.2.28 encryption provider", encrypts);
    let (cluster, etcd) = (
        text("ca", "ca.crt").await?,
        text("etcd-ca", "ca.crt").await?,
    );
    check(
        failed,
        "2.7 etcd's authority is not the cluster's",
        cluster != etcd,
    );
    Ok(())
}

/// Flags of every program of the tenant namespace's pods; 5.2 (restricted pods) on the way.
async fn programs(tenant: &Tenant) -> Result<BTreeMap<String, Flags>> {
    let mut programs = BTreeMap::new();
    for pod in tenant.parts::<Pod>().list(&ListParams::default()).await? {
        let name = pod.name_any();
        let spec = pod.spec.unwrap_or_default();
        ensure!(
            spec.automount_service_account_token == Some(false),
            "5.1.6: {name} has a token"
        );
        let user = spec.security_context.clone().unwrap_or_default();
        ensure!(
            user.run_as_non_root == Some(true),
            "5.2.7: {name} may run as root"
        );
        ensure!(
            spec.host_network != Some(true),
            "5.2.5: {name} has the host's network"
        );
        let all = spec
            .init_containers
            .unwrap_or_default()
            .into_iter()
            .chain(spec.containers);
        for container in all {
            let security = container.security_context.clone().unwrap_or_default();
            let closed = security.allow_privilege_escalation == Some(false)
                && security.read_only_root_filesystem == Some(true);
            ensure!(closed, "5.2.6: {name}/{} may gain rights", container.name);
            let (program, flags) = flags(&container)?;
            programs.insert(program, flags);
        }
    }
    Ok(programs)
}

fn flags(container: &Container) -> Result<(String, Flags)> {
    let words = container
        .command
        .iter()
        .chain(container.args.iter())
        .flatten();
    let mut words = words.map(String::as_str);
    let program = words.next().context("a container without a command")?;
    let program = program.rsplit('/').next().unwrap_or(program).to_owned();
    let flag = |word: &str| {
        let (name, value) = word
            .trim_start_matches('-')
            .split_once('=')
            .unwrap_or((word, "true"));
        (name.to_owned(), value.to_owned())
    };
    Ok((program, words.map(flag).collect()))
}
