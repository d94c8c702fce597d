//! Back to a revision on the volumes that members have, container by container, as the Job of a restore in place does it;
//! through the gate; and what was there before is kept until people say otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use backup::etcd::Etcd;
use backup::store::directory::Directory;
use serde_json::{Value, json};
use testkit::process::Process;
use testkit::waiting::{PATIENCE, ask_until};

use super::support::{BUMP, Running, TENANT, World, agent, content, quick, succeeds};
use crate::support::{Cluster, Member, gate, listing, marker, running_cluster};

const MEMBERS: usize = 3;
/// Revisions that are replayed; many, so that it is known to go on when it is killed.
const MANY: u64 = 1500;
const RESTORE: &str = "5a1c0f6e-1111-4222-8333-444455556666";
const FOLDER: &str = "covey-restore-5a1c0f6e-1111-4222-8333-444455556666";

/// One member's pod.
struct Build<'a> {
    world: &'a World,
    cluster: &'a Cluster,
    token: &'a str,
    /// Members of the cluster that is built.
    members: usize,
    number: usize,
    volume: &'a Path,
    scratch: PathBuf,
    revision: u64,
}

impl Build<'_> {
    fn volume(&self) -> [String; 2] {
        [
            format!("--volume={}", self.volume.display()),
            format!("--restore={RESTORE}"),
        ]
    }

    fn reading(&self) -> Vec<String> {
        let key = self.scratch.with_extension("key");
        fs::write(&key, self.world.keys.data.reveal()).unwrap();
        vec![
            format!("--directory={}", self.world.folder.display()),
            "--prefix=p".to_owned(),
            format!("--tenant={TENANT}"),
            format!("--cluster={:x}", self.world.scope.cluster),
            format!("--data-key={}", key.display()),
        ]
    }

    fn scratch(&self) -> String {
        format!("--scratch={}", self.scratch.display())
    }

    fn fetch(&self, least: u64) -> Result<(i32, String)> {
        let mut args = vec![
            "fetch".to_owned(),
            format!("--at-revision={}", self.revision),
            format!("--least-revision={least}"),
            self.scratch(),
        ];
        args.extend(self.volume());
        args.extend(self.reading());
        agent(&args)
    }

    /// Everything but that it is whole.
    fn make(&self) -> Result<()> {
        let (mut process, url) = self.serve()?;
        succeeds(agent(&self.replaying(&url))?)?;
        process.kill();
        let members: Vec<_> = (0..self.members)
            .map(|number| format!("etcd-{number}={}", self.cluster.peer_url(number)))
            .collect();
        self.world.etcdutl(&[
            self.scratch.join("restored.db").display().to_string(),
            format!(
                "--data-dir={}",
                self.volume.join(FOLDER).join("data").display()
            ),
            format!("--name=etcd-{}", self.number),
            format!(
                "--initial-advertise-peer-urls={}",
                self.cluster.peer_url(self.number)
            ),
            format!("--initial-cluster={}", members.join(",")),
            format!("--initial-cluster-token={}", self.token),
            format!("--bump-revision={BUMP}"),
            "--mark-compacted".to_owned(),
        ])
    }

    /// Fetches, and starts the etcd on which is replayed; where it is.
    fn serve(&self) -> Result<(Process, String)> {
        fs::create_dir_all(&self.scratch)?;
        succeeds(self.fetch(self.revision)?)?;
        let replay = self.scratch.join("replay");
        let peer = "http://127.0.0.1:2380";
        self.world.etcdutl(&[
            self.scratch.join("snapshot.db").display().to_string(),
            format!("--data-dir={}", replay.display()),
            "--name=replay".to_owned(),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=replay={peer}"),
            "--initial-cluster-token=covey-replay".to_owned(),
        ])?;
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?
            .local_addr()?
            .port();
        let url = format!("http://127.0.0.1:{port}");
        let etcd = [
            format!("--data-dir={}", replay.display()),
            "--name=replay".to_owned(),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=replay={peer}"),
            "--initial-cluster-token=covey-replay".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--max-txn-ops=10000000".to_owned(),
        ];
        let program = self.world.site.folder().join("etcd");
        let log = self.scratch.with_extension("log");
        let process = Process::spawn("etcd", &program, &etcd, &log)?;
        Ok((process, url))
    }

    /// The command line that replays on it.
    fn replaying(&self, url: &str) -> Vec<String> {
        let mut args = vec!["replay".to_owned(), format!("--etcd={url}"), self.scratch()];
        args.extend(self.reading());
        args
    }

    /// That it is whole; what is reported.
    fn seal(&self) -> Result<Value> {
        let report = self.scratch.with_extension("report");
        fs::write(&report, "")?;
        let mut args = vec![
            "seal".to_owned(),
            format!("--member=etcd-{}", self.number),
            format!("--claim=claim-{}", self.number),
            format!("--report={}", report.display()),
            self.scratch(),
        ];
        args.extend(self.volume());
        succeeds(agent(&args)?)?;
        Ok(serde_json::from_slice(&fs::read(&report)?)?)
    }

    fn forget(&self, cluster: u64) -> Result<(i32, String)> {
        let mut args = vec!["forget".to_owned(), format!("--cluster={cluster:x}")];
        args.extend(self.volume());
        agent(&args)
    }
}

