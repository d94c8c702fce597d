//! Every page as it was looked at last.
//!
//! Invariant: `INSTA_UPDATE=always` writes them anew; a change of one is a change that somebody sees.

use api::{Host, Machine, NodePool};
use http::StatusCode;
use insight::description::{Detail, describe};
use insight::diagnosis::diagnose;
use insight_read::table::ServerTable;
use kit_objects::known::Known;

use super::cluster::{ClusterPage, cluster};
use super::confirm::{Deletion, confirm};
use super::fields::{FormPage, form};
use super::layout::Viewer;
use super::list::{Listed, list, which};
use super::login::login;
use super::object::{host, machine, object, pool};
use super::parts::bytes;
use super::problem::problem;
use super::reasons::reasons;
use crate::access::Access;
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::form::{Filled, cluster as cluster_form};
use crate::kinds::Kind;
use crate::problem::Problem;
use crate::query::Pairs;

pub(crate) mod fixture;

const VIEWER: Viewer<'_> = Viewer {
    user: "system:serviceaccount:team-a:jane",
    form_token: "form-token-of-jane",
    is_read_only: false,
};

/// A line for each element, and files without what changes with their bytes.
fn lines(page: &str) -> String {
    let mut text = page.replace("><", ">\n<");
    for (path, name) in [
        (STYLE.path(), "style.css"),
        (SCRIPT.path(), "script.js"),
        (ICON.path(), "icon.svg"),
    ] {
        text = text.replace(path, &format!("/assets/{name}"));
    }
    text
}

macro_rules! golden {
    ($name:literal, $page:expr) => {
        insta::assert_snapshot!($name, lines(&$page))
    };
}

fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn log_in_and_what_went_wrong() {
    golden!("login", login("/pools", None, None));
    golden!(
        "login-refused",
        login("/", Some("this is no token"), Some("You are logged out."))
    );
    let nowhere = Problem::no_page();
    golden!("problem", problem(Some(VIEWER), &nowhere));
    assert!(!problem(None, &nowhere).contains("Log out"));
    let status = StatusCode::FORBIDDEN;
    let refused = problem(Some(VIEWER), &Problem::new(status, "cannot", "ask"));
    assert!(refused.contains("<h1>Not allowed</h1>"));
}

#[test]
fn lists() {
    let table: ServerTable = read(fixture::table(None, true));
    let namespaces = ["team-a".to_owned()];
    let listed = Listed {
        kind: Kind::Clusters,
        namespace: None,
        filter: "",
        table: &table,
        next: Some("more+1"),
        is_cut: false,
        namespaces: &namespaces,
        refused: None,
    };
    golden!("list", list(VIEWER, &listed, "/live?kinds=clusters", None));
    let empty = Listed {
        table: &ServerTable::default(),
        namespace: Some("team-a"),
        next: None,
        refused: Some("You may not."),
        ..listed
    };
    golden!(
        "list-empty",
        list(
            VIEWER,
            &empty,
            "/live?kinds=clusters&ns=team-a",
            Some("It is being deleted.")
        )
    );
    golden!(
        "list-which",
        which(
            VIEWER,
            Kind::Clusters,
            "You may not list them.",
            &namespaces
        )
    );
}

#[test]
fn a_tenant_cluster() {
    let (found, facts, events) = fixture::facts();
    let description = describe(&found, &facts, &events, Detail::default());
    let findings = diagnose(&facts, |_| true);
    let (made, access) = ((&description, findings.as_slice()), Access::unknown());
    let page = ClusterPage::new(&found, (&facts, &events), made, &access);
    let live = "/live?kinds=clusters&ns=team-a";
    let text = cluster(VIEWER, &page, live, None);
    // What is wrong stands before everything else of it.
    let place = |word: &str| text.find(word).unwrap();
    assert!(place("id=\"findings\"") < place("id=\"parts\""));
    golden!("cluster", text);
    let unread = ClusterPage {
        pools: &Known::Unknown { why: "not allowed" },
        machines: &Known::default(),
        ..page
    };
    let text = cluster(
        Viewer {
            is_read_only: true,
            ..VIEWER
        },
        &unread,
        live,
        None,
    );
    assert!(text.contains("They are not known: not allowed."));
    assert!(!text.contains("<button type=\"submit\">Pause"));
}

#[test]
fn a_pool_a_machine_and_a_host() {
    let now = fixture::now();
    let access = Access::unknown();
    let found: NodePool = read(fixture::pool(None));
    let machines: Vec<Machine> = vec![
        read(fixture::machine("a", None)),
        read(fixture::machine("b", None)),
    ];
    let page = pool(VIEWER, &found, Ok(&machines), &access, None, now);
    golden!(
        "pool",
        object(VIEWER, &page, "/live?kinds=pools&ns=team-a", None)
    );
    let page = machine(&machines[1], &access, now);
    golden!(
        "machine",
        object(VIEWER, &page, "/live?kinds=machines&ns=team-a", None)
    );
    let found: Host = read(fixture::host(None));
    let page = host(&found, now);
    golden!(
        "host",
        object(VIEWER, &page, "/live?kinds=hosts&ns=team-a", None)
    );
}

#[test]
fn forms() {
    let sent = Pairs::from([
        ("namespace", "team-a"),
        ("name", "web"),
        ("version", "newest"),
        ("members", "3"),
    ]);
    let mut filled = Filled::read(cluster_form::FIELDS, &sent);
    filled.add(Some("version"), "is no version".to_owned());
    filled.add(None, "spec.x: is refused".to_owned());
    let page = FormPage {
        title: "New tenant cluster",
        action: "/new",
        back: "/clusters?ns=team-a",
        namespace: Some("team-a"),
        fields: cluster_form::FIELDS,
        filled: &filled,
        button: "Create",
    };
    golden!("form", form(VIEWER, &page));
    let one = Deletion {
        kind: Kind::Clusters,
        word: "tenant cluster",
        namespace: "team-a",
        name: "demo",
        uid: "u-1",
        goes: "the tenant cluster demo in team-a and 2 machines",
        mistake: Some("type demo: nothing was deleted"),
        refused: None,
    };
    golden!("delete", confirm(VIEWER, &one));
}

#[test]
fn every_reason_has_its_place() {
    let page = reasons(VIEWER);
    for reason in api::Reason::ALL {
        assert!(page.contains(&format!("id=\"{reason}\"")), "{reason}");
    }
    assert!(page.len() < 300_000, "{} bytes", page.len());
}

#[test]
fn bytes_are_read_by_people() {
    assert_eq!(
        [bytes(-1), bytes(8_478_720), bytes(9_999)],
        ["0 B", "8280 KiB", "9999 B"]
    );
    assert_eq!(bytes(i64::MAX), "8388607 TiB");
}
