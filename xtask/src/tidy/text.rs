//! A text of the repository, and words in texts.
//!
//! Invariant: a word is found as a whole, never as a part of another.

/// One text of the repository.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// From the top of the repository, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// Whether `text` holds `word` as a whole: not as a part of a longer identifier.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}
