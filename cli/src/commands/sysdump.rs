//! `covey sysdump`: what a report of a bug needs, in one file.
//!
//! Invariant: what is read is on one list ([`TAKEN`]), and Secrets are on it as the API's own table alone, which has no
//! data; what may not be read is noted in the archive's index, and the rest is taken.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use api::names::NOT_OF_MACHINES;
use futures::stream::{self, StreamExt as _};
use insight::check::{Check, Target};
use insight::diagnosis::diagnose;
use insight::facts::Facts;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kit_objects::known::Known;
use kube::api::{Api, DynamicObject, ListParams, LogParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};

use super::doctor::report;
use crate::anonymous::Mask;
use crate::args::sysdump::Sysdump;
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::kinds::Kind;
use crate::logs::{Source, sources};
use crate::output::{result, say, structured};
use crate::sysdump::Archive;
use insight_read::installation::{Scope, read};
use insight_read::request::{self, Form, PAGE, PAGES, Unread};

/// What is taken of the operator's and of each tenant namespace.
const TAKEN: &[(&str, &str, &str)] = &[
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("apps", "v1", "StatefulSet"),
    ("batch", "v1", "Job"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("", "v1", "Event"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Pod"),
    ("", "v1", "ResourceQuota"),
    ("", "v1", "Service"),
];
/// Bytes of one container's log.
const LOG: i64 = 5 << 20;
/// Tenant namespaces that are looked into at most.
const MOST_NAMESPACES: usize = 20;
/// Bytes of the key of hashes.
const KEY: usize = 32;
/// Logs that are read at once.
const AT_ONCE: usize = 4;

pub(super) async fn run(global: &Global, args: &Sysdump) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, now) = (&connection.client, Timestamp::now());
    let scope = Scope {
        namespace: Some(connection.namespace.as_str()).filter(|_| !args.all_namespaces),
        name: args.name.as_deref(),
        operator_namespace: &args.operator_namespace,
    };
    let facts = Box::pin(read(client, &scope)).await;
    let clusters = facts.clusters.as_ref().there().into_iter().flatten();
    let spaces = clusters.filter_map(|cluster| cluster.status.as_ref()?.namespace.clone());
    let mut spaces: Vec<_> = spaces.take(MOST_NAMESPACES).collect();
    spaces.push(args.operator_namespace.clone());
    if args.list {
        result(&listed(&scope, &spaces))?;
        return Ok(Exit::Done);
    }
    let folder = format!("covey-sysdump-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let path = args
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{folder}.tar.gz")));
    // Before all is read for nothing.
    let file = created(&path)?;
    let room = usize::try_from(args.max_size)
        .unwrap_or(usize::MAX)
        .saturating_mul(1 << 20);
    let mut archive = Archive::new(room);
    let names = match args.anonymize {
        true => Some(created(&beside(&path))?),
        false => None,
    };
    if args.anonymize {
        let mask = Mask::new(&key()?, known(client, &facts).await);
        archive = archive.masked(mask);
    }
    archive.text("versions.json", &versions(client).await);
    let findings = diagnose(&facts, |_| true);
    // Neither endpoints nor the inside were looked at.
    let made = Check::ALL.iter().copied();
    let made: Vec<_> = made
        .filter(|check| check.target() == Target::Management)
        .collect();
    match structured(&report(&findings, &made), Format::Json) {
        Ok(text) => archive.text("doctor.json", &text),
        Err(failure) => archive.lacks("doctor.json", &failure.what),
    }
    ours(client, &scope, &mut archive).await;
    for space in &spaces {
        inside(client, space, &mut archive).await;
    }
    // Objects first: they are small, and say what the logs are about.
    for space in &spaces {
        let is_operators = *space == args.operator_namespace;
        logs(client, space, is_operators, args, &mut archive).await;
    }
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    let written = archive.write(&folder, seconds, file);
    written.map_err(|error| unwritten(&path, &error))?;
    if let (Some(mut names), Some(told)) = (names, archive.told()) {
        let written = names.write_all(told.as_bytes());
        written.map_err(|error| unwritten(&beside(&path), &error))?;
    }
    result(&format!("{}\n", path.display()))?;
    if !global.quiet {
        let (files, missing) = archive.counts();
        say(&format!(
            "{files} files; {missing} could not be had, index.json says why. Secrets were not read and what looks like one \
             was taken out; look through it before you give it away"
        ));
    }
    Ok(Exit::Done)
}

/// The file that says what hashes stand for.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".names");
    PathBuf::from(name)
}

