//! The operator's process: stores and admin port in every replica, the controllers, and the keeper of the
//! webhook's certificate, in the one that leads.
//!
//! Invariant: a replica that loses the Lease ends; it never goes on with what it had in hand.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::lease::{Candidate, Election, Leadership, LeaseConfig, Timing};
use kit::metrics::ShareMetrics;
use kit_client::connect::connect_fenced_with_reserve;
use kube::Client;

use crate::admission::keeper::Keeper;
use crate::args::RunArgs;
use crate::context::Context;
use crate::manager::{LEASE, Manager};
use crate::membership::{self, Membership};
use crate::prober;
use crate::prober::counts::Counts;
use crate::process::{Process, Synced};
use crate::shards::plan::INSTALLATION;
use crate::tenant_metrics::TenantMetrics;
use crate::tenant_session::session::Dial;

/// Runs until a signal, or until the Lease is lost.
///
/// # Errors
/// When it cannot start, or has to end because it no longer leads.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let RunArgs {
        process: args,
        identity,
        shards,
        concurrency,
        probe_interval,
        metrics_tenants,
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

    let membership = Membership {
        namespace: args.namespace.clone(),
        identity: identity.clone(),
        seats: shards,
        timing: Timing::default(),
    };
    let (election, seeker) = match shards {
        0 | 1 => (campaign(candidate, &client, &membership), None),
        _ => {
            let (election, seeker) = membership.clone().seek(candidate, &client);
            (election, Some(seeker))
        }
    };
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
    let metrics = port.metrics(ShareMetrics::register);
    if seeker.is_some() {
        manager.context.shards.share();
    }
    let stores = manager.run_stores();
    let synced = Synced::default();
    synced.gate(
        &port,
        "TenantClusters, NodePools, Machines, TenantQuotas, Hosts, BackupTargets, Snapshots, Restores, ProviderConfigs, FleetPolicies and AccessGrants",
    );
    show(&port, Arc::clone(&manager.context));
    let probes = Counts::default();
    let shown = TenantMetrics::new(
        Arc::clone(&manager.context),
        probes.clone(),
        usize::try_from(metrics_tenants).unwrap_or(usize::MAX),
    );
    port.metrics(|registry| registry.register_collector(Box::new(shown)));
    let interval = Duration::from_secs(u64::from(probe_interval));
    let admin_address = port
        .open(&args.admin, &shutdown)
        .await
        .context("open the admin port")?;
    tracing::info!(%admin_address, "admin port is open");

    let context = Arc::clone(&manager.context);
    let keep = || async {
        let keeper = Keeper::new(client.clone(), &args.namespace, leadership.clone());
        keeper.run().await.context("keep the webhook's certificate")
    };
    let is_shared = seeker.is_some();
    let work = async {
        if !is_shared {
            tokio::select! {
                () = alone(&client, &membership, &leadership) => {}
                () = shutdown.triggered() => return Ok(()),
            }
            leadership.ensure()?;
        }
        tokio::select! {
            result = manager.lead(concurrency, shutdown.clone()) => result,
            result = context.shards.run_while_owned(INSTALLATION, keep) => result,
            () = prober::run(Arc::clone(&context), probes, interval) => Ok(()),
        }
    };
    let share = async {
        match seeker {
            Some(seeker) => {
                let context = Arc::clone(&context);
                seeker.run(context, client.clone(), metrics).await;
            }
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = work => result,
        () = share => Ok(()),
        () = stores => Err(anyhow::anyhow!("the watches on our kinds ended")),
        () = synced.note(context.stores.wait_until_ready()) => Ok(()),
    };
    tracing::info!("stops");
    election.release().await;
    result
}

/// Campaigns for the Lease by which one replica leads.
fn campaign(candidate: Candidate, client: &Client, membership: &Membership) -> Election {
    let lease = LeaseConfig {
        namespace: membership.namespace.clone(),
        name: LEASE.into(),
        identity: membership.identity.clone(),
        timing: membership.timing,
    };
    candidate.campaign(client.clone(), lease)
}

/// Waits until this replica leads, and nobody shares the work any more.
async fn alone(client: &Client, membership: &Membership, leadership: &Leadership) {
    leadership.acquired().await;
    let namespace = &membership.namespace;
    membership::wait_until_alone(client.clone(), namespace, membership.timing).await;
}

/// What the admin port says of it.
fn show(port: &Admin, context: Arc<Context>) {
    port.state("operator", move || {
        let rollouts = context.rollout_queue.counts();
        let (nodes, pods) = context.capacity.counts();
        serde_json::json!({
            "leads": context.leadership.is_leader(),
            "shards": {
                "shared": context.shards.is_shared(), "members": context.shards.members(),
                "installation": context.shards.owner(INSTALLATION),
            },
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
            "accessGrants": context.stores.access_grants.len(),
            "virtualMachinesWatched": context.vms.len(),
            "room": { "nodes": nodes, "pods": pods },
            "orphanedNamespaces": context.orphans.state(),
            "reservedRanges": context.reserved_ranges.settings().network.reserved,
        })
    });
}
