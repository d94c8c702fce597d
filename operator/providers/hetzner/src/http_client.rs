//! One request and its answer, within bounds of time, size and number.
//!
//! Invariant: each request is sent once; the token is sent to the endpoint alone, encrypted (on loopback, where tests
//! are, it need not be), follows no redirect, and stands in no error; what is not a whole answer is no answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::Timestamp;
use kit_client::crypto::install_crypto;
use kube::client::ConfigExt as _;
use providers::{FaultKind, Refused};

use crate::budget::{Budget, Told, Use};
use crate::clock::Clock;
use crate::refusal::{self, Asked};
use crate::schema;
use crate::token::Token;

/// Where the API is.
pub const ENDPOINT: &str = "https://api.hetzner.cloud/v1";
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for a whole answer. Within it a creation is answered with room to spare; one that is not is asked for
/// again, and found by its labels.
const ANSWER: Duration = Duration::from_secs(20);
/// Most bytes of an answer that is a list.
pub(crate) const LIST: usize = 16 << 20;
/// Most bytes of any other answer.
pub(crate) const ONE: usize = 1 << 20;
/// Connections that are kept open.
const IDLE: usize = 4;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It is no address.
    #[error("{0} is no address of an API; it is one such as {ENDPOINT}")]
    Endpoint(String),
    /// The token would go in the clear.
    #[error("{0} is not encrypted, and the token would be read on the way: use https")]
    Plain(String),
    /// The token cannot be sent.
    #[error("the token has characters that cannot be sent")]
    Token,
    /// The store of authorities of the machine cannot be read.
    #[error("could not set up TLS")]
    Tls(#[source] Box<kube::Error>),
}

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
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoint: String,
    token: Token,
    authorization: HeaderValue,
    clock: Arc<dyn Clock>,
    budget: Mutex<Budget>,
}

impl HttpClient {
    /// Nothing is sent yet.
    pub(crate) fn new(
        endpoint: &str,
        token: Token,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        install_crypto();
        let bad = || BuildError::Endpoint(endpoint.to_owned());
        let uri: Uri = endpoint.parse().map_err(|_| bad())?;
        let host = uri.host().ok_or_else(bad)?;
        let is_plain = match uri.scheme_str() {
            Some("https") => false,
            Some("http") if is_loopback(host) => true,
            Some("http") => return Err(BuildError::Plain(endpoint.to_owned())),
            _ => return Err(bad()),
        };
        // The authorities that Mozilla trusts: the operator's image has none. Nobody is believed where nobody has to be.
        let public = || {
            let all = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
            all.map(|authority| authority.to_vec()).collect()
        };
        let mut tls = kube::Config::new(uri);
        tls.root_cert = Some(if is_plain { Vec::new() } else { public() });
        let tls = tls.rustls_client_config();
        let tls = tls.map_err(|source| BuildError::Tls(Box::new(source)))?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE)
            .build(connector);
        Ok(Self {
            client,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            authorization: token.header().ok_or(BuildError::Token)?,
            token,
            budget: Mutex::new(Budget::new(clock.now())),
            clock,
        })
    }

    /// Sends it, once, and reads its answer.
    pub(crate) async fn send(&self, call: Call) -> Result<Bytes, Refused> {
        let asked = call.asked.clone();
        let taken = self.budget(|budget, now| budget.take(now, call.use_));
        if let Err(after) = taken {
            let kind = FaultKind::Throttled { after: Some(after) };
            let why = "more is not asked, so that the project's limit is never reached";
            return Err(asked.refused(kind, refusal::BUDGET, why));
        }
        let largest = call.largest;
        let request = self.request(call)?;
        let deadline = self.clock.wait(ANSWER);
        tokio::select! {
            biased;
            answer = self.exchange(&asked, request, largest) => answer,
            () = deadline => {
                let why = format!("no answer within {} s", ANSWER.as_secs());
                Err(asked.refused(FaultKind::Unavailable, refusal::NO_ANSWER, why))
            }
        }
    }

    fn request(&self, call: Call) -> Result<Request<Full<Bytes>>, Refused> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.endpoint, call.path))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(USER_AGENT, concat!("covey/", env!("CARGO_PKG_VERSION")));
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::from(call.body.unwrap_or_default());
        request.body(body).map_err(|error| {
            let why = error.to_string();
            call.asked
                .refused(FaultKind::Terminal, refusal::UNREADABLE, why)
        })
    }

    async fn exchange(
        &self,
        asked: &Asked,
        request: Request<Full<Bytes>>,
        largest: usize,
    ) -> Result<Bytes, Refused> {
        let unavailable = |code, why: String| {
            // Whatever is told stands in a condition.
            asked.refused(FaultKind::Unavailable, code, self.token.redact(&why))
        };
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| unavailable(refusal::NO_ANSWER, causes(&error)))?;
        let status = answer.status();
        let told = told(answer.headers());
        let after = self.budget(|budget, now| budget.learn(now, told, status.as_u16() == 429));
        let request =
            text(answer.headers(), "x-correlation-id").map(|id| id.chars().take(64).collect());
        let body = Limited::new(answer.into_body(), largest).collect().await;
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                let why = format!("the answer has more than {largest} bytes");
                return Err(unavailable(refusal::TOO_LARGE, why));
            }
            Err(error) => return Err(unavailable(refusal::UNREADABLE, error.to_string())),
        };
        if status.is_success() {
            return Ok(body);
        }
        let refused = serde_json::from_slice::<schema::Refused>(&body).unwrap_or_default();
        let mut fault = refused.error;
        fault.message = self.token.redact(&fault.message);
        Err(asked.answered(status.as_u16(), &fault, after, request))
    }

    fn budget<T>(&self, ask: impl FnOnce(&mut Budget, Timestamp) -> T) -> T {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&mut budget, self.clock.now())
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    address.is_ok_and(|address| address.is_loopback())
}

