//! Laws of a Snapshot's plan, over a process that also dies, and an operator that also forgets.
//!
//! Invariant: the process here takes a snapshot as the real one does: only where the newest is the one that was named.

use std::sync::Arc;

use api::{Reason, Snapshot, TenantCluster};
use backup_format::FullName;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan::{Ask, Observed, Plan, plan};
use crate::controllers::tenant_backup::report::{Answer, Description, Full, Report};

const UID: &str = "0a1b2c3d-0011-4000-8000-000000000001";

fn cluster(backup: &Value) -> Arc<TenantCluster> {
    let mut cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": UID },
        "spec": { "version": "1.35.4" },
    });
    if !backup.is_null() {
        cluster["spec"]["backup"] = backup.clone();
    }
    Arc::new(serde_json::from_value(cluster).unwrap())
}

fn snapshot(keep_until: Option<&str>) -> Snapshot {
    let mut snapshot = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot",
        "metadata": { "name": "before", "namespace": "team-a", "generation": 1 },
        "spec": { "clusterName": "demo" },
    });
    if let Some(until) = keep_until {
        snapshot["spec"]["keepUntil"] = until.into();
    }
    serde_json::from_value(snapshot).unwrap()
}

/// A process, its target, and the Snapshot.
struct World {
    snapshot: Snapshot,
    cluster: Option<Arc<TenantCluster>>,
    id: String,
    revision: u64,
    now_ms: u64,
    fulls: Vec<(FullName, bool, Option<u64>)>,
    taking: Option<FullName>,
    /// Asked for; a crash of the process takes it.
    wanted: Option<Option<FullName>>,
    is_up: bool,
    /// The revision when the Snapshot was made.
    made_at: u64,
}

impl World {
    fn new(snapshot: Snapshot) -> Self {
        let mut world = Self {
            snapshot,
            cluster: Some(cluster(&json!({ "target": "main" }))),
            id: "cdf818194e3a8c32".to_owned(),
            revision: 100,
            now_ms: 1_795_723_200_000,
            fulls: Vec::new(),
            taking: None,
            wanted: None,
            is_up: true,
            made_at: 100,
        };
        world.begin();
        world.finish();
        world
    }

    fn newest(&self) -> Option<FullName> {
        self.fulls.last().map(|(full, ..)| *full)
    }

    fn begin(&mut self) {
        self.now_ms += 1000;
        if self.is_up && self.taking.is_none() {
            self.taking = Some(FullName {
                revision: self.revision,
                next: 0,
                taken_ms: self.now_ms,
            });
        }
    }

    fn finish(&mut self) {
        if let Some(full) = self.taking.take() {
            self.fulls.push((full, false, None));
        }
    }

    /// What the process does by itself.
    fn goes_on(&mut self) {
        let is_wanted = self.wanted.is_some_and(|after| self.newest() <= after);
        match (self.taking, is_wanted) {
            (Some(_), _) => self.finish(),
            (None, true) => self.begin(),
            (None, false) => {
                if let (true, Some((_, verified, _))) = (self.is_up, self.fulls.last_mut()) {
                    *verified = true;
                }
            }
        }
    }

    fn observed(&self) -> Observed {
        let full = |full: FullName| Full {
            name: full.to_string(),
            revision: full.revision,
            taken_ms: full.taken_ms,
        };
        let name = self.snapshot.status.as_ref().and_then(|s| s.name.clone());
        let answer = name.map(|name| {
            let mut all = self.fulls.iter();
            match all.find(|(full, ..)| full.to_string() == name) {
                None => Answer::Gone,
                Some((full, verified, kept)) => Answer::Is(Box::new(Description {
                    key: format!("covey/{UID}/{}/full/{full}/head", self.id),
                    bytes: 7,
                    verified: *verified,
                    kept_until_ms: *kept,
                    ..Description::default()
                })),
            }
        });
        Observed {
            cluster: self.cluster.clone(),
            report: self.is_up.then(|| Report {
                cluster: Some(self.id.clone()),
                looked: true,
                taking: self.taking.is_some(),
                full: self.newest().map(full),
                ..Report::default()
            }),
            answer: answer.filter(|_| self.is_up),
        }
    }

