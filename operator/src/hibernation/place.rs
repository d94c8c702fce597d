//! At which port the activator waits for a tenant cluster, and what is written so that clients get there. No I/O.
//!
//! The Service `control-plane` stays as it is. While no pod of it is ready its own EndpointSlices are empty, and one more
//! ([`names::ACTIVATOR_SLICE`]) leads to the activator's pods; it goes once pods answer again. So nothing that users dial ever changes.
//! Invariant: a port is for one tenant cluster; the slice is there only while the port is, and the port is given back only
//! once the slice is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::activator::Sleeper;
use api::names::LABEL_COMPONENT;
use jiff::Timestamp;
use serde_json::Value;
use tenant_cp::{Validated, names};

use crate::pod_failures;

/// The first port; there is one for each tenant cluster that sleeps.
pub const FIRST: u16 = 20_000;
/// The last one.
pub const LAST: u16 = 29_999;

/// What is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Addresses of the activator's pods that are ready.
    pub addresses: BTreeSet<IpAddr>,
    /// Version of the ConfigMap of sleepers; none where there is none.
    pub version: Option<String>,
    /// What is in it.
    pub data: BTreeMap<String, String>,
    /// UID of the slice; none where there is none.
    pub slice: Option<String>,
}

/// What is to be written into the ConfigMap of sleepers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The port.
    pub port: u16,
    /// Who is waited for there; none where it is given back.
    pub sleeper: Option<Sleeper>,
}

impl Seen {
    /// The port of a tenant cluster, and what stands there.
    #[must_use]
    pub fn of(&self, uid: &str) -> Option<(u16, Sleeper)> {
        let mut all = self.data.iter();
        all.find_map(|(port, text)| {
            let sleeper: Sleeper = serde_json::from_str(text).ok()?;
            let port = port.parse().ok()?;
            (sleeper.uid == uid).then_some((port, sleeper))
        })
    }

    /// Whether anything of a tenant cluster is there.
    #[must_use]
    pub fn is_of(&self, uid: &str) -> bool {
        self.slice.is_some() || self.of(uid).is_some()
    }

    /// The first port that is nobody's, or that of a tenant cluster that is gone.
    #[must_use]
    pub fn free(&self, others: &BTreeSet<&str>) -> Option<u16> {
        let is_taken = |port: &u16| {
            let text = self.data.get(&port.to_string());
            let sleeper = text.and_then(|text| serde_json::from_str::<Sleeper>(text).ok());
            sleeper.is_some_and(|sleeper| others.contains(sleeper.uid.as_str()))
        };
        (FIRST..=LAST).find(|port| !is_taken(port))
    }

    /// What is to be written so that this stands in the map; none where it does.
    #[must_use]
    pub fn change(&self, wanted: &Sleeper, others: &BTreeSet<&str>) -> Option<Entry> {
        let (port, is_same) = match self.of(&wanted.uid) {
            Some((port, stands)) => (port, stands == *wanted),
            None => (self.free(others)?, false),
        };
        (!is_same).then(|| Entry {
            port,
            sleeper: Some(wanted.clone()),
        })
    }
}

/// Who is waited for, from then on. `pods`: those of the tenant namespace.
#[must_use]
pub fn sleeper(valid: &Validated, since: Timestamp, pods: &[Value]) -> Sleeper {
    use api::tenant_cluster::ExternalTrafficPolicy;
    let endpoint = &valid.endpoint;
    // Anywhere else it is the address of a node that reaches the activator.
    let is_seen = endpoint.external_traffic_policy == Some(ExternalTrafficPolicy::Local);
    let ranges = endpoint.source_ranges.iter().filter(|_| is_seen);
    Sleeper {
        uid: valid.identity.uid.clone(),
        since,
        server: pods.iter().find_map(server),
        source_ranges: ranges.cloned().collect(),
    }
}

/// Where a pod of the control plane answers, once it is ready.
fn server(pod: &Value) -> Option<String> {
    let is_it = pod["metadata"]["labels"][LABEL_COMPONENT] == names::CONTROL_PLANE;
    let lasts = pod["metadata"]["deletionTimestamp"].is_null();
    let address: IpAddr = pod["status"]["podIP"].as_str()?.parse().ok()?;
    let port = u16::try_from(names::API_PORT).ok()?;
    let serves = is_it && lasts && pod_failures::is_ready(pod);
    serves.then(|| std::net::SocketAddr::from((address, port)).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(uid: &str) -> Sleeper {
        Sleeper {
            uid: uid.to_owned(),
            since: Timestamp::UNIX_EPOCH,
            server: None,
            source_ranges: Vec::new(),
        }
    }

    fn seen(all: &[(u16, &str)]) -> Seen {
        let text = |uid: &str| serde_json::to_string(&of(uid)).unwrap();
        Seen {
            data: all
                .iter()
                .map(|(port, uid)| (port.to_string(), text(uid)))
                .collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn each_gets_the_first_port_that_is_free_and_keeps_it() {
        let others = BTreeSet::from(["a", "b"]);
        let seen = seen(&[(20_000, "a"), (20_002, "b")]);
        let change = seen.change(&of("c"), &others).unwrap();
        assert_eq!(change.port, 20_001);
        assert_eq!(seen.change(&of("b"), &others), None, "as it stands");
        let awake = Sleeper {
            server: Some("10.0.0.7:6443".to_owned()),
            ..of("b")
        };
        assert_eq!(seen.change(&awake, &others).unwrap().port, 20_002);
    }

    #[test]
    fn a_port_of_one_that_is_gone_or_of_nonsense_is_free() {
        let mut seen = seen(&[(20_000, "gone"), (20_001, "a")]);
        let others = BTreeSet::from(["a"]);
        assert_eq!(seen.free(&others), Some(20_000));
        seen.data.insert("20000".to_owned(), "nonsense".to_owned());
        assert_eq!(seen.free(&others), Some(20_000));
    }

    #[test]
    fn a_pod_is_reached_once_it_is_ready_and_not_when_it_goes() {
        let pod = |ready: &str| {
            json!({ "metadata": { "labels": { LABEL_COMPONENT: "control-plane" } }, "status": {
                "podIP": "10.0.0.7", "conditions": [{ "type": "Ready", "status": ready }] } })
        };
        assert_eq!(server(&pod("True")).as_deref(), Some("10.0.0.7:6443"));
        assert_eq!(server(&pod("False")), None);
        let mut going = pod("True");
        going["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        assert_eq!(server(&going), None);
    }
}
