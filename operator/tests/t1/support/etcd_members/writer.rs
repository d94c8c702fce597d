//! A writer that notes each write that etcd acknowledged, on the disk, before it makes the next one; and looks
//! for every one of them afterwards, on each member by itself.
//!
//! Invariant: a write that is noted was acknowledged; what was not is not asked for.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use operator::tenant_session::session::Session;
use pki::{Key, KeyPair};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{EtcdMembers, MEMBERS};
use crate::support::PATIENCE;

const PAUSE: Duration = Duration::from_millis(40);
/// The same where a dozen lives go by meanwhile.
const LONG_PAUSE: Duration = Duration::from_millis(200);

/// Clients of each member, as the operator is one.
pub(crate) async fn members(
    management: &Client,
    namespace: &str,
    played: &EtcdMembers,
) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for seat in 0..MEMBERS {
        let name = format!("etcd-{seat}");
        clients.push(member_at(management, namespace, played.gateway(seat), &name).await?);
    }
    Ok(clients)
}

/// A client of the one that answers by this name at this address.
pub(crate) async fn member_at(
    management: &Client,
    namespace: &str,
    address: SocketAddr,
    server_name: &str,
) -> Result<Client> {
    let secrets: Api<Secret> = Api::namespaced(management.clone(), namespace);
    let text = async |secret: &str, file: &str| -> Result<String> {
        let data = secrets.get(secret).await?.data.unwrap_or_default();
        let bytes = data
            .get(file)
            .with_context(|| format!("{secret} has no {file}"))?;
        Ok(String::from_utf8(bytes.0.clone())?)
    };
    let name = "etcd-healthcheck-client";
    let identity = KeyPair {
        certificate: text(name, &format!("{name}.crt")).await?,
        key: Key::new(text(name, &format!("{name}.key")).await?),
    };
    let authority = text(name, "etcd-ca.crt").await?;
    let session = Session {
        address,
        authority,
        identity,
        server_name: server_name.to_owned(),
    };
    Ok(session.client_without_budget(PATIENCE)?)
}

/// Keys that begin so.
pub(crate) async fn keys(client: &Client, prefix: &str) -> Result<Vec<String>> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    let body = json!({
        "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end), "keys_only": true,
    });
    let found = post(client, "/v3/kv/range", &body).await?;
    let kvs = found["kvs"].as_array().into_iter().flatten();
    let keys = kvs.map(|kv| {
        let key = STANDARD.decode(kv["key"].as_str().context("no key")?)?;
        Ok(String::from_utf8(key)?)
    });
    keys.collect()
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<Value> {
    send(client, path, serde_json::to_vec(body)?).await
}

async fn send(client: &Client, path: &str, body: Vec<u8>) -> Result<Value> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(body)?;
    let text = tokio::time::timeout(PATIENCE, client.request_text(request)).await??;
    Ok(serde_json::from_str(&text)?)
}

/// Writes one key of a flood, of so many bytes.
pub(crate) async fn put_flood(client: &Client, number: usize, bytes: usize) -> Result<()> {
    let key = STANDARD.encode(format!("flood/{number:06}"));
    let value = STANDARD.encode(vec![7; bytes]);
    // There is nothing to escape in base64, and looking at each byte of a mebibyte would be most of the work.
    let body = format!(r#"{{"key":"{key}","value":"{value}"}}"#);
    send(client, "/v3/kv/put", body.into_bytes())
        .await
        .map(drop)
}

/// Writes one key.
pub(crate) async fn put(client: &Client, key: &str, value: &[u8]) -> Result<()> {
    let body = json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value) });
    post(client, "/v3/kv/put", &body).await.map(drop)
}

/// Reads one key; none where it is not there.
pub(crate) async fn get(client: &Client, key: &str) -> Result<Option<Vec<u8>>> {
    let found = post(
        client,
        "/v3/kv/range",
        &json!({ "key": STANDARD.encode(key) }),
    )
    .await?;
    let value = found["kvs"][0]["value"].as_str();
    Ok(value.map(|value| STANDARD.decode(value)).transpose()?)
}

/// Deletes the whole flood.
pub(crate) async fn delete_flood(client: &Client) -> Result<()> {
    let body = json!({ "key": STANDARD.encode("flood/"), "range_end": STANDARD.encode("flood0") });
    post(client, "/v3/kv/deleterange", &body).await.map(drop)
}

