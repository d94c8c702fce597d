//! Whether two etcds have the same at one revision.
//!
//! Invariant: memory holds one page of each, whatever is in them; the one that serves people is asked for one page at a
//! time and then left alone for as long as it worked on it, so it gives half of what one client takes at most.

use std::time::{Duration, Instant};

use proto::etcd::{KeyValue, RangeRequest};
use tonic::Code;

use crate::etcd::{self, Etcd};

/// Keys of the first page; the next ones have as many as are about [`PAGE`] bytes.
const FIRST: i64 = 64;
/// Most keys of a page.
const MOST: i64 = 1024;
/// Bytes of keys and values that a page is to have.
const PAGE: usize = 1024 * 1024;
/// Most time that is left between two pages.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Most characters of a key that are said.
const MOST_SAID: usize = 200;

/// What was compared, and was the same.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Compared {
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// Why it is not known to be the same.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// It is not.
    #[error("at revision {revision}: {what}")]
    Differs {
        /// Where it was compared.
        revision: u64,
        /// What differs first, for people.
        what: String,
    },
    /// The etcd that serves dropped that revision meanwhile: its kube-apiserver does so with what is older than some
    /// minutes.
    #[error("etcd has compacted revision {0} before it was compared")]
    Compacted(u64),
    /// One of both did not answer.
    #[error(transparent)]
    Etcd(#[from] etcd::Error),
}

/// Compares all keys of `live`, which serves people, with those of `copy`, at a revision.
///
/// # Errors
/// [`CompareError`], for the first difference.
pub async fn compare(live: &Etcd, copy: &Etcd, revision: u64) -> Result<Compared, CompareError> {
    let (mut key, mut limit, mut all) = (vec![0], FIRST, Compared::default());
    loop {
        let request = RangeRequest {
            key: key.clone(),
            range_end: vec![0],
            limit,
            revision: revision.cast_signed(),
            ..RangeRequest::default()
        };
        let begun = Instant::now();
        let answers = (live.range(request.clone()).await, copy.range(request).await);
        let (wanted, found) = match answers {
            (Err(error), _) | (_, Err(error)) if is_too_much(&error) && limit > 1 => {
                limit /= 2;
                continue;
            }
            (Err(error), _) => return Err(of_live(error, revision)),
            (Ok(wanted), found) => (wanted, found?),
        };
        if let Some(what) = difference(&wanted.kvs, &found.kvs) {
            return Err(CompareError::Differs { revision, what });
        }
        let bytes: usize = wanted.kvs.iter().map(weight).sum();
        all.keys += wanted.kvs.len() as u64;
        all.bytes += bytes as u64;
        let Some(last) = wanted.kvs.last().filter(|_| wanted.more) else {
            return Ok(all);
        };
        key.clone_from(&last.key);
        key.push(0);
        limit = next_limit(wanted.kvs.len(), bytes);
        tokio::time::sleep(begun.elapsed().min(LONGEST_REST)).await;
    }
}

/// As many keys as are about a page, if the next ones are as large as those.
fn next_limit(keys: usize, bytes: usize) -> i64 {
    let many = keys.saturating_mul(PAGE) / bytes.max(1);
    i64::try_from(many).unwrap_or(MOST).clamp(1, MOST)
}

fn weight(kv: &KeyValue) -> usize {
    kv.key.len() + kv.value.len()
}

/// Whether the answer was larger than what is read of one.
fn is_too_much(error: &etcd::Error) -> bool {
    let etcd::Error::Ask { status, .. } = error else {
        return false;
    };
    matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted)
        && !is_of_revisions(status.message())
}

/// etcd says `OutOfRange` of revisions, too.
fn is_of_revisions(message: &str) -> bool {
    message.contains("required revision")
}

fn of_live(error: etcd::Error, revision: u64) -> CompareError {
    let said = match &error {
        etcd::Error::Ask { status, .. } => status.message(),
        etcd::Error::Address { .. } | etcd::Error::Nonsense { .. } => "",
    };
    if said.contains("has been compacted") {
        return CompareError::Compacted(revision);
    }
    if said.contains("is a future revision") {
        let what = "etcd has not got so far: its backup is ahead of it".to_owned();
        return CompareError::Differs { revision, what };
    }
    CompareError::Etcd(error)
}

/// What differs first between two pages of the same request, for people.
fn difference(wanted: &[KeyValue], found: &[KeyValue]) -> Option<String> {
    let differs = |index: &usize| wanted.get(*index) != found.get(*index);
    let index = (0..wanted.len().max(found.len())).find(differs)?;
    Some(match (wanted.get(index), found.get(index)) {
        (Some(wanted), Some(found)) if wanted.key == found.key => {
            format!("{} is another one in the backup", said(&wanted.key))
        }
        (Some(wanted), Some(found)) if wanted.key > found.key => {
            format!("the backup has {}, and etcd has it not", said(&found.key))
        }
        (Some(wanted), _) => format!("the backup lacks {}", said(&wanted.key)),
        (None, Some(found)) => {
            format!("the backup has {}, and etcd has it not", said(&found.key))
        }
        (None, None) => return None,
    })
}

fn said(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    text.chars()
        .take(MOST_SAID)
        .flat_map(char::escape_debug)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &str, value: &str, revision: i64) -> KeyValue {
        KeyValue {
            key: key.into(),
            value: value.into(),
            mod_revision: revision,
            ..KeyValue::default()
        }
    }

    #[test]
    fn first_difference_is_said_by_its_key_whichever_side_lacks_it() {
        let all = [kv("/a", "1", 5), kv("/b", "2", 6), kv("/c", "3", 7)];
        assert_eq!(difference(&all, &all), None);
        let lacks = |without: usize| {
            let mut less = all.to_vec();
            less.remove(without);
            less
        };
        let says = |wanted: &[KeyValue], found: &[KeyValue]| difference(wanted, found).unwrap();
        assert_eq!(says(&all, &lacks(1)), "the backup lacks /b");
        assert_eq!(says(&all, &lacks(2)), "the backup lacks /c");
        assert_eq!(
            says(&lacks(0), &all),
            "the backup has /a, and etcd has it not"
        );
        assert_eq!(
            says(&lacks(2), &all),
            "the backup has /c, and etcd has it not"
        );
        // The same value that was written at another revision is not the same: whoever watches would be told.
        let mut other = all.to_vec();
        other[1].mod_revision = 9;
        assert_eq!(says(&all, &other), "/b is another one in the backup");
    }

    #[test]
    fn key_is_said_in_one_bounded_line() {
        assert_eq!(said(b"/a\n\x07b"), "/a\\n\\u{7}b");
        assert_eq!(said(&[b'k'; 5000]).len(), MOST_SAID);
    }

    #[test]
    fn pages_have_about_a_mebibyte_and_at_least_one_key() {
        assert_eq!(next_limit(64, 64 * 1024), 1024);
        assert_eq!(next_limit(64, 64 * 16 * 1024), 64);
        assert_eq!(next_limit(2, 3 * PAGE), 1);
        assert_eq!(next_limit(0, 0), 1);
    }
}
