//! Logging in and out.
//!
//! Invariant: no answer and no log has a token.

use std::io;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use http::header::SET_COOKIE;

use super::fake::{Browser, Fake, failure};

#[tokio::test]
async fn without_a_session_every_way_leads_to_log_in() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    for page in super::PAGES {
        let answer = browser.get(page).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{page}");
        assert!(answer.location().starts_with("/login"), "{page}");
    }
    let deep = browser.get("/clusters/team-a/demo?x=1").await;
    assert_eq!(
        deep.location(),
        "/login?next=%2Fclusters%2Fteam-a%2Fdemo%3Fx%3D1"
    );
    let login = browser.get("/login?next=%2Fclusters%2Fteam-a%2Fdemo").await;
    assert!(
        login
            .text
            .contains("name=\"next\" value=\"/clusters/team-a/demo\"")
    );
    let evil = browser.get("/login?next=https%3A%2F%2Fevil.example").await;
    assert!(evil.text.contains("name=\"next\" value=\"/\""));
    for path in ["/clusters/team-a/demo/pause", "/logout", "/new"] {
        let answer = browser.post(path, &[]).await;
        assert_eq!(answer.location(), "/login?done=ended", "{path}");
    }
    browser.cookie = Some("guessed".to_owned());
    assert_eq!(browser.get("/").await.location(), "/login");
    // By a link on another site the cookie is not sent: the page asks again by itself.
    (browser.cookie, browser.site) = (None, Some("cross-site"));
    let onward = browser.get("/clusters/team-a/demo").await;
    assert_eq!(onward.status, StatusCode::OK);
    assert!(
        onward.text.contains("0; url=/clusters/team-a/demo\""),
        "{}",
        onward.text
    );
    assert_eq!(fake.asked(), [""; 0]);
}

#[tokio::test]
async fn a_token_that_the_api_takes_begins_a_session_and_log_out_ends_it() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    let entered = browser
        .post("/login", &[("token", "sesame-jane"), ("next", "/pools")])
        .await;
    assert_eq!(entered.location(), "/pools");
    let cookie = entered.headers[SET_COOKIE].to_str().unwrap().to_owned();
    for part in [
        "__Host-covey-session=",
        "; Path=/;",
        "; Secure",
        "; HttpOnly",
        "; SameSite=Strict",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(
        !cookie.contains("sesame") && !cookie.contains("Domain"),
        "{cookie}"
    );
    browser.log_in("jane").await;
    assert_eq!(
        browser.sessions.count(),
        1,
        "the session of before has ended"
    );
    let before = browser.cookie.clone();
    let left = browser.post("/logout", &[]).await;
    assert_eq!(left.location(), "/login?done=out");
    assert!(
        left.headers[SET_COOKIE]
            .to_str()
            .unwrap()
            .contains("Max-Age=0")
    );
    browser.cookie = before;
    assert_eq!(browser.get("/").await.location(), "/login");
    assert_eq!(browser.sessions.count(), 0);
}

#[tokio::test]
async fn whoever_is_not_let_in_is_told_why() {
    let mut fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    for (token, status, words) in [
        ("", 422, "paste a token"),
        ("sesame open", 422, "this is no token"),
        ("users: [sesame", 422, "looks like a kubeconfig"),
        ("unknown-sesame", 422, "does not take this token"),
        (
            "eyJhbGciOiJub25lIn0.eyJleHAiOjEwMDAwMDAwMDB9.c2ln",
            422,
            "this token has ended",
        ),
    ] {
        let answer = browser.post("/login", &[("token", token)]).await;
        assert_eq!(answer.status.as_u16(), status, "{token}");
        assert!(answer.text.contains(words), "{token}: {}", answer.text);
        assert!(!answer.text.contains("sesame"), "{token}");
        assert!(answer.headers.get(SET_COOKIE).is_none(), "{token}");
    }
    browser.site = Some("cross-site");
    let foreign = browser.post("/login", &[("token", "sesame-jane")]).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
    assert_eq!(browser.sessions.count(), 0);
    // An API that is broken is no mistake of theirs.
    fake.refusal = Some((
        "selfsubjectreviews",
        500,
        failure(500, "InternalError", "no").1,
    ));
    let mut other = Browser::new(&fake, false);
    let answer = other.post("/login", &[("token", "sesame-jane")]).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn a_token_that_is_not_taken_any_more_ends_the_session() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("late").await;
    let answer = browser.get("/clusters/team-a/demo").await;
    assert_eq!(answer.location(), "/login?done=ended");
    assert_eq!(browser.sessions.count(), 0);
    let login = browser.get("/login?done=ended").await;
    assert!(login.text.contains("Your session has ended"));
    assert!(
        !browser
            .get("/login?done=%3Cb%3E")
            .await
            .text
            .contains("%3Cb")
    );
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_has_a_token_a_cookie_or_what_was_sent() {
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    let (cookie, form_token) = (browser.cookie.clone().unwrap(), browser.form_token.clone());
    browser.get("/clusters?q=sesame-filter&ns=team-a").await;
    browser
        .post(
            "/pools/team-a/demo-workers/scale",
            &[("replicas", "3"), ("x", "sesame-field")],
        )
        .await;
    browser.post("/login", &[("token", "sesame two")]).await;
    drop(guard);
    let log = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    assert!(
        log.contains("somebody logged in") && log.contains("/scale"),
        "{log}"
    );
    for secret in ["sesame", cookie.as_str(), form_token.as_str()] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}
