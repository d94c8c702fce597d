//! What a user is told by `kubectl apply`: the resource definition's schema and rules, and the
//! operator's webhook behind them, through a real kube-apiserver.
//!
//! Invariant: every refusal names the field and says how to mend it; a deletion is never refused.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::lease::Leadership;
use kit_objects::kinds;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use operator::admission::{certificate, keeper};
use serde_json::{Value, json};
use testkit::fixtures::{ask_until, full, minimal, wait_for, wait_gone};
use tokio::task::JoinHandle;

use self::table::{args, endpoint, refused, spec};
use crate::support::site::apply;
use crate::support::{Launch, Operator, PATIENCE, Site, webhook};

mod apart;
mod pools;
mod start;
mod table;

/// A running operator, and a webhook in force beside it.
pub(crate) struct Guarded {
    pub(crate) site: Site,
    operator: Option<Operator>,
    keeper: JoinHandle<std::result::Result<(), keeper::Error>>,
    webhook: Option<webhook::Running>,
}

impl Guarded {
    pub(crate) async fn new(prefix: &str) -> Result<Option<Self>> {
        match Site::new(prefix).await? {
            Some(site) => Self::on(site).await.map(Some),
            None => Ok(None),
        }
    }

    async fn on(site: Site) -> Result<Self> {
        let launch = Launch::new(&site)?;
        let client = launch.client(&site)?;
        let operator = launch.start(&site)?;
        let listener = webhook::listener().await?;
        let configuration = webhook::name(&site);
        webhook::install(&site, &configuration, &listener, "Fail").await?;
        let keeper = webhook::keep(&site, client, &configuration, Leadership::always());
        let webhook = webhook::Running::start(&site, listener).await?;
        webhook::wait_trusted(&site, &configuration).await?;
        let guarded = Self {
            site,
            operator: Some(operator),
            keeper,
            webhook: Some(webhook),
        };
        guarded.wait_answer().await?;
        Ok(guarded)
    }

    /// The API server takes a moment to read the configuration: until then it lets everything
    /// through, or cannot call. Asked until the webhook's own answer comes.
    async fn wait_answer(&self) -> Result<()> {
        let unsupported = json!({ "spec": { "version": "1.30.1" } });
        ask_until("the webhook answers", PATIENCE, || async {
            let said = self.create("probe", &unsupported, true).await;
            Ok(match said {
                Err(said) if said.contains("is not supported") => Ok(()),
                said => Err(format!("{said:?}")),
            })
        })
        .await
    }

    /// The operator ends in the middle of whatever it does, the keeper of the certificate with it.
    fn crash_operator(&mut self) {
        drop(self.operator.take());
        self.keeper.abort();
    }

    /// The webhook ends. Gives where it listened.
    async fn stop_webhook(&mut self) -> Result<SocketAddr> {
        let webhook = self.webhook.take().context("it is stopped already")?;
        let address = webhook.address;
        webhook.stop().await?;
        Ok(address)
    }

    /// Creates the minimal TenantCluster with a merge patch over it; the error is what a user sees.
    pub(crate) async fn create(
        &self,
        name: &str,
        patch: &Value,
        dry_run: bool,
    ) -> Result<(), String> {
        let minimal = minimal(&self.site.users, name);
        let mut object = serde_json::to_value(minimal).map_err(|e| e.to_string())?;
        merge(&mut object, patch);
        let object: DynamicObject = serde_json::from_value(object).map_err(|e| e.to_string())?;
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let api = self.site.objects(kinds::TENANT_CLUSTER, &self.site.users);
        api.create(&params, &object)
            .await
            .map(drop)
            .map_err(sentence)
    }

