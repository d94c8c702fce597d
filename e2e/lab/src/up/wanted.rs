//! Which images a lab has.
//!
//! Invariant: what the node may start is pulled, so that no first start pays for it; what only
//! machines of tenants start is pushed, because they pull for themselves.

use anyhow::Result;
use kit_oci::image::Image;

use crate::{
    binaries, images, kubevirt,
    layout::Layout,
    packages,
    programs::{Bins, KubernetesVersion},
    progress::Progress,
    worker,
};

/// Images by what is done with them.
#[derive(Default)]
pub(super) struct Wanted {
    /// By the node, too.
    pub(super) pulled: Vec<Image>,
    /// To the registry alone.
    pub(super) pushed: Vec<Image>,
}

impl Wanted {
    /// Those of every lab.
    pub(super) fn of_lab(bins: &Bins, progress: &Progress) -> Result<Self> {
        packages::ensure(&packages::IMAGES, progress)?;
        Ok(Self {
            pulled: vec![
                images::pause(bins)?,
                images::coredns(bins)?,
                images::etcd(bins)?,
                images::konnectivity_server(bins)?,
                images::testbox(bins, binaries::MANAGEMENT_VERSION)?,
            ],
            pushed: Vec::new(),
        })
    }

    /// Those of KubeVirt and of what runs in machines of any version. What is not in the cache is
    /// made, which takes minutes the first time.
    pub(super) fn of_kubevirt(bins: &Bins, progress: &Progress) -> Result<Self> {
        let mut pulled = kubevirt::images(bins, progress)?;
        pulled.push(kubevirt::testmachine(progress)?);
        Ok(Self {
            pulled,
            pushed: Self::of_nodes(bins, &[], progress)?,
        })
    }

    /// Those of pods on nodes of tenants of these versions, whatever the nodes are.
    pub(super) fn of_nodes(
        bins: &Bins,
        versions: &[KubernetesVersion],
        progress: &Progress,
    ) -> Result<Vec<Image>> {
        packages::ensure(&packages::FLANNEL, progress)?;
        let mut images = vec![
            images::konnectivity_agent(bins)?,
            images::flannel(bins)?,
            images::testserver(bins)?,
        ];
        for version in versions {
            images.push(images::kube_proxy(bins, *version)?);
        }
        Ok(images)
    }

    /// The stock sidecars of CSI.
    pub(super) fn of_storage(bins: &Bins) -> Result<Self> {
        Ok(Self {
            pulled: images::csi_sidecars(bins)?,
            pushed: Vec::new(),
        })
    }

    /// Those of tenants of a version; with their machines' if `kubevirt`.
    pub(super) fn of_version(
        layout: &Layout,
        bins: &Bins,
        version: KubernetesVersion,
        kubevirt: bool,
        progress: &Progress,
    ) -> Result<Self> {
        let mut wanted = Self {
            pulled: images::control_plane(bins, version)?,
            pushed: Vec::new(),
        };
        if kubevirt {
            wanted
                .pulled
                .push(worker::image(layout, bins, version, progress)?);
            wanted.pushed.push(images::kube_proxy(bins, version)?);
        }
        Ok(wanted)
    }

    pub(super) fn and(mut self, more: Self) -> Self {
        self.pulled.extend(more.pulled);
        self.pushed.extend(more.pushed);
        self
    }
}
