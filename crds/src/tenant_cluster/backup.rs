//! How the etcd of a tenant cluster is backed up.
//!
//! Invariant: where to is named and not described, so a user of tenant clusters needs to know no bucket and no key.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;

const AT_LEAST_AN_HOUR: &str =
    "duration(self) >= duration('1h') && duration(self) <= duration('720h')";
const FULL: &str =
    "backup.full is how often the whole database is written: at least 1h and at most 720h";
const A_FEW_SECONDS: &str = "duration(self) >= duration('1s') && duration(self) <= duration('1h')";
const DELTA: &str = "backup.delta is how much may be lost at most: at least 1s and at most 1h";

const NEVER_OR_HOURS: &str = "duration(self) == duration('0s') || \
    (duration(self) >= duration('24h') && duration(self) <= duration('2160h'))";
const RESTORE_TEST: &str = "backup.restoreTest is how often a restore is tested: at least 24h and at most 2160h, or 0s \
    for never";

/// How the etcd of a tenant cluster is backed up.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// The BackupTarget that backups go to. Another one begins with a full snapshot; what is in the former stays
    /// there. Required, no default. Example: `main`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub target: String,

    /// Time from one full snapshot to the next, 1h to 720h; there are more where much changes. Default: `24h`.
    /// Example: `6h`.
    #[serde(default = "default_full")]
    #[x_kube(validation = Rule::new(AT_LEAST_AN_HOUR).message(FULL))]
    pub full: Duration,

    /// Time from a change until it is in the target, 1s to 1h: so much may be lost at most. Default: `10s`.
    /// Example: `60s`.
    #[serde(default = "default_delta")]
    #[x_kube(validation = Rule::new(A_FEW_SECONDS).message(DELTA))]
    pub delta: Duration,

    /// Which full snapshots are kept, besides all of the last hour. Deltas are kept as long as the snapshots
    /// around them. Default: one an hour for 24 hours, one a day for 7 days, one a week for 4 weeks.
    /// Example: `{"days": 30, "months": 12}`.
    #[serde(default)]
    pub retention: Retention,

    /// What is done where the volumes of a majority of etcd's members are proven to be gone. `Hold`: people decide.
    /// `Restore`: a Restore of the newest moment that is in the backup is made, once for each loss; what was written after
    /// that moment is gone, but for what the one volume has that is left, which goes into the backup first. Volumes that
    /// may still be there are waited for, however long that takes. Default: `Hold`.
    /// Example: `Restore`.
    #[serde(default)]
    pub on_volume_loss: OnVolumeLoss,

    /// Time from one test of a restore to the next, 24h to 2160h, or `0s` for none: what is in the target is restored into
    /// an etcd of its own in the tenant namespace, compared with the one that serves, and thrown away. The first test
    /// comes within 25 hours. It takes what a member of etcd takes, for as long as it lasts, and room on its node for the
    /// database twice. Default: `168h`. Example: `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(NEVER_OR_HOURS).message(RESTORE_TEST))]
    pub restore_test: Option<Duration>,
}

impl Backup {
    /// Time from one test of a restore to the next; none where none is wanted.
    #[must_use]
    pub fn restore_test_every(&self) -> Option<std::time::Duration> {
        let every = match &self.restore_test {
            None => std::time::Duration::from_secs(7 * 24 * 3600),
            Some(every) => every.get()?,
        };
        (!every.is_zero()).then_some(every)
    }
}

/// What is done where the volumes of a majority of etcd's members are gone.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum OnVolumeLoss {
    /// People decide.
    #[default]
    Hold,
    /// The newest moment of the backup takes the place of what is lost.
    Restore,
}

