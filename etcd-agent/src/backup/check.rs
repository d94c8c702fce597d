//! `etcd-agent backup check`: asks a store, and reports what failed to who cannot read logs.
//!
//! Invariant: what is reported is one line, short, and says the same as long as the same is wrong: the name of the
//! object that was asked for, another one each time, is not in it.

use std::io::{self, Write as _};
use std::path::Path;

use ::backup::check::{self, Unusable};
use backup_format::keys::{self, WrappingKey};
use serde::Serialize;

use super::failure::{FAILED, Failure, read, say};
use super::store::AnyStore;
use crate::args::backup::CheckArgs;
use crate::termination_log;

/// Most bytes of each part, so that the whole is below the kubelet's 4096.
const MOST: usize = 600;

/// What failed.
#[derive(Debug, Serialize)]
struct Report {
    /// Which call; none where none was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    /// Why.
    why: String,
    /// What the store said.
    detail: String,
}

/// Checks the store, and the key where one is named.
pub(super) async fn check(args: &CheckArgs) -> Result<(), Failure> {
    let asked = ask(args).await;
    let Err((report, failure)) = asked else {
        return say("the store can hold backups");
    };
    if let Some(path) = &args.report
        && let Err(error) = write(&report.cut(), path)
    {
        let _ = writeln!(io::stderr(), "{}: {error}", path.display());
    }
    Err(failure)
}

async fn ask(args: &CheckArgs) -> Result<(), (Report, Failure)> {
    let store = AnyStore::open(&args.store).map_err(without_call)?;
    if let Some(path) = &args.wrapping_key {
        let key = read(path).map_err(without_call)?;
        WrappingKey::read(&key).map_err(|error| without_call(error.into()))?;
    }
    let random = keys::random().map_err(|error| without_call(error.into()))?;
    let unique = random.iter().take(8).map(|byte| format!("{byte:02x}"));
    let asked = check::check(&store, &unique.collect::<String>()).await;
    asked.map_err(|unusable| (Report::of(&unusable), unusable.into()))
}

fn without_call(failure: Failure) -> (Report, Failure) {
    let Failure(code, said) = failure;
    let report = Report {
        call: None,
        why: said.clone(),
        detail: String::new(),
    };
    (report, Failure(code.max(FAILED), said))
}

impl Report {
    fn of(unusable: &Unusable) -> Self {
        match unusable {
            Unusable::Failed(error) => Self {
                call: Some(error.call.to_string()),
                why: error.cause.to_string(),
                detail: error.detail.clone(),
            },
            Unusable::Wrong { call, what, .. } => Self {
                call: Some(call.to_string()),
                why: (*what).to_owned(),
                detail: String::new(),
            },
        }
    }

    fn cut(mut self) -> Self {
        for text in [&mut self.why, &mut self.detail] {
            *text = termination_log::one_line(text, MOST);
        }
        self
    }
}

fn write(report: &Report, path: &Path) -> io::Result<()> {
    termination_log::write(path, &serde_json::to_vec(report)?)
}

#[cfg(test)]
mod tests {
    use ::backup::store::{Call, Cause, StoreError};

    use super::*;

    #[test]
    fn report_says_call_and_cause_without_the_object_and_fits_the_kubelet() {
        let error = StoreError::new(
            Call::Create,
            "covey-check/0123456789abcdef",
            Cause::Rights,
            &"ü\n".repeat(4000),
        );
        let report = Report::of(&error.into()).cut();
        let line = serde_json::to_string(&report).unwrap();
        assert!(line.starts_with(
            r#"{"call":"create","why":"the credentials do not allow it, or are wrong","detail":"ü ü"#
        ));
        assert!(
            !line.contains("0123456789abcdef") && line.len() < 2048,
            "{line}"
        );
    }

    #[test]
    fn report_is_written_only_where_the_kubelet_has_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (there, absent) = (folder.path().join("log"), folder.path().join("absent"));
        std::fs::write(
            &there,
            "what was there before, which was longer than what comes",
        )
        .unwrap();
        let report = Report {
            call: None,
            why: "w".to_owned(),
            detail: String::new(),
        };
        write(&report, &there).unwrap();
        assert_eq!(
            std::fs::read_to_string(&there).unwrap(),
            r#"{"why":"w","detail":""}"#
        );
        assert!(write(&report, &absent).is_err() && !absent.exists());
    }
}
