//! T1: the pages against a real kube-apiserver: people with different rights, changes, refusals, and streams.
//!
//! Invariant: what is in pages and in the API is all that is looked at; no test sleeps.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::{NodePool, TenantCluster};
use axum::Router;
use axum::body::Body;
use dashboard::router::router;
use dashboard::sessions::Sessions;
use http::header::{COOKIE, LOCATION, SET_COOKIE};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use testkit::apiserver::ManagementApi;
use testkit::fixtures::PATIENCE;
use tower::ServiceExt as _;

#[path = "../support/mod.rs"]
mod support;

use support::{EDIT, VIEW, person, say, seeded, user};

fn service(api: &ManagementApi) -> Result<Router> {
    let upstream = dashboard::upstream::Api::new(&api.url(), api.ca().as_bytes())?;
    Ok(router(&Sessions::new(100), Arc::new(upstream), false))
}

/// Somebody with a browser.
struct Person {
    router: Router,
    cookie: String,
    form_token: String,
}

/// What came: status, where it leads, text.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    location: String,
    text: String,
}

impl Answer {
    #[track_caller]
    fn expect(self, status: u16, words: &[&str]) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:#?}");
        for word in words {
            assert!(
                self.text.contains(word) || self.location.contains(word),
                "{word}: {self:#?}"
            );
        }
        self
    }
}

impl Person {
    async fn log_in(router: &Router, token: &str) -> Result<Self> {
        let mut person = Self {
            router: router.clone(),
            cookie: String::new(),
            form_token: String::new(),
        };
        let request = person.request(Method::POST, "/login", &[("token", token)])?;
        let answer = person.router.clone().oneshot(request).await?;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()[SET_COOKIE].to_str()?;
        person.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let page = person.get("/reasons").await?.text;
        let (_, rest) = page
            .split_once("name=\"form-token\" value=\"")
            .context("no form")?;
        person.form_token = rest.split('"').next().unwrap_or_default().to_owned();
        Ok(person)
    }

    fn request(&self, method: Method, path: &str, pairs: &[(&str, &str)]) -> Result<Request<Body>> {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("form-token", &self.form_token)
            .extend_pairs(pairs)
            .finish();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("sec-fetch-site", "same-origin")
            .header(COOKIE, &self.cookie);
        Ok(request.body(Body::from(body))?)
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer> {
        let (parts, body) = self.router.clone().oneshot(request).await?.into_parts();
        let text = body.collect().await?.to_bytes();
        let location = parts.headers.get(LOCATION);
        Ok(Answer {
            status: parts.status,
            location: location.map_or("", |l| l.to_str().unwrap()).to_owned(),
            text: String::from_utf8(text.to_vec())?,
        })
    }

    async fn get(&self, path: &str) -> Result<Answer> {
        self.send(self.request(Method::GET, path, &[])?).await
    }

    async fn post(&self, path: &str, pairs: &[(&str, &str)]) -> Result<Answer> {
        self.send(self.request(Method::POST, path, pairs)?).await
    }
}

/// A stream that a page listens to.
struct Stream(Body);

impl Stream {
    async fn open(person: &Person, path: &str) -> Result<Self> {
        let request = person.request(Method::GET, path, &[])?;
        let answer = person.router.clone().oneshot(request).await?;
        assert_eq!(answer.status(), StatusCode::OK);
        Ok(Self(answer.into_body()))
    }

    /// The next event's name; none when the stream has ended.
    async fn next(&mut self) -> Result<Option<String>> {
        loop {
            let frame = tokio::time::timeout(PATIENCE, self.0.frame()).await;
            let Some(frame) = frame.context("no event came")? else {
                return Ok(None);
            };
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            let text = String::from_utf8(data.to_vec())?;
            let name = text.lines().find_map(|line| line.strip_prefix("event: "));
            if let Some(name) = name {
                return Ok(Some(name.to_owned()));
            }
        }
    }

    async fn expect(&mut self, name: &str) -> Result<()> {
        assert_eq!(self.next().await?.as_deref(), Some(name));
        Ok(())
    }
}

#[tokio::test]
async fn two_people_see_what_each_may() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let (ours, theirs) = (api.namespace("dash").await?, api.namespace("dash").await?);
    seeded(&api.admin()?, &ours, "demo", false).await?;
    seeded(&api.admin()?, &theirs, "web", true).await?;
    let router = service(api)?;
    let jane = Person::log_in(&router, &person(api, &ours, "jane", EDIT).await?).await?;
    let joe = Person::log_in(&router, &person(api, &theirs, "joe", VIEW).await?).await?;

