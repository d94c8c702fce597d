//! One volume of three is left, and a backup: neither is right alone, so what goes furthest is taken, and what survived is
//! only read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use backup::append::{self, Appended};
use backup::etcd::Etcd;
use backup::restore::choose::At;
use backup::restore::outcome::RestoreError;
use backup::restore::programs::{self, Programs};
use backup::restore::survivors::{self, Base, Candidate, Salvaged};
use backup::store::directory::Directory;
use backup_format::Scope;
use backup_format::keys::{Keys, RecoveryKey};
use testkit::waiting::{PATIENCE, ask_until};

use super::support::{
    BUMP, Content, Running, TENANT, World, agent, content, objects, quick, succeeds,
};
use crate::support::{Cluster, Member, Site, listing};

/// A tenant cluster's etcd of three members, and the two that are not written to.
async fn three() -> Result<Option<(World, Vec<Member>)>> {
    let Some(site) = Site::new()? else {
        return Ok(None);
    };
    let volumes = ["etcd-0", "etcd-1", "etcd-2"].map(|name| site.volume(name));
    let cluster = Cluster::new("survived", 3)?;
    let own: Vec<_> = volumes.iter().map(PathBuf::as_path).collect();
    // Side by side: none has a leader without another one.
    let mut members = site.start(&own, &cluster, &[]).await?;
    let member = members.remove(0);
    let etcd = Etcd::new(member.url(), None)?;
    let status = etcd.status().await?;
    let scope = Scope::new(TENANT, status.cluster).context("a scope")?;
    let recovery = RecoveryKey::generate()?;
    let keys = Keys::generate(&recovery.wrapping_key(), &scope)?;
    let folder = site.volume("claim");
    let history = [(status.revision, Content::new())].into();
    let world = World {
        site,
        member,
        etcd,
        keys,
        recovery,
        scope,
        folder,
        history,
    };
    Ok(Some((world, members)))
}

/// What is made of what is left, and what it has.
async fn salvage(
    world: &World,
    survivors: &[&Path],
    name: &str,
) -> Result<(Salvaged, Content), RestoreError> {
    let store = Directory::new(&world.folder);
    let survivors: Vec<_> = survivors.iter().map(|path| path.join("data")).collect();
    let volume = world.site.volume(name);
    let cluster = Cluster::new("salvaged", 1).unwrap();
    let programs = Programs {
        etcd: world.site.folder().join("etcd"),
        etcdutl: world.site.folder().join("etcdutl"),
    };
    let target = programs::Member {
        data_dir: volume.join("data"),
        name: "etcd-0".to_owned(),
        peer_url: cluster.peer_url(0),
        initial_cluster: format!("etcd-0={}", cluster.peer_url(0)),
        token: "salvaged".to_owned(),
        bump: BUMP,
    };
    let scratch = world.site.volume(&format!("{name}-scratch"));
    let reader = world.reader(&store);
    let made = survivors::salvage(&reader, &survivors, &programs, &scratch, &target).await?;
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "left behind");
    let members = world.site.start(&[&volume], &cluster, &[]).await.unwrap();
    let etcd = Etcd::new(members[0].url(), None).unwrap();
    let status = etcd.status().await.unwrap();
    assert!(status.revision >= made.revision + BUMP, "{status:?}");
    Ok((made, content(&etcd).await.unwrap()))
}

