//! The rights of operator and webhook are enough, and none is superfluous: what `operator::rbac` grants
//! each is compared with what the audit log of a whole life shows.
//!
//! Invariant: a right that no request needs is listed here with its reason, or the test fails.
//! Long because each right that no request shows is a few lines.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use api::storage::Class;
use api::{Host, Reason, names};
use kit::lease::{Election, LeaseConfig, Timing};
use kit_objects::kinds;
use kit_objects::rbac::Rule;
use kube::api::{DeleteParams, DynamicObject, Patch};
use kube::{Api, ResourceExt};
use serde_json::json;
use testkit::AuditEntry;
use testkit::fixtures::{wait_for, wait_gone};
use testkit::s3;

use crate::backup_targets::give_secrets;
use crate::quotas::Quota;
use crate::support::backup_target::Target;
use crate::support::checks::Checks;
use crate::support::kubevirt::{KubeVirt, Mode};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, PATIENCE, Site, state, webhook};

/// Where a rule holds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Where {
    Cluster,
    TenantNamespace,
    UserNamespace,
    SystemNamespace,
}

/// One verb on one resource.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Right {
    place: Where,
    verb: &'static str,
    resource: String,
    names: &'static [&'static str],
}

/// Rights that no request shows, and why they are there.
const UNSEEN: [(Where, &str, &str, &str); 31] = [
    (
        Where::Cluster,
        "get",
        "covey.dev/accessgrants",
        "there is none here: see `access`, which does it as this user",
    ),
    (
        Where::Cluster,
        "patch",
        "covey.dev/accessgrants",
        "as above",
    ),
    (
        Where::Cluster,
        "patch",
        "covey.dev/accessgrants/status",
        "as above",
    ),
    (
        Where::Cluster,
        "delete",
        "covey.dev/accessgrants",
        "asked for an hour after one has ended, which no test waits for",
    ),
    (
        Where::Cluster,
        "patch",
        "covey.dev/fleetpolicies/status",
        "there is none here: see `fleet`, which does it as this user",
    ),
    (
        Where::Cluster,
        "get",
        "persistentvolumes",
        "asked for where a member of three of etcd is replaced: see `etcd_members`, which does it as this user",
    ),
    (Where::Cluster, "patch", "persistentvolumes", "as above"),
    (
        Where::TenantNamespace,
        "delete",
        "persistentvolumeclaims",
        "as above",
    ),
    (
        Where::Cluster,
        "create",
        "covey.dev/snapshots",
        "asked for before an upgrade where there is a backup: see `rollouts`, which does it as this user",
    ),
    (
        Where::TenantNamespace,
        "delete",
        "apps/statefulsets",
        "asked for where members of etcd move to another StorageClass: see `etcd_sizes`, which does it as this user",
    ),
    (
        Where::Cluster,
        "get",
        "covey.dev/restores",
        "asked for where a tenant cluster is brought back in place: see `etcd_restore`, which does it as this user",
    ),
    (
        Where::Cluster,
        "create",
        "covey.dev/restores",
        "asked for where all volumes of etcd are lost and the user said so: see `etcd_volume_loss`, which does it as this user",
    ),
    (Where::TenantNamespace, "create", "batch/jobs", "as above"),
    (
        Where::TenantNamespace,
        "delete",
        "batch/jobs",
        "asked for where that is given up while Jobs build: see `etcd_restore`",
    ),
    (
        Where::TenantNamespace,
        "list",
        "snapshot.storage.k8s.io/volumesnapshots",
        "asked for where what a restored tenant cluster does not know is looked for: see `etcd_restore`",
    ),
    (
        Where::TenantNamespace,
        "delete",
        "snapshot.storage.k8s.io/volumesnapshots",
        "as above",
    ),
    (
        Where::TenantNamespace,
        "delete",
        "apps/deployments",
        "asked for where Events are kept elsewhere no more: see `etcd_events`, which does it as this user",
    ),
    (
        Where::TenantNamespace,
        "delete",
        "networking.k8s.io/networkpolicies",
        "as above",
    ),
    (
        Where::TenantNamespace,
        "delete",
        "serviceaccounts",
        "as above",
    ),
    (
        Where::SystemNamespace,
        "create",
        "configmaps",
        "asked for where a tenant cluster sleeps: see `hibernation`, which does it as this user",
    ),
    (Where::SystemNamespace, "get", "configmaps", "as above"),
    (Where::SystemNamespace, "patch", "configmaps", "as above"),
    (
        Where::TenantNamespace,
        "create",
        "discovery.k8s.io/endpointslices",
        "as above",
    ),
    (
        Where::TenantNamespace,
        "delete",
        "discovery.k8s.io/endpointslices",
        "as above",
    ),
    (
        Where::TenantNamespace,
        "get",
        "discovery.k8s.io/endpointslices",
        "as above",
    ),
    (
        Where::TenantNamespace,
        "patch",
        "discovery.k8s.io/endpointslices",
        "as above",
    ),
    (
        Where::Cluster,
        "bind",
        "rbac.authorization.k8s.io/clusterroles",
        "asked for by the API server itself when a RoleBinding is written",
    ),
    (
        Where::Cluster,
        "update",
        "covey.dev/tenantclusters/finalizers",
        "asked for by the admission plugin OwnerReferencesPermissionEnforcement, where it is on",
    ),
    (
        Where::Cluster,
        "patch",
        "covey.dev/providerconfigs/status",
        "written where a cloud was asked: clouds.rs",
    ),
    (
        Where::Cluster,
        "patch",
        "covey.dev/providerconfigs",
        "its finalizer, written where a Machine needs it: clouds.rs",
    ),
    (
        Where::Cluster,
        "update",
        "covey.dev/nodepools/finalizers",
        "as that of tenantclusters/finalizers: Machines belong to their node pool",
    ),
];

