//! The stages of a check in their order, cheapest first.
//!
//! Invariant: a failed stage ends the run (with `--all` both halves of T2 are run), and a lab that this
//! run brought up is taken down all the same.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use lab::programs::kubevirt::Release;
use lab::programs::{KubernetesVersion, Program};
use lab::{Build, Layout, Operator, UpOptions, progress::Progress};

use super::beside::Beside;
use super::busy::Busy;
use super::changed::suites::{
    DEFAULT, DEFAULT_WORKERS, HOSTS, PLAYABLE, VM_HOST, WORKERS as WORKERS_SUITE,
};
use super::report::{
    BUILDS, CHECKS, COMPILE, LAB, OLDER, OVER, PLAYED, PROGRAMS, SHAKE, T0, T1, T2, WORKERS,
};
use super::servers::{self, Servers};
use super::session::{Session, target};
use super::shake::{self, Seed};
use super::{Args, Tier, damaged, signals, within};
use crate::lab::Nodes;

/// So often a new or changed test is run first.
const TOUCHED_TIMES: usize = 5;

const UNIT: &str = "(kind(lib) + kind(bin))";
/// What is run on an older KubeVirt, too.
const OLDER_TESTS: &str = "binary_id(=suites::kubevirt) + (binary_id(=suites::workers) & \
                           test(/^(worker|volumes)::/))";
const INTEGRATION: &str = "(kind(test) - package(=suites))";

/// Runs what `args` ask for.
pub(crate) fn run(session: &mut Session<'_>, args: &Args) -> Result<()> {
    let has = |tier: Tier| args.only.is_none_or(|only| only == tier);
    if args.only.is_none() {
        session.stage(CHECKS, |session| checks(session))?;
    }
    session.stage(COMPILE, |session| compile(session))?;
    let _busy = Busy::start(args.busy);
    if args.changed {
        let touched = session.change.as_ref().context("there is no git history")?;
        if let Some(filter) = touched.selection.touched_filter() {
            session.stage(SHAKE, |session| {
                shake_tests(session, &filter, TOUCHED_TIMES, Seed::draw())
            })?;
        }
    }
    if has(Tier::T0)
        && let Some(filter) = chosen(session, args, UNIT)
    {
        session.stage(T0, |session| session.tests("t0", &filter, &[require("0")]))?;
    }
    if has(Tier::T1)
        && let Some(filter) = chosen(session, args, INTEGRATION)
    {
        t1(session, args, &filter)?;
    }
    let suites = session.change.as_ref().filter(|_| args.changed);
    let suites = suites.map(|change| change.selection.suites_filter());
    if let Some(reason) = within::leaves_out_t2(session.gone(), args.within) {
        session.leave_out(reason);
    }
    match suites {
        Some(None) => Ok(()),
        _ if !has(Tier::T2) || session.leaves_out() => Ok(()),
        reached => t2(session, args, reached.flatten().as_deref()),
    }
}

/// `tier`, or what of it a change reaches; nothing when that is nothing.
fn chosen(session: &Session<'_>, args: &Args, tier: &str) -> Option<String> {
    if !args.changed {
        return Some(tier.to_owned());
    }
    let filter = session.change.as_ref()?.selection.filter()?;
    Some(format!("{tier} & ({filter})"))
}

/// What a test needs is there by then: one that skips has failed.
fn require(value: &'static str) -> (&'static str, &'static OsStr) {
    ("COVEY_TEST_REQUIRE", OsStr::new(value))
}

/// For tests whose programs and lab are there; in a run of everything also what a default run leaves
/// out is.
fn whole(all: bool) -> [(&'static str, &'static OsStr); 2] {
    let all = if all { "1" } else { "0" };
    [require("1"), ("COVEY_ALL", OsStr::new(all))]
}

fn checks(session: &Session<'_>) -> Result<()> {
    session.cargo(&["fmt", "--all", "--", "--check"])?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
    let strict = [&clippy[..], &["--", "-D", "warnings"]].concat();
    damaged::rebuilt_where_damaged(session, &strict)?;
    // As programs of their own: what is checked is what cargo would run.
    session.cargo(&["xtask", "tidy"])?;
    session.cargo(&["xtask", "crds", "--check"])?;
    session.cargo(&["xtask", "deploy", "--check"])
}

/// All targets of all crates at once: every later stage runs a part of them.
fn compile(session: &Session<'_>) -> Result<()> {
    let mut build = session.nextest(&["--no-run"]);
    let status = signals::status(&mut build).context("cargo-nextest cannot be run")?;
    if !status.success() {
        bail!("cargo nextest: {status}")
    }
    Ok(())
}

