//! The catalogue of reasons as a page.
//!
//! Invariant: pure. It has every reason, under the fragment that links lead to.

use api::Reason;
use api::reason::class::Class;
use insight::description::types::State;
use maud::html;

use super::layout::{Page, Viewer, page};
use super::parts::{badge, code};

/// The page.
#[must_use]
pub fn reasons(viewer: Viewer<'_>) -> String {
    let body = html! {
        h1 { "What reasons mean" }
        p { "Every reason that Covey writes into conditions and Events. Whose turn it is: fine, nobody's; waiting, Covey's, it goes on by itself; person, yours; bug, ours." }
        @for reason in Reason::ALL {
            article .reason id=(reason.as_str()) {
                h2 { (reason.as_str()) " " (badge(state(*reason), reason.class().as_str())) }
                p { (code(reason.meaning())) }
                @if !reason.cause().is_empty() { p { strong { "Cause: " } (code(reason.cause())) } }
                @if !reason.mend().is_empty() { p { strong { "Do: " } (code(reason.mend())) } }
            }
        }
    };
    page(&Page {
        title: "What reasons mean",
        viewer: Some(viewer),
        at: None,
        namespace: None,
        live: None,
        notice: None,
        body,
    })
}

fn state(reason: Reason) -> State {
    match reason.class() {
        Class::Fine => State::Ok,
        Class::Waiting => State::Waiting,
        Class::Person | Class::Bug => State::Failing,
    }
}
