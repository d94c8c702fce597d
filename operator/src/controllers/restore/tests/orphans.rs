//! What is said of load balancers that the tenant cluster of then may not know.
//!
//! Invariant: every decision, with whoever could say it and without.

use api::restore::{Orphan, Orphans};

use super::*;
use crate::controllers::restore::plan::looks_for_orphans;
use crate::restoring::Mark;

#[test]
fn load_balancers_are_told_as_they_are_known_and_decided() {
    let one = |mark, name: &str| {
        let told = Orphan {
            kind: "Service".to_owned(),
            name: name.to_owned(),
            made_for: Some("default/web".to_owned()),
            addresses: vec!["192.0.2.7".to_owned()],
        };
        (mark, told)
    };
    let look = |orphans: Orphans, enabled: bool, balancers: Vec<(Mark, Orphan)>| {
        let mut real = real();
        real.spec.orphans = orphans;
        real.spec.confirmed = true;
        let prepared = json!({ "quiet": true, "switched": true, "prepared": true });
        let mut cluster = Arc::unwrap_or_clone(holding(&prepared, ("True", "Answering")));
        cluster.spec.addons.cloud_controller.enabled = enabled;
        assert!(looks_for_orphans(&real, &cluster));
        let observed = Observed {
            cluster: Some(Arc::new(cluster)),
            balancers: Some(balancers),
            ..Observed::default()
        };
        let plan = plan(&real, &observed, Timestamp::UNIX_EPOCH);
        let conditions = &plan.status.conditions;
        let said = |type_: &str| conditions.iter().find(|c| c.type_ == type_).unwrap();
        let orphans = said("Orphans");
        let waits = said("Restored").message.contains("spec.orphans");
        let names: Vec<_> = plan.status.orphans.iter().map(|o| o.name.clone()).collect();
        let told = (orphans.status.clone(), orphans.reason.clone());
        (told, names, waits, orphans.message.clone())
    };
    let told = |status: &str, reason: Reason| (status.to_owned(), reason.as_str().to_owned());
    let mixed = || {
        vec![
            one(Mark::None, "lb-0"),
            one(Mark::Known, "lb-1"),
            one(Mark::Orphan, "lb-2"),
        ]
    };
    let unknown = || [mixed(), vec![one(Mark::Unknown, "lb-3")]].concat();
    let is = |orphans, enabled, balancers, wanted: (String, String), waits: bool| {
        let found = look(orphans, enabled, balancers);
        assert_eq!((&found.0, found.2), (&wanted, waits), "{found:?}");
        (found.1, found.3)
    };
    for orphans in [Orphans::Keep, Orphans::Report] {
        let found = told("Unknown", Reason::LookingForOrphans);
        is(orphans, true, unknown(), found, false);
        // Nobody can answer, and nobody is waited for.
        let found = told("Unknown", Reason::OrphansUnknown);
        let (_, message) = is(orphans, false, unknown(), found, false);
        assert!(message.contains("cloudController"), "{message}");
        let none = vec![one(Mark::Known, "lb-1"), one(Mark::None, "lb-0")];
        is(orphans, true, none, told("False", Reason::NoOrphans), false);
        is(
            orphans,
            false,
            Vec::new(),
            told("False", Reason::NoOrphans),
            false,
        );
    }
    let found = told("True", Reason::OrphansFound);
    let (names, _) = is(Orphans::Report, true, mixed(), found, true);
    assert_eq!(names, ["lb-2"]);
    is(
        Orphans::Keep,
        true,
        mixed(),
        told("True", Reason::OrphansKept),
        false,
    );
    is(
        Orphans::Delete,
        true,
        mixed(),
        told("True", Reason::OrphansDeleted),
        false,
    );
    is(
        Orphans::Delete,
        true,
        Vec::new(),
        told("False", Reason::OrphansDeleted),
        false,
    );
    let many = (0..300)
        .map(|n| one(Mark::Orphan, &format!("lb-{n}")))
        .collect();
    let (names, _) = is(
        Orphans::Keep,
        true,
        many,
        told("True", Reason::OrphansKept),
        false,
    );
    assert_eq!(names.len(), 100);
}
