//! Applies `/etc/sysctl.d/*.conf`, as `systemd-sysctl` would.
//!
//! Invariant: a setting that this kernel does not have keeps no other from being applied.

use std::{fs, path::Path};

use anyhow::{Context as _, Error, Result};

/// Applies what `folder` holds to `kernel` (`/proc/sys`); what failed comes back.
pub(crate) fn apply(folder: &Path, kernel: &Path) -> Vec<Error> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "conf"))
        .collect();
    files.sort();
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let settings: Vec<_> = texts.flat_map(|text| settings(&text)).collect();
    let set = |(name, value): (String, String)| -> Result<()> {
        let file = kernel.join(&name);
        fs::write(&file, value).with_context(|| format!("{} cannot be set", file.display()))
    };
    settings
        .into_iter()
        .filter_map(|setting| set(setting).err())
        .collect()
}

/// Paths below /proc/sys and their values.
fn settings(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.starts_with(['#', ';']))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().replace('.', "/"), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_applied_but_for_those_that_the_kernel_lacks() {
        let (etc, kernel) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(kernel.path().join("net/ipv4")).unwrap();
        fs::write(
            etc.path().join("worker.conf"),
            "# why\nnet.bridge.none = 1\n\nnet.ipv4.ip_forward = 1\n",
        )
        .unwrap();
        fs::write(etc.path().join("README"), "net.ipv4.x = 1").unwrap();
        let failures = apply(etc.path(), kernel.path());
        assert_eq!(failures.len(), 1);
        assert!(failures[0].to_string().contains("net/bridge/none"));
        let set = fs::read_to_string(kernel.path().join("net/ipv4/ip_forward")).unwrap();
        assert_eq!(set, "1");
        assert!(!kernel.path().join("net/ipv4/x").exists());
    }
}
