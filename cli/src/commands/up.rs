//! `covey up`: Covey on the management cluster of the context, from the chart that is built in.
//!
//! Invariant: whatever keeps it from being installed is said before anything is written; what is as it should be is not
//! written; the objects of tenant clusters are never touched.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, pin_mut, stream};
use insight::check::Check;
use insight::diagnosis::{diagnose, trouble_of};
use insight::facts::{ApiAnswer, Facts, Management};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit_client::untyped;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::change::MANAGER;
use super::create::yaml;
use super::ours::{AT_ONCE, delete, ours, reached};
use super::wait::REMIND;
use crate::args::create::DryRun;
use crate::args::up::Up;
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::install::{
    self, Change, NAMESPACE, OPERATOR, Object, VERSION, Wanted, change, objects, refusals,
};
use crate::output::{result, say, structured};
use insight_read::request::{self, PAGES};

/// How long a definition may take to be served.
const SERVED: Duration = Duration::from_secs(30);
/// Kind of definitions.
const DEFINITION: &str = "CustomResourceDefinition";
/// What has to be ready.
const DEPLOYMENTS: [&str; 2] = [OPERATOR, "covey-webhook"];
/// What says of a StorageClass that it is taken where none is named.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) async fn run(global: &Global, args: &Up) -> Result<Exit, Failure> {
    let mut wanted = Wanted {
        image: args.image.clone(),
        config: None,
        pull_secrets: args.pull_secrets.clone(),
    };
    if let Some(path) = &args.config {
        let text = fs::read_to_string(path).map_err(|error| {
            let what = format!("cannot read {}: {error}", path.display());
            Failure::new(Exit::Usage, &what, "name a file with `--config`")
        })?;
        wanted.config = Some(install::config(&text)?);
    }
    let mut all = objects(&wanted)?;
    if args.dry_run == Some(DryRun::Client) {
        return printed(&all, global.output);
    }
    let client = connect(global).await?.client;
    fits(&client).await?;
    let reads = stream::iter(&all).map(|object| live(&client, object));
    let live: Vec<_> = reads.buffered(AT_ONCE).try_collect().await?;
    refuse(&all, &live, &wanted)?;
    if wanted.config.is_none() {
        wanted.config = install::live_config(&all, &live);
        all = objects(&wanted)?;
    }
    let mut gone = ours(&client).await?;
    gone.retain(|old| !all.iter().any(|object| object.is_same(old)));
    let changes = changes(&all, &live, &gone);
    let has_namespace = live.first().is_some_and(Option::is_some);
    may(&client, &changes, has_namespace).await?;
    let notes: Vec<_> = classes(&client).await.into_iter().collect();
    let tell = |line: &str| {
        if !global.quiet {
            say(line);
        }
    };
    notes
        .iter()
        .for_each(|note| tell(&format!("warning: {note}")));
    let is_dry = args.dry_run.is_some();
    if !is_dry {
        write(&client, &changes).await?;
    }
    result(&told(&changes, &notes, global.output)?)?;
    let count = changes.len();
    let rest = all.len() + gone.len() - count;
    if is_dry {
        tell(&format!(
            "nothing was written; {count} objects would be, {rest} are as they should be"
        ));
        return Ok(Exit::Done);
    }
    tell(&format!(
        "Covey {VERSION} in {NAMESPACE}: {count} objects were written, {rest} were as they should be"
    ));
    if args.wait {
        Box::pin(ready(&client, args.timeout, &tell)).await?;
        tell("next: covey create cluster demo --version 1.35.4 --wait");
    } else {
        tell(&format!(
            "how it goes: kubectl -n {NAMESPACE} rollout status deployment/{OPERATOR}"
        ));
    }
    Ok(Exit::Done)
}

/// What has to be done, in this order.
fn changes<'a>(
    all: &'a [Object],
    live: &[Option<Value>],
    gone: &'a [Object],
) -> Vec<(&'a Object, Change)> {
    let wanted = all.iter().zip(live);
    let wanted = wanted.map(|(object, live)| (object, change(object, live.as_ref(), MANAGER)));
    let wanted = wanted.filter(|(_, change)| *change != Change::Nothing);
    let gone = gone.iter().map(|object| (object, Change::Gone));
    wanted.chain(gone).collect()
}

