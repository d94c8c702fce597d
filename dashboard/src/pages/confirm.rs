//! The page that asks before something is deleted: its name has to be typed.
//!
//! Invariant: pure. It says what goes with it; it deletes the object that it shows, and not another of its name.

use maud::html;

use super::layout::{Page, Viewer, form_token, page};
use crate::kinds::Kind;
use crate::paths;

/// What is to be deleted.
#[derive(Debug)]
pub struct Deletion<'a> {
    /// The kind.
    pub kind: Kind,
    /// What one of it is called: `tenant cluster`.
    pub word: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// What goes with it.
    pub goes: &'a str,
    /// What is wrong with what was typed.
    pub mistake: Option<&'a str>,
    /// Why it may not be deleted; none: it may.
    pub refused: Option<&'a str>,
}

/// The page.
#[must_use]
pub fn confirm(viewer: Viewer<'_>, one: &Deletion<'_>) -> String {
    let title = format!("Delete {}", one.name);
    let action = paths::act(one.kind.word(), one.namespace, one.name, "delete");
    let body = html! {
        div .narrow {
            h1 { "Delete the " (one.word) " " (one.name) }
            div .card .failing {
                p { "This deletes " (one.goes) ". It cannot be taken back." }
            }
            @if let Some(why) = one.refused {
                p .why { (why) }
            } @else {
                form method="post" action=(action) novalidate {
                    (form_token(viewer))
                    input type="hidden" name="uid" value=(one.uid);
                    div .field {
                        label for="confirm" { "Type " strong { (one.name) } " to delete it" }
                        input #confirm name="confirm" required autocomplete="off" autocapitalize="off" spellcheck="false"
                            aria-describedby="confirm-mistake" aria-invalid=[one.mistake.map(|_| "true")];
                        p #confirm-mistake .mistake { @if let Some(mistake) = one.mistake { (mistake) } }
                    }
                    div .row { button .danger type="submit" { "Delete" } }
                }
            }
            p { a href=(paths::object(one.kind.word(), one.namespace, one.name)) { "Back, and delete nothing" } }
        }
    };
    page(&Page {
        title: &title,
        viewer: Some(viewer),
        at: Some(one.kind),
        namespace: Some(one.namespace),
        live: None,
        notice: None,
        body,
    })
}
