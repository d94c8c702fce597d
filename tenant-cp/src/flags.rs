//! Flags of a program: ours, those a user may change, and those a user may add.
//!
//! Invariant: no flag stands twice but those that are lists (`service-account-key-file`), and none that
//! Covey manages comes from the user.

use std::collections::{BTreeMap, BTreeSet};

pub mod apiserver;
pub mod controller_manager;
pub mod features;
mod scheduler;
pub(crate) mod table;

use table::Table;

/// A program of the control plane that takes flags from the user.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Program {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    fn table(self) -> &'static Table {
        match self {
            Self::ApiServer => &apiserver::FLAGS,
            Self::ControllerManager => &controller_manager::FLAGS,
            Self::Scheduler => &scheduler::FLAGS,
        }
    }
}

/// The version whose APIs and features a program serves in place of its own (KEP-4330).
pub const EMULATED_VERSION: &str = "emulated-version";

/// Refused for every program: they end it, open it up, or move what Covey relies on.
const REFUSED: &[&str] = &[
    "cert-dir",
    "config",
    "contention-profiling",
    "debug-socket-path",
    EMULATED_VERSION,
    "h",
    "help",
    "master",
    "min-compatibility-version",
    "permit-address-sharing",
    "permit-port-sharing",
    "tls-sni-cert-key",
    "version",
    "write-config-to",
];

/// Flags (without dashes) that a user may not set: those that Covey sets, and those that would
/// undo what Covey sets.
#[must_use]
pub fn managed_flags(program: Program) -> BTreeSet<&'static str> {
    let table = program.table();
    let fixed = table.fixed.iter().map(|(name, _)| *name);
    fixed
        .chain(table.computed.iter().copied())
        .chain(table.refused.iter().copied())
        .chain(REFUSED.iter().copied())
        .collect()
}

/// From which minor (of 1.x) on a user may set a flag; none: never.
#[must_use]
pub fn allowed_since(program: Program, flag: &str) -> Option<u64> {
    let lists = program.table().allowed.iter();
    let mut found = lists.filter(|(_, flags)| flags.contains(&flag));
    found.next().map(|(minor, _)| *minor)
}

/// All flags that a user may set, each with the minor (of 1.x) from which on.
#[must_use]
pub fn allowed_flags(program: Program) -> BTreeMap<&'static str, u64> {
    let lists = program.table().allowed.iter();
    let flags = lists.flat_map(|(minor, flags)| flags.iter().map(|flag| (*flag, *minor)));
    flags.collect()
}

/// The command line without the program: Covey's flags, then the user's, each sorted by name. One that is
/// computed several times is there as often, in the order given.
pub(crate) fn args(
    program: Program,
    computed: &[(&'static str, String)],
    extra: &BTreeMap<String, String>,
) -> Vec<String> {
    let table = program.table();
    let mut flags: Vec<(&str, &str)> = table.fixed.to_vec();
    flags.extend(computed.iter().map(|(name, value)| (*name, value.as_str())));
    let defaults = table.defaults.iter();
    flags.extend(defaults.filter(|(name, _)| !extra.contains_key(*name)));
    flags.sort_by_key(|(name, _)| *name);
    let managed = managed_flags(program);
    let added = extra
        .iter()
        .filter(|(name, _)| !managed.contains(name.as_str()));
    flags
        .into_iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .chain(added.map(|(name, value)| format!("--{name}={value}")))
        .collect()
}

/// How often whoever leads says so, unless the user says anything about it: every 5 s instead of 2,
/// since each time is a write to etcd, and two of them are what a tenant cluster at rest does most. A
/// successor waits 20 s instead of 15. One renewal in three has to succeed.
const LEASE_TIMES: [(&str, &str); 3] = [
    ("leader-elect-lease-duration", "20s"),
    ("leader-elect-renew-deadline", "15s"),
    ("leader-elect-retry-period", "5s"),
];

/// All of [`LEASE_TIMES`] or none: they have to fit each other.
pub(crate) fn lease_times(extra: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let given = |(name, _): &(&str, &str)| extra.contains_key(*name);
    match LEASE_TIMES.iter().any(given) {
        true => Vec::new(),
        false => LEASE_TIMES
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flag_that_a_user_may_set_is_managed_and_all_defaults_may_be_changed() {
        for program in Program::ALL {
            let (table, managed) = (program.table(), managed_flags(program));
            let mut seen = BTreeSet::new();
            for (_, flags) in table.allowed {
                for flag in *flags {
                    assert!(!managed.contains(flag), "{program:?} {flag}");
                    assert!(seen.insert(*flag), "{program:?} {flag} twice");
                }
            }
            let leads = program != Program::ApiServer;
            let times = LEASE_TIMES.iter().filter(|_| leads);
            for (flag, _) in table.defaults.iter().chain(times) {
                assert_eq!(allowed_since(program, flag), Some(34), "{program:?} {flag}");
            }
        }
    }
}
