//! The kube-apiserver's audit log: who asked for what since a moment.
//!
//! Invariant: a request counts from its arrival (stage `RequestReceived`), which the server
//! writes before it acts. So a window that is read after a caller got its answer has that call.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use serde::Deserialize;

const LEASES: &str = "coordination.k8s.io/leases";

/// The log file of one server.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

/// The part of the log after one moment.
#[derive(Clone, Debug)]
pub struct Window {
    log: AuditLog,
    start: u64,
}

/// One request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEntry {
    /// When it arrived.
    pub at: Timestamp,
    /// Who asked; the impersonated user where there is one.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verb: String,
    /// `group/resource/subresource` without what is empty; empty for other paths.
    pub kind: String,
    /// Namespace, if any.
    pub namespace: Option<String>,
    /// Name of the object, if the request had one.
    pub name: Option<String>,
    /// Path and query.
    pub uri: String,
    /// What the caller says it is.
    pub user_agent: String,
    /// Status of the answer, once there is one.
    pub code: Option<u16>,
}

impl AuditEntry {
    /// Whether it was to change something (no dry run, no access review).
    #[must_use]
    pub fn is_write(&self) -> bool {
        let mutating = ["create", "update", "patch", "delete", "deletecollection"];
        let review = ["authentication.k8s.io/", "authorization.k8s.io/"];
        mutating.contains(&self.verb.as_str())
            && !self.uri.contains("dryRun=")
            && !review.iter().any(|group| self.kind.starts_with(group))
    }

    /// Whether it is about a Lease, by which leaders stay leaders.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        self.kind == LEASES
    }
}

impl AuditLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// A window that starts now.
    pub fn window(&self) -> Result<Window> {
        let start = match self.path.metadata() {
            Ok(file) => file.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error).context("cannot look at the audit log"),
        };
        Ok(Window {
            log: self.clone(),
            start,
        })
    }

    /// Everything since the server's start.
    pub fn entries(&self) -> Result<Vec<AuditEntry>> {
        Window {
            log: self.clone(),
            start: 0,
        }
        .entries()
    }

    /// The writes of `user` while `work` runs; its Leases aside.
    pub async fn writes_during<T>(
        &self,
        user: &str,
        work: impl Future<Output = T>,
    ) -> Result<(T, Vec<AuditEntry>)> {
        let window = self.window()?;
        let result = work.await;
        Ok((result, window.writes_of(user)?))
    }
}

impl Window {
    /// All requests that arrived in the window, in the order of arrival.
    pub fn entries(&self) -> Result<Vec<AuditEntry>> {
        parse(self.text()?.lines())
    }

    fn text(&self) -> Result<String> {
        let mut file = File::open(&self.log.path).context("cannot open the audit log")?;
        file.seek(SeekFrom::Start(self.start.saturating_sub(1)))
            .context("cannot read the audit log")?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .context("cannot read the audit log")?;
        let text = match self.start {
            0 => &text,
            _ => after_line(&text),
        };
        // The last line may be half written.
        let end = text.iter().rposition(|byte| *byte == b'\n');
        let complete = &text[..end.map_or(0, |end| end + 1)];
        Ok(str::from_utf8(complete)
            .context("the audit log is not text")?
            .to_owned())
    }

    /// The writes of one user; its Leases aside.
    pub fn writes_of(&self, user: &str) -> Result<Vec<AuditEntry>> {
        let mut entries = of_user(&self.text()?, user)?;
        entries.retain(|entry| entry.is_write() && !entry.is_lease());
        Ok(entries)
    }

    /// Fails, naming them, when the user asked for anything that is not in its namespace, by whatever path.
    pub fn assert_stays_in(&self, user: &str, namespace: &str) -> Result<()> {
        let mut beyond = of_user(&self.text()?, user)?;
        let is_in = |entry: &AuditEntry| {
            entry.namespace.as_deref() == Some(namespace) && !entry.uri.contains("..")
        };
        beyond.retain(|entry| !is_in(entry));
        ensure!(
            beyond.is_empty(),
            "{user} asked beyond {namespace}:\n{beyond:#?}"
        );
        Ok(())
    }

