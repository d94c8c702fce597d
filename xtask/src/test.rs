//! `cargo xtask test`: every tier in order, cheapest first, and a summary.
//!
//! T0 are the tests inside the crates, T1 those in `<crate>/tests/` (a real kube-apiserver and etcd
//! where they want one), T2 those of `e2e` (the lab). Invariant: a failed tier ends the run (with
//! `--all` both halves of T2 are run), and the lab is taken down all the same.

use std::thread;

use anyhow::{Context as _, Result, anyhow, bail};
use lab::programs::{KubernetesVersion, Program};
use lab::{Layout, Operator, UpOptions, progress::Progress};

/// The tests of workers that are always run: join, exec, logs, names, a load balancer, a volume, and
/// that nothing stays; and a pool that grows from zero and back.
const WORKERS: [&str; 2] = [
    "one_worker_joins_and_runs_pods_and_leaves_nothing_behind",
    "a_pool_grows_from_zero_for_pods_and_is_given_back",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what takes long: losses, orders of deletion, tenants of every version of the lab, all that
    /// happens to workers
    #[arg(long)]
    all: bool,
    /// Leave the lab up afterwards
    #[arg(long)]
    keep_lab: bool,
}

struct Tiers<'a> {
    layout: &'a Layout,
    args: &'a Args,
    progress: &'a Progress,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    let progress = Progress::new();
    let tiers = Tiers {
        layout: &layout,
        args,
        progress: &progress,
    };
    let result = tiers.run();
    progress.show_summary();
    result
}

impl Tiers<'_> {
    fn run(&self) -> Result<()> {
        self.cargo("formatting", &["fmt", "--all", "--", "--check"])?;
        let clippy = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
        ];
        self.cargo("lints", &[&clippy[..], &["-D", "warnings"]].concat())?;
        self.cargo("tidy", &["xtask", "tidy"])?;
        self.cargo(
            "generated resource definitions",
            &["xtask", "crds", "--check"],
        )?;
        self.cargo("generated roles", &["xtask", "deploy", "--check"])?;

        let all = ["test", "--workspace", "--no-fail-fast"];
        self.cargo(
            "T0: plans and laws",
            &[&all[..], &["--lib", "--bins"]].concat(),
        )?;
        self.cargo("T0: examples in comments", &[&all[..], &["--doc"]].concat())?;

        lab::programs::ensure(&lab::control_plane_programs(), self.progress)?;
        lab::programs::ensure(&Program::REFERENCES, self.progress)?;
        lab::packages::ensure(&lab::packages::FILESYSTEMS, self.progress)?;
        let t1 = ["--exclude", "suites", "--features", "t1", "--test", "*"];
        // These tests wait more than they work, so what T2 needs is built meanwhile.
        let options = self.options();
        let operator = Operator::as_released(env!("CARGO_PKG_VERSION"));
        thread::scope(|scope| {
            let built =
                scope.spawn(|| lab::prepare(self.layout, &options, &operator, self.progress));
            let passed = self.cargo(
                "T1: real kube-apiserver and etcd",
                &[&all[..], &t1].concat(),
            );
            let built = built.join();
            passed.and(built.map_err(|_| anyhow!("the builds for T2 panicked"))?)
        })?;

        let t2 = self.t2();
        if self.args.keep_lab {
            return t2;
        }
        // The tests' own failure says more than one of `down`.
        let down = lab::down(self.layout, false, self.progress);
        t2.and(down)
    }

    fn options(&self) -> UpOptions {
        let mut options = UpOptions::default();
        if self.args.all {
            options.tenant_versions = KubernetesVersion::ALL.to_vec();
        }
        options
    }

    fn t2(&self) -> Result<()> {
        lab::up(self.layout, &self.options(), self.progress)?;
        let operator = Operator::as_released(env!("CARGO_PKG_VERSION"));
        lab::install_operator(self.layout, &operator, self.progress)?;
        // The suites share one machine: more than two at a time only slow each other down.
        let suites: &[&str] = match self.args.all {
            true => &["control_plane", "operations"],
            false => &["control_plane"],
        };
        let control_planes = self.suites(
            "T2: control planes in the lab",
            suites,
            &["--test-threads=2"],
        );
        if control_planes.is_err() && !self.args.all {
            return control_planes;
        }
        lab::kubevirt::wait(self.layout, self.progress)?;
        // One at a time: processors of virtual machines are emulated.
        let one = "--test-threads=1";
        let (suites, args): (&[&str], &[&str]) = match self.args.all {
            true => (&["kubevirt", "workers"], &[one]),
            false => (&["workers"], &[one, WORKERS[0], WORKERS[1]]),
        };
        let workers = self.suites("T2: workers in the lab", suites, args);
        // Who asks for everything waits for hours: one failure must not hide what else there is.
        control_planes.and(workers)
    }

    fn suites(&self, what: &str, suites: &[&str], args: &[&str]) -> Result<()> {
        // As all members are tested: with the features of `-p e2e` all would be compiled once more.
        let mut all = vec!["test", "--workspace", "--no-fail-fast"];
        for suite in suites {
            all.extend(["--test", suite]);
        }
        all.push("--");
        self.cargo(what, &[&all[..], args].concat())
    }

    /// Runs cargo with its output shown; it says itself what failed.
    fn cargo(&self, what: &str, args: &[&str]) -> Result<()> {
        let step = self.progress.step(what);
        let mut cargo = lab::run::cargo();
        // What a test needs is there by now: one that skips has failed.
        cargo.env(
            "COVEY_TEST_REQUIRE",
            if what.starts_with("T0") { "0" } else { "1" },
        );
        let status = cargo
            .args(args)
            .current_dir(self.layout.checkout())
            .status();
        let result = status.context("cargo cannot be run").and_then(|status| {
            if !status.success() {
                bail!("cargo {}: {status}", args.join(" "))
            }
            Ok(())
        });
        step.finish(result)
    }
}
