//! The addon `cloudController`: it is laid and kept; switched off, it goes with all that it made, in
//! an order that leaves the tenant no Service that cannot be deleted.
//!
//! Invariant: no cloud controller manager runs here; what it would have made is put there, and a
//! finalizer of somebody else holds what is to be looked at before it goes.

use anyhow::{Context as _, Result};
use api::{ConditionType, TenantCluster, names};
use kit_objects::kinds::{self, Kind};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use operator::controllers::tenant_cluster::plan::tenant_objects::release::{
    MOST, Release, release,
};
use serde_json::{Value, json};
use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::cloud_controller;
use testkit::fixtures::wait_gone;

use crate::support::parts::{come_back, kind_of};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Operator, PATIENCE, Site};

const HOLD: &str = "example.com/hold";
const OURS: &str = "/api/v1/namespaces/default/services/ours";
const THEIRS: &str = "/api/v1/namespaces/default/services/theirs";

fn switch(on: bool) -> Value {
    json!({ "spec": { "addons": { "cloudController": { "enabled": on } } } })
}

fn role() -> String {
    let name = cloud_controller::ROLE;
    format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")
}

/// What it makes outside: its Lease, and the mirror of a Service.
async fn play_outside(site: &Site, ns: &str, uid: &str) -> Result<()> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": cloud_controller::LEASE, "namespace": ns },
    });
    let mirror = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "lb-1", "namespace": ns, "finalizers": [HOLD], "labels": {
            names::LABEL_COMPONENT: names::COMPONENT_LOAD_BALANCER, names::LABEL_TENANT_UID: uid,
        } },
        "spec": { "ports": [{ "port": 80 }] },
    });
    apply(&site.admin, &lease).await?;
    apply(&site.admin, &mirror).await.map(drop)
}

/// A Service of the tenant with a load balancer.
fn service(name: &str, class: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": name, "namespace": "default",
            "finalizers": [names::FINALIZER_LOAD_BALANCER, HOLD],
        },
        "spec": {
            "type": "LoadBalancer", "loadBalancerClass": class, "ports": [{ "port": 80 }],
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } },
    })
}

/// Somebody's finalizer on an object of the tenant namespace, or none.
async fn hold(site: &Site, kind: Kind, ns: &str, name: &str, held: bool) -> Result<()> {
    let finalizers = if held { json!([HOLD]) } else { Value::Null };
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let objects = site.objects(kind, ns);
    let params = PatchParams::default();
    objects.patch(name, &params, &patch).await.map(drop)?;
    Ok(())
}

/// Until the operator says that it waits for this.
async fn waits_for(site: &Site, what: &str) -> Result<()> {
    let waits = |cluster: &TenantCluster| {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        let mut progressing =
            conditions.filter(|one| one.type_ == ConditionType::Progressing.as_str());
        progressing.any(|one| one.reason == "RemovingCloudController" && one.message.contains(what))
    };
    site.wait("demo", waits).await.map(drop)
}

fn finalizers(object: &Value) -> Value {
    object["metadata"]["finalizers"].clone()
}

