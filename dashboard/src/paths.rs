//! Addresses of pages, and the names that stand in them.
//!
//! Invariant: pure. A name that could lead a request elsewhere than to its object (`..`, `/`, `?`) is no name, and
//! whoever is sent on after log-in stays here.

use std::fmt::Write as _;

/// Whether it is a name of Kubernetes (RFC 1123 subdomain), which is fit to stand in a path.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A text as one segment of a path, or as a value of a query.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The page of a kind's object: `/pools/team-a/demo-workers`.
#[must_use]
pub fn object(kind: &str, namespace: &str, name: &str) -> String {
    format!("/{kind}/{}/{}", escaped(namespace), escaped(name))
}

/// The same, and below it something that is done to it: `/pools/team-a/demo-workers/delete`.
#[must_use]
pub fn act(kind: &str, namespace: &str, name: &str, act: &str) -> String {
    format!("{}/{act}", object(kind, namespace, name))
}

/// A list in a namespace, or in all.
#[must_use]
pub fn list(path: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{path}?ns={}", escaped(namespace)),
        None => path.to_owned(),
    }
}

/// Where somebody goes after log-in: the page that was asked for, if it is one of ours, else the first one.
#[must_use]
pub fn next(asked: &str) -> &str {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/?=&%,".contains(&b);
    let is_here = asked.starts_with('/')
        && !asked.starts_with("//")
        && asked.len() <= 1024
        && asked.bytes().all(is_plain);
    match is_here {
        true => asked,
        false => "/",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for name in ["demo", "a-1", "example.com", "0a"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "", ".", "..", "a/b", "a..b", "-a", "a-", "A", "a?b", "a%2fb", "ä", "a b", "a.", "<b>",
        ] {
            assert!(!is_name(name), "{name}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }

    #[test]
    fn whatever_stands_in_an_address_is_escaped() {
        assert_eq!(escaped("a b/<?>&\"'"), "a%20b%2F%3C%3F%3E%26%22%27");
        let page = act("pools", "team-a", "x/../y", "delete");
        assert_eq!(page, "/pools/team-a/x%2F..%2Fy/delete");
        assert_eq!(list("/machines", Some("team-a")), "/machines?ns=team-a");
    }

    #[test]
    fn nobody_is_sent_to_another_site() {
        assert_eq!(next("/clusters/a/b?x=1"), "/clusters/a/b?x=1");
        for evil in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "",
            "/a\nb",
            "/a b",
            "/a:b",
        ] {
            assert_eq!(next(evil), "/", "{evil}");
        }
    }
}
