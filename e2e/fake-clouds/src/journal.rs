//! What was asked of a fake, and what came of it.
//!
//! Invariant: what is counted here is what happened in the cloud, whatever whoever asked was told.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Labels of a thing.
pub type Labels = BTreeMap<String, String>;

/// One request.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When it came.
    pub at: Timestamp,
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// Its query, as it came.
    pub query: String,
    /// It was carried out.
    pub done: bool,
    /// The status of the answer; none: no answer was sent.
    pub status: Option<u16>,
}

/// Something came or went.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// What: `server`, `primary_ip`, `instance`, `disk`, `address`.
    pub kind: &'static str,
    /// Its ID.
    pub id: u64,
    /// Its labels then.
    pub labels: Labels,
    /// It came; else it went.
    pub came: bool,
}

/// One of those.
pub(crate) fn event(
    now: Timestamp,
    kind: &'static str,
    id: u64,
    labels: &Labels,
    came: bool,
) -> Event {
    Event {
        at: now,
        kind,
        id,
        labels: labels.clone(),
        came,
    }
}

/// All of it, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Requests.
    pub entries: Vec<Entry>,
    /// What came and went.
    pub events: Vec<Event>,
}

impl Journal {
    /// Most things of a kind that were there at once with the same value of a label, over all time.
    #[must_use]
    pub fn most_at_once(&self, kind: &str, label: &str) -> usize {
        let mut live: BTreeMap<String, usize> = BTreeMap::new();
        let mut most = 0;
        for event in self.events.iter().filter(|event| event.kind == kind) {
            let value = event.labels.get(label).cloned().unwrap_or_default();
            let count = live.entry(value).or_default();
            match event.came {
                true => *count += 1,
                false => *count = count.saturating_sub(1),
            }
            most = most.max(*count);
        }
        most
    }

    /// How many things of a kind came, ever.
    #[must_use]
    pub fn made(&self, kind: &str) -> usize {
        let came = self.events.iter().filter(|e| e.kind == kind && e.came);
        came.count()
    }

    /// What is there still, by kind and ID.
    #[must_use]
    pub fn left(&self) -> Vec<(&'static str, u64)> {
        let mut left = Vec::new();
        for event in &self.events {
            let thing = (event.kind, event.id);
            match event.came {
                true => left.push(thing),
                false => left.retain(|known| *known != thing),
            }
        }
        left
    }

    /// Things that came without a label.
    #[must_use]
    pub fn came_without(&self, label: &str) -> usize {
        let came = self.events.iter().filter(|event| event.came);
        came.filter(|event| !event.labels.contains_key(label))
            .count()
    }

    /// How many requests of a method were asked for.
    #[must_use]
    pub fn requests(&self, method: &str) -> usize {
        let of_it = self.entries.iter().filter(|entry| entry.method == method);
        of_it.count()
    }
}
