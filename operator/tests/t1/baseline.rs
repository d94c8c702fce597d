//! What a tenant cluster is like that was made, and then changed, without faults.
//!
//! Every test of `faults` compares with it. Where each test is a process of its own, the first one
//! leaves it in the folder that `COVEY_TEST_SERVERS` names for the servers of a run, and the others
//! wait for that and read it. Invariant: whoever reads it runs the same program as who made it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::support::state::State;
use crate::support::{Operator, Site};

/// The state after the creation, and that after [`change`].
pub(crate) type Baseline = (State, State);

/// It; none, loudly, when the programs are missing.
pub(crate) async fn baseline() -> Result<Option<&'static Baseline>> {
    static BASELINE: OnceCell<Option<Baseline>> = OnceCell::const_new();
    let found = match std::env::var_os("COVEY_TEST_SERVERS") {
        Some(folder) => BASELINE.get_or_try_init(|| kept(folder.into())).await,
        None => BASELINE.get_or_try_init(make).await,
    };
    Ok(found?.as_ref())
}

/// The change that is part of it.
pub(crate) async fn change(site: &Site) -> Result<()> {
    site.change(
        "demo",
        &json!({ "spec": { "controlPlane": { "replicas": 3 } } }),
    )
    .await?;
    site.wait_ready("demo").await.map(drop)
}

async fn make() -> Result<Option<Baseline>> {
    let Some(site) = Site::new("faultless").await? else {
        return Ok(None);
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let created = site.state("demo").await?;
    change(&site).await?;
    operator.settle(&site, "demo").await?;
    Ok(Some((created, site.state("demo").await?)))
}

/// What another test of this program left there; where none did, it is made and left there.
async fn kept(folder: PathBuf) -> Result<Option<Baseline>> {
    let file = folder.join(format!("operator-baseline-{}.json", this_program()?));
    let lock = File::create(file.with_extension("lock"));
    let lock = lock.with_context(|| format!("cannot write in {}", folder.display()))?;
    // Given up with the process at the latest.
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    if let Ok(text) = fs::read_to_string(&file) {
        let kept = serde_json::from_str(&text);
        return kept.with_context(|| format!("understand {}", file.display()));
    }
    let made = make().await?;
    if made.is_some() {
        // Whole or not at all, whenever this process is killed.
        let half = file.with_extension("half");
        fs::write(&half, serde_json::to_vec(&made)?)?;
        fs::rename(&half, &file)?;
    }
    drop(lock);
    Ok(made)
}

/// Another one after each build.
fn this_program() -> Result<String> {
    let about = fs::metadata(std::env::current_exe()?)?;
    let built = about.modified()?.duration_since(UNIX_EPOCH)?;
    Ok(format!("{}-{}", built.as_nanos(), about.len()))
}
