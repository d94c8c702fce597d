//! Certificates of AccessGrants as they are kept on this machine, and the kubeconfigs that ask for them.
//!
//! Invariant: pure; a kubeconfig without a certificate in it has no secret, and says nothing of this machine but what was
//! named on the command line.

use std::str::FromStr as _;

use api::condition::is_true;
use api::reason::class::Class;
use api::{AccessGrant, ConditionType, Reason};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// The API of exec plugins (client-go credential plugins).
const EXEC: &str = "client.authentication.k8s.io/v1";
/// Of a certificate's life the parts of a hundred for which it is handed out.
const SHARE: i64 = 80;
/// Where a kubectl that finds no covey is sent.
const HINT: &str =
    "covey is not in PATH: put the program there that made this kubeconfig (docs/cli.md of Covey)";

/// Whose certificate of which tenant cluster it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// Address of the management cluster's API.
    pub(crate) server: String,
    /// As whom the management cluster is asked: context, and the user that is impersonated.
    pub(crate) login: [String; 2],
    /// Namespace, name and UID of the TenantCluster.
    pub(crate) cluster: [String; 3],
    /// Profile, user and group that are asked for.
    pub(crate) rights: [String; 3],
    /// Seconds that are asked for.
    pub(crate) seconds: u64,
    /// Whether a token is wanted.
    pub(crate) is_token: bool,
}

impl Place {
    /// What it is called in the folder of those that are kept. Nothing can be told from it.
    pub(crate) fn name(&self) -> String {
        let mut context = Context::new(&SHA256);
        let seconds = self.seconds.to_string();
        let parts = [&self.server, &seconds].into_iter().chain(&self.login);
        for part in parts.chain(&self.cluster).chain(&self.rights) {
            // Its length, so that nothing of one part can pass for the other.
            context.update(&part.len().to_be_bytes());
            context.update(part.as_bytes());
        }
        if self.is_token {
            context.update(b"token");
        }
        let digest = context.finish();
        digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// A certificate with its key, or a token, as it is kept. It has no `Debug`: the key is a secret.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept {
    /// The grant, with its namespace.
    pub(crate) grant: String,
    /// Namespace of the grant.
    pub(crate) namespace: String,
    /// PEM.
    pub(crate) certificate: String,
    /// PEM.
    pub(crate) key: String,
    /// The token, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// Whom to believe that it is the tenant cluster, PEM.
    pub(crate) authority: String,
    /// When it was got.
    pub(crate) since: Timestamp,
    /// When it ends.
    pub(crate) until: Timestamp,
}

impl Kept {
    /// Until when it is handed out: most of its life, so that what is begun with it also ends.
    pub(crate) fn good_until(&self) -> Timestamp {
        let life = self.until.duration_since(self.since).as_secs().max(0);
        let share = SignedDuration::from_secs(life.saturating_mul(SHARE) / 100);
        self.since.checked_add(share).unwrap_or(self.since)
    }

    /// Whether it can be handed out now. One of the future is of a clock that was set back, and nobody knows how far.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        self.since <= now && now < self.good_until()
    }

    /// What kubectl reads.
    pub(crate) fn exec_credential(&self) -> Value {
        let mut status = match &self.token {
            Some(token) => json!({ "token": token }),
            None => json!({
                "clientCertificateData": self.certificate, "clientKeyData": self.key,
            }),
        };
        // kubectl asks again from then on.
        status["expirationTimestamp"] = json!(self.good_until().to_string());
        json!({ "apiVersion": EXEC, "kind": "ExecCredential", "status": status })
    }

    /// The user of a kubeconfig that has the secret in it.
    pub(crate) fn embedded(&self) -> Value {
        json!({
            "client-certificate-data": base64(&self.certificate),
            "client-key-data": base64(&self.key),
        })
    }
}

/// The user of a kubeconfig that asks `covey` with these arguments.
pub(crate) fn asked(args: &[String]) -> Value {
    json!({ "exec": {
        "apiVersion": EXEC, "command": "covey", "args": args, "interactiveMode": "Never",
        "provideClusterInfo": false, "installHint": HINT,
    }})
}

