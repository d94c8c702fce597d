//! A machine without a node's programs, which are sent, by the provider's own session and scripts, with a real sshd,
//! OpenRC, kubeadm, kubelet and containerd.
//!
//! Invariant: the machine is clean at the end, and the next node needs nothing to be sent.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use api::node_pool::Architecture;
use lab::programs::{self, KubernetesVersion, Program};
use provider_static::programs::{Archive, Archives};
use sha2::{Digest as _, Sha256};

use crate::checkout::Lab;
use crate::control_plane::ControlPlane;
use crate::joining::{live, plant_pause};

/// containerd's configuration on the lab's own hosts.
const CONTAINERD: &str = "e2e/lab/src/host_root/etc/containerd/config.toml";

/// What a platform team lays ready, of the lab's programs.
fn pack(folder: &Path) -> Result<Archive> {
    let version = KubernetesVersion::default();
    let bins = programs::find(&[
        Program::CONTAINERD,
        Program::RUNC,
        Program::CNI_PLUGINS,
        Program::kubernetes(version),
    ])?;
    for name in ["bin", "cni", "containerd"] {
        fs::create_dir_all(folder.join(name))?;
    }
    for name in ["containerd", "containerd-shim-runc-v2", "ctr", "runc"] {
        fs::copy(bins.path(name)?, folder.join("bin").join(name))?;
    }
    for name in ["kubeadm", "kubelet"] {
        fs::copy(
            bins.kubernetes(name, version)?,
            folder.join("bin").join(name),
        )?;
    }
    for plugin in fs::read_dir(bins.dir(Program::CNI_PLUGINS)?)? {
        let plugin = plugin?;
        fs::copy(plugin.path(), folder.join("cni").join(plugin.file_name()))?;
    }
    let configuration = crate::support::root().join(CONTAINERD);
    fs::copy(configuration, folder.join("containerd/config.toml"))?;
    let path = folder.join("node.tar.gz");
    let packed = Command::new("tar")
        .args([
            "--use-compress-program=gzip -1",
            "--owner=0",
            "--group=0",
            "-cf",
        ])
        .arg(&path)
        .arg("-C")
        .arg(folder)
        .args(["bin", "cni", "containerd"])
        .status()?;
    ensure!(packed.success(), "tar: {packed}");
    let (mut file, mut hash) = (fs::File::open(&path)?, Sha256::new());
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    Ok(Archive {
        version: version.full().to_owned(),
        architecture: Architecture::Amd64,
        path,
        sha256: hex::encode(hash.finalize()),
    })
}

#[tokio::test]
async fn a_machine_without_programs_becomes_a_node_by_what_is_sent() -> Result<()> {
    let Some(lab) = Lab::begin("sent")? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let archives = Archives(vec![pack(folder.path())?]);
    let control_plane = ControlPlane::start(&lab).await?;
    let edge = lab.add("edge", &["--bare"])?;
    plant_pause(&lab)?;
    for (name, uid) in [
        ("w-1", "0a1b2c3d-0000-4000-8000-000000000001"),
        ("w-2", "1b2c3d4e-0000-4000-8000-000000000002"),
    ] {
        let life = live(&edge, &control_plane, (name, uid), &archives).await;
        let life = life.with_context(|| control_plane.logs())?;
        eprintln!("{name}: {life}");
    }
    drop(control_plane);
    lab.xtask(&["down"])?;
    Ok(())
}
