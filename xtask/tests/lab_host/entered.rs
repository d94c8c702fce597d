//! A host in the network namespace of somebody else, as a played machine is in that of its pod. It needs root and
//! nothing else.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Result, bail};
use lab::host::{Host, HostSpec, Order};
use lab::run;
use testkit::programs::or_skip;

use crate::control_plane::until;

/// Whose network it is; ends with its value.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn namespace(pid: u32, kind: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()
}

fn spec(folder: &Path, network: &str) -> HostSpec {
    HostSpec {
        hostname: "entered".to_owned(),
        folder: folder.to_path_buf(),
        root: Vec::new(),
        network: Some(network.into()),
        copy_on_write: Vec::new(),
        in_memory: Vec::new(),
        binds: Vec::new(),
        keep: Vec::new(),
        pretended_sysctls: Default::default(),
        network_sysctls: [("ipv4/ip_forward".to_owned(), "1".to_owned())].into(),
        cgroup_join: Vec::new(),
    }
}

#[tokio::test]
async fn a_host_may_have_the_network_of_another_and_nothing_else_of_it() -> Result<()> {
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let able = match is_root {
        true => Ok(()),
        false => Err(anyhow::anyhow!("it needs root")),
    };
    if or_skip(able)?.is_none() {
        return Ok(());
    }
    let own = std::process::id();
    let other = Command::new("unshare")
        .args(["--net", "sleep", "infinity"])
        .spawn()?;
    let other = Other(other);
    let pid = other.0.id();
    until("it has a network of its own", || {
        namespace(pid, "net") != namespace(own, "net")
    })
    .await?;
    let folder = tempfile::tempdir()?;
    let network = format!("/proc/{pid}/ns/net");
    let program = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let log = folder.path().join("supervisor.log");
    let host = Host::start(&spec(folder.path(), &network), program, &log)?;
    let first = u32::try_from(host.init.pid)?;
    let same = |kind: &str, other: u32| namespace(first, kind) == namespace(other, kind);
    let of_other = ["net", "mnt", "pid", "uts"].map(|kind| same(kind, pid));
    let flag = "/proc/sys/net/ipv4/ip_forward";
    let inside = run::output(&mut host.inside("cat", [flag]));
    host.order(&Order::Shutdown)?;
    until("it ended", || !host.is_alive()).await?;
    assert_eq!(of_other, [true, false, false, false]);
    assert_eq!(inside?.trim(), "1");
    // What was set is the other's, and outlives the host.
    let enter = [&format!("--net={network}"), "cat", flag];
    let outside = run::output(&mut run::command("nsenter", enter))?;
    assert_eq!(outside.trim(), "1");
    let gone = Host::start(
        &spec(folder.path(), "/proc/self/ns/no-such-network"),
        program,
        &log,
    );
    let Err(error) = gone else {
        bail!("it started in a network that is not there")
    };
    assert!(
        format!("{error:#}").contains("no-such-network"),
        "{error:#}"
    );
    Ok(())
}
