//! Waiting for an object, with progress: a watch, and a verdict for everything it shows.
//!
//! Invariant: nothing is asked again and again; what only a person can mend ends it once it has lasted for
//! [`STUCK`], because it may pass; at the end of the time it is said what was still waited for.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use api::{NodePool, Restore, Snapshot, TenantCluster};
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::describe::{find, readiness};
use crate::args::{Global, Wait};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::judge::{Begun, Goal, Seen, Verdict, judge, judge_nodes};
use crate::output::say;
use crate::progress::Progress;

/// How long something has to be wrong before it is no longer waited for.
const STUCK: Duration = Duration::from_secs(10);
/// Each of several has so long to be seen.
const AT_LEAST: Duration = Duration::from_secs(1);
/// How often it is said what is waited for, while nothing changes.
pub(super) const REMIND: Duration = Duration::from_secs(30);

/// What can be waited for.
pub(super) trait Watched: Resource<DynamicType = ()> {
    /// What is seen of it.
    fn seen(&self) -> Seen;
}

impl Watched for TenantCluster {
    fn seen(&self) -> Seen {
        let status = self.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        let conditions = status.map(|status| status.conditions.as_slice());
        let version = status.and_then(|status| status.version.as_deref());
        let conditions = conditions.unwrap_or_default();
        Seen::new(&self.metadata, observed, conditions, 0, version)
    }
}

impl Watched for NodePool {
    fn seen(&self) -> Seen {
        let status = self.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        let conditions = status.map(|status| status.conditions.as_slice());
        let ready = status.map(|status| status.ready_replicas);
        let version = status.and_then(|status| status.version.as_deref());
        let (conditions, ready) = (conditions.unwrap_or_default(), ready.unwrap_or_default());
        Seen::new(&self.metadata, observed, conditions, ready, version)
    }
}

impl Watched for Snapshot {
    fn seen(&self) -> Seen {
        let status = self.status.as_ref();
        let told = status.map(|status| (status.observed_generation, &*status.conditions));
        seen_by_conditions(&self.metadata, told)
    }
}

impl Watched for Restore {
    fn seen(&self) -> Seen {
        let status = self.status.as_ref();
        let told = status.map(|status| (status.observed_generation, &*status.conditions));
        seen_by_conditions(&self.metadata, told)
    }
}

/// What is seen of an object that has nothing to count, and no version.
fn seen_by_conditions(meta: &ObjectMeta, told: Option<(Option<i64>, &[Condition])>) -> Seen {
    let (observed, conditions) = told.unwrap_or_default();
    Seen::new(meta, observed, conditions, 0, None)
}

/// `covey wait`.
pub(super) async fn run(global: &Global, args: &Wait) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, namespace) = (connection.client, connection.namespace);
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let end = Instant::now() + args.timeout;
    for name in &args.names {
        let cluster = match find(&client, &namespace, name).await {
            Ok(cluster) => cluster,
            // What is gone is what was wanted.
            Err(failure) if args.goal == Goal::Deleted && failure.exit == Exit::NotFound => {
                continue;
            }
            Err(failure) => return Err(failure),
        };
        // Who is there already is seen at once, however little time is left.
        let left = end.saturating_duration_since(Instant::now()).max(AT_LEAST);
        let ended = match args.goal {
            Goal::Nodes(wanted) => {
                let pools = Api::namespaced(client.clone(), &namespace);
                Box::pin(nodes(&pools, name, wanted, left, global)).await?
            }
            _ => until(&clusters, &cluster, &args.goal, left, global).await?,
        };
        if ended != Exit::Done {
            return Ok(ended);
        }
    }
    Ok(Exit::Done)
}

/// What waiting begins with.
fn begun<K: Watched>(object: &K) -> Begun {
    let seen = object.seen();
    Begun {
        uid: seen.uid,
        resource_version: seen.resource_version,
        generation: seen.generation,
    }
}

/// Waits until the object is as wanted, from as it was when this was begun.
pub(super) async fn until<K>(
    api: &Api<K>,
    object: &K,
    goal: &Goal,
    timeout: Duration,
    global: &Global,
) -> Result<Exit, Failure>
where
    K: Watched + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (kind, name, begun) = (K::kind(&()), object.name_any(), begun(object));
    let end = Instant::now() + timeout;
    // Large, and every command that waits would be.
    let mut watch = Box::pin(watcher::watch_object(api.clone(), &name).default_backoff());
    let mut waits = "it was not seen yet".to_owned();
    let mut stuck_since: Option<Instant> = None;
    let mut progress = Progress::new(global);
    loop {
        let stuck_at = stuck_since.map(|since| since + STUCK);
        if stuck_at.is_some_and(|at| Instant::now() >= at) {
            let mend = format!("`covey doctor` says what mends it; `covey describe {name}`");
            let what = format!("{kind} {name} will not get there: {waits}");
            return Err(Failure::new(Exit::Answered, &what, &mend));
        }
        let look = (Instant::now() + REMIND).min(end);
        let look = stuck_at.map_or(look, |at| at.min(look));
        let Ok(shown) = timeout_at(look, watch.next()).await else {
            if Instant::now() >= end {
                return Err(late(&kind, &name, &waits, timeout));
            }
            progress.remind(&waits);
            continue;
        };
        let seen = match shown {
            Some(Ok(object)) => object.map(|object: K| object.seen()),
            Some(Err(error)) if is_refused(&error) => {
                let act = format!("watch the {kind} {name}");
                return Err(Failure::new(
                    Exit::NotAllowed,
                    &format!("cannot {act}: {}", kit_client::errors::chain(&error)),
                    "ask for the right to watch it: `kubectl auth can-i --list` says what you have",
                ));
            }
            // The watch comes back by itself.
            Some(Err(error)) => {
                waits = format!("the API: {}", kit_client::errors::chain(&error));
                continue;
            }
            None => {
                sleep_until(end).await;
                return Err(late(&kind, &name, &waits, timeout));
            }
        };
        if let Some(seen) = &seen {
            progress.conditions(&seen.conditions);
        }
        match judge(goal, &begun, seen.as_ref()) {
            Verdict::Done => return Ok(Exit::Done),
            Verdict::Gone => {
                let what = format!("{kind} {name} was deleted while it was waited for");
                return Err(Failure::new(
                    Exit::NotFound,
                    &what,
                    "`covey get` lists what is there",
                ));
            }
            Verdict::Wait(what) => {
                waits = what;
                stuck_since = None;
            }
            Verdict::Stuck(what) => {
                waits = what;
                stuck_since = stuck_since.or(Some(Instant::now()));
            }
        }
        progress.waits_for(&waits);
    }
}

