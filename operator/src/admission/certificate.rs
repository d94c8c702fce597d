//! What the webhook's serving certificate and the `caBundle` of its configuration should be, one
//! step at a time.
//!
//! Every certificate has an authority of its own, whose key is thrown away once it has signed.
//! `ca.crt` of the Secret holds that authority and the one before it; `caBundle` is a copy.
//!
//! Invariant: from the first complete round on, `caBundle` holds the authority of whatever
//! certificate a replica may still serve: the bundle changes first, the certificate after API
//! servers had time to see it, and the former authority stays for a whole rotation.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kit::tls_reload::Certificate;
use pki::{Signer, Want};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Name of the Secret and of the Service.
pub const NAME: &str = "covey-webhook";
/// How long authority and certificate last: 90 days. A new pair is made when a third is left.
const LIFETIME_HOURS: u32 = 90 * 24;
/// When a third of the lifetime is left.
const EARLY: SignedDuration = SignedDuration::from_hours(LIFETIME_HOURS as i64 / 3);
/// How long API servers get to see a new bundle before the certificate follows.
const SETTLE: SignedDuration = SignedDuration::from_secs(10);
/// How often to look when nothing happens.
const CHECK: Duration = Duration::from_secs(3600);

/// The content of the Secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Material {
    /// `ca.crt`: authorities in PEM, the newest first.
    pub authorities: String,
    /// `tls.crt`: PEM.
    pub certificate: String,
    /// `tls.key`: PEM.
    pub key: pki::Key,
}

impl Material {
    /// Reads the Secret; none when it lacks one of the three keys, or one is no text.
    #[must_use]
    pub fn read(secret: &Secret) -> Option<Self> {
        let text = |key: &str| {
            let bytes = secret.data.as_ref()?.get(key)?;
            String::from_utf8(bytes.0.clone()).ok()
        };
        Some(Self {
            authorities: text("ca.crt")?,
            certificate: text("tls.crt")?,
            key: pki::Key::new(text("tls.key")?),
        })
    }
}

/// A new pair that is not in the Secret yet; in the leader's memory only.
#[derive(Clone, Debug)]
pub struct Next {
    /// The pair.
    pub material: Material,
    /// When its authority was first seen in the bundle.
    pub published: Option<Timestamp>,
}

/// What is there.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Secret, if there is one with all three keys.
    pub secret: Option<Material>,
    /// `caBundle` of each webhook in the configuration; none when there is no configuration.
    pub bundles: Option<Vec<String>>,
}

/// Why a new pair is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// There is no Secret, or it lacks a key.
    Missing,
    /// Certificate and key do not fit together, or are not PEM.
    Unreadable,
    /// An API server that trusts `ca.crt` would refuse it: another name, expired, other authority.
    Untrusted,
    /// Less than a third of its life is left.
    Expiring,
}

/// The next thing to do; after it, ask again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Make a new pair in memory.
    Issue(Reason),
    /// Write this text into `caBundle` of every webhook.
    Publish(String),
    /// Note that the bundle now holds the new authority.
    Published,
    /// Write the new pair into the Secret and forget it in memory.
    Store,
    /// All is well, or it is too early: look again after this time at the latest.
    Wait(Duration),
}

/// The next step of the leader.
#[must_use]
pub fn plan(observed: &Observed, next: Option<&Next>, namespace: &str, now: Timestamp) -> Step {
    let due = due(observed.secret.as_ref(), namespace, now);
    let wanted = match (&next, &observed.secret, due) {
        // A pair made for a Secret that has become good meanwhile (another leader's) is dropped.
        (Some(next), _, Some(_)) => &next.material.authorities,
        (None, _, Some(reason)) => return Step::Issue(reason),
        (_, Some(secret), None) => &secret.authorities,
        (_, None, None) => return Step::Issue(Reason::Missing),
    };
    let in_place = |bundles: &Vec<String>| bundles.iter().all(|bundle| bundle == wanted);
    if !observed.bundles.as_ref().is_none_or(in_place) {
        return Step::Publish(wanted.clone());
    }
    let (Some(next), Some(due)) = (next, due) else {
        return Step::Wait(CHECK);
    };
    let Some(published) = next.published else {
        return Step::Published;
    };
    // Nothing is lost by a switch while nobody can trust what is served.
    let settled = published.saturating_add(SETTLE).unwrap_or(published);
    if due == Reason::Expiring && observed.bundles.is_some() && now < settled {
        let left = Duration::try_from(now.duration_until(settled)).unwrap_or_default();
        return Step::Wait(left.max(Duration::from_millis(100)));
    }
    Step::Store
}

