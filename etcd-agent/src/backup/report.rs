//! How far a backup is, and what is asked of it, over HTTP for the operator (docs/backup-format.md, "How far it is").
//!
//! Invariant: nothing is said that a tenant could not see anyway. What is asked for makes a full snapshot or keeps one
//! longer, and nothing else; whether a restore could be had is [`super::choose`]. Times are milliseconds since 1970 by this process' clock, which is one of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::backup::engine::Progress;
use ::backup::questions::{Answer, Question};
use ::backup::store::Store;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use backup_format::FullName;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use super::choose::Choices;

/// How long a question may wait: for a step of the backup that is under way, and for the store.
const PATIENCE: Duration = Duration::from_secs(4);
/// In a path: that there was no full snapshot.
const NONE: &str = "none";

/// What `/status` says.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// The etcd cluster that is backed up, 16 hexadecimal digits; left out until it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// Whether the store was looked at, so that `full` and `verified` are known.
    looked: bool,
    /// Whether a full snapshot is being written.
    taking: bool,
    /// Now, by the clock that the other times are of.
    now_ms: u64,
    /// The last revision that is in the store; 0 where that is not known yet.
    durable: u64,
    /// Since when the oldest event waits that is not in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since_ms: Option<u64>,
    /// Why it does not go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<Standing>,
    /// The newest full snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    full: Option<Full>,
    /// The newest that was found whole, with all deltas after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Full>,
    /// The tenant cluster's identity that is in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Standing {
    what: String,
    since_ms: u64,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Full {
    name: String,
    revision: u64,
    taken_ms: u64,
}

impl From<FullName> for Full {
    fn from(full: FullName) -> Self {
        Self {
            name: full.to_string(),
            revision: full.revision,
            taken_ms: full.taken_ms,
        }
    }
}

/// A full snapshot, as its head says.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    key: String,
    bytes: u64,
    database: String,
    etcd: String,
    kubernetes: String,
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_until_ms: Option<u64>,
}

