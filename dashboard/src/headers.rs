//! What every answer says to browsers: nothing but what is ours is run, shown, sent to or framed.
//!
//! Invariant: no answer is without them. There is no inline script or style in any page, and no policy of Trusted Types:
//! the script never makes markup of text.

use http::HeaderMap;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

/// The policy of every page.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const SAME: HeaderValue = HeaderValue::from_static("same-origin");

/// Adds them. What says of itself how long it may be kept stays as it is; everything else is kept nowhere.
pub fn add(headers: &mut HeaderMap) {
    let fixed = [
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-opener-policy"), SAME),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            SAME,
        ),
        (
            HeaderName::from_static("permissions-policy"),
            HeaderValue::from_static("camera=(), geolocation=(), microphone=()"),
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, value);
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_inline_and_nothing_of_others_is_allowed() {
        let mut headers = HeaderMap::new();
        add(&mut headers);
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        for never in ["unsafe", "*", "http:", "data:", "nonce"] {
            assert!(!policy.contains(never), "{policy}");
        }
        assert!(policy.starts_with("default-src 'none'"));
        assert_eq!(headers[CACHE_CONTROL], "no-store");
        let mut kept = HeaderMap::new();
        kept.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=1"));
        add(&mut kept);
        assert_eq!(kept[CACHE_CONTROL], "max-age=1");
    }
}
