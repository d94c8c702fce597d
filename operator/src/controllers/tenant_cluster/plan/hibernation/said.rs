//! What Events say of sleep: each turn once, who or what brought it about, and what holds it up.
//!
//! Invariant: a turn is said with the write of the status that makes it, by whichever of the two ways it is written.

use api::Reason;
use api::tenant_cluster::{HibernationPhase, HibernationStatus};
use jiff::Timestamp;
use kit::events::Notice;

/// Why it is to sleep, or to wake.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Why {
    /// `spec.hibernation.enabled` says so.
    Spec(bool),
    /// A schedule puts it to sleep, since then.
    PutToSleep(Timestamp),
    /// Nobody uses it, since then.
    Unused(Timestamp),
    /// It has schedules, and they have it awake.
    Scheduled,
    /// A Restore needs it.
    Restored,
    /// A request woke it, of this client.
    Asked(Option<String>),
}

impl Why {
    fn words(&self) -> String {
        match self {
            Self::Spec(enabled) => format!("spec.hibernation.enabled is {enabled}"),
            Self::PutToSleep(since) => {
                format!("spec.hibernation.schedules has it sleep since {since}")
            }
            Self::Unused(since) => format!("nobody has used it since {since}"),
            Self::Scheduled => "spec.hibernation.schedules has it awake".to_owned(),
            Self::Restored => "it is restored".to_owned(),
            Self::Asked(Some(client)) => format!("{client} asked its API"),
            Self::Asked(None) => "somebody asked its API".to_owned(),
        }
    }
}

/// What is said when the status changes so.
pub(super) fn turn(
    before: Option<&HibernationStatus>,
    after: Option<&HibernationStatus>,
    why: &Why,
) -> Option<Notice> {
    use HibernationPhase::{Asleep, Awake, FallingAsleep, Waking};
    let phase = |status: Option<&HibernationStatus>| status.map_or(Awake, |status| status.phase);
    let why = why.words();
    let (reason, message) = match (phase(before), phase(after)) {
        (FallingAsleep, FallingAsleep)
        | (Asleep, Asleep)
        | (Waking, Waking)
        // That its API answers again is said of all.
        | (Awake | Waking, Awake) => return None,
        (_, FallingAsleep) => (Reason::FallingAsleep, format!("it is put to sleep: {why}")),
        (_, Asleep) => {
            let message = "it sleeps: nothing of it runs, and its data, keys and addresses stay";
            (Reason::Hibernated, message.to_owned())
        }
        (_, Waking | Awake) => (Reason::Waking, format!("it wakes: {why}")),
    };
    Some(Notice::normal(reason, message))
}
