//! The last entry of etcd's write-ahead log, by its last segment: until when a member has what the cluster agreed upon.
//!
//! Invariant: read piece by piece, so that a segment of any length takes the memory of one record; a record whose checksum
//! is wrong ends the log, as it does for etcd.

use std::io::{self, Read};

use prost::Message;

use super::{CHECKSUM, ENTRY, Record, append_checksum, first_index, next_record};

const SNAPSHOT: i64 = 5;
/// More than a record takes: etcd refuses requests of more than 1.5 MiB (`--max-request-bytes`).
const MOST_BYTES: u64 = 16 << 20;

/// `raftpb.Entry`, of which this is all that is looked at.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(uint64, optional, tag = "3")]
    index: Option<u64>,
}

/// `walpb.Snapshot`, the same.
#[derive(Clone, PartialEq, Message)]
struct Snapshot {
    #[prost(uint64, optional, tag = "1")]
    index: Option<u64>,
}

/// Index of the last entry of a log whose last segment has this name; 0 where it has none.
///
/// # Errors
/// When the segment cannot be read. One that is damaged ends where it is.
pub(crate) fn last_index(name: &str, mut segment: impl Read) -> io::Result<u64> {
    // All that came before was there when it was begun.
    let mut last = first_index(name).unwrap_or_default().saturating_sub(1);
    let mut checksum = 0;
    // Zeros, or what was being written when the process died.
    while let Some(record) = read(&mut segment)? {
        let data = record.data.unwrap_or_default();
        let kind = record.kind.unwrap_or_default();
        if kind == CHECKSUM {
            checksum = record.checksum.unwrap_or_default();
            continue;
        }
        checksum = append_checksum(checksum, &data);
        if record.checksum != Some(checksum) {
            break;
        }
        let data = data.as_slice();
        last = match kind {
            // It may take the place of others that nobody agreed upon.
            ENTRY => Entry::decode(data)
                .ok()
                .and_then(|e| e.index)
                .unwrap_or(last),
            // One that was sent stands for all before it, of which the log has nothing.
            SNAPSHOT => {
                let sent = Snapshot::decode(data).ok().and_then(|s| s.index);
                last.max(sent.unwrap_or_default())
            }
            _ => last,
        };
    }
    Ok(last)
}

/// The next record; none where there is no whole one.
fn read(segment: &mut impl Read) -> io::Result<Option<Record>> {
    let mut bytes = Vec::new();
    segment.by_ref().take(8).read_to_end(&mut bytes)?;
    let Some(frame) = bytes.first_chunk::<8>() else {
        return Ok(None);
    };
    let length = u64::from_le_bytes(*frame) & ((1 << 56) - 1);
    if length == 0 || length > MOST_BYTES {
        return Ok(None);
    }
    let padded = length.next_multiple_of(8);
    segment.by_ref().take(padded).read_to_end(&mut bytes)?;
    Ok(next_record(&mut bytes.as_slice()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::frame_of;

    const FIRST: &str = "0000000000000000-0000000000000000.wal";

    /// A segment that follows one whose checksum was 77.
    struct Log {
        bytes: Vec<u8>,
        checksum: u32,
    }

    impl Log {
        fn new() -> Self {
            let mut log = Self {
                bytes: Vec::new(),
                checksum: 77,
            };
            log.write(&Record {
                kind: Some(CHECKSUM),
                checksum: Some(77),
                data: None,
            });
            log
        }

        fn write(&mut self, record: &Record) {
            let record = record.encode_to_vec();
            let frame = frame_of(record.len().try_into().unwrap());
            self.bytes.extend(frame.to_le_bytes());
            self.bytes.extend(record);
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        }

        fn push(&mut self, kind: i64, data: Vec<u8>) {
            self.checksum = append_checksum(self.checksum, &data);
            self.write(&Record {
                kind: Some(kind),
                checksum: Some(self.checksum),
                data: Some(data),
            });
        }

        fn entry(&mut self, index: u64) {
            let mut data = Entry { index: Some(index) }.encode_to_vec();
            // `Data`, of which nothing is known here.
            data.extend([0x22, 3, b'a', b'b', b'c']);
            self.push(ENTRY, data);
        }

        fn ends(&self, name: &str) -> u64 {
            let mut zeros = self.bytes.clone();
            zeros.resize(zeros.len() + 4096, 0);
            let last = last_index(name, zeros.as_slice()).unwrap();
            assert_eq!(last_index(name, self.bytes.as_slice()).unwrap(), last);
            last
        }
    }

    #[test]
    fn last_entry_is_the_one_that_was_written_last() {
        let mut log = Log::new();
        assert_eq!(log.ends(FIRST), 0);
        (1..9).for_each(|index| log.entry(index));
        assert_eq!(log.ends(FIRST), 8);
        log.entry(6);
        assert_eq!(log.ends(FIRST), 6, "it takes the place of 6 to 8");
    }

    #[test]
    fn segment_that_was_just_begun_says_by_its_name_what_came_before() {
        let mut log = Log::new();
        let name = "0000000000000002-00000000000003e9.wal";
        assert_eq!(log.ends(name), 1000);
        log.entry(1001);
        assert_eq!(log.ends(name), 1001);
    }

    #[test]
    fn snapshot_that_was_sent_stands_for_what_came_before_it() {
        let mut log = Log::new();
        log.entry(7);
        let snapshot = |index| Snapshot { index: Some(index) }.encode_to_vec();
        // Its own, of what it has.
        log.push(SNAPSHOT, snapshot(5));
        assert_eq!(log.ends(FIRST), 7);
        log.push(SNAPSHOT, snapshot(5000));
        assert_eq!(log.ends(FIRST), 5000);
        log.entry(5001);
        assert_eq!(log.ends(FIRST), 5001);
    }

    #[test]
    fn what_is_damaged_or_cut_off_ends_the_log() {
        let mut log = Log::new();
        log.entry(7);
        let whole = log.bytes.len();
        log.entry(8);
        // Its frame, its length and its entry; the last bytes may be padding.
        for spoil in whole..log.bytes.len() - 8 {
            let mut bytes = log.bytes.clone();
            bytes[spoil] ^= 0x11;
            assert_eq!(last_index(FIRST, bytes.as_slice()).unwrap(), 7, "{spoil}");
        }
        for cut in whole..log.bytes.len() - 8 {
            assert_eq!(last_index(FIRST, &log.bytes[..cut]).unwrap(), 7, "{cut}");
        }
        let long = (MOST_BYTES + 8).to_le_bytes();
        assert_eq!(last_index(FIRST, long.as_slice()).unwrap(), 0);
    }
}
