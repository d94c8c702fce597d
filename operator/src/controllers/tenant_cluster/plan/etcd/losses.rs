//! Volumes of etcd's members that are lost: what people are told of it, and what is done where all are.
//!
//! Invariant: what [`crate::volume_loss`] says, and nothing else; a Restore is asked for under a name that follows from the
//! loss, and it is written down that it was.

use std::collections::BTreeSet;

use api::Reason;
use api::names::ANNOTATION_LOST_ETCD;
use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use kit_objects::known::Known;
use kit_objects::object::Object;
use kube::ResourceExt as _;
use serde_json::json;
use tenant_cp::{Validated, names};

use super::identity::identity;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::status::Waiting;
use crate::volume_loss::{Decision, Facts, Member, Volume, Why, decide};

/// How a member's volume is lost, for certain.
pub(super) struct Loss {
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
    pub(super) fn is_of(&self, object: &Object) -> bool {
        object.kind == "PersistentVolumeClaim" && object.name == self.claim
    }
}

/// Whether the volume of a member is lost, and how.
pub(super) fn loss(observed: &Observed, member: &EtcdMemberStatus) -> Option<Loss> {
    let claim = names::volume_of(&member.name);
    let ns = observed.tenant_namespace();
    let how = match observed.find("PersistentVolumeClaim", &ns, &claim) {
        Known::Absent => How::Gone,
        Known::Known(live) if live["metadata"]["uid"] != member.volume_uid.as_str() => {
            How::Replaced
        }
        Known::Known(live) if !live["metadata"]["deletionTimestamp"].is_null() => How::Going,
        Known::Known(_) | Known::Unknown { .. } => return None,
    };
    Some(Loss { claim, how })
}

/// What is known of a backup that could bring data back. It does not change while etcd is gone.
fn backed_up(observed: &Observed) -> String {
    let status = observed.cluster.status.as_ref();
    let backup = status.and_then(|status| status.backup.as_ref());
    // Its time, and not its age: that would be another message each time.
    let newest = match observed.newest_backup {
        Some(Some(at)) => format!(", the newest change in the backup came at {at}"),
        Some(None) | None => String::new(),
    };
    match backup.and_then(|backup| backup.verified.as_ref()) {
        Some(at) => format!(
            "; the newest full snapshot that was found whole is of {at}{newest}, and a Restore with dryRun says what \
             else there is"
        ),
        None => String::new(),
    }
}

/// What is done where no majority of the members has its volumes.
pub(super) fn next(observed: &Observed) -> Option<Action> {
    let facts = facts(observed)?;
    if facts.is_restoring && !is_ours(observed, &facts) {
        return None;
    }
    // What was made for the loss is written down, also by whoever did not make it.
    let alone = Facts {
        is_restoring: false,
        ..facts.clone()
    };
    let to_ask = to_ask(observed, &alone);
    if !to_ask.is_empty() {
        return Some(Action::AskVolumes { volumes: to_ask });
    }
    let (lost, survivor) = match decide(&alone) {
        Decision::Restore { lost, survivor } => (lost, survivor),
        // People want to know what they would lose.
        Decision::Hold(_) if observed.newest_backup.is_none() => {
            let cluster = identity(observed)?.cluster_id.clone()?;
            return Some(Action::AskNewest { cluster });
        }
        _ => return None,
    };
    if facts.is_restoring {
        return Some(Action::KeepEtcd(EtcdStatus {
            restored_for: lost.into_iter().collect(),
            ..identity(observed)?.clone()
        }));
    }
    let restore = Box::new(restore(observed, &lost, survivor.as_deref())?);
    Some(Action::AskForRestore { restore })
}

/// Whether the Restore that is made for a loss is there, none is begun, and that is not written down.
fn is_ours(observed: &Observed, facts: &Facts) -> bool {
    // Which of them are lost is looked at by whoever goes on: it is called after one of those.
    let mut each = facts.members.iter().map(|m| &m.volume_uid);
    let is_asked = each.any(|uid| {
        let name = name_of(observed, uid);
        observed.restores_asked.contains(&name) && !facts.restored_for.contains(uid)
    });
    let status = observed.cluster.status.as_ref();
    let is_begun = status.is_some_and(|status| status.restore.is_some());
    is_asked && !is_begun
}