/// What the headers say of the limit.
fn told(headers: &HeaderMap) -> Told {
    let number = |name: &str| text(headers, name)?.parse::<i64>().ok();
    let small = |name: &str| number(name).and_then(|n| u32::try_from(n).ok());
    let date = text(headers, DATE.as_str());
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    Told {
        limit: small("ratelimit-limit"),
        remaining: small("ratelimit-remaining"),
        reset: number("ratelimit-reset"),
        date: date.map(|date| date.timestamp().as_second()),
        retry_after: number(RETRY_AFTER.as_str()),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// An error with what is behind it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn build(endpoint: &str) -> Result<(), BuildError> {
        let token = Token::read("t").unwrap();
        HttpClient::new(endpoint, token, Arc::new(SystemClock)).map(drop)
    }

    #[tokio::test]
    async fn token_goes_nowhere_in_the_clear() {
        build(ENDPOINT).unwrap();
        build("http://127.0.0.1:1/v1").unwrap();
        assert!(matches!(
            build("http://example.com/v1"),
            Err(BuildError::Plain(_))
        ));
        assert!(matches!(
            build("ftp://example.com"),
            Err(BuildError::Endpoint(_))
        ));
        assert!(matches!(build("/v1"), Err(BuildError::Endpoint(_))));
    }

    #[test]
    fn headers_are_read_as_far_as_they_can_be() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("ratelimit-limit", "3600"),
            ("ratelimit-remaining", "12"),
            ("ratelimit-reset", "1790000010"),
            ("date", "Mon, 21 Sep 2026 14:13:20 GMT"),
            ("retry-after", "soon"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let told = told(&headers);
        assert_eq!(told.limit, Some(3600));
        assert_eq!(told.remaining, Some(12));
        assert_eq!(told.reset, Some(1_790_000_010));
        assert_eq!(told.date, Some(1_790_000_000));
        assert_eq!(told.retry_after, None);
    }
}
