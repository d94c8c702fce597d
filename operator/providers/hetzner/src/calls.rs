//! The calls, and the pages of lists.
//!
//! Invariant: each call is one request, lists aside; a list says what it misses: a page that did not come, one too
//! many, or entries that came or went while it was read, for pages are counted and a page may slip.

use std::fmt::Write as _;
use std::sync::Arc;

use http::Method;
use providers::budget::Use;
use providers::clock::Clock;
use providers::http_client::{BuildError, LIST, ONE, UNREADABLE, encoded};
use providers::token::Token;
use providers::{FaultKind, Refused};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http_client::{Call, HttpClient};
use crate::refusal::{self, Asked};
use crate::schema::{
    Action, CreatePrimaryIp, CreateServer, Meta, Named, PrimaryIp, Server, ServerType, Volume,
};

/// Most pages of a list: 3,000 entries.
const PAGES: u32 = 60;
/// Entries of a page: the most that there may be (documentation, "Pagination").
const SIZE: u32 = 50;
/// Actions of a server that are looked at: the last ones.
const ACTIONS: &str = "10";

/// A list.
#[derive(Clone, Debug)]
pub struct Listing<T> {
    /// What came.
    pub items: Vec<T>,
    /// Why something may be missing; none: all of it came.
    pub missing: Option<Refused>,
}

impl<T> Listing<T> {
    /// All of it.
    ///
    /// # Errors
    /// Why something may be missing.
    pub fn whole(self) -> Result<Vec<T>, Refused> {
        match self.missing {
            None => Ok(self.items),
            Some(missing) => Err(missing),
        }
    }
}

/// Makes calls.
pub struct Calls {
    http: HttpClient,
}