    /// Changes one; the error is what a user sees.
    pub(crate) async fn change(&self, name: &str, patch: &Value) -> Result<(), String> {
        let api = self.site.objects(kinds::TENANT_CLUSTER, &self.site.users);
        let changed = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        changed.map(drop).map_err(sentence)
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        webhook::uninstall(&self.site, &webhook::name(&self.site)).await?;
        self.keeper.abort();
        if self.webhook.is_some() {
            self.stop_webhook().await?;
        }
        match self.operator.take() {
            Some(operator) => operator.stop().await,
            None => Ok(()),
        }
    }
}

fn sentence(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.as_object_mut().map(|map| map.remove(key))),
            value => merge(&mut target[key], value),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mistake_is_refused_with_a_sentence_that_says_how_to_mend_it() -> Result<()> {
    let Some(guarded) = Guarded::new("refused").await? else {
        return Ok(());
    };
    // Its ranges are taken.
    guarded
        .create("demo", &json!({}), false)
        .await
        .map_err(anyhow::Error::msg)?;
    guarded.site.wait_ready("demo").await?;
    let mut wrong = Vec::new();
    let table = refused();
    ensure!(table.len() >= 30, "{} rows", table.len());
    for (patch, wanted) in table {
        match guarded.create("other", &patch, true).await {
            Ok(()) => wrong.push(format!("{patch}\n  was accepted")),
            Err(said) if said.contains(wanted) => {}
            Err(said) => wrong.push(format!("{patch}\n  {said}")),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    guarded.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_change_changes_and_what_may_not_is_refused() -> Result<()> {
    let Some(guarded) = Guarded::new("changes").await? else {
        return Ok(());
    };
    let cluster = full(&guarded.site.users, "demo");
    guarded.site.create_as(&cluster).await?;
    guarded.site.wait_ready("demo").await?;
    let mistakes = [
        (
            spec(json!({ "version": "1.34.4" })),
            "spec.version: the version cannot go from 1.35.4 down to 1.34.4: etcd may already hold what only the newer minor can read; keep 1.35, or create a new tenant cluster",
        ),
        (
            spec(json!({ "version": "1.37.0" })),
            "spec.version: Kubernetes 1.37.0 is not supported: choose a patch release of 1.34, 1.35 or 1.36",
        ),
        (
            endpoint(json!({ "type": "ClusterIP" })),
            "spec.controlPlane.endpoint.type: Invalid value: endpoint.type cannot change: kubeconfigs and nodes hold the address; create a new tenant cluster",
        ),
        (
            endpoint(json!({ "loadBalancerClass": null })),
            "spec.controlPlane.endpoint.loadBalancerClass: Invalid value: endpoint.loadBalancerClass cannot be added, changed or removed later (Kubernetes does not allow it on a Service); create a new tenant cluster",
        ),
        (
            spec(json!({ "etcd": { "storage": { "size": "2Gi" } } })),
            "spec.etcd.storage.size: 2Gi is less than ",
        ),
        (
            spec(json!({ "network": { "podCIDR": "10.240.0.0/18" } })),
            "spec.network.podCIDR: Invalid value: network.podCIDR cannot change: nodes and pods hold addresses of it; create a new tenant cluster",
        ),
        (
            spec(json!({ "network": { "serviceCIDR": null } })),
            "spec.network.serviceCIDR: Invalid value: network.serviceCIDR cannot change: Services hold addresses of it; create a new tenant cluster",
        ),
        (
            spec(json!({ "network": { "dnsDomain": "other.example" } })),
            "spec.network.dnsDomain: Invalid value: network.dnsDomain cannot change: certificates and pods hold it; create a new tenant cluster",
        ),
    ];
    let mut wrong = Vec::new();
    for (patch, wanted) in mistakes {
        match guarded.change("demo", &patch).await {
            Ok(()) => wrong.push(format!("{patch}\n  was accepted")),
            Err(said) if said.contains(wanted) => {}
            Err(said) => wrong.push(format!("{patch}\n  {said}")),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    for patch in [
        spec(json!({ "version": "1.35.5" })),
        spec(json!({ "controlPlane": { "replicas": 3 } })),
        endpoint(json!({ "certSANs": ["another.example.com"] })),
        endpoint(json!({ "sourceRanges": ["10.0.0.0/8"] })),
        args("event-ttl", "3h"),
        spec(json!({ "etcd": { "storage": { "size": "4Gi" } } })),
        spec(json!({ "images": { "registry": "mirror.example.com/other" } })),
        spec(json!({ "paused": true })),
        spec(json!({ "paused": null })),
        json!({ "metadata": { "labels": { "example.com/team": "a" } } }),
    ] {
        guarded
            .change("demo", &patch)
            .await
            .map_err(|said| anyhow::anyhow!("{patch}: {said}"))?;
    }
    guarded.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_and_labels_are_never_refused_not_even_of_what_would_be() -> Result<()> {
    let Some(site) = Site::new("never").await? else {
        return Ok(());
    };
    // One that got in while nobody looked.
    let mut bad = minimal(&site.users, "bad");
    bad.spec.version = "1.20.0".to_owned();
    site.create_as(&bad).await?;
    let mut guarded = Guarded::on(site).await?;
    let site = &guarded.site;
    guarded
        .create("demo", &json!({}), false)
        .await
        .map_err(anyhow::Error::msg)?;
    site.wait_ready("demo").await?;
    let label = json!({ "metadata": { "labels": { "example.com/team": "a" } } });
    guarded
        .change("bad", &label)
        .await
        .map_err(anyhow::Error::msg)?;
    let still_bad = spec(json!({ "version": "1.21.0" }));
    let said = guarded.change("bad", &still_bad).await.unwrap_err();
    ensure!(
        said.contains("Kubernetes 1.21.0 is not supported"),
        "{said}"
    );
    site.delete("bad").await?;
    wait_gone(&site.clusters(), "bad", PATIENCE).await?;
    // Nor when the webhook is gone, and its policy is Fail.
    guarded.stop_webhook().await?;
    let site = &guarded.site;
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;
    let refused = guarded.create("late", &json!({}), true).await.unwrap_err();
    ensure!(refused.contains("failed calling webhook"), "{refused}");
    guarded.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_while_the_webhooks_certificate_is_replaced() -> Result<()> {
    let Some(site) = Site::new("rotation").await? else {
        return Ok(());
    };
    // Of its 90 days, 70 are gone.
    let then = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_hours(70 * 24))?;
    let old = certificate::issue(None, &site.system, then)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": certificate::NAME, "namespace": site.system },
        "data": {
            "ca.crt": STANDARD.encode(&old.authorities),
            "tls.crt": STANDARD.encode(&old.certificate),
            "tls.key": STANDARD.encode(old.key.reveal()),
        },
    });
    apply(&site.admin, &secret).await?;
    let guarded = Guarded::on(site).await?;
    let secrets = guarded.site.objects(kinds::SECRET, &guarded.site.system);
    let changed = |found: Option<&DynamicObject>| {
        found.is_some_and(|s| s.data["data"]["tls.crt"] != secret["data"]["tls.crt"])
    };
    let replaced = wait_for(&secrets, certificate::NAME, changed, PATIENCE);
    let mut replaced = std::pin::pin!(replaced);
    let unsupported = spec(json!({ "version": "1.30.1" }));
    let ask = async || {
        let said = guarded.create("other", &unsupported, true).await;
        ensure!(
            said.as_ref().is_err_and(|s| s.contains("is not supported")),
            "{said:?}"
        );
        Ok(())
    };
    let mut before = 0;
    loop {
        tokio::select! {
            biased;
            result = &mut replaced => break result.map(drop)?,
            result = ask() => result?,
        }
        before += 1;
    }
    // The API server keeps connections to the webhook; these may go to the old or the new one.
    for _ in 0..50 {
        ask().await?;
    }
    // How often is a matter of the machine.
    ensure!(before > 0, "it was not asked while the old one was served");
    guarded.end().await
}
