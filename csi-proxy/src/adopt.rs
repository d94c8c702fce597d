//! Takes volumes over from the KubeVirt CSI driver (`csi-proxy adopt`), run by an administrator.
//!
//! A PersistentVolume's driver never changes, and neither do name and namespace of a claim. So on both
//! sides a claim is made anew around storage that stays: in the management cluster the old claim goes and
//! one of ours is bound to its PersistentVolume; in the tenant cluster the old PersistentVolume goes, and
//! the claim, made anew with its name, is bound to one of ours.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`plan`] | pure: of each volume the next step, from what both APIs say now |
//! | [`make`] | pure: claims and PersistentVolumes that are made |
//! | [`observed`] | what both APIs say, as far as it concerns volumes |
//! | [`observe`], [`apply`] | reading that, and doing a step |
//! | [`report`] | what is told |
//!
//! Invariant: no PersistentVolume loses its claim while its reclaim policy is another than Retain, and
//! nothing is made by chance or clock: whoever starts again goes on.

use std::collections::BTreeMap;

pub mod apply;
pub mod make;
pub mod observe;
pub mod observed;
pub mod plan;
pub mod report;

/// The driver's name, unless another one is given.
pub const DRIVER: &str = "csi.kubevirt.io";

/// Everything that the plan depends on, besides what the APIs say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the driver that volumes are taken over from.
    pub driver: String,
    /// Namespace of the management cluster in which its claims are.
    pub namespace: String,
    /// Labels that its claims of this tenant cluster have.
    pub labels: BTreeMap<String, String>,
    /// Which class a StorageClass of the tenant cluster becomes.
    pub classes: BTreeMap<String, String>,
    /// Those of our driver.
    pub to: crate::settings::Settings,
}
