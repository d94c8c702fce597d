//! The wiring of node pools and Machines: their stores in every replica, their controllers in the
//! one that leads, and what wakes them.
//!
//! Invariant: a change of a TenantCluster wakes its pools and Machines only when it is one that they
//! look at, so the status of a busy control plane costs them nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{Machine, NodePool, TenantCluster};
use futures::StreamExt;
use kit::shutdown::Shutdown;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::{Controller, controller, reflector};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::gather::gather;
use crate::tenant_cluster::plan::answers_since;
use crate::{machine, node_pool, room, run};

/// Node pools that are reconciled at the same time.
const POOLS: u16 = 4;
/// Machines that are reconciled at the same time.
const MACHINES: u16 = 8;
/// How long node pools wait at most until it is known what room there is. A management API that does
/// not tell (an older role, say) must not keep machines from being made.
const ROOM: Duration = Duration::from_secs(5);
/// How long what happens to one node is gathered: a tenant may make its nodes change as often as it
/// likes.
const NODES: Duration = Duration::from_millis(300);

/// Who is woken, and what for. The other ends are in [`Workers`].
pub struct Wakers {
    /// Node pools.
    pub pools: mpsc::UnboundedSender<ObjectRef<NodePool>>,
    /// Node pools of which Machines or the status changed; gathered.
    of_machines: mpsc::UnboundedSender<ObjectRef<NodePool>>,
    /// Machines.
    pub machines: mpsc::UnboundedSender<ObjectRef<Machine>>,
    /// What was last seen of each TenantCluster.
    clusters: Mutex<HashMap<ObjectRef<TenantCluster>, Facts>>,
    /// Which TenantClusters, by UID, were last seen to have workers.
    with_workers: Mutex<HashMap<String, bool>>,
}

/// What pools and Machines look at of a TenantCluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Facts {
    uid: Option<String>,
    going: bool,
    paused: bool,
    answers: bool,
    version: Option<String>,
    autoscaler: bool,
}

impl Facts {
    fn of(cluster: &TenantCluster) -> Self {
        let status = cluster.status.as_ref();
        Self {
            uid: cluster.uid(),
            going: cluster.metadata.deletion_timestamp.is_some(),
            paused: cluster.spec.paused,
            answers: status.and_then(answers_since).is_some(),
            version: status.and_then(|s| s.version.clone()),
            autoscaler: cluster.spec.addons.autoscaler.enabled,
        }
    }

    /// Whether Machines have to be looked at after `before`: an outage that begins costs none of
    /// them a look.
    fn matter_to_machines(&self, before: &Self) -> bool {
        let rest = |facts: &Self| (facts.uid.clone(), facts.going, facts.paused);
        self.answers && !before.answers || rest(self) != rest(before)
    }
}

/// The stores' and controllers' ends.
pub struct Workers {
    pools: Option<Writer<NodePool>>,
    machines: Option<Writer<Machine>>,
    woken_pools: mpsc::UnboundedReceiver<ObjectRef<NodePool>>,
    of_machines: mpsc::UnboundedReceiver<ObjectRef<NodePool>>,
    woken_machines: mpsc::UnboundedReceiver<ObjectRef<Machine>>,
}

impl Workers {
    /// Stores that nothing fills yet, and wakers that wake nobody yet.
    #[must_use]
    pub fn new() -> (Self, Wakers, Store<NodePool>, Store<Machine>) {
        let (pool_store, pools) = reflector::store();
        let (machine_store, machines) = reflector::store();
        let (wake_pools, woken_pools) = mpsc::unbounded_channel();
        let (wake_of_machines, of_machines) = mpsc::unbounded_channel();
        let (wake_machines, woken_machines) = mpsc::unbounded_channel();
        let workers = Self {
            pools: Some(pools),
            machines: Some(machines),
            woken_pools,
            of_machines,
            woken_machines,
        };
        let wakers = Wakers {
            pools: wake_pools,
            of_machines: wake_of_machines,
            machines: wake_machines,
            clusters: Mutex::default(),
            with_workers: Mutex::default(),
        };
        (workers, wakers, pool_store, machine_store)
    }

