//! Tokens, which are had for what a key signed.
//!
//! Invariant: the times in an assertion are those of
//! whom it is sent to, so a clock of ours that is wrong keeps nobody out; neither key nor token stands in an error.

use std::sync::Arc;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use providers::budget::Use;
use providers::clock::Clock;
use providers::http_client::{BuildError, Call, HttpClient, ONE, Reply, UNREADABLE};
use providers::token::Token;
use providers::tokens::Tokens;
use providers::{FaultKind, Refused};

use crate::key::ServiceKey;
use crate::refusal::{Asked, NO_CREDENTIALS};
use crate::schema::{Granted, NotGranted};

/// Requests of tokens in an hour: nobody needs so many.
const LIMIT: u32 = 3600;
/// By so much clocks may differ before an assertion is made anew by the other one.
const SKEW: SignedDuration = SignedDuration::from_secs(30);
/// What an assertion is asked with (RFC 7523, 2.1), as a form has it.
const GRANT: &str = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
/// What is sent.
const FORM: &str = "application/x-www-form-urlencoded";

/// Has tokens.
pub struct Access {
    key: ServiceKey,
    transport: HttpClient,
    path: String,
    tokens: Tokens,
}

impl Access {
    /// With `key`, from `token_uri`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        token_uri: &str,
        key: ServiceKey,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        let bad = || BuildError::Endpoint(token_uri.to_owned());
        let (base, path) = token_uri.rsplit_once('/').ok_or_else(bad)?;
        Ok(Self {
            key,
            transport: HttpClient::new(base, LIMIT, "x-request-id", Arc::clone(&clock))?,
            path: format!("/{path}"),
            tokens: Tokens::new(clock),
        })
    }

    /// What time it is by Google's clock, as far as that was heard.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.tokens.now()
    }

    /// Takes in what time Google says it is.
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
        let asked = Asked::new("use", format!("the key of {}", self.key.account()));
        let mut believed = self.now();
        let mut reply = self.ask(&asked, believed).await?;
        let off = self.now().duration_since(believed).abs();
        if reply.status == 400 && off >= SKEW {
            // It may be our clock that was wrong.
            believed = self.now();
            reply = self.ask(&asked, believed).await?;
        }
        if !reply.is_success() {
            return Err(refused(&asked, &reply));
        }
        let granted = serde_json::from_slice::<Granted>(&reply.body).ok();
        let token = granted.as_ref();
        let token = token.and_then(|granted| Token::read(&granted.access_token));
        match token.zip(granted) {
            Some((token, granted)) => {
                let lives = SignedDuration::from_secs(i64::from(granted.expires_in));
                Ok((token, lives))
            }
            None => {
                let why = "the answer has no token";
                Err(asked.refused(FaultKind::Unavailable, UNREADABLE, why))
            }
        }
    }

    async fn ask(&self, asked: &Asked, now: Timestamp) -> Result<Reply, Refused> {
        let assertion = self.key.assertion(now).ok_or_else(|| {
            let why = "nothing could be signed with it";
            asked.refused(FaultKind::Auth, NO_CREDENTIALS, why)
        })?;
        let call = Call {
            method: Method::POST,
            path: self.path.clone(),
            authorization: None,
            body: Some((FORM, format!("{GRANT}{assertion}").into_bytes())),
            use_: Use::Change,
            largest: ONE,
        };
        let sent = self.transport.send(call).await;
        let reply = sent.map_err(|lost| {
            let why = lost.why.replace(&assertion, "[assertion]");
            asked.refused(lost.kind, lost.code, why)
        })?;
        self.hears(&reply);
        Ok(reply)
    }
}

/// Why no token was had. What is said of it has nothing of the key.
fn refused(asked: &Asked, reply: &Reply) -> Refused {
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
    let mend = "the key was deleted, or its account was: make a new key of an account of the same project, and put it into \
                the Secret that spec.gcp.keySecretName of the ProviderConfig names";
    Refused {
        mend: (kind == FaultKind::Auth).then(|| mend.to_owned()),
        ..asked.refused(kind, &code, said.error_description)
    }
}
