//! States, times, conditions and tables.
//!
//! Invariant: pure. A state is a word, a sign and a colour, never a colour alone.

use api::reason::class::Class;
use api::{ConditionType, Reason};
use insight::age::since;
use insight::description::types::State;
use insight::text::shown;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use maud::{Markup, html};

use crate::kinds::Kind;
use crate::paths;

/// Conditions that are bad, or at least not at rest, where they are True.
const BAD_IF_TRUE: [ConditionType; 6] = [
    ConditionType::AutoscalingRefused,
    ConditionType::Degraded,
    ConditionType::Exceeded,
    ConditionType::KubeVirtOutdated,
    ConditionType::Progressing,
    ConditionType::VersionOutdated,
];

/// The class and the sign of a state.
fn sign(state: State) -> (&'static str, &'static str) {
    match state {
        State::Ok => ("ok", "✓"),
        State::Off => ("off", "–"),
        State::Unknown => ("unknown", "?"),
        State::Waiting => ("waiting", "…"),
        State::Failing => ("failing", "✗"),
    }
}

/// A state in a word.
#[must_use]
pub fn badge(state: State, word: &str) -> Markup {
    let (class, sign) = sign(state);
    html! { span class={ "badge " (class) } { span aria-hidden="true" { (sign) " " } (word) } }
}

/// The word of a state where no other says it.
#[must_use]
pub fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Off => "off",
        State::Unknown => "not known",
        State::Waiting => "on its way",
        State::Failing => "wrong",
    }
}

/// How a condition does: by the catalogue, where its reason is in it.
#[must_use]
pub fn state_of(condition: &Condition) -> State {
    let is_bad_if_true = BAD_IF_TRUE
        .iter()
        .any(|type_| type_.as_str() == condition.type_);
    let is_good = match condition.status.as_str() {
        "True" => !is_bad_if_true,
        "False" => is_bad_if_true,
        _ => return State::Unknown,
    };
    let class = condition.reason.parse::<Reason>().map(Reason::class);
    match (is_good, class) {
        (true, _) => State::Ok,
        (false, Ok(Class::Fine)) => State::Off,
        (false, Ok(Class::Waiting)) => State::Waiting,
        (false, Ok(Class::Person | Class::Bug) | Err(_)) => State::Failing,
    }
}

/// A moment, as how long ago it was.
#[must_use]
pub fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let whole = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let machine = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    html! { time datetime=(machine) title=(whole) { (since(at, now)) } }
}

/// A table. The first cell of a row is what it is about.
#[must_use]
pub fn table(caption: &str, heads: &[&str], rows: &[Vec<Markup>]) -> Markup {
    // On narrow screens a row is a block of lines, and what a table is would be lost but for the roles.
    html! {
        table role="table" {
            caption .hidden { (caption) }
            thead role="rowgroup" {
                tr role="row" {
                    @for head in heads { th scope="col" role="columnheader" { (head) } }
                }
            }
            tbody role="rowgroup" {
                @for row in rows {
                    tr role="row" {
                        @for (at, cell) in row.iter().enumerate() {
                            @if at == 0 {
                                th scope="row" role="rowheader" { (cell) }
                            } @else {
                                td role="cell" data-label=[heads.get(at)] { div { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A section with a heading, which follows changes.
#[must_use]
pub fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! {
        section id=(id) data-live="" aria-labelledby={ (id) "-title" } {
            h2 id={ (id) "-title" } { (title) }
            (body)
        }
    }
}

/// The name of an object, which leads to its page. One that is no name leads nowhere.
#[must_use]
pub fn link(kind: Kind, namespace: &str, name: &str) -> Markup {
    html! {
        @if paths::is_name(name) { a href=(paths::object(kind.word(), namespace, name)) { (name) } } @else { (shown(name)) }
    }
}

/// Names and values.
#[must_use]
pub fn details(pairs: &[(&str, Markup)]) -> Markup {
    html! {
        dl .details {
            @for (name, value) in pairs { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// A reason, which leads to what it means where it is in the catalogue.
#[must_use]
pub fn reason(reason: &str) -> Markup {
    match reason.parse::<Reason>() {
        Ok(known) => html! { a href={ "/reasons#" (known.as_str()) } { (known.as_str()) } },
        Err(_) => html! { (shown(reason)) },
    }
}

/// Conditions, those first that are not as they should be, each with what the catalogue says of it.
#[must_use]
pub fn conditions(conditions: &[Condition], now: Timestamp) -> Markup {
    if conditions.is_empty() {
        return html! { p .empty { "It says nothing of itself yet." } };
    }
    let mut all: Vec<_> = conditions.iter().map(|c| (state_of(c), c)).collect();
    all.sort_by_key(|(state, c)| (std::cmp::Reverse(*state), c.type_.clone()));
    let rows: Vec<_> = all
        .iter()
        .map(|(state, condition)| {
            vec![
                html! { (shown(&condition.type_)) },
                badge(*state, &shown(&condition.status)),
                reason(&condition.reason),
                said(*state, condition),
                ago(condition.last_transition_time.0, now),
            ]
        })
        .collect();
    table(
        "Conditions",
        &["Condition", "Status", "Reason", "What it says", "Since"],
        &rows,
    )
}

/// What a condition says, in its own words or the catalogue's, and what to do.
#[must_use]
pub fn said(state: State, condition: &Condition) -> Markup {
    let known = condition.reason.parse::<Reason>().ok();
    let message = match condition.message.is_empty() {
        true => known.map(|reason| reason.meaning().to_owned()),
        false => Some(shown(&condition.message)),
    };
    let is_at_rest = matches!(state, State::Ok | State::Off);
    let mend = known
        .map(Reason::mend)
        .filter(|mend| !mend.is_empty() && !is_at_rest);
    html! {
        @if let Some(message) = message { (message) }
        @if let Some(mend) = mend { p .mend { strong { "Do: " } (code(mend)) } }
    }
}

/// A sentence in which commands and fields stand in backquotes.
#[must_use]
pub fn code(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Bytes, as people read them.
#[must_use]
pub fn bytes(count: i64) -> String {
    let mut amount = u64::try_from(count).unwrap_or_default();
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if amount < 10 * 1024 {
            break;
        }
        amount /= 1024;
        unit = next;
    }
    format!("{amount} {unit}")
}
