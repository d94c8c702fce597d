//! What is inside a tenant cluster: it stays as it should be, addons come and go, and Ready says
//! whether they work.
//!
//! Invariant: the tenant's API is a stand-in that keeps objects and plays watches; everything that is
//! changed in it is changed behind the operator's back.

use anyhow::{Context as _, Result};
use kit_objects::kinds;
use kit_objects::object::Key;
use operator::tenant_session::budget::Budget;
use operator::tenant_session::requests::list_managed;
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use testkit::waiting::ask_until;

use crate::support::site::{apply, tenant_namespace};
use crate::support::{Operator, PATIENCE, Site, settled};

const COREDNS: &str = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";
const COREFILE: &str = "/api/v1/namespaces/kube-system/configmaps/coredns";
const DNS: &str = "/api/v1/namespaces/kube-system/services/kube-dns";
/// Where pods find the API, and rights without which nodes do not join and names are not resolved.
const TAKEN_AWAY: [&str; 5] = [
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kubeadm:kubelet-bootstrap",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public/rolebindings/kubeadm:bootstrap-signer-clusterinfo",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/kubeadm:nodes-kubeadm-config",
];

async fn ready(prefix: &str) -> Result<Option<(Site, Operator, String)>> {
    let begun = settled(prefix).await?;
    Ok(begun.map(|(site, operator, cluster)| (site, operator, tenant_namespace(&cluster))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_deletes_or_edits_inside_comes_back() -> Result<()> {
    let Some((site, _operator, ns)) = ready("inside").await? else {
        return Ok(());
    };
    for path in [COREDNS, COREFILE, DNS].into_iter().chain(TAKEN_AWAY) {
        let uid = |object: Option<&Value>| object.map(|o| o["metadata"]["uid"].clone());
        let before = uid(site.tenants.object(&ns, path).as_ref());
        assert!(before.is_some(), "{path}");
        assert!(site.tenants.delete(&ns, path));
        let back = |found: Option<&Value>| found.is_some() && uid(found) != before;
        site.tenants.wait(&ns, path, back, PATIENCE).await?;
    }
    let edit = json!({ "spec": { "replicas": 0 } });
    assert!(site.tenants.change(&ns, COREDNS, &edit));
    let mended = |found: Option<&Value>| found.is_some_and(|o| o["spec"]["replicas"] == 2);
    site.tenants.wait(&ns, COREDNS, mended, PATIENCE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_inside_when_nothing_changes_there() -> Result<()> {
    let Some((site, operator, ns)) = ready("inside-quiet").await? else {
        return Ok(());
    };
    let writes = |site: &Site| {
        let calls = site.tenants.calls(&ns).into_iter();
        calls
            .filter(|call| !["get", "list", "watch"].contains(&call.verb.as_str()))
            .count()
    };
    let before = writes(&site);
    for _ in 0..5 {
        operator.reconcile(&site, "demo").await?;
    }
    // An operator that knows nothing yet looks once, and finds everything as it should be.
    drop(operator);
    let operator = Operator::start(&site)?;
    for _ in 0..3 {
        operator.reconcile(&site, "demo").await?;
    }
    assert_eq!(writes(&site), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addon_that_is_switched_off_goes_and_what_others_made_stays() -> Result<()> {
    let Some((site, operator, ns)) = ready("addons").await? else {
        return Ok(());
    };
    let paths = |site: &Site| site.tenants.paths(&ns);
    let before = paths(&site);
    let off = json!({ "spec": { "addons": {
        "coreDNS": { "enabled": false }, "cni": { "type": "none" },
        "konnectivity": { "enabled": false },
    }}});
    site.change("demo", &off).await?;
    let gone = |found: Option<&Value>| found.is_none();
    site.tenants.wait(&ns, COREDNS, gone, PATIENCE).await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let left: Vec<_> = paths(&site)
        .into_iter()
        .filter(|path| {
            let object = site.tenants.object(&ns, path).unwrap_or_default();
            object["metadata"]["labels"][api::names::LABEL_ADDON]
                .as_str()
                .is_some_and(|addon| addon != "kube-proxy")
        })
        .collect();
    // They may hold what is not ours.
    assert_eq!(
        left,
        [
            "/api/v1/namespaces/konnectivity",
            "/api/v1/namespaces/kube-flannel"
        ]
    );
    for (kind, name) in [
        (kinds::SERVICE, "konnectivity"),
        (kinds::SECRET, "konnectivity-ca"),
        (kinds::SECRET, "konnectivity-server"),
    ] {
        assert!(
            site.objects(kind, &ns).get_opt(name).await?.is_none(),
            "{name}"
        );
    }
    let pod = site
        .objects(kinds::DEPLOYMENT, &ns)
        .get("control-plane")
        .await?;
    let spec = &pod.data["spec"]["template"]["spec"];
    assert_eq!(spec["initContainers"], Value::Null);
    assert_eq!(spec["containers"].as_array().map(Vec::len), Some(1));

    let on = json!({ "spec": { "addons": null } });
    site.change("demo", &on).await?;
    site.tenants
        .wait(&ns, COREDNS, |found| found.is_some(), PATIENCE)
        .await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    assert_eq!(paths(&site), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ready_follows_the_addons_of_nodes_without_being_asked() -> Result<()> {
    let Some((site, operator, ns)) = ready("addons-ready").await? else {
        return Ok(());
    };
    site.create_pool("workers", 0).await?;
    operator.reconcile(&site, "demo").await?;
    let namespace = site.objects(kinds::NAMESPACE, "").get(&ns).await?;
    let labels = namespace.metadata.labels.unwrap_or_default();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "baseline");

    let condition = |cluster: &api::TenantCluster, type_: &str| {
        let list = cluster.status.iter().flat_map(|s| &s.conditions);
        let found = list.into_iter().find(|c| c.type_ == type_);
        found
            .map(|c| (c.status.clone(), c.reason.clone()))
            .unwrap_or_default()
    };
    let is = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    site.play_addons(&ns, 1, 0);
    site.wait("demo", |c| {
        condition(c, "Ready") == is("False", "AddonsNotReady")
    })
    .await?;
    site.play_addons(&ns, 1, 1);
    let cluster = site
        .wait("demo", |c| condition(c, "Ready") == is("True", "Answering"))
        .await?;
    for type_ in [
        "CoreDNSReady",
        "KubeProxyReady",
        "NetworkReady",
        "KonnectivityReady",
    ] {
        assert_eq!(
            condition(&cluster, type_),
            is("True", "PodsReady"),
            "{type_}"
        );
    }
    Ok(())
}

/// The stand-in asks nobody for rights. Here a real API server does, as that of a tenant cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_may_read_on_a_real_api_server_all_that_it_lays_inside() -> Result<()> {
    let Some((site, _operator, ns)) = ready("inside-rights").await? else {
        return Ok(());
    };
    let on = json!({ "spec": { "addons": { "cloudController": { "enabled": true } } } });
    site.change("demo", &on).await?;
    site.wait_ready("demo").await?;
    let role = tenant_cp::addons::cloud_controller::ROLE;
    let role = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
    site.tenants
        .wait(&ns, &role, |found| found.is_some(), PATIENCE)
        .await?;
    let Some(tenant) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let admin = tenant.admin()?;
    let paths = site.tenants.paths(&ns).into_iter();
    let mut laid: Vec<_> = paths
        .filter_map(|path| site.tenants.object(&ns, &path))
        .filter(|object| {
            object["metadata"]["labels"][api::names::LABEL_MANAGED_BY] == api::names::MANAGED_BY
        })
        .map(bare)
        .collect();
    laid.sort_by_key(|object| object["kind"] != "Namespace");
    assert!(laid.len() > 40, "{}", laid.len());
    let mut keys = Vec::new();
    for object in &laid {
        apply(&admin, object)
            .await
            .with_context(|| object.to_string())?;
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        keys.push(Key::new(kind, text("namespace"), text("name")));
    }
    let operator = tenant.client_as("covey-operator", &[tenant_cp::names::OPERATOR_GROUP])?;
    // An authorizer does not know a binding for a moment after it is made.
    let seen = ask_until("the operator may list what it laid", PATIENCE, || async {
        let seen = list_managed(&operator, &Budget::waiting(PATIENCE), &keys).await?;
        Ok(seen.ok_or_else(|| "its lists are refused".to_owned()))
    })
    .await?;
    for key in &keys {
        assert!(seen.contains_key(key), "{key} is not seen");
    }
    Ok(())
}

/// Without what the stand-in gave it, and without what the server refuses by its flags: an address of another range, and
/// privileged containers.
fn bare(mut object: Value) -> Value {
    if let Some(all) = object.as_object_mut() {
        all.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata
            .retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&&**field));
    }
    let containers = object.pointer_mut("/spec/template/spec/containers");
    for container in containers
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        container["securityContext"] = Value::Null;
    }
    if let Some(Value::Object(spec)) = object.get_mut("spec")
        && spec
            .get("clusterIP")
            .is_some_and(|address| address != "None")
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    object
}
