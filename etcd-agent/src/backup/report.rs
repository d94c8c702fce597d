//! How far a backup is, for the operator, over HTTP: `GET /status` is one JSON object, and `/livez` says that the
//! process answers.
//!
//! Invariant: nothing is said that a tenant could not see anyway, and nothing that is asked changes anything. Times are
//! milliseconds since 1970 by this process' clock, which is one of them.

use std::time::{SystemTime, UNIX_EPOCH};

use ::backup::engine::Progress;
use axum::routing::get;
use axum::{Json, Router};
use backup_format::FullName;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What `/status` says.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
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

fn status(progress: &Progress, now_ms: u64) -> Status {
    Status {
        now_ms,
        durable: progress.durable,
        waiting_since_ms: progress.waiting_since_ms,
        trouble: progress.trouble.map(|(trouble, since_ms)| Standing {
            what: trouble.to_string(),
            since_ms,
        }),
        full: progress.full.map(Full::from),
        verified: progress.verified.map(Full::from),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Serves until the process ends.
pub(super) async fn serve(listener: TcpListener, progress: watch::Receiver<Progress>) {
    let say = move || async move { Json(status(&progress.borrow(), now_ms())) };
    let app = Router::new()
        .route("/status", get(say))
        .route("/livez", get(async || "ok"));
    if let Err(error) = axum::serve(listener, app).await {
        tracing::error!("how far it is cannot be said any more: {error}");
    }
}

#[cfg(test)]
mod tests {
    use ::backup::engine::Trouble;
    use ::backup::store::{Call, Cause};
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
            waiting_since_ms: Some(9_000),
            trouble: Some((Trouble::Store(Call::Create, Cause::Full), 9_500)),
            ..Progress::default()
        };
        let said = serde_json::to_value(status(&progress, 10_000)).unwrap();
        assert_eq!(said["trouble"]["what"], "create: no place is left");
        assert_eq!(said["trouble"]["sinceMs"], 9_500);
        assert_eq!(said["waitingSinceMs"], 9_000);
        assert_eq!(said["verified"]["takenMs"], 5_000);
        let quiet = serde_json::to_value(status(&Progress::default(), 3)).unwrap();
        assert_eq!(quiet, json!({ "nowMs": 3, "durable": 0 }));
    }
}
