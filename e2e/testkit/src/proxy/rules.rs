//! Rules of the fault proxy: which requests and watch events, and what happens to them.
//!
//! Invariant: deciding is pure but for the counters, and a rule fires exactly as often as
//! `skip`, `every` and `times` say.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::request::RequestInfo;

/// What happens to what a rule picks.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Action {
    /// The request is answered with this status and does not reach the server.
    #[serde(rename_all = "camelCase")]
    Answer {
        /// For example 409, 410, 429, 500, 503.
        status: u16,
        /// `Retry-After` in seconds.
        retry_after: Option<u32>,
    },
    /// The connection is closed and the request does not reach the server.
    Refuse,
    /// The request is carried out, then the connection is closed instead of answering.
    LoseReply,
    /// The request is held back first.
    Delay {
        /// For so long.
        milliseconds: u64,
    },
    /// The watch event is not delivered.
    DropEvent,
    /// The watch event is delivered twice.
    RepeatEvent,
    /// The watch breaks off instead of delivering the event.
    CloseWatch,
    /// The watch ends with the error 410 "Expired" instead of delivering the event.
    ExpireWatch,
    /// The watch delivers nothing as long as the rule is there.
    StallWatch,
}

impl Action {
    fn is_about_events(&self) -> bool {
        match self {
            Self::Answer { .. } | Self::Refuse | Self::LoseReply | Self::Delay { .. } => false,
            Self::DropEvent
            | Self::RepeatEvent
            | Self::CloseWatch
            | Self::ExpireWatch
            | Self::StallWatch => true,
        }
    }
}

/// What to pick, how often, and what to do with it. Rules apply in the order of their ids.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Regular expression for the whole verb of the audit log: `create|patch`. Default: any.
    pub verb: Option<String>,
    /// Regular expression that occurs in path and query: `/namespaces/a/secrets`. Default: any.
    pub path: Option<String>,
    /// Regular expression for the whole name of the user. Default: any.
    pub user: Option<String>,
    /// Regular expression for the whole type of a watch event: `DELETED`. Default: any.
    pub event: Option<String>,
    /// So many are let through first.
    pub skip: u64,
    /// Then every n-th is taken; 1 takes all.
    pub every: u64,
    /// So often at most. Default: always.
    pub times: Option<u64>,
    /// What happens.
    pub action: Action,
}

impl Rule {
    /// Always, for everything.
    #[must_use]
    pub fn new(action: Action) -> Self {
        let (skip, every) = (0, 1);
        Self {
            verb: None,
            path: None,
            user: None,
            event: None,
            skip,
            every,
            times: None,
            action,
        }
    }

    /// See [`Rule::verb`].
    #[must_use]
    pub fn verb(mut self, regex: &str) -> Self {
        self.verb = Some(regex.to_owned());
        self
    }

    /// See [`Rule::path`].
    #[must_use]
    pub fn path(mut self, regex: &str) -> Self {
        self.path = Some(regex.to_owned());
        self
    }

    /// See [`Rule::user`].
    #[must_use]
    pub fn user(mut self, regex: &str) -> Self {
        self.user = Some(regex.to_owned());
        self
    }

    /// See [`Rule::event`].
    #[must_use]
    pub fn event(mut self, regex: &str) -> Self {
        self.event = Some(regex.to_owned());
        self
    }

    /// Only the n-th (from 1).
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self.times = Some(1);
        self
    }

    /// See [`Rule::every`].
    #[must_use]
    pub fn every(mut self, n: u64) -> Self {
        self.every = n;
        self
    }

    /// See [`Rule::times`].
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

/// What one rule did.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct RuleCounters {
    /// Requests or events that it picked.
    pub matched: u64,
    /// Those that something happened to.
    pub fired: u64,
}

/// What the proxy did.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counters {
    /// Requests that arrived.
    pub requests: u64,
    /// Watches that are open now.
    pub streams: u64,
    /// Watch events that arrived from the server.
    pub events: u64,
    /// By the id of the rule.
    pub rules: BTreeMap<String, RuleCounters>,
}

/// Who asks for what: what rules look at.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) info: RequestInfo,
    pub(super) path: String,
    pub(super) user: String,
}

struct Compiled {
    rule: Rule,
    verb: Option<Regex>,
    path: Option<Regex>,
    user: Option<Regex>,
    event: Option<Regex>,
    counters: RuleCounters,
}

/// All rules, by id.
#[derive(Default)]
pub(super) struct Rules(BTreeMap<String, Compiled>);

