//! Plays the members of a tenant cluster's etcd with real etcd processes: what the kubelet, the StatefulSet's
//! controller, the storage and the start gate do of it.
//!
//! Members have the certificates, names and URLs that they have in a cluster. Peers find each other by a
//! proxy, as they would by DNS.
//! Invariant: a volume lives as long as its claim, and only one process has it; a process ends with its pod.
//! Long because a member is a pod, a claim, a volume, a gate and a process, each of which the others wait for.

mod flags;
mod names;
mod peers;
mod pod_status;
mod ports;
mod volume;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config};
use kube::{Api, Client, ResourceExt as _};
use operator::tenant_session::session::Dial;
use serde::de::DeserializeOwned;
use serde_json::json;
use testkit::process::{Process, Workdir};
use testkit::programs::Programs;
use tokio::task::JoinHandle;

use self::flags::{flags, own_flags};
use self::peers::Peers;
use self::pod_status::{LOST, OUTDATED, Refusal, Told, UNNAMED};
use self::ports::{Ports, ports};
use self::volume::{Identity, Verdict, lets_start, verdict};
pub(crate) use self::writer::{
    Writer, delete_flood, get, has_all, keys, member_at, members, put, put_flood,
};

/// Members of the etcd that is played.
pub(crate) const MEMBERS: usize = 3;
/// How often a kubelet looks at what runs.
const LOOK: Duration = Duration::from_millis(250);
/// Events of watches that are taken together.
const EVENTS: usize = 64;
/// How long a kubelet waits before it starts a container that ended.
const PAUSE: Duration = Duration::from_secs(2);

/// Members that are played until this is dropped.
pub(crate) struct EtcdMembers {
    ports: [Ports; MEMBERS],
    addresses: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    places: Arc<Mutex<BTreeMap<usize, PathBuf>>>,
    starts: Arc<Mutex<Starts>>,
    task: JoinHandle<()>,
    _peers: Peers,
    dir: Workdir,
}

/// How members are started.
#[derive(Default)]
struct Starts {
    /// Those that are not.
    held: BTreeSet<usize>,
    /// Those whose volumes the very gate looks at, where it is told what they had.
    judged: BTreeSet<usize>,
}

