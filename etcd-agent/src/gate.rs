//! Start gate of an etcd member: reads the operator's file and the volume, decides, marks the volume,
//! says what it decided.
//!
//! Invariant: etcd is never bootstrapped twice. Whatever is not known for certain ends in a refusal, and
//! no data is changed; what was built for a restore takes the place of what was there, which is kept. What a
//! new cluster is given ([`golden`]) it is given at the first start that the same decision lets through.

mod deadline;
mod golden;
pub mod identity;
pub mod marker;
pub(crate) mod observe;
pub mod plan;
pub mod refusal;
mod report;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use self::golden::{Outcome, Place};
use self::identity::Identity;
use self::marker::Marker;
use self::observe::Volume;
use self::plan::{Decision, Observed, Start};
use self::refusal::Refusal;
use self::report::Begun;
use crate::args::GateArgs;

/// Most bytes of the operator's file, which has some hundred.
const MOST_IDENTITY: u64 = 64 * 1024;

/// Runs the gate; the exit code is 0 or that of the refusal.
#[must_use]
pub fn run(args: GateArgs) -> ExitCode {
    let limit = args.deadline();
    let (member, log) = (args.member.clone(), args.termination_log.clone());
    let seconds = limit.as_secs();
    let decided = deadline::within(limit, move || decide(&args));
    let decision = decided.unwrap_or(Err(Refusal::TimedOut { seconds }));
    report::publish(&report::line(&member, &decision), &log);
    match decision {
        Ok(_) => ExitCode::SUCCESS,
        Err(refusal) => ExitCode::from(refusal.exit_code()),
    }
}

fn decide(args: &GateArgs) -> Result<Begun, Refusal> {
    let GateArgs {
        data_dir,
        member,
        initial_cluster_state,
        identity,
        termination_log: _,
        golden_files: _,
        etcdutl: _,
        deadline: _,
    } = args;
    let identity = read_identity(identity).map_err(|problem| Refusal::IdentityUnusable {
        problem: format!("{}: {problem}", identity.display()),
    })?;
    let volume = Volume::open(data_dir).map_err(unreadable)?;
    let restore = identity.restore.as_deref();
    let told = identity.member(member);
    let is_dated = told.is_some_and(|told| told.last_index.is_some());
    let observed = volume.observe(restore, is_dated).map_err(unreadable)?;
    match plan::plan(member, *initial_cluster_state, &identity, &observed) {
        Decision::Refuse(refusal) => Err(refusal),
        Decision::Start { start, marker } => {
            // On the disk before etcd is: without it a volume that is lost at once would look new.
            if let Some(marker) = marker {
                volume.write(&marker).map_err(unreadable)?;
            }
            // After the marker, which is then right wherever this is broken off.
            if let (Start::Restored(_), Some(restore)) = (start, restore) {
                volume.take_over(restore).map_err(unreadable)?;
            }
            match start {
                Start::First => begin(args, &volume, &identity, &observed).map_err(unreadable),
                start => Ok(Begun::As(start)),
            }
        }
    }
}

/// A first start, whose marker is written.
fn begin(
    args: &GateArgs,
    volume: &Volume,
    identity: &Identity,
    observed: &Observed,
) -> io::Result<Begun> {
    let place = Place {
        data_dir: &args.data_dir,
        member: &args.member,
        files: &args.golden_files,
        etcdutl: &args.etcdutl,
    };
    golden::clear(place)?;
    let Some(golden) = plan::golden(Start::First, identity, observed) else {
        return Ok(Begun::As(Start::First));
    };
    Ok(match golden::give(place, golden)? {
        Outcome::Nothing(why) => Begun::WithoutGolden(why),
        Outcome::Data(ids) => {
            // Now there is data: from here on a volume without it is one that lost it.
            if let Some(member) = identity.member(&args.member) {
                volume.write(&Marker {
                    claim: member.claim.clone(),
                    name: member.name.clone(),
                    data: Some(ids),
                })?;
            }
            Begun::Golden(golden.file.clone(), ids)
        }
    })
}

fn read_identity(path: &Path) -> Result<Identity, String> {
    // The kubelet makes it a link, and nobody else writes there.
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(MOST_IDENTITY + 1).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST_IDENTITY {
        return Err(format!("it has more than {MOST_IDENTITY} bytes"));
    }
    Identity::parse(&text).map_err(|error| error.to_string())
}

fn unreadable(error: io::Error) -> Refusal {
    Refusal::VolumeUnreadable {
        problem: error.to_string(),
    }
}