/// Names that are nobody's business: of namespaces, of objects of Covey, of nodes, and DNS names of endpoints.
async fn known(client: &Client, facts: &Facts) -> Vec<String> {
    let mut names = Vec::new();
    for cluster in facts.clusters.as_ref().there().into_iter().flatten() {
        names.extend(of(cluster));
        names.extend(cluster.spec.control_plane.endpoint.host.clone());
        let status = cluster.status.as_ref();
        names.extend(status.and_then(|status| status.namespace.clone()));
        let endpoint = status.and_then(|status| status.endpoint.as_ref());
        names.extend(endpoint.map(|endpoint| endpoint.host.clone()));
    }
    names.extend(of_all(&facts.pools));
    names.extend(of_all(&facts.machines));
    names.extend(of_all(&facts.hosts));
    names.extend(of_all(&facts.snapshots));
    names.extend(of_all(&facts.restores));
    names.extend(of_all(&facts.provider_configs));
    names.extend(of_all(&facts.grants));
    let grants = facts.grants.as_ref().there().into_iter().flatten();
    names.extend(grants.filter_map(|grant| grant.spec.secret_name.clone()));
    let hosts = facts.hosts.as_ref().there().into_iter().flatten();
    names.extend(hosts.map(|host| host.spec.address.clone()));
    let nodes: Api<Node> = Api::all(client.clone());
    match request::all(&nodes, ListParams::default(), PAGES).await {
        Ok(all) => names.extend(all.iter().map(|node| node.name_any())),
        Err(unread) => say(&format!(
            "(names of nodes of the management cluster stay: {})",
            why(&unread)
        )),
    }
    names
}

/// The names of objects that could be read, and those of their namespaces.
fn of_all<K: kube::Resource>(all: &Known<Vec<K>>) -> impl Iterator<Item = String> {
    all.as_ref().there().into_iter().flatten().flat_map(of)
}

/// The name of an object, and that of its namespace.
fn of<K: kube::Resource>(one: &K) -> Vec<String> {
    let meta = one.meta();
    meta.name.iter().chain(&meta.namespace).cloned().collect()
}

