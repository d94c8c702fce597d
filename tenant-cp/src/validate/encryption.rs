//! Kinds that are to be encrypted at rest: what the rules of the definition say too, for where those are older.

use api::{Reason, TenantCluster};

use crate::encrypted_kinds::{OTHERS, SECRETS};
use crate::problem::Problem;

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
