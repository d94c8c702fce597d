//! Files of a kubelet, as kubeadm lays them out; and how they were before, which is kept until the kubelet has its certificate.
//!
//! Invariant: a file is there as it was or as it is to be, whatever cuts this off: each is written beside its place and renamed,
//! and what is kept is complete before its folder has its name.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::kubeconfig::CURRENT;

/// Everybody may read it.
pub const EVERYBODY: u32 = 0o644;
/// Its owner alone.
pub const OWNER: u32 = 0o600;

/// Where things are.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The kubeconfig of the kubelet.
    pub kubelet_conf: PathBuf,
    /// The kubeconfig by which it asks for its first certificate.
    pub bootstrap: PathBuf,
    /// Whom it believes to be the kube-apiserver that asks it.
    pub believed: PathBuf,
    /// The link to its certificate.
    pub current: PathBuf,
    /// The folder of what was before.
    kept: PathBuf,
}

impl Paths {
    /// Below this folder, which is the machine's root, or shows the two folders that are needed of it.
    #[must_use]
    pub fn below(machine: &Path) -> Self {
        let kubernetes = machine.join("etc/kubernetes");
        Self {
            kubelet_conf: kubernetes.join("kubelet.conf"),
            bootstrap: kubernetes.join("bootstrap-kubelet.conf"),
            believed: kubernetes.join("pki/ca.crt"),
            current: machine.join("var/lib/kubelet/pki").join(CURRENT),
            kept: kubernetes.join("covey-renewal"),
        }
    }

    /// Whether a certificate is there: a link says where the machine has it, which is beside the link.
    #[must_use]
    pub fn is_there(&self, target: &Path) -> bool {
        let name = target.file_name();
        name.is_some_and(|name| self.current.with_file_name(name).is_file())
    }
}

/// What was before.
#[derive(Clone, Debug)]
pub struct Kept {
    kubelet_conf: Vec<u8>,
    believed: Vec<u8>,
    /// Where the link to the certificate led; none where there was no link.
    pub current: Option<PathBuf>,
}

impl Kept {
    /// What an earlier try that was cut off has kept; none where there was none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn find(paths: &Paths) -> Result<Option<Self>> {
        if !paths.kept.is_dir() {
            return Ok(None);
        }
        let read = |name: &str| {
            let path = paths.kept.join(name);
            fs::read(&path).with_context(|| format!("read {}", path.display()))
        };
        Ok(Some(Self {
            kubelet_conf: read("kubelet.conf")?,
            believed: read("ca.crt")?,
            current: link(&paths.kept.join(CURRENT))?,
        }))
    }

    /// Keeps what is there.
    ///
    /// # Errors
    /// When it cannot be read or written, or is not as kubeadm lays it out.
    pub fn save(paths: &Paths) -> Result<Self> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
        let kept = Self {
            kubelet_conf: read(&paths.kubelet_conf)?,
            believed: read(&paths.believed)?,
            current: link(&paths.current)?,
        };
        let Some(target) = &kept.current else {
            bail!(
                "{} is no link: the kubelet does not renew its certificate",
                paths.current.display()
            );
        };
        let beside = paths.kept.with_extension("new");
        match fs::remove_dir_all(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", beside.display()));
            }
            _ => {}
        }
        fs::create_dir(&beside).with_context(|| format!("make {}", beside.display()))?;
        write(&beside.join("kubelet.conf"), &kept.kubelet_conf, OWNER)?;
        write(&beside.join("ca.crt"), &kept.believed, OWNER)?;
        symlink(target, beside.join(CURRENT)).context("keep where the certificate is")?;
        fs::rename(&beside, &paths.kept)
            .with_context(|| format!("make {}", paths.kept.display()))?;
        sync(&paths.kept)?;
        Ok(kept)
    }

    /// Everything is as it was, and nothing is kept.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn put_back(&self, paths: &Paths) -> Result<()> {
        write(&paths.believed, &self.believed, EVERYBODY)?;
        write(&paths.kubelet_conf, &self.kubelet_conf, OWNER)?;
        if let Some(target) = &self.current {
            let beside = paths.current.with_extension("before");
            remove(&beside)?;
            symlink(target, &beside).with_context(|| format!("make {}", beside.display()))?;
            fs::rename(&beside, &paths.current)
                .with_context(|| format!("make {}", paths.current.display()))?;
            sync(&paths.current)?;
        }
        self.forget(paths)
    }

    /// What is there now stays, and the token goes.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget(&self, paths: &Paths) -> Result<()> {
        remove(&paths.bootstrap)?;
        fs::remove_dir_all(&paths.kept).with_context(|| format!("remove {}", paths.kept.display()))
    }
}

/// Where a link leads; none where there is none.
///
/// # Errors
/// When that cannot be found out.
pub fn link(path: &Path) -> Result<Option<PathBuf>> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target)),
        // There is something else.
        Err(error) if [ErrorKind::NotFound, ErrorKind::InvalidInput].contains(&error.kind()) => {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

/// Puts a file in its place, as a whole.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let named = || format!("write {}", path.display());
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    remove(&beside)?;
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside);
    let mut file = file.with_context(named)?;
    file.write_all(content).with_context(named)?;
    file.sync_all().with_context(named)?;
    fs::rename(&beside, path).with_context(named)?;
    sync(path)
}

/// Removes a file, where it is there.
///
/// # Errors
/// When it stays.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// What the folder says of it is on the disk.
fn sync(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("write {}", folder.display()))
}
