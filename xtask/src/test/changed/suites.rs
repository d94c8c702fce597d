//! The suites of the lab as their own files declare them: `//! Needs: operator, vm` on the first line.
//!
//! Invariant: a file without tests is no suite; what uses it is found by its name.

use super::touched;

/// Folder of all suites.
pub(crate) const FOLDER: &str = "e2e/suites/tests/";
/// Their crate.
pub(crate) const CRATE: &str = "suites";
/// How a declaration begins.
const NEEDS: &str = "//! Needs:";

/// The target that is run whole without `--all`.
pub(crate) const DEFAULT: &str = "control_plane";
/// The target of machines that are reached by SSH. What its own file has is run without `--all`: two hosts become
/// nodes and are given back, in a minute or two. Its modules take long.
pub(crate) const HOSTS: &str = "hosts";
/// The target of a virtual machine that is reached by SSH: it needs both, and takes long.
pub(crate) const VM_HOST: &str = "vm_host";
/// The target of virtual machines.
pub(crate) const WORKERS: &str = "workers";
/// Its modules that are run without `--all`: join, exec, logs, names, a load balancer, a volume, and that
/// nothing stays; and a pool that grows from zero and back. The others take long.
pub(crate) const DEFAULT_WORKERS: [&str; 2] = ["worker", "autoscaler"];

/// Its modules that prove nothing of virtual machines: hosts may play these (`COVEY_NODES=host`). They say that they
/// need `node`, the others `vm`.
pub(crate) const PLAYABLE: [&str; 9] = [
    "autoscaler",
    "deletion",
    "drain",
    "hostile",
    "join",
    "load_balancer",
    "rolling",
    "sizes",
    "traffic",
];

/// One file of tests that run in the lab.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Suite {
    /// From the top of the repository.
    pub(crate) path: String,
    /// The target of cargo, as in `--test workers`.
    pub(crate) target: String,
    /// The module in it; empty when the file is the target.
    pub(crate) module: String,
    /// What it says it needs.
    pub(crate) needs: Vec<String>,
    /// Names of its tests with their modules, as test runners know them.
    pub(crate) tests: Vec<String>,
}

impl Suite {
    /// Reads a file of the folder of suites; nothing when it has no test.
    pub(crate) fn parse(path: &str, text: &str) -> Option<Self> {
        let (target, module) = place(path)?;
        let names = touched::tests(text).into_iter().map(|test| test.name);
        let tests: Vec<_> = names
            .map(|name| match module.as_str() {
                "" => name,
                module => format!("{module}::{name}"),
            })
            .collect();
        (!tests.is_empty()).then(|| Self {
            path: path.to_owned(),
            target,
            module,
            needs: needs(text).unwrap_or_default(),
            tests,
        })
    }

    /// Whether it is run without `--all`.
    pub(crate) fn is_default(&self) -> bool {
        let worker = DEFAULT_WORKERS.contains(&self.module.as_str());
        self.target == DEFAULT
            || self.target == WORKERS && worker
            || self.target == HOSTS && self.module.is_empty()
    }

    /// `workers::volumes::death`.
    pub(crate) fn name(&self) -> String {
        match self.module.as_str() {
            "" => self.target.clone(),
            module => format!("{}::{module}", self.target),
        }
    }
}

/// The words that a text declares on its first line; nothing when it declares none.
pub(crate) fn needs(text: &str) -> Option<Vec<String>> {
    let first = text.lines().next()?;
    let words = first.strip_prefix(NEEDS)?.split(',');
    Some(words.map(|word| word.trim().to_owned()).collect())
}

/// Target and module of a file of the folder of suites.
pub(crate) fn place(path: &str) -> Option<(String, String)> {
    let inner = path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
    let (target, module) = inner.split_once('/').unwrap_or((inner, ""));
    let module = if module == "main" { "" } else { module };
    Some((target.to_owned(), module.replace('/', "::")))
}

/// The suites that a change of `path` in their folder reaches, given all texts of the folder: itself,
/// what is below it, and whatever names its module; of a file without tests also the one above.
pub(crate) fn reached<'a>(
    path: &str,
    all: &'a [Suite],
    texts: &[(String, String)],
) -> Vec<&'a Suite> {
    let Some((target, module)) = place(path) else {
        return Vec::new();
    };
    let above = module.rsplit_once("::").map(|(above, _)| above);
    let has_tests = all.iter().any(|suite| suite.path == path);
    let word = format!("{}::", module.rsplit("::").next().unwrap_or_default());
    let names_it = |suite: &Suite| {
        texts
            .iter()
            .any(|(path, text)| *path == suite.path && text.contains(&word))
    };
    all.iter()
        .filter(|suite| suite.target == target)
        .filter(|suite| {
            module.is_empty()
                || suite.module == module
                || suite.module.starts_with(&format!("{module}::"))
                || !has_tests && above == Some(suite.module.as_str())
                || names_it(suite)
        })
        .collect()
}
