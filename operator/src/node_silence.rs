//! When each node was heard last: changes of its Lease, as somebody saw them who listened.
//!
//! Invariant: times are of one monotonic clock, that of this process; who is not listened to has said nothing, which is no
//! silence; nothing of a Lease is kept but its name and its version.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::runtime::watcher::Event;
use placement::window::{SECOND_LOOK, Window};

/// Who was not heard for so long was away, and begins to be there anew. A kubelet speaks every ten seconds.
const GAP: Duration = Duration::from_secs(25);

/// Most nodes of a tenant cluster that are kept: whoever administers one may write any number of Leases.
const MOST: usize = 5000;

/// What is known of the nodes of all tenant clusters that are listened to.
#[derive(Debug)]
pub struct NodeSilence {
    began: Instant,
    tenants: Mutex<HashMap<String, Tenant>>,
}

/// Those of one tenant cluster, as a plan may know them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Heard {
    /// Whether silence can be believed now.
    pub is_trusted: bool,
    /// By name; who is missing was never heard of.
    pub nodes: BTreeMap<String, Node>,
}

/// One node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Node {
    /// How long ago it was heard last, or listening to it began.
    pub unchanged_for: Duration,
    /// For how long it is heard without a break; none while it is not.
    pub fresh_for: Option<Duration>,
}

#[derive(Debug, Default)]
struct Tenant {
    window: Window,
    nodes: BTreeMap<String, Lease>,
    /// What a list has told so far; none while none is on its way.
    listed: Option<BTreeMap<String, String>>,
}

#[derive(Debug)]
struct Lease {
    version: String,
    changed: Duration,
    fresh_since: Option<Duration>,
}

impl Default for NodeSilence {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            tenants: Mutex::default(),
        }
    }
}

impl NodeSilence {
    /// Takes in an event of the watch of a tenant cluster's Leases, each by its name and version.
    pub fn take(&self, uid: &str, event: Event<(String, String)>) {
        let now = self.began.elapsed();
        let mut tenants = self.lock();
        tenants.entry(uid.to_owned()).or_default().take(event, now);
    }

    /// What is known of a tenant cluster's nodes, where silent is who says nothing for `after`.
    #[must_use]
    pub fn heard(&self, uid: &str, after: Duration) -> Heard {
        let now = self.began.elapsed();
        let tenants = self.lock();
        let tenant = tenants.get(uid);
        tenant.map(|t| t.heard(after, now)).unwrap_or_default()
    }

    /// Nobody listens to it any more.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    /// What of it can change a verdict: who is silent, at the first and at the second look, and whether that is believed.
    #[must_use]
    pub fn outline(&self, after: Duration) -> (bool, Vec<(String, bool)>) {
        let silent = self.nodes.iter();
        let silent = silent.filter(|(_, node)| node.unchanged_for >= after);
        let silent = silent.map(|(name, node)| (name.clone(), node.is_silent(after)));
        (self.is_trusted, silent.collect())
    }
}

impl Node {
    /// Whether it is silent at the second look, too.
    #[must_use]
    pub fn is_silent(&self, after: Duration) -> bool {
        self.unchanged_for >= after + SECOND_LOOK
    }
}

impl Tenant {
    fn take(&mut self, event: Event<(String, String)>, now: Duration) {
        match event {
            Event::Init => {
                self.window.on_broken();
                self.listed = Some(BTreeMap::new());
            }
            Event::InitApply((name, version)) => {
                let listed = self.listed.get_or_insert_default();
                if listed.len() < MOST {
                    listed.insert(name, version);
                }
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                self.nodes.retain(|name, _| listed.contains_key(name));
                for (name, version) in listed {
                    self.apply(name, version, now);
                }
                self.window.on_listening(now);
            }
            Event::Apply((name, version)) => {
                if self.apply(name, version, now) {
                    self.window.on_event(now);
                }
            }
            Event::Delete((name, _)) => {
                self.nodes.remove(&name);
            }
        }
    }