fn of_operator() -> BTreeSet<Right> {
    rights(vec![
        (Where::Cluster, operator::rbac::cluster()),
        (Where::TenantNamespace, operator::rbac::tenant_namespace()),
        (Where::UserNamespace, operator::rbac::user_namespace()),
        (Where::SystemNamespace, operator::rbac::system_namespace()),
    ])
}

fn of_webhook() -> BTreeSet<Right> {
    let own = operator::rbac::webhook_system_namespace();
    rights(vec![
        (Where::Cluster, operator::rbac::webhook()),
        (Where::SystemNamespace, own),
    ])
}

fn rights(all: Vec<(Where, Vec<Rule>)>) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for (place, rules) in all {
        for Rule {
            groups,
            resources,
            verbs,
            names,
        } in rules
        {
            for (group, resource) in groups
                .iter()
                .flat_map(|g| resources.iter().map(move |r| (*g, *r)))
            {
                let resource = if group.is_empty() {
                    resource.to_owned()
                } else {
                    format!("{group}/{resource}")
                };
                rights.extend(verbs.iter().map(|verb| Right {
                    place,
                    verb,
                    resource: resource.clone(),
                    names,
                }));
            }
        }
    }
    rights
}

fn place(site: &Site, entry: &AuditEntry) -> Where {
    match entry.namespace.as_deref() {
        Some(ns) if ns == site.users => Where::UserNamespace,
        Some(ns) if ns == site.system => Where::SystemNamespace,
        // The audit log puts a Namespace into itself.
        Some(_) if entry.kind != "namespaces" => Where::TenantNamespace,
        _ => Where::Cluster,
    }
}

fn uses(right: &Right, entry: &AuditEntry, at: Where) -> bool {
    // An apply that makes the object needs the right to create it, too.
    let created = entry.verb == "patch" && entry.code == Some(201);
    let verb = right.verb == entry.verb || (right.verb == "create" && created);
    let named = right.names.is_empty()
        || entry
            .name
            .as_deref()
            .is_some_and(|name| right.names.contains(&name));
    verb && named
        && right.resource == entry.kind
        && (right.place == at || right.place == Where::Cluster)
}

