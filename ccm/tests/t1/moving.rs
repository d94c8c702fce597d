//! The steps of docs/ccm.md, "Moving from the KubeVirt CCM", by the program itself: what that left in both
//! clusters is gone on with.
//!
//! Invariant: from the first step to the last a watch sees the load balancer with its address.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use ccm::names;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use serde_json::json;
use testkit::fixtures::{wait_for, wait_gone};
use testkit::process::{Process, Workdir};

use crate::support::environment::{addresses, apply, wait_all};
use crate::support::{Environment, PATIENCE};

const ADDRESS: &str = "192.0.2.7";

/// Starts the program: with the file of the KubeVirt CCM, as the steps say, or as the addon does.
fn start(environment: &Environment, dir: &Workdir, file: Option<&str>) -> Result<Process> {
    let [tenant, management] = environment.kubeconfigs(dir)?;
    let mut flags = vec![
        ("kubeconfig", tenant.display().to_string()),
        ("cluster-uid", environment.uid.clone()),
        ("admin-address", "127.0.0.1:0".to_owned()),
    ];
    match file {
        Some(file) => {
            let file = format!("kubeconfig: {}\n{file}", management.display());
            let file = dir.write("cloud-config", &file)?;
            flags.push(("cloud-config", file.display().to_string()));
            flags.push(("cluster-name", "demo".to_owned()));
            flags.push(("endpoints", "slices".to_owned()));
        }
        None => {
            flags.push(("management-kubeconfig", management.display().to_string()));
            flags.push(("namespace", environment.ns.clone()));
        }
    }
    let flags: Vec<_> = flags
        .into_iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
    let log = dir.path().join("ccm.log");
    Process::spawn("ccm", Path::new(env!("CARGO_BIN_EXE_ccm")), &flags, &log)
}

/// A load balancer as the KubeVirt CCM leaves it in the management cluster, with what Kubernetes made of
/// its selector there.
async fn mirror(environment: &Environment, uid: &str, name: &str, port: i32) -> Result<String> {
    let mirror = names::legacy_mirror(uid);
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": mirror, "namespace": environment.ns,
            "annotations": { "example.com/pool": "public" },
            "labels": {
                "cluster.x-k8s.io/tenant-service-name": name,
                "cluster.x-k8s.io/tenant-service-namespace": "default",
                "cluster.x-k8s.io/cluster-name": "demo",
            },
        },
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Cluster",
            "selector": {
                "cluster.x-k8s.io/role": "worker", "cluster.x-k8s.io/cluster-name": "demo",
            },
            "ports": [{ "port": 80, "protocol": "TCP", "targetPort": port }],
        },
    });
    // It creates and updates; it does not apply.
    let service: Service = serde_json::from_value(object)?;
    let mirrors = environment.mirrors();
    let made = mirrors.create(&Default::default(), &service).await?;
    environment
        .allocate(&mirror, &json!([{ "ip": ADDRESS }]))
        .await?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{mirror}-x7k2p"), "namespace": environment.ns,
            "labels": {
                names::LABEL_SLICE_OF: mirror, names::LABEL_SLICES_MANAGED_BY: names::SLICES_OF_SELECTOR,
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": mirror, "uid": made.uid(), "controller": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.9.9.9"], "conditions": { "ready": true } }],
        "ports": [{ "port": port, "protocol": "TCP" }],
    });
    apply(&environment.admin, &slice).await?;
    Ok(mirror)
}

/// Addresses of a Service; none when it is gone.
type State = Option<Vec<String>>;

