//! Descriptions and findings as text for people.
//!
//! Invariant: pure; a state is a symbol and words, never a symbol alone where it is not fine.

use std::{env, io};

use insight::description::types::State;
use insight::finding::Level;

use crate::args::Global;
use crate::terminal::is_coloured;

pub(crate) mod describe;
pub(crate) mod doctor;

/// Codes of colours.
const RED: u8 = 31;
const GREEN: u8 = 32;
const YELLOW: u8 = 33;

/// What stands for states: a locale without Unicode gets words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbols {
    is_unicode: bool,
    is_coloured: bool,
}

impl Symbols {
    /// Of standard output.
    pub(crate) fn of(global: &Global) -> Self {
        Self {
            is_coloured: is_coloured(global.color, &io::stdout()),
            ..Self::new(is_unicode())
        }
    }

    /// Of standard error.
    pub(crate) fn of_errors(global: &Global) -> Self {
        Self {
            is_coloured: is_coloured(global.color, &io::stderr()),
            ..Self::new(is_unicode())
        }
    }

    /// Without colours.
    pub(crate) fn new(is_unicode: bool) -> Self {
        Self {
            is_unicode,
            is_coloured: false,
        }
    }

    /// The same in a colour, where there are colours (ECMA-48, SGR).
    fn painted(self, colour: u8, symbol: &str) -> String {
        match self.is_coloured {
            true => format!("\u{1b}[{colour}m{symbol}\u{1b}[0m"),
            false => symbol.to_owned(),
        }
    }

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.is_unicode { unicode } else { ascii }
    }

    pub(crate) fn state(self, state: State) -> String {
        match state {
            State::Ok => self.painted(GREEN, self.pick("✓", "ok")),
            State::Off => self.pick("·", "off").to_owned(),
            State::Unknown => self.painted(YELLOW, self.pick("?", "unknown")),
            State::Waiting => self.painted(YELLOW, self.pick("!", "warn")),
            State::Failing => self.painted(RED, self.pick("✗", "FAIL")),
        }
    }

    pub(crate) fn level(self, level: Level) -> String {
        match level {
            Level::Skipped => self.pick("·", "skip").to_owned(),
            Level::Info => self.pick("i", "info").to_owned(),
            Level::Warning => self.painted(YELLOW, self.pick("!", "warn")),
            Level::Error => self.painted(RED, self.pick("✗", "FAIL")),
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

/// By the locale: the first of LC_ALL, LC_CTYPE and LANG that is set decides (POSIX, chapter 8.2).
fn is_unicode() -> bool {
    let all = ["LC_ALL", "LC_CTYPE", "LANG"];
    let mut said = all.into_iter().filter_map(|name| env::var(name).ok());
    let locale = said.find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_never_all_that_tells_a_state() {
        let coloured = Symbols {
            is_coloured: true,
            ..Symbols::new(true)
        };
        let all = [
            State::Ok,
            State::Off,
            State::Unknown,
            State::Waiting,
            State::Failing,
        ];
        for state in all {
            let (plain, painted) = (Symbols::new(true).state(state), coloured.state(state));
            assert!(painted.contains(&plain), "{painted}");
            assert!(!plain.contains('\u{1b}'), "{plain}");
        }
        assert_eq!(coloured.level(Level::Error), "\u{1b}[31m✗\u{1b}[0m");
    }
}
