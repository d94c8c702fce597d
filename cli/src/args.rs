//! The command line: global flags and the tree of commands.
//!
//! Invariant: parsing reads arguments and environment and nothing else, so that `--help` needs neither a kubeconfig
//! nor a runtime.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use self::access::{Credential, Kubeconfig};
use self::backups::{Restore, Snapshot};
use self::connect::Connect;
use self::create::{CreateCluster, CreatePool};
use self::dashboard::Dashboard;
use self::doctor::Doctor;
use self::down::Down;
use self::logs::Logs;
use self::overview::{Fleet, Overview, Tree};
use self::read::{Describe, Events, Explain, Get};
use self::sysdump::Sysdump;
use self::up::Up;
use self::waiting::{Waiting, time};

pub(crate) mod access;
pub(crate) mod backups;
pub(crate) mod connect;
pub(crate) mod create;
pub(crate) mod dashboard;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod logs;
pub(crate) mod overview;
pub(crate) mod read;
pub(crate) mod sysdump;
pub(crate) mod up;
pub(crate) mod waiting;

/// How commands end, as docs/cli.md has it.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 done, 1 failure, 2 usage, 3 not Ready or a check failed, 4 time ran out, \
5 not found, 6 not allowed, 7 refused by admission, 130 interrupted.";

/// Tenant clusters of Covey: see them, make them, and find out what is wrong
#[derive(Debug, Parser)]
#[command(name = "covey", version, max_term_width = 100)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Kubeconfig file; without it what KUBECONFIG names, ~/.kube/config, or the pod's service account
    #[arg(long, global = true, env = "COVEY_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one
    #[arg(long, global = true, env = "COVEY_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace; without it the context's
    #[arg(long, short = 'n', global = true, env = "COVEY_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// User to act as
    #[arg(
        long = "as",
        id = "as",
        global = true,
        env = "COVEY_AS",
        value_name = "USER"
    )]
    pub(crate) as_user: Option<String>,
    /// Group to act as one of; may be repeated
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "as"
    )]
    pub(crate) as_group: Vec<String>,
    /// How long one answer may take: 10s, 1m
    #[arg(
        long,
        global = true,
        env = "COVEY_REQUEST_TIMEOUT",
        value_name = "TIME"
    )]
    #[arg(default_value = "10s", value_parser = time)]
    pub(crate) request_timeout: Duration,
    /// How the result is written
    #[arg(
        long,
        short,
        global = true,
        env = "COVEY_OUTPUT",
        value_enum,
        value_name = "FORM"
    )]
    #[arg(default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// No progress and no hints
    #[arg(long, short, global = true, env = "COVEY_QUIET")]
    pub(crate) quiet: bool,
    /// Without the line of headings
    #[arg(long, global = true, env = "COVEY_NO_HEADERS")]
    pub(crate) no_headers: bool,
    /// Whether states have colours; auto: on a terminal, where NO_COLOR is not set
    #[arg(
        long,
        global = true,
        env = "COVEY_COLOR",
        value_enum,
        value_name = "WHEN"
    )]
    #[arg(default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// Each request to the API, with its answer and how long it took, on standard error
    #[arg(long, short, global = true, env = "COVEY_VERBOSE")]
    pub(crate) verbose: bool,
}

/// Whether states have colours.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal that can, where nobody said otherwise
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How a result is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For people, with everything
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names, one a line: tenantcluster.covey.dev/demo
    Name,
}

