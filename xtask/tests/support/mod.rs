//! Finding and running helm for the tests of the chart.
//!
//! Invariant: helm reads and writes nothing outside the repository and a temporary folder.

#![allow(dead_code)] // each test file uses a part of it

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::programs::{self, Program};
use serde_json::Value;

/// The chart, from the top of the repository.
pub(crate) const CHART: &str = "deploy/charts/covey";
/// Kubernetes versions for which it is rendered: the oldest that it supports and the newest.
pub(crate) const VERSIONS: [&str; 2] = ["1.30.0", "1.36.3"];

/// The helm of the lab.
pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
    home: tempfile::TempDir,
}

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    // Where cargo runs the test, not where it was built: checkouts may share build results.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    Path::new(&xtask).parent().unwrap().to_owned()
}

/// helm, or `None` after saying so.
pub(crate) fn helm() -> Option<Helm> {
    let program = program(Program::HELM, "helm")?;
    Some(Helm {
        program,
        kubeconfig: None,
        home: tempfile::tempdir().unwrap(),
    })
}

/// crane, or `None` after saying so.
pub(crate) fn crane() -> Option<PathBuf> {
    program(Program::REGISTRY, "crane")
}

/// A program of the lab.
fn program(program: Program, name: &str) -> Option<PathBuf> {
    let bins = programs::find(&[program]);
    match bins.and_then(|bins| bins.path(name)) {
        Ok(found) => Some(found),
        Err(error) if std::env::var_os("COVEY_TEST_REQUIRE").is_some_and(|v| v == "1") => {
            panic!("COVEY_TEST_REQUIRE=1 forbids to skip this test: {error:#}")
        }
        Err(error) => {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("a test");
            // `eprintln!` would be captured: nobody would see it.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error:#}");
            None
        }
    }
}

impl Helm {
    /// The same helm, speaking to a cluster.
    pub(crate) fn with_kubeconfig(self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..self
        }
    }

    /// What helm printed, or what it complained about.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.home.path());
        }
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let output = command.args(args).current_dir(root()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!(
                "helm {}: {}{}",
                args.join(" "),
                text(&output.stdout),
                text(&output.stderr)
            )),
        }
    }

    /// `helm template` in namespace covey-system for the newest version; `args` may say otherwise.
    pub(crate) fn template(&self, args: &[&str]) -> Result<String, String> {
        // Objects of `helm test` are no part of an installation; the test about them asks for them itself.
        let fixed = [
            "template",
            "covey",
            CHART,
            "--namespace",
            "covey-system",
            "--skip-tests",
        ];
        let version = ["--kube-version", VERSIONS[1]];
        self.run(&[&fixed[..], &version, args].concat())
    }

    /// The objects that `helm template` renders.
    pub(crate) fn objects(&self, args: &[&str]) -> Vec<Value> {
        let rendered = self
            .template(args)
            .unwrap_or_else(|error| panic!("{error}"));
        let documents = rendered.split("\n---\n").filter(|d| d.contains("kind:"));
        documents
            .map(|document| serde_saphyr::from_str(document).unwrap())
            .collect()
    }
}
