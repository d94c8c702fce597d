//! Golden starts, with the real etcd and kube-apiserver: what is in a tenant cluster that began so is what is in one that
//! began empty, and nothing that tells tenant clusters apart is shared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
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

use super::support::{Answer, Cluster, Member, Site, gate_with, listing, marker, new_cluster};

/// The operator's.
const FIELD_MANAGER: &str = "covey-operator";
/// So many of one start are measured; more with this variable.
const ROUNDS: &str = "COVEY_GOLDEN_ROUNDS";
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

/// What all of it needs.
struct Scene {
    site: Site,
    programs: Programs,
    golden: Golden,
}

/// A control plane: an etcd, and a kube-apiserver on it.
struct Plane {
    volume: PathBuf,
    cluster: Cluster,
    member: Member,
    server: Server,
    /// What the gate said.
    answer: Answer,
    /// Seconds from before the gate until etcd had a leader.
    etcd_s: f64,
    /// Processor seconds of etcd until the first write was there.
    etcd_cpu_s: f64,
}

/// A kube-apiserver.
struct Server {
    _process: Process,
    client: Client,
    /// Seconds from its start until `/readyz` answered, and until the first write was there.
    ready_s: f64,
    written_s: f64,
    /// Processor seconds until then.
    cpu_s: f64,
}

impl Scene {
    async fn new() -> Result<Option<Self>> {
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
        Ok(Some(Self {
            site,
            programs,
            golden,
        }))
    }

    /// What the operator says of a tenant cluster that never ran.
    fn told(&self, cluster: &Cluster) -> Value {
        let mut identity = new_cluster(1);
        identity["golden"] = json!({
            "file": self.golden.name,
            "sha256": self.golden.sha256,
            "token": cluster.token(),
            "peerURL": cluster.peer_url(0),
        });
        identity
    }

    fn gate(&self, volume: &Path, identity: &Value) -> Answer {
        let files = self.golden.path.parent().unwrap();
        let more = [
            format!("--golden-files={}", files.display()),
            format!("--etcdutl={}", self.site.folder().join("etcdutl").display()),
        ];
        gate_with(volume, "etcd-0", "new", identity, &more)
    }

