//! What is left of a member, in two containers of a pod with an etcd on the copy between them: `copy` and `append`.
//!
//! Invariant: what survived is only read. Where it cannot be used that is said and is no failure, so that a restore goes on
//! without it; where the store or the pod fail, it is.

use std::fs;
use std::os::unix::fs::FileExt as _;
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
use crate::{termination_log, wal};

/// The copy, in the scratch folder.
const COPY: &str = "survivor";
/// Why there is none, in the scratch folder.
const ASIDE: &str = "aside";
/// Most bytes of a segment of a log: etcd begins another one after 64 MB and what was written last.
const MOST_SEGMENT: u64 = 512 * 1024 * 1024;
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
        let noted = match agree(&to.join("member/wal"))? {
            true => ", and noted as agreed upon what it had not noted",
            false => "",
        };
        return say(&format!("what is left of the member is copied{noted}"));
    };
    if error.kind() == std::io::ErrorKind::StorageFull {
        return Err(error.into());
    }
    remove(fs::remove_dir_all(&to))?;
    let why = format!("it cannot be copied: {error}");
    write_new(&aside, why.as_bytes())?;
    say(&why)
}

/// Notes in a copied log that all of it is agreed upon, whether or not its member came to that; whether there was something
/// to be noted. A log that cannot be read is left to etcd.
fn agree(logs: &Path) -> Result<bool, Failure> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(logs)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(wal::is_segment) {
            segments.push(path);
        }
    }
    let Some(last) = segments.into_iter().max() else {
        return Ok(false);
    };
    let length = fs::metadata(&last)?.len();
    if length > MOST_SEGMENT {
        return Ok(false);
    }
    let Ok(Some(agreed)) = wal::tail::agreed(&fs::read(&last)?) else {
        return Ok(false);
    };
    let file = fs::File::options().write(true).open(&last)?;
    // What comes after it is nothing, as etcd wants it.
    file.set_len(agreed.at)?;
    file.set_len(length.max(agreed.at + agreed.record.len() as u64))?;
    file.write_all_at(&agreed.record, agreed.at)?;
    file.sync_all()?;
    Ok(true)
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