impl EtcdMembers {
    /// Plays those of the tenant cluster in this namespace, once it is there. `instead`: flags and their values
    /// that are to be others than those of the StatefulSet.
    pub(crate) async fn start(
        client: &Client,
        namespace: &str,
        instead: &[(&str, &str)],
    ) -> Result<Option<Self>> {
        let Some(programs) = Programs::find_or_skip()? else {
            return Ok(None);
        };
        let dir = Workdir::new()?;
        let ports = ports()?;
        let peers = Peers::start(ports.map(|ports| ports.peer)).await?;
        let addresses = Arc::new(Mutex::new(BTreeMap::new()));
        let places = Arc::new(Mutex::new(BTreeMap::new()));
        let starts = Arc::new(Mutex::new(Starts::default()));
        let stage = Stage {
            etcd: programs.etcd,
            resolving: names::resolving(dir.path())?,
            dir: dir.path().to_owned(),
            client: client.clone(),
            namespace: namespace.to_owned(),
            ports,
            proxy: peers.address(),
            addresses: Arc::clone(&addresses),
            places: Arc::clone(&places),
            starts: Arc::clone(&starts),
            runs: [None, None, None],
            instead: instead
                .iter()
                .map(|(flag, value)| ((*flag).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let task = tokio::spawn(stage.play());
        Ok(Some(Self {
            ports,
            addresses,
            places,
            starts,
            task,
            _peers: peers,
            dir,
        }))
    }

    /// Leads to these members where their Services are dialled, and to others as `beside` does.
    pub(crate) fn dial(&self, beside: Dial) -> Dial {
        let (addresses, ports) = (Arc::clone(&self.addresses), self.ports);
        Arc::new(move |namespace: &str, address: SocketAddr| {
            let seats = addresses.lock().unwrap();
            match seats.get(&address.ip()) {
                Some(seat) => SocketAddr::from((Ipv4Addr::LOCALHOST, ports[*seat].http)),
                None => beside(namespace, address),
            }
        })
    }

    /// A file that goes with them.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Volumes of a member that are made from now on lie in this folder.
    pub(crate) fn place(&self, seat: usize, folder: &Path) {
        let mut places = self.places.lock().unwrap();
        places.insert(seat, folder.to_owned());
    }

    /// Takes everything away that is on the volume of a claim, under the process that has it.
    pub(crate) fn empty(&self, claim_uid: &str) -> Result<()> {
        let volume = self.dir.path().join("volumes").join(claim_uid);
        // At once: etcd makes files there.
        let aside = volume.with_extension("taken-away");
        std::fs::rename(&volume, aside).with_context(|| format!("cannot empty {volume:?}"))
    }

    /// Starts a member no more until it is released, as where its pod waits for a node or an image.
    pub(crate) fn hold(&self, seat: usize) {
        self.starts.lock().unwrap().held.insert(seat);
    }

    /// Starts it again.
    pub(crate) fn release(&self, seat: usize) {
        self.starts.lock().unwrap().held.remove(&seat);
    }

    /// A copy of the volume of a claim as it is now, as a snapshot is.
    pub(crate) fn copy(&self, claim_uid: &str) -> Result<PathBuf> {
        let copy = self.file(&format!("copy-of-{claim_uid}"));
        let status = std::process::Command::new("cp")
            .args(["--archive", "--sparse=always", "--no-target-directory"])
            .args([&self.volume(claim_uid), &copy])
            .status()?;
        anyhow::ensure!(status.success(), "cp: {status}");
        Ok(copy)
    }

    /// Puts a copy in the place of the volume of a member that does not run.
    pub(crate) fn set_back(&self, seat: usize, claim_uid: &str, copy: &Path) -> Result<()> {
        self.empty(claim_uid)?;
        std::fs::rename(copy, self.volume(claim_uid))?;
        self.starts.lock().unwrap().judged.insert(seat);
        Ok(())
    }

    /// Where the volume of a claim is.
    pub(crate) fn volume(&self, claim_uid: &str) -> PathBuf {
        self.dir.path().join("volumes").join(claim_uid)
    }

    /// What the processes wrote last, for the message of a failed wait.
    pub(crate) fn last_words(&self) -> String {
        let mut said = String::new();
        for seat in 0..MEMBERS {
            let log = std::fs::read(self.file(&format!("etcd-{seat}.log"))).unwrap_or_default();
            let from = log.len().saturating_sub(LAST_WORDS);
            let words = String::from_utf8_lossy(&log[from..]);
            let _ = writeln!(said, "etcd-{seat} of {:?}: {words}", self.ports[seat]);
        }
        said
    }

    /// Where a member answers clients.
    pub(crate) fn client_url(&self, seat: usize) -> String {
        format!("https://127.0.0.1:{}", self.ports[seat].client)
    }

    /// Flips a bit of each of these bytes, wherever they are in the files of a volume's directory, under the process that
    /// has it; says how often they were there.
    pub(crate) fn flip(&self, claim_uid: &str, directory: &str, bytes: &[u8]) -> Result<usize> {
        let volume = self.dir.path().join("volumes").join(claim_uid);
        volume::flip(&volume.join("data/member").join(directory), bytes)
    }

    /// Where a member's JSON gateway is.
    pub(crate) fn gateway(&self, seat: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[seat].http))
    }
}

impl Drop for EtcdMembers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Stage {
    etcd: PathBuf,
    /// What etcd is begun by.
    resolving: Vec<String>,
    dir: PathBuf,
    client: Client,
    namespace: String,
    ports: [Ports; MEMBERS],
    proxy: SocketAddr,
    addresses: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    places: Arc<Mutex<BTreeMap<usize, PathBuf>>>,
    starts: Arc<Mutex<Starts>>,
    runs: [Option<Run>; MEMBERS],
    instead: BTreeMap<String, String>,
}

/// What runs in a pod.
struct Run {
    pod: String,
    claim: String,
    process: Option<Process>,
    /// When it ended last.
    ended: Option<Instant>,
    told: Option<Told>,
    /// Whether it is ready, and since when it is, or is not.
    ready: Option<(bool, Timestamp)>,
    /// What etcd said last, and its exit code.
    last_words: Option<(i32, String)>,
}

/// Most bytes that a kubelet takes of a container's log for why it ended (`FallbackToLogsOnError`).
const LAST_WORDS: usize = 2048;

impl Stage {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        <K as kube::Resource>::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Changes of one of the kinds that a look reads.
    fn changes<K>(&self) -> BoxStream<'static, ()>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Send + 'static,
        <K as kube::Resource>::DynamicType: Default,
    {
        let changes = watcher::watcher(self.api::<K>(), Config::default());
        changes.default_backoff().map(drop).boxed()
    }