/// What a watch tells of a Service.
struct Witness {
    seen: Arc<Mutex<Vec<State>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Witness {
    fn start(api: Api<Service>, name: &str) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = Box::pin(watcher::watcher(api, config));
        let told = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let state = match event {
                    Ok(Event::Apply(service) | Event::InitApply(service)) => {
                        Some(addresses(&service))
                    }
                    Ok(Event::Delete(_)) => None,
                    _ => continue,
                };
                told.lock().unwrap().push(state);
            }
        });
        Self { seen, task }
    }

    /// It was there all the time, with the address.
    fn assert_kept(&self) {
        let seen = self.seen.lock().unwrap().clone();
        let address = Some(vec![ADDRESS.to_owned()]);
        assert!(
            !seen.is_empty() && seen.iter().all(|state| *state == address),
            "{seen:?}"
        );
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_balancers_of_the_kubevirt_ccm_keep_their_address() -> Result<()> {
    let Some(environment) = Environment::new("moving").await? else {
        return Ok(());
    };
    environment.worker("a", &["10.5.0.1"]).await?;
    // What the KubeVirt CCM, scaled to zero, leaves: a Service with its finalizer and address, its load
    // balancer, and one of a Service that was deleted by force while nobody looked.
    let service = environment.service("web", &json!({})).await?;
    let held = json!({ "metadata": { "finalizers": [names::FINALIZER] } });
    environment.change("web", &held).await?;
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": ADDRESS }] } } });
    let params = PatchParams::default();
    environment
        .services()
        .patch_status("web", &params, &Patch::Merge(&status))
        .await?;
    let port = service.spec.clone().unwrap().ports.unwrap()[0]
        .node_port
        .unwrap();
    let name = mirror(&environment, &service.uid().unwrap(), "web", port).await?;
    let orphan = mirror(&environment, &testkit::names::uid(), "forgotten", 30999).await?;
    let before = environment.mirrors().get(&name).await?;
    let outside = Witness::start(environment.mirrors(), &name);
    let inside = Witness::start(environment.services(), "web");

    let dir = Workdir::new()?;
    let file = format!(
        "namespace: {}\ninfraLabels: {{ tenant: demo }}\n",
        environment.ns
    );
    let mut ccm = start(&environment, &dir, Some(&file))?;
    let gone_on_with = |m: Option<&Service>| {
        m.is_some_and(|m| {
            m.labels().contains_key(names::LABEL_SERVICE_UID)
                && m.spec
                    .as_ref()
                    .unwrap()
                    .selector
                    .as_ref()
                    .is_none_or(|s| s.is_empty())
        })
    };
    let now = wait_for(&environment.mirrors(), &name, gone_on_with, PATIENCE).await;
    let now = now.with_context(|| ccm.log_tail(20))?.unwrap();
    environment.ready(&name, &["10.5.0.1"]).await?;
    assert_eq!(now.uid(), before.uid(), "it is the same object");
    assert_eq!(now.labels()["tenant"], "demo");
    assert_eq!(
        now.annotations()["example.com/pool"],
        "public",
        "what it had stays"
    );
    let cluster_ip = |s: &Service| s.spec.as_ref().unwrap().cluster_ip.clone();
    assert_eq!(cluster_ip(&now), cluster_ip(&before));
    // What Kubernetes made of the selector is gone.
    let selected = format!(
        "{}={}",
        names::LABEL_SLICES_MANAGED_BY,
        names::SLICES_OF_SELECTOR
    );
    wait_all(&environment.slices(), &selected, |slices| {
        slices
            .iter()
            .all(|slice| !slice.name_any().starts_with(&name))
    })
    .await?;

    // A later change goes on under the old name: no second load balancer.
    let ports = json!([{ "port": 80, "name": "a" }, { "port": 443, "name": "b" }]);
    environment
        .change("web", &json!({ "spec": { "ports": ports } }))
        .await?;
    let both = |m: Option<&Service>| {
        m.is_some_and(|m| m.spec.as_ref().unwrap().ports.as_ref().unwrap().len() == 2)
    };
    wait_for(&environment.mirrors(), &name, both, PATIENCE).await?;
    assert!(
        environment
            .mirrors()
            .get_opt(&environment.mirror_name(&service))
            .await?
            .is_none()
    );

    // Those that are gone on with, and those of no Service, are told apart by what ccm writes on them.
    for (labels, wanted) in [
        (
            "cluster.x-k8s.io/tenant-service-name,covey.dev/service-uid",
            &name,
        ),
        (
            "cluster.x-k8s.io/tenant-service-name,!covey.dev/service-uid",
            &orphan,
        ),
    ] {
        let params = ListParams::default().labels(labels);
        let found = environment.mirrors().list(&params).await?;
        let found: Vec<_> = found.iter().map(ResourceExt::name_any).collect();
        assert_eq!(found, std::slice::from_ref(wanted), "{labels}");
    }
    environment
        .mirrors()
        .delete(&orphan, &DeleteParams::default())
        .await?;

    // Without the file, as the addon runs it, it still is the same load balancer.
    ccm.signal(rustix::process::Signal::TERM)?;
    ccm.ended(PATIENCE).await?;
    let addon = start(&environment, &dir, None)?;
    let ports = json!([
        { "port": 80, "name": "a" }, { "port": 443, "name": "b" }, { "port": 8443, "name": "c" },
    ]);
    environment
        .change("web", &json!({ "spec": { "ports": ports } }))
        .await?;
    let three = |m: Option<&Service>| {
        m.is_some_and(|m| m.spec.as_ref().unwrap().ports.as_ref().unwrap().len() == 3)
    };
    wait_for(&environment.mirrors(), &name, three, PATIENCE)
        .await
        .with_context(|| addon.log_tail(20))?;
    // Nor does a port stay that the KubeVirt CCM wrote.
    let ports = json!([{ "port": 8443, "name": "c" }]);
    environment
        .change("web", &json!({ "spec": { "ports": ports } }))
        .await?;
    let one = |m: Option<&Service>| {
        m.is_some_and(|m| {
            let ports = m.spec.as_ref().unwrap().ports.as_ref().unwrap();
            matches!(&ports[..], [port] if port.port == 8443)
        })
    };
    wait_for(&environment.mirrors(), &name, one, PATIENCE)
        .await
        .with_context(|| addon.log_tail(20))?;
    let all = environment.mirrors().list(&ListParams::default()).await?;
    let all: Vec<_> = all.iter().map(ResourceExt::name_any).collect();
    assert_eq!(all, std::slice::from_ref(&name));

    outside.assert_kept();
    inside.assert_kept();

    // It ends as any other.
    environment
        .services()
        .delete("web", &DeleteParams::default())
        .await?;
    wait_gone(&environment.services(), "web", PATIENCE).await?;
    wait_gone(&environment.mirrors(), &name, PATIENCE).await?;
    let left = environment.mirrors().list(&ListParams::default()).await?;
    assert!(left.items.is_empty(), "{:?}", left.items);
    Ok(())
}
