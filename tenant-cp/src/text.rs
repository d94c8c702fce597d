//! Names and addresses as text: what is allowed, and a hint when it is not.
//!
//! Invariant: nothing here trims or repairs; what is accepted is used as it is. Sources: RFC 1035,
//! RFC 1123, apimachinery `pkg/util/validation`.

use std::net::IpAddr;

pub(crate) mod image;
pub(crate) mod url;

/// A label of RFC 1123: 1 to 63 of a–z, 0–9 and `-`, no `-` at either end.
pub(crate) fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Labels joined by dots, at most 253 characters.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A DNS name that nobody takes for an address: the last label is not a number.
pub(crate) fn is_dns_name(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or(text);
    is_subdomain(text) && !last.bytes().all(|b| b.is_ascii_digit())
}

/// A name with an optional `prefix/`, as keys of labels and annotations are. Upper case is allowed
/// in the name.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    prefix.is_none_or(is_subdomain)
        && (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// A key of labels or annotations, or with a `/` at its end a prefix of such keys.
pub(crate) fn is_key_or_prefix(text: &str) -> bool {
    match text.strip_suffix('/') {
        Some(prefix) => is_subdomain(prefix),
        None => is_qualified_name(text),
    }
}

/// Whether Covey writes labels and annotations with this key itself.
pub(crate) fn is_ours(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let within = |domain: &str| {
        let rest = prefix.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    within(api::GROUP) || prefix == "app.kubernetes.io"
}

/// The value of a label: empty, or 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit
/// at both ends.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || (!text.contains('/') && is_qualified_name(text))
}

/// Why a DNS name is refused, as "… is not a DNS name: …".
pub(crate) fn dns_name(text: &str) -> Result<(), String> {
    if is_dns_name(text) {
        return Ok(());
    }
    Err(format!("\"{text}\" is not a DNS name: {}", dns_hint(text)))
}

/// Why neither an address nor a DNS name; `port` names the field that a port belongs to.
pub(crate) fn host(text: &str, port: Option<&str>) -> Result<(), String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return if address.is_unspecified() || address.is_multicast() {
            Err(format!(
                "{text} is not the address of one host: name an address that clients reach"
            ))
        } else {
            Ok(())
        };
    }
    if is_dns_name(text) {
        return Ok(());
    }
    let hint = if text.contains("://") {
        "leave out the scheme".to_owned()
    } else if text.starts_with('[') {
        "write an IPv6 address without brackets".to_owned()
    } else if text.contains('/') {
        "leave out everything from the / on".to_owned()
    } else if let Some(port) = port.filter(|_| text.contains(':')) {
        format!("put the port into {port}")
    } else {
        dns_hint(text)
    };
    Err(format!(
        "\"{text}\" is neither an IP address nor a DNS name: {hint}"
    ))
}

fn dns_hint(text: &str) -> String {
    let is_upper = text.bytes().any(|b| b.is_ascii_uppercase());
    let hint = if text.is_empty() {
        "it is empty; give a name or remove the field"
    } else if is_upper && is_dns_name(&text.to_ascii_lowercase()) {
        "use lower case"
    } else if text.strip_suffix('.').is_some_and(is_dns_name) {
        "leave out the dot at the end"
    } else if is_subdomain(text) {
        "the part after the last dot is a number"
    } else {
        "use lower-case letters, digits and -, in parts of at most 63 characters separated by dots"
    };
    hint.to_owned()
}

/// A registry with an optional path, without a slash at the end: what image references begin with
/// (distribution `reference/regexp.go`).
pub(crate) fn registry(text: &str) -> Result<(), String> {
    let refuse = |hint: &str| Err(format!("\"{text}\" is not a registry: {hint}"));
    if text.is_empty() {
        return refuse("it is empty; name one or remove the field");
    }
    if text.contains("://") {
        return refuse("leave out the scheme, as in mirror.example.com/k8s");
    }
    if text.contains('@') {
        return refuse("leave out user and digest, as in mirror.example.com/k8s");
    }
    let (authority, path) = match text.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (text, None),
    };
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (authority, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err() || port.starts_with('+')) {
        return refuse("what follows the first colon is not a port");
    }
    let bracketed = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let known = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_subdomain(&name.to_ascii_lowercase()),
    };
    if !known {
        return refuse("begin with the registry's host name or address");
    }
    if port.is_none() && bracketed.is_none() && !name.contains('.') && name != "localhost" {
        return refuse("begin with the registry's host, as in docker.io/mirror");
    }
    if path.is_some_and(|path| path.contains(':')) {
        return refuse("leave out the tag; Covey adds image names and tags");
    }
    if !path.is_none_or(|path| path.split('/').all(is_path_part)) {
        return refuse("parts of the path are of a-z, 0-9, and single . _ - in between");
    }
    Ok(())
}

fn is_path_part(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(word) && text.bytes().last().is_some_and(word);
    let known = text
        .bytes()
        .all(|b| word(b) || matches!(b, b'.' | b'_' | b'-'));
    ends && known
        && !["..", "._", "_.", ".-", "-.", "_-", "-_", "___"]
            .iter()
            .any(|x| text.contains(x))
}