fn t1_programs(layout: &Layout, progress: &Progress) -> Result<()> {
    lab::programs::ensure(&Program::of_tests(), progress)?;
    lab::packages::ensure(&lab::packages::FILESYSTEMS, progress)?;
    lab::packages::ensure(&lab::packages::SSH, progress)?;
    lab::hosts::prepare(Some(KubernetesVersion::default()), progress)?;
    // A machine of the lab that is played joins, too.
    lab::machines::prepare_init(layout, progress)?;
    // The lab's enforcer of network policies is proven in namespaces of its own.
    lab::packages::ensure(&lab::packages::RUNTIME, progress)
}

fn t1(session: &mut Session<'_>, args: &Args, filter: &str) -> Result<()> {
    session.stage(PROGRAMS, |session| {
        t1_programs(session.layout, session.progress)
    })?;
    // These tests wait more than they work, so what T2 needs is built meanwhile.
    let beside = match args.only {
        Some(_) => None,
        None if args.changed => None,
        None => Some(builds(session, args)?),
    };
    session.stage(T1, |session| {
        let servers = servers(session)?;
        let [required, all] = whole(args.all);
        let environment = [
            required,
            all,
            (servers::FOLDER, servers.folder().as_os_str()),
        ];
        session.tests("t1", filter, &environment)
    })?;
    if let Some(reason) = within::leaves_out_t2(session.gone(), args.within) {
        session.leave_out(reason);
        return Ok(());
    }
    match beside {
        Some(beside) => session.stage(BUILDS, |_| beside.finish()),
        None => Ok(()),
    }
}

/// Servers that tests share, started by the program that is built with the tests.
fn servers(session: &mut Session<'_>) -> Result<Servers> {
    let program = target(session.layout.checkout()).join("debug/test-servers");
    let servers = Servers::start(&program)?;
    session.calibrate(servers.start);
    Ok(servers)
}

fn builds(session: &Session<'_>, args: &Args) -> Result<Beside> {
    let mut arguments = vec!["prepare-lab"];
    if plays(args) {
        arguments.push("--player");
    }
    if args.all {
        arguments.push("--all");
    }
    if build(session, args) == Build::Release {
        arguments.push("--release");
    }
    Beside::start(&session.program(), &arguments, session.layout.checkout())
}

/// The release is compiled when it matters: its compiling takes longer than all of T1.
fn build(session: &Session<'_>, args: &Args) -> Build {
    let change = session.change.as_ref();
    match args.all || change.is_none_or(super::change::Change::wants_release) {
        true => Build::Release,
        false => Build::Dev,
    }
}

/// What is built beside T1, in a process of its own.
#[derive(clap::Args)]
pub(crate) struct Prepare {
    #[arg(long)]
    all: bool,
    #[arg(long)]
    release: bool,
    /// Also what hosts are made of that play virtual machines
    #[arg(long)]
    player: bool,
}

/// Builds it.
///
/// # Errors
/// When a build fails.
pub(crate) fn prepare(args: &Prepare) -> Result<()> {
    let layout = Layout::discover()?;
    let build = match args.release {
        true => Build::Release,
        false => Build::Dev,
    };
    let (options, operator) = lab_with(args.all, Some(Release::default()), build);
    let progress = Progress::new();
    lab::prepare(&layout, &options, &operator, &progress)?;
    match args.player {
        true => lab::prepare(&layout, &played(options), &operator, &progress),
        false => Ok(()),
    }
}

/// A lab in which hosts play virtual machines.
fn played(options: UpOptions) -> UpOptions {
    UpOptions {
        kubevirt: None,
        player: true,
        ..options
    }
}

/// Whether a part of T2 runs on hosts first. What `--changed` reaches is little, and runs on what it is for.
fn plays(args: &Args) -> bool {
    args.nodes == Nodes::Host && !args.changed
}

fn lab_with(all: bool, kubevirt: Option<Release>, build: Build) -> (UpOptions, Operator) {
    let mut options = UpOptions {
        kubevirt,
        build,
        ..UpOptions::default()
    };
    if all {
        options.tenant_versions = KubernetesVersion::ALL.to_vec();
    }
    let operator = Operator {
        build,
        ..Operator::as_released(env!("CARGO_PKG_VERSION"))
    };
    (options, operator)
}

/// With `reached`, only those suites.
fn t2(session: &mut Session<'_>, args: &Args, reached: Option<&str>) -> Result<()> {
    let result = t2_in_lab(session, args, reached);
    if args.keep_lab {
        return result;
    }
    // The tests' own failure says more than one of `down`.
    let down = lab::down(session.layout, false, session.progress);
    result.and(down)
}

