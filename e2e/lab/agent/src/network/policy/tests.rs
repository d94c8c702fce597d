//! Policies by flows: what each set of policies allows and refuses, judged by the model's own
//! evaluator.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::*;
use crate::network::{model::Flow, pods::NamedPort};

const PEOPLE: [(&str, &str); 7] = [
    ("web", "10.0.0.1"),
    ("db", "10.0.0.2"),
    ("job", "10.0.1.3"),
    ("client", "10.0.0.4"),
    ("far", "10.0.1.5"),
    ("six", "fd00::6"),
    ("outside", "192.0.2.7"),
];

fn address(name: &str) -> IpAddr {
    let known = PEOPLE.iter().find(|(known, _)| *known == name);
    known.map_or(name, |(_, address)| address).parse().unwrap()
}

fn pod(namespace: &str, name: &str, local: bool, ports: &[(&str, Protocol, u16)]) -> Pod {
    Pod {
        namespace: namespace.to_owned(),
        labels: [("app".to_owned(), name.to_owned())].into(),
        addresses: [address(name)].into(),
        ports: ports
            .iter()
            .map(|&(name, protocol, number)| NamedPort {
                name: name.to_owned(),
                protocol,
                number,
            })
            .collect(),
        local,
        created: 0,
    }
}

/// Pods `web`, `db` and `six` of namespace `a` and `client` of `b` run here, `job` (`a`) and `far`
/// (`c`, which has no labels) elsewhere.
fn pods() -> Vec<Pod> {
    let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
    vec![
        pod("a", "web", true, &[("http", tcp, 8080), ("dns", udp, 53)]),
        pod("a", "db", true, &[("http", tcp, 9090)]),
        pod("a", "six", true, &[]),
        pod("a", "job", false, &[("http", tcp, 7070)]),
        pod("b", "client", true, &[]),
        pod("c", "far", false, &[("http", tcp, 6060)]),
    ]
}

fn namespaces() -> Namespaces {
    let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
    [
        ("a", labels("red")),
        ("b", labels("blue")),
        ("c", BTreeMap::new()),
    ]
    .map(|(name, labels)| (name.to_owned(), labels))
    .into()
}

/// Policies of namespace `a` with these specs.
fn compiled(specs: &[Value]) -> Compiled {
    let policy = |(number, spec): (usize, &Value)| {
        let object = json!({"metadata": {"name": format!("p{number}"), "namespace": "a"},
            "spec": spec});
        serde_json::from_value::<NetworkPolicy>(object).unwrap()
    };
    let policies: Vec<_> = specs.iter().enumerate().map(policy).collect();
    compile(&pods(), &namespaces(), &policies)
}

/// Reads `client>web tcp/80`.
fn flow(text: &str) -> Flow {
    let (ends, port) = text.split_once(' ').unwrap();
    let (source, destination) = ends.split_once('>').unwrap();
    let (protocol, port) = port.split_once('/').unwrap();
    Flow {
        source: address(source),
        destination: SocketAddr::new(address(destination), port.parse().unwrap()),
        protocol: Protocol::parse(Some(&protocol.to_uppercase())).unwrap(),
    }
}

#[track_caller]
fn check(specs: &[Value], allowed: &[&str], refused: &[&str]) {
    let compiled = compiled(specs);
    assert_eq!(compiled.problems, Vec::<String>::new());
    for text in allowed {
        assert!(
            compiled.ruleset.allows(&flow(text)),
            "{text} must be allowed"
        );
    }
    for text in refused {
        assert!(
            !compiled.ruleset.allows(&flow(text)),
            "{text} must be refused"
        );
    }
}

#[test]
fn without_policies_everything_is_allowed_and_nothing_is_enforced() {
    assert_eq!(compiled(&[]), Compiled::default());
    check(&[], &["client>web tcp/80", "web>outside udp/53"], &[]);
}

