//! Whether hosts of the lab can become nodes on this machine.
//!
//! Invariant: what cannot be asked is an error, and never taken for room.

use anyhow::{Context as _, Result};

use crate::layout::Layout;

/// What a machine has to have free to become a node, in bytes (provider-static, `plan/preflight.rs`).
const LEAST: u64 = 10 << 30;
/// What two hosts write while they are nodes, about, in bytes: their images, and what their pods say.
const WRITTEN: u64 = 2 << 30;

/// Why hosts cannot become nodes here, in words; none where they can. Their disk is the machine's.
///
/// # Errors
/// When the disk of the checkout cannot be asked.
pub fn hindrance(layout: &Layout) -> Result<Option<String>> {
    let path = layout.checkout();
    let disk = rustix::fs::statvfs(path)
        .with_context(|| format!("the disk of {} cannot be asked", path.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    Ok(judge(free).map(|words| format!("{words} on the disk of {}", path.display())))
}

fn judge(free: u64) -> Option<String> {
    let least = LEAST + WRITTEN;
    let gib = |bytes: u64| bytes >> 30;
    (free < least).then(|| {
        format!(
            "hosts reached by SSH become nodes where {} GiB are free, and {} GiB are",
            gib(least),
            gib(free)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_become_nodes_where_there_is_room_for_them_until_their_end() {
        assert_eq!(judge(12 << 30), None);
        let words = judge((12 << 30) - 1).unwrap();
        assert!(words.contains("12 GiB are free, and 11 GiB are"), "{words}");
    }
}
