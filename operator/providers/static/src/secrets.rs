//! Secrets that were sent, so that they are in nothing that is kept.
//!
//! Invariant: what went through [`Secrets::redact`] has none of the values, neither as they are, nor as JSON writes
//! them, nor their lines one by one.

use std::collections::BTreeSet;
use std::fmt;

/// What stands where a secret was.
const MASK: &str = "[redacted]";
/// A line of a longer secret that is shorter than this is no secret by itself: `---`, `kind: …`.
const LEAST_LINE: usize = 12;

/// Exact values that must not be kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeSet<String>);

impl Secrets {
    /// Adds one. Empty ones are left out: they are everywhere.
    pub fn add(&mut self, value: &str) {
        let mut forms = vec![value.trim().to_owned()];
        if let Ok(json) = serde_json::to_string(value.trim()) {
            forms.push(json.trim_matches('"').to_owned());
        }
        if value.trim().contains('\n') {
            let lines = value.lines().map(str::trim);
            forms.extend(
                lines
                    .filter(|line| line.len() >= LEAST_LINE)
                    .map(str::to_owned),
            );
        }
        self.0
            .extend(forms.into_iter().filter(|form| !form.is_empty()));
    }

    /// Adds those of others.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// Length in bytes of the longest; so much at a cut may be half of a secret.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.0.iter().map(String::len).max().unwrap_or_default()
    }

    /// The text without any of them.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        // Longest first: a token may be part of a longer one.
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        all.into_iter().fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), MASK)
        })
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_secret_is_taken_out() {
        let mut secrets = Secrets::default();
        secrets.add("abcdef.0123456789abcdef");
        secrets.add("token: xyz\"1234567890\nkind: A\n");
        secrets.add("");
        let said = "got abcdef.0123456789abcdef and \"token: xyz\\\"1234567890\\nkind: A\" and token: xyz\"1234567890!";
        let kept = secrets.redact(said);
        assert_eq!(kept, "got [redacted] and \"[redacted]\" and [redacted]!");
        assert_eq!(secrets.redact("kind: A stays"), "kind: A stays");
        assert_eq!(format!("{secrets:?}").matches("0123").count(), 0);
    }

    #[test]
    fn a_secret_inside_a_longer_one_leaves_nothing_of_it() {
        let mut secrets = Secrets::default();
        secrets.add("short");
        secrets.add("short-and-more");
        assert_eq!(secrets.redact("short-and-more"), MASK);
    }
}
