//! Reads everything that a plan may depend on. Decides nothing.
//!
//! Invariant: bodies are read live, never from a cache: what is decided on them (keys are missing,
//! a namespace may go) cannot be undone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Machine, TenantCluster};
use base64::Engine as _;
use futures::future::try_join_all;
use jiff::Timestamp;
use kit_client::errors::{Class, Classify};
use kit_client::untyped;
use kit_objects::kinds::{self, Kind};
use kit_objects::known::Known;
use kit_objects::object::Key;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tenant_cp::Settings;
use tenant_cp::addons::registry;
use tenant_cp::backup::{identity, source};
use tenant_cp::certificates::{self, Material, SecretData};
use tenant_cp::names;

use super::observed::{Etcd, EtcdSpace, EtcdSteps, Observed, Tenant, component_pods, dropped};
use super::plan::LIST_SWEEP;
use crate::context::Context;
use crate::hibernation::idle::Usage;
use crate::maintenance::patches;
use crate::parts::PARTS;
use crate::restoring::begin;
use crate::rollouts::queue::{Answer, Purpose, Turn};
use crate::rotation::kubelets::Kubelets;
use crate::upgrades::nodes::Nodes;
use crate::upgrades::surge::{Surge, SurgeAnswer};
use crate::upgrades::{self, versions};

mod hibernation;
pub(in crate::controllers) mod restore;
mod standby;

/// A binding takes a moment until the API server's authorizer knows it.
const BINDING_PAUSE: Duration = Duration::from_millis(25);
const BINDING_TRIES: u32 = 40;

/// Why an observation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One request failed.
    #[error("read {what}")]
    Read {
        /// Kind and name or namespace.
        what: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } => source.class(),
        }
    }
}

