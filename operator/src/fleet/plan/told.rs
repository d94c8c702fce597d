//! What a FleetPolicy says of why nobody begins, or that some do.
//!
//! Invariant: the same words as long as it is so.

use api::{ConditionStatus, Reason};

use super::Now;

type Said = (ConditionStatus, Reason, String);

impl Now {
    /// `Progressing` and `Degraded`; `in_flight`: tenant clusters are under way.
    pub(super) fn told(&self, in_flight: bool) -> (Said, Said) {
        let fine = || (ConditionStatus::False, Reason::AsExpected, String::new());
        let progresses = |reason, message: String| {
            let progressing = (ConditionStatus::True, reason, message);
            (progressing, fine())
        };
        let stands = |reason, message: String| {
            let progressing = (in_flight.into(), reason, message.clone());
            (progressing, (ConditionStatus::True, reason, message))
        };
        match self {
            Self::Rest(_) if in_flight => {
                progresses(Reason::RollingOut, "the last ones are under way".to_owned())
            }
            Self::Rest(held) => {
                let message = held.map_or(String::new(), |(count, until)| {
                    format!(
                        "{count} are held back by their spec.maintenance, the first of them until {until}"
                    )
                });
                let progressing = (ConditionStatus::False, Reason::FleetRolledOut, message);
                (progressing, fine())
            }
            Self::Unusable(why) => stands(Reason::FleetPolicyUnusable, why.clone()),
            Self::Halted(halted) => stands(
                Reason::FleetHalted,
                format!(
                    "{} failed: {}; nobody else begins. Mend it (or pause or delete it), then set spec.retry to \
                     another number than {}",
                    halted.tenant_cluster, halted.message, halted.retry
                ),
            ),
            Self::Held => {
                let message = "spec.held is true: nobody begins; set it to false to go on";
                let progressing = (in_flight.into(), Reason::FleetHeld, message.to_owned());
                (progressing, fine())
            }
            Self::Closed => progresses(
                Reason::WaitingForWindow,
                "nobody begins until a window of spec.windows opens".to_owned(),
            ),
            Self::WaveHeld { wave, until } => progresses(
                Reason::WaveHeld,
                format!(
                    "wave {wave} is held back until {until} by its heldUntil: nobody else begins before"
                ),
            ),
            Self::Soaks { wave, until } => progresses(
                Reason::WaveSoaking,
                format!("wave {wave} is whole, and the next one begins at {until}"),
            ),
            Self::Rolls { wave } => {
                progresses(Reason::RollingOut, format!("wave {wave} is rolled out"))
            }
            Self::Awaits {
                wave,
                tenant,
                opens,
            } => progresses(
                Reason::WaitingForWindow,
                format!(
                    "wave {wave} waits for windows of its tenant clusters (spec.maintenance.windows): the next one opens at \
                 {opens}, of {tenant}"
                ),
            ),
        }
    }
}
