//! etcd: its volumes, its Services, its members.
//!
//! Invariant: nothing is ever bootstrapped twice. Once its members had a leader, the status knows their
//! volumes, members without data do not start ([`certificates::InitialClusterState`]), and a volume that
//! is lost is reported and not made anew.
//!
//! [`certificates::InitialClusterState`]: tenant_cp::certificates::InitialClusterState

use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use tenant_cp::Validated;
use tenant_cp::names;
use tenant_cp::object::Object;

use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    base: Vec<Object>,
    members: Option<Object>,
) -> Part {
    let mut part = Part::new(PartName::Etcd);
    let known = identity(observed);
    let members_known = known.iter().flat_map(|known| &known.members);
    let lost: Vec<_> = members_known
        .filter_map(|member| loss(observed, member))
        .collect();
    // Whoever made the claim of a lost volume anew: it is not that volume.
    let is_kept = |object: &Object| !lost.iter().any(|loss| loss.is_of(object));
    part.apply(
        "etcd volumes",
        observed,
        base.into_iter().filter(is_kept).collect(),
    );
    part.apply("etcd", observed, members.into_iter().collect());
    part.problem = told(valid, &lost);
    if known.is_none()
        && let Some(etcd) = first_seen(valid, observed)
    {
        part.actions.push(Action::KeepEtcd(etcd));
    }
    part
}

fn identity(observed: &Observed) -> Option<&EtcdStatus> {
    observed.cluster.status.as_ref()?.etcd.as_ref()
}

/// What etcd is, as soon as it has a leader: a member that is ready knows one.
fn first_seen(valid: &Validated, observed: &Observed) -> Option<EtcdStatus> {
    let ns = valid.tenant_namespace.as_str();
    let ready = observed.number("StatefulSet", ns, names::ETCD, "/status/readyReplicas");
    if ready == 0 && !observed.has_been_ready() {
        return None;
    }
    let member = |number| {
        let claim = names::etcd_volume(number);
        let uid = observed.text("PersistentVolumeClaim", ns, &claim, "/metadata/uid")?;
        Some(EtcdMemberStatus {
            name: names::etcd_member(number),
            volume_uid: uid.to_owned(),
        })
    };
    // Of all of them or none: one that is not seen yet is no member without a volume.
    let members: Option<Vec<_>> = (0..valid.etcd.replicas).map(member).collect();
    Some(EtcdStatus { members: members? })
}

/// How a member's volume is lost.
struct Loss {
    claim: String,
    how: How,
}

enum How {
    /// There is no claim.
    Gone,
    /// The claim is another one of the same name.
    Replaced,
    /// Somebody deleted the claim; it goes with the pod that uses it.
    Going,
}

impl Loss {
    fn is_of(&self, object: &Object) -> bool {
        object.kind == "PersistentVolumeClaim" && object.name == self.claim
    }
}

fn loss(observed: &Observed, member: &EtcdMemberStatus) -> Option<Loss> {
    let claim = names::volume_of(&member.name);
    let ns = observed.tenant_namespace();
    let live = observed.object("PersistentVolumeClaim", &ns, &claim);
    let how = match live {
        None => How::Gone,
        Some(live) if live["metadata"]["uid"] != member.volume_uid.as_str() => How::Replaced,
        Some(live) if !live["metadata"]["deletionTimestamp"].is_null() => How::Going,
        Some(_) => return None,
    };
    Some(Loss { claim, how })
}

fn told(valid: &Validated, lost: &[Loss]) -> Option<Waiting> {
    if lost.is_empty() {
        return None;
    }
    let each: Vec<_> = lost
        .iter()
        .map(|loss| {
            let how = match loss.how {
                How::Gone => "is gone",
                How::Replaced => "was deleted, and another one has its name",
                How::Going => "is being deleted by somebody and goes with the pod that uses it",
            };
            format!("{} {how}", loss.claim)
        })
        .collect();
    let all = i32::try_from(lost.len()).is_ok_and(|lost| lost >= valid.etcd.replicas);
    let then = match all {
        true => {
            "the data of the tenant cluster went with it, and no empty one is made in its place; \
             restore it from a backup, or delete this TenantCluster and create it anew"
        }
        false => "the other members serve on; the lost one does not start over an empty volume",
    };
    Some(Waiting {
        reason: "VolumeLost",
        message: format!(
            "PersistentVolumeClaim {} in namespace {}: {then}",
            each.join("; "),
            valid.tenant_namespace
        ),
    })
}
