//! What kubectl asks for to complete `kubectl covey …`: the words that may stand next.
//!
//! Invariant: pure; whoever has names of objects hands them in. kubectl runs `kubectl_complete-covey` with the words of
//! the line, and reads one candidate a line and a directive (kubernetes/kubernetes#105867, cobra's `__complete`).

use clap::{Arg, Command, ValueEnum as _};

use crate::kinds::Kind;

/// Nothing else is tried, such as names of files (cobra's `ShellCompDirectiveNoFileComp`).
const NO_FILES: &str = ":4";
/// Names of files may stand there too (cobra's `ShellCompDirectiveDefault`).
const FILES: &str = ":0";

/// A line whose last word is being written.
pub(crate) struct Line<'a> {
    /// The command, by its own name: `create`, `cluster`.
    path: Vec<&'a str>,
    command: &'a Command,
    /// What stands behind the command.
    before: Vec<&'a str>,
    /// The flag whose value is being written.
    value_of: Option<&'a Arg>,
    /// Flags of before that say which API is asked, with their values.
    flags: Vec<String>,
    partial: &'a str,
}

/// Flags that say which API is asked, and in whose name.
const OF_API: [&str; 4] = ["kubeconfig", "context", "namespace", "as"];

/// Reads a line. The command has to be built.
pub(crate) fn line<'a>(root: &'a Command, words: &'a [String]) -> Line<'a> {
    let (partial, before) = match words.split_last() {
        Some((partial, before)) => (partial.as_str(), before),
        None => ("", &[][..]),
    };
    let mut line = Line {
        path: Vec::new(),
        command: root,
        before: Vec::new(),
        value_of: None,
        flags: Vec::new(),
        partial,
    };
    for word in before {
        if let Some(flag) = line.value_of.take() {
            line.note(flag, word);
            continue;
        }
        if word.starts_with('-') {
            line.value_of = flag(line.command, word).filter(|flag| takes_value(flag));
            if let Some((name, value)) = word.split_once('=')
                && let Some(flag) = flag(line.command, name)
            {
                line.note(flag, value);
            }
        } else if let Some(next) = line.command.find_subcommand(word) {
            line.path.push(next.get_name());
            (line.command, line.before) = (next, Vec::new());
        } else {
            line.before.push(word);
        }
    }
    line
}

impl Line<'_> {
    fn note(&mut self, flag: &Arg, value: &str) {
        let name = flag.get_long().unwrap_or_default();
        if OF_API.contains(&name) {
            self.flags.extend([format!("--{name}"), value.to_owned()]);
        }
    }

    /// Flags that say which API is asked.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// The kind whose objects' names may stand next; none where none may.
    pub(crate) fn kind(&self) -> Option<Kind> {
        if let Some(flag) = self.value_of {
            return (flag.get_long() == Some("cluster")).then_some(Kind::Clusters);
        }
        if self.partial.starts_with('-') {
            return None;
        }
        let place = self.before.len();
        match (self.path.as_slice(), place) {
            (["get"], 1..) => Kind::from_str(self.before[0], true).ok(),
            (["hosts"], _) => Some(Kind::Hosts),
            (["quota"], _) => Some(Kind::Quotas),
            (["fleet"], 0) => Some(Kind::Fleetpolicies),
            (["scale"] | ["delete", "pool"], 0) => Some(Kind::Pools),
            (["kubeconfig", "revoke"], _) => Some(Kind::Grants),
            (["wait"], _) | (["explain-condition"], 1) => Some(Kind::Clusters),
            ([one], 0) if OF_CLUSTERS.contains(one) => Some(Kind::Clusters),
            (["delete", "cluster"] | ["kubeconfig", "list"], 0) => Some(Kind::Clusters),
            _ => None,
        }
    }

    /// What is answered; `names` are those of objects that may stand next.
    pub(crate) fn answer(&self, names: Vec<String>) -> String {
        let mut found = names;
        match self.value_of {
            Some(flag) => {
                found.extend(values(flag));
                return lines(found, self.partial, FILES);
            }
            None if self.partial.starts_with('-') => found.extend(flags(self.command)),
            None => found.extend(subcommands(self.command)),
        }
        if !self.partial.starts_with('-') {
            let mut arguments = self.command.get_positionals();
            found.extend(
                arguments
                    .nth(self.before.len())
                    .into_iter()
                    .flat_map(values),
            );
        }
        lines(found, self.partial, NO_FILES)
    }
}

/// Commands whose first word is a tenant cluster.
const OF_CLUSTERS: [&str; 17] = [
    "connect",
    "describe",
    "doctor",
    "events",
    "kubeconfig",
    "logs",
    "pause",
    "restore",
    "resume",
    "rotate",
    "sleep",
    "snapshot",
    "sysdump",
    "tree",
    "upgrade",
    "wait",
    "wake",
];

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
        let mut root = Args::command();
        root.build();
        let told = self::line(&root, &words).answer(Vec::new());
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

    /// Which kind's names may stand next, and with which flags they are asked for.
    fn asked(line: &[&str]) -> (Option<Kind>, Vec<String>) {
        let words: Vec<_> = line.iter().map(|word| (*word).to_owned()).collect();
        let mut root = Args::command();
        root.build();
        let line = self::line(&root, &words);
        (line.kind(), line.flags().to_vec())
    }

    #[test]
    fn names_are_those_of_the_kind_that_may_stand_there() {
        let kind = |line: &[&str]| asked(line).0;
        assert_eq!(kind(&["describe", "d"]), Some(Kind::Clusters));
        assert_eq!(kind(&["status", ""]), Some(Kind::Clusters));
        assert_eq!(kind(&["get", ""]), None);
        assert_eq!(kind(&["get", "np", ""]), Some(Kind::Pools));
        assert_eq!(kind(&["delete", "pool", ""]), Some(Kind::Pools));
        assert_eq!(kind(&["logs", "demo", ""]), None);
        assert_eq!(kind(&["wait", "demo", ""]), Some(Kind::Clusters));
        assert_eq!(kind(&["why", "QuorumLost", ""]), Some(Kind::Clusters));
        assert_eq!(
            kind(&["get", "pools", "--cluster", ""]),
            Some(Kind::Clusters)
        );
        assert_eq!(kind(&["describe", "--al"]), None);
        let (kind, flags) = asked(&["-n", "team-a", "describe", "--context=prod", ""]);
        assert_eq!(kind, Some(Kind::Clusters));
        assert_eq!(flags, ["--namespace", "team-a", "--context", "prod"]);
        let mut root = Args::command();
        root.build();
        let words = ["describe".to_owned(), "d".to_owned()];
        let told = line(&root, &words).answer(vec!["demo".to_owned(), "web".to_owned()]);
        assert_eq!(told, "demo\n:4\n");
    }

    #[test]
    fn every_command_of_a_tenant_cluster_is_one() {
        let root = Args::command();
        for name in OF_CLUSTERS {
            assert!(root.find_subcommand(name).is_some(), "{name}");
        }
    }
}