fn t2_in_lab(session: &mut Session<'_>, args: &Args, reached: Option<&str>) -> Result<()> {
    let needs_machines = session.change.as_ref().is_none_or(|change| {
        let needs = |word: &str| change.selection.needs(word);
        reached.is_none() || needs("vm") || needs("node")
    });
    let build = build(session, args);
    let played = plays(args).then(|| on_hosts(session, args, build));
    if let Some(Err(error)) = played {
        // The lab did not come so far, or there is nothing else to hear of today.
        return Err(error);
    }
    let (failed, plays) = match played {
        Some(Ok(tested)) => (tested, true),
        _ => (Ok(()), false),
    };
    let stage = if plays { OVER } else { LAB };
    session.stage(stage, |session| {
        let (options, operator) = lab_with(args.all, needs_machines.then(Release::default), build);
        lab::up(session.layout, &options, session.progress)?;
        lab::install_operator(session.layout, &operator, session.progress)
    })?;
    if let Some(filter) = reached {
        if needs_machines {
            lab::kubevirt::wait(session.layout, session.progress)?;
        }
        return session.stage(T2, |session| session.tests("t2", filter, &whole(args.all)));
    }
    let hindrance = lab::hosts::hindrance(session.layout)?;
    // Who asks for everything is told by the suite itself.
    if let Some(reason) = hindrance.as_ref().filter(|_| !args.all) {
        session.leave_out(format!("T2 {HOSTS}: {reason}"));
    }
    let (suites, workers) = lab_filters(args.all, hindrance.is_none(), plays);
    let control_planes =
        session.stage(T2, |session| session.tests("t2", &suites, &whole(args.all)));
    if control_planes.is_err() && !args.all {
        return control_planes;
    }
    let workers = session.stage(WORKERS, |session| {
        lab::kubevirt::wait(session.layout, session.progress)?;
        session.tests("t2", &workers, &whole(args.all))
    });
    let older = match args.all {
        true => older_kubevirt(session, build),
        false => Ok(()),
    };
    // Who asks for everything waits for hours: one failure must not hide what else there is.
    failed.and(control_planes).and(workers).and(older)
}

/// Suites that prove nothing of virtual machines, in a lab whose machines are played by hosts. KubeVirt, which needs
/// minutes to come up, comes afterwards, and while other suites run.
///
/// The inner result is that of the tests, where all of them were run.
fn on_hosts(session: &mut Session<'_>, args: &Args, build: Build) -> Result<Result<()>> {
    session.stage(LAB, |session| {
        let (options, operator) = lab_with(args.all, None, build);
        lab::up(session.layout, &played(options), session.progress)?;
        lab::install_operator(session.layout, &operator, session.progress)
    })?;
    let filter = played_filter(args.all);
    let tested = session.stage(PLAYED, |session| {
        lab::machines::wait(session.layout, session.progress)?;
        session.tests("t2-hosts", &filter, &whole(args.all))
    });
    match tested {
        Err(error) if !args.all => Err(error),
        tested => Ok(tested),
    }
}

/// Virtual machines, a worker and its volumes on an older minor of KubeVirt, in a lab of its own.
fn older_kubevirt(session: &mut Session<'_>, build: Build) -> Result<()> {
    session.stage(OLDER, |session| {
        lab::down(session.layout, false, session.progress)?;
        let (options, operator) = lab_with(false, Some(Release::V1_6), build);
        lab::up(session.layout, &options, session.progress)?;
        lab::install_operator(session.layout, &operator, session.progress)?;
        lab::kubevirt::wait(session.layout, session.progress)?;
        session.tests("t2", OLDER_TESTS, &whole(true))
    })
}

/// nextest's filter of what runs on hosts that play virtual machines.
fn played_filter(all: bool) -> String {
    let is_run = |module: &&str| all || DEFAULT_WORKERS.contains(module);
    format!(
        "{} & ({})",
        binary(WORKERS_SUITE),
        modules(PLAYABLE.into_iter().filter(is_run))
    )
}

/// nextest's filters of both halves of T2. `hosts`: machines that are reached by SSH can become nodes here; `played`:
/// what may run on hosts that play virtual machines did so before.
fn lab_filters(all: bool, hosts: bool, played: bool) -> (String, String) {
    let is_left = |module: &&str| !played || !PLAYABLE.contains(module);
    if all {
        let suites = [DEFAULT, "operations", HOSTS].map(binary).join(" + ");
        let workers = match played {
            true => format!("({} - ({}))", binary(WORKERS_SUITE), modules(PLAYABLE)),
            false => binary(WORKERS_SUITE),
        };
        let machines = ["kubevirt", VM_HOST].map(binary).join(" + ");
        return (suites, format!("{machines} + {workers}"));
    }
    let suites = match hosts {
        // Without its modules, which take long.
        true => format!("{} + ({} - test(/::/))", binary(DEFAULT), binary(HOSTS)),
        false => binary(DEFAULT),
    };
    let workers = modules(DEFAULT_WORKERS.into_iter().filter(is_left));
    (suites, format!("{} & ({workers})", binary(WORKERS_SUITE)))
}

