//! Golden starts, with the real etcd and kube-apiserver: what is in a tenant cluster that began so is what is in one that
//! began empty, and nothing that tells tenant clusters apart is shared.

mod planes;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, bail};
use serde_json::json;
use testkit::programs::Programs;
use testkit::waiting::{PATIENCE, ask_until};

use self::planes::{Plane, Scene, Source, list, print_line, say};
use super::support::{Cluster, listing, marker, new_cluster};

/// So many of one start are measured; more with this variable.
const ROUNDS: &str = "COVEY_GOLDEN_ROUNDS";

#[tokio::test]
async fn what_began_with_a_golden_file_has_what_a_cold_start_has_and_shares_no_identity()
-> Result<()> {
    let Some(scene) = Scene::new().await? else {
        return Ok(());
    };
    let cold = scene.plane("cold", false).await?;
    cold.answer.is(0, "Start");
    let golden = scene.plane("golden", true).await?;
    golden.answer.is(0, "GoldenStart");
    let said = format!("GoldenStart: {}: etcd-0", scene.source.name);
    assert!(golden.answer.line.starts_with(&said), "{:?}", golden.answer);
    let other = scene.plane("other", true).await?;
    other.answer.is(0, "GoldenStart");

    // What was there before the operator wrote anything is what it would write.
    let rights = ("rbac.authorization.k8s.io/v1", "clusterrolebindings");
    let before = list(&golden.server.client, rights).await?;
    for plane in [&cold, &golden, &other] {
        plane.bootstrapped().await?;
    }
    let after = list(&golden.server.client, rights).await?;
    assert_eq!(before, after, "the operator's objects were written anew");

    for plane in [&golden, &other] {
        alike(&scene, &cold, plane).await?;
    }

    let mut clusters = BTreeSet::new();
    let mut uids = BTreeSet::new();
    for plane in [&cold, &golden, &other] {
        clusters.insert(scene.source.site.ids(&plane.member)?.0);
        uids.insert(plane.uid(("v1", "namespaces"), "/kube-system").await?);
        uids.insert(plane.uid(("v1", "services"), "default/kubernetes").await?);
    }
    assert_eq!(clusters.len(), 3, "{clusters:?}");
    assert_eq!(uids.len(), 6, "{uids:?}");
    say(&[&cold, &golden, &other]);
    drop(other);

    // And what an upgrade makes of both is the same.
    let Some(next) = Programs::of_minor_or_skip(36)? else {
        return Ok(());
    };
    let (mut cold, mut golden) = (cold, golden);
    for plane in [&mut cold, &mut golden] {
        // It is ready once it has brought its own.
        scene.upgrade(plane, &next).await?;
    }
    alike(&scene, &cold, &golden).await
}

/// Waits until both have the same objects, but for what no two have alike, and keys of the same names.
async fn alike(scene: &Scene, cold: &Plane, plane: &Plane) -> Result<()> {
    ask_until("both have the same", PATIENCE, || async {
        let (one, two) = (cold.baked().await?, plane.baked().await?);
        let keys = (
            cold.keys(&scene.source.site)?,
            plane.keys(&scene.source.site)?,
        );
        let mut names = one.keys().chain(two.keys());
        let differs = names.find(|key| one.get(*key) != two.get(*key));
        Ok(match differs {
            Some(key) => Err(format!("{key}: {:?} and {:?}", one.get(key), two.get(key))),
            None if keys.0 != keys.1 => Err(format!(
                "{:?}",
                keys.0.symmetric_difference(&keys.1).collect::<Vec<_>>()
            )),
            None if one.len() < 100 => bail!("there are {} only", one.len()),
            None => Ok(()),
        })
    })
    .await
}

