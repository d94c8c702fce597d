//! The lab's worker image: a containerDisk with Debian, containerd and the kubelet of one version,
//! and the kernel that it is booted with.
//!
//! It is trimmed for one thing: being a node soon after power-on under emulation. `docs/benchmarks.md`
//! says what each part of that gained. Invariant: the image is a function of this folder, the
//! programs and Debian's packages; it depends on no lab's addresses.

pub(crate) mod cpio;
mod disk;
pub(crate) mod kernel;
mod preload;
pub(crate) mod tree;

pub(crate) use tree::TREE;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use kit_oci::image::{File, Image, Layer};
use kit_oci::layout;
use sha2::{Digest as _, Sha256};

use crate::{
    cache::cache_dir,
    cached::{Folder, Key},
    cargo::{self, Build},
    images,
    layout::Layout,
    packages,
    programs::{Bins, KubernetesVersion, Program},
    progress::{Progress, Step},
    run,
};

/// The kernel in the image, uncompressed.
pub const KERNEL: &str = "/boot/vmlinux";
/// Its initrd.
pub const INITRD: &str = "/boot/initrd.img";
/// The kernel's arguments. Under emulation there is one clock for all processors (`tsc=reliable`),
/// nobody to protect by detours (`mitigations`), and self-tests and security modules take longer
/// than what they look at.
pub const KERNEL_ARGUMENTS: &str = "root=/dev/vda rw console=ttyS0 quiet panic=10 tsc=reliable \
     mitigations=off cryptomgr.notests apparmor=0 lsm=capability audit=0 init_on_alloc=0";
/// KubeVirt's user, to whom disks belong.
const QEMU: u32 = 107;

/// The program of ours that a machine starts first.
pub(crate) const INIT: &str = "worker-init";
/// Static: it runs where there are no libraries.
pub(crate) const INIT_BUILD: Build = Build::Release;

/// Raised when the way of building changes in a manner that no input shows.
const RECIPE: &str = "1";
/// What builds it.
const PACKAGES: [&str; 5] = ["e2fsprogs", "kmod", "lz4", "procps", "qemu-utils"];

/// The programs that the image of `version` is made of.
#[must_use]
pub fn programs(version: KubernetesVersion) -> Vec<Program> {
    let mut programs = vec![
        Program::kubernetes(version),
        Program::CONTAINERD,
        Program::RUNC,
        Program::CNI_PLUGINS,
    ];
    programs.extend([Program::PAUSE, Program::COREDNS]);
    programs.extend([Program::KONNECTIVITY, Program::FLANNEL, Program::TESTSERVER]);
    programs
}

/// `ghcr.io/covey-dev/worker:v<version>`: `/disk/disk.img`, [`KERNEL`] and [`INITRD`]. Built when it
/// is not in the cache: Debian once for all versions, then half a minute.
///
/// # Errors
/// `bins` lacks one of [`programs`], a package for the build cannot be had, or a tool failed.
pub fn image(
    layout: &Layout,
    bins: &Bins,
    version: KubernetesVersion,
    progress: &Progress,
) -> Result<Image> {
    packages::ensure(&PACKAGES, progress)?;
    packages::ensure(&packages::IMAGES, progress)?;
    packages::ensure(&packages::FLANNEL, progress)?;
    let parts = Parts {
        bins,
        version,
        debian: TREE.ensure(progress)?,
        init: build_init(layout, progress)?,
        preloaded: preloaded(bins, version)?,
    };
    let kernel = parts.kernel()?.ensure(progress, |into, step| {
        kernel::extract(&parts.debian, &into.join("vmlinux"), step)?;
        kernel::initrd(&parts.debian, &parts.init, &into.join("initrd.img"))
    })?;
    let disk = parts
        .disk()?
        .ensure(progress, |into, step| parts.build_disk(into, step))?;
    let file = |path: &str, from: PathBuf| File::data(path, from).owned_by(QEMU);
    let boot = vec![
        file(KERNEL, kernel.join("vmlinux")),
        file(INITRD, kernel.join("initrd.img")),
    ];
    Ok(Image {
        name: format!("ghcr.io/covey-dev/worker:v{version}"),
        layers: vec![
            Layer::Files(boot),
            Layer::Files(vec![file("/disk/disk.img", disk.join("disk.img"))]),
        ],
        entrypoint: Vec::new(),
        command: Vec::new(),
        user: QEMU,
        env: Vec::new(),
    })
}