/// Does it: the operator begins when the API serves the definitions.
async fn write(client: &Client, changes: &[(&Object, Change)]) -> Result<(), Failure> {
    let is_definition = |object: &Object| object.kind.kind == DEFINITION;
    let last = changes
        .iter()
        .rposition(|(object, _)| is_definition(object));
    for (place, (object, change)) in changes.iter().enumerate() {
        match change {
            Change::Gone => delete(client, object).await?,
            Change::Made | Change::Changed(_) | Change::Nothing => {
                apply(client, object, false).await?;
            }
        }
        if Some(place) == last {
            let written = changes.iter().map(|(object, _)| *object);
            served(client, written.filter(|object| is_definition(object))).await?;
        }
    }
    Ok(())
}

/// The objects, to be looked at or to be applied by something else.
fn printed(all: &[Object], form: Format) -> Result<Exit, Failure> {
    let values: Vec<Value> = all.iter().map(|object| object.value.clone()).collect();
    let text = match form {
        Format::Json => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": values});
            structured(&list, Format::Json)?
        }
        Format::Name => all.iter().map(|object| object.id() + "\n").collect(),
        Format::Table | Format::Wide | Format::Yaml => yaml(&values)?,
    };
    result(&text)?;
    Ok(Exit::Done)
}

/// Whether the management cluster is new enough.
async fn fits(client: &Client) -> Result<(), Failure> {
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| Failure::of("ask the API for its version", &error))?;
    let management = Management {
        api: ApiAnswer::Version(version.git_version),
        ..Management::default()
    };
    let facts = Facts {
        management,
        ..Facts::default()
    };
    let found = diagnose(&facts, |check| check == Check::ManagementVersion);
    match found.into_iter().next() {
        Some(finding) => Err(Failure::new(Exit::Refused, &finding.cause, &finding.mend)),
        None => Ok(()),
    }
}

async fn live(client: &Client, object: &Object) -> Result<Option<Value>, Failure> {
    let api = untyped::of(object.kind, client, object.namespace());
    let act = format!("get {}", object.id());
    let found = api.get_opt(object.name()).await;
    let found = found.map_err(|error| Failure::of(&act, &error))?;
    let value = found.map(serde_json::to_value).transpose();
    value.map_err(|error| Failure::new(Exit::Failed, &format!("cannot {act}: {error}"), ""))
}

fn refuse(all: &[Object], live: &[Option<Value>], wanted: &Wanted) -> Result<(), Failure> {
    let found = refusals(all, live, wanted);
    if found.is_empty() {
        return Ok(());
    }
    let (what, mend): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    Err(Failure::new(
        Exit::Refused,
        &what.join("; "),
        &mend.join("; "),
    ))
}

