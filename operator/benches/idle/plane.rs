//! The programs of one tenant cluster's pods as processes on loopback.
//!
//! Invariant: nothing but ports, folders and addresses is other than in a cluster, and what a variant changes.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::tenant_cluster::EndpointStatus;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kit_objects::object::Object;
use kube::Client;
use lab::programs::{Bins, KubernetesVersion, Program};
use operator::tenant_session::budget::Budget;
use operator::tenant_session::requests::apply_in_order;
use operator::tenant_session::session::Session;
use pki::KeyPair;
use serde_json::{Value, json};
use tenant_cp::certificates::{
    self, EtcdIdentity, EtcdMember, Generations, InitialClusterState, Material, ServiceAccountKeys,
};
use tenant_cp::generations::bundle;
use tenant_cp::validate::validate;
use tenant_cp::{Addresses, Settings, Validated, management_objects, names, tenant_objects};
use testkit::ports::unused;
use testkit::process::{Process, Workdir};
use testkit::waiting::ask_until;

use crate::figures::{self, Reading};
use crate::probes::{self, Probes};
use crate::variants::{Change, Variant};

/// A start beside others takes its time.
const PATIENCE: Duration = Duration::from_secs(120);
/// One request.
const LIMIT: Duration = Duration::from_secs(30);
const KUBERNETES: [&str; 3] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];
/// The only member.
const MEMBER: &str = "etcd-0";

/// Where the programs are.
struct Programs {
    bins: Bins,
    version: KubernetesVersion,
    has_konnectivity: bool,
}

impl Programs {
    fn find(minor: u64) -> Result<Self> {
        let start = format!("1.{minor}.");
        let version = KubernetesVersion::ALL
            .into_iter()
            .find(|version| version.full().starts_with(&start))
            .with_context(|| format!("the lab has no Kubernetes 1.{minor}"))?;
        let needed = [Program::ETCD, Program::kubernetes(version)];
        let all = [needed[0], needed[1], Program::KONNECTIVITY];
        let (bins, has_konnectivity) = match lab::programs::find(&all) {
            Ok(bins) => (bins, true),
            Err(error) => {
                eprintln!("without konnectivity: {error:#}");
                (lab::programs::find(&needed)?, false)
            }
        };
        Ok(Self {
            bins,
            version,
            has_konnectivity,
        })
    }

    fn path(&self, command: &str) -> Result<PathBuf> {
        let name = command.rsplit('/').next().unwrap_or(command);
        match KUBERNETES.contains(&name) {
            true => self.bins.kubernetes(name, self.version),
            false => self.bins.path(name),
        }
    }
}

/// Ports of one tenant cluster on loopback, in the place of those of its pods.
struct Ports(BTreeMap<u64, u16>);

impl Ports {
    fn new() -> Result<Self> {
        let of_pods = [
            names::API_PORT,
            names::ETCD_CLIENT_PORT,
            names::ETCD_PEER_PORT,
            names::ETCD_METRICS_PORT,
            names::ETCD_HTTP_PORT,
            names::KONNECTIVITY_PORT,
            names::KONNECTIVITY_ADMIN_PORT,
            names::KONNECTIVITY_HEALTH_PORT,
        ];
        let mut ports = BTreeMap::new();
        for port in of_pods {
            ports.insert(u64::try_from(port)?, unused()?);
        }
        Ok(Self(ports))
    }

    fn of(&self, port: u64) -> u16 {
        self.0.get(&port).copied().unwrap_or_default()
    }

    fn at(&self, port: i32) -> u16 {
        self.of(u64::try_from(port).unwrap_or_default())
    }