#[test]
fn empty_ingress_policy_refuses_incoming_and_leaves_outgoing_alone() {
    check(
        &[json!({"podSelector": {}})],
        &[
            "web>outside tcp/80",
            "web>client tcp/80",
            "web>job tcp/80",
            "web>web tcp/1",
        ],
        &[
            "client>web tcp/80",
            "web>db udp/53",
            "outside>db sctp/1",
            "client>six tcp/80",
        ],
    );
}

#[test]
fn default_deny_both_ways_refuses_both_ways_and_spares_other_namespaces() {
    check(
        &[json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})],
        &["client>far tcp/80", "far>client tcp/80", "job>far tcp/1"],
        &[
            "web>outside tcp/80",
            "outside>web tcp/80",
            "web>db tcp/80",
            "client>web tcp/80",
        ],
    );
}

#[test]
fn empty_egress_rule_list_without_types_isolates_ingress_only() {
    check(
        &[json!({"podSelector": {}, "egress": []})],
        &["web>outside tcp/80"],
        &["outside>web tcp/80"],
    );
}

#[test]
fn egress_rules_without_types_isolate_both_ways() {
    check(
        &[json!({"podSelector": {}, "egress": [{}]})],
        &["web>outside tcp/80"],
        &["outside>web tcp/80"],
    );
}

#[test]
fn egress_type_alone_leaves_incoming_alone() {
    check(
        &[json!({"podSelector": {}, "policyTypes": ["Egress"]})],
        &["client>web tcp/80"],
        &["web>client tcp/80"],
    );
}

#[test]
fn empty_rule_allows_everything() {
    check(
        &[json!({"podSelector": {}, "ingress": [{}]})],
        &["client>web tcp/80", "outside>web udp/9", "far>six tcp/1"],
        &[],
    );
}

#[test]
fn pod_selector_takes_labels_and_expressions_together() {
    check(
        &[
            json!({"podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "app", "operator": "In", "values": ["web", "db"]},
            {"key": "app", "operator": "NotIn", "values": ["job"]},
            {"key": "app", "operator": "Exists"},
            {"key": "other", "operator": "DoesNotExist"},
            {"key": "other", "operator": "NotIn", "values": ["x"]}]}}),
        ],
        &["client>db tcp/80"],
        &["client>web tcp/80"],
    );
    check(
        &[json!({"podSelector": {"matchExpressions": [
            {"key": "other", "operator": "Exists"}]}})],
        &["client>web tcp/80"],
        &[],
    );
}

#[test]
fn pod_peer_is_of_the_policys_own_namespace() {
    check(
        &[
            json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"from": [
            {"podSelector": {"matchExpressions": [
                {"key": "app", "operator": "In", "values": ["web", "job", "client"]}]}}]}]}),
        ],
        &["web>db tcp/80", "job>db udp/5"],
        &["client>db tcp/80", "far>db tcp/80", "outside>db tcp/80"],
    );
}

#[test]
fn namespace_peer_is_every_pod_of_matching_namespaces() {
    check(
        &[json!({"podSelector": {}, "ingress": [{"from": [
            {"namespaceSelector": {"matchLabels": {"team": "blue"}}}]}]})],
        &["client>web tcp/80"],
        &["db>web tcp/80", "far>web tcp/80", "outside>web tcp/80"],
    );
    check(
        &[json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]})],
        &["client>web tcp/80", "db>web tcp/80", "far>web tcp/80"],
        &["outside>web tcp/80"],
    );
    check(
        &[
            json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector":
            {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}]}]}),
        ],
        &["far>web tcp/80"],
        &["client>web tcp/80", "db>web tcp/80"],
    );
}

#[test]
fn both_selectors_in_one_peer_must_match_and_two_peers_are_alternatives() {
    let client = json!({"matchLabels": {"app": "client"}});
    let red = json!({"matchLabels": {"team": "red"}});
    check(
        &[json!({"podSelector": {}, "ingress": [{"from": [
            {"namespaceSelector": red, "podSelector": client}]}]})],
        &[],
        &["client>web tcp/80", "db>web tcp/80"],
    );
    check(
        &[json!({"podSelector": {}, "ingress": [{"from": [
            {"namespaceSelector": red}, {"namespaceSelector": {}, "podSelector": client}]}]})],
        &["client>web tcp/80", "db>web tcp/80"],
        &["far>web tcp/80"],
    );
}

