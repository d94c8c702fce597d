//! The small authority between adapter and Cluster Autoscaler, and certificates that it must refuse.
//!
//! Invariant: what is good and what is not differ in one thing each.

use anyhow::Result;
use autoscaler_client::Credentials;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// The name in the certificate of the port.
pub(crate) const SERVER: &str = "autoscaler.covey-demo-0123456789.svc";

/// An authority, and a certificate of the port that it issued.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Certificate and key of the port, as PEM.
    pub(crate) server: (String, String),
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let mut params = CertificateParams::new(vec![SERVER.to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server = issue(&issuer, &params)?;
        Ok(Self { issuer, server })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// What a client shows that may connect.
    pub(crate) fn client(&self) -> Result<Credentials> {
        self.issued(|_| {})
    }

    /// What a client shows whose time is over.
    pub(crate) fn expired(&self) -> Result<Credentials> {
        self.issued(|params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 2, 1);
        })
    }

    /// What a client shows that another authority knows.
    pub(crate) fn foreign(&self) -> Result<Credentials> {
        let ca = self.pem();
        let other = Self::new()?.client()?;
        Ok(Credentials { ca, ..other })
    }

    /// A client that shows nothing.
    pub(crate) fn nobody(&self) -> Credentials {
        Credentials {
            ca: self.pem(),
            identity: None,
        }
    }

    fn issued(&self, change: impl FnOnce(&mut CertificateParams)) -> Result<Credentials> {
        let mut params = CertificateParams::new(vec!["cluster-autoscaler".to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        Ok(Credentials {
            ca: self.pem(),
            identity: Some(issue(&self.issuer, &params)?),
        })
    }
}

fn issue(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    params: &CertificateParams,
) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
