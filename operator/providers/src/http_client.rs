//! One request to a cloud's API and its answer, within bounds of time, size and number.
//!
//! Invariant: each request is sent once; credentials are sent to the endpoint alone, encrypted (on loopback, where tests
//! are, it need not be), and follow no redirect; what is not a whole answer is no answer.

use std::fmt::Write as _;
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

use crate::budget::{Bucket, Budget, Told, Use};
use crate::clock::Clock;
use crate::fault::FaultKind;

/// Code of ours: nobody answered.
pub const NO_ANSWER: &str = "no_answer";
/// Code of ours: the answer ended early, or is no JSON.
pub const UNREADABLE: &str = "unreadable_answer";
/// Code of ours: more was sent than is read.
pub const TOO_LARGE: &str = "answer_too_large";
/// Code of ours: we do not ask more often.
pub const BUDGET: &str = "own_budget";

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for a whole answer. Within it a creation is answered with room to spare; one that is not is asked for
/// again, and found by its labels.
const ANSWER: Duration = Duration::from_secs(20);
/// Most bytes of an answer that is a list.
pub const LIST: usize = 16 << 20;
/// Most bytes of any other answer.
pub const ONE: usize = 1 << 20;
/// Connections that are kept open.
const IDLE: usize = 4;
/// Most characters of what a cloud calls a request.
const ID: usize = 64;
/// Most bytes of an address at which an answer says that it is done (documentation of Azure, 4 KB).
const OPERATION: usize = 4096;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It is no address.
    #[error("{0} is no address of an API; it is one such as https://api.example.com/v1")]
    Endpoint(String),
    /// The credentials would go in the clear.
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
#[derive(Debug)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// After the endpoint, with its query.
    pub path: String,
    /// Who asks, marked as one that is not to be shown; none: nobody in particular.
    pub authorization: Option<HeaderValue>,
    /// What is sent, and of which type that is.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// What it is for.
    pub use_: Use,
    /// Most bytes of the answer.
    pub largest: usize,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status of HTTP.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
    /// Of one that says that it is asked too often: how long everything pauses.
    pub after: Option<Duration>,
    /// What the cloud calls the request.
    pub request: Option<String>,
    /// The cloud's clock; none: it did not say.
    pub date: Option<Timestamp>,
    /// Where it says what becomes of what it began (`Azure-AsyncOperation`), whole, and to be believed by nobody who has
    /// not looked whose address it is.
    pub operation: Option<String>,
}

impl Reply {
    /// Whether it was done.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// There is no whole answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lost {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// Our code for it.
    pub code: &'static str,
    /// Why, for people. It may hold what was sent; whoever tells it takes credentials out.
    pub why: String,
}

/// Sends requests.
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoint: String,
    /// Which header has what the cloud calls a request.
    id_header: &'static str,
    clock: Arc<dyn Clock>,
    budget: Mutex<Budget>,
    /// Of what changes something; none: it counts with what looks.
    changes: Option<Mutex<Budget>>,
}

