//! What is left of a member, in two containers of a pod with an etcd on the copy between them: `copy` and `append`.
//!
//! Invariant: what survived is only read. Where it cannot be used that is said and is no failure, so that a restore goes on
//! without it; where the store or the pod fail, it is.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ::backup::append::{self, Appended};
use ::backup::engine::Options;
use ::backup::restore::survivors::copy_data;
use backup_format::keys::{DataKey, Keys, WrappedKey};
use serde::Serialize;
use tokio::sync::watch;

use super::failure::{ANOTHER, FAILED, Failure, read, say, write_new};
use super::in_place::served;
use super::store::{self, AnyStore};
use crate::args::append::{AppendArgs, CopyArgs};
use crate::termination_log;

/// The copy, in the scratch folder.
const COPY: &str = "survivor";
/// Why there is none, in the scratch folder.
const ASIDE: &str = "aside";
/// Most characters of why it is not used.
const MOST_WHY: usize = 1000;

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deltas: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aside: Option<String>,
}

pub(super) fn copy(args: &CopyArgs) -> Result<(), Failure> {
    let (to, aside) = (args.scratch.join(COPY), args.scratch.join(ASIDE));
    // Of a container that died.
    remove(fs::remove_dir_all(&to))?;
    remove(fs::remove_file(&aside))?;
    // That there is room is not known of a disk that is full, and is no word about what survived.
    fs::create_dir(&to)?;
    let Err(error) = copy_data(&args.survivor, &to) else {
        return say("what is left of the member is copied");
    };
    if error.kind() == std::io::ErrorKind::StorageFull {
        return Err(error.into());
    }
    remove(fs::remove_dir_all(&to))?;
    let why = format!("it cannot be copied: {error}");
    write_new(&aside, why.as_bytes())?;
    say(&why)
}

fn remove(removed: std::io::Result<()>) -> Result<(), Failure> {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

pub(super) async fn append(args: AppendArgs) -> Result<(), Failure> {
    let appended = match aside(&args.scratch)? {
        Some(why) => Appended::Aside(why),
        None => write(&args).await?,
    };
    let (report, said) = match appended {
        Appended::Until { revision, deltas } => (
            Report {
                revision: Some(revision),
                deltas: Some(deltas),
                aside: None,
            },
            format!("revision {revision} is in the backup, {deltas} deltas were written for it"),
        ),
        Appended::Aside(mut why) => {
            why.truncate(why.floor_char_boundary(MOST_WHY));
            let said = format!("not used: {why}");
            let report = Report {
                revision: None,
                deltas: None,
                aside: Some(why),
            };
            (report, said)
        }
    };
    if let Some(path) = &args.report {
        termination_log::write(path, &serde_json::to_vec(&report)?)?;
    }
    say(&said)
}

/// Why there is no copy.
fn aside(scratch: &Path) -> Result<Option<String>, Failure> {
    let path = scratch.join(ASIDE);
    match path.try_exists()? {
        true => Ok(Some(String::from_utf8_lossy(&read(&path)?).into_owned())),
        false => Ok(None),
    }
}

async fn write(args: &AppendArgs) -> Result<Appended, Failure> {
    let store = Arc::new(AnyStore::open(&args.store)?);
    let data = DataKey::read(&read(&args.keys.join("data-key"))?);
    let wrapped = WrappedKey::read(&read(&args.keys.join("wrapped-key"))?);
    let (Some(data), Some(wrapped)) = (data, wrapped) else {
        let why = "data-key has 32 bytes and wrapped-key 80".to_owned();
        return Err(Failure(FAILED, why));
    };
    // What it cannot serve it is started on again and again.
    let Ok(etcd) = served(&args.etcd).await else {
        let why = "no etcd serves a copy of it: its container says why".to_owned();
        return Ok(Appended::Aside(why));
    };
    let options = Options {
        tenant: args.tenant.clone(),
        cluster: Some(args.cluster.number()),
        prefix: store::prefix(&args.store.prefix),
        keys: Keys { data, wrapped },
        settings: ::backup::plan::Settings::default(),
        writer: args.writer.clone(),
        kubernetes: args.kubernetes.clone(),
        // It is in the backup, and nobody has changed it since.
        identity: watch::channel(None).1,
    };
    let appended = append::append(store, etcd, options, args.cluster.number()).await;
    appended.map_err(|error| match error {
        append::AppendError::Ended(::backup::engine::Ended::Another) => {
            Failure(ANOTHER, error.to_string())
        }
        error => error.into(),
    })
}
