//! Needs: operator
//!
//! Secrets are encrypted at rest, each tenant with a key of its own.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, api::PostParams};
use serde_json::json;
use suites::scenario::{
    self, PATIENCE,
    pods::{self, Command, SECRET_DIR, component},
};

const MARKER: &str = "nobody-may-read-this";

#[tokio::test]
async fn a_secret_is_unreadable_in_etcd() {
    scenario::run("at-rest", at_rest).await;
}

async fn at_rest(s: &scenario::Scenario) -> Result<()> {
    let (one, two) = (
        s.tenant("one", |_| {}).await?,
        s.tenant("two", |_| {}).await?,
    );
    let admin = one.usable(PATIENCE).await?.client;
    let create = PostParams::default();
    let secret = json!({ "metadata": { "name": "hidden" }, "stringData": { "key": MARKER } });
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "default");
    secrets
        .create(&create, &serde_json::from_value(secret)?)
        .await?;
    let map = json!({ "metadata": { "name": "public" }, "data": { "key": MARKER } });
    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    maps.create(&create, &serde_json::from_value(map)?).await?;

    let etcdctl = format!(
        "etcdctl --endpoints=https://etcd-0:2379 --cacert={SECRET_DIR}/etcd-ca.crt \
         --cert={SECRET_DIR}/etcd-healthcheck-client.crt \
         --key={SECRET_DIR}/etcd-healthcheck-client.key get --print-value-only"
    );
    let script = format!(
        "set -e; {etcdctl} /registry/secrets/default/hidden > /tmp/secret\n\
         {etcdctl} /registry/configmaps/default/public > /tmp/map\n\
         echo secret: $(head -c 8 /tmp/secret)\n\
         echo marker in secret: $(grep -c {MARKER} /tmp/secret)\n\
         echo marker in map: $(grep -c {MARKER} /tmp/map)\n"
    );
    // As its control plane: nothing else may reach etcd.
    let command = Command {
        labels: component("control-plane"),
        script,
        secret: Some("etcd-healthcheck-client".to_owned()),
    };
    let log = pods::run(&one.management, &one.tenant_namespace(), command)
        .await?
        .log;
    ensure!(log.contains("secret: k8s:enc:"), "not encrypted:\n{log}");
    ensure!(log.contains("marker in secret: 0\n"), "readable:\n{log}");
    // The same way of looking does find what is not encrypted, so it would have found the Secret.
    ensure!(
        log.contains("marker in map: 1\n"),
        "the test does not look right:\n{log}"
    );

    two.settled(PATIENCE).await?;
    let keys = [
        one.secret("encryption", "k1").await?,
        two.secret("encryption", "k1").await?,
    ];
    ensure!(keys[0] != keys[1], "two tenants share a key");
    Ok(())
}
