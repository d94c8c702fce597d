//! Whether it runs an older version than the operator's configuration allows: the condition `VersionOutdated`.
//!
//! Invariant: it is there exactly while an older one runs, and says the same until the moment from which on it is patched.

use api::{ConditionStatus, ConditionType, Reason};
use jiff::Timestamp;
use kit::events::Notice;

use super::conditions::Conditions;
use crate::controllers::tenant_cluster::observed::Observed;

/// Says so; gives the Event where it is news.
pub(super) fn report(
    set: &mut Conditions<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Option<Notice> {
    let type_ = ConditionType::VersionOutdated;
    let Some(minimum) = &observed.patch.minimum else {
        set.remove(type_);
        return None;
    };
    let status = observed.cluster.status.as_ref();
    let runs = status
        .and_then(|status| status.version.as_deref())
        .unwrap_or_default();
    let (least, from) = (&minimum.version, &minimum.from);
    let is_over = from.parse().is_ok_and(|from: Timestamp| from <= now);
    let what =
        format!("Kubernetes {runs} is older than {least}, the least that the platform allows");
    let message = match is_over {
        true => format!(
            "{what} since {from}: it is brought there when its turn comes, whatever spec.maintenance says"
        ),
        false => format!(
            "{what} from {from} on: set spec.version to {least} or a newer patch before; from then on it is brought there, \
             whatever spec.maintenance says"
        ),
    };
    let reason = Reason::VersionBelowMinimum;
    set.set(type_, ConditionStatus::True, reason, &message);
    let told = status.and_then(|status| status.minimum_version.as_ref());
    (told != Some(minimum)).then(|| Notice::warning(reason, message))
}

/// When it is patched.
pub(super) fn again(observed: &Observed, now: Timestamp) -> Option<Timestamp> {
    let from: Timestamp = observed.patch.minimum.as_ref()?.from.parse().ok()?;
    (from > now).then_some(from)
}
