//! What the cloud does: what was begun ends.
//!
//! Invariant: each thing that comes or goes is in the journal, with the tags that it had.

use std::time::Duration;

use jiff::Timestamp;

use super::contents::Contents;
use super::creation::number;
use crate::journal::event;
use crate::serve::later;

/// For how long one that ended is shown.
const SHOWN: Duration = Duration::from_secs(3600);

impl Contents {
    /// Brings about what was to happen by now.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let takes = self.behaviour.change_takes;
        let mut gone = Vec::new();
        for (id, instance) in &mut self.instances {
            if instance.runs.is_some_and(|at| at <= now) {
                instance.state = "running";
                instance.runs = None;
            }
            if let Some(at) = instance.ends.filter(|at| *at <= now) {
                instance.state = "shutting-down";
                instance.ends = None;
                instance.ended = Some(later(at, takes));
            }
            if let Some(at) = instance.ended.filter(|at| *at <= now)
                && instance.state != "terminated"
            {
                instance.state = "terminated";
                gone.push((at, id.clone()));
            }
        }
        gone.sort();
        for (at, id) in gone {
            self.went(&id, at);
        }
        self.instances.retain(|_, instance| {
            let until = instance.ended.map(|at| later(at, SHOWN));
            instance.state != "terminated" || until.is_none_or(|until| until > now)
        });
    }

    /// An instance went, and what goes with it.
    fn went(&mut self, id: &str, at: Timestamp) {
        if let Some(instance) = self.instances.get(id) {
            let went = event(at, "instance", number(id), &instance.tags, false);
            self.journal.events.push(went);
        }
        let keeps = self.behaviour.keeps_parts;
        let mut went = Vec::new();
        self.parts.retain(|part_id, part| {
            if part.user.as_deref() != Some(id) {
                return true;
            }
            part.user = None;
            if part.goes_along && !keeps {
                went.push(event(at, part.event(), number(part_id), &part.tags, false));
                return false;
            }
            true
        });
        self.journal.events.append(&mut went);
    }
}
