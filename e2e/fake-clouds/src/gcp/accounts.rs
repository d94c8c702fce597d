//! Who is let in: an assertion that an account signed becomes a token, and a token is looked at with each call.
//!
//! Invariant: an assertion is good for an hour at most, by the server's time, five minutes either way.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};

use super::contents::{Access, Contents};
use super::refused::{no_token, refused};
use crate::answer::Answer;
use crate::query::Query;
use crate::serve::later;

/// What an assertion is asked with (RFC 7523, 2.1).
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// How far a clock may be off, in seconds.
const SKEW: i64 = 300;
/// Longest life of an assertion, in seconds.
const HOUR: i64 = 3600;

impl Contents {
    /// `POST /token`.
    pub(super) fn exchange(&mut self, body: &[u8], now: Timestamp) -> Answer {
        let form = Query::read(&String::from_utf8_lossy(body));
        if form.get("grant_type") != Some(GRANT) {
            return no_token("Unsupported grant type");
        }
        let assertion = form.get("assertion").unwrap_or_default();
        let account = match self.account_of(assertion, now) {
            Ok(account) => account,
            Err(why) => return no_token(why),
        };
        let lives = self.behaviour.token_lives;
        let token = format!("ya29.{}", self.id());
        let until = later(now, lives);
        self.tokens.insert(token.clone(), Access { account, until });
        let seconds = lives.as_secs();
        Answer::ok(
            200,
            json!({ "access_token": token, "expires_in": seconds, "token_type": "Bearer" }),
        )
    }

    fn account_of(&self, assertion: &str, now: Timestamp) -> Result<String, &'static str> {
        let malformed = "Invalid JWT: malformed";
        let (signed, signature) = assertion.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(malformed)?;
        let (header, claims) = (json_of(header), json_of(claims));
        if header["alg"] != "RS256" {
            return Err("Invalid JWT: the algorithm is not RS256");
        }
        let name = claims["iss"].as_str().unwrap_or_default();
        let account = self.accounts.get(name);
        let account = account.ok_or("Invalid grant: account not found")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed)?;
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &account.public_key);
        let verified = key.verify(signed.as_bytes(), &signature);
        verified.map_err(|_| "Invalid JWT Signature.")?;
        let time = |claim: &str| claims[claim].as_i64().unwrap_or_default();
        let (from, until, now) = (time("iat"), time("exp"), now.as_second());
        if until - from > HOUR || from > now + SKEW || until < now - SKEW || from < now - SKEW {
            return Err(
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your \
                 iat and exp values in the JWT claim.",
            );
        }
        let audience = claims["aud"].as_str().unwrap_or_default();
        if !audience.ends_with("/token") {
            return Err("Invalid JWT: Failed audience check.");
        }
        match claims["scope"].as_str().unwrap_or_default() {
            "" => Err("Empty or missing scope not allowed."),
            _ => Ok(name.to_owned()),
        }
    }

    /// Whether a token lets in to do these things in a project.
    pub(super) fn let_in(
        &mut self,
        token: &str,
        project: &str,
        permissions: &[&'static str],
        now: Timestamp,
    ) -> Result<(), Answer> {
        let access = self.tokens.get(token).filter(|access| access.until > now);
        let account = access.and_then(|access| self.accounts.get(&access.account));
        let Some(account) = account else {
            let why = "Request had invalid authentication credentials.";
            return Err(refused(401, "authError", why));
        };
        let project_is_its = account.projects.iter().any(|known| known == project);
        let missing = permissions.iter().find(|permission| {
            let of_it = account.permissions.as_ref();
            of_it.is_some_and(|has| !has.contains(**permission))
        });
        let missing = match project_is_its {
            true => missing,
            false => permissions.first(),
        };
        if let Some(missing) = missing {
            let why = format!("Required '{missing}' permission for 'projects/{project}'");
            return Err(refused(403, "forbidden", &why));
        }
        self.used.extend(permissions.iter().copied());
        Ok(())
    }
}

fn json_of(part: &str) -> Value {
    let bytes = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}
