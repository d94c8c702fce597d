//! The page that says what went wrong.
//!
//! Invariant: pure. It says what mends it, and leads on.

use maud::html;

use super::layout::{Page, Viewer, page};
use crate::problem::Problem;

/// The page.
#[must_use]
pub fn problem(viewer: Option<Viewer<'_>>, problem: &Problem) -> String {
    let title = match problem.status.as_u16() {
        403 => "Not allowed",
        404 => "Not found",
        409 => "It is otherwise by now",
        422 => "Refused",
        _ => "It did not work",
    };
    let body = html! {
        h1 { (title) }
        div .card .failing role="alert" {
            p { (problem.what) }
            @if !problem.mend.is_empty() { p .mend { strong { "Do: " } (problem.mend) } }
        }
        p { a href="/" { "To the tenant clusters" } }
    };
    page(&Page {
        title,
        viewer,
        at: None,
        namespace: None,
        live: None,
        notice: None,
        body,
    })
}