    fn plan(&self) -> Plan {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        plan(&self.snapshot, &self.observed(), now)
    }

    /// One reconcile, of which the answer to what is asked may be lost. Whether something was written.
    fn reconcile(&mut self) -> bool {
        let plan = self.plan();
        if self.snapshot.status.as_ref() != Some(&plan.status) {
            self.snapshot.status = Some(plan.status);
            return true;
        }
        match plan.ask.filter(|_| self.is_up) {
            Some(Ask::Full { after }) => {
                let after = after.map(|after| after.parse().unwrap());
                if after <= self.newest() {
                    self.wanted = self.wanted.max(Some(after));
                }
            }
            Some(Ask::Keep { full, until_ms }) => {
                for (name, _, kept) in &mut self.fulls {
                    if name.to_string() == full {
                        *kept = (*kept).max(Some(until_ms));
                    }
                }
            }
            None => {}
        }
        false
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.reconcile();
            self.goes_on();
        }
    }

    fn said(&self, type_: &str) -> (String, String) {
        let status = self.snapshot.status.clone().unwrap_or_default();
        let mut all = status.conditions.into_iter();
        let found = all.find(|c| c.type_ == type_);
        found.map_or_else(Default::default, |c| (c.status, c.reason))
    }
}

fn is(status: &str, reason: Reason) -> (String, String) {
    (status.to_owned(), reason.as_str().to_owned())
}

#[test]
fn snapshot_is_taken_described_and_kept_and_then_at_rest() {
    let mut world = World::new(snapshot(Some("2027-06-30T00:00:00Z")));
    world.settle();
    assert_eq!(world.said("Ready"), is("True", Reason::SnapshotTaken));
    assert_eq!(world.said("Verified"), is("True", Reason::SnapshotWhole));
    let status = world.snapshot.status.clone().unwrap();
    assert_eq!(status.kept_until.as_deref(), Some("2027-06-30T00:00:00Z"));
    assert!(status.key.unwrap().ends_with("/head"));
    assert_eq!(world.fulls.len(), 2);
    let plan = world.plan();
    assert_eq!(Some(&plan.status), world.snapshot.status.as_ref());
    assert_eq!(plan.ask, None);

    // Retention, or somebody, lets it go.
    world.fulls.clear();
    world.settle();
    assert_eq!(world.said("Ready"), is("False", Reason::SnapshotGone));
}

#[test]
fn one_that_had_begun_before_is_not_taken_for_it() {
    let mut world = World::new(snapshot(None));
    world.begin();
    world.revision += 50;
    world.made_at = world.revision;
    world.settle();
    let revision = world.snapshot.status.clone().unwrap().revision;
    assert_eq!(revision, Some(150));
    assert_eq!(world.fulls.len(), 3);
}

#[test]
fn what_is_missing_is_said_with_a_sentence_and_nothing_is_asked() {
    let mut world = World::new(snapshot(None));
    world.cluster = None;
    world.settle();
    let missing = Reason::SnapshotWithoutCluster;
    assert_eq!(world.said("Ready"), is("False", missing));
    world.cluster = Some(cluster(&Value::Null));
    world.settle();
    let off = Reason::SnapshotWithoutBackup;
    assert_eq!(world.said("Ready"), is("False", off));
    world.cluster = Some(cluster(&json!({ "target": "main" })));
    world.is_up = false;
    world.settle();
    let silent = Reason::SnapshotUnanswered;
    assert_eq!(world.said("Ready"), is("Unknown", silent));
    assert_eq!(world.fulls.len(), 1);
    assert!(!world.reconcile(), "while it waits nothing is written");
    world.is_up = true;
    world.settle();
    assert_eq!(world.said("Ready"), is("True", Reason::SnapshotTaken));
}

