//! Conformance of the fake of the Hetzner Cloud: what the vendor documents, one request after the other, so that the
//! fake cannot drift into what its users like.
//!
//! Where from: R = API reference (docs.hetzner.cloud, as of 2025/2026), C = its changelog, L = Hetzner's own clients
//! (hcloud-go, terraform-provider-hcloud). What is marked `Unproven` is what none of them says: there the fake does
//! what is harder for whoever asks it, and the real API may differ.
//!
//! Long because each line of the documentation that matters is a line here.
//!
//! Invariant: every line is asked over HTTP, and nothing is read from within.

// Helpers of tests, not only the tests themselves.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Duration;

use anyhow::Result;
use fake_clouds::clock::VirtualClock;
use fake_clouds::hetzner::FakeHetzner;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const TOKEN: &str = "t";

/// Who says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// The reference.
    R,
    /// The changelog.
    C,
    /// Hetzner's own clients.
    L,
    /// Nobody.
    Unproven,
}
use Source::{C, L, R, Unproven};

struct Reply {
    status: u16,
    headers: String,
    body: Value,
}

struct Api {
    fake: FakeHetzner,
    said: Vec<(Source, &'static str)>,
}

impl Api {
    async fn new() -> Self {
        let fake = FakeHetzner::start(VirtualClock::default(), &[TOKEN, "other"]).await;
        Self {
            fake: fake.unwrap(),
            said: Vec::new(),
        }
    }

