//! The text for nftables, compared with golden texts. That nftables takes it and the kernel does
//! what it says is proven by `tests/network_policy.rs`.

use std::collections::BTreeSet;

use super::*;

fn addresses(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn networks(texts: &[&str]) -> Peers {
    Peers::Within(texts.iter().map(|text| text.parse().unwrap()).collect())
}

fn gate(of: &[&str], policies: &[&str], rules: Vec<Rule>) -> Gate {
    Gate {
        addresses: addresses(of),
        policies: policies.iter().map(ToString::to_string).collect(),
        rules,
    }
}

fn example() -> Ruleset {
    let named = [
        ("10.0.0.1".parse().unwrap(), Protocol::Tcp, 8080),
        ("fd00::1".parse().unwrap(), Protocol::Udp, 53),
    ];
    Ruleset {
        egress: vec![
            gate(&["10.0.0.2"], &["a/deny"], vec![]),
            gate(
                &["10.0.0.1", "fd00::1"],
                &["a/deny", "a/out"],
                vec![
                    Rule {
                        peers: networks(&["10.1.0.0/16", "10.2.0.7/32", "fd01::/64"]),
                        ports: Ports::Only(vec![
                            Port::Range(Protocol::Tcp, 443..=443),
                            Port::Range(Protocol::Udp, 53..=53),
                        ]),
                    },
                    Rule {
                        peers: networks(&["10.1.0.0/16", "10.2.0.7/32"]),
                        ports: Ports::Any,
                    },
                ],
            ),
        ],
        ingress: vec![gate(
            &["10.0.0.1", "fd00::1"],
            &["a/in"],
            vec![
                Rule {
                    peers: Peers::Any,
                    ports: Ports::Only(vec![
                        Port::Named(named.into()),
                        Port::Every(Protocol::Sctp),
                        Port::Range(Protocol::Sctp, 9..=9),
                        Port::Range(Protocol::Tcp, 80..=90),
                        Port::Range(Protocol::Tcp, 85..=95),
                        Port::Range(Protocol::Tcp, 22..=22),
                    ]),
                },
                Rule {
                    peers: Peers::Within(vec![]),
                    ports: Ports::Any,
                },
                Rule {
                    peers: Peers::Any,
                    ports: Ports::Only(vec![]),
                },
            ],
        )],
    }
}

#[test]
fn ruleset_without_gates_only_removes_the_table() {
    assert_eq!(
        render(&Ruleset::default(), Refusal::Reject),
        "table inet covey_lab_policy\ndelete table inet covey_lab_policy\n"
    );
}

#[test]
fn example_is_rendered_as_the_golden_text() {
    let text = render(&example(), Refusal::Reject);
    assert_eq!(text, include_str!("example.nft"), "now it is:\n{text}");
}

#[test]
fn drop_says_nothing_to_the_sender() {
    let text = render(&example(), Refusal::Drop);
    let golden = include_str!("example.nft");
    assert_eq!(
        text,
        golden.replace("reject with icmpx type admin-prohibited", "drop")
    );
}

#[test]
fn comment_stays_within_what_nftables_takes() {
    let names: Vec<String> = (0..40)
        .map(|number| format!("namespace/policy-{number}"))
        .collect();
    let comment = comment(&names);
    assert!(
        comment.len() <= 127 && comment.ends_with(" ..."),
        "{comment}"
    );
}

#[test]
fn port_ranges_are_merged_without_running_over() {
    assert_eq!(
        merge(vec![(5, 9), (1, 3), (4, 4), (20, 65535), (65535, 65535)]),
        ["1-9", "20-65535"]
    );
    assert_eq!(merge(vec![(7, 7)]), ["7"]);
}