/// Reads the world of one TenantCluster; none when it is gone.
///
/// # Errors
/// [`Error::Read`]; then nothing is known and nothing may be decided.
pub async fn observe(
    ctx: &Context,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<Option<Observed>, Error> {
    let clusters = Api::<TenantCluster>::namespaced(ctx.client.clone(), namespace);
    let Some(cluster) = clusters
        .get_opt(name)
        .await
        .map_err(|e| read("TenantCluster", name, e))?
    else {
        return Ok(None);
    };
    let uid = cluster.identity_uid().to_owned();
    let ns = cluster.tenant_namespace();
    let secret = api::names::kubeconfig_secret(name);
    let binding = api::names::OPERATOR_BINDING;
    let mut objects = BTreeMap::new();
    let (tenant_namespace, tenant_binding, user_binding) = futures::try_join!(
        get(ctx, kinds::NAMESPACE, None, &ns),
        get(ctx, kinds::ROLE_BINDING, Some(&ns), binding),
        get(ctx, kinds::ROLE_BINDING, Some(namespace), binding),
    )?;
    let settings = &ctx.settings;
    let bound = |found: &Option<(Key, Value)>, role: &str| {
        found
            .as_ref()
            .is_some_and(|(_, binding)| lets_us_in(binding, role, settings))
    };
    let readable =
        tenant_namespace.is_some() && bound(&tenant_binding, &settings.tenant_namespace_role);
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let user_readable = bound(&user_binding, &settings.user_namespace_role) && !deleting;
    let status = cluster.status.as_ref();
    let bootstrapped = status.is_some_and(|s| s.bootstrap_hash.is_some());
    // Everything that is made for it but its status lies in there.
    let fresh = tenant_namespace.is_none() && !bootstrapped;
    let taker = standby::taker(ctx, &cluster, tenant_namespace.as_ref()).await;
    let taker = taker.map_err(|e| read("who took over", &ns, e))?;
    let standby = match fresh && !deleting && !cluster.spec.paused {
        true => {
            let candidates = standby::candidates(ctx, &cluster).await;
            candidates.map_err(|e| read("control planes that wait for", name, e))?
        }
        false => Vec::new(),
    };
    let found = [tenant_namespace, tenant_binding, user_binding];
    objects.extend(found.into_iter().flatten());
    let mut pods = None;
    let etcd_glance = ctx.etcd_looks.seen(&uid);
    let etcd_disks = ctx.etcd_looks.disks(&uid);
    // A member may have to be restarted, to lead no more, or to be replaced.
    let is_any_due = etcd_glance.is_fragmented || etcd_disks.slow().next().is_some();
    if readable && !deleting {
        let lists = try_join_all(PARTS.map(|part| list(ctx, part.kind, &ns))).await?;
        objects.extend(lists.into_iter().flatten());
    }
    let live = objects.get(&Key::new("Deployment", &ns, names::CONTROL_PLANE));
    let live = live.and_then(versions::version_of);
    let (cluster, patch) = patches::taken(cluster, live, settings, now);
    if readable && !deleting {
        for (kind, namespace, name) in unlisted(&cluster, &ns, &objects) {
            objects.extend(get(ctx, kind, Some(&namespace), &name).await?);
        }
        if is_any_due || component_pods::are_needed(&cluster, &objects, &ns) {
            objects.extend(list(ctx, kinds::POD, &ns).await?);
            pods = Some(component_pods::of(&objects));
        }
    }
    if readable && deleting {
        for kind in [kinds::POD, kinds::PERSISTENT_VOLUME_CLAIM] {
            objects.extend(remains(ctx, kind, &ns).await);
        }
    }
    if user_readable {
        let kubeconfig = get(ctx, kinds::SECRET, Some(namespace), &secret).await?;
        objects.extend(kubeconfig);
    }
    let restore = match readable && !deleting {
        true => {
            let seen = restore::read(ctx, &cluster, &ns, &mut objects).await;
            seen.map_err(|unread| read(unread.kind, &unread.name, *unread.source))?
        }
        false => None,
    };
    let hibernation = match readable && !deleting {
        true => {
            let seen = hibernation::read(ctx, &cluster, &ns, &mut objects, now).await;
            seen.map_err(|unread| read(unread.kind, &unread.name, *unread.source))?
        }
        false => None,
    };
    let workers = !deleting && ctx.stores.has_workers(&cluster);
    let material = material(&objects);
    let others = ctx.stores.others(&uid);
    let (claimed_hosts, cloud_machines) = match deleting {
        true => (
            ctx.stores.claimed_hosts(namespace),
            ctx.stores.cloud_machines(namespace),
        ),
        false => (Vec::new(), Vec::new()),
    };
    let quotas = match deleting {
        true => Vec::new(),
        false => ctx.ask_quotas_for_cluster(&cluster),
    };
    // One that was refused takes no ranges from others, not even in memory.
    let network = match quotas.first() {
        Some(problem) => Err(problem.clone()),
        None => ctx.decide_network(&cluster, fresh),
    };
    let overlay = match deleting {
        true => None,
        false => ctx.overlay_of(&cluster),
    };
    let left_in_overlay = match overlay.is_some() || deleting {
        true => Vec::new(),
        false => ctx.stores.nodes_in_overlay(&uid),
    };
    let restores_asked = begin::asked(&ctx.stores.restores.state(), &cluster);
    let upgrade = versions::wanted(&cluster);
    let room = upgrade.as_ref().map(|_| room(ctx, &objects, &ns));
    let machines = match upgrade.is_some() || cluster.spec.rotation.client_ca.is_some() {
        true => ctx.stores.machines.state(),
        false => Vec::new(),
    };
    let is_its = |machine: &&Arc<Machine>| machine.spec.cluster_uid == uid;
    let its = || machines.iter().filter(is_its).map(|machine| &**machine);
    let nodes = upgrade.as_ref().map(|_| Nodes::of(its()));
    let kubelets = Kubelets::of(its());
    let upgrade_snapshot = upgrade.and_then(|upgrade| {
        let name = upgrades::snapshot::name(&upgrade, &cluster);
        let key = ObjectRef::new(&name).within(namespace);
        ctx.stores.snapshots.get(&key)
    });
    let tenant = Tenant::NotAsked;
    let mut observed = Observed {
        cluster,
        network,
        quotas,
        standby,
        taker,
        others,
        claimed_hosts,
        cloud_machines,
        objects,
        readable: readable && !deleting,
        user_readable,
        material,
        pods,
        // Asked for below, where something may start at all.
        start: Answer::Wait,
        turn: None,
        templates: ctx.templates.clone(),
        patch,
        workers,
        list_due: ctx.tenants.is_due(&uid, LIST_SWEEP),
        tenant,
        etcd: Etcd::NotAsked,
        etcd_listing: None,
        etcd_steps: EtcdSteps::default(),
        etcd_volumes: BTreeMap::new(),
        newest_backup: None,
        restores_asked,
        etcd_space: EtcdSpace::default(),
        etcd_glance,
        etcd_disks,
        etcd_said: ctx.etcd_looks.said(&uid),
        etcd_patience: ctx.etcd_patience,
        preflight: None,
        held_tokens: None,
        rewritten: None,
        aggregated: None,
        roots: None,
        upgrade_snapshot,
        room: room.unwrap_or_default(),
        nodes: nodes.unwrap_or_default(),
        kubelets,
        upgrade_calm: ctx.upgrade_calm,
        failures: BTreeMap::new(),
        backup: ctx.backups.of(&uid),
        saved_keys: ctx.backups.saved(&uid),
        overlay,
        left_in_overlay,
        restore,
        hibernation,
        usage: Usage {
            last: ctx.usage_looks.last(&uid),
            now: None,
        },
        budget: ctx.budget(),
    };
    // Who takes one over that runs does not start.
    let starts = observed.standby.is_empty() && observed.taker.is_none();
    if !deleting && !observed.cluster.spec.paused && starts {
        observed.start = ask_for_start(ctx, &observed, now);
    }
    Ok(Some(observed))
}

/// Whether there is room for one pod more of each Deployment that an upgrade replaces pods of.
fn room(ctx: &Context, objects: &BTreeMap<Key, Value>, ns: &str) -> Vec<SurgeAnswer> {
    let of = |component: &'static str| {
        let live = objects.get(&Key::new("Deployment", ns, component))?;
        let surge = Surge::of(live)?;
        let answer = ctx.capacity.read(&surge.needs, ns);
        Some(SurgeAnswer {
            component,
            surge,
            answer,
        })
    };
    [names::CONTROL_PLANE, names::CONTROLLERS]
        .into_iter()
        .filter_map(of)
        .collect()
}

