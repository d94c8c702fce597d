//! Control planes of an etcd and a kube-apiserver, empty or with a golden file, and what is in them.
//!
//! Invariant: each has folders, ports and a token of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use lab::golden::{Flags, Golden, Wanted, apiserver_flags};
use lab::programs::{KubernetesVersion, Program};
use serde_json::{Value, json};
use tenant_cp::golden_start;
use testkit::ports::unused;
use testkit::process::Process;
use testkit::programs::{Programs, or_skip};
use testkit::waiting::{PATIENCE, ask_until};

use crate::support::{Answer, Cluster, Member, Site, gate_with, new_cluster};

/// The operator's.
const FIELD_MANAGER: &str = "covey-operator";
/// Kinds of what a golden file has, as they stand in paths.
const BAKED: [(&str, &str); 7] = [
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ("rbac.authorization.k8s.io/v1", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "rolebindings"),
    ("rbac.authorization.k8s.io/v1", "roles"),
    ("flowcontrol.apiserver.k8s.io/v1", "flowschemas"),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
    ),
    ("scheduling.k8s.io/v1", "priorityclasses"),
];

/// A golden file, and folders for whom it is given to.
pub(crate) struct Source {
    pub(crate) site: Site,
    /// The folder that it is in.
    files: PathBuf,
    pub(crate) name: String,
    sha256: String,
}

impl Source {
    /// With what a bare etcd has after three writes: enough for the gate, which looks at none of it. None, loudly, when
    /// etcd is not built.
    pub(crate) async fn bare() -> Result<Option<Self>> {
        let Some(site) = Site::new()? else {
            return Ok(None);
        };
        let files = site.volume("files");
        let (volume, cluster) = (site.volume("first"), Cluster::new("first", 1)?);
        let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
        for key in ["a", "b", "c"] {
            site.put(&member, &format!("/registry/roles/{key}"), key)?;
        }
        let name = "bare.db".to_owned();
        site.save(&member, &files.join(&name))?;
        member.kill();
        let sum = backup_format::Digest::of(&fs::read(files.join(&name))?);
        Ok(Some(Self {
            site,
            files,
            name,
            sha256: sum.to_string(),
        }))
    }

    /// The file itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.files.join(&self.name)
    }

    /// What the operator says of a tenant cluster that never ran.
    pub(crate) fn told(&self, cluster: &Cluster) -> Value {
        let mut identity = new_cluster(1);
        identity["golden"] = json!({
            "file": self.name,
            "sha256": self.sha256,
            "token": cluster.token(),
            "peerURL": cluster.peer_url(0),
        });
        identity
    }

    pub(crate) fn gate(&self, volume: &Path, identity: &Value) -> Answer {
        let more = [
            format!("--golden-files={}", self.files.display()),
            format!("--etcdutl={}", self.site.folder().join("etcdutl").display()),
        ];
        gate_with(volume, "etcd-0", "new", identity, &more)
    }
}

/// What control planes need.
pub(crate) struct Scene {
    pub(crate) source: Source,
    programs: Programs,
}

/// A control plane: an etcd, and a kube-apiserver on it.
pub(crate) struct Plane {
    pub(crate) volume: PathBuf,
    pub(crate) cluster: Cluster,
    pub(crate) member: Member,
    pub(crate) server: Server,
    /// What the gate said.
    pub(crate) answer: Answer,
    /// Seconds from before the gate until etcd had a leader.
    pub(crate) etcd_s: f64,
    /// Revisions until then: how often something was written.
    pub(crate) revisions: u64,
    /// Processor seconds of etcd until the first write was there.
    pub(crate) etcd_cpu_s: f64,
}

/// A kube-apiserver.
pub(crate) struct Server {
    pub(crate) _process: Process,
    pub(crate) client: Client,
    /// Seconds from its start until `/readyz` answered, and until the first write was there.
    pub(crate) ready_s: f64,
    pub(crate) written_s: f64,
    /// Processor seconds until then.
    pub(crate) cpu_s: f64,
}

