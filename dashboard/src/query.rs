//! What stands in a request: pairs of names and values, of a query or of a form.
//!
//! Invariant: pure. Pairs are bounded in number and length; of two of a name the first counts.

/// Most pairs that are read.
const MOST_PAIRS: usize = 64;
/// Most bytes of a value.
const MOST_BYTES: usize = 256 << 10;

/// Pairs of a query or a form (`application/x-www-form-urlencoded`).
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Pairs(Vec<(String, String)>);

impl std::fmt::Debug for Pairs {
    /// Names alone: a value may be a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl Pairs {
    /// Reads them.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(bytes).take(MOST_PAIRS);
        let pairs = pairs.filter(|(_, value)| value.len() <= MOST_BYTES);
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The value of a name, as it was sent; none of what was not.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a name without space around it; empty of what was not sent.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default().trim()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Pairs {
    fn from(pairs: [(&str, &str); N]) -> Self {
        let owned = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(owned.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_name_counts_and_what_is_too_much_is_left_out() {
        let pairs = Pairs::read(b"a=1&a=2&b=+x%26y+&c");
        assert_eq!((pairs.get("a"), pairs.text("b")), (Some("1"), "x&y"));
        assert_eq!((pairs.get("c"), pairs.get("d")), (Some(""), None));
        let many = "x=1&".repeat(100) + "y=2";
        assert_eq!(Pairs::read(many.as_bytes()).get("y"), None);
        let long = format!("a={}", "x".repeat(MOST_BYTES + 1));
        assert_eq!(Pairs::read(long.as_bytes()).get("a"), None);
        assert_eq!(
            format!("{:?}", Pairs::from([("token", "sesame")])),
            r#"["token"]"#
        );
    }
}
