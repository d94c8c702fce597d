//! Sessions, which are had for a key or for another's token, and what time it is at AWS.
//!
//! Invariant: neither secret nor session nor token stands in an error. Requests are signed with a time, which is AWS's own
//! as far as it was heard: a clock of ours that is wrong keeps nobody out for longer than one answer.

use std::sync::Arc;

use http::{HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use providers::budget::Use;
use providers::clock::Clock;
use providers::http_client::{BuildError, Call, HttpClient, Lost, ONE, Reply, UNREADABLE};
use providers::refused::Asked;
use providers::tokens::Tokens;
use providers::{FaultKind, Refused};

use crate::credentials::{Credentials, Keys, without};
use crate::parameters::Form;
use crate::refusal::{
    NO_CREDENTIALS, UNAUTHORIZED, answered, asked, is_of_signature, lacks, right,
};
use crate::schema::{self, Granted, Identity, Read};
use crate::signature::{Signed, headers};

/// What is sent.
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
/// The header that has what AWS calls a request.
pub const ID_HEADER: &str = "x-amzn-requestid";
/// Requests of sessions in an hour: nobody needs so many.
const LIMIT: u32 = 3600;
/// What is said where a role does not let in.
const DENIED: &str = "AccessDenied";
/// What a session is called where somebody looks who did something (CloudTrail).
const SESSION: &str = "covey";

/// Has sessions.
pub struct Access {
    credentials: Credentials,
    endpoint: String,
    region: String,
    transport: HttpClient,
    sessions: Tokens<Keys>,
}

impl Access {
    /// From the Security Token Service at `endpoint`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoint: &str,
        region: &str,
        credentials: Credentials,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            credentials,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            region: region.to_owned(),
            transport: HttpClient::new(endpoint, LIMIT, ID_HEADER, Arc::clone(&clock))?,
            sessions: Tokens::new(clock),
        })
    }

    /// What time it is by AWS's clock, as far as that was heard.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.sessions.now()
    }

    /// Takes in what time AWS says it is.
    pub fn hears(&self, reply: &Reply) {
        self.sessions.hears(reply);
    }

    /// Keys that let in now.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn keys(&self) -> Result<Keys, Refused> {
        let asked = asked(
            "use",
            format!("the credentials of {}", self.credentials.name()),
        );
        match &self.credentials {
            Credentials::Keys(keys) => present(keys, &asked).cloned(),
            Credentials::Role { .. } | Credentials::WebIdentity { .. } => {
                self.sessions.token(self.exchange(&asked)).await
            }
        }
    }

    /// Lets go of keys that let in no more.
    pub async fn forget(&self, keys: &Keys) {
        self.sessions.forget(keys).await;
    }

    /// Whom the keys are of, which needs no right.
    ///
    /// # Errors
    /// Where nobody knows.
    pub async fn identity(&self) -> Result<Identity, Refused> {
        let asked = asked(
            "use",
            format!("the credentials of {}", self.credentials.name()),
        );
        let form = Form::sts("GetCallerIdentity");
        let mut is_first = true;
        loop {
            let keys = self.keys().await?;
            match self.signed::<Identity>(&form, &keys, &asked).await {
                Err(refused) if is_of_signature(&refused.code) && is_first => {
                    self.forget(&keys).await;
                    is_first = false;
                }
                told => return told,
            }
        }
    }

    async fn exchange(&self, asked: &Asked) -> Result<(Keys, SignedDuration), Refused> {
        let role =
            |form: Form, role: &str| form.with("RoleArn", role).with("RoleSessionName", SESSION);
        let granted: Granted = match &self.credentials {
            Credentials::Keys(keys) => {
                // They have no end; nobody asks for a session of them.
                return Ok((keys.clone(), SignedDuration::from_hours(1)));
            }
            Credentials::Role {
                keys,
                role: arn,
                external_id,
            } => {
                let keys = present(keys, asked)?;
                let form = role(Form::sts("AssumeRole"), arn).with("ExternalId", external_id);
                let granted = match self.signed(&form, keys, asked).await {
                    // By a clock that was wrong until this answer.
                    Err(refused) if is_of_signature(&refused.code) => {
                        self.signed(&form, keys, asked).await
                    }
                    granted => granted,
                };
                granted.map_err(|refused| untrusted(refused, arn, external_id))?
            }
            Credentials::WebIdentity { role: arn, token } => {
                let token = std::fs::read_to_string(token).unwrap_or_default();
                let token = token.trim();
                if token.is_empty() {
                    return Err(none(asked));
                }
                let form = role(Form::sts("AssumeRoleWithWebIdentity"), arn);
                let form = form.with("WebIdentityToken", token);
                let granted = self.send(&form, None, asked).await;
                granted.map_err(|refused| Refused {
                    message: without(&refused.message, token),
                    ..mistrusted(refused, arn)
                })?
            }
        };
        let until: Timestamp = granted.until.parse().map_err(|_| {
            let why = "the answer does not say when the session ends";
            asked.refused(FaultKind::Unavailable, UNREADABLE, why)
        })?;
        let keys = Keys {
            id: granted.id,
            secret: granted.secret,
            session: Some(granted.token),
        };
        Ok((keys, until.duration_since(self.now())))
    }

    async fn signed<T: Read>(&self, form: &Form, keys: &Keys, asked: &Asked) -> Result<T, Refused> {
        self.send(form, Some(keys), asked).await
    }

    async fn send<T: Read>(
        &self,
        form: &Form,
        keys: Option<&Keys>,
        asked: &Asked,
    ) -> Result<T, Refused> {
        let to = Post {
            transport: &self.transport,
            endpoint: &self.endpoint,
            service: "sts",
            region: &self.region,
            use_: Use::Change,
            largest: ONE,
        };
        let reply = to.send(form, keys, self.now(), asked).await?;
        self.hears(&reply);
        read(&reply, form.action, keys, asked)
    }
}

