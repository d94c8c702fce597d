//! Plays KubeVirt with machines that are hosts: `lab::machines` has the machines. For the lab alone.
//!
//! | Module | What it does |
//! |---|---|
//! | `plan` | what happens next about one machine, pure |
//! | `objects` | KubeVirt's objects as it writes them, pure |
//! | `stage` | requests, and machines that are started and ended |
//!
//! A machine is at the address of its pod, which is one of the management cluster as KubeVirt's is: scheduled, with
//! the labels that policies select, in the network that they are enforced on. Invariant: nothing is written where
//! everything is as it should be.

mod objects;
pub(crate) mod place;
mod plan;
mod stage;

use std::{sync::Arc, time::Duration};

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, runtime::watcher};
use tokio::sync::Notify;

use super::watch;
pub use place::Place;
use stage::{Objects, Stage};

/// How often machines are looked at of which nothing was told: a host that ends says nothing.
const PAUSE: Duration = Duration::from_secs(1);

/// Plays until the process ends; makes the kinds first.
///
/// # Errors
/// When the settings cannot be read, or what is left of machines before cannot be removed.
pub async fn run(client: Client, place: Place) -> anyhow::Result<()> {
    let changed = Arc::new(Notify::new());
    let mut stage = Stage::new(client.clone(), place).await?;
    let config = watcher::Config::default;
    let objects = Objects {
        vms: watch::follow(
            Api::<VirtualMachine>::all(client.clone()),
            config(),
            Arc::clone(&changed),
            |_| {},
        ),
        instances: watch::follow(
            Api::<VirtualMachineInstance>::all(client.clone()),
            config(),
            Arc::clone(&changed),
            |_| {},
        ),
        pods: watch::follow(
            Api::<Pod>::all(client),
            config().labels(objects::LAUNCHER),
            Arc::clone(&changed),
            |_| {},
        ),
    };
    objects.vms.wait_until_ready().await?;
    objects.instances.wait_until_ready().await?;
    objects.pods.wait_until_ready().await?;
    let mut looks = tokio::time::interval(PAUSE);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        stage.reconcile(&objects).await;
        tokio::select! {
            () = changed.notified() => {}
            _ = looks.tick() => {}
        }
    }
}
