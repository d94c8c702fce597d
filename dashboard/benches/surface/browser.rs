//! The dashboard in a real browser; `measure.mjs` beside the tests in a browser is what happens there.
//!
//! Invariant: where there is no browser it says `SKIPPED`, and no figure is there.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::figure::with;
use crate::pages::{LIST, Pages};
use crate::world::{TEAM, World, name};

const GOAL_PAINT_MS: f64 = 1000.0;
const GOAL_INTERACTIVE_MS: f64 = 1500.0;
/// Until a change is seen, with so many tenant clusters and with more.
const GOALS_CHANGE_MS: [(usize, f64); 2] = [(100, 500.0), (usize::MAX, 1000.0)];
/// Of the first page those that are changed in turn.
const CHANGED: std::ops::Range<usize> = 1..90;

#[derive(Deserialize)]
struct Told {
    paint: Vec<f64>,
    interactive: Vec<f64>,
    change: Vec<f64>,
}

/// Looks at the list with so many tenant clusters, and adds what that took. Gives whether there is a browser.
pub(crate) async fn look(
    pages: &Pages<'_>,
    world: &World,
    clusters: usize,
    into: &mut Value,
) -> Result<bool> {
    let browser = match browser() {
        Ok(browser) => browser,
        Err(why) => {
            eprintln!("SKIPPED what is seen in a browser (page.*): {why}");
            return Ok(false);
        }
    };
    eprintln!("a browser looks at {clusters} tenant clusters");
    let tokens = world.people(&format!("browser-{clusters}"), 2).await?;
    let [reader, writer] = tokens.as_slice() else {
        anyhow::bail!("invariant: two were asked for");
    };
    let names: Vec<_> = CHANGED
        .filter(|number| *number < clusters)
        .map(name)
        .collect();
    let play = Command::new("node")
        .arg(folder().join("measure.mjs"))
        .current_dir(folder())
        .env("ADDRESS", &pages.address)
        .env("BROWSER", browser)
        .env("LIST", LIST)
        .env("READER", reader)
        .env("API", world.api.url())
        .env("CA", world.api.ca())
        .env("WRITER", writer)
        .env("NAMESPACE", TEAM)
        .env("NAMES", names.join(","))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let played = play.await.context("node cannot be run")?;
    ensure!(
        played.status.success(),
        "what was played went wrong: {}",
        String::from_utf8_lossy(&played.stderr)
    );
    let told: Told = serde_json::from_slice(&played.stdout).context("what was seen")?;
    let goal = GOALS_CHANGE_MS.iter().find(|(most, _)| clusters <= *most);
    let goal = goal.map_or(0.0, |(_, goal)| *goal);
    into[format!("with_{clusters}")] = json!({
        "first_contentful_paint_ms": with(&told.paint, GOAL_PAINT_MS),
        "interactive_ms": with(&told.interactive, GOAL_INTERACTIVE_MS),
        "change_to_dom_ms": with(&told.change, goal),
    });
    Ok(true)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// The browser, or why there is none.
fn browser() -> Result<PathBuf, String> {
    let browser = Path::new("/usr/bin/chromium");
    if !browser.exists() {
        return Err("there is no /usr/bin/chromium: apt-get install chromium".to_owned());
    }
    if !folder().join("node_modules/playwright-core").exists() {
        return Err("npm ci in dashboard/tests/browser was not run".to_owned());
    }
    Ok(browser.to_owned())
}
