//! Admission webhooks that would keep a tenant cluster from waking.
//!
//! One that has to answer, and is answered by a pod of the tenant cluster itself, refuses what that pod needs to run once
//! there are no nodes any more. So it is not put to sleep while there is one, or they let requests pass meanwhile.

use api::tenant_cluster::{HibernationWebhooks, WebhooksStatus};

use super::seen::Blocking;

/// Names that people are told.
const MOST_NAMES: usize = 3;

/// What has to be asked or done inside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Look which there are.
    Look,
    /// Let requests pass them, and look which there are still.
    Relax,
    /// Have those answer again that somebody is there for, and look which are left.
    Restore,
}

/// What they have to do with that it is sent to sleep.
pub(super) enum Begin {
    /// They have to be looked at.
    Ask,
    /// It is not, why.
    Later(String),
    /// It is, and this is done about them.
    With(WebhooksStatus),
}

/// How far a change of them is.
pub(super) enum Change {
    /// It has to be made.
    Ask,
    /// It could not be made with all of them, why.
    Later(String),
    /// It is made.
    Over,
}

/// `answers`: whether its API does, or ever did.
pub(super) fn at_begin(
    blocking: Option<&Blocking>,
    policy: HibernationWebhooks,
    answers: bool,
) -> Begin {
    match (blocking, policy) {
        // Nobody ever reached one that has not started yet.
        _ if !answers => Begin::With(WebhooksStatus::Strict),
        (None, _) => Begin::Ask,
        (Some(blocking), policy) => match (kept_awake(blocking, policy), blocking) {
            (Some(why), _) => Begin::Later(why),
            (None, Blocking::By(names)) if !names.is_empty() => {
                Begin::With(WebhooksStatus::Relaxing)
            }
            (None, _) => Begin::With(WebhooksStatus::Strict),
        },
    }
}

/// Why it is not put to sleep, for people; none where they do not stand in the way.
#[must_use]
pub fn kept_awake(blocking: &Blocking, policy: HibernationWebhooks) -> Option<String> {
    match (blocking, policy) {
        (Blocking::Unknown(why), _) => {
            Some(format!("it is not known which webhooks it has: {why}"))
        }
        (Blocking::By(names), HibernationWebhooks::Keep) if !names.is_empty() => Some(format!(
            "without nodes nobody answers for webhook {}, which would refuse what nodes need when it wakes; give it \
             failurePolicy Ignore, have its namespaceSelector leave kube-system out, or set \
             spec.hibernation.webhooks to Relax",
            list(names)
        )),
        (Blocking::By(_), _) => None,
    }
}

pub(super) fn when_relaxed(blocking: Option<&Blocking>) -> Change {
    change(blocking, strict)
}

/// Why it goes no further although nothing is left on nodes, for people.
#[must_use]
pub fn strict_again(blocking: Option<&Blocking>) -> Option<String> {
    match when_relaxed(blocking) {
        Change::Later(why) => Some(why),
        Change::Ask | Change::Over => None,
    }
}

fn strict(why: Result<String, &str>) -> String {
    let to = "let requests pass while it sleeps";
    match why {
        Ok(names) => format!("webhook {names} does not {to}: somebody changes it back"),
        Err(why) => format!("it is not known whether webhooks {to}: {why}"),
    }
}

pub(super) fn when_restored(blocking: Option<&Blocking>) -> Change {
    change(blocking, |why| match why {
        Ok(names) => format!(
            "nobody is there yet to answer for webhook {names}: requests pass without being asked about"
        ),
        Err(why) => format!("it is not known whether webhooks let requests pass still: {why}"),
    })
}

fn change(blocking: Option<&Blocking>, words: fn(Result<String, &str>) -> String) -> Change {
    match blocking {
        None => Change::Ask,
        Some(Blocking::Unknown(why)) => Change::Later(words(Err(why))),
        Some(Blocking::By(names)) if names.is_empty() => Change::Over,
        Some(Blocking::By(names)) => Change::Later(words(Ok(list(names)))),
    }
}

fn list(names: &[String]) -> String {
    let named = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>();
    match names.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
