//! Texts that end in files of a machine: registries, mirrors, proxies.
//!
//! Invariant: what is let through has no space, quote, backslash, percent sign or line end in it, so it
//! is itself in TOML and in a unit of systemd.

use crate::text;

/// The host of a registry, with its port where it has one.
pub(crate) fn registry_host(registry: &str) -> Result<(), String> {
    text::registry(registry)?;
    match registry.contains('/') {
        true => Err(format!(
            "\"{registry}\" is more than a registry's host: leave out everything from the / on"
        )),
        false => Ok(()),
    }
}

/// A mirror, as a URL; whether it has a path.
pub(crate) fn endpoint(url: &str) -> Result<bool, String> {
    let (_, path) = parts(url)?;
    Ok(!path.is_empty() && path != "/")
}

/// A proxy, as a URL without a path.
pub(crate) fn proxy(url: &str) -> Result<(), String> {
    match parts(url)? {
        (_, "" | "/") => Ok(()),
        _ => Err(format!(
            "\"{url}\" has a path: leave it out, as in http://proxy.example.com:3128"
        )),
    }
}

/// What is asked without the proxy: a name, an address or a range of them.
pub(crate) fn no_proxy(entry: &str) -> Result<(), String> {
    if entry.parse::<ipnet::IpNet>().is_ok() {
        return Ok(());
    }
    let host = entry.strip_prefix('.').unwrap_or(entry);
    text::host(host, None).map_err(|message| format!("{message}; or write a range, as 10.0.0.0/8"))
}

/// Host with port, and path, of a URL.
fn parts(url: &str) -> Result<(&str, &str), String> {
    // A password may stand there, so the URL is not said again.
    if url.contains('@') {
        return Err(
            "a user or password cannot be given here, where everybody may read it: leave it out"
                .to_owned(),
        );
    }
    let refuse = |hint: &str| Err(format!("\"{url}\" is not a URL: {hint}"));
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return refuse("begin with https:// or http://");
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    if port.is_some_and(|port| port.starts_with('+') || port.parse::<u16>().is_err()) {
        return refuse("what follows the host's colon is not a port");
    }
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let known = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => text::host(name, None).is_ok() && !name.contains(':'),
    };
    if !known {
        return refuse("after the scheme comes a host name or an address");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.' | b'~');
    if !path.bytes().all(plain) || path.split('/').any(|part| part == "..") {
        return refuse("its path may have letters, digits, -, _, . and ~ between slashes");
    }
    Ok((host, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_break_out_of_a_file_is_no_url() {
        for (url, below) in [
            ("https://mirror.example.com", false),
            ("http://[2001:db8::1]:5000/", false),
            ("https://mirror.example.com:8443/v2/proxy", true),
        ] {
            assert_eq!(endpoint(url), Ok(below));
        }
        for bad in [
            "mirror.example.com",
            "ftp://mirror.example.com",
            "https://",
            "https://a b.example",
            "https://m.example/\"x",
            "https://m.example/%0a",
            "https://m.example/a/../b",
            "https://m.example:+1",
            "https://2001:db8::1",
            "https://m.example\n[x]",
            "https://me:secret@m.example",
        ] {
            let message = endpoint(bad).unwrap_err();
            assert!(!message.contains("secret"), "{message}");
        }
        assert!(proxy("http://p.example:3128").is_ok() && proxy("http://p.example/x").is_err());
        for fine in ["10.0.0.0/8", ".example.com", "example.com", "192.0.2.1"] {
            assert_eq!(no_proxy(fine), Ok(()));
        }
        assert!(no_proxy("a,b").is_err() && no_proxy("*").is_err());
    }
}