    /// Fails when in any span of time more requests of this user arrived than `burst` and `per_second` for each
    /// second of it; its Leases aside. What was sent in one second may arrive at once, so as many more pass.
    pub fn assert_paced(&self, user: &str, per_second: f64, burst: u32) -> Result<()> {
        let entries = of_user(&self.text()?, user)?.into_iter();
        let of = entries.filter(|entry| !entry.is_lease());
        let mut arrivals: Vec<_> = of.map(|entry| entry.at).collect();
        arrivals.sort_unstable();
        let most = f64::from(burst) + per_second;
        let (mut level, mut before) = (0.0_f64, arrivals.first().copied().unwrap_or_default());
        for at in arrivals {
            let passed = at.duration_since(before).as_secs_f64();
            level = (level - passed * per_second).max(0.0) + 1.0;
            before = at;
            ensure!(
                level <= most,
                "{user} sent {level:.0} requests more at {at} than {per_second} in each second before"
            );
        }
        Ok(())
    }

    /// Fails, naming them, when the user wrote anything but Leases.
    pub fn assert_no_writes(&self, user: &str) -> Result<()> {
        let writes = self.writes_of(user)?;
        if writes.is_empty() {
            return Ok(());
        }
        let lines = writes
            .iter()
            .map(|w| format!("  {} {} -> {:?}", w.verb, w.uri, w.code));
        bail!(
            "{user} wrote although nothing changed:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        );
    }

    /// How many requests of one user, by verb and kind.
    pub fn counts(&self, user: &str) -> Result<BTreeMap<(String, String), usize>> {
        let mut counts = BTreeMap::new();
        for entry in of_user(&self.text()?, user)? {
            *counts.entry((entry.verb, entry.kind)).or_default() += 1;
        }
        Ok(counts)
    }
}

/// One line of the log (k8s.io/apiserver `pkg/apis/audit/v1`), as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<Status>,
    #[serde(default)]
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    code: Option<u16>,
}

/// What follows the first end of a line: a window may begin while a line is being written, and that
/// line's request came before it.
fn after_line(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == b'\n');
    end.map_or(&[], |end| &text[end + 1..])
}

/// The requests of one user. A server that many tests share writes of all of them, so lines that do not name the
/// user are not taken apart; unless somebody acts as that user, whose requests are the other's when they arrive, or
/// the name is written otherwise there.
fn of_user(text: &str, user: &str) -> Result<Vec<AuditEntry>> {
    let own: Vec<&str> = text.lines().filter(|line| line.contains(user)).collect();
    let is_another = own.iter().any(|line| line.contains("\"impersonatedUser\""));
    let is_escaped = !user.is_ascii() || user.contains(['"', '\\', '<', '>', '&']);
    let mut entries = match is_another || is_escaped {
        true => parse(text.lines())?,
        false => parse(own)?,
    };
    entries.retain(|entry| entry.user == user);
    Ok(entries)
}

fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Vec<AuditEntry>> {
    let mut entries: Vec<AuditEntry> = Vec::new();
    let mut at = BTreeMap::new();
    for line in lines.into_iter().filter(|line| !line.is_empty()) {
        let event: Event = serde_json::from_str(line).context("not a line of an audit log")?;
        let code = event
            .response_status
            .as_ref()
            .and_then(|status| status.code);
        if event.stage == "RequestReceived" {
            at.insert(event.audit_id.clone(), entries.len());
            entries.push(event.into());
        } else if let Some(entry) = at.get(&event.audit_id).and_then(|at| entries.get_mut(*at)) {
            entry.code = code.or(entry.code);
            // Impersonation is known only after the request was let in.
            if let Some(user) = event.impersonated_user {
                entry.user = user.username;
            }
        }
    }
    Ok(entries)
}

