//! KubeVirt's images under their public names, cut from shared layers.
//!
//! Invariant: every program is where KubeVirt's manifests and its own code look for it.

use anyhow::Result;
use kit_oci::image::{File, Image, Layer};

use super::system;
use crate::{
    programs::{Bins, kubevirt::Release},
    progress::Progress,
};

/// The pods of the control programs say `runAsNonRoot`, which wants a number.
const NONROOT: u32 = 1001;
/// CAP_NET_BIND_SERVICE, which virt-launcher-monitor raises for what it starts.
const NET_BIND_SERVICE: u8 = 10;
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What virt-operator and what it installs run.
///
/// # Errors
/// `bins` lacks KubeVirt, or Debian's packages cannot be had.
pub(crate) fn all(bins: &Bins, progress: &Progress) -> Result<Vec<Image>> {
    let release = Release::of(bins);
    let mut images = Vec::new();
    let mut programs = vec!["virt-operator", "virt-api", "virt-controller"];
    if release == Release::V1_9 {
        programs.push("virt-exportproxy");
    }
    for program in programs {
        let layers = vec![Layer::Files(vec![
            File::program(format!("/usr/bin/{program}"), bins.path(program)?),
            File::text("/etc/passwd", "kubevirt:x:1001:1001::/home:/sbin/nologin\n"),
            File::text("/etc/group", "kubevirt:x:1001:\n"),
            File::directory("/tmp", 0o1777),
        ])];
        images.push(image(release, program, layers, NONROOT));
    }
    let system = system::layers(bins, progress)?;
    for (name, files) in [
        ("virt-handler", handler(bins)?),
        ("virt-launcher", launcher(release, bins)?),
    ] {
        let layers = [system.clone(), vec![Layer::Files(files)]].concat();
        images.push(image(release, name, layers, 0));
    }
    Ok(images)
}

fn image(release: Release, program: &str, layers: Vec<Layer>, user: u32) -> Image {
    Image {
        name: format!("quay.io/kubevirt/{program}:v{release}"),
        layers,
        entrypoint: vec![format!("/usr/bin/{program}")],
        command: Vec::new(),
        user,
        env: vec![PATH.to_owned()],
    }
}

fn handler(bins: &Bins) -> Result<Vec<File>> {
    ["virt-handler", "virt-chroot"]
        .into_iter()
        .map(|name| Ok(File::program(format!("/usr/bin/{name}"), bins.path(name)?)))
        .collect()
}

fn launcher(release: Release, bins: &Bins) -> Result<Vec<File>> {
    let hook = (release == Release::V1_9).then_some("libvirt-hook-client");
    [
        "container-disk",
        "node-labeller.sh",
        "virt-freezer",
        "virt-launcher",
        "virt-launcher-monitor",
        "virt-probe",
        "virt-tail",
    ]
    .into_iter()
    .chain(hook)
    .map(|name| {
        let file = File::program(format!("/usr/bin/{name}"), bins.path(name)?);
        Ok(match name {
            "virt-launcher-monitor" => file.with_capability(NET_BIND_SERVICE),
            _ => file,
        })
    })
    .collect()
}
