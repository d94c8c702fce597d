//! One request and its answer, as Hetzner has them.
//!
//! Invariant: the token stands in no error, whoever wrote it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};
use providers::Refused;
use providers::budget::Use;
use providers::clock::Clock;
use providers::http_client::{self as transport, BuildError, HttpClient as Transport};
use providers::token::Token;

use crate::refusal::Asked;
use crate::schema;

/// Where the API is.
pub const ENDPOINT: &str = "https://api.hetzner.cloud/v1";
/// Requests in an hour that a project has, where nobody said otherwise.
pub const LIMIT: u32 = 3600;

/// A request.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// After the endpoint, with its query.
    pub(crate) path: String,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) use_: Use,
    /// Most bytes of the answer.
    pub(crate) largest: usize,
    pub(crate) asked: Asked,
}

/// Sends requests.
pub(crate) struct HttpClient {
    transport: Transport,
    token: Token,
    authorization: HeaderValue,
}

impl HttpClient {
    /// Nothing is sent yet.
    pub(crate) fn new(
        endpoint: &str,
        token: Token,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            transport: Transport::new(endpoint, LIMIT, "x-correlation-id", clock)?,
            authorization: token.header().ok_or(BuildError::Token)?,
            token,
        })
    }

    /// Sends it, once, and reads its answer.
    pub(crate) async fn send(&self, call: Call) -> Result<Bytes, Refused> {
        let asked = call.asked;
        let sent = self.transport.send(transport::Call {
            method: call.method,
            path: call.path,
            authorization: Some(self.authorization.clone()),
            body: call.body.map(|body| ("application/json", body)),
            use_: call.use_,
            largest: call.largest,
        });
        // Whatever is told stands in a condition.
        let reply = sent
            .await
            .map_err(|lost| asked.refused(lost.kind, lost.code, self.token.redact(&lost.why)))?;
        if reply.is_success() {
            return Ok(reply.body);
        }
        let refused = serde_json::from_slice::<schema::Refused>(&reply.body).unwrap_or_default();
        let mut fault = refused.error;
        fault.message = self.token.redact(&fault.message);
        Err(asked.answered(reply.status, &fault, reply.after, reply.request))
    }
}
