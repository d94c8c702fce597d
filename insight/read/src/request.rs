//! Requests: pages of lists as tables, as objects and as typed objects.
//!
//! Invariant: a list is whole, or it is said that it is not.

use http::header::{ACCEPT, HeaderValue};
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::Request;
use serde::de::DeserializeOwned;

/// Objects of one page.
pub const PAGE: u32 = 500;
/// Most pages of one list.
pub const PAGES: usize = 40;
/// As kubectl asks for tables; servers that make none answer with objects.
const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// How an answer is to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// As the API has it.
    Objects,
    /// As a table.
    Table,
}

/// One object at a path.
///
/// # Errors
/// What the API answered.
pub async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    name: &str,
    form: Form,
) -> Result<T, kube::Error> {
    let params = kube::api::GetParams::default();
    let request = Request::new(path).get(name, &params);
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request(formed(request, form)).await
}

/// One page of a list at a path.
///
/// # Errors
/// What the API answered.
pub async fn page<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    params: &ListParams,
    form: Form,
) -> Result<T, kube::Error> {
    let request = Request::new(path).list(params);
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request(formed(request, form)).await
}

fn formed(mut request: http::Request<Vec<u8>>, form: Form) -> http::Request<Vec<u8>> {
    if form == Form::Table {
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(AS_TABLE));
    }
    request
}

/// Why a list is not known.
#[derive(Debug)]
pub enum Unread {
    /// It was refused, or went wrong.
    Failed(kube::Error),
    /// There is more than is read.
    TooMany,
}

/// All objects of a list, in at most `pages` requests.
///
/// # Errors
/// [`Unread`]: a part of a list is no list.
pub async fn all<K>(api: &Api<K>, params: ListParams, pages: usize) -> Result<Vec<K>, Unread>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = params.limit(PAGE);
    let mut found = Vec::new();
    for _ in 0..pages {
        let mut page = api.list(&params).await.map_err(Unread::Failed)?;
        found.append(&mut page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(found),
        }
    }
    Err(Unread::TooMany)
}
