//! A restore that is only tested, container by container, as its Job does it: what comes out is compared with the etcd
//! that serves, which is only read.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use backup::etcd::Etcd;
use backup::restore::compare::compare;
use backup::store::directory::Directory;
use proto::etcd::{RequestOp, TxnRequest};
use serde_json::Value;
use testkit::process::Process;

use super::support::{Running, TENANT, World, agent, content, objects, put, quick, succeeds};

/// One pod.
struct Test<'a> {
    world: &'a World,
    scratch: PathBuf,
    reading: Vec<String>,
}

impl<'a> Test<'a> {
    fn new(world: &'a World, name: &str) -> Result<Self> {
        let scratch = world.site.volume(name);
        let key = scratch.with_extension("key");
        fs::write(&key, world.keys.data.reveal())?;
        let reading = vec![
            format!("--scratch={}", scratch.display()),
            format!("--directory={}", world.folder.display()),
            "--prefix=p".to_owned(),
            format!("--tenant={TENANT}"),
            format!("--cluster={:x}", world.scope.cluster),
            format!("--data-key={}", key.display()),
        ];
        Ok(Self {
            world,
            scratch,
            reading,
        })
    }

    fn with(&self, args: &[&str]) -> Result<(i32, String)> {
        let mut all: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        all.extend(self.reading.iter().cloned());
        agent(&all)
    }

    /// Until an etcd serves what was fetched.
    fn begin(&self) -> Result<(Process, String)> {
        succeeds(self.with(&["fetch", "--latest", "--least-revision=1"])?)?;
        let replay = self.scratch.join("replay");
        self.world.etcdutl(&[
            self.scratch.join("snapshot.db").display().to_string(),
            format!("--data-dir={}", replay.display()),
            "--name=replay".to_owned(),
            "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned(),
            "--initial-cluster=replay=http://127.0.0.1:2380".to_owned(),
            "--initial-cluster-token=covey-replay".to_owned(),
        ])?;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let url = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
        drop(listener);
        let etcd = [
            format!("--data-dir={}", replay.display()),
            "--name=replay".to_owned(),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned(),
            "--initial-cluster=replay=http://127.0.0.1:2380".to_owned(),
            "--initial-cluster-token=covey-replay".to_owned(),
            "--unsafe-no-fsync".to_owned(),
        ];
        let program = self.world.site.folder().join("etcd");
        let log = self.scratch.with_extension("log");
        Ok((Process::spawn("replay", &program, &etcd, &log)?, url))
    }

    /// What it said, and what it reported.
    fn compare(&self, copy: &str, live: &str) -> Result<(i32, String, String)> {
        let report = self.scratch.with_extension("report");
        fs::write(&report, "")?;
        let (code, said) = self.with(&[
            "compare",
            &format!("--etcd={copy}"),
            &format!("--live={live}"),
            &format!("--report={}", report.display()),
        ])?;
        Ok((code, said, fs::read_to_string(&report)?))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_that_is_tested_is_compared_with_etcd_which_goes_on_and_is_left_as_it_is()
-> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(store, &world.etcd, world.options(quick(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    // More than a page of keys, and one that is larger than a page.
    for number in 0..150 {
        let key = format!("/registry/many/{number:04}");
        world.write(vec![put(&key, &[b'x'; 3000], 0)]).await?;
    }
    world
        .write(vec![put("/registry/large", &[b'y'; 1_200_000], 0)])
        .await?;
    world.write_many(60).await?;
    running.durable(world.last()).await?;

    let live = world.member.url().to_owned();
    let test = Test::new(&world, "scratch")?;
    let (_process, copy) = test.begin()?;
    // What is written after the snapshot was fetched is replayed, too.
    world.write_many(25).await?;
    let newest = world.last();
    running.durable(newest).await?;
    running.stop().await?;
    let before = (content(&world.etcd).await?, objects(&world.folder));
    let test = Test::new(&world, "scratch")?;
    let (code, said, report) = test.compare(&copy, &live)?;
    ensure!(code == 0, "{code}: {said}");
    let report: Value = serde_json::from_str(&report).context(said)?;
    ensure!(report["revision"] == newest, "{report}");
    ensure!(report["keys"] == before.0.len(), "{report}");
    ensure!(report["bytes"].as_u64() > Some(1_600_000), "{report}");
    ensure!(
        world.etcd.status().await?.revision == newest,
        "it was written to"
    );
    ensure!(content(&world.etcd).await? == before.0);
    ensure!(
        objects(&world.folder) == before.1,
        "the store is another one"
    );

    // Whatever differs is told by its first key, and an etcd that is behind its own backup, too.
    let other = Etcd::new(&copy, None)?;
    let (code, said, _) = test.compare(&live, &copy)?;
    ensure!(
        code == 1 && said.contains("the backup is of"),
        "{code}: {said}"
    );
    world
        .write(vec![put("/registry/large", b"small", 0)])
        .await?;
    let request = TxnRequest {
        success: vec![RequestOp {
            request: Some(put("/registry/many/0077", b"spoilt", 0)),
        }],
    };
    other.transact(request).await?;
    let compared = async |revision| {
        let compared = compare(&world.etcd, &other, revision).await;
        compared
            .map(|all| all.keys)
            .map_err(|error| error.to_string())
    };
    ensure!(compared(newest).await == Ok(before.0.len() as u64));
    let differs = compared(newest + 1).await;
    let wanted = format!(
        "at revision {}: /registry/large is another one in the backup",
        newest + 1
    );
    ensure!(differs == Err(wanted), "{differs:?}");
    let ahead = compared(newest + 2).await;
    ensure!(
        ahead
            .as_ref()
            .is_err_and(|why| why.contains("its backup is ahead of it")),
        "{ahead:?}"
    );
    world.site.compact(&world.member, newest)?;
    let gone = compared(newest - 1).await;
    ensure!(
        gone.as_ref()
            .is_err_and(|why| why.contains("has compacted revision")),
        "{gone:?}"
    );
    Ok(())
}