/// None where nothing is known of etcd, or nobody backs it up.
fn facts(observed: &Observed) -> Option<Facts> {
    let backup = observed.cluster.spec.backup.as_ref()?;
    let known = identity(observed)?;
    let status = observed.cluster.status.as_ref()?;
    let verified = status.backup.as_ref().and_then(|b| b.verified.as_ref());
    let votes = known.members.iter().filter(|member| !member.learner);
    let member = |member: &EtcdMemberStatus| Member {
        name: member.name.clone(),
        volume_uid: member.volume_uid.clone(),
        volume: volume(observed, member),
    };
    Some(Facts {
        policy: backup.on_volume_loss,
        members: votes.map(member).collect(),
        is_restoring: !observed.restores_asked.is_empty() || status.restore.is_some(),
        has_backup: verified.is_some(),
        restored_for: known.restored_for.iter().cloned().collect(),
    })
}

fn volume(observed: &Observed, member: &EtcdMemberStatus) -> Volume {
    let claim = names::volume_of(&member.name);
    let ns = observed.tenant_namespace();
    match observed.find("PersistentVolumeClaim", &ns, &claim) {
        Known::Unknown { .. } => Volume::Unknown,
        // While a claim goes its volume is there. What is behind it is looked for by itself where it says that it lost it.
        Known::Known(live)
            if live["metadata"]["uid"] == member.volume_uid.as_str()
                && live["status"]["phase"] != "Lost" =>
        {
            Volume::There
        }
        Known::Known(_) | Known::Absent => match observed.etcd_volumes.get(&member.volume_uid) {
            Some(Known::Known(())) => Volume::Unclaimed,
            Some(Known::Absent) => Volume::Gone,
            Some(Known::Unknown { .. }) | None => Volume::Unknown,
        },
    }
}

/// PersistentVolumes that have to be looked for before anything can be said.
fn to_ask(observed: &Observed, facts: &Facts) -> Vec<(String, String)> {
    if !matches!(decide(facts), Decision::Wait(_)) {
        return Vec::new();
    }
    let unknown = facts.members.iter().filter(|m| m.volume == Volume::Unknown);
    let unknown = unknown.filter(|m| !observed.etcd_volumes.contains_key(&m.volume_uid));
    let known = identity(observed);
    let named = unknown.filter_map(|member| {
        let mut members = known.iter().flat_map(|known| &known.members);
        let volume = members.find(|m| m.name == member.name)?.volume.clone()?;
        let claim = names::volume_of(&member.name);
        let claim = observed.find(
            "PersistentVolumeClaim",
            &observed.tenant_namespace(),
            &claim,
        );
        let is_seen = !matches!(claim, Known::Unknown { .. });
        is_seen.then(|| (member.volume_uid.clone(), volume))
    });
    named.collect()
}

/// It says which loss it is for: the same one is asked for once, whoever forgot it.
fn restore_name(observed: &Observed, lost: &BTreeSet<String>) -> Option<String> {
    Some(name_of(observed, lost.first()?))
}

fn name_of(observed: &Observed, volume_uid: &str) -> String {
    format!("{}-lost-{volume_uid}", observed.cluster.name_any())
}

/// The Restore of the newest moment, after what the member has whose volume is left.
fn restore(observed: &Observed, lost: &BTreeSet<String>, survivor: Option<&str>) -> Option<Object> {
    let cluster = &observed.cluster;
    let name = cluster.name_any();
    let etcd = identity(observed)?.cluster_id.as_ref()?;
    let mut spec = json!({ "clusterName": name });
    if let Some(survivor) = survivor {
        spec["survivor"] = json!(survivor);
    }
    Some(Object::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "Restore",
        "metadata": {
            "name": restore_name(observed, lost)?,
            "namespace": cluster.namespace(),
            "annotations": { ANNOTATION_LOST_ETCD: etcd },
            "ownerReferences": [{
                "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "name": name,
                "uid": cluster.uid(),
            }],
        },
        "spec": spec,
    })))
}

