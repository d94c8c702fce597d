//! The token that lets a client in.
//!
//! Invariant: nothing prints it: its `Debug` says nothing, it has no `Display`, and the header that carries it is
//! marked as one that is not to be shown.

use std::fmt;

use http::HeaderValue;

/// A token of an API. Nothing is asked of one but that it can be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// From what a Secret holds; white space around it is left out, since `echo` puts some there. None where it is
    /// empty or cannot be sent.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let token = Self(text.trim().to_owned());
        (!token.0.is_empty() && token.header().is_some()).then_some(token)
    }

    /// As it is sent.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Takes it out of a text of somebody else's.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "[token]")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_not_printed() {
        let token = Token::read(" s3cret\n").unwrap();
        assert_eq!(format!("{token:?}"), "Token");
        assert!(!format!("{:?}", token.header()).contains("s3cret"));
        assert_eq!(token.redact("no s3cret here"), "no [token] here");
    }

    #[test]
    fn what_cannot_be_sent_is_no_token() {
        assert_eq!(Token::read(""), None);
        assert_eq!(Token::read(" \n"), None);
        assert_eq!(Token::read("a\nb"), None);
    }
}
