//! Names and messages of others, wherever they are shown.
//!
//! Invariant: what others wrote is a text on every page, and a secret in it is on none.

use super::PAGES;
use super::fake::{Browser, Fake};

const MARKUP: &str = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}&lt;b&gt;";
const SECRETS: &str = "said Authorization: Bearer sesame-canary, token=sesame-canary, https://jane:sesame-canary@host/ \
eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzZXNhbWUtY2FuYXJ5In0.sesamecanary \u{1b}[31m\u{202e}turned";

#[tokio::test]
async fn what_others_wrote_is_never_markup() {
    let fake = Fake {
        hostile: Some(MARKUP),
        ..Fake::default()
    };
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    let mut shown = 0;
    for page in PAGES {
        let text = browser.get(page).await.text;
        for never in ["<img", "<script>", "onerror=alert(1)>", "<b>", "\"'>"] {
            assert!(!text.contains(never), "{page} has {never}");
        }
        shown += text.matches("&lt;img src=x onerror=alert(1)&gt;").count();
    }
    // Or else it would be a test of nothing.
    assert!(shown > 40, "{shown}");
    for path in [
        "/clusters?q=%3Cimg%20src%3Dx%3E",
        "/clusters?ns=%3Cimg%20src%3Dx%3E",
        "/login?next=%22%3E%3Cimg%20src%3Dx%3E",
        "/new?ns=%22%3E%3Cimg%20src%3Dx%3E",
        "/clusters/team-a/%3Cimg%20src%3Dx%3E",
    ] {
        assert!(!browser.get(path).await.text.contains("<img"), "{path}");
    }
    let form = [
        ("name", "\"><img src=x>"),
        ("namespace", "<img src=x>"),
        ("version", "'><img>"),
    ];
    assert!(!browser.post("/new", &form).await.text.contains("<img"));
}

#[tokio::test]
async fn what_looks_like_a_secret_and_what_turns_text_is_on_no_page() {
    let fake = Fake {
        hostile: Some(SECRETS),
        ..Fake::default()
    };
    let mut browser = Browser::new(&fake, false);
    browser.log_in("jane").await;
    let mut shown = 0;
    for page in PAGES {
        let text = browser.get(page).await.text;
        for never in ["sesame", "\u{1b}", "\u{202e}"] {
            assert!(!text.contains(never), "{page} has {never:?}");
        }
        shown += text.matches("[redacted]").count();
    }
    assert!(shown > 40, "{shown}");
}

#[test]
fn no_source_writes_markup_that_is_not_escaped() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![folder];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let name = ["Pre", "Escaped"].concat();
            assert!(!text.contains(&name), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 30, "{files}");
}