#[test]
fn what_was_taken_stands_while_nothing_is_known_and_of_an_etcd_that_was_before() {
    let mut world = World::new(snapshot(None));
    world.settle();
    let before = world.snapshot.status.clone();
    world.is_up = false;
    world.settle();
    assert_eq!(world.snapshot.status, before);
    world.is_up = true;
    world.id = "00000000000000aa".to_owned();
    world.fulls.clear();
    world.settle();
    assert_eq!(world.snapshot.status, before);
    world.cluster = None;
    world.settle();
    assert_eq!(world.snapshot.status, before);
}

#[test]
fn day_that_is_none_is_said_and_keeps_nothing() {
    let mut world = World::new(snapshot(Some("2027-02-31T00:00:00Z")));
    world.settle();
    assert_eq!(world.said("Ready"), is("True", Reason::SnapshotTaken));
    let status = world.snapshot.status.unwrap();
    assert!(
        status.conditions[0].message.contains("no day"),
        "{status:?}"
    );
    assert_eq!(status.kept_until, None);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Reconcile,
    ProcessGoesOn,
    ProcessDies,
    ProcessComes,
    Scheduled,
    Writes(u64),
    ConditionsErased,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::Reconcile),
        3 => Just(Event::ProcessGoesOn),
        1 => Just(Event::ProcessDies),
        2 => Just(Event::ProcessComes),
        1 => Just(Event::Scheduled),
        2 => (1..9_u64).prop_map(Event::Writes),
        1 => Just(Event::ConditionsErased),
    ];
    proptest::collection::vec(event, 0..60)
}

proptest! {
    #[test]
    fn whatever_happens_it_has_all_that_was_written_before_it_was_made(
        before in events(), after in events()
    ) {
        let mut world = World::new(snapshot(None));
        let happen = |world: &mut World, event: Event, may_reconcile: bool| match event {
            Event::Reconcile => { if may_reconcile { world.reconcile(); } }
            Event::ProcessGoesOn => if world.is_up { world.goes_on() },
            Event::ProcessDies => {
                (world.is_up, world.taking, world.wanted) = (false, None, None);
            }
            Event::ProcessComes => world.is_up = true,
            Event::Scheduled => world.begin(),
            Event::Writes(many) => world.revision += many,
            Event::ConditionsErased => if let Some(status) = &mut world.snapshot.status {
                status.conditions.clear();
            },
        };
        before.into_iter().for_each(|event| happen(&mut world, event, false));
        world.made_at = world.revision;
        after.into_iter().for_each(|event| happen(&mut world, event, true));
        world.is_up = true;
        world.settle();
        let status = world.snapshot.status.clone().unwrap();
        prop_assert!(status.revision >= i64::try_from(world.made_at).ok(), "{:?}", status);
        prop_assert_eq!(world.said("Ready"), is("True", Reason::SnapshotTaken));
        prop_assert!(!world.reconcile());
        prop_assert_eq!(world.plan().ask, None);
    }

    #[test]
    fn erased_conditions_are_said_again(events in events()) {
        let mut world = World::new(snapshot(None));
        for event in events {
            match event {
                Event::Reconcile | Event::ConditionsErased => { world.reconcile(); }
                Event::ProcessGoesOn => world.goes_on(),
                Event::Writes(many) => world.revision += many,
                Event::Scheduled => world.begin(),
                Event::ProcessDies | Event::ProcessComes => {}
            }
            let planned = world.plan();
            let kept = world.snapshot.status.clone();
            if let Some(status) = &mut world.snapshot.status {
                status.conditions.clear();
            }
            let again = world.plan();
            let said = |plan: &Plan| {
                let all = plan.status.conditions.iter();
                all.map(|c| (c.type_.clone(), c.reason.clone())).collect::<std::collections::BTreeSet<_>>()
            };
            prop_assert_eq!(said(&planned), said(&again));
            prop_assert_eq!(planned.ask, again.ask);
            world.snapshot.status = kept;
        }
    }
}
