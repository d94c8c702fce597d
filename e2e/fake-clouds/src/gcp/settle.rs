//! What the clock does: operations end.
//!
//! Invariant: each thing that comes or goes is in the journal, with the labels that it had.

use jiff::Timestamp;

use super::contents::Contents;
use super::project::{Operation, Project};
use crate::journal::{Journal, event};

impl Contents {
    /// Brings about what was to happen by now.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let Contents {
            projects, journal, ..
        } = self;
        for project in projects.values_mut() {
            loop {
                let due = project.operations.values();
                let due = due.filter(|o| !o.is_done && o.until <= now);
                let Some(operation) = due.min_by_key(|o| o.until).cloned() else {
                    break;
                };
                finish(project, journal, &operation);
            }
        }
    }
}

fn finish(project: &mut Project, journal: &mut Journal, operation: &Operation) {
    if let Some(known) = project.operations.get_mut(&operation.id) {
        known.is_done = true;
    }
    let key = (operation.zone.clone(), operation.target.clone());
    let has_failed = operation.error.is_some();
    if operation.kind == "delete" && !has_failed {
        remove(project, journal, &key, operation.until);
        return;
    }
    // One whose deletion failed runs on; where the creation failed there is none.
    if let Some(instance) = project.instances.get_mut(&key) {
        instance.status = "RUNNING";
    }
}

/// It goes, and its disk does where it is to.
fn remove(project: &mut Project, journal: &mut Journal, key: &(String, String), at: Timestamp) {
    if let Some(gone) = project.instances.remove(key) {
        let gone = event(at, "instance", gone.id, &gone.labels, false);
        journal.events.push(gone);
    }
    let Some(disk) = project.disks.get_mut(key) else {
        return;
    };
    disk.user = None;
    if disk.auto_delete {
        let gone = event(at, "disk", disk.id, &disk.labels, false);
        journal.events.push(gone);
        project.disks.remove(key);
    }
}