#[test]
fn ip_block_allows_its_addresses_without_the_exceptions() {
    check(
        &[
            json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [
            {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.4/30", "192.0.2.128/25"]}},
            {"ipBlock": {"cidr": "fd00::/16", "except": ["fd00:1::/32"]}}]}]}),
        ],
        &[
            "web>192.0.2.3 tcp/80",
            "web>192.0.2.8 udp/80",
            "six>fd00::9 tcp/1",
        ],
        &[
            "web>outside tcp/80",
            "web>192.0.2.200 tcp/80",
            "web>198.51.100.1 tcp/80",
            "six>fd00:1::1 tcp/1",
            "web>db tcp/80",
        ],
    );
}

#[test]
fn exception_of_one_block_is_no_exception_of_another() {
    check(
        &[
            json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}},
            {"ipBlock": {"cidr": "10.0.0.4/32"}}]}]}),
        ],
        &["web>outside tcp/80", "web>client tcp/80"],
        &["web>db tcp/80", "web>far tcp/80", "six>fd00::9 tcp/80"],
    );
}

#[test]
fn ip_block_that_is_all_exception_allows_nothing() {
    check(
        &[json!({"podSelector": {}, "ingress": [{"from": [
            {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/24"]}}]}]})],
        &[],
        &["outside>web tcp/80", "client>web tcp/80"],
    );
}

#[test]
fn ports_match_by_protocol_number_and_range() {
    check(
        &[json!({"podSelector": {}, "ingress": [{"ports": [
            {"port": 80}, {"port": 53, "protocol": "UDP"},
            {"port": 8000, "endPort": 8100}, {"protocol": "SCTP"}]}]})],
        &[
            "client>web tcp/80",
            "client>web udp/53",
            "outside>web tcp/8000",
            "far>web tcp/8100",
            "client>web sctp/7",
        ],
        &[
            "client>web udp/80",
            "client>web tcp/53",
            "client>web tcp/7999",
            "client>web tcp/8101",
        ],
    );
}

#[test]
fn peers_and_ports_of_a_rule_belong_together() {
    check(
        &[json!({"podSelector": {}, "ingress": [
            {"from": [{"podSelector": {}}], "ports": [{"port": 1}]},
            {"from": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}],
             "ports": [{"port": 2}]}]})],
        &["db>web tcp/1", "client>web tcp/2"],
        &["db>web tcp/2", "client>web tcp/1"],
    );
}

#[test]
fn named_ingress_port_is_the_receiving_pods_own() {
    check(
        &[json!({"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]})],
        &["client>web tcp/8080", "client>db tcp/9090"],
        &[
            "client>web tcp/9090",
            "client>db tcp/8080",
            "client>web udp/8080",
            "client>six tcp/8080",
        ],
    );
    check(
        &[json!({"podSelector": {}, "ingress": [
            {"ports": [{"port": "dns", "protocol": "UDP"}, {"port": "dns"}]}]})],
        &["client>web udp/53"],
        &["client>web tcp/53", "client>db udp/53"],
    );
}

#[test]
fn named_egress_port_is_the_peers_own() {
    check(
        &[
            json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{
            "to": [{"podSelector": {}}, {"ipBlock": {"cidr": "192.0.2.0/24"}}],
            "ports": [{"port": "http"}]}]}),
        ],
        &["web>db tcp/9090", "web>job tcp/7070"],
        &[
            "web>db tcp/8080",
            "web>far tcp/6060",
            "web>outside tcp/9090",
        ],
    );
}

#[test]
fn several_policies_add_up() {
    check(
        &[
            json!({"podSelector": {}}),
            json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [
                {"ports": [{"port": 80}]}]}),
            json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [
                {"from": [{"podSelector": {}}]}]}),
        ],
        &["client>web tcp/80", "db>web tcp/81"],
        &["client>web tcp/81", "client>db tcp/80", "web>db tcp/80"],
    );
}

#[test]
fn sender_and_receiver_must_both_allow() {
    let allow_out = json!({"podSelector": {"matchLabels": {"app": "web"}},
        "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 80}]}]});
    let allow_in = json!({"podSelector": {"matchLabels": {"app": "db"}},
        "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}, {"port": 81}]}]});
    check(
        &[allow_out, allow_in],
        &["web>db tcp/80"],
        &["web>db tcp/81", "web>db tcp/82"],
    );
}

#[test]
fn equal_pods_share_a_gate_and_pods_elsewhere_have_none() {
    let ruleset = compiled(&[json!({"podSelector": {}})]).ruleset;
    assert_eq!(ruleset.ingress.len(), 1);
    assert_eq!(ruleset.ingress[0].policies, ["a/p0"]);
    let here: BTreeSet<IpAddr> = ["web", "db", "six"].map(address).into();
    assert_eq!(ruleset.ingress[0].addresses, here);
    assert!(ruleset.egress.is_empty());
}

#[test]
fn order_of_the_inputs_does_not_matter() {
    let policy = |name: &str, port: u16| {
        let object = json!({"metadata": {"name": name, "namespace": "a"},
            "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": port}]}]}});
        serde_json::from_value::<NetworkPolicy>(object).unwrap()
    };
    let mut policies = vec![policy("x", 1), policy("y", 2), policy("z", 3)];
    let mut pods = pods();
    let before = compile(&pods, &namespaces(), &policies);
    policies.reverse();
    pods.reverse();
    assert_eq!(compile(&pods, &namespaces(), &policies), before);
}

