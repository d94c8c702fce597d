//! A small client of etcd's JSON gateway (etcd `server/etcdserver/api/v3rpc`, path `/v3/kv`).
//!
//! Invariant: keys and values stay as etcd gives them, in base64; nothing is decoded, so nothing
//! can be changed by reading and writing it back.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Keys per request: keeps an answer below the gateway's limit of 4 MiB.
const PAGE: usize = 200;
/// Writes at the same time: more of them are not quicker.
const AT_ONCE: usize = 32;

/// Where an etcd without TLS listens.
#[derive(Clone, Debug)]
pub struct Etcd {
    url: String,
}

/// One key as etcd has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct KeyValue {
    /// In base64.
    pub(crate) key: String,
    /// In base64; empty when only keys were asked for.
    #[serde(default)]
    pub(crate) value: String,
    /// Revision of the last change.
    #[serde(deserialize_with = "number", serialize_with = "text")]
    pub(crate) mod_revision: i64,
}

/// A connection, bound to the runtime that made it.
pub(crate) struct Session {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Etcd {
    /// `url` is like `http://127.0.0.1:2379`.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }

    /// The URL given to [`Self::new`].
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Names of all keys below a prefix, decoded: `/registry/secrets/<namespace>/<name>`.
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let found = self.session().range(prefix, true).await?;
        found.values().map(|kv| decode(&kv.key)).collect()
    }

    /// Writes objects as JSON, which an API server reads as well as what it writes itself: by their keys, as in
    /// [`Self::keys`]. Thousands are there in the time in which the server would make dozens; but nothing is
    /// checked, defaulted or allocated.
    ///
    /// # Errors
    /// When etcd refuses one, or does not answer; some may be written then.
    pub async fn write(&self, objects: &[(String, Value)]) -> Result<()> {
        let session = self.session();
        let writes = objects.iter().map(|(key, object)| {
            let session = &session;
            async move {
                let (key, object) = (STANDARD.encode(key), STANDARD.encode(object.to_string()));
                session.put(&key, &object).await.map(drop)
            }
        });
        // Each by itself: API servers take two changes of one revision for one.
        stream::iter(writes)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Removes these keys, as in [`Self::keys`], without asking any finalizer.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn remove(&self, keys: &[String]) -> Result<()> {
        let keys: Vec<_> = keys.iter().map(|key| STANDARD.encode(key)).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        self.session().delete_all(&keys).await
    }

    pub(crate) fn session(&self) -> Session {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Session {
            url: self.url.clone(),
            client,
        }
    }
}

impl Session {
    /// All keys below a prefix, sorted by their encoded name.
    pub(crate) async fn range(
        &self,
        prefix: &str,
        keys_only: bool,
    ) -> Result<BTreeMap<String, KeyValue>> {
        let mut found = BTreeMap::new();
        let mut from = prefix.as_bytes().to_vec();
        let end = STANDARD.encode(end_of(prefix));
        loop {
            let body = json!({"key": STANDARD.encode(&from), "range_end": end,
                "limit": PAGE, "keys_only": keys_only});
            let answer = self.post("range", &body).await?;
            let kvs = answer.get("kvs").cloned().unwrap_or_else(|| json!([]));
            let page: Vec<KeyValue> = serde_json::from_value(kvs).context("not a list of keys")?;
            let last = page.last().map(|kv| kv.key.clone());
            found.extend(page.into_iter().map(|kv| (kv.key.clone(), kv)));
            match (answer.get("more"), last) {
                (Some(Value::Bool(true)), Some(last)) => {
                    from = STANDARD.decode(last).context("not base64")?;
                    from.push(0);
                }
                _ => return Ok(found),
            }
        }
    }

    /// Writes one key (both in base64) and returns the revision of the change.
    pub(crate) async fn put(&self, key: &str, value: &str) -> Result<i64> {
        revision(
            &self
                .post("put", &json!({"key": key, "value": value}))
                .await?,
        )
    }

    /// Removes these keys (in base64), some at a time.
    pub(crate) async fn delete_all(&self, keys: &[&str]) -> Result<()> {
        let removals = keys.iter().map(|key| {
            let body = json!({ "key": key });
            async move { self.post("deleterange", &body).await.map(drop) }
        });
        stream::iter(removals)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn post(&self, method: &str, body: &Value) -> Result<Value> {
        let request = Request::post(format!("{}/v3/kv/{method}", self.url))
            .body(Full::from(body.to_string()))
            .context("not a URL")?;
        let answer = self
            .client
            .request(request)
            .await
            .context("etcd does not answer")?;
        let status = answer.status();
        let body = answer
            .into_body()
            .collect()
            .await
            .context("etcd broke off")?
            .to_bytes();
        if !status.is_success() {
            bail!("etcd answered {status}: {}", String::from_utf8_lossy(&body));
        }
        serde_json::from_slice(&body).context("etcd did not answer with JSON")
    }
}

/// The decoded name of a key.
pub(crate) fn decode(key: &str) -> Result<String> {
    let bytes = STANDARD.decode(key).context("not base64")?;
    String::from_utf8(bytes).context("not a key of Kubernetes")
}

/// The first key after all that start with `prefix`.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        // The prefixes of Kubernetes are ASCII.
        *last += 1;
    }
    end
}

fn revision(answer: &Value) -> Result<i64> {
    let text = answer["header"]["revision"]
        .as_str()
        .context("etcd gave no revision")?;
    text.parse().context("not a revision")
}

/// The gateway writes 64-bit numbers as text.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn text<S: serde::Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
