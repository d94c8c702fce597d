//! Whether a restore could be had, for the operator: `GET /restorable/<etcd cluster>/<moment>` begins to read what a
//! restore would read, and says what came of it once it is asked again. `GET /newest/<etcd cluster>` says of when the newest
//! change in the backup is, by its delta alone.
//!
//! Invariant: nothing is written or deleted; one moment is read at a time, a few wait, and what was found is forgotten
//! after a minute, because retention goes on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::backup::reader::{Opener, ReadError, Reader};
use ::backup::restore;
use ::backup::restore::choose::At;
use ::backup::restore::outcome::{Found, NotFound};
use ::backup::store::Store;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use backup_format::keys::DataKey;
use backup_format::{Header, Kind, Name, Scope};
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

/// Moments that are known or being read.
const MOST: usize = 4;
/// How long what was found is said.
const LASTS: Duration = Duration::from_secs(60);
/// Most characters of what is wrong.
const MOST_WHY: usize = 1000;

/// What could be had.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    /// Whether it can be had as it was asked for.
    possible: bool,
    /// The full snapshot that it would begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    full: Option<String>,
    /// The last revision that it would have; where it cannot be had the nearest before it that can, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// When its event came.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<u64>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The newest change in a backup.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Newest {
    /// Its revision.
    revision: u64,
    /// When its event came.
    time_ms: u64,
}

enum Entry {
    Reads(JoinHandle<Result<Found, NotFound>>),
    Known(Instant, Choice),
}

/// What was asked, and what came of it.
pub(super) struct Choices<S> {
    store: Arc<S>,
    tenant: String,
    prefix: String,
    key: DataKey,
    turn: Arc<Semaphore>,
    entries: Mutex<HashMap<String, Entry>>,
}

impl<S: Store> Choices<S> {
    /// Of one tenant cluster's backups.
    pub(super) fn new(store: Arc<S>, tenant: &str, prefix: &str, key: DataKey) -> Self {
        Self {
            store,
            tenant: tenant.to_owned(),
            prefix: prefix.to_owned(),
            key,
            turn: Arc::new(Semaphore::new(1)),
            entries: Mutex::default(),
        }
    }

    /// Of when the newest change is.
    pub(super) async fn newest(&self, cluster: &str) -> Response {
        let scope = u64::from_str_radix(cluster, 16).ok();
        let Some(scope) = scope.and_then(|cluster| Scope::new(&self.tenant, cluster)) else {
            let said = "say /newest/<etcd cluster>";
            return (StatusCode::BAD_REQUEST, said).into_response();
        };
        let reader = Reader {
            store: &*self.store,
            scope,
            prefix: self.prefix.clone(),
            opener: Opener::Data(self.key.clone()),
        };
        let read = async {
            let listing = reader.list().await?;
            let full = listing.newest_full().map(|full| Newest {
                revision: full.revision,
                time_ms: full.taken_ms,
            });
            let delta = match listing.newest_delta() {
                Some(number) => match reader.object(Name::Delta(number)).await?.0 {
                    Header {
                        kind: Kind::Delta { last, .. },
                        written_ms,
                        ..
                    } => Some(Newest {
                        revision: last,
                        time_ms: written_ms,
                    }),
                    _ => None,
                },
                None => None,
            };
            let both = delta.into_iter().chain(full);
            Ok::<_, ReadError>(both.max_by_key(|newest| newest.revision))
        };
        match read.await {
            Ok(Some(newest)) => Json(newest).into_response(),
            Ok(None) => (StatusCode::NOT_FOUND, "there is no backup").into_response(),
            Err(error) => unavailable(&error.to_string()),
        }
    }

    /// The answer, or that it is being looked for.
    pub(super) async fn ask(&self, cluster: &str, moment: &str) -> Response {
        let scope = u64::from_str_radix(cluster, 16).ok();
        let scope = scope.and_then(|cluster| Scope::new(&self.tenant, cluster));
        let (Some(scope), Some(at)) = (scope, parse(moment)) else {
            let said = "say /restorable/<etcd cluster>/latest, time-<ms> or revision-<number>";
            return (StatusCode::BAD_REQUEST, said).into_response();
        };
        let key = format!("{:016x}/{at:?}", scope.cluster);
        let mut entries = self.entries.lock().await;
        entries.retain(|_, entry| match entry {
            Entry::Reads(_) => true,
            Entry::Known(since, _) => since.elapsed() < LASTS,
        });
        match entries.remove(&key) {
            Some(Entry::Reads(task)) if task.is_finished() => match task.await {
                Ok(Err(NotFound::Store(error))) => unavailable(&error.to_string()),
                Ok(found) => {
                    let choice = choice(found);
                    entries.insert(key, Entry::Known(Instant::now(), choice.clone()));
                    Json(choice).into_response()
                }
                Err(error) => unavailable(&error.to_string()),
            },
            Some(Entry::Known(since, choice)) => {
                entries.insert(key, Entry::Known(since, choice.clone()));
                Json(choice).into_response()
            }
            Some(reads) => {
                entries.insert(key, reads);
                StatusCode::ACCEPTED.into_response()
            }
            None if entries.len() >= MOST => unavailable("others are looked for"),
            None => {
                entries.insert(key, Entry::Reads(self.begin(scope, at)));
                StatusCode::ACCEPTED.into_response()
            }
        }
    }

