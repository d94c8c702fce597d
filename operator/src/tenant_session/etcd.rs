//! Calls of a member of a tenant cluster's etcd, over etcd's own JSON gateway (etcd
//! `api/etcdserverpb/rpc.proto`).
//!
//! The gateway writes 64-bit numbers as decimal strings and leaves zeros out, and alarms stand as texts among
//! a status's errors (`server/etcdserver/api/v3rpc/maintenance.go`).
//! Invariant: asked and read within the reconcile's budget; what cannot be read is not known, and a change
//! whose reply was lost may have been made.

use base64::Engine as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request};
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::session::{Error, REQUEST_TIMEOUT};

pub mod answers;
pub mod disk_times;

use answers::{Alarm, DataHash, ListedMember, MemberStatus, Stored};
use disk_times::DiskTimes;

/// Asks one member what it is. The client is of a session with it, as everywhere here.
///
/// # Errors
/// [`Error::AskEtcd`].
pub async fn status(client: &Client) -> Result<MemberStatus, Error> {
    let status: answers::Status = ask(client, "/v3/maintenance/status", &json!({})).await?;
    status.read().map_err(unreadable)
}

/// All members, as a majority has them: a member that lost touch does not answer.
///
/// # Errors
/// [`Error::AskEtcd`].
pub async fn member_list(client: &Client) -> Result<Vec<ListedMember>, Error> {
    let list: answers::Members = ask(
        client,
        "/v3/cluster/member/list",
        &json!({ "linearizable": true }),
    )
    .await?;
    list.read().map_err(unreadable)
}

/// Adds a member without a vote. Where there is one at that URL, etcd refuses.
///
/// # Errors
/// [`Error::AskEtcd`]; it may have been added all the same.
pub async fn add_learner(client: &Client, peer_url: &str) -> Result<(), Error> {
    let body = json!({ "peerURLs": [peer_url], "isLearner": true });
    change(client, "/v3/cluster/member/add", &body).await
}

/// Gives a learner a vote; etcd refuses while it has less than nine tenths of the log.
///
/// # Errors
/// [`Error::AskEtcd`]; it may have been done all the same.
pub async fn promote(client: &Client, id: &str) -> Result<(), Error> {
    let body = json!({ "ID": decimal(id)? });
    change(client, "/v3/cluster/member/promote", &body).await
}

/// Removes a member. etcd refuses where too few of the others are connected.
///
/// # Errors
/// [`Error::AskEtcd`]; it may have been done all the same.
pub async fn remove(client: &Client, id: &str) -> Result<(), Error> {
    let body = json!({ "ID": decimal(id)? });
    change(client, "/v3/cluster/member/remove", &body).await
}

/// Has another member lead. Only the one that leads can be asked.
///
/// # Errors
/// [`Error::AskEtcd`]; it may have been done all the same.
pub async fn move_leader(client: &Client, to: &str) -> Result<(), Error> {
    let body = json!({ "targetID": decimal(to)? });
    change(client, "/v3/maintenance/transfer-leadership", &body).await
}

/// Takes an alarm of a member away.
///
/// # Errors
/// [`Error::AskEtcd`]; it may have been done all the same.
pub async fn disarm(client: &Client, id: &str, alarm: Alarm) -> Result<(), Error> {
    let body = json!({
        "action": "DEACTIVATE", "memberID": decimal(id)?, "alarm": alarm.name(),
    });
    change(client, "/v3/maintenance/alarm", &body).await
}

/// A hash of all data of one member up to a revision.
///
/// # Errors
/// [`Error::AskEtcd`]; also where the revision is compacted already, or has not come to it.
pub async fn hash_of_data(client: &Client, revision: i64) -> Result<DataHash, Error> {
    let body = json!({ "revision": revision.to_string() });
    let hash: answers::Hash = ask(client, "/v3/maintenance/hashkv", &body).await?;
    hash.read().map_err(unreadable)
}

/// Deletes keys, from one on and before another.
///
/// # Errors
/// [`Error::AskEtcd`]; they may have been deleted all the same.
pub async fn delete_range(client: &Client, from: &str, before: &str) -> Result<(), Error> {
    let text = |key: &str| base64::engine::general_purpose::STANDARD.encode(key);
    let body = json!({ "key": text(from), "range_end": text(before) });
    change(client, "/v3/kv/deleterange", &body).await
}

/// Objects from one key on and before another whose last change is not after a revision, the first of them by their keys;
/// at most so many.
///
/// # Errors
/// [`Error::AskEtcd`].
pub async fn unchanged_since(
    client: &Client,
    (from, before): (&str, &str),
    revision: i64,
    most: u32,
) -> Result<Vec<Stored>, Error> {
    let text = |key: &str| base64::engine::general_purpose::STANDARD.encode(key);
    let body = json!({
        "key": text(from), "range_end": text(before), "limit": most.to_string(),
        "max_mod_revision": revision.to_string(),
    });
    let range: answers::Range = ask(client, "/v3/kv/range", &body).await?;
    range.read().map_err(unreadable)
}

