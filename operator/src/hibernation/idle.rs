//! Whether a tenant cluster is used, by what its kube-apiservers count, and since when it is not. No I/O, no clock.
//!
//! They count requests by the FlowSchema that a request falls under. What people and workloads ask for is use; what
//! Kubernetes' own parts and Covey's ask for is none ([`is_use`]). A look is compared with the one before, which is kept in
//! memory alone; that nobody uses it is written down once, with what was counted, so that it outlives the operator, and
//! nothing is written while it stays so.
//! Invariant: what is not known is not idle: it is put to sleep only by a look that has just found what was counted when it
//! began. Whoever in the tenant cluster changes its FlowSchemas has nothing of it but sleep, or none.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::TenantCluster;
use api::tenant_cluster::IdleStatus;
use jiff::{SignedDuration, Timestamp};
use tenant_cp::desired::bootstrap::flow_schema;

use super::seen::Blocking;

/// Pauses between two looks: a quarter of the time after which it sleeps, within these bounds.
const SHORTEST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// One look.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Look {
    /// When.
    pub at: Timestamp,
    /// What its kube-apiservers had counted of use; none while somebody uses it for certain. Or why it is not known.
    pub counted: Result<Option<String>, String>,
    /// Whether an activator runs: without one no request would wake it.
    pub wakes: bool,
    /// Webhooks that would keep it from waking; none where they were not asked about then. What was found stays known until
    /// the next look, so that what is said of it is steady.
    pub blocking: Option<Blocking>,
}

/// What is known of use in one reconcile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The look before it.
    pub last: Option<Look>,
    /// That of it.
    pub now: Option<Look>,
}

impl Usage {
    /// The newest look.
    #[must_use]
    pub fn newest(&self) -> Option<&Look> {
        self.now.as_ref().or(self.last.as_ref())
    }
}

/// The last look at each tenant cluster, by UID.
#[derive(Default)]
pub struct Looks(Mutex<BTreeMap<String, Look>>);

impl Looks {
    /// That of one.
    #[must_use]
    pub fn last(&self, uid: &str) -> Option<Look> {
        self.all().get(uid).cloned()
    }

    /// Keeps it.
    pub fn record(&self, uid: &str, look: Look) {
        self.all().insert(uid.to_owned(), look);
    }

    /// Forgets one.
    pub fn forget(&self, uid: &str) {
        self.all().remove(uid);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Look>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether requests under a FlowSchema are use.
#[must_use]
pub fn is_use(schema: &str) -> bool {
    let is_own = ["system-", "kube-"]
        .iter()
        .any(|own| schema.starts_with(own))
        || schema.ends_with("-leader-election")
        || ["endpoint-controller", "probes", "exempt", flow_schema::NAME].contains(&schema);
    !is_own
}

/// After which time without use it is put to sleep; none where it never is.
#[must_use]
pub fn after(cluster: &TenantCluster) -> Option<Duration> {
    cluster.spec.hibernation.idle_after.as_ref()?.get()
}

/// Since when nobody uses it, as the status says, where that is long enough ago by now.
#[must_use]
pub fn is_over(cluster: &TenantCluster, now: Timestamp) -> Option<Timestamp> {
    let (since, due) = due(cluster)?;
    (due <= now).then_some(since)
}

/// Since when nobody uses it, where a look has just found it so and a request will wake it: it may be put to sleep.
#[must_use]
pub fn is_confirmed(cluster: &TenantCluster, usage: &Usage, now: Timestamp) -> Option<Timestamp> {
    let since = is_over(cluster, now)?;
    let look = usage.now.as_ref()?;
    let told = cluster.status.as_ref()?.idle.as_ref()?;
    let is_same = look.counted.as_ref().ok()?.as_ref() == Some(&told.counted);
    (is_same && look.wakes).then_some(since)
}

/// What the status says after a look.
#[must_use]
pub fn next(told: Option<&IdleStatus>, usage: &Usage) -> Option<IdleStatus> {
    let Some(now) = &usage.now else {
        return told.cloned();
    };
    match &now.counted {
        // That of before may be found again.
        Err(_) => told.cloned(),
        Ok(None) => None,
        Ok(Some(counted)) => match told.filter(|told| told.counted == *counted) {
            Some(told) => Some(told.clone()),
            None => {
                let last = usage.last.as_ref()?;
                let is_same = last.counted.as_ref().ok()?.as_ref() == Some(counted);
                is_same.then(|| IdleStatus {
                    since: last.at.to_string(),
                    counted: counted.clone(),
                })
            }
        },
    }
}

/// When it is to be looked at next.
#[must_use]
pub fn next_look(
    cluster: &TenantCluster,
    last: Option<&Look>,
    now: Timestamp,
) -> Option<Timestamp> {
    let after = after(cluster)?;
    // Also where the clock was put back.
    let Some(last) = last.filter(|last| last.at <= now) else {
        return Some(now);
    };
    let pause = (after / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    let next = later(last.at, pause)?;
    let due = due(cluster).map(|(_, due)| due);
    Some(match due.filter(|due| last.at < *due) {
        Some(due) => next.min(due),
        None => next,
    })
}

/// Since when nobody uses it, and when it is put to sleep for that.
fn due(cluster: &TenantCluster) -> Option<(Timestamp, Timestamp)> {
    let told = cluster.status.as_ref()?.idle.as_ref()?;
    let since: Timestamp = told.since.parse().ok()?;
    Some((since, later(since, after(cluster)?)?))
}

fn later(moment: Timestamp, by: Duration) -> Option<Timestamp> {
    let by = SignedDuration::try_from(by).ok()?;
    moment.checked_add(by).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(60 * minute).unwrap()
    }

    fn look(minute: i64, counted: &str) -> Look {
        Look {
            at: at(minute),
            counted: match counted {
                "unknown" => Err("timed out".to_owned()),
                "held" => Ok(None),
                counted => Ok(Some(counted.to_owned())),
            },
            wakes: true,
            blocking: None,
        }
    }

    fn cluster(told: Option<&IdleStatus>) -> TenantCluster {
        let cluster = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "metadata": { "name": "demo" },
            "spec": { "version": "1.35.4", "hibernation": { "idleAfter": "1h" } },
            "status": { "idle": told },
        });
        serde_json::from_value(cluster).unwrap()
    }

