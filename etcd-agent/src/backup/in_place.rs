//! A restore in place, as the containers of its pod do it, one after the other: `fetch`, `etcdutl snapshot restore` into
//! the scratch folder, an etcd on that, `replay`, `etcdutl snapshot restore` into the volume, `seal`. And `forget`, once
//! people have confirmed it.
//!
//! Invariant: the data directory that is in use is not touched, and nothing is built where a member has taken over what
//! was built before. A folder of another restore goes only where nobody took it over.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ::backup::etcd::Etcd;
use ::backup::restore;
use ::backup::restore::outcome::{Fetched, Found};
use backup_format::chain::Position;
use backup_format::{Digest, FullName};
use serde::{Deserialize, Serialize};

use super::failure::{FAILED, Failure, read, say};
use super::reading::{find, reader};
use super::store::AnyStore;
use crate::args::in_place::{FetchArgs, ForgetArgs, ReplayArgs, SealArgs};
use crate::built::{BEFORE, BUILT, Built, DATA, PREFIX, folder};
use crate::gate::observe::Volume;
use crate::gate::plan::Data;
use crate::termination_log;
use crate::volume::Folder;

/// The database of the snapshot, in the scratch folder.
const SNAPSHOT: &str = "snapshot.db";
/// That of what was replayed on it.
const RESTORED: &str = "restored.db";
/// What was found.
const FOUND: &str = "found.json";
/// What was replayed.
const REPLAYED: &str = "replayed.json";
/// The data directory of a member, below its volume.
const MEMBER_DATA: &str = "data";
/// How long an etcd may take to serve what was fetched.
const START: Duration = Duration::from_secs(300);
/// Pause between two looks at it.
const LOOK: Duration = Duration::from_millis(200);

/// What `fetch` hands to `replay`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Handed {
    full: String,
    revision: u64,
    time_ms: u64,
    most: u64,
    next: u64,
    begun: u64,
    previous: Option<Vec<u8>>,
}

/// What `replay` hands to `seal`.
#[derive(Debug, Deserialize, Serialize)]
struct Replayed {
    revision: u64,
}

pub(super) async fn fetch(args: &FetchArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.read.store)?;
    let reader = reader(&store, &args.read)?;
    let found = find(&reader, &args.at).await?;
    if found.revision < args.least_revision {
        return Err(said(format!(
            "the backup has it until revision {}, and had it until {} before",
            found.revision, args.least_revision
        )));
    }
    if let (Some(volume), Some(restore)) = (&args.volume, &args.restore) {
        make_room(volume, restore)?;
    }
    let fetched = restore::fetch(&reader, found, &args.scratch.join(SNAPSHOT)).await?;
    let handed = Handed {
        full: found.full.to_string(),
        revision: found.revision,
        time_ms: found.time_ms,
        most: fetched.most,
        next: fetched.reach.next,
        begun: fetched.reach.revision,
        previous: fetched.reach.previous.map(|sum| sum.as_bytes().to_vec()),
    };
    put(&args.scratch.join(FOUND), &handed)?;
    say(&format!(
        "full snapshot {}, deltas until revision {}",
        found.full, found.revision
    ))
}

/// Makes the folder of this restore anew, and removes those of others that nobody took over.
fn make_room(volume: &Path, restore: &str) -> Result<(), Failure> {
    let name = name(restore)?;
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        let other = entry.file_name();
        let is_ours = other.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_ours || !entry.file_type()?.is_dir() {
            continue;
        }
        match entry.path().join(BEFORE).symlink_metadata() {
            Ok(_) if *other == *name => {
                return Err(said(format!(
                    "the member has taken over what was built in {name}: nothing is built there any more"
                )));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::remove_dir_all(entry.path())?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    fs::create_dir(volume.join(name))?;
    Ok(())
}

pub(super) async fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.read.store)?;
    let reader = reader(&store, &args.read)?;
    let (found, fetched) = handed(&args.scratch)?;
    let etcd = served(&args.etcd).await?;
    let database = args.scratch.join(RESTORED);
    let restored = restore::replay(&reader, found, fetched, &etcd, &database).await?;
    let revision = restored.revision;
    put(&args.scratch.join(REPLAYED), &Replayed { revision })?;
    say(&format!(
        "revision {revision}, {} of it replayed",
        restored.replayed
    ))
}

/// An etcd of ours, once it serves.
pub(super) async fn served(url: &str) -> Result<Etcd, Failure> {
    let etcd = Etcd::new(url, None)?;
    let begun = Instant::now();
    while let Err(error) = etcd.status().await {
        if begun.elapsed() > START {
            return Err(error.into());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(etcd)
}

/// What `fetch` found and fetched.
pub(super) fn handed(scratch: &Path) -> Result<(Found, Fetched), Failure> {
    let handed: Handed = serde_json::from_slice(&read(&scratch.join(FOUND))?)?;
    let full: FullName = handed.full.parse()?;
    let previous = match handed.previous {
        None => None,
        Some(bytes) => Some(Digest::read(&bytes).ok_or_else(|| said("a sum has 32 bytes"))?),
    };
    let found = Found {
        full,
        revision: handed.revision,
        time_ms: handed.time_ms,
    };
    let fetched = Fetched {
        reach: Position {
            next: handed.next,
            revision: handed.begun,
            previous,
        },
        most: handed.most,
    };
    Ok((found, fetched))
}

pub(super) fn seal(args: &SealArgs) -> Result<(), Failure> {
    let name = name(&args.volume.restore)?;
    let place = args.volume.volume.join(&name);
    let Replayed { revision } = serde_json::from_slice(&read(&args.scratch.join(REPLAYED))?)?;
    let data = match Volume::open(&place.join(DATA))?.data()? {
        Data::Log {
            ids,
            has_database: true,
        } => ids,
        other => return Err(said(format!("what was built is no etcd's data: {other:?}"))),
    };
    let folder = Folder::open(&place)?;
    // All of it, and only then that it is whole.
    folder.sync_volume()?;
    let built = Built {
        claim: args.claim.clone(),
        name: args.member.clone(),
        revision,
        data,
    };
    let text = serde_json::to_vec(&built)?;
    folder.write(BUILT, &text)?;
    if let Some(report) = &args.report {
        termination_log::write(report, &text)?;
    }
    say(&format!(
        "{name} is whole: revision {revision}, cluster {}, member {}",
        data.cluster, data.member
    ))
}

pub(super) fn forget(args: &ForgetArgs) -> Result<(), Failure> {
    let place = args.volume.volume.join(name(&args.volume.restore)?);
    match Volume::open(&args.volume.volume.join(MEMBER_DATA))?.data()? {
        Data::Log {
            ids,
            has_database: true,
        } if ids.cluster == args.cluster => {}
        other => {
            return Err(said(format!(
                "the member has not taken over what was built, so nothing is removed: {other:?}"
            )));
        }
    }
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => say("what was there before is removed"),
    }
}

fn name(restore: &str) -> Result<String, Failure> {
    folder(restore).ok_or_else(|| said("--restore is no UID"))
}

fn put(path: &Path, what: &impl Serialize) -> Result<(), Failure> {
    Ok(fs::write(path, serde_json::to_vec(what)?)?)
}

fn said(text: impl Into<String>) -> Failure {
    Failure(FAILED, text.into())
}
