//! Certificates where authorities have generations: which are there, and which signs.
//!
//! Invariant: the first generation alone gives what [`wants`](super::wants) gives.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pki::{Signer, Want};

use super::wants::CLUSTER_NAME;
use crate::generations::{authority_name, of_authority};
use crate::material::Material;
use crate::names;

/// The authorities that can be turned.
pub const TURNED: [&str; 4] = [
    names::CA,
    names::CLIENT_CA,
    names::USERS_CA,
    names::FRONT_PROXY_CA,
];

/// The same certificates: of each of [`TURNED`] those generations that are there, and what it signs is signed by the one
/// that signs now ([`Material::signer`]). Of one that is not there the first is wanted.
#[must_use]
pub fn turned(wants: Vec<Want>, material: &Material) -> Vec<Want> {
    let mut all = Vec::with_capacity(wants.len());
    for mut want in wants {
        match &want.signer {
            Signer::Own if TURNED.contains(&want.name.as_str()) => {
                let there = material.store.keys();
                let there = there.filter_map(|name| of_authority(name, &want.name));
                let mut generations: Vec<u32> = there.collect();
                if generations.is_empty() {
                    generations.push(1);
                }
                all.extend(generations.into_iter().map(|number| of(&want, number)));
                continue;
            }
            Signer::By(signer) if TURNED.contains(&signer.as_str()) => {
                if let Some(signer) = material.signer(signer) {
                    want.signer = Signer::By(signer.clone());
                }
            }
            Signer::Own | Signer::By(_) => {}
        }
        all.push(want);
    }
    all
}

/// Another generation of an authority that is among these; none where it is not, or cannot be turned.
#[must_use]
pub fn next(wants: &[Want], authority: &str, generation: u32) -> Option<Want> {
    let is_it = |want: &&Want| want.is_authority() && of_authority(&want.name, authority).is_some();
    let first = wants.iter().find(is_it)?;
    TURNED.contains(&authority).then(|| {
        let common_name = common_name(authority).to_owned();
        let dns_names = vec![common_name.clone()];
        let first = Want {
            name: authority.to_owned(),
            common_name,
            dns_names,
            ..first.clone()
        };
        of(&first, generation)
    })
}

/// What its first generation is called in certificates.
fn common_name(authority: &str) -> &str {
    match authority {
        names::CA => CLUSTER_NAME,
        other => other,
    }
}

/// Has a generation of the cluster's authority that was just made, as it is called, be certified by all that are believed:
/// who believes one of those alone believes by it what the new one signs. Of another authority nobody needs that, because
/// Covey tells everybody who believes it.
///
/// # Errors
/// [`pki::Error`].
pub fn cross(material: &mut Material, made: &str, now: Timestamp) -> Result<(), pki::Error> {
    let Some(generation) = of_authority(made, names::CA) else {
        return Ok(());
    };
    let Some(pair) = material.store.get(made) else {
        return Ok(());
    };
    let older = material.store.iter();
    let older = older
        .filter(|(name, _)| of_authority(name, names::CA).is_some_and(|older| older < generation));
    // Nobody believes one that has ended.
    let older = older.filter(|(_, pair)| pki::not_after(&pair.certificate) > Some(now));
    let crossed: Result<BTreeMap<_, _>, pki::Error> = older
        .map(|(name, signer)| {
            let certificate = pki::cross((made, pair), (name.as_str(), signer), now)?;
            Ok((name.clone(), certificate))
        })
        .collect();
    let crossed = crossed?;
    if !crossed.is_empty() {
        material.crossed.insert(made.to_owned(), crossed);
    }
    Ok(())
}

/// A generation of an authority, by its first one. Each has a subject of its own, so that a certificate says which one
/// signed it.
fn of(first: &Want, generation: u32) -> Want {
    if generation == 1 {
        return first.clone();
    }
    let common_name = authority_name(&first.common_name, generation);
    Want {
        name: authority_name(&first.name, generation),
        dns_names: vec![common_name.clone()],
        common_name,
        ..first.clone()
    }
}
