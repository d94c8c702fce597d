//! The program `covey`, which is also `kubectl covey` where the file is called `kubectl-covey`.
//!
//! Invariant: standard output has the result and nothing else; a failure is one line on standard error, what mends it
//! another, and the exit code of docs/cli.md.

use std::env;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::Args;
use crate::exit::Exit;

mod anonymous;
mod args;
mod commands;
mod complete;
mod connect;
mod credential;
mod credential_cache;
mod exit;
#[cfg(test)]
mod fixture;
mod forward;
mod install;
mod judge;
mod kinds;
mod lead;
mod logs;
mod manifest;
mod output;
mod overview;
mod progress;
mod render;
#[cfg(test)]
#[path = "../tests/t1/schema.rs"]
mod schema;
mod sorting;
mod sysdump;
mod table;
mod terminal;
mod tree;
mod verbose;

fn main() -> ExitCode {
    let called = env::args_os().next().unwrap_or_default();
    if is_completion(Path::new(&called)) {
        let words = env::args_os().skip(1);
        let words: Vec<_> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let mut root = Args::command();
        root.build();
        let line = complete::line(&root, &words);
        let kind = line.kind();
        let names = kind.map(|kind| commands::names::names(kind, line.flags()));
        let told = output::result(&line.answer(names.unwrap_or_default()));
        return told.map_or(Exit::Failed, |()| Exit::Done).into();
    }
    let mut command = command(Path::new(&called));
    let parsed = command.try_get_matches_from_mut(env::args_os());
    let parsed = parsed.and_then(|matches| Args::from_arg_matches(&matches));
    let args = match parsed {
        Ok(args) => args,
        Err(error) => {
            // Help and version are no errors; where nobody reads them, nothing is to be done about it.
            let _ = error.print();
            let is_help = error.exit_code() == 0;
            return if is_help { Exit::Done } else { Exit::Usage }.into();
        }
    };
    let completions = |shell| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "covey", &mut text);
        text
    };
    match commands::run(args, completions) {
        Ok(Exit::Interrupted) => {
            output::say("interrupted; what was begun goes on in the cluster");
            Exit::Interrupted.into()
        }
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::say(&format!("covey: {failure}"));
            failure.exit.into()
        }
    }
}

/// Whether it is called as kubectl calls what completes a plugin.
fn is_completion(called: &Path) -> bool {
    let name = called.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("kubectl_complete-"))
}

/// The tree of commands, under the name by which it was called.
fn command(called: &Path) -> clap::Command {
    let name = called.file_name().and_then(|name| name.to_str());
    let command = Args::command();
    match name {
        Some(plugin) if plugin.starts_with("kubectl-") => command.bin_name("kubectl covey"),
        _ => command.bin_name("covey"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_of_kubectl_calls_itself_so() {
        let usage = |called: &str| command(Path::new(called)).render_usage().to_string();
        assert!(usage("/usr/local/bin/kubectl-covey").contains("kubectl covey "));
        let own = usage("/usr/local/bin/covey");
        assert!(own.contains("covey ") && !own.contains("kubectl"), "{own}");
        assert!(is_completion(Path::new(
            "/usr/local/bin/kubectl_complete-covey"
        )));
        assert!(!is_completion(Path::new("/usr/local/bin/kubectl-covey")));
    }
}
