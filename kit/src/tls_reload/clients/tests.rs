//! Who is let in.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::*;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Authority {
        pem: params.self_signed(&key).unwrap().pem(),
        issuer: Issuer::new(params, key),
    }
}

impl Authority {
    /// Holds throughout 2026.
    fn issue(&self) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &self.issuer).unwrap().der().clone()
    }
}

/// Whether `clients` let it in so many days after the beginning of 2026.
fn lets_in(clients: &Clients, certificate: &CertificateDer<'_>, days: u64) -> bool {
    let now = Duration::from_secs(1_767_225_600 + days * 86_400);
    let now = UnixTime::since_unix_epoch(now);
    let verified = clients.verifier().verify_client_cert(certificate, &[], now);
    verified.is_ok()
}

#[test]
fn only_certificates_of_the_authority_are_let_in_and_only_while_they_hold() {
    let (ours, foreign) = (authority(), authority());
    let clients = Clients::from_pem(ours.pem.as_bytes()).unwrap();
    let certificate = ours.issue();
    assert!(lets_in(&clients, &certificate, 100));
    assert!(!lets_in(&clients, &certificate, 400), "it has expired");
    assert!(!lets_in(&clients, &foreign.issue(), 100));
    assert!(clients.verifier().client_auth_mandatory());
}

#[test]
fn a_swapped_authority_holds_at_once_and_one_that_is_none_is_not_taken() {
    let (old, new) = (authority(), authority());
    let clients = Clients::default();
    assert!(!lets_in(&clients, &old.issue(), 1), "there is none yet");
    clients.replace(old.pem.as_bytes()).unwrap();
    for none in ["", "nonsense"] {
        let refused = clients.replace(none.as_bytes());
        assert!(matches!(refused, Err(Error::Authority)), "{none}");
    }
    assert!(lets_in(&clients, &old.issue(), 1));
    let both = format!("{}{}", old.pem, new.pem);
    clients.replace(both.as_bytes()).unwrap();
    assert!(lets_in(&clients, &old.issue(), 1) && lets_in(&clients, &new.issue(), 1));
    clients.replace(new.pem.as_bytes()).unwrap();
    assert!(!lets_in(&clients, &old.issue(), 1) && lets_in(&clients, &new.issue(), 1));
}