/// Objects from one key on and before another, the first of them by their keys; at most so many.
///
/// # Errors
/// [`Error::AskEtcd`].
pub async fn stored(
    client: &Client,
    (from, before): (&[u8], &[u8]),
    most: u32,
) -> Result<Vec<Stored>, Error> {
    let text = |key: &[u8]| base64::engine::general_purpose::STANDARD.encode(key);
    let body = json!({
        "key": text(from), "range_end": text(before), "limit": most.to_string(),
    });
    let range: answers::Range = ask(client, "/v3/kv/range", &body).await?;
    range.read().map_err(unreadable)
}

/// Writes objects, or deletes those without a value, if none of them was changed since it was read; says whether it did.
///
/// # Errors
/// [`Error::AskEtcd`]; it may have been done all the same.
pub async fn replace(client: &Client, all: &[(&Stored, Option<&[u8]>)]) -> Result<bool, Error> {
    let text = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let is_same = |(stored, _): &(&Stored, Option<&[u8]>)| {
        json!({
            "key": text(&stored.key), "target": "MOD", "result": "EQUAL",
            "mod_revision": stored.changed_at.to_string(),
        })
    };
    let write = |(stored, value): &(&Stored, Option<&[u8]>)| match value {
        Some(value) => json!({ "request_put": { "key": text(&stored.key), "value": text(value) } }),
        None => json!({ "request_delete_range": { "key": text(&stored.key) } }),
    };
    let body = json!({
        "compare": all.iter().map(is_same).collect::<Vec<_>>(),
        "success": all.iter().map(write).collect::<Vec<_>>(),
    });
    let done: answers::Txn = ask(client, "/v3/kv/txn", &body).await?;
    Ok(done.succeeded)
}

/// Drops what was overwritten or deleted before a revision, and waits until its bytes are free. One that
/// was done before is no error.
///
/// # Errors
/// [`Error::AskEtcd`]; it may have been done all the same.
pub async fn compact(client: &Client, revision: i64) -> Result<(), Error> {
    let body = json!({ "revision": revision.to_string(), "physical": true });
    match change(client, "/v3/kv/compaction", &body).await {
        Err(Error::AskEtcd(error)) if is_compacted(&error) => Ok(()),
        done => done,
    }
}

/// What etcd says of a revision before which nothing is left (`api/v3rpc/rpctypes/error.go`).
fn is_compacted(error: &kube::Error) -> bool {
    error
        .to_string()
        .contains("required revision has been compacted")
}

/// Writes a member's database anew without what is free in it. The member answers nobody meanwhile, and goes on
/// with it when nobody waits for the answer any more: it must be asked for only while
/// [`is_defragmenting`] says no.
///
/// # Errors
/// [`Error::AskEtcd`]; it may go on all the same.
pub async fn defragment(client: &Client) -> Result<(), Error> {
    change(client, "/v3/maintenance/defragment", &json!({})).await
}

/// Whether a member writes its database anew now (metric `etcd_disk_defrag_inflight`).
///
/// # Errors
/// [`Error::AskEtcd`]; also where it does not say.
pub async fn is_defragmenting(client: &Client) -> Result<bool, Error> {
    let text = metrics(client).await?;
    let value = |line: &str| {
        let value = line.strip_prefix("etcd_disk_defrag_inflight ")?;
        value.trim().parse::<f64>().ok()
    };
    let in_flight = text.lines().find_map(value);
    let missing = || serde::de::Error::custom("it has no metric etcd_disk_defrag_inflight");
    Ok(in_flight.ok_or_else(missing).map_err(unreadable)? > 0.0)
}

/// How long the disk of a member has taken since its process began.
///
/// # Errors
/// [`Error::AskEtcd`]; also where it does not say.
pub async fn disk_times(client: &Client) -> Result<DiskTimes, Error> {
    let missing = || serde::de::Error::custom("its metrics do not say how long its disk takes");
    let times = DiskTimes::read(&metrics(client).await?);
    times.ok_or_else(missing).map_err(unreadable)
}

async fn metrics(client: &Client) -> Result<String, Error> {
    let mut request = Request::new(Vec::new());
    *request.uri_mut() = http::Uri::from_static("/metrics");
    send(client, request).await
}

async fn change(client: &Client, path: &'static str, body: &impl Serialize) -> Result<(), Error> {
    post(client, path, body).await.map(drop)
}

async fn ask<T: DeserializeOwned>(
    client: &Client,
    path: &'static str,
    body: &impl Serialize,
) -> Result<T, Error> {
    let text = post(client, path, body).await?;
    serde_json::from_str(&text).map_err(unreadable)
}

async fn post(client: &Client, path: &'static str, body: &impl Serialize) -> Result<String, Error> {
    let mut request = Request::new(serde_json::to_vec(body).map_err(unreadable)?);
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    send(client, request).await
}

async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<String, Error> {
    let failed = |error| Error::AskEtcd(Box::new(error));
    let text = tokio::time::timeout(REQUEST_TIMEOUT, client.request_text(request)).await;
    let text = text.map_err(|elapsed| failed(kube::Error::Service(elapsed.into())))?;
    text.map_err(failed)
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::AskEtcd(Box::new(kube::Error::SerdeError(error)))
}

/// As the gateway wants an identifier that we have in hexadecimal.
fn decimal(id: &str) -> Result<String, Error> {
    let number = u64::from_str_radix(id, 16);
    let number = number.map_err(|error| unreadable(serde::de::Error::custom(error)))?;
    Ok(number.to_string())
}
