//! Conformance of the fake of Compute Engine: what the vendor documents, one request after the other, so that the fake
//! cannot drift into what its users like.
//!
//! Where from: R = reference of the API (cloud.google.com/compute/docs/reference/rest/v1), G = Google's guides beside it
//! ("Handle API responses", "Troubleshoot resource availability", "Use OAuth 2.0 for server to server applications").
//! What is marked `Unproven` is what none of them says: there the fake does what is harder for whoever asks it, and the
//! real API may differ. What an assertion that is right gives is proven by the tests of the client, which sign some.
//!
//! Invariant: every line is asked over HTTP, and nothing is read from within.

// Helpers of tests, not only the tests themselves.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Duration;

use fake_clouds::clock::VirtualClock;
use fake_clouds::gcp::FakeGcp;
use fake_clouds::gcp::contents::Access;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const ZONE: &str = "/projects/demo/zones/europe-west1-b";
const REQUEST: &str = "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11";

/// Who says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// The reference.
    R,
    /// The guides.
    G,
    /// Nobody.
    Unproven,
}
use Source::{G, R, Unproven};

struct Google {
    fake: FakeGcp,
    lines: Vec<Source>,
}

impl Google {
    /// With a token of an account that may do everything in one of two projects.
    async fn new() -> Self {
        let fake = FakeGcp::start(VirtualClock::default(), &["demo", "other"]);
        let fake = fake.await.unwrap();
        let access = Access {
            account: "covey@demo".to_owned(),
            until: Timestamp::MAX,
        };
        fake.contents().tokens.insert("t".to_owned(), access);
        let lines = Vec::new();
        Self { fake, lines }
    }

    /// Sends one request; gives the status and the body.
    async fn send(&self, token: &str, request: &str, path: &str, body: &str) -> (u16, Value) {
        let uri = self.fake.token_uri();
        let host = uri.trim_start_matches("http://").trim_end_matches("/token");
        let mut stream = TcpStream::connect(host).await.unwrap();
        let length = body.len();
        let text = format!(
            "{request} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    async fn ask(&self, request: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let path = format!("/compute/v1{path}");
        self.send("t", request, &path, &body).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, Value::Null).await
    }

    fn pass(&self, seconds: u64) {
        self.fake.clock.advance(Duration::from_secs(seconds));
    }

    /// One line of the list.
    fn holds(&mut self, source: Source, what: &str, is: bool) {
        assert!(is, "{source:?}: {what}");
        self.lines.push(source);
    }

    fn report(&self) {
        let unproven = self.lines.iter().filter(|line| **line == Unproven).count();
        println!("{} lines, {unproven} of them unproven", self.lines.len());
    }
}

fn instance(name: &str) -> Value {
    json!({
        "name": name, "machineType": "zones/europe-west1-b/machineTypes/e2-medium", "labels": { "a": "b" },
        "disks": [{ "boot": true, "autoDelete": true, "initializeParams": {
            "sourceImage": "projects/demo/global/images/worker-1-36", "labels": { "a": "b" },
        } }],
        "networkInterfaces": [{ "subnetwork": "projects/demo/regions/europe-west1/subnetworks/workers" }],
        "metadata": { "items": [{ "key": "user-data", "value": "#cloud-config\n" }] },
    })
}

fn reason(body: &Value) -> &str {
    body["error"]["errors"][0]["reason"]
        .as_str()
        .unwrap_or_default()
}

fn is(answer: &(u16, Value), status: u16, text: &str) -> bool {
    answer.0 == status && reason(&answer.1) == text
}

#[tokio::test]
async fn errors_and_credentials() {
    let mut google = Google::new().await;
    let project = "/compute/v1/projects/demo";
    let answer = google.send("x", "GET", project, "").await;
    google.holds(R, "unknown token: 401", is(&answer, 401, "authError"));
    let shape = &answer.1["error"];
    let has_all =
        shape["code"] == 401 && shape["message"].is_string() && shape["status"].is_string();
    google.holds(G, "errors have code, message, errors and status", has_all);
    let answer = google.get("/projects/other").await;
    google.holds(
        R,
        "another project: 403 forbidden",
        is(&answer, 403, "forbidden"),
    );
    let (status, body) = google.get("/projects/demo").await;
    google.holds(
        R,
        "a project has a number as text",
        status == 200 && body["id"].is_string(),
    );
    let (status, body) = google.send("", "POST", "/token", "grant_type=x").await;
    let is_grant = status == 400 && body["error"] == "invalid_grant";
    google.holds(
        G,
        "no assertion: 400 invalid_grant",
        is_grant && body["error_description"].is_string(),
    );
    let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=a.b.c";
    let (status, body) = google.send("", "POST", "/token", form).await;
    google.holds(
        G,
        "malformed assertion: 400 invalid_grant",
        status == 400 && body["error"] == "invalid_grant",
    );
    let answer = google.get("/projects/demo/zones/moon1-a/instances").await;
    google.holds(R, "unknown zone: invalid", is(&answer, 400, "invalid"));
    google.report();
}

