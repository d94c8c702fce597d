//! Has a tenant's kube-apiserver write objects again that etcd has under another key of encryption at rest, or encrypted
//! although they are not to be, or not although they are.
//!
//! etcd says which those are: before every value that is encrypted stands the name of its key. An update that changes nothing
//! makes a kube-apiserver write an object again that it read by anything but what stands first in its file (`stale` in
//! `k8s.io/apiserver/pkg/storage/etcd3/store.go`), and nothing else.
//! Invariant: a bounded number of pages and writes a pass; it goes past nothing that it did not see as it is to be; of values
//! no more than their first bytes are looked at, and nothing of them is kept.

use std::collections::BTreeSet;

use kit_client::errors::chain;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tenant_cp::certificates::encryption_name;
use tenant_cp::encrypted_kinds::{Encryptable, EncryptedKinds, OTHERS, SECRETS, of_key};

use super::etcd;
use super::etcd::answers::Stored;

/// What every value begins with that is encrypted.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// Objects that are read at once. One may have more than 1 MiB, and an answer has 4 MiB at most: where these are too many,
/// one is read at a time.
const PAGE: u32 = 32;
/// Pages of one pass.
const MOST_PAGES: usize = 16;
/// Objects that are written in one pass.
const MOST_WRITES: usize = 32;

/// How a pass ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// Every object is as it is to be.
    All,
    /// It went as far as one pass goes.
    Paused,
    /// The API refuses the update of some; this is the first: kind, namespace and name.
    Refused(String),
    /// The API, or etcd, did not do its part: why.
    Failed(String),
}

/// What came of a pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pass {
    /// Before this key everything is as it is to be.
    pub reached: Vec<u8>,
    /// How it ended.
    pub end: End,
}

/// Why one could not be written.
enum NotWritten {
    Refused,
    Failed(String),
}

/// A kind, and what every value of it is to begin with; none where it is not to be encrypted.
struct Range {
    kind: Encryptable,
    prefix: Option<Vec<u8>>,
}

impl Range {
    fn is_other(&self, value: &[u8]) -> bool {
        match &self.prefix {
            Some(prefix) => !value.starts_with(prefix),
            None => value.starts_with(ENCRYPTED),
        }
    }
}

/// What is looked at, in the order of keys.
fn ranges(generation: u32, kinds: &EncryptedKinds) -> Vec<Range> {
    let prefix = |kind: &Encryptable| {
        let prefix = match &kinds.kms.writes {
            Some(provider) => provider.prefix(kind.name),
            None => format!("k8s:enc:secretbox:v1:{}:", encryption_name(generation)),
        };
        prefix.into_bytes()
    };
    let others = OTHERS.into_iter().filter_map(|kind| {
        let is_written = kinds.written.contains(kind.name);
        (is_written || kinds.read.contains(kind.name)).then(|| Range {
            prefix: is_written.then(|| prefix(&kind)),
            kind,
        })
    });
    let secrets = Range {
        kind: SECRETS,
        prefix: Some(prefix(&SECRETS)),
    };
    let mut all: Vec<_> = others.chain([secrets]).collect();
    all.sort_by_key(|range| range.kind.first_key());
    all
}

