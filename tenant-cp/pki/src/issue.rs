//! Making keys and certificates: the only random part of the control plane's PKI.
//!
//! Invariant: every call makes a new key; a key is never used for two certificates; no certificate
//! outlives the authority that signed it.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{
    inspect::{Authority, Due, not_after},
    want::{Key, KeyPair, Signer, Store, Want},
};

/// How long before its making a certificate begins: clocks differ (kubeadm does the same).
const BACKDATE_SECONDS: u64 = 300;
/// Bytes of a serial number: 127 random bits, positive (RFC 5280 §4.1.2.2 allows up to 20 bytes).
const SERIAL_BYTES: usize = 16;
/// `organizationName` (X.520) in numbers: a second value of it, where the library holds one of each kind by name.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The wanted signer is not in the store.
    #[error("certificate {name:?} cannot be signed: there is no authority {signer:?}")]
    NoSigner {
        /// The certificate.
        name: String,
        /// The authority that is not there.
        signer: String,
    },
    /// A plan names something that is not wanted.
    #[error("certificate {0:?} is due but not wanted: plan and wants do not belong together")]
    NotWanted(String),
    /// The authority has ended: nobody would believe what it signs.
    #[error("certificate {name:?} cannot be signed: the authority {signer:?} ended at {end}")]
    SignerEnded {
        /// The certificate.
        name: String,
        /// The authority.
        signer: String,
        /// When it ended.
        end: Timestamp,
    },
    /// Something cannot stand in a certificate.
    #[error("certificate {name:?} cannot be made: {what}")]
    Unfit {
        /// The certificate.
        name: String,
        /// What does not fit.
        what: &'static str,
    },
    /// The cryptographic library refused.
    #[error("certificate {name:?} cannot be made: the library refused it")]
    Crypto {
        /// The certificate.
        name: String,
        /// Its reason.
        #[source]
        source: rcgen::Error,
    },
    /// The operating system has no random numbers.
    #[error("the operating system gave no random numbers")]
    Random,
}

/// Issues one certificate with a new key. `signer` is the authority's pair and is read only when
/// the want is not an authority itself. It ends with the authority, if that ends before it would: verifiers
/// refuse the whole chain then, and who looks at the leaf alone would believe that it still works.
pub fn issue(want: &Want, signer: Option<&KeyPair>, now: Timestamp) -> Result<KeyPair, Error> {
    let crypto = |source| Error::Crypto {
        name: want.name.clone(),
        source,
    };
    let params = params(want, now, signers_end(want, signer, now)?)?;
    let key = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(crypto)?;
    let certificate = match (&want.signer, signer) {
        (Signer::Own, _) => params.self_signed(&key).map_err(crypto)?,
        (Signer::By(_), Some(signer)) => {
            let signing_key = rcgen::KeyPair::from_pem(signer.key.reveal()).map_err(crypto)?;
            let issuer =
                Issuer::from_ca_cert_pem(&signer.certificate, signing_key).map_err(crypto)?;
            params.signed_by(&key, &issuer).map_err(crypto)?
        }
        (Signer::By(signer), None) => {
            return Err(Error::NoSigner {
                name: want.name.clone(),
                signer: signer.clone(),
            });
        }
    };
    Ok(KeyPair {
        certificate: certificate.pem(),
        key: Key::new(key.serialize_pem()),
    })
}

/// Issues everything that is due, in order, into the store.
pub fn renew(wants: &[Want], due: &[Due], store: &mut Store, now: Timestamp) -> Result<(), Error> {
    for Due { name, .. } in due {
        let want = wants
            .iter()
            .find(|want| want.name == *name)
            .ok_or_else(|| Error::NotWanted(name.clone()))?;
        let signer = match &want.signer {
            Signer::Own => None,
            Signer::By(signer) => store.get(signer),
        };
        let pair = issue(want, signer, now)?;
        store.insert(name.clone(), pair);
    }
    Ok(())
}

/// Signs somebody else's public key (SubjectPublicKeyInfo, DER) as a certificate that ends at `until`, and no later than
/// the authority. Whoever calls has made sure that the key is that of who asks ([`crate::request::read`]); names come
/// from `want` alone.
pub fn sign(
    want: &Want,
    public_key: &[u8],
    signer: &KeyPair,
    until: Timestamp,
    now: Timestamp,
) -> Result<String, Error> {
    let crypto = |source| Error::Crypto {
        name: want.name.clone(),
        source,
    };
    let end = signers_end(want, Some(signer), now)?;
    let latest = end.map_or(until, |end| end.min(until));
    let params = params(want, now, Some(latest))?;
    let key = SubjectPublicKeyInfo::from_der(public_key).map_err(crypto)?;
    let signing_key = rcgen::KeyPair::from_pem(signer.key.reveal()).map_err(crypto)?;
    let issuer = Issuer::from_ca_cert_pem(&signer.certificate, signing_key).map_err(crypto)?;
    let certificate = params.signed_by(&key, &issuer).map_err(crypto)?;
    Ok(certificate.pem())
}

