//! Lists of one kind, with the columns of kubectl, because the API server makes them.
//!
//! Invariant: pure. A list that is not whole says so, and leads to the rest.

use api::ConditionStatus;
use insight::description::types::State;
use insight::text::shown;
use insight_read::table::{Row, ServerTable, of_cell};
use maud::{Markup, html};
use serde_json::Value;

use super::layout::{Page, Viewer, page};
use super::parts::{badge, link, table};
use crate::kinds::Kind;
use crate::paths;

/// What was listed.
#[derive(Debug)]
pub struct Listed<'a> {
    /// The kind.
    pub kind: Kind,
    /// The namespace; none: all of them.
    pub namespace: Option<&'a str>,
    /// What rows have to have.
    pub filter: &'a str,
    /// The rows.
    pub table: &'a ServerTable,
    /// Where the next page begins; none of the last.
    pub next: Option<&'a str>,
    /// There are more rows than are shown.
    pub is_cut: bool,
    /// Namespaces that the user saw.
    pub namespaces: &'a [String],
    /// Why nothing can be made here; none: it can.
    pub refused: Option<&'a str>,
}

/// The page.
#[must_use]
pub fn list(viewer: Viewer<'_>, listed: &Listed<'_>, live: &str, notice: Option<&str>) -> String {
    let title = listed.kind.title();
    let body = html! {
        div .head {
            h1 { (title) @if let Some(namespace) = listed.namespace { span .of { " in " (namespace) } } }
            @if listed.kind == Kind::Clusters && !viewer.is_read_only { (new(listed)) }
        }
        (choose(listed.kind, listed.namespace, listed.filter, listed.namespaces))
        section #list data-live="" aria-label=(title) {
            @if listed.table.rows.is_empty() { (nothing(listed)) } @else { (rows(listed)) }
            @if listed.is_cut { p .hint { "There are more than are shown: name a namespace, or a longer word to filter by." } }
            @if let Some(next) = listed.next {
                @let address = format!("{}{}after={}", here(listed), if listed.namespace.is_some() { "&" } else { "?" }, paths::escaped(next));
                p { a .button rel="next" href=(address) { "Next page" } }
            }
        }
    };
    page(&Page {
        title,
        viewer: Some(viewer),
        at: Some(listed.kind),
        namespace: listed.namespace,
        live: Some(live),
        notice,
        body,
    })
}

fn here(listed: &Listed<'_>) -> String {
    paths::list(&format!("/{}", listed.kind.word()), listed.namespace)
}

fn new(listed: &Listed<'_>) -> Markup {
    let address = paths::list("/new", listed.namespace);
    html! {
        @match listed.refused {
            None => a .button .first href=(address) { "New tenant cluster" },
            Some(why) => span .off-button {
                button disabled aria-describedby="why-new" { "New tenant cluster" }
                span #why-new .why { (why) }
            },
        }
    }
}

/// The form that chooses a namespace and a word.
#[must_use]
pub fn choose(kind: Kind, namespace: Option<&str>, filter: &str, namespaces: &[String]) -> Markup {
    html! {
        form .choose method="get" action={ "/" (kind.word()) } role="search" {
            div {
                label for="ns" { "Namespace" }
                input #ns name="ns" value=[namespace] placeholder="all" list="namespaces" autocomplete="off" autocapitalize="off" spellcheck="false";
                datalist #namespaces { @for one in namespaces { option value=(one) {} } }
            }
            div {
                label for="filter" { "Filter" }
                input #filter name="q" type="search" value=(filter) autocomplete="off" autocapitalize="off" spellcheck="false";
            }
            button type="submit" { "Show" }
        }
    }
}

fn nothing(listed: &Listed<'_>) -> Markup {
    let what = listed.kind.title().to_lowercase();
    let place = listed
        .namespace
        .map_or("in any namespace".to_owned(), |n| format!("in {n}"));
    html! {
        p .empty {
            @if listed.filter.is_empty() { "There are no " (what) " " (place) "." }
            @else { "No " (what) " " (place) " have “" (listed.filter) "” in them." }
        }
    }
}

fn rows(listed: &Listed<'_>) -> Markup {
    let definitions = &listed.table.column_definitions;
    let columns: Vec<usize> = definitions
        .iter()
        .enumerate()
        .filter(|(_, column)| column.priority == 0)
        .map(|(at, _)| at)
        .collect();
    let mut heads: Vec<String> = columns
        .iter()
        .map(|at| shown(&definitions[*at].name))
        .collect();
    let has_namespace = listed.namespace.is_none();
    if has_namespace {
        heads.insert(1.min(heads.len()), "Namespace".to_owned());
    }
    let rows: Vec<Vec<Markup>> = listed
        .table
        .rows
        .iter()
        .map(|row| {
            let cell =
                |at: &usize| cell(listed.kind, &definitions[*at].name, row.cells.get(*at), row);
            let mut cells: Vec<_> = columns.iter().map(cell).collect();
            if has_namespace {
                let namespace = shown(namespace_of(row));
                cells.insert(1.min(cells.len()), html! { (namespace) });
            }
            cells
        })
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    table(listed.kind.title(), &heads, &rows)
}

fn namespace_of(row: &Row) -> &str {
    row.object.metadata.namespace.as_deref().unwrap_or_default()
}

fn cell(kind: Kind, column: &str, value: Option<&Value>, row: &Row) -> Markup {
    let text = value.map(of_cell).unwrap_or_default();
    let namespace = namespace_of(row);
    match column {
        "Name" => match kind {
            Kind::Snapshots | Kind::Restores | Kind::ProviderConfigs => html! { (text) },
            Kind::Clusters | Kind::Pools | Kind::Machines | Kind::Hosts => {
                let name = &row.object.metadata.name;
                html! { a href=(paths::object(kind.word(), namespace, name)) { (text) } }
            }
        },
        "Cluster" => link(Kind::Clusters, namespace, &text),
        "Ready" | "Reachable" | "Verified" | "Clean" | "Possible" | "Restored" => state(&text),
        // That something is left behind is the bad answer, and breaks nothing.
        "Leaks" if text == ConditionStatus::True.as_str() => badge(State::Waiting, &text),
        _ => html! { (text) },
    }
}

/// A column that holds the status of a condition, or a number.
fn state(text: &str) -> Markup {
    let state = match text {
        _ if text == ConditionStatus::True.as_str() => State::Ok,
        _ if text == ConditionStatus::False.as_str() => State::Failing,
        _ if text == ConditionStatus::Unknown.as_str() => State::Unknown,
        "" => return badge(State::Unknown, "not known"),
        _ => return html! { (text) },
    };
    badge(state, text)
}

/// The page of somebody who may not list everywhere: which namespace?
#[must_use]
pub fn which(viewer: Viewer<'_>, kind: Kind, what: &str, namespaces: &[String]) -> String {
    let title = kind.title();
    let body = html! {
        h1 { (title) }
        div .card .waiting {
            p { (what) }
            p .mend { strong { "Do: " } "name a namespace in which you may." }
        }
        (choose(kind, None, "", namespaces))
        @if !namespaces.is_empty() {
            h2 { "Seen before" }
            ul { @for one in namespaces { li { a href=(paths::list(&format!("/{}", kind.word()), Some(one))) { (one) } } } }
        }
    };
    page(&Page {
        title,
        viewer: Some(viewer),
        at: Some(kind),
        namespace: None,
        live: None,
        notice: None,
        body,
    })
}
