//! Rust as far as rules need it: which lines are tests, what a call or a macro holds.
//!
//! Invariant: it reads text that rustfmt has formatted; it is no parser.

use super::text::Text;

/// A call or a macro.
#[derive(Debug)]
pub(super) struct Call {
    /// Without path and parenthesis.
    pub(super) name: String,
    /// Where it begins.
    pub(super) line: usize,
    /// What stands between its parentheses.
    pub(super) inner: String,
}

/// Whether every line of a file is a test's.
pub(super) fn is_of_tests(path: &str) -> bool {
    path.starts_with("e2e/testkit/")
        || path.starts_with("e2e/suites/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
}

/// The lines of tests with their numbers: all of a file of tests, otherwise its `mod tests { … }`.
pub(super) fn test_lines(text: &Text) -> Vec<(usize, &str)> {
    let numbered = text.text.lines().enumerate();
    let lines = numbered.map(|(number, line)| (number + 1, line));
    if is_of_tests(&text.path) {
        return lines.collect();
    }
    let mut found = Vec::new();
    // Indentation of the module's end while inside it.
    let (mut inside, mut marked): (Option<&str>, bool) = (None, false);
    for (number, line) in lines {
        let trimmed = line.trim_start();
        let indent = &line[..line.len() - trimmed.len()];
        match inside {
            Some(end) if trimmed == "}" && indent == end => inside = None,
            Some(_) => found.push((number, line)),
            None if marked && trimmed.starts_with("mod ") && trimmed.ends_with('{') => {
                inside = Some(indent);
            }
            None => {}
        }
        marked = trimmed == "#[cfg(test)]" || marked && trimmed.starts_with("#[");
    }
    found
}

/// A line without its comment. Two slashes in a text are an address more often than a comment.
pub(super) fn code(line: &str) -> &str {
    let comment = line.match_indices("//").find(|(at, _)| {
        let before = &line[..*at];
        before.is_empty() || before.ends_with(' ') && before.matches('"').count().is_multiple_of(2)
    });
    comment.map_or(line, |(at, _)| &line[..at])
}

/// The macros of these names.
pub(super) fn macros(lines: &[(usize, &str)], names: &[&str]) -> Vec<Call> {
    calls(lines, |name| names.contains(&name))
}

/// The calls and macros (`name!`) whose names `is_meant` accepts; definitions aside.
pub(super) fn calls(lines: &[(usize, &str)], is_meant: impl Fn(&str) -> bool) -> Vec<Call> {
    let mut found = Vec::new();
    for (index, (number, line)) in lines.iter().enumerate() {
        let line = code(line);
        for (at, _) in line.match_indices('(') {
            let before = &line[..at];
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '!';
            let name = before
                .rsplit(|c: char| !is_part(c))
                .next()
                .unwrap_or_default();
            let start = &before[..before.len() - name.len()];
            if name.is_empty() || start.ends_with("fn ") || !is_meant(name) {
                continue;
            }
            let mut rest = line[at + 1..].to_owned();
            for (_, line) in &lines[index + 1..] {
                if closing(&rest).is_some() {
                    break;
                }
                rest.push('\n');
                rest.push_str(code(line));
            }
            let end = closing(&rest).unwrap_or(rest.len());
            found.push(Call {
                name: name.to_owned(),
                line: *number,
                inner: rest[..end].to_owned(),
            });
        }
    }
    found
}

/// The arguments in the text between two parentheses.
pub(super) fn arguments(inner: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0_i32;
    for (c, is_text) in characters(inner) {
        match c {
            '(' | '[' | '{' if !is_text => depth += 1,
            ')' | ']' | '}' if !is_text => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 && !is_text {
            found.push(String::new());
        } else if let Some(last) = found.last_mut() {
            last.push(c);
        }
    }
    found
}

/// Where the parenthesis ends that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (1_i32, 0);
    for (c, is_text) in characters(text) {
        match c {
            '(' if !is_text => depth += 1,
            ')' if !is_text => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        at += c.len_utf8();
    }
    None
}

/// Each character, and whether it belongs to a text in quotes.
fn characters(text: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut is_text, mut is_escaped, mut before) = (false, false, ' ');
    text.chars().map(move |c| {
        let was_text = is_text;
        if is_escaped {
            is_escaped = false;
        } else if is_text && c == '\\' {
            is_escaped = true;
        } else if c == '"' && (is_text || before != '\'') {
            is_text = !is_text;
        }
        before = c;
        (c, was_text || is_text)
    })
}
