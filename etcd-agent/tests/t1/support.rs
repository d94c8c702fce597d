//! The gate, etcd and etcdctl as processes, and what a folder holds.
//!
//! Invariant: etcd runs until it is stopped here; none outlives its test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lab::programs::Program;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::ports::unused;
use testkit::process::{Process, Workdir};
use testkit::programs::reference_or_skip;
use testkit::waiting::{PATIENCE, ask_until};

/// What the gate said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) line: String,
}

impl Answer {
    /// Fails unless this was the answer.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, word: &str) {
        let begins = self.line.starts_with(&format!("{word}: "));
        assert!(self.code == code && begins, "{word} was expected: {self:?}");
    }
}

/// Runs the gate for a member, as its pod does.
pub(crate) fn gate(volume: &Path, member: &str, state: &str, identity: &Value) -> Answer {
    gate_with(volume, member, state, identity, &[])
}

/// The same with further flags.
pub(crate) fn gate_with(
    volume: &Path,
    member: &str,
    state: &str,
    identity: &Value,
    more: &[String],
) -> Answer {
    let own = tempfile::tempdir().unwrap();
    let (file, log) = (own.path().join("identity.json"), own.path().join("log"));
    fs::write(&file, identity.to_string()).unwrap();
    fs::write(&log, "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-agent"))
        .arg("gate")
        .arg("--data-dir")
        .arg(volume.join("data"))
        .args(["--member", member, "--initial-cluster-state", state])
        .arg("--identity")
        .arg(file)
        .arg("--termination-log")
        .arg(&log)
        .args(more)
        .output()
        .unwrap();
    assert!(output.stdout.is_empty());
    let line = fs::read_to_string(log).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said.trim_end(),
        line,
        "the pod's status and its log say the same"
    );
    let code = output.status.code().unwrap();
    Answer { code, line }
}

/// What the operator says before a cluster of so many members first runs.
pub(crate) fn new_cluster(size: usize) -> Value {
    let member = |number| {
        json!({"name": format!("etcd-{number}"), "claimUID": format!("claim-{number}"),
            "mayStartEmpty": true})
    };
    json!({"members": (0..size).map(member).collect::<Vec<_>>()})
}

/// What the operator says once it has seen all members; identifiers are numbers, as etcdctl gives them.
pub(crate) fn running_cluster(cluster: u64, members: &[u64]) -> Value {
    let member = |(number, id)| {
        json!({"name": format!("etcd-{number}"), "claimUID": format!("claim-{number}"),
            "memberID": format!("{id:x}")})
    };
    let members: Vec<_> = members.iter().enumerate().map(member).collect();
    json!({"clusterID": format!("{cluster:x}"), "members": members})
}

