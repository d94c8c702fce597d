//! What to do about a tenant namespace whose TenantCluster may be gone. No I/O, no clock, no chance.
//!
//! Invariant: only such a namespace is removed that has every label which the operator gives, under the
//! name that follows from them, that was marked for as long as the settings say, and whose TenantCluster
//! is certainly absent now. What is unknown is not absent.

use std::time::Duration;

use api::Reason;
use api::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::events::Notice;

/// For whom a tenant namespace was made, as its labels say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Owner<'a> {
    /// Name of the TenantCluster.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// UID of the TenantCluster that took it over; none of one that is its first one's.
    pub taken_over_by: Option<&'a str>,
}

impl Owner<'_> {
    /// Whether a TenantCluster is one of those that it may be of, by its own UID.
    #[must_use]
    pub fn is(&self, uid: &str) -> bool {
        uid == self.uid || self.taken_over_by == Some(uid)
    }
}

/// Whether that TenantCluster is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    /// It is.
    Present,
    /// The API said that it is not.
    Absent,
    /// Nobody said anything that counts.
    Unknown,
}

/// What to do about the namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Writes onto it since when it has no TenantCluster.
    Mark(Timestamp),
    /// Takes that off again.
    Unmark,
    /// Deletes it.
    Remove,
}

/// The next step for one tenant namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// What to do.
    pub action: Option<Action>,
    /// What people are told.
    pub notice: Option<Notice>,
    /// Since when it is an orphan; none where it is none, or goes.
    pub orphan_since: Option<Timestamp>,
    /// When to look again.
    pub requeue_after: Option<Duration>,
}

/// For whom a namespace was made; none where it lacks a label that the operator gives, or is called
/// otherwise: then it is none of ours.
#[must_use]
pub fn owner(meta: &ObjectMeta) -> Option<Owner<'_>> {
    let labels = meta.labels.as_ref()?;
    let label = |key: &str| labels.get(key).map(String::as_str);
    let ours = label(names::LABEL_MANAGED_BY) == Some(names::MANAGED_BY)
        && label(names::LABEL_COMPONENT) == Some(names::COMPONENT_TENANT_NAMESPACE);
    let owner = Owner {
        name: label(names::LABEL_TENANT_NAME)?,
        namespace: label(names::LABEL_TENANT_NAMESPACE)?,
        uid: label(names::LABEL_TENANT_UID)?,
        taken_over_by: label(names::LABEL_TAKEN_OVER_BY),
    };
    let called = names::tenant_namespace(owner.name, owner.uid);
    (ours && meta.name.as_deref() == Some(&called)).then_some(owner)
}

/// Whether the namespace says that it has no TenantCluster.
#[must_use]
pub fn is_marked(meta: &ObjectMeta) -> bool {
    mark(meta).is_some()
}

fn mark(meta: &ObjectMeta) -> Option<&str> {
    let annotations = meta.annotations.as_ref()?;
    let mark = annotations.get(names::ANNOTATION_ORPHANED_SINCE)?;
    Some(mark)
}

/// The next step. `remove_after`: how long such a namespace is kept; none for ever.
#[must_use]
pub fn plan(
    meta: &ObjectMeta,
    presence: Presence,
    remove_after: Option<Duration>,
    now: Timestamp,
) -> Plan {
    let Some(owner) = owner(meta).filter(|_| meta.deletion_timestamp.is_none()) else {
        return Plan::default();
    };
    match presence {
        Presence::Unknown => Plan::default(),
        Presence::Present => Plan {
            action: is_marked(meta).then_some(Action::Unmark),
            ..Plan::default()
        },
        Presence::Absent => match mark(meta).and_then(|mark| mark.parse().ok()) {
            Some(since) => keep_or_remove(&owner, since, remove_after, now),
            None => tell(&owner, remove_after, now),
        },
    }
}

fn tell(owner: &Owner<'_>, remove_after: Option<Duration>, now: Timestamp) -> Plan {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let end = match remove_after.and_then(|after| whole.checked_add(after).ok()) {
        Some(end) => format!(
            "it is deleted after {end}; to keep what is in it, take its label {} off",
            names::LABEL_TENANT_UID
        ),
        None => "delete it if nobody needs what is in it".to_owned(),
    };
    let message = format!(
        "TenantCluster {}/{} with the UID {}, for which this namespace was made, is gone without the \
         operator, and control plane, volumes and load balancers go on: {end}",
        owner.namespace, owner.name, owner.uid
    );
    Plan {
        action: Some(Action::Mark(whole)),
        notice: Some(Notice::warning(Reason::TenantClusterGone, message)),
        orphan_since: Some(whole),
        requeue_after: remove_after,
    }
}

fn keep_or_remove(
    owner: &Owner<'_>,
    since: Timestamp,
    remove_after: Option<Duration>,
    now: Timestamp,
) -> Plan {
    // Beyond all time is never.
    let end = remove_after.and_then(|after| since.checked_add(after).ok());
    match end {
        Some(end) if end <= now => Plan {
            action: Some(Action::Remove),
            notice: Some(Notice::normal(
                Reason::RemovingOrphan,
                format!(
                    "deletes this namespace with everything in it: TenantCluster {}/{} with the UID \
                     {} has been gone since {since}",
                    owner.namespace, owner.name, owner.uid
                ),
            )),
            ..Plan::default()
        },
        _ => Plan {
            orphan_since: Some(since),
            requeue_after: end.and_then(|end| Duration::try_from(end.duration_since(now)).ok()),
            ..Plan::default()
        },
    }
}
