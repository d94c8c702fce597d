//! A tenant cluster as a tree.
//!
//! Invariant: one line for one thing, so that a tree stays one.

use insight::description::types::{
    ConditionLine, Description, MachineGroup, PoolDescription, State,
};
use insight::text;
use jiff::Timestamp;

use super::Symbols;
use insight::age::since;

/// The depth at which pools are told, and that of their machines.
const POOLS: u8 = 2;
const MACHINES: u8 = 3;

/// The tree, as deep as that, with an end of line at its end.
pub(crate) fn describe(
    description: &Description,
    depth: u8,
    now: Timestamp,
    symbols: Symbols,
) -> String {
    let mut lines = vec![first(description, now)];
    let (branch, last) = symbols.branches();
    let width = description.parts.iter().map(|part| part.name.len()).max();
    let width = width.unwrap_or_default();
    for part in &description.parts {
        let state = symbols.state(part.state);
        let line = format!("{branch}{:width$}  {state} {}", part.name, part.text);
        lines.push(line);
    }
    let conditions = description.conditions.as_slice();
    if !conditions.is_empty() {
        lines.push(format!("{branch}conditions"));
    }
    for (at, condition) in conditions.iter().enumerate() {
        let own = if at + 1 == conditions.len() {
            last
        } else {
            branch
        };
        let line = condition_line(condition, now);
        lines.push(format!("{}{own}{line}", symbols.trunks().0));
    }
    match description.pools.len() {
        0 => lines.push(format!("{last}no node pools")),
        1 if depth < POOLS => lines.push(format!("{last}1 node pool")),
        many if depth < POOLS => lines.push(format!("{last}{many} node pools")),
        _ => lines.push(format!("{last}pools")),
    }
    let pools = description.pools.iter().filter(|_| depth >= POOLS);
    for (at, pool) in pools.enumerate() {
        let is_last = at + 1 == description.pools.len();
        let machines = match depth >= MACHINES {
            true => pool.machines.as_slice(),
            false => &[],
        };
        pool_lines((pool, machines), is_last, now, symbols, &mut lines);
    }
    for what in &description.not_read {
        lines.push(format!("({})", text::shown(what)));
    }
    for warning in &description.warnings {
        let age = warning.at.map(|at| since(at, now)).unwrap_or_default();
        let (object, reason) = (&warning.object, &warning.reason);
        let line = format!("Warning  {age}  {object} {reason}: {}", warning.message);
        lines.push(line);
    }
    if description.state != State::Ok {
        lines.push(format!("why: covey doctor {}", description.name));
    }
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

fn first(description: &Description, now: Timestamp) -> String {
    let Description {
        name, namespace, ..
    } = description;
    let version = description.version.as_deref();
    let version = version.map_or("no version yet".to_owned(), |v| format!("Kubernetes {v}"));
    let state = match description.state {
        State::Ok => "Ready",
        State::Failing => "not Ready",
        State::Off | State::Unknown | State::Waiting => "not known to be Ready",
    };
    let age = description
        .since
        .map(|at| format!(" for {}", since(at, now)));
    let mut line = format!(
        "{name} ({namespace})  {version}  {state}{}",
        age.unwrap_or_default()
    );
    if !description.reason.is_empty() {
        line.push_str(&format!("  {}", text::shown(&description.reason)));
    }
    if !description.message.is_empty() {
        line.push_str(&format!(": {}", description.message));
    }
    if !description.is_current {
        line.push_str("  (the operator has not seen the last change yet)");
    }
    line
}

/// `EtcdReady True for 3h  MembersReady`.
fn condition_line(condition: &ConditionLine, now: Timestamp) -> String {
    let ConditionLine {
        type_,
        status,
        reason,
        message,
        ..
    } = condition;
    let line = format!(
        "{type_} {status} for {}  {reason}",
        since(condition.since, now)
    );
    match message.is_empty() {
        true => line,
        false => format!("{line}: {message}"),
    }
}

fn pool_lines(
    (pool, machines): (&PoolDescription, &[MachineGroup]),
    is_last: bool,
    now: Timestamp,
    symbols: Symbols,
    lines: &mut Vec<String>,
) {
    let ((branch, last), (trunk, none)) = (symbols.branches(), symbols.trunks());
    let own = if is_last { last } else { branch };
    let words = [
        format!("{} {}", symbols.state(pool.state), pool.name),
        format!("{} of {} ready", pool.ready, pool.desired),
        text::shown(&pool.reason),
        pool.version.clone().unwrap_or_default(),
    ];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    lines.push(format!("{none}{own}{}", words.join("  ")));
    let below = if is_last { none } else { trunk };
    for (at, group) in machines.iter().enumerate() {
        let is_last = at + 1 == machines.len();
        let own = if is_last { last } else { branch };
        let line = format!("{none}{below}{own}{}", group_line(group, now, symbols));
        lines.push(line);
    }
}

fn group_line(group: &MachineGroup, now: Timestamp, symbols: Symbols) -> String {
    let machines = if group.count == 1 {
        "machine"
    } else {
        "machines"
    };
    let age = group.since.map(|at| since(at, now)).unwrap_or_default();
    let words = [
        format!("{} {machines}", group.count),
        symbols.state(group.state),
        group.phase.clone(),
        age,
    ];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    match group.text.is_empty() {
        true => words.join(" "),
        false => format!("{}  {}", words.join(" "), group.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use api::TenantCluster;
    use insight::description::Detail;
    use insight::facts::Facts;

    fn told_of(cluster: &TenantCluster, facts: &Facts, events: usize) -> Description {
        let detail = Detail {
            events,
            is_all: false,
        };
        insight::description::describe(cluster, facts, &fixture::events(), detail)
    }

    #[test]
    fn a_tenant_cluster_is_one_screen() {
        let facts = fixture::facts();
        let cluster = facts.clusters.as_ref().there().unwrap()[0].clone();
        let described = told_of(&cluster, &facts, 3);
        let told = describe(&described, MACHINES, facts.now, Symbols::new(true));
        let expected = "\
demo (team-a)  Kubernetes 1.35.4  not Ready for 60m  AddonsNotReady: coreDNS: 0 of 2 pods are ready
├ endpoint       ✓ 10.96.3.7:6443 (LoadBalancer), certificate until 2027-09-01
├ etcd           ✓ 1 of 1
├ control plane  ✓ 1 of 1
├ controllers    ✓ 1 of 1
├ konnectivity   ✓
├ addons         ✗ coreDNS PodsNotReady · kubeProxy · network · cloudController off · csi off · autoscaler off
└ pools
  └ ✗ demo-workers  1 of 2 ready  ScalingUp  1.35.4
    ├ 1 machine ✓ Running
    └ 1 machine ! Booting 60m  demo-workers-bbbbb: the virtual machine runs, no node yet
Warning  5m  TenantCluster/demo AddonsNotReady: coreDNS: 0 of 2 pods are ready
why: covey doctor demo
";
        assert_eq!(told, expected);
    }

    #[test]
    fn as_json_it_is_as_the_schema_has_it() {
        let facts = fixture::facts();
        let cluster = &facts.clusters.as_ref().there().unwrap()[0];
        for is_all in [false, true] {
            let detail = Detail { events: 3, is_all };
            let events = fixture::events();
            let told = insight::description::describe(cluster, &facts, &events, detail);
            let told = serde_json::to_value(told).unwrap();
            assert_eq!(crate::schema::findings(&told), [""; 0], "{told:#}");
            assert_eq!(told.get("conditions").is_some(), is_all);
        }
    }

    #[test]
    fn a_terminal_without_unicode_gets_words() {
        let facts = fixture::facts();
        let cluster = facts.clusters.as_ref().there().unwrap()[0].clone();
        let described = told_of(&cluster, &facts, 0);
        let told = describe(&described, MACHINES, facts.now, Symbols::new(false));
        assert!(told.contains("addons         FAIL coreDNS"), "{told}");
        assert!(told.contains("|- etcd"), "{told}");
    }

    #[test]
    fn what_may_not_be_read_is_one_line_and_no_error() {
        let mut facts = fixture::facts();
        facts.tenant_namespaces.clear();
        facts.not_allowed = vec!["list pods in covey-demo-0a1b2c3d11".to_owned()];
        let cluster = facts.clusters.as_ref().there().unwrap()[0].clone();
        let described = told_of(&cluster, &facts, 0);
        let told = describe(&described, MACHINES, facts.now, Symbols::new(true));
        let line = "(not allowed to list pods in covey-demo-0a1b2c3d11)";
        assert!(told.lines().any(|l| l == line), "{told}");
        assert!(!told.contains("0 of 1"), "{told}");
    }

    #[test]
    fn it_is_as_deep_as_was_asked_for() {
        let facts = fixture::facts();
        let cluster = &facts.clusters.as_ref().there().unwrap()[0];
        let described = told_of(cluster, &facts, 0);
        let told = |depth| describe(&described, depth, facts.now, Symbols::new(true));
        assert!(told(1).contains("└ 1 node pool\n") && !told(1).contains("demo-workers"));
        let pools = told(POOLS);
        assert!(
            pools.contains("└ ✗ demo-workers") && !pools.contains("1 machine"),
            "{pools}"
        );
    }

    #[test]
    fn all_of_it_names_every_machine_and_every_condition() {
        let facts = fixture::facts();
        let cluster = &facts.clusters.as_ref().there().unwrap()[0];
        let detail = Detail {
            events: 0,
            is_all: true,
        };
        let events = fixture::events();
        let described = insight::description::describe(cluster, &facts, &events, detail);
        let told = describe(&described, MACHINES, facts.now, Symbols::new(true));
        assert!(
            told.contains("1 machine ✓ Running  demo-workers-aaaaa\n"),
            "{told}"
        );
        assert!(
            told.contains("│ ├ EtcdReady True for 60m  MembersReady\n"),
            "{told}"
        );
        let last = "│ └ Ready False for 60m  AddonsNotReady: coreDNS: 0 of 2 pods are ready\n";
        assert!(told.contains(last), "{told}");
    }
}