    for (who, own, name, other) in [
        (&jane, &ours, "demo", &theirs),
        (&joe, &theirs, "web", &ours),
    ] {
        who.get("/")
            .await?
            .expect(403, &["You may not list tenantclusters in all namespaces."]);
        let listed = who.get(&format!("/clusters?ns={own}")).await?;
        listed.expect(
            200,
            &["Endpoint", "10.96.3.7", &format!("/clusters/{own}/{name}")],
        );
        let refused = who.get(&format!("/clusters?ns={other}")).await?;
        refused.expect(403, &["Not allowed", "cannot list tenantclusters"]);
        who.get("/")
            .await?
            .expect(403, &[&format!("/clusters?ns={own}")]);
        let hidden = if name == "demo" { "web" } else { "demo" };
        let page = who.get(&format!("/clusters/{other}/{hidden}")).await?;
        page.expect(403, &["cannot get the tenant cluster"]);
    }
    let requests = api.audit().window()?;
    let page = jane.get(&format!("/clusters/{ours}/demo")).await?;
    page.expect(
        200,
        &[
            "AddonsNotReady",
            "coreDNS: 0 of 2 pods are ready",
            "demo-workers",
            "What could not be looked at",
            "/pause",
            "Delete…",
        ],
    );
    // What a page asks, it asks as who looks, by a name that the audit log shows.
    let asked = requests.entries()?;
    let of_jane: Vec<_> = asked
        .iter()
        .filter(|e| e.user == user(&ours, "jane"))
        .collect();
    let answered = of_jane.iter().filter(|e| e.code.is_some()).count();
    assert!((7..=12).contains(&answered), "{answered}: {of_jane:#?}");
    let is_ours = |agent: &str| agent.starts_with("covey-dashboard/");
    assert!(
        of_jane.iter().all(|e| is_ours(&e.user_agent)),
        "{of_jane:#?}"
    );
    assert!(
        !asked
            .iter()
            .any(|e| e.kind == "secrets" && is_ours(&e.user_agent))
    );
    let page = joe.get(&format!("/clusters/{theirs}/web")).await?;
    page.expect(
        200,
        &[
            "Ready",
            "You may not patch tenantclusters",
            "You may not delete tenantclusters",
        ],
    );
    for path in [
        "/pools",
        "/machines",
        "/hosts",
        "/snapshots",
        "/restores",
        "/providerconfigs",
    ] {
        jane.get(&format!("{path}?ns={ours}"))
            .await?
            .expect(200, &[]);
    }
    jane.get(&format!("/pools/{ours}/demo-workers"))
        .await?
        .expect(200, &["of 2 ready", "There are no machines."]);
    Ok(())
}