impl HttpClient {
    /// At `endpoint`; `limit`: requests that a project has in an hour; `id_header`: the header that has what the cloud calls
    /// a request. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoint: &str,
        limit: u32,
        id_header: &'static str,
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
            id_header,
            budget: Mutex::new(Budget::new(clock.now(), limit)),
            changes: None,
            clock,
        })
    }

    /// The same of a cloud that has a bucket for what looks and another for what changes something.
    #[must_use]
    pub fn with_buckets(self, looks: Bucket, changes: Bucket) -> Self {
        let now = self.clock.now();
        Self {
            budget: Mutex::new(Budget::of_bucket(now, looks)),
            changes: Some(Mutex::new(Budget::of_bucket(now, changes))),
            ..self
        }
    }

    /// Sends it, once, and reads its answer.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub async fn send(&self, call: Call) -> Result<Reply, Lost> {
        self.send_with(call, &[]).await
    }

    /// The same with more headers.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub async fn send_with(
        &self,
        call: Call,
        headers: &[(&'static str, &str)],
    ) -> Result<Reply, Lost> {
        let use_ = call.use_;
        let taken = self.budget(use_, |budget, now| budget.take(now, use_));
        if let Err(after) = taken {
            return Err(Lost {
                kind: FaultKind::Throttled { after: Some(after) },
                code: BUDGET,
                why: "more is not asked, so that the project's limit is never reached".to_owned(),
            });
        }
        let largest = call.largest;
        let request = self.request(call, headers)?;
        let deadline = self.clock.wait(ANSWER);
        tokio::select! {
            biased;
            answer = self.exchange(request, use_, largest) => answer,
            () = deadline => Err(unavailable(NO_ANSWER, format!("no answer within {} s", ANSWER.as_secs()))),
        }
    }

    fn request(
        &self,
        call: Call,
        headers: &[(&'static str, &str)],
    ) -> Result<Request<Full<Bytes>>, Lost> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.endpoint, call.path))
            .header(USER_AGENT, concat!("covey/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = call.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in headers {
            // Some let in, and none is of use to whoever looks.
            let mut value = HeaderValue::from_str(value).map_err(|error| not_sent(&error))?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        let body = match call.body {
            Some((type_, body)) => {
                request = request.header(CONTENT_TYPE, type_);
                body
            }
            None => Vec::new(),
        };
        let request = request.body(Full::from(body));
        request.map_err(|error| not_sent(&error))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        use_: Use,
        largest: usize,
    ) -> Result<Reply, Lost> {
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| unavailable(NO_ANSWER, causes(&error)))?;
        let status = answer.status().as_u16();
        let told = told(answer.headers());
        let after = self.budget(use_, |budget, now| budget.learn(now, told, status == 429));
        let operation = text(answer.headers(), "azure-asyncoperation");
        let operation = operation.filter(|operation| operation.len() <= OPERATION);
        let operation = operation.map(str::to_owned);
        let request = text(answer.headers(), self.id_header);
        let request = request.map(|id| id.chars().take(ID).collect());
        let body = Limited::new(answer.into_body(), largest).collect().await;
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                let why = format!("the answer has more than {largest} bytes");
                return Err(unavailable(TOO_LARGE, why));
            }
            Err(error) => return Err(unavailable(UNREADABLE, error.to_string())),
        };
        Ok(Reply {
            status,
            body,
            after,
            request,
            date: told.date.and_then(|date| Timestamp::from_second(date).ok()),
            operation,
        })
    }

    /// Takes in that an answer said otherwise than by its status that it is asked too often for this. Gives how long that
    /// pauses.
    pub fn pause(&self, use_: Use) -> Option<Duration> {
        self.budget(use_, |budget, now| budget.learn(now, Told::default(), true))
    }

    fn budget<T>(&self, use_: Use, ask: impl FnOnce(&mut Budget, Timestamp) -> T) -> T {
        let changes = self.changes.as_ref().filter(|_| use_ == Use::Change);
        let budget = changes.unwrap_or(&self.budget);
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&mut budget, self.clock.now())
    }
}

/// Nothing was sent.
fn not_sent(error: &dyn std::error::Error) -> Lost {
    Lost {
        kind: FaultKind::Terminal,
        code: UNREADABLE,
        why: error.to_string(),
    }
}

fn unavailable(code: &'static str, why: String) -> Lost {
    Lost {
        kind: FaultKind::Unavailable,
        code,
        why,
    }
}

/// As a path and a query have it (RFC 3986, 2.3).
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            byte => {
                // Writing to a text cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
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
        remaining: remaining(headers),
        reset: number("ratelimit-reset"),
        date: date.map(|date| date.timestamp().as_second()),
        retry_after: number(RETRY_AFTER.as_str()),
    }
}

/// How many requests are left; of several counts the least. Those of a resource provider
/// (`x-ms-ratelimit-remaining-resource`) are of other buckets, some of a dozen requests: that one is empty is told by 429.
fn remaining(headers: &HeaderMap) -> Option<u32> {
    let all = [
        "ratelimit-remaining",
        "x-ms-ratelimit-remaining-subscription-reads",
        "x-ms-ratelimit-remaining-subscription-writes",
        "x-ms-ratelimit-remaining-subscription-deletes",
    ];
    let counts = all.into_iter().filter_map(|name| text(headers, name));
    counts.filter_map(|count| count.trim().parse().ok()).min()
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
        HttpClient::new(endpoint, 3600, "x-request-id", Arc::new(SystemClock)).map(drop)
    }

    #[tokio::test]
    async fn token_goes_nowhere_in_the_clear() {
        build("https://api.example.com/v1").unwrap();
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

    #[test]
    fn of_several_counts_the_least_is_left() {
        let mut headers = HeaderMap::new();
        assert_eq!(remaining(&headers), None);
        for (name, value) in [
            ("x-ms-ratelimit-remaining-subscription-reads", "249"),
            (
                "x-ms-ratelimit-remaining-resource",
                "Microsoft.Compute/HighCostGet3Min;46,Microsoft.Compute/HighCostGet30Min;200",
            ),
            ("x-ms-ratelimit-remaining-subscription-writes", "199"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(remaining(&headers), Some(199));
    }
}
