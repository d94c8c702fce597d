//! etcd is never bootstrapped twice, and once in spite of interruptions.

use std::fs;

use anyhow::Result;
use serde_json::Value;

use super::support::{Cluster, Site, gate, listing, new_cluster, running_cluster};

#[tokio::test]
async fn etcd_would_begin_an_empty_cluster_with_the_same_identifiers_and_the_gate_forbids_it()
-> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volume = site.volume("volume");
    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(0, "Start");
    let cluster = Cluster::new("token", 1)?;
    let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
    let ids = site.ids(&member)?;
    site.put(&member, "a", "b")?;
    assert_eq!(site.revision(&member)?, 2);
    member.kill();
    let identity = running_cluster(ids.0, &[ids.1]);

    // The claim was deleted and made anew; its volume is empty.
    let anew = site.volume("anew");
    for state in ["new", "existing"] {
        gate(&anew, "etcd-0", state, &identity).is(10, "VolumeLost");
    }
    assert!(listing(&anew).is_empty());
    // That is what it is for: etcd notices nothing, nor would anybody who asks it who it is.
    let member = site.start(&[&anew], &cluster, &[]).await?.remove(0);
    assert_eq!(site.ids(&member)?, ids);
    assert_eq!(site.revision(&member)?, 1);
    member.kill();

    // The claim is the same and what was on it is gone, although the operator never looked.
    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(0, "Start");
    let (data, away) = (volume.join("data"), volume.join(".away"));
    fs::rename(&data, &away)?;
    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(10, "VolumeLost");
    fs::create_dir(&data)?;
    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(10, "VolumeLost");
    fs::remove_dir(&data)?;
    fs::rename(&away, &data)?;
    gate(&volume, "etcd-0", "existing", &identity).is(0, "Start");
    let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
    assert_eq!(site.revision(&member)?, 2);
    Ok(())
}

/// A member that does not find the cluster it should join leaves what a first start leaves that is
/// killed before it has a log: a database alone.
#[tokio::test]
async fn a_first_start_that_was_broken_off_is_begun_again_and_no_other() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volume = site.volume("volume");
    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(0, "Start");
    let log = site
        .start_in_vain(&volume, &Cluster::new("token", 2)?)
        .await?;
    assert!(
        log.contains("cannot fetch cluster info from peer urls"),
        "{log}"
    );
    assert!(volume.join("data/member/snap/db").is_file());

    // Somebody who has run has lost the log.
    gate(&volume, "etcd-0", "existing", &running_cluster(100, &[10])).is(14, "Damaged");
    // Who is not known to have had the volume while it was empty, too.
    let (marker, away) = (volume.join("covey-etcd-member.json"), volume.join("away"));
    fs::rename(&marker, &away)?;
    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(14, "Damaged");
    fs::rename(&away, &marker)?;

    gate(&volume, "etcd-0", "new", &new_cluster(1)).is(0, "Start");
    let cluster = Cluster::new("token", 1)?;
    let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
    site.put(&member, "a", "b")?;
    let (cluster, id) = site.ids(&member)?;
    member.kill();
    gate(
        &volume,
        "etcd-0",
        "existing",
        &running_cluster(cluster, &[id]),
    )
    .is(0, "Start");
    Ok(())
}

#[tokio::test]
async fn a_member_that_comes_late_joins_and_is_then_held_to_its_data() -> Result<()> {
    let Some(site) = Site::new()? else {
        return Ok(());
    };
    let volumes = ["a", "b", "late"].map(|name| site.volume(name));
    let cluster = Cluster::new("late", 3)?;
    let two = [volumes[0].as_path(), &volumes[1]];
    let running = site.start(&two, &cluster, &[]).await?;
    let list = site.member_list(&running[0])?;
    let (id, _) = site.ids(&running[0])?;
    let ids: Vec<_> = (0..3)
        .map(|number| list[&format!("etcd-{number}")])
        .collect();

    // The operator has seen two.
    let mut identity = running_cluster(id, &ids);
    identity["members"][2]["mayStartEmpty"] = true.into();
    identity["members"][2]["memberID"] = Value::Null;
    let late = &volumes[2];
    for state in ["new", "existing"] {
        let answer = gate(late, "etcd-2", state, &identity);
        answer.is(0, "Start");
        assert!(answer.line.contains("joins"), "{answer:?}");
    }
    drop(running);
    let all = volumes.each_ref().map(|volume| volume.as_path());
    let members = site.start(&all, &cluster, &[]).await?;
    assert_eq!(site.ids(&members[2])?, (id, ids[2]));
    drop(members);
    let identity = running_cluster(id, &ids);
    gate(late, "etcd-2", "existing", &identity).is(0, "Start");
    let anew = site.volume("anew");
    gate(&anew, "etcd-2", "existing", &identity).is(10, "VolumeLost");
    Ok(())
}
