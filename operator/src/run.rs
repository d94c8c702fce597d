//! The process: stores, webhook and admin port in every replica, the controllers in the one that leads.
//!
//! Invariant: a replica that loses the Lease ends; it never goes on with what it had in hand.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::lease::{Candidate, LeaseConfig};
use kit::shutdown::Shutdown;
use tenant_cp::Settings;

use crate::admission::server::Webhook;
use crate::admission::validator::Validator;
use crate::args::RunArgs;
use crate::manager::{LEASE, Manager};
use crate::tenant_session::session::Dial;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(25);

/// Runs until a signal, or until the Lease is lost.
///
/// # Errors
/// When it cannot start, or has to end because it no longer leads.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let RunArgs {
        log,
        admin,
        client,
        config,
        namespace,
        identity,
        webhook_address,
        concurrency,
    } = args;
    kit::telemetry::init(&log)?;
    kit::client::install_crypto();
    let shutdown = Shutdown::on_signals(GRACE)?;
    let settings = settings(config.as_deref())?;
    let problems = tenant_cp::validate::check_settings(&settings);
    if !problems.is_empty() {
        let problems: Vec<_> = problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.message))
            .collect();
        anyhow::bail!("the configuration is wrong: {}", problems.join("; "));
    }
    let requests = kit::client::RequestCounter::new();
    let (leadership, candidate) = Candidate::new();
    let client = kit::client::connect_fenced(&client, &requests, &leadership).await?;
    let port = Admin::new();
    port.metrics(|registry| requests.register(registry));
    port.metrics(kit::metrics::ProcessMetrics::register);

    let timing = kit::lease::Timing::default();
    let lease = LeaseConfig {
        namespace: namespace.clone(),
        name: LEASE.into(),
        identity: identity.clone(),
        timing,
    };
    let election = candidate.campaign(client.clone(), lease);
    let dial: Dial = Arc::new(|_, address| address);
    let mut manager = Manager::new(
        client.clone(),
        settings,
        leadership.clone(),
        dial,
        &identity,
        &port,
    );
    let stores = manager.run_stores();
    let synced = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&synced);
    port.ready("store", move || match flag.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(
            "TenantClusters, NodePools, Machines and TenantQuotas are not listed yet".to_owned(),
        ),
    });
    let (context, watched) = (Arc::clone(&manager.context), leadership.clone());
    port.state("operator", move || {
        let rollouts = context.rollout_queue.counts();
        let (nodes, pods) = context.capacity.counts();
        serde_json::json!({
            "leads": watched.is_leader(),
            "bulkheads": {
                "tenantClusters": context.cluster_bulkhead.counts(),
                "machines": context.machine_bulkhead.counts(),
            },
            "starts": {
                "running": rollouts.running, "waiting": rollouts.waiting,
                "probed": context.startup_probes.len(),
            },
            "fleet": {
                "templates": context.templates,
                "running": rollouts.fleet_running, "waiting": rollouts.fleet_waiting,
            },
            "secretWatches": context.secrets.len(),
            "tenantsWatched": context.tenants.len(),
            "tenantClusters": context.stores.clusters.len(),
            "nodePools": context.stores.pools.len(),
            "machines": context.stores.machines.len(),
            "tenantQuotas": context.stores.quotas.len(),
            "virtualMachinesWatched": context.vms.len(),
            "room": { "nodes": nodes, "pods": pods },
            "orphanedNamespaces": context.orphans.state(),
            "reservedRanges": context.reserved_ranges.settings().network.reserved,
        })
    });
    let admin_address = port
        .open(&admin, &shutdown)
        .await
        .context("open the admin port")?;
    tracing::info!(%admin_address, "admin port is open");

    let known = &manager.context.stores;
    let (clusters, pools) = (known.clusters.clone(), known.pools.clone());
    let quotas = known.quotas.clone();
    let ranges = Arc::clone(&manager.context.reserved_ranges);
    let webhook = Webhook::new(Validator {
        settings: Arc::new(move || ranges.settings()),
        clusters: Arc::new(move || clusters.state()),
        pools: Arc::new(move || pools.state()),
        quotas: Arc::new(move || quotas.state()),
    });
    port.ready("webhook", webhook.readiness());
    let serve = webhook.run(
        client,
        namespace,
        webhook_address,
        leadership.clone(),
        shutdown.clone(),
    );
    let webhook = async {
        serve.await.context("serve the webhook")?;
        // It ends first at a shutdown; what the controller has in hand still has to end.
        std::future::pending::<anyhow::Result<()>>().await
    };
    let context = Arc::clone(&manager.context);
    let ready = async move {
        if context.stores.wait_until_ready().await.is_ok() {
            synced.store(true, Ordering::Relaxed);
        }
        std::future::pending::<()>().await;
    };
    let lead = manager.lead(concurrency, shutdown.clone());
    let result = tokio::select! {
        result = lead => result,
        result = webhook => result,
        () = stores => Err(anyhow::anyhow!("the watches on our kinds ended")),
        () = ready => Ok(()),
    };
    tracing::info!("stops");
    election.release().await;
    result
}

fn settings(path: Option<&Path>) -> anyhow::Result<Settings> {
    let Some(path) = path else {
        return Ok(Settings::default());
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the configuration {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| {
        format!(
            "understand the configuration {}; `operator print config` shows all keys",
            path.display()
        )
    })
}
