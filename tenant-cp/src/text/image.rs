//! References to images: what is allowed, and a hint when it is not.
//!
//! Invariant: what is accepted is a reference of the distribution project (`reference/regexp.go`):
//! `[registry/]path[:tag][@digest]`.

use crate::text::{is_path_part, registry};

const EXAMPLE: &str = "registry.example.com/worker:v1.35.4";

/// Why a text is not a reference to an image.
pub(crate) fn image(text: &str) -> Result<(), String> {
    let refuse = |hint: &str| Err(format!("\"{text}\" is not an image: {hint}"));
    if text.is_empty() {
        return refuse("it is empty; name one or remove the field");
    }
    if text.contains(char::is_whitespace) {
        return refuse("leave out the spaces");
    }
    if text.contains("://") {
        return refuse(&format!("leave out the scheme, as in {EXAMPLE}"));
    }
    let (rest, digest) = split(text, '@');
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return refuse("what follows @ is no digest; it is sha256: and 64 hexadecimal digits");
    }
    let slash = rest.rfind('/').map_or(0, |at| at + 1);
    let (last, tag) = split(&rest[slash..], ':');
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return refuse("what follows the last : is no tag; letters, digits, _, - and . are");
    }
    let name = &rest[..slash + last.len()];
    let (host, path) = match name.split_once('/') {
        Some((first, path)) if is_registry(first) => (Some(first), path),
        _ => (None, name),
    };
    if host.is_some_and(|host| registry(host).is_err()) {
        return refuse(&format!("begin with the registry's host, as in {EXAMPLE}"));
    }
    if path.is_empty() || !path.split('/').all(is_path_part) {
        let lower = path.to_ascii_lowercase();
        return match lower != path && lower.split('/').all(is_path_part) {
            true => refuse("use lower case"),
            false => refuse(&format!("write registry/path:tag, as in {EXAMPLE}")),
        };
    }
    Ok(())
}

/// What a reference names, without tag and digest and with the registry that a runtime adds.
pub(crate) fn repository(text: &str) -> String {
    let (rest, _) = split(text, '@');
    let slash = rest.rfind('/').map_or(0, |at| at + 1);
    let (last, _) = split(&rest[slash..], ':');
    let name = &rest[..slash + last.len()];
    match name.split_once('/') {
        Some((first, _)) if is_registry(first) => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    }
}

/// Whether a reference says which build of the image is meant.
pub(crate) fn is_pinned(text: &str) -> bool {
    let last = text.rsplit('/').next().unwrap_or(text);
    last.contains(':') || last.contains('@')
}

/// Docker's rule: the first part is a registry when it cannot be a part of a path.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| word(b) || matches!(b, b'-' | b'.'))
        && text.bytes().next().is_some_and(word)
}

fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:");
    hex.is_some_and(|hex| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_that_a_runtime_takes_are_taken() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for text in [
            "worker",
            "worker:v1.35.4",
            "library/worker:v1",
            "ghcr.io/covey-dev/worker:v1.35.4",
            "registry.example.com:5000/a/b__c/d-e.f:Tag_1",
            "localhost/worker",
            "10.0.0.1:5000/worker",
        ] {
            assert_eq!(image(text), Ok(()), "{text}");
            assert_eq!(image(&format!("{text}@{digest}")), Ok(()), "{text}");
        }
        assert!(is_pinned("a.example.com:5000/worker:v1") && is_pinned("worker@sha256:00"));
        assert!(!is_pinned("a.example.com:5000/worker"));
    }

    #[test]
    fn repository_is_told_with_the_registry_that_a_runtime_adds() {
        for (text, wanted) in [
            ("worker:v1", "docker.io/library/worker"),
            ("ghcr.io:5000", "docker.io/library/ghcr.io"),
            ("team/worker", "docker.io/team/worker"),
            ("a.example:5000/x/y:v1@sha256:00", "a.example:5000/x/y"),
            ("localhost/x", "localhost/x"),
        ] {
            assert_eq!(repository(text), wanted);
        }
    }

    #[test]
    fn others_are_refused_with_a_hint() {
        for (text, hint) in [
            ("", "it is empty"),
            ("my image", "leave out the spaces"),
            ("https://example.com/worker:v1", "leave out the scheme"),
            ("example.com/Worker:v1", "use lower case"),
            ("example.com/worker:", "no tag"),
            ("example.com/worker:a b", "leave out the spaces"),
            ("example.com/worker@sha256:12", "no digest"),
            ("example.com/worker:{version}", "no tag"),
            ("example.com:99999/worker", "begin with the registry's host"),
            ("example.com//worker", "write registry/path:tag"),
            ("/worker", "write registry/path:tag"),
            ("example.com/", "write registry/path:tag"),
        ] {
            let said = image(text).unwrap_err();
            assert!(said.contains(hint), "{said}");
        }
    }
}
