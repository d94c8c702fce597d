//! What changes something: from which forms, with what, and what is said when it is refused.
//!
//! Invariant: what was not sent by a form of the session reaches no API.

use http::StatusCode;
use serde_json::json;

use super::fake::{Browser, Fake, failure};

fn writes(fake: &Fake) -> Vec<String> {
    let all = fake.asked().into_iter();
    all.filter(|asked| !asked.contains(" GET ") && !asked.contains("reviews"))
        .collect()
}

const CHANGES: [(&str, &[(&str, &str)]); 6] = [
    ("/clusters/team-a/demo/pause", &[]),
    ("/clusters/team-a/demo/resume", &[]),
    (
        "/clusters/team-a/demo/delete",
        &[("confirm", "demo"), ("uid", "u")],
    ),
    ("/pools/team-a/demo-workers/scale", &[("replicas", "3")]),
    (
        "/clusters/team-a/demo/new-pool",
        &[("name", "more"), ("replicas", "1"), ("act", "create")],
    ),
    (
        "/new",
        &[
            ("namespace", "team-a"),
            ("name", "x"),
            ("version", "1.35.4"),
            ("act", "create"),
        ],
    ),
];

#[tokio::test]
async fn only_a_form_of_the_session_on_a_page_of_ours_changes_anything() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    let mut other = Browser::new(&fake, false);
    other.log_in("joe").await;
    browser.log_in("jane").await;
    let own = browser.form_token.clone();
    writes(&fake);
    for (path, pairs) in CHANGES.into_iter().chain([("/logout", &[][..])]) {
        for (token, site) in [
            ("", Some("same-origin")),
            ("guessed", Some("same-origin")),
            (other.form_token.as_str(), Some("same-origin")),
            (own.as_str(), Some("cross-site")),
            (own.as_str(), Some("same-site")),
            (own.as_str(), Some("none")),
            (own.as_str(), None),
        ] {
            (browser.form_token, browser.site) = (token.to_owned(), site);
            let answer = browser.post(path, pairs).await;
            assert_eq!(
                answer.status,
                StatusCode::FORBIDDEN,
                "{path} {token} {site:?}"
            );
            assert!(
                answer
                    .text
                    .contains("was not sent by a page of the dashboard")
            );
        }
    }
    assert_eq!(writes(&fake), [""; 0]);
    (browser.form_token, browser.site) = (own, Some("same-origin"));
    for (path, pairs) in CHANGES {
        let answer = browser.post(path, pairs).await;
        assert_eq!(
            answer.status,
            StatusCode::SEE_OTHER,
            "{path}: {}",
            answer.text
        );
        assert!(!writes(&fake).is_empty(), "{path}");
    }
    assert_eq!(
        browser.get("/logout").await.status,
        StatusCode::METHOD_NOT_ALLOWED
    );
    let long = "x".repeat(300_000);
    let answer = browser
        .post("/clusters/team-a/demo/pause", &[("x", &long)])
        .await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn each_change_is_one_field_by_our_name() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    fake.sent();
    browser.post("/clusters/team-a/demo/pause", &[]).await;
    browser
        .post("/pools/team-a/demo-workers/scale", &[("replicas", " 7 ")])
        .await;
    let sent = fake.sent();
    assert_eq!(sent[0].1, json!({"spec": {"paused": true}}));
    assert!(
        sent[0].0.contains("fieldManager=covey-dashboard"),
        "{}",
        sent[0].0
    );
    assert_eq!(sent[1].1, json!({"spec": {"replicas": 7}}));
    let page = browser.get("/clusters/team-a/demo?done=paused").await;
    assert!(page.text.contains("It is paused: nothing of it is changed"));
}