    async fn ask_as(&self, token: &str, method: &str, path: &str, body: &Value) -> Result<Reply> {
        let endpoint = self.fake.endpoint();
        let host = endpoint
            .trim_start_matches("http://")
            .trim_end_matches("/v1");
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = format!(
            "{method} /v1{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(host).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (headers, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = headers.split(' ').nth(1).unwrap_or_default().parse()?;
        Ok(Reply {
            status,
            headers: headers.to_lowercase(),
            body: serde_json::from_str(body).unwrap_or_default(),
        })
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Reply {
        self.ask_as(TOKEN, method, path, &body).await.unwrap()
    }

    /// One line of the list.
    fn holds(&mut self, source: Source, what: &'static str, is: bool) {
        assert!(is, "{source:?}: {what}");
        self.said.push((source, what));
    }

    fn report(&self) {
        let unproven = self.said.iter().filter(|(s, _)| *s == Unproven).count();
        println!("{} lines, {unproven} of them unproven", self.said.len());
    }
}

fn server(name: &str) -> Value {
    json!({
        "name": name, "server_type": "cx22", "image": "debian-12", "location": "fsn1", "ssh_keys": ["covey"],
        "labels": { "a": "b" }, "user_data": "#cloud-config\n",
        "public_net": { "enable_ipv4": false, "enable_ipv6": false },
    })
}

fn code(reply: &Reply) -> &str {
    reply.body["error"]["code"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn errors_and_credentials() {
    let mut api = Api::new().await;
    let reply = api
        .ask_as("x", "GET", "/servers", &Value::Null)
        .await
        .unwrap();
    api.holds(
        R,
        "unknown token: 401 unauthorized",
        reply.status == 401 && code(&reply) == "unauthorized",
    );
    let shape = &reply.body["error"];
    api.holds(
        R,
        "errors have code, message and details",
        shape["message"].is_string() && shape.get("details").is_some(),
    );
    api.fake
        .contents()
        .readers
        .insert("r".to_owned(), TOKEN.to_owned());
    let reply = api
        .ask_as("r", "GET", "/servers", &Value::Null)
        .await
        .unwrap();
    api.holds(R, "a token for reading reads", reply.status == 200);
    let reply = api
        .ask_as("r", "POST", "/servers", &server("a"))
        .await
        .unwrap();
    api.holds(
        R,
        "a token for reading: token_readonly on anything but GET",
        code(&reply) == "token_readonly",
    );
    api.holds(
        Unproven,
        "token_readonly has status 403",
        reply.status == 403,
    );
    let reply = api.ask("DELETE", "/servers/1", Value::Null).await;
    api.holds(
        R,
        "what is not there: 404 not_found",
        reply.status == 404 && code(&reply) == "not_found",
    );
    let reply = api.ask("POST", "/servers", json!({ "name": "a_b" })).await;
    api.holds(
        R,
        "wrong input: invalid_input",
        code(&reply) == "invalid_input",
    );
    let field = &reply.body["error"]["details"]["fields"][0];
    api.holds(
        R,
        "invalid_input names its fields",
        field["name"] == "name" && field["messages"].is_array(),
    );
    api.holds(L, "invalid_input has status 422", reply.status == 422);
    let mut long = server("a");
    long["user_data"] = json!("x".repeat(32 * 1024 + 1));
    let reply = api.ask("POST", "/servers", long).await;
    api.holds(
        R,
        "user_data has 32 KiB at most",
        code(&reply) == "invalid_input",
    );
    let mut exact = server("a");
    exact["user_data"] = json!("x".repeat(32 * 1024));
    let reply = api.ask("POST", "/servers", exact).await;
    api.holds(
        Unproven,
        "the 32 KiB are counted as they are sent, and are included",
        reply.status == 201,
    );
    let reply = api
        .ask_as("other", "GET", "/servers", &Value::Null)
        .await
        .unwrap();
    api.holds(
        R,
        "a token is of one project",
        reply.body["servers"] == json!([]),
    );
    api.report();
}

#[tokio::test]
async fn life_of_a_server() {
    let mut api = Api::new().await;
    let made = api.ask("POST", "/servers", server("a")).await;
    let id = made.body["server"]["id"].as_u64().unwrap();
    api.holds(
        R,
        "a creation answers 201 with server, action and next_actions",
        {
            made.status == 201
                && made.body["action"]["id"].is_u64()
                && made.body["next_actions"].is_array()
        },
    );
    api.holds(
        R,
        "a server that is made is initializing",
        made.body["server"]["status"] == "initializing",
    );
    api.holds(
        R,
        "no password where an SSH key is named",
        made.body["root_password"].is_null(),
    );
    api.holds(
        R,
        "labels come with the creation",
        made.body["server"]["labels"] == json!({ "a": "b" }),
    );
    api.holds(C, "a server has a location and no datacenter", {
        let server = &made.body["server"];
        server["location"]["name"] == "fsn1" && server.get("datacenter").is_none()
    });
    let again = api.ask("POST", "/servers", server("a")).await;
    api.holds(
        R,
        "names are unique in a project: uniqueness_error",
        code(&again) == "uniqueness_error",
    );
    api.holds(
        Unproven,
        "uniqueness_error has status 409",
        again.status == 409,
    );
    let elsewhere = api
        .ask_as("other", "POST", "/servers", &server("a"))
        .await
        .unwrap();
    api.holds(
        R,
        "another project may use the name",
        elsewhere.status == 201,
    );
    let mut keyless = server("b");
    keyless["ssh_keys"] = json!([]);
    let keyless = api.ask("POST", "/servers", keyless).await;
    api.holds(
        R,
        "a password is answered where no SSH key is named",
        keyless.body["root_password"].is_string(),
    );
    let shown = api.ask("GET", "/servers?name=a", Value::Null).await;
    api.holds(
        R,
        "a server is locked while an action runs",
        shown.body["servers"][0]["locked"] == true,
    );
    let refused = api
        .ask("DELETE", &format!("/servers/{id}"), Value::Null)
        .await;
    api.holds(
        Unproven,
        "a server that is locked is not deleted: 423 locked",
        refused.status == 423 && code(&refused) == "locked",
    );
    api.fake.clock.advance(Duration::from_secs(60));
    let shown = api.ask("GET", "/servers?name=a", Value::Null).await;
    let now = &shown.body["servers"][0];
    api.holds(
        R,
        "it is started by itself, and runs",
        now["status"] == "running" && now["locked"] == false,
    );
    let actions = api
        .ask(
            "GET",
            &format!("/servers/{id}/actions?sort=id:desc"),
            Value::Null,
        )
        .await;
    let commands: Vec<_> = actions.body["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["command"].clone())
        .collect();
    api.holds(
        L,
        "its actions are create_server and start_server",
        commands == ["start_server", "create_server"],
    );
    let gone = api
        .ask("DELETE", &format!("/servers/{id}"), Value::Null)
        .await;
    api.holds(
        R,
        "a deletion answers 200 with an action",
        gone.status == 200 && gone.body["action"]["status"] == "running",
    );
    let shown = api.ask("GET", "/servers?name=a", Value::Null).await;
    api.holds(
        R,
        "its status is deleting meanwhile",
        shown.body["servers"][0]["status"] == "deleting",
    );
    api.fake.clock.advance(Duration::from_secs(60));
    let shown = api.ask("GET", "/servers?name=a", Value::Null).await;
    api.holds(
        R,
        "then it is gone, and not found any more",
        shown.body["servers"] == json!([]),
    );
    let again = api.ask("POST", "/servers", server("a")).await;
    api.holds(
        Unproven,
        "its name may be used again at once",
        again.status == 201,
    );
    api.fake.contents().behaviour.creation_fails = true;
    api.fake.clock.advance(Duration::from_secs(60));
    let id = again.body["server"]["id"].as_u64().unwrap();
    let actions = api
        .ask("GET", &format!("/servers/{id}/actions"), Value::Null)
        .await;
    let failed = &actions.body["actions"][0];
    api.holds(
        R,
        "an action that fails has status error, code and message",
        failed["status"] == "error" && failed["error"]["code"] == "action_failed",
    );
    api.report();
}

#[tokio::test]
async fn limits_types_and_what_is_left() {
    let mut api = Api::new().await;
    api.fake.contents().behaviour.server_limit = 1;
    api.ask("POST", "/servers", server("a")).await;
    let reply = api.ask("POST", "/servers", server("b")).await;
    api.holds(
        R,
        "too many of something: resource_limit_exceeded with the limit's name",
        {
            code(&reply) == "resource_limit_exceeded"
                && reply.body["error"]["details"]["limits"][0]["name"].is_string()
        },
    );
    api.holds(
        Unproven,
        "resource_limit_exceeded has status 403",
        reply.status == 403,
    );
    api.fake.contents().behaviour.server_limit = 10;
    api.fake.contents().behaviour.exhausted = vec!["cx22".to_owned()];
    let reply = api.ask("POST", "/servers", server("b")).await;
    api.holds(
        R,
        "nothing left of a size: resource_unavailable",
        code(&reply) == "resource_unavailable",
    );
    api.holds(
        Unproven,
        "resource_unavailable has status 412",
        reply.status == 412,
    );
    let types = api.ask("GET", "/server_types", Value::Null).await;
    let of = |name: &str| {
        let all = types.body["server_types"].as_array().unwrap();
        all.iter().find(|t| t["name"] == name).cloned().unwrap()
    };
    api.holds(
        R,
        "a size has cores, memory in GB, disk and architecture",
        {
            let t = of("cax11");
            t["cores"] == 2
                && t["memory"] == 4.0
                && t["disk"].is_u64()
                && t["architecture"] == "arm"
        },
    );
    api.holds(
        R,
        "prices are texts, by location, net and gross, of an hour and a month",
        {
            let price = &of("cx22")["prices"][0];
            price["location"] == "fsn1"
                && price["price_hourly"]["net"].is_string()
                && price["price_monthly"]["gross"].is_string()
        },
    );
    api.holds(C, "what is left stands beside each location of a size", {
        of("cx22")["locations"][0]["available"] == false
            && of("cx32")["locations"][0]["available"] == true
    });
    api.holds(
        R,
        "a size that ends says when",
        of("cx11")["deprecation"]["unavailable_after"].is_string(),
    );
    let mut old = server("c");
    old["server_type"] = json!("cx11");
    let reply = api.ask("POST", "/servers", old).await;
    api.holds(
        L,
        "one that has ended is refused: invalid_server_type",
        code(&reply) == "invalid_server_type",
    );
    api.report();
}

#[tokio::test]
async fn lists_pages_and_selectors() {
    let mut api = Api::new().await;
    for n in 0..60 {
        let mut one = server(&format!("s{n}"));
        one["labels"] = json!({ "n": n.to_string(), "even": (n % 2 == 0).to_string() });
        assert_eq!(api.ask("POST", "/servers", one).await.status, 201);
    }
    let count = |reply: &Reply| reply.body["servers"].as_array().map_or(0, Vec::len);
    let page = api.ask("GET", "/servers", Value::Null).await;
    let meta = page.body["meta"]["pagination"].clone();
    api.holds(
        R,
        "a page has 25 entries where nobody says",
        count(&page) == 25,
    );
    api.holds(R, "a list says page, per_page, previous, next, last and total", {
        meta == json!({ "page": 1, "per_page": 25, "previous_page": null, "next_page": 2, "last_page": 3, "total_entries": 60 })
    });
    let page = api.ask("GET", "/servers?per_page=1000", Value::Null).await;
    api.holds(R, "a page has 50 entries at most", count(&page) == 50);
    let page = api
        .ask("GET", "/servers?per_page=50&page=2", Value::Null)
        .await;
    api.holds(
        R,
        "the last page has no next one",
        count(&page) == 10 && page.body["meta"]["pagination"]["next_page"].is_null(),
    );
    let page = api
        .ask("GET", "/servers?per_page=50&page=9", Value::Null)
        .await;
    api.holds(
        Unproven,
        "a page beyond the last is empty",
        page.status == 200 && count(&page) == 0,
    );
    for (selector, expected, what) in [
        ("n%3D7", 1, "k=v"),
        ("n%3D%3D7", 1, "k==v"),
        ("even%21%3Dtrue", 25, "k!=v"),
        ("n", 25, "k"),
        ("%21n", 0, "!k"),
        ("n%20in%20%281%2C2%29", 2, "k in (a,b)"),
        ("n%20notin%20%281%2C2%29", 25, "k notin (a,b)"),
        ("even%3Dtrue%2Cn%3D3", 0, "with commas between"),
    ] {
        let page = api
            .ask(
                "GET",
                &format!("/servers?label_selector={selector}"),
                Value::Null,
            )
            .await;
        api.holds(R, what, count(&page) == expected);
    }
    let page = api
        .ask("GET", "/servers?label_selector=%28", Value::Null)
        .await;
    api.holds(
        Unproven,
        "what is no selector is refused",
        code(&page) == "invalid_input",
    );
    let mut odd = server("odd");
    odd["labels"] = json!({ "k": "-x" });
    let reply = api.ask("POST", "/servers", odd.clone()).await;
    api.holds(
        R,
        "the value of a label begins and ends with a letter or digit",
        code(&reply) == "invalid_input",
    );
    odd["labels"] = json!({ "k": "x".repeat(64) });
    let reply = api.ask("POST", "/servers", odd.clone()).await;
    api.holds(
        R,
        "it has 63 characters at most",
        code(&reply) == "invalid_input",
    );
    odd["labels"] = json!({ "hetzner.cloud/k": "x" });
    let reply = api.ask("POST", "/servers", odd.clone()).await;
    api.holds(
        R,
        "keys below hetzner.cloud/ are reserved",
        code(&reply) == "invalid_input",
    );
    odd["labels"] = json!({ "example.com/k": "x.y_z-1" });
    let reply = api.ask("POST", "/servers", odd).await;
    api.holds(R, "keys may have a prefix", reply.status == 201);
    api.report();
}

#[tokio::test]
async fn primary_ips() {
    let mut api = Api::new().await;
    let ip = |name: &str, auto: bool| {
        json!({ "name": name, "type": "ipv4", "assignee_type": "server", "location": "fsn1", "auto_delete": auto,
                "labels": { "a": "b" } })
    };
    let made = api.ask("POST", "/primary_ips", ip("goes", true)).await;
    let goes = made.body["primary_ip"]["id"].as_u64().unwrap();
    api.holds(R, "it is made without a server, with labels", {
        made.status == 201
            && made.body["primary_ip"]["assignee_id"].is_null()
            && made.body["primary_ip"]["labels"]["a"] == "b"
    });
    api.holds(
        C,
        "one that nobody has says unassigned",
        made.body["primary_ip"]["assignee_type"] == "unassigned",
    );
    let again = api.ask("POST", "/primary_ips", ip("goes", true)).await;
    api.holds(
        R,
        "names are unique in a project",
        code(&again) == "uniqueness_error",
    );
    let stays = api.ask("POST", "/primary_ips", ip("stays", false)).await;
    let stays = stays.body["primary_ip"]["id"].as_u64().unwrap();
    let with = |name: &str, id: u64| {
        let mut server = server(name);
        server["public_net"] = json!({ "enable_ipv4": true, "enable_ipv6": false, "ipv4": id });
        server
    };
    let one = api.ask("POST", "/servers", with("one", goes)).await;
    let two = api.ask("POST", "/servers", with("two", stays)).await;
    api.holds(
        R,
        "a server is made with it",
        one.body["server"]["public_net"]["ipv4"]["id"] == goes,
    );
    let reply = api.ask("POST", "/servers", with("three", goes)).await;
    api.holds(
        R,
        "one that a server has: primary_ip_assigned",
        code(&reply) == "primary_ip_assigned",
    );
    let mut wrong = server("three");
    wrong["public_net"] = json!({ "enable_ipv4": false, "enable_ipv6": true, "ipv6": goes });
    let reply = api.ask("POST", "/servers", wrong).await;
    api.holds(
        R,
        "one that is taken or of the other version is refused",
        reply.status >= 400,
    );
    let reply = api
        .ask("DELETE", &format!("/primary_ips/{goes}"), Value::Null)
        .await;
    api.holds(
        C,
        "one that is assigned is not deleted: must_be_unassigned",
        code(&reply) == "must_be_unassigned",
    );
    api.holds(
        Unproven,
        "must_be_unassigned has status 422",
        reply.status == 422,
    );
    api.fake.clock.advance(Duration::from_secs(60));
    for made in [&one, &two] {
        let id = made.body["server"]["id"].as_u64().unwrap();
        api.ask("DELETE", &format!("/servers/{id}"), Value::Null)
            .await;
    }
    api.fake.clock.advance(Duration::from_secs(60));
    let left = api.ask("GET", "/primary_ips", Value::Null).await;
    let left = left.body["primary_ips"].clone();
    api.holds(
        R,
        "with auto_delete it goes with its server",
        !left.as_array().unwrap().iter().any(|a| a["id"] == goes),
    );
    api.holds(
        R,
        "without, it is left and nobody's",
        left[0]["id"] == stays && left[0]["assignee_id"].is_null(),
    );
    let reply = api
        .ask("DELETE", &format!("/primary_ips/{stays}"), Value::Null)
        .await;
    api.holds(R, "then it can be deleted: 204", reply.status == 204);
    let mut plain = server("plain");
    plain["public_net"] = json!({ "enable_ipv4": true, "enable_ipv6": true });
    api.ask("POST", "/servers", plain).await;
    let left = api.ask("GET", "/primary_ips", Value::Null).await;
    let left = left.body["primary_ips"].as_array().cloned().unwrap();
    api.holds(R, "those that are not named are made", left.len() == 2);
    api.holds(
        Unproven,
        "and have no labels, and auto_delete",
        left.iter()
            .all(|a| a["labels"] == json!({}) && a["auto_delete"] == true),
    );
    api.report();
}

#[tokio::test]
async fn rate_limit() {
    let mut api = Api::new().await;
    let header = |reply: &Reply, name: &str| {
        let line = reply.headers.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1)?.parse::<i64>().ok())
    };
    let reply = api.ask("GET", "/ssh_keys", Value::Null).await;
    api.holds(
        R,
        "3,600 requests an hour, said in RateLimit-Limit",
        header(&reply, "ratelimit-limit") == Some(3600),
    );
    api.holds(
        R,
        "RateLimit-Remaining says what is left",
        header(&reply, "ratelimit-remaining") == Some(3599),
    );
    let now = api.fake.clock.now().as_second();
    api.holds(
        R,
        "RateLimit-Reset says when all are there again",
        header(&reply, "ratelimit-reset") == Some(now + 1),
    );
    api.fake.contents().behaviour.rate_limit = 36;
    for _ in 0..40 {
        api.ask("GET", "/ssh_keys", Value::Null).await;
    }
    let reply = api.ask("GET", "/ssh_keys", Value::Null).await;
    api.holds(
        R,
        "too many: 429 rate_limit_exceeded",
        reply.status == 429 && code(&reply) == "rate_limit_exceeded",
    );
    let before = api.fake.journal().made("server");
    let reply = api.ask("POST", "/servers", server("a")).await;
    api.holds(
        R,
        "what is too much is not carried out",
        reply.status == 429 && api.fake.journal().made("server") == before,
    );
    let other = api
        .ask_as("other", "GET", "/ssh_keys", &Value::Null)
        .await
        .unwrap();
    api.holds(R, "it is the project's limit", other.status == 200);
    api.fake.clock.advance(Duration::from_secs(100));
    let reply = api.ask("GET", "/ssh_keys", Value::Null).await;
    api.holds(R, "they come back one by one", reply.status == 200);
    api.report();
}
