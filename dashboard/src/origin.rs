//! Whether a request that changes something comes from a page of ours.
//!
//! Invariant: pure. A browser that says nothing of where a request comes from changes nothing; what a form says besides
//! (its token) is compared where the session is known.

use http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};

/// Whether a request comes from a page of this host, by what browsers say and pages cannot (Fetch Metadata, or the
/// `Origin` header of RFC 6454 in browsers that have none). `host` is that of the request's address, where it has one.
#[must_use]
pub fn is_ours(headers: &HeaderMap, host: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let host = host.or_else(|| headers.get(HOST).and_then(text));
    let origin = headers.get(ORIGIN).and_then(text);
    match (origin.and_then(|o| o.strip_prefix("https://")), host) {
        (Some(origin), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// Whether somebody came by a link on another site: a cookie of `SameSite=Strict` is not sent with that, and is with
/// the next request.
#[must_use]
pub fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    headers
        .get("sec-fetch-site")
        .is_some_and(|site| site == "cross-site" || site == "same-site")
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn only_pages_of_this_host_change_something() {
        let ours = "covey.example.com";
        for (pairs, is) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "none")], false),
            // Fetch metadata decides where there is any.
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "https://covey.example.com"),
                ],
                false,
            ),
            (&[("origin", "https://covey.example.com")], true),
            (&[("origin", "https://evil.example.com")], false),
            (&[("origin", "http://covey.example.com")], false),
            (&[("origin", "null")], false),
            (&[], false),
        ] {
            assert_eq!(is_ours(&headers(pairs), Some(ours)), is, "{pairs:?}");
        }
        let by_host = [
            ("host", "a.example:8443"),
            ("origin", "https://a.example:8443"),
        ];
        assert!(is_ours(&headers(&by_host), None));
        assert!(is_from_elsewhere(&headers(&[(
            "sec-fetch-site",
            "cross-site"
        )])));
        assert!(!is_from_elsewhere(&headers(&[])));
    }
}
