//! Waiting for an object, with progress: a watch, and a verdict for everything it shows.
//!
//! Invariant: nothing is asked again and again; what only a person can mend ends it once it has lasted for
//! [`STUCK`], because it may pass; at the end of the time it is said what was still waited for.

use std::fmt::Debug;
use std::time::Duration;

use api::{NodePool, Restore, Snapshot, TenantCluster};
use futures::{StreamExt as _, pin_mut};
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
use crate::judge::{Begun, Goal, Seen, Verdict, changes, judge};
use crate::output::say;

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
        let ended = until(&clusters, &cluster, &args.goal, left, global.quiet).await?;
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
    is_quiet: bool,
) -> Result<Exit, Failure>
where
    K: Watched + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (kind, name, begun) = (K::kind(&()), object.name_any(), begun(object));
    let start = Instant::now();
    let end = start + timeout;
    let watch = watcher::watch_object(api.clone(), &name).default_backoff();
    pin_mut!(watch);
    let mut last = Seen::default();
    let mut waits = "it was not seen yet".to_owned();
    let mut stuck_since: Option<Instant> = None;
    let tell = |line: &str| {
        if !is_quiet {
            say(&format!("[{:5.1}s] {line}", start.elapsed().as_secs_f64()));
        }
    };
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
            tell(&format!("waiting: {waits}"));
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
            let told = changes(&last.conditions, &seen.conditions);
            told.iter().for_each(|line| tell(line));
            last = seen.clone();
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
    }
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