/// A kubeconfig with one context.
pub(crate) fn kubeconfig(
    context: &str,
    (server, authority): (&str, &str),
    user: &Value,
    extension: &Value,
) -> Result<String, Failure> {
    let cluster = json!({
        "server": server, "certificate-authority-data": base64(authority), "extensions": [extension],
    });
    let all = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{ "name": context, "cluster": cluster }],
        "users": [{ "name": context, "user": user }],
        "contexts": [{ "name": context, "context": { "cluster": context, "user": context } }],
    });
    serde_saphyr::to_string(&all).map_err(|_| {
        let what = "the kubeconfig cannot be written as YAML";
        Failure::new(Exit::Failed, what, "use `--break-glass`")
    })
}

fn base64(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

/// What a grant gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Issued {
    /// PEM.
    pub(crate) certificate: String,
    /// Whom to believe that it is the tenant cluster, PEM.
    pub(crate) authority: String,
    /// When the certificate ends.
    pub(crate) until: String,
    /// The token, sealed, where one was asked for, and when that ends.
    pub(crate) token: Option<(String, String)>,
}

/// What became of a grant that was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// It is issued.
    Issued(Box<Issued>),
    /// Nothing yet; what it waits for.
    Waits(String),
    /// It comes to nothing: why, and what mends it.
    Refused(String, &'static str),
}

