//! `covey create`: a tenant cluster, its first node pool, or another one.
//!
//! Invariant: what is there already is never overwritten.

use std::fs;
use std::path::Path;

use api::{NodePool, TenantCluster};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::change::MANAGER;
use super::wait::{say_readiness, until};
use crate::args::create::{CreateCluster, CreatePool, DryRun};
use crate::args::waiting::Waiting;
use crate::args::{Format, Global};
use crate::connect::{Connection, connect};
use crate::exit::{Exit, Failure};
use crate::judge::Goal;
use crate::kinds::name_of;
use crate::manifest::{self, Manifest};
use crate::output::{result, say, structured};

pub(super) async fn cluster(global: &Global, args: &CreateCluster) -> Result<Exit, Failure> {
    // Before anything is asked.
    let spec = match &args.file {
        Some(file) => manifest::spec_of(&read(file)?, &args.name)?,
        None => json!({}),
    };
    let connection = connect(global).await?;
    let manifests = manifest::cluster(args, spec, &connection.namespace);
    if !make(global, &connection, &manifests, args.dry_run).await? {
        return Ok(Exit::Done);
    }
    let name = &args.name;
    if !args.waiting.wait {
        hint(
            global,
            &format!("how it goes: covey wait {name}; then: covey kubeconfig {name}"),
        );
        return Ok(Exit::Done);
    }
    let clusters: Api<TenantCluster> =
        Api::namespaced(connection.client.clone(), &connection.namespace);
    let made = clusters.get(name).await;
    let made =
        made.map_err(|error| Failure::of(&format!("get the TenantCluster {name}"), &error))?;
    until(
        &clusters,
        &made,
        &Goal::ready(),
        args.waiting.timeout,
        global,
    )
    .await?;
    // Pools are waited for after their cluster, which they need.
    for pool in manifests.iter().skip(1) {
        wait_pool(global, &connection, pool, &args.waiting).await?;
    }
    if !global.quiet {
        say_readiness(&clusters, name).await;
    }
    hint(
        global,
        &format!("go on with: covey kubeconfig {name} --file {name}.kubeconfig"),
    );
    Ok(Exit::Done)
}

/// The text of a file.
fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        let what = format!("cannot read {}: {error}", file.display());
        Failure::new(
            Exit::Failed,
            &what,
            "name a file that you may read with `--file`",
        )
    })
}

pub(super) async fn pool(global: &Global, args: &CreatePool) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let manifest = manifest::pool(args, &connection.namespace);
    let manifests = [manifest];
    if !make(global, &connection, &manifests, args.dry_run).await? {
        return Ok(Exit::Done);
    }
    if !args.waiting.wait {
        hint(
            global,
            &format!("how it goes: covey describe {}", args.cluster),
        );
        return Ok(Exit::Done);
    }
    wait_pool(global, &connection, &manifests[0], &args.waiting).await
}

async fn wait_pool(
    global: &Global,
    connection: &Connection,
    manifest: &Manifest,
    waiting: &Waiting,
) -> Result<Exit, Failure> {
    let name = manifest.object["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    let pools: Api<NodePool> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let made = pools.get(name).await;
    let made = made.map_err(|error| Failure::of(&format!("get the NodePool {name}"), &error))?;
    let goal = match made.spec.autoscaling {
        Some(_) => Goal::ready(),
        None => Goal::Machines(made.spec.replicas),
    };
    until(&pools, &made, &goal, waiting.timeout, global).await
}

fn hint(global: &Global, line: &str) {
    if !global.quiet {
        say(line);
    }
}

/// Makes the objects and writes them; whether there is anything to wait for.
async fn make(
    global: &Global,
    connection: &Connection,
    manifests: &[Manifest],
    dry_run: Option<DryRun>,
) -> Result<bool, Failure> {
    let mut made = Vec::new();
    for manifest in manifests {
        let object = match dry_run {
            Some(DryRun::Client) => manifest.object.clone(),
            Some(DryRun::Server) => create(connection, manifest, true).await?,
            None => create(connection, manifest, false).await?,
        };
        made.push(object);
    }
    let text = match global.output {
        Format::Json => made
            .iter()
            .map(|one| structured(one, Format::Json))
            .collect::<Result<_, _>>()?,
        // By themselves the manifests are of no use as names.
        Format::Yaml => yaml(&made)?,
        _ if dry_run == Some(DryRun::Client) => yaml(&made)?,
        _ => manifests.iter().map(named).collect(),
    };
    result(&text)?;
    Ok(dry_run.is_none())
}

fn named(manifest: &Manifest) -> String {
    let name = manifest.object["metadata"]["name"].as_str();
    name_of(&manifest.resource, name.unwrap_or_default()) + "\n"
}

/// Documents of one file.
pub(super) fn yaml(objects: &[Value]) -> Result<String, Failure> {
    let all: Result<Vec<_>, _> = objects
        .iter()
        .map(|one| structured(one, Format::Yaml))
        .collect();
    Ok(all?.join("---\n"))
}

async fn create(
    connection: &Connection,
    manifest: &Manifest,
    dry_run: bool,
) -> Result<Value, Failure> {
    let object = &manifest.object;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let act = format!("create the {} {name}", manifest.resource.kind);
    let client: Client = connection.client.clone();
    let api: Api<DynamicObject> =
        Api::namespaced_with(client, &connection.namespace, &manifest.resource);
    let invalid = |error: serde_json::Error| {
        Failure::new(
            Exit::Failed,
            &format!("cannot {act}: {error}"),
            "report this: it is a mistake of covey",
        )
    };
    let object: DynamicObject = serde_json::from_value(object.clone()).map_err(invalid)?;
    let params = PostParams {
        dry_run,
        field_manager: Some(MANAGER.to_owned()),
    };
    let made = api.create(&params, &object).await;
    let mut made = made.map_err(|error| {
        let failure = Failure::of(&act, &error);
        named_better(failure, &manifest.resource.kind, name)
    })?;
    made.metadata.managed_fields = None;
    serde_json::to_value(made).map_err(invalid)
}

/// The same failure, and where it is about a name that can be none, one that can.
fn named_better(mut failure: Failure, kind: &str, name: &str) -> Failure {
    if failure.exit != Exit::Refused || !failure.mend.is_empty() {
        return failure;
    }
    if let Some(better) = proper(name) {
        let what = match kind {
            "NodePool" => "pool",
            _ => "cluster",
        };
        failure.mend = format!("try: covey create {what} {better}");
    }
    failure
}

/// A DNS label (RFC 1123) that is like a name; none of what is one already, or is like none.
fn proper(name: &str) -> Option<String> {
    let plain = name.to_lowercase();
    let plain = plain.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let plain = plain.trim_matches('-');
    let begins = plain.starts_with(|c: char| c.is_ascii_lowercase());
    (plain != name && begins).then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_can_be_none_has_one_that_is_like_it() {
        assert_eq!(proper("Demo_1").as_deref(), Some("demo-1"));
        assert_eq!(proper("-web.").as_deref(), Some("web"));
        assert_eq!(proper("demo"), None);
        assert_eq!(proper("1st"), None);
        let refused = Failure::new(Exit::Refused, "no", "");
        let told = named_better(refused, "NodePool", "Web");
        assert_eq!(told.mend, "try: covey create pool web");
        let other = Failure::new(Exit::NotAllowed, "no", "ask");
        assert_eq!(named_better(other.clone(), "NodePool", "Web"), other);
    }
}
