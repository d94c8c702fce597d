//! What there is, compared with what is wanted: the list of certificates that are due.
//!
//! Invariant: an authority that is there is never due; replacing it would cut off every client.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use jiff::Timestamp;
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    pem::{Pem, parse_x509_pem},
    prelude::FromDer,
};

use crate::proven::Proven;
use crate::want::{Key, KeyPair, Signer, Store, Want};

/// A certificate that must be issued (again).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Due {
    /// Name of the [`Want`].
    pub name: String,
    /// Why.
    pub reason: Reason,
}

/// Why a certificate must be issued.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// There is none.
    Missing,
    /// It is not a PEM certificate, or its key is not a PEM key.
    Unreadable,
    /// Less than a third of its life is left, or it is not valid yet.
    Expiring,
    /// The wanted authority did not sign it.
    SignerChanged,
    /// Common name, organisations or usages differ.
    SubjectChanged,
    /// DNS names or addresses differ.
    NamesChanged,
    /// The key is not the one that the certificate speaks of.
    KeyMismatch,
}

/// An authority that needs a person: it is there, so it is not replaced, but it is no good.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuthorityProblem {
    /// Name of the authority.
    pub name: String,
    /// What is wrong: [`Reason::Unreadable`], [`Reason::Expiring`] or [`Reason::KeyMismatch`].
    pub reason: Reason,
}

/// What must be issued, authorities first, otherwise in the order of `wants`.
///
/// A leaf whose authority is not in the store comes after it, as [`Reason::SignerChanged`] or
/// [`Reason::Missing`]. A leaf whose authority is no good ([`authority_problems`]) or has ended does not
/// come: nobody could sign it.
#[must_use]
pub fn plan(wants: &[Want], store: &Store, now: Timestamp) -> Vec<Due> {
    let broken: BTreeSet<String> = authority_problems(wants, store, now)
        .into_iter()
        .filter(|problem| problem.reason != Reason::Expiring)
        .map(|problem| problem.name)
        .collect();
    let mut authorities = Vec::new();
    let mut leafs = Vec::new();
    for want in wants {
        match &want.signer {
            Signer::Own if store.contains_key(&want.name) => {}
            Signer::Own => {
                authorities.push(Due {
                    name: want.name.clone(),
                    reason: Reason::Missing,
                });
            }
            Signer::By(signer) if broken.contains(signer) || has_ended(store, signer, now) => {}
            Signer::By(signer) => {
                let pair = store.get(&want.name);
                if let Some(reason) = leaf_reason(want, pair, store.get(signer), now) {
                    leafs.push(Due {
                        name: want.name.clone(),
                        reason,
                    });
                }
            }
        }
    }
    authorities.append(&mut leafs);
    authorities
}

/// What is wrong with the authorities that are there.
#[must_use]
pub fn authority_problems(wants: &[Want], store: &Store, now: Timestamp) -> Vec<AuthorityProblem> {
    let reason = |want: &Want| {
        let pair = store.get(&want.name)?;
        let Some(pem) = read_pem(&pair.certificate) else {
            return Some(Reason::Unreadable);
        };
        let Some(certificate) = read_certificate(&pem) else {
            return Some(Reason::Unreadable);
        };
        match key_matches(pair, &certificate) {
            None => Some(Reason::Unreadable),
            Some(false) => Some(Reason::KeyMismatch),
            Some(true) if !has_life(&certificate, now) => Some(Reason::Expiring),
            Some(true) => None,
        }
    };
    wants
        .iter()
        .filter(|want| want.is_authority())
        .filter_map(|want| {
            Some(AuthorityProblem {
                name: want.name.clone(),
                reason: reason(want)?,
            })
        })
        .collect()
}

fn has_ended(store: &Store, authority: &str, now: Timestamp) -> bool {
    let pair = store.get(authority);
    let end = pair.and_then(|pair| not_after(&pair.certificate));
    end.is_some_and(|end| end <= now)
}