#[tokio::test]
async fn what_is_changed_is_changed_and_what_is_refused_says_where() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("dash").await?;
    let client = api.admin()?;
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), &namespace);
    let router = service(api)?;
    let jane = Person::log_in(&router, &person(api, &namespace, "jane", EDIT).await?).await?;
    let joe = Person::log_in(&router, &person(api, &namespace, "joe", VIEW).await?).await?;

    // Made: what the definition refuses stands beside its field, and nothing was made.
    let form = |name, version, act| {
        [
            ("namespace", namespace.as_str()),
            ("name", name),
            ("version", version),
            ("workers", "2"),
            ("endpoint", "NodePort"),
            ("host", "192.0.2.7"),
            ("act", act),
        ]
    };
    let refused = jane.post("/new", &form("demo", "newest", "create")).await?;
    refused.expect(
        422,
        &["id=\"version-mistake\" data-answer=\"\">Invalid value"],
    );
    let refused = jane
        .post("/new", &form("Demo_1", "1.35.4", "create"))
        .await?;
    refused.expect(422, &["id=\"name-mistake\" data-answer=\"\">"]);
    let checked = jane.post("/new", &form("demo", "1.35.4", "check")).await?;
    checked.expect(200, &["Nothing was made."]);
    assert_eq!(clusters.list(&Default::default()).await?.items.len(), 0);
    let made = jane.post("/new", &form("demo", "1.35.4", "create")).await?;
    made.expect(303, &[&format!("/clusters/{namespace}/demo?done=created")]);
    let found = clusters.get("demo").await?;
    let managers = found.metadata.managed_fields.clone().unwrap_or_default();
    assert!(
        managers
            .iter()
            .any(|m| m.manager.as_deref() == Some("covey-dashboard"))
    );
    assert_eq!(pools.get("demo-workers").await?.spec.replicas, 2);
    let again = jane.post("/new", &form("demo", "1.35.4", "create")).await?;
    again.expect(422, &["there is one of this name already"]);
    let theirs = joe.post("/new", &form("other", "1.35.4", "create")).await?;
    theirs.expect(422, &["cannot create resource"]);
    let none = jane
        .post(
            "/new",
            &[
                ("namespace", "nowhere-at-all"),
                ("name", "x"),
                ("version", "1.35.4"),
                ("act", "create"),
            ],
        )
        .await?;
    none.expect(422, &["nowhere-at-all"]);

    // Scaled and paused, by who may.
    let path = format!("/pools/{namespace}/demo-workers/scale");
    jane.post(&path, &[("replicas", "5")])
        .await?
        .expect(303, &["done=scaled"]);
    assert_eq!(pools.get("demo-workers").await?.spec.replicas, 5);
    jane.post(&path, &[("replicas", "-1")])
        .await?
        .expect(422, &["id=\"replicas-mistake\"", "value=\"-1\""]);
    joe.post(&path, &[("replicas", "1")])
        .await?
        .expect(403, &["cannot patch resource"]);
    let path = format!("/clusters/{namespace}/demo");
    jane.post(&format!("{path}/pause"), &[])
        .await?
        .expect(303, &["done=paused"]);
    assert!(clusters.get("demo").await?.spec.paused);
    jane.get(&path)
        .await?
        .expect(200, &["It is paused", "/resume"]);
    joe.post(&format!("{path}/resume"), &[])
        .await?
        .expect(403, &["Not allowed"]);
    jane.post(&format!("{path}/resume"), &[])
        .await?
        .expect(303, &["done=resumed"]);
    assert!(!clusters.get("demo").await?.spec.paused);
    let pool = [
        ("name", "large"),
        ("replicas", "1"),
        ("cpu", "0"),
        ("act", "create"),
    ];
    jane.post(&format!("{path}/new-pool"), &pool)
        .await?
        .expect(422, &["id=\"cpu-mistake\""]);
    let pool = [("name", "large"), ("replicas", "1"), ("act", "create")];
    jane.post(&format!("{path}/new-pool"), &pool)
        .await?
        .expect(303, &["done=created-pool"]);

    // Deleted: the one that was shown.
    let uid = found.uid().unwrap();
    let other = [
        ("confirm", "demo"),
        ("uid", "0a1b2c3d-1111-4222-8333-444455556666"),
    ];
    jane.post(&format!("{path}/delete"), &other)
        .await?
        .expect(409, &["cannot delete"]);
    jane.get(&format!("{path}/delete"))
        .await?
        .expect(200, &[&uid, "0 machines"]);
    let right = [("confirm", "demo"), ("uid", uid.as_str())];
    joe.post(&format!("{path}/delete"), &right)
        .await?
        .expect(403, &["Not allowed"]);
    jane.post(&format!("{path}/delete"), &right)
        .await?
        .expect(303, &["done=deleted"]);
    assert!(clusters.get_opt("demo").await?.is_none());
    jane.get(&path)
        .await?
        .expect(404, &["it was deleted, or never there"]);
    Ok(())
}

#[tokio::test]
async fn a_page_is_told_of_changes_until_its_session_ends() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let (ours, theirs) = (api.namespace("dash").await?, api.namespace("dash").await?);
    let client = api.admin()?;
    seeded(&client, &ours, "demo", false).await?;
    let router = service(api)?;
    let jane = Person::log_in(&router, &person(api, &ours, "jane", VIEW).await?).await?;

    let requests = api.audit().window()?;
    let address = format!("/live?kinds=clusters,pools&ns={ours}");
    let mut one = Stream::open(&jane, &address).await?;
    let mut two = Stream::open(&jane, &address).await?;
    one.expect("synced").await?;
    two.expect("synced").await?;
    say(&client, &ours, "demo", true).await?;
    one.expect("change").await?;
    two.expect("change").await?;
    jane.get(&format!("/clusters?ns={ours}"))
        .await?
        .expect(200, &["✓ </span>True"]);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), &ours);
    let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
    pools
        .patch("demo-workers", &PatchParams::default(), &patch)
        .await?;
    one.expect("change").await?;
    // Of a kind that somebody may not watch there is nothing to tell.
    let mut other = Stream::open(&jane, &format!("/live?kinds=clusters&ns={theirs}")).await?;
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("refused") {
        heard.push(other.next().await?.context("it ended")?);
    }
    // One watch for each kind, however many pages there are.
    let entries = requests.entries()?;
    let watches = entries
        .iter()
        .filter(|e| e.verb == "watch" && e.user == user(&ours, "jane"));
    let mut of: Vec<_> = watches
        .filter(|e| e.namespace.as_ref() == Some(&ours))
        .map(|e| e.kind.clone())
        .collect();
    of.sort();
    of.dedup();
    assert_eq!(of.len(), 2, "{of:?}");
    jane.get("/live?kinds=secrets").await?.expect(404, &[]);

    jane.post("/logout", &[]).await?.expect(303, &["/login"]);
    for stream in [&mut one, &mut two] {
        let mut last = None;
        while let Some(name) = stream.next().await? {
            last = Some(name);
        }
        assert_eq!(last.as_deref(), Some("end"));
    }
    Ok(())
}