/// Whether the user may do all of it. Where the namespace is not there yet only roles can be tried.
async fn may(
    client: &Client,
    changes: &[(&Object, Change)],
    has_namespace: bool,
) -> Result<(), Failure> {
    let mut acts = BTreeSet::new();
    for (object, change) in changes {
        let verbs: &[&str] = match change {
            Change::Gone => &["delete"],
            Change::Made => &["create", "patch"],
            Change::Changed(_) | Change::Nothing => &["patch"],
        };
        acts.extend(verbs.iter().map(|verb| (object.kind, *verb)));
    }
    let asked = stream::iter(acts).map(|(kind, verb)| async move {
        let attributes = ResourceAttributes {
            group: Some(kind.group.to_owned()),
            namespace: kind.namespaced.then(|| NAMESPACE.to_owned()),
            resource: Some(kind.plural.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview {
            spec,
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| Failure::of("ask what you may do", &error))?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        Ok::<_, Failure>((!is_allowed).then(|| format!("{verb} {}", kind.plural)))
    });
    let missing: Vec<_> = asked.buffered(AT_ONCE).try_collect().await?;
    let missing: Vec<_> = missing.into_iter().flatten().collect();
    if !missing.is_empty() {
        let what = format!("nothing was written: you may not {}", missing.join(", "));
        let mend = "ask whoever administers the management cluster to do this: it needs the rights of cluster-admin";
        return Err(Failure::new(Exit::NotAllowed, &what, mend));
    }
    // Nobody may give rights that they do not have.
    let written = changes.iter().filter(|(_, change)| *change != Change::Gone);
    for (object, _) in written {
        let is_role = object.kind.kind == "ClusterRole" || object.kind.kind == "Role";
        if is_role && (has_namespace || !object.kind.namespaced) {
            apply(client, object, true).await?;
        }
    }
    Ok(())
}

/// What is worth a warning about StorageClasses.
async fn classes(client: &Client) -> Option<String> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    // Where they cannot be read nothing is known, and nothing is said.
    let found = request::all(&classes, ListParams::default(), PAGES)
        .await
        .ok()?;
    let is_default = |class: &StorageClass| {
        let value = class.annotations().get(DEFAULT_CLASS);
        value.is_some_and(|value| value == "true")
    };
    (!found.iter().any(is_default)).then(|| {
        "there is no default StorageClass: tenant clusters have to name one \
         (`spec.etcd.storage.storageClassName`), or their etcd gets no volume"
            .to_owned()
    })
}

async fn apply(client: &Client, object: &Object, dry_run: bool) -> Result<(), Failure> {
    let params = PatchParams {
        dry_run,
        ..PatchParams::apply(MANAGER).force()
    };
    let api = untyped::of(object.kind, client, object.namespace());
    let patch = Patch::Apply(&object.value);
    let applied = api.patch(object.name(), &params, &patch).await;
    let act = format!("apply {}", object.id());
    applied.map_err(|error| Failure::of(&act, &error))?;
    Ok(())
}

/// Waits until the API serves the definitions that were written.
async fn served<'a>(
    client: &Client,
    written: impl Iterator<Item = &'a Object>,
) -> Result<(), Failure> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let end = Instant::now() + SERVED;
    let is_served = |definition: Option<&CustomResourceDefinition>| {
        let status = definition.and_then(|definition| definition.status.as_ref());
        let mut conditions = status.iter().flat_map(|s| s.conditions.iter().flatten());
        conditions.any(|c| c.type_ == "Established" && c.status == "True")
    };
    for object in written {
        let reached = reached(&definitions, object.name(), &is_served);
        let Ok(reached) = timeout_at(end, reached).await else {
            let what = format!("the API does not serve {} yet", object.name());
            let mend = format!(
                "look at its conditions: `kubectl describe crd {}`; then try again",
                object.name()
            );
            return Err(Failure::new(Exit::TimedOut, &what, &mend));
        };
        reached?;
    }
    Ok(())
}

/// Waits until operator and webhook are ready.
async fn ready(client: &Client, timeout: Duration, tell: &impl Fn(&str)) -> Result<(), Failure> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let start = Instant::now();
    let end = start + timeout;
    let since = |line: &str| tell(&format!("[{:5.1}s] {line}", start.elapsed().as_secs_f64()));
    for name in DEPLOYMENTS {
        let is_ready = |deployment: Option<&Deployment>| deployment.is_some_and(is_rolled_out);
        let reached = reached(&api, name, &is_ready);
        pin_mut!(reached);
        loop {
            let look = (Instant::now() + REMIND).min(end);
            if let Ok(reached) = timeout_at(look, &mut reached).await {
                reached?;
                since(&format!("{name} is ready"));
                break;
            }
            let waits = waits(client, &api, name).await;
            if Instant::now() >= end {
                let within = timeout.as_secs();
                let what = format!("{name} was not ready within {within} s: {waits}");
                let mend = format!(
                    "it goes on in the cluster; `covey doctor --only operator-pods`, `kubectl -n {NAMESPACE} get pods`"
                );
                return Err(Failure::new(Exit::TimedOut, &what, &mend));
            }
            since(&format!("waiting: {name}: {waits}"));
        }
    }
    Ok(())
}

/// Whether all pods are of the newest template, and available.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let (wanted, generation) = (wanted.unwrap_or(1), deployment.metadata.generation);
    deployment.status.as_ref().is_some_and(|status| {
        let count = |count: Option<i32>| count.unwrap_or_default();
        status.observed_generation >= generation
            && count(status.updated_replicas) >= wanted
            && count(status.available_replicas) >= wanted
            && count(status.replicas) == count(status.updated_replicas)
    })
}