/// When a certificate (PEM) ends; none when it is not one.
#[must_use]
pub fn not_after(pem: &str) -> Option<Timestamp> {
    let pem = read_pem(pem)?;
    let certificate = read_certificate(&pem)?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

/// What a certificate says of who signed it, and of which key it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Issued {
    /// Common name of the authority that signed it; none where that has none, or several.
    pub by: Option<String>,
    /// Its public key: SubjectPublicKeyInfo, DER.
    pub public_key: Vec<u8>,
}

/// Reads the first certificate of a file (PEM); none when it is none. Its signature is not verified: it is for who has it from
/// whoever signed.
#[must_use]
pub fn issued(pem: &str) -> Option<Issued> {
    let pem = read_pem(pem)?;
    let certificate = read_certificate(&pem)?;
    let names: Vec<_> = certificate.issuer().iter_common_name().collect();
    let by = match names.as_slice() {
        [name] => name.as_str().ok().map(str::to_owned),
        _ => None,
    };
    Some(Issued {
        by,
        public_key: certificate.public_key().raw.to_vec(),
    })
}

/// A leaf of the store as it is, for where nobody can say what is wanted: to issue it again changes
/// nothing but its time. None when it is an authority, cannot be read, or none of the store's authorities
/// signed it.
#[must_use]
pub fn as_issued(name: &str, store: &Store) -> Option<Want> {
    let pair = store.get(name)?;
    let pem = read_pem(&pair.certificate)?;
    let certificate = read_certificate(&pem).filter(|certificate| !certificate.is_ca())?;
    let signed = |(_, signer): &(&String, &KeyPair)| signed_by(pair, &certificate, signer);
    let (signer, _) = store.iter().find(signed)?;
    let subject = certificate.subject();
    let (server, client) = usages(&certificate);
    let mut want = Want {
        name: name.to_owned(),
        signer: Signer::By(signer.clone()),
        common_name: subject.iter_common_name().next()?.as_str().ok()?.to_owned(),
        organizations: subject
            .iter_organization()
            .filter_map(|name| Some(name.as_str().ok()?.to_owned()))
            .collect(),
        server,
        client,
        dns_names: Vec::new(),
        addresses: Vec::new(),
        lifetime_hours: 0,
    };
    let extension = certificate.subject_alternative_name().ok()?;
    for name in extension
        .iter()
        .flat_map(|found| &found.value.general_names)
    {
        match name {
            GeneralName::DNSName(name) => want.dns_names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => want.addresses.push(address(bytes)?),
            _ => return None,
        }
    }
    let validity = certificate.validity();
    let seconds = validity.not_after.timestamp() - validity.not_before.timestamp();
    want.lifetime_hours = u32::try_from(seconds / 3600).ok()?;
    Some(want)
}

/// What of an authority stands in its cross-certificate, too.
pub(crate) struct Authority {
    /// Its name, DER.
    pub(crate) subject: Vec<u8>,
    pub(crate) common_name: String,
    pub(crate) dns_names: Vec<String>,
    /// SubjectPublicKeyInfo, DER.
    pub(crate) public_key: Vec<u8>,
    pub(crate) end: Timestamp,
}

impl Authority {
    /// None where the certificate is none of an authority, or names something else than hosts.
    pub(crate) fn read(pair: &KeyPair) -> Option<Self> {
        let pem = read_pem(&pair.certificate)?;
        let certificate = read_certificate(&pem).filter(|certificate| certificate.is_ca())?;
        let subject = certificate.subject();
        let mut dns_names = Vec::new();
        let names = certificate.subject_alternative_name().ok()?;
        for name in names.iter().flat_map(|found| &found.value.general_names) {
            match name {
                GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                _ => return None,
            }
        }
        Some(Self {
            subject: subject.as_raw().to_vec(),
            common_name: subject.iter_common_name().next()?.as_str().ok()?.to_owned(),
            dns_names,
            public_key: certificate.public_key().raw.to_vec(),
            end: Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?,
        })
    }
}

