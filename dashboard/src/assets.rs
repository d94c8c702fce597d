//! Style, script and picture: served from the binary, under addresses that change with their bytes.
//!
//! Invariant: there is nothing else, and nothing of others; the script is smaller than 10 kB.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use crate::random;

/// A file.
#[derive(Debug)]
pub struct Asset {
    bytes: &'static str,
    kind: &'static str,
    path: String,
}

impl Asset {
    fn new(name: &str, extension: &str, kind: &'static str, bytes: &'static str) -> Self {
        let digest = random::of(bytes);
        let digest: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let path = format!("/assets/{name}-{digest}.{extension}");
        Self { bytes, kind, path }
    }

    /// Its address.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The style of all pages.
pub static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_str!("../assets/style.css");
    Asset::new("style", "css", "text/css; charset=utf-8", bytes)
});
/// The script of all pages.
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_str!("../assets/script.js");
    Asset::new("script", "js", "text/javascript; charset=utf-8", bytes)
});
/// The picture in a browser's tab.
pub static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_str!("../assets/icon.svg");
    Asset::new("icon", "svg", "image/svg+xml", bytes)
});

/// The file at an address.
#[must_use]
pub fn find(path: &str) -> Option<Response> {
    let all: [&Asset; 3] = [&STYLE, &SCRIPT, &ICON];
    let found = all.into_iter().find(|asset| asset.path == path)?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(found.kind)),
        (
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=31536000, immutable"),
        ),
    ];
    Some((StatusCode::OK, headers, found.bytes).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_small_and_makes_no_markup_of_text() {
        let script = include_str!("../assets/script.js");
        assert!(script.len() < 10_000, "{} bytes", script.len());
        for never in [
            "innerHTML",
            "outerHTML =",
            "insertAdjacentHTML",
            "eval(",
            "Function(",
            "document.write",
            "http://",
            "https://",
        ] {
            assert!(!script.contains(never), "{never}");
        }
        let style = include_str!("../assets/style.css");
        for never in ["http://", "https://", "@import", "url("] {
            assert!(!style.contains(never), "{never}");
        }
    }

    #[test]
    fn files_are_found_at_their_addresses_alone() {
        assert!(STYLE.path().starts_with("/assets/style-"));
        for asset in [&*STYLE, &*SCRIPT, &*ICON] {
            let answer = find(asset.path()).unwrap();
            assert!(
                answer.headers()[CACHE_CONTROL]
                    .to_str()
                    .unwrap()
                    .ends_with("immutable")
            );
        }
        assert!(find("/assets/../Cargo.toml").is_none());
        assert!(find("/assets/style.css").is_none());
    }
}