/// One that writes until it is stopped.
pub(crate) struct Writer {
    goes_on: Arc<AtomicBool>,
    last: watch::Receiver<u64>,
    task: JoinHandle<Result<Written>>,
}

/// What a writer did.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// What was acknowledged.
    pub(crate) acknowledged: BTreeSet<u64>,
    /// How often a member did not acknowledge a write, and the next one was asked.
    pub(crate) failed: usize,
    /// The longest time between two acknowledged writes.
    pub(crate) gap: Duration,
}

impl Writer {
    /// `members` in the order of their numbers; writes are noted in `notes`.
    pub(crate) fn start(members: Vec<Client>, notes: &Path) -> Result<Self> {
        Self::every(PAUSE, members, notes)
    }

    /// One that takes its time: beside lives of an operator, whose changes take long, some writes in each state of
    /// a member are enough.
    pub(crate) fn slow(members: Vec<Client>, notes: &Path) -> Result<Self> {
        Self::every(LONG_PAUSE, members, notes)
    }

    fn every(pause: Duration, members: Vec<Client>, notes: &Path) -> Result<Self> {
        let mut notes = File::create(notes).context("cannot make a file")?;
        let goes_on = Arc::new(AtomicBool::new(true));
        let until = Arc::clone(&goes_on);
        let (tell, last) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut written = Written::default();
            let mut last = Instant::now();
            let mut pace = tokio::time::interval(pause);
            let (mut number, mut seat) = (0_u64, 0);
            while until.load(Ordering::Relaxed) {
                pace.tick().await;
                number += 1;
                let body = json!({
                    "key": key(number), "value": STANDARD.encode(number.to_string()),
                });
                match post(&members[seat], "/v3/kv/put", &body).await {
                    Ok(_) => {
                        note(&mut notes, number)?;
                        written.acknowledged.insert(number);
                        written.gap = written.gap.max(last.elapsed());
                        last = Instant::now();
                        tell.send_replace(number);
                    }
                    // It may have been written all the same; nobody says so.
                    Err(_) => {
                        written.failed += 1;
                        seat = (seat + 1) % members.len();
                    }
                }
            }
            Ok(written)
        });
        Ok(Self {
            goes_on,
            last,
            task,
        })
    }

    /// Waits for the next write that is acknowledged.
    pub(crate) async fn next(&mut self, within: Duration) -> Result<()> {
        self.last.borrow_and_update();
        let next = tokio::time::timeout(within, self.last.changed()).await;
        next.context("no write is acknowledged")?
            .context("the writer ended")
    }

    /// Ends it; gives what was acknowledged.
    pub(crate) async fn stop(self) -> Result<BTreeSet<u64>> {
        Ok(self.end().await?.acknowledged)
    }

    /// Ends it; gives what it did.
    pub(crate) async fn end(self) -> Result<Written> {
        self.goes_on.store(false, Ordering::Relaxed);
        self.task.await?
    }
}

fn key(number: u64) -> String {
    STANDARD.encode(format!("written/{number:012}"))
}

fn note(notes: &mut File, number: u64) -> Result<()> {
    writeln!(notes, "{number}")?;
    notes.sync_data().context("cannot note a write")
}

/// Fails unless a member by itself has every one of these writes.
pub(crate) async fn has_all(client: &Client, writes: &BTreeSet<u64>) -> Result<()> {
    // So that it has caught up with what the others have.
    let any = json!({ "key": key(0) });
    post(client, "/v3/kv/range", &any).await?;
    let (mut found, mut from) = (BTreeSet::new(), key(0));
    loop {
        let body = json!({
            "key": from, "range_end": STANDARD.encode("written0"), "limit": 1000,
            "serializable": true,
        });
        let page = post(client, "/v3/kv/range", &body).await?;
        let kvs = page["kvs"].as_array().cloned().unwrap_or_default();
        for kv in &kvs {
            let value = STANDARD.decode(kv["value"].as_str().context("no value")?)?;
            found.insert(String::from_utf8(value)?.parse::<u64>()?);
        }
        let last = kvs.last().and_then(|kv| kv["key"].as_str());
        let Some(last) = last.filter(|_| page["more"] == true) else {
            break;
        };
        let mut next = STANDARD.decode(last)?;
        next.push(0);
        from = STANDARD.encode(next);
    }
    let lost: Vec<_> = writes.difference(&found).collect();
    ensure!(
        lost.is_empty(),
        "{} acknowledged writes are lost: {lost:?}",
        lost.len()
    );
    Ok(())
}
