//! Where the lab keeps its things: everything of one lab is under `.lab/` of its checkout.
//!
//! Invariant: no other module spells a path below `.lab/` or the cache folder by hand.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// Name of the one host that every lab has.
pub const MANAGEMENT_HOST: &str = "management-0";
/// The zone that the host says it is in, as a cloud's would.
pub const ZONE: &str = "lab-a";

/// The paths of one checkout's lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    checkout: PathBuf,
}

impl Layout {
    /// The lab of the checkout that holds the current folder.
    ///
    /// # Errors
    /// When no folder above the current one is the workspace's root.
    pub fn discover() -> Result<Self> {
        let here = env::current_dir().context("the current folder cannot be read")?;
        for folder in here.ancestors() {
            if folder.join("e2e/lab/Cargo.toml").is_file() {
                return Ok(Self::at(folder));
            }
        }
        bail!(
            "{} is not inside a checkout of the project: change into one first",
            here.display()
        )
    }

    /// The lab of the checkout whose root is `checkout`.
    #[must_use]
    pub fn at(checkout: &Path) -> Self {
        let checkout = fs::canonicalize(checkout).unwrap_or_else(|_| checkout.to_path_buf());
        Self { checkout }
    }

    /// Root of the checkout.
    #[must_use]
    pub fn checkout(&self) -> &Path {
        &self.checkout
    }

    /// `.lab`.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.checkout.join(".lab")
    }

    /// What a user gives to kubectl; its server is the management host's address.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.root().join("kubeconfig")
    }

    /// kubectl, helm, etcdctl, ctr, crane … as links.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.root().join("bin")
    }

    /// A tool in [`Layout::bin`].
    #[must_use]
    pub fn tool(&self, name: &str) -> PathBuf {
        self.bin().join(name)
    }

    /// One file per program, `audit.log`, and the pods' logs below `pods/`.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root().join("logs")
    }

    /// The logs of the lab before this one.
    #[must_use]
    pub fn previous_logs(&self) -> PathBuf {
        self.root().join("logs.previous")
    }

    /// The kube-apiserver's audit log: JSON lines, level Metadata.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.logs().join("audit.log")
    }

    /// Certificates and keys of the management cluster.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.root().join("pki")
    }

    /// Configuration files, rendered anew by every `up`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root().join("config")
    }

    /// Data of the management cluster's etcd.
    #[must_use]
    pub fn etcd_data(&self) -> PathBuf {
        self.root().join("etcd")
    }

    /// Blobs of the local registry; kept between labs.
    #[must_use]
    pub fn registry_data(&self) -> PathBuf {
        self.root().join("registry")
    }

    /// Volumes of the StorageClass `lab-local`.
    #[must_use]
    pub fn volumes(&self) -> PathBuf {
        self.root().join("volumes")
    }

    /// Volumes of the StorageClass `lab-block`: one file with all of them, and where it is mounted on
    /// the host.
    #[must_use]
    pub fn blocks(&self) -> PathBuf {
        self.root().join("blocks")
    }

    /// Programs of ours without their symbols.
    #[must_use]
    pub fn stripped(&self) -> PathBuf {
        self.root().join("stripped")
    }

    /// Which lab is up, see [`crate::state`].
    #[must_use]
    pub fn state_file(&self) -> PathBuf {
        self.root().join("state.json")
    }

    /// Held while `up` or `down` works, so that two of them never meet.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.root().join("lock")
    }

    /// What one simulated host owns.
    #[must_use]
    pub fn host(&self, name: &str) -> PathBuf {
        self.root().join("hosts").join(name)
    }

    /// The copy of the program that brought the lab up, which hosts' first processes run; `lab` and all its
    /// commands are in it.
    #[must_use]
    pub fn supervisor(&self) -> PathBuf {
        self.root().join("run/supervisor")
    }

    /// The key with which a user logs in at hosts that are reached by SSH; kept between labs.
    #[must_use]
    pub fn ssh_key(&self) -> PathBuf {
        self.root().join("ssh/id_ed25519")
    }

    /// Virtual machines that are played by hosts: a folder each. They run inside of the management host.
    #[must_use]
    pub fn machines(&self) -> PathBuf {
        self.host(MANAGEMENT_HOST).join("machines")
    }

    /// What plays virtual machines is told here what they are made of.
    #[must_use]
    pub fn machine_settings(&self) -> PathBuf {
        self.config().join("machines.json")
    }

    /// The program that a worker starts first, for machines that are played.
    #[must_use]
    pub fn worker_init(&self) -> PathBuf {
        self.root().join("run/worker-init")
    }

    /// containerd's content and snapshots on a host; images are kept between labs.
    #[must_use]
    pub fn containerd_data(&self, host: &str) -> PathBuf {
        self.host(host).join("containerd")
    }
}
