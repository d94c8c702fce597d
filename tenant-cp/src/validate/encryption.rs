//! Kinds that are to be encrypted at rest: what the rules of the definition say too, for where those are older.

use std::collections::{BTreeMap, BTreeSet};

use api::{Reason, TenantCluster};

use crate::encrypted_kinds::{OTHERS, SECRETS};
use crate::kms::is_name;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::settings::encryption::KmsPlugin;
use crate::text::image::image;
use crate::validate::quantity;
use crate::validate::refusal::not_allowed;

/// Most KMSs of a platform.
const MOST_KMS: usize = 8;

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let asked = &tc.spec.encryption.resources;
    let mut refuse = |message: String| {
        let field = "spec.encryption.resources";
        problems.push(Problem::new(field, Reason::EncryptionKindUnknown, message));
    };
    if !asked.iter().any(|kind| kind == SECRETS.name) {
        refuse("secrets are always encrypted at rest: add secrets to the list".to_owned());
    }
    let is_known =
        |kind: &str| kind == SECRETS.name || OTHERS.iter().any(|known| known.name == kind);
    // One of them is enough to say what there is.
    if let Some(kind) = asked.iter().find(|kind| !is_known(kind)) {
        let known: Vec<_> = OTHERS.iter().map(|known| known.name).collect();
        let named: String = kind.chars().filter(|c| !c.is_control()).take(64).collect();
        refuse(format!(
            "{named} cannot be encrypted at rest: choose among secrets, {}",
            known.join(", ")
        ));
    }
}

/// A KMS that this platform does not have.
pub(super) fn check_policy(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    let Some(kms) = &tc.spec.encryption.kms else {
        return;
    };
    if settings.encryption.of(&kms.name).is_some() {
        return;
    }
    let all = settings.encryption.kms.iter();
    let all: Vec<String> = all.map(|plugin| plugin.name.clone()).collect();
    problems.push(Problem::new(
        "spec.encryption.kms.name",
        Reason::KmsUnknown,
        not_allowed(&kms.name, &all, "encryption.kms"),
    ));
}

/// What is wrong with the platform's plugins.
pub(super) fn check_settings(settings: &Settings, problems: &mut Vec<Problem>) {
    let all = &settings.encryption.kms;
    let mut refuse = |field: String, reason, message: String| {
        problems.push(Problem::new(field, reason, message));
    };
    if all.len() > MOST_KMS {
        let message = format!("{} are too many: name at most {MOST_KMS}", all.len());
        refuse("encryption.kms".to_owned(), Reason::KmsUnknown, message);
    }
    let mut names = BTreeSet::new();
    for (number, plugin) in all.iter().enumerate() {
        let at = |field: &str| format!("encryption.kms[{number}].{field}");
        if !is_name(&plugin.name) {
            let message = format!(
                "\"{}\" cannot be the name of a KMS: use up to 32 lower-case letters, digits and -, beginning with a letter",
                plugin.name
            );
            refuse(at("name"), Reason::KmsUnknown, message);
        } else if !names.insert(&plugin.name) {
            let message = format!("{} is there twice: remove one of them", plugin.name);
            refuse(at("name"), Reason::KmsUnknown, message);
        }
        if let Err(message) = image(&plugin.image) {
            refuse(at("image"), Reason::KmsUnknown, message);
        }
        for (field, message) in malformed(plugin) {
            refuse(at(field), Reason::QuantityMalformed, message);
        }
    }
}

/// Amounts of a plugin that are none.
fn malformed(plugin: &KmsPlugin) -> impl Iterator<Item = (&'static str, String)> {
    let of = |field, amounts: &BTreeMap<String, String>| {
        let amounts: Vec<_> = amounts.values().cloned().collect();
        let amounts = amounts.into_iter();
        let bad = amounts.filter(|amount| quantity::nanos(amount).is_none());
        bad.map(move |amount| (field, quantity::malformed(&amount)))
    };
    let requests = of("requests", &plugin.requests);
    requests.chain(of("limits", &plugin.limits))
}
