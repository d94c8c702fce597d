//! The administrator's certificate in the kubeconfig is another one each time that its number is raised.
//!
//! A client certificate cannot be taken back: the one of before is let in until it ends, or until the authority that signed
//! it is dropped, and that is told.
//! Invariant: the number stands in the Secret beside the certificate that was made for it, written at once with it.

use std::collections::BTreeMap;

use api::tenant_cluster::{RotationPhase, RotationStatus};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kit_objects::object::{Key, Object};
use pki::{Due, KeyPair, Reason, Store};
use serde_json::{Value, json};
use tenant_cp::{certificates, names};

use super::seen;
use crate::controllers::tenant_cluster::observed::Observed;

pub(super) const NAME: &str = "kubeconfig";
const ADMIN: &str = "admin";
/// Annotation of the Secret: for which number its certificate was made.
const GENERATION: &str = "covey.dev/kubeconfig-generation";
/// Annotation of the Secret: until when certificates of before last, RFC 3339, UTC, and which generation of `users-ca` signed
/// them. Example: `2027-11-29T00:00:00Z 1`.
const REPLACED_UNTIL: &str = "covey.dev/replaced-until";

fn asked(observed: &Observed) -> Option<u32> {
    let turn = observed.cluster.spec.rotation.kubeconfig.as_ref();
    turn.map(|turn| turn.generation)
}

fn live(observed: &Observed) -> Option<&Value> {
    let metadata = &observed.cluster.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    let key = Key::new("Secret", namespace, &api::names::kubeconfig_secret(name));
    observed.look_up(&key).there()
}

fn annotation<'a>(live: &'a Value, name: &str) -> Option<&'a str> {
    live["metadata"]["annotations"][name].as_str()
}

/// The number that the certificate was made for which is there; the first where none stands there.
fn generation(live: &Value) -> u32 {
    let number = annotation(live, GENERATION).and_then(|number| number.parse().ok());
    number.unwrap_or(1)
}

/// The certificate that is there.
fn certificate(live: &Value) -> Option<KeyPair> {
    let value = STANDARD.decode(live["data"]["value"].as_str()?).ok()?;
    let data = BTreeMap::from([("value".to_owned(), value)]);
    let secrets = BTreeMap::from([(NAME.to_owned(), data)]);
    certificates::read_store(&secrets).store.remove(ADMIN)
}

/// Whether the certificate that was read, or made, is the one that is there.
fn is_there(observed: &Observed, there: &KeyPair) -> bool {
    let made = observed.material.store.get(ADMIN);
    made.is_some_and(|made| made.certificate == there.certificate)
}

/// Another certificate, where a higher number is asked for than the one that is there was made for.
pub(in super::super) fn due(observed: &Observed) -> Option<Due> {
    let (asked, live) = (asked(observed)?, live(observed)?);
    let there = certificate(live)?;
    let is_due = asked > generation(live) && is_there(observed, &there);
    is_due.then(|| Due {
        name: ADMIN.to_owned(),
        reason: Reason::SubjectChanged,
    })
}

/// The Secret, with the number that its certificate is made for. Where nobody ever asked for one it stays as it is.
pub(in super::super) fn numbered(secret: Object, observed: &Observed) -> Object {
    let live = live(observed);
    let before = live.filter(|live| annotation(live, GENERATION).is_some());
    if asked(observed).is_none() && before.is_none() {
        return secret;
    }
    let mut number = live.map_or(1, generation);
    let there = live.and_then(certificate);
    let is_same = there
        .as_ref()
        .is_some_and(|there| is_there(observed, there));
    if is_same && before.is_none() && asked(observed) > Some(number) {
        // The certificate that gets a number is not made yet.
        return secret;
    }
    let mut until = live.and_then(|live| annotation(live, REPLACED_UNTIL).map(str::to_owned));
    if !is_same {
        number = number.max(asked(observed).unwrap_or(1));
        let replaced = there.and_then(|there| end_of(observed, &there));
        until = later(observed, until, replaced);
    }
    let mut value = secret.value;
    let annotations = &mut value["metadata"]["annotations"];
    annotations[GENERATION] = json!(number.to_string());
    if let Some(until) = until {
        annotations[REPLACED_UNTIL] = json!(until);
    }
    Object::from_value(value)
}

/// When a certificate ends, and which generation signed it; none where nobody believes that one any more.
fn end_of(observed: &Observed, there: &KeyPair) -> Option<String> {
    let held = Store::from([(ADMIN.to_owned(), there.clone())]);
    let signer = seen::signer(observed, names::USERS_CA, (ADMIN, held))?;
    let end = pki::not_after(&there.certificate)?;
    Some(format!("{end} {signer}"))
}

/// Of two such ends the later one that is believed.
fn later(observed: &Observed, one: Option<String>, other: Option<String>) -> Option<String> {
    let ends = [one, other].into_iter().flatten();
    let ends = ends.filter_map(|text| Some((believed_until(observed, &text)?, text)));
    ends.max().map(|(_, text)| text)
}

fn believed_until(observed: &Observed, text: &str) -> Option<Timestamp> {
    let (end, signer) = text.split_once(' ')?;
    let signer: u32 = signer.parse().ok()?;
    let believed = seen::believed(observed, names::USERS_CA);
    believed.contains(&signer).then(|| end.parse().ok())?
}

/// What the status says of it; nothing where nobody ever asked for another one.
pub(super) fn told(
    observed: &Observed,
    before: Option<&RotationStatus>,
    now: Timestamp,
) -> Option<RotationStatus> {
    let (asked, live) = (asked(observed), live(observed));
    let numbered = live.filter(|live| annotation(live, GENERATION).is_some());
    if asked.is_none() && numbered.is_none() {
        return None;
    }
    let there = live.map_or(1, generation);
    let wanted = asked.unwrap_or(there);
    let phase = match wanted > there {
        true => RotationPhase::Switching,
        false => RotationPhase::Idle,
    };
    let until = live.and_then(|live| annotation(live, REPLACED_UNTIL));
    let until = until.and_then(|text| believed_until(observed, text));
    let since = before.filter(|before| before.phase == phase);
    Some(RotationStatus {
        name: NAME.to_owned(),
        generation: wanted,
        signs: there,
        believed: vec![there],
        phase,
        since: since.map_or_else(|| now.to_string(), |before| before.since.clone()),
        waiting_for: (wanted > there).then(|| {
            "the kubeconfig with another certificate to be written (conditions CertificatesReady and EndpointReady)"
                .to_owned()
        }),
        previous_until: until
            .filter(|until| *until > now)
            .map(|until| until.to_string()),
        signed_until: None,
        believed_since: None,
        told_since: None,
    })
}