impl Scene {
    pub(crate) async fn new() -> Result<Option<Self>> {
        let (Some(site), Some(programs)) = (Site::new()?, Programs::find_or_skip()?) else {
            return Ok(None);
        };
        let version = KubernetesVersion::V1_35;
        let wanted = [Program::ETCD, Program::kubernetes(version)];
        let Some(bins) = or_skip(lab::programs::find(&wanted))? else {
            return Ok(None);
        };
        let folder = site.volume("files");
        let objects = golden_start::objects();
        let wanted = Wanted {
            hash: golden_start::objects_hash(),
            field_manager: FIELD_MANAGER.to_owned(),
            keys: golden_start::KEYS.map(str::to_owned).to_vec(),
            objects: objects.into_iter().map(|object| object.value).collect(),
        };
        let make = move || lab::golden::ensure(&bins, version, &wanted, &folder);
        let golden = tokio::task::spawn_blocking(make).await??;
        let Golden {
            name, sha256, path, ..
        } = golden;
        let files = path.parent().context("it has no folder")?.to_owned();
        let source = Source {
            site,
            files,
            name,
            sha256,
        };
        Ok(Some(Self { source, programs }))
    }

    /// Has a plane served by another kube-apiserver, as an upgrade does.
    pub(crate) async fn upgrade(&self, plane: &mut Plane, to: &Programs) -> Result<()> {
        let name = format!("{}-upgraded", plane.cluster.token());
        let url = plane.member.url().to_owned();
        plane.server = self.serve(&name, &url, &to.kube_apiserver).await?;
        Ok(())
    }

    /// Starts one, empty or with the golden file.
    pub(crate) async fn plane(&self, name: &str, is_golden: bool) -> Result<Plane> {
        let volume = self.source.site.volume(name);
        let cluster = Cluster::new(name, 1)?;
        let identity = match is_golden {
            true => self.source.told(&cluster),
            false => new_cluster(1),
        };
        let begun = Instant::now();
        let answer = self.source.gate(&volume, &identity);
        let member = self
            .source
            .site
            .start(&[&volume], &cluster, &[])
            .await?
            .remove(0);
        let etcd_s = begun.elapsed().as_secs_f64();
        if is_golden {
            let keys = self.source.site.keys(&member)?;
            let foreign: Vec<_> = keys
                .iter()
                .filter(|key| {
                    !golden_start::KEYS
                        .iter()
                        .any(|baked| key.starts_with(baked))
                })
                .collect();
            assert!(foreign.is_empty() && keys.len() > 100, "{foreign:?}");
        }
        let base = self.source.site.revision(&member)?;
        let server = self
            .serve(name, member.url(), &self.programs.kube_apiserver)
            .await?;
        let revisions = self.source.site.revision(&member)?.saturating_sub(base);
        Ok(Plane {
            etcd_cpu_s: cpu_s(member.pid())?,
            revisions,
            volume,
            cluster,
            member,
            server,
            answer,
            etcd_s,
        })
    }

    async fn serve(&self, name: &str, etcd: &str, program: &Path) -> Result<Server> {
        let folder = self.source.site.volume(&format!("{name}-apiserver"));
        let port = unused()?;
        let flags = apiserver_flags(&folder, &Flags { etcd, port })?;
        let log = folder.join("log");
        let begun = Instant::now();
        let mut process = Process::spawn("kube-apiserver", program, &flags.args, &log)?;
        ask_until("its certificate is there", PATIENCE, || {
            let ended = process.exited();
            let text = fs::read_to_string(&flags.certificate).unwrap_or_default();
            std::future::ready(match (ended, text.contains("END CERTIFICATE")) {
                (Some(_), _) => Err(anyhow::anyhow!(process.log_tail(10))),
                (None, true) => Ok(Ok(())),
                (None, false) => Ok(Err("no certificate".to_owned())),
            })
        })
        .await?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{ "name": "a", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": flags.certificate,
            } }],
            "users": [{ "name": "a", "user": { "token": flags.token } }],
            "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        });
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string())?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let client = Client::try_from(config)?;
        let ready = async {
            // What is measured is to be seen at once.
            let mut looks = tokio::time::interval(Duration::from_millis(10));
            loop {
                looks.tick().await;
                let request = http::Request::get("/readyz").body(Vec::new())?;
                if client.request_text(request).await.is_ok() {
                    return anyhow::Ok(());
                }
            }
        };
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        ready.with_context(|| format!("it is not ready:\n{}", process.log_tail(10)))??;
        let ready_s = begun.elapsed().as_secs_f64();
        apply(
            &client,
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "first" } }),
        )
        .await?;
        let written_s = begun.elapsed().as_secs_f64();
        Ok(Server {
            cpu_s: cpu_s(process.pid())?,
            _process: process,
            client,
            ready_s,
            written_s,
        })
    }
}