/// What of addons no list shows, by kind, namespace and name: bindings, that in the user's namespace
/// included, and, once an addon is switched off, what its programs made. Others tell of them then, because
/// they go before the last of those.
fn unlisted(
    cluster: &TenantCluster,
    ns: &str,
    objects: &BTreeMap<Key, Value>,
) -> Vec<(Kind, String, String)> {
    let mut unlisted = Vec::new();
    let is_listed = |kind: Kind| PARTS.iter().any(|part| part.kind == kind);
    for addon in registry::ALL {
        let is_on = addon.is_enabled(&cluster.spec.addons);
        let mut keys = addon.parts(ns, "", "").into_iter();
        let is_left = !is_on && keys.any(|key| objects.contains_key(&key));
        if !is_on && !is_left {
            continue;
        }
        for left in addon.leftovers() {
            if !is_listed(left.kind) && (is_left || !left.made_by_itself) {
                unlisted.push((left.kind, ns.to_owned(), left.name.to_owned()));
            }
        }
        if let Some(name) = addon.user_binding(&cluster.name_any()) {
            let namespace = cluster.namespace().unwrap_or_default();
            unlisted.push((kinds::ROLE_BINDING, namespace, name));
        }
    }
    unlisted
}

/// A binding that somebody spoilt does not let us in; it is mended first, as one that is missing.
fn lets_us_in(binding: &Value, role: &str, settings: &Settings) -> bool {
    let us = |subject: &Value| {
        subject["kind"] == "ServiceAccount"
            && subject["name"] == settings.operator_service_account.as_str()
            && subject["namespace"] == settings.operator_namespace.as_str()
    };
    let subjects = binding["subjects"].as_array();
    binding["roleRef"]["name"] == role && subjects.is_some_and(|list| list.iter().any(us))
}

/// Asks the queue; a start that is under way (after a restart of the operator) is noted there.
fn ask_for_start(ctx: &Context, observed: &Observed, now: Timestamp) -> Answer {
    let uid = observed.cluster.identity_uid().to_owned();
    let answered = observed
        .cluster
        .status
        .as_ref()
        .is_some_and(|s| s.bootstrap_hash.is_some());
    if answered {
        return Answer::Go;
    }
    match observed.started() {
        Known::Known(started) => {
            // Counted from when the pods were asked for: one that never answers must not get a new
            // place whenever its old one ran out.
            let since = started.pointer("/metadata/creationTimestamp");
            let since = since.and_then(Value::as_str).and_then(|t| t.parse().ok());
            ctx.rollout_queue
                .resume(&uid, Purpose::Start, since.unwrap_or(now));
            Answer::Go
        }
        // It may have a place already, and asks once the operator is let in.
        Known::Unknown { .. } => Answer::Wait,
        Known::Absent => {
            let turn = Turn::of(&observed.cluster, Purpose::Start, now);
            ctx.rollout_queue.ask(&turn, now)
        }
    }
}

