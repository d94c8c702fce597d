//! A volume that was set back: what etcd makes of it, and the gate.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::support::{Cluster, Site, gate, listing, running_cluster};

/// A copy of a volume, as a snapshot of it is.
fn copy(volume: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .args(["--archive", "--sparse=always", "--no-target-directory"])
        .args([volume, to])
        .status()?;
    ensure!(status.success(), "cp: {status}");
    Ok(())
}

#[tokio::test]
async fn etcd_would_serve_what_it_had_long_ago_and_the_gate_forbids_it() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volume = site.volume("volume");
    let cluster = Cluster::new("token", 1)?;
    let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
    let (id, member_id) = site.ids(&member)?;
    site.put(&member, "a", "old")?;
    let old = (site.revision(&member)?, site.applied(&member)?);
    member.kill();
    let snapshot = site.volume("snapshot");
    copy(&volume, &snapshot)?;

    let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
    for write in 0..20 {
        site.put(&member, "a", &write.to_string())?;
    }
    let applied = site.applied(&member)?;
    ensure!(applied >= old.1 + 20, "{applied} after {old:?}");
    // Not in order: all that it said is on its volume all the same.
    member.kill();
    let mut identity = running_cluster(id, &[member_id]);
    let noted = |index: u64| {
        let mut identity = identity.clone();
        identity["members"][0]["lastIndex"] = index.into();
        identity
    };
    let (now, before) = (noted(applied), noted(old.1));
    gate(&volume, "etcd-0", "existing", &now).is(0, "Start");
    gate(&snapshot, "etcd-0", "existing", &before).is(0, "Start");
    let untouched = listing(&snapshot);
    let answer = gate(&snapshot, "etcd-0", "existing", &now);
    answer.is(18, "OutdatedData");
    ensure!(answer.line.contains(&applied.to_string()), "{answer:?}");
    ensure!(listing(&snapshot) == untouched, "it was changed");
    // The operator has noted nothing, or people accept it.
    identity["members"][0]["lastIndex"] = serde_json::Value::Null;
    gate(&snapshot, "etcd-0", "existing", &identity).is(0, "Start");

    // That is what it is for: etcd notices nothing.
    let member = site.start(&[&snapshot], &cluster, &[]).await?.remove(0);
    assert_eq!(site.ids(&member)?, (id, member_id));
    assert_eq!(site.revision(&member)?, old.0);
    Ok(())
}