/// Prints how long both take. Nothing is asserted of it.
#[tokio::test]
async fn golden_and_cold_starts_are_measured_in_turns() -> Result<()> {
    let Some(scene) = Scene::new().await? else {
        return Ok(());
    };
    let rounds = std::env::var(ROUNDS).ok();
    let rounds: u32 = rounds.map_or(Ok(1), |rounds| rounds.parse())?;
    for round in 0..rounds {
        for (name, is_golden) in [("cold", false), ("golden", true)] {
            let plane = scene.plane(&format!("{name}-{round}"), is_golden).await?;
            say(&[&plane]);
        }
    }
    let size = fs::metadata(scene.source.path())?.len();
    print_line(&format!("{{\"goldenFileBytes\": {size}}}"));
    Ok(())
}

#[tokio::test]
async fn golden_start_is_a_first_start_and_its_data_is_held_to_afterwards() -> Result<()> {
    let Some(source) = Source::bare().await? else {
        return Ok(());
    };
    let volume = source.site.volume("volume");
    let cluster = Cluster::new("held", 1)?;
    let told = source.told(&cluster);
    source.gate(&volume, &told).is(0, "GoldenStart");
    assert!(!volume.join("covey-golden").exists());
    let said = marker(&volume);
    assert!(said["data"]["clusterID"].is_string(), "{said}");

    // Again, before etcd ever ran: the data is its own, and nothing is made anew.
    let before = listing(&volume);
    source.gate(&volume, &told).is(0, "Start");
    assert_eq!(listing(&volume), before);
    let member = source
        .site
        .start(&[&volume], &cluster, &[])
        .await?
        .remove(0);
    let (id, own) = source.site.ids(&member)?;
    let ids = json!({ "clusterID": format!("{id:x}"), "memberID": format!("{own:x}") });
    assert_eq!(said["data"], ids);
    source.site.put(&member, "a", "b")?;
    member.kill();

    // As a cold start of the same member: its identifiers are computed of the same.
    let empty = source.site.volume("empty");
    source.gate(&empty, &new_cluster(1)).is(0, "Start");
    let member = source.site.start(&[&empty], &cluster, &[]).await?.remove(0);
    assert_eq!(source.site.ids(&member)?, (id, own));
    member.kill();

    // Lost, although the operator never looked: no second golden start.
    let away = volume.join(".away");
    fs::rename(volume.join("data"), &away)?;
    source.gate(&volume, &told).is(10, "VolumeLost");
    fs::rename(&away, volume.join("data"))?;
    source.gate(&volume, &told).is(0, "Start");
    Ok(())
}

#[tokio::test]
async fn golden_file_that_cannot_be_used_leaves_a_cold_start_and_nothing_else() -> Result<()> {
    let Some(source) = Source::bare().await? else {
        return Ok(());
    };
    let cluster = Cluster::new("bad", 1)?;
    let mut told = source.told(&cluster);
    // A byte of it is another one than it was.
    let mut content = fs::read(source.path())?;
    let at = content.len() / 2;
    content[at] ^= 1;
    fs::write(source.path(), &content)?;
    let volume = source.site.volume("flipped");
    let answer = source.gate(&volume, &told);
    answer.is(0, "Start");
    assert!(answer.line.contains("has SHA-256"), "{answer:?}");
    assert!(listing(&volume).is_empty());

    // And who configured it was wrong, too: etcdutl says it.
    told["golden"]["sha256"] = json!(backup_format::Digest::of(&content).to_string());
    let answer = source.gate(&volume, &told);
    answer.is(0, "Start");
    assert!(
        answer.line.contains("etcdutl could not restore"),
        "{answer:?}"
    );
    assert!(listing(&volume).is_empty());

    // Broken off in the middle, whatever is left of it: it is made anew, or is no data.
    let left = volume.join("covey-golden/data/member/snap");
    fs::create_dir_all(&left)?;
    fs::write(left.join("db"), &content[..at])?;
    source.gate(&volume, &told).is(0, "Start");
    assert!(listing(&volume).is_empty());
    let member = source
        .site
        .start(&[&volume], &cluster, &[])
        .await?
        .remove(0);
    assert_eq!(source.site.revision(&member)?, 1);
    Ok(())
}
