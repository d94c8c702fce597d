//! Needs: operator, host, overlay
//!
//! Both authorities that nodes depend on are turned in place: the kubelet of a host is told where it runs, and what runs there
//! runs on.
//!
//! The program that tells it is in the image of the overlay, which nodes pull; the addon itself is off.
//! Invariant: the Node, its machine, and its pods with their containers are the same afterwards; the kubelet is another
//! process with a certificate of the new authority, and what it had before is refused once the old one is dropped.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use api::{
    Machine, TenantCluster,
    node_pool::{Provider, Static},
    tenant_cluster::RotationPhase,
};
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;
use suites::{
    cluster::{
        Pool, Tenant,
        pool::small,
        wait::{wait_for, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        kubectl::Kubectl,
        lab_hosts::{LabHosts, inside},
        workers::PODS,
        workload::{Workload, list},
    },
};

/// What a kubelet is on its machine: its process, and what it believes and shows.
const KUBELET: &str = r#"
for process in /proc/[0-9]*; do
    read -r name < "$process/comm" || continue
    if [ "$name" = kubelet ]; then echo "$process"; fi
done 2> /dev/null
sha256sum /etc/kubernetes/pki/ca.crt
readlink /var/lib/kubelet/pki/kubelet-client-current.pem
"#;
/// How long both authorities may take, with all that is rolled out for them.
const TURN: Duration = Duration::from_secs(900);
/// Nothing of a try stays on the machine.
const LEFT: &str = "ls -d /etc/kubernetes/covey-renewal* /etc/kubernetes/bootstrap-kubelet.conf 2>/dev/null || true";

#[tokio::test]
async fn kubelet_of_a_host_is_told_of_a_rotation_and_what_runs_there_runs_on() {
    let mut machines = LabHosts::default();
    scenario::run("inplace", async |s| in_place(s, &mut machines).await).await;
    machines.end().unwrap();
}

async fn in_place(s: &Scenario, machines: &mut LabHosts) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let host = machines.add(s, "rack", &[]).await?;
    tenant.usable(PATIENCE).await?;
    let kubectl = Kubectl::of(s, &tenant).await?;
    let manifest = s.file("hosts.json", &list(&host.objects))?;
    let manifest = manifest.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", manifest]).await?;
    let told = life(s, &tenant, &kubectl, &host.name).await;
    told.map_err(|error| {
        let tail = "tail -v -n 60 /var/log/kubelet.log; \
                    tail -v -n 30 /var/log/pods/kube-system_covey-renew-*/*/*.log";
        let said = inside(s, &host.name, tail).unwrap_or_else(|error| format!("{error:#}"));
        error.context(said)
    })
}

async fn life(s: &Scenario, tenant: &Tenant, kubectl: &Kubectl, host: &str) -> Result<()> {
    let mut spec = small("demo");
    spec.provider = Some(Provider {
        static_: Some(Static::default()),
        ..Provider::default()
    });
    let pool = Pool::create(tenant, "hosts", spec).await?;
    pool.settled(1, PATIENCE).await?;
    tenant.settled(PODS).await?;
    let web = Workload {
        name: "web",
        replicas: 1,
        config_map: None,
        stays: 0,
    };
    web.deploy(kubectl, PODS).await?;
    let before = (node(tenant).await?, containers(tenant).await?);
    let kubelet = inside(s, host, KUBELET)?;
    let certificate = inside(
        s,
        host,
        "cat /var/lib/kubelet/pki/kubelet-client-current.pem",
    )?;
    let machine = pool.list().await?;
    let machine = machine.keys().next().context("no Machine")?.clone();

    let turn = json!({ "generation": 2, "nodes": "InPlace" });
    let rotation = json!({ "rotation": { "clusterCA": turn, "clientCA": turn } });
    tenant.change(&rotation).await?;
    let is_told = |machine: &Machine| {
        let status = machine.status.as_ref()?;
        status.renewed.clone()
    };
    wait_for(
        &pool.machines(),
        &machine,
        "its kubelet is told",
        PODS,
        is_told,
    )
    .await?;
    let are_over = |cluster: &TenantCluster| is_over(cluster, &["clusterCA", "clientCA"], 2);
    wait_for(&s.tenants(), "demo", "both are turned", TURN, are_over).await?;
    tenant.settled(PODS).await?;

    let after = (node(tenant).await?, containers(tenant).await?);
    ensure!(before == after, "{before:?} was, {after:?} is");
    let now = inside(s, host, KUBELET)?;
    for (was, is) in kubelet.lines().zip(now.lines()) {
        ensure!(was != is, "{was} is as before");
    }
    let left = inside(s, host, LEFT)?;
    ensure!(left.trim().is_empty(), "{left} is left on the machine");
    nothing_is_left(tenant).await?;
    // The kubeconfig of before believes nobody who serves.
    let kubectl = Kubectl::of(s, tenant).await?;
    let said = kubectl.run(&[
        "exec",
        "deployment/web",
        "--",
        "wget",
        "-q",
        "-O",
        "-",
        "http://127.0.0.1:8080/told",
    ]);
    let said = said.await?;
    ensure!(said.starts_with("hello from web-"), "{said}");
    is_refused(s, tenant, &machine, &certificate).await?;

    stolen(s, tenant, host).await?;
    tenant.settled(PODS).await?;
    let last = (node(tenant).await?, containers(tenant).await?);
    ensure!(before == last, "{before:?} was, {last:?} is");
    pool.patch(json!({ "replicas": 0 })).await?;
    let none = |all: &BTreeMap<String, Machine>| all.is_empty().then_some(());
    wait_list(
        &pool.machines(),
        pool.own(),
        "no Machine is left",
        PATIENCE,
        none,
    )
    .await
}