    fn told(minute: i64, counted: &str) -> IdleStatus {
        IdleStatus {
            since: at(minute).to_string(),
            counted: counted.to_owned(),
        }
    }

    fn usage(last: &Look, now: &Look) -> Usage {
        Usage {
            last: Some(last.clone()),
            now: Some(now.clone()),
        }
    }

    #[test]
    fn people_and_workloads_use_it_and_nobody_else_does() {
        for own in [
            "system-nodes",
            "system-node-high",
            "kube-scheduler",
            "kube-system-service-accounts",
            "workload-leader-election",
            "endpoint-controller",
            "probes",
            "exempt",
            "covey",
        ] {
            assert!(!is_use(own), "{own}");
        }
        for used in ["service-accounts", "global-default", "catch-all", "mine"] {
            assert!(is_use(used), "{used}");
        }
    }

    #[test]
    fn it_is_idle_since_the_first_of_two_looks_that_found_the_same_and_stays_so() {
        let found = next(None, &usage(&look(0, "a:1"), &look(15, "a:1")));
        assert_eq!(found, Some(told(0, "a:1")));
        let found = next(found.as_ref(), &usage(&look(15, "a:1"), &look(30, "a:1")));
        assert_eq!(found, Some(told(0, "a:1")));
        // Another operator knows no look.
        let first = Usage {
            last: None,
            now: Some(look(31, "a:1")),
        };
        assert_eq!(next(found.as_ref(), &first), found);
        assert_eq!(next(None, &first), None);
        // A kube-apiserver that begins anew has forgotten what it counted.
        for used in ["a:2", "b:1", "held"] {
            let now = usage(&look(30, "a:1"), &look(45, used));
            assert_eq!(next(found.as_ref(), &now), None, "{used}");
        }
    }

    #[test]
    fn what_is_not_known_puts_nobody_to_sleep() {
        let idle = told(0, "a:1");
        let unknown = usage(&look(45, "a:1"), &look(61, "unknown"));
        assert_eq!(next(Some(&idle), &unknown), Some(idle.clone()));
        let cluster = cluster(Some(&idle));
        assert_eq!(is_over(&cluster, at(61)), Some(at(0)));
        let confirmed = |usage: &Usage| is_confirmed(&cluster, usage, at(61));
        assert_eq!(confirmed(&unknown), None);
        assert_eq!(confirmed(&Usage::default()), None);
        assert_eq!(confirmed(&usage(&look(45, "a:1"), &look(61, "a:2"))), None);
        let mut found = usage(&look(45, "a:1"), &look(61, "a:1"));
        assert_eq!(confirmed(&found), Some(at(0)));
        assert_eq!(is_confirmed(&cluster, &found, at(59)), None, "too early");
        found.now = found.now.map(|look| Look {
            wakes: false,
            ..look
        });
        assert_eq!(confirmed(&found), None, "nobody would wake it");
    }

    #[test]
    fn it_is_looked_at_now_and_then_and_when_it_is_due() {
        let awake = cluster(None);
        assert_eq!(next_look(&awake, None, at(3)), Some(at(3)));
        let last = look(3, "a:1");
        assert_eq!(next_look(&awake, Some(&last), at(4)), Some(at(13)));
        assert_eq!(
            next_look(&awake, Some(&last), at(2)),
            Some(at(2)),
            "put back"
        );
        let idle = cluster(Some(&told(0, "a:1")));
        assert_eq!(
            next_look(&idle, Some(&look(55, "a:1")), at(56)),
            Some(at(60))
        );
        assert_eq!(
            next_look(&idle, Some(&look(60, "unknown")), at(60)),
            Some(at(70))
        );
    }

    proptest! {
        /// Whatever happens between looks and whichever of them fail, and wherever the operator is another one: since it is
        /// called idle nothing was used.
        #[test]
        fn whoever_is_called_idle_was_not_used_since(steps in prop::collection::vec((0..6_u8, 1..30_i64), 1..60)) {
            let (mut minute, mut count, mut used) = (0, 0_u32, -1);
            let (mut told, mut last): (Option<IdleStatus>, Option<Look>) = (None, None);
            for (event, pause) in steps {
                minute += pause;
                match event {
                    0 => { count += 1; used = minute; }
                    1 => last = None,
                    2 => {
                        let now = Usage { last: last.take(), now: Some(look(minute, "unknown")) };
                        told = next(told.as_ref(), &now);
                        last = now.now;
                    }
                    _ => {
                        let now = Usage { last: last.take(), now: Some(look(minute, &format!("a:{count}"))) };
                        told = next(told.as_ref(), &now);
                        last = now.now;
                        if let Some(told) = &told {
                            let since: Timestamp = told.since.parse().unwrap();
                            prop_assert!(since >= at(used), "{since} {used}");
                        }
                    }
                }
            }
        }
    }
}
