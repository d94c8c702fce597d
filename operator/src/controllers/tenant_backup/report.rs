//! What the process that backs up says of itself, and what is asked of it (docs/backup-format.md, "How far it is").
//!
//! Invariant: bounded in bytes and time; what cannot be read is not known. Times are by the process' own clock, so that
//! only differences between them count. Whatever is asked may be asked again.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::net::TcpStream;

/// How long it may take, from the dial to the last byte.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of the answer.
const MOST: usize = 16 * 1024;
/// The same where it is an identity, of 1 MiB at most, in base64.
const MOST_IDENTITY: usize = 1536 * 1024;

/// How far a backup is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The etcd cluster that is backed up, 16 hexadecimal digits.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Whether it looked at the target, so that `full` and `verified` are known.
    #[serde(default)]
    pub looked: bool,
    /// Whether a full snapshot is being written.
    #[serde(default)]
    pub taking: bool,
    /// Now, in milliseconds since 1970, by the clock of the other times.
    pub now_ms: u64,
    /// The last revision that is in the target; 0 where that is not known yet.
    #[serde(default)]
    pub durable: u64,
    /// Since when something waits that is not in the target.
    #[serde(default)]
    pub waiting_since_ms: Option<u64>,
    /// Why it does not go on.
    #[serde(default)]
    pub trouble: Option<Standing>,
    /// The newest full snapshot.
    #[serde(default)]
    pub full: Option<Full>,
    /// The newest that was found whole.
    #[serde(default)]
    pub verified: Option<Full>,
    /// Name of the identity that was read back from the target last; none where none was yet.
    #[serde(default)]
    pub identity: Option<String>,
}

/// Why a backup does not go on.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// For people.
    pub what: String,
    /// Since when.
    pub since_ms: u64,
}

/// A full snapshot.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Full {
    /// Its name; they sort as snapshots were taken.
    #[serde(default)]
    pub name: String,
    /// A revision that it has for certain.
    #[serde(default)]
    pub revision: u64,
    /// When it was asked for.
    pub taken_ms: u64,
}

/// What is known of one full snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// That is not known now, for people.
    Unknown(String),
    /// It is not in the target.
    Gone,
    /// It is there.
    Is(Box<Description>),
}

/// A full snapshot, as its head says.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Key of its head in the target.
    pub key: String,
    /// Bytes of the database.
    pub bytes: u64,
    /// SHA-256 of the database, hexadecimal.
    pub database: String,
    /// Version of etcd.
    pub etcd: String,
    /// Version of Kubernetes.
    pub kubernetes: String,
    /// Whether it was read again, with all deltas after it, and was whole.
    pub verified: bool,
    /// Until when it is kept at least, in milliseconds since 1970.
    #[serde(default)]
    pub kept_until_ms: Option<u64>,
}

/// What a restore could be had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Choice {
    /// That is not known now, for people.
    Unknown(String),
    /// It is being looked for.
    Reads,
    /// What came of it.
    Is(Box<Moment>),
}

/// A moment that can be had, or why it cannot.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// Whether it can be had as it was asked for.
    pub possible: bool,
    /// The full snapshot that it begins with.
    #[serde(default)]
    pub full: Option<String>,
    /// The last revision that it would have; where it cannot be had, of the nearest before it that can.
    #[serde(default)]
    pub revision: Option<u64>,
    /// When its event came, in milliseconds since 1970.
    #[serde(default)]
    pub time_ms: Option<u64>,
    /// What is wrong.
    #[serde(default)]
    pub why: Option<String>,
}

/// A moment in milliseconds since 1970, to the second: what people read, and the same in each process.
#[must_use]
pub fn to_the_second(ms: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(ms / 1000).ok()?).ok()
}

/// Asks whether an etcd cluster can be had as it was at a moment: `latest`, `time-<ms>` or `revision-<number>`.
pub async fn ask_moment(address: SocketAddr, cluster: &str, moment: &str) -> Choice {
    let path = format!("/restorable/{cluster}/{moment}");
    match request(address, Method::GET, &path).await {
        Err(why) => Choice::Unknown(why),
        Ok((StatusCode::ACCEPTED, _)) => Choice::Reads,
        Ok((code, bytes)) if code.is_success() => match serde_json::from_slice(&bytes) {
            Ok(moment) => Choice::Is(Box::new(moment)),
            Err(error) => Choice::Unknown(format!("its answer is none: {error}")),
        },
        Ok((code, bytes)) => {
            let said = String::from_utf8_lossy(&bytes).into_owned();
            Choice::Unknown(format!("{code}: {said}"))
        }
    }
}

/// When the newest change in the backup of this etcd cluster came; none where that is not known.
pub async fn ask_newest(address: SocketAddr, cluster: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        time_ms: u64,
    }
    let path = format!("/newest/{cluster}");
    let (code, bytes) = request(address, Method::GET, &path).await.ok()?;
    let answer: Answer = serde_json::from_slice(&bytes).ok()?;
    code.is_success().then(|| to_the_second(answer.time_ms))?
}

/// An identity, as it is in the target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// Name of its object.
    pub name: String,
    /// The object.
    pub object: Vec<u8>,
}

