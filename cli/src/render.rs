//! Descriptions and findings as text for people.
//!
//! Invariant: pure; a state is a symbol and words, never a symbol alone where it is not fine.

use std::env;

use insight::description::types::State;
use insight::finding::Level;

pub(crate) mod describe;
pub(crate) mod doctor;

/// What stands for states: a locale without Unicode gets words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbols {
    is_unicode: bool,
}

impl Symbols {
    /// By the locale: the first of LC_ALL, LC_CTYPE and LANG that is set decides (POSIX, chapter 8.2).
    pub(crate) fn of_locale() -> Self {
        let all = ["LC_ALL", "LC_CTYPE", "LANG"];
        let said = all.into_iter().filter_map(|name| env::var(name).ok());
        let locale = said.into_iter().find(|value| !value.is_empty());
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self::new(locale.contains("utf-8") || locale.contains("utf8"))
    }

    pub(crate) fn new(is_unicode: bool) -> Self {
        Self { is_unicode }
    }

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.is_unicode { unicode } else { ascii }
    }

    pub(crate) fn state(self, state: State) -> &'static str {
        match state {
            State::Ok => self.pick("✓", "ok"),
            State::Off => self.pick("·", "off"),
            State::Unknown => self.pick("?", "unknown"),
            State::Waiting => self.pick("!", "warn"),
            State::Failing => self.pick("✗", "FAIL"),
        }
    }

    pub(crate) fn level(self, level: Level) -> &'static str {
        match level {
            Level::Skipped => self.pick("·", "skip"),
            Level::Info => self.pick("i", "info"),
            Level::Warning => self.pick("!", "warn"),
            Level::Error => self.pick("✗", "FAIL"),
        }
    }

    /// A branch, and the last one.
    pub(crate) fn branches(self) -> (&'static str, &'static str) {
        match self.is_unicode {
            true => ("├ ", "└ "),
            false => ("|- ", "`- "),
        }
    }

    /// What stands below a branch, and below the last one.
    pub(crate) fn trunks(self) -> (&'static str, &'static str) {
        match self.is_unicode {
            true => ("│ ", "  "),
            false => ("|  ", "   "),
        }
    }
}