fn with_restore(mut identity: Value) -> Value {
    identity["restore"] = json!(RESTORE);
    identity
}

/// What a folder holds, wherever it is.
fn facts(folder: &Path) -> Vec<String> {
    listing(folder).into_values().collect()
}

/// The cluster that was built, and what the operator says once members are to take it over.
fn restoring(built: &[Value]) -> Result<(u64, Value)> {
    let number = |value: &Value| {
        let text = value.as_str().context("no identifier")?;
        u64::from_str_radix(text, 16).context("no identifier")
    };
    let cluster = number(&built[0]["data"]["clusterID"])?;
    let members: Result<Vec<_>> = built
        .iter()
        .map(|built| number(&built["data"]["memberID"]))
        .collect();
    Ok((cluster, with_restore(running_cluster(cluster, &members?))))
}

async fn is_refused(etcd: &Etcd, from: u64) -> Result<()> {
    let mut old = etcd.watch(from).await?;
    let created = old.message().await?.context("no answer")?;
    let refused = match created.compact_revision {
        0 => old.message().await?.context("no answer")?.compact_revision,
        compacted => compacted,
    };
    ensure!(refused > 0, "a watch from before goes on");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn members_take_over_what_was_built_beside_their_data_and_watches_of_before_are_refused()
-> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    world.write_many(40).await?;
    let wanted = world.last();
    world.write_many(60).await?;
    running.durable(world.last()).await?;
    running.stop().await?;
    let (newest, expected) = (world.last(), world.history[&wanted].clone());
    let ids = world.site.ids(&world.member)?;
    world.member.end();
    let volumes = ["etcd-0", "etcd-1", "etcd-2"].map(|name| world.site.volume(name));
    // One member has data; the two others lost their volumes.
    let before = running_cluster(ids.0, &[ids.1]);
    gate(&volumes[0], "etcd-0", "existing", &before).is(0, "Start");
    let was = facts(&volumes[0].join("data"));

    let cluster = Cluster::new("restored", MEMBERS)?;
    let builds: Vec<_> = volumes
        .iter()
        .enumerate()
        .map(|(number, volume)| Build {
            world: &world,
            cluster: &cluster,
            token: "5a1c0f6e-tenant-r1",
            members: MEMBERS,
            number,
            volume,
            scratch: world.site.volume(&format!("scratch-{number}")),
            revision: wanted,
        })
        .collect();

    // Less than was found beforehand is not built; what is not whole is nobody's data.
    let (code, said) = builds[0].fetch(newest)?;
    ensure!(code == 1 && said.contains("had it until"), "{code}: {said}");
    ensure!(!volumes[0].join(FOLDER).exists(), "{said}");
    let left = volumes[1].join("covey-restore-left-behind");
    fs::create_dir_all(left.join("data"))?;
    builds.iter().try_for_each(Build::make)?;
    ensure!(!left.exists(), "what another restore left takes room");
    let numbers = running_cluster(77, &[7, 8, 9]);
    let numbers = with_restore(numbers);
    gate(&volumes[1], "etcd-1", "existing", &numbers).is(10, "VolumeLost");

    let built = builds.iter().map(Build::seal);
    let built = built.collect::<Result<Vec<_>>>()?;
    for one in &built {
        ensure!(one["revision"] == wanted, "{one}");
        ensure!(one["data"]["clusterID"] == built[0]["data"]["clusterID"]);
    }
    let (cluster_id, identity) = restoring(&built)?;
    ensure!(cluster_id != ids.0);

    // Whoever has the data of before goes on with it until the operator says otherwise, and it is whole.
    gate(&volumes[0], "etcd-0", "existing", &before).is(0, "Start");
    ensure!(facts(&volumes[0].join("data")) == was);
    let (code, said) = builds[0].forget(cluster_id)?;
    ensure!(code == 1 && said.contains("not taken over"), "{said}");

    for (number, volume) in volumes.iter().enumerate() {
        let name = format!("etcd-{number}");
        // The first one is broken off between its steps.
        if number == 0 {
            fs::rename(volume.join("data"), volume.join(FOLDER).join("before"))?;
        }
        let answer = gate(volume, &name, "existing", &identity);
        answer.is(0, "Start");
        ensure!(answer.line.contains("takes over"), "{answer:?}");
        ensure!(marker(volume)["data"] == built[number]["data"]);
        let again = gate(volume, &name, "existing", &identity);
        ensure!(again.line.contains("has its data"), "{again:?}");
    }
    let own: Vec<_> = volumes.iter().map(PathBuf::as_path).collect();
    let members = world.site.start(&own, &cluster, &[]).await?;
    for (number, member) in members.iter().enumerate() {
        let etcd = Etcd::new(member.url(), None)?;
        ensure!(
            content(&etcd).await? == expected,
            "etcd-{number} has other data"
        );
        let status = etcd.status().await?;
        ensure!(status.cluster == cluster_id && status.revision > newest);
        ensure!(status.revision >= wanted + BUMP, "{status:?}");
        // Nobody resumes on revisions that mean something else now.
        is_refused(&etcd, newest).await?;
    }

    // What is in use is never built over, and what was there before is kept until it is confirmed.
    let (code, said) = builds[0].fetch(wanted)?;
    ensure!(
        code == 1 && said.contains("nothing is built there any more"),
        "{said}"
    );
    ensure!(facts(&volumes[0].join(FOLDER).join("before")) == was);
    for build in &builds {
        succeeds(build.forget(cluster_id)?)?;
        ensure!(!build.volume.join(FOLDER).exists());
        succeeds(build.forget(cluster_id)?)?;
    }
    let etcd = Etcd::new(members[1].url(), None)?;
    ensure!(content(&etcd).await? == expected);
    members.into_iter().for_each(Member::kill);
    for (number, volume) in volumes.iter().enumerate() {
        let name = format!("etcd-{number}");
        gate(volume, &name, "existing", &identity).is(0, "Start");
    }
    Ok(())
}