impl Rules {
    pub(super) fn set(&mut self, id: &str, rule: Rule) -> Result<()> {
        let whole = |pattern: &Option<String>| {
            let pattern = pattern.as_ref().map(|pattern| format!("^(?:{pattern})$"));
            pattern.map(|pattern| Regex::new(&pattern)).transpose()
        };
        let compiled = Compiled {
            verb: whole(&rule.verb).context("verb is no regular expression")?,
            path: rule
                .path
                .as_deref()
                .map(Regex::new)
                .transpose()
                .context("path is no regular expression")?,
            user: whole(&rule.user).context("user is no regular expression")?,
            event: whole(&rule.event).context("event is no regular expression")?,
            counters: RuleCounters::default(),
            rule,
        };
        self.0.insert(id.to_owned(), compiled);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn counters(&self) -> BTreeMap<String, RuleCounters> {
        self.0
            .iter()
            .map(|(id, rule)| (id.clone(), rule.counters))
            .collect()
    }

    /// What happens to a request.
    pub(super) fn for_request(&mut self, asked: &Asked) -> Vec<Action> {
        let rules = self
            .0
            .values_mut()
            .filter(|c| !c.rule.action.is_about_events());
        rules.filter_map(|rule| rule.fire(asked, None)).collect()
    }

    /// What happens to an event of a watch: the first that fires.
    pub(super) fn for_event(&mut self, asked: &Asked, event: &str) -> Option<Action> {
        let mut rules = self
            .0
            .values_mut()
            .filter(|c| c.rule.action.is_about_events() && c.rule.action != Action::StallWatch);
        rules.find_map(|rule| rule.fire(asked, Some(event)))
    }

    /// Whether a watch is stalled now.
    pub(super) fn stalls(&self, asked: &Asked) -> bool {
        let mut rules = self
            .0
            .values()
            .filter(|c| c.rule.action == Action::StallWatch);
        rules.any(|rule| rule.matches(asked, None))
    }
}

impl Compiled {
    fn matches(&self, asked: &Asked, event: Option<&str>) -> bool {
        let fits = |regex: &Option<Regex>, text: &str| {
            regex.as_ref().is_none_or(|regex| regex.is_match(text))
        };
        fits(&self.verb, &asked.info.verb)
            && fits(&self.path, &asked.path)
            && fits(&self.user, &asked.user)
            && event.is_none_or(|event| fits(&self.event, event))
    }

    fn fire(&mut self, asked: &Asked, event: Option<&str>) -> Option<Action> {
        if !self.matches(asked, event) {
            return None;
        }
        self.counters.matched += 1;
        let after = self.counters.matched.checked_sub(self.rule.skip + 1)?;
        let due = (after + 1).is_multiple_of(self.rule.every.max(1));
        if !due
            || self
                .rule
                .times
                .is_some_and(|times| self.counters.fired >= times)
        {
            return None;
        }
        self.counters.fired += 1;
        Some(self.rule.action.clone())
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, Uri};

    use super::*;

    fn asked(method: Method, uri: &'static str, user: &str) -> Asked {
        let uri = Uri::from_static(uri);
        let info = RequestInfo::new(&method, &uri);
        Asked {
            info,
            path: uri.to_string(),
            user: user.to_owned(),
        }
    }

    #[test]
    fn rule_fires_as_often_as_it_says() {
        let mut rules = Rules::default();
        let rule = Rule::new(Action::Refuse)
            .verb("create|patch")
            .path("/secrets")
            .user("covey");
        rules
            .set(
                "a",
                Rule {
                    skip: 1,
                    every: 2,
                    times: Some(2),
                    ..rule
                },
            )
            .unwrap();
        let write = asked(Method::PATCH, "/api/v1/namespaces/a/secrets/b", "covey");
        let fired: Vec<bool> = (0..8)
            .map(|_| !rules.for_request(&write).is_empty())
            .collect();
        assert_eq!(
            fired,
            [false, false, true, false, true, false, false, false]
        );
        let read = asked(Method::GET, "/api/v1/namespaces/a/secrets/b", "covey");
        let other = asked(Method::PATCH, "/api/v1/namespaces/a/secrets/b", "covey-two");
        assert!(rules.for_request(&read).is_empty() && rules.for_request(&other).is_empty());
        assert_eq!(
            rules.counters()["a"],
            RuleCounters {
                matched: 8,
                fired: 2
            }
        );
    }

    #[test]
    fn second_deleted_event_of_a_kind_is_picked() {
        let mut rules = Rules::default();
        let rule = Rule::new(Action::DropEvent)
            .path("/secrets")
            .event("DELETED")
            .nth(2);
        rules.set("a", rule).unwrap();
        let watch = asked(Method::GET, "/api/v1/secrets?watch=true", "covey");
        let events = ["ADDED", "DELETED", "MODIFIED", "DELETED", "DELETED"];
        let fired: Vec<_> = events.map(|event| rules.for_event(&watch, event)).to_vec();
        assert_eq!(fired, [None, None, None, Some(Action::DropEvent), None]);
        assert!(rules.for_request(&watch).is_empty());
    }

    #[test]
    fn stall_lasts_as_long_as_its_rule() {
        let mut rules = Rules::default();
        let watch = asked(Method::GET, "/api/v1/secrets?watch=true", "covey");
        rules
            .set("a", Rule::new(Action::StallWatch).path("/secrets"))
            .unwrap();
        assert!(rules.stalls(&watch));
        rules.remove("a");
        assert!(!rules.stalls(&watch));
    }

    #[test]
    fn bad_expression_is_refused() {
        let error = Rules::default()
            .set("a", Rule::new(Action::Refuse).verb("("))
            .unwrap_err();
        assert_eq!(error.to_string(), "verb is no regular expression");
    }
}