/// Creation, change, drift of every kind, and deletion, with election and webhook as in the binary.
async fn live(site: &Site) -> Result<()> {
    let launch = Launch::new(site)?;
    let client = launch.client(site)?;
    let lease = LeaseConfig {
        namespace: site.system.clone(),
        name: operator::manager::LEASE.to_owned(),
        identity: "operator-1".to_owned(),
        timing: Timing::default(),
    };
    let (leadership, election) = Election::start(client.clone(), lease);
    let operator = Launch {
        leadership: leadership.clone(),
        ..launch
    }
    .start(site)?;
    let listener = webhook::listener().await?;
    webhook::install(site, webhook::CONFIGURATION, &listener, "Ignore").await?;
    let keeper = webhook::keep(site, client, webhook::CONFIGURATION, leadership);
    let served = webhook::Running::start(site, listener).await?;
    webhook::wait_trusted(site, webhook::CONFIGURATION).await?;

    let quota = Quota::lay(site, &json!({ "clusters": 2 })).await?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    host(site).await?;
    backup_target(site).await?;
    quota.wait_used("clusters", &json!(1)).await?;
    quota.remove().await?;
    site.change(
        "demo",
        &json!({ "spec": { "controlPlane": { "replicas": 2 } } }),
    )
    .await?;
    site.wait_ready("demo").await?;
    let ns = tenant_namespace(&cluster);
    for enabled in [false, true] {
        // The one goes when the other comes.
        let addons = json!({
            "konnectivity": { "enabled": enabled }, "cloudController": { "enabled": !enabled },
            "autoscaler": { "enabled": !enabled }, "csi": { "enabled": !enabled },
        });
        site.change("demo", &json!({ "spec": { "addons": addons } }))
            .await?;
        site.wait_ready("demo").await?;
        if !enabled {
            // As the cloud controller manager makes it for itself.
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": names::LEASE_CLOUD_CONTROLLER, "namespace": ns },
            });
            apply(&site.admin, &lease).await?;
        }
    }
    // A member of etcd ends, to be made from another template.
    let resources =
        json!({ "spec": { "etcd": { "resources": { "requests": { "cpu": "60m" } } } } });
    site.change("demo", &resources).await?;
    site.wait_ready("demo").await?;
    let _kubevirt = workers(site, &ns).await?;
    for kind in state::PARTS {
        let objects = site.objects(kind, &ns);
        let Some(object) = objects
            .list(&Default::default())
            .await?
            .items
            .into_iter()
            .next()
        else {
            continue;
        };
        let name = object.metadata.name.context("no name")?;
        objects.delete(&name, &Default::default()).await?;
        let back = |found: Option<&DynamicObject>| {
            found.is_some_and(|f| f.metadata.uid != object.metadata.uid)
        };
        // Authorities come back from their copies; a claim in use stays (its protection holds it).
        if kind != kinds::PERSISTENT_VOLUME_CLAIM {
            wait_for(&objects, &name, back, PATIENCE).await?;
        }
    }
    site.make_pod(&ns, "etcd-extra").await?;
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;

    operator.stop().await?;
    keeper.abort();
    served.stop().await?;
    election.release().await;
    webhook::uninstall(site, webhook::CONFIGURATION).await
}

/// A BackupTarget that is checked, and checked anew for another spec. What it names is not there.
async fn backup_target(site: &Site) -> Result<()> {
    let _checks = Checks::start(&site.admin, &site.system);
    let bucket = json!({ "bucket": "backups", "credentialsSecret": "backup-bucket" });
    let target = Target::make(site, &json!({ "s3": bucket })).await?;
    target.wait("False", Reason::TargetUnusable).await?;
    let other = json!({ "s3": { "prefix": "covey" } });
    target.change(&other).await?;
    target.wait("False", Reason::TargetUnusable).await?;
    backup(site, &target).await?;
    target.remove().await
}

/// A backup that is switched on, and off again.
async fn backup(site: &Site, target: &Target) -> Result<()> {
    give_secrets(site, s3::SECRET_ACCESS_KEY).await?;
    let ns = tenant_namespace(&site.clusters().get("demo").await?);
    let deployments = site.objects(kinds::DEPLOYMENT, &ns);
    let on = json!({ "spec": { "backup": { "target": target.name } } });
    site.change("demo", &on).await?;
    wait_for(&deployments, "backup", |d| d.is_some(), PATIENCE).await?;
    let snapshot = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot", "spec": { "clusterName": "demo" },
        "metadata": { "name": "now", "namespace": site.users },
    });
    apply(&site.admin, &snapshot).await?;
    let snapshots = site.objects(kinds::SNAPSHOT, &site.users);
    let is_said = |s: Option<&DynamicObject>| s.is_some_and(|s| s.data["status"].is_object());
    wait_for(&snapshots, "now", is_said, PATIENCE).await?;
    let params = DeleteParams::background();
    snapshots.delete("now", &params).await?;
    let restore = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "spec": { "clusterName": "demo", "dryRun": true },
        "metadata": { "name": "now", "namespace": site.users },
    });
    apply(&site.admin, &restore).await?;
    let restores = site.objects(kinds::RESTORE, &site.users);
    wait_for(&restores, "now", is_said, PATIENCE).await?;
    restores.delete("now", &params).await?;
    site.change("demo", &json!({ "spec": { "backup": null } }))
        .await?;
    let accounts = site.objects(kinds::SERVICE_ACCOUNT, &ns);
    wait_gone(&accounts, "backup", PATIENCE).await?;
    let secrets = site.objects(kinds::SECRET, &ns);
    wait_gone(&secrets, "backup-etcd-client", PATIENCE).await
}