/// What follows of it, for people, as the end of a sentence.
fn follows(observed: &Observed) -> String {
    let Some(facts) = facts(observed) else {
        return String::new();
    };
    let volumes = |names: &[String]| {
        let known = identity(observed);
        let members = known.iter().flat_map(|known| &known.members);
        let of = members.filter(|member| names.contains(&member.name));
        let each = of.map(|member| match &member.volume {
            Some(volume) => format!("PersistentVolume {volume} of {}", member.name),
            None => format!("the volume of {}", member.name),
        });
        each.collect::<Vec<_>>().join(", ")
    };
    match decide(&facts) {
        Decision::Nothing => {
            let is_left = |uid| observed.etcd_volumes.get(uid) == Some(&Known::Known(()));
            let left = facts.members.iter().filter(|m| is_left(&m.volume_uid));
            let left: Vec<_> = left.map(|m| m.name.clone()).collect();
            match left.is_empty() {
                true => String::new(),
                false => format!("; {} is still there: bind a claim of its name to it", volumes(&left)),
            }
        }
        Decision::Restoring => {
            "; a Restore is asked for: kubectl get restores says how far it is".to_owned()
        }
        Decision::Wait(names) => format!(
            "; it is not known whether {} is gone, so nothing takes its place by itself",
            volumes(&names)
        ),
        Decision::Hold(Why::NotAsked) => {
            let is_left = |m: &&Member| [Volume::There, Volume::Unclaimed].contains(&m.volume);
            let left: Vec<_> = facts.members.iter().filter(is_left).map(|m| m.name.clone()).collect();
            match left.first() {
                None => "; nothing is restored by itself (spec.backup.onVolumeLoss is Hold)".to_owned(),
                Some(first) => format!(
                    "; nothing is restored by itself (spec.backup.onVolumeLoss is Hold), and {} is left and may have what \
                     no backup has: create a Restore with spec.survivor: {first}, once a claim of its name is bound to it",
                    volumes(&left)
                ),
            }
        }
        Decision::Hold(Why::SomeAreLeft(names)) => format!(
            "; {} is left and may have what no backup has, so nothing is restored by itself: bind a claim of its name to \
             it, or create a Restore",
            volumes(&names)
        ),
        Decision::Hold(Why::NoBackup) => {
            "; no full snapshot is known to be whole, so nothing is restored by itself".to_owned()
        }
        Decision::Hold(Why::Again) => {
            "; a Restore was made for it before and did not help: see why it was given up, mend that, and create another \
             Restore"
                .to_owned()
        }
        Decision::Restore { survivor: None, .. } => {
            "; the newest moment of the backup is restored".to_owned()
        }
        Decision::Restore { survivor: Some(member), .. } => format!(
            "; what {member} has beyond the backup is put there, and then the newest moment is restored"
        ),
    }
}

/// What people are told of them.
pub(super) fn told(valid: &Validated, observed: &Observed, lost: &[Loss]) -> Option<Waiting> {
    if lost.is_empty() {
        return None;
    }
    let members = identity(observed).map_or(0, |known| known.members.len());
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
    let (reason, then) = match lost.len() {
        lost if lost >= members => (
            Reason::VolumeLost,
            "the data of the tenant cluster went with it, and no empty one is made in its place; \
             restore it from a backup, or delete this TenantCluster and create it anew",
        ),
        1 => (
            Reason::MemberLost,
            "the other members serve on; the lost one does not start over an empty volume, and an empty \
             member is to take its place",
        ),
        _ => (
            Reason::QuorumLost,
            "no majority of the members is left, so nothing is read or written, and nothing is begun anew; \
             bring one of the volumes back, or restore from a backup",
        ),
    };
    Some(Waiting {
        reason,
        message: format!(
            "PersistentVolumeClaim {} in namespace {}: {then}{}",
            each.join("; "),
            valid.tenant_namespace,
            match reason {
                Reason::MemberLost => String::new(),
                _ => format!("{}{}", backed_up(observed), follows(observed)),
            }
        ),
    })
}
