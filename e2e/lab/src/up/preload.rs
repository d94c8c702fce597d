//! Pushes images to the lab's registry and makes containerd know them, so that no first start of a
//! pod pays for a pull.
//!
//! Invariant: containerd starts serving pods only when nothing of an earlier lab's pods is left in
//! it; its images stay.

use std::time::Duration;

use anyhow::{Context, Result};
use kit_oci::image::Image;

use super::{
    options::UpOptions,
    running::{Running, wait_for},
    wanted::Wanted,
};
use crate::{
    binaries,
    config::{CONTAINERD_SOCKET, Cluster, text},
    host::{Host, Order},
    images, kubevirt,
    layout::{Layout, MANAGEMENT_HOST},
    machines::settings,
    programs::{self, Bins, KubernetesVersion, Program, kubevirt::Release},
    progress::Progress,
    run,
    slot::REGISTRY_PORT,
    state::State,
    storage,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the registry and containerd, and loads every image of the lab.
pub(super) fn all(
    running: &Running<'_>,
    options: &UpOptions,
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    running.order_start("registry")?;
    clean(running, bins)?;
    running.order_start("containerd")?;
    let mut wanted = Wanted::of_lab(bins, progress)?;
    for version in &options.tenant_versions {
        let kubevirt = options.kubevirt.is_some();
        let of_version =
            Wanted::of_version(&running.cluster.layout, bins, *version, kubevirt, progress)?;
        wanted = wanted.and(of_version);
    }
    running.wait("registry", PATIENCE, || running.listens(REGISTRY_PORT))?;
    running.wait("containerd", PATIENCE, || running.containerd_answers())?;
    if options.kubevirt.is_some() {
        wanted = wanted.and(Wanted::of_kubevirt(bins, progress)?);
    }
    if options.player {
        wanted
            .pushed
            .extend(Wanted::of_nodes(bins, &options.tenant_versions, progress)?);
    }
    if options.has_storage() {
        wanted = wanted.and(Wanted::of_storage(bins)?);
    }
    take(&running.host, running.cluster, &wanted, bins, progress)
}

/// Makes images that are not in the cache, which takes minutes, before there is a lab to hold up.
pub(crate) fn make(
    layout: &Layout,
    options: &UpOptions,
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    if options.kubevirt.is_some() {
        Wanted::of_kubevirt(bins, progress)?;
        for version in &options.tenant_versions {
            Wanted::of_version(layout, bins, *version, true, progress)?;
        }
    }
    if options.player {
        settings::prepare(layout, &options.tenant_versions, progress)?;
    }
    Ok(())
}

/// Installs KubeVirt in a lab that was brought up without it.
pub(super) fn add_kubevirt(
    layout: &Layout,
    state: &mut State,
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    let mut wanted = Wanted::of_kubevirt(bins, progress)?;
    for version in &state.tenant_versions {
        let of_version = Wanted::of_version(layout, bins, version.parse()?, true, progress)?;
        wanted = wanted.and(of_version);
    }
    let (host, cluster) = running(layout, state)?;
    take(host, &cluster, &wanted, bins, progress)?;
    kubevirt::apply(layout, bins, progress)?;
    binaries::link_tool(layout, bins, "virtctl")?;
    state.kubevirt = Some(Release::of(bins));
    state.write(layout)
}

/// Installs block storage in a lab that was brought up without it.
pub(super) fn add_storage(
    layout: &Layout,
    state: &mut State,
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    let (host, cluster) = running(layout, state)?;
    take(host, &cluster, &Wanted::of_storage(bins)?, bins, progress)?;
    storage::start(host, &cluster, bins, progress)?;
    state.storage = true;
    state.write(layout)
}

/// Pushes what runs on nodes of tenants into a lab that is up without KubeVirt, and so without those.
pub(crate) fn push_for_nodes(state: &State, progress: &Progress) -> Result<()> {
    if !state.is_up() || state.kubevirt.is_some() {
        return Ok(());
    }
    let versions = state.tenant_versions.iter().map(|version| version.parse());
    let versions = versions.collect::<Result<Vec<_>>>()?;
    let mut programs = binaries::wanted(&versions, None, false);
    programs.extend(Program::WORKERS);
    let bins = programs::ensure(&programs, progress)?;
    let wanted = Wanted::of_nodes(&bins, &versions, progress)?;
    images::ensure_pushed(&wanted, &state.slot.registry(), &bins, progress)
}

fn running<'a>(layout: &Layout, state: &'a State) -> Result<(&'a Host, Cluster)> {
    let host = state
        .hosts
        .get(MANAGEMENT_HOST)
        .context("the lab has no management host")?;
    let cluster = Cluster {
        layout: layout.clone(),
        slot: state.slot,
    };
    Ok((host, cluster))
}

