//! Signature Version 4, computed anew of what came (documentation, "Create a signed AWS API request").
//!
//! Invariant: what is not signed is not let in, and a signature of another body, host or time is another one.

use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use ring::{digest, hmac};

/// How far the time of a signature may be off.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// What a request says of who asks.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) key: String,
    pub(super) region: String,
    pub(super) service: String,
    date: String,
    headers: Vec<String>,
    signature: String,
}

/// What is wrong with a signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wrong {
    /// It is too old.
    Old,
    /// It is of a time that is yet to come.
    Early,
    /// It is another one.
    Other,
}

impl Claim {
    /// None: it is not signed.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get("authorization")?.to_str().ok()?;
        let rest = value.strip_prefix("AWS4-HMAC-SHA256 ")?;
        let field = |name: &str| {
            let mut fields = rest.split(", ");
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let mut scope = field("Credential")?.split('/');
        let mut next = || scope.next().map(str::to_owned);
        let (key, date) = (next()?, next()?);
        let (region, service) = (next()?, next()?);
        let headers = field("SignedHeaders")?.split(';').map(str::to_owned);
        Some(Self {
            key,
            region,
            service,
            date,
            headers: headers.collect(),
            signature: field("Signature")?.to_owned(),
        })
    }

    /// Whether a secret made it, of this request and about now.
    pub(super) fn verify(
        &self,
        secret: &str,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), Wrong> {
        let value = |name: &str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().trim()
        };
        let at = value("x-amz-date");
        let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", at);
        let time = time.and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC));
        let Ok(time) = time.map(|time| time.timestamp()) else {
            return Err(Wrong::Other);
        };
        let must = ["host", "x-amz-date"];
        let has = |name: &&str| self.headers.iter().any(|known| known == name);
        if !must.iter().all(has) || !at.starts_with(&self.date) {
            return Err(Wrong::Other);
        }
        let signed = self.headers.iter();
        let signed: String = signed
            .map(|name| format!("{name}:{}\n", value(name)))
            .collect();
        let request = format!(
            "POST\n/\n\n{signed}\n{}\n{}",
            self.headers.join(";"),
            hex(digest::digest(&digest::SHA256, body).as_ref())
        );
        let scope = format!(
            "{}/{}/{}/aws4_request",
            self.date, self.region, self.service
        );
        let hashed = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
        let to_sign = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashed}");
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in scope.split('/') {
            key = signature(&key, part);
        }
        if hex(&signature(&key, &to_sign)) != self.signature {
            return Err(Wrong::Other);
        }
        match now.duration_since(time) {
            off if off > SKEW => Err(Wrong::Old),
            off if off < -SKEW => Err(Wrong::Early),
            _ => Ok(()),
        }
    }
}

fn signature(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
