//! The programs of the lab: which there are, building what is missing, finding what was built.
//!
//! Invariant: a program's folder in the cache is complete or absent. Its name carries a hash of
//! everything that decides its content, so what is found is what this checkout asks for.

mod build;
mod catalogue;
pub(crate) mod kubernetes;
pub mod kubevirt;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

pub use kubernetes::KubernetesVersion;

use crate::progress::Progress;
use build::Go;
use catalogue::Catalogue;

/// A program of `e2e/lab/programs/programs.toml`: one Go module of ours and the binaries from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Program(&'static str);

impl Program {
    /// `etcd`, `etcdctl`, `etcdutl`.
    pub const ETCD: Self = Self("etcd");
    /// `etcd` of the next minor: what an upgrade leads to. No lab runs it.
    pub const ETCD_3_7: Self = Self("etcd-3.7");
    /// `containerd`, `containerd-shim-runc-v2`, `ctr`.
    pub const CONTAINERD: Self = Self("containerd");
    /// `runc`.
    pub const RUNC: Self = Self("runc");
    /// `bridge`, `ptp`, `loopback`, `host-local`, `portmap`: a CNI `bin_dir`.
    pub const CNI_PLUGINS: Self = Self("cni-plugins");
    /// `crane`, which is a registry (`crane registry serve`) and pushes to one.
    pub const REGISTRY: Self = Self("registry");
    /// `coredns`.
    pub const COREDNS: Self = Self("coredns");
    /// `helm`.
    pub const HELM: Self = Self("helm");
    /// `pause`, of our own.
    pub const PAUSE: Self = Self("pause");
    /// The newest KubeVirt: `virt-operator` and what it installs, `virtctl`, the static
    /// `container-disk`, and `manifests` of our own, which prints what the release's manifests are made
    /// of.
    pub const KUBEVIRT: Self = Self("kubevirt");
    /// The same of an older minor, without `virt-exportproxy` and `libvirt-hook-client`.
    pub const KUBEVIRT_1_6: Self = Self("kubevirt-1.6");
    /// `proxy-server` and `proxy-agent`.
    pub const KONNECTIVITY: Self = Self("konnectivity");
    /// `flanneld`.
    pub const FLANNEL: Self = Self("flannel");
    /// `testserver`, of our own: what the suites run in pods of tenant clusters.
    pub const TESTSERVER: Self = Self("testserver");
    /// The stock sidecars of CSI, each under the name of its image, and the definitions of the kinds of
    /// snapshots, each under its plural.
    pub const CSI: Self = Self("csi");
    /// `cloud-provider`: the controllers of k8s.io/cloud-provider with a cloud that tests make up.
    pub const CLOUD_PROVIDER: Self = Self("cloud-provider");
    /// `csi-sanity`: what the specification of CSI asks of a driver, as tests. No lab runs it.
    pub const CSI_SANITY: Self = Self("csi-sanity");
    /// `e2e.test` of Kubernetes 1.35, `ginkgo`, which runs it, what its images hold, and `conformance.yaml`, the list
    /// of what a cluster has to pass. No lab runs them.
    pub const E2E_1_35: Self = Self("e2e-1.35");
    /// `promtool`: what checks and tries rules of Prometheus. No lab runs it.
    pub const PROMETHEUS: Self = Self("prometheus");
    /// `versitygw`: a folder as an S3 endpoint. No lab runs it.
    pub const VERSITYGW: Self = Self("versitygw");

    /// What every lab runs, Kubernetes aside, whose version has to be chosen.
    pub const BASIC: [Self; 9] = [
        Self::ETCD,
        Self::CONTAINERD,
        Self::RUNC,
        Self::CNI_PLUGINS,
        Self::REGISTRY,
        Self::COREDNS,
        Self::HELM,
        Self::PAUSE,
        Self::KONNECTIVITY, // a part of every tenant's control plane
    ];
    /// What runs virtual machines; a lab has one of them.
    pub const KUBEVIRTS: [Self; 2] = [Self::KUBEVIRT, Self::KUBEVIRT_1_6];
    /// What tenant clusters with nodes need besides: addons.
    pub const WORKERS: [Self; 2] = [Self::FLANNEL, Self::TESTSERVER];
    /// What volumes of tenant clusters need besides.
    pub const STORAGE: [Self; 1] = [Self::CSI];
    /// Tests of Kubernetes itself; only `cargo xtask conformance` builds them.
    pub const UPSTREAM: [Self; 1] = [Self::E2E_1_35];
    /// What no lab runs: programs that tests compare ours with, or hold them to.
    pub const REFERENCES: [Self; 5] = [
        Self::CLOUD_PROVIDER,
        Self::CSI_SANITY,
        Self::ETCD_3_7,
        Self::PROMETHEUS,
        Self::VERSITYGW,
    ];