/// The key of the hashes, which stays with the user, so that the same name has the same hash the next time.
fn key() -> Result<Vec<u8>, Failure> {
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.filter(|path| path.is_absolute());
    let home = || env::home_dir().map(|home| home.join(".local/state"));
    let folder = state.or_else(home).ok_or_else(|| {
        let what =
            "XDG_STATE_HOME is unset, and there is no home directory that the key could be kept in";
        Failure::new(Exit::Failed, what, "set XDG_STATE_HOME")
    })?;
    let folder = folder.join("covey");
    let path = folder.join("anonymize.key");
    let failed = |error: &io::Error| {
        let what = format!(
            "cannot keep the key of the hashes in {}: {error}",
            path.display()
        );
        Failure::new(
            Exit::Failed,
            &what,
            "set XDG_STATE_HOME to a folder that you may write to",
        )
    };
    match fs::read(&path) {
        Ok(key) if key.len() >= KEY => return Ok(key),
        Ok(_) => return Err(failed(&io::Error::other("it is too short: remove it"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(&error)),
    }
    let mut key = vec![0; KEY];
    let drawn = SystemRandom::new().fill(&mut key);
    drawn.map_err(|_| failed(&io::Error::other("no random numbers are to be had")))?;
    let mut options = OpenOptions::new();
    let made = fs::create_dir_all(&folder)
        .and_then(|()| options.write(true).create_new(true).mode(0o600).open(&path))
        .and_then(|mut file| file.write_all(&key));
    made.map_err(|error| failed(&error))?;
    Ok(key)
}

fn created(path: &Path) -> Result<fs::File, Failure> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot write {}: {error}", path.display());
    Failure::new(Exit::Failed, &what, "name another file with `--file`")
}

/// What would be taken.
fn listed(scope: &Scope<'_>, spaces: &[String]) -> String {
    let mut text = String::from("versions.json\ndoctor.json\n");
    for kind in kinds() {
        text += &format!("{}\n", place(scope.namespace, &kind.resource().plural));
    }
    for space in spaces {
        for (_, _, kind) in TAKEN {
            text += &format!("namespaces/{space}/{}\n", plural(kind));
        }
        text += &format!("namespaces/{space}/secrets.json (names, types and numbers of keys)\n");
        text += &format!("namespaces/{space}/logs/POD/CONTAINER.log, .previous.log\n");
    }
    text
}

fn kinds() -> impl Iterator<Item = Kind> {
    <Kind as clap::ValueEnum>::value_variants().iter().copied()
}

fn place(namespace: Option<&str>, plural: &str) -> String {
    match namespace {
        Some(namespace) => format!("covey/{namespace}/{plural}.json"),
        None => format!("covey/{plural}.json"),
    }
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies.json"),
        None => format!("{kind}s.json"),
    }
}

async fn versions(client: &Client) -> String {
    let management = match client.apiserver_version().await {
        Ok(version) => version.git_version,
        Err(error) => kit_client::errors::chain(&error),
    };
    json!({ "client": env!("CARGO_PKG_VERSION"), "management": management }).to_string()
}

/// Objects of our kinds; of one tenant cluster alone where one was named.
async fn ours(client: &Client, scope: &Scope<'_>, archive: &mut Archive) {
    for kind in kinds() {
        let resource = kind.resource();
        let path = place(scope.namespace, &resource.plural);
        let api: Api<DynamicObject> = match (kind.is_namespaced(), scope.namespace) {
            (true, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
            _ => Api::all_with(client.clone(), &resource),
        };
        objects(&api, &path, archive, |object| is_about(object, scope.name)).await;
    }
}

/// Whether an object is of the tenant cluster that was named, or of none.
fn is_about(object: &Value, name: Option<&str>) -> bool {
    let of = object["spec"]["clusterName"].as_str();
    let is_itself = object["kind"] == "TenantCluster";
    let own = object["metadata"]["name"].as_str().filter(|_| is_itself);
    match (name, own.or(of)) {
        (Some(name), Some(of)) => name == of,
        _ => true,
    }
}

async fn objects(
    api: &Api<DynamicObject>,
    path: &str,
    archive: &mut Archive,
    is_wanted: impl Fn(&Value) -> bool,
) {
    match request::all(api, ListParams::default(), PAGES).await {
        Ok(all) => {
            let all = all.into_iter().filter_map(|o| serde_json::to_value(o).ok());
            archive.objects(path, all.filter(is_wanted).collect());
        }
        Err(unread) => archive.lacks(path, &why(&unread)),
    }
}

fn why(unread: &Unread) -> String {
    Failure::unread("list them", unread).what
}

/// What is in a namespace.
async fn inside(client: &Client, space: &str, archive: &mut Archive) {
    for (group, version, kind) in TAKEN {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), space, &resource);
        let path = format!("namespaces/{space}/{}", plural(kind));
        objects(&api, &path, archive, |_| true).await;
    }
    let path = format!("namespaces/{space}/secrets.json");
    let url = format!("/api/v1/namespaces/{space}/secrets");
    let params = ListParams::default().limit(PAGE);
    match request::page::<Value>(client, &url, &params, Form::Table).await {
        // Where the server makes no table these are the Secrets themselves, which nobody keeps.
        Ok(table) if table["kind"] == "Table" => {
            let rows = table["rows"].as_array();
            let cells = rows.into_iter().flatten().map(|row| row["cells"].clone());
            let columns = table["columnDefinitions"].as_array();
            let columns: Vec<_> = columns
                .into_iter()
                .flatten()
                .map(|c| c["name"].clone())
                .collect();
            let told = json!({ "columns": columns, "rows": cells.collect::<Vec<_>>() });
            archive.text(&path, &format!("{told:#}"));
        }
        Ok(_) => archive.lacks(&path, "this API makes no tables"),
        Err(error) => archive.lacks(&path, &Failure::of("list them", &error).what),
    }
}

