//! Writes a layer as a tar archive (POSIX.1-1988 `ustar`), always the same for the same files.
//!
//! Invariant: nothing but paths, modes, owners, capabilities, link targets and contents decides the
//! bytes: sorted names, one time for all, no sparse files. Only a file with a capability has an extended
//! header (POSIX.1-2001 `pax`), because `ustar` has no field for it.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use anyhow::{Context as _, bail};
use flate2::{Compression, GzBuilder, write::GzEncoder};

use crate::image::{File, Source};

const BLOCK: u64 = 512;
/// The size field has eleven octal digits.
const LARGEST: u64 = 0o777_7777_7777;
/// The fields of owners have seven.
const LARGEST_OWNER: u32 = 0o777_7777;

/// Writes `files` with every directory above them. `seconds` since 1970 is the time of all of them.
///
/// # Errors
/// A path is none, or is there twice; a source is missing; `to` cannot be written.
pub fn write(files: &[File], seconds: u64, to: &mut impl Write) -> anyhow::Result<()> {
    for (path, file) in entries(files)? {
        add(&path, &file, seconds, to)
            .with_context(|| format!("/{path} cannot be put into the layer"))?;
    }
    to.write_all(&[0; 2 * BLOCK as usize])?;
    Ok(())
}

/// The same, packed by gzip.
///
/// # Errors
/// As [`write`].
pub fn gzip(files: &[File], seconds: u64, to: &mut impl Write) -> anyhow::Result<()> {
    let mut packer = packer(to);
    write(files, seconds, &mut packer)?;
    packer.finish()?;
    Ok(())
}

/// Its header has neither a name nor a time nor a system (RFC 1952), so that nothing but the content decides the bytes.
pub(crate) fn packer<W: Write>(to: W) -> GzEncoder<W> {
    const UNKNOWN_SYSTEM: u8 = 255;
    let header = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
    header.write(to, Compression::new(6))
}

/// Archive paths (relative, directories without a slash) in the order of the archive: a directory
/// comes before what is in it, because it is a prefix of its path.
fn entries(files: &[File]) -> anyhow::Result<BTreeMap<String, File>> {
    let mut entries = BTreeMap::new();
    for file in files {
        let Some(path) = file.path.strip_prefix('/') else {
            bail!("{:?} is not absolute", file.path);
        };
        let clean = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !path.split('/').all(clean) {
            bail!("{:?} is not a plain path", file.path);
        }
        for (slash, _) in path.match_indices('/') {
            let above = path[..slash].to_owned();
            entries
                .entry(above)
                .or_insert_with_key(|above| File::directory(format!("/{above}"), 0o755));
        }
        let previous = entries.insert(path.to_owned(), file.clone());
        match previous {
            // A directory that was only implied, and is now described.
            Some(File {
                source: Source::Directory,
                ..
            }) if file.source == Source::Directory => {}
            Some(_) => bail!("{:?} is in the layer twice", file.path),
            None => {}
        }
    }
    let above_a_file = entries.iter().find_map(|(path, file)| {
        let is_file = file.source != Source::Directory;
        let below = format!("{path}/");
        (is_file && entries.keys().any(|other| other.starts_with(&below))).then_some(path)
    });
    match above_a_file {
        Some(path) => bail!("\"/{path}\" is a file and has files below it"),
        None => Ok(entries),
    }
}

fn add(path: &str, file: &File, seconds: u64, to: &mut impl Write) -> anyhow::Result<()> {
    if let Some(number) = file.capability {
        extended(path, &capability(number)?, seconds, to)?;
    }
    match &file.source {
        Source::Directory => {
            to.write_all(&header(&format!("{path}/"), file, 0, b'5', "", seconds)?)?;
        }
        Source::Link(target) => to.write_all(&header(path, file, 0, b'2', target, seconds)?)?,
        Source::Bytes(bytes) => {
            to.write_all(&header(path, file, bytes.len() as u64, b'0', "", seconds)?)?;
            content(&mut bytes.as_slice(), bytes.len() as u64, to)?;
        }
        Source::Path(from) => {
            let mut from_file = std::fs::File::open(from)
                .with_context(|| format!("{} cannot be read", from.display()))?;
            let size = from_file.metadata()?.len();
            to.write_all(&header(path, file, size, b'0', "", seconds)?)?;
            content(&mut from_file, size, to)
                .with_context(|| format!("{} changed while it was read", from.display()))?;
        }
    }
    Ok(())
}

