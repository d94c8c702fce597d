//! The page on which somebody logs in.
//!
//! Invariant: pure. What was pasted never stands in it again.

use maud::html;

use super::layout::{Page, page};

/// The page. `next` is where it leads, `mistake` why nobody was let in.
#[must_use]
pub fn login(next: &str, mistake: Option<&str>, notice: Option<&str>) -> String {
    let body = html! {
        div .narrow {
            h1 { "Log in" }
            form method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                p {
                    label for="token" { "Token, or a kubeconfig that has one" }
                    textarea #token name="token" rows="5" required autocomplete="off" spellcheck="false" autocapitalize="off"
                        autofocus aria-describedby={ @if mistake.is_some() { "token-mistake " } "token-hint" }
                        aria-invalid=[mistake.map(|_| "true")] {}
                }
                @if let Some(mistake) = mistake { p #token-mistake .mistake role="alert" { (mistake) } }
                p #token-hint .hint {
                    "The dashboard has no rights of its own: it asks the management cluster with this token, as you. It keeps it in memory until you log out, at most 12 hours. For a ServiceAccount one is made by "
                    code { "kubectl create token NAME" } "."
                }
                p { button type="submit" { "Log in" } }
            }
        }
    };
    page(&Page {
        title: "Log in",
        viewer: None,
        at: None,
        namespace: None,
        live: None,
        notice,
        body,
    })
}