/// Which full snapshots are kept.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Hours of which the first one is kept, 0 to 720. Default: 24. Example: 48.
    #[serde(default = "default_hours")]
    #[schemars(range(min = 0, max = 720))]
    pub hours: u32,
    /// Days of which the first one is kept, 0 to 366. Default: 7. Example: 30.
    #[serde(default = "default_days")]
    #[schemars(range(min = 0, max = 366))]
    pub days: u32,
    /// Weeks, from Monday, of which the first one is kept, 0 to 520. Default: 4. Example: 8.
    #[serde(default = "default_weeks")]
    #[schemars(range(min = 0, max = 520))]
    pub weeks: u32,
    /// Months of which the first one is kept, 0 to 120. Default: 0. Example: 12.
    #[serde(default)]
    #[schemars(range(min = 0, max = 120))]
    pub months: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            hours: default_hours(),
            days: default_days(),
            weeks: default_weeks(),
            months: 0,
        }
    }
}

fn default_full() -> Duration {
    Duration::from("24h")
}

fn default_delta() -> Duration {
    Duration::from("10s")
}

fn default_hours() -> u32 {
    24
}

fn default_days() -> u32 {
    7
}

fn default_weeks() -> u32 {
    4
}

/// What is known of a tenant cluster's backup.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// When the newest full snapshot was taken. Example: `2026-11-27T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub last_full: Option<String>,
    /// When the newest full snapshot was taken that was read again, with all deltas after it, and was whole: a
    /// restore to any moment since then is known to be had. Example: `2026-11-27T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub verified: Option<String>,
    /// What came of the last test of a restore; absent where there was none yet. Example:
    /// `{"at": "2026-11-27T00:00:00Z", "passed": "2026-11-27T00:00:00Z", "revision": 1437}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_test: Option<RestoreTest>,
}

/// A test of a restore that is over.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreTest {
    /// When it ended. Example: `2026-11-27T00:00:00Z`.
    #[schemars(length(max = 64))]
    pub at: String,
    /// When the last one ended well; absent where none did yet. Example: `2026-11-27T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub passed: Option<String>,
    /// The revision at which what was restored was the same as etcd, the last time that it was. Example: 1437.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Why it failed; absent where it did not. Example: `at revision 1437: the backup lacks /registry/pods/a/b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub problem: Option<String>,
    /// Whether it failed because what was restored is not what etcd has. Default: false. Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub differs: bool,
}

/// A Restore that is under way, or that nobody has confirmed: facts that cannot be seen again.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreProgress {
    /// Name of the Restore. Example: `before-the-upgrade`.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its UID. Example: `0a1b2c3d-1111-4222-8333-444455556666`.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The moment, as the backup is asked for it: `latest`, `time-<ms since 1970>` or `revision-<number>`.
    /// Example: `revision-1437`.
    #[schemars(length(max = 64))]
    pub moment: String,
    /// The etcd cluster whose backup it is, hexadecimal. Example: `cdf818194e3a8c32`.
    #[serde(rename = "clusterID")]
    #[schemars(length(max = 16))]
    pub cluster_id: String,
    /// UID of the TenantCluster that it was of; absent where that is this one.
    /// Example: `0a1b2c3d-0011-4000-8000-000000000001`.
    #[serde(rename = "sourceUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub source_uid: Option<String>,
    /// The revision that it has to have at least. Example: 1437.
    pub revision: i64,
    /// The member whose volume is left, and is read first. Absent without one. Example: `etcd-2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub survivor: Option<String>,
    /// What came of that. Absent before it is known, and without a survivor.
    /// Example: `{"revision": 1520}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<Salvaged>,
    /// How much revisions are raised. Example: 1000000250.
    pub bump: i64,
    /// When it was begun, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub since: String,
    /// Whether no pod was left that writes to etcd, so that the backup could end. Default: false. Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub quiet: bool,
    /// Whether members of etcd start on what was built; `status.etcd` says what they are then. Default: false.
    /// Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub switched: bool,
    /// Whether Leases of before were deleted from it, so that the control plane may start. Default: false. Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prepared: bool,
    /// Why it was given up; absent where it was not. Example: `etcd-0: no space left on device`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub given_up: Option<String>,
}

/// What came of the member whose volume is left: one of the two.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Salvaged {
    /// The backup has all that it has, until this revision. Example: 1520.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Why it was left aside. Example: `it cannot be copied: Input/output error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub aside: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}
