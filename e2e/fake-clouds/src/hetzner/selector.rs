//! Selectors of labels, as the documentation has them: `k=v`, `k==v`, `k!=v`, `k`, `!k`, `k in (a,b)`, `k notin (a,b)`,
//! all of them with commas between.
//!
//! Invariant: what is none of these is refused, and never chooses everything.

use crate::journal::Labels;

/// Whether the labels are chosen; none: it is no selector.
pub(super) fn chooses(selector: &str, labels: &Labels) -> Option<bool> {
    let mut all = true;
    for part in parts(selector) {
        all &= one(part.trim(), labels)?;
    }
    Some(all)
}

/// Cuts at the commas that stand outside of brackets.
fn parts(selector: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut parts) = (0_i32, 0, Vec::new());
    for (at, c) in selector.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&selector[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&selector[begin..]);
    parts
}

fn one(part: &str, labels: &Labels) -> Option<bool> {
    let set = |key: &str, list: &str| {
        let list = list.trim().strip_prefix('(')?.strip_suffix(')')?;
        let value = labels.get(key.trim()).map(String::as_str);
        Some(list.split(',').any(|one| value == Some(one.trim())))
    };
    if let Some((key, list)) = part.split_once(" notin ") {
        return set(key, list).map(|is| !is);
    }
    if let Some((key, list)) = part.split_once(" in ") {
        return set(key, list);
    }
    let is = |key: &str, value: &str| {
        labels
            .get(key.trim())
            .is_some_and(|known| known == value.trim())
    };
    if let Some((key, value)) = part.split_once("!=") {
        return Some(!is(key, value));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(is(key, value));
    }
    let is_key = |key: &str| {
        !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
    };
    match part.strip_prefix('!') {
        Some(key) if is_key(key) => Some(!labels.contains_key(key)),
        None if is_key(part) => Some(labels.contains_key(part)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_of_the_documentation() {
        let labels = Labels::from([
            ("env".to_owned(), "prod".to_owned()),
            ("example.com/my".to_owned(), "label".to_owned()),
        ]);
        for (selector, chosen) in [
            ("env=prod", true),
            ("env==prod", true),
            ("env=test", false),
            ("env!=test", true),
            ("env!=prod", false),
            ("env", true),
            ("!env", false),
            ("!type", true),
            ("env in (test,prod)", true),
            ("env in (test)", false),
            ("env notin (test)", true),
            ("env notin (test,prod)", false),
            ("env=prod,!type", true),
            ("env in (prod,test),type", false),
            ("example.com/my=label", true),
        ] {
            assert_eq!(chooses(selector, &labels), Some(chosen), "{selector}");
        }
        for odd in ["", "a b", "env in prod", "=x,"] {
            assert_ne!(chooses(odd, &labels), Some(true), "{odd}");
        }
    }
}