impl From<Event> for AuditEntry {
    fn from(event: Event) -> Self {
        let object = event.object_ref.unwrap_or_default();
        let kind = [object.api_group, object.resource, object.subresource];
        Self {
            at: event.request_received_timestamp,
            user: event.impersonated_user.unwrap_or(event.user).username,
            verb: event.verb,
            kind: kind
                .into_iter()
                .filter(|s| !s.is_empty())
                .collect::<Vec<_>>()
                .join("/"),
            namespace: object.namespace,
            name: object.name,
            uri: event.request_uri,
            user_agent: event.user_agent,
            code: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_joined_to_requests_and_half_a_line_waits() {
        let log = concat!(
            r#"{"auditID":"1","stage":"RequestReceived","verb":"patch","requestURI":"/api/v1/namespaces/a/secrets/b?force=true","user":{"username":"covey"},"objectRef":{"resource":"secrets","namespace":"a","name":"b"}}"#,
            "\n",
            r#"{"auditID":"2","stage":"RequestReceived","verb":"patch","requestURI":"/apis/coordination.k8s.io/v1/namespaces/a/leases/l","user":{"username":"covey"},"objectRef":{"apiGroup":"coordination.k8s.io","resource":"leases"}}"#,
            "\n",
            r#"{"auditID":"1","stage":"ResponseComplete","verb":"patch","requestURI":"/","user":{"username":"covey"},"responseStatus":{"code":409}}"#,
            "\n",
            r#"{"auditID":"3","stage":"Requ"#,
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log).unwrap();
        let window = Window {
            log: AuditLog::new(file.path().to_owned()),
            start: 0,
        };
        let entries = window.entries().unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(window.writes_of("covey").unwrap(), entries[..1]);
        assert!(window.writes_of("cove").unwrap().is_empty());
        assert_eq!(entries[0].code, Some(409));
        assert_eq!(entries[0].kind, "secrets");
        assert!(entries[0].is_write() && !entries[0].is_lease());
        assert!(entries[1].is_lease());
    }

    #[test]
    fn requests_of_who_acts_as_a_user_are_that_users() {
        let log = concat!(
            r#"{"auditID":"1","stage":"RequestReceived","verb":"delete","requestURI":"/a","user":{"username":"admin"}}"#,
            "\n",
            r#"{"auditID":"1","stage":"ResponseComplete","verb":"delete","requestURI":"/a","user":{"username":"admin"},"impersonatedUser":{"username":"covey"}}"#,
            "\n",
            r#"{"auditID":"0","stage":"ResponseComplete","verb":"delete","requestURI":"/b","user":{"username":"covey"}}"#,
            "\n",
        );
        let uris = |user: &str| -> Vec<String> {
            let entries = of_user(log, user).unwrap();
            entries.into_iter().map(|entry| entry.uri).collect()
        };
        // The last one arrived earlier.
        assert_eq!(uris("covey"), ["/a"]);
        assert_eq!(uris("admin"), [""; 0]);
    }

    #[test]
    fn requests_of_a_user_beyond_its_rate_are_seen_and_those_of_others_and_of_leases_are_not() {
        let paced = |user: &str, milliseconds: &[i64]| {
            let log = tempfile::NamedTempFile::new().unwrap();
            let line = |(id, at): (usize, &i64)| {
                let at = Timestamp::from_millisecond(*at).unwrap();
                let other = format!(
                    r#"{{"auditID":"l{id}","stage":"RequestReceived","verb":"update","requestURI":"/l","user":{{"username":"covey"}},"objectRef":{{"apiGroup":"coordination.k8s.io","resource":"leases"}},"requestReceivedTimestamp":"{at}"}}"#
                );
                let entry = format!(
                    r#"{{"auditID":"{id}","stage":"RequestReceived","verb":"get","requestURI":"/{id}","user":{{"username":"{user}"}},"requestReceivedTimestamp":"{at}"}}"#
                );
                format!("{other}\n{entry}\n")
            };
            let lines: String = milliseconds.iter().enumerate().map(line).collect();
            std::fs::write(log.path(), lines).unwrap();
            let window = Window {
                log: AuditLog::new(log.path().to_owned()),
                start: 0,
            };
            window.assert_paced("covey", 2.0, 3)
        };
        // Three at once, and what is sent in a second.
        assert!(paced("covey", &[0, 0, 0, 0, 0]).is_ok());
        assert!(paced("covey", &[0, 0, 0, 0, 0, 0]).is_err());
        // Also in the middle, and in whichever order they were written.
        assert!(paced("covey", &[0, 9000, 9000, 9000, 9500, 9000, 9000]).is_ok());
        assert!(paced("covey", &[0, 9000, 9000, 9000, 9000, 9000, 9000]).is_err());
        assert!(paced("another", &[0; 20]).is_ok());
    }

    #[test]
    fn window_begins_with_a_whole_line() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let line = |id: u8| {
            format!(
                r#"{{"auditID":"{id}","stage":"RequestReceived","verb":"get","requestURI":"/{id}","user":{{}}}}"#
            ) + "\n"
        };
        let all = line(1) + &line(2) + &line(3);
        std::fs::write(log.path(), &all).unwrap();
        let uris = |start: usize| -> Vec<String> {
            let window = Window {
                log: AuditLog::new(log.path().to_owned()),
                start: start as u64,
            };
            let entries = window.entries().unwrap();
            entries.into_iter().map(|entry| entry.uri).collect()
        };
        assert_eq!(uris(0), ["/1", "/2", "/3"]);
        assert_eq!(uris(line(1).len()), ["/2", "/3"]);
        assert_eq!(uris(line(1).len() + 9), ["/3"]);
        assert_eq!(uris(all.len()), [""; 0]);
    }
}
