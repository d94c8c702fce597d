//! A tenant cluster as a tree.
//!
//! Invariant: one line for one thing, so that a tree stays one.

use insight::description::types::{Description, MachineGroup, PoolDescription, State};
use insight::text;
use jiff::Timestamp;

use super::Symbols;
use insight::age::since;

/// The tree, with an end of line at its end.
pub(crate) fn describe(description: &Description, now: Timestamp, symbols: Symbols) -> String {
    let mut lines = vec![first(description, now)];
    let (branch, last) = symbols.branches();
    let width = description.parts.iter().map(|part| part.name.len()).max();
    let width = width.unwrap_or_default();
    for part in &description.parts {
        let state = symbols.state(part.state);
        let line = format!("{branch}{:width$}  {state} {}", part.name, part.text);
        lines.push(line);
    }
    match description.pools.len() {
        0 => lines.push(format!("{last}no node pools")),
        _ => lines.push(format!("{last}pools")),
    }
    for (at, pool) in description.pools.iter().enumerate() {
        let is_last = at + 1 == description.pools.len();
        pool_lines(pool, is_last, now, symbols, &mut lines);
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

fn pool_lines(
    pool: &PoolDescription,
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
    for (at, group) in pool.machines.iter().enumerate() {
        let is_last = at + 1 == pool.machines.len();
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
        symbols.state(group.state).to_owned(),
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

    #[test]
    fn a_tenant_cluster_is_one_screen() {
        let facts = fixture::facts();
        let cluster = facts.clusters.as_ref().there().unwrap()[0].clone();
        let described = insight::description::describe(&cluster, &facts, &fixture::events(), 3);
        let told = describe(&described, facts.now, Symbols::new(true));
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
    fn a_terminal_without_unicode_gets_words() {
        let facts = fixture::facts();
        let cluster = facts.clusters.as_ref().there().unwrap()[0].clone();
        let described = insight::description::describe(&cluster, &facts, &fixture::events(), 0);
        let told = describe(&described, facts.now, Symbols::new(false));
        assert!(told.contains("addons         FAIL coreDNS"), "{told}");
        assert!(told.contains("|- etcd"), "{told}");
    }

    #[test]
    fn what_may_not_be_read_is_one_line_and_no_error() {
        let mut facts = fixture::facts();
        facts.tenant_namespaces.clear();
        facts.not_allowed = vec!["list pods in covey-demo-0a1b2c3d11".to_owned()];
        let cluster = facts.clusters.as_ref().there().unwrap()[0].clone();
        let described = insight::description::describe(&cluster, &facts, &fixture::events(), 0);
        let told = describe(&described, facts.now, Symbols::new(true));
        let line = "(not allowed to list pods in covey-demo-0a1b2c3d11)";
        assert!(told.lines().any(|l| l == line), "{told}");
        assert!(!told.contains("0 of 1"), "{told}");
    }
}
