//! Tail of etcd's write-ahead log: what stands in the last segment, and a record that says that all of it is agreed upon.
//!
//! A member notes what is agreed upon with its next write, so one that was killed has entries that were acknowledged and
//! are not noted as agreed upon; an etcd that is started alone on its data (`--force-new-cluster`) throws them away. Where
//! the others are gone nobody can say anything else of them.
//! Invariant: a record whose checksum is wrong ends the log, as it does for etcd; what comes before it stays as it is.

use prost::Message;

use super::{CHECKSUM, ENTRY, Record, Unreadable, append_checksum, frame_of, next_record};

const STATE: i64 = 3;

/// `raftpb.Entry`, without its data.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(uint64, optional, tag = "2")]
    term: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    index: Option<u64>,
}

/// `raftpb.HardState`.
#[derive(Clone, PartialEq, Message)]
struct HardState {
    #[prost(uint64, optional, tag = "1")]
    term: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    vote: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    commit: Option<u64>,
}

/// What is to be written at the end of a segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Agreed {
    /// Where; what is there and after it is no record.
    pub(crate) at: u64,
    /// With its frame.
    pub(crate) record: Vec<u8>,
}

/// The record that says that all of a log is agreed upon, by its last segment; none where that is noted.
///
/// # Errors
/// [`Unreadable`]; nothing of it is a record, or it has none that says what is agreed upon.
pub(crate) fn agreed(segment: &[u8]) -> Result<Option<Agreed>, Unreadable> {
    let (mut rest, mut checksum, mut at) = (segment, 0, 0);
    let (mut state, mut last) = (None::<HardState>, None::<Entry>);
    // Zeros, or what was being written when the process died.
    while let Ok(record) = next_record(&mut rest) {
        let data = record.data.unwrap_or_default();
        match record.kind.unwrap_or_default() {
            CHECKSUM => checksum = record.checksum.unwrap_or_default(),
            kind => {
                let after = append_checksum(checksum, &data);
                if record.checksum != Some(after) {
                    break;
                }
                checksum = after;
                match kind {
                    ENTRY => last = Some(decoded(&data)?),
                    STATE => state = Some(decoded(&data)?),
                    _ => {}
                }
            }
        }
        at = segment.len() - rest.len();
    }
    let state = state.ok_or(Unreadable::Ends)?;
    // Of a segment that was just begun all that there is stands in the one before, with a state that was noted since.
    let last = last.and_then(|entry| entry.index).unwrap_or_default();
    if state.commit.unwrap_or_default() >= last {
        return Ok(None);
    }
    let state = HardState {
        commit: Some(last),
        ..state
    };
    let data = state.encode_to_vec();
    let record = Record {
        kind: Some(STATE),
        checksum: Some(append_checksum(checksum, &data)),
        data: Some(data),
    };
    Ok(Some(Agreed {
        at: u64::try_from(at).unwrap_or(u64::MAX),
        record: framed(&record),
    }))
}

fn decoded<T: Message + Default>(data: &[u8]) -> Result<T, Unreadable> {
    T::decode(data).map_err(|_| Unreadable::Malformed)
}

/// A record as it stands in a segment.
fn framed(record: &Record) -> Vec<u8> {
    let record = record.encode_to_vec();
    let frame = frame_of(u64::try_from(record.len()).unwrap_or_default());
    let mut all = frame.to_le_bytes().to_vec();
    all.extend(record);
    all.resize(all.len().next_multiple_of(8), 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of a checksum, a state and entries.
    struct Log {
        bytes: Vec<u8>,
        checksum: u32,
    }

    impl Log {
        fn new() -> Self {
            let begins = Record {
                kind: Some(CHECKSUM),
                checksum: Some(77),
                data: None,
            };
            Self {
                bytes: framed(&begins),
                checksum: 77,
            }
        }

        fn push(&mut self, kind: i64, data: Vec<u8>) {
            self.checksum = append_checksum(self.checksum, &data);
            let record = Record {
                kind: Some(kind),
                checksum: Some(self.checksum),
                data: Some(data),
            };
            self.bytes.extend(framed(&record));
        }

        fn state(&mut self, commit: u64) {
            let state = HardState {
                term: Some(3),
                vote: Some(0x8e9e),
                commit: Some(commit),
            };
            self.push(STATE, state.encode_to_vec());
        }

        fn entry(&mut self, index: u64) {
            let entry = Entry {
                term: Some(3),
                index: Some(index),
            };
            let mut data = entry.encode_to_vec();
            // `Data`, of which nothing is known here.
            data.extend([0x22, 3, b'a', b'b', b'c']);
            self.push(ENTRY, data);
        }

        fn zeros(mut self) -> Vec<u8> {
            self.bytes.resize(self.bytes.len() + 4096, 0);
            self.bytes
        }
    }

    #[test]
    fn all_entries_are_agreed_upon_by_one_record_that_follows_what_is_there() {
        let mut log = Log::new();
        log.state(7);
        (8..12).for_each(|index| log.entry(index));
        let end = log.bytes.len();
        let mut segment = log.zeros();
        let wanted = agreed(&segment).unwrap().unwrap();
        assert_eq!(wanted.at, u64::try_from(end).unwrap());
        segment[end..end + wanted.record.len()].copy_from_slice(&wanted.record);
        assert_eq!(agreed(&segment), Ok(None), "it is written once");
        let mut rest = &segment[end..];
        let state = next_record(&mut rest).unwrap().data.unwrap();
        let state = HardState::decode(state.as_slice()).unwrap();
        let is = (state.term, state.vote, state.commit);
        assert_eq!(is, (Some(3), Some(0x8e9e), Some(11)));
    }

    #[test]
    fn entry_that_takes_the_place_of_others_is_the_last_one() {
        let mut log = Log::new();
        log.state(7);
        (8..12).for_each(|index| log.entry(index));
        log.entry(9);
        log.state(9);
        assert_eq!(agreed(&log.zeros()), Ok(None));
    }

    #[test]
    fn what_was_being_written_when_the_process_died_is_none_of_it() {
        let mut log = Log::new();
        log.state(7);
        log.entry(8);
        let end = log.bytes.len();
        log.entry(9);
        for spoil in 0..log.bytes.len() - end {
            let mut segment = log.bytes.clone();
            segment[end + spoil] ^= 0x11;
            match agreed(&segment) {
                Ok(Some(found)) => {
                    let whole = found.at == u64::try_from(log.bytes.len()).unwrap();
                    // A bit of the padding is nobody's.
                    assert!(whole || found.at == u64::try_from(end).unwrap(), "{spoil}");
                }
                other => panic!("{spoil}: {other:?}"),
            }
        }
        let cut = &log.bytes[..log.bytes.len() - 9];
        assert_eq!(
            agreed(cut).unwrap().unwrap().at,
            u64::try_from(end).unwrap()
        );
        assert!(agreed(&[0; 64]).is_err() && agreed(&[]).is_err());
    }
}
