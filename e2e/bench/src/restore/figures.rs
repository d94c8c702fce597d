//! What follows from writes that were acknowledged and from looks at the backup. No I/O, no clock.
//!
//! Invariant: a write whose answer nobody saw is neither counted nor lost.

use std::collections::BTreeMap;

use serde_json::Value;

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ack {
    /// Which object, by its number.
    pub(super) object: usize,
    /// What was written: greater than everything before in the same object.
    pub(super) number: u64,
    /// The store's revision of it.
    pub(super) revision: u64,
    /// When the answer came, in milliseconds since 1970.
    pub(super) at_ms: u64,
}

/// How far the backup was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sample {
    /// When, in milliseconds since 1970, by the clock of the machine, which is that of the writes, too.
    pub(super) at_ms: u64,
    /// The last revision that was in the target.
    pub(super) durable: u64,
}

/// What the process that backs up said each time that it was asked (docs/backup-format.md, "How far it is").
pub(super) fn samples(log: &str) -> Vec<Sample> {
    let look = |line: &str| {
        let said: Value = serde_json::from_str(line).ok()?;
        Some(Sample {
            at_ms: said["nowMs"].as_u64()?,
            durable: said["durable"].as_u64().filter(|durable| *durable > 0)?,
        })
    };
    log.lines().filter_map(look).collect()
}

/// How old the oldest write was that would have been lost, at each look while writes came, in seconds.
pub(super) fn losses_s(acks: &[Ack], samples: &[Sample]) -> Vec<f64> {
    let mut acks = acks.to_vec();
    acks.sort_by_key(|ack| ack.revision);
    // Of each write and all of later revisions: when the first one of them was acknowledged.
    let mut first = u64::MAX;
    let mut since = vec![0; acks.len()];
    for (index, ack) in acks.iter().enumerate().rev() {
        first = first.min(ack.at_ms);
        since[index] = first;
    }
    let times = || acks.iter().map(|ack| ack.at_ms);
    let (Some(begin), Some(end)) = (times().min(), times().max()) else {
        return Vec::new();
    };
    let during = samples
        .iter()
        .filter(|look| (begin..=end).contains(&look.at_ms));
    let loss = |look: &Sample| {
        let next = acks.partition_point(|ack| ack.revision <= look.durable);
        let oldest = since.get(next).copied().unwrap_or(u64::MAX);
        look.at_ms.saturating_sub(oldest) as f64 / 1000.0
    };
    during.map(loss).collect()
}

/// Objects of which something that was acknowledged is not there any more: gone, or an older one.
pub(super) fn lost(acks: &[Ack], found: &BTreeMap<usize, u64>) -> usize {
    let mut newest = BTreeMap::<usize, u64>::new();
    for ack in acks {
        let number = newest.entry(ack.object).or_default();
        *number = (*number).max(ack.number);
    }
    let is_lost = |(object, number): &(&usize, &u64)| found.get(object) < Some(number);
    newest.iter().filter(is_lost).count()
}

/// Text that no compression makes small, another one for each seed.
pub(super) fn noise(seed: u64, bytes: usize) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // Marsaglia's xorshift64, which never leaves zero.
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let sign = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(SIGNS[(state >> 58) as usize])
    };
    (0..bytes).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(object: usize, number: u64, revision: u64, at_ms: u64) -> Ack {
        Ack {
            object,
            number,
            revision,
            at_ms,
        }
    }

    #[test]
    fn loss_is_the_age_of_the_oldest_write_that_is_not_in_the_target() {
        // Answers overtake each other.
        let acks = [
            ack(0, 1, 11, 1000),
            ack(1, 1, 13, 1500),
            ack(2, 1, 12, 2000),
            ack(3, 1, 14, 9000),
        ];
        let look = |at_ms, durable| Sample { at_ms, durable };
        let samples = [
            look(4000, 10),
            look(4000, 11),
            look(4000, 12),
            look(4000, 14),
        ];
        assert_eq!(losses_s(&acks, &samples), [3.0, 2.5, 2.5, 0.0]);
        // Before the first write and after the last one there is nothing to lose.
        assert_eq!(losses_s(&acks, &[look(999, 10), look(9001, 10)]), [0.0; 0]);
        assert_eq!(losses_s(&[], &samples), [0.0; 0]);
    }

    #[test]
    fn what_the_process_does_not_know_is_no_look() {
        let log = "wget: refused\n{\"nowMs\":7,\"durable\":0}\n{\"nowMs\":8,\"durable\":5,\"looked\":true}\n";
        assert_eq!(
            samples(log),
            [Sample {
                at_ms: 8,
                durable: 5
            }]
        );
    }

    #[test]
    fn older_value_is_lost_and_a_newer_one_is_not() {
        let acks = [
            ack(0, 1, 1, 0),
            ack(0, 3, 3, 0),
            ack(1, 2, 2, 0),
            ack(2, 4, 4, 0),
        ];
        let found = |all: &[(usize, u64)]| all.iter().copied().collect();
        assert_eq!(lost(&acks, &found(&[(0, 3), (1, 2), (2, 5)])), 0);
        assert_eq!(lost(&acks, &found(&[(0, 1), (1, 2)])), 2);
        assert_eq!(lost(&acks, &found(&[])), 3);
    }

    #[test]
    fn noise_is_as_long_as_asked_for_and_another_one_for_each_seed() {
        let (one, other) = (noise(1, 1000), noise(2, 1000));
        assert_eq!((one.len(), noise(1, 1000) == one), (1000, true));
        assert_ne!(one, other);
        let distinct: std::collections::BTreeSet<_> = one.bytes().collect();
        assert!(distinct.len() > 50, "{distinct:?}");
    }
}
