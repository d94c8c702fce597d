//! `covey down`: what `covey up` installed goes again.
//!
//! Invariant: never while there is a tenant cluster, because only the operator removes what belongs to one; definitions
//! stay, and what others installed is not touched.

use api::TenantCluster;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use tokio::time::timeout;

use super::delete::is_confirmed;
use super::ours::{delete, ours, reached};
use crate::args::down::Down;
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::install::NAMESPACE;
use crate::output::{result, say};
use insight_read::request::{self, PAGES, Unread};

const NOTHING: &str = "nothing was deleted";

pub(super) async fn run(global: &Global, args: &Down) -> Result<Exit, Failure> {
    let client = connect(global).await?.client;
    let found = ours(&client).await?;
    if found.is_empty() {
        let what = "nothing that `covey up` installed is here";
        let mend = "what helm installed goes by `helm uninstall`; another cluster is chosen with `--context`";
        return Err(Failure::new(Exit::NotFound, what, mend));
    }
    let clusters: Api<TenantCluster> = Api::all(client.clone());
    let clusters = match request::all(&clusters, ListParams::default(), PAGES).await {
        Ok(clusters) => clusters,
        // Without the kind there are none.
        Err(Unread::Failed(kube::Error::Api(status))) if status.code == 404 => Vec::new(),
        Err(unread) => return Err(Failure::unread("list TenantClusters", &unread)),
    };
    if let Some(first) = clusters.first() {
        let (space, name) = (first.namespace().unwrap_or_default(), first.name_any());
        let what = format!(
            "{NOTHING}: there are tenant clusters ({}, among them {space}/{name}), and only the operator removes what \
             belongs to them",
            clusters.len()
        );
        let mend = format!("first `covey delete cluster {name} -n {space} --wait`");
        return Err(Failure::new(Exit::Refused, &what, &mend));
    }
    say(&format!(
        "this deletes Covey in {NAMESPACE}: {} objects, with all keys and settings of the operator; definitions stay",
        found.len()
    ));
    if !args.yes && !is_confirmed(NAMESPACE, "delete it", NOTHING)? {
        return Err(Failure::new(Exit::Failed, NOTHING, ""));
    }
    for object in found.iter().rev() {
        delete(&client, object).await?;
        result(&match global.output {
            Format::Name => format!("{}\n", object.id()),
            _ => format!("{} deleted\n", object.id()),
        })?;
    }
    if !global.quiet {
        say(
            "the definitions, with what is left of their objects: kubectl delete crd -l app.kubernetes.io/part-of=covey",
        );
    }
    if !args.waiting.wait {
        return Ok(Exit::Done);
    }
    let namespaces: Api<Namespace> = Api::all(client);
    let is_gone = |namespace: Option<&Namespace>| namespace.is_none();
    let within = args.waiting.timeout;
    let gone = timeout(within, reached(&namespaces, NAMESPACE, &is_gone)).await;
    let Ok(gone) = gone else {
        let what = format!("{NAMESPACE} was not gone within {} s", within.as_secs());
        let mend = format!("`kubectl get namespace {NAMESPACE} -o yaml` says what keeps it");
        return Err(Failure::new(Exit::TimedOut, &what, &mend));
    };
    gone.map(|()| Exit::Done)
}
