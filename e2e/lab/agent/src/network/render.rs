//! Writes a ruleset as the text of one `nft -f` transaction that replaces our table.
//!
//! Invariant: the text is the same for the same ruleset, so comparing texts tells whether anything
//! changed; a ruleset without gates leaves no table behind and costs the node's packets nothing.
//!
//! Shape: the forward hook looks the source up in a verdict map, which jumps into the chain of its
//! egress gate; a matching rule returns, the chain's end refuses. The destination follows alike.
//! The input hook does the same for the source alone: what a pod sends to the node's own addresses.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    net::IpAddr,
};

use ipnet::IpNet;

use super::model::{Gate, Peers, Port, Ports, Protocol, Rule, Ruleset};

/// Our table. Nothing else on the node is touched.
pub const TABLE: &str = "inet covey_lab_policy";

/// What happens to a packet that no rule allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Refusal {
    /// Answer with ICMP "administratively prohibited": `connect` fails at once with
    /// `EHOSTUNREACH` (IPv6: `EACCES`), which a missing listener never causes. Tests need not wait
    /// for time-outs.
    #[default]
    Reject,
    /// Say nothing, as most network plugins do: the sender tries again until it gives up.
    Drop,
}

/// The text for `nft -f -`.
pub fn render(ruleset: &Ruleset, refusal: Refusal) -> String {
    // Adding first makes the deletion valid when there is no table yet.
    let mut text = format!("table {TABLE}\ndelete table {TABLE}\n");
    if ruleset.egress.is_empty() && ruleset.ingress.is_empty() {
        return text;
    }
    let mut sets = Sets::default();
    let mut chains = String::new();
    for (side, gates) in [
        (Side::Egress, &ruleset.egress),
        (Side::Ingress, &ruleset.ingress),
    ] {
        for (number, gate) in gates.iter().enumerate() {
            chains.push_str(&chain(side, number, gate, refusal, &mut sets));
        }
    }
    let mut forward = hook("forward");
    let mut input = hook("input");
    // How a neighbour's link address is found is not traffic (RFC 4861).
    input.push_str("\t\ticmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n");
    let mut maps = String::new();
    for family in [Family::V4, Family::V6] {
        let own = own_pairs(ruleset, family);
        if !own.is_empty() {
            let ip = family.header();
            let kind = format!("{0} . {0}", family.kind());
            let name = sets.name("own", family, &kind, false, own);
            let _ = writeln!(forward, "\t\t{ip} saddr . {ip} daddr @{name} accept");
        }
    }
    for (side, gates) in [
        (Side::Egress, &ruleset.egress),
        (Side::Ingress, &ruleset.ingress),
    ] {
        for family in [Family::V4, Family::V6] {
            let Some((map, look_up)) = verdicts(side, family, gates) else {
                continue;
            };
            maps.push_str(&map);
            forward.push_str(&look_up);
            if side == Side::Egress {
                input.push_str(&look_up);
            }
        }
    }
    let _ = write!(
        text,
        "table {TABLE} {{\n{}{chains}{maps}{forward}\t}}\n{input}\t}}\n}}\n",
        sets.text
    );
    text
}

/// Opens a chain in one of the kernel's hooks. Answers always pass: the connection was allowed.
fn hook(name: &str) -> String {
    format!(
        "\tchain {name} {{\n\t\ttype filter hook {name} priority filter + 10; policy accept;\n\
         \t\tct state established,related accept\n"
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Egress,
    Ingress,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        }
    }

    /// The header fields of the isolated pod and of its peer.
    fn fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Egress => ("saddr", "daddr"),
            Self::Ingress => ("daddr", "saddr"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn of(address: &IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    fn header(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::V4 => "ipv4_addr",
            Self::V6 => "ipv6_addr",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if *self == Self::V4 { "v4" } else { "v6" })
    }
}

/// The named sets; equal contents share one.
#[derive(Default)]
struct Sets {
    names: BTreeMap<(String, String), String>,
    text: String,
}

impl Sets {
    fn name(
        &mut self,
        stem: &str,
        family: Family,
        kind: &str,
        intervals: bool,
        elements: Vec<String>,
    ) -> String {
        let elements = elements.join(", ");
        let number = self.names.len();
        let Self { names, text } = self;
        let create = || {
            let name = format!("{stem}_{family}_{number}");
            let flags = if intervals {
                "\t\tflags interval\n"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "\tset {name} {{\n\t\ttype {kind}\n{flags}\t\telements = {{ {elements} }}\n\t}}"
            );
            name
        };
        names
            .entry((format!("{stem} {kind}"), elements.clone()))
            .or_insert_with(create)
            .clone()
    }
}

