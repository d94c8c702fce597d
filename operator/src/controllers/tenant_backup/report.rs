//! What the process that backs up says of itself: `GET /status` (docs/backup-format.md, "How far it is").
//!
//! Invariant: bounded in bytes and time; what cannot be read is not known. Times are by the process' own clock, so that
//! only differences between them count.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

/// How long it may take, from the dial to the last byte.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of the answer.
const MOST: usize = 16 * 1024;

/// How far a backup is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Now, in milliseconds since 1970, by the clock of the other times.
    pub now_ms: u64,
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
    /// When it was asked for.
    pub taken_ms: u64,
}

/// Asks a process.
///
/// # Errors
/// Why that is not known, for people.
pub async fn ask(address: SocketAddr) -> Result<Report, String> {
    let asked = tokio::time::timeout(TIMEOUT, fetch(address)).await;
    let bytes = asked.map_err(|_| format!("it did not answer within {TIMEOUT:?}"))??;
    serde_json::from_slice(&bytes).map_err(|error| format!("its answer is none: {error}"))
}

async fn fetch(address: SocketAddr) -> Result<Bytes, String> {
    let failed = |error: &dyn std::fmt::Display| format!("it does not answer: {error}");
    let stream = TcpStream::connect(address).await.map_err(|e| failed(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(&e))?;
    // Ends with the sender, or with what it waits for.
    let connection = tokio::spawn(connection);
    let request = http::Request::get("/status")
        .header(http::header::HOST, "backup")
        .body(Empty::<Bytes>::new())
        .map_err(|e| failed(&e))?;
    let response = sender.send_request(request).await.map_err(|e| failed(&e))?;
    if !response.status().is_success() {
        return Err(format!("it answers {}", response.status()));
    }
    let body = Limited::new(response.into_body(), MOST).collect().await;
    connection.abort();
    body.map(http_body_util::Collected::to_bytes)
        .map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn answering(answer: String) -> Result<Report, String> {
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
}