async fn logs(
    client: &Client,
    space: &str,
    is_operators: bool,
    args: &Sysdump,
    archive: &mut Archive,
) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), space);
    let params = match is_operators {
        true => ListParams::default(),
        false => ListParams::default().labels(NOT_OF_MACHINES),
    };
    let found = match request::all(&pods, params, PAGES).await {
        Ok(found) => found,
        Err(unread) => return archive.lacks(&format!("namespaces/{space}/logs"), &why(&unread)),
    };
    let again = |source: &Source| {
        let mut pods = found.iter();
        let pod = pods.find(|pod| pod.name_any() == source.pod);
        let status = pod.and_then(|pod| pod.status.as_ref());
        let all = status.and_then(|status| status.container_statuses.as_ref());
        let mut all = all.into_iter().flatten();
        all.any(|status| status.name == source.container && status.restart_count > 0)
    };
    let wanted = sources(&found, None, &[]).into_iter().flat_map(|source| {
        let before = again(&source).then(|| (source.clone(), true));
        [(source, false)].into_iter().chain(before)
    });
    let read = wanted.map(|(source, previous)| {
        let pods = &pods;
        async move {
            let params = LogParams {
                container: Some(source.container.clone()),
                limit_bytes: Some(LOG),
                previous,
                since_seconds: (!previous)
                    .then(|| i64::try_from(args.since.as_secs()).unwrap_or(i64::MAX)),
                timestamps: true,
                ..LogParams::default()
            };
            let log = pods.logs(&source.pod, &params).await;
            let name = if previous { "previous.log" } else { "log" };
            (
                format!("namespaces/{space}/logs/{}.{name}", source.label()),
                log,
            )
        }
    });
    let read: Vec<_> = stream::iter(read).buffered(AT_ONCE).collect().await;
    for (path, log) in read {
        match log {
            Ok(log) => archive.log(&path, &log),
            Err(error) => archive.lacks(&path, &Failure::of("read it", &error).what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_tenant_cluster_nothing_of_others_is_taken() {
        let pool = |of: &str| json!({ "kind": "NodePool", "metadata": { "name": "a" }, "spec": { "clusterName": of } });
        let cluster = |name: &str| json!({ "kind": "TenantCluster", "metadata": { "name": name }, "spec": {} });
        assert!(is_about(&pool("demo"), Some("demo")) && !is_about(&pool("other"), Some("demo")));
        assert!(
            is_about(&cluster("demo"), Some("demo")) && !is_about(&cluster("other"), Some("demo"))
        );
        assert!(is_about(&pool("other"), None));
        assert!(is_about(
            &json!({ "kind": "BackupTarget", "spec": {} }),
            Some("demo")
        ));
    }

    #[test]
    fn files_are_called_as_kubectl_calls_kinds() {
        assert_eq!(plural("NetworkPolicy"), "networkpolicies.json");
        assert_eq!(plural("Pod"), "pods.json");
    }

    #[test]
    fn secrets_and_config_maps_are_not_on_the_list() {
        for (_, _, kind) in TAKEN {
            assert!(!["Secret", "ConfigMap"].contains(kind), "{kind}");
        }
    }
}
