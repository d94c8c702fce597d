//! What is known of etcd's members, and what they and the gates before them are told.
//!
//! Invariant: nothing is told of members before every one of them has its claim.

use std::net::IpAddr;
use std::ops::Range;

use api::TenantCluster;
use api::names::ANNOTATION_ACCEPT_ETCD_INDEX;
use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use base64::Engine as _;
use kit_objects::object::Key;
use kube::ResourceExt as _;
use tenant_cp::certificates::{EtcdIdentity, EtcdMember, InitialClusterState};
use tenant_cp::{Settings, Validated, golden_start, names};

use crate::controllers::tenant_cluster::observed::Observed;
use crate::restoring::begin;

/// Numbers of the members that there may be.
pub(super) const SEATS: Range<i32> = 0..3;

/// The members' Services.
pub(in super::super) fn addresses(valid: &Validated, observed: &Observed) -> Vec<(String, IpAddr)> {
    let ns = valid.tenant_namespace.as_str();
    let address = |number| {
        let name = names::etcd_member(number);
        let ip = observed.text("Service", ns, &name, "/spec/clusterIP");
        let ip = ip.there()?.parse().ok()?;
        Some((name, ip))
    };
    (0..valid.etcd.replicas).filter_map(address).collect()
}

/// What the members and the gates before them are told; none before every member has its claim.
pub(in super::super) fn told_to_members(
    valid: &Validated,
    observed: &Observed,
) -> Option<EtcdIdentity> {
    let state = match observed.has_been_bootstrapped() {
        true => InitialClusterState::Existing,
        false => InitialClusterState::New,
    };
    let members = match identity(observed) {
        Some(known) => {
            let accepted = accepted(&observed.cluster);
            let each = known.members.iter();
            each.map(|member| of_status(member, accepted)).collect()
        }
        None => claims(valid, observed)?
            .map(|(number, claim_uid)| EtcdMember {
                name: names::etcd_member(number),
                claim_uid,
                member_id: None,
                may_start_empty: state == InitialClusterState::New
                    && !begin::awaits(&observed.cluster),
                last_index: None,
            })
            .collect(),
    };
    let status = observed.cluster.status.as_ref();
    let restore = status.and_then(|status| status.restore.as_ref());
    Some(EtcdIdentity {
        state,
        restore: restore
            .filter(|restore| restore.switched)
            .map(|restore| restore.uid.clone()),
        golden: None,
        cluster_id: identity(observed).and_then(|known| known.cluster_id.clone()),
        members,
    })
}

/// The same with what a cluster that never ran begins with. Who asks only whether members are told, [`is_told`], asks of
/// those that ran or are restored, which begin with nothing of it.
pub(in super::super) fn told_with_golden(
    valid: &Validated,
    observed: &Observed,
    settings: &Settings,
) -> Option<EtcdIdentity> {
    let mut told = told_to_members(valid, observed)?;
    let never_ran = told.state == InitialClusterState::New
        && told.cluster_id.is_none()
        && told.restore.is_none()
        && told.members.len() == 1
        && told.members.iter().all(|member| member.may_start_empty);
    if never_ran && let Ok(start) = golden_start::start(valid, settings) {
        told.golden = Some(golden_start::of_member(valid, start));
    }
    Some(told)
}

/// Until which entry of the log people accept that what came after it is lost; 0 where they said nothing that can be read.
pub(super) fn accepted(cluster: &TenantCluster) -> i64 {
    let said = cluster.annotations().get(ANNOTATION_ACCEPT_ETCD_INDEX);
    said.and_then(|said| said.parse().ok()).unwrap_or(0)
}

fn of_status(member: &EtcdMemberStatus, accepted: i64) -> EtcdMember {
    EtcdMember {
        name: member.name.clone(),
        claim_uid: member.volume_uid.clone(),
        member_id: member.id.clone(),
        may_start_empty: !member.started,
        last_index: member.last_index.filter(|index| *index > accepted),
    }
}

/// Whether members that start now are told what the status says.
pub(in super::super) fn is_told(valid: &Validated, observed: &Observed) -> bool {
    let secret = observed.objects.get(&Key::new(
        "Secret",
        valid.tenant_namespace.as_str(),
        names::ETCD,
    ));
    let file = secret.and_then(|secret| secret["data"][names::ETCD_IDENTITY].as_str());
    let file = file.and_then(|file| base64::engine::general_purpose::STANDARD.decode(file).ok());
    let wanted = told_to_members(valid, observed).map(|identity| identity.file().into_bytes());
    file.is_some() && file == wanted
}

/// What the status says of etcd.
pub(in super::super) fn identity(observed: &Observed) -> Option<&EtcdStatus> {
    observed.cluster.status.as_ref()?.etcd.as_ref()
}

/// UIDs of the members' claims: of all of them or none, because one that is not seen yet is no member
/// without a volume.
pub(in super::super) fn claims(
    valid: &Validated,
    observed: &Observed,
) -> Option<impl Iterator<Item = (i32, String)> + use<>> {
    let ns = valid.tenant_namespace.as_str();
    let uid = |number| {
        let claim = names::etcd_volume(number);
        let uid = observed.text("PersistentVolumeClaim", ns, &claim, "/metadata/uid");
        Some((number, uid.there()?.to_owned()))
    };
    let uids: Option<Vec<_>> = (0..valid.etcd.replicas).map(uid).collect();
    Some(uids?.into_iter())
}
