//! When tenant clusters may begin. Windows are computed from the clock, with the schedules of sleep.

use api::fleet_policy::Window;
use jiff::Timestamp;
use tenant_cp::hibernation::{self, Fault, Schedule};

/// What windows say of one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Windows {
    /// Whether any is open, or there is none.
    pub open: bool,
    /// When any of them opens or closes next.
    pub next: Option<Timestamp>,
}

/// What these windows say of a moment.
///
/// # Errors
/// What is wrong with them, for people; one sentence each.
pub fn at(windows: &[Window], now: Timestamp) -> Result<Windows, Vec<String>> {
    let (mut read, mut faults) = (Vec::new(), Vec::new());
    for (number, window) in windows.iter().enumerate() {
        match schedule(window) {
            Ok(schedule) => read.push(hibernation::at(&[schedule], now)),
            Err(Fault { field, message }) => {
                faults.push(format!("spec.windows[{number}].{field}: {message}"));
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let open = |one: &hibernation::Scheduled| one.asleep_since.is_some();
    Ok(Windows {
        open: read.is_empty() || read.iter().any(open),
        next: read.iter().filter_map(|one| one.next).min(),
    })
}

/// Open is what asleep is for a tenant cluster.
fn schedule(window: &Window) -> Result<Schedule, Fault> {
    let times = [
        ("opens", window.opens.as_str()),
        ("closes", window.closes.as_str()),
    ];
    Schedule::read_moments(times, window.time_zone.as_deref())
}
