//! Forms: fields with what is wrong beside them.
//!
//! Invariant: pure. Each field has a label, and its mistake is tied to it; what was typed stays.

use maud::{Markup, html};

use super::layout::{Page, Viewer, form_token, page};
use crate::form::{Field, Filled, Input, Mistake};
use crate::kinds::Kind;

/// A form with a page of its own.
#[derive(Debug)]
pub struct FormPage<'a> {
    /// What it makes: `New tenant cluster`.
    pub title: &'a str,
    /// Where it is sent.
    pub action: &'a str,
    /// Where it leads if nothing is made.
    pub back: &'a str,
    /// The namespace, where it is fixed.
    pub namespace: Option<&'a str>,
    /// Its fields.
    pub fields: &'a [Field],
    /// What was filled in.
    pub filled: &'a Filled,
    /// What its button says: `Create`.
    pub button: &'a str,
}

/// The page.
#[must_use]
pub fn form(viewer: Viewer<'_>, form: &FormPage<'_>) -> String {
    let body = html! {
        div .narrow {
            h1 { (form.title) }
            // What is wrong is said by the API, in one place and one way.
            form method="post" action=(form.action) novalidate data-check="" {
                (form_token(viewer))
                (verdict(form.fields, form.filled))
                @for field in form.fields { (input(field, form.filled)) }
                div .row {
                    button .first type="submit" name="act" value="create" { (form.button) }
                    button type="submit" name="act" value="check" { "Check only" }
                    a href=(form.back) { "Back" }
                }
            }
        }
    };
    page(&Page {
        title: form.title,
        viewer: Some(viewer),
        at: Some(Kind::Clusters),
        namespace: form.namespace,
        live: None,
        notice: None,
        body,
    })
}

/// What is wrong with all of it, with links to the fields.
fn verdict(fields: &[Field], filled: &Filled) -> Markup {
    let label = |mistake: &Mistake| {
        let name = mistake.field?;
        fields.iter().find(|field| field.name == name)
    };
    html! {
        div #verdict data-answer="" {
            @if !filled.mistakes.is_empty() {
                div .card .failing role="alert" {
                    p { strong { "It cannot be made like this" } }
                    ul {
                        @for mistake in &filled.mistakes {
                            @match label(mistake) {
                                Some(field) => li { a href={ "#" (field.name) } { (field.label) } ": " (mistake.what) },
                                None => li { (mistake.what) },
                            }
                        }
                    }
                }
            } @else if filled.is_checked {
                p .notice role="status" { "The API would take it like this. Nothing was made." }
            }
        }
    }
}

/// A field with its label, its hint and what is wrong with it.
#[must_use]
pub fn input(field: &Field, filled: &Filled) -> Markup {
    let value = filled.value(field.name);
    let mistake = filled.mistake(field.name);
    let is_wrong = mistake.map(|_| "true");
    let (name, hint) = (
        field.name,
        format!("{}-hint {}-mistake", field.name, field.name),
    );
    html! {
        div .field {
            label for=(name) { (field.label) @if field.is_required { span .needed { " (needed)" } } }
            @match field.input {
                Input::Text => {
                    input id=(name) name=(name) value=(value) required[field.is_required] aria-describedby=(hint) aria-invalid=[is_wrong]
                        autocomplete="off" autocapitalize="off" spellcheck="false";
                }
                Input::Number(least, most) => {
                    input .number id=(name) name=(name) type="number" min=(least) max=(most) value=(value) required[field.is_required]
                        aria-describedby=(hint) aria-invalid=[is_wrong] autocomplete="off";
                }
                Input::Choice(all) => {
                    select id=(name) name=(name) aria-describedby=(hint) aria-invalid=[is_wrong] {
                        @for (one, label) in all { option value=(one) selected[*one == value] { (label) } }
                    }
                }
            }
            p .mistake id={ (name) "-mistake" } data-answer="" { @if let Some(mistake) = mistake { (mistake.what) } }
            p .hint id={ (name) "-hint" } { (field.hint) }
        }
    }
}