#[test]
fn address_in_use_again_belongs_to_the_newest_pod() {
    let old = pod("a", "web", true, &[]);
    let new = Pod {
        created: 5,
        ..pod("b", "web", true, &[])
    };
    let policy: NetworkPolicy = serde_json::from_value(
        json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"podSelector": {}}}),
    )
    .unwrap();
    for pods in [[old.clone(), new.clone()], [new, old.clone()]] {
        assert_eq!(
            compile(&pods, &namespaces(), &[&policy]),
            Compiled::default()
        );
    }
    assert_eq!(
        compile(&[old], &namespaces(), &[&policy])
            .ruleset
            .ingress
            .len(),
        1
    );
}

#[test]
fn nonsense_allows_nothing_and_is_named() {
    let nonsense = [
        (
            json!({"from": [{"ipBlock": {"cidr": "nowhere"}}]}),
            "no network",
        ),
        (
            json!({"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["x"]}}]}),
            "no network",
        ),
        (json!({"from": [{}]}), "names nobody"),
        (
            json!({"from": [{"podSelector": {"matchExpressions": [
            {"key": "app", "operator": "Like", "values": ["web"]}]}}]}),
            "selector",
        ),
        (
            json!({"from": [{"namespaceSelector": {"matchExpressions": [
            {"key": "app", "operator": "Like", "values": ["web"]}]}}]}),
            "selector",
        ),
        (json!({"ports": [{"protocol": "ICMP"}]}), "no protocol"),
        (
            json!({"ports": [{"port": 80, "endPort": 79}]}),
            "are no ports",
        ),
        (json!({"ports": [{"port": 70000}]}), "are no ports"),
    ];
    for (rule, problem) in nonsense {
        let compiled = compiled(&[json!({"podSelector": {}, "ingress": [rule]})]);
        assert!(
            !compiled.ruleset.allows(&flow("db>web tcp/80")),
            "{problem}"
        );
        assert_eq!(compiled.problems.len(), 1, "{:?}", compiled.problems);
        assert!(
            compiled.problems[0].contains(problem),
            "{:?}",
            compiled.problems
        );
    }
}