/// Waits until so much was replayed on an etcd; until when.
async fn replayed(url: &str, least: u64) -> Result<u64> {
    let etcd = Etcd::new(url, None)?;
    ask_until("an etcd to replay on", PATIENCE, || async {
        let answer = etcd.status().await;
        Ok(answer.map(drop).map_err(|error| error.to_string()))
    })
    .await?;
    let mut changes = etcd.watch(1).await?;
    let reached = async {
        loop {
            changes.message().await?.context("the watch ended")?;
            let revision = etcd.status().await?.revision;
            if revision >= least {
                return Ok(revision);
            }
        }
    };
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    reached.context("nothing is replayed")?
}

/// B3: the pod of a Job is killed, all containers at once, and another one takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn build_that_is_killed_while_it_replays_is_begun_again_and_nothing_of_it_is_served()
-> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    world.write_many(MANY).await?;
    let wanted = world.last();
    running.durable(wanted).await?;
    running.stop().await?;
    let ids = world.site.ids(&world.member)?;
    world.member.end();
    let volume = world.site.volume("etcd-0");
    let before = running_cluster(ids.0, &[ids.1]);
    gate(&volume, "etcd-0", "existing", &before).is(0, "Start");
    let was = facts(&volume.join("data"));

    let cluster = Cluster::new("restored", 1)?;
    let pod = |name: &str| Build {
        world: &world,
        cluster: &cluster,
        token: "5a1c0f6e-tenant-r1",
        members: 1,
        number: 0,
        volume: &volume,
        scratch: world.site.volume(&format!("scratch-{name}")),
        revision: wanted,
    };
    let first = pod("first");
    let (mut etcd, url) = first.serve()?;
    let mut args = vec!["backup".to_owned()];
    args.extend(first.replaying(&url));
    let program = Path::new(env!("CARGO_BIN_EXE_etcd-agent"));
    let log = first.scratch.with_extension("replay.log");
    let mut replay = Process::spawn("replay", program, &args, &log)?;
    let reached = replayed(&url, MANY / 5).await?;
    let ended = replay.exited();
    replay.kill();
    etcd.kill();
    ensure!(
        reached < wanted && ended.is_none(),
        "it was done: {reached} of {wanted}, {ended:?}: {}",
        replay.log_tail(20)
    );
    eprintln!("killed at revision {reached} of {wanted}");

    // Nobody takes it for whole, not even with half of a data directory there.
    ensure!(!first.scratch.join("replayed.json").exists());
    let sealed = first.seal();
    ensure!(sealed.is_err(), "{sealed:?}");
    let half = volume.join(FOLDER).join("data/member/snap");
    fs::create_dir_all(&half)?;
    fs::write(half.join("db"), "half of it")?;
    let sealed = first.seal();
    ensure!(sealed.is_err(), "{sealed:?}");
    let told = with_restore(running_cluster(77, &[7]));
    gate(&volume, "etcd-0", "existing", &told).is(11, "ForeignData");
    gate(&volume, "etcd-0", "existing", &before).is(0, "Start");
    ensure!(facts(&volume.join("data")) == was, "it was changed");

    // The next pod finds none of what the first had in its scratch folder, and ends as that would have.
    let second = pod("second");
    second.make()?;
    let built = second.seal()?;
    ensure!(built["revision"] == wanted, "{built}");
    ensure!(facts(&volume.join("data")) == was, "it was changed");
    let (cluster_id, identity) = restoring(&[built])?;
    let answer = gate(&volume, "etcd-0", "existing", &identity);
    answer.is(0, "Start");
    ensure!(answer.line.contains("takes over"), "{answer:?}");
    let member = world.site.start(&[&volume], &cluster, &[]).await?.remove(0);
    let etcd = Etcd::new(member.url(), None)?;
    ensure!(content(&etcd).await? == world.history[&wanted]);
    let status = etcd.status().await?;
    ensure!(
        status.cluster == cluster_id && status.revision >= wanted + BUMP,
        "{status:?}"
    );
    ensure!(facts(&volume.join(FOLDER).join("before")) == was);
    Ok(())
}