/// Whether a certificate (PEM) is a cross-certificate: of the name and key of `authority`, signed by `signer`.
#[must_use]
pub fn is_crossed(certificate: &str, authority: &KeyPair, signer: &KeyPair) -> bool {
    let pair = KeyPair {
        certificate: certificate.to_owned(),
        key: Key::new(String::new()),
    };
    let same = match (Authority::read(&pair), Authority::read(authority)) {
        (Some(made), Some(own)) => made.subject == own.subject && made.public_key == own.public_key,
        _ => false,
    };
    let is_signed = || {
        let pem = read_pem(certificate)?;
        Some(signed_by(&pair, &read_certificate(&pem)?, signer))
    };
    same && is_signed() == Some(true)
}

/// The first certificate of a file (PEM), and what comes after it: what is shown with it.
#[must_use]
pub fn first_certificate(chain: &str) -> (&str, &str) {
    const END: &str = "-----END CERTIFICATE-----";
    let Some((first, rest)) = chain.split_once(END) else {
        return (chain, "");
    };
    let line = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    chain.split_at(first.len() + END.len() + line)
}

/// SHA-256 of the public keys of certificates (PEM, one or more) as `kubeadm join` pins them: over the DER
/// of the SubjectPublicKeyInfo (kubeadm `util/pubkeypin`). None when one of them is no certificate, or
/// there is none.
#[must_use]
pub fn public_key_pins(bundle: &str) -> Option<Vec<String>> {
    let pin = |pem: Pem| {
        let certificate = read_certificate(&pem).filter(|_| pem.label == "CERTIFICATE")?;
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate.public_key().raw);
        let hex: String = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(format!("sha256:{hex}"))
    };
    let pins: Option<Vec<_>> = Pem::iter_from_buffer(bundle.as_bytes())
        .map(|pem| pin(pem.ok()?))
        .collect();
    pins.filter(|pins| !pins.is_empty())
}

/// SHA-256 of each certificate of a bundle (PEM), in hexadecimal digits, in its order. None where one of them is none.
#[must_use]
pub fn certificate_fingerprints(bundle: &str) -> Option<Vec<String>> {
    let fingerprint = |pem: Pem| {
        read_certificate(&pem).filter(|_| pem.label == "CERTIFICATE")?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &pem.contents);
        let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Some(digits.collect::<String>())
    };
    let all: Option<Vec<_>> = Pem::iter_from_buffer(bundle.as_bytes())
        .map(|pem| fingerprint(pem.ok()?))
        .collect();
    all.filter(|all| !all.is_empty())
}

/// SHA-256 of a public key (PEM, `PUBLIC KEY`): the name that a token has of the key that signed it is this in base64
/// (kubernetes `pkg/serviceaccount/jwt.go`, 1.35). None where it is none.
#[must_use]
pub fn public_key_digest(public: &str) -> Option<Vec<u8>> {
    let pem = Pem::iter_from_buffer(public.as_bytes()).next()?.ok()?;
    let is_key = pem.label == "PUBLIC KEY";
    let digest = ring::digest::digest(&ring::digest::SHA256, &pem.contents);
    is_key.then(|| digest.as_ref().to_vec())
}

fn leaf_reason(
    want: &Want,
    pair: Option<&KeyPair>,
    signer: Option<&KeyPair>,
    now: Timestamp,
) -> Option<Reason> {
    let Some(pair) = pair else {
        return Some(Reason::Missing);
    };
    let Some(pem) = read_pem(&pair.certificate) else {
        return Some(Reason::Unreadable);
    };
    let Some(certificate) = read_certificate(&pem) else {
        return Some(Reason::Unreadable);
    };
    match key_matches(pair, &certificate) {
        None => return Some(Reason::Unreadable),
        Some(false) => return Some(Reason::KeyMismatch),
        Some(true) => {}
    }
    if !signer.is_some_and(|signer| signed_by(pair, &certificate, signer)) {
        Some(Reason::SignerChanged)
    } else if !subject_matches(want, &certificate) {
        Some(Reason::SubjectChanged)
    } else if !names_match(want, &certificate) {
        Some(Reason::NamesChanged)
    } else if !has_life(&certificate, now) && !ends_with(&certificate, signer, now) {
        Some(Reason::Expiring)
    } else {
        None
    }
}