/// Waits until so many nodes of a tenant cluster are ready, in all of its pools together.
async fn nodes(
    pools: &Api<NodePool>,
    cluster: &str,
    wanted: i32,
    timeout: Duration,
    global: &Global,
) -> Result<Exit, Failure> {
    let end = Instant::now() + timeout;
    let progress = Progress::new(global);
    let mut watch = Box::pin(watcher(pools.clone(), watcher::Config::default()).default_backoff());
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let mut waits = "its node pools were not seen yet".to_owned();
    let (mut is_whole, mut stuck_since) = (false, None::<Instant>);
    let (mut told, mut first) = (String::new(), None);
    loop {
        let stuck_at = stuck_since.map(|since| since + STUCK);
        if stuck_at.is_some_and(|at| Instant::now() >= at) {
            let what = format!("{cluster} will not get there: {waits}");
            let mend = format!("`covey doctor {cluster}` says what mends it");
            return Err(Failure::new(Exit::Answered, &what, &mend));
        }
        let look = (Instant::now() + REMIND).min(end);
        let look = stuck_at.map_or(look, |at| at.min(look));
        match timeout_at(look, watch.next()).await {
            Err(_) if Instant::now() >= end => {
                return Err(late("TenantCluster", cluster, &waits, timeout));
            }
            Err(_) => {
                progress.remind(&waits);
                continue;
            }
            Ok(None) => {
                sleep_until(end).await;
                return Err(late("TenantCluster", cluster, &waits, timeout));
            }
            Ok(Some(Err(error))) if is_refused(&error) => {
                let what = format!(
                    "cannot watch the NodePools of {cluster}: {}",
                    kit_client::errors::chain(&error)
                );
                let mend = "ask for the right to watch them: `kubectl auth can-i --list` says what you have";
                return Err(Failure::new(Exit::NotAllowed, &what, mend));
            }
            // The watch comes back by itself.
            Ok(Some(Err(error))) => {
                waits = format!("the API: {}", kit_client::errors::chain(&error));
                continue;
            }
            Ok(Some(Ok(watcher::Event::Init))) => {
                seen.clear();
                is_whole = false;
            }
            Ok(Some(Ok(watcher::Event::InitDone))) => is_whole = true,
            Ok(Some(Ok(watcher::Event::InitApply(pool) | watcher::Event::Apply(pool)))) => {
                if pool.spec.cluster_name == cluster {
                    seen.insert(pool.name_any(), pool.seen());
                }
            }
            Ok(Some(Ok(watcher::Event::Delete(pool)))) => {
                seen.remove(&pool.name_any());
            }
        }
        // Of a part of the pools nothing is said.
        if !is_whole {
            continue;
        }
        let first = first.get_or_insert_with(|| versions(&seen));
        let pools = seen.iter().map(|(name, seen)| {
            let is_new = first.get(name) != Some(&seen.resource_version);
            (name.as_str(), seen, is_new)
        });
        let pools: Vec<_> = pools.collect();
        match judge_nodes(wanted, &pools) {
            Verdict::Wait(what) => (waits, stuck_since) = (what, None),
            Verdict::Stuck(what) => {
                waits = what;
                stuck_since = stuck_since.or(Some(Instant::now()));
            }
            Verdict::Done | Verdict::Gone => return Ok(Exit::Done),
        }
        if waits != told {
            progress.note(&waits);
            told.clone_from(&waits);
        }
    }
}

/// The version of each, by its name.
fn versions(seen: &BTreeMap<String, Seen>) -> BTreeMap<String, Option<String>> {
    let all = seen.iter();
    all.map(|(name, seen)| (name.clone(), seen.resource_version.clone()))
        .collect()
}

fn late(kind: &str, name: &str, waits: &str, timeout: Duration) -> Failure {
    let what = format!(
        "{kind} {name} was not there within {} s: {waits}",
        timeout.as_secs()
    );
    let mend =
        "it goes on in the cluster; wait on with a longer `--timeout`, or ask `covey doctor`";
    Failure::new(Exit::TimedOut, &what, mend)
}

/// Whether the API does not let the user watch.
pub(super) fn is_refused(error: &watcher::Error) -> bool {
    let inner = match error {
        watcher::Error::InitialListFailed(inner)
        | watcher::Error::WatchStartFailed(inner)
        | watcher::Error::WatchFailed(inner) => inner,
        _ => return false,
    };
    matches!(inner, kube::Error::Api(status) if matches!(status.code, 401 | 403))
}

/// After a wait for a tenant cluster: what it says.
pub(super) async fn say_readiness(api: &Api<TenantCluster>, name: &str) {
    if let Ok(cluster) = api.get(name).await {
        say(&format!("{name}: {}", readiness(&cluster)));
    }
}