    async fn play(mut self) {
        let changes = stream::select_all([
            self.changes::<StatefulSet>(),
            self.changes::<Service>(),
            self.changes::<Pod>(),
            self.changes::<PersistentVolumeClaim>(),
            self.changes::<Secret>(),
        ]);
        // One look for all that came meanwhile, also of its own.
        let mut changes = changes.ready_chunks(EVENTS);
        let mut looks = tokio::time::interval(LOOK);
        let mut is_due = true;
        loop {
            tokio::select! {
                Some(_) = changes.next() => is_due = true,
                _ = looks.tick() => {}
            }
            // At rest the API is asked nothing: a look is a dozen requests.
            if !is_due && !self.has_changed().await {
                continue;
            }
            is_due = false;
            if let Err(error) = self.look().await {
                eprintln!("the members of etcd could not be played: {error:#}");
                is_due = true;
            }
        }
    }

    /// Whether a process is to be started, or has ended, or serves or does not where it was told otherwise.
    async fn has_changed(&mut self) -> bool {
        for seat in 0..MEMBERS {
            let Some(run) = &mut self.runs[seat] else {
                continue;
            };
            let Some(told) = &run.told else {
                return true;
            };
            let (was_ready, is_refused) = (told.ready, told.refused.is_some());
            let is_due = match &mut run.process {
                Some(process) => process.exited().is_some(),
                None => !is_refused && run.ended.is_none_or(|ended| ended.elapsed() >= PAUSE),
            };
            if is_due || self.is_ready(seat).await != was_ready {
                return true;
            }
        }
        false
    }

