//! The commands: each asks, and writes one result.
//!
//! Invariant: a runtime and a client are made only for commands that ask something.

use std::future::Future;

use crate::args::access::Credential;
use crate::args::{Args, Command, Create, Delete};
use crate::exit::{Exit, Failure};

mod change;
mod connect;
mod create;
mod credential;
mod dashboard;
mod delete;
mod describe;
mod doctor;
mod down;
mod events;
mod explain;
mod follow;
mod forwarding;
mod get;
mod grants;
mod here;
mod kubeconfig;
mod logs;
mod man;
pub(crate) mod names;
mod near;
mod ours;
mod overview;
mod restore;
mod rotate;
mod sleep;
mod snapshot;
mod sysdump;
mod tree;
mod up;
mod upgrade;
mod version;
mod wait;

/// Runs a command; `shell` prints completions, which need the tree of commands.
pub(crate) fn run(
    args: Args,
    shell: impl Fn(clap_complete::Shell) -> Vec<u8>,
) -> Result<Exit, Failure> {
    let global = &args.global;
    match &args.command {
        Command::Get(get) => ask(get::run(global, get)),
        Command::Describe(one) => ask(describe::run(global, one)),
        Command::Tree(tree) => ask(tree::run(global, tree)),
        Command::Doctor(doctor) => ask(doctor::run(global, doctor)),
        Command::Kubeconfig(one) => match &one.grants {
            Some(grants) => ask(grants::run(global, grants)),
            None => ask(kubeconfig::run(global, one)),
        },
        Command::Credential(Credential::Get(one)) => ask(credential::get(global, one)),
        Command::Connect(one) => stay(connect::run(global, one)),
        Command::Up(one) => ask(up::run(global, one)),
        Command::Down(one) => ask(down::run(global, one)),
        Command::Dashboard(one) => stay(dashboard::run(global, one)),
        Command::Create(Create::Cluster(one)) => ask(create::cluster(global, one)),
        Command::Create(Create::Pool(one)) => ask(create::pool(global, one)),
        Command::Scale(scale) => ask(change::scale(global, scale)),
        Command::Pause(one) => ask(change::pause(global, one, true)),
        Command::Resume(one) => ask(change::pause(global, one, false)),
        Command::Sleep(one) => ask(sleep::sleep(global, one)),
        Command::Wake(one) => ask(sleep::wake(global, one)),
        Command::Hosts(one) => ask(overview::hosts(global, one)),
        Command::Quota(one) => ask(overview::quota(global, one)),
        Command::Fleet(one) => ask(overview::fleet(global, one)),
        Command::Delete(Delete::Cluster(one)) => ask(delete::cluster(global, one)),
        Command::Delete(Delete::Pool(one)) => ask(delete::pool(global, one)),
        Command::Upgrade(one) => ask(upgrade::run(global, one)),
        Command::Events(events) => ask(events::run(global, events)),
        Command::Snapshot(one) => ask(snapshot::run(global, one)),
        Command::Restore(one) => ask(restore::run(global, one)),
        Command::Rotate(one) => ask(rotate::run(global, one)),
        Command::Logs(one) => ask(logs::run(global, one)),
        Command::Sysdump(one) => ask(sysdump::run(global, one)),
        Command::Version(one) => ask(version::run(global, one)),
        Command::Wait(one) => ask(wait::run(global, one)),
        Command::ExplainCondition(one) => match &one.name {
            Some(name) => ask(explain::present(global, one, name)),
            None => explain::run(one, global.output),
        },
        Command::Man { dir } => man::run(dir),
        Command::Completion { shell: which } => {
            let text = shell(*which);
            crate::output::result(&String::from_utf8_lossy(&text))?;
            Ok(Exit::Done)
        }
    }
}

/// Runs what asks the API, until it is done or the user interrupts it.
fn ask(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    stay(async {
        tokio::select! {
            ended = command => ended,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    })
}

/// The same of what minds interruptions itself.
fn stay(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        let what = format!("cannot start: {error}");
        Failure::new(
            Exit::Failed,
            &what,
            "look at the limits of this process: `ulimit -a`",
        )
    })?;
    let ended = runtime.block_on(command);
    // Connections that are still being made are nobody's any more.
    runtime.shutdown_background();
    ended
}
