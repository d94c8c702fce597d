//! Names of members, for a process of etcd alone: a file of hosts in a mount namespace of its own.
//!
//! etcd resolves them where it compares URLs of peers, as a member does that starts beside others, and waits 30 s for a name
//! that it does not find (`urlsEqual` of etcd `pkg/netutil/netutil.go`, 3.6).
//! Invariant: nobody is dialled there, which is the proxy's to do; no two members have one address.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Result;

use super::MEMBERS;

/// Arguments of `env` that begin a program which finds the members by name, as a file in this folder says; whoever is not root begins it as it is.
pub(super) fn resolving(folder: &Path) -> Result<Vec<String>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(Vec::new());
    }
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for seat in 0..MEMBERS {
        writeln!(hosts, "127.0.0.{} etcd-{seat}", 100 + seat)?;
    }
    let file = folder.join("hosts");
    std::fs::write(&file, hosts)?;
    let mount = format!(
        "mount --bind {} /etc/hosts && exec env \"$@\"",
        file.display()
    );
    let begin = ["unshare", "--mount", "--", "sh", "-c", &mount, "sh"];
    Ok(begin.map(str::to_owned).to_vec())
}