/// Certifies the name and key of one authority by another one: a cross-certificate (PEM). Shown beside what `authority`
/// signed it is what those need who believe `signer` alone; who believes `authority` needs it not. It ends with the sooner
/// of both. Each comes with its name.
///
/// # Errors
/// [`Error`], also where the certificate of the authority is none that [`issue`] makes.
pub fn cross(
    (name, authority): (&str, &KeyPair),
    (signer_name, signer): (&str, &KeyPair),
    now: Timestamp,
) -> Result<String, Error> {
    let crypto = |source| Error::Crypto {
        name: name.to_owned(),
        source,
    };
    let unfit = |what| Error::Unfit {
        name: name.to_owned(),
        what,
    };
    let own = Authority::read(authority).ok_or_else(|| unfit("it is no authority"))?;
    let end = not_after(&signer.certificate);
    let end = end.ok_or_else(|| unfit("its signer is no certificate"))?;
    if end <= now {
        return Err(Error::SignerEnded {
            name: name.to_owned(),
            signer: signer_name.to_owned(),
            end,
        });
    }
    let want = Want {
        dns_names: own.dns_names,
        ..Want::authority(name, &own.common_name, u32::MAX)
    };
    let params = params(&want, now, Some(end.min(own.end)))?;
    let key = SubjectPublicKeyInfo::from_der(&own.public_key).map_err(crypto)?;
    let signing_key = rcgen::KeyPair::from_pem(signer.key.reveal()).map_err(crypto)?;
    let issuer = Issuer::from_ca_cert_pem(&signer.certificate, signing_key).map_err(crypto)?;
    let certificate = params.signed_by(&key, &issuer).map_err(crypto)?.pem();
    // Verifiers look for the issuer of a leaf by the bytes of its name.
    let made = KeyPair {
        certificate,
        key: Key::new(String::new()),
    };
    let is_same = Authority::read(&made).is_some_and(|made| made.subject == own.subject);
    match is_same {
        true => Ok(made.certificate),
        false => Err(unfit("its name cannot be written again")),
    }
}

/// A new key, and a request (PKCS #10, PEM) that is signed with it. The name in it is a wish: who signs says which it is.
pub fn request(common_name: &str) -> Result<(String, Key), Error> {
    let crypto = |source| Error::Crypto {
        name: common_name.to_owned(),
        source,
    };
    let key = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(crypto)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    let mut params = CertificateParams::new(Vec::<String>::new()).map_err(crypto)?;
    params.distinguished_name = subject;
    let request = params.serialize_request(&key).map_err(crypto)?;
    let request = request.pem().map_err(crypto)?;
    Ok((request, Key::new(key.serialize_pem())))
}

/// A key pair without certificate, for service account tokens (ES256): public key (PKIX PEM) and
/// private key (PKCS#8 PEM).
pub fn key_pair() -> Result<(String, Key), Error> {
    let key =
        rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|source| Error::Crypto {
            name: "service-account".to_owned(),
            source,
        })?;
    Ok((key.public_key_pem(), Key::new(key.serialize_pem())))
}

/// Random bytes from the operating system.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::Random)?;
    Ok(bytes)
}

/// When the authority ends; none for an authority itself, and where it cannot be read.
fn signers_end(
    want: &Want,
    signer: Option<&KeyPair>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    let Signer::By(name) = &want.signer else {
        return Ok(None);
    };
    match signer.and_then(|signer| not_after(&signer.certificate)) {
        Some(end) if end <= now => Err(Error::SignerEnded {
            name: want.name.clone(),
            signer: name.clone(),
            end,
        }),
        end => Ok(end),
    }
}

fn params(
    want: &Want,
    now: Timestamp,
    latest: Option<Timestamp>,
) -> Result<CertificateParams, Error> {
    let unfit = |what| Error::Unfit {
        name: want.name.clone(),
        what,
    };
    let seconds = u64::try_from(now.as_second()).map_err(|_| unfit("the time is before 1970"))?;
    let begin = seconds.saturating_sub(BACKDATE_SECONDS);
    let life = u64::from(want.lifetime_hours) * 3600;
    let latest = latest.and_then(|end| u64::try_from(end.as_second()).ok());
    let end = begin.saturating_add(life).min(latest.unwrap_or(u64::MAX));

    let mut params = CertificateParams::default();
    // `date_time_ymd` is the library's own way to a date; the rest is counted from there.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(begin);
    params.not_after = epoch + Duration::from_secs(end);
    params.serial_number = Some(serial()?);
    params.use_authority_key_identifier_extension = true;

    let mut subject = DistinguishedName::new();
    match want.organizations.as_slice() {
        [] => {}
        [organization] => subject.push(DnType::OrganizationName, organization.as_str()),
        // The library holds one value for each name of an attribute, and the second one by its number; a third would be
        // lost silently.
        [organization, second] => {
            subject.push(DnType::OrganizationName, organization.as_str());
            let by_number = DnType::CustomDnType(ORGANIZATION.to_vec());
            subject.push(by_number, second.as_str());
        }
        _ => return Err(unfit("it wants more than two organisations")),
    }
    subject.push(DnType::CommonName, want.common_name.as_str());
    params.distinguished_name = subject;

    for name in &want.dns_names {
        let name = name
            .clone()
            .try_into()
            .map_err(|_| unfit("a DNS name is not ASCII"))?;
        params.subject_alt_names.push(SanType::DnsName(name));
    }
    params
        .subject_alt_names
        .extend(want.addresses.iter().copied().map(SanType::IpAddress));

    if want.is_authority() {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
    } else {
        // ExplicitNoCa is what writes the SubjectKeyIdentifier into a leaf.
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    }
    if want.server {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    if want.client {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ClientAuth);
    }
    Ok(params)
}

fn serial() -> Result<SerialNumber, Error> {
    let mut bytes = random_bytes::<SERIAL_BYTES>()?;
    // A set top bit would need a leading zero byte, a leading zero would be dropped: keep neither.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

#[cfg(test)]
mod tests;
