//! Has a tenant's kube-apiserver write Secrets again that etcd has under another key of encryption at rest.
//!
//! etcd says which those are: before every value stands the name of its key. An update that changes nothing makes a
//! kube-apiserver write an object again that it read by a key that does not stand first (`stale` in
//! `k8s.io/apiserver/pkg/storage/etcd3/store.go`), and nothing else.
//! Invariant: a bounded number of pages and writes a pass; it goes past nothing that it did not see under the wanted key;
//! of values no more than their first bytes are looked at, and nothing of them is kept.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kit_client::errors::chain;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tenant_cp::certificates::encryption_name;

use super::etcd;
use super::etcd::answers::Stored;

/// Where kube-apiservers have Secrets, and the first key behind them.
const FROM: &[u8] = b"/registry/secrets/";
const BEFORE: &[u8] = b"/registry/secrets0";
/// Secrets that are read at once. One may have more than 1 MiB, and an answer has 4 MiB at most: where these are too many,
/// one is read at a time.
const PAGE: u32 = 32;
/// Pages of one pass.
const MOST_PAGES: usize = 16;
/// Secrets that are written in one pass.
const MOST_WRITES: usize = 32;

/// How a pass ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// Every Secret is under the wanted key.
    All,
    /// It went as far as one pass goes.
    Paused,
    /// The API refuses the update of some; this is the first, namespace and name.
    Refused(String),
    /// The API, or etcd, did not do its part: why.
    Failed(String),
}

/// What came of a pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pass {
    /// Before this key everything is under the wanted key.
    pub reached: Vec<u8>,
    /// How it ended.
    pub end: End,
}

/// Why one could not be written.
enum NotWritten {
    Refused,
    Failed(String),
}

/// One pass, from a key on or from the first one. `api` may update every Secret.
///
/// # Errors
/// etcd does not answer, and nothing was done.
pub async fn pass(
    etcd: &Client,
    api: &Client,
    from: Option<Vec<u8>>,
    generation: u32,
) -> Result<Pass, String> {
    let prefix = format!("k8s:enc:secretbox:v1:{}:", encryption_name(generation));
    let mut reached = from.unwrap_or_else(|| FROM.to_vec());
    let mut refused: BTreeSet<Vec<u8>> = BTreeSet::new();
    let (mut end, mut writes) = (End::Paused, 0);
    for number in 0..MOST_PAGES {
        let found = match read(etcd, &reached).await {
            Ok(found) => found,
            Err(why) if number == 0 => return Err(why),
            Err(why) => {
                end = End::Failed(why);
                break;
            }
        };
        let Some(last) = found.last() else {
            end = End::All;
            break;
        };
        let is_old = |stored: &&Stored| !stored.value.starts_with(prefix.as_bytes());
        let old = found.iter().filter(is_old);
        let old = old.filter(|stored| !refused.contains(&stored.key));
        let old: Vec<&Vec<u8>> = old.map(|stored| &stored.key).collect();
        let mut is_written = false;
        for key in old {
            if writes == MOST_WRITES {
                return Ok(told(reached, &refused, End::Paused));
            }
            writes += 1;
            match write(api, key).await {
                Ok(()) => is_written = true,
                Err(NotWritten::Refused) => {
                    refused.insert(key.clone());
                }
                Err(NotWritten::Failed(why)) => {
                    return Ok(told(reached, &refused, End::Failed(why)));
                }
            }
        }
        // Whether that was enough says etcd.
        if !is_written {
            reached = after(&last.key);
        }
    }
    Ok(told(reached, &refused, end))
}

/// What was refused is tried again by the next pass.
fn told(reached: Vec<u8>, refused: &BTreeSet<Vec<u8>>, end: End) -> Pass {
    match refused.first() {
        Some(first) => {
            let name = place(first).map(|(namespace, name)| format!("{namespace}/{name}"));
            Pass {
                reached: first.clone(),
                end: End::Refused(name.unwrap_or_default()),
            }
        }
        None => Pass { reached, end },
    }
}

async fn read(etcd: &Client, from: &[u8]) -> Result<Vec<Stored>, String> {
    match etcd::stored(etcd, (from, BEFORE), PAGE).await {
        Ok(found) => Ok(found),
        Err(_) => {
            let one = etcd::stored(etcd, (from, BEFORE), 1).await;
            one.map_err(|error| chain(&error))
        }
    }
}

async fn write(api: &Client, key: &[u8]) -> Result<(), NotWritten> {
    let (namespace, name) = place(key)
        .ok_or_else(|| NotWritten::Failed("etcd has a Secret whose name is none".to_owned()))?;
    let secrets: Api<Secret> = Api::namespaced(api.clone(), namespace);
    let (params, nothing) = (PatchParams::default(), Patch::Merge(json!({})));
    match secrets.patch_metadata(name, &params, &nothing).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => match status.code {
            // Gone, or somebody else wrote it.
            404 | 409 => Ok(()),
            // 500 is what a webhook gives that cannot be called.
            400..=428 | 430..=499 | 500 => Err(NotWritten::Refused),
            _ => Err(NotWritten::Failed(status.message.clone())),
        },
        Err(error) => Err(NotWritten::Failed(chain(&error))),
    }
}

/// Namespace and name of the Secret of a key.
fn place(key: &[u8]) -> Option<(&str, &str)> {
    let key = std::str::from_utf8(key.strip_prefix(FROM)?).ok()?;
    let (namespace, name) = key.split_once('/')?;
    let is_name = |name: &str| {
        let is_in_names = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| is_in_names(byte) || b"-.".contains(&byte))
    };
    (is_name(namespace) && is_name(name)).then_some((namespace, name))
}

/// The first key behind one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_secrets_are_read_and_no_others() {
        assert_eq!(
            place(b"/registry/secrets/shop/robot-1.x"),
            Some(("shop", "robot-1.x"))
        );
        for other in [
            "/registry/secrets/shop",
            "/registry/secrets/shop/",
            "/registry/secrets//a",
            "/registry/secrets/shop/a/b",
            "/registry/secrets/shop/a?b",
            "/registry/configmaps/shop/a",
        ] {
            assert_eq!(place(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn what_was_refused_is_where_the_next_pass_begins() {
        let key = |name: &str| [FROM, name.as_bytes()].concat();
        let refused = BTreeSet::from([key("shop/b"), key("shop/a")]);
        let pass = told(key("shop/z"), &refused, End::All);
        assert_eq!(pass.reached, key("shop/a"));
        assert_eq!(pass.end, End::Refused("shop/a".to_owned()));
        let pass = told(key("shop/z"), &BTreeSet::new(), End::All);
        assert_eq!((pass.reached, pass.end), (key("shop/z"), End::All));
        assert!(after(&key("a/b")) > key("a/b") && after(&key("a/b")) < key("a/b-"));
    }
}
