//! Lists of one kind.
//!
//! Invariant: a page of a list is one request, of at most [`ROWS`] rows; a filter reads at most [`PAGES`] pages, and what
//! is more is said.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use http::StatusCode;
use insight_read::request::{self, Form};
use insight_read::table::{Row, ServerTable, of_cell};
use kube::Resource as _;
use kube::api::{DynamicObject, ListParams};

use super::app::{html, notice, see};
use super::follow::address;
use super::visitor::Visitor;
use crate::access::Act;
use crate::kinds::Kind;
use crate::pages::list::{Listed, list, which};
use crate::pages::reasons::reasons;
use crate::paths;
use crate::problem::Problem;
use crate::query::Pairs;

/// Rows of one page.
const ROWS: u32 = 100;
/// Objects of a page that a filter reads, and such pages.
const READ: u32 = 200;
const PAGES: usize = 25;
/// Rows that a filter shows.
const SHOWN: usize = 200;
/// Bytes of the token by which a list goes on.
const LONGEST_NEXT: usize = 8192;

/// The first page.
pub(crate) async fn first(visitor: Visitor, RawQuery(query): RawQuery) -> Response {
    let answer = listed(&visitor, Kind::Clusters, query).await;
    visitor.answer(answer)
}

/// The list of a kind.
pub(crate) async fn of_kind(
    visitor: Visitor,
    Path(word): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let answer = match Kind::of_word(&word) {
        Some(kind) => listed(&visitor, kind, query).await,
        None => Err(Problem::no_page()),
    };
    visitor.answer(answer)
}

/// The catalogue of reasons.
pub(crate) async fn catalogue(visitor: Visitor) -> Response {
    html(StatusCode::OK, reasons(visitor.viewer()))
}

async fn listed(visitor: &Visitor, kind: Kind, query: Option<String>) -> Result<Response, Problem> {
    let query = Pairs::read(query.unwrap_or_default().as_bytes());
    let (namespace, filter) = (query.text("ns"), query.text("q"));
    let filter: String = filter.chars().take(100).collect();
    if !namespace.is_empty() && !paths::is_name(namespace) {
        let what = "this is no name of a namespace";
        let mend = "a name has small letters, digits and - only";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, what, mend));
    }
    let namespace = Some(namespace).filter(|n| !n.is_empty());
    let after = Some(query.text("after")).filter(|a| !a.is_empty() && a.len() <= LONGEST_NEXT);
    let resource = kind.resource();
    let path = DynamicObject::url_path(&resource, namespace);
    let namespaces = visitor.session.namespaces();
    let read = match filter.as_str() {
        "" => one_page(visitor, &path, after).await,
        filter => filtered(visitor, &path, filter).await,
    };
    let (table, is_cut) = match read {
        Ok(read) => read,
        Err(error) => {
            let place = namespace.map_or("all namespaces".to_owned(), str::to_owned);
            let problem = Problem::of(&format!("list {} in {place}", resource.plural), &error);
            return match &error {
                // Where the list went on is forgotten (410): it begins anew.
                kube::Error::Api(status) if status.code == 410 => {
                    Ok(see(&paths::list(&format!("/{}", kind.word()), namespace)))
                }
                kube::Error::Api(status) if status.code == 403 && namespace.is_none() => {
                    let what = format!("You may not list {} in all namespaces.", resource.plural);
                    let text = which(visitor.viewer(), kind, &what, &namespaces);
                    Ok(html(StatusCode::FORBIDDEN, text))
                }
                _ => Err(problem),
            };
        }
    };
    namespace.into_iter().for_each(|n| visitor.session.saw(n));
    // Whether something can be made is known of a namespace; for all of them the form asks for one.
    let refused = match namespace {
        Some(namespace) => {
            let access = visitor.access(namespace).await;
            access.refuses(Act::new("create", &resource.plural, None), namespace)
        }
        None => None,
    };
    let live = address(&[kind], namespace);
    let listed = Listed {
        kind,
        namespace,
        filter: &filter,
        next: table
            .metadata
            .next
            .as_deref()
            .filter(|next| !next.is_empty()),
        table: &table,
        is_cut,
        namespaces: &namespaces,
        refused: refused.as_deref(),
    };
    let text = list(visitor.viewer(), &listed, &live, notice(query.text("done")));
    Ok(html(StatusCode::OK, text))
}

type Read = Result<(ServerTable, bool), kube::Error>;

async fn one_page(visitor: &Visitor, path: &str, after: Option<&str>) -> Read {
    let mut params = ListParams::default().limit(ROWS);
    if let Some(after) = after {
        params = params.continue_token(after);
    }
    let page = request::page(visitor.client(), path, &params, Form::Table).await?;
    Ok((page, false))
}

async fn filtered(visitor: &Visitor, path: &str, filter: &str) -> Read {
    let mut params = ListParams::default().limit(READ);
    let (mut all, filter) = (ServerTable::default(), filter.to_lowercase());
    for _ in 0..PAGES {
        let page = request::page(visitor.client(), path, &params, Form::Table).await;
        let mut page: ServerTable = page?;
        let next = page.metadata.next.take().filter(|next| !next.is_empty());
        page.rows.retain(|row| has(row, &filter));
        all.append(page);
        if all.rows.len() > SHOWN {
            all.rows.truncate(SHOWN);
            return Ok((all, true));
        }
        match next {
            Some(next) => params = params.continue_token(&next),
            None => return Ok((all, false)),
        }
    }
    Ok((all, true))
}

/// Whether a row has a word in it, in any case.
fn has(row: &Row, word: &str) -> bool {
    let namespace = row.object.metadata.namespace.clone().unwrap_or_default();
    let mut cells = row.cells.iter().map(of_cell).chain([namespace]);
    cells.any(|cell| cell.to_lowercase().contains(word))
}