    fn begin(&self, scope: Scope, at: At) -> JoinHandle<Result<Found, NotFound>> {
        let (store, turn) = (Arc::clone(&self.store), Arc::clone(&self.turn));
        let (prefix, opener) = (self.prefix.clone(), Opener::Data(self.key.clone()));
        tokio::spawn(async move {
            // Never closed, and without a turn it is read all the same.
            let _turn = turn.acquire().await;
            let reader = Reader {
                store: &*store,
                scope,
                prefix,
                opener,
            };
            restore::find(&reader, at).await
        })
    }
}

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, why.to_owned()).into_response()
}

fn parse(moment: &str) -> Option<At> {
    match moment.split_once('-') {
        None => (moment == "latest").then_some(At::Latest),
        Some(("time", ms)) => ms.parse().ok().map(At::Time),
        Some(("revision", number)) => number.parse().ok().map(At::Revision),
        Some(_) => None,
    }
}

fn choice(found: Result<Found, NotFound>) -> Choice {
    let found = match found {
        Ok(found) => {
            return Choice {
                possible: true,
                full: Some(found.full.to_string()),
                revision: Some(found.revision),
                time_ms: Some(found.time_ms),
                why: None,
            };
        }
        Err(error) => error,
    };
    let (problem, nearest) = match &found {
        NotFound::Holes { problems, nearest } => (problems.join("; "), *nearest),
        other => (other.to_string(), None),
    };
    let mut why = problem;
    why.truncate(why.floor_char_boundary(MOST_WHY));
    Choice {
        possible: false,
        full: None,
        revision: nearest.map(|(revision, _)| revision),
        time_ms: nearest.map(|(_, ms)| ms),
        why: Some(why),
    }
}

#[cfg(test)]
mod tests {
    use ::backup::store::directory::Directory;
    use testkit::fixtures::{PATIENCE, ask_until};

    use super::*;

    async fn settled(choices: &Choices<Directory>, moment: &str) -> Response {
        let said = ask_until("it is looked for", PATIENCE, || async {
            let said = choices.ask("cdf8", moment).await;
            Ok(match said.status() {
                StatusCode::ACCEPTED => Err("it is still looked for".to_owned()),
                _ => Ok(said),
            })
        });
        said.await.unwrap()
    }

    #[tokio::test]
    async fn an_empty_store_has_no_moment_and_one_that_cannot_be_read_is_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        let made = |path: &std::path::Path| {
            let store = Arc::new(Directory::new(path));
            let key = DataKey::read(&[7; 32]).unwrap();
            Choices::new(store, "5a1c-7", "", key)
        };
        let choices = made(folder.path());
        assert_eq!(settled(&choices, "latest").await.status(), StatusCode::OK);
        let none = choice(Err(NotFound::TooOld));
        assert!(!none.possible && none.why.is_some(), "{none:?}");
        for moment in ["", "soon", "time-", "time--1", "revision-x", "latest-1"] {
            let said = choices.ask("cdf8", moment).await;
            assert_eq!(said.status(), StatusCode::BAD_REQUEST, "{moment}");
        }
        let said = choices.ask("../..", "latest").await;
        assert_eq!(said.status(), StatusCode::BAD_REQUEST);
        let of = async |cluster: &str| choices.newest(cluster).await.status();
        assert_eq!(of("cdf8").await, StatusCode::NOT_FOUND);
        assert_eq!(of("../..").await, StatusCode::BAD_REQUEST);

        let absent = made(&folder.path().join("absent"));
        let said = settled(&absent, "time-7").await;
        assert_eq!(said.status(), StatusCode::SERVICE_UNAVAILABLE);
        let said = absent.newest("cdf8").await;
        assert_eq!(said.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn a_hole_is_said_with_the_nearest_that_can_be_had() {
        let said = choice(Err(NotFound::Holes {
            problems: vec!["deltas 7 to 9 are missing".to_owned()],
            nearest: Some((40, 5_000)),
        }));
        assert_eq!(
            (said.possible, said.revision, said.time_ms),
            (false, Some(40), Some(5_000))
        );
        assert_eq!(said.why.as_deref(), Some("deltas 7 to 9 are missing"));
    }
}