/// The member has all of that.
async fn follows(member: &Member, revision: u64) -> Result<()> {
    let etcd = Etcd::new(member.url(), None)?;
    ask_until("a follower has it", PATIENCE, || async {
        let found = etcd.status().await?.revision;
        Ok(match found >= revision {
            true => Ok(()),
            false => Err(format!("{found} of {revision}")),
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_survived_is_preferred_where_it_goes_further_than_the_backup_and_carried_on_by_it()
-> Result<()> {
    let Some((mut world, mut others)) = three().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(store, &world.etcd, world.options(quick(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    world.write_many(40).await?;
    running.durable(world.last()).await?;
    // One member lags from here on.
    let lags = world.last();
    follows(&others[1], lags).await?;
    others.remove(1).stop().await?;
    world.write_many(40).await?;
    let backed_up = world.last();
    running.durable(backed_up).await?;
    running.stop().await?;
    world.write_many(40).await?;
    let newest = world.last();
    follows(&others[0], newest).await?;
    others.remove(0).stop().await?;
    world.member.end();
    let [first, second] = ["etcd-1", "etcd-2"].map(|name| world.site.volume(name));
    let before = (listing(&first), listing(&second), objects(&world.folder));

    // Acknowledged and in no backup: it is there in the one that did not lag, whatever the order.
    let (made, has) = salvage(&world, &[&second, &first], "ahead").await?;
    ensure!(made.base == Base::Survivor(1), "{made:?}");
    ensure!(
        (made.revision, made.backup) == (newest, Some(backed_up)),
        "{made:?}"
    );
    ensure!(has == world.history[&newest], "something is lost");
    let lagging = Candidate::Reaches {
        own: lags,
        whole: backed_up,
    };
    ensure!(made.candidates[0] == lagging, "{made:?}");

    // The one that lagged is not right, and the backup is.
    let (made, has) = salvage(&world, &[&second], "lagging").await?;
    ensure!(
        (made.base, made.revision) == (Base::Backup, backed_up),
        "{made:?}"
    );
    ensure!(has == world.history[&backed_up], "something is lost");
    let now = (listing(&first), listing(&second), objects(&world.folder));
    ensure!(now == before, "what survived was changed");

    // Without a full snapshot the backup is nothing alone, and what it has beyond a survivor is not lost.
    for (name, path) in objects(&world.folder) {
        if name.contains("/full/") {
            fs::remove_file(path)?;
        }
    }
    let (made, has) = salvage(&world, &[&second], "carried").await?;
    ensure!(
        (made.base, made.backup) == (Base::Survivor(0), None),
        "{made:?}"
    );
    ensure!(made.candidates == [lagging], "{made:?}");
    ensure!(has == world.history[&backed_up], "something is lost");

    // What is of another etcd is not used, nor what is no data.
    let other = World::new().await?.context("etcd was there")?;
    let foreign = other.site.volume("etcd-0");
    let empty = world.site.volume("empty");
    let refused = salvage(&world, &[&foreign, &empty], "refused").await;
    let Err(RestoreError::Nothing(why)) = refused else {
        anyhow::bail!("{:?}", refused.map(|(made, _)| made));
    };
    ensure!(
        why.contains("is of etcd cluster") && why.contains("cannot be copied"),
        "{why}"
    );
    Ok(())
}

/// An etcd on a copy of a directory, alone, and what is put of it into the backup.
async fn append(world: &World, survivor: &Path, cluster: u64) -> Result<Appended> {
    let scratch = world.site.volume("append-scratch");
    let _ = fs::remove_dir_all(scratch.join("survivor"));
    let copied = agent(&[
        "copy".to_owned(),
        format!("--survivor={}", survivor.join("data").display()),
        format!("--scratch={}", scratch.display()),
    ])?;
    succeeds(copied)?;
    let copy = scratch.join("survivor");
    ensure!(copy.join("member/snap/db").exists(), "nothing was copied");
    let volume = world.site.volume("append-copy");
    let _ = fs::remove_dir_all(volume.join("data"));
    fs::rename(&copy, volume.join("data"))?;
    let alone = Cluster::new("survived", 1)?;
    let more = ["--force-new-cluster"];
    let served = world.site.start(&[&volume], &alone, &more).await?.remove(0);
    let etcd = Etcd::new(served.url(), None)?;
    let store = Arc::new(Directory::new(&world.folder));
    let options = world.options(quick(), "append");
    let appended = append::append(store, etcd, options, cluster).await?;
    served.stop().await?;
    Ok(appended)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_survived_is_put_into_the_backup_as_deltas_and_a_restore_has_all_of_it() -> Result<()>
{
    let Some((mut world, mut others)) = three().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(Arc::clone(&store), &world.etcd, world.options(quick(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    world.write_many(40).await?;
    // One member lags from here on.
    follows(&others[1], world.last()).await?;
    others.remove(1).stop().await?;
    world.write_many(20).await?;
    let backed_up = world.last();
    running.durable(backed_up).await?;
    running.stop().await?;
    world.write_many(40).await?;
    let newest = world.last();
    // Killed at once: it has what was acknowledged, and has not noted that it was.
    others.remove(0).kill();
    world.member.end();
    let [first, second] = ["etcd-1", "etcd-2"].map(|name| world.site.volume(name));
    let before = (listing(&first), listing(&second));
    let cluster = world.scope.cluster;

    // One that lags has nothing that the backup lacks.
    let had = objects(&world.folder);
    let lags = append(&world, &second, cluster).await?;
    ensure!(
        matches!(lags, Appended::Until { deltas: 0, .. }),
        "{lags:?}"
    );
    // One of another cluster is left aside, and nothing of it is written.
    let foreign = append(&world, &first, cluster + 1).await?;
    ensure!(matches!(&foreign, Appended::Aside(why) if why.contains("is of etcd cluster")));
    ensure!(objects(&world.folder) == had, "something was written");

    let appended = append(&world, &first, cluster).await?;
    let Appended::Until { revision, deltas } = appended else {
        anyhow::bail!("{appended:?}");
    };
    ensure!(revision == newest && deltas > 0, "{revision} {deltas}");
    // Again, as a pod does that is started anew: nothing is written twice.
    let again = append(&world, &first, cluster).await?;
    ensure!(
        again
            == Appended::Until {
                revision,
                deltas: 0
            },
        "{again:?}"
    );
    let now = (listing(&first), listing(&second));
    ensure!(now == before, "what survived was changed");
    let (restored, has, member) = world.restore(&*store, At::Latest, "appended").await?;
    ensure!(
        restored == newest && has == world.history[&newest],
        "{restored}: something is lost"
    );
    member.stop().await?;

    // What is no data is said, and is no failure.
    let (code, said) = agent(&[
        "copy".to_owned(),
        format!("--survivor={}", world.site.volume("nothing").display()),
        format!("--scratch={}", world.site.volume("nowhere").display()),
    ])?;
    ensure!(
        code == 0 && said.contains("cannot be copied"),
        "{code}: {said}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_something_else_than_the_backup_at_a_revision_of_both_is_not_used() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let volume = world.site.volume("etcd-0");
    // As it was before anything was written, it goes on by itself: another history of the same cluster.
    world.member.end();
    let store = Arc::new(Directory::new(&world.folder));
    let twin = world.site.volume("twin");
    copy(&volume, &twin)?;
    let cluster = Cluster::new("backed-up", 1)?;
    world.member = world.site.start(&[&volume], &cluster, &[]).await?.remove(0);
    world.etcd = Etcd::new(world.member.url(), None)?;
    let mut running = Running::start(store, &world.etcd, world.options(quick(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    world.write_many(30).await?;
    let backed_up = world.last();
    running.durable(backed_up).await?;
    running.stop().await?;
    world.member.end();
    let twins = world.site.start(&[&twin], &cluster, &[]).await?;
    let etcd = Etcd::new(twins[0].url(), None)?;
    for number in 0..60 {
        let put = super::support::put("/registry/other", &[number; 9], 0);
        let request = proto::etcd::TxnRequest {
            success: vec![proto::etcd::RequestOp { request: Some(put) }],
        };
        etcd.transact(request).await?;
    }
    twins.into_iter().for_each(Member::kill);
    let (made, has) = salvage(&world, &[&twin], "made").await?;
    ensure!(
        (made.base, made.revision) == (Base::Backup, backed_up),
        "{made:?}"
    );
    let Candidate::Unusable(why) = &made.candidates[0] else {
        anyhow::bail!("{made:?}");
    };
    ensure!(
        why.contains("it has something else than the backup"),
        "{why}"
    );
    ensure!(has == world.history[&backed_up]);
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let (entry, to) = (entry?, to.to_owned());
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => {
                fs::create_dir_all(&target)?;
                copy(&entry.path(), &target)?;
            }
            false => {
                fs::copy(entry.path(), &target)?;
            }
        }
    }
    Ok(())
}