    /// Keeps the stores up to date, in every replica. Ends never.
    pub fn stores(&mut self, context: Arc<Context>) -> impl Future<Output = ()> + Send + 'static {
        let (pools, machines) = (self.pools.take(), self.machines.take());
        async move {
            let pools = run::keep(&context, pools, note_pool);
            let machines = run::keep(&context, machines, note_machine);
            futures::join!(pools, machines);
        }
    }

    /// Reconciles until the shutdown starts. The stores are filled.
    pub async fn run(self, context: Arc<Context>, shutdown: Shutdown) {
        let Self {
            woken_pools,
            of_machines,
            woken_machines,
            ..
        } = self;
        for pool in context.pools.state() {
            // The receivers are in this very function.
            let _ = context.wakers.pools.send(ObjectRef::from_obj(&*pool));
        }
        for machine in context.machines.state() {
            let _ = context.wakers.machines.send(ObjectRef::from_obj(&*machine));
        }
        // Ended when this ends.
        let mut watches = JoinSet::new();
        watches.spawn(room::watch::keep(
            Arc::clone(&context.room),
            context.client.clone(),
        ));
        let (a, b, c, d, e) = (
            Arc::clone(&context),
            Arc::clone(&context),
            Arc::clone(&context),
            Arc::clone(&context),
            Arc::clone(&context),
        );
        let woken = stream(woken_pools).inspect(move |pool| a.pool_desk.is_due(pool));
        let changed = gather(stream(of_machines), node_pool::GATHER);
        let changed = changed.inspect(move |pool| b.pool_desk.is_due(pool));
        let flipped = room::watch::flips(Arc::clone(&context.room));
        let flipped = flipped.inspect(move |pool| e.pool_desk.is_due(pool));
        let pools = Controller::for_stream(futures::stream::pending(), context.pools.clone())
            .with_config(controller::Config::default().concurrency(POOLS))
            .reconcile_on(woken)
            .reconcile_on(changed)
            .reconcile_on(flipped)
            .graceful_shutdown_on(shutdown.triggered())
            .run(
                node_pool::reconcile,
                node_pool::error_policy,
                Arc::clone(&context),
            )
            .for_each(|_| std::future::ready(()));
        let (room, stopped) = (Arc::clone(&context.room), shutdown.triggered());
        let pools = async move {
            tokio::select! {
                // Late or not, a pool is looked at now.
                _ = tokio::time::timeout(ROOM, room.listed()) => {}
                () = stopped => {}
            }
            pools.await;
        };
        let woken = stream(woken_machines).inspect(move |machine| c.machine_desk.is_due(machine));
        let inside = match context.tenants.machine_triggers() {
            Some(triggers) => gather(stream(triggers), NODES).boxed(),
            None => futures::stream::pending().boxed(),
        };
        let inside = inside.inspect(move |machine| d.machine_desk.is_due(machine));
        let machines = Controller::for_stream(futures::stream::pending(), context.machines.clone())
            .with_config(controller::Config::default().concurrency(MACHINES))
            .reconcile_on(woken)
            .reconcile_on(inside)
            .graceful_shutdown_on(shutdown.triggered())
            .run(
                machine::reconcile,
                machine::error_policy,
                Arc::clone(&context),
            )
            .for_each(|_| std::future::ready(()));
        futures::join!(pools, machines);
    }
}

fn stream<T: Send + 'static>(
    mut receiver: mpsc::UnboundedReceiver<T>,
) -> impl futures::Stream<Item = T> + Send + Unpin {
    futures::stream::poll_fn(move |cx| receiver.poll_recv(cx))
}

/// A node pool changed, or went.
fn note_pool(context: &Context, pool: &NodePool, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if there {
        // Of a pool whose spec was looked at it is most often the status that changed, by our own
        // hand: looked at once more at once, it would be written again for each Machine that changed
        // meanwhile.
        let known = pool.status.as_ref().and_then(|s| s.observed_generation);
        let wake = match known.is_some() && known == pool.metadata.generation {
            true => &context.wakers.of_machines,
            false => &context.wakers.pools,
        };
        let _ = wake.send(ObjectRef::from_obj(pool));
    } else {
        context
            .pool_desk
            .forget(&crate::desk::key_of(pool), &pool.uid().unwrap_or_default());
        context.room.forget(&ObjectRef::from_obj(pool));
    }
    wake_cluster(context, pool.namespace(), &pool.spec.cluster_name);
}

