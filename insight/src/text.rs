//! Texts of others, made fit to be shown: one line, of bounded length, without control characters and secrets.
//!
//! Invariant: what comes out has none of the forms of secrets that [`redact`] knows, whatever went in. It is the
//! second net: the first is that nobody reads Secrets for a finding.

/// Most characters of a message.
pub const MOST: usize = 400;
/// What stands in a secret's place.
pub const REDACTED: &str = "[redacted]";

/// A message as it may be shown: one line of at most [`MOST`] characters, redacted.
#[must_use]
pub fn shown(text: &str) -> String {
    bounded(&one_line(&redact(text)), MOST)
}

/// The first `most` characters, and an ellipsis where there are more.
#[must_use]
pub fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// A list of names of which at most `most` are said: `a, b and 3 more`.
#[must_use]
pub fn names<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let all: Vec<_> = names.into_iter().collect();
    let said = all
        .iter()
        .take(most)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match all.len().saturating_sub(most) {
        0 => said,
        more => format!("{said} and {more} more"),
    }
}

/// Without line breaks, escape sequences and characters that turn the direction of writing: whoever writes a message
/// must not be able to write on somebody's terminal.
fn one_line(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let words = text.split(|c: char| c.is_whitespace() || hidden(c));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The text without private keys, JSON web tokens, bootstrap tokens, values of `Authorization` and of fields that are
/// called as secrets are, and passwords in URLs.
#[must_use]
pub fn redact(text: &str) -> String {
    words(&userinfo(&private_keys(text)))
}

fn private_keys(text: &str) -> String {
    let (mut rest, mut out) = (text, String::with_capacity(text.len()));
    while let Some(start) = rest.find("-----BEGIN ") {
        let body = &rest[start..];
        let line = body[11..].split("-----").next().unwrap_or_default();
        let end = body.find("-----END ");
        // Behind the label of the end; what is cut off before it is a key all the same.
        let end = end.and_then(|at| Some(at + 9 + body[at + 9..].find("-----")? + 5));
        let end = end.unwrap_or(body.len());
        out.push_str(&rest[..start]);
        match line.contains("PRIVATE KEY") {
            true => out.push_str(REDACTED),
            false => out.push_str(&body[..end]),
        }
        rest = &body[end..];
    }
    out.push_str(rest);
    out
}

/// `https://name:password@host` without name and password.
fn userinfo(text: &str) -> String {
    let (mut rest, mut out) = (text, String::with_capacity(text.len()));
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | ')');
        let authority = &tail[..tail.find(ends).unwrap_or(tail.len())];
        out.push_str(head);
        rest = match authority.rfind('@') {
            Some(end) => {
                out.push_str(REDACTED);
                &tail[end..]
            }
            None => tail,
        };
    }
    out.push_str(rest);
    out
}

/// Names of fields whose value is a secret, in lower case.
const FIELDS: &[&str] = &[
    "authorization",
    "token",
    "id-token",
    "access-token",
    "refresh-token",
    "client-key-data",
    "password",
    "passwd",
    "secret-access-key",
    "ssh-privatekey",
    "wrapping-key",
    "certificate-key",
];
/// What stands before a credential, in lower case.
const SCHEMES: &[&str] = &["bearer", "basic"];

fn words(text: &str) -> String {
    let is_word =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '+' | '/');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut expects = false;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let gap_end = after.find(is_word).unwrap_or(after.len());
        let (gap, next) = after.split_at(gap_end);
        let lower = word.to_ascii_lowercase().replace('_', "-");
        let is_scheme = SCHEMES.contains(&lower.as_str());
        let secret = !word.is_empty()
            && ((expects && !is_scheme) || is_jwt(word) || is_bootstrap_token(word));
        out.push_str(if secret { REDACTED } else { word });
        out.push_str(gap);
        let is_field = FIELDS
            .iter()
            .any(|field| lower.trim_start_matches('-') == *field);
        let assigned = gap
            .trim_start_matches(['"', '\'', '\\'])
            .trim_start()
            .starts_with([':', '=']);
        expects = (is_field && assigned)
            || (is_scheme && gap.trim().is_empty())
            || (word.is_empty() && expects);
        rest = next;
    }
    out
}

/// Three parts of base64 with dots between them, of which the first begins as `{"` does.
fn is_jwt(word: &str) -> bool {
    let Some(start) = word.find("eyJ") else {
        return false;
    };
    let mut parts = word[start..].split('.');
    let long = |part: Option<&str>| part.is_some_and(|part| part.len() >= 8);
    long(parts.next()) && long(parts.next()) && parts.next().is_some()
}

/// `abcdef.0123456789abcdef` (bootstrap-token-authentication).
fn is_bootstrap_token(word: &str) -> bool {
    let plain = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    let word = word.trim_end_matches('.');
    word.split_once('.').is_some_and(|(id, secret)| {
        id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_a_known_form_is_shown() {
        let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
        for (text, secret) in [
            (
                "x -----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY----- y",
                "MHcCAQEE",
            ),
            ("cut -----BEGIN PRIVATE KEY-----\nMHcCAQEE", "MHcCAQEE"),
            (&format!("said {jwt}, refused"), "c2lnbmF0dXJl"),
            ("token abcdef.0123456789abcdef is over", "0123456789abcdef"),
            ("Authorization: Bearer sesame/Open", "sesame"),
            ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
            ("{\"token\":\"sesame\"}", "sesame"),
            ("--token=sesame", "sesame"),
            ("client-key-data: c2VzYW1l", "c2VzYW1l"),
            ("password = 'sesame'", "sesame"),
            ("GET https://jane:sesame@registry.example.com/v2", "sesame"),
            ("https://a@b:sesame@c", "sesame"),
        ] {
            let shown = shown(text);
            assert!(!shown.contains(secret), "{shown}");
            assert!(shown.contains(REDACTED), "{shown}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "1 of 3 members are ready",
            "the bearer of bad news: nothing",
            "image registry.k8s.io/kube-apiserver:v1.35.4: not found (https://registry.k8s.io/v2/)",
            "waits for 10.96.0.1:6443, see docs/etcd.md",
            "-----BEGIN CERTIFICATE----- AA -----END CERTIFICATE-----",
        ] {
            // "bearer of" names nobody's credential, but is not told apart from one; the rest is as it was.
            let expected = text.replace("bearer of", &format!("bearer {REDACTED}"));
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn nobody_writes_on_the_terminal_of_the_reader() {
        assert_eq!(shown("a\x1b[31mb\r\nc\u{202e}d"), "a [31mb c d");
        let long = shown(&"ä".repeat(5000));
        assert_eq!(long.chars().count(), MOST + 1);
    }

    #[test]
    fn of_many_names_few_are_said() {
        assert_eq!(names(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(names(["a"], 2), "a");
    }
}
