//! What the tenant cluster's API says of nodes: members, which the operator writes, and what each node says
//! of itself.
//!
//! Invariant: what cannot be read of one entry is left out of that entry and told; it never spoils another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use api::names;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{ConfigMap, Node as NodeObject};
use serde::{Deserialize, Serialize};

use crate::key::PublicKey;

/// The longest text of a field that is looked at, in bytes; longer ones are refused unread.
const LONGEST: usize = 512;
/// Pod ranges of one node: one of each family (Kubernetes allows no more).
const POD_RANGES: usize = 2;

/// What the operator says of a machine's node. In the ConfigMap it is one JSON document for each node.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its address in the overlay, which is its node's InternalIP.
    pub address: IpAddr,
    /// Where it is. Nodes of one site reach each other without a public endpoint. Default: a site of its own.
    #[serde(default)]
    pub site: String,
    /// Where everybody reaches it, also through address translation. Default: nowhere, so it has to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<SocketAddr>,
    /// Where nodes of its site reach it. Default: where it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_endpoint: Option<SocketAddr>,
    /// The key that the operator has accepted for it: no other one is, and nobody else has it. Default: the
    /// one that its node says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<PublicKey>,
}

/// What a node says of itself, and what the control plane gave it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Node {
    /// When the API server took the object in, seconds since 1970: nobody else sets it.
    pub created: i64,
    /// Its key; none yet, or one that cannot be read.
    pub key: Option<PublicKey>,
    /// Where nodes of its site reach it.
    pub endpoint: Option<SocketAddr>,
    /// MTU of the network below, in bytes.
    pub mtu: Option<u16>,
    /// Ranges of its pods.
    pub pods: Vec<IpNet>,
    /// Fields that could not be read.
    pub unreadable: BTreeSet<String>,
}

/// Everything that is known of nodes; a part is none while no whole list of it was seen.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Observed {
    /// Members by name of the node, and names of entries that cannot be read.
    pub members: Option<Members>,
    /// Nodes by name.
    pub nodes: Option<BTreeMap<String, Node>>,
}

/// All members.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Members {
    /// By name of the node.
    pub by_name: BTreeMap<String, Member>,
    /// Entries that cannot be read.
    pub unreadable: BTreeSet<String>,
}

/// The members of the ConfigMap. One without data has none.
#[must_use]
pub fn members(map: &ConfigMap) -> Members {
    let mut members = Members::default();
    for (name, text) in map.data.iter().flatten() {
        let member = (text.len() <= LONGEST).then(|| serde_json::from_str::<Member>(text));
        match member {
            Some(Ok(mut member)) => {
                member.endpoint = member.endpoint.map(canonical);
                member.local_endpoint = member.local_endpoint.map(canonical);
                member.address = member.address.to_canonical();
                members.by_name.insert(name.clone(), member);
            }
            _ => {
                members.unreadable.insert(name.clone());
            }
        }
    }
    members
}

/// What one Node says.
#[must_use]
pub fn node(object: &NodeObject) -> Node {
    let mut unreadable = BTreeSet::new();
    let annotations = object.metadata.annotations.as_ref();
    let mut text = |name: &str| {
        let text = annotations.and_then(|all| all.get(name));
        text.map(String::as_str)
            .filter(|text| !text.is_empty())
            .and_then(|text| {
                let short = text.len() <= LONGEST;
                if !short {
                    unreadable.insert(name.to_owned());
                }
                short.then(|| text.to_owned())
            })
    };
    let key = text(names::ANNOTATION_OVERLAY_KEY);
    let endpoint = text(names::ANNOTATION_OVERLAY_ENDPOINT);
    let mtu = text(names::ANNOTATION_OVERLAY_MTU);
    let key = read(names::ANNOTATION_OVERLAY_KEY, key, &mut unreadable);
    let endpoint = read(
        names::ANNOTATION_OVERLAY_ENDPOINT,
        endpoint,
        &mut unreadable,
    );
    let mtu = read(names::ANNOTATION_OVERLAY_MTU, mtu, &mut unreadable);
    let spec = object.spec.clone().unwrap_or_default();
    let given = spec.pod_cidrs.unwrap_or_default();
    let given = if given.is_empty() {
        spec.pod_cidr.into_iter().collect()
    } else {
        given
    };
    let mut pods = Vec::new();
    for range in given {
        match range.parse::<IpNet>() {
            Ok(range) if pods.len() < POD_RANGES && range.trunc() == range => pods.push(range),
            _ => {
                unreadable.insert("spec.podCIDRs".to_owned());
            }
        }
    }
    let created = object.metadata.creation_timestamp.as_ref();
    Node {
        created: created.map_or(0, |time| time.0.as_second()),
        key,
        endpoint: endpoint.map(canonical),
        mtu,
        pods,
        unreadable,
    }
}

