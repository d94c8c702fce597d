//! `covey man`: a page for each command.
//!
//! Invariant: exit codes stand on every page.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use crate::args::{Args, EXIT_CODES};
use crate::exit::{Exit, Failure};

pub(super) fn run(dir: &Path) -> Result<Exit, Failure> {
    let written = fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(tree(), dir));
    written.map_err(|error| {
        let what = format!("cannot write pages into {}: {error}", dir.display());
        Failure::new(
            Exit::Failed,
            &what,
            "name a folder that you may write to with `--dir`",
        )
    })?;
    Ok(Exit::Done)
}

fn tree() -> clap::Command {
    with_codes(Args::command())
}

fn with_codes(command: clap::Command) -> clap::Command {
    command
        .after_help(EXIT_CODES)
        .disable_help_subcommand(true)
        .mut_subcommands(with_codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_exit_codes() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("man1");
        assert_eq!(run(&dir), Ok(Exit::Done));
        let pages: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        let has = |name: &str| pages.iter().any(|page| page.ends_with(name));
        assert!(has("covey.1") && has("covey-doctor.1"), "{pages:?}");
        for page in &pages {
            let text = fs::read_to_string(page).unwrap();
            assert!(text.contains("130 interrupted"), "{}", page.display());
        }
    }
}