/// The key of the cluster's authority was stolen: the kubelet is told of the next one before it signs, and then that nobody else
/// is to be believed.
async fn stolen(s: &Scenario, tenant: &Tenant, host: &str) -> Result<()> {
    let turn = json!({ "generation": 3, "compromised": 3, "nodes": "InPlace" });
    tenant
        .change(&json!({ "rotation": { "clusterCA": turn } }))
        .await?;
    let own = |cluster: &TenantCluster| {
        let told = &cluster.status.as_ref()?.rotation;
        told.iter().find(|one| one.name == "clusterCA").cloned()
    };
    let is_told = |cluster: &TenantCluster| {
        own(cluster).filter(|one| one.signs == 2 && one.told_since.is_some())
    };
    wait_for(&s.tenants(), "demo", "nodes are told first", TURN, is_told).await?;
    let is_alone = |cluster: &TenantCluster| is_over(cluster, &["clusterCA"], 3);
    wait_for(&s.tenants(), "demo", "it is turned", TURN, is_alone).await?;
    let count = "grep -c BEGIN /etc/kubernetes/pki/ca.crt; \
                 sed -n 's/ *certificate-authority-data: //p' /etc/kubernetes/kubelet.conf | base64 -d | grep -c BEGIN";
    let believed = inside(s, host, count)?;
    ensure!(
        believed.split_whitespace().eq(["1", "1"]),
        "{believed} are believed"
    );
    Ok(())
}

/// Whether these are turned to a generation, and it is the only one.
fn is_over(cluster: &TenantCluster, names: &[&str], generation: u32) -> Option<()> {
    let told = &cluster.status.as_ref()?.rotation;
    let mut over = names.iter().map(|name| {
        told.iter().any(|one| {
            one.name == *name
                && one.signs == generation
                && one.believed == [generation]
                && one.phase == RotationPhase::Idle
        })
    });
    over.all(|is_over| is_over).then_some(())
}

/// The Node's UID, and the boot of its machine; it is ready.
async fn node(tenant: &Tenant) -> Result<(Option<String>, String)> {
    let nodes = Api::<Node>::all(tenant.admin(PATIENCE).await?);
    let nodes = nodes.list(&ListParams::default()).await?;
    let [node] = nodes.items.as_slice() else {
        anyhow::bail!("{} nodes", nodes.items.len());
    };
    let status = node.status.as_ref().context("no status")?;
    let mut conditions = status.conditions.iter().flatten();
    let is_ready = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    ensure!(is_ready, "{:?}", status.conditions);
    let info = status.node_info.as_ref().context("no nodeInfo")?;
    Ok((node.uid(), info.boot_id.clone()))
}

/// Pods of the workload: UID, container, and how often that was restarted.
async fn containers(tenant: &Tenant) -> Result<Vec<(Option<String>, Option<String>, i32)>> {
    let pods = Api::<Pod>::namespaced(tenant.admin(PATIENCE).await?, "default");
    let pods = pods.list(&ListParams::default().labels("app=web")).await?;
    let mut all = Vec::new();
    for pod in &pods {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        for container in containers.into_iter().flatten() {
            all.push((
                pod.uid(),
                container.container_id.clone(),
                container.restart_count,
            ));
        }
    }
    all.sort();
    ensure!(!all.is_empty(), "no container runs");
    Ok(all)
}

/// Neither pod, nor Secret, nor token.
async fn nothing_is_left(tenant: &Tenant) -> Result<()> {
    let admin = tenant.admin(PATIENCE).await?;
    let mut left = Vec::new();
    let pods = Api::<Pod>::namespaced(admin.clone(), "kube-system");
    left.extend(
        pods.list(&ListParams::default())
            .await?
            .iter()
            .map(|pod| pod.name_any()),
    );
    let secrets = Api::<Secret>::namespaced(admin, "kube-system");
    left.extend(
        secrets
            .list(&ListParams::default())
            .await?
            .iter()
            .map(|it| it.name_any()),
    );
    left.retain(|name| name.starts_with("covey-renew-") || name.starts_with("bootstrap-token-"));
    ensure!(left.is_empty(), "{left:?} are left");
    Ok(())
}

/// Nobody is let in by what the kubelet had before; by what it has now somebody would be.
async fn is_refused(s: &Scenario, tenant: &Tenant, machine: &str, certificate: &str) -> Result<()> {
    let text = tenant.kubeconfig(PATIENCE).await?;
    let pair = s.file("before.pem", certificate)?;
    let pair = pair.to_str().context("a path that is no text")?;
    let mut config = kube::config::Kubeconfig::from_yaml(&text)?;
    for user in &mut config.auth_infos {
        user.auth_info = Some(kube::config::AuthInfo {
            client_certificate: Some(pair.to_owned()),
            client_key: Some(pair.to_owned()),
            ..kube::config::AuthInfo::default()
        });
    }
    let config = s.file("before.kubeconfig", &serde_json::to_string(&config)?)?;
    let kubectl = Kubectl::with(&s.management.layout, config);
    let asked = kubectl.run(&["get", "node", machine]).await;
    let Err(error) = asked else {
        anyhow::bail!("a certificate of the old authority is let in");
    };
    let said = format!("{error:#}");
    let is_refused = said.contains("Unauthorized") || said.contains("must be logged in");
    ensure!(is_refused, "{said}");
    Ok(())
}
