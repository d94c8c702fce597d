//! The rotation of the authority that signs people's certificates: what is seen of it, and what is to be done.
//!
//! Believing it are the kube-apiservers (`--client-ca-file`); what it signed have the administrator's kubeconfig and, to
//! sign more, the kube-controller-managers. How far each is says its rollout, because nobody sees when a file is read
//! again ([0009](../../../../../docs/adr/0009-authorities.md)).
//! Invariant: whatever is believed is in the Secrets before a pod is made that is to believe it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use api::Reason;
use api::tenant_cluster::{RotationPhase, Turn};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::known::Known;
use kit_objects::object::{Key, Object};
use pki::{Signer, Store, Want};
use serde_json::Value;
use tenant_cp::flags::controller_manager::SIGNING_CERTIFICATE;
use tenant_cp::rollout::order::{Allowed, Progress};
use tenant_cp::{certificates, generations, names};

use super::types::{Part, Plan};
use crate::controllers::tenant_cluster::observed::{self, Observed};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::rotation::facts::Facts;
use crate::rotation::plan::{Decision, Step, decide};
use crate::rotation::told;
use crate::status::Waiting;

/// What `spec.rotation` and the status call it.
const NAME: &str = "usersCA";
const AUTHORITY: &str = names::USERS_CA;

/// How far it is, and what comes next.
pub(super) struct Rotation {
    facts: Facts,
    decision: Decision,
    /// Whether the Secrets of kube-apiservers and of kube-controller-managers have all that their pods are to read.
    published: (bool, bool),
}

/// The observation with what is believed and signs now, as objects say: what was dropped is no key any more.
pub(super) fn as_it_is(observed: &Observed) -> Cow<'_, Observed> {
    let is_left = |name: &&String| observed.material.store.contains_key(*name);
    let dropped = observed::dropped(&observed.objects).filter(is_left);
    let dropped: Vec<_> = dropped.cloned().collect();
    let mut as_it_is = Cow::Borrowed(observed);
    for name in dropped {
        as_it_is.to_mut().material.store.remove(&name);
    }
    let signs = signs(&as_it_is);
    signing(as_it_is, signs)
}

