//! Who is waited for at which port, as the operator's ConfigMap says.
//!
//! Invariant: pure; an entry that is not understood is nobody's, and all others hold. Ranges of clients that cannot be
//! read let nobody in.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use api::activator::Sleeper;
use ipnet::IpNet;
use jiff::Timestamp;

/// Who is waited for at a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Waited {
    /// UID of the TenantCluster.
    pub uid: String,
    /// When it was sent to sleep.
    pub since: Timestamp,
    /// A pod of its control plane that is ready.
    pub server: Option<SocketAddr>,
    /// Clients that may wake it; empty: all.
    pub source_ranges: Vec<IpNet>,
}

/// All of them, and a sentence for each entry that is not understood.
#[must_use]
pub fn read(data: &BTreeMap<String, String>) -> (BTreeMap<u16, Waited>, Vec<String>) {
    let mut wrong = Vec::new();
    let mut all = BTreeMap::new();
    for (key, value) in data {
        match entry(key, value) {
            Ok((port, waited)) => {
                all.insert(port, waited);
            }
            Err(error) => wrong.push(format!("{key}: {error}")),
        }
    }
    (all, wrong)
}

fn entry(key: &str, value: &str) -> Result<(u16, Waited), String> {
    let port = key.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or("the key must be a port, 1 to 65535")?;
    let sleeper: Sleeper = serde_json::from_str(value).map_err(|error| error.to_string())?;
    // The name of a Lease is made of it.
    let is_uid =
        |uid: &str| !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if !is_uid(&sleeper.uid) {
        return Err(format!("{:?} is no UID", sleeper.uid));
    }
    let server = sleeper.server.map(|server| {
        let parsed = server.parse();
        parsed.map_err(|_| format!("{server:?} is no address with a port"))
    });
    let ranges = sleeper.source_ranges.iter().map(|range| {
        let parsed = range.parse();
        parsed.map_err(|_| format!("{range:?} is no range of addresses"))
    });
    let waited = Waited {
        uid: sleeper.uid,
        since: sleeper.since,
        server: server.transpose()?,
        source_ranges: ranges.collect::<Result<_, _>>()?,
    };
    Ok((port, waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_left_out_and_the_rest_holds() {
        let since = r#""since":"2027-01-31T12:00:00Z""#;
        let data = [
            (
                "20000",
                format!(
                    r#"{{"uid":"0a-1b",{since},"server":"10.0.0.7:6443","sourceRanges":["192.0.2.0/24"]}}"#
                ),
            ),
            ("0", format!(r#"{{"uid":"0a",{since}}}"#)),
            ("70000", format!(r#"{{"uid":"0a",{since}}}"#)),
            ("20001", "no".to_owned()),
            ("20002", format!(r#"{{"uid":"../x",{since}}}"#)),
            (
                "20003",
                format!(r#"{{"uid":"0a",{since},"server":"example.com:1"}}"#),
            ),
            (
                "20004",
                format!(r#"{{"uid":"0a",{since},"sourceRanges":["all"]}}"#),
            ),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value)).into();
        let (all, wrong) = read(&data);
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [20_000]);
        assert_eq!(wrong.len(), 6, "{wrong:?}");
        let waited = &all[&20_000];
        assert_eq!(waited.server, Some("10.0.0.7:6443".parse().unwrap()));
        assert_eq!(
            waited.source_ranges,
            ["192.0.2.0/24".parse::<IpNet>().unwrap()]
        );
    }
}
