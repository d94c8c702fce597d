//! What a request is signed with (documentation, "Signature Version 4"), by `aws-sigv4`. Pure.
//!
//! Invariant: what is signed is what is sent: the method, the address with its host, the type of the body and all of the body. The
//! time is the cloud's, as far as that was heard.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use jiff::Timestamp;

use crate::credentials::Keys;

/// A request to be signed: a form that is posted.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// `ec2` or `sts`.
    pub service: &'a str,
    /// `eu-central-1`.
    pub region: &'a str,
    /// The whole address.
    pub address: &'a str,
    /// What type the body is of.
    pub type_: &'a str,
    /// What is sent.
    pub body: &'a [u8],
}

/// The headers that say so, by name; none of them may be shown. Nothing but an address that is none keeps a request from
/// being signed.
///
/// # Errors
/// Why it cannot be signed.
pub fn headers(
    signed: Signed<'_>,
    keys: &Keys,
    now: Timestamp,
) -> Result<Vec<(&'static str, String)>, String> {
    let (id, secret) = (keys.id.as_str(), keys.secret.as_str());
    let identity = Credentials::new(id, secret, keys.session.clone(), None, "covey").into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(signed.region)
        .name(signed.service)
        .time(time(now))
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| error.to_string())?
        .into();
    let headers = [("content-type", signed.type_)].into_iter();
    let body = SignableBody::Bytes(signed.body);
    let request = SignableRequest::new("POST", signed.address, headers, body);
    let request = request.map_err(|error| error.to_string())?;
    let output = sign(request, &params).map_err(|error| error.to_string())?;
    let (headers, _) = output.into_parts().0.into_parts();
    let headers = headers.iter();
    Ok(headers
        .map(|header| (header.name(), header.value().to_owned()))
        .collect())
}

fn time(now: Timestamp) -> SystemTime {
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `post-x-www-form-urlencoded` of the test suite of Signature Version 4.
    #[test]
    fn signature_is_that_of_the_published_suite() {
        let keys = Keys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session: None,
        };
        let signed = Signed {
            service: "service",
            region: "us-east-1",
            address: "https://example.amazonaws.com/",
            type_: "application/x-www-form-urlencoded",
            body: b"Param1=value1",
        };
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        let headers = headers(signed, &keys, now).unwrap();
        let of = |name: &str| headers.iter().find(|(known, _)| *known == name).unwrap();
        assert_eq!(of("x-amz-date").1, "20150830T123600Z");
        assert_eq!(
            of("authorization").1,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
        );
    }

    #[test]
    fn session_is_signed_with_its_token() {
        let keys = Keys {
            id: "ASIA".to_owned(),
            secret: "s".to_owned(),
            session: Some("t".to_owned()),
        };
        let signed = Signed {
            service: "ec2",
            region: "eu-central-1",
            address: "https://ec2.eu-central-1.amazonaws.com/",
            type_: "application/x-www-form-urlencoded",
            body: b"",
        };
        let headers = headers(signed, &keys, Timestamp::UNIX_EPOCH).unwrap();
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&"x-amz-security-token"), "{names:?}");
    }
}
