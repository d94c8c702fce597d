//! A TenantCluster becomes Ready with everything that belongs to it, each object written once.
//!
//! Invariant: nothing here looks into the operator; it is judged by what is stored and by what the
//! audit log says.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use api::condition::is_true;
use api::tenant_cluster::{EndpointStatus, EndpointType};
use api::{ConditionType, names};
use k8s_openapi::api::core::v1::Secret;
use kit_objects::kinds;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use serde_json::json;
use testkit::fixtures::{full, minimal};

use crate::support::site::tenant_namespace;
use crate::support::{Operator, Site};

/// All objects of a tenant cluster with one etcd member.
const OBJECTS: &str = "\
Deployment <tenant>/control-plane
Deployment <tenant>/controllers
Namespace /<tenant>
NetworkPolicy <tenant>/control-plane
NetworkPolicy <tenant>/controllers
NetworkPolicy <tenant>/default-deny
NetworkPolicy <tenant>/dns
NetworkPolicy <tenant>/etcd
NetworkPolicy <tenant>/workers
PersistentVolumeClaim <tenant>/data-etcd-0
PodDisruptionBudget <tenant>/control-plane
PodDisruptionBudget <tenant>/controllers
PodDisruptionBudget <tenant>/etcd
RoleBinding <tenant>/covey-operator
RoleBinding <users>/covey-operator
Secret <tenant>/apiserver
Secret <tenant>/ca
Secret <tenant>/client-ca
Secret <tenant>/controller-manager
Secret <tenant>/encryption
Secret <tenant>/etcd
Secret <tenant>/etcd-ca
Secret <tenant>/etcd-healthcheck-client
Secret <tenant>/front-proxy-ca
Secret <tenant>/konnectivity-ca
Secret <tenant>/konnectivity-server
Secret <tenant>/kubelet-serving-ca
Secret <tenant>/operator-client
Secret <tenant>/scheduler
Secret <tenant>/service-account
Secret <tenant>/users-ca
Secret <users>/<name>-kubeconfig
Service <tenant>/control-plane
Service <tenant>/etcd-0
Service <tenant>/etcd-peers
Service <tenant>/konnectivity
ServiceAccount <tenant>/control-plane
ServiceAccount <tenant>/controllers
ServiceAccount <tenant>/etcd
StatefulSet <tenant>/etcd
TenantCluster <users>/<name>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tenant_cluster_becomes_ready_with_all_its_parts() -> Result<()> {
    let Some(site) = Site::new("creation").await? else {
        return Ok(());
    };
    let _operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;

    let state = site.state("demo").await?;
    assert_eq!(
        state
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n"),
        OBJECTS
    );
    let uid = cluster.uid().unwrap();
    for (kind, part) in site.parts(&cluster).await? {
        let label = |name: &str| part.labels().get(name).cloned();
        let what = format!("{} {}", kind.kind, part.name_any());
        assert_eq!(label(names::LABEL_TENANT_UID), Some(uid.clone()), "{what}");
        assert_eq!(
            label(names::LABEL_TENANT_NAME).as_deref(),
            Some("demo"),
            "{what}"
        );
        assert_eq!(
            label(names::LABEL_TENANT_NAMESPACE).as_ref(),
            Some(&site.users),
            "{what}"
        );
        assert_eq!(
            label(names::LABEL_MANAGED_BY).as_deref(),
            Some(names::MANAGED_BY),
            "{what}"
        );
        assert_eq!(
            part.owner_references().len(),
            0,
            "owners do not reach across namespaces: {what}"
        );
    }
    assert_eq!(cluster.finalizers(), [names::FINALIZER]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_of_a_ready_tenant_cluster_is_complete() -> Result<()> {
    let Some(site) = Site::new("status").await? else {
        return Ok(());
    };
    let _operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    let status = cluster.status.clone().unwrap();
    let ns = tenant_namespace(&cluster);

    let service = site
        .objects(kinds::SERVICE, &ns)
        .get("control-plane")
        .await?;
    let host = service.data["spec"]["clusterIP"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(status.endpoint, Some(EndpointStatus { host, port: 6443 }));
    assert_eq!(status.namespace, Some(ns));
    assert_eq!(status.version.as_deref(), Some(testkit::fixtures::VERSION));
    assert_eq!(status.kubeconfig_secret.as_deref(), Some("demo-kubeconfig"));
    let network = status.network.unwrap();
    assert_eq!(
        [
            network.pod_cidr.as_str(),
            &network.service_cidr,
            &network.dns_domain
        ],
        ["10.128.0.0/18", "100.64.0.0/20", "cluster.local"]
    );
    let certificates: Vec<_> = status
        .certificates
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(
        certificates.join(" "),
        "admin apiserver apiserver-etcd-client apiserver-kubelet-client ca client-ca \
         controller-manager etcd-0-peer etcd-0-server etcd-ca etcd-healthcheck-client \
         front-proxy-ca front-proxy-client konnectivity-ca konnectivity-client \
         konnectivity-server kubelet-serving-ca operator scheduler users-ca"
    );
    assert!(status.bootstrap_hash.is_some());
    let conditions = &status.conditions;
    assert!(!is_true(conditions, ConditionType::Degraded));
    assert_eq!(conditions.len(), 14);
    for condition in conditions {
        assert_eq!(
            condition.observed_generation, cluster.metadata.generation,
            "{condition:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfig_lets_its_owner_into_the_tenant_cluster() -> Result<()> {
    let Some(site) = Site::new("kubeconfig").await? else {
        return Ok(());
    };
    let _operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    let ns = tenant_namespace(&cluster);

    let secrets: Api<Secret> = Api::namespaced(site.admin.clone(), &site.users);
    let secret = secrets.get("demo-kubeconfig").await?;
    let value = &secret.data.as_ref().context("no data")?["value"].0;
    let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(value)?)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let endpoint = cluster.status.unwrap().endpoint.unwrap();
    assert_eq!(
        config.cluster_url.to_string(),
        format!("https://{}:{}/", endpoint.host, endpoint.port)
    );
    // There is no route to a ClusterIP here; the stand-in has the same certificate.
    let address = site.tenants.address(&ns).context("no stand-in")?;
    config.cluster_url = format!("https://{address}").parse()?;
    config.tls_server_name = Some(endpoint.host);
    let client = Client::try_from(config)?;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "hello", "namespace": "default" } });
    kit_client::write::apply(&client, &map, "user", true).await?;
    let call = site.tenants.calls(&ns).pop().context("no call")?;
    assert_eq!((call.user.as_str(), call.code), ("kubernetes-admin", 201));
    assert_eq!(call.groups, ["kubeadm:cluster-admins"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_may_be_set_and_three_members_have_a_volume_each() -> Result<()> {
    let Some(site) = Site::new("full").await? else {
        return Ok(());
    };
    let _operator = Operator::start(&site)?;
    site.create_as(&full(&site.users, "demo")).await?;
    let cluster = site.wait_ready("demo").await?;
    let status = cluster.status.clone().unwrap();
    let endpoint = EndpointStatus {
        host: "demo.example.com".to_owned(),
        port: 443,
    };
    assert_eq!(status.endpoint, Some(endpoint));
    assert_eq!(status.network.unwrap().pod_cidr, "10.200.0.0/18");
    let claims = site.parts(&cluster).await?;
    let claims = claims
        .iter()
        .filter(|(kind, _)| *kind == kinds::PERSISTENT_VOLUME_CLAIM);
    let names: Vec<_> = claims.map(|(_, claim)| claim.name_any()).collect();
    assert_eq!(names, ["data-etcd-0", "data-etcd-1", "data-etcd-2"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoint_of_a_load_balancer_is_what_the_load_balancer_says() -> Result<()> {
    let Some(site) = Site::new("balancer").await? else {
        return Ok(());
    };
    site.kubelet.set(testkit::fakes::kubelet::Mode::Paused);
    let _operator = Operator::start(&site)?;
    let mut cluster = minimal(&site.users, "demo");
    cluster.spec.control_plane.endpoint.type_ = EndpointType::LoadBalancer;
    site.create_as(&cluster).await?;
    let waits = |cluster: &api::TenantCluster| {
        let conditions = cluster.status.as_ref().map_or(&[][..], |s| &s.conditions);
        conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.reason == "WaitingForAddress")
    };
    let cluster = site.wait("demo", waits).await?;
    let ns = tenant_namespace(&cluster);
    // A load balancer that has only a name.
    let status =
        json!({ "status": { "loadBalancer": { "ingress": [{ "hostname": "lb.example.com" }] } } });
    let services = site.objects(kinds::SERVICE, &ns);
    services
        .patch_status(
            "control-plane",
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await?;
    let named = |cluster: &api::TenantCluster| {
        let endpoint = cluster.status.as_ref().and_then(|s| s.endpoint.as_ref());
        endpoint.is_some_and(|e| e.host == "lb.example.com" && e.port == 6443)
    };
    site.wait("demo", named).await?;
    // From here on everything is played, the load balancer's address too.
    site.kubelet.set(testkit::fakes::kubelet::Mode::Ready);
    let addressed = |cluster: &api::TenantCluster| {
        let endpoint = cluster.status.as_ref().and_then(|s| s.endpoint.as_ref());
        endpoint.is_some_and(|e| e.host == "192.0.2.1") && crate::support::site::is_settled(cluster)
    };
    site.wait("demo", addressed).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_object_is_written_once_and_pods_roll_out_once() -> Result<()> {
    let Some(site) = Site::new("writes").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let window = site.api.audit().window()?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.stop_and_settle(&site, "demo").await?;
    let ns = tenant_namespace(&cluster);
    for (kind, name) in [
        (kinds::STATEFUL_SET, "etcd"),
        (kinds::DEPLOYMENT, "control-plane"),
        (kinds::DEPLOYMENT, "controllers"),
    ] {
        let workload = site.objects(kind, &ns).get(name).await?;
        assert_eq!(
            workload.metadata.generation,
            Some(1),
            "{name} rolled out more than once"
        );
    }
    let mut counts = BTreeMap::<String, usize>::new();
    let mut order = Vec::new();
    for write in window.writes_of(&site.user())? {
        // What was refused wrote nothing: by a binding that is a moment old (see `rights`), or because
        // another look was faster. What is created cannot be written twice.
        let is_done = write.code.is_some_and(|code| code < 300);
        if is_done && write.verb != "create" {
            let name = write.uri.split('?').next().unwrap_or_default().to_owned();
            order.push(name.clone());
            *counts.entry(name).or_default() += 1;
        }
    }
    // The endpoint stops to publish pods that are not ready once one is; and members of an etcd that had
    // a leader are told so.
    let twice = BTreeSet::from([
        format!("/api/v1/namespaces/{ns}/services/control-plane"),
        format!("/api/v1/namespaces/{ns}/secrets/etcd"),
    ]);
    let own = format!(
        "/apis/covey.dev/v1alpha1/namespaces/{}/tenantclusters/demo",
        site.users
    );
    let often: Vec<_> = counts
        .iter()
        .filter(|(path, count)| **count > if twice.contains(*path) { 2 } else { 1 })
        .filter(|(path, _)| !path.starts_with(&own))
        .collect();
    assert_eq!(often, [], "in this order: {order:#?}");
    assert!(counts[&format!("{own}/status")] <= 8, "{counts:#?}");
    assert_eq!(counts[&own], 1, "the finalizer: {counts:#?}");
    Ok(())
}