/// The marker on a volume.
pub(crate) fn marker(volume: &Path) -> Value {
    let text = fs::read(volume.join("covey-etcd-member.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Path, inode, size, time of change and, of links, target: of all below a folder but the marker.
pub(crate) fn listing(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let facts = path.symlink_metadata().unwrap();
        let (size, at) = (facts.size(), (facts.mtime(), facts.mtime_nsec()));
        let link = fs::read_link(&path).ok();
        let line = format!("{} {size} {at:?} {link:?}", facts.ino());
        if facts.is_dir() {
            found.extend(listing(&path));
        }
        if !path.ends_with("covey-etcd-member.json") {
            found.insert(path, line);
        }
    }
    found
}

/// The programs of etcd, and a folder for a test.
pub(crate) struct Site {
    etcd: PathBuf,
    etcdctl: PathBuf,
    dir: Workdir,
}

/// Where members of one cluster are.
#[derive(Clone)]
pub(crate) struct Cluster {
    token: String,
    peers: Vec<u16>,
}

/// A member that runs.
pub(crate) struct Member {
    process: Process,
    url: String,
}

impl Site {
    /// None, loudly, when etcd is not built.
    pub(crate) fn new() -> Result<Option<Self>> {
        let etcd = reference_or_skip(Program::ETCD, "etcd")?;
        let etcdctl = reference_or_skip(Program::ETCD, "etcdctl")?;
        let (Some(etcd), Some(etcdctl)) = (etcd, etcdctl) else {
            return Ok(None);
        };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::create_dir_all(target)?;
        let dir = tempfile::Builder::new()
            .prefix("gate-")
            .tempdir_in(target)?;
        // Its guard wants to make it.
        let path = dir.path().to_owned();
        dir.close()?;
        let dir = Workdir::at(&path)?;
        Ok(Some(Self { etcd, etcdctl, dir }))
    }

    /// A folder that stands for a volume.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        let volume = self.dir.path().join(name);
        fs::create_dir_all(&volume).unwrap();
        volume
    }

    fn spawn(
        &self,
        program: &Path,
        volume: &Path,
        name: &str,
        cluster: &Cluster,
        state: &str,
        more: &[&str],
    ) -> Result<Member> {
        let number: usize = name.trim_start_matches("etcd-").parse()?;
        let url = format!("http://127.0.0.1:{}", unused()?);
        let peer = |port: &u16| format!("http://127.0.0.1:{port}");
        let own = peer(&cluster.peers[number]);
        let all: Vec<_> = (cluster.peers.iter().enumerate())
            .map(|(number, port)| format!("etcd-{number}={}", peer(port)))
            .collect();
        let mut flags = vec![
            format!("--name={name}"),
            format!("--data-dir={}", volume.join("data").display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={own}"),
            format!("--initial-advertise-peer-urls={own}"),
            format!("--initial-cluster={}", all.join(",")),
            format!("--initial-cluster-token={}", cluster.token),
            format!("--initial-cluster-state={state}"),
        ];
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        let log = volume.with_extension("log");
        let process = Process::spawn(name, program, &flags, &log)?;
        Ok(Member { process, url })
    }

    /// Starts members on their volumes and waits until all of them know their leader.
    pub(crate) async fn start(
        &self,
        volumes: &[&Path],
        cluster: &Cluster,
        more: &[&str],
    ) -> Result<Vec<Member>> {
        let named = volumes.iter().enumerate();
        let members = named.map(|(number, volume)| {
            let name = format!("etcd-{number}");
            self.spawn(&self.etcd, volume, &name, cluster, "new", more)
        });
        let mut members: Vec<_> = members.collect::<Result<_>>()?;
        for member in &mut members {
            self.serves(member).await?;
        }
        Ok(members)
    }

    /// Until it knows its leader.
    async fn serves(&self, member: &mut Member) -> Result<()> {
        ask_until("a leader", PATIENCE, || {
            let ended = member.process.exited();
            let answer = match ended {
                Some(_) => Err(anyhow::anyhow!(member.process.log_tail(10))),
                None => Ok(self
                    .status(&member.url)
                    .map_err(|error| format!("{error:#}"))),
            };
            std::future::ready(answer)
        })
        .await
    }

    /// Starts a member of a cluster that runs, with this `etcd`, and waits until it knows its leader.
    pub(crate) async fn join(
        &self,
        program: &Path,
        volume: &Path,
        name: &str,
        cluster: &Cluster,
    ) -> Result<Member> {
        let mut member = self.spawn(program, volume, name, cluster, "existing", &[])?;
        self.serves(&mut member).await?;
        Ok(member)
    }

    /// Starts a member that is to fail, and waits until it has.
    pub(crate) async fn start_in_vain(&self, volume: &Path, cluster: &Cluster) -> Result<String> {
        self.fails(&self.etcd, volume, "etcd-0", cluster).await
    }

    /// The same of any member, with this `etcd`.
    pub(crate) async fn fails(
        &self,
        program: &Path,
        volume: &Path,
        name: &str,
        cluster: &Cluster,
    ) -> Result<String> {
        let mut member = self.spawn(program, volume, name, cluster, "existing", &[])?;
        let status = member.process.ended(PATIENCE).await?;
        ensure!(!status.success(), "etcd started");
        Ok(member.process.log_tail(20))
    }

    fn status(&self, url: &str) -> Result<()> {
        let status = &self.etcdctl(url, &["endpoint", "status"])?[0]["Status"];
        ensure!(
            status["leader"].as_u64().is_some_and(|leader| leader > 0),
            "no leader"
        );
        Ok(())
    }

    /// Cluster and member, as the member itself answers.
    pub(crate) fn ids(&self, member: &Member) -> Result<(u64, u64)> {
        let status = self.etcdctl(&member.url, &["endpoint", "status"])?;
        let header = &status[0]["Status"]["header"];
        let id = |field: &str| header[field].as_u64().context("etcd gave no identifier");
        Ok((id("cluster_id")?, id("member_id")?))
    }

    /// Identifiers of all members by name, as the member list has them.
    pub(crate) fn member_list(&self, member: &Member) -> Result<BTreeMap<String, u64>> {
        let list = self.etcdctl(&member.url, &["member", "list"])?;
        let members = list["members"].as_array().context("no list of members")?;
        let one = |member: &Value| {
            let name = member["name"].as_str()?.to_owned();
            Some((name, member["ID"].as_u64()?))
        };
        members
            .iter()
            .map(|m| one(m).context("no member"))
            .collect()
    }

    /// The store's revision.
    pub(crate) fn revision(&self, member: &Member) -> Result<u64> {
        let status = self.etcdctl(&member.url, &["endpoint", "status"])?;
        let revision = &status[0]["Status"]["header"]["revision"];
        revision.as_u64().context("etcd gave no revision")
    }

    /// Writes a snapshot of all that it has.
    pub(crate) fn save(&self, member: &Member, path: &Path) -> Result<()> {
        let mut command = Command::new(&self.etcdctl);
        command.args(["--endpoints", &member.url, "snapshot", "save"]);
        let output = command.arg(path).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdctl snapshot save: {said}");
        Ok(())
    }

    /// Names of all its keys.
    pub(crate) fn keys(&self, member: &Member) -> Result<BTreeSet<String>> {
        let found = self.etcdctl(&member.url, &["get", "", "--from-key", "--keys-only"])?;
        let found = found["kvs"].as_array().cloned().unwrap_or_default();
        let name = |kv: &Value| {
            let key = STANDARD.decode(kv["key"].as_str().context("a key has no name")?)?;
            Ok(String::from_utf8(key)?)
        };
        found.iter().map(name).collect()
    }

    /// The newest entry of the log that is in its database.
    pub(crate) fn applied(&self, member: &Member) -> Result<u64> {
        let status = self.etcdctl(&member.url, &["endpoint", "status"])?;
        let applied = &status[0]["Status"]["raftAppliedIndex"];
        applied.as_u64().context("etcd said no index")
    }

    pub(crate) fn put(&self, member: &Member, key: &str, value: &str) -> Result<()> {
        self.etcdctl(&member.url, &["put", key, value]).map(drop)
    }

    /// Its program's version, and the one that its data is of.
    pub(crate) fn versions(&self, member: &Member) -> Result<(String, String)> {
        let status = &self.etcdctl(&member.url, &["endpoint", "status"])?[0]["Status"];
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        Ok((text("version"), text("storageVersion")))
    }

    /// `etcdctl downgrade`: what it says where it refuses.
    pub(crate) fn downgrade(&self, member: &Member, what: &str, to: &str) -> Result<()> {
        let args: &[&str] = match what {
            "cancel" => &["downgrade", "cancel"],
            _ => &["downgrade", what, to],
        };
        self.etcdctl(&member.url, args).map(drop)
    }

    /// The program of the lab's own version.
    pub(crate) fn etcd(&self) -> &Path {
        &self.etcd
    }

    /// Takes history away until a revision.
    pub(crate) fn compact(&self, member: &Member, revision: u64) -> Result<()> {
        let mut command = Command::new(&self.etcdctl);
        command.args(["--endpoints", &member.url, "compact", "--physical"]);
        let output = command.arg(revision.to_string()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdctl compact: {said}");
        Ok(())
    }

    /// `etcd` and `etcdutl`, which stand side by side.
    pub(crate) fn folder(&self) -> &Path {
        self.etcd.parent().unwrap()
    }

    fn etcdctl(&self, url: &str, args: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.etcdctl);
        command
            .args(["--endpoints", url, "--write-out", "json"])
            .args(args);
        let output = command.output().context("etcdctl cannot be run")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdctl {args:?}: {said}");
        serde_json::from_slice(&output.stdout).context("etcdctl did not answer with JSON")
    }
}

impl Cluster {
    /// Of so many members. etcd computes identifiers of this token and the members' addresses.
    pub(crate) fn new(token: &str, size: usize) -> Result<Self> {
        let peers: Result<_, _> = (0..size).map(|_| unused()).collect();
        Ok(Self {
            token: token.to_owned(),
            peers: peers?,
        })
    }
}

impl Cluster {
    /// etcd's flag `--initial-cluster-token`.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Where a member's peers reach it.
    pub(crate) fn peer_url(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.peers[number])
    }
}

impl Member {
    /// As clients name it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where it answers clients.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Ends it at once, as a lost node does.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Ends it in order, so that all that it was told is on its volume. One that is killed has noted what was agreed upon
    /// until a moment before.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        self.process.ended(PATIENCE).await.map(drop)
    }

    /// As [`Self::kill`], for who keeps what is left of it.
    pub(crate) fn end(&mut self) {
        self.process.kill();
    }
}