/// A Host that is listed without its Secret, and deleted.
async fn host(site: &Site) -> Result<()> {
    let host = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": { "name": "rack-a-1", "namespace": site.users },
        "spec": { "address": "198.51.100.10", "user": "root", "sshKeySecretName": "missing",
            "hostKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"] },
    });
    apply(&site.admin, &host).await?;
    let hosts = Api::<Host>::namespaced(site.admin.clone(), &site.users);
    let is_told = |host: Option<&Host>| {
        let status = host.and_then(|host| host.status.as_ref());
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.reason == Reason::LoginFailed)
    };
    wait_for(&hosts, "rack-a-1", is_told, PATIENCE).await?;
    hosts.delete("rack-a-1", &Default::default()).await?;
    wait_gone(&hosts, "rack-a-1", PATIENCE).await
}

/// Node pools' lives: one loses a machine to scaling and stays, to go with the tenant cluster; in the
/// other an instance outlives its VirtualMachine, and the pool is deleted.
async fn workers(site: &Site, ns: &str) -> Result<KubeVirt> {
    let kubevirt = KubeVirt::start(site);
    site.create_pool("workers", 1).await?;
    site.create_pool("more", 2).await?;
    site.wait_pool_ready("workers").await?;
    site.wait_pool_ready("more").await?;
    // The only VirtualMachine that the operator itself deletes for certain: the other pool's goes by
    // the test's hand, and what is left may go with the tenant namespace before its Machine is seen.
    let victim = site.machines_of("more").await?.remove(0).name_any();
    let smaller = json!({
        "metadata": { "annotations": { names::ANNOTATION_DELETE_MACHINE: victim } },
        "spec": { "replicas": 1 },
    });
    site.change_pool("more", &smaller).await?;
    wait_gone(&site.machines(), &victim, PATIENCE).await?;
    let machine = site.machines_of("workers").await?.remove(0).name_any();
    kubevirt.set(Mode::Asleep);
    let vms = site.objects(kinds::VIRTUAL_MACHINE, ns);
    let off = json!({ "metadata": { "finalizers": null } });
    vms.patch(&machine, &Default::default(), &Patch::Merge(off))
        .await?;
    vms.delete(&machine, &Default::default()).await?;
    site.pools().delete("workers", &Default::default()).await?;
    wait_gone(&site.pools(), "workers", PATIENCE).await?;
    kubevirt.set(Mode::Joining);
    Ok(kubevirt)
}

/// What a user asked for, and what it was granted: neither is more than the other.
fn compare(
    site: &Site,
    mut seen: Vec<AuditEntry>,
    granted: BTreeSet<Right>,
    unseen: &[(Where, &str, &str, &str)],
) {
    // A binding takes a moment to be known; the same request is let in right afterwards.
    for (index, refused) in seen
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.code == Some(403))
    {
        let path = |entry: &AuditEntry| entry.uri.split('?').next().unwrap_or_default().to_owned();
        let again = seen[index..].iter().any(|entry| {
            (entry.verb == refused.verb) && path(entry) == path(refused) && entry.code != Some(403)
        });
        let at = place(site, refused);
        let bound = at == Where::TenantNamespace || at == Where::UserNamespace;
        assert!(
            again && bound,
            "no right to {} {}",
            refused.verb,
            refused.uri
        );
    }
    seen.retain(|entry| entry.code != Some(403));

    let unused: BTreeSet<_> = granted
        .into_iter()
        .filter(|right| {
            !seen
                .iter()
                .any(|entry| uses(right, entry, place(site, entry)))
        })
        .map(|right| (right.place, right.verb, right.resource))
        .collect();
    let listed = unseen
        .iter()
        .map(|(place, verb, resource, _)| (*place, *verb, (*resource).to_owned()));
    let listed: BTreeSet<_> = listed.collect();
    let superfluous: Vec<_> = unused.difference(&listed).collect();
    assert!(
        superfluous.is_empty(),
        "granted, and never used: {superfluous:#?}"
    );
    let used: Vec<_> = listed.difference(&unused).collect();
    assert!(used.is_empty(), "listed as unseen, and seen: {used:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_and_webhook_use_every_right_that_they_have_and_lack_none() -> Result<()> {
    let Some(mut site) = Site::new("rights").await? else {
        return Ok(());
    };
    site.storage.classes.push(Class {
        name: "standard".to_owned(),
        storage_class: "standard".to_owned(),
        ..Class::default()
    });
    let window = site.api.audit().window()?;
    Box::pin(live(&site)).await?;
    let seen = window.entries()?;
    let of = |user: &str| {
        let entries = seen.iter().filter(|entry| entry.user == user);
        entries.cloned().collect::<Vec<_>>()
    };
    compare(&site, of(&site.user()), of_operator(), &UNSEEN);
    compare(&site, of(&webhook::user(&site)), of_webhook(), &[]);
    Ok(())
}
