//! Whether the disk has room for a lab, said before its node turns pods away without a word.
//!
//! Invariant: nothing is removed to make room.

use anyhow::{Context as _, Result, bail};

use crate::{cache::cache_dir, config::FULL_PERCENT, layout::Layout, progress::Progress};

/// What a lab and the suites in it write, about, in bytes.
const ROOM: u64 = 4 << 30;

/// Refuses a disk so full that the node would have DiskPressure at once, and warns when it may get it.
pub(super) fn check(layout: &Layout, progress: &Progress) -> Result<()> {
    let path = layout.checkout();
    let disk = rustix::fs::statvfs(path)
        .with_context(|| format!("the disk of {} cannot be asked", path.display()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    let (free, total) = (bytes(disk.f_bavail), bytes(disk.f_blocks));
    let cache = cache_dir()?;
    let said = || {
        format!(
            "{:.1} GiB are free on the disk of {}; below {:.1} GiB the lab's node has DiskPressure \
             and pods stay Pending: make room, for example in {}",
            gib(free),
            path.display(),
            gib(least(total)),
            cache.display()
        )
    };
    match judge(free, total) {
        Verdict::Enough => Ok(()),
        Verdict::Low => {
            progress.note(format!("only {}", said()));
            Ok(())
        }
        Verdict::Full => bail!("{}", said()),
    }
}

#[derive(Debug, Eq, PartialEq)]
enum Verdict {
    Enough,
    Low,
    Full,
}

fn judge(free: u64, total: u64) -> Verdict {
    match least(total) {
        least if free <= least => Verdict::Full,
        least if free <= least + ROOM => Verdict::Low,
        _ => Verdict::Enough,
    }
}

/// What has to be free, in bytes.
fn least(total: u64) -> u64 {
    total / 100 * FULL_PERCENT
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_where_the_node_says_so_and_low_before() {
        let gib = |number: u64| number << 30;
        assert_eq!(judge(gib(2), gib(250)), Verdict::Full);
        assert_eq!(judge(gib(3), gib(250)), Verdict::Low);
        assert_eq!(judge(gib(6), gib(250)), Verdict::Low);
        assert_eq!(judge(gib(7), gib(250)), Verdict::Enough);
        assert_eq!(judge(gib(5), gib(10)), Verdict::Enough);
    }
}