/// Where a form is posted.
pub(crate) struct Post<'a> {
    pub(crate) transport: &'a HttpClient,
    pub(crate) endpoint: &'a str,
    pub(crate) service: &'a str,
    pub(crate) region: &'a str,
    pub(crate) use_: Use,
    pub(crate) largest: usize,
}

impl Post<'_> {
    /// Signs it, where somebody asks, sends it once, and gives its answer, whatever that says.
    pub(crate) async fn send(
        &self,
        form: &Form,
        keys: Option<&Keys>,
        now: Timestamp,
        asked: &Asked,
    ) -> Result<Reply, Refused> {
        let body = form.body();
        let signed = Signed {
            service: self.service,
            region: self.region,
            address: &format!("{}/", self.endpoint),
            type_: FORM,
            body: &body,
        };
        let signed = keys.map(|keys| headers(signed, keys, now)).transpose();
        let mut signed = signed
            .map_err(|why| asked.refused(FaultKind::Terminal, NO_CREDENTIALS, why))?
            .unwrap_or_default();
        let at = signed.iter().position(|(name, _)| *name == "authorization");
        let authorization = at.and_then(|at| HeaderValue::from_str(&signed.remove(at).1).ok());
        let call = Call {
            method: Method::POST,
            path: "/".to_owned(),
            authorization: authorization.map(|mut value| {
                value.set_sensitive(true);
                value
            }),
            body: Some((FORM, body)),
            use_: self.use_,
            largest: self.largest,
        };
        let headers = signed.iter().map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = headers.collect();
        let sent = self.transport.send_with(call, &headers).await;
        sent.map_err(|Lost { kind, code, why }| {
            let why = keys.map_or_else(|| why.clone(), |keys| keys.redact(&why));
            asked.refused(kind, code, why)
        })
    }
}

/// Reads an answer, or what it says went wrong.
pub(crate) fn read<T: Read>(
    reply: &Reply,
    action: &str,
    keys: Option<&Keys>,
    asked: &Asked,
) -> Result<T, Refused> {
    let redact = |text: &str| keys.map_or_else(|| text.to_owned(), |keys| keys.redact(text));
    if reply.is_success() {
        let read = schema::answer(&reply.body, action);
        return read.map_err(|why| {
            let why = format!("the answer is another: {}", redact(&why));
            asked.refused(FaultKind::Unavailable, UNREADABLE, why)
        });
    }
    let mut fault = schema::fault(&reply.body);
    fault.message = redact(&fault.message);
    let refused = answered(asked, reply.status, &fault);
    // Of looks it is not said for which right.
    let is_unnamed = refused.code == UNAUTHORIZED && right(&fault.message).is_none();
    let mend = is_unnamed.then(|| lacks(&format!("ec2:{action}")));
    Err(Refused {
        request: reply.request.clone(),
        mend: mend.or(refused.mend),
        ..refused
    })
}

fn present<'a>(keys: &'a Keys, asked: &Asked) -> Result<&'a Keys, Refused> {
    match keys.id.trim().is_empty() || keys.secret.trim().is_empty() {
        true => Err(none(asked)),
        false => Ok(keys),
    }
}

/// That a role is not let be taken on, with what its owner has to know.
fn untrusted(refused: Refused, role: &str, external_id: &str) -> Refused {
    if refused.code != DENIED {
        return refused;
    }
    Refused {
        mend: Some(format!(
            "have the trust policy of {role} let in whose key it is, with the external ID {external_id} \
             (sts:ExternalId), and let that user take the role on (sts:AssumeRole); or change spec.aws.roleARN of the \
             ProviderConfig"
        )),
        ..refused
    }
}

/// The same of a role that does not trust the operator's own account.
fn mistrusted(refused: Refused, role: &str) -> Refused {
    if refused.code != DENIED && refused.code != "InvalidIdentityToken" {
        return refused;
    }
    Refused {
        mend: Some(format!(
            "have an OpenID Connect provider in the role's account for the issuer of this management cluster's tokens, and \
             the trust policy of {role} let in the operator's ServiceAccount (sub) with the audience sts.amazonaws.com (aud)"
        )),
        ..refused
    }
}

fn none(asked: &Asked) -> Refused {
    Refused {
        mend: Some(
            "put the key there, or have a token of the account put into the file".to_owned(),
        ),
        ..asked.refused(FaultKind::Auth, NO_CREDENTIALS, "there is none")
    }
}
