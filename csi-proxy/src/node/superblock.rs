//! Superblocks: what is on a device, told by bytes of it. Nobody else is asked: what udev remembers may
//! be older than the disk, and a device that was taken for empty is formatted.
//!
//! Invariant: pure; empty is a device with nothing but zeros where every filesystem begins, and with
//! none of the signatures that are left when only that beginning was lost.

/// A filesystem that can be made and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// ext4, and what is mounted as such: ext2 and ext3.
    Ext4,
    /// XFS.
    Xfs,
}

impl Filesystem {
    /// Its name for mount, mkfs and the tenant.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Ext4, Self::Xfs]
            .into_iter()
            .find(|filesystem| filesystem.name() == name)
    }
}

/// What is on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    Empty,
    /// A filesystem of this many bytes.
    Filesystem(Filesystem, u64),
    /// Something known, which is neither made nor mounted here.
    Foreign(&'static str),
    /// Something.
    Unknown,
}

/// Parts of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Bytes that the device has.
    pub size: u64,
    /// Where each part begins, and what is there.
    pub parts: Vec<(u64, Vec<u8>)>,
}

/// Reads are whole multiples of this, from whole multiples of this, but for the end of a device:
/// whatever goes past the page cache needs that.
pub const STEP: u64 = 4096;
/// First bytes of a device that are read: signatures are found up to 128 KiB.
const HEAD: u64 = 256 << 10;
/// The same at its end.
const TAIL: u64 = 128 << 10;
/// Where every filesystem has something, and what storage clears when it makes a volume of space
/// that somebody else had before (LVM does so with the first 4 KiB).
const BEGINNING: usize = 4096;

/// Where ext keeps its first spare superblock, by block size: at the second group of blocks.
const SPARES: [(u64, u32); 3] = [(8193 << 10, 0), (16384 << 11, 1), (32768 << 12, 2)];

/// Signatures of others: where, what, whose.
const SIGNATURES: &[(u64, &[u8], &str)] = &[
    (0, b"LUKS\xba\xbe", "an encrypted device (LUKS)"),
    (16 << 10, b"SKUL\xba\xbe", "an encrypted device (LUKS)"),
    (32 << 10, b"SKUL\xba\xbe", "an encrypted device (LUKS)"),
    (0, b"LABELONE", "a volume of LVM"),
    (512, b"LABELONE", "a volume of LVM"),
    (1024, b"LABELONE", "a volume of LVM"),
    (1536, b"LABELONE", "a volume of LVM"),
    (0, b"bluestore block device", "a volume of Ceph"),
    (0, b"hsqs", "a squashfs filesystem"),
    (3, b"NTFS    ", "an NTFS filesystem"),
    (3, b"EXFAT   ", "an exFAT filesystem"),
    (0x36, b"FAT1", "a FAT filesystem"),
    (0x52, b"FAT32", "a FAT filesystem"),
    (512, b"EFI PART", "a partition table"),
    (4096, b"EFI PART", "a partition table"),
    (510, b"\x55\xaa", "a partition table or boot sector"),
    (1024, b"\xe2\xe1\xf5\xe0", "an EROFS filesystem"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS filesystem"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4086, b"SWAP-SPACE", "swap space"),
    (0, b"\xfc\x4e\x2b\xa9", "a part of a RAID"),
    (4096, b"\xfc\x4e\x2b\xa9", "a part of a RAID"),
    (
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca",
        "a volume of bcache",
    ),
    (
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9",
        "a bcachefs filesystem",
    ),
    (32 << 10, b"JFS1", "a JFS filesystem"),
    ((32 << 10) + 1, b"CD001", "an ISO 9660 filesystem"),
    ((64 << 10) + 52, b"ReIsEr", "a ReiserFS filesystem"),
    ((64 << 10) + 64, b"_BHRfS_M", "a btrfs filesystem"),
    (64 << 10, b"\x01\x16\x19\x70", "a GFS2 filesystem"),
];

/// Signatures at the end of a device: how far from it, what, whose.
const LAST_SIGNATURES: &[(u64, &[u8], &str)] = &[
    (512, b"EFI PART", "a partition table"),
    (4096, b"EFI PART", "a partition table"),
];

impl Image {
    /// What is at a place; none when it was not read.
    fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.parts.iter().find_map(|(begin, bytes)| {
            let from = usize::try_from(offset.checked_sub(*begin)?).ok()?;
            bytes.get(from..from.checked_add(length)?)
        })
    }

    fn has(&self, offset: u64, signature: &[u8]) -> bool {
        self.at(offset, signature.len()) == Some(signature)
    }

    fn number<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.at(offset, N)?.try_into().ok()
    }
}

