//! Sets one instance up: name, hosts, keys, files; and leaves `runcmd` for later in the boot.
//!
//! Invariant: files appear in the order of the user data, each whole and with its mode from the
//! first byte on; the marker of the instance is written last.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Error, Result, anyhow, bail};

use crate::{
    shell,
    user_data::{FileToWrite, MetaData, UserData},
};

/// The script that a later unit runs, when the network is up and containerd runs.
const RUNCMD: &str = "run/worker-init/runcmd";
/// Which instance was set up: a reboot of the same one repeats nothing.
const DONE: &str = "var/lib/worker-init/instance-id";

/// The machine's files; another root in tests.
pub(crate) struct Instance {
    root: PathBuf,
}

impl Instance {
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Does it all; what failed comes back.
    pub(crate) fn set_up(&self, meta: &MetaData, data: &UserData) -> Vec<Error> {
        let mut failures = Vec::new();
        let mut note = |what: &str, result: Result<()>| {
            failures.extend(result.err().map(|error| error.context(what.to_owned())));
        };
        note("bootcmd", self.bootcmd(data));
        if let Some(name) = data.hostname(meta) {
            note("hostname", self.name(&name));
            if data.manages_hosts() {
                note("manage_etc_hosts", self.hosts(&name));
            }
        }
        if self.is_done(meta) {
            return failures;
        }
        note("ssh_authorized_keys", self.keys(&data.keys()));
        for file in &data.write_files {
            note(&format!("write_files: {}", file.path), self.write(file));
        }
        if !data.runcmd.is_empty() {
            let script = shell::script(&data.runcmd);
            note("runcmd", self.put(RUNCMD, script.as_bytes(), 0o700));
        }
        note(
            "instance",
            self.put(DONE, meta.instance_id.as_bytes(), 0o644),
        );
        failures
    }

    fn is_done(&self, meta: &MetaData) -> bool {
        let done = fs::read_to_string(self.root.join(DONE));
        done.is_ok_and(|done| done == meta.instance_id)
    }

    fn bootcmd(&self, data: &UserData) -> Result<()> {
        if data.bootcmd.is_empty() {
            return Ok(());
        }
        let mut shell = Command::new("/bin/sh");
        let status = shell
            .args(["-c", &shell::script(&data.bootcmd)])
            .current_dir(&self.root)
            .status()?;
        if !status.success() {
            bail!("its last command ended with {status}");
        }
        Ok(())
    }

    fn name(&self, name: &str) -> Result<()> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.len() > 63 || !name.chars().all(legal) {
            bail!("{name:?} is no host name: letters, digits and hyphens, at most 63");
        }
        self.put("etc/hostname", format!("{name}\n").as_bytes(), 0o644)?;
        if self.root == Path::new("/") {
            fs::write("/proc/sys/kernel/hostname", name)?;
        }
        Ok(())
    }

    /// The name leads to the machine itself, so that nobody asks a server for it.
    fn hosts(&self, name: &str) -> Result<()> {
        let path = self.root.join("etc/hosts");
        let before = fs::read_to_string(&path).unwrap_or_default();
        let others = before
            .lines()
            .filter(|line| line.split_whitespace().next() != Some("127.0.1.1"));
        let mut hosts: Vec<_> = others.map(str::to_owned).collect();
        hosts.push(format!("127.0.1.1 {name}\n"));
        self.put("etc/hosts", hosts.join("\n").as_bytes(), 0o644)
    }

    fn keys(&self, keys: &[String]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let folder = self.root.join("root/.ssh");
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        let lines: String = keys.iter().map(|key| format!("{}\n", key.trim())).collect();
        self.put("root/.ssh/authorized_keys", lines.as_bytes(), 0o600)
    }

    fn write(&self, file: &FileToWrite) -> Result<()> {
        if !file.is_roots() {
            bail!("its owner is not known here: root owns what is written");
        }
        let Some(path) = file.path.strip_prefix('/') else {
            bail!("the path is not absolute");
        };
        let mut content = file.bytes()?;
        if file.append {
            let before = fs::read(self.root.join(path)).unwrap_or_default();
            content.splice(0..0, before);
        }
        self.put(path, &content, file.mode()?)
    }

    /// Beside and renamed: whoever waits for the file finds it whole.
    fn put(&self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        let path = self.root.join(path);
        let folder = path.parent().ok_or_else(|| anyhow!("no folder"))?;
        fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".worker-init");
        let new = folder.join(name);
        let _ = fs::remove_file(&new);
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .with_context(|| format!("{} cannot be made", new.display()))?;
        file.write_all(content)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&new, &path).with_context(|| format!("{} cannot be made", path.display()))
    }
}

#[cfg(test)]
mod tests;
