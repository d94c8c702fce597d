//! How full a database is, and how much of its file is of no use.
//!
//! Invariant: a level that is told ends only once there is clearly more room, so nobody is told of one again and
//! again.

use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};

/// Free bytes of a database's file from which on a member that starts defragments it
/// (`--bootstrap-defrag-threshold-megabytes`): with less, a start gives nothing back.
pub const LEAST_GAIN: u64 = tenant_cp::settings::ETCD_BOOTSTRAP_DEFRAG_MIB << 20;

/// How full the fullest database is.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// Enough is left.
    #[default]
    Enough,
    /// More than four fifths of its most bytes are in use; told of, it ends below three quarters.
    Low,
    /// More than nine tenths are; told of, it ends below 85 of 100.
    Critical,
    /// etcd raised the alarm: only reads and deletions go on.
    Full,
}

impl Level {
    /// What members say, where `told` was told before.
    pub fn of<'a>(members: impl Iterator<Item = &'a MemberStatus>, told: Self) -> Self {
        let levels = members.map(|member| one(member, told));
        levels.max().unwrap_or_default()
    }
}

fn one(member: &MemberStatus, told: Level) -> Level {
    if member.alarms.contains(&Alarm::NoSpace) {
        return Level::Full;
    }
    let uses = |hundredths| uses(member.size_in_use, member.quota, hundredths);
    let (critical, low) = (
        if told >= Level::Critical { 85 } else { 90 },
        if told >= Level::Low { 75 } else { 80 },
    );
    if uses(critical) {
        Level::Critical
    } else if uses(low) {
        Level::Low
    } else {
        Level::Enough
    }
}

/// Whether it is so many hundredths of the whole or more; never where the whole is not known.
pub(super) fn uses(part: u64, whole: u64, hundredths: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(hundredths)
}

/// Whether its start would give enough back: almost half of its file is of no use, or the file is close to its
/// most bytes (operations.md §4.5).
#[must_use]
pub fn is_fragmented(member: &MemberStatus) -> bool {
    let free = member.size.saturating_sub(member.size_in_use);
    let is_close = uses(member.size, member.quota, 80);
    free > LEAST_GAIN && (uses(free, member.size, 45) || is_close)
}
