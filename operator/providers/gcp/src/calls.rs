//! The calls, and the pages of lists.
//!
//! Invariant: each call is one request, lists aside, and one more where a token let in no more, because then nothing was
//! done; a list says what it misses: a page that did not come, one too many, or a part that could not be asked.

use std::fmt::Write as _;
use std::sync::Arc;

use http::Method;
use providers::budget::Use;
use providers::clock::Clock;
use providers::http_client::{BuildError, Call, HttpClient, LIST, ONE, UNREADABLE, encoded};
use providers::{FaultKind, Refused};
use serde::de::DeserializeOwned;

use crate::access::Access;
use crate::key::ServiceKey;
use crate::refusal::{Asked, PAGES, PARTIAL};
use crate::schema::{
    self, Address, CreateInstance, Disk, Image, Instance, MachineType, Operation, Page, ProjectInfo,
};

/// Where the API is.
pub const ENDPOINT: &str = "https://compute.googleapis.com/compute/v1";
/// Requests in an hour: 1,500 in each minute (documentation, "Rate quotas").
const LIMIT: u32 = 90_000;
/// Most pages of a list: 10,000 entries.
const MOST: u32 = 20;
/// Entries of a page: the most that there may be.
const SIZE: u32 = 500;
/// What a list says that has nothing, which is no failure.
const NOTHING: &str = "NO_RESULTS_ON_PAGE";

/// Makes calls.
pub struct Calls {
    transport: HttpClient,
    access: Access,
    project: String,
    zone: String,
    region: String,
}

/// Where the API is, and where tokens are had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoints {
    /// What stands before `/projects`.
    pub compute: String,
    /// Where tokens are had.
    pub token_uri: String,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            compute: ENDPOINT.to_owned(),
            token_uri: crate::key::TOKEN_URI.to_owned(),
        }
    }
}

