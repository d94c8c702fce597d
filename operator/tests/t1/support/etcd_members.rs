//! Plays the members of a tenant cluster's etcd with real etcd processes: what the kubelet, the StatefulSet's
//! controller, the storage and the start gate do of it.
//!
//! Members have the certificates, names and URLs that they have in a cluster. Peers find each other by a
//! proxy, as they would by DNS.
//! Invariant: a volume lives as long as its claim, and only one process has it; a process ends with its pod.

mod flags;
mod peers;
mod volume;
mod writer;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Config};
use kube::{Api, Client, ResourceExt as _};
use operator::tenant_session::session::Dial;
use serde_json::json;
use testkit::process::{Process, Workdir};
use testkit::programs::Programs;
use tokio::task::JoinHandle;

use self::flags::{flags, own_flags};
use self::peers::Peers;
use self::volume::{Identity, Verdict, takes_over, verdict};
pub(crate) use self::writer::{Writer, delete_flood, has_all, members, put_flood};

/// Members of the etcd that is played.
pub(crate) const MEMBERS: usize = 3;
/// How often a kubelet looks at what runs.
const LOOK: Duration = Duration::from_millis(250);
/// How long a kubelet waits before it starts a container that ended.
const PAUSE: Duration = Duration::from_secs(2);

/// Where a member listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    client: u16,
    http: u16,
    peer: u16,
    metrics: u16,
}

/// Members that are played until this is dropped.
pub(crate) struct EtcdMembers {
    ports: [Ports; MEMBERS],
    addresses: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    task: JoinHandle<()>,
    _peers: Peers,
    dir: Workdir,
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
        let stage = Stage {
            etcd: programs.etcd,
            dir: dir.path().to_owned(),
            client: client.clone(),
            namespace: namespace.to_owned(),
            ports,
            proxy: peers.address(),
            addresses: Arc::clone(&addresses),
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

    /// Takes everything away that is on the volume of a claim, under the process that has it.
    pub(crate) fn empty(&self, claim_uid: &str) -> Result<()> {
        let volume = self.dir.path().join("volumes").join(claim_uid);
        // At once: etcd makes files there.
        let aside = volume.with_extension("taken-away");
        std::fs::rename(&volume, aside).with_context(|| format!("cannot empty {volume:?}"))
    }

    /// Where the volume of a claim is.
    pub(crate) fn volume(&self, claim_uid: &str) -> PathBuf {
        self.dir.path().join("volumes").join(claim_uid)
    }

    /// Where a member answers clients.
    pub(crate) fn client_url(&self, seat: usize) -> String {
        format!("https://127.0.0.1:{}", self.ports[seat].client)
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

/// Below those that the kernel gives connections of (`net.ipv4.ip_local_port_range`, 32768 to 60999): a member that is
/// restarted binds its ports anew, and meanwhile a connection of another test may have got one. A test is a process
/// here, and each begins at another number.
fn ports() -> Result<[Ports; MEMBERS]> {
    const FIRST: u32 = 12_000;
    const MOST: u32 = 20_000;
    // Four of each member.
    const EACH: u32 = 12;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Held together, so that they differ.
    let mut held = Vec::new();
    let mut port = || -> Result<u16> {
        for _ in 0..MOST {
            let offset = std::process::id() * EACH + NEXT.fetch_add(1, Ordering::Relaxed);
            let port = u16::try_from(FIRST + offset % MOST)?;
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                held.push(listener);
                return Ok(port);
            }
        }
        anyhow::bail!("no free port")
    };
    let mut all = || -> Result<Ports> {
        Ok(Ports {
            client: port()?,
            http: port()?,
            peer: port()?,
            metrics: port()?,
        })
    };
    Ok([all()?, all()?, all()?])
}

struct Stage {
    etcd: PathBuf,
    dir: PathBuf,
    client: Client,
    namespace: String,
    ports: [Ports; MEMBERS],
    proxy: SocketAddr,
    addresses: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
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
    told: Option<(bool, bool)>,
}

impl Stage {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        <K as kube::Resource>::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn play(mut self) {
        let pods = watcher::watcher(self.api::<Pod>(), Config::default()).map(drop);
        let claims = watcher::watcher(self.api::<PersistentVolumeClaim>(), Config::default());
        let mut changes = stream::select(pods.boxed(), claims.map(drop).boxed());
        let mut looks = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = changes.next() => {}
                _ = looks.tick() => {}
            }
            if let Err(error) = self.look().await {
                eprintln!("the members of etcd could not be played: {error:#}");
            }
        }
    }

