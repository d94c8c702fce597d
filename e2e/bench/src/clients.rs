//! Steady clients of a tenant's API while something is done with it.
//!
//! Two ask beside each other: one over HTTP/2 that tries nothing again, and one over HTTP/1.1 that tries again what the stock
//! client does. Invariant: what failed is told in words, too.

use std::fmt::Display;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use suites::scenario::steady::{Outcome, Steady, Wire};

use crate::round;

/// The same of both clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Over<T> {
    /// Of the one over HTTP/2; nothing is tried again.
    pub http2: T,
    /// Of the one over HTTP/1.1, with what the stock client tries again.
    pub http1: T,
}

impl<T: Display> Over<T> {
    /// For people.
    pub(crate) fn told(&self) -> String {
        format!("{} / {}", self.http2, self.http1)
    }
}

/// What the clients had of one of them (60 requests a second each).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// Requests that failed.
    pub failed: Over<u64>,
    /// Those that were answered.
    pub answered: Over<u64>,
    /// Longest time without an answer of one kind, seconds.
    pub gap_s: Over<f64>,
    /// How long it took, seconds.
    pub took_s: f64,
}

impl Flow {
    /// Takes in the same, done once more.
    pub(crate) fn add(&mut self, other: &Self) {
        let sum = |one: Over<u64>, other: Over<u64>| Over {
            http2: one.http2 + other.http2,
            http1: one.http1 + other.http1,
        };
        self.failed = sum(self.failed, other.failed);
        self.answered = sum(self.answered, other.answered);
        self.gap_s = Over {
            http2: self.gap_s.http2.max(other.gap_s.http2),
            http1: self.gap_s.http1.max(other.gap_s.http1),
        };
        self.took_s = round(self.took_s + other.took_s);
    }
}

/// Both clients at work.
pub(crate) struct Both {
    http2: Steady,
    http1: Steady,
}

impl Both {
    pub(crate) async fn start(kubeconfig: &str) -> Result<Self> {
        Ok(Self {
            http2: Steady::start_over(kubeconfig, Wire::Http2).await?,
            http1: Steady::start_over(kubeconfig, Wire::Http1WithRetry).await?,
        })
    }

    /// What they had, and their failures in words.
    pub(crate) async fn finish(self, took: Duration) -> Result<(Flow, Vec<String>)> {
        let (http2, http1) = (self.http2.finish().await?, self.http1.finish().await?);
        let of = |what: fn(&Outcome) -> u64| Over {
            http2: what(&http2),
            http1: what(&http1),
        };
        let gap = |outcome: &Outcome| round(outcome.gap().as_secs_f64());
        let flow = Flow {
            failed: of(Outcome::failed),
            answered: of(Outcome::answered),
            gap_s: Over {
                http2: gap(&http2),
                http1: gap(&http1),
            },
            took_s: round(took.as_secs_f64()),
        };
        let words = |wire: &'static str, outcome: &Outcome| {
            let failures = outcome.failures().into_iter();
            failures.map(move |words| format!("{wire}: {words}"))
        };
        let notes = words("HTTP/2", &http2).chain(words("HTTP/1.1", &http1));
        Ok((flow, notes.collect()))
    }
}
