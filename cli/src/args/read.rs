//! Flags of commands that look and change nothing: get, describe, events, explain-condition.
//!
//! Invariant: without a flag each of them ends.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::waiting::time;
use crate::kinds::Kind;
use crate::sorting::{By, by};

/// `covey get`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Get {
    /// What is listed
    #[arg(value_enum, default_value_t = Kind::Clusters)]
    pub(crate) kind: Kind,
    /// Only these
    pub(crate) names: Vec<String>,
    /// In all namespaces
    #[arg(long, short = 'A', conflicts_with = "names")]
    pub(crate) all_namespaces: bool,
    /// Only what has these labels: pool=demo,tier!=test
    #[arg(long, short = 'l', conflicts_with = "names", value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// Only what has these fields: metadata.name!=demo, metadata.namespace=team-a
    #[arg(long, conflicts_with = "names", value_name = "FIELDS")]
    pub(crate) field_selector: Option<String>,
    /// Only what belongs to this tenant cluster: pools, machines, snapshots, restores, grants
    #[arg(long, conflicts_with = "names", value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// In the order of a column (AGE) or of a field (.spec.replicas)
    #[arg(long, value_name = "COLUMN|FIELD", value_parser = by)]
    pub(crate) sort_by: Option<By>,
    /// Go on with what changes, until interrupted
    #[arg(long, short = 'w', conflicts_with_all = ["sort_by", "cluster"])]
    pub(crate) watch: bool,
}

/// `covey describe`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Describe {
    /// The tenant cluster
    pub(crate) name: String,
    /// Every machine on a line of its own, and every condition
    #[arg(long)]
    pub(crate) all: bool,
    /// How many warnings of Events are shown
    #[arg(long, default_value_t = 3, value_name = "NUMBER")]
    pub(crate) events: usize,
    /// How deep: 1 its parts, 2 also its pools, 3 also their machines
    #[arg(long, default_value_t = 3, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=3))]
    pub(crate) depth: u8,
}

/// `covey events`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Events {
    /// The tenant cluster; without it all of the namespace
    pub(crate) name: Option<String>,
    /// Go on with what comes, until interrupted
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Only those of these types
    #[arg(long, value_enum, value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<EventType>,
    /// Only warnings, as --types warning
    #[arg(long, conflicts_with = "types")]
    pub(crate) warnings: bool,
    /// Only those with this reason
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Only what is younger: 10m, 1h
    #[arg(long, value_parser = time, value_name = "TIME")]
    pub(crate) since: Option<Duration>,
}

impl Events {
    /// The only type that is wanted, as the API calls it; none: all of them.
    pub(crate) fn only(&self) -> Option<&'static str> {
        let has = |wanted: EventType| self.types.contains(&wanted);
        match (has(EventType::Normal), has(EventType::Warning)) {
            _ if self.warnings => Some("Warning"),
            (false, true) => Some("Warning"),
            (true, false) => Some("Normal"),
            _ => None,
        }
    }
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum EventType {
    /// What happens as it should
    Normal,
    /// What should not happen
    Warning,
}

/// `covey explain-condition`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// The reason or the type, as it stands in a condition: QuorumLost, EtcdReady
    #[arg(value_name = "REASON|TYPE")]
    pub(crate) word: String,
    /// A tenant cluster: also what its conditions say of it now, and those of its pools and machines
    pub(crate) name: Option<String>,
}

#[cfg(test)]
mod tests {
    use crate::args::{Args, Command};
    use clap::Parser as _;

    #[test]
    fn types_of_events_are_one_or_all() {
        let only = |line: &str| {
            let parsed = Args::try_parse_from(line.split(' ')).unwrap();
            match parsed.command {
                Command::Events(events) => events.only(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(only("covey events"), None);
        assert_eq!(only("covey events --types normal,warning"), None);
        assert_eq!(only("covey events --types normal"), Some("Normal"));
        assert_eq!(only("covey events --types warning"), Some("Warning"));
        assert_eq!(only("covey events demo --warnings"), Some("Warning"));
    }
}
