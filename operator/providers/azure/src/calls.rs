//! The calls, and the pages of lists.
//!
//! Invariant: each call is one request, lists aside, and one more where a token let in no more, because then nothing was
//! done; a list says what it misses. An address that an answer names is asked only where it is at the endpoint itself, so
//! that no token goes elsewhere.

use std::sync::Arc;

use http::Method;
use providers::budget::{Bucket, Use};
use providers::clock::Clock;
use providers::http_client::{BuildError, Call, HttpClient, LIST, ONE, Reply, UNREADABLE, encoded};
use providers::identity::Labels;
use providers::refused::Asked;
use providers::{FaultKind, Refused};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::access::Access;
use crate::credentials::Credentials;
use crate::refusal::{PAGES, answered, asked};
use crate::schema::{self, Address, Disk, Group, Nic, Operation, Page, Sku, Thing, Usage, Vm};
use crate::settings::{Kind, Place};

/// Where the API is.
pub const ENDPOINT: &str = "https://management.azure.com";
/// Where tokens are had.
pub const AUTHORITY: &str = "https://login.microsoftonline.com";
/// Requests that look, of each principal in a subscription and region (documentation, "Understand how Azure Resource
/// Manager throttles requests", as of 2024).
const LOOKS: Bucket = Bucket {
    most: 250,
    per_second: 25,
};
/// Requests that change something: those that delete have a bucket of their own, and are counted with the others here.
const CHANGES: Bucket = Bucket {
    most: 200,
    per_second: 10,
};
/// Most pages of a list.
const MOST: u32 = 40;
/// What a request has that must not meet something that is there.
const IS_NEW: (&str, &str) = ("if-none-match", "*");

/// Where the API is, and where tokens are had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoints {
    /// What stands before `/subscriptions`.
    pub management: String,
    /// What stands before the tenant.
    pub authority: String,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            management: ENDPOINT.to_owned(),
            authority: AUTHORITY.to_owned(),
        }
    }
}

/// Makes calls.
pub struct Calls {
    transport: HttpClient,
    access: Access,
    endpoint: String,
    place: Place,
}

/// What is sent, beside where to.
#[derive(Default)]
struct Sent {
    body: Option<Value>,
    is_new: bool,
}

