//! What an operator does with one Machine, as far as a cloud sees it.
//!
//! Invariant: nothing is kept of a machine but what a Machine's status keeps, and when a creation had no answer.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::machine::{MachineRequest, MachineStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use providers::absence::SETTLE;
use providers::cloud::{Cloud, Order, requests};
use providers::{Presence, Proof, State};
use serde_json::json;

use crate::played::Played;

/// UID of the installation.
pub(crate) const INSTALLATION: &str = "installation-1";
/// The tenant cluster, and its UID.
const CLUSTER: (&str, &str) = ("demo", "0a1b2c3d-0000-4000-8000-000000000001");
/// Pause between two looks at what is being made or goes.
pub(crate) const ROUND: Duration = Duration::from_secs(10);

/// The tenant namespace of all Machines.
pub(crate) fn namespace() -> String {
    api::names::tenant_namespace(CLUSTER.0, CLUSTER.1)
}

/// One Machine.
pub(crate) struct Machine {
    object: api::Machine,
    /// The last creation without an answer.
    open: Option<Timestamp>,
}

impl Machine {
    /// The `number`th, of a pool at a cloud.
    pub(crate) fn new<P: Played>(number: usize, now: Timestamp) -> Result<Self> {
        let object = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": format!("workers-{number}"), "namespace": "team-a",
                "uid": format!("5d2f1c1e-8a52-4e0d-9c11-{number:012x}"), "creationTimestamp": now,
            },
            "spec": {
                "clusterName": CLUSTER.0, "clusterUID": CLUSTER.1, "poolName": "workers", "version": "1.36.2", "provider": P::provider(),
            },
            "status": {},
        }));
        Ok(Self {
            object: object.context("a Machine has other fields now")?,
            open: None,
        })
    }

    /// Its UID.
    pub(crate) fn uid(&self) -> String {
        self.object.uid().unwrap_or_default()
    }

    fn status(&mut self) -> &mut MachineStatus {
        self.object.status.get_or_insert_default()
    }

    /// One look; what it said, where it is known.
    pub(crate) async fn look<C: Cloud>(&mut self, cloud: &C) -> Option<Presence> {
        let subject = requests::subject::<C>(&self.object, INSTALLATION);
        let looked = cloud.describe(&subject).await.ok()?;
        if let Presence::Present(found) = &looked
            && found.instance.is_some()
        {
            let status = self.status();
            status.creation_pending_since = None;
            status.instance.clone_from(&found.instance);
            status.provider_id.clone_from(&found.provider_id);
        }
        Some(looked)
    }

    /// One round of one that is wanted; whether it runs.
    pub(crate) async fn want<P: Played>(
        &mut self,
        cloud: &P::Cloud,
        now: Timestamp,
    ) -> Result<bool> {
        match self.look(cloud).await {
            Some(Presence::Present(found)) => {
                ensure!(!found.foreign, "its own machine is taken for another's");
                return Ok(found.state == State::Running);
            }
            Some(Presence::Absent(Proof::NotSeenYet)) => self.create::<P>(cloud, now).await?,
            Some(Presence::Absent(proof)) => bail!("it is wanted, and lost by {proof:?}"),
            Some(Presence::Unknown { .. }) | None => {}
        }
        Ok(false)
    }

    async fn create<P: Played>(&mut self, cloud: &P::Cloud, now: Timestamp) -> Result<()> {
        let status = self.status();
        // Stored once, before it is asked for.
        let stored = status.request.get_or_insert_with(|| MachineRequest {
            type_: Some(P::SIZE.to_owned()),
            image: P::IMAGE.to_owned(),
            ..MachineRequest::default()
        });
        let request = stored.clone();
        status.creation_pending_since.get_or_insert(Time(now));
        let order = Order {
            machine: &self.object,
            request: &request,
            owner: &requests::owner(&self.object, INSTALLATION),
        };
        match cloud.create(order, "#cloud-config\n".to_owned()).await {
            Err(refused) if !refused.kind.leaves_outcome_unknown() => {}
            _ => self.open = Some(now),
        }
        Ok(())
    }

    /// It is deleted from now on.
    pub(crate) fn goes(&mut self, now: Timestamp) {
        let deleted = &mut self.object.metadata.deletion_timestamp;
        deleted.get_or_insert(Time(now));
    }

    /// One round of one that goes; whether it is gone.
    pub(crate) async fn leave<C: Cloud>(&mut self, cloud: &C, now: Timestamp) -> bool {
        match self.look(cloud).await {
            Some(Presence::Present(found)) => {
                if !found.deleting {
                    let subject = requests::subject::<C>(&self.object, INSTALLATION);
                    let _ = cloud.delete(&subject.owner, subject.instance).await;
                }
                false
            }
            // A creation without an answer may be carried out yet.
            Some(Presence::Absent(_)) => {
                let settles = |open: Timestamp| now.duration_since(open) < SETTLE;
                !self.open.is_some_and(settles)
            }
            Some(Presence::Unknown { .. }) | None => false,
        }
    }
}