/// Asks the process that reads another tenant cluster's backup for the newest identity; none where there is none.
///
/// # Errors
/// Why that is not known, for people.
pub async fn ask_identity(address: SocketAddr, cluster: &str) -> Result<Option<Sealed>, String> {
    #[derive(Deserialize)]
    struct Answer {
        name: String,
        object: String,
    }
    let path = format!("/identity/{cluster}");
    let (code, bytes) = request_up_to(address, Method::GET, &path, MOST_IDENTITY).await?;
    if code == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !code.is_success() {
        return Err(format!("it answers {code}"));
    }
    let answer = serde_json::from_slice::<Answer>(&bytes);
    let answer = answer.map_err(|error| format!("its answer is none: {error}"))?;
    let object = base64::engine::general_purpose::STANDARD.decode(&answer.object);
    let object = object.map_err(|error| format!("its answer is none: {error}"))?;
    let name = answer.name;
    Ok(Some(Sealed { name, object }))
}

/// Asks a process how far it is.
///
/// # Errors
/// Why that is not known, for people.
pub async fn ask(address: SocketAddr) -> Result<Report, String> {
    let (code, bytes) = request(address, Method::GET, "/status").await?;
    if !code.is_success() {
        return Err(format!("it answers {code}"));
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("its answer is none: {error}"))
}

/// Asks that there be a full snapshot which is newer than this one, or any.
///
/// # Errors
/// Why it was not heard, for people.
pub async fn ask_full(address: SocketAddr, after: Option<&str>) -> Result<(), String> {
    let path = format!("/full/after/{}", after.unwrap_or("none"));
    let (code, _) = request(address, Method::POST, &path).await?;
    match code.is_success() {
        true => Ok(()),
        false => Err(format!("it answers {code}")),
    }
}

/// Asks what a full snapshot is, and that it be kept until then, in milliseconds since 1970.
pub async fn ask_of(address: SocketAddr, full: &str, keep_until_ms: Option<u64>) -> Answer {
    let asked = match keep_until_ms {
        None => request(address, Method::GET, &format!("/full/{full}")).await,
        Some(until) => {
            let path = format!("/full/{full}/keep/{until}");
            request(address, Method::POST, &path).await
        }
    };
    match asked {
        Err(why) => Answer::Unknown(why),
        Ok((StatusCode::NOT_FOUND, _)) => Answer::Gone,
        Ok((code, bytes)) if code.is_success() => match serde_json::from_slice(&bytes) {
            Ok(said) => Answer::Is(Box::new(said)),
            Err(error) => Answer::Unknown(format!("its answer is none: {error}")),
        },
        Ok((code, _)) => Answer::Unknown(format!("it answers {code}")),
    }
}

async fn request(
    address: SocketAddr,
    method: Method,
    path: &str,
) -> Result<(StatusCode, Bytes), String> {
    request_up_to(address, method, path, MOST).await
}

async fn request_up_to(
    address: SocketAddr,
    method: Method,
    path: &str,
    most: usize,
) -> Result<(StatusCode, Bytes), String> {
    let asked = tokio::time::timeout(TIMEOUT, fetch(address, method, path, most)).await;
    asked.map_err(|_| format!("it did not answer within {TIMEOUT:?}"))?
}

async fn fetch(
    address: SocketAddr,
    method: Method,
    path: &str,
    most: usize,
) -> Result<(StatusCode, Bytes), String> {
    let failed = |error: &dyn std::fmt::Display| format!("it does not answer: {error}");
    let stream = TcpStream::connect(address).await.map_err(|e| failed(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(&e))?;
    // Ends with the sender, or with what it waits for.
    let connection = tokio::spawn(connection);
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, "backup")
        .body(Empty::<Bytes>::new())
        .map_err(|e| failed(&e))?;
    let response = sender.send_request(request).await.map_err(|e| failed(&e))?;
    let code = response.status();
    let body = Limited::new(response.into_body(), most).collect().await;
    connection.abort();
    let body = body.map_err(|e| failed(&e))?;
    Ok((code, body.to_bytes()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn answering(answer: String) -> Result<Report, String> {
        served(answer, ask).await
    }

    async fn served<T, F: Future<Output = T>>(answer: String, ask: impl Fn(SocketAddr) -> F) -> T {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        });
        let said = ask(address).await;
        server.abort();
        said
    }

    #[tokio::test]
    async fn answer_is_read_and_one_without_end_is_not() {
        let body =
            r#"{"nowMs":9,"durable":4,"full":{"name":"a","revision":1,"takenMs":7},"more":1}"#;
        let head = |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let said = answering(format!("{}{body}", head(body.len())))
            .await
            .unwrap();
        assert_eq!((said.now_ms, said.full.unwrap().taken_ms), (9, 7));
        let long = "x".repeat(MOST + 1);
        let said = answering(format!("{}{long}", head(long.len()))).await;
        assert!(said.is_err(), "{said:?}");
        let said = answering("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
        assert!(said.unwrap_err().contains("503"));
        assert!(answering(String::new()).await.is_err());
    }

    #[tokio::test]
    async fn only_who_says_that_a_snapshot_is_gone_means_it() {
        let of = |answer: &str| {
            let answer = answer.to_owned();
            served(answer, |address| ask_of(address, "a", Some(7)))
        };
        assert_eq!(
            of("HTTP/1.1 404 -\r\ncontent-length: 0\r\n\r\n").await,
            Answer::Gone
        );
        for unknown in [
            "",
            "HTTP/1.1 503 -\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        ] {
            assert!(matches!(of(unknown).await, Answer::Unknown(_)), "{unknown}");
        }
    }
}
