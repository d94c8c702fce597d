//! Node pools of a site: making, waiting, and everything that exists for one, made comparable.
//!
//! Invariant: names of Machines are masked by their rank, because they come from a UID.

use std::pin::pin;

use anyhow::{Context as _, Result, bail, ensure};
use api::condition::is_true;
use api::{ConditionType, Machine, NodePool, TenantCluster, names};
use futures::TryStreamExt as _;
use k8s_openapi::api::events::v1::Event;
use kit_objects::kinds::{self, Kind};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tenant_cp::addons::registry;
use testkit::fakes::tenant_api::Call;
use testkit::fixtures::{wait_for, wait_gone};

use super::site::{apply, tenant_namespace};
use super::state::{Masks, State};
use super::{PATIENCE, Site};

/// A node pool of the tenant cluster `demo` with nothing but what is required.
pub(crate) fn pool(site: &Site, name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": { "name": name, "namespace": site.users },
        "spec": {
            "clusterName": "demo", "replicas": replicas,
            "provider": { "kubevirt": { "cpu": 1, "memory": "1Gi" } },
        },
    })
}

/// As wanted, and nothing under way.
pub(crate) fn is_settled(pool: &NodePool) -> bool {
    let Some(status) = &pool.status else {
        return false;
    };
    let is = |type_| is_true(&status.conditions, type_);
    status.observed_generation == pool.metadata.generation
        && is(ConditionType::Ready)
        && !is(ConditionType::Progressing)
        && !is(ConditionType::Degraded)
        && status.replicas == pool.spec.replicas
}

/// Status and reason of a condition; empty while there is none.
pub(crate) fn said(object: &Value, type_: &str) -> (String, String) {
    let list = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let found = list.into_iter().find(|c| c["type"] == type_);
    let text = |key: &str| {
        let value = found.and_then(|c| c[key].as_str());
        value.unwrap_or_default().to_owned()
    };
    (text("status"), text("reason"))
}