    async fn look(&mut self) -> Result<()> {
        let Some(set) = self.api::<StatefulSet>().get_opt("etcd").await? else {
            return Ok(());
        };
        if set.metadata.deletion_timestamp.is_some() {
            // Its pods are nobody's then, and it goes; the next one takes them.
            let patch = json!({ "metadata": { "finalizers": null } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            let sets = self.api::<StatefulSet>();
            return match sets.patch("etcd", &params, &patch).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                patched => patched.map(drop).context("cannot let the StatefulSet go"),
            };
        }
        let replicas = set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
        let mut ready = 0;
        for seat in 0..MEMBERS {
            ready += i32::from(self.member(seat, &set).await?);
        }
        let status = set.status.clone().unwrap_or_default();
        let generation = set.metadata.generation;
        if status.ready_replicas.unwrap_or(0) != ready || status.observed_generation != generation {
            let status = json!({ "status": {
                "observedGeneration": generation, "replicas": replicas, "readyReplicas": ready,
                "availableReplicas": ready, "updatedReplicas": replicas,
            } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
            let sets = self.api::<StatefulSet>();
            sets.patch_status("etcd", &params, &patch).await?;
        }
        Ok(())
    }

    /// Whether it is ready.
    async fn member(&mut self, seat: usize, set: &StatefulSet) -> Result<bool> {
        self.find_address(seat).await?;
        let name = format!("etcd-{seat}");
        let pod = self.api::<Pod>().get_opt(&name).await?;
        let pod = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let pod_uid = pod.as_ref().and_then(|pod| pod.uid());
        if self.runs[seat].as_ref().map(|run| &run.pod) != pod_uid.as_ref() {
            // Its process ends with it.
            self.runs[seat] = None;
        }
        let Some(claim) = self.claim(seat, set, pod_uid.is_some()).await? else {
            return Ok(false);
        };
        let (Some(pod), Some(pod_uid)) = (pod, pod_uid) else {
            return Ok(false);
        };
        // As it is once there is a pod: whoever told it something ended the one before after that.
        let Some(secret) = self.api::<Secret>().get_opt("etcd").await? else {
            return Ok(false);
        };
        let run = self.runs[seat].get_or_insert_with(|| Run {
            pod: pod_uid,
            claim: claim.clone(),
            process: None,
            ended: None,
            told: None,
            ready: None,
            last_words: None,
        });
        if run.claim != claim {
            // It mounts one that is gone.
            return self.tell(seat, &pod, false, None).await.map(|()| false);
        }
        let refusal = self.start(seat, &claim, (set, &secret))?;
        let is_ready = refusal.is_none() && self.is_ready(seat).await;
        self.tell(seat, &pod, is_ready, refusal).await?;
        Ok(is_ready)
    }

    async fn find_address(&self, seat: usize) -> Result<()> {
        let service = self
            .api::<Service>()
            .get_opt(&format!("etcd-{seat}"))
            .await?;
        let address = service.and_then(|service| service.spec?.cluster_ip?.parse().ok());
        if let Some(address) = address {
            self.addresses.lock().unwrap().insert(address, seat);
        }
        Ok(())
    }

    /// UID of its claim. One that is to go goes once nothing uses it, and its volume with it; where a pod needs
    /// one and there is none, it is made.
    async fn claim(
        &self,
        seat: usize,
        set: &StatefulSet,
        is_needed: bool,
    ) -> Result<Option<String>> {
        let claims = self.api::<PersistentVolumeClaim>();
        let name = format!("data-etcd-{seat}");
        let Some(claim) = claims.get_opt(&name).await? else {
            let templates = set
                .spec
                .as_ref()
                .and_then(|s| s.volume_claim_templates.as_ref());
            let template = templates.and_then(|templates| templates.first());
            if let Some(template) = template.filter(|_| is_needed) {
                let mut claim = template.clone();
                claim.metadata.name = Some(name);
                claim.metadata.namespace = None;
                let made = claims.create(&PostParams::default(), &claim).await;
                if let Err(kube::Error::Api(status)) = made
                    && status.code != 409
                {
                    anyhow::bail!("{status:?}");
                }
            }
            return Ok(None);
        };
        let uid = claim.uid().context("a claim has a UID")?;
        if claim.metadata.deletion_timestamp.is_none() {
            let volume = claim.spec.as_ref().and_then(|s| s.volume_name.as_ref());
            if is_needed && volume.is_none() {
                // It is bound once a pod needs it.
                let patch = json!({ "spec": { "volumeName": volume_of(&uid) } });
                let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
                claims.patch(&name, &params, &patch).await?;
            }
            return Ok(Some(uid));
        }
        let is_used = self.runs[seat].as_ref().is_some_and(|run| run.claim == uid);
        if is_used {
            return Ok(Some(uid));
        }
        let _ = std::fs::remove_dir_all(self.volume(&uid));
        let patch = json!({ "metadata": { "finalizers": null } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        match claims.patch(&name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            patched => patched.map(|_| None).context("cannot let a claim go"),
        }
    }

    fn volume(&self, claim: &str) -> PathBuf {
        self.dir.join("volumes").join(claim)
    }

    /// Starts the gate and etcd where they do not run; what the gate says where it refuses.
    fn start(
        &mut self,
        seat: usize,
        claim: &str,
        (set, secret): (&StatefulSet, &Secret),
    ) -> Result<Option<Refusal>> {
        let own = own_flags(set, &self.instead);
        let volume = self.volume(claim);
        let Some(run) = &mut self.runs[seat] else {
            return Ok(None);
        };
        if let Some(process) = &mut run.process {
            if let Some(status) = process.exited() {
                let words = process.log_tail(80);
                let from = words.len().saturating_sub(LAST_WORDS);
                let words = String::from_utf8_lossy(&words.as_bytes()[from..]).into_owned();
                eprintln!("etcd-{seat} ended ({status}):\n{words}");
                run.last_words = Some((status.code().unwrap_or(137), words));
                run.process = None;
                run.ended = Some(Instant::now());
            }
            return Ok(None);
        }
        let (is_held, is_judged) = {
            let starts = self.starts.lock().unwrap();
            (starts.held.contains(&seat), starts.judged.contains(&seat))
        };
        if is_held || run.ended.is_some_and(|ended| ended.elapsed() < PAUSE) {
            return Ok(None);
        }
        // A pod that was refused is not asked again here: that takes a kubelet minutes after a while.
        if let Some(refusal) = run.told.as_ref().and_then(|told| told.refused) {
            return Ok(Some(refusal));
        }
        let files = secret.data.clone().unwrap_or_default();
        let identity = files.get("identity.json").context("no identity")?;
        let (text, identity) = (
            &identity.0,
            serde_json::from_slice::<Identity>(&identity.0)?,
        );
        let name = format!("etcd-{seat}");
        let pod = self.dir.join("pods").join(&run.pod);
        std::fs::create_dir_all(&pod)?;
        if identity.restore.is_some() && !lets_start(&name, text, &pod, &volume)? {
            return Ok(Some(LOST));
        }
        match verdict(&identity, &name, claim, &volume) {
            Verdict::Starts => {}
            Verdict::Refused => return Ok(Some(LOST)),
            Verdict::Unnamed => return Ok(Some(UNNAMED)),
        }
        let is_judged = is_judged && identity.says_what_it_had(&name);
        if is_judged && !lets_start(&name, text, &pod, &volume)? {
            return Ok(Some(OUTDATED));
        }
        let place = self.places.lock().unwrap().get(&seat).cloned();
        if let Some(place) = place.filter(|_| !volume.exists()) {
            std::fs::create_dir_all(place.join(claim))?;
            std::fs::create_dir_all(self.dir.join("volumes"))?;
            symlink(place.join(claim), &volume)?;
        }
        std::fs::create_dir_all(&volume)?;
        let dir = self.dir.join("pods").join(&run.pod);
        std::fs::create_dir_all(&dir)?;
        for (file, bytes) in &files {
            std::fs::write(dir.join(file), &bytes.0)?;
        }
        let text = |file: &str| {
            let bytes = files.get(file).map(|bytes| bytes.0.clone());
            String::from_utf8(bytes.unwrap_or_default())
        };
        let cluster = (text("initial-cluster-state")?, text("initial-cluster")?);
        let mut args = self.resolving.clone();
        args.push(format!("HTTPS_PROXY=http://{}", self.proxy));
        args.push(self.etcd.display().to_string());
        args.extend(flags(&name, &cluster, self.ports[seat], (&dir, &volume)));
        args.extend(own);
        let log = self.dir.join(format!("{name}.log"));
        run.process = Some(Process::spawn(&name, "/usr/bin/env".as_ref(), &args, &log)?);
        Ok(None)
    }

    async fn is_ready(&self, seat: usize) -> bool {
        let runs = self.runs[seat]
            .as_ref()
            .is_some_and(|run| run.process.is_some());
        runs && peers::answers(self.ports[seat].metrics, "/readyz").await
    }

    /// Says in the pod's status how it is.
    async fn tell(
        &mut self,
        seat: usize,
        pod: &Pod,
        ready: bool,
        refused: Option<Refusal>,
    ) -> Result<()> {
        let Some(run) = &mut self.runs[seat] else {
            return Ok(());
        };
        let told = Told {
            runs: run.process.is_some(),
            ready,
            refused,
            last_words: run.last_words.clone(),
        };
        if run.told.as_ref() == Some(&told) {
            return Ok(());
        }
        let since = run.ready.filter(|(before, _)| *before == ready);
        let since = since.unwrap_or((ready, Timestamp::now())).1;
        run.ready = Some((ready, since));
        let status = told.status(since);
        run.told = Some(told);
        let pods = self.api::<Pod>();
        let (name, params) = (pod.name_any(), PatchParams::default());
        let patch = Patch::Merge(&status);
        match pods.patch_status(&name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            told => told.map(drop).context("cannot write a pod's status"),
        }
    }
}

/// Name of the PersistentVolume of a claim.
pub(crate) fn volume_of(claim_uid: &str) -> String {
    format!("pv-{claim_uid}")
}
