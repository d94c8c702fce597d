//! What a script is told: one JSON document in one line.
//!
//! Invariant: a value reaches the script byte for byte, and never as shell text, argument or environment.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::secrets::Secrets;

/// Texts by name.
#[derive(Clone, Default)]
pub struct Parameters {
    values: BTreeMap<&'static str, String>,
    secrets: Secrets,
}

impl Parameters {
    /// With one more that may be seen.
    #[must_use]
    pub fn plain(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.values.insert(name, value.into());
        self
    }

    /// With one more that must not be in anything that is kept.
    #[must_use]
    pub fn secret(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        self.secrets.add(&value);
        self.values.insert(name, value);
        self
    }

    /// A value that is part of another one and secret, such as the token in a configuration.
    #[must_use]
    pub fn hiding(mut self, value: &str) -> Self {
        self.secrets.add(value);
        self
    }

    /// Takes the secrets of others over.
    pub(super) fn hide(&mut self, others: &Secrets) {
        self.secrets.extend(others);
    }

    /// What must not be kept.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The document. Quotes and backslashes inside of texts are written by their numbers, so that awk finds the
    /// ends of texts by their quotes. NUL, which a shell cannot hold, is left out.
    #[must_use]
    pub fn line(&self) -> String {
        let fields = self.values.iter();
        let fields = fields.map(|(name, value)| format!("\"{name}\":\"{}\"", escaped(value)));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\0' => {}
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '"' | '\\' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            // Other control characters belong into no configuration; JSON does not allow them as they are.
            c if c.is_ascii_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_document_is_json_in_one_line(value in "[^\\x00-\\x08\\x0b-\\x1f\\x7f]*") {
            let line = Parameters::default().plain("a", &value).secret("b", "s").line();
            prop_assert!(!line.contains('\n'));
            let read: BTreeMap<String, String> = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read["a"], &value);
        }
    }

    #[test]
    fn secrets_are_known_and_not_printed() {
        let parameters = Parameters::default()
            .secret("token", "abcdef.0123456789abcdef")
            .hiding("inner-secret-value");
        let kept = parameters
            .secrets()
            .redact("abcdef.0123456789abcdef inner-secret-value");
        assert_eq!(kept, "[redacted] [redacted]");
        assert_eq!(format!("{parameters:?}"), "[\"token\"]");
    }
}