#[tokio::test]
async fn creation_is_an_operation_and_request_id_gives_the_same_one() {
    let mut google = Google::new().await;
    let path = format!("{ZONE}/instances?requestId={REQUEST}");
    let (status, first) = google.ask("POST", &path, instance("a")).await;
    let is_operation = first["kind"] == "compute#operation" && first["operationType"] == "insert";
    google.holds(
        R,
        "insert answers with an operation",
        status == 200 && is_operation,
    );
    google.holds(G, "that is not done yet", first["status"] != "DONE");
    let target = first["targetLink"].as_str().unwrap_or_default();
    google.holds(R, "its target is a link", target.ends_with("/instances/a"));
    let answer = google.get(&format!("{ZONE}/instances/a")).await;
    google.holds(Unproven, "404 for a while", is(&answer, 404, "notFound"));
    let (_, again) = google.ask("POST", &path, instance("a")).await;
    google.holds(
        R,
        "the same requestId: the same operation",
        again["id"] == first["id"],
    );
    let answer = google
        .ask("POST", &format!("{ZONE}/instances"), instance("a"))
        .await;
    google.holds(
        R,
        "the same name: alreadyExists",
        is(&answer, 409, "alreadyExists"),
    );
    google.pass(60);
    let (status, found) = google.get(&format!("{ZONE}/instances/a")).await;
    google.holds(
        R,
        "then it runs",
        status == 200 && found["status"] == "RUNNING",
    );
    google.holds(R, "IDs are texts", found["id"].is_string());
    let net = &found["networkInterfaces"][0];
    let no_public = net["accessConfigs"].is_null();
    google.holds(
        R,
        "no access config, no public address",
        net["networkIP"].is_string() && no_public,
    );
    let (_, again) = google.ask("POST", &path, instance("a")).await;
    google.holds(
        R,
        "also once it is done",
        again["status"] == "DONE" && again["error"].is_null(),
    );
    google.pass(25 * 3600);
    let answer = google.ask("POST", &path, instance("a")).await;
    google.holds(Unproven, "for a day", is(&answer, 409, "alreadyExists"));
    for bad in ["a", "00000000-0000-0000-0000-000000000000"] {
        let path = format!("{ZONE}/instances?requestId={bad}");
        let answer = google.ask("POST", &path, instance("b")).await;
        google.holds(
            R,
            "requestId is a UUID and not zero",
            is(&answer, 400, "invalid"),
        );
    }
    google.report();
}

#[tokio::test]
async fn what_is_wrong_is_refused_at_once_and_what_is_missing_in_the_operation() {
    let mut google = Google::new().await;
    let path = format!("{ZONE}/instances");
    let long = "x".repeat(256 * 1024 + 1);
    let changes: [(&str, &str, Value); 6] = [
        ("name", "/name", json!("A")),
        (
            "size",
            "/machineType",
            json!("zones/europe-west1-b/machineTypes/huge"),
        ),
        (
            "subnet",
            "/networkInterfaces/0/subnetwork",
            json!("projects/demo/regions/x/subnetworks/y"),
        ),
        ("label's key", "/labels", json!({ "a.b/c": "d" })),
        ("label's value", "/labels", json!({ "a": "B" })),
        ("metadata", "/metadata/items/0/value", json!(long)),
    ];
    for (what, field, value) in changes {
        let mut wrong = instance("b");
        *wrong.pointer_mut(field).unwrap() = value;
        let answer = google.ask("POST", &path, wrong).await;
        google.holds(R, what, is(&answer, 400, "invalid"));
    }
    let mut wrong = instance("b");
    wrong["disks"][0]["initializeParams"]["sourceImage"] = json!("projects/demo/global/images/no");
    let answer = google.ask("POST", &path, wrong).await;
    google.holds(R, "unknown image: 404", is(&answer, 404, "notFound"));
    google.fake.contents().behaviour.exhausted = vec!["e2-medium".to_owned()];
    let (status, body) = google.ask("POST", &path, instance("b")).await;
    google.holds(
        G,
        "a stockout is taken at first",
        status == 200 && body["error"].is_null(),
    );
    google.pass(60);
    let (_, body) = google.get(&format!("{ZONE}/operations")).await;
    let operation = &body["items"][0];
    let code = &operation["error"]["errors"][0]["code"];
    google.holds(
        G,
        "and said in the operation",
        *code == "ZONE_RESOURCE_POOL_EXHAUSTED",
    );
    google.holds(
        R,
        "which is done",
        operation["status"] == "DONE" && operation["endTime"].is_string(),
    );
    google.holds(
        R,
        "with the status of HTTP",
        operation["httpErrorStatusCode"] == 503,
    );
    let answer = google.get(&format!("{ZONE}/instances/b")).await;
    google.holds(G, "and nothing is made", is(&answer, 404, "notFound"));
    google.fake.contents().behaviour.exhausted.clear();
    google.fake.contents().behaviour.instance_limit = 0;
    google.ask("POST", &path, instance("b")).await;
    google.pass(60);
    let (_, body) = google.get(&format!("{ZONE}/operations")).await;
    let code = &body["items"][1]["error"]["errors"][0]["code"];
    google.holds(
        G,
        "a quota is said in the operation too",
        *code == "QUOTA_EXCEEDED",
    );
    google.fake.contents().behaviour.limit_is_told_at_once = true;
    let answer = google.ask("POST", &path, instance("b")).await;
    google.holds(G, "or at once", is(&answer, 403, "quotaExceeded"));
    google.report();
}

