//! What a backup does next. Pure: no I/O, no clock, no chance.
//!
//! Laws: a backup that forgot everything plans the same as soon as it has looked again; nothing is
//! planned twice that is under way; the newest verified snapshot is never deleted, nor one that somebody wants
//! kept, nor anything that a snapshot which stays needs; nor the newest identity; who met another writer stops.

pub mod listing;
pub mod retention;

use backup_format::{Digest, FullName, IdentityName};

use self::listing::Listing;
use self::retention::Retention;

/// How a backup is kept; times in milliseconds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// At most so long after an event its delta is written.
    pub delta_every_ms: u64,
    /// So many bytes of events are written at once, whatever the time.
    pub delta_bytes: usize,
    /// So long after a full snapshot the next one is taken.
    pub full_every_ms: u64,
    /// So many bytes of deltas after one, too.
    pub full_after_bytes: u64,
    /// And so many revisions.
    pub full_after_revisions: u64,
    /// What is kept.
    pub retention: Retention,
    /// Between the decision to delete a snapshot and its end.
    pub grace_ms: u64,
    /// Pause after something failed.
    pub pause_ms: u64,
}

impl Default for Settings {
    /// Deltas after 4 s or 1 MiB; a snapshot a day, after 100 MiB of deltas, or after a million
    /// revisions; a day of grace.
    fn default() -> Self {
        Self {
            delta_every_ms: 4_000,
            delta_bytes: 1024 * 1024,
            full_every_ms: DAY_MS,
            full_after_bytes: 100 * 1024 * 1024,
            full_after_revisions: 1_000_000,
            retention: Retention::default(),
            grace_ms: DAY_MS,
            pause_ms: 5_000,
        }
    }
}

const DAY_MS: u64 = 24 * 3600 * 1000;

/// The newest delta in the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tip {
    /// Its number.
    pub number: u64,
    /// Its sum.
    pub digest: Digest,
    /// Its last revision; None when it is damaged, so that nobody knows.
    pub last: Option<u64>,
    /// From this revision on deltas have no hole until there.
    pub since: u64,
}

/// How the watch stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watch {
    /// There is none.
    Closed,
    /// Events come.
    Open,
    /// The store had compacted this revision, which was asked for.
    Compacted(u64),
}

/// Events that came and are in no delta yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pending {
    /// The revision that the next delta begins with; 0 while nobody knows.
    pub first: u64,
    /// How many revisions.
    pub revisions: u64,
    /// How many bytes.
    pub bytes: usize,
    /// When the first one came.
    pub since_ms: u64,
}

/// A full snapshot that is being written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taking {
    /// None is.
    Nothing,
    /// One is, and its revision is not known yet.
    Asked,
    /// One is, of this revision at least.
    From(u64),
}

/// All that a plan depends on.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// What is in the store; None while nobody looked.
    pub listing: Option<&'a Listing>,
    /// The newest delta; None while nobody read it, or there is none.
    pub tip: Option<Tip>,
    /// The watch.
    pub watch: Watch,
    /// Events that wait.
    pub pending: Pending,
    /// Whether a delta is being written.
    pub writing: bool,
    /// Whether a full snapshot is being read again.
    pub verifying: bool,
    /// The full snapshot that is being written.
    pub taking: Taking,
    /// Whether one was asked for by somebody.
    pub wanted: bool,
    /// A full snapshot that was read again and is not whole.
    pub spoilt: Option<FullName>,
    /// The identity that is to be in the store, unless it was read back there already.
    pub identity: Option<IdentityName>,
    /// Whether another writer was met.
    pub met_another: bool,
    /// Nothing that failed is tried again before this.
    pub not_before_ms: u64,
    /// Whether a snapshot that failed may be tried again.
    pub full_not_before_ms: u64,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
}

/// Why a full snapshot is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// There is none.
    First,
    /// The store compacted revisions that no delta has.
    Hole,
    /// The newest delta cannot be read, so nothing can follow it.
    Damaged,
    /// The newest one was read again and is not whole.
    Spoilt,
    /// It is time.
    Age,
    /// Too many deltas since.
    Deltas,
    /// Somebody asked for it.
    Wanted,
}

