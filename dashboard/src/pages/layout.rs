//! What is around every page: head, navigation, notices, keys.
//!
//! Invariant: pure. A page without a viewer has nothing of anybody.

use maud::{DOCTYPE, Markup, html};

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::kinds::Kind;
use crate::paths;

/// Who looks.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    /// The user, as the API calls it.
    pub user: &'a str,
    /// What each form says.
    pub form_token: &'a str,
    /// Nothing can be changed.
    pub is_read_only: bool,
}

/// A page.
#[derive(Debug)]
pub struct Page<'a> {
    /// What it is called.
    pub title: &'a str,
    /// Who looks; none before log-in.
    pub viewer: Option<Viewer<'a>>,
    /// Where in the navigation it is.
    pub at: Option<Kind>,
    /// The namespace that it is about, which the navigation keeps.
    pub namespace: Option<&'a str>,
    /// What is watched for it; none of what stays as it is.
    pub live: Option<&'a str>,
    /// What was done just now.
    pub notice: Option<&'a str>,
    /// What it says.
    pub body: Markup,
}

const NAVIGATION: [(Kind, &str); 4] = [
    (Kind::Clusters, "Tenant clusters"),
    (Kind::Pools, "Node pools"),
    (Kind::Machines, "Machines"),
    (Kind::Hosts, "Hosts"),
];

/// The whole page.
#[must_use]
pub fn page(page: &Page<'_>) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) " · Covey" }
                link rel="icon" href=(ICON.path()) type="image/svg+xml";
                link rel="stylesheet" href=(STYLE.path());
                script src=(SCRIPT.path()) defer {}
            }
            body data-live=[page.live] {
                a .skip href="#main" { "Skip to content" }
                (header(page))
                div #lost .banner role="status" hidden {}
                main #main tabindex="-1" {
                    @if let Some(notice) = page.notice { p .notice role="status" { (notice) } }
                    (page.body)
                }
                (footer(page))
                p #said .hidden role="status" aria-live="polite" {}
            }
        }
    };
    markup.into_string()
}

fn header(page: &Page<'_>) -> Markup {
    html! {
        header .top {
            div .bar {
                a .brand href="/" { "Covey" }
                @if let Some(viewer) = page.viewer {
                    nav aria-label="Kinds" {
                        ul {
                            @for (kind, title) in NAVIGATION {
                                @let address = paths::list(&format!("/{}", kind.word()), page.namespace);
                                li { a href=(address) aria-current=[(page.at == Some(kind)).then_some("page")] { (title) } }
                            }
                        }
                    }
                    form .who method="post" action="/logout" {
                        (form_token(viewer))
                        span .user { (viewer.user) }
                        button .quiet type="submit" { "Log out" }
                    }
                }
            }
        }
    }
}

fn footer(page: &Page<'_>) -> Markup {
    html! {
        footer .bottom {
            @if page.viewer.is_some() {
                p { a href="/reasons" { "What reasons mean" } }
                details #keys .script {
                    summary { "Keys" }
                    dl .keys {
                        dt { kbd { "/" } } dd { "filter" }
                        dt { kbd { "j" } " " kbd { "k" } } dd { "next and previous row" }
                        dt { kbd { "g" } " " kbd { "c" } } dd { "tenant clusters" }
                        dt { kbd { "?" } } dd { "this list" }
                    }
                    p { label { input #single-keys type="checkbox" checked; " Single keys are on" } }
                    p { label { input #go-live type="checkbox" checked; " Pages follow changes" } }
                }
            }
            p .small { "Covey " (env!("CARGO_PKG_VERSION")) }
        }
    }
}

/// What each form that changes something says.
#[must_use]
pub fn form_token(viewer: Viewer<'_>) -> Markup {
    html! { input type="hidden" name="form-token" value=(viewer.form_token); }
}

/// A page that leads on to where somebody wanted to go: with a cookie of `SameSite=Strict` a link on another site
/// leads here first.
#[must_use]
pub fn onward(address: &str) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Covey" }
                meta http-equiv="refresh" content=(format!("0; url={address}"));
                link rel="stylesheet" href=(STYLE.path());
            }
            body { main { p { a href=(address) { "Go on to the dashboard" } } } }
        }
    };
    markup.into_string()
}