    /// Starts one, empty or with the golden file.
    async fn plane(&self, name: &str, is_golden: bool) -> Result<Plane> {
        let volume = self.site.volume(name);
        let cluster = Cluster::new(name, 1)?;
        let identity = match is_golden {
            true => self.told(&cluster),
            false => new_cluster(1),
        };
        let begun = Instant::now();
        let answer = self.gate(&volume, &identity);
        let member = self.site.start(&[&volume], &cluster, &[]).await?.remove(0);
        let etcd_s = begun.elapsed().as_secs_f64();
        if is_golden {
            let keys = self.site.keys(&member)?;
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
        let server = self.serve(name, member.url()).await?;
        Ok(Plane {
            etcd_cpu_s: cpu_s(member.pid())?,
            volume,
            cluster,
            member,
            server,
            answer,
            etcd_s,
        })
    }

    async fn serve(&self, name: &str, etcd: &str) -> Result<Server> {
        let folder = self.site.volume(&format!("{name}-apiserver"));
        let port = unused()?;
        let flags = apiserver_flags(&folder, &Flags { etcd, port })?;
        let log = folder.join("log");
        let begun = Instant::now();
        let program = &self.programs.kube_apiserver;
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
    async fn bootstrapped(&self) -> Result<()> {
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
    async fn baked(&self) -> Result<BTreeMap<String, Value>> {
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
    fn keys(&self, site: &Site) -> Result<BTreeSet<String>> {
        let mut keys = site.keys(&self.member)?;
        // The name of the server's own lease is its host and a random one.
        keys.retain(|key| {
            !["/registry/leases/", "/registry/events/"]
                .iter()
                .any(|prefix| key.starts_with(prefix))
        });
        Ok(keys)
    }

    async fn uid(&self, kind: (&str, &str), name: &str) -> Result<String> {
        let all = list(&self.server.client, kind).await?;
        let object = all.get(name).with_context(|| format!("no {name}"))?;
        let uid = object["metadata"]["uid"].as_str();
        Ok(uid.context("it has no UID")?.to_owned())
    }
}

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
    let said = format!("GoldenStart: {}: etcd-0", scene.golden.name);
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
        ask_until("both have the same", PATIENCE, || async {
            let (one, two) = (cold.baked().await?, plane.baked().await?);
            let keys = (cold.keys(&scene.site)?, plane.keys(&scene.site)?);
            let differs = one
                .keys()
                .chain(two.keys())
                .find(|key| one.get(*key) != two.get(*key));
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
        .await?;
    }

    let mut clusters = BTreeSet::new();
    let mut uids = BTreeSet::new();
    for plane in [&cold, &golden, &other] {
        clusters.insert(scene.site.ids(&plane.member)?.0);
        uids.insert(plane.uid(("v1", "namespaces"), "/kube-system").await?);
        uids.insert(plane.uid(("v1", "services"), "default/kubernetes").await?);
    }
    assert_eq!(clusters.len(), 3, "{clusters:?}");
    assert_eq!(uids.len(), 6, "{uids:?}");
    say(&[&cold, &golden, &other]);
    Ok(())
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
    let size = fs::metadata(&scene.golden.path)?.len();
    print_line(&format!("{{\"goldenFileBytes\": {size}}}"));
    Ok(())
}

#[tokio::test]
async fn golden_start_is_a_first_start_and_its_data_is_held_to_afterwards() -> Result<()> {
    let Some(scene) = Scene::new().await? else {
        return Ok(());
    };
    let volume = scene.site.volume("volume");
    let cluster = Cluster::new("held", 1)?;
    let told = scene.told(&cluster);
    scene.gate(&volume, &told).is(0, "GoldenStart");
    assert!(!volume.join("covey-golden").exists());
    let said = marker(&volume);
    assert!(said["data"]["clusterID"].is_string(), "{said}");

    // Again, before etcd ever ran: the data is its own, and nothing is made anew.
    let before = listing(&volume);
    scene.gate(&volume, &told).is(0, "Start");
    assert_eq!(listing(&volume), before);
    let member = scene.site.start(&[&volume], &cluster, &[]).await?.remove(0);
    let (id, own) = scene.site.ids(&member)?;
    let ids = json!({ "clusterID": format!("{id:x}"), "memberID": format!("{own:x}") });
    assert_eq!(said["data"], ids);
    scene.site.put(&member, "a", "b")?;
    member.kill();

    // As a cold start of the same member: its identifiers are computed of the same.
    let empty = scene.site.volume("empty");
    scene.gate(&empty, &new_cluster(1)).is(0, "Start");
    let member = scene.site.start(&[&empty], &cluster, &[]).await?.remove(0);
    assert_eq!(scene.site.ids(&member)?, (id, own));
    member.kill();

    // Lost, although the operator never looked: no second golden start.
    let away = volume.join(".away");
    fs::rename(volume.join("data"), &away)?;
    scene.gate(&volume, &told).is(10, "VolumeLost");
    fs::rename(&away, volume.join("data"))?;
    scene.gate(&volume, &told).is(0, "Start");
    Ok(())
}

#[tokio::test]
async fn golden_file_that_cannot_be_used_leaves_a_cold_start_and_nothing_else() -> Result<()> {
    let Some(scene) = Scene::new().await? else {
        return Ok(());
    };
    let cluster = Cluster::new("bad", 1)?;
    let mut told = scene.told(&cluster);
    // A byte of it is another one than it was.
    let mut content = fs::read(&scene.golden.path)?;
    let at = content.len() / 2;
    content[at] ^= 1;
    fs::write(&scene.golden.path, &content)?;
    let volume = scene.site.volume("flipped");
    let answer = scene.gate(&volume, &told);
    answer.is(0, "Start");
    assert!(answer.line.contains("has SHA-256"), "{answer:?}");
    assert!(listing(&volume).is_empty());

    // And who configured it was wrong, too: etcdutl says it.
    told["golden"]["sha256"] = json!(backup_format::Digest::of(&content).to_string());
    let answer = scene.gate(&volume, &told);
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
    scene.gate(&volume, &told).is(0, "Start");
    assert!(listing(&volume).is_empty());
    let member = scene.site.start(&[&volume], &cluster, &[]).await?.remove(0);
    assert_eq!(scene.site.revision(&member)?, 1);
    Ok(())
}

/// All objects of a resource, by namespace and name.
async fn list(
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
async fn apply(client: &Client, object: &Value) -> Result<()> {
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

fn say(planes: &[&Plane]) {
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
                "volume": plane.volume.file_name().map(|name| name.to_string_lossy()),
                "token": plane.cluster.token(),
            })
            .to_string(),
        );
    }
}

#[expect(clippy::print_stderr, reason = "figures are for who asks for them")]
fn print_line(text: &str) {
    eprintln!("{text}");
}
