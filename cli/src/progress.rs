//! How waiting goes: on a terminal a line for each part, drawn over itself; elsewhere a line for each change.
//!
//! Invariant: all of it goes to standard error, and where it is drawn over itself nowhere else than on a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use api::ConditionType;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use insight::description::types::State;
use insight::text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::time::Instant;

use crate::args::Global;
use crate::judge::changes;
use crate::output::say;
use crate::render::Symbols;
use crate::terminal::draws;

/// How often what is drawn is drawn anew: seconds are told.
const TICK: Duration = Duration::from_secs(1);
/// As wide as the longest type of conditions that is common.
const LINE: &str = "{prefix:20} {wide_msg}";

/// Says how waiting goes.
pub(crate) struct Progress {
    is_quiet: bool,
    start: Instant,
    last: Vec<Condition>,
    drawn: Option<Drawn>,
}

/// Lines that are drawn over themselves.
struct Drawn {
    symbols: Symbols,
    all: MultiProgress,
    lines: BTreeMap<String, ProgressBar>,
    /// What is waited for, below all others.
    foot: ProgressBar,
}

impl Progress {
    /// Nothing so far.
    pub(crate) fn new(global: &Global) -> Self {
        let draws = !global.quiet && draws();
        Self {
            is_quiet: global.quiet,
            start: Instant::now(),
            last: Vec::new(),
            drawn: draws.then(|| Drawn::new(Symbols::of_errors(global))),
        }
    }

    /// A line, with the seconds since the start.
    fn tell(&self, line: &str) {
        if !self.is_quiet {
            let seconds = self.start.elapsed().as_secs_f64();
            say(&format!("[{seconds:5.1}s] {line}"));
        }
    }

    /// What an object's conditions are by now.
    pub(crate) fn conditions(&mut self, now: &[Condition]) {
        match &mut self.drawn {
            Some(drawn) => drawn.conditions(now),
            None => {
                let told = changes(&self.last, now);
                told.iter().for_each(|line| self.tell(line));
            }
        }
        self.last = now.to_vec();
    }

    /// What is waited for, whenever that changes.
    pub(crate) fn waits_for(&self, what: &str) {
        if let Some(drawn) = &self.drawn {
            drawn.foot.set_message(what.to_owned());
        }
    }

    /// What is waited for, while nothing changes.
    pub(crate) fn remind(&self, what: &str) {
        match &self.drawn {
            Some(_) => self.waits_for(what),
            None => self.tell(&format!("waiting: {what}")),
        }
    }

    /// What is waited for, where conditions do not say how it goes.
    pub(crate) fn note(&self, what: &str) {
        match &self.drawn {
            Some(_) => self.waits_for(what),
            None => self.tell(what),
        }
    }
}

impl Drop for Progress {
    /// What was drawn stays, but for what is waited for no more.
    fn drop(&mut self) {
        if let Some(drawn) = &self.drawn {
            drawn.foot.finish_and_clear();
            drawn.lines.values().for_each(ProgressBar::abandon);
        }
    }
}

impl Drawn {
    fn new(symbols: Symbols) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let foot = all.add(line("{elapsed:>4} {wide_msg}"));
        foot.enable_steady_tick(TICK);
        Self {
            symbols,
            all,
            lines: BTreeMap::new(),
            foot,
        }
    }

    fn conditions(&mut self, now: &[Condition]) {
        for (type_, state, said) in parts(now) {
            let symbol = self.symbols.state(state);
            let line = self.lines.entry(type_.clone()).or_insert_with(|| {
                let made = self.all.insert_before(&self.foot, line(LINE));
                made.set_prefix(type_);
                made
            });
            line.set_message(format!("{symbol} {said}"));
        }
    }
}

fn line(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let line = ProgressBar::new_spinner().with_finish(ProgressFinish::Abandon);
    // A template that cannot be read leaves the line as it is made.
    match style {
        Ok(style) => line.with_style(style),
        Err(_) => line,
    }
}

/// The parts of an object: what each is called, how it does, and what is said of it.
fn parts(conditions: &[Condition]) -> Vec<(String, State, String)> {
    let is = |condition: &Condition, type_: ConditionType| condition.type_ == type_.as_str();
    let flows = [ConditionType::Progressing, ConditionType::Degraded];
    let shown = conditions.iter().filter(|condition| {
        // Of these only what is so is worth a line.
        let is_flow = flows.iter().any(|type_| is(condition, *type_));
        !is_flow || condition.status == "True"
    });
    let told = shown.map(|condition| {
        let state = match condition.status.as_str() {
            "True" if is(condition, ConditionType::Degraded) => State::Failing,
            "True" if is(condition, ConditionType::Progressing) => State::Waiting,
            "True" => State::Ok,
            "False" => State::Waiting,
            _ => State::Unknown,
        };
        let said = match condition.message.is_empty() {
            true => condition.reason.clone(),
            false => format!("{}: {}", condition.reason, condition.message),
        };
        (text::shown(&condition.type_), state, text::shown(&said))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_has_a_state_and_a_reason() {
        let condition = |type_: &str, status: &str, reason: &str, message: &str| {
            let condition = json!({"type": type_, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-11-27T11:00:00Z"});
            serde_json::from_value::<Condition>(condition).unwrap()
        };
        let told = parts(&[
            condition("Degraded", "False", "AsExpected", ""),
            condition("EtcdReady", "True", "MembersReady", ""),
            condition("Progressing", "True", "Applying", "3 \u{1b}[31mobjects"),
            condition("Ready", "False", "Starting", ""),
        ]);
        let expected = [
            ("EtcdReady", State::Ok, "MembersReady"),
            ("Progressing", State::Waiting, "Applying: 3 [31mobjects"),
            ("Ready", State::Waiting, "Starting"),
        ];
        let expected =
            expected.map(|(type_, state, said)| (type_.to_owned(), state, said.to_owned()));
        assert_eq!(told, expected);
        // The templates can be read.
        for template in [LINE, "{elapsed:>4} {wide_msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