impl Calls {
    /// In one resource group. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoints: &Endpoints,
        credentials: Credentials,
        place: &Place,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        let endpoint = endpoints.management.trim_end_matches('/');
        // The limit of an hour is none of Azure's, and the buckets are set instead.
        let transport = HttpClient::new(endpoint, 0, "x-ms-request-id", Arc::clone(&clock))?;
        Ok(Self {
            transport: transport.with_buckets(LOOKS, CHANGES),
            access: Access::new(&endpoints.authority, credentials, clock)?,
            endpoint: endpoint.to_owned(),
            place: place.clone(),
        })
    }

    /// What time it is by Azure's clock.
    #[must_use]
    pub fn now(&self) -> jiff::Timestamp {
        self.access.now()
    }

    /// The resource group.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn group(&self) -> Result<Group, Refused> {
        let asked = asked("use", format!("resource group {}", self.place.group));
        let path = format!("{}?api-version=2021-04-01", self.in_group(""));
        self.get(path, &asked).await
    }

    /// The virtual machine of a name, with how it is doing.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn vm(&self, name: &str) -> Result<Option<Vm>, Refused> {
        self.one(Kind::Vm, name, "&$expand=instanceView").await
    }

    /// The interface of a name.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn nic(&self, name: &str) -> Result<Option<Nic>, Refused> {
        self.one(Kind::Nic, name, "").await
    }

    /// The public address of a name.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn address(&self, name: &str) -> Result<Option<Address>, Refused> {
        self.one(Kind::Address, name, "").await
    }

    /// The disk of a name.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn disk(&self, name: &str) -> Result<Option<Disk>, Refused> {
        self.one(Kind::Disk, name, "").await
    }

    async fn one<P: DeserializeOwned + Default>(
        &self,
        kind: Kind,
        name: &str,
        more: &str,
    ) -> Result<Option<Thing<P>>, Refused> {
        let asked = asked("read", format!("{} {name}", kind.word()));
        let path = self.path_to(kind, name) + more;
        match self.get(path, &asked).await {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Everything of a type in the group: all of it, or an error.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn all<P: DeserializeOwned + Default>(
        &self,
        kind: Kind,
    ) -> Result<Vec<Thing<P>>, Refused> {
        let asked = asked("list", format!("each {}", kind.word()));
        let path = format!(
            "{}?api-version={}",
            self.in_group(&format!("/providers/{}", kind.path())),
            version(kind)
        );
        self.pages(path, &asked).await
    }

    /// Puts something; nothing of its name must be there where `is_new`. Gives where it is told what becomes of it.
    ///
    /// # Errors
    /// Where that was not taken, or nobody knows.
    pub async fn put(
        &self,
        kind: Kind,
        name: &str,
        body: Value,
        is_new: bool,
    ) -> Result<Option<String>, Refused> {
        let asked = asked("create", format!("{} {name}", kind.word()));
        let sent = Sent {
            body: Some(body),
            is_new,
        };
        match self
            .send(Method::PUT, self.path_to(kind, name), sent, ONE, &asked)
            .await
        {
            // Something that it names, not itself.
            Err(refused) if refused.kind == FaultKind::NotFound => Err(Refused {
                kind: FaultKind::Terminal,
                mend: Some(
                    "make what it names, or change the image of the node pool, or spec.azure.subnetID of the ProviderConfig"
                        .to_owned(),
                ),
                ..refused
            }),
            sent => Ok(sent?.operation.and_then(|address| self.path_of(&address))),
        }
    }

    /// Gives a disk these tags.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn tag_disk(&self, name: &str, tags: &Labels) -> Result<(), Refused> {
        let asked = asked("tag", format!("disk {name}"));
        let sent = Sent {
            body: Some(json!({ "tags": tags })),
            is_new: false,
        };
        let path = self.path_to(Kind::Disk, name);
        let sent = self.send(Method::PATCH, path, sent, ONE, &asked).await;
        sent.map(drop)
    }

    /// Asks for something to go. That it is not there is fine.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete(&self, kind: Kind, name: &str) -> Result<(), Refused> {
        let asked = asked("delete", format!("{} {name}", kind.word()));
        let path = self.path_to(kind, name);
        match self
            .send(Method::DELETE, path, Sent::default(), ONE, &asked)
            .await
        {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(()),
            sent => sent.map(drop),
        }
    }

    /// Asks for a virtual machine to be started: `start`, or `restart` where it runs.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn start(&self, name: &str, command: &str) -> Result<(), Refused> {
        let asked = asked("restart", format!("virtual machine {name}"));
        let path = self.in_group(&format!(
            "/providers/{}/{}/{command}?api-version={}",
            Kind::Vm.path(),
            encoded(name),
            version(Kind::Vm)
        ));
        let sent = self
            .send(Method::POST, path, Sent::default(), ONE, &asked)
            .await;
        sent.map(drop)
    }

    /// What became of something that was begun.
    ///
    /// # Errors
    /// Where nobody knows.
    pub async fn operation(&self, path: &str, asked: &Asked) -> Result<Operation, Refused> {
        self.get(path.to_owned(), asked).await
    }

    /// Sizes of the location, and whatever else there is.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn skus(&self) -> Result<Vec<Sku>, Refused> {
        let asked = asked("list", "sizes");
        let filter = encoded(&format!("location eq '{}'", self.place.location));
        let path = self.in_subscription(&format!(
            "/providers/Microsoft.Compute/skus?api-version=2021-07-01&$filter={filter}"
        ));
        self.pages(path, &asked).await
    }

    /// How much of everything there is in the location, and may be.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn usages(&self) -> Result<Vec<Usage>, Refused> {
        let asked = asked("list", "quotas");
        let path = self.in_subscription(&format!(
            "/providers/Microsoft.Compute/locations/{}/usages?api-version=2024-07-01",
            encoded(&self.place.location)
        ));
        self.pages(path, &asked).await
    }

    /// Whether an image is there, by its ID.
    ///
    /// # Errors
    /// Where nobody knows.
    pub async fn has_image(&self, image: &str) -> Result<bool, Refused> {
        let asked = asked("read", format!("image {image}"));
        let parts: Vec<_> = image.split('/').map(encoded).collect();
        let version = match image.contains("/galleries/") {
            true => "2023-07-03",
            false => "2024-07-01",
        };
        let path = format!("{}?api-version={version}", parts.join("/"));
        match self.get::<Value>(path, &asked).await {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    fn in_subscription(&self, rest: &str) -> String {
        format!("/subscriptions/{}{rest}", encoded(&self.place.subscription))
    }

    fn in_group(&self, rest: &str) -> String {
        self.in_subscription(&format!(
            "/resourceGroups/{}{rest}",
            encoded(&self.place.group)
        ))
    }

    fn path_to(&self, kind: Kind, name: &str) -> String {
        self.in_group(&format!(
            "/providers/{}/{}?api-version={}",
            kind.path(),
            encoded(name),
            version(kind)
        ))
    }

    /// What stands after the endpoint in an address; none where it is elsewhere.
    fn path_of(&self, address: &str) -> Option<String> {
        let rest = address.strip_prefix(&self.endpoint)?;
        let rest = rest.strip_prefix(":443").unwrap_or(rest);
        rest.starts_with('/').then(|| rest.to_owned())
    }

    async fn get<T: DeserializeOwned>(&self, path: String, asked: &Asked) -> Result<T, Refused> {
        let reply = self
            .send(Method::GET, path, Sent::default(), ONE, asked)
            .await?;
        read(&reply, asked)
    }

    /// All of a list, or why something may be missing.
    async fn pages<T: DeserializeOwned>(
        &self,
        first: String,
        asked: &Asked,
    ) -> Result<Vec<T>, Refused> {
        let mut items = Vec::new();
        let mut path = first;
        for _ in 0..MOST {
            let reply = self
                .send(Method::GET, path, Sent::default(), LIST, asked)
                .await?;
            let page: Page<T> = read(&reply, asked)?;
            items.extend(page.value);
            let Some(next) = page.next_link.filter(|next| !next.is_empty()) else {
                return Ok(items);
            };
            path = self.path_of(&next).ok_or_else(|| {
                let why = "its next page is not at the API's own address";
                asked.refused(FaultKind::Unavailable, PAGES, why)
            })?;
        }
        let why = format!("the list has more than {MOST} pages");
        Err(asked.refused(FaultKind::Unavailable, PAGES, why))
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        sent: Sent,
        largest: usize,
        asked: &Asked,
    ) -> Result<Reply, Refused> {
        let body = sent.body.map(|body| body.to_string().into_bytes());
        let headers = sent.is_new.then_some(IS_NEW);
        let mut is_first = true;
        loop {
            let token = self.access.token().await?;
            let call = Call {
                use_: match method {
                    Method::GET => Use::Look,
                    _ => Use::Change,
                },
                method: method.clone(),
                path: path.clone(),
                authorization: token.header(),
                body: body.clone().map(|body| ("application/json", body)),
                largest,
            };
            let headers = headers.as_slice();
            // Whatever is told stands in a condition.
            let reply = self.transport.send_with(call, headers).await;
            let reply = reply
                .map_err(|lost| asked.refused(lost.kind, lost.code, token.redact(&lost.why)))?;
            self.access.hears(&reply);
            if reply.is_success() {
                return Ok(reply);
            }
            if reply.status == 401 {
                self.access.forget(&token).await;
                if std::mem::take(&mut is_first) {
                    continue;
                }
            }
            let said = serde_json::from_slice::<schema::Refused>(&reply.body);
            let mut fault = said.unwrap_or_default().error;
            fault.message = token.redact(&fault.message);
            let refused = answered(asked, reply.status, &fault, reply.after);
            return Err(Refused {
                request: reply.request,
                ..refused
            });
        }
    }
}

/// Which version of the API a type is asked of. Of virtual machines the first one that takes `If-None-Match` is older.
fn version(kind: Kind) -> &'static str {
    match kind {
        Kind::Vm => "2024-07-01",
        Kind::Disk => "2024-03-02",
        Kind::Nic | Kind::Address => "2024-05-01",
    }
}

/// Reads an answer; one that lacks what it has to have cannot be read.
fn read<T: DeserializeOwned>(reply: &Reply, asked: &Asked) -> Result<T, Refused> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        let why = format!("the answer is another: {error}");
        asked.refused(FaultKind::Unavailable, UNREADABLE, why)
    })
}