    /// Whether it was heard just now: of one that nobody knew it is not known when it spoke.
    fn apply(&mut self, name: String, version: String, now: Duration) -> bool {
        let is_full = self.nodes.len() >= MOST;
        let Some(lease) = self.nodes.get_mut(&name) else {
            if is_full {
                return false;
            }
            let lease = Lease {
                version,
                changed: now,
                fresh_since: None,
            };
            self.nodes.insert(name, lease);
            return false;
        };
        if lease.version == version {
            return false;
        }
        let is_back = now.saturating_sub(lease.changed) >= GAP;
        lease.fresh_since = lease.fresh_since.filter(|_| !is_back).or(Some(now));
        (lease.version, lease.changed) = (version, now);
        true
    }

    fn heard(&self, after: Duration, now: Duration) -> Heard {
        let node = |lease: &Lease| {
            let unchanged_for = now.saturating_sub(lease.changed);
            let fresh_since = lease.fresh_since.filter(|_| unchanged_for < GAP.min(after));
            Node {
                unchanged_for,
                fresh_for: fresh_since.map(|since| now.saturating_sub(since)),
            }
        };
        let nodes = self.nodes.iter();
        Heard {
            is_trusted: self.window.is_trusted(after, now),
            nodes: nodes.map(|(name, l)| (name.clone(), node(l))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(25);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(name: &str, version: u64) -> (String, String) {
        (name.to_owned(), version.to_string())
    }

    /// Two nodes, listened to since second 0; each speaks every ten seconds until its end.
    fn tenant(a_until: u64, b_until: u64, now: u64) -> Tenant {
        let mut tenant = Tenant::default();
        tenant.take(Event::Init, s(0));
        for name in ["a", "b"] {
            tenant.take(Event::InitApply(lease(name, 0)), s(0));
        }
        tenant.take(Event::InitDone, s(0));
        for second in (1..=now).filter(|n| n % 10 == 0) {
            for (name, until) in [("a", a_until), ("b", b_until)] {
                if second <= until {
                    tenant.take(Event::Apply(lease(name, second)), s(second));
                }
            }
        }
        tenant
    }

    #[test]
    fn who_stops_to_speak_is_silent_and_who_speaks_is_not() {
        let heard = tenant(100, 300, 140).heard(AFTER, s(140));
        assert!(heard.is_trusted);
        assert!(heard.nodes["a"].is_silent(AFTER) && heard.nodes["a"].fresh_for.is_none());
        assert_eq!(heard.nodes["b"].fresh_for, Some(s(130)));
        assert_eq!(heard.outline(AFTER), (true, vec![("a".to_owned(), true)]));
    }

    #[test]
    fn no_more_are_kept_than_a_tenant_cluster_may_have() {
        let mut tenant = tenant(100, 100, 100);
        for n in 0..5000 {
            tenant.take(Event::Apply(lease(&format!("n{n}"), n)), s(101));
        }
        assert_eq!(tenant.heard(AFTER, s(101)).nodes.len(), MOST);
    }

    #[test]
    fn silence_of_all_is_not_believed() {
        assert!(!tenant(100, 100, 140).heard(AFTER, s(140)).is_trusted);
    }

    #[test]
    fn who_comes_back_begins_anew() {
        let mut tenant = tenant(100, 300, 200);
        tenant.take(Event::Apply(lease("a", 201)), s(201));
        let heard = tenant.heard(AFTER, s(205));
        assert_eq!(heard.nodes["a"].fresh_for, Some(s(4)));
        assert_eq!(heard.nodes["b"].fresh_for, Some(s(195)));
    }

    #[test]
    fn another_list_brings_no_word_of_who_is_silent_and_nobody_is_judged_for_a_window() {
        let mut tenant = tenant(100, 300, 140);
        tenant.take(Event::Init, s(141));
        assert!(!tenant.heard(AFTER, s(141)).is_trusted);
        tenant.take(Event::InitApply(lease("a", 100)), s(141));
        tenant.take(Event::InitApply(lease("c", 7)), s(141));
        tenant.take(Event::InitDone, s(141));
        let heard = tenant.heard(AFTER, s(142));
        assert!(!heard.is_trusted);
        let known: Vec<_> = heard.nodes.keys().collect();
        assert_eq!(known, ["a", "c"]);
        assert_eq!(heard.nodes["a"].unchanged_for, s(42));
        assert_eq!(heard.nodes["c"].unchanged_for, s(1));
    }
}
