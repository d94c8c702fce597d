//! Reads certificate signing requests (PKCS #10), and nothing but reads them.
//!
//! Invariant: a request whose own signature does not hold is not read at all, so whoever sent it
//! has the key that it speaks of.

use std::net::IpAddr;

use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    pem::parse_x509_pem,
    prelude::FromDer,
    public_key::PublicKey,
    x509::SubjectPublicKeyInfo,
};

/// Shortest RSA modulus that is accepted, in bits.
const LEAST_RSA_BITS: usize = 2048;
/// Shortest elliptic curve that is accepted, in bits.
const LEAST_CURVE_BITS: usize = 256;
/// Object identifier of Ed25519 (RFC 8410).
const ED25519: &str = "1.3.101.112";
/// Longest request that is read: ten times what a kubelet sends.
const MAX_BYTES: usize = 16 * 1024;

/// What a request asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Request {
    /// Common names of the subject, in order.
    pub common_names: Vec<String>,
    /// Organisations of the subject, in order.
    pub organizations: Vec<String>,
    /// DNS names in the subject alternative name.
    pub dns_names: Vec<String>,
    /// Addresses in the subject alternative name.
    pub addresses: Vec<IpAddr>,
    /// Names of any other kind in the subject alternative name (mail, URI, ...).
    pub other_names: usize,
    /// Whether it asks for an authority.
    pub authority: bool,
    /// The public key that it speaks of: SubjectPublicKeyInfo, DER.
    pub public_key: Vec<u8>,
    /// Why its key is too weak; none when it is strong enough.
    pub weak_key: Option<String>,
}

/// Reads a request (PEM). None when it is none, when it is absurdly long, or when it is not signed
/// with the key that it speaks of.
#[must_use]
pub fn read(pem: &[u8]) -> Option<Request> {
    if pem.len() > MAX_BYTES {
        return None;
    }
    let (_, pem) = parse_x509_pem(pem).ok()?;
    if !["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"].contains(&pem.label.as_str()) {
        return None;
    }
    let (rest, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    if !rest.is_empty() || request.verify_signature().is_err() {
        return None;
    }
    let info = &request.certification_request_info;
    let texts = |names: Vec<Result<&str, _>>| -> Option<Vec<String>> {
        let texts = names.into_iter().map(|name| name.map(str::to_owned).ok());
        texts.collect()
    };
    let mut read = Request {
        common_names: texts(
            info.subject
                .iter_common_name()
                .map(|n| n.as_str())
                .collect(),
        )?,
        organizations: texts(
            info.subject
                .iter_organization()
                .map(|n| n.as_str())
                .collect(),
        )?,
        public_key: info.subject_pki.raw.to_vec(),
        weak_key: weakness(&info.subject_pki),
        ..Request::default()
    };
    for extension in request.requested_extensions().into_iter().flatten() {
        match extension {
            ParsedExtension::SubjectAlternativeName(names) => {
                for name in &names.general_names {
                    read.take(name);
                }
            }
            ParsedExtension::BasicConstraints(constraints) => read.authority |= constraints.ca,
            // One that cannot be read may ask for anything.
            ParsedExtension::ParseError { .. } => return None,
            _ => {}
        }
    }
    Some(read)
}

impl Request {
    fn take(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => match crate::inspect::address(bytes) {
                Some(address) => self.addresses.push(address),
                None => self.other_names += 1,
            },
            _ => self.other_names += 1,
        }
    }
}

fn weakness(key: &SubjectPublicKeyInfo<'_>) -> Option<String> {
    let bits = match key.parsed() {
        Ok(PublicKey::RSA(rsa)) if rsa.key_size() >= LEAST_RSA_BITS => return None,
        Ok(PublicKey::EC(point)) if point.key_size() >= LEAST_CURVE_BITS => return None,
        Ok(PublicKey::Unknown(_)) if key.algorithm.algorithm.to_id_string() == ED25519 => {
            return None;
        }
        Ok(PublicKey::RSA(rsa)) => format!("an RSA key of {} bits", rsa.key_size()),
        Ok(PublicKey::EC(point)) => format!("an elliptic curve of {} bits", point.key_size()),
        _ => "a key of an unknown kind".to_owned(),
    };
    Some(bits)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn params() -> CertificateParams {
        let mut params = CertificateParams::new(vec!["demo-a1b2c".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:nodes");
        params
            .distinguished_name
            .push(DnType::CommonName, "system:node:demo-a1b2c");
        params
            .subject_alt_names
            .push(SanType::IpAddress([10, 0, 0, 7].into()));
        params
    }

    fn pem(params: &CertificateParams) -> String {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    #[test]
    fn everything_that_is_asked_for_is_read() {
        let mut params = params();
        params
            .subject_alt_names
            .push(SanType::URI("spiffe://x".to_owned().try_into().unwrap()));
        let request = read(pem(&params).as_bytes()).unwrap();
        let wanted = Request {
            common_names: vec!["system:node:demo-a1b2c".to_owned()],
            organizations: vec!["system:nodes".to_owned()],
            dns_names: vec!["demo-a1b2c".to_owned()],
            addresses: vec![[10, 0, 0, 7].into()],
            other_names: 1,
            authority: false,
            public_key: request.public_key.clone(),
            weak_key: None,
        };
        assert_eq!(request, wanted);
        assert!(request.public_key.starts_with(&[0x30]), "a key in DER");
    }

    #[test]
    fn request_that_is_signed_with_another_key_is_not_read() {
        use base64::Engine as _;
        let text = pem(&params());
        let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        let engine = base64::engine::general_purpose::STANDARD;
        let mut der = engine.decode(body).unwrap();
        // The common name stands before the key; the signature covers both.
        let at = der
            .windows(5)
            .position(|window| window == b"a1b2c")
            .unwrap();
        der[at] = b'z';
        let body = engine.encode(der);
        let forged = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n"
        );
        assert!(read(text.as_bytes()).is_some());
        assert_eq!(read(forged.as_bytes()), None);
        assert_eq!(read(b"no request"), None);
        assert_eq!(read(&[b'x'; MAX_BYTES + 1]), None);
    }
}