/// Whether a leaf that is valid lasts as long as its authority: another one would not last longer, and
/// would be due again after two thirds of the rest, and so on, ever faster.
fn ends_with(leaf: &X509Certificate<'_>, signer: Option<&KeyPair>, now: Timestamp) -> bool {
    let end = signer.and_then(|signer| not_after(&signer.certificate));
    let validity = leaf.validity();
    validity.not_before.timestamp() <= now.as_second()
        && end.is_some_and(|end| validity.not_after.timestamp() == end.as_second())
}

fn read_pem(text: &str) -> Option<Pem> {
    let (_, pem) = parse_x509_pem(text.as_bytes()).ok()?;
    (pem.label == "CERTIFICATE").then_some(pem)
}

fn read_certificate(pem: &Pem) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(&pem.contents)
        .ok()
        .map(|(_, certificate)| certificate)
}

/// None: the key cannot be read.
fn key_matches(pair: &KeyPair, certificate: &X509Certificate<'_>) -> Option<bool> {
    static PROVEN: Proven = Proven::new();
    PROVEN.or_prove([&pair.certificate, pair.key.reveal()], || {
        let key = rcgen::KeyPair::from_pem(pair.key.reveal()).ok()?;
        Some(key.public_key_raw() == certificate.public_key().subject_public_key.data.as_ref())
    })
}

/// Whether a third of the life, or more, is left.
fn has_life(certificate: &X509Certificate<'_>, now: Timestamp) -> bool {
    let begin = certificate.validity().not_before.timestamp();
    let end = certificate.validity().not_after.timestamp();
    let now = now.as_second();
    let left = i128::from(end) - i128::from(now);
    begin <= now && left > 0 && left * 3 >= i128::from(end) - i128::from(begin)
}

/// Whether `certificate`, which `leaf` has, was signed by an authority.
fn signed_by(leaf: &KeyPair, certificate: &X509Certificate<'_>, signer: &KeyPair) -> bool {
    static PROVEN: Proven = Proven::new();
    let signed = PROVEN.or_prove([&leaf.certificate, &signer.certificate], || {
        let pem = read_pem(&signer.certificate)?;
        let authority = read_certificate(&pem)?;
        let is_issuer = certificate.issuer() == authority.subject();
        let verify = || certificate.verify_signature(Some(authority.public_key()));
        Some(is_issuer && verify().is_ok())
    });
    signed == Some(true)
}

fn subject_matches(want: &Want, certificate: &X509Certificate<'_>) -> bool {
    let subject = certificate.subject();
    let common_names: Vec<_> = subject
        .iter_common_name()
        .filter_map(|name| name.as_str().ok())
        .collect();
    let organizations: BTreeSet<_> = subject
        .iter_organization()
        .filter_map(|name| name.as_str().ok())
        .collect();
    common_names == [want.common_name.as_str()]
        && organizations == want.organizations.iter().map(String::as_str).collect()
        && usages(certificate) == (want.server, want.client)
        && !certificate.is_ca()
}

/// Whether it may be a server's, and a client's.
fn usages(certificate: &X509Certificate<'_>) -> (bool, bool) {
    let usage = certificate.extended_key_usage().ok().flatten();
    usage.map_or((false, false), |usage| {
        (
            usage.value.server_auth || usage.value.any,
            usage.value.client_auth || usage.value.any,
        )
    })
}

fn names_match(want: &Want, certificate: &X509Certificate<'_>) -> bool {
    let Ok(extension) = certificate.subject_alternative_name() else {
        return false;
    };
    let mut found = BTreeSet::new();
    for name in extension
        .iter()
        .flat_map(|extension| &extension.value.general_names)
    {
        let text = match name {
            GeneralName::DNSName(name) => (*name).to_owned(),
            GeneralName::IPAddress(bytes) => match address(bytes) {
                Some(address) => address.to_string(),
                None => return false,
            },
            _ => return false,
        };
        found.insert(text);
    }
    let addresses = want.addresses.iter().map(ToString::to_string);
    let wanted: BTreeSet<String> = want.dns_names.iter().cloned().chain(addresses).collect();
    found == wanted
}

pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|v6| Ipv6Addr::from(v6).into())
}

#[cfg(test)]
mod tests;