/// What a node starts first, so that no start waits for a pull.
fn preloaded(bins: &Bins, version: KubernetesVersion) -> Result<Vec<Image>> {
    Ok(vec![
        images::pause(bins)?,
        images::kube_proxy(bins, version)?,
        images::coredns(bins)?,
        images::konnectivity_agent(bins)?,
        images::flannel(bins)?,
        images::testserver(bins)?,
    ])
}

/// A machine's first program.
pub(crate) fn build_init(layout: &Layout, progress: &Progress) -> Result<PathBuf> {
    let mut built = cargo::build(layout, &[INIT], INIT_BUILD, progress)?;
    built.remove(INIT).context("cargo built no worker-init")
}

/// All that an image is made of.
struct Parts<'a> {
    bins: &'a Bins,
    version: KubernetesVersion,
    debian: PathBuf,
    init: PathBuf,
    preloaded: Vec<Image>,
}

impl Parts<'_> {
    fn key(&self) -> Result<Key> {
        let mut key = Key::default();
        key.add(RECIPE).add(
            self.debian
                .file_name()
                .unwrap_or_default()
                .as_encoded_bytes(),
        );
        key.add(Sha256::digest(fs::read(&self.init)?));
        Ok(key)
    }

    fn kernel(&self) -> Result<Folder<'_>> {
        Ok(Folder {
            kind: "worker",
            name: "kernel",
            key: self.key()?.text(),
            doing: "unpacking the workers' kernel".to_owned(),
            expect: "",
        })
    }

    fn disk(&self) -> Result<Folder<'_>> {
        let mut key = self.key()?;
        for (path, content) in tree::FILES.iter().chain(tree::LINKS) {
            key.add(path).add(content);
        }
        for (target, units) in tree::WANTS {
            key.add(target).add(units.join(" "));
        }
        for program in programs(self.version) {
            let dir = self.bins.dir(program)?;
            key.add(dir.file_name().unwrap_or_default().as_encoded_bytes());
        }
        for image in &self.preloaded {
            let layout = layout::write(image, &cache_dir()?.join("images"))?;
            key.add(&image.name).add(layout.digest);
        }
        Ok(Folder {
            kind: "worker",
            name: self.version.full(),
            key: key.text(),
            doing: format!("building the worker image of Kubernetes {}", self.version),
            expect: "about 30 s",
        })
    }

    fn build_disk(&self, into: &Path, step: &mut Step) -> Result<()> {
        let root = into.join("root");
        step.detail("copying Debian");
        run::output(
            run::command("cp", ["--archive"])
                .arg(&self.debian)
                .arg(&root),
        )?;
        tree::trim(&root)?;
        let kernel = kernel::version(&root)?;
        tree::trim_modules(&root.join("usr/lib/modules").join(&kernel))?;
        run::output(
            run::command("depmod", ["--basedir"])
                .arg(root.join("usr"))
                .arg(&kernel),
        )?;
        self.install(&root)?;
        let scratch = into.join("scratch");
        fs::create_dir(&scratch)?;
        preload::import(&self.preloaded, &root, &scratch, self.bins, step)?;
        fs::remove_dir_all(&scratch)?;
        step.detail("writing the disk");
        disk::pack(&root, &into.join("disk.img"), step)?;
        fs::remove_dir_all(&root).context("the tree cannot be removed")
    }

    /// The programs of a node.
    fn install(&self, root: &Path) -> Result<()> {
        let bin = root.join("usr/local/bin");
        let copy = |from: &Path, to: PathBuf| -> Result<()> {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::copy(from, &to).with_context(|| format!("{} cannot be copied", from.display()))?;
            Ok(())
        };
        for name in ["kubelet", "kubeadm"] {
            copy(&self.bins.kubernetes(name, self.version)?, bin.join(name))?;
        }
        for name in ["containerd", "containerd-shim-runc-v2", "ctr", "runc"] {
            copy(&self.bins.path(name)?, bin.join(name))?;
        }
        for plugin in fs::read_dir(self.bins.dir(Program::CNI_PLUGINS)?)? {
            let plugin = plugin?;
            copy(
                &plugin.path(),
                root.join("opt/cni/bin").join(plugin.file_name()),
            )?;
        }
        copy(&self.init, root.join("usr/local/sbin/worker-init"))?;
        Ok(())
    }
}