#[tokio::test]
async fn deleting_needs_the_name_and_deletes_what_was_shown() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    let page = browser.get("/clusters/team-a/demo/delete").await;
    assert!(
        page.text
            .contains("etcd with all data, volumes, load balancers and 2 machines"),
        "{}",
        page.text
    );
    assert!(
        page.text
            .contains("name=\"uid\" value=\"0a1b2c3d-1111-4222-8333-444455556666\"")
    );
    writes(&fake);
    let wrong = browser
        .post(
            "/clusters/team-a/demo/delete",
            &[("confirm", "dmeo"), ("uid", "u")],
        )
        .await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(wrong.text.contains("type demo: nothing was deleted"));
    assert_eq!(writes(&fake), [""; 0]);
    fake.sent();
    let right = browser
        .post(
            "/clusters/team-a/demo/delete",
            &[("confirm", "demo"), ("uid", "u-1")],
        )
        .await;
    assert_eq!(right.location(), "/clusters?ns=team-a&done=deleted");
    assert_eq!(fake.sent()[0].1["preconditions"], json!({"uid": "u-1"}));
    // Hosts are not deleted here.
    assert_eq!(
        browser.get("/hosts/team-a/edge-1/delete").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_new_tenant_cluster_is_tried_before_it_is_made() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    fake.sent();
    let mut form = vec![
        ("namespace", "team-a"),
        ("name", "web"),
        ("version", "1.35.4"),
        ("workers", "2"),
    ];
    form.push(("act", "check"));
    let checked = browser.post("/new", &form).await;
    assert_eq!(checked.status, StatusCode::OK);
    assert!(
        checked.text.contains("Nothing was made."),
        "{}",
        checked.text
    );
    assert!(
        checked.text.contains("value=\"web\""),
        "what was typed stays"
    );
    let sent = fake.sent();
    assert_eq!(sent.len(), 2);
    assert!(
        sent.iter().all(|(line, _)| line.contains("dryRun=All")),
        "{sent:?}"
    );
    form.pop();
    form.push(("act", "create"));
    let made = browser.post("/new", &form).await;
    assert_eq!(made.location(), "/clusters/team-a/web?done=created");
    let real: Vec<_> = fake
        .sent()
        .into_iter()
        .filter(|(line, _)| !line.contains("dryRun"))
        .collect();
    assert_eq!(real.len(), 2);
    assert_eq!(real[0].1["spec"], json!({"version": "1.35.4"}));
    assert_eq!(real[1].1["metadata"]["name"], "web-workers");
}

#[tokio::test]
async fn what_the_api_refuses_stands_beside_its_field_and_nothing_is_made() {
    let mut refusal = failure(422, "Invalid", "TenantCluster is invalid").1;
    refusal["details"] =
        json!({"causes": [{"field": "spec.version", "message": "is no version <b>"}]});
    let fake = Fake {
        refusal: Some((
            "POST /apis/covey.dev/v1alpha1/namespaces/team-a/tenantclusters",
            422,
            refusal,
        )),
        ..Fake::default()
    };
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    fake.sent();
    let form = [
        ("namespace", "team-a"),
        ("name", "web"),
        ("version", "newest"),
        ("act", "create"),
    ];
    let answer = browser.post("/new", &form).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        answer
            .text
            .contains("id=\"version-mistake\" data-answer=\"\">is no version &lt;b&gt;<"),
        "{}",
        answer.text
    );
    assert!(
        answer
            .text
            .contains("href=\"#version\">Kubernetes version</a>")
    );
    assert!(
        fake.sent()
            .iter()
            .all(|(line, _)| line.contains("dryRun=All"))
    );
    let empty = browser.post("/new", &[("act", "create")]).await;
    assert!(empty.text.contains("Name is missing") && empty.text.contains("Namespace is missing"));
    assert_eq!(fake.sent(), []);
}

#[tokio::test]
async fn a_refused_number_of_machines_is_said_beside_it() {
    let policy = "ValidatingAdmissionPolicy 'x' denied request: the autoscaler sets replicas";
    let fake = Fake {
        refusal: Some(("PATCH", 422, failure(422, "Invalid", policy).1)),
        ..Fake::default()
    };
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    for (replicas, words) in [
        ("many", "Machines is a whole number"),
        ("3", "the autoscaler sets replicas"),
    ] {
        let answer = browser
            .post(
                "/pools/team-a/demo-workers/scale",
                &[("replicas", replicas)],
            )
            .await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(answer.text.contains(words), "{}", answer.text);
        assert!(
            answer.text.contains(&format!("value=\"{replicas}\"")),
            "what was typed stays"
        );
        assert!(answer.text.contains("aria-invalid=\"true\""));
    }
}

#[tokio::test]
async fn buttons_of_who_may_only_look_are_off_and_say_why() {
    let fake = Fake::default();
    let mut browser = Browser::new(&fake, false);
    browser.log_in("viewer").await;
    let page = browser.get("/clusters/team-a/demo").await;
    for why in [
        "You may not patch tenantclusters in team-a.",
        "You may not delete tenantclusters in team-a.",
        "You may not patch nodepools in team-a.",
        "You may not create nodepools in team-a.",
    ] {
        assert!(page.text.contains(why), "{why}");
    }
    assert!(!page.text.contains("/pause\"") && !page.text.contains("/scale\""));
    let list = browser.get("/clusters?ns=team-a").await;
    assert!(
        list.text
            .contains("You may not create tenantclusters in team-a.")
    );
    let delete = browser.get("/clusters/team-a/demo/delete").await;
    assert!(
        delete.text.contains("You may not delete tenantclusters")
            && !delete.text.contains("name=\"confirm\"")
    );
}
