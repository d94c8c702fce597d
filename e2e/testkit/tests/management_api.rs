//! The management API itself: identities, audit, controllers, rewinding, and that nothing stays.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::TenantCluster;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use testkit::fixtures::{PATIENCE, minimal, wait_for};
use testkit::{ManagementApi, Options};

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("key".to_owned(), value.to_owned())]));
    map
}

async fn put(client: &Client, namespace: &str, name: &str, value: &str) -> Result<ConfigMap> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"key": value}});
    Ok(maps
        .patch(
            name,
            &PatchParams::apply("test").force(),
            &Patch::Apply(body),
        )
        .await?)
}

#[tokio::test]
async fn rbac_knows_the_user_of_a_client_certificate() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let namespace = api.namespace("rbac").await?;
    let nobody = api.client_as("nobody", &["first", "second"])?;
    let error = put(&nobody, &namespace, "a", "1")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("User \"nobody\" cannot patch"), "{error}");
    let review = k8s_openapi::api::authentication::v1::SelfSubjectReview::default();
    let review = Api::all(nobody)
        .create(&PostParams::default(), &review)
        .await?;
    let user = review.status.and_then(|s| s.user_info).context("no user")?;
    let groups = user.groups.unwrap_or_default();
    assert!(
        ["first", "second"]
            .iter()
            .all(|g| groups.contains(&(*g).to_owned())),
        "{groups:?}"
    );
    Ok(())
}

#[tokio::test]
async fn audit_window_has_exactly_the_writes_of_a_user() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let namespace = api.namespace("audit").await?;
    let user = api.name("writer");
    let client = api.client_as(&user, &["system:masters"])?;
    let window = api.audit().window()?;
    window.assert_no_writes(&user)?;
    put(&client, &namespace, "a", "1").await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.get("a").await?;
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::apply("test")
    };
    maps.patch("a", &dry, &Patch::Apply(config_map("a", "2")))
        .await?;
    let writes = window.writes_of(&user)?;
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(
        (writes[0].verb.as_str(), writes[0].kind.as_str()),
        ("patch", "configmaps")
    );
    assert_eq!(writes[0].namespace.as_deref(), Some(namespace.as_str()));
    assert_eq!(
        window.counts(&user)?[&("get".to_owned(), "configmaps".to_owned())],
        1
    );
    let error = window.assert_no_writes(&user).unwrap_err().to_string();
    assert!(error.contains("patch /api/v1/namespaces"), "{error}");
    Ok(())
}

#[tokio::test]
async fn deleted_namespace_goes_away_with_its_objects() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let namespace = api.namespace("gone").await?;
    put(&api.admin()?, &namespace, "a", "1").await?;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claims: Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> =
        Api::namespaced(api.admin()?, &namespace);
    claims
        .create(&PostParams::default(), &serde_json::from_value(claim)?)
        .await?;
    api.delete_namespace(&namespace).await?;
    let left = api
        .etcd()
        .keys(&format!("/registry/configmaps/{namespace}/"))
        .await?;
    assert_eq!(left, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn crds_of_covey_are_served_and_validated() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let namespace = api.namespace("crd").await?;
    let clusters: Api<TenantCluster> = Api::namespaced(api.admin()?, &namespace);
    let name = api.name("demo");
    let params = PostParams::default();
    let made = clusters
        .create(&params, &minimal(&namespace, &name))
        .await?;
    assert!(made.uid().is_some());
    let full = testkit::fixtures::full(&namespace, &api.name("full"));
    let stored = clusters.create(&params, &full).await?;
    assert_eq!(stored.spec, full.spec);
    let mut bad = minimal(&namespace, "bad");
    bad.spec.etcd.replicas = 2;
    let error = clusters
        .create(&params, &bad)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("etcd.replicas must be 1 or 3"), "{error}");
    let text = testkit::fixtures::dump(&api.admin()?, &namespace).await?;
    assert!(text.contains(&format!("TenantCluster {name}")), "{text}");
    Ok(())
}

#[tokio::test]
async fn rewinding_brings_back_objects_with_their_uids_while_watches_go_on() -> Result<()> {
    // Not the shared one: others would lose their objects.
    let Some(api) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let client = api.admin()?;
    let namespace = api.namespace("rewind").await?;
    let kept = put(&client, &namespace, "deleted", "1").await?;
    put(&client, &namespace, "changed", "1").await?;
    let before = std::time::Instant::now();
    let snapshot = api.snapshot().await?;
    let took = before.elapsed();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    for round in 0..2 {
        maps.delete("deleted", &DeleteParams::default()).await?;
        put(&client, &namespace, "changed", "2").await?;
        put(&client, &namespace, "new", "1").await?;
        let other = api.namespace("rewound").await?;
        let watch = wait_for(&maps, "new", |map| map.is_none(), PATIENCE);
        let before = std::time::Instant::now();
        let (restored, watched) = tokio::join!(api.restore(&snapshot), watch);
        eprintln!(
            "snapshot {took:?}, restore {:?}: {:?}",
            before.elapsed(),
            restored
        );
        watched?;
        let restored = restored?;
        assert!(
            restored.removed >= 2 && restored.written >= 2,
            "round {round}: {restored:?}"
        );
        assert_eq!(maps.get("deleted").await?.uid(), kept.uid());
        assert_eq!(maps.get("changed").await?.data, config_map("", "1").data);
        assert!(maps.get_opt("new").await?.is_none());
        assert!(
            Api::<Namespace>::all(client.clone())
                .get_opt(&other)
                .await?
                .is_none()
        );
    }
    Ok(())
}

#[tokio::test]
async fn server_comes_back_on_its_port_and_nothing_outlives_it() -> Result<()> {
    let options = Options {
        controllers: vec!["namespace-controller".to_owned()],
        ..Options::default()
    };
    let Some(api) = ManagementApi::start_with(options).await? else {
        return Ok(());
    };
    eprintln!("started in {:?}", api.started_in());
    let client = api.admin()?;
    let namespace = api.namespace("restart").await?;
    put(&client, &namespace, "a", "1").await?;
    api.stop_apiserver().await?;
    assert!(put(&client, &namespace, "a", "2").await.is_err());
    let before = std::time::Instant::now();
    api.start_apiserver().await?;
    eprintln!("restarted in {:?}", before.elapsed());
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    assert_eq!(maps.get("a").await?.data, config_map("", "1").data);
    let (pids, folder) = (api.pids().await, api.kubeconfig().to_owned());
    assert_eq!(pids.len(), 3);
    assert!(folder.exists());
    drop(api);
    assert!(!folder.exists());
    for pid in pids {
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "{pid} is left"
        );
    }
    Ok(())
}