    async fn look(&mut self) -> Result<()> {
        let Some(set) = self.api::<StatefulSet>().get_opt("etcd").await? else {
            return Ok(());
        };
        let Some(secret) = self.api::<Secret>().get_opt("etcd").await? else {
            return Ok(());
        };
        let mut ready = 0;
        for seat in 0..MEMBERS {
            ready += i32::from(self.member(seat, &set, &secret).await?);
        }
        let status = set.status.clone().unwrap_or_default();
        let generation = set.metadata.generation;
        if status.ready_replicas.unwrap_or(0) != ready || status.observed_generation != generation {
            let status = json!({ "status": {
                "observedGeneration": generation, "replicas": 3, "readyReplicas": ready,
                "availableReplicas": ready, "updatedReplicas": 3,
            } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
            let sets = self.api::<StatefulSet>();
            sets.patch_status("etcd", &params, &patch).await?;
        }
        Ok(())
    }

    /// Whether it is ready.
    async fn member(&mut self, seat: usize, set: &StatefulSet, secret: &Secret) -> Result<bool> {
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
        let run = self.runs[seat].get_or_insert_with(|| Run {
            pod: pod_uid,
            claim: claim.clone(),
            process: None,
            ended: None,
            told: None,
        });
        if run.claim != claim {
            // It mounts one that is gone.
            return self.tell(seat, &pod, false, false).await.map(|()| false);
        }
        let is_refused = self.start(seat, &claim, (set, secret))?;
        let is_ready = !is_refused && self.is_ready(seat).await;
        self.tell(seat, &pod, is_ready, is_refused).await?;
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

    /// Starts the gate and etcd where they do not run; true where the gate refuses.
    fn start(
        &mut self,
        seat: usize,
        claim: &str,
        (set, secret): (&StatefulSet, &Secret),
    ) -> Result<bool> {
        let own = own_flags(set, &self.instead);
        let volume = self.volume(claim);
        let Some(run) = &mut self.runs[seat] else {
            return Ok(false);
        };
        if let Some(process) = &mut run.process {
            if process.exited().is_some() {
                eprintln!("etcd-{seat} ended:\n{}", process.log_tail(3));
                run.process = None;
                run.ended = Some(Instant::now());
            }
            return Ok(false);
        }
        if run.ended.is_some_and(|ended| ended.elapsed() < PAUSE) {
            return Ok(false);
        }
        // A pod that was refused is not asked again here: that takes a kubelet minutes after a while.
        if matches!(run.told, Some((_, true))) {
            return Ok(true);
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
        if identity.restore.is_some() && !takes_over(&name, text, &pod, &volume)? {
            return Ok(true);
        }
        if verdict(&identity, &name, claim, &volume) == Verdict::Refused {
            return Ok(true);
        }
        std::fs::create_dir_all(&volume)?;
        let dir = self.dir.join("pods").join(&run.pod);
        std::fs::create_dir_all(&dir)?;
        let mut state = "existing".to_owned();
        for (file, bytes) in &files {
            std::fs::write(dir.join(file), &bytes.0)?;
            if file == "initial-cluster-state" {
                state = String::from_utf8(bytes.0.clone())?;
            }
        }
        let proxy = format!("HTTPS_PROXY=http://{}", self.proxy);
        let mut args = vec![proxy, self.etcd.display().to_string()];
        args.extend(flags(&name, &state, self.ports[seat], (&dir, &volume)));
        args.extend(own);
        let log = self.dir.join(format!("{name}.log"));
        run.process = Some(Process::spawn(&name, "/usr/bin/env".as_ref(), &args, &log)?);
        Ok(false)
    }

    async fn is_ready(&self, seat: usize) -> bool {
        let runs = self.runs[seat]
            .as_ref()
            .is_some_and(|run| run.process.is_some());
        runs && peers::answers(self.ports[seat].metrics, "/readyz").await
    }

    /// Says in the pod's status how it is.
    async fn tell(&mut self, seat: usize, pod: &Pod, ready: bool, refused: bool) -> Result<()> {
        let Some(run) = &mut self.runs[seat] else {
            return Ok(());
        };
        let before = run.told.replace((ready, refused));
        if before == Some((ready, refused)) {
            return Ok(());
        }
        let value = if ready { "True" } else { "False" };
        let ended = json!({ "terminated": { "exitCode": 10, "reason": "Error",
            "message": "VolumeLost: there is no data", "startedAt": null, "finishedAt": null } });
        let gate = json!([{ "name": "gate", "state": ended, "image": "", "imageID": "",
            "ready": false, "restartCount": 0 }]);
        let status = json!({ "status": {
            "conditions": [{ "type": "Ready", "status": value,
                "lastTransitionTime": Timestamp::now().to_string() }],
            "initContainerStatuses": if refused { gate } else { json!([]) },
        } });
        let pods = self.api::<Pod>();
        let (name, params) = (pod.name_any(), PatchParams::default());
        let patch = Patch::Merge(&status);
        match pods.patch_status(&name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            told => told.map(drop).context("cannot write a pod's status"),
        }
    }
}
