//! What a delta records: revisions with their operations in order, and leases before the first put that
//! names them.
//!
//! Invariant: revisions have no hole. Every revision of etcd has an operation, so a delta that lacks one
//! is not made and not read.

use prost::Message;

/// An operation of a transaction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Operation {
    /// A key got a value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// Identifier of its lease; 0 is none.
        lease: i64,
    },
    /// A key was deleted.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

/// What one transaction did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Revision {
    /// Its number.
    pub number: u64,
    /// When its event came, in milliseconds since 1970 by the writer's clock; never less than that of
    /// the one before.
    pub time_ms: u64,
    /// In order; there is one at least.
    pub operations: Vec<Operation>,
}

/// A lease that is named for the first time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Its identifier.
    pub id: i64,
    /// Seconds that it was granted for; 0 when it was gone before it could be asked for.
    pub ttl_seconds: i64,
}

/// What a delta has.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recorded {
    /// Leases that its puts name.
    pub leases: Vec<Lease>,
    /// Without a hole.
    pub revisions: Vec<Revision>,
}

/// A record that does not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadRecord {
    /// A hole, a step back, or another beginning or end.
    #[error("revision {found} stands where {wanted} belongs")]
    Revision {
        /// What would come next.
        wanted: u64,
        /// What came.
        found: u64,
    },
    /// Not a record.
    #[error("what stands in it is no record")]
    Malformed,
    /// A revision in which nothing happened.
    #[error("revision {0} has no operation")]
    Empty(u64),
}

/// Collects what a delta is to have.
#[derive(Clone, Debug)]
pub struct Recorder {
    content: Vec<u8>,
    first: u64,
    next: u64,
    time_ms: u64,
}

impl Recorder {
    /// To begin with this revision. No time is less than `time_ms`.
    #[must_use]
    pub fn new(first: u64, time_ms: u64) -> Self {
        Self {
            content: Vec::new(),
            first,
            next: first,
            time_ms,
        }
    }

    /// Adds a lease.
    pub fn lease(&mut self, lease: Lease) {
        self.add(&Record {
            kind: LEASE,
            number: lease.id,
            more: lease.ttl_seconds,
            ..Record::default()
        });
    }

    /// Adds a revision, the next one.
    ///
    /// # Errors
    /// [`BadRecord`], when it is not the next one or has no operation; then nothing was added.
    pub fn revision(&mut self, revision: &Revision) -> Result<(), BadRecord> {
        if revision.number != self.next {
            return Err(BadRecord::Revision {
                wanted: self.next,
                found: revision.number,
            });
        }
        if revision.operations.is_empty() {
            return Err(BadRecord::Empty(revision.number));
        }
        self.time_ms = self.time_ms.max(revision.time_ms);
        self.next += 1;
        self.add(&Record {
            kind: REVISION,
            number: revision.number.cast_signed(),
            more: self.time_ms.cast_signed(),
            ..Record::default()
        });
        for operation in &revision.operations {
            self.add(&match operation {
                Operation::Put { key, value, lease } => Record {
                    kind: PUT,
                    number: *lease,
                    key: key.clone(),
                    value: value.clone(),
                    ..Record::default()
                },
                Operation::Delete { key } => Record {
                    kind: DELETE,
                    key: key.clone(),
                    ..Record::default()
                },
            });
        }
        Ok(())
    }

    /// Its revisions; None while there is none.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.next > self.first).then(|| (self.first, self.next - 1))
    }

    /// The revision that would be added next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// When its last revision came; what [`Self::new`] was told while there is none.
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// What it takes so far, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.content.len()
    }

    /// The content of a delta's object.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    fn add(&mut self, record: &Record) {
        // A Vec grows, so this cannot fail.
        let _ = record.encode_length_delimited(&mut self.content);
    }
}

