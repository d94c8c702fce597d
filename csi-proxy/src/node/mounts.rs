//! Mounts as the kernel tells them, and options of mounts, as users write them.
//!
//! Invariant: pure; a line that cannot be read is left out, and an option that is not known goes to
//! the filesystem as it is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Major and minor number of a device.
pub type Number = (u32, u32);

/// Something that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device below it.
    pub number: Number,
    /// What of its filesystem is shown.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// Type of its filesystem.
    pub kind: String,
    /// It can only be read.
    pub read_only: bool,
}

/// Reads `/proc/self/mountinfo` (proc(5)).
#[must_use]
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    let (first, second) = line.split_once(" - ")?;
    let first: Vec<_> = first.split(' ').collect();
    let second: Vec<_> = second.split(' ').collect();
    let [_, _, number, root, point, options, ..] = first.as_slice() else {
        return None;
    };
    let [kind, _, whole, ..] = second.as_slice() else {
        return None;
    };
    let says_read_only = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        number: self::number(number)?,
        root: path(root),
        point: path(point),
        kind: (*kind).to_owned(),
        read_only: says_read_only(options) || says_read_only(whole),
    })
}

/// Reads `8:16`.
#[must_use]
pub fn number(text: &str) -> Option<Number> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Undoes what the kernel does to blanks and backslashes: three octal digits.
fn path(text: &str) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// What is mounted at a place: the last of several.
#[must_use]
pub fn top<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    mounts.iter().rev().find(|mount| mount.point == point)
}

/// An option that is the kernel's, not the filesystem's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `ro`
    ReadOnly,
    /// `nosuid`
    NoSuid,
    /// `nodev`
    NoDev,
    /// `noexec`
    NoExec,
    /// `noatime`
    NoAtime,
    /// `nodiratime`
    NoDirAtime,
    /// `relatime`
    RelAtime,
    /// `strictatime`
    StrictAtime,
    /// `lazytime`
    LazyTime,
    /// `sync`
    Sync,
    /// `dirsync`
    DirSync,
}

/// Options of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The kernel's.
    pub flags: Vec<Flag>,
    /// The filesystem's, separated by commas.
    pub data: String,
}

/// Reads options as they stand in `mountOptions` of a StorageClass; several may be in one.
#[must_use]
pub fn options<'a>(texts: impl IntoIterator<Item = &'a str>) -> Options {
    let mut options = Options::default();
    let all = texts.into_iter().flat_map(|text| text.split(','));
    for option in all.map(str::trim).filter(|option| !option.is_empty()) {
        let flag = match option {
            // What is so without being said.
            "defaults" | "rw" | "suid" | "dev" | "exec" | "async" => continue,
            "ro" => Flag::ReadOnly,
            "nosuid" => Flag::NoSuid,
            "nodev" => Flag::NoDev,
            "noexec" => Flag::NoExec,
            "noatime" => Flag::NoAtime,
            "nodiratime" => Flag::NoDirAtime,
            "relatime" => Flag::RelAtime,
            "strictatime" => Flag::StrictAtime,
            "lazytime" => Flag::LazyTime,
            "sync" => Flag::Sync,
            "dirsync" => Flag::DirSync,
            data => {
                if !options.data.is_empty() {
                    options.data.push(',');
                }
                options.data.push_str(data);
                continue;
            }
        };
        options.flags.push(flag);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_blanks_in_their_names() {
        let text = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
                    nonsense\n\
                    37 36 8:16 / /a\\134b ro,relatime shared:7 - xfs /dev/sdb rw\n\
                    38 36 0:5 /sdc /t rw - devtmpfs udev rw,size=1k\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].point, Path::new("/mnt 2"));
        assert_eq!((mounts[0].number, mounts[0].read_only), ((98, 0), false));
        assert_eq!(mounts[1].point, Path::new("/a\\b"));
        assert!(mounts[1].read_only);
        assert_eq!(
            (mounts[2].kind.as_str(), mounts[2].root.as_path()),
            ("devtmpfs", Path::new("/sdc"))
        );
        assert_eq!(top(&mounts, Path::new("/t")), Some(&mounts[2]));
        assert_eq!(top(&mounts, Path::new("/")), None);
    }

    #[test]
    fn options_go_to_the_kernel_or_to_the_filesystem() {
        let read = options(["noatime,discard", "ro", " ", "defaults", "data=ordered"]);
        assert_eq!(read.flags, [Flag::NoAtime, Flag::ReadOnly]);
        assert_eq!(read.data, "discard,data=ordered");
    }
}