/// What has to be read of a device of this size: where, and how much. The end of one is the end of
/// the device.
#[must_use]
pub fn places(size: u64) -> Vec<(u64, u64)> {
    let quarter = size / STEP / 4;
    let spares = SPARES.map(|(at, _)| (at / STEP * STEP, 2 * STEP));
    // XFS has four groups on an ordinary device, and a superblock in each.
    let groups = [quarter * STEP, (quarter + 1) * STEP].map(|at| (at, STEP));
    let tail = size.saturating_sub(TAIL) / STEP * STEP;
    let mut places = vec![(0, HEAD.min(size))];
    let others = spares.into_iter().chain(groups);
    places.extend(others.filter(|(at, length)| at + length <= size && *at >= HEAD));
    if tail >= HEAD {
        places.push((tail, size - tail));
    }
    places
}

/// What is on the device that these parts are of.
#[must_use]
pub fn content(image: &Image) -> Content {
    let Some(beginning) = image.at(0, BEGINNING) else {
        return Content::Unknown;
    };
    match (xfs(image), ext(image)) {
        (Some(_), Some(_)) => return Content::Foreign("two filesystems at once"),
        (Some(found), None) | (None, Some(found)) => return found,
        (None, None) => {}
    }
    let signatures = SIGNATURES.iter().copied();
    let last = LAST_SIGNATURES
        .iter()
        .filter_map(|(from_end, signature, whose)| {
            Some((image.size.checked_sub(*from_end)?, *signature, *whose))
        });
    let found = signatures
        .chain(last)
        .find(|(at, signature, _)| image.has(*at, signature));
    if let Some((_, _, whose)) = found {
        return Content::Foreign(whose);
    }
    if zfs(image) {
        return Content::Foreign("a volume of ZFS");
    }
    if SPARES.into_iter().any(|(at, log)| spare(image, at, log)) {
        return Content::Foreign("an ext4 filesystem that has lost its beginning");
    }
    let quarter = image.size / STEP / 4;
    if [quarter, quarter + 1]
        .iter()
        .any(|at| image.has(at * STEP, b"XFSB"))
    {
        return Content::Foreign("an XFS filesystem that has lost its beginning");
    }
    match beginning.iter().all(|byte| *byte == 0) {
        true => Content::Empty,
        false => Content::Unknown,
    }
}

/// XFS has its superblock at the very beginning, in big-endian numbers.
fn xfs(image: &Image) -> Option<Content> {
    if !image.has(0, b"XFSB") {
        return None;
    }
    let block = u64::from(u32::from_be_bytes(image.number(4)?));
    let blocks = u64::from_be_bytes(image.number(8)?);
    if image.at(126, 1)? != [0] {
        return Some(Content::Foreign(
            "an XFS filesystem that was never finished",
        ));
    }
    let bytes = blocks.checked_mul(block).filter(|bytes| *bytes > 0);
    Some(bytes.map_or(Content::Unknown, |bytes| {
        Content::Filesystem(Filesystem::Xfs, bytes)
    }))
}

/// ext has it after 1 KiB, in little-endian numbers.
fn ext(image: &Image) -> Option<Content> {
    const AT: u64 = 1024;
    const HAS_64_BITS: u32 = 0x80;
    if !image.has(AT + 0x38, b"\x53\xef") {
        return None;
    }
    let low = u32::from_le_bytes(image.number(AT + 0x4)?);
    let log = u32::from_le_bytes(image.number(AT + 0x18)?);
    let incompatible = u32::from_le_bytes(image.number(AT + 0x60)?);
    let high = match incompatible & HAS_64_BITS {
        0 => 0,
        _ => u32::from_le_bytes(image.number(AT + 0x150)?),
    };
    let blocks = u64::from(high) << 32 | u64::from(low);
    let bytes = match log {
        0..=6 => blocks.checked_mul(1024 << log).filter(|bytes| *bytes > 0),
        _ => None,
    };
    Some(bytes.map_or(Content::Unknown, |bytes| {
        Content::Filesystem(Filesystem::Ext4, bytes)
    }))
}

/// A spare superblock of ext: it says of itself that it is one, so that chance rarely looks like it.
fn spare(image: &Image, at: u64, log: u32) -> bool {
    image.has(at + 0x38, b"\x53\xef")
        && image.has(at + 0x18, &log.to_le_bytes())
        && image.has(at + 0x5a, &1_u16.to_le_bytes())
}

/// ZFS keeps a ring of uberblocks from 128 KiB on, of which any may be the only one.
fn zfs(image: &Image) -> bool {
    const SIGNATURE: u64 = 0x00ba_b10c;
    (128..256_u64).any(|kib| {
        let at = kib << 10;
        image.has(at, &SIGNATURE.to_le_bytes()) || image.has(at, &SIGNATURE.to_be_bytes())
    })
}

#[cfg(test)]
mod tests;
