//! What kubectl asks for to complete `kubectl covey …`: the words that may stand next.
//!
//! Invariant: pure, and nothing is asked of any API. kubectl runs `kubectl_complete-covey` with the words of the line, and
//! reads one candidate a line and a directive (kubernetes/kubernetes#105867, cobra's `__complete`).

use clap::{Arg, Command};

/// Nothing else is tried, such as names of files (cobra's `ShellCompDirectiveNoFileComp`).
const NO_FILES: &str = ":4";
/// Names of files may stand there too (cobra's `ShellCompDirectiveDefault`).
const FILES: &str = ":0";

/// What is answered to a line whose last word is being written.
pub(crate) fn answer(mut root: Command, words: &[String]) -> String {
    root.build();
    let (partial, before) = match words.split_last() {
        Some((partial, before)) => (partial.as_str(), before),
        None => ("", &[][..]),
    };
    let mut command = &root;
    let (mut place, mut value_of) = (0, None);
    for word in before {
        if value_of.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            value_of = flag(command, word).filter(|flag| takes_value(flag));
        } else if let Some(next) = command.find_subcommand(word) {
            (command, place) = (next, 0);
        } else {
            place += 1;
        }
    }
    let mut found = match value_of {
        Some(flag) => return lines(values(flag), partial, FILES),
        None if partial.starts_with('-') => flags(command),
        None => subcommands(command),
    };
    if !partial.starts_with('-')
        && let Some(argument) = command.get_positionals().nth(place)
    {
        found.extend(values(argument));
    }
    lines(found, partial, NO_FILES)
}

/// The flag of a word that has no value in it.
fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let long = word.strip_prefix("--");
    let short = word.strip_prefix('-').and_then(|rest| {
        let mut letters = rest.chars();
        letters.next().filter(|_| letters.next().is_none())
    });
    command.get_arguments().find(|argument| match long {
        Some(long) => argument.get_long() == Some(long),
        None => short.is_some() && argument.get_short() == short,
    })
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
}

fn values(argument: &Arg) -> Vec<String> {
    let all = argument.get_possible_values();
    let shown = all.iter().filter(|value| !value.is_hide_set());
    shown.map(|value| value.get_name().to_owned()).collect()
}

fn flags(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
    let long = shown.filter_map(|flag| flag.get_long());
    long.map(|long| format!("--{long}")).collect()
}

fn subcommands(command: &Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    let names = shown.flat_map(|one| {
        [one.get_name()]
            .into_iter()
            .chain(one.get_visible_aliases())
    });
    names.map(str::to_owned).collect()
}

fn lines(mut found: Vec<String>, partial: &str, directive: &str) -> String {
    found.retain(|one| one.starts_with(partial));
    found.sort();
    found.dedup();
    found.push(directive.to_owned());
    found.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory as _;

    fn told(line: &[&str]) -> Vec<String> {
        let words: Vec<_> = line.iter().map(|word| (*word).to_owned()).collect();
        let told = answer(Args::command(), &words);
        told.lines().map(str::to_owned).collect()
    }

    #[test]
    fn commands_kinds_and_flags_are_completed() {
        assert_eq!(told(&["desc"]), ["describe", ":4"]);
        assert!(told(&[""]).contains(&"doctor".to_owned()));
        assert_eq!(told(&["create", "c"]), ["cluster", ":4"]);
        assert_eq!(told(&["get", "mach"]), ["machines", ":4"]);
        assert_eq!(told(&["-n", "team-a", "get", "pool"]), ["pools", ":4"]);
        assert_eq!(told(&["get", "--all-n"]), ["--all-namespaces", ":4"]);
        assert_eq!(told(&["get", "-o", "js"]), ["json", ":0"]);
        assert_eq!(told(&["describe", "demo", "x"]), [":4"]);
    }
}
