//! When a tenant cluster follows another operator and takes patches of Kubernetes: its windows, whether it is held back, and
//! whom it goes before.
//!
//! Invariant: it only orders and delays what the operator wants; what its user changes, and what is broken, waits for none of it.

use k8s_openapi::jiff::Timestamp;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::fleet_policy::Window;
use crate::instant;

const UNTIL: &str =
    "maintenance.heldUntil is a time in UTC to the second: write 2027-01-31T12:00:00Z";

/// When a tenant cluster follows another operator, and whether it takes patches of Kubernetes by itself.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Maintenance {
    /// When the operator may begin what nobody asked for at this moment, at most 8: while any of them is open. Where there is
    /// a FleetPolicy, a window of that has to be open, too. What has begun goes on after it closes, what is broken is mended,
    /// and what its user changes comes at once. Default: at any time.
    /// Example: `[{"opens": "0 22 * * 1-5", "closes": "0 4 * * *", "timeZone": "Europe/Berlin"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub windows: Vec<Window>,

    /// `true`: the operator takes the newest patch of the minor of `spec.version` that its configuration names, in a window
    /// and by turns; `spec.version` is then the least that runs, and nobody writes it. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub auto_patch: bool,

    /// Of those of its wave that wait, those with the highest number begin first, -1000 to 1000. It needs a FleetPolicy.
    /// Default: 0. Example: 10.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: i32,

    /// Until then its pods are not made from another operator's templates, and it takes no patch by itself, in UTC and at most
    /// 90 days ahead; no wave waits for it. A least version that the operator's configuration names comes all the same. What has begun goes on, what is broken is mended, and what its user changes comes at once. Default: it is not
    /// held back. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 20, max = 20))]
    #[x_kube(validation = Rule::new(instant::FORM).message(UNTIL))]
    pub held_until: Option<String>,
}

impl Maintenance {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Until when it is held back; none where it is not, or not any more.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> Option<Timestamp> {
        self.until().filter(|until| *until > now)
    }

    /// Until when it is held back, be that over; none where it is not, or there is no such moment.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        instant::read(self.held_until.as_ref()?)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_zero(priority: &i32) -> bool {
    *priority == 0
}
