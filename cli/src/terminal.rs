//! What standard output is: whether states may have colours, and how long a line may be.
//!
//! Invariant: what is no terminal gets every character and no colour, unless that is asked for.

use std::env;
use std::io::{self, IsTerminal};

use crate::args::{Color, Format, Global};

/// A shorter terminal is one that breaks lines: names would be cut.
const NARROWEST: usize = 40;
/// The end of colours.
const PLAIN: &str = "\u{1b}[0m";

/// Whether states have colours where they are written to.
pub(crate) fn is_coloured(choice: Color, out: &impl IsTerminal) -> bool {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let said = Said {
        no_color: set("NO_COLOR").is_some(),
        force: set("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
        is_dumb: set("TERM").is_some_and(|term| term == "dumb"),
    };
    decide(choice, &said, out.is_terminal())
}

/// What the environment says of colours (<https://no-color.org>, <https://bixense.com/clicolors>).
struct Said {
    no_color: bool,
    force: bool,
    is_dumb: bool,
}

fn decide(choice: Color, said: &Said, is_terminal: bool) -> bool {
    match choice {
        Color::Always => true,
        Color::Never => false,
        Color::Auto if said.no_color => false,
        Color::Auto => said.force || (is_terminal && !said.is_dumb),
    }
}

/// Whether progress may be drawn over itself on standard error.
pub(crate) fn draws() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stderr().is_terminal() && !is_dumb && !is_set("CI")
}

/// A result as it is shown: for people at a terminal no line is longer than that, and messages are cut at its end.
pub(crate) fn fitted(text: String, global: &Global) -> String {
    if global.output != Format::Table || !io::stdout().is_terminal() {
        return text;
    }
    match terminal_size::terminal_size_of(io::stdout()) {
        Some((width, _)) => cut(&text, usize::from(width.0)),
        None => text,
    }
}

/// Lines of at most so many characters; what writes colours counts for nothing.
fn cut(text: &str, width: usize) -> String {
    let width = width.max(NARROWEST);
    let lines = text.split_inclusive('\n');
    lines.map(|line| cut_line(line, width)).collect()
}

fn cut_line(line: &str, width: usize) -> String {
    let (body, end) = match line.strip_suffix('\n') {
        Some(body) => (body, "\n"),
        None => (line, ""),
    };
    let (mut count, mut is_escape, mut fits) = (0, false, 0);
    for (at, c) in body.char_indices() {
        if is_escape || c == '\u{1b}' {
            // Colours are all that is written so, and they end with an m.
            is_escape = c != 'm';
            continue;
        }
        count += 1;
        if count == width {
            fits = at;
        }
        if count > width {
            let colour = if body.contains('\u{1b}') { PLAIN } else { "" };
            return format!("{}…{colour}{end}", body[..fits].trim_end());
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_no_colours_gets_none() {
        let said = |no_color, force, is_dumb| Said {
            no_color,
            force,
            is_dumb,
        };
        let nothing = || said(false, false, false);
        assert!(decide(Color::Auto, &nothing(), true) && !decide(Color::Auto, &nothing(), false));
        assert!(!decide(Color::Auto, &said(true, true, false), true));
        assert!(decide(Color::Auto, &said(false, true, false), false));
        assert!(!decide(Color::Auto, &said(false, false, true), true));
        assert!(decide(Color::Always, &said(true, false, true), false));
        assert!(!decide(Color::Never, &said(false, true, false), true));
    }

    #[test]
    fn long_lines_are_cut_and_short_ones_and_colours_stay() {
        let long = format!("name  {}\nnext\n", "x".repeat(60));
        let told = cut(&long, 50);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!((lines[0].chars().count(), lines[1]), (50, "next"), "{told}");
        assert!(lines[0].ends_with("x…"), "{told}");
        let coloured = format!("\u{1b}[32m✓\u{1b}[0m {}", "y".repeat(60));
        let told = cut(&coloured, 50);
        assert!(told.starts_with("\u{1b}[32m✓\u{1b}[0m y") && told.ends_with("y…\u{1b}[0m"));
        assert_eq!(told.matches('y').count(), 47, "{told}");
        // A terminal of no width at all is none.
        assert_eq!(cut("a name that is long\n", 0), "a name that is long\n");
    }
}