    /// Flags that name an address, each with what it is here.
    fn flags(&self, container: &str) -> Result<Vec<(&'static str, String)>> {
        let url = |scheme: &str, port| format!("{scheme}://127.0.0.1:{}", self.at(port));
        let client = url("https", names::ETCD_CLIENT_PORT);
        let peer = url("https", names::ETCD_PEER_PORT);
        Ok(match container {
            names::ETCD => vec![
                ("advertise-client-urls", client.clone()),
                ("initial-advertise-peer-urls", peer.clone()),
                ("initial-cluster", format!("{MEMBER}={peer}")),
                ("initial-cluster-state", "new".to_owned()),
                (
                    "listen-client-http-urls",
                    url("https", names::ETCD_HTTP_PORT),
                ),
                ("listen-client-urls", client),
                ("listen-metrics-urls", url("http", names::ETCD_METRICS_PORT)),
                ("listen-peer-urls", peer),
            ],
            names::API_SERVER => vec![
                ("bind-address", "127.0.0.1".to_owned()),
                ("etcd-servers", client),
                ("secure-port", self.at(names::API_PORT).to_string()),
            ],
            names::KONNECTIVITY_SERVER => vec![
                (
                    "admin-port",
                    self.at(names::KONNECTIVITY_ADMIN_PORT).to_string(),
                ),
                ("agent-port", self.at(names::KONNECTIVITY_PORT).to_string()),
                (
                    "health-port",
                    self.at(names::KONNECTIVITY_HEALTH_PORT).to_string(),
                ),
            ],
            // Those of others listen there, too.
            _ => vec![("secure-port", unused()?.to_string())],
        })
    }
}

/// One tenant cluster. Processes end before their folders go.
pub(crate) struct Plane {
    _probes: Vec<Probes>,
    processes: Vec<(String, Process)>,
    session: Session,
    _dir: Workdir,
}

/// What is the same for all containers.
struct Stage<'a> {
    programs: &'a Programs,
    ports: &'a Ports,
    secrets: &'a [Object],
    changes: &'a [Change<'a>],
    dir: &'a Workdir,
}

impl Plane {
    /// Starts all of it, and returns once its objects are laid.
    pub(crate) async fn start(variant: &Variant, minor: u64) -> Result<Self> {
        let (programs, changes) = (Programs::find(minor)?, variant.read()?);
        let (settings, ports) = (Settings::default(), Ports::new()?);
        let valid = tenant(&programs, &changes, &settings)?;
        let hosts = addresses(&valid);
        let material = material(&valid, &settings, &hosts)?;
        let secrets = certificates::leaf_secrets(&valid, &material, Some(&identity()));
        let workloads = management_objects::workloads(&valid, &settings, &hosts, &material);
        let (dir, mut processes, mut probes) = (Workdir::new()?, Vec::new(), Vec::new());
        let stage = Stage {
            programs: &programs,
            ports: &ports,
            secrets: &secrets,
            changes: &changes,
            dir: &dir,
        };
        let authority = bundle(&material.store, names::CA).context("no authority")?;
        let session = Session {
            address: (Ipv4Addr::LOCALHOST, ports.at(names::API_PORT)).into(),
            authority: authority.clone(),
            identity: administrator(&material)?,
            server_name: "kubernetes".to_owned(),
        };
        let times = changes.iter().find_map(|change| match change {
            Change::Probes(times) => Some(*times),
            _ => None,
        });
        for name in [names::ETCD, names::CONTROL_PLANE, names::CONTROLLERS] {
            let workload = workloads.iter().find(|object| object.name == name);
            let workload = workload.with_context(|| format!("no {name}"))?;
            let pod = &workload.value["spec"]["template"]["spec"];
            for container in running(pod) {
                let started = stage.start(pod, container)?;
                processes.push(started);
                if name == names::CONTROLLERS {
                    continue;
                }
                let times = times.unwrap_or(1);
                probes.push((container, times));
            }
            if name == names::CONTROL_PLANE {
                ready(&session, &mut processes).await?;
            }
        }
        let probes = probes.into_iter().map(|(container, times)| {
            probes::of_container(container, &authority, times, |port| ports.of(port))
        });
        let probes = probes.collect::<Result<Vec<_>>>()?;
        lay(&valid, &settings, &hosts, &material, &session).await?;
        Ok(Self {
            _probes: probes,
            processes,
            session,
            _dir: dir,
        })
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Ok(self.session.client_without_budget(LIMIT)?)
    }

    pub(crate) fn reading(&self) -> Result<Reading> {
        let each = self.processes.iter().map(|(name, process)| {
            let used = figures::of(process.pid());
            let log = || format!("{name}:\n{}", process.log_tail(20));
            Ok((name.clone(), used.with_context(log)?))
        });
        each.collect()
    }
}

/// Containers that go on running, in the order in which they start.
fn running(pod: &Value) -> impl Iterator<Item = &Value> {
    let list = |name: &str| pod[name].as_array().into_iter().flatten();
    let beside = list("initContainers").filter(|one| one["restartPolicy"] == "Always");
    beside.chain(list("containers"))
}