fn status(progress: &Progress, now_ms: u64) -> Status {
    let cluster = progress.cluster;
    Status {
        cluster: (cluster != 0).then(|| format!("{cluster:016x}")),
        looked: progress.looked,
        taking: progress.taking,
        now_ms,
        durable: progress.last_revision(),
        waiting_since_ms: progress.waiting_since_ms,
        trouble: progress.trouble.map(|(trouble, since_ms)| Standing {
            what: trouble.to_string(),
            since_ms,
        }),
        full: progress.full.map(Full::from),
        verified: progress.verified.map(Full::from),
        identity: progress.identity.map(|identity| identity.to_string()),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Serves until the process ends.
pub(super) async fn serve(
    listener: TcpListener,
    progress: watch::Receiver<Progress>,
    questions: mpsc::Sender<Question>,
    choices: Arc<Choices<impl Store>>,
) {
    let newest = Arc::clone(&choices);
    let choose = move |Path((cluster, moment)): Path<(String, String)>| async move {
        choices.ask(&cluster, &moment).await
    };
    let newest = move |Path(cluster): Path<String>| async move { newest.newest(&cluster).await };
    let app = router(progress, questions)
        .route("/restorable/{cluster}/{moment}", get(choose))
        .route("/newest/{cluster}", get(newest));
    if let Err(error) = axum::serve(listener, app).await {
        tracing::error!("how far it is cannot be said any more: {error}");
    }
}

fn router(progress: watch::Receiver<Progress>, questions: mpsc::Sender<Question>) -> Router {
    let say = move || async move { Json(status(&progress.borrow(), now_ms())) };
    let (for_full, for_one, to_keep) = (questions.clone(), questions.clone(), questions);
    let full = move |Path(after): Path<String>| async move { ask_full(&for_full, &after).await };
    let one = move |Path(full): Path<String>| async move { ask_of(&for_one, &full, None).await };
    let keep = move |Path((full, until)): Path<(String, u64)>| async move {
        ask_of(&to_keep, &full, Some(until)).await
    };
    Router::new()
        .route("/status", get(say))
        .route("/livez", get(async || "ok"))
        .route("/full/after/{name}", post(full))
        .route("/full/{name}", get(one))
        .route("/full/{name}/keep/{ms}", post(keep))
}

fn refused(code: StatusCode, why: impl Into<String>) -> Response {
    (code, why.into()).into_response()
}

fn parsed(name: &str) -> Result<FullName, Box<Response>> {
    name.parse::<FullName>().map_err(|_| {
        Box::new(refused(
            StatusCode::BAD_REQUEST,
            "no full snapshot has this name",
        ))
    })
}

/// Whether the question was taken in time.
async fn put(questions: &mpsc::Sender<Question>, question: Question) -> bool {
    let sent = tokio::time::timeout(PATIENCE, questions.send(question)).await;
    matches!(sent, Ok(Ok(())))
}

fn busy() -> Response {
    refused(StatusCode::SERVICE_UNAVAILABLE, "the backup is busy")
}

async fn ask_full(questions: &mpsc::Sender<Question>, after: &str) -> Response {
    let after = match after {
        NONE => None,
        name => match parsed(name) {
            Ok(full) => Some(full),
            Err(response) => return *response,
        },
    };
    match put(questions, Question::Full { after }).await {
        true => StatusCode::ACCEPTED.into_response(),
        false => busy(),
    }
}

async fn ask_of(
    questions: &mpsc::Sender<Question>,
    full: &str,
    keep_until_ms: Option<u64>,
) -> Response {
    let full = match parsed(full) {
        Ok(full) => full,
        Err(response) => return *response,
    };
    let (answer, said) = oneshot::channel();
    let question = Question::Of {
        full,
        keep_until_ms,
        answer,
    };
    if !put(questions, question).await {
        return busy();
    }
    match tokio::time::timeout(PATIENCE, said).await {
        Ok(Ok(Answer::Is(said))) => Json(Described {
            key: said.key,
            bytes: said.bytes,
            database: said.database.to_string(),
            etcd: said.etcd,
            kubernetes: said.kubernetes,
            verified: said.is_verified,
            kept_until_ms: said.kept_until_ms,
        })
        .into_response(),
        Ok(Ok(Answer::Gone)) => refused(StatusCode::NOT_FOUND, "it is not in the target"),
        Ok(Ok(Answer::Unknown(why))) => refused(StatusCode::SERVICE_UNAVAILABLE, why),
        Ok(Err(_)) | Err(_) => busy(),
    }
}

#[cfg(test)]
mod tests {
    use ::backup::engine::Trouble;
    use ::backup::store::{Call, Cause};
    use backup_format::{Digest, IdentityName};
    use serde_json::json;

    use super::*;

    #[test]
    fn status_says_what_waits_since_when_and_what_was_found_whole() {
        let full = FullName {
            revision: 7,
            next: 1,
            taken_ms: 5_000,
        };
        let progress = Progress {
            durable: 42,
            full: Some(full),
            verified: Some(full),
            identity: Some(IdentityName {
                sealed_ms: 4_000,
                digest: Digest::of(b"sealed"),
            }),
            waiting_since_ms: Some(9_000),
            trouble: Some((Trouble::Store(Call::Create, Cause::Full), 9_500)),
            ..Progress::default()
        };
        let said = serde_json::to_value(status(&progress, 10_000)).unwrap();
        assert_eq!(said["trouble"]["what"], "create: no place is left");
        assert_eq!(said["trouble"]["sinceMs"], 9_500);
        assert_eq!(said["waitingSinceMs"], 9_000);
        assert_eq!(said["verified"]["takenMs"], 5_000);
        let identity = said["identity"].as_str().unwrap();
        assert!(identity.starts_with("000000000004000-"), "{identity}");
        assert_eq!(said["durable"], 42);
        // No delta follows a snapshot of what does not change.
        let snapshot_alone = Progress {
            durable: 0,
            ..progress
        };
        let said = serde_json::to_value(status(&snapshot_alone, 10_000)).unwrap();
        assert_eq!(said["durable"], 7);
        let quiet = serde_json::to_value(status(&Progress::default(), 3)).unwrap();
        let nothing = json!({ "looked": false, "taking": false, "nowMs": 3, "durable": 0 });
        assert_eq!(quiet, nothing);
    }

    #[tokio::test]
    async fn what_is_asked_reaches_the_backup_and_names_that_are_none_do_not() {
        let (questions, mut asked) = mpsc::channel(1);
        let name = "00000000000000000007-00000000000000000001-000000000005000";
        let full = Some(name.parse().unwrap());
        assert_eq!(
            ask_full(&questions, name).await.status(),
            StatusCode::ACCEPTED
        );
        let question = asked.recv().await.unwrap();
        assert!(matches!(question, Question::Full { after } if after == full));
        assert_eq!(
            ask_full(&questions, NONE).await.status(),
            StatusCode::ACCEPTED
        );
        let question = asked.recv().await.unwrap();
        assert!(matches!(question, Question::Full { after: None }));
        for text in ["", "..", "7-1-5000", &"9".repeat(300)] {
            let code = ask_full(&questions, text).await.status();
            assert_eq!(code, StatusCode::BAD_REQUEST, "{text}");
            let code = ask_of(&questions, text, None).await.status();
            assert_eq!(code, StatusCode::BAD_REQUEST, "{text}");
        }
        assert!(asked.try_recv().is_err());

        let answering = tokio::spawn(async move {
            for said in [Answer::Gone, Answer::Unknown("busy: wait".to_owned())] {
                let Some(Question::Of {
                    full,
                    keep_until_ms,
                    answer,
                }) = asked.recv().await
                else {
                    panic!("another question");
                };
                assert_eq!((full.revision, keep_until_ms), (7, Some(9)));
                answer.send(said).unwrap();
            }
        });
        let gone = ask_of(&questions, name, Some(9)).await;
        assert_eq!(gone.status(), StatusCode::NOT_FOUND);
        let unknown = ask_of(&questions, name, Some(9)).await;
        assert_eq!(unknown.status(), StatusCode::SERVICE_UNAVAILABLE);
        answering.await.unwrap();
        // Nobody is there any more.
        let over = ask_of(&questions, name, None).await;
        assert_eq!(over.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