impl Site {
    pub(crate) fn pools(&self) -> Api<NodePool> {
        Api::namespaced(self.admin.clone(), &self.users)
    }

    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.admin.clone(), &self.users)
    }

    /// The Machines of a pool, by number.
    pub(crate) async fn machines_of(&self, pool: &str) -> Result<Vec<Machine>> {
        let params = ListParams::default().labels(&names::pool_selector(pool));
        let mut machines = self.machines().list(&params).await?.items;
        machines.sort_by_key(number);
        Ok(machines)
    }

    pub(crate) async fn create_pool(&self, name: &str, replicas: i32) -> Result<()> {
        apply(&self.admin, &pool(self, name, replicas))
            .await
            .map(drop)
    }

    pub(crate) async fn change_pool(&self, name: &str, patch: &Value) -> Result<()> {
        let params = PatchParams::default();
        self.pools()
            .patch(name, &params, &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(crate) async fn wait_pool(
        &self,
        name: &str,
        mut wanted: impl FnMut(&NodePool) -> bool,
    ) -> Result<NodePool> {
        let pools = self.pools();
        let found = wait_for(&pools, name, |p| p.is_some_and(&mut wanted), PATIENCE);
        found.await?.context("invariant: it was just seen")
    }

    pub(crate) async fn wait_pool_ready(&self, name: &str) -> Result<NodePool> {
        self.wait_pool(name, is_settled).await
    }

    /// Deletes a node pool and waits until it is gone.
    pub(crate) async fn remove_pool(&self, name: &str) -> Result<()> {
        self.pools()
            .delete(name, &DeleteParams::background())
            .await?;
        wait_gone(&self.pools(), name, PATIENCE).await
    }

    /// Waits for an Event with this reason about the object of this name.
    pub(crate) async fn wait_event(&self, about: &str, reason: &str) -> Result<Event> {
        self.wait_event_in(&self.users, about, reason).await
    }

    /// The same for Events in another namespace.
    pub(crate) async fn wait_event_in(
        &self,
        namespace: &str,
        about: &str,
        reason: &str,
    ) -> Result<Event> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), namespace);
        let mut told = pin!(watcher(events, watcher::Config::default()).applied_objects());
        let is = |event: &Event| {
            let regarding = event.regarding.as_ref();
            event.reason.as_deref() == Some(reason)
                && regarding.is_some_and(|r| r.name.as_deref() == Some(about))
        };
        let found = async {
            while let Some(event) = told.try_next().await? {
                if is(&event) {
                    return Ok(event);
                }
            }
            bail!("the watch ended")
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.with_context(|| format!("no Event {reason} about {about}"))?
    }

    /// Gives the addons in a tenant's stand-in the status that they would have on so many nodes, with so
    /// many pods of each that are ready.
    pub(crate) fn play_addons(&self, namespace: &str, nodes: i64, ready: i64) {
        for addon in registry::ALL {
            let Some(key) = addon.workload() else {
                continue;
            };
            let (plural, status) = match key.kind.as_str() {
                "DaemonSet" => (
                    "daemonsets",
                    json!({ "numberReady": ready, "desiredNumberScheduled": nodes }),
                ),
                _ => ("deployments", json!({ "readyReplicas": ready })),
            };
            let path = format!(
                "/apis/apps/v1/namespaces/{}/{plural}/{}",
                key.namespace, key.name
            );
            let status = json!({ "status": status });
            let played = self.tenants.change(namespace, &path, &status);
            // Nobody switched these on.
            let is_off = ["csi", "overlay"].contains(&addon.name());
            assert_eq!(played, !is_off, "{path}");
        }
    }

    /// The writes that a tenant's stand-in got.
    pub(crate) fn writes_inside(&self, namespace: &str) -> Vec<Call> {
        let mut calls = self.tenants.calls(namespace);
        calls.retain(|call| !["get", "list", "watch"].contains(&call.verb.as_str()));
        calls
    }

    /// Everything of machines: in the user's namespace, in the tenant namespace, and inside.
    pub(crate) async fn machine_parts(
        &self,
        cluster: &TenantCluster,
    ) -> Result<Vec<(Kind, DynamicObject)>> {
        let ns = tenant_namespace(cluster);
        let of_machines = ListParams::default().labels(names::LABEL_MACHINE);
        let mut found = Vec::new();
        for (kind, namespace, params) in [
            (kinds::NODE_POOL, &self.users, &ListParams::default()),
            (kinds::MACHINE, &self.users, &ListParams::default()),
            (kinds::SECRET, &ns, &of_machines),
            (kinds::VIRTUAL_MACHINE, &ns, &of_machines),
            (kinds::VIRTUAL_MACHINE_INSTANCE, &ns, &of_machines),
        ] {
            let list = self.objects(kind, namespace).list(params).await?;
            found.extend(list.items.into_iter().map(|object| (kind, object)));
        }
        for path in self.tenants.paths(&ns) {
            let token = path.contains("/secrets/bootstrap-token-");
            if token || path.starts_with("/api/v1/nodes/") {
                let object = self.tenants.object(&ns, &path).unwrap_or_default();
                let kind = if token { kinds::SECRET } else { kinds::NODE };
                found.push((kind, serde_json::from_value(object)?));
            }
        }
        Ok(found)
    }

    /// The same, masked.
    pub(crate) async fn machine_state(&self, cluster: &TenantCluster) -> Result<State> {
        let parts = self.machine_parts(cluster).await?;
        let mut masks = Vec::new();
        let mut machines: Vec<_> = parts
            .iter()
            .filter(|(kind, _)| *kind == kinds::MACHINE)
            .map(|(_, machine)| machine)
            .collect();
        machines.sort_by_key(|m| number_of(m.annotations()));
        for (rank, machine) in machines.into_iter().enumerate() {
            masks.push((machine.name_any(), format!("<machine {rank}>")));
            masks.push((machine.uid().unwrap_or_default(), format!("<uid {rank}>")));
        }
        for (_, object) in &parts {
            // Those of virtual machines, in the status of their Machines.
            masks.push((object.uid().unwrap_or_default(), "<uid>".to_owned()));
        }
        masks.extend([
            (cluster.uid().unwrap_or_default(), "<uid>".to_owned()),
            (tenant_namespace(cluster), "<tenant>".to_owned()),
            (self.system.clone(), "<system>".to_owned()),
            (self.users.clone(), "<users>".to_owned()),
        ]);
        let masks = Masks::new(masks);
        let masked = parts.iter().map(|(kind, object)| {
            let (key, mut value) = masks.masked(*kind, object);
            mask_numbers(&mut value);
            (key, value)
        });
        Ok(masked.collect())
    }

    /// For each Machine of the pool one virtual machine that runs, one node, user data without content
    /// and no token, and nothing besides.
    pub(crate) async fn nothing_is_orphaned(&self, cluster: &TenantCluster) -> Result<()> {
        let ns = tenant_namespace(cluster);
        let machines = self.machines().list(&ListParams::default()).await?.items;
        let names: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
        let mut seen = std::collections::BTreeMap::<&str, Vec<String>>::new();
        for (kind, object) in self.machine_parts(cluster).await? {
            if kind == kinds::SECRET {
                let token = object.data["data"].get("token-secret");
                ensure!(token.is_none(), "{} still has a token", object.name_any());
            }
            seen.entry(kind.kind).or_default().push(object.name_any());
        }
        for kind in [
            "Machine",
            "VirtualMachine",
            "VirtualMachineInstance",
            "Node",
        ] {
            let found = seen.get(kind).cloned().unwrap_or_default();
            ensure!(
                found == names,
                "Machines {names:?}, but {kind}s {found:?} in {ns}"
            );
        }
        let secrets: Vec<_> = names.iter().map(|n| names::user_data_secret(n)).collect();
        let found = seen.get("Secret").cloned().unwrap_or_default();
        ensure!(found == secrets, "Secrets {found:?} in {ns} and inside");
        Ok(())
    }
}

fn number_of(annotations: &std::collections::BTreeMap<String, String>) -> i64 {
    let text = annotations.get(names::ANNOTATION_MACHINE_NUMBER);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Number of a Machine.
pub(crate) fn number(machine: &Machine) -> i64 {
    number_of(machine.annotations())
}

/// Numbers are never used twice, whatever became of the Machine; addresses come from the names.
fn mask_numbers(value: &mut Value) {
    const BY_HISTORY: [&str; 2] = [names::ANNOTATION_MACHINE_NUMBER, "lastMachineNumber"];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !BY_HISTORY.contains(&key.as_str()));
            for key in ["address", "ipAddress"] {
                if map.get(key).is_some_and(Value::is_string) {
                    map.insert(key.to_owned(), json!("<address>"));
                }
            }
            if let Some(all) = map.get_mut("ipAddresses").and_then(Value::as_array_mut) {
                all.fill(json!("<address>"));
            }
            map.values_mut().for_each(mask_numbers);
        }
        Value::Array(list) => list.iter_mut().for_each(mask_numbers),
        _ => {}
    }
}