/// A Machine changed, or went.
fn note_machine(context: &Context, machine: &Machine, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    let namespace = machine.namespace().unwrap_or_default();
    if there {
        let _ = context.wakers.machines.send(ObjectRef::from_obj(machine));
    } else {
        let uid = machine.uid().unwrap_or_default();
        context
            .machine_desk
            .forget(&crate::desk::key_of(machine), &uid);
    }
    let pool = ObjectRef::new(&machine.spec.pool_name).within(&namespace);
    let _ = context.wakers.of_machines.send(pool);
    if !there {
        wake_cluster(context, machine.namespace(), &machine.spec.cluster_name);
    }
}

/// Whether a tenant cluster has workers decides what is watched inside it.
fn wake_cluster(context: &Context, namespace: Option<String>, name: &str) {
    let key = ObjectRef::new(name).within(namespace.as_deref().unwrap_or_default());
    let Some(cluster) = context.clusters.get(&key) else {
        return;
    };
    let has = has_workers(context, &cluster);
    let known = &context.wakers.with_workers;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.insert(cluster.uid().unwrap_or_default(), has) != Some(has) {
        let _ = context.wake.send(key);
    }
}

/// Whether a TenantCluster has node pools, or Machines that outlive them.
#[must_use]
pub fn has_workers(context: &Context, cluster: &TenantCluster) -> bool {
    let (namespace, name, uid) = (
        cluster.namespace(),
        cluster.name_any(),
        cluster.uid().unwrap_or_default(),
    );
    let pools = context.pools.state();
    let of = |pool: &Arc<NodePool>| pool.namespace() == namespace && pool.spec.cluster_name == name;
    let machines = || context.machines.state();
    pools.iter().any(of) || machines().iter().any(|m| m.spec.cluster_uid == uid)
}

/// A TenantCluster changed, or went: wakes its pools and Machines if it is of interest to them.
pub fn note_cluster(context: &Context, cluster: &TenantCluster, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    let key = ObjectRef::from_obj(cluster);
    let now = match there {
        true => Facts::of(cluster),
        false => Facts::default(),
    };
    if !there {
        let known = &context.wakers.with_workers;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&cluster.uid().unwrap_or_default());
    }
    let before = {
        let clusters = &context.wakers.clusters;
        let mut clusters = clusters.lock().unwrap_or_else(PoisonError::into_inner);
        match there {
            true => clusters.insert(key, now.clone()),
            false => clusters.remove(&key),
        }
        .unwrap_or_default()
    };
    if now == before && there {
        return;
    }
    let (namespace, name) = (cluster.namespace(), cluster.name_any());
    for pool in context.pools.state() {
        if pool.namespace() == namespace && pool.spec.cluster_name == name {
            let _ = context.wakers.pools.send(ObjectRef::from_obj(&*pool));
        }
    }
    if there && !now.matter_to_machines(&before) {
        return;
    }
    for machine in context.machines.state() {
        if machine.namespace() == namespace && machine.spec.cluster_name == name {
            let _ = context.wakers.machines.send(ObjectRef::from_obj(&*machine));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_that_begins_costs_no_machine_a_look_and_its_end_does() {
        let up = Facts {
            uid: Some("a".into()),
            answers: true,
            ..Facts::default()
        };
        let down = Facts {
            answers: false,
            ..up.clone()
        };
        let newer = Facts {
            version: Some("1.36.3".into()),
            ..up.clone()
        };
        let another = Facts {
            uid: Some("b".into()),
            ..up.clone()
        };
        assert!(!down.matter_to_machines(&up) && up.matter_to_machines(&down));
        assert!(!newer.matter_to_machines(&up) && another.matter_to_machines(&up));
    }
}