impl Calls {
    /// At `endpoint`, with `token`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(endpoint: &str, token: Token, clock: Arc<dyn Clock>) -> Result<Self, BuildError> {
        let http = HttpClient::new(endpoint, token, clock)?;
        Ok(Self { http })
    }

    /// Servers that a selector chooses.
    ///
    /// # Errors
    /// Where nothing came.
    pub async fn servers(&self, selector: &str) -> Result<Listing<Server>, Refused> {
        let asked = Asked::new("list", "servers");
        let query = [("label_selector", selector), ("sort", "id:asc")];
        self.pages("/servers", "servers", &query, asked).await
    }

    /// The server of a name; there is one at most.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn server_named(&self, name: &str) -> Result<Option<Server>, Refused> {
        let asked = Asked::new("read", format!("server {name}"));
        self.named("/servers", "servers", name, asked).await
    }

    /// Makes a server.
    ///
    /// # Errors
    /// Where it was not made, or nobody knows.
    pub async fn create_server(&self, server: &CreateServer) -> Result<Server, Refused> {
        let asked = Asked::new("create", format!("server {}", server.name));
        self.post("/servers", serde_json::to_vec(server), "server", asked)
            .await
    }

    /// Asks for a server to be deleted.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete_server(&self, id: u64) -> Result<(), Refused> {
        let asked = Asked::new("delete", format!("server {id}"));
        self.delete(&format!("/servers/{id}"), asked).await
    }

    /// Asks for a server to be started: `poweron`, or `reset` where it runs.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn start_server(&self, id: u64, command: &str) -> Result<(), Refused> {
        let asked = Asked::new("restart", format!("server {id}"));
        let path = format!("/servers/{id}/actions/{command}");
        self.send(Method::POST, path, None, Use::Change, ONE, asked)
            .await
            .map(drop)
    }

    /// The last actions of a server, the newest first.
    ///
    /// # Errors
    /// Where they are not known.
    pub async fn last_actions(&self, id: u64) -> Result<Vec<Action>, Refused> {
        let asked = Asked::new("list", format!("actions of server {id}"));
        let path = format!("/servers/{id}/actions?sort=id:desc&per_page={ACTIONS}");
        let body = self
            .send(Method::GET, path, None, Use::Look, LIST, asked.clone())
            .await?;
        read(&body, "actions", &asked)
    }

    /// Primary IPs that a selector chooses.
    ///
    /// # Errors
    /// Where nothing came.
    pub async fn primary_ips(&self, selector: &str) -> Result<Listing<PrimaryIp>, Refused> {
        let asked = Asked::new("list", "primary IPs");
        let query = [("label_selector", selector), ("sort", "id:asc")];
        self.pages("/primary_ips", "primary_ips", &query, asked)
            .await
    }

    /// The primary IP of a name; there is one at most.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn primary_ip_named(&self, name: &str) -> Result<Option<PrimaryIp>, Refused> {
        let asked = Asked::new("read", format!("primary IP {name}"));
        self.named("/primary_ips", "primary_ips", name, asked).await
    }

    /// Makes a primary IP.
    ///
    /// # Errors
    /// Where it was not made, or nobody knows.
    pub async fn create_primary_ip(&self, ip: &CreatePrimaryIp) -> Result<PrimaryIp, Refused> {
        let asked = Asked::new("create", format!("primary IP {}", ip.name));
        self.post("/primary_ips", serde_json::to_vec(ip), "primary_ip", asked)
            .await
    }

    /// Deletes a primary IP.
    ///
    /// # Errors
    /// Where that was not done, or nobody knows.
    pub async fn delete_primary_ip(&self, id: u64) -> Result<(), Refused> {
        let asked = Asked::new("delete", format!("primary IP {id}"));
        self.delete(&format!("/primary_ips/{id}"), asked).await
    }

    /// Volumes that a selector chooses.
    ///
    /// # Errors
    /// Where nothing came.
    pub async fn volumes(&self, selector: &str) -> Result<Listing<Volume>, Refused> {
        let asked = Asked::new("list", "volumes");
        let query = [("label_selector", selector), ("sort", "id:asc")];
        self.pages("/volumes", "volumes", &query, asked).await
    }

    /// All sizes.
    ///
    /// # Errors
    /// Where nothing came.
    pub async fn server_types(&self) -> Result<Listing<ServerType>, Refused> {
        let asked = Asked::new("list", "server types");
        self.pages("/server_types", "server_types", &[], asked)
            .await
    }

    /// The SSH key of a name.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn ssh_key(&self, name: &str) -> Result<Option<Named>, Refused> {
        let asked = Asked::new("read", format!("SSH key {name}"));
        self.named("/ssh_keys", "ssh_keys", name, asked).await
    }

    /// The network of a name.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn network(&self, name: &str) -> Result<Option<Named>, Refused> {
        let asked = Asked::new("read", format!("network {name}"));
        self.named("/networks", "networks", name, asked).await
    }

    /// The firewall of a name.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn firewall(&self, name: &str) -> Result<Option<Named>, Refused> {
        let asked = Asked::new("read", format!("firewall {name}"));
        self.named("/firewalls", "firewalls", name, asked).await
    }

    /// The image of an ID or a name.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn image(&self, image: &str) -> Result<Option<Named>, Refused> {
        let asked = Asked::new("read", format!("image {image}"));
        if image.parse::<u64>().is_err() {
            return self.named("/images", "images", image, asked).await;
        }
        let path = format!("/images/{image}");
        let body = self
            .send(Method::GET, path, None, Use::Look, ONE, asked.clone())
            .await;
        match body {
            Ok(body) => read(&body, "image", &asked).map(Some),
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    async fn named<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &'static str,
        name: &str,
        asked: Asked,
    ) -> Result<Option<T>, Refused> {
        let found = self.pages(path, key, &[("name", name)], asked).await?;
        Ok(found.whole()?.into_iter().next())
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: serde_json::Result<Vec<u8>>,
        key: &'static str,
        asked: Asked,
    ) -> Result<T, Refused> {
        let body = body.map_err(|error| {
            let why = error.to_string();
            asked.refused(FaultKind::Terminal, UNREADABLE, why)
        })?;
        let path = path.to_owned();
        let body = self
            .send(
                Method::POST,
                path,
                Some(body),
                Use::Change,
                ONE,
                asked.clone(),
            )
            .await?;
        read(&body, key, &asked)
    }

    /// What is not there any more was deleted before.
    async fn delete(&self, path: &str, asked: Asked) -> Result<(), Refused> {
        let path = path.to_owned();
        match self
            .send(Method::DELETE, path, None, Use::Change, ONE, asked)
            .await
        {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &'static str,
        query: &[(&str, &str)],
        asked: Asked,
    ) -> Result<Listing<T>, Refused> {
        let mut items = Vec::new();
        let mut total = None;
        for page in 1..=PAGES {
            let mut path = format!("{path}?page={page}&per_page={SIZE}");
            for (name, value) in query {
                // Writing to a text cannot fail.
                let _ = write!(path, "&{name}={}", encoded(value));
            }
            let body = self
                .send(Method::GET, path, None, Use::Look, LIST, asked.clone())
                .await;
            let read = body.and_then(|body| {
                let of_page: Vec<T> = read(&body, key, &asked)?;
                let meta: Meta = read(&body, "meta", &asked)?;
                Ok((of_page, meta.pagination.unwrap_or_default()))
            });
            let (of_page, pagination) = match read {
                Ok(read) => read,
                Err(refused) if page == 1 => return Err(refused),
                Err(refused) => {
                    let missing = Some(refused);
                    return Ok(Listing { items, missing });
                }
            };
            items.extend(of_page);
            let slipped = page > 1 && total != Some(pagination.total_entries);
            total = Some(pagination.total_entries);
            if slipped {
                let why = "entries came or went while it was read";
                let missing = Some(asked.refused(FaultKind::Conflict, "list_changed", why));
                return Ok(Listing { items, missing });
            }
            if pagination.next_page.is_none_or(|next| next <= page) {
                // A next page that is none is one too many, not an end.
                let missing = pagination.next_page.map(|_| endless(&asked));
                return Ok(Listing { items, missing });
            }
        }
        let missing = Some(endless(&asked));
        Ok(Listing { items, missing })
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<Vec<u8>>,
        use_: Use,
        largest: usize,
        asked: Asked,
    ) -> Result<Vec<u8>, Refused> {
        let call = Call {
            method,
            path,
            body,
            use_,
            largest,
            asked,
        };
        Ok(self.http.send(call).await?.into())
    }
}

fn endless(asked: &Asked) -> Refused {
    let why = format!("the list has more than {PAGES} pages of {SIZE}");
    asked.refused(FaultKind::Unavailable, refusal::PAGES, why)
}

/// Reads one field of an answer; one that lacks it cannot be read.
fn read<T: DeserializeOwned>(body: &[u8], key: &'static str, asked: &Asked) -> Result<T, Refused> {
    let unread = |why: String| asked.refused(FaultKind::Unavailable, UNREADABLE, why);
    let answer: Value = serde_json::from_slice(body)
        .map_err(|error| unread(format!("the answer is no JSON: {error}")))?;
    let field = answer.get(key).cloned();
    let field = field.ok_or_else(|| unread(format!("the answer has no field {key}")))?;
    serde_json::from_value(field)
        .map_err(|error| unread(format!("the answer's field {key} is another: {error}")))
}
