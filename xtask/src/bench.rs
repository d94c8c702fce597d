//! `cargo xtask bench …`: builds and runs the benches of crate `e2e` against the running lab, the one
//! of crates `ccm`, `operator` (`neighbours`, `fleet`, `idle`) and `dashboard` (`surface`), which bring their own API
//! servers, and those of crates `autoscaler`, `operator` (`clouds`) and `placement` (`locations`), which need none; and reads
//! off the kept runs of `cargo xtask test` what checks take.
//!
//! In the development profile: the client's share of the work is small (the report says how
//! small), its cryptography is optimised in every profile, and a release build costs minutes.
//! Invariant: it never fails on time alone, so it is no test; `clouds` fails on a machine that is there twice or left
//! behind.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use lab::{Layout, state::State};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `control-plane`, `workers`, `csi`, `restore`, `upgrade`, `rotation`, `sleep`, `ccm`, `neighbours`, `fleet`, `idle`, `surface`,
    /// `clouds`, `locations` or `autoscaler`,
    /// and its flags; `--help` shows them.
    /// `checks [--json]`: how long checks take and how steady they are, from the kept runs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    let help = args.args.iter().any(|arg| arg == "--help" || arg == "-h");
    match args.args.first().map(String::as_str) {
        Some("checks") => return crate::test::bench(args.args.iter().any(|arg| arg == "--json")),
        Some("ccm") => return shipped(&layout, ("ccm", "load_balancers"), None, &args.args[1..]),
        Some(bench @ ("neighbours" | "fleet")) => {
            return shipped(&layout, ("operator", "many"), Some(bench), &args.args[1..]);
        }
        Some(bench @ ("idle" | "clouds")) => {
            let run = ["run", "--quiet", "--package", "operator", "--example"];
            let run = run.into_iter().chain([bench, "--"]);
            return cargo(&layout, run.chain(texts(&args.args[1..])));
        }
        Some("surface") => return surface(&layout, &args.args[1..], help),
        // As it is shipped: one figure is of this machine.
        Some("locations") => {
            let run = ["run", "--quiet", "--release", "--package", "placement"];
            let run = run.into_iter().chain(["--example", "locations", "--"]);
            return cargo(&layout, run.chain(texts(&args.args[1..])));
        }
        Some("autoscaler") if !help => return autoscaler(&layout, &args.args),
        _ => {}
    }
    if !help && !State::read(&layout).is_some_and(|state| state.is_up()) {
        bail!("the lab is not up: `cargo xtask demo` brings it up with the operator in it");
    }
    cargo(&layout, BENCH.into_iter().chain(texts(&args.args)))
}

const BENCH: [&str; 5] = ["run", "--quiet", "--package", "bench", "--"];

fn texts(args: &[String]) -> impl Iterator<Item = &str> {
    args.iter().map(String::as_str)
}

/// What the calls cost is measured as the program is shipped and needs no lab; how long virtual
/// machines take needs one, and is left out, loudly, where there is none.
fn autoscaler(layout: &Layout, args: &[String]) -> Result<()> {
    let bench = ["run", "--quiet", "--release", "--package", "autoscaler"];
    let bench = bench
        .into_iter()
        .chain(["--example", "calls", "--", "--json"]);
    let service = printed(layout, bench)?;
    if !State::read(layout).is_some_and(|state| state.is_up()) {
        eprintln!("the lab is not up: no virtual machines; `cargo xtask demo` brings it up");
        return std::io::stdout()
            .write_all(service.as_bytes())
            .context("standard output is closed");
    }
    let service = ["--service", service.trim()];
    cargo(layout, BENCH.into_iter().chain(texts(args)).chain(service))
}

/// Leaves out what is measured of an operator, which takes longest.
const WITHOUT_OPERATOR: &str = "--without-operator";

/// What people touch: the command line and the dashboard, and what the operator shows to who scrapes it. All three are
/// measured as they are shipped.
fn surface(layout: &Layout, args: &[String], help: bool) -> Result<()> {
    let (bench, example) = (
        ["run", "--quiet", "--package", "dashboard"],
        ["--example", "surface", "--"],
    );
    let bench = bench.into_iter().chain(example);
    if help {
        eprintln!("{WITHOUT_OPERATOR}: leave out what is measured of an operator (`operator.*`)");
        return cargo(layout, bench.chain(["--help"]));
    }
    let is_without = args.iter().any(|arg| arg == WITHOUT_OPERATOR);
    let mut build = vec!["build", "--quiet", "--release"];
    build.extend(["--package", "cli", "--package", "dashboard"]);
    if !is_without {
        build.extend(["--package", "operator"]);
    }
    cargo(layout, build)?;
    let [covey, dashboard, operator] =
        ["covey", "covey-dashboard", "operator"].map(|name| released(layout, name));
    let mut operator_says = Vec::new();
    if is_without {
        eprintln!("SKIPPED what an operator shows (operator.*): {WITHOUT_OPERATOR}");
    } else {
        let run = ["run", "--quiet", "--package", "operator"];
        let run = run.into_iter().chain(["--example", "many", "--", "shown"]);
        let said = printed(layout, run.chain(["--json", "--program", &operator]))?;
        operator_says = vec!["--operator".to_owned(), said.trim().to_owned()];
    }
    let programs = ["--covey", &covey, "--dashboard", &dashboard];
    let args = args.iter().filter(|arg| *arg != WITHOUT_OPERATOR);
    let args = args.chain(&operator_says).map(String::as_str);
    cargo(layout, bench.chain(programs).chain(args))
}

/// Where a program of the release profile is.
fn released(layout: &Layout, program: &str) -> String {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| layout.checkout().join("target"));
    target.join("release").join(program).display().to_string()
}

/// What a bench prints.
fn printed<'a>(layout: &Layout, args: impl IntoIterator<Item = &'a str>) -> Result<String> {
    let output = command(layout, args)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be run")?;
    if !output.status.success() {
        bail!("the bench ended with {}", output.status)
    }
    String::from_utf8(output.stdout).context("the bench printed no text")
}

/// Needs no lab: API servers of its own do, and the program as it is shipped, because its own memory and CPU
/// time are what is measured. The bench is an example of the program's crate, or one of several in it.
fn shipped(
    layout: &Layout,
    (package, example): (&str, &str),
    bench: Option<&str>,
    args: &[String],
) -> Result<()> {
    cargo(
        layout,
        ["build", "--quiet", "--release", "--package", package],
    )?;
    let program = released(layout, package);
    let run = ["run", "--quiet", "--package", package];
    let run = run.into_iter().chain(["--example", example, "--"]);
    let program = ["--program", program.as_str()];
    cargo(layout, run.chain(bench).chain(program).chain(texts(args)))
}

fn command<'a>(layout: &Layout, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = lab::run::cargo();
    command.args(args).current_dir(layout.checkout());
    command
}

fn cargo<'a>(layout: &Layout, args: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let status = command(layout, args)
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("the bench ended with {status}")
    }
    Ok(())
}
