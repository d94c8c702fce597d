//! What the other side said, as it may stand in a message.
//!
//! Invariant: no control character, with which a terminal could be played with, and a bounded length.

/// Bytes of a message that quotes a machine.
pub const TAIL: usize = 1024;

/// Without control characters.
pub(super) fn printable(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(clean).collect()
}

/// The last `most` bytes, from the start of a character.
pub(super) fn last(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
