//! What a watch brings, made into revisions.
//!
//! Invariant: a revision is complete when it is given out: a message that has more of the same to follow
//! is kept until the rest has come.

use std::collections::BTreeMap;

use backup_format::records::{BadRecord, Operation, Recorder, Revision};
use proto::etcd::event::EventType;
use proto::etcd::{Event, WatchResponse};

/// Most leases whose time is remembered.
const MOST_LEASES: usize = 4096;

/// Collects events.
pub(super) struct Collector {
    /// What the next delta has so far.
    pub(super) recorder: Recorder,
    /// When its first revision came, in milliseconds since 1970.
    pub(super) since_ms: u64,
    /// Revisions that are not complete.
    open: Vec<Revision>,
    /// Seconds of leases that were asked for; 0 is gone.
    pub(super) known: BTreeMap<i64, i64>,
    /// Leases that this delta has already.
    pub(super) recorded: Vec<i64>,
}

impl Collector {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self {
            recorder,
            since_ms: 0,
            open: Vec::new(),
            known: BTreeMap::new(),
            recorded: Vec::new(),
        }
    }

    /// Begins anew at a revision.
    pub(super) fn restart(&mut self, from: u64) {
        let time_ms = self.recorder.time_ms();
        self.recorder = Recorder::new(from, time_ms);
        self.open.clear();
        self.recorded.clear();
    }

    /// What the delta has; the next one begins after it.
    pub(super) fn cut(&mut self) -> Recorder {
        let next = Recorder::new(self.recorder.next(), self.recorder.time_ms());
        self.recorded.clear();
        std::mem::replace(&mut self.recorder, next)
    }

    /// Takes a message; gives the revisions that are complete.
    pub(super) fn take(
        &mut self,
        message: WatchResponse,
        now_ms: u64,
    ) -> Result<Vec<Revision>, BadRecord> {
        for event in message.events {
            self.add(event, now_ms)?;
        }
        match message.fragment {
            true => Ok(Vec::new()),
            false => Ok(std::mem::take(&mut self.open)),
        }
    }

    fn add(&mut self, event: Event, now_ms: u64) -> Result<(), BadRecord> {
        let put = event.r#type() == EventType::Put;
        let kv = event.kv.ok_or(BadRecord::Malformed)?;
        let number = u64::try_from(kv.mod_revision).map_err(|_| BadRecord::Malformed)?;
        let operation = match put {
            true => Operation::Put {
                key: kv.key,
                value: kv.value,
                lease: kv.lease,
            },
            false => Operation::Delete { key: kv.key },
        };
        match self.open.last_mut() {
            Some(open) if open.number == number => open.operations.push(operation),
            _ => self.open.push(Revision {
                number,
                time_ms: now_ms,
                operations: vec![operation],
            }),
        }
        Ok(())
    }

    /// Leases of these revisions that this delta does not have yet.
    pub(super) fn new_leases(&self, revisions: &[Revision]) -> Vec<i64> {
        let operations = revisions.iter().flat_map(|revision| &revision.operations);
        let mut leases: Vec<_> = operations
            .filter_map(|operation| match operation {
                Operation::Put { lease, .. } if *lease != 0 => Some(*lease),
                _ => None,
            })
            .filter(|lease| !self.recorded.contains(lease))
            .collect();
        leases.sort_unstable();
        leases.dedup();
        leases
    }

    /// Remembers how long a lease was granted for.
    pub(super) fn remember(&mut self, lease: i64, ttl_seconds: i64) {
        if self.known.len() >= MOST_LEASES {
            self.known.clear();
        }
        self.known.insert(lease, ttl_seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::etcd::KeyValue;

    fn event(revision: i64, key: &str, lease: i64, put: bool) -> Event {
        Event {
            r#type: match put {
                true => EventType::Put.into(),
                false => EventType::Delete.into(),
            },
            kv: Some(KeyValue {
                key: key.into(),
                mod_revision: revision,
                lease,
                ..KeyValue::default()
            }),
        }
    }

    fn message(events: Vec<Event>, fragment: bool) -> WatchResponse {
        WatchResponse {
            events,
            fragment,
            ..WatchResponse::default()
        }
    }

    #[test]
    fn a_transaction_stays_one_revision_also_when_it_comes_in_pieces() {
        let mut collector = Collector::new(Recorder::new(5, 0));
        let first = message(vec![event(5, "a", 7, true), event(6, "b", 0, true)], true);
        assert_eq!(collector.take(first, 100), Ok(vec![]));
        let second = message(vec![event(6, "a", 0, false), event(7, "c", 7, true)], false);
        let revisions = collector.take(second, 200).unwrap();
        let shape: Vec<_> = revisions
            .iter()
            .map(|r| (r.number, r.time_ms, r.operations.len()))
            .collect();
        assert_eq!(shape, [(5, 100, 1), (6, 100, 2), (7, 200, 1)]);
        assert_eq!(collector.new_leases(&revisions), [7]);
        collector.recorded.push(7);
        assert_eq!(collector.new_leases(&revisions), [0_i64; 0]);
    }
}