/// What is done next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Ends: another writer goes on.
    Stop,
    /// Lists the store.
    List,
    /// Reads the newest delta.
    ReadTip(u64),
    /// Begins to watch at this revision.
    OpenWatch(u64),
    /// Begins a full snapshot; it goes on beside everything else.
    TakeFull(Why),
    /// Begins to write what waits as the next delta.
    WriteDelta,
    /// Writes the identity unless it is there, and reads it back.
    WriteIdentity(IdentityName),
    /// Reads a full snapshot and what follows it, and marks it as whole.
    Verify(FullName),
    /// Says that a snapshot is to be deleted.
    Bury(FullName),
    /// Deletes a snapshot, with its head first.
    DeleteFull(FullName),
    /// Deletes a delta.
    DeleteDelta(u64),
    /// Deletes what is said of a snapshot that is gone.
    DeleteMarks(FullName),
    /// Deletes an identity.
    DeleteIdentity(IdentityName),
    /// Nothing until then, or until something happens.
    Wait(u64),
}

/// What to do next.
#[must_use]
pub fn plan(settings: &Settings, world: &Observed<'_>) -> Step {
    if world.met_another {
        return Step::Stop;
    }
    let Some(listing) = world.listing else {
        return later(world, Step::List);
    };
    if let (Some(newest), None) = (listing.newest_delta(), world.tip) {
        return later(world, Step::ReadTip(newest));
    }
    let mut until = vec![];
    if let Some(step) = watch(listing, world) {
        match later(world, step) {
            Step::Wait(then) => until.push(then),
            step => return step,
        }
    }
    match delta(settings, world) {
        Some(Step::Wait(then)) => until.push(then),
        Some(step) => return step,
        None => {}
    }
    if let Some(identity) = world.identity {
        match later(world, Step::WriteIdentity(identity)) {
            Step::Wait(then) => until.push(then),
            step => return step,
        }
    }
    if world.taking == Taking::Nothing {
        match full(settings, listing, world) {
            Due::Now(why) if world.now_ms >= world.full_not_before_ms => {
                return Step::TakeFull(why);
            }
            Due::Now(_) => until.push(world.full_not_before_ms),
            Due::At(then) => until.push(then),
        }
    }
    if world.verifying {
        // What is read must not be deleted meanwhile.
    } else if world.now_ms >= world.not_before_ms {
        match housekeeping(settings, listing, world) {
            Step::Wait(then) => until.push(then),
            step => return step,
        }
    } else {
        until.push(world.not_before_ms);
    }
    Step::Wait(until.into_iter().min().unwrap_or(u64::MAX))
}

/// Not while what failed rests.
fn later(world: &Observed<'_>, step: Step) -> Step {
    match world.now_ms < world.not_before_ms {
        true => Step::Wait(world.not_before_ms),
        false => step,
    }
}

/// Where a watch has to begin, if it can.
fn watch(listing: &Listing, world: &Observed<'_>) -> Option<Step> {
    let deltas = world.tip.and_then(|tip| tip.last);
    let full = listing.newest_full().map(|full| full.revision);
    let taking = match world.taking {
        Taking::From(revision) => Some(revision),
        Taking::Asked | Taking::Nothing => None,
    };
    // After a tip that cannot be read only a snapshot that was taken later goes on.
    let after_tip = |full: &FullName| world.tip.is_none_or(|tip| full.next > tip.number);
    let full =
        full.filter(|_| deltas.is_some() || listing.newest_full().as_ref().is_some_and(after_tip));
    if world.writing || world.pending.revisions > 0 {
        // Those revisions are not asked for again.
        return None;
    }
    match world.watch {
        Watch::Open => None,
        // The deltas first: what they lack since the snapshot is wanted for older snapshots.
        Watch::Closed => deltas
            .or(full)
            .or(taking)
            .map(|last| Step::OpenWatch(last + 1)),
        Watch::Compacted(at) => {
            let later = [full, taking]
                .into_iter()
                .flatten()
                .find(|last| last + 1 > at);
            later.map(|last| Step::OpenWatch(last + 1))
        }
    }
}

