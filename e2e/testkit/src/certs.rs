//! Certificates of the tests: one authority per use, P-256 keys, loopback names.
//!
//! Invariant: nothing here is used by the operator; what is issued never leaves a test.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// Common name of the one authenticating proxy that management APIs believe.
pub(crate) const PROXY: &str = "testkit-fault-proxy";

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub cert: String,
    /// The key (PKCS#8).
    pub key: String,
}

/// A self-signed authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// A new authority with a new key.
    pub fn new(name: &str) -> Result<Self> {
        let params = authority(name)?;
        let key = KeyPair::generate().context("cannot generate a key")?;
        let certificate = params
            .self_signed(&key)
            .context("cannot sign an authority")?;
        Ok(Self {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The authority that another process made by [`Self::new`] with this name, from its certificate
    /// and its key.
    pub fn known(name: &str, pem: &str, key: &str) -> Result<Self> {
        let key = KeyPair::from_pem(key).context("not a key")?;
        Ok(Self {
            pem: pem.to_owned(),
            issuer: Issuer::new(authority(name)?, key),
        })
    }

    /// The authority's certificate as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.pem.clone()
    }

    /// The authority's key as PEM, for [`Self::known`].
    pub(crate) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A serving certificate for 127.0.0.1, `localhost` and further DNS names or addresses.
    pub fn server(&self, name: &str, sans: &[&str]) -> Result<Identity> {
        let mut params = params(name, &[])?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        for san in ["localhost"].iter().chain(sans) {
            params.subject_alt_names.push(name_or_address(san)?);
        }
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate: common name and, as organisations, at most two groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        self.issue(params(user, groups)?, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().context("cannot generate a key")?;
        let cert = params
            .signed_by(&key, &self.issuer)
            .context("cannot sign a certificate")?;
        Ok(Identity {
            cert: cert.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A request for a certificate (PKCS #10, PEM) with a key of its own, for this subject and these DNS
/// names or addresses.
pub fn request(user: &str, group: &str, sans: &[&str]) -> Result<String> {
    let mut params = params(user, &[group])?;
    for san in sans {
        params.subject_alt_names.push(name_or_address(san)?);
    }
    let key = KeyPair::generate().context("cannot generate a key")?;
    let request = params.serialize_request(&key);
    let request = request.context("cannot sign a request")?;
    request.pem().context("cannot write a request")
}

fn name_or_address(san: &str) -> Result<SanType> {
    Ok(match san.parse() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(san.try_into().context("not a DNS name")?),
    })
}

fn authority(name: &str) -> Result<CertificateParams> {
    let mut params = params(name, &[])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    Ok(params)
}

fn params(name: &str, groups: &[&str]) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).context("no subject names")?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // A subject of rcgen is a map by type; the same attribute fits in twice by its bare OID.
    let types = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    if groups.len() > types.len() {
        bail!("a client certificate of a test has at most two groups, not {groups:?}");
    }
    for (kind, group) in types.into_iter().zip(groups) {
        params.distinguished_name.push(kind, *group);
    }
    Ok(params)
}
