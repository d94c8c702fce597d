//! What a change reaches that the graph of crates does not tell: files that are not Rust, and files
//! that reach everything.
//!
//! Invariant: the first line that matches is the answer, so the particular stands before the general.

/// What a changed file reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reach {
    /// All tests of a crate, and of no other.
    Crate(&'static str),
    /// One target of tests in a crate's `tests/`.
    Target(&'static str, &'static str),
    /// The suites of the lab that say they need this.
    Need(&'static str),
    /// Every suite of the lab.
    Lab,
    /// Every test there is.
    Everything,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    /// A path from the top of the repository; see [`matches`].
    pub(crate) glob: &'static str,
    /// Nothing: the checks, which are always run, are enough.
    pub(crate) reaches: &'static [Reach],
    /// Why, as a half sentence.
    pub(crate) why: &'static str,
}

use Reach::{Crate, Everything, Lab, Need, Target};

const CHART: &[Reach] = &[Target("xtask", "chart"), Target("xtask", "chart_api")];
const RELEASED: Reach = Target("xtask", "release");
const INSTALLED: &[Reach] = &[CHART[0], CHART[1], RELEASED, Need("operator")];
const GENERATED: &[Reach] = &[CHART[0], Target("monitoring", "generated")];
const HELM: &[Reach] = &[CHART[0], CHART[1], RELEASED, Lab];
const HOSTS: &[Reach] = &[Crate("lab"), Target("xtask", "lab_host"), Need("host")];
const ROOTS: &[Reach] = &[HOSTS[0], HOSTS[1], HOSTS[2], Need("node")];
const MACHINES: &[Reach] = &[Crate("lab"), Need("vm"), Need("node")];
const PLAYED: &[Reach] = &[Crate("lab"), Crate("lab-agent"), Need("node")];
const NODES: &[Reach] = &[Need("vm"), Need("node")];

const CHECKED: &str = "only the checks read it";
const STAND_ON: &str = "all of the lab stands on it";
const START: &str = "the lab's start";
const BUILT: &str = "it decides how everything is built";

const fn entry(glob: &'static str, reaches: &'static [Reach], why: &'static str) -> Entry {
    Entry { glob, reaches, why }
}

/// The table.
pub(crate) const TABLE: &[Entry] = &[
    // Pages that a test reads, then pages.
    entry(
        "docs/ccm.md",
        &[Target("ccm", "t1")],
        "the differences are explained there",
    ),
    entry(
        "docs/certificates.md",
        &[
            Target("tenant-cp", "golden"),
            Target("insight", "diagnosis"),
        ],
        "the golden certificates are listed there, and a finding leads there",
    ),
    entry(
        "docs/cli.md",
        &[Crate("cli")],
        "its exit codes are compared with the program's",
    ),
    entry(
        "docs/flags.md",
        &[Target("tenant-cp", "flags")],
        "its lists are compared with those of admission",
    ),
    entry(
        "docs/reasons.md",
        &[Target("api", "reasons")],
        "it is what the catalogue of reasons says",
    ),
    entry(
        "docs/metrics.md",
        &[Target("monitoring", "generated")],
        "it is what the catalogue of metrics says",
    ),
    entry(
        "docs/runbooks/alerts.md",
        &[Target("monitoring", "runbooks")],
        "it has a section for each alert",
    ),
    entry("CHANGELOG.md", &[RELEASED], "a release has its part"),
    entry("docs/**", &[], CHECKED),
    entry("*.md", &[], CHECKED),
    entry("LICENSE", &[], CHECKED),
    entry(".gitignore", &[], CHECKED),
    entry("deny.toml", &[], CHECKED),
    entry("rustfmt.toml", &[], CHECKED),
    entry("clippy.toml", &[], CHECKED),
    entry(
        ".config/quarantine.toml",
        &[],
        "only failures are judged by it",
    ),
    // What is installed.
    entry(
        "deploy/charts/covey/files/rules.yaml",
        GENERATED,
        "it is what the code says",
    ),
    entry(
        "deploy/charts/covey/files/dashboards/**",
        GENERATED,
        "they are what the code says",
    ),
    entry("deploy/charts/**", INSTALLED, "the chart"),
    entry(
        "deploy/tests/golden/**",
        &[Target("xtask", "chart"), Crate("cli")],
        "golden files of the chart, which `covey up` applies",
    ),
    entry(
        "deploy/tests/**",
        &[Target("xtask", "chart")],
        "values and golden files of the chart",
    ),
    entry(
        "deploy/examples/**",
        &[Target("xtask", "chart_api")],
        "the examples are applied",
    ),
    // What decides how everything is built or run.
    entry("Cargo.lock", &[Everything], BUILT),
    entry("**/Cargo.toml", &[Everything], BUILT),
    entry("rust-toolchain.toml", &[Everything], BUILT),
    entry(".cargo/**", &[Everything], BUILT),
    entry(
        ".config/**",
        &[Everything],
        "it decides how everything is run",
    ),
    entry(".ci/**", &[Everything], "it decides how everything is run"),
    entry(
        "xtask/src/tidy.rs",
        &[Crate("xtask")],
        "a rule of the checks",
    ),
    entry(
        "xtask/src/tidy/**",
        &[Crate("xtask")],
        "a rule of the checks",
    ),
    entry(
        "xtask/src/release.rs",
        &[Crate("xtask")],
        "it makes what is published",
    ),
    entry(
        "xtask/src/release/**",
        &[Crate("xtask")],
        "it makes what is published",
    ),
    entry("xtask/src/**", &[Everything], "it decides what is run"),
    // What everything is made of, or tested with.
    entry("crds/**", &[Everything], "every program knows these kinds"),
    entry("kit/**", &[Everything], "every program stands on it"),
    entry(
        "e2e/testkit/**",
        &[Everything],
        "every real server of a test is started by it",
    ),
    // Programs of others.
    entry(
        "e2e/lab/programs/cloud-provider/**",
        &[Target("ccm", "t1")],
        "the differential test asks it",
    ),
    entry(
        "e2e/lab/programs/csi-sanity/**",
        &[Target("csi-proxy", "t1")],
        "csi-sanity itself",
    ),
    entry(
        "e2e/lab/programs/prometheus/**",
        &[Target("monitoring", "promtool")],
        "it tries the rules",
    ),
    entry(
        "e2e/lab/programs/etcd-3.7/**",
        &[Target("etcd-agent", "t1")],
        "members become it",
    ),
    entry(
        "e2e/lab/programs/versitygw/**",
        &[Target("etcd-agent", "t1")],
        "the S3 endpoint that backups are held to",
    ),
    entry(
        "e2e/lab/programs/csi/**",
        &[Need("csi"), Need("lab-agent")],
        "the stock sidecars",
    ),
    entry("e2e/lab/programs/kubevirt/**", NODES, "KubeVirt itself"),
    entry(
        "e2e/lab/programs/kubevirt-1.6/**",
        NODES,
        "KubeVirt of an older minor",
    ),
    entry(
        "e2e/lab/programs/testserver/**",
        NODES,
        "pods on workers run it",
    ),
    entry("e2e/lab/programs/helm/**", HELM, "it installs the chart"),
    entry("e2e/lab/programs/cni-plugins/**", &[Lab], STAND_ON),
    entry("e2e/lab/programs/containerd/**", &[Lab], STAND_ON),
    entry("e2e/lab/programs/coredns/**", &[Lab], STAND_ON),
    entry(
        "e2e/lab/programs/flannel/**",
        NODES,
        "the network of tenants' nodes",
    ),
    entry(
        "e2e/lab/programs/konnectivity/**",
        &[Lab],
        "every control plane has one",
    ),
    entry("e2e/lab/programs/pause/**", &[Lab], STAND_ON),
    entry("e2e/lab/programs/registry/**", &[Lab], STAND_ON),
    entry("e2e/lab/programs/runc/**", &[Lab], STAND_ON),
    entry(
        "e2e/lab/programs/**",
        &[Everything],
        "the servers of every test",
    ),
    // The lab.
    entry(
        "e2e/lab/src/kubevirt.rs",
        MACHINES,
        "only virtual machines need it",
    ),
    entry(
        "e2e/lab/src/kubevirt/**",
        MACHINES,
        "only virtual machines need it",
    ),
    entry(
        "e2e/lab/src/worker.rs",
        MACHINES,
        "only virtual machines need it",
    ),
    entry(
        "e2e/lab/src/worker/**",
        MACHINES,
        "only virtual machines need it",
    ),
    entry(
        "e2e/lab/src/hosts.rs",
        HOSTS,
        "only hosts reached by SSH need it",
    ),
    entry(
        "e2e/lab/src/hosts/**",
        HOSTS,
        "only hosts reached by SSH need it",
    ),
    entry("e2e/lab/src/host_root.rs", ROOTS, "what hosts are made of"),
    entry("e2e/lab/src/host_root/**", ROOTS, "what hosts are made of"),
    entry(
        "e2e/lab/src/ssh_host.rs",
        HOSTS,
        "only hosts reached by SSH need it",
    ),
    entry(
        "e2e/lab/src/machines.rs",
        PLAYED,
        "only machines that are played need it",
    ),
    entry(
        "e2e/lab/src/machines/**",
        PLAYED,
        "only machines that are played need it",
    ),
    entry("e2e/lab/src/**", &[Everything], START),
];

/// Crates whose change reaches the suites that say they need this word. The words are what a suite
/// may declare; docs/testing.md explains them.
pub(crate) const NEEDS: &[(&str, &[&str])] = &[
    ("operator", &["etcd-agent", "operator"]),
    ("ccm", &["ccm"]),
    ("csi", &["csi-proxy"]),
    ("autoscaler", &["autoscaler", "autoscaler-client"]),
    ("overlay", &["link-node"]),
    ("activator", &["activator"]),
    ("vm", &["worker-init"]),
    ("node", &["worker-init"]),
    ("host", &["provider-static"]),
    ("lab-agent", &["lab-agent"]),
];

/// The first line of the table for `path`.
pub(crate) fn find(path: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| matches(entry.glob, path))
}

/// Whether `path` is meant by `glob`: `*` is any part of one name, `**` any number of whole names.
pub(crate) fn matches(glob: &str, path: &str) -> bool {
    let globs: Vec<_> = glob.split('/').collect();
    let names: Vec<_> = path.split('/').collect();
    matches_names(&globs, &names)
}

fn matches_names(globs: &[&str], names: &[&str]) -> bool {
    match (globs, names) {
        ([], []) => true,
        (["**", rest @ ..], names) => {
            (0..=names.len()).any(|skipped| matches_names(rest, &names[skipped..]))
        }
        ([glob, globs @ ..], [name, names @ ..]) => {
            matches_name(glob, name) && matches_names(globs, names)
        }
        _ => false,
    }
}

fn matches_name(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len())
                .filter(|at| name.is_char_boundary(*at))
                .any(|at| matches_name(rest, &name[at..]))
        }),
    }
}
