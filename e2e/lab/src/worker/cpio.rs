//! Writes an initrd: a cpio archive of the "newc" kind (Linux, `early-userspace/buffer-format.rst`).
//!
//! Invariant: names, modes and contents decide the bytes; no times, owner root.

/// An archive that grows; the order of entries is the caller's.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inodes: u32,
}

impl Archive {
    pub(crate) fn folder(&mut self, name: &str) -> &mut Self {
        self.entry(name, 0o040_755, &[], (0, 0))
    }

    pub(crate) fn file(&mut self, name: &str, mode: u32, content: impl AsRef<[u8]>) -> &mut Self {
        self.entry(name, 0o100_000 | mode, content.as_ref(), (0, 0))
    }

    pub(crate) fn character(&mut self, name: &str, mode: u32, major: u32, minor: u32) -> &mut Self {
        self.entry(name, 0o020_000 | mode, &[], (major, minor))
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8], device: (u32, u32)) -> &mut Self {
        self.inodes += 1;
        let links = 1;
        // Fields: inode, mode, user, group, links, time, size, the disk's device, the node's device,
        // length of the name with its zero byte, checksum.
        let fields = [
            self.inodes,
            mode,
            0,
            0,
            links,
            0,
            content.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn cpio_reads_what_was_written() {
        if Command::new("cpio").arg("--version").output().is_err() {
            eprintln!("SKIPPED: cpio is not installed");
            return;
        }
        let mut archive = Archive::default();
        archive
            .folder("modules")
            .file("modules/a.ko", 0o644, b"12345")
            .file("init", 0o755, b"x");
        archive.character("console", 0o600, 5, 1);
        let mut cpio = Command::new("cpio")
            .args(["--list", "--verbose", "--numeric-uid-gid", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        cpio.stdin
            .take()
            .unwrap()
            .write_all(&archive.finish())
            .unwrap();
        let listing = cpio.wait_with_output().unwrap();
        assert!(listing.status.success());
        let listing = String::from_utf8(listing.stdout).unwrap();
        let lines: Vec<Vec<_>> = listing
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let told: Vec<_> = lines
            .iter()
            .map(|line| (line[0], line[line.len() - 1]))
            .collect();
        let expected = [
            ("drwxr-xr-x", "modules"),
            ("-rw-r--r--", "modules/a.ko"),
            ("-rwxr-xr-x", "init"),
            ("crw-------", "console"),
        ];
        assert_eq!(told, expected);
        assert_eq!(lines[1][4], "5");
    }
}