impl Plane {
    /// Has the operator's objects of a golden file applied, as it does in every tenant cluster.
    pub(crate) async fn bootstrapped(&self) -> Result<()> {
        let client = &self.server.client;
        ask_until("its namespaces are there", PATIENCE, || async {
            let all = list(client, ("v1", "namespaces")).await?;
            let names: BTreeSet<_> = all.keys().map(String::as_str).collect();
            let wanted = ["/kube-node-lease", "/kube-public", "/kube-system"];
            Ok(match wanted.iter().all(|name| names.contains(name)) {
                true => Ok(()),
                false => Err(format!("{names:?}")),
            })
        })
        .await?;
        for object in golden_start::objects() {
            apply(client, &object.value).await?;
        }
        Ok(())
    }

    /// What it has of the kinds of a golden file, without what no two have alike.
    pub(crate) async fn baked(&self) -> Result<BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        for kind in BAKED {
            let found = list(&self.server.client, kind).await?;
            all.extend(found.into_iter().map(|(name, mut object)| {
                strip(&mut object);
                (format!("{} {name}", kind.1), object)
            }));
        }
        Ok(all)
    }

    /// Names of all keys but those that nobody chose.
    pub(crate) fn keys(&self, site: &Site) -> Result<BTreeSet<String>> {
        let mut keys = site.keys(&self.member)?;
        // The name of the server's own lease is its host and a random one.
        keys.retain(|key| {
            !["/registry/leases/", "/registry/events/"]
                .iter()
                .any(|prefix| key.starts_with(prefix))
        });
        Ok(keys)
    }

    pub(crate) async fn uid(&self, kind: (&str, &str), name: &str) -> Result<String> {
        let all = list(&self.server.client, kind).await?;
        let object = all.get(name).with_context(|| format!("no {name}"))?;
        let uid = object["metadata"]["uid"].as_str();
        Ok(uid.context("it has no UID")?.to_owned())
    }
}

/// All objects of a resource, by namespace and name.
pub(crate) async fn list(
    client: &Client,
    (version, resource): (&str, &str),
) -> Result<BTreeMap<String, Value>> {
    let root = if version == "v1" { "/api" } else { "/apis" };
    let request = http::Request::get(format!("{root}/{version}/{resource}")).body(Vec::new())?;
    let found: Value = client.request(request).await?;
    let items = found["items"].as_array().context("not a list")?;
    let named = items.iter().map(|object| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        (
            format!("{}/{}", text("namespace"), text("name")),
            object.clone(),
        )
    });
    Ok(named.collect())
}

/// Applies an object as the operator does.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().context("it has no kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.metadata.name.clone().context("it has no name")?;
    let how = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(&name, &how, &Patch::Apply(&object)).await?;
    Ok(())
}

/// Takes away what no two objects have alike.
fn strip(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
        let managers = metadata
            .get_mut("managedFields")
            .and_then(Value::as_array_mut);
        for manager in managers.into_iter().flatten() {
            manager["time"] = Value::Null;
        }
    }
    let conditions = object.pointer_mut("/status/conditions");
    for condition in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        condition["lastTransitionTime"] = Value::Null;
    }
}

/// Processor seconds that a process and its threads took so far (proc_pid_stat(5)).
fn cpu_s(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("not a line of /proc")?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u32>().ok());
    let (user, system) = (ticks(11).context("no time")?, ticks(12).context("no time")?);
    // Linux counts in hundredths for whoever asks here.
    Ok(Duration::from_millis(10).as_secs_f64() * f64::from(user + system))
}

pub(crate) fn say(planes: &[&Plane]) {
    for plane in planes {
        let server = &plane.server;
        let is_golden = plane.answer.line.starts_with("Golden");
        print_line(
            &json!({
                "golden": is_golden,
                "etcdSeconds": plane.etcd_s,
                "readySeconds": plane.etcd_s + server.ready_s,
                "writtenSeconds": plane.etcd_s + server.written_s,
                "apiserverReadySeconds": server.ready_s,
                "apiserverCpuSeconds": server.cpu_s,
                "etcdCpuSeconds": plane.etcd_cpu_s,
                "revisions": plane.revisions,
                "volume": plane.volume.file_name().map(|name| name.to_string_lossy()),
                "token": plane.cluster.token(),
            })
            .to_string(),
        );
    }
}

#[expect(clippy::print_stderr, reason = "figures are for who asks for them")]
pub(crate) fn print_line(text: &str) {
    eprintln!("{text}");
}