/// Reads the content of a delta that says to have the revisions `first..=last`.
///
/// # Errors
/// [`BadRecord`].
pub fn read(mut content: &[u8], first: u64, last: u64) -> Result<Recorded, BadRecord> {
    let mut recorded = Recorded::default();
    let mut wanted = first;
    while !content.is_empty() {
        let record = Record::decode_length_delimited(&mut content);
        let record = record.map_err(|_| BadRecord::Malformed)?;
        let open = recorded.revisions.last_mut();
        match (record.kind, open) {
            (LEASE, _) => recorded.leases.push(Lease {
                id: record.number,
                ttl_seconds: record.more,
            }),
            (REVISION, open) => {
                if let Some(open) = open.filter(|open| open.operations.is_empty()) {
                    return Err(BadRecord::Empty(open.number));
                }
                let found = record.number.cast_unsigned();
                if found != wanted {
                    return Err(BadRecord::Revision { wanted, found });
                }
                wanted += 1;
                recorded.revisions.push(Revision {
                    number: found,
                    time_ms: record.more.cast_unsigned(),
                    operations: Vec::new(),
                });
            }
            (PUT, Some(open)) => open.operations.push(Operation::Put {
                key: record.key,
                value: record.value,
                lease: record.number,
            }),
            (DELETE, Some(open)) => open.operations.push(Operation::Delete { key: record.key }),
            _ => return Err(BadRecord::Malformed),
        }
    }
    match recorded.revisions.last() {
        Some(open) if open.operations.is_empty() => Err(BadRecord::Empty(open.number)),
        Some(open) if open.number == last => Ok(recorded),
        _ => Err(BadRecord::Revision {
            wanted: last,
            found: wanted.saturating_sub(1),
        }),
    }
}

const REVISION: u32 = 1;
const PUT: u32 = 2;
const DELETE: u32 = 3;
const LEASE: u32 = 4;

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(int64, tag = "2")]
    number: i64,
    #[prost(int64, tag = "3")]
    more: i64,
    #[prost(bytes = "vec", tag = "4")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let bytes = || vec(any::<u8>(), 0..20);
        let operation = (bytes(), bytes(), any::<i64>(), any::<bool>());
        let operation = operation.prop_map(|(key, value, lease, put)| match put {
            true => Operation::Put { key, value, lease },
            false => Operation::Delete { key },
        });
        vec(operation, 1..5)
    }

    fn recorded(first: u64, all: Vec<Vec<Operation>>) -> (Recorder, Recorded) {
        let mut recorder = Recorder::new(first, 0);
        let mut recorded = Recorded::default();
        let lease = Lease {
            id: 7,
            ttl_seconds: 3600,
        };
        recorder.lease(lease);
        recorded.leases.push(lease);
        for (number, operations) in (first..).zip(all) {
            let revision = Revision {
                number,
                time_ms: number,
                operations,
            };
            recorder.revision(&revision).unwrap();
            recorded.revisions.push(revision);
        }
        (recorder, recorded)
    }

    proptest! {
        #[test]
        fn revisions_are_read_as_they_were_recorded(
            first in 1..1_000_000_u64, all in vec(operations(), 1..6),
        ) {
            let last = first + all.len() as u64 - 1;
            let (recorder, recorded) = recorded(first, all);
            prop_assert_eq!(recorder.range(), Some((first, last)));
            prop_assert_eq!(read(recorder.content(), first, last), Ok(recorded));
            prop_assert!(read(recorder.content(), first, last + 1).is_err());
            prop_assert!(read(recorder.content(), first + 1, last).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, 1, 3);
        }
    }

    #[test]
    fn a_hole_or_an_empty_revision_is_not_recorded() {
        let mut recorder = Recorder::new(5, 100);
        let mut revision = Revision {
            number: 6,
            time_ms: 0,
            operations: vec![Operation::Delete { key: vec![1] }],
        };
        let hole = BadRecord::Revision {
            wanted: 5,
            found: 6,
        };
        assert_eq!(recorder.revision(&revision), Err(hole));
        revision.number = 5;
        revision.operations.clear();
        assert_eq!(recorder.revision(&revision), Err(BadRecord::Empty(5)));
        assert_eq!((recorder.range(), recorder.bytes()), (None, 0));
    }

    #[test]
    fn a_clock_that_steps_back_takes_no_time_back() {
        let mut recorder = Recorder::new(1, 100);
        for number in 1..3 {
            let operations = vec![Operation::Delete { key: vec![1] }];
            let time_ms = 200 - number * 60;
            recorder
                .revision(&Revision {
                    number,
                    time_ms,
                    operations,
                })
                .unwrap();
        }
        let read = read(recorder.content(), 1, 2).unwrap();
        let times: Vec<_> = read.revisions.iter().map(|r| r.time_ms).collect();
        assert_eq!(times, [140, 140]);
    }
}