/// One pass, from a key on or from the first one: the generation of the key that writes, and what is encrypted. `api` may
/// update every object.
///
/// # Errors
/// etcd does not answer, and nothing was done.
pub async fn pass(
    etcd: &Client,
    api: &Client,
    from: Option<Vec<u8>>,
    (generation, kinds): (u32, &EncryptedKinds),
) -> Result<Pass, String> {
    let mut reached = from.unwrap_or_default();
    let mut left = ranges(generation, kinds);
    left.retain(|range| range.kind.end_key() > reached);
    let mut left = left.into_iter();
    let mut range = left.next();
    let mut refused: BTreeSet<Vec<u8>> = BTreeSet::new();
    let (mut end, mut writes) = (End::Paused, 0);
    for number in 0..MOST_PAGES {
        let Some(now) = &range else {
            end = End::All;
            break;
        };
        reached = reached.max(now.kind.first_key());
        let found = match read(etcd, &reached, &now.kind.end_key()).await {
            Ok(found) => found,
            Err(why) if number == 0 => return Err(why),
            Err(why) => {
                end = End::Failed(why);
                break;
            }
        };
        let Some(last) = found.last() else {
            reached = now.kind.end_key();
            range = left.next();
            continue;
        };
        let old = found.iter().filter(|stored| now.is_other(&stored.value));
        let old = old.filter(|stored| !refused.contains(&stored.key));
        let old: Vec<&Vec<u8>> = old.map(|stored| &stored.key).collect();
        let mut is_written = false;
        for key in old {
            if writes == MOST_WRITES {
                return Ok(told(reached, &refused, End::Paused));
            }
            writes += 1;
            match write(api, now.kind, key).await {
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
            let name = of_key(first).and_then(|kind| {
                let (namespace, name) = place(kind, first)?;
                Some(format!("{} {namespace}/{name}", kind.kind))
            });
            Pass {
                reached: first.clone(),
                end: End::Refused(name.unwrap_or_default()),
            }
        }
        None => Pass { reached, end },
    }
}

async fn read(etcd: &Client, from: &[u8], before: &[u8]) -> Result<Vec<Stored>, String> {
    match etcd::stored(etcd, (from, before), PAGE).await {
        Ok(found) => Ok(found),
        Err(_) => {
            let one = etcd::stored(etcd, (from, before), 1).await;
            one.map_err(|error| chain(&error))
        }
    }
}

async fn write(api: &Client, kind: Encryptable, key: &[u8]) -> Result<(), NotWritten> {
    let (namespace, name) = place(kind, key)
        .ok_or_else(|| NotWritten::Failed("etcd has an object whose name is none".to_owned()))?;
    let api_version = match kind.group {
        "" => kind.version.to_owned(),
        group => format!("{group}/{}", kind.version),
    };
    let resource = ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version,
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    };
    let objects: Api<DynamicObject> = Api::namespaced_with(api.clone(), namespace, &resource);
    let (params, nothing) = (PatchParams::default(), Patch::Merge(json!({})));
    match objects.patch_metadata(name, &params, &nothing).await {
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

/// Namespace and name of the object of a key.
fn place(kind: Encryptable, key: &[u8]) -> Option<(&str, &str)> {
    let key = std::str::from_utf8(key.strip_prefix(kind.first_key().as_slice())?).ok()?;
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
    use tenant_cp::kms::{Kms, Provider};

    use super::*;

    #[test]
    fn keys_of_objects_are_read_and_no_others() {
        assert_eq!(
            place(SECRETS, b"/registry/secrets/shop/robot-1.x"),
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
            assert_eq!(place(SECRETS, other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn what_was_refused_is_where_the_next_pass_begins() {
        let key = |name: &str| [SECRETS.first_key(), name.as_bytes().to_vec()].concat();
        let refused = BTreeSet::from([key("shop/b"), key("shop/a")]);
        let pass = told(key("shop/z"), &refused, End::All);
        assert_eq!(pass.reached, key("shop/a"));
        assert_eq!(pass.end, End::Refused("Secret shop/a".to_owned()));
        let pass = told(key("shop/z"), &BTreeSet::new(), End::All);
        assert_eq!((pass.reached, pass.end), (key("shop/z"), End::All));
        assert!(after(&key("a/b")) > key("a/b") && after(&key("a/b")) < key("a/b-"));
    }

    #[test]
    fn kinds_are_looked_at_in_the_order_of_their_keys_and_each_for_what_it_is_to_be() {
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        let kinds = EncryptedKinds {
            written: set("statefulsets.apps"),
            read: set("configmaps"),
            ..EncryptedKinds::default()
        };
        let all = ranges(2, &kinds);
        let names: Vec<_> = all.iter().map(|range| range.kind.name).collect();
        assert_eq!(names, ["configmaps", "secrets", "statefulsets.apps"]);
        let of = |range: &Range| {
            [
                "k8s:enc:secretbox:v1:k2:x",
                "k8s:enc:secretbox:v1:k1:x",
                "k8s\0",
            ]
            .map(|value| range.is_other(value.as_bytes()))
        };
        assert_eq!(of(&all[0]), [true, true, false]);
        assert_eq!(of(&all[1]), [false, true, true]);
        assert_eq!(of(&all[2]), [false, true, true]);
    }

    #[test]
    fn what_a_kms_is_to_write_is_written_again_by_whatever_else_it_was() {
        let kinds = EncryptedKinds {
            written: BTreeSet::from(["pods".to_owned()]),
            kms: Kms {
                writes: Provider::read("vault-g2"),
                ..Kms::default()
            },
            ..EncryptedKinds::default()
        };
        let all = ranges(1, &kinds);
        let of = |range: &Range| {
            [
                "k8s:enc:kms:v2:vault-g2:x",
                "k8s:enc:kms:v2:vault-g2/pods:x",
                "k8s:enc:kms:v2:vault-g1:x",
                "k8s:enc:secretbox:v1:k1:x",
                "k8s\0",
            ]
            .map(|value| range.is_other(value.as_bytes()))
        };
        assert_eq!(of(&all[0]), [true, false, true, true, true]);
        assert_eq!(of(&all[1]), [false, true, true, true, true]);
    }
}
