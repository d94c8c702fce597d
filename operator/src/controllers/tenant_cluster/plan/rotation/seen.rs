//! What is seen of one thing that is turned, and how objects are read for it.
//!
//! Invariant: it decides nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kit_objects::known::Known;
use pki::{Signer, Store};
use serde_json::Value;
use tenant_cp::generations;
use tenant_cp::names;
use tenant_cp::rollout::order::Progress;

use crate::controllers::tenant_cluster::observed::{self, Observed};
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::rotation::facts::Facts;

/// What is known of the workloads that verify and sign.
#[derive(Clone, Copy)]
pub(in super::super) struct HowFar<'a> {
    /// How far etcd, the control plane and its controllers are.
    pub(in super::super) progress: [Progress; 3],
    /// Whether kube-apiservers run, or would be made, with another hash in this annotation.
    pub(in super::super) has_other: &'a dyn Fn(&str) -> bool,
    /// Whether no pod of an addon is left that was made from another template than the wanted one.
    pub(in super::super) are_addons_current: &'a dyn Fn() -> Known<bool>,
    /// What else changes the tenant cluster.
    pub(in super::super) busy: Option<&'static str>,
    /// Where the tenant's API is asked, once that is known.
    pub(in super::super) api: Option<(IpAddr, u16)>,
    /// Names of the members of etcd, and addresses of their Services.
    pub(in super::super) members: &'a [(String, IpAddr)],
    /// Names of the KMSs that the operator's configuration has.
    pub(in super::super) known_kms: &'a BTreeSet<String>,
    pub(in super::super) now: Timestamp,
}

impl HowFar<'_> {
    /// Whether these pods are of the wanted template, and there is all in their Secret.
    pub(super) fn is_current(self, progress: Progress, is_published: bool) -> Known<bool> {
        Known::Known(progress == Progress::Current && is_published)
    }
}

/// What is seen of one thing that is turned.
pub(super) struct Seen {
    pub(super) facts: Facts,
    /// Whether the Secrets of kube-apiservers and of kube-controller-managers have all that their pods are to read.
    pub(super) published: (bool, bool),
    /// Annotations of Secrets of generations that are to be another text.
    pub(super) notes: Vec<(u32, &'static str, String)>,
    /// What has to be asked.
    pub(super) ask: Option<Action>,
    /// After which time it may go on although nothing happens.
    pub(super) again: Option<Duration>,
    /// Until when another generation signed certificates of kubelets.
    pub(super) signed_until: Option<String>,
    /// Since when machines are made that believe the generation that signs.
    pub(super) believed_since: Option<String>,
    /// Since when machines are made that are told what nodes have to be told before it goes on; none where it does not wait for
    /// that.
    pub(super) told_since: Option<String>,
}

/// Generations that were dropped, of what its Secrets are called but for the number.
pub(super) fn dropped(observed: &Observed, secret: &str) -> BTreeSet<u32> {
    let names = observed::dropped(&observed.objects);
    let numbers = names.filter_map(|name| generations::of_authority(name, secret));
    numbers.collect()
}

/// Generations of an authority that are believed.
pub(super) fn believed(observed: &Observed, authority: &str) -> BTreeSet<u32> {
    let names = observed.material.store.keys();
    names
        .filter_map(|name| generations::of_authority(name, authority))
        .collect()
}

/// The generation of an authority that signed a certificate, which is in `held` under this name.
pub(super) fn signer(
    observed: &Observed,
    authority: &str,
    (name, held): (&str, Store),
) -> Option<u32> {
    let of = |name: &str| generations::of_authority(name, authority);
    let own = observed.material.store.iter();
    let own = own.filter(|(name, _)| of(name).is_some());
    let mut store: Store = own
        .map(|(name, pair)| (name.clone(), pair.clone()))
        .collect();
    store.extend(held);
    match pki::as_issued(name, &store)?.signer {
        Signer::By(signer) => of(&signer),
        Signer::Own => None,
    }
}

/// The observation with another generation of an authority that signs.
pub(super) fn signing<'a>(
    observed: Cow<'a, Observed>,
    authority: &str,
    generation: Option<u32>,
) -> Cow<'a, Observed> {
    let of = |name: &String| generations::of_authority(name, authority);
    if observed.material.signer(authority).and_then(of) == generation {
        return observed;
    }
    let mut observed = observed;
    let signing = &mut observed.to_mut().material.signing;
    signing.extend(generation.map(|generation| (authority.to_owned(), generation)));
    observed
}