    /// What tests without a lab may use: both versions of the default run among it.
    #[must_use]
    pub fn of_tests() -> Vec<Self> {
        let mut programs = vec![Self::ETCD, Self::HELM, Self::PAUSE];
        programs.extend(KubernetesVersion::NEIGHBOURS.map(Self::kubernetes));
        programs.extend(Self::REFERENCES);
        programs.extend(Self::STORAGE);
        programs
    }

    /// `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kube-proxy`, `kubelet`,
    /// `kubectl` and `kubeadm` of one version.
    #[must_use]
    pub fn kubernetes(version: KubernetesVersion) -> Self {
        Self(version.program())
    }

    /// Kubernetes' own tests of one version; `None` where the lab has none.
    #[must_use]
    pub fn e2e(version: KubernetesVersion) -> Option<Self> {
        (version == KubernetesVersion::V1_35).then_some(Self::E2E_1_35)
    }

    /// The name of its folder under `e2e/lab/programs/` and of its table in `programs.toml`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// Where the binaries of some programs are.
#[derive(Debug, Clone, Default)]
pub struct Bins {
    dirs: BTreeMap<Program, PathBuf>,
}

impl Bins {
    /// A binary that is not Kubernetes', by its name: `etcd`, `crane`, `runc`.
    ///
    /// # Errors
    /// No program that was asked for has a binary of this name.
    pub fn path(&self, binary: &str) -> anyhow::Result<PathBuf> {
        self.dirs
            .iter()
            .filter(|(program, _)| KubernetesVersion::of(**program).is_none())
            .map(|(_, dir)| dir.join(binary))
            .find(|path| path.is_file())
            .with_context(|| format!("no program that was asked for has a binary {binary:?}"))
    }

    /// A binary of Kubernetes, by its name and version: `kube-apiserver`, `kubectl`.
    ///
    /// # Errors
    /// This version was not asked for, or has no binary of this name.
    pub fn kubernetes(&self, binary: &str, version: KubernetesVersion) -> anyhow::Result<PathBuf> {
        let path = self.dir(Program::kubernetes(version))?.join(binary);
        if !path.is_file() {
            bail!("Kubernetes {version} has no binary {binary:?}");
        }
        Ok(path)
    }

    /// The folder with nothing but the binaries of one program.
    ///
    /// # Errors
    /// The program was not asked for.
    pub fn dir(&self, program: Program) -> anyhow::Result<&Path> {
        let dir = self.dirs.get(&program).map(PathBuf::as_path);
        dir.with_context(|| format!("{} was not asked for", program.name()))
    }

    /// The versions of Kubernetes that were asked for, oldest first.
    pub fn kubernetes_versions(&self) -> impl Iterator<Item = KubernetesVersion> + '_ {
        self.dirs
            .keys()
            .filter_map(|program| KubernetesVersion::of(*program))
    }
}

/// Builds whatever of `programs` is missing and says where all of them are.
///
/// A first build needs network access to Go's module mirror. Later calls take milliseconds and only
/// ask Go for its version, which is part of what makes a build.
/// Two checkouts that want the same program at once build it once.
///
/// # Errors
/// Go is missing or too old, a Debian package for the build cannot be had, or a build failed.
pub fn ensure(programs: &[Program], progress: &Progress) -> anyhow::Result<Bins> {
    let catalogue = Catalogue::load()?;
    let go = Go::detect()?;
    let mut bins = Bins::default();
    for &program in programs {
        let dir = build::ensure(&catalogue, program, &go, progress)?;
        bins.dirs.insert(program, dir);
    }
    Ok(bins)
}

/// Says where `programs` are without ever building: for tests that skip loudly.
///
/// # Errors
/// At least one has not been built; the error names all of those and how to build them.
pub fn find(programs: &[Program]) -> anyhow::Result<Bins> {
    let catalogue = Catalogue::load()?;
    let go = Go::detect()?;
    let mut bins = Bins::default();
    let mut missing = Vec::new();
    for &program in programs {
        let dir = build::place(&catalogue, program, &go)?;
        if dir.is_dir() {
            bins.dirs.insert(program, dir);
        } else {
            missing.push(program.name());
        }
    }
    if !missing.is_empty() {
        bail!(
            "not built yet: {}; `cargo xtask lab up` builds them, once, in about 5 min per \
             version of Kubernetes",
            missing.join(", ")
        );
    }
    Ok(bins)
}

#[cfg(test)]
mod tests;
