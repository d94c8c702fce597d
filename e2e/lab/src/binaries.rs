//! Which binaries a lab runs, and the tools that it puts into `.lab/bin`.
//!
//! Invariant: `.lab/bin` holds links and small scripts only; the binaries stay in the cache.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    cargo::{self, Build},
    config::{ProgramPaths, text},
    down,
    host::Host,
    layout::Layout,
    programs::{Bins, KubernetesVersion, Program, kubevirt::Release},
    progress::Progress,
};

/// The program of ours that every node of a lab runs.
pub(crate) const AGENT: &str = "lab-agent";
/// The version that the management cluster itself runs.
pub(crate) const MANAGEMENT_VERSION: KubernetesVersion = KubernetesVersion::V1_35;

/// Programs of every lab, and of tenants with these versions; with those that virtual machines and
/// addons need with `kubevirt`, and those of volumes if `storage`.
pub(crate) fn wanted(
    tenants: &[KubernetesVersion],
    kubevirt: Option<Release>,
    storage: bool,
) -> Vec<Program> {
    let mut programs: Vec<Program> = Program::BASIC.to_vec();
    if let Some(release) = kubevirt {
        programs.push(release.program());
        programs.extend(Program::WORKERS);
    }
    if storage {
        programs.extend(Program::STORAGE);
    }
    let mut versions = tenants.to_vec();
    versions.push(MANAGEMENT_VERSION);
    versions.sort_unstable();
    versions.dedup();
    programs.extend(versions.into_iter().map(Program::kubernetes));
    programs
}

/// Where the binaries of the management host are; `lab-agent` when it was built before.
pub(crate) fn paths(layout: &Layout, bins: &Bins) -> Result<ProgramPaths> {
    let mut binaries = BTreeMap::new();
    for name in [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
    ] {
        binaries.insert(name.to_owned(), bins.kubernetes(name, MANAGEMENT_VERSION)?);
    }
    binaries.insert(
        "kube-proxy".into(),
        bins.kubernetes("kube-proxy", MANAGEMENT_VERSION)?,
    );
    for name in ["etcd", "containerd", "runc", "crane"] {
        binaries.insert(name.to_owned(), bins.path(name)?);
    }
    binaries.insert(AGENT.to_owned(), agent(layout));
    Ok(ProgramPaths {
        binaries,
        cni: bins.dir(Program::CNI_PLUGINS)?.to_path_buf(),
    })
}

fn agent(layout: &Layout) -> PathBuf {
    layout.root().join("run/lab-agent")
}

/// The copy of this program that a host's first process runs: a rebuild does not touch it.
pub(crate) fn supervisor(layout: &Layout) -> Result<PathBuf> {
    let copy = layout.supervisor();
    // Not by its name: cargo replaces the file when the tests build it with other features.
    let own = PathBuf::from("/proc/self/exe");
    install(&own, &copy)?;
    Ok(copy)
}

/// Builds `lab-agent` of this checkout and puts a copy of it where the host starts it.
pub(crate) fn build_agent(layout: &Layout, build: Build, progress: &Progress) -> Result<()> {
    let built = cargo::build(layout, &[AGENT], build, progress)?;
    let built = built.get(AGENT).context("cargo built no lab-agent")?;
    install(built, &agent(layout))
}

/// Copies beside and renames: the old file may be running.
pub(crate) fn install(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a path without folder")?;
    fs::create_dir_all(folder)?;
    let new = to.with_extension("new");
    fs::copy(from, &new).with_context(|| format!("{}: cannot be copied", from.display()))?;
    fs::rename(&new, to)?;
    Ok(())
}

/// Fills `.lab/bin`.
pub(crate) fn link_tools(layout: &Layout, bins: &Bins, host: &Host) -> Result<()> {
    let folder = layout.bin();
    down::empty(&folder)?;
    for tool in ["etcdutl", "crane", "helm"] {
        symlink(bins.path(tool)?, folder.join(tool))?;
    }
    if bins.path("virtctl").is_ok() {
        link_tool(layout, bins, "virtctl")?;
    }
    for tool in ["kubectl", "kubeadm"] {
        symlink(
            bins.kubernetes(tool, MANAGEMENT_VERSION)?,
            folder.join(tool),
        )?;
    }
    // Their sockets and certificates are the host's.
    let enter = format!("exec nsenter -t {} -n -m -u -p --", host.init.pid);
    script(
        &folder.join("ctr"),
        &format!(
            "{enter} {:?} -n \"${{CONTAINERD_NAMESPACE:-k8s.io}}\" \"$@\"",
            bins.path("ctr")?
        ),
    )?;
    let pki = layout.pki();
    let [ca, certificate, key] =
        ["etcd-ca.crt", "etcd-client.crt", "etcd-client.key"].map(|name| text(&pki.join(name)));
    script(
        &folder.join("etcdctl"),
        &format!(
            "{enter} {:?} --endpoints=https://127.0.0.1:2379 --cacert={ca:?} --cert={certificate:?} \
             --key={key:?} \"$@\"",
            bins.path("etcdctl")?
        ),
    )
}

/// Adds or replaces one tool in `.lab/bin`.
pub(crate) fn link_tool(layout: &Layout, bins: &Bins, tool: &str) -> Result<()> {
    let place = layout.tool(tool);
    let new = place.with_extension("new");
    symlink(bins.path(tool)?, &new)?;
    fs::rename(new, place)?;
    Ok(())
}

fn script(path: &Path, command: &str) -> Result<()> {
    fs::write(path, format!("#!/bin/sh\n{command}\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