/// What the Secrets among these objects hold.
pub(super) fn secrets(objects: &BTreeMap<Key, Value>) -> SecretData {
    let decode = |text: &Value| {
        text.as_str()
            .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok())
            .unwrap_or_default()
    };
    objects
        .iter()
        .filter(|(key, _)| key.kind == "Secret")
        .map(|(key, secret)| {
            let data = secret["data"].as_object().into_iter().flatten();
            (
                key.name.clone(),
                data.map(|(k, v)| (k.clone(), decode(v))).collect(),
            )
        })
        .collect()
}

/// Keys and certificates that these objects hold, but for what was dropped: no copy of it is one either.
pub(super) fn material(objects: &BTreeMap<Key, Value>) -> Material {
    let mut material = certificates::read_store(&with_carried(secrets(objects)));
    for name in dropped(objects) {
        material.forget(name);
    }
    material
}

/// With authorities and keys of the TenantCluster that this one becomes, where it has none of its own: they are written as
/// what was made here would be.
pub(super) fn with_carried(mut secrets: SecretData) -> SecretData {
    let secret = secrets.get(source::SOURCE);
    let carried = secret.and_then(|secret| secret.get(source::IDENTITY_FIELD));
    let carried = carried.map(|carried| identity::carried(carried));
    for (name, data) in carried.unwrap_or_default() {
        secrets.entry(name).or_insert(data);
    }
    secrets
}

/// What is left in a tenant namespace that is to go. It is looked at to be quick, so nothing is
/// reported where the right to look has gone with the binding.
async fn remains(ctx: &Context, kind: Kind, namespace: &str) -> Vec<(Key, Value)> {
    let list = untyped::of(kind, &ctx.client, Some(namespace))
        .list(&ListParams::default())
        .await;
    let found = list.map(|list| list.items).unwrap_or_default();
    let one = |o: &DynamicObject| (Key::new(kind.kind, namespace, &o.name_any()), body(kind, o));
    found.iter().map(one).collect()
}

async fn get(
    ctx: &Context,
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<(Key, Value)>, Error> {
    let api = untyped::of(kind, &ctx.client, namespace);
    let mut tries = 0;
    loop {
        match api.get_opt(name).await {
            Ok(object) => {
                return Ok(object.map(|o| {
                    (
                        Key::new(kind.kind, namespace.unwrap_or(""), name),
                        body(kind, &o),
                    )
                }));
            }
            Err(error) if is_forbidden(&error) && tries < BINDING_TRIES => {
                tries += 1;
                tokio::time::sleep(BINDING_PAUSE).await;
            }
            Err(error) => return Err(read(kind.kind, name, error)),
        }
    }
}

async fn list(ctx: &Context, kind: Kind, namespace: &str) -> Result<Vec<(Key, Value)>, Error> {
    let api = untyped::of(kind, &ctx.client, Some(namespace));
    let params = match kind {
        kinds::SECRET => ListParams::default().labels(api::names::NOT_OF_MACHINES),
        kinds::POD => ListParams::default().labels(&format!(
            "{} in ({}, {}, {}, {})",
            api::names::LABEL_COMPONENT,
            names::ETCD,
            names::ETCD_EVENTS,
            names::CONTROL_PLANE,
            names::CONTROLLERS
        )),
        _ => ListParams::default(),
    };
    let mut tries = 0;
    loop {
        match api.list(&params).await {
            Ok(list) => {
                let found = list.items.iter();
                return Ok(found
                    .map(|o| (Key::new(kind.kind, namespace, &o.name_any()), body(kind, o)))
                    .collect());
            }
            Err(error) if is_forbidden(&error) && tries < BINDING_TRIES => {
                tries += 1;
                tokio::time::sleep(BINDING_PAUSE).await;
            }
            Err(error) => return Err(read(kind.kind, namespace, error)),
        }
    }
}

/// The object as JSON, with kind (lists leave it out) and without managed fields.
pub(super) fn body(kind: Kind, object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(kind.api_version());
    value["kind"] = json!(kind.kind);
    if let Some(meta) = value["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    value
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

fn read(kind: &str, name: &str, source: kube::Error) -> Error {
    Error::Read {
        what: format!("{kind} {name}"),
        source: Box::new(source),
    }
}