fn binary(name: &str) -> String {
    format!("binary_id(=suites::{name})")
}

fn modules<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let each = names.into_iter().map(|name| format!("test(/^{name}::/)"));
    each.collect::<Vec<_>>().join(" + ")
}

/// `--shake NAME`: tests of T1 whose names contain it, again and again, under load and shaken.
pub(crate) fn shake(session: &mut Session<'_>, name: &str) -> Result<()> {
    session.stage(COMPILE, |session| compile(session))?;
    let filter = format!("{INTEGRATION} & test({name})");
    session.stage(SHAKE, |session| {
        shake_tests(session, &filter, shake::TIMES, Seed::draw())
    })
}

fn shake_tests(session: &mut Session<'_>, filter: &str, times: usize, seed: Seed) -> Result<()> {
    t1_programs(session.layout, session.progress)?;
    let servers = servers(session)?;
    let _busy = Busy::start(shake::BUSY);
    session.progress.note(format!("{seed}"));
    shake::run(session, filter, times, seed, servers.folder())
        .with_context(|| format!("in shake mode, {seed}"))
}

/// For [`shake::run`].
pub(crate) fn shaken_environment(servers: &Path) -> [(&'static str, &OsStr); 2] {
    [require("1"), (servers::FOLDER, servers.as_os_str())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_everything_has_every_suite_and_a_default_one_the_cheap_ones() {
        let (suites, workers) = lab_filters(true, false, false);
        for suite in ["control_plane", "hosts", "operations"] {
            assert!(suites.contains(suite), "{suites}");
        }
        for suite in ["kubevirt", "vm_host", "workers"] {
            assert!(workers.contains(suite), "{workers}");
        }
        assert!(!workers.contains("test("), "{workers}");
        let (suites, _) = lab_filters(false, false, false);
        assert_eq!(suites, "binary_id(=suites::control_plane)");
        let (suites, workers) = lab_filters(false, true, false);
        assert_eq!(
            suites,
            "binary_id(=suites::control_plane) + (binary_id(=suites::hosts) - test(/::/))"
        );
        assert_eq!(
            workers,
            "binary_id(=suites::workers) & (test(/^worker::/) + test(/^autoscaler::/))"
        );
    }

    #[test]
    fn each_suite_runs_once_be_it_on_hosts_or_on_virtual_machines() {
        for all in [false, true] {
            let played = played_filter(all);
            let (_, workers) = lab_filters(all, true, true);
            let taken_out = workers.split_once(" - (").map(|(_, out)| out);
            for module in PLAYABLE {
                let test = format!("test(/^{module}::/)");
                let is_run = all || DEFAULT_WORKERS.contains(&module);
                assert_eq!(played.contains(&test), is_run, "{played}");
                let stays = workers.contains(&test) && taken_out.is_none();
                assert!(!stays, "{module} runs twice: {workers}");
                assert_eq!(taken_out.is_some_and(|out| out.contains(&test)), all);
            }
            // One virtual machine at least becomes a node in each run.
            assert!(all || workers.contains("test(/^worker::/)"), "{workers}");
            assert!(!played.contains("test(/^worker::/)"), "{played}");
        }
        assert_eq!(
            played_filter(false),
            "binary_id(=suites::workers) & (test(/^autoscaler::/))"
        );
    }

    #[test]
    fn a_lab_that_plays_has_no_kubevirt() {
        let (options, _) = lab_with(true, Some(Release::default()), Build::Dev);
        let options = played(options);
        assert!(options.player && options.kubevirt.is_none());
        assert_eq!(options.tenant_versions, KubernetesVersion::ALL);
    }

    #[test]
    fn the_lab_has_what_is_asked_for() {
        let (options, operator) = lab_with(true, None, Build::Release);
        assert_eq!(options.tenant_versions, KubernetesVersion::ALL);
        assert_eq!(options.kubevirt, None);
        assert_eq!(
            (options.build, operator.build),
            (Build::Release, Build::Release)
        );
        let (options, operator) = lab_with(false, Some(Release::V1_6), Build::Dev);
        assert_eq!((options.build, operator.build), (Build::Dev, Build::Dev));
        assert_eq!(options.kubevirt, Some(Release::V1_6));
        assert_eq!(
            options.tenant_versions,
            UpOptions::default().tenant_versions
        );
    }
}
