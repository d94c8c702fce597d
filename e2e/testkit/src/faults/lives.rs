//! A process that dies at every one of its writes.
//!
//! Invariant: no k is left out: lives go on until one of them ends without having died.

use std::fmt::Debug;

use anyhow::{Context as _, Result, ensure};

use super::FaultPlan;

/// Has a process live once without faults, and then die before and after its k-th write, for every k.
/// `life` tells whether the process died in it, and what there was in the end, which has to be the
/// same each time. Gives the number of writes of a life, of those before and those after which it
/// died the smaller one.
///
/// # Errors
/// When a life fails, or ends otherwise; the error says at which write.
pub async fn wherever_it_dies<T: Debug + PartialEq>(
    life: impl AsyncFn(&FaultPlan) -> Result<(bool, T)>,
) -> Result<u64> {
    let (died, expected) = life(&FaultPlan::none()).await?;
    ensure!(!died, "it died without faults");
    let before: fn(u64) -> FaultPlan = FaultPlan::crash_before_write;
    let mut fewest = u64::MAX;
    for (side, plan) in [("before", before), ("after", FaultPlan::crash_after_write)] {
        let mut k = 1;
        loop {
            let outcome = life(&plan(k)).await;
            let (died, seen) = outcome.with_context(|| format!("died {side} write {k}"))?;
            ensure!(
                seen == expected,
                "died {side} write {k}: {seen:#?} is not {expected:#?}"
            );
            if !died {
                break;
            }
            k += 1;
        }
        eprintln!("died {side} each of {} writes", k - 1);
        fewest = fewest.min(k - 1);
    }
    Ok(fewest)
}
