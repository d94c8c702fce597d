//! An API that is played, and a browser that keeps its cookie.
//!
//! Invariant: whoever has the token `sesame-NAME` is NAME; `nobody` may do nothing, and `late`'s token is taken once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HOST, HeaderMap, LOCATION, SET_COOKIE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt as _};

use crate::pages::tests::fixture;
use crate::router::router;
use crate::sessions::Sessions;
use crate::token::Token;
use crate::upstream::{Error, Upstream};

type Patched = Arc<Mutex<Vec<(String, Value)>>>;

/// The API.
#[derive(Clone, Default)]
pub(super) struct Fake {
    /// What was asked.
    pub(super) asked: Arc<Mutex<Vec<String>>>,
    /// What was sent.
    pub(super) sent: Patched,
    /// What stands where something of others may stand.
    pub(super) hostile: Option<&'static str>,
    /// What is refused, and how: a part of `METHOD path`, status, body.
    pub(super) refusal: Option<(&'static str, u16, Value)>,
    /// How often a token was taken that is not any more.
    pub(super) late: Arc<AtomicUsize>,
}

impl Fake {
    /// What was asked since the last call: `USER METHOD path`.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// What was sent since the last call.
    pub(super) fn sent(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }

    fn answer(&self, user: &str, method: &Method, path: &str, is_table: bool) -> (u16, Value) {
        let line = format!("{method} {path}");
        if let Some((part, status, body)) = &self.refusal
            && line.contains(part)
        {
            return (*status, body.clone());
        }
        let plain = path.split('?').next().unwrap_or_default();
        if plain.ends_with("/selfsubjectreviews") {
            return match user {
                "" => failure(401, "Unauthorized", "Unauthorized"),
                "late" if self.late.fetch_add(1, Ordering::Relaxed) > 0 => {
                    failure(401, "Unauthorized", "Unauthorized")
                }
                user => (
                    201,
                    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}, "status": {"userInfo": {"username": user}}}),
                ),
            };
        }
        if user == "late" {
            return failure(401, "Unauthorized", "Unauthorized");
        }
        if plain.ends_with("/selfsubjectrulesreviews") {
            let verbs = if user == "viewer" {
                json!(["get", "list", "watch"])
            } else {
                json!(["*"])
            };
            let rule = json!({"verbs": verbs, "apiGroups": ["covey.dev"], "resources": ["*"]});
            return (
                201,
                json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "metadata": {}, "spec": {},
                "status": {"incomplete": false, "nonResourceRules": [], "resourceRules": [rule]}}),
            );
        }
        if user == "nobody" {
            return failure(403, "Forbidden", "nobody may not do that");
        }
        let hostile = self.hostile;
        let list = |items: Vec<Value>| {
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items});
            (200, list)
        };
        let namespaced = plain
            .split_once("/namespaces/")
            .map_or(plain.rsplit('/').next().unwrap_or_default(), |(_, rest)| {
                rest.split_once('/').map_or("", |(_, rest)| rest)
            });
        if is_table && *method == Method::GET {
            return (200, fixture::table(hostile, !path.contains("continue=")));
        }
        match (method.as_str(), namespaced) {
            ("GET", "tenantclusters/demo") => (200, fixture::cluster(hostile)),
            ("GET", "nodepools/demo-workers") => (200, fixture::pool(hostile)),
            ("GET", "machines/demo-workers-a") => (200, fixture::machine("a", hostile)),
            ("GET", "hosts/edge-1") => (200, fixture::host(hostile)),
            ("GET", "nodepools") => list(vec![fixture::pool(hostile)]),
            ("GET", "machines") => list(vec![
                fixture::machine("a", hostile),
                fixture::machine("b", hostile),
            ]),
            ("GET", "hosts") => list(vec![fixture::host(hostile)]),
            ("GET", "snapshots") => list(vec![fixture::snapshot(hostile)]),
            ("GET", "restores") => list(vec![fixture::restore(hostile)]),
            ("GET", "accessgrants") => list(vec![fixture::grant(hostile)]),
            ("GET", "events") => list(vec![fixture::event(hostile)]),
            ("GET", "pods" | "persistentvolumeclaims") => list(Vec::new()),
            ("PATCH", "tenantclusters/demo") => (200, fixture::cluster(hostile)),
            ("PATCH", "nodepools/demo-workers") => (200, fixture::pool(hostile)),
            ("DELETE", _) => (
                200,
                json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}),
            ),
            ("POST", "tenantclusters") => (201, fixture::cluster(hostile)),
            ("POST", "nodepools") => (201, fixture::pool(hostile)),
            _ => failure(404, "NotFound", "it is not found"),
        }
    }
}

