//! How far a backup is, whoever can say it.
//!
//! Invariant: a process that never asked etcd is not taken for one whose target has nothing.

use super::*;
use crate::controllers::restore::plan::{Reached, newest, reached};
use crate::controllers::tenant_backup::report::Report;

#[test]
fn process_that_came_up_after_etcd_was_lost_knows_how_far_it_is_by_its_target_alone() {
    let never_asked = Report::default();
    assert_eq!(reached(&never_asked, "cdf8"), Reached::Unasked);
    let asked = Report {
        cluster: Some("000000000000cdf8".to_owned()),
        ..Report::default()
    };
    assert_eq!(reached(&asked, "cdf8"), Reached::Unknown);
    let looked = Report {
        looked: true,
        durable: 7,
        ..asked
    };
    assert_eq!(reached(&looked, "cdf8"), Reached::At(7));
    // Of another one it says nothing about this one.
    assert_eq!(reached(&looked, "abcd"), Reached::Unknown);
    assert_eq!(newest(&found().unwrap()), Some(40));
    assert_eq!(newest(&Choice::Reads), None);
}
