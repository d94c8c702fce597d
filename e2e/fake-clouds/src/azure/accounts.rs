//! Who is let in: a secret, or another's token that is trusted, becomes a token, and a token is looked at with each call.
//!
//! Invariant: a token is of one tenant, and lets nobody into a subscription of another one.

use jiff::Timestamp;
use serde_json::json;

use super::contents::{Access, Contents};
use super::refused::{no_token, refused};
use crate::answer::Answer;
use crate::query::Query;
use crate::serve::later;

/// What another's token is sent as (RFC 7523, 2.2).
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

impl Contents {
    /// `POST /TENANT/oauth2/v2.0/token`.
    pub(super) fn exchange(&mut self, tenant: &str, body: &[u8], now: Timestamp) -> Answer {
        let form = Query::read(&String::from_utf8_lossy(body));
        let get = |name: &str| form.get(name).unwrap_or_default();
        if !self.tenants.values().any(|known| known == tenant) {
            let why = format!("Tenant '{tenant}' not found.");
            return no_token(400, "invalid_request", 90002, &why);
        }
        if get("grant_type") != "client_credentials" {
            let why = "The grant type is not supported.";
            return no_token(400, "unsupported_grant_type", 70003, why);
        }
        let name = get("client_id");
        let principal = self.principals.get(name).filter(|p| p.tenant == tenant);
        let Some(principal) = principal else {
            let why = format!("Application with identifier '{name}' was not found.");
            return no_token(400, "unauthorized_client", 700_016, &why);
        };
        if !get("scope").ends_with("/.default") {
            return no_token(400, "invalid_scope", 70011, "The scope is not valid.");
        }
        if get("client_assertion_type") == ASSERTION {
            if principal.federated.as_deref() != Some(get("client_assertion")) {
                let why =
                    "No matching federated identity record found, or the assertion has expired.";
                return no_token(400, "invalid_client", 700_024, why);
            }
        } else if get("client_secret") != principal.secret {
            let why = "Invalid client secret provided.";
            return no_token(401, "invalid_client", 7_000_215, why);
        } else if principal.secret_ended {
            let why = "The provided client secret keys are expired.";
            return no_token(401, "invalid_client", 7_000_222, why);
        }
        let lives = self.behaviour.token_lives;
        let token = format!("eyJfake.{}", self.id());
        let access = Access {
            principal: name.to_owned(),
            until: later(now, lives),
        };
        self.tokens.insert(token.clone(), access);
        let seconds = lives.as_secs();
        let granted =
            json!({ "token_type": "Bearer", "expires_in": seconds, "access_token": token });
        Answer::ok(200, granted)
    }

    /// Whether a token lets in to do these things in a subscription. `scope`: where.
    pub(super) fn let_in(
        &mut self,
        token: &str,
        subscription: &str,
        scope: &'static str,
        actions: &[&'static str],
        now: Timestamp,
    ) -> Result<(), Answer> {
        let access = self.tokens.get(token);
        let principal = access.and_then(|access| self.principals.get(&access.principal));
        let (Some(access), Some(principal)) = (access, principal) else {
            let why = "The access token is invalid.";
            return Err(refused(401, "InvalidAuthenticationToken", why));
        };
        if access.until <= now {
            let why = "The access token expiry is in the past.";
            return Err(refused(401, "ExpiredAuthenticationToken", why));
        }
        let Some(tenant) = self.tenants.get(subscription) else {
            let why = format!("The subscription '{subscription}' could not be found.");
            return Err(refused(404, "SubscriptionNotFound", &why));
        };
        if *tenant != principal.tenant {
            let why = "The access token is from the wrong issuer: it must match the tenant.";
            return Err(refused(401, "InvalidAuthenticationTokenTenant", why));
        }
        let is_its = principal.subscriptions.iter().any(|s| s == subscription);
        let allowed = |action: &str| {
            let of_it = principal.actions.as_ref();
            is_its && of_it.is_none_or(|has| has.contains(action))
        };
        if let Some(missing) = actions.iter().find(|action| !allowed(action)) {
            let why = format!(
                "The client '{}' does not have authorization to perform action '{missing}'",
                access.principal
            );
            let code = match missing.ends_with("/join/action") {
                true => "LinkedAuthorizationFailed",
                false => "AuthorizationFailed",
            };
            return Err(refused(403, code, &why));
        }
        self.used
            .extend(actions.iter().map(|action| (scope, *action)));
        Ok(())
    }
}
