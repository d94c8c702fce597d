//! Who is let in: a signature is looked at with each call, and a role is taken on for a session.
//!
//! Invariant: whoever is let into an account does not get into another one.

use jiff::Timestamp;

use super::contents::{Contents, Principal, Role};
use super::signature::{Claim, Wrong};
use super::thing::Place;
use super::xml::{element, granted, not_granted, refused, text};
use crate::answer::Answer;
use crate::query::Query;
use crate::serve::{Asked, later};

impl Contents {
    /// Who asks, by key; `is_sts`: of the Security Token Service, which says it otherwise.
    pub(super) fn who(
        &self,
        asked: &Asked<'_>,
        now: Timestamp,
        is_sts: bool,
    ) -> Result<(String, Place), Answer> {
        let (ended, unknown) = match is_sts {
            true => ((403, "ExpiredToken"), (403, "InvalidClientTokenId")),
            false => ((400, "RequestExpired"), (401, "AuthFailure")),
        };
        let refuse = |(status, code): (u16, &str), why: &str| match is_sts {
            true => not_granted(status, code, why),
            false => refused(status, code, why),
        };
        let missing = "AWS was not able to validate the provided access credentials";
        let Some(claim) = Claim::read(asked.headers) else {
            let why = "Request is missing Authentication Token";
            return Err(refuse((403, "MissingAuthenticationToken"), why));
        };
        let service = if is_sts { "sts" } else { "ec2" };
        let Some(principal) = self.principals.get(&claim.key) else {
            return Err(refuse(unknown, missing));
        };
        if claim.service != service {
            return Err(refuse(
                (403, "SignatureDoesNotMatch"),
                "Credential should be scoped to the service.",
            ));
        }
        let verified = claim.verify(&principal.secret, asked.headers, asked.body, now);
        match verified {
            Ok(()) => {}
            Err(Wrong::Old) if is_sts => {
                let why = "Signature expired";
                return Err(refuse((403, "SignatureDoesNotMatch"), why));
            }
            Err(Wrong::Old) => return Err(refuse((400, "RequestExpired"), "Request has expired.")),
            Err(Wrong::Early | Wrong::Other) => {
                let code = if is_sts {
                    "SignatureDoesNotMatch"
                } else {
                    "AuthFailure"
                };
                return Err(refuse((401, code), missing));
            }
        }
        if let Some((token, until)) = &principal.session {
            let sent = asked.headers.get("x-amz-security-token");
            if sent.is_none_or(|sent| sent.as_bytes() != token.as_bytes()) {
                return Err(refuse(unknown, missing));
            }
            if *until <= now {
                return Err(refuse(
                    ended,
                    "The security token included in the request is expired",
                ));
            }
        }
        if !is_sts && self.behaviour.regions_off.contains(&claim.region) {
            let why = "You are not subscribed to this service in this region.";
            return Err(refuse((401, "OptInRequired"), why));
        }
        Ok((claim.key, (principal.account.clone(), claim.region)))
    }

    /// A call of the Security Token Service.
    pub(super) fn sts(
        &mut self,
        action: &str,
        form: &Query,
        asked: &Asked<'_>,
        now: Timestamp,
    ) -> Answer {
        let get = |name: &str| form.get(name).unwrap_or_default();
        if action == "AssumeRoleWithWebIdentity" {
            let role = self.roles.get(get("RoleArn"));
            let token = get("WebIdentityToken");
            let role = role.filter(|role| role.web_token.as_deref() == Some(token));
            return match role.map(|role| role.account.clone()) {
                Some(account) => self.grant(action, &account, now),
                None => {
                    let why = "No OpenIDConnect provider found in your account for it";
                    not_granted(400, "InvalidIdentityToken", why)
                }
            };
        }
        let (_, (account, _)) = match self.who(asked, now, true) {
            Ok(who) => who,
            Err(refused) => return refused,
        };
        match action {
            "GetCallerIdentity" => {
                let arn = format!("arn:aws:iam::{account}:user/covey");
                let inner =
                    text("Arn", &arn) + &text("UserId", "AIDA") + &text("Account", &account);
                granted(action, &inner)
            }
            "AssumeRole" => {
                let role = self.roles.get(get("RoleArn"));
                let is_let =
                    |role: &&Role| role.account == account && role.external_id == get("ExternalId");
                match role.filter(is_let).map(|role| role.account.clone()) {
                    Some(account) => self.grant(action, &account, now),
                    None => {
                        let why = format!(
                            "User is not authorized to perform sts:AssumeRole on {}",
                            get("RoleArn")
                        );
                        not_granted(403, "AccessDenied", &why)
                    }
                }
            }
            _ => not_granted(400, "InvalidAction", "Could not find operation."),
        }
    }

    fn grant(&mut self, action: &str, account: &str, now: Timestamp) -> Answer {
        self.next_id += 1;
        let key = format!("ASIA{}", self.next_id);
        let (secret, token) = (format!("sec{key}"), format!("tok{key}"));
        let until = later(now, self.behaviour.session_lives);
        let of_user = self.principals.get(&format!("AKIA{account}"));
        let principal = Principal {
            account: account.to_owned(),
            secret: secret.clone(),
            session: Some((token.clone(), until)),
            actions: of_user.and_then(|user| user.actions.clone()),
        };
        self.principals.insert(key.clone(), principal);
        let inner = text("AccessKeyId", &key)
            + &text("SecretAccessKey", &secret)
            + &text("SessionToken", &token)
            + &text("Expiration", &until.to_string());
        granted(action, &element("Credentials", &inner))
    }
}
