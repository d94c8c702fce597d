//! Tokens, which are had for a secret or for another's token.
//!
//! Invariant: neither secret nor token stands in an error. No time of ours is sent, so a clock of ours that is wrong keeps
//! nobody out.

use std::sync::Arc;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use providers::budget::Use;
use providers::clock::Clock;
use providers::http_client::{BuildError, Call, HttpClient, ONE, Reply, UNREADABLE, encoded};
use providers::refused::Asked;
use providers::token::Token;
use providers::tokens::Tokens;
use providers::{FaultKind, Refused};

use crate::credentials::{By, Credentials};
use crate::refusal::{NO_CREDENTIALS, asked};
use crate::schema::{Granted, NotGranted};

/// Requests of tokens in an hour: nobody needs so many.
const LIMIT: u32 = 3600;
/// What tokens are for: Azure Resource Manager.
const SCOPE: &str = "https://management.azure.com/.default";
/// What another's token is sent as (RFC 7523, 2.2).
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// What is sent.
const FORM: &str = "application/x-www-form-urlencoded";

/// Has tokens.
pub struct Access {
    credentials: Credentials,
    transport: HttpClient,
    tokens: Tokens,
}

impl Access {
    /// From `authority`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        authority: &str,
        credentials: Credentials,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            credentials,
            transport: HttpClient::new(authority, LIMIT, "x-ms-request-id", Arc::clone(&clock))?,
            tokens: Tokens::new(clock),
        })
    }

    /// What time it is by Azure's clock, as far as that was heard.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.tokens.now()
    }

    /// Takes in what time Azure says it is.
    pub fn hears(&self, reply: &Reply) {
        self.tokens.hears(reply);
    }

    /// A token that lets in now.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn token(&self) -> Result<Token, Refused> {
        self.tokens.token(self.exchange()).await
    }

    /// Lets go of a token that lets in no more.
    pub async fn forget(&self, token: &Token) {
        self.tokens.forget(token).await;
    }

    async fn exchange(&self) -> Result<(Token, SignedDuration), Refused> {
        let Credentials { tenant, client, by } = &self.credentials;
        let asked = asked("use", format!("the credentials of {client}"));
        let secret = self.credentials.secret().ok_or_else(|| Refused {
            mend: Some(
                "put the secret there, or have a token of the account put into the file".to_owned(),
            ),
            ..asked.refused(FaultKind::Auth, NO_CREDENTIALS, "there is none")
        })?;
        let proof = match by {
            By::Secret(_) => format!("client_secret={}", encoded(&secret)),
            By::Federated(_) => format!(
                "client_assertion_type={}&client_assertion={}",
                encoded(ASSERTION),
                encoded(&secret)
            ),
        };
        let form = format!(
            "grant_type=client_credentials&client_id={}&scope={}&{proof}",
            encoded(client),
            encoded(SCOPE)
        );
        let call = Call {
            method: Method::POST,
            path: format!("/{}/oauth2/v2.0/token", encoded(tenant)),
            authorization: None,
            body: Some((FORM, form.into_bytes())),
            use_: Use::Change,
            largest: ONE,
        };
        let sent = self.transport.send(call).await;
        let reply = sent.map_err(|lost| {
            let why = lost.why.replace(&secret, "[secret]");
            asked.refused(lost.kind, lost.code, why)
        })?;
        self.hears(&reply);
        if !reply.is_success() {
            return Err(refused(&asked, &reply, &secret));
        }
        let granted = serde_json::from_slice::<Granted>(&reply.body).ok();
        let lives = |granted: &Granted| SignedDuration::from_secs(granted.expires_in.into());
        let granted = granted
            .and_then(|granted| Some((Token::read(&granted.access_token)?, lives(&granted))));
        granted.ok_or_else(|| {
            let why = "the answer has no token";
            asked.refused(FaultKind::Unavailable, UNREADABLE, why)
        })
    }
}

/// Why no token was had. What is said of it goes on for lines, of which the first one says it.
fn refused(asked: &Asked, reply: &Reply, secret: &str) -> Refused {
    let said = serde_json::from_slice::<NotGranted>(&reply.body).unwrap_or_default();
    let kind = match reply.status {
        400 | 401 | 403 => FaultKind::Auth,
        429 => FaultKind::Throttled { after: reply.after },
        _ => FaultKind::Unavailable,
    };
    let code = match said.error.as_str() {
        "" => format!("HTTP {}", reply.status),
        code => code.to_owned(),
    };
    let why = said.error_description.lines().next().unwrap_or_default();
    let why = why.replace(secret, "[secret]");
    let mend = "the secret has ended or is another one, or the principal does not trust whose token it is: make a new \
                secret of a principal of the same tenant, and put it into the Secret that \
                spec.azure.credentialsSecretName of the ProviderConfig names";
    Refused {
        mend: (kind == FaultKind::Auth).then(|| mend.to_owned()),
        request: reply.request.clone(),
        ..asked.refused(kind, &code, why)
    }
}