#[tokio::test]
async fn deletion_is_an_operation_and_the_disk_goes_along() {
    let mut google = Google::new().await;
    let path = format!("{ZONE}/instances");
    google.ask("POST", &path, instance("a")).await;
    google.pass(10);
    let one = format!("{path}/a");
    let answer = google.ask("DELETE", &one, Value::Null).await;
    google.holds(
        Unproven,
        "not while it is made",
        is(&answer, 400, "resourceNotReady"),
    );
    google.pass(60);
    let (_, disks) = google.get(&format!("{ZONE}/disks")).await;
    let users = &disks["items"][0]["users"];
    let user = users[0].as_str().unwrap_or_default();
    google.holds(R, "a disk names its users", user.ends_with("/instances/a"));
    let answer = google
        .ask("DELETE", &format!("{ZONE}/disks/a"), Value::Null)
        .await;
    google.holds(
        R,
        "and is not deleted meanwhile",
        is(&answer, 400, "resourceInUseByAnotherResource"),
    );
    let (status, body) = google
        .ask("POST", &format!("{one}/reset"), Value::Null)
        .await;
    google.holds(
        R,
        "reset is an operation",
        status == 200 && body["operationType"] == "reset",
    );
    google.pass(60);
    let (status, body) = google.ask("DELETE", &one, Value::Null).await;
    google.holds(
        R,
        "so is delete",
        status == 200 && body["operationType"] == "delete",
    );
    let (_, found) = google.get(&one).await;
    google.holds(R, "it is STOPPING meanwhile", found["status"] == "STOPPING");
    google.pass(60);
    let answer = google.get(&one).await;
    google.holds(R, "then it is gone", is(&answer, 404, "notFound"));
    let (_, disks) = google.get(&format!("{ZONE}/disks")).await;
    google.holds(
        R,
        "and its disk with it (autoDelete)",
        disks["items"].is_null(),
    );
    let answer = google.ask("DELETE", &one, Value::Null).await;
    google.holds(R, "what is gone: 404", is(&answer, 404, "notFound"));
    google.report();
}

#[tokio::test]
async fn lists_have_pages_filters_and_warnings() {
    let mut google = Google::new().await;
    let path = format!("{ZONE}/instances");
    let (status, body) = google.get(&path).await;
    google.holds(
        R,
        "an empty list has no items",
        status == 200 && body["items"].is_null(),
    );
    for name in ["a", "b", "c"] {
        google.ask("POST", &path, instance(name)).await;
    }
    google.pass(60);
    let (_, first) = google.get(&format!("{path}?maxResults=2")).await;
    let count = |body: &Value| body["items"].as_array().map_or(0, Vec::len);
    google.holds(R, "maxResults bounds a page", count(&first) == 2);
    let token = first["nextPageToken"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let (_, second) = google
        .get(&format!("{path}?maxResults=2&pageToken={token}"))
        .await;
    let is_last = count(&second) == 1 && second["nextPageToken"].is_null();
    google.holds(R, "nextPageToken leads to the next one", is_last);
    let answer = google.get(&format!("{path}?maxResults=501")).await;
    google.holds(R, "500 at most", is(&answer, 400, "invalid"));
    let answer = google.get(&format!("{path}?pageToken=x")).await;
    google.holds(R, "a token of nobody: invalid", is(&answer, 400, "invalid"));
    let filter = "filter=(labels.a%20=%20%22b%22)%20(name%20=%20%22c%22)";
    let (_, chosen) = google.get(&format!("{path}?{filter}")).await;
    google.holds(R, "filters of labels and fields", count(&chosen) == 1);
    let filter = "filter=(targetLink%20eq%20%22.*/instances/b%22)";
    let (_, chosen) = google.get(&format!("{ZONE}/operations?{filter}")).await;
    google.holds(R, "filters by patterns", count(&chosen) == 1);
    let answer = google.get(&format!("{path}?filter=what")).await;
    google.holds(R, "no filter: invalid", is(&answer, 400, "invalid"));
    google.fake.contents().behaviour.is_partial = true;
    let (status, body) = google.get(&path).await;
    let is_partial = status == 200 && body["warning"]["code"] == "UNREACHABLE";
    google.holds(R, "a partial list is a success with a warning", is_partial);
    google.fake.contents().behaviour.is_partial = false;
    let (_, types) = google.get(&format!("{ZONE}/machineTypes")).await;
    let type_ = &types["items"][0];
    let has_all = type_["guestCpus"].is_u64() && type_["memoryMb"].is_u64();
    google.holds(
        R,
        "sizes have processors and memory, and no price",
        has_all && type_["price"].is_null(),
    );
    google.report();
}
