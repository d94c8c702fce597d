//! Conformance of the fake of Azure: what the vendor documents, one request after the other, so that the fake cannot drift
//! into what its users like.
//!
//! Where from: R = REST reference (learn.microsoft.com/rest/api: compute, virtual network, resources), G = Microsoft's guides
//! beside it ("Track asynchronous Azure operations", "Use tags", "Understand how Azure Resource Manager throttles requests",
//! "Resolve errors for SKU not available", "Troubleshoot allocation failures", "Delete a VM and attached resources", "OAuth
//! 2.0 client credentials flow", "Microsoft Entra authentication and authorization error codes"), I = issues of projects
//! that use it and show its answers (`NicReservedForAnotherVm`, `ConflictingUserInput`). What is marked `Unproven` is what
//! none of them says: there the fake does what is harder for whoever asks it, and the real API may differ.
//! Long because each line of the documentation that matters is a line here.
//!
//! Invariant: every line is asked over HTTP, and nothing is read from within.

// Helpers of tests, not only the tests themselves.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Duration;

use fake_clouds::azure::contents::Access;
use fake_clouds::azure::{FakeAzure, SECRET};
use fake_clouds::clock::VirtualClock;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const GROUP: &str = "/subscriptions/s1/resourceGroups/workers";
const VMS: &str = "/providers/Microsoft.Compute/virtualMachines";
const NICS: &str = "/providers/Microsoft.Network/networkInterfaces";
const ADDRESSES: &str = "/providers/Microsoft.Network/publicIPAddresses";
const DISKS: &str = "/providers/Microsoft.Compute/disks";

/// Who says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// The reference.
    R,
    /// The guides.
    G,
    /// Issues that show its answers.
    I,
    /// Nobody.
    Unproven,
}
use Source::{G, I, R, Unproven};

/// An answer: status, headers, body.
struct Said {
    status: u16,
    head: String,
    body: Value,
}

impl Said {
    fn is(&self, status: u16, code: &str) -> bool {
        self.status == status && self.body["error"]["code"] == code
    }

    fn header(&self, name: &str) -> Option<String> {
        let line = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        });
        line.map(str::to_owned)
    }

    fn state(&self) -> &str {
        let state = &self.body["properties"]["provisioningState"];
        state.as_str().unwrap_or_default()
    }
}

struct Azure {
    fake: FakeAzure,
    lines: Vec<Source>,
}

impl Azure {
    /// With a token of a principal that may do everything in one of three subscriptions.
    async fn new() -> Self {
        let all = [("s1", "t1"), ("s2", "t1"), ("s3", "t2")];
        let fake = FakeAzure::start(VirtualClock::default(), &all)
            .await
            .unwrap();
        let access = Access {
            principal: "s1".to_owned(),
            until: Timestamp::MAX,
        };
        fake.contents().tokens.insert("t".to_owned(), access);
        let lines = Vec::new();
        Self { fake, lines }
    }