/// Reads a grant.
pub(crate) fn answer(grant: &AccessGrant) -> Answer {
    let Some(status) = &grant.status else {
        return Answer::Waits("the operator has not looked at it yet".to_owned());
    };
    let (certificate, authority, until) = (
        status.certificate.as_ref(),
        status.certificate_authority.as_ref(),
        status.not_after.as_ref(),
    );
    if is_true(&status.conditions, ConditionType::Ready)
        && let (Some(certificate), Some(authority), Some(until)) = (certificate, authority, until)
    {
        let token = status.sealed_token.clone();
        return Answer::Issued(Box::new(Issued {
            certificate: certificate.clone(),
            authority: authority.clone(),
            until: until.clone(),
            token: token.zip(status.token_not_after.clone()),
        }));
    }
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str());
    let Some(ready) = ready else {
        return Answer::Waits("the operator has not looked at it yet".to_owned());
    };
    let known = Reason::from_str(&ready.reason).ok();
    match known {
        Some(reason) if reason.class() == Class::Person || reason == Reason::GrantEnded => {
            Answer::Refused(ready.message.clone(), reason.mend())
        }
        _ => Answer::Waits(ready.message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn kept() -> Kept {
        Kept {
            grant: "demo-x".to_owned(),
            namespace: "team-a".to_owned(),
            certificate: "CERT".to_owned(),
            key: "sesame-canary".to_owned(),
            token: None,
            authority: "CA".to_owned(),
            since: at("2027-01-31T12:00:00Z"),
            until: at("2027-01-31T13:00:00Z"),
        }
    }

    #[test]
    fn a_certificate_is_handed_out_for_four_fifths_of_its_life() {
        let kept = kept();
        for (now, is_fresh) in [
            ("2027-01-31T11:59:59Z", false),
            ("2027-01-31T12:00:00Z", true),
            ("2027-01-31T12:47:59Z", true),
            ("2027-01-31T12:48:00Z", false),
            ("2027-02-01T12:00:00Z", false),
        ] {
            assert_eq!(kept.is_fresh(at(now)), is_fresh, "{now}");
        }
        let mut odd = kept;
        odd.until = at("2026-01-31T13:00:00Z");
        assert!(!odd.is_fresh(at("2027-01-31T12:00:00Z")));
    }

    #[test]
    fn kubectl_is_told_when_to_ask_again() {
        let told = kept().exec_credential();
        assert_eq!(told["apiVersion"], "client.authentication.k8s.io/v1");
        assert_eq!(told["status"]["clientKeyData"], "sesame-canary");
        let until = &told["status"]["expirationTimestamp"];
        assert_eq!(until, "2027-01-31T12:48:00Z");
        let mut kept = kept();
        kept.token = Some("sesame-token".to_owned());
        let told = kept.exec_credential();
        assert_eq!(told["status"]["token"], "sesame-token");
        assert_eq!(told["status"].get("clientKeyData"), None, "{told}");
        assert_eq!(told["status"]["expirationTimestamp"], *until);
    }

    #[test]
    fn another_tenant_cluster_user_or_right_is_another_certificate() {
        let place = Place {
            server: "https://a".to_owned(),
            login: ["c".to_owned(), String::new()],
            cluster: ["n".to_owned(), "demo".to_owned(), "u1".to_owned()],
            rights: ["view".to_owned(), String::new(), String::new()],
            seconds: 3600,
            is_token: false,
        };
        let mut all = vec![place.clone(); 7];
        all[1].cluster[2] = "u2".to_owned();
        all[2].rights[0] = "admin".to_owned();
        all[3].login[1] = "jane".to_owned();
        all[4].seconds = 600;
        all[6].is_token = true;
        // No part passes for the next.
        (all[5].cluster[0], all[5].cluster[1]) = ("nd".to_owned(), "emo".to_owned());
        let mut names: Vec<_> = all.iter().map(Place::name).collect();
        assert!(names.iter().all(|name| name.len() == 64));
        assert_eq!(names[0], place.name());
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 7);
    }

    #[test]
    fn a_kubeconfig_has_a_secret_only_where_it_was_asked_for() {
        let args = ["credential", "get"].map(str::to_owned);
        let write = |user: &Value| {
            kubeconfig(
                "team-a/demo",
                ("https://a:6443", "CA"),
                user,
                &json!({"name": "x", "extension": {}}),
            )
            .unwrap()
        };
        let asks = write(&asked(&args));
        let kubectl = kube::config::Kubeconfig::from_yaml(&asks).unwrap();
        let user = kubectl.auth_infos[0].auth_info.as_ref().unwrap();
        let exec = user.exec.as_ref().unwrap();
        assert_eq!(exec.command.as_deref(), Some("covey"));
        assert!(
            asks.contains("interactiveMode: Never") && !asks.contains("key-data"),
            "{asks}"
        );
        let embedded = write(&kept().embedded());
        let kubectl = kube::config::Kubeconfig::from_yaml(&embedded).unwrap();
        let user = kubectl.auth_infos[0].auth_info.as_ref().unwrap();
        assert!(user.client_key_data.is_some() && user.exec.is_none());
    }

    #[test]
    fn what_became_of_a_grant_is_what_its_condition_says() {
        let grant = |reason: &str, status: &str| {
            let grant = json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant", "metadata": { "name": "demo-x" },
                "spec": { "clusterName": "demo", "profile": "view", "user": "jane", "request": "r" },
                "status": {
                    "certificate": "CERT", "certificateAuthority": "CA", "notAfter": "2027-01-31T13:00:00Z",
                    "conditions": [{
                        "type": "Ready", "status": status, "reason": reason, "message": "so it is",
                        "lastTransitionTime": "2027-01-31T12:00:00Z",
                    }],
                },
            });
            serde_json::from_value::<AccessGrant>(grant).unwrap()
        };
        let issued = answer(&grant("GrantIssued", "True"));
        assert!(
            matches!(issued, Answer::Issued(all) if all.certificate == "CERT" && all.authority == "CA")
        );
        let refused = answer(&grant("GrantTooLong", "False"));
        assert!(
            matches!(refused, Answer::Refused(why, mend) if why == "so it is" && mend.contains("ttlSeconds"))
        );
        for reason in ["GrantWaiting", "OfALaterVersion"] {
            let waits = answer(&grant(reason, "False"));
            assert_eq!(waits, Answer::Waits("so it is".to_owned()));
        }
    }
}