/// The observation with another generation that signs.
fn signing(observed: Cow<'_, Observed>, generation: Option<u32>) -> Cow<'_, Observed> {
    let of = |name: &String| generations::of_authority(name, AUTHORITY);
    if observed.material.signer(AUTHORITY).and_then(of) == generation {
        return observed;
    }
    let mut observed = observed;
    let signing = &mut observed.to_mut().material.signing;
    signing.extend(generation.map(|generation| (AUTHORITY.to_owned(), generation)));
    observed
}

impl Rotation {
    /// None where nothing of it is known, or there is no such authority. `observed` is [`as_it_is`]; how far its workloads
    /// are is by what is believed and signs there, and whether kube-apiservers have other keys.
    pub(super) fn new(
        observed: &Observed,
        ([_, control_plane, controllers], is_behind): ([Progress; 3], bool),
        busy: Option<&'static str>,
    ) -> Option<Self> {
        let signs = signs(observed).filter(|_| observed.readable)?;
        let asked = asked(observed);
        let published = (has_all_believed(observed), has_all_signers(observed));
        let is_current =
            |progress, is_published| Known::Known(progress == Progress::Current && is_published);
        let believed = believed(observed);
        let holders = match believed.len() {
            // They cannot have another one's, and who signed is asked at every plan of every tenant cluster.
            0 | 1 => is_current(controllers, published.1),
            _ => match signer_of_kubeconfig(observed) {
                Known::Known(signer) if signer != signs => Known::Known(false),
                Known::Known(_) => is_current(controllers, published.1),
                Known::Absent => Known::Absent,
                Known::Unknown { why } => Known::Unknown { why },
            },
        };
        let facts = Facts {
            wanted: asked.map(|turn| turn.generation),
            hold: asked.is_some_and(|turn| turn.hold),
            believed,
            dropped: dropped(&observed.objects),
            signs,
            verifiers: is_current(control_plane, published.0),
            holders,
            is_spreading: !published.0 || is_behind,
            busy,
        };
        let decision = decide(&facts);
        Some(Self {
            facts,
            decision,
            published,
        })
    }

    /// What was observed, with the generation that signs from now on; none where that is the one that signs.
    pub(super) fn as_it_is_now(&self, observed: &Observed) -> Option<Observed> {
        match self.decision.step {
            Some(Step::Sign(generation)) => {
                Some(signing(Cow::Borrowed(observed), Some(generation)).into_owned())
            }
            _ => None,
        }
    }

    /// The generation that is to be made, by the certificates that are wanted.
    pub(super) fn to_make(&self, wants: &[Want]) -> Option<Want> {
        match self.decision.step {
            Some(Step::Make(generation)) => certificates::next(wants, AUTHORITY, generation),
            _ => None,
        }
    }

    /// No pod is made before its Secret has what it is to read; until one was turned that changes nothing.
    pub(super) fn allow(&self, allowed: &mut Allowed) {
        let is_turned = self.facts.believed.iter().ne([&1]);
        let (for_servers, for_controllers) = self.published;
        allowed.control_plane &= !is_turned || for_servers;
        allowed.controllers &= !is_turned || for_controllers;
    }

    /// Marks what is dropped, and says what it waits for.
    pub(super) fn part(&self, observed: &Observed, now: Timestamp) -> Part {
        let mut part = Part::new(PartName::Rotation);
        if let Some(Step::Drop(others)) = &self.decision.step {
            let marked = others.iter().filter_map(|generation| {
                let name = generations::authority_name(AUTHORITY, *generation);
                marked(observed, &name, now)
            });
            part.apply("dropped", observed, marked.collect());
        }
        if self.decision.is_refused {
            part.problem = Some(Waiting {
                reason: Reason::RotationRefused,
                message: told::refusal(NAME, &self.facts),
            });
        }
        part.waiting = told::progress(NAME, &self.facts, &self.decision).map(|message| Waiting {
            reason: Reason::Rotating,
            message,
        });
        part
    }

    /// What the status and Events say of it.
    pub(super) fn report(&self, plan: &mut Plan, observed: &Observed, now: Timestamp) {
        let before = observed.cluster.status.iter().flat_map(|s| &s.rotation);
        let before = before.into_iter().find(|told| told.name == NAME);
        let after = told::status(NAME, &self.facts, &self.decision, before, now);
        let goes_on = |phase| phase != RotationPhase::Idle;
        let went_on = before.is_some_and(|before| goes_on(before.phase));
        if let Some(after) = &after {
            let signs = after.signs;
            if goes_on(after.phase) && !went_on {
                let generation = after.generation;
                let message = format!(
                    "{NAME} is turned to generation {generation}: status.rotation says how far it is"
                );
                plan.events.push(Notice::normal(Reason::Rotating, message));
            }
            if went_on && !goes_on(after.phase) {
                let message = format!("of {NAME} nothing but generation {signs} is believed");
                plan.events.push(Notice::normal(Reason::Rotated, message));
            }
        }
        plan.status.rotation = after.into_iter().collect();
    }
}

fn asked(observed: &Observed) -> Option<&Turn> {
    observed.cluster.spec.rotation.users_ca.as_ref()
}

fn generation(name: &str) -> Option<u32> {
    generations::of_authority(name, AUTHORITY)
}

fn believed(observed: &Observed) -> BTreeSet<u32> {
    let names = observed.material.store.keys();
    names.filter_map(|name| generation(name)).collect()
}

fn dropped(objects: &BTreeMap<Key, Value>) -> BTreeSet<u32> {
    observed::dropped(objects)
        .filter_map(|name| generation(name))
        .collect()
}

/// The one that signs now, as holders were told: the kube-controller-managers by a flag, the kubeconfig by what is in it.
/// While only one of them was told of the wanted one it is that one already. Where neither says it is the oldest, which
/// everybody believes. None where there is none.
fn signs(observed: &Observed) -> Option<u32> {
    let believed = believed(observed);
    let oldest = believed.first().copied()?;
    if believed.len() == 1 {
        return Some(oldest);
    }
    let told = [
        told_by_flag(observed),
        signer_of_kubeconfig(observed).there(),
    ];
    let mut told = told.into_iter().flatten();
    let wanted = asked(observed).map(|turn| turn.generation);
    let is_told = wanted.is_some() && told.clone().any(|signs| Some(signs) == wanted);
    let signs = match is_told {
        true => wanted,
        false => told.next(),
    };
    signs
        .filter(|signs| believed.contains(signs))
        .or(Some(oldest))
}

fn told_by_flag(observed: &Observed) -> Option<u32> {
    let ns = observed.tenant_namespace();
    let live = observed
        .find("Deployment", &ns, names::CONTROLLERS)
        .there()?;
    let containers = live.pointer("/spec/template/spec/containers")?.as_array()?;
    let mut args = containers
        .iter()
        .filter_map(|c| c["args"].as_array())
        .flatten();
    let flag = format!("--{SIGNING_CERTIFICATE}=");
    let file = args.find_map(|arg| arg.as_str()?.strip_prefix(flag.as_str()))?;
    let name = file.rsplit('/').next()?.strip_suffix(".crt")?;
    generations::of_authority(name, AUTHORITY)
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
        let own = observed.material.store.iter();
        let own = own.filter(|(name, _)| generation(name).is_some());
        let mut store: Store = own
            .map(|(name, pair)| (name.clone(), pair.clone()))
            .collect();
        store.extend(admin);
        let issued = pki::as_issued("admin", &store);
        let signer = issued.and_then(|issued| match issued.signer {
            Signer::By(signer) => generation(&signer),
            Signer::Own => None,
        });
        Known::found(signer)
    })
}

/// Whether new kube-apiservers would read what is believed.
fn has_all_believed(observed: &Observed) -> bool {
    let wanted = generations::clients(&observed.material.store);
    wanted.is_some() && in_secret(observed, names::API_SERVER, "clients.crt") == wanted
}

/// Whether new kube-controller-managers would read every one that may sign.
fn has_all_signers(observed: &Observed) -> bool {
    let store = observed.material.store.iter();
    let mut all = store.filter(|(name, _)| generation(name).is_some());
    let secret = names::CONTROLLER_MANAGER;
    all.all(|(name, pair)| {
        in_secret(observed, secret, &format!("{name}.crt")).as_ref() == Some(&pair.certificate)
    })
}

fn in_secret(observed: &Observed, secret: &str, file: &str) -> Option<String> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Secret", &ns, secret).there()?;
    let content = STANDARD.decode(live["data"][file].as_str()?).ok()?;
    String::from_utf8(content).ok()
}

/// A Secret as it is, with the mark that nobody is to believe it.
fn marked(observed: &Observed, name: &str, now: Timestamp) -> Option<Object> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Secret", &ns, name).there()?;
    let mut wanted = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": live["type"], "data": live["data"],
        "metadata": {
            "name": name, "namespace": ns, "labels": live["metadata"]["labels"],
            "annotations": { names::DROPPED: now.to_string() },
        },
    });
    let owners = &live["metadata"]["ownerReferences"];
    if owners.is_array() {
        wanted["metadata"]["ownerReferences"] = owners.clone();
    }
    Some(Object::from_value(wanted))
}