/// An answer that refuses.
pub(super) fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message});
    (code, status)
}

impl Upstream for Fake {
    fn client(&self, token: &Token) -> Result<Client, Error> {
        let user = token
            .expose()
            .strip_prefix("sesame-")
            .unwrap_or_default()
            .to_owned();
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (fake, user) = (fake.clone(), user.clone());
            async move {
                let (method, uri) = (request.method().clone(), request.uri().clone());
                let path = uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
                let is_table = request
                    .headers()
                    .get(ACCEPT)
                    .is_some_and(|a| a.to_str().unwrap().contains("as=Table"));
                fake.asked
                    .lock()
                    .unwrap()
                    .push(format!("{user} {method} {path}"));
                let body = request.into_body().collect().await.unwrap().to_bytes();
                if let Ok(body) = serde_json::from_slice(&body) {
                    fake.sent
                        .lock()
                        .unwrap()
                        .push((format!("{method} {path}"), body));
                }
                let (code, body) = fake.answer(&user, &method, &path, is_table);
                let body = kube::client::Body::from(serde_json::to_vec(&body).unwrap());
                let answer = Response::builder().status(code).body(body).unwrap();
                Ok::<_, BoxError>(answer)
            }
        });
        Ok(Client::new(service, "default"))
    }
}

/// What came.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    /// Where it leads.
    pub(super) fn location(&self) -> &str {
        self.headers[LOCATION].to_str().unwrap()
    }
}

/// A browser with a cookie.
pub(super) struct Browser {
    pub(super) router: Router,
    pub(super) sessions: Sessions,
    pub(super) cookie: Option<String>,
    pub(super) form_token: String,
    /// What it says of where a request comes from.
    pub(super) site: Option<&'static str>,
}

impl Browser {
    pub(super) fn new(fake: &Fake, is_read_only: bool) -> Self {
        let sessions = Sessions::new(100);
        Self {
            router: router(&sessions, Arc::new(fake.clone()), is_read_only),
            sessions,
            cookie: None,
            form_token: String::new(),
            site: Some("same-origin"),
        }
    }

    async fn send(&mut self, method: Method, path: &str, body: Option<String>) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "covey.example.com");
        if let Some(site) = self.site {
            request = request.header("sec-fetch-site", site);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIE, format!("other=1; __Host-covey-session={cookie}"));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let request = request.body(Body::from(body.unwrap_or_default())).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        if let Some(set) = parts.headers.get(SET_COOKIE) {
            let set = set.to_str().unwrap();
            let value = set.split(['=', ';']).nth(1).unwrap();
            self.cookie = Some(value.to_owned()).filter(|value| !value.is_empty());
        }
        let text = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text,
        }
    }

    pub(super) async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    /// Sends a form of the page; with the token of its forms.
    pub(super) async fn post(&mut self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        let token = self.form_token.clone();
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.append_pair("form-token", &token).extend_pairs(pairs);
        self.send(Method::POST, path, Some(body.finish())).await
    }

    /// Logs a user in, and reads the token of the forms.
    pub(super) async fn log_in(&mut self, user: &str) {
        let entered = self
            .post("/login", &[("token", &format!("sesame-{user}"))])
            .await;
        assert_eq!(entered.status, StatusCode::SEE_OTHER, "{}", entered.text);
        assert_eq!(entered.location(), "/");
        let page = self.get("/reasons").await.text;
        let (_, rest) = page.split_once("name=\"form-token\" value=\"").unwrap();
        self.form_token = rest.split('"').next().unwrap().to_owned();
    }
}