/// Adds the images of further tenant versions to a lab that is up.
pub(super) fn add_versions(
    layout: &Layout,
    state: &mut State,
    versions: &[KubernetesVersion],
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    let (host, cluster) = running(layout, state)?;
    let host = host.clone();
    for version in versions {
        let wanted =
            Wanted::of_version(layout, bins, *version, state.kubevirt.is_some(), progress)?;
        take(&host, &cluster, &wanted, bins, progress)?;
        state.tenant_versions.push(version.to_string());
    }
    if state.player {
        let all = state.tenant_versions.iter().map(|version| version.parse());
        let all = all.collect::<Result<Vec<_>>>()?;
        settings::configure(layout, state.slot, &all, progress)?;
        push_for_nodes(state, progress)?;
    }
    state.write(layout)
}

fn take(
    host: &Host,
    cluster: &Cluster,
    wanted: &Wanted,
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    load(host, cluster, &wanted.pulled, bins, progress)?;
    if wanted.pushed.is_empty() {
        return Ok(());
    }
    images::ensure_pushed(&wanted.pushed, &cluster.slot.registry(), bins, progress)
}

/// Pushes `wanted` and pulls each by its public name.
pub(crate) fn load(
    host: &Host,
    cluster: &Cluster,
    wanted: &[Image],
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    images::ensure_pushed(wanted, &cluster.slot.registry(), bins, progress)?;
    let step = progress.step(format!("pulling {} images", wanted.len()));
    let ctr = text(&bins.path("ctr")?);
    let certs = cluster.config_file("certs.d");
    let result = wanted.iter().try_for_each(|image| {
        step.detail(&image.name);
        let pull = [
            "-a",
            CONTAINERD_SOCKET,
            "-n",
            "k8s.io",
            "images",
            "pull",
            "--hosts-dir",
        ];
        run::output(host.inside(&ctr, pull).args([&*certs, &*image.name]))
            .map(drop)
            .with_context(|| format!("containerd cannot pull {}", image.name))
    });
    step.finish(result)
}

/// Removes what an earlier lab's pods left in containerd, with a containerd that serves no pods.
fn clean(running: &Running<'_>, bins: &Bins) -> Result<()> {
    let data = running.cluster.layout.containerd_data(MANAGEMENT_HOST);
    if !data.join("io.containerd.metadata.v1.bolt/meta.db").exists() {
        return Ok(());
    }
    running.order_start("containerd-clean")?;
    running.wait("containerd-clean", PATIENCE, || {
        running.containerd_answers()
    })?;
    let ctr = text(&bins.path("ctr")?);
    let ctr = |args: &[&str]| {
        run::output(
            running
                .host
                .inside(&ctr, ["-a", CONTAINERD_SOCKET, "-n", "k8s.io"])
                .args(args),
        )
    };
    let containers = ctr(&["containers", "list", "--quiet"])?;
    let mut remove = vec!["containers", "remove"];
    remove.extend(containers.lines());
    if remove.len() > 2 {
        ctr(&remove)?;
    }
    running
        .host
        .order(&Order::Stop("containerd-clean".to_owned()))?;
    wait_for(
        PATIENCE,
        Duration::from_millis(10),
        || Ok(running.ended("containerd-clean").is_some()),
        || "containerd does not end".to_owned(),
    )?;
    for folder in [
        "io.containerd.grpc.v1.cri/containers",
        "io.containerd.grpc.v1.cri/sandboxes",
    ] {
        crate::down::empty(&data.join(folder))?;
    }
    Ok(())
}