/// `pod . pod` for every gated pod: it may always reach itself.
fn own_pairs(ruleset: &Ruleset, family: Family) -> Vec<String> {
    let gates = ruleset.egress.iter().chain(&ruleset.ingress);
    let mut addresses: Vec<IpAddr> = gates.flat_map(|gate| gate.addresses.clone()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.retain(|address| Family::of(address) == family);
    addresses
        .into_iter()
        .map(|address| format!("{address} . {address}"))
        .collect()
}

/// The map from pod to chain, and the line that looks a packet up in it; none without pods.
fn verdicts(side: Side, family: Family, gates: &[Gate]) -> Option<(String, String)> {
    let name = side.name();
    let entries: Vec<String> = gates
        .iter()
        .enumerate()
        .flat_map(|(number, gate)| gate.addresses.iter().map(move |address| (number, address)))
        .filter(|(_, address)| Family::of(address) == family)
        .map(|(number, address)| format!("{address} : jump {name}_{number}"))
        .collect();
    if entries.is_empty() {
        return None;
    }
    let (subject, _) = side.fields();
    let map = format!(
        "\tmap {name}_{family} {{\n\t\ttype {} : verdict\n\t\telements = {{ {} }}\n\t}}\n",
        family.kind(),
        entries.join(", ")
    );
    let look_up = format!("\t\t{} {subject} vmap @{name}_{family}\n", family.header());
    Some((map, look_up))
}

fn chain(side: Side, number: usize, gate: &Gate, refusal: Refusal, sets: &mut Sets) -> String {
    let mut text = format!("\tchain {}_{number} {{\n", side.name());
    let mut lines: Vec<String> = Vec::new();
    for rule in &gate.rules {
        for matching in matches(side, rule, sets) {
            let line = format!(
                "\t\t{matching}{}return\n",
                if matching.is_empty() { "" } else { " " }
            );
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    text.extend(lines);
    let verdict = match refusal {
        Refusal::Reject => "reject with icmpx type admin-prohibited",
        Refusal::Drop => "drop",
    };
    let _ = writeln!(
        text,
        "\t\tcounter {verdict} comment \"{}\"\n\t}}",
        comment(&gate.policies)
    );
    text
}

/// nftables takes comments of up to 128 bytes; the names are DNS labels, so they need no quoting.
fn comment(policies: &[String]) -> String {
    let mut comment = policies.join(" ");
    if comment.len() > 120 {
        comment.truncate(116);
        comment.push_str(" ...");
    }
    comment
}

/// The conditions any of which makes the rule match, one line each.
fn matches(side: Side, rule: &Rule, sets: &mut Sets) -> Vec<String> {
    let (_, field) = side.fields();
    let peers: Vec<(Option<Family>, String)> = match &rule.peers {
        Peers::Any => vec![(None, String::new())],
        Peers::Within(networks) => [Family::V4, Family::V6]
            .into_iter()
            .filter_map(|family| {
                let of_family = |network: &&IpNet| Family::of(&network.addr()) == family;
                let elements: Vec<String> =
                    networks.iter().filter(of_family).map(element).collect();
                (!elements.is_empty()).then(|| {
                    let name = sets.name("peers", family, family.kind(), true, elements);
                    (Some(family), format!("{} {field} @{name}", family.header()))
                })
            })
            .collect(),
    };
    let mut lines = Vec::new();
    for (family, peer) in peers {
        let gap = if peer.is_empty() { "" } else { " " };
        match &rule.ports {
            Ports::Any => lines.push(peer),
            Ports::Only(ports) => {
                for port in port_matches(ports, family, sets) {
                    lines.push(format!("{peer}{gap}{port}"));
                }
            }
        }
    }
    lines
}

/// A single address is written bare, which nftables also prints.
fn element(network: &IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() {
        network.addr().to_string()
    } else {
        network.to_string()
    }
}

fn port_matches(ports: &[Port], family: Option<Family>, sets: &mut Sets) -> Vec<String> {
    let mut lines = Vec::new();
    for protocol in Protocol::ALL {
        if ports.contains(&Port::Every(protocol)) {
            lines.push(format!("meta l4proto {protocol}"));
            continue;
        }
        let ranges = ports.iter().filter_map(|port| match port {
            Port::Range(of, range) if *of == protocol => Some((*range.start(), *range.end())),
            _ => None,
        });
        match merge(ranges.collect()).as_slice() {
            [] => {}
            [one] => lines.push(format!("{protocol} dport {one}")),
            many => lines.push(format!("{protocol} dport {{ {} }}", many.join(", "))),
        }
    }
    for wanted in [Family::V4, Family::V6] {
        if family.is_some_and(|family| family != wanted) {
            continue;
        }
        let mut endpoints: Vec<_> = ports
            .iter()
            .filter_map(|port| match port {
                Port::Named(endpoints) => Some(endpoints),
                _ => None,
            })
            .flatten()
            .filter(|(address, ..)| Family::of(address) == wanted)
            .collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        if !endpoints.is_empty() {
            let kind = format!("{} . inet_proto . inet_service", wanted.kind());
            let text = |(address, protocol, number): &(IpAddr, Protocol, u16)| {
                format!("{address} . {protocol} . {number}")
            };
            let elements = endpoints.into_iter().map(text).collect();
            let name = sets.name("named", wanted, &kind, false, elements);
            lines.push(format!(
                "{} daddr . meta l4proto . th dport @{name}",
                wanted.header()
            ));
        }
    }
    lines
}

/// nftables refuses overlapping intervals in one set.
fn merge(mut ranges: Vec<(u16, u16)>) -> Vec<String> {
    ranges.sort_unstable();
    let mut merged: Vec<(u16, u16)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if u32::from(first) <= u32::from(before.1) + 1 => {
                before.1 = before.1.max(last);
            }
            _ => merged.push((first, last)),
        }
    }
    let text = |(first, last): (u16, u16)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    merged.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests;