fn content(from: &mut impl Read, size: u64, to: &mut impl Write) -> anyhow::Result<()> {
    let copied = std::io::copy(&mut from.take(size), to)?;
    if copied != size {
        bail!("it has {copied} of {size} bytes");
    }
    let padding = size.next_multiple_of(BLOCK) - size;
    to.write_all(&vec![0; padding as usize])?;
    Ok(())
}

/// The extended attribute `security.capability` of a program that gets one capability, permitted and
/// effective: `struct vfs_cap_data` of revision 2 (Linux, `include/uapi/linux/capability.h`).
fn capability(number: u8) -> anyhow::Result<[u8; 20]> {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    if number >= 32 {
        bail!("capability {number} is not among the first 32");
    }
    let mut attribute = [0; 20];
    attribute[..4].copy_from_slice(&REVISION_2_EFFECTIVE.to_le_bytes());
    attribute[4..8].copy_from_slice(&(1_u32 << number).to_le_bytes());
    Ok(attribute)
}

/// A pax header for the entry that follows. The attribute's keyword is the one that GNU tar and
/// containerd read.
fn extended(path: &str, attribute: &[u8], seconds: u64, to: &mut impl Write) -> anyhow::Result<()> {
    let keyword = " SCHILY.xattr.security.capability=";
    let rest = keyword.len() + attribute.len() + 1;
    // The length counts its own digits.
    let mut length = rest + 1;
    while length.to_string().len() + rest != length {
        length += 1;
    }
    let record = [
        length.to_string().as_bytes(),
        keyword.as_bytes(),
        attribute,
        b"\n",
    ]
    .concat();
    let name = path.rsplit('/').next().unwrap_or(path);
    let described = File::text(format!("/PaxHeaders/{name}"), "");
    let size = record.len() as u64;
    to.write_all(&header(
        &described.path[1..],
        &described,
        size,
        b'x',
        "",
        seconds,
    )?)?;
    content(&mut record.as_slice(), size, to)
}

/// One header block. Offsets are those of POSIX's `ustar` table.
fn header(
    path: &str,
    file: &File,
    size: u64,
    kind: u8,
    link: &str,
    seconds: u64,
) -> anyhow::Result<[u8; 512]> {
    if size > LARGEST {
        bail!("{size} bytes are more than a tar archive can say");
    }
    if seconds > LARGEST {
        bail!("{seconds} is later than a tar archive can say");
    }
    if file.owner > LARGEST_OWNER {
        bail!(
            "owner {} is a larger number than a tar archive can say",
            file.owner
        );
    }
    let (prefix, name) = split(path)?;
    let mut block = [0; BLOCK as usize];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{:07o}", file.mode & 0o7777).as_bytes());
    put(108, format!("{:07o}", file.owner).as_bytes()); // user
    put(116, format!("{:07o}", file.owner).as_bytes()); // group
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{seconds:011o}").as_bytes());
    put(148, b"        "); // the checksum counts itself as spaces
    put(156, &[kind]);
    if link.len() > 100 {
        bail!(
            "a link's target has at most 100 bytes, this one {}",
            link.len()
        );
    }
    put(157, link.as_bytes());
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().copied().map(u32::from).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

/// A path of up to 255 bytes as prefix (up to 155) and name (up to 100), split at a slash.
fn split(path: &str) -> anyhow::Result<(&str, &str)> {
    if path.len() <= 100 {
        return Ok(("", path));
    }
    path.match_indices('/')
        .map(|(slash, _)| (&path[..slash], &path[slash + 1..]))
        .find(|(prefix, name)| prefix.len() <= 155 && (1..=100).contains(&name.len()))
        .context("its path is too long for a tar archive")
}

#[cfg(test)]
mod tests;