/// What is still waited for, as its pods say.
async fn waits(client: &Client, api: &Api<Deployment>, name: &str) -> String {
    let deployment = api.get_opt(name).await.ok().flatten();
    let Some(deployment) = deployment else {
        return "it cannot be read".to_owned();
    };
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas);
    let (available, wanted) = (available.unwrap_or_default(), wanted.unwrap_or(1));
    let labels = deployment.spec.and_then(|spec| spec.selector.match_labels);
    let labels = labels
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={v}"));
    let labels: Vec<_> = labels.collect();
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let params = ListParams::default().labels(&labels.join(","));
    let pods = request::all(&pods, params, 1).await.unwrap_or_default();
    let why = pods.iter().find_map(trouble_of);
    let why = why.map(|why| format!("; {why}")).unwrap_or_default();
    insight::text::shown(&format!("{available} of {wanted} pods are available{why}"))
}

/// `InstallReport` of `cli.covey.dev/v1`; it only ever gains fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    api_version: &'static str,
    kind: &'static str,
    version: &'static str,
    namespace: &'static str,
    changes: Vec<Written>,
    /// What should be looked at.
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct Written {
    object: String,
    change: &'static str,
    /// The first field that was otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
}

/// The result: what is written, one line each.
fn told(changes: &[(&Object, Change)], notes: &[String], form: Format) -> Result<String, Failure> {
    let written = changes.iter().map(|(object, change)| {
        let (change, field) = match change {
            Change::Changed(field) => ("changed", field.clone()),
            Change::Gone => ("deleted", String::new()),
            Change::Made | Change::Nothing => ("made", String::new()),
        };
        let object = object.id();
        Written {
            object,
            change,
            field,
        }
    });
    let written: Vec<_> = written.collect();
    Ok(match form {
        Format::Json | Format::Yaml => {
            let report = Report {
                api_version: "cli.covey.dev/v1",
                kind: "InstallReport",
                version: VERSION,
                namespace: NAMESPACE,
                changes: written,
                notes,
            };
            structured(&report, form)?
        }
        Format::Name => written.iter().map(|w| w.object.clone() + "\n").collect(),
        Format::Table => {
            let line = |w: &Written| format!("{} {}\n", w.object, w.change);
            written.iter().map(line).collect()
        }
        Format::Wide => {
            let line = |w: &Written| format!("{} {} {}", w.object, w.change, w.field);
            let lines = written.iter().map(line);
            lines
                .map(|line| line.trim_end().to_owned() + "\n")
                .collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_as_the_schema_has_it() {
        let object = objects(&Wanted::default()).unwrap().remove(0);
        let changes = [
            (&object, Change::Made),
            (&object, Change::Changed("spec.replicas".to_owned())),
            (&object, Change::Gone),
        ];
        let told = told(
            &changes,
            &["no default StorageClass".to_owned()],
            Format::Json,
        );
        let report = serde_json::from_str(&told.unwrap()).unwrap();
        assert_eq!(crate::schema::findings(&report), [""; 0], "{report:#}");
    }

    #[test]
    fn a_deployment_is_ready_when_all_pods_are_new_and_available() {
        let is = |generation: i64, observed: i64, counts: [i32; 3]| {
            let [all, updated, available] = counts;
            let status = json!({"observedGeneration": observed, "replicas": all, "updatedReplicas": updated,
                "availableReplicas": available});
            let template = json!({"metadata": {}, "spec": {"containers": []}});
            let spec = json!({"replicas": 2, "selector": {}, "template": template});
            let deployment =
                json!({"metadata": {"generation": generation}, "spec": spec, "status": status});
            is_rolled_out(&serde_json::from_value(deployment).unwrap())
        };
        assert!(is(2, 2, [2, 2, 2]));
        assert!(!is(2, 1, [2, 2, 2]), "of before the change");
        assert!(!is(2, 2, [3, 2, 2]), "an old one is there");
        assert!(!is(2, 2, [2, 1, 2]) && !is(2, 2, [2, 2, 1]));
        assert!(!is_rolled_out(&Deployment::default()));
    }
}
