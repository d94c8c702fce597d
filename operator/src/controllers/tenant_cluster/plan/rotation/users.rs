//! The authority that signs people's certificates.
//!
//! Believing it are the kube-apiservers (`--client-ca-file`), and aggregated API servers by what those tell them; what it
//! signed have the administrator's kubeconfig and, to sign more, the kube-controller-managers.
//! Invariant: who signed the kubeconfig is read from the kubeconfig itself.

use std::collections::BTreeMap;

use api::tenant_cluster::AuthorityTurn;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kit_objects::known::Known;
use kit_objects::object::Key;
use tenant_cp::flags::controller_manager::SIGNING_CERTIFICATE;
use tenant_cp::{certificates, generations, names};

use super::aggregated::{Wanted, take_out};
use super::seen::{
    HowFar, Seen, believed, dropped, files_of, has_all_clients, has_all_signers, has_clients_of,
    signer, signs_by,
};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::rotation::facts::Facts;
use crate::rotation::told::{self, Subject};
use crate::tenant_session::aggregated::Field;

const AUTHORITY: &str = names::USERS_CA;

pub(super) const SUBJECT: Subject = Subject {
    name: "usersCA",
    verifiers: told::SERVERS,
    holders: "the kubeconfig and the kube-controller-managers, to have what is signed by",
};

/// `signs`: [`signs`].
pub(super) fn see(observed: &Observed, signs: u32, how_far: HowFar<'_>) -> Seen {
    let [_, control_plane, controllers] = how_far.progress;
    let asked = asked(observed);
    let published = (
        has_all_clients(observed),
        has_all_signers(observed, AUTHORITY),
    );
    let believed = believed(observed, AUTHORITY);
    let is_complete = asked.is_some_and(|turn| turn.complete >= Some(turn.generation));
    let holders = match believed.len() {
        // They cannot have another one's, and who signed is asked at every plan of every tenant cluster.
        0 | 1 => how_far.is_current(controllers, published.1),
        // It is written as soon as it can be, whoever is refused until then.
        _ if is_complete => how_far.is_current(controllers, published.1),
        _ => match signer_of_kubeconfig(observed) {
            Known::Known(signer) if signer != signs => Known::Known(false),
            Known::Known(_) => how_far.is_current(controllers, published.1),
            Known::Absent => Known::Absent,
            Known::Unknown { why } => Known::Unknown { why },
        },
    };
    let mut facts = Facts {
        wanted: asked.map(|turn| turn.generation),
        hold: asked.is_some_and(|turn| turn.hold),
        believed,
        dropped: dropped(observed, names::USERS_CA),
        signs,
        verifiers: how_far.is_current(control_plane, published.0),
        holders,
        outstanding: Known::Absent,
        untold: Known::Absent,
        is_spreading: !has_clients_of(observed, AUTHORITY)
            || (how_far.has_other)(names::CLIENTS_HASH),
        busy: how_far.busy,
    };
    let bundle = generations::clients(&observed.material.store);
    let to_take_out = Wanted {
        authority: AUTHORITY,
        name: SUBJECT.name,
        field: Field::Clients,
        bundle: bundle.as_deref(),
    };
    let (ask, again) = take_out(observed, &to_take_out, &mut facts, how_far);
    Seen {
        facts,
        published,
        notes: Vec::new(),
        ask,
        again,
        signed_until: None,
        believed_since: None,
        told_since: None,
    }
}

fn asked(observed: &Observed) -> Option<&AuthorityTurn> {
    observed.cluster.spec.rotation.users_ca.as_ref()
}

fn generation(name: &str) -> Option<u32> {
    generations::of_authority(name, AUTHORITY)
}

/// The one that signs now: the kube-controller-managers say it by a flag, the kubeconfig by what is in it.
pub(super) fn signs(observed: &Observed) -> Option<u32> {
    let wanted = asked(observed).map(|turn| turn.generation);
    signs_by(&believed(observed, AUTHORITY), wanted, || {
        [
            told_by_flag(observed),
            signer_of_kubeconfig(observed).there(),
        ]
    })
}

fn told_by_flag(observed: &Observed) -> Option<u32> {
    let ns = observed.tenant_namespace();
    let live = observed
        .find("Deployment", &ns, names::CONTROLLERS)
        .there()?;
    let files = files_of(&live["spec"]["template"], SIGNING_CERTIFICATE);
    generation(files.first()?.strip_suffix(".crt")?)
}

/// The generation that signed the certificate in the user's namespace.
fn signer_of_kubeconfig(observed: &Observed) -> Known<u32> {
    let namespace = observed
        .cluster
        .metadata
        .namespace
        .clone()
        .unwrap_or_default();
    let name = observed.cluster.metadata.name.clone().unwrap_or_default();
    let key = Key::new("Secret", &namespace, &api::names::kubeconfig_secret(&name));
    observed.look_up(&key).and_then(|live| {
        let value = live["data"]["value"].as_str();
        let value = value.and_then(|value| STANDARD.decode(value).ok());
        let data = value.map(|value| ("value".to_owned(), value));
        let one = BTreeMap::from([(key.name.clone(), data.into_iter().collect())]);
        let admin = certificates::read_store(&one).store;
        Known::found(signer(observed, AUTHORITY, ("admin", admin)))
    })
}
