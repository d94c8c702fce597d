//! Sessions begin, are found, and end; by an invented time.
//!
//! Invariant: no test waits.

use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

use super::{IDLE, LONGEST, MOST_OF_ONE, MOST_OF_PARTY, NoSession, Session, Sessions};

fn session(user: &str) -> Session {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Ok::<_, tower::BoxError>(http::Response::new(kube::client::Body::empty()))
    });
    Session::new(user, Client::new(service, "default")).unwrap()
}

#[tokio::test]
async fn a_cookie_leads_to_its_session_and_a_guess_to_none() {
    let (sessions, now) = (Sessions::new(10), Instant::now());
    let jane = sessions.begin(session("jane"), None, now).unwrap();
    let joe = sessions.begin(session("joe"), None, now).unwrap();
    assert_ne!(jane, joe);
    let found = sessions.find(&jane, true, now).unwrap();
    assert_eq!(found.user, "jane");
    let other = sessions.find(&joe, true, now).unwrap();
    assert!(found.is_form_token(&found.form_token.clone()));
    assert!(!found.is_form_token(&other.form_token));
    assert!(sessions.find("", true, now).is_none());
    assert!(sessions.find(&jane[1..], true, now).is_none());
    assert!(!format!("{found:?}").contains(&found.form_token));
}

#[tokio::test]
async fn a_session_ends_idle_late_with_its_token_and_by_log_out() {
    let (sessions, now) = (Sessions::new(10), Instant::now());
    let second = Duration::from_secs(1);
    // Idle, where what a page does by itself is no use.
    let idle = sessions.begin(session("jane"), None, now).unwrap();
    let soon = now + IDLE - second;
    assert!(sessions.find(&idle, false, soon).is_some());
    assert!(sessions.find(&idle, false, soon + second).is_none());
    // Used all the time.
    let long = sessions.begin(session("jane"), None, now).unwrap();
    let mut at = now;
    while at + IDLE / 2 < now + LONGEST {
        at += IDLE / 2;
        assert!(sessions.find(&long, true, at).is_some());
    }
    assert!(sessions.find(&long, true, now + LONGEST).is_none());
    // With its token.
    let lasts = Some(Duration::from_secs(60));
    let short = sessions.begin(session("jane"), lasts, now).unwrap();
    assert!(sessions.find(&short, true, now + 59 * second).is_some());
    assert!(sessions.find(&short, true, now + 60 * second).is_none());
    // By log-out, and whoever listens is told.
    let out = sessions.begin(session("jane"), None, now).unwrap();
    let found = sessions.find(&out, true, now).unwrap();
    let ended = found.ended();
    sessions.end(&out);
    ended.await;
    assert!(sessions.find(&out, true, now).is_none());
    assert_eq!(sessions.count(), 0);
}

#[tokio::test]
async fn one_user_has_few_and_all_together_are_bounded() {
    let (sessions, now) = (Sessions::new(MOST_OF_ONE + 1), Instant::now());
    let second = Duration::from_secs(1);
    let mut first = None;
    for number in 0..=MOST_OF_ONE {
        let at = now + second * u32::try_from(number).unwrap();
        let cookie = sessions.begin(session("jane"), None, at).unwrap();
        first.get_or_insert(cookie);
    }
    assert_eq!(sessions.count(), MOST_OF_ONE);
    assert!(sessions.find(&first.unwrap(), true, now).is_none());
    sessions.begin(session("joe"), None, now).unwrap();
    let full = sessions.begin(session("ann"), None, now).unwrap_err();
    assert_eq!(full, NoSession::Full);
    // What is over makes place.
    let later = now + IDLE + second * 10;
    sessions.begin(session("ann"), None, later).unwrap();
    assert_eq!(sessions.count(), 1);
}

#[tokio::test]
async fn namespaces_and_access_are_remembered_within_bounds() {
    let (one, now) = (session("jane"), Instant::now());
    for number in 0..100 {
        one.saw(&format!("team-{number:03}"));
    }
    assert_eq!(one.namespaces().len(), super::MOST_NAMESPACES);
    let access = std::sync::Arc::default();
    one.set_access("team-a", &access, now);
    assert!(one.access("team-a", now).is_some());
    assert!(one.access("team-b", now).is_none());
    assert!(one.access("team-a", now + super::ACCESS_HOLDS).is_none());
}

/// Who may make ServiceAccounts in a namespace keeps nobody else out.
#[tokio::test]
async fn users_of_one_namespace_are_one_party() {
    let (sessions, now) = (Sessions::new(MOST_OF_PARTY + 1), Instant::now());
    let begin = |user: &str, second: u64| {
        let at = now + Duration::from_secs(second);
        sessions.begin(session(user), None, at).unwrap()
    };
    let find = |cookie: &str| sessions.find(cookie, false, now).unwrap();
    let mut last = None;
    for number in 0..30 {
        let user = format!("system:serviceaccount:hostile:n{number}");
        last = Some(begin(&user, number));
    }
    assert_eq!(sessions.count(), MOST_OF_PARTY);
    let other = begin("system:serviceaccount:team:n0", 30);
    let again = begin("system:serviceaccount:hostile:another", 31);
    let (hostile, other) = (find(&last.unwrap()), find(&other));
    // They wait for each other, and nobody else does.
    assert!(std::sync::Arc::ptr_eq(&hostile.turns, &find(&again).turns));
    assert!(!std::sync::Arc::ptr_eq(&hostile.turns, &other.turns));
}