/// The one that signs, by what holders say that they were told, the surest first. While only one of them was told of the
/// wanted one it is that one already. Where none says it is the oldest, which everybody believes. None where there is none.
pub(super) fn signs_by(
    believed: &BTreeSet<u32>,
    wanted: Option<u32>,
    told: impl FnOnce() -> [Option<u32>; 2],
) -> Option<u32> {
    let oldest = believed.first().copied()?;
    if believed.len() == 1 {
        return Some(oldest);
    }
    let mut told = told().into_iter().flatten();
    let is_told = wanted.is_some() && told.clone().any(|signs| Some(signs) == wanted);
    let signs = match is_told {
        true => wanted,
        false => told.next(),
    };
    let is_believed = |signs: &u32| believed.contains(signs);
    signs.filter(is_believed).or(Some(oldest))
}

/// Files that a flag of a pod's containers names, without their folders.
pub(super) fn files_of<'a>(pod: &'a Value, flag: &str) -> Vec<&'a str> {
    let containers = pod["spec"]["containers"].as_array();
    let args = containers
        .into_iter()
        .flatten()
        .filter_map(|container| container["args"].as_array());
    let args = args.flatten().filter_map(|arg| arg.as_str());
    let of_flag = |arg: &'a str| {
        arg.strip_prefix("--")?
            .strip_prefix(flag)?
            .strip_prefix('=')
    };
    let files = args.filter_map(of_flag);
    files.filter_map(|file| file.rsplit('/').next()).collect()
}

/// A file of a Secret of the tenant namespace.
pub(super) fn in_secret(observed: &Observed, secret: &str, file: &str) -> Option<String> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Secret", &ns, secret).there()?;
    let content = STANDARD.decode(live["data"][file].as_str()?).ok()?;
    String::from_utf8(content).ok()
}

/// Whether new kube-apiservers would read whom they are to let in.
pub(super) fn has_all_clients(observed: &Observed) -> bool {
    let wanted = generations::clients(&observed.material.store);
    wanted.is_some() && in_secret(observed, names::API_SERVER, "clients.crt") == wanted
}

/// Whether new kube-controller-managers would read every generation of an authority that may sign.
pub(super) fn has_all_signers(observed: &Observed, authority: &str) -> bool {
    let store = observed.material.store.iter();
    let mut all = store.filter(|(name, _)| generations::of_authority(name, authority).is_some());
    let secret = names::CONTROLLER_MANAGER;
    all.all(|(name, pair)| {
        in_secret(observed, secret, &format!("{name}.crt")).as_ref() == Some(&pair.certificate)
    })
}

/// Whether new kube-apiservers would let in who has a certificate of an authority exactly where its generation is believed,
/// whatever becomes of the other authority of clients.
pub(super) fn has_clients_of(observed: &Observed, authority: &str) -> bool {
    let told = in_secret(observed, names::API_SERVER, "clients.crt").unwrap_or_default();
    let store = &observed.material.store;
    let mut believed = store
        .iter()
        .filter(|(name, _)| generations::of_authority(name, authority).is_some());
    let mut dropped = dropped(observed, authority)
        .into_iter()
        .filter_map(|generation| {
            let secret = generations::authority_name(authority, generation);
            in_secret(observed, &secret, "ca.crt")
        });
    believed.all(|(_, pair)| told.contains(pair.certificate.trim()))
        && !dropped.any(|certificate| told.contains(certificate.trim()))
}
