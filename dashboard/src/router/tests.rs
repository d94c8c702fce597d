//! The whole service with an API that is played: sessions, forms, headers, and what may stand in a page.
//!
//! Invariant: nothing waits, and nothing leaves the process.

mod changes;
mod entrance;
mod fake;
mod hostile;

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::headers::POLICY;
use fake::{Browser, Fake};

/// The address of every page that is asked for by GET.
const PAGES: [&str; 17] = [
    "/",
    "/clusters?ns=team-a",
    "/clusters?ns=team-a&q=demo",
    "/pools",
    "/machines",
    "/hosts",
    "/snapshots",
    "/restores",
    "/providerconfigs",
    "/clusters/team-a/demo",
    "/pools/team-a/demo-workers",
    "/machines/team-a/demo-workers-a",
    "/hosts/team-a/edge-1",
    "/new?ns=team-a",
    "/clusters/team-a/demo/new-pool",
    "/clusters/team-a/demo/delete",
    "/reasons",
];

#[tokio::test]
async fn every_answer_says_what_browsers_may_do_with_it() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    let nobody = [
        "/",
        "/login",
        "/nowhere/at/all/is",
        "/assets/none",
        STYLE.path(),
        SCRIPT.path(),
        ICON.path(),
    ];
    for page in nobody {
        let answer = browser.get(page).await;
        assert_eq!(answer.headers[CONTENT_SECURITY_POLICY], POLICY, "{page}");
        assert_eq!(
            answer.headers["x-content-type-options"], "nosniff",
            "{page}"
        );
        let is_file = page.ends_with(".css") || page.ends_with(".js") || page.ends_with(".svg");
        assert_eq!(
            answer.headers[CACHE_CONTROL] == "no-store",
            !is_file,
            "{page}"
        );
    }
    browser.log_in("jane").await;
    for page in PAGES {
        let answer = browser.get(page).await;
        assert_eq!(answer.status, StatusCode::OK, "{page}: {}", answer.text);
        assert_eq!(answer.headers[CONTENT_SECURITY_POLICY], POLICY, "{page}");
        assert_eq!(answer.headers[CACHE_CONTROL], "no-store", "{page}");
        // What the policy would refuse is not there to begin with.
        for never in [
            " style=",
            "<style",
            " onclick",
            " onload",
            "javascript:",
            "http://",
            "<script>",
        ] {
            assert!(!answer.text.contains(never), "{page} has {never}");
        }
        assert!(!answer.text.contains("sesame"), "{page}");
    }
}

#[tokio::test]
async fn every_request_to_the_api_has_the_token_of_who_looks() {
    let fake = Fake::default();
    let (mut jane, mut joe) = (Browser::new(&fake, false), Browser::new(&fake, false));
    jane.log_in("jane").await;
    joe.log_in("joe").await;
    jane.get("/clusters/team-a/demo").await;
    let asked = fake.asked();
    assert!(
        asked.iter().any(|a| a.starts_with("jane GET ")),
        "{asked:?}"
    );
    assert!(
        !asked.iter().any(|a| a.starts_with("joe GET ")),
        "{asked:?}"
    );
    joe.get("/pools").await;
    assert!(fake.asked().iter().any(|a| a.starts_with("joe GET ")));
    // Eleven of the page, the rights, and who it is; no Secret.
    let of_jane = asked.iter().filter(|a| a.starts_with("jane ")).count();
    assert!(of_jane <= 13, "{asked:#?}");
    assert!(!asked.iter().any(|a| a.contains("secrets")), "{asked:?}");
}

#[tokio::test]
async fn a_read_only_dashboard_has_no_way_to_change_anything() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, true);
    browser.log_in("jane").await;
    let page = browser.get("/clusters/team-a/demo").await;
    assert!(!page.text.contains("Pause") && !page.text.contains("/scale"));
    for path in [
        "/new",
        "/clusters/team-a/demo/delete",
        "/clusters/team-a/demo/new-pool",
    ] {
        assert_eq!(
            browser.get(path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    for path in [
        "/clusters/team-a/demo/pause",
        "/pools/team-a/demo-workers/scale",
        "/clusters/team-a/demo/delete",
        "/new",
    ] {
        let answer = browser
            .post(path, &[("replicas", "3"), ("confirm", "demo")])
            .await;
        assert!(
            matches!(answer.status.as_u16(), 404 | 405),
            "{path}: {}",
            answer.status
        );
    }
    let writes = |asked: &String| !asked.contains(" GET ") && !asked.contains("reviews");
    assert_eq!(fake.asked().into_iter().filter(writes).count(), 0);
}

#[tokio::test]
async fn lists_go_on_page_by_page_and_say_where_they_may_not() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    let first = browser.get("/clusters").await;
    assert!(first.text.contains("after=more%2B1"), "{}", first.text);
    assert!(first.text.contains("Namespace</th>"));
    fake.asked();
    browser.get("/clusters?after=more%2B1").await;
    let asked = fake.asked();
    assert!(
        asked
            .iter()
            .any(|a| a.contains("limit=100&continue=more%2B1")),
        "{asked:?}"
    );
    // A filter reads on by itself.
    let filtered = browser.get("/clusters?q=DEMO").await;
    assert!(filtered.text.contains("demo") && !filtered.text.contains("after="));
    let none = browser.get("/clusters?q=nothing-like-it").await;
    assert!(none.text.contains("have “nothing-like-it” in them"));
    // Who may not list everywhere names a namespace.
    let mut joe = Browser::new(&fake, false);
    joe.log_in("nobody").await;
    let refused = joe.get("/").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(
        refused
            .text
            .contains("You may not list tenantclusters in all namespaces.")
    );
    assert!(refused.text.contains("name=\"ns\""));
    let odd = browser.get("/clusters?ns=..%2Fkube-system").await;
    assert_eq!(odd.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn names_that_are_none_never_reach_the_api() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    fake.asked();
    for path in [
        "/clusters/team-a/..%2F..%2Fsecrets",
        "/clusters/team-a/demo%3Fx",
        "/pools/..%2Fx/demo",
        "/secrets/team-a/demo",
        "/secrets",
        "/clusters/team-a/Demo",
    ] {
        assert_eq!(
            browser.get(path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    assert_eq!(fake.asked(), [""; 0]);
}
