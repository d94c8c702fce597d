//! What a script answers: one flat JSON object of texts.
//!
//! Invariant: an answer has at most [`MOST_FIELDS`] fields; whatever reads a number from it says what it takes when
//! there is none. Nothing a machine says is believed beyond these bounds.

use std::collections::BTreeMap;

/// Fields of an answer.
pub const MOST_FIELDS: usize = 64;

/// Fields by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer(BTreeMap<String, String>);

impl Answer {
    /// Reads one line, whose length the caller has bounded.
    ///
    /// # Errors
    /// In words, when it is something else.
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        let fields: BTreeMap<String, String> =
            serde_json::from_str(line).map_err(|_| "it is no flat JSON object of texts")?;
        if fields.len() > MOST_FIELDS {
            return Err("it has too many fields");
        }
        Ok(Self(fields))
    }

    /// A field; empty when there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A field for people: at most 512 bytes, without control characters.
    #[must_use]
    pub fn words(&self, name: &str) -> String {
        let text: String = self.get(name).chars().filter(|c| !c.is_control()).collect();
        let mut end = text.len().min(512);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text[..end].to_owned()
    }

    /// A number, if it is one.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }

    /// Whether a field says `true`.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.get(name) == "true"
    }

    /// Words of a field that are separated by spaces.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).split_ascii_whitespace()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Answer {
    fn from(fields: [(&str, &str); N]) -> Self {
        let owned = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(owned.into_iter().collect())
    }
}