impl Calls {
    /// In one project and zone. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoints: &Endpoints,
        key: ServiceKey,
        project: &crate::settings::Project,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        let transport = HttpClient::new(
            &endpoints.compute,
            LIMIT,
            "x-cloud-trace-context",
            Arc::clone(&clock),
        )?;
        Ok(Self {
            transport,
            access: Access::new(&endpoints.token_uri, key, clock)?,
            project: encoded(&project.project),
            zone: encoded(&project.zone),
            region: encoded(project.region()),
        })
    }

    /// What time it is by Google's clock.
    #[must_use]
    pub fn now(&self) -> jiff::Timestamp {
        self.access.now()
    }

    /// The project.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn project(&self) -> Result<ProjectInfo, Refused> {
        let asked = Asked::new("read", format!("project {}", self.project));
        let path = format!("/projects/{}", self.project);
        self.get(path, &asked).await
    }

    /// The instance of a name; there is one at most in the zone.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn instance(&self, name: &str) -> Result<Option<Instance>, Refused> {
        let asked = Asked::new("read", format!("instance {name}"));
        let path = self.in_zone(&format!("instances/{}", encoded(name)));
        match self.get(path, &asked).await {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Instances that a filter chooses: all of them, or an error.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn instances(&self, filter: &str) -> Result<Vec<Instance>, Refused> {
        let asked = Asked::new("list", "instances");
        self.pages(&self.in_zone("instances"), filter, &asked).await
    }

    /// Disks that a filter chooses.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn disks(&self, filter: &str) -> Result<Vec<Disk>, Refused> {
        let asked = Asked::new("list", "disks");
        self.pages(&self.in_zone("disks"), filter, &asked).await
    }

    /// Addresses of the region that a filter chooses.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn addresses(&self, filter: &str) -> Result<Vec<Address>, Refused> {
        let asked = Asked::new("list", "addresses");
        let path = self.in_region("addresses");
        self.pages(&path, filter, &asked).await
    }

    /// Creations of an instance, as far as Google remembers them.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn insertions(&self, name: &str) -> Result<Vec<Operation>, Refused> {
        let asked = Asked::new("list", format!("operations of instance {name}"));
        let end = format!("/instances/{name}");
        let filter = format!("(targetLink eq \".*{end}\") (operationType eq \"insert\")");
        let path = self.in_zone("operations");
        let mut all: Vec<Operation> = self.pages(&path, &filter, &asked).await?;
        all.retain(|o| o.operation_type == "insert" && o.target_link.ends_with(&end));
        Ok(all)
    }

    /// Sizes of the zone.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn machine_types(&self) -> Result<Vec<MachineType>, Refused> {
        let asked = Asked::new("list", "machine types");
        self.pages(&self.in_zone("machineTypes"), "", &asked).await
    }

    /// An image, by what it is called in full: `projects/PROJECT/global/images/NAME`.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn image(&self, image: &str) -> Result<Option<Image>, Refused> {
        let asked = Asked::new("read", format!("image {image}"));
        let parts: Vec<_> = image.split('/').map(encoded).collect();
        match self.get(format!("/{}", parts.join("/")), &asked).await {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Asks for an instance. With the same `request` and within a day it is the same operation.
    ///
    /// # Errors
    /// Where that was not taken, or nobody knows.
    pub async fn create(&self, request: &str, body: &CreateInstance) -> Result<Operation, Refused> {
        let asked = Asked::new("create", format!("instance {}", body.name));
        let path = self.in_zone(&format!("instances?requestId={}", encoded(request)));
        let body = serde_json::to_vec(body);
        let body = body
            .map_err(|error| asked.refused(FaultKind::Terminal, UNREADABLE, error.to_string()))?;
        let sent = self.send(Method::POST, path, Some(body), ONE, &asked).await;
        match sent {
            // Something that it names, not the instance.
            Err(refused) if refused.kind == FaultKind::NotFound => Err(Refused {
                kind: FaultKind::Terminal,
                mend: Some(
                    "make what it names, or change the image of the node pool, or spec.gcp.subnet of the ProviderConfig"
                        .to_owned(),
                ),
                ..refused
            }),
            sent => read(&sent?, &asked),
        }
    }

    /// Asks for an instance to be deleted. What is not there any more was deleted before.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete_instance(&self, name: &str) -> Result<(), Refused> {
        let asked = Asked::new("delete", format!("instance {name}"));
        let path = self.in_zone(&format!("instances/{}", encoded(name)));
        self.delete(path, &asked).await
    }

    /// Asks for a disk to be deleted.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete_disk(&self, name: &str) -> Result<(), Refused> {
        let asked = Asked::new("delete", format!("disk {name}"));
        let path = self.in_zone(&format!("disks/{}", encoded(name)));
        self.delete(path, &asked).await
    }

    /// Asks for an address to be deleted.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete_address(&self, name: &str) -> Result<(), Refused> {
        let asked = Asked::new("delete", format!("address {name}"));
        let path = self.in_region(&format!("addresses/{}", encoded(name)));
        self.delete(path, &asked).await
    }

    /// Asks for an instance to be started: `start`, or `reset` where it runs.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn start(&self, name: &str, command: &str) -> Result<(), Refused> {
        let asked = Asked::new("restart", format!("instance {name}"));
        let path = self.in_zone(&format!("instances/{}/{command}", encoded(name)));
        let sent = self.send(Method::POST, path, None, ONE, &asked).await;
        sent.map(drop)
    }

    fn in_zone(&self, rest: &str) -> String {
        format!("/projects/{}/zones/{}/{rest}", self.project, self.zone)
    }

    fn in_region(&self, rest: &str) -> String {
        format!("/projects/{}/regions/{}/{rest}", self.project, self.region)
    }

    async fn get<T: DeserializeOwned>(&self, path: String, asked: &Asked) -> Result<T, Refused> {
        let body = self.send(Method::GET, path, None, ONE, asked).await?;
        read(&body, asked)
    }

    async fn delete(&self, path: String, asked: &Asked) -> Result<(), Refused> {
        match self.send(Method::DELETE, path, None, ONE, asked).await {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(()),
            sent => sent.map(drop),
        }
    }

    /// All of a list, or why something may be missing.
    async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &str,
        asked: &Asked,
    ) -> Result<Vec<T>, Refused> {
        let mut items = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..MOST {
            let mut path = format!("{path}?maxResults={SIZE}");
            for (name, value) in [("filter", Some(filter)), ("pageToken", token.as_deref())] {
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    // Writing to a text cannot fail.
                    let _ = write!(path, "&{name}={}", encoded(value));
                }
            }
            let body = self.send(Method::GET, path, None, LIST, asked).await?;
            let page: Page<T> = read(&body, asked)?;
            if let Some(warning) = page.warning.filter(|warning| warning.code != NOTHING) {
                let why = format!("a part of it could not be asked: {}", warning.code);
                return Err(asked.refused(FaultKind::Unavailable, PARTIAL, why));
            }
            items.extend(page.items);
            let next = page.next_page_token.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(items);
            }
            token = next;
        }
        let why = format!("the list has more than {MOST} pages of {SIZE}");
        Err(asked.refused(FaultKind::Unavailable, PAGES, why))
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<Vec<u8>>,
        largest: usize,
        asked: &Asked,
    ) -> Result<Vec<u8>, Refused> {
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
            // Whatever is told stands in a condition.
            let reply = self
                .transport
                .send(call)
                .await
                .map_err(|lost| asked.refused(lost.kind, lost.code, token.redact(&lost.why)))?;
            self.access.hears(&reply);
            if reply.is_success() {
                return Ok(reply.body.into());
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
            let mut refused = asked.answered(reply.status, &fault, reply.after);
            if reply.status != 429
                && let FaultKind::Throttled { after } = &mut refused.kind
            {
                *after = self.transport.pause(Use::Look);
            }
            refused.request = reply.request;
            return Err(refused);
        }
    }
}

/// Reads an answer; one that lacks what it has to have cannot be read.
fn read<T: DeserializeOwned>(body: &[u8], asked: &Asked) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        let why = format!("the answer is another: {error}");
        asked.refused(FaultKind::Unavailable, UNREADABLE, why)
    })
}