fn tenant(programs: &Programs, changes: &[Change<'_>], settings: &Settings) -> Result<Validated> {
    let mut spec = json!({
        "version": programs.version.full(),
        "network": { "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20" },
        "addons": { "konnectivity": { "enabled": programs.has_konnectivity } },
    });
    for change in changes {
        if let Change::Spec(change) = change {
            merge(&mut spec, change);
        }
    }
    let cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "spec": spec,
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "0a1b2c3d-0000-4000-8000-000000000000" },
    });
    match validate(&serde_json::from_value(cluster)?, settings) {
        Ok(valid) => Ok(valid),
        Err(problems) => bail!("{problems:?}"),
    }
}

fn merge(spec: &mut Value, change: &Value) {
    match (spec, change) {
        (Value::Object(spec), Value::Object(change)) => {
            for (key, value) in change {
                merge(spec.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (spec, change) => *spec = change.clone(),
    }
}

fn addresses(valid: &Validated) -> Addresses {
    let konnectivity = Ipv4Addr::new(10, 96, 0, 18).into();
    Addresses {
        cluster_ip: Ipv4Addr::new(10, 96, 0, 17).into(),
        konnectivity_ip: valid.addons.konnectivity.enabled.then_some(konnectivity),
        endpoint: Some(EndpointStatus {
            host: "demo.example.com".to_owned(),
            port: names::API_PORT,
        }),
    }
}

fn identity() -> EtcdIdentity {
    EtcdIdentity {
        state: InitialClusterState::New,
        cluster_id: None,
        restore: None,
        golden: None,
        members: vec![EtcdMember {
            name: MEMBER.to_owned(),
            claim_uid: "0a1b2c3d-0000-4000-8000-000000000001".to_owned(),
            member_id: None,
            may_start_empty: true,
            last_index: None,
        }],
    }
}

fn material(valid: &Validated, settings: &Settings, hosts: &Addresses) -> Result<Material> {
    let (mut material, now) = (Material::default(), Timestamp::now());
    let wants = certificates::wants(valid, settings, Some(hosts));
    let plan = certificates::plan(&wants, &material, false, now);
    pki::renew(&wants, &plan.due, &mut material.store, now)?;
    let (public, private) = pki::issue::key_pair()?;
    material.service_account = Generations::first(ServiceAccountKeys { public, private });
    let key = certificates::encryption_key(&pki::issue::random_bytes()?);
    material.encryption = Generations::first(key);
    Ok(material)
}

fn administrator(material: &Material) -> Result<KeyPair> {
    let signer = material.store.get(names::CLIENT_CA);
    let want = certificates::super_admin();
    Ok(pki::issue(&want, signer, Timestamp::now())?)
}

async fn ready(session: &Session, processes: &mut [(String, Process)]) -> Result<()> {
    ask_until("the API is ready", PATIENCE, || {
        let ended = processes.iter_mut().find_map(|(name, process)| {
            process
                .exited()
                .map(|_| format!("{name} ended:\n{}", process.log_tail(20)))
        });
        let client = session.client_without_budget(LIMIT);
        async move {
            if let Some(log) = ended {
                bail!(log);
            }
            let ready = Request::get("/readyz").body(Vec::new())?;
            let answer = client?.request_text(ready).await;
            Ok(answer.map(drop).map_err(|error| error.to_string()))
        }
    })
    .await
}

/// Lays what the operator lays inside.
async fn lay(
    valid: &Validated,
    settings: &Settings,
    hosts: &Addresses,
    material: &Material,
    session: &Session,
) -> Result<()> {
    let of = |name: &str| bundle(&material.store, name);
    let (authority, kubelets) = (of(names::CA), of(names::KUBELET_SERVING_CA));
    let konnectivity = of(names::KONNECTIVITY_AUTHORITY);
    let trust = tenant_objects::Trust {
        authority: authority.as_deref().unwrap_or_default(),
        kubelets: kubelets.as_deref(),
        konnectivity: konnectivity.as_deref(),
    };
    let wanted = tenant_objects::wanted(valid, settings, hosts, trust);
    let wanted: Vec<_> = wanted.iter().collect();
    let client = session.client(&Budget::waiting(PATIENCE))?;
    let applied = apply_in_order(&client, &wanted).await;
    Ok(applied.map_err(|left| left.error)?)
}

impl Stage<'_> {
    /// Starts a container's program.
    fn start(&self, pod: &Value, container: &Value) -> Result<(String, Process)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&container["name"]);
        let places = self.mounts(pod, container, &name)?;
        let moved = |text: &str| replaced(text, &places);
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let volume = volume(pod, &mount["name"]);
            let Some(secret) = volume.and_then(|volume| volume["secret"]["secretName"].as_str())
            else {
                continue;
            };
            let place = PathBuf::from(moved(&text(&mount["mountPath"])));
            for (file, content) in self.files(secret)? {
                std::fs::write(place.join(file), self.here(&moved(&content)))?;
            }
        }
        let arguments = container["args"].as_array().into_iter().flatten();
        let mut args: Vec<String> = arguments
            .map(|arg| moved(&text(arg).replace("$(POD_NAME)", MEMBER)))
            .collect();
        for (flag, value) in self.ports.flags(&name)? {
            set(&mut args, flag, Some(&value));
        }
        let mut variables = BTreeMap::from([("PROXY_SERVER_ID".to_owned(), "bench".to_owned())]);
        for variable in container["env"].as_array().into_iter().flatten() {
            if variable["value"].is_string() {
                variables.insert(text(&variable["name"]), text(&variable["value"]));
            }
        }
        let is_this = |program: &str| program == name || program == "all";
        for change in self.changes {
            match change {
                Change::Flag(program, flag, value) if is_this(program) => {
                    set(&mut args, flag, *value);
                }
                Change::Variable(program, variable, value) if is_this(program) => {
                    variables.insert((*variable).to_owned(), (*value).to_owned());
                }
                _ => {}
            }
        }
        let command = text(&container["command"][0]);
        let program = self.programs.path(&command)?;
        let log = self.dir.path().join(format!("{name}.log"));
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let process = Process::spawn_with(&name, &program, &args, &log, &variables)?;
        Ok((name, process))
    }

    /// Folders in the place of what is mounted: path in the container, and path here.
    fn mounts(&self, pod: &Value, container: &Value, name: &str) -> Result<Vec<(String, String)>> {
        let mut places = Vec::new();
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let (volume, path) = (mount["name"].as_str(), mount["mountPath"].as_str());
            let (volume, path) = (volume.unwrap_or_default(), path.unwrap_or_default());
            let is_secret = self::volume(pod, &mount["name"])
                .is_some_and(|volume| volume["secret"].is_object());
            // Containers see files of their own, and share what is written.
            let folder = match is_secret {
                true => format!("{name}-{volume}"),
                false => volume.to_owned(),
            };
            let folder = self.dir.path().join(folder);
            std::fs::create_dir_all(&folder)?;
            if path != "/tmp" {
                places.push((path.to_owned(), folder.display().to_string()));
            }
        }
        // What lies in another one first.
        places.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(places)
    }

    fn files(&self, secret: &str) -> Result<BTreeMap<String, String>> {
        let found = self.secrets.iter().find(|object| object.name == secret);
        let data = found.with_context(|| format!("no Secret {secret}"))?.value["data"].clone();
        let data: BTreeMap<String, ByteString> = serde_json::from_value(data)?;
        let text = |(name, bytes): (String, ByteString)| Ok((name, String::from_utf8(bytes.0)?));
        data.into_iter().map(text).collect()
    }

    /// A kubeconfig leads to the kube-apiserver here.
    fn here(&self, content: &str) -> String {
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, self.ports.at(names::API_PORT)).into();
        let of_service = format!("https://{}:{}", names::CONTROL_PLANE, names::API_PORT);
        content.replace(&of_service, &format!("https://{address}"))
    }
}

fn volume<'a>(pod: &'a Value, name: &Value) -> Option<&'a Value> {
    let mut volumes = pod["volumes"].as_array()?.iter();
    volumes.find(|volume| volume["name"] == *name)
}

fn replaced(text: &str, places: &[(String, String)]) -> String {
    let places = places.iter();
    places.fold(text.to_owned(), |text, (path, here)| {
        text.replace(path.as_str(), here)
    })
}

/// Sets a flag in the place where it is, or adds it; without a value it is taken away.
fn set(args: &mut Vec<String>, flag: &str, value: Option<&str>) {
    let start = format!("--{flag}=");
    args.retain(|arg| !arg.starts_with(&start));
    args.extend(value.map(|value| format!("{start}{value}")));
}
