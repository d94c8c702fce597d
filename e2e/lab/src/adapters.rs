//! Programs of Covey that some tenant clusters have beside them, or on their nodes, because an addon asks for them, and what
//! waits in the place of those that sleep.
//!
//! Invariant: their images have the names that the operator's settings, or the chart, have by default.

use std::path::Path;

use anyhow::Result;
use kit_oci::image::Image;

use crate::images;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Adapter {
    /// `ccm`, for the addon `cloudController`.
    CloudController,
    /// `csi-proxy`, for the addon `csi`.
    Csi,
    /// `autoscaler`, for the addon of this name.
    Autoscaler,
    /// `link-node`, for the addon `overlay`; nodes pull it.
    Overlay,
    /// `activator`, beside the operator.
    Activator,
}

impl Adapter {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::CloudController,
        Self::Csi,
        Self::Autoscaler,
        Self::Overlay,
        Self::Activator,
    ];

    /// Its binary.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::CloudController => "ccm",
            Self::Csi => "csi-proxy",
            Self::Autoscaler => "autoscaler",
            Self::Overlay => "link-node",
            Self::Activator => "activator",
        }
    }

    pub(crate) fn image(self, version: &str, binary: &Path) -> Result<Image> {
        let name = |image: &str| format!("ghcr.io/covey-dev/{image}:{version}");
        match self {
            Self::CloudController => images::ccm(&name("ccm"), binary),
            Self::Csi => images::csi(&name("csi"), binary),
            Self::Autoscaler => images::autoscaler(&name("autoscaler"), binary),
            Self::Overlay => images::link_node(&name("link-node"), binary),
            Self::Activator => images::activator(&name("activator"), binary),
        }
    }
}
