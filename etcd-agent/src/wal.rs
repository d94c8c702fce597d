//! Head of a segment of etcd's write-ahead log: frames, checksum, and the record that says whose log
//! it is (etcd `server/storage/wal`).
//!
//! A frame is 8 bytes (little endian: the record's length in the lower 56 bits; if the highest bit is
//! set, the three bits above the length count the padding), then the record. A segment begins with the
//! checksum that the one before ended with, then with the metadata, so that any of them tells.
//! Invariant: for whose log it is nothing but the first [`HEAD_BYTES`] of a segment is decoded ([`tail`] reads all of a
//! copy, [`last`] all of the last one), and what its checksum does not confirm is not believed.

use crc::{CRC_32_ISCSI, Crc};
use prost::Message;

use crate::ids::{Id, MemberIds};

pub(crate) mod last;
pub(crate) mod tail;

/// More than the two records take: they have some sixty bytes.
pub const HEAD_BYTES: usize = 4096;

const METADATA: i64 = 1;
const ENTRY: i64 = 2;
const CHECKSUM: i64 = 4;
/// CRC-32C, "Castagnoli".
const CASTAGNOLI: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// `walpb.Record`.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, optional, tag = "1")]
    kind: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    checksum: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    data: Option<Vec<u8>>,
}

/// `etcdserverpb.Metadata`.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(uint64, optional, tag = "1")]
    member: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    cluster: Option<u64>,
}

/// Why a segment does not say whose it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// Zeros, or nothing at all.
    #[error("it ends before it says whose it is")]
    Ends,
    /// A length that leads out of the head.
    #[error("it has a record of {0} bytes where a small one belongs")]
    TooLong(u64),
    /// Not a record.
    #[error("what stands in it is no record")]
    Malformed,
    /// Another record where that of the metadata belongs.
    #[error("a record of kind {0} stands before that of its metadata")]
    Unexpected(i64),
    /// Some bit is another one than was written.
    #[error("the checksum of its metadata is wrong")]
    Checksum,
    /// Metadata without identifiers.
    #[error("its metadata names no cluster and no member")]
    Nameless,
}

/// Whose log it is that begins with these bytes.
///
/// # Errors
/// When they are not the head of a segment, or are damaged.
pub fn member_ids(head: &[u8]) -> Result<MemberIds, Unreadable> {
    let mut rest = &head[..head.len().min(HEAD_BYTES)];
    let mut before = 0;
    loop {
        let record = next_record(&mut rest)?;
        match record.kind.unwrap_or_default() {
            CHECKSUM => before = record.checksum.unwrap_or_default(),
            METADATA => {
                let data = record.data.unwrap_or_default();
                if record.checksum != Some(append_checksum(before, &data)) {
                    return Err(Unreadable::Checksum);
                }
                return identifiers(&data);
            }
            other => return Err(Unreadable::Unexpected(other)),
        }
    }
}

fn next_record(rest: &mut &[u8]) -> Result<Record, Unreadable> {
    let (frame, after) = rest.split_first_chunk::<8>().ok_or(Unreadable::Ends)?;
    let frame = u64::from_le_bytes(*frame);
    let length = frame & ((1 << 56) - 1);
    if length == 0 {
        return Err(Unreadable::Ends);
    }
    let padding = length.next_multiple_of(8) - length;
    if frame != frame_of(length) {
        // Cut or spoilt.
        return Err(Unreadable::Malformed);
    }
    let bytes = usize::try_from(length).ok().and_then(|n| after.get(..n));
    let record = bytes.ok_or(Unreadable::TooLong(length))?;
    // Padding at the end of what was read may be cut off.
    let skipped = record.len() + usize::try_from(padding).unwrap_or_default();
    *rest = after.get(skipped..).unwrap_or_default();
    Record::decode(record).map_err(|_| Unreadable::Malformed)
}

/// The frame of a record of so many bytes: it says how the record is filled up to a multiple of eight (`encodeFrameSize` of
/// etcd `server/storage/wal/encoder.go`, 3.6).
fn frame_of(length: u64) -> u64 {
    match length.next_multiple_of(8) - length {
        0 => length,
        padding => length | (0x80 | padding) << 56,
    }
}

fn identifiers(data: &[u8]) -> Result<MemberIds, Unreadable> {
    let metadata = Metadata::decode(data).map_err(|_| Unreadable::Malformed)?;
    let id = |number: Option<u64>| number.and_then(Id::new).ok_or(Unreadable::Nameless);
    Ok(MemberIds {
        cluster: id(metadata.cluster)?,
        member: id(metadata.member)?,
    })
}

/// The checksum of all that `before` was computed of, and of `data` after it.
fn append_checksum(before: u32, data: &[u8]) -> u32 {
    let mut digest = CASTAGNOLI.digest_with_initial((!before).reverse_bits());
    digest.update(data);
    digest.finalize()
}

/// Whether a file of this name is a segment for etcd: `<number>-<index>.wal`, both of 16 hexadecimal
/// digits, so that names sort as segments do.
#[must_use]
pub fn is_segment(name: &str) -> bool {
    first_index(name).is_some()
}

/// The index in the name of a segment: that of the first entry that was written to it, 0 for the first segment (etcd
/// `server/storage/wal/util.go`, `walName`). None where it is not the name of one.
fn first_index(name: &str) -> Option<u64> {
    let hexadecimal = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let (number, index) = name.strip_suffix(".wal")?.split_once('-')?;
    let is_one = hexadecimal(number) && hexadecimal(index);
    is_one
        .then(|| u64::from_str_radix(index, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests;