/// Why a new pair is needed, if it is.
#[must_use]
pub fn due(secret: Option<&Material>, namespace: &str, now: Timestamp) -> Option<Reason> {
    let Some(secret) = secret else {
        return Some(Reason::Missing);
    };
    let key = secret.key.reveal().as_bytes();
    if Certificate::from_pem(secret.certificate.as_bytes(), key).is_err() {
        return Some(Reason::Unreadable);
    }
    if !trusted(secret, namespace, now) {
        return Some(Reason::Untrusted);
    }
    let early = now.saturating_add(EARLY).unwrap_or(now);
    (!trusted(secret, namespace, early)).then_some(Reason::Expiring)
}

/// Whether a client that trusts `authorities` and calls the Service takes the certificate at this
/// time: exactly what an API server does.
fn trusted(material: &Material, namespace: &str, at: Timestamp) -> bool {
    let check = || -> Option<()> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(material.authorities.as_bytes()) {
            roots.add(authority.ok()?).ok()?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .ok()?;
        let leaf = CertificateDer::from_pem_slice(material.certificate.as_bytes()).ok()?;
        let seconds = u64::try_from(at.as_second()).ok()?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for name in names(namespace) {
            let name = ServerName::try_from(name).ok()?;
            verifier
                .verify_server_cert(&leaf, &[], &name, &[], at)
                .ok()?;
        }
        Some(())
    };
    check().is_some()
}

/// The names by which API servers (the first) and people call the Service.
fn names(namespace: &str) -> [String; 2] {
    [
        format!("{NAME}.{namespace}.svc"),
        format!("{NAME}.{namespace}.svc.cluster.local"),
    ]
}

/// Makes a new authority and certificate; the former authority stays trusted.
///
/// # Errors
/// When the cryptographic library refuses.
pub fn issue(
    former: Option<&Material>,
    namespace: &str,
    now: Timestamp,
) -> Result<Material, pki::Error> {
    let authority = Want {
        name: "webhook-ca".to_owned(),
        signer: Signer::Own,
        common_name: "covey-webhook-ca".to_owned(),
        organizations: Vec::new(),
        server: false,
        client: false,
        dns_names: Vec::new(),
        addresses: Vec::new(),
        lifetime_hours: LIFETIME_HOURS,
    };
    let leaf = Want {
        name: "webhook".to_owned(),
        signer: Signer::By(authority.name.clone()),
        common_name: NAME.to_owned(),
        server: true,
        dns_names: names(namespace).to_vec(),
        ..authority.clone()
    };
    let signer = pki::issue(&authority, None, now)?;
    let pair = pki::issue(&leaf, Some(&signer), now)?;
    let mut authorities = signer.certificate;
    if let Some(former) = former.and_then(|former| newest_authority(former, now)) {
        authorities.push_str(&former);
    }
    Ok(Material {
        authorities,
        certificate: pair.certificate,
        key: pair.key,
    })
}

/// The first authority of `ca.crt`, unless it is no certificate (the API refuses such a bundle) or
/// has ended.
fn newest_authority(material: &Material, now: Timestamp) -> Option<String> {
    const END: &str = "-----END CERTIFICATE-----\n";
    let text = &material.authorities;
    let first = text.split_inclusive(END).next()?;
    (first.ends_with(END) && pki::not_after(first)? > now).then(|| first.to_owned())
}

#[cfg(test)]
mod tests;