/// What is done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List tenant clusters, node pools, machines and other objects of Covey
    #[command(visible_alias = "list")]
    Get(Get),
    /// Show one tenant cluster with its parts, pools and machines; exit code 3 when it is not Ready
    #[command(visible_alias = "status")]
    Describe(Describe),
    /// Show the objects of a tenant cluster by who owns them
    Tree(Tree),
    /// Find what is wrong, the cause first, and say what mends it; exit code 3 when something is
    Doctor(Doctor),
    /// Get a kubeconfig of a tenant cluster in your own name; it has no secret unless that is asked for
    Kubeconfig(Box<Kubeconfig>),
    /// What kubeconfigs ask for
    #[command(subcommand, hide = true)]
    Credential(Credential),
    /// Run a command with a kubeconfig of a tenant cluster; ends with the command's exit code
    Connect(Connect),
    /// Install Covey on this cluster, or upgrade it, and wait until it is ready
    Up(Box<Up>),
    /// Uninstall what `covey up` installed; refused while there are tenant clusters
    Down(Down),
    /// Lead a port of this machine to the dashboard, until it is interrupted
    Dashboard(Dashboard),
    /// Make a tenant cluster or a node pool
    #[command(subcommand)]
    Create(Create),
    /// Set how many machines a node pool has
    Scale(Scale),
    /// Let nothing of a tenant cluster be changed until `covey resume`
    Pause(Named),
    /// Let a paused tenant cluster go on
    Resume(Named),
    /// Put a tenant cluster to sleep: its machines go, nothing of it runs, and its data stays
    Sleep(Sleeping),
    /// Wake a tenant cluster that sleeps
    Wake(Sleeping),
    /// Show the hosts of a namespace: who has them, and why one cannot be used
    Hosts(Overview),
    /// Show what a namespace may take and what it takes; exit code 3 when that is more
    Quota(Overview),
    /// Show how far tenant clusters follow the operator, wave by wave; exit code 3 when that is halted
    Fleet(Fleet),
    /// Delete a tenant cluster with all its data, or a node pool
    #[command(subcommand)]
    Delete(Delete),
    /// Change the version of a tenant cluster, and of its node pools
    Upgrade(Upgrade),
    /// Take a full snapshot of a tenant cluster's etcd into its backup
    Snapshot(Snapshot),
    /// Bring a tenant cluster back to a moment that its backup has
    Restore(Restore),
    /// Replace an authority or a key of a tenant cluster by a new one, step by step
    Rotate(Rotate),
    /// Wait until a tenant cluster is Ready, gone, or says something else
    Wait(Wait),
    /// Read what the parts of a tenant cluster wrote
    Logs(Logs),
    /// List what happened to the tenant clusters of a namespace, or to one and in its tenant namespace
    Events(Events),
    /// Say what a reason of a condition means, and what to do
    #[command(visible_alias = "why")]
    ExplainCondition(Explain),
    /// Write what a report of a bug needs into one file: objects, logs and findings, and no secrets
    Sysdump(Sysdump),
    /// Say which versions this program, the operator and the API have; exit code 3 when they do not fit together
    Version(Version),
    /// Print what a shell needs to complete commands
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command
    Man {
        /// The folder that they go to; it is made where it is not there
        #[arg(long, value_name = "FOLDER")]
        dir: PathBuf,
    },
}

/// A tenant cluster, by its name.
#[derive(Debug, ClapArgs)]
pub(crate) struct Named {
    /// The tenant cluster
    pub(crate) name: String,
}

/// `covey sleep` and `covey wake`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sleeping {
    /// The tenant cluster
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

/// `covey create`.
#[derive(Debug, Subcommand)]
pub(crate) enum Create {
    /// Make a tenant cluster, and with `--workers` its first node pool
    Cluster(Box<CreateCluster>),
    /// Make a node pool of a tenant cluster
    Pool(Box<CreatePool>),
}

/// `covey scale`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Scale {
    /// The node pool
    pub(crate) pool: String,
    /// How many machines, 0 to 1000
    #[arg(value_parser = clap::value_parser!(i32).range(0..=1000))]
    pub(crate) replicas: i32,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

/// `covey delete`.
#[derive(Debug, Subcommand)]
pub(crate) enum Delete {
    /// Delete a tenant cluster: its control plane, etcd with all data, machines and volumes
    Cluster(DeleteOne),
    /// Delete a node pool and its machines
    Pool(DeleteOne),
}

/// What is deleted.
#[derive(Debug, ClapArgs)]
pub(crate) struct DeleteOne {
    /// Its name
    pub(crate) name: String,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

/// `covey wait`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Wait {
    /// The tenant clusters
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// What is waited for: ready, asleep, deleted, version=VERSION, nodes=NUMBER, condition=TYPE or condition=TYPE=STATUS
    #[arg(long = "for", id = "for", default_value = "ready", value_name = "WHAT")]
    #[arg(value_parser = crate::judge::goal)]
    pub(crate) goal: crate::judge::Goal,
    /// How long it is waited for, for all of them together: 90s, 5m
    #[arg(long, default_value = "5m", value_parser = time, value_name = "TIME")]
    pub(crate) timeout: Duration,
}

/// `covey upgrade`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Upgrade {
    /// The tenant cluster
    pub(crate) name: String,
    /// Version of Kubernetes: 1.36.1
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: String,
    /// Also the node pools that name a version of their own, which replaces their machines
    #[arg(long)]
    pub(crate) workers: bool,
    /// Say what would be done and whether it is let, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

