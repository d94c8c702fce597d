//! What the operator may begin with a tenant cluster of its own accord now, and which patch of Kubernetes it takes.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`patches`] | which version is to run, where its user leaves patches to the operator or the platform demands one |
//!
//! Invariant: no I/O, no clock, no chance. What its user asks for, what is broken and what has begun waits for nothing here.

use api::fleet_policy::Window;
use api::{Reason, TenantCluster};
use jiff::Timestamp;
use tenant_cp::windows::{self, Windows};

pub mod patches;
#[cfg(test)]
mod tests;

/// Why nothing of the operator's own accord begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// `heldUntil` says so, until then.
    Held(Timestamp),
    /// No window of its own is open, until then; none where none ever opens.
    Window(Option<Timestamp>),
    /// It sleeps: nobody wakes it for that.
    Asleep,
}

impl Wait {
    /// When that is over, unless something changes.
    #[must_use]
    pub fn until(self) -> Option<Timestamp> {
        match self {
            Self::Held(until) => Some(until),
            Self::Window(opens) => opens,
            Self::Asleep => None,
        }
    }

    /// What conditions call it.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::Held(_) | Self::Asleep => Reason::WaitingForRollout,
            Self::Window(_) => Reason::WaitingForWindow,
        }
    }

    /// Why, for people; the same until it is over.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Held(until) => {
                format!("spec.maintenance.heldUntil holds this tenant cluster back until {until}")
            }
            Self::Window(Some(opens)) => {
                format!(
                    "no window of spec.maintenance.windows is open: the next one opens at {opens}"
                )
            }
            Self::Window(None) => "no window of spec.maintenance.windows is open".to_owned(),
            Self::Asleep => "this tenant cluster sleeps: that comes when it wakes".to_owned(),
        }
    }
}

/// Why nothing of the operator's own accord begins now; none where it may.
#[must_use]
pub fn waits(cluster: &TenantCluster, now: Timestamp) -> Option<Wait> {
    let maintenance = &cluster.spec.maintenance;
    if let Some(until) = maintenance.holds(now) {
        return Some(Wait::Held(until));
    }
    let windows = at(&maintenance.windows, now);
    (!windows.open).then_some(Wait::Window(windows.opens))
}

/// What its own windows say of a moment. Those that cannot be read hold nothing back: the spec is refused for them.
fn at(windows: &[Window], now: Timestamp) -> Windows {
    windows::read(windows).unwrap_or_default().at(now)
}
