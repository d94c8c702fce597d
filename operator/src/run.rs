//! The operator's process: stores and admin port in every replica, the controllers, and the keeper of the
//! webhook's certificate, in the one that leads.
//!
//! Invariant: a replica that loses the Lease ends; it never goes on with what it had in hand.

use std::sync::Arc;

use anyhow::Context as _;
use kit::lease::{Candidate, LeaseConfig};
use kit_client::connect::connect_fenced_with_reserve;

use crate::admission::keeper::Keeper;
use crate::args::RunArgs;
use crate::manager::{LEASE, Manager};
use crate::process::{Process, Synced};
use crate::tenant_session::session::Dial;

/// Runs until a signal, or until the Lease is lost.
///
/// # Errors
/// When it cannot start, or has to end because it no longer leads.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let RunArgs {
        process: args,
        identity,
        concurrency,
    } = args;
    let Process {
        shutdown,
        settings,
        requests,
        port,
    } = Process::begin(&args)?;
    let (leadership, candidate) = Candidate::new();
    let clients = connect_fenced_with_reserve(&args.client, &requests, &leadership).await?;
    let client = clients.usual;

    let timing = kit::lease::Timing::default();
    let lease = LeaseConfig {
        namespace: args.namespace.clone(),
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
    manager.context.throttle.keep_up(clients.backlog);
    let stores = manager.run_stores();
    let synced = Synced::default();
    synced.gate(
        &port,
        "TenantClusters, NodePools, Machines, TenantQuotas, Hosts, BackupTargets, Snapshots, Restores, ProviderConfigs and FleetPolicies",
    );
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
            "silent": context.recovery_probes.len(),
            "secretWatches": context.secrets.len(),
            "tenantsWatched": context.tenants.len(),
            "tenantClusters": context.stores.clusters.len(),
            "nodePools": context.stores.pools.len(),
            "machines": context.stores.machines.len(),
            "tenantQuotas": context.stores.quotas.len(),
            "hosts": { "all": context.stores.hosts.len(), "inSession": context.hosts.running() },
            "backupTargets": context.stores.targets.len(),
            "snapshots": context.stores.snapshots.len(),
            "restores": context.stores.restores.len(),
            "providerConfigs": context.stores.configs.len(),
            "fleetPolicies": context.stores.policies.len(),
            "virtualMachinesWatched": context.vms.len(),
            "room": { "nodes": nodes, "pods": pods },
            "orphanedNamespaces": context.orphans.state(),
            "reservedRanges": context.reserved_ranges.settings().network.reserved,
        })
    });
    let admin_address = port
        .open(&args.admin, &shutdown)
        .await
        .context("open the admin port")?;
    tracing::info!(%admin_address, "admin port is open");

    let keeper = Keeper::new(client, &args.namespace, leadership.clone());
    let keeper = async { keeper.run().await.context("keep the webhook's certificate") };
    let context = Arc::clone(&manager.context);
    let lead = manager.lead(concurrency, shutdown.clone());
    let result = tokio::select! {
        result = lead => result,
        result = keeper => result,
        () = stores => Err(anyhow::anyhow!("the watches on our kinds ended")),
        () = synced.note(context.stores.wait_until_ready()) => Ok(()),
    };
    tracing::info!("stops");
    election.release().await;
    result
}
