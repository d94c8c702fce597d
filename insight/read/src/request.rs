//! Requests: pages of lists as tables, as objects and as typed objects.
//!
//! Invariant: a list is whole, or it is said that it is not.

use futures::Stream;
use http::header::{ACCEPT, HeaderValue};
use kube::Client;
use kube::api::{Api, ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
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
    /// As a table whose rows have their objects with all fields.
    WholeTable,
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
    client.request(formed(request, form)?).await
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
    client.request(formed(request, form)?).await
}

/// What changes below a path from a version on, until the API ends it.
///
/// # Errors
/// What the API answered, and then what broke it off.
pub async fn watch<T>(
    client: &Client,
    path: &str,
    params: &WatchParams,
    from: &str,
    form: Form,
) -> Result<impl Stream<Item = Result<WatchEvent<T>, kube::Error>> + use<T>, kube::Error>
where
    T: Clone + DeserializeOwned + 'static,
{
    let request = Request::new(path).watch(params, from);
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request_events(formed(request, form)?).await
}

fn formed(
    mut request: http::Request<Vec<u8>>,
    form: Form,
) -> Result<http::Request<Vec<u8>>, kube::Error> {
    if form == Form::Objects {
        return Ok(request);
    }
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(AS_TABLE));
    if form == Form::WholeTable {
        let uri = request.uri();
        let between = if uri.query().is_some() { '&' } else { '?' };
        let whole = format!("{uri}{between}includeObject=Object");
        let whole = whole.parse::<http::Uri>();
        *request.uri_mut() = whole.map_err(|error| kube::Error::HttpError(error.into()))?;
    }
    Ok(request)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_whole_objects_only_where_they_are_asked_for() {
        let uri = |form, uri: &str| {
            let request = http::Request::get(uri).body(Vec::new()).unwrap();
            let made = formed(request, form).unwrap();
            let is_table = made.headers().contains_key(ACCEPT);
            (made.uri().to_string(), is_table)
        };
        assert_eq!(uri(Form::Objects, "/a?b=c"), ("/a?b=c".to_owned(), false));
        assert_eq!(uri(Form::Table, "/a"), ("/a".to_owned(), true));
        let whole = "/a?b=c&includeObject=Object".to_owned();
        assert_eq!(uri(Form::WholeTable, "/a?b=c"), (whole, true));
        let whole = "/a?includeObject=Object".to_owned();
        assert_eq!(uri(Form::WholeTable, "/a"), (whole, true));
    }
}