/// What of the deltas is due.
fn delta(settings: &Settings, world: &Observed<'_>) -> Option<Step> {
    if world.writing || world.pending.revisions == 0 {
        return None;
    }
    let due = world.pending.since_ms + settings.delta_every_ms;
    let many = world.pending.bytes >= settings.delta_bytes;
    // Nothing more comes until a new watch begins after them.
    let cut_off = world.watch != Watch::Open;
    match many || cut_off || world.now_ms >= due {
        true => Some(Step::WriteDelta),
        false => Some(Step::Wait(due)),
    }
}

enum Due {
    Now(Why),
    At(u64),
}

/// Whether a full snapshot is due; none is under way.
fn full(settings: &Settings, listing: &Listing, world: &Observed<'_>) -> Due {
    let tip = world.tip;
    let Some(newest) = listing.newest_full() else {
        return Due::Now(Why::First);
    };
    if world.spoilt == Some(newest) {
        return Due::Now(Why::Spoilt);
    }
    if tip.is_some_and(|tip| tip.last.is_none() && newest.next <= tip.number) {
        return Due::Now(Why::Damaged);
    }
    let cut_off = match world.watch {
        Watch::Compacted(at) => newest.revision < at,
        Watch::Open | Watch::Closed => false,
    };
    // Whether it was seen or only follows from what is there: what comes later cannot be reached.
    let reaches = newest
        .revision
        .max(tip.and_then(|tip| tip.last).unwrap_or_default())
        + 1;
    let begins = tip.map_or(0, |tip| tip.since);
    // What is being written is neither waiting nor there.
    let passed = !world.writing && world.pending.first > reaches;
    if cut_off || begins > newest.revision + 1 || passed {
        return Due::Now(Why::Hole);
    }
    let reached = tip.and_then(|tip| tip.last).unwrap_or(newest.revision);
    let (bytes, revisions) = (
        listing.bytes_since(newest.next),
        reached.saturating_sub(newest.revision),
    );
    let next = newest.taken_ms.saturating_add(settings.full_every_ms);
    if world.wanted {
        Due::Now(Why::Wanted)
    } else if bytes >= settings.full_after_bytes || revisions >= settings.full_after_revisions {
        Due::Now(Why::Deltas)
    } else if world.now_ms >= next {
        Due::Now(Why::Age)
    } else {
        Due::At(next)
    }
}

/// What there is to verify and to delete.
fn housekeeping(settings: &Settings, listing: &Listing, world: &Observed<'_>) -> Step {
    let now_ms = world.now_ms;
    let Some(newest) = listing.newest_full() else {
        return Step::Wait(u64::MAX);
    };
    if !listing.is_verified(&newest) && world.spoilt != Some(newest) {
        return Step::Verify(newest);
    }
    let over = |since: u64| since.saturating_add(settings.grace_ms);
    let kept = retention::kept(settings.retention, &listing.fulls, now_ms);
    // What came after the newest one that is known to be whole is needed to go on from it.
    let verified = listing.fulls.iter().rfind(|full| listing.is_verified(full));
    let is_wanted = |full: &FullName| listing.kept_until(full) > Some(now_ms);
    let stays = |full: &&FullName| {
        kept.contains(*full) || is_wanted(full) || verified.is_none_or(|verified| *full >= verified)
    };
    let mut until = now_ms.saturating_add(HOUR_MS);
    for full in listing.fulls.iter().filter(|full| !stays(full)) {
        match listing.buried(full) {
            None => return Step::Bury(*full),
            Some(since) if now_ms >= over(since) => return Step::DeleteFull(*full),
            Some(since) => until = until.min(over(since)),
        }
    }
    // Without a head: given up, or of a process that died; or its head was deleted and the rest was not.
    let forsaken =
        |full: &&FullName| listing.buried(full).is_some() || over(full.taken_ms) <= now_ms;
    if let Some(full) = listing.unfinished.iter().find(forsaken) {
        return Step::DeleteFull(*full);
    }
    if let Some(number) = listing.unneeded_delta() {
        return Step::DeleteDelta(number);
    }
    if let Some(identity) = listing.unneeded_identity(settings.grace_ms) {
        return Step::DeleteIdentity(identity);
    }
    match listing.forgettable() {
        Some(full) => Step::DeleteMarks(full),
        None => Step::Wait(until),
    }
}

const HOUR_MS: u64 = 3600 * 1000;

#[cfg(test)]
mod tests;
