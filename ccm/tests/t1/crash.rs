//! The ccm dies at its k-th write, for every k of a whole life; another one, which knows nothing,
//! brings the same end about.
//!
//! Invariant: no k is left out: runs go on until one of them ends without having died. On which side
//! of a write is what [`testkit::faults::Deaths`] says.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kit_objects::kinds;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::wherever_it_dies;
use testkit::fixtures::wait_gone;

use crate::support::{Ccm, Environment, PATIENCE};

/// Does a step; when the ccm dies on the way, a healthy one takes over and the step has to succeed.
struct Life<'a> {
    environment: &'a Environment,
    ccm: Ccm,
    died: bool,
}

impl Life<'_> {
    async fn step<T>(&mut self, wait: impl AsyncFn() -> Result<T>) -> Result<T> {
        let plan = self.ccm.plan.clone();
        let done = tokio::select! {
            biased;
            () = plan.crashed() => None,
            result = wait() => Some(result),
        };
        match done {
            Some(result) if !plan.is_crashed() => result,
            _ => {
                self.died = true;
                self.ccm = Ccm::start(self.environment)?;
                wait().await
            }
        }
    }
}

/// What there is, without what differs from one life to another.
async fn state(environment: &Environment, service: &Service) -> Result<Value> {
    let name = environment.mirror_name(service);
    let uid = service.uid().unwrap_or_default();
    let plain = |value: Value| {
        let text = value
            .to_string()
            .replace(&name, "MIRROR")
            .replace(&uid, "UID");
        serde_json::from_str::<Value>(&text)
    };
    let mut mirror = serde_json::to_value(environment.mirrors().get(&name).await?)?;
    let mirror_uid = mirror["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    for port in mirror["spec"]["ports"].as_array_mut().into_iter().flatten() {
        port["nodePort"] = Value::Null;
        port["targetPort"] = Value::Null;
    }
    for key in ["clusterIP", "clusterIPs"] {
        mirror["spec"][key] = Value::Null;
    }
    mirror["metadata"]["annotations"][kit_objects::object::ANNOTATION_HASH] = Value::Null;
    let slices = environment
        .slices()
        .list(&ListParams::default())
        .await?
        .items;
    let mut endpoints = Vec::new();
    for slice in slices {
        let text = serde_json::to_value(&slice.metadata.owner_references)?;
        ensure!(text[0]["uid"] == mirror_uid, "a slice of another mirror");
        let labels = plain(serde_json::to_value(&slice.metadata.labels)?)?;
        endpoints.push(json!([labels, slice.address_type, slice.endpoints]));
    }
    let service = environment.services().get("web").await?;
    let node = environment.nodes().get("a").await?;
    let meta = |key: &str| mirror["metadata"][key].clone();
    Ok(json!({
        "mirror": plain(json!([meta("name"), meta("labels"), meta("annotations"), mirror["spec"], mirror["status"]]))?,
        "slices": endpoints,
        "service": [service.metadata.finalizers, service.status],
        "node": [node.labels(), node.spec, node.status.map(|s| s.addresses)],
    }))
}

async fn life(environment: &Environment, plan: &FaultPlan) -> Result<(bool, Value)> {
    let ccm = Ccm::with(environment, environment.settings(), plan)?;
    let mut life = Life {
        environment,
        ccm,
        died: false,
    };
    environment.worker("a", &["10.5.0.1"]).await?;
    let service = environment.service("web", &json!({})).await?;
    let name = environment.mirror_name(&service);
    life.step(async || environment.ready(&name, &["10.5.0.1"]).await)
        .await?;
    environment
        .allocate(&name, &json!([{ "ip": "192.0.2.1" }]))
        .await?;
    life.step(async || environment.addresses("web", &["192.0.2.1"]).await)
        .await?;
    let ports =
        json!([{ "port": 443, "protocol": "TCP" }, { "port": 53, "protocol": "UDP", "name": "b" }]);
    let mut ports = ports;
    ports[0]["name"] = json!("a");
    environment
        .change("web", &json!({ "spec": { "ports": ports } }))
        .await?;
    let follows = |m: &Service| m.spec.as_ref().unwrap().ports.as_ref().unwrap().len() == 2;
    life.step(async || environment.mirror(&service, follows).await.map(drop))
        .await?;
    let two = async || {
        crate::support::environment::wait_all(&environment.slices(), "", |slices| {
            slices.len() == 1 && slices[0].ports.as_ref().is_some_and(|p| p.len() == 2)
        })
        .await
    };
    life.step(two).await?;
    let initialised = async || {
        let untainted = |n: &k8s_openapi::api::core::v1::Node| {
            let taints = n
                .spec
                .as_ref()
                .and_then(|s| s.taints.clone())
                .unwrap_or_default();
            taints
                .iter()
                .all(|t| t.key != ccm::names::TAINT_UNINITIALIZED)
        };
        environment.wait_node("a", untainted).await.map(drop)
    };
    life.step(initialised).await?;
    let seen = state(environment, &service).await?;
    environment
        .services()
        .delete("web", &Default::default())
        .await?;
    life.step(async || wait_gone(&environment.services(), "web", PATIENCE).await)
        .await?;
    environment.node_ready("a", "Unknown").await?;
    environment.delete(kinds::VIRTUAL_MACHINE, "a").await?;
    environment
        .delete(kinds::VIRTUAL_MACHINE_INSTANCE, "a")
        .await?;
    life.step(async || wait_gone(&environment.nodes(), "a", PATIENCE).await)
        .await?;
    let left = environment
        .mirrors()
        .list(&ListParams::default())
        .await?
        .items
        .len()
        + environment
            .slices()
            .list(&ListParams::default())
            .await?
            .items
            .len();
    ensure!(left == 0, "{left} objects are left");
    Ok((life.died, seen))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_ends_the_same_wherever_the_ccm_dies() -> Result<()> {
    let Some(environment) = Environment::new("crash").await? else {
        return Ok(());
    };
    let writes = wherever_it_dies(async |plan| life(&environment, plan).await).await?;
    // Finalizer, mirror, slice, status, mirror, slice, three deletions, node twice and gone.
    ensure!(writes > 10, "a life has more writes than {writes}");
    Ok(())
}
