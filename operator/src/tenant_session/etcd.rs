//! What a member of a tenant cluster's etcd says of itself, over etcd's own JSON gateway.
//!
//! `POST /v3/maintenance/status` is `Maintenance.Status` (etcd `api/etcdserverpb/rpc.proto`); it writes
//! 64-bit numbers as decimal strings, and alarms as texts among its errors
//! (`server/etcdserver/api/v3rpc/maintenance.go`).
//! Invariant: asked and read within the reconcile's budget; what cannot be read is not known.

use api::Reason;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request};
use kube::Client;
use serde::Deserialize;

use super::session::{Error, REQUEST_TIMEOUT};

const STATUS: &str = "/v3/maintenance/status";

/// What a member says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberStatus {
    /// Identifier of its cluster, hexadecimal, as etcd writes it.
    pub cluster_id: String,
    /// Its own, hexadecimal.
    pub member_id: String,
    /// What is wrong with the cluster, the worst first.
    pub alarms: Vec<Alarm>,
}

/// An alarm of etcd: it stands until somebody takes it away.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Alarm {
    /// Members have different data.
    Corrupt,
    /// The database has its most bytes; only reads and deletions go on.
    NoSpace,
}

impl Alarm {
    /// The condition's reason.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::Corrupt => Reason::Corrupt,
            Self::NoSpace => Reason::NoSpace,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    header: Header,
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct Header {
    cluster_id: String,
    member_id: String,
}

/// Asks one member. The client is of a session with it.
///
/// # Errors
/// [`Error::AskEtcd`].
pub async fn status(client: &Client) -> Result<MemberStatus, Error> {
    let failed = |error| Error::AskEtcd(Box::new(error));
    let mut request = Request::new(b"{}".to_vec());
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static(STATUS);
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    let text = tokio::time::timeout(REQUEST_TIMEOUT, client.request_text(request)).await;
    let text = text.map_err(|elapsed| failed(kube::Error::Service(elapsed.into())))?;
    read(&text.map_err(failed)?).map_err(|error| failed(kube::Error::SerdeError(error)))
}

fn read(text: &str) -> Result<MemberStatus, serde_json::Error> {
    let answer: Answer = serde_json::from_str(text)?;
    let is_raised = |name: &str| {
        let raised = format!("alarm:{name}");
        let mut errors = answer.errors.iter();
        errors.any(|error| error.split_whitespace().any(|word| word == raised))
    };
    let alarms = [(Alarm::Corrupt, "CORRUPT"), (Alarm::NoSpace, "NOSPACE")];
    Ok(MemberStatus {
        cluster_id: hexadecimal(&answer.header.cluster_id)?,
        member_id: hexadecimal(&answer.header.member_id)?,
        alarms: alarms
            .into_iter()
            .filter(|(_, name)| is_raised(name))
            .map(|(alarm, _)| alarm)
            .collect(),
    })
}

fn hexadecimal(decimal: &str) -> Result<String, serde_json::Error> {
    let number: u64 = decimal.parse().map_err(serde::de::Error::custom)?;
    Ok(format!("{number:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_a_member_is_read() {
        let text = r#"{"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437",
            "revision":"2","raft_term":"2"},"version":"3.6.16","dbSize":"20480",
            "leader":"10276657743932975437"}"#;
        let member = read(text).unwrap();
        assert_eq!(member.cluster_id, "cdf818194e3a8c32");
        assert_eq!(member.member_id, "8e9e05c52164694d");
        assert!(member.alarms.is_empty());
    }

    #[test]
    fn alarms_are_found_among_errors() {
        let of = |errors: &str| {
            let header = r#""header":{"cluster_id":"1","member_id":"2"}"#;
            read(&format!("{{{header},\"errors\":{errors}}}"))
                .unwrap()
                .alarms
        };
        let space = r#"["memberID:10276657743932975437 alarm:NOSPACE "]"#;
        assert_eq!(of(space), [Alarm::NoSpace]);
        let both = r#"["memberID:1 alarm:NOSPACE ","memberID:1 alarm:CORRUPT "]"#;
        assert_eq!(of(both), [Alarm::Corrupt, Alarm::NoSpace]);
        assert_eq!(of(r#"["etcdserver: no leader"]"#), []);
    }

    #[test]
    fn what_is_no_answer_is_not_read() {
        for text in ["", "{}", r#"{"header":{"cluster_id":"x","member_id":"1"}}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
