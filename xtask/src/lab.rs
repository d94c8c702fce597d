//! `cargo xtask lab …`: the lab's command line; the work is in crate `lab`.

mod host;

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use clap::{Subcommand, ValueEnum};
use lab::{
    Build, Layout, Operator, UpOptions, logs,
    programs::{KubernetesVersion, kubevirt::Release},
    progress::Progress,
    state::State,
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Bring the lab up (under 40 s when everything is built, at once when it is up)
    Up {
        /// Kubernetes versions of tenants; each one costs a build of about 5 minutes, once
        #[arg(long, value_delimiter = ',', default_value = "1.35,1.36")]
        tenant_versions: Vec<KubernetesVersion>,
        /// Go on with the objects of the lab before instead of an empty management cluster
        #[arg(long)]
        keep: bool,
        /// Which KubeVirt: 1.9 or 1.6
        #[arg(long, default_value = "1.9", conflicts_with = "no_kubevirt")]
        kubevirt: Release,
        /// Leave out KubeVirt: tenants then have no nodes, and the lab takes a GB less of memory
        #[arg(long)]
        no_kubevirt: bool,
        /// What virtual machines are; on a lab with hosts, `--nodes vm` goes over to KubeVirt
        #[arg(long, value_enum, env = Nodes::VARIABLE, default_value_t)]
        nodes: Nodes,
    },
    /// Build Covey from this checkout and install it in the lab, with what every addon needs
    Install {
        /// The build of a release instead of that of the tests
        #[arg(long)]
        release: bool,
        /// Have new tenant clusters begin with golden files, which are made of the versions that the lab has
        #[arg(long)]
        golden: bool,
        /// Keep so many control planes waiting for somebody who wants one, of the first version that the lab has
        #[arg(long, value_name = "N", default_value_t = 0)]
        standby: u16,
    },
    /// Machines that are reached by SSH, at native speed
    #[command(subcommand)]
    Host(host::Command),
    /// Wait until virtual machines can be made: `up` does not, so that other work can begin
    Wait,
    /// Take the lab down; nothing of it is left on the machine but .lab/
    Down {
        /// Delete .lab/ too: images, logs, the registry
        #[arg(long)]
        purge: bool,
    },
    /// Show the lab on one screen
    Status,
    /// Show the log of a program, or the last lines of every one
    Logs {
        /// For example kubelet
        program: Option<String>,
        /// Go on showing what is written
        #[arg(short, long)]
        follow: bool,
    },
    /// Run a command inside a simulated host, for example `lab exec -- nft list ruleset`
    Exec {
        /// The simulated host
        #[arg(long, default_value = lab::MANAGEMENT_HOST)]
        host: String,
        /// Command and arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// What virtual machines of the lab are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Nodes {
    /// KubeVirt's.
    #[default]
    Vm,
    /// Hosts that play them, at native speed: KubeVirt's kinds without KubeVirt
    Host,
}

impl Nodes {
    /// Says which where no argument does.
    pub(crate) const VARIABLE: &'static str = "COVEY_NODES";
}

pub(crate) fn run(command: Command) -> Result<()> {
    let layout = Layout::discover()?;
    match command {
        Command::Up {
            tenant_versions,
            keep,
            kubevirt,
            no_kubevirt,
            nodes,
        } => {
            let are_played = nodes == Nodes::Host && !no_kubevirt;
            let progress = Progress::new();
            lab::up(
                &layout,
                &UpOptions {
                    tenant_versions,
                    keep,
                    kubevirt: (!no_kubevirt && !are_played).then_some(kubevirt),
                    player: are_played,
                    ..UpOptions::default()
                },
                &progress,
            )?;
            progress.show_summary();
            progress.note(format!(
                "kubectl: {} --kubeconfig {}",
                layout.tool("kubectl").display(),
                layout.kubeconfig().display()
            ));
        }
        Command::Install {
            release,
            golden,
            standby,
        } => {
            let operator = Operator {
                build: match release {
                    true => Build::Release,
                    false => Build::Dev,
                },
                golden,
                standby,
                ..Operator::as_released(env!("CARGO_PKG_VERSION"))
            };
            lab::install_operator(&layout, &operator, &Progress::new())?;
        }
        Command::Host(command) => say(&host::run(&layout, command)?)?,
        Command::Wait => lab::machines::wait(&layout, &Progress::new())?,
        Command::Down { purge } => lab::down(&layout, purge, &Progress::new())?,
        Command::Status => say(&lab::status(&layout)?)?,
        Command::Logs { program, follow } => logs::show(&layout, program.as_deref(), follow)?,
        Command::Exec { host, command } => exec(&layout, &host, &command)?,
    }
    Ok(())
}

fn exec(layout: &Layout, host: &str, command: &[String]) -> Result<()> {
    let state = State::read(layout).context("the lab is down: run `cargo xtask lab up` first")?;
    let Some((_, found)) = state.all_hosts().find(|(name, _)| *name == host) else {
        let names: Vec<_> = state.all_hosts().map(|(name, _)| name).collect();
        bail!("there is no host {host:?}; there are: {}", names.join(", "))
    };
    let (program, args) = command.split_first().context("the command is empty")?;
    let status = found
        .inside(program, args)
        .status()
        .context("nsenter cannot be run")?;
    if !status.success() {
        std::process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}

/// Results go to standard output, everything else to standard error.
pub(crate) fn say(text: &str) -> Result<()> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("standard output is closed")
}