    /// Sends one request.
    async fn send(&self, token: &str, request: &str, path: &str, more: &str, body: &str) -> Said {
        let uri = self.fake.endpoint();
        let host = uri.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).await.unwrap();
        let length = body.len();
        let text = format!(
            "{request} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n{more}\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        Said {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: serde_json::from_str(body).unwrap_or_default(),
        }
    }

    async fn ask(&self, request: &str, path: &str, body: Value) -> Said {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let path = format!("{GROUP}{path}?api-version=2024-07-01");
        self.send("t", request, &path, "", &body).await
    }

    async fn get(&self, path: &str) -> Said {
        self.ask("GET", path, Value::Null).await
    }

    async fn delete(&self, path: &str) -> Said {
        self.ask("DELETE", path, Value::Null).await
    }

    /// What an address of an answer gives.
    async fn follow(&self, address: &str) -> Said {
        let endpoint = self.fake.endpoint();
        let path = address.strip_prefix(&endpoint).unwrap();
        self.send("t", "GET", path, "", "").await
    }

    /// A machine of that name, with its interface.
    async fn make(&self, name: &str) {
        self.ask("PUT", &format!("{NICS}/{name}"), nic(None)).await;
        self.pass(10);
        self.ask("PUT", &format!("{VMS}/{name}"), vm(name)).await;
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

fn nic(address: Option<&str>) -> Value {
    let subnet = format!("{GROUP}/providers/Microsoft.Network/virtualNetworks/net/subnets/workers");
    let mut ip = json!({ "subnet": { "id": subnet } });
    if let Some(name) = address {
        let id = format!("{GROUP}{ADDRESSES}/{name}");
        ip["publicIPAddress"] = json!({ "id": id, "properties": { "deleteOption": "Delete" } });
    }
    json!({
        "location": "westeurope", "tags": { "a": "b" },
        "properties": { "ipConfigurations": [{ "name": "primary", "properties": ip }] },
    })
}

fn address() -> Value {
    json!({ "location": "westeurope", "tags": { "a": "b" }, "sku": { "name": "Standard" }, "properties": {} })
}

fn vm(name: &str) -> Value {
    let image = format!(
        "{GROUP}/providers/Microsoft.Compute/galleries/covey/images/worker/versions/1.36.0"
    );
    let nic = format!("{GROUP}{NICS}/{name}");
    json!({
        "location": "westeurope", "tags": { "a": "b" },
        "properties": {
            "hardwareProfile": { "vmSize": "Standard_D2s_v5" },
            "storageProfile": {
                "imageReference": { "id": image },
                "osDisk": { "name": name, "createOption": "FromImage", "deleteOption": "Delete" },
            },
            "osProfile": { "linuxConfiguration": { "ssh": { "publicKeys": [{ "keyData": "ssh-ed25519 A" }] } } },
            "networkProfile": {
                "networkInterfaces": [{ "id": nic, "properties": { "deleteOption": "Delete" } }],
            },
            "userData": "I2Nsb3VkLWNvbmZpZwo=",
        },
    })
}

#[tokio::test]
async fn errors_and_credentials() {
    let mut azure = Azure::new().await;
    let group = format!("{GROUP}?api-version=2021-04-01");
    let said = azure.send("x", "GET", &group, "", "").await;
    let is = said.is(401, "InvalidAuthenticationToken");
    azure.holds(G, "unknown token: 401", is);
    let message = &said.body["error"]["message"];
    azure.holds(G, "errors have a code and a message", message.is_string());
    let said = azure.send("t", "GET", GROUP, "", "").await;
    let is = said.is(400, "MissingApiVersionParameter");
    azure.holds(R, "api-version has to be named", is);
    let said = azure.get("").await;
    azure.holds(R, "a group has its ID", said.body["id"] == GROUP);
    for (path, status, code, what) in [
        (
            group.replace("s1", "s2"),
            403,
            "AuthorizationFailed",
            "no role: 403",
        ),
        (
            group.replace("s1", "s3"),
            401,
            "InvalidAuthenticationTokenTenant",
            "another tenant's subscription: 401",
        ),
        (
            group.replace("s1", "s9"),
            404,
            "SubscriptionNotFound",
            "no such subscription",
        ),
        (
            group.replace("workers", "gone"),
            404,
            "ResourceGroupNotFound",
            "no such group",
        ),
    ] {
        let said = azure.send("t", "GET", &path, "", "").await;
        azure.holds(G, what, said.is(status, code));
    }
    let form = |client: &str, secret: &str, grant: &str| {
        format!(
            "grant_type={grant}&client_id={client}&client_secret={secret}&scope=https%3A%2F%2Fmanagement.azure.com%2F.default"
        )
    };
    let path = "/t1/oauth2/v2.0/token";
    let good = form("s1", SECRET, "client_credentials");
    let said = azure.send("", "POST", path, "", &good).await;
    let has_all = said.body["access_token"].is_string()
        && said.body["expires_in"].is_number()
        && said.body["token_type"] == "Bearer";
    azure.holds(
        G,
        "a secret gives a token that ends",
        said.status == 200 && has_all,
    );
    for (tenant, body, code, what) in [
        (
            "t1",
            form("s1", "no", "client_credentials"),
            7_000_215,
            "another secret",
        ),
        (
            "t1",
            form("nobody", SECRET, "client_credentials"),
            700_016,
            "no such principal",
        ),
        ("t9", good.clone(), 90002, "no such tenant"),
        ("t1", form("s1", SECRET, "password"), 70003, "another grant"),
    ] {
        let path = format!("/{tenant}/oauth2/v2.0/token");
        let said = azure.send("", "POST", &path, "", &body).await;
        let told = said.body["error_description"].as_str().unwrap_or_default();
        let is = told.starts_with(&format!("AADSTS{code}:")) && said.body["error"].is_string();
        azure.holds(G, what, is);
    }
    let trusted = good.replace(
        &format!("client_secret={SECRET}"),
        "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=a.b.c",
    );
    let said = azure.send("", "POST", path, "", &trusted).await;
    azure.holds(
        G,
        "a token of nobody that is trusted",
        said.body["error"] == "invalid_client",
    );
    for principal in azure.fake.contents().principals.values_mut() {
        principal.federated = Some("a.b.c".to_owned());
    }
    let said = azure.send("", "POST", path, "", &trusted).await;
    azure.holds(G, "one that is trusted gives a token", said.status == 200);
    azure.report();
}

#[tokio::test]
async fn what_is_put_is_there_once_and_takes_a_while() {
    let mut azure = Azure::new().await;
    let one = format!("{VMS}/a");
    let said = azure.ask("PUT", &one, vm("a")).await;
    let is = said.is(400, "InvalidResourceReference");
    azure.holds(G, "without its interface: 400", is);
    let said = azure.ask("PUT", &format!("{NICS}/a"), nic(None)).await;
    azure.holds(R, "an interface is put: 201", said.status == 201);
    let again = azure.ask("PUT", &format!("{NICS}/a"), nic(None)).await;
    azure.holds(R, "and put again: 200", again.status == 200);
    azure.pass(10);
    let said = azure.get(&format!("{NICS}/a")).await;
    let ip = &said.body["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"];
    azure.holds(
        R,
        "then it has an address",
        said.state() == "Succeeded" && ip.is_string(),
    );
    let path = format!("{GROUP}{one}?api-version=2024-07-01");
    let is_new = "if-none-match: *\r\n";
    let body = vm("a").to_string();
    let said = azure.send("t", "PUT", &path, is_new, &body).await;
    azure.holds(
        R,
        "a machine is put: 201",
        said.status == 201 && said.state() == "Creating",
    );
    let operation = said.header("azure-asyncoperation").unwrap_or_default();
    let told = azure.follow(&operation).await;
    azure.holds(
        G,
        "its operation is in progress",
        told.body["status"] == "InProgress",
    );
    let said = azure.send("t", "PUT", &path, is_new, &body).await;
    let is = said.is(412, "PreconditionFailed");
    azure.holds(R, "If-None-Match: * with one that is there: 412", is);
    let said = azure.get(&one).await;
    azure.holds(
        Unproven,
        "404 for a while",
        said.is(404, "ResourceNotFound"),
    );
    let said = azure.delete(&one).await;
    azure.holds(
        Unproven,
        "and 204 when it is deleted then",
        said.status == 204,
    );
    azure.pass(5);
    let said = azure.delete(&one).await;
    let is = said.is(409, "AnotherOperationInProgress");
    azure.holds(Unproven, "what is being made is not deleted", is);
    azure.pass(60);
    let told = azure.follow(&operation).await;
    azure.holds(
        G,
        "then it has succeeded",
        told.body["status"] == "Succeeded",
    );
    let said = azure.get(&one).await;
    let properties = &said.body["properties"];
    let has_all = properties["vmId"].is_string() && properties["timeCreated"].is_string();
    azure.holds(R, "a machine has an ID and says since when it is", has_all);
    azure.holds(
        R,
        "it says how it is doing if asked only",
        properties["instanceView"].is_null(),
    );
    azure.holds(
        R,
        "and gives no user data back",
        properties["userData"].is_null(),
    );
    let path = format!("{GROUP}{one}?api-version=2024-07-01&$expand=instanceView");
    let said = azure.send("t", "GET", &path, "", "").await;
    let statuses = &said.body["properties"]["instanceView"]["statuses"];
    let codes = [&statuses[0]["code"], &statuses[1]["code"]];
    let is = codes == ["ProvisioningState/succeeded", "PowerState/running"];
    azure.holds(R, "statuses are codes", is);
    let said = azure.get(&format!("{DISKS}/a")).await;
    let user = said.body["managedBy"].as_str().unwrap_or_default();
    azure.holds(R, "its disk names it", user.ends_with("/virtualMachines/a"));
    azure.holds(Unproven, "and has its tags", said.body["tags"]["a"] == "b");
    azure.report();
}

#[tokio::test]
async fn what_is_wrong_is_refused_at_once_and_what_is_missing_leaves_a_machine_that_failed() {
    let mut azure = Azure::new().await;
    azure.ask("PUT", &format!("{NICS}/b"), nic(None)).await;
    let one = format!("{VMS}/b");
    let long = "QQ==".repeat(64 * 1024);
    let changes: [(&str, &str, Value, u16, &str); 7] = [
        (
            "size",
            "/properties/hardwareProfile/vmSize",
            json!("huge"),
            400,
            "InvalidParameter",
        ),
        (
            "size that is kept from the subscription",
            "/properties/hardwareProfile/vmSize",
            json!("Standard_F2"),
            409,
            "SkuNotAvailable",
        ),
        (
            "image",
            "/properties/storageProfile/imageReference/id",
            json!("no"),
            404,
            "GalleryImageNotFound",
        ),
        (
            "user data",
            "/properties/userData",
            json!(long),
            400,
            "InvalidParameter",
        ),
        (
            "no key",
            "/properties/osProfile/linuxConfiguration/ssh/publicKeys",
            json!([]),
            400,
            "InvalidParameter",
        ),
        (
            "tag",
            "/tags",
            json!({ "a.b/c": "d" }),
            400,
            "InvalidTagNameCharacters",
        ),
        (
            "location",
            "/location",
            json!("moon"),
            400,
            "LocationNotAvailableForResourceType",
        ),
    ];
    for (what, field, value, status, code) in changes {
        let mut wrong = vm("b");
        *wrong.pointer_mut(field).unwrap() = value;
        let said = azure.ask("PUT", &one, wrong).await;
        azure.holds(G, what, said.is(status, code));
    }
    azure.fake.contents().behaviour.exhausted = vec!["Standard_D2s_v5".to_owned()];
    let said = azure.ask("PUT", &one, vm("b")).await;
    azure.holds(G, "an allocation is taken at first", said.status == 201);
    let operation = said.header("azure-asyncoperation").unwrap_or_default();
    azure.pass(60);
    let told = azure.follow(&operation).await;
    let is = told.body["status"] == "Failed" && told.body["error"]["code"] == "AllocationFailed";
    azure.holds(G, "and fails in the operation", is);
    let said = azure.get(&one).await;
    azure.holds(I, "what failed stays there", said.state() == "Failed");
    azure.delete(&one).await;
    azure.pass(60);
    azure.fake.contents().behaviour.exhausted.clear();
    azure.fake.contents().behaviour.machine_limit = 0;
    azure.ask("PUT", &format!("{NICS}/b"), nic(None)).await;
    let said = azure.ask("PUT", &one, vm("b")).await;
    let message = said.body["error"]["message"].as_str().unwrap_or_default();
    let is = said.is(409, "OperationNotAllowed") && message.contains("quota");
    azure.holds(G, "a quota is said by the sentence alone", is);
    let path = "/subscriptions/s1/providers/Microsoft.Compute/locations/westeurope/usages?api-version=2024-07-01";
    let said = azure.send("t", "GET", path, "", "").await;
    let usage = &said.body["value"][0];
    let has_all = usage["limit"].is_number() && usage["name"]["value"] == "cores";
    azure.holds(R, "and told beforehand by usages", has_all);
    azure.fake.contents().behaviour.page = 10;
    let path = "/subscriptions/s1/providers/Microsoft.Compute/skus?api-version=2021-07-01";
    let said = azure.send("t", "GET", path, "", "").await;
    let restriction = &said.body["value"][3]["restrictions"][0]["reasonCode"];
    let is = *restriction == "NotAvailableForSubscription";
    azure.holds(R, "restrictions of sizes too", is);
    azure.report();
}

#[tokio::test]
async fn deletion_takes_along_what_is_to_go_and_reserves_what_stays() {
    let mut azure = Azure::new().await;
    azure.ask("PUT", &format!("{ADDRESSES}/a"), address()).await;
    azure.ask("PUT", &format!("{NICS}/a"), nic(Some("a"))).await;
    azure.make("b").await;
    azure.ask("PUT", &format!("{VMS}/a"), vm("a")).await;
    azure.pass(60);
    let said = azure.delete(&format!("{NICS}/a")).await;
    azure.holds(G, "an interface in use stays", said.is(400, "NicInUse"));
    let said = azure.delete(&format!("{DISKS}/a")).await;
    azure.holds(G, "so does a disk", said.is(409, "OperationNotAllowed"));
    let said = azure.delete(&format!("{ADDRESSES}/a")).await;
    let is = said.is(400, "PublicIPAddressCannotBeDeleted");
    azure.holds(G, "and an address", is);
    let said = azure.delete(&format!("{VMS}/a")).await;
    let operation = said.header("azure-asyncoperation");
    azure.holds(
        R,
        "a machine is deleted: 202",
        said.status == 202 && operation.is_some(),
    );
    let said = azure.get(&format!("{VMS}/a")).await;
    azure.holds(G, "it is Deleting meanwhile", said.state() == "Deleting");
    azure.pass(60);
    for path in [VMS, NICS, DISKS, ADDRESSES] {
        let said = azure.get(&format!("{path}/a")).await;
        azure.holds(
            G,
            "all of it goes (deleteOption)",
            said.is(404, "ResourceNotFound"),
        );
    }
    let said = azure.delete(&format!("{VMS}/a")).await;
    azure.holds(R, "what is gone: 204", said.status == 204);
    azure.fake.contents().behaviour.keeps_parts = true;
    azure.delete(&format!("{VMS}/b")).await;
    azure.pass(60);
    let said = azure.delete(&format!("{NICS}/b")).await;
    let is = said.is(400, "NicReservedForAnotherVm");
    azure.holds(I, "what stays is reserved", is);
    let said = azure.ask("PUT", &format!("{VMS}/b"), vm("b")).await;
    let is = said.is(409, "ConflictingUserInput");
    azure.holds(I, "a disk that stays is made no second time", is);
    azure.pass(180);
    let said = azure.delete(&format!("{NICS}/b")).await;
    azure.holds(I, "for three minutes", said.status == 202);
    azure.report();
}

#[tokio::test]
async fn lists_have_pages_and_requests_are_counted() {
    let mut azure = Azure::new().await;
    let said = azure.get(NICS).await;
    let is = said.status == 200 && said.body["value"] == json!([]);
    azure.holds(R, "an empty list has an empty value", is);
    for name in ["a", "b", "c", "d"] {
        azure.ask("PUT", &format!("{NICS}/{name}"), nic(None)).await;
    }
    azure.pass(5);
    let said = azure.get(NICS).await;
    let none = said.body["value"] == json!([]);
    azure.holds(I, "what is there is listed later", none);
    azure.pass(60);
    let count = |said: &Said| said.body["value"].as_array().map_or(0, Vec::len);
    let first = azure.get(NICS).await;
    let next = first.body["nextLink"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    azure.holds(
        R,
        "nextLink is an address",
        next.starts_with("http") && count(&first) == 3,
    );
    let second = azure.follow(&next).await;
    let is_last = count(&second) == 1 && second.body["nextLink"].is_null();
    azure.holds(R, "that leads to the rest", is_last);
    let reads = "x-ms-ratelimit-remaining-subscription-reads";
    let left = second
        .header(reads)
        .and_then(|left| left.parse::<u32>().ok());
    azure.holds(
        G,
        "what is left is told",
        left.is_some_and(|left| left < 250),
    );
    azure.fake.contents().behaviour.reads = 2;
    azure.pass(1);
    azure.get("").await;
    azure.get("").await;
    let said = azure.get("").await;
    let is = said.status == 429 && said.header("retry-after").is_some();
    azure.holds(G, "too many: 429 with Retry-After", is);
    let said = azure.ask("PUT", &format!("{NICS}/a"), nic(None)).await;
    azure.holds(G, "writes have a bucket of their own", said.status == 200);
    azure.pass(1);
    let said = azure.get("").await;
    azure.holds(G, "and it fills by itself", said.status == 200);
    azure.report();
}