fn read<T: std::str::FromStr>(
    name: &str,
    text: Option<String>,
    unreadable: &mut BTreeSet<String>,
) -> Option<T> {
    let text = text?;
    let value = text.parse().ok();
    if value.is_none() {
        unreadable.insert(name.to_owned());
    }
    value
}

/// `::ffff:192.0.2.1` is 192.0.2.1.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(annotations: &serde_json::Value, spec: &serde_json::Value) -> NodeObject {
        let object = json!({
            "metadata": { "name": "a", "annotations": annotations,
                          "creationTimestamp": "1970-01-01T00:01:00Z" },
            "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_node_says_key_endpoint_and_mtu() {
        let key = PublicKey([7; 32]);
        let seen = node(&object(
            &json!({
                names::ANNOTATION_OVERLAY_KEY: key.to_string(),
                names::ANNOTATION_OVERLAY_ENDPOINT: "[::ffff:10.0.0.4]:51820",
                names::ANNOTATION_OVERLAY_MTU: "1460",
            }),
            &json!({ "podCIDR": "10.128.1.0/24", "podCIDRs": ["10.128.1.0/24", "fd00:1::/64"] }),
        ));
        let wanted = Node {
            created: 60,
            key: Some(key),
            endpoint: Some("10.0.0.4:51820".parse().unwrap()),
            mtu: Some(1460),
            pods: vec![
                "10.128.1.0/24".parse().unwrap(),
                "fd00:1::/64".parse().unwrap(),
            ],
            unreadable: BTreeSet::new(),
        };
        assert_eq!(seen, wanted);
        assert_eq!(node(&NodeObject::default()), Node::default());
    }

    #[test]
    fn what_cannot_be_read_of_a_node_is_named_and_the_rest_holds() {
        let key = PublicKey([7; 32]);
        let seen = node(&object(
            &json!({
                names::ANNOTATION_OVERLAY_KEY: key.to_string(),
                names::ANNOTATION_OVERLAY_ENDPOINT: "x".repeat(LONGEST + 1),
                names::ANNOTATION_OVERLAY_MTU: "-1",
            }),
            // Ranges with host bits, and more than Kubernetes gives.
            &json!({ "podCIDRs": ["10.128.1.7/24", "10.128.1.0/24", "fd00:1::/64", "0.0.0.0/0"] }),
        ));
        assert_eq!(seen.key, Some(key));
        assert_eq!((seen.endpoint, seen.mtu, seen.pods.len()), (None, None, 2));
        let unreadable: Vec<_> = seen.unreadable.iter().map(String::as_str).collect();
        let wanted = [
            names::ANNOTATION_OVERLAY_ENDPOINT,
            names::ANNOTATION_OVERLAY_MTU,
            "spec.podCIDRs",
        ];
        assert_eq!(unreadable, wanted);
    }

    #[test]
    fn a_member_that_cannot_be_read_spoils_no_other() {
        let map = json!({ "data": {
            "a": r#"{"address":"10.200.0.1","site":"home","endpoint":"203.0.113.1:51820"}"#,
            "b": r#"{"address":"10.200.0.2","later":true}"#,
            "c": "{",
            "d": format!(r#"{{"address":"10.200.0.4","site":"{}"}}"#, "x".repeat(LONGEST)),
        }});
        let members = members(&serde_json::from_value(map).unwrap());
        let names: Vec<_> = members.by_name.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        let unreadable: Vec<_> = members.unreadable.iter().map(String::as_str).collect();
        assert_eq!(unreadable, ["c", "d"]);
        let a = &members.by_name["a"];
        assert_eq!((a.site.as_str(), a.endpoint.is_some()), ("home", true));
        assert_eq!(members.by_name["b"].site, "");
    }
}
