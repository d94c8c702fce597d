//! Where the programs of the management API are, and what a test does when they are missing.
//!
//! Invariant: a test that could not run says `SKIPPED` past the test runner's capture, and fails
//! instead when `COVEY_TEST_REQUIRE=1` is set, so that CI never skips silently.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use lab::programs::{Bins, KubernetesVersion, Program};

/// Folders to search instead of the lab's, separated by `:` as in `PATH`.
pub const PROGRAMS_VARIABLE: &str = "COVEY_TEST_PROGRAMS";
/// Set to `1`: missing programs are an error and not a reason to skip.
pub const REQUIRE_VARIABLE: &str = "COVEY_TEST_REQUIRE";

/// The programs that a management API consists of.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd 3.6.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager.
    pub kube_controller_manager: PathBuf,
}

impl Programs {
    /// Finds all three, in the folders of [`PROGRAMS_VARIABLE`] or else among the lab's programs;
    /// the error names what is missing.
    pub fn find() -> Result<Self> {
        let Some(folders) = env::var_os(PROGRAMS_VARIABLE) else {
            return Self::of_the_lab();
        };
        let folders: Vec<PathBuf> = env::split_paths(&folders).collect();
        Ok(Self {
            etcd: find_one(&folders, "etcd")?,
            kube_apiserver: find_one(&folders, "kube-apiserver")?,
            kube_controller_manager: find_one(&folders, "kube-controller-manager")?,
        })
    }

    /// The lab's programs of a minor (of 1.x); `None`, loudly, when they are missing and the test may be
    /// skipped. Beside each of Kubernetes are its others (`kube-scheduler`, `kubelet`).
    pub fn of_minor_or_skip(minor: u64) -> Result<Option<Self>> {
        let start = format!("1.{minor}.");
        let mut versions = KubernetesVersion::ALL.into_iter();
        let found = versions.find(|version| version.full().starts_with(&start));
        let version = found.with_context(|| format!("the lab has no Kubernetes 1.{minor}"))?;
        or_skip(Self::in_version(version))
    }

    fn of_the_lab() -> Result<Self> {
        Self::in_version(KubernetesVersion::V1_35)
    }

    fn in_version(version: KubernetesVersion) -> Result<Self> {
        let found = find(&[Program::ETCD, Program::kubernetes(version)])?;
        Ok(Self {
            etcd: found.path("etcd")?,
            kube_apiserver: found.kubernetes("kube-apiserver", version)?,
            kube_controller_manager: found.kubernetes("kube-controller-manager", version)?,
        })
    }

    /// The programs; `None`, loudly, when they are missing and the test may be skipped.
    pub fn find_or_skip() -> Result<Option<Self>> {
        or_skip(Self::find())
    }
}

/// A binary of another program of the lab; `None`, loudly, when it was not built and the test may be
/// skipped.
pub fn reference_or_skip(program: Program, binary: &str) -> Result<Option<PathBuf>> {
    or_skip(find(&[program]).and_then(|found| found.path(binary)))
}

/// Of those that are built before tests are run: another one may be there, because a lab was, and is missing
/// where none was.
fn find(programs: &[Program]) -> Result<Bins> {
    let built = Program::of_tests();
    let other = programs.iter().find(|program| !built.contains(program));
    // Not an error, for which a test may be skipped.
    assert!(
        other.is_none(),
        "{other:?} is not built for tests without a lab: add it to lab::programs::Program::of_tests"
    );
    lab::programs::find(programs)
}

/// What was found; `None`, loudly, when it is missing and the test may be skipped.
pub fn or_skip<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if env::var_os(REQUIRE_VARIABLE).is_some_and(|v| v == "1") => {
            Err(error).context(format!("{REQUIRE_VARIABLE}=1 forbids to skip this test"))
        }
        Err(error) => {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("a test");
            // `eprintln!` would be captured: nobody would see it.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error:#}");
            Ok(None)
        }
    }
}

fn find_one(folders: &[PathBuf], name: &str) -> Result<PathBuf> {
    let found = folders
        .iter()
        .map(|folder| folder.join(name))
        .find(|path| is_program(path));
    let Some(path) = found else {
        bail!("{name} is in none of the folders of {PROGRAMS_VARIABLE}; unset it to use the lab's");
    };
    Ok(path)
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file())
}