/// `covey rotate`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Rotate {
    /// The tenant cluster
    pub(crate) name: String,
    /// What is turned, as `spec.rotation` calls it: usersCA
    pub(crate) what: String,
    /// The generation that is to sign; without it one above all that there were
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["hold", "go_on"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) generation: Option<u32>,
    /// What becomes of nodes of before: Wait, InPlace or Replace
    #[arg(long, value_name = "HOW", value_parser = ["Wait", "InPlace", "Replace"])]
    pub(crate) nodes: Option<String>,
    /// It is turned because a key of before was stolen: nobody is to believe that one any more
    #[arg(long, conflicts_with_all = ["hold", "go_on"])]
    pub(crate) compromised: bool,
    /// Let a rotation stay where it is
    #[arg(long)]
    pub(crate) hold: bool,
    /// Let one that is held go on
    #[arg(long, conflicts_with = "hold")]
    pub(crate) go_on: bool,
}

/// `covey version`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Version {
    /// Of this program alone; nothing is asked
    #[arg(long)]
    pub(crate) client: bool,
    /// Namespace of the operator
    #[arg(long, env = "COVEY_OPERATOR_NAMESPACE", default_value = "covey-system")]
    pub(crate) operator_namespace: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use clap::CommandFactory as _;

    #[test]
    fn the_tree_of_commands_is_sound() {
        Args::command().debug_assert();
    }

    /// The help of a command and of those below it, without the flags that all have, which the first one shows.
    fn helps(command: &clap::Command, path: &str, text: &mut String) {
        let own = command.clone().bin_name(path).term_width(100);
        // What the variables of who runs this hold is nobody's help.
        let mut own = own.mut_args(|arg| arg.hide_env_values(true));
        text.push_str(&format!("$ {path} --help\n{}\n", own.render_long_help()));
        for below in command.get_subcommands() {
            helps(below, &format!("{path} {}", below.get_name()), text);
        }
    }

    #[test]
    fn help_of_every_command_is_as_it_was_looked_at() {
        let mut text = String::new();
        helps(&Args::command(), "covey", &mut text);
        for command in [
            "covey doctor",
            "covey kubeconfig revoke",
            "covey credential get",
        ] {
            assert!(text.contains(&format!("$ {command} --help\n")), "{command}");
        }
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        insta::assert_snapshot!("help", lines.join("\n"));
    }

    #[test]
    fn bad_input_is_refused_before_anything_is_asked() {
        for line in [
            "covey wait demo --for readily",
            "covey wait",
            "covey wait demo --timeout 5",
            "covey wait demo --timeout 0s",
            "covey get everything",
            "covey get clusters demo -A",
            "covey get -w --sort-by NAME",
            "covey get --sort-by {}",
            "covey describe demo --depth 0",
            "covey events --types loud",
            "covey logs demo everything",
            "covey logs demo machine/",
            "covey wait demo --for nodes=many",
            "covey doctor demo --pre",
            "covey doctor --deep",
            "covey get --color sometimes",
            "covey scale demo-workers -1",
            "covey describe",
            "covey get --as-group admins",
            "covey kubeconfig",
            "covey kubeconfig demo --embed --break-glass",
            "covey kubeconfig demo --break-glass --profile view",
            "covey kubeconfig demo --ttl 0s",
            "covey kubeconfig revoke",
            "covey kubeconfig revoke demo-x --all",
            "covey connect demo --ttl 1h -- true",
            "covey dashboard --port 70000",
            "covey up --dry-run nowhere",
            "covey up --wait=perhaps",
        ] {
            let parsed = Args::try_parse_from(line.split(' '));
            assert!(parsed.is_err(), "{line}");
        }
    }

    #[test]
    fn short_words_and_those_of_kubectl_name_the_same_kinds() {
        for (word, kind) in [
            ("tc", Kind::Clusters),
            ("cluster", Kind::Clusters),
            ("np", Kind::Pools),
            ("nodepools", Kind::Pools),
            ("machine", Kind::Machines),
        ] {
            let parsed = Args::try_parse_from(["covey", "list", word]).unwrap();
            let Command::Get(get) = parsed.command else {
                panic!("{word}");
            };
            assert_eq!(get.kind, kind);
        }
    }
}