async fn wait_role(site: &Site, ns: &str, there: bool) -> Result<()> {
    let wanted = |found: Option<&Value>| found.is_some() == there;
    site.tenants.wait(ns, &role(), wanted, PATIENCE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloud_controller_is_laid_and_comes_back_and_then_nothing_is_written() -> Result<()> {
    let Some(site) = Site::new("ccm-on").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let ns = tenant_namespace(&site.wait_ready("demo").await?);
    site.change("demo", &switch(true)).await?;
    wait_role(&site, &ns, true).await?;
    site.wait_ready("demo").await?;
    let mut parts = cloud_controller::CloudController.parts(&ns, "", "");
    // It makes that one itself.
    parts.retain(|key| key.kind != "Lease");
    come_back(&site, &operator, &parts).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloud_controller_that_is_switched_off_goes_first_and_frees_services_last() -> Result<()> {
    let Some(site) = Site::new("ccm-off").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    let (ns, uid) = (
        tenant_namespace(&cluster),
        cluster.uid().unwrap_or_default(),
    );
    operator.settle(&site, "demo").await?;
    let keys = async || anyhow::Ok(site.state("demo").await?.into_keys().collect::<Vec<_>>());
    let (before, inside) = (keys().await?, site.tenants.paths(&ns));
    site.change("demo", &switch(true)).await?;
    wait_role(&site, &ns, true).await?;
    site.wait_ready("demo").await?;
    play_outside(&site, &ns, &uid).await?;
    for (path, class) in [(OURS, None), (THEIRS, Some("example.com/theirs"))] {
        let name = path.rsplit('/').next().unwrap_or_default();
        assert!(site.tenants.put(&ns, path, &service(name, class)));
    }
    let theirs = site.tenants.object(&ns, THEIRS);
    let held = |path| finalizers(&site.tenants.object(&ns, path).unwrap_or_default());

    // As if its pods took their time to end.
    hold(&site, kinds::DEPLOYMENT, &ns, "ccm", true).await?;
    site.change("demo", &switch(false)).await?;
    waits_for(&site, "the pods of the Deployment").await?;
    for key in cloud_controller::CloudController.parts(&ns, "", "") {
        let found = site.objects(kind_of(&key.kind)?, &ns).get(&key.name).await;
        let going = found?.metadata.deletion_timestamp.is_some();
        assert_eq!(going, key.kind == "Deployment", "{key}");
    }

    hold(&site, kinds::DEPLOYMENT, &ns, "ccm", false).await?;
    waits_for(&site, "lb-1").await?;
    for key in cloud_controller::CloudController.parts(&ns, "", "") {
        let objects = site.objects(kind_of(&key.kind)?, &ns);
        assert!(objects.get_opt(&key.name).await?.is_none(), "{key}");
    }
    assert_eq!(held(OURS), json!([names::FINALIZER_LOAD_BALANCER, HOLD]));
    wait_role(&site, &ns, true).await?;

    hold(&site, kinds::SERVICE, &ns, "lb-1", false).await?;
    wait_gone(&site.objects(kinds::SERVICE, &ns), "lb-1", PATIENCE).await?;
    wait_role(&site, &ns, false).await?;
    assert_eq!(held(OURS), json!([HOLD]));
    let ours = site.tenants.object(&ns, OURS).unwrap_or_default();
    assert!(
        ours["status"]["loadBalancer"]["ingress"].is_null(),
        "{ours}"
    );
    assert_eq!(site.tenants.object(&ns, THEIRS), theirs);

    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    assert_eq!(keys().await?, before);
    for path in [OURS, THEIRS] {
        assert!(site.tenants.delete(&ns, path));
    }
    assert_eq!(site.tenants.paths(&ns), inside);
    Ok(())
}

/// The stand-in of a tenant takes any patch; here the real API server judges.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloud_controllers_marks_come_off_a_service_on_a_real_api_server() -> Result<()> {
    let Some(site) = Site::new("ccm-release").await? else {
        return Ok(());
    };
    let services = site.objects(kinds::SERVICE, &site.users);
    let mut made = service("web", None);
    made["metadata"]["namespace"] = json!(site.users);
    made["metadata"]["finalizers"] = json!([names::FINALIZER_LOAD_BALANCER]);
    let created = serde_json::from_value(made.clone())?;
    services.create(&PostParams::default(), &created).await?;
    let params = PatchParams::default();
    let status = Patch::Merge(json!({ "status": made["status"] }));
    let mut live = services.patch_status("web", &params, &status).await?;
    assert!(live.data["status"]["loadBalancer"]["ingress"].is_array());
    for _ in 0..MOST {
        let next = release(&serde_json::to_value(&live)?).context("it is released already")?;
        live = match next {
            Release::Status(patch) => {
                let patch = Patch::Merge(patch);
                services.patch_status("web", &params, &patch).await?
            }
            Release::Finalizers(patch) => {
                // Somebody else wrote meanwhile: it is looked at again.
                let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
                let newer = services.patch("web", &params, &label).await?;
                let late = services.patch("web", &params, &Patch::Merge(patch)).await;
                let refused = matches!(late, Err(kube::Error::Api(status)) if status.code == 409);
                assert!(refused, "it was not as it was seen");
                let Some(Release::Finalizers(patch)) = release(&serde_json::to_value(&newer)?)
                else {
                    anyhow::bail!("it lost its finalizer")
                };
                services.patch("web", &params, &Patch::Merge(patch)).await?
            }
        };
    }
    assert_eq!(release(&serde_json::to_value(&live)?), None);
    assert_eq!(live.data["status"]["loadBalancer"], json!({}));
    services.delete("web", &Default::default()).await?;
    wait_gone(&services, "web", PATIENCE).await
}
