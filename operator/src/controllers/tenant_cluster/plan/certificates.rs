//! Keys and certificates: made where they are due, then written, whatever else waits.
//!
//! Invariant: authorities are stored before anything that they signed; what was lost of a tenant
//! cluster that ran is reported and never made anew.

use api::Reason;
use jiff::Timestamp;
use kit_objects::object::Object;
use tenant_cp::backup::source::SOURCE;
use tenant_cp::{Addresses, Settings, Validated, certificates, names};

use super::rotation::{self, Rotations, kubeconfig};
use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::restoring::begin;
use crate::status::Waiting;

pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    settings: &Settings,
    addresses: Option<&Addresses>,
    (may_start, rotations): (bool, &Rotations),
    now: Timestamp,
) -> Part {
    let mut part = Part::new(PartName::Certificates);
    if begin::awaits(&observed.cluster) && !is_carried(observed) {
        // Authorities and keys are made once: those of the tenant cluster of then have to be known before.
        part.waiting = Some(super::awaited::waiting(observed));
        return part;
    }
    let material = &observed.material;
    let wants = certificates::wants(valid, settings, addresses);
    let mut wants = certificates::turned(wants, material);
    // The administrator's certificate lives in the kubeconfig, which needs an address and is written
    // with the start. Before that it would be made anew at every reconcile, and each new date
    // in the status would be the next. The same where the kubeconfig cannot be read.
    let endpoint = addresses.and_then(|addresses| addresses.endpoint.as_ref());
    let with_admin = endpoint.is_some() && may_start && observed.user_readable;
    wants.retain(|want| want.name != "admin" || with_admin);
    let mut due = certificates::plan(&wants, material, observed.was_running(), now);
    part.problem = lost(valid, &due.problems);
    // Nothing is made anew beside what is lost: who would mend that could not tell them apart.
    if part.problem.is_none() {
        let next = rotations.to_make(&wants);
        due.due
            .extend(pki::plan(&next.authorities, &material.store, now));
        wants.extend(next.authorities);
        if with_admin && due.due.iter().all(|due| due.name != "admin") {
            due.due.extend(kubeconfig::due(observed));
        }
        due.next_service_account = next.service_account;
        due.next_encryption = next.encryption;
    }
    if !due.is_empty() {
        // They are written by the next plan, which knows them.
        part.actions.push(Action::Issue { wants, due });
        return part;
    }
    let authorities = certificates::authority_secrets(valid, material);
    part.create("authorities", observed, authorities);
    if addresses.is_some() {
        let etcd = super::etcd::identity::told_with_golden(valid, observed, settings);
        let mut leafs = certificates::leaf_secrets(valid, material, etcd.as_ref());
        if rotation::clients::are_several(observed) {
            // Cut off before it is there the next plan would take the one of before for the one that signs, and write all
            // the others back.
            let tells = |secret: &mut Object| secret.name == names::OPERATOR_CLIENT;
            let first = leafs.extract_if(.., tells).collect();
            part.apply("certificate that says who signs", observed, first);
        }
        part.apply("certificates", observed, leafs);
    }
    part
}

/// Whether what is carried over from another TenantCluster is there.
fn is_carried(observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let source = observed.find("Secret", &ns, SOURCE);
    source.there().is_some()
}

fn lost(valid: &Validated, problems: &[certificates::Problem]) -> Option<Waiting> {
    if problems.is_empty() {
        return None;
    }
    let what: Vec<_> = problems
        .iter()
        .map(|p| format!("Secret {} ({:?})", p.secret, p.reason))
        .collect();
    Some(Waiting {
        reason: Reason::CertificateAuthorityLost,
        message: format!(
            "{} in namespace {} cannot be rebuilt; restore it from a backup, because a new one would \
             change the identity of the tenant cluster",
            what.join(", "),
            valid.tenant_namespace
        ),
    })
}
