//! What tests of restores begin with: a tenant cluster whose etcd are real processes and has a backup, in a folder or in a
//! bucket of a real S3 endpoint; and what a Restore says.
//!
//! Invariant: nothing of a target outlives its test.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use anyhow::{Context as _, Result};
use api::storage::Class;
use api::{Reason, Restore, TenantCluster};
use backup_format::keys::RecoveryKey;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::ListParams;
use lab::programs::Program;
use operator::etcd_replacement::patience::Patience;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
use testkit::FaultPlan;
use testkit::fixtures::{minimal, wait_for};
use testkit::process::Process;
use testkit::programs::reference_or_skip;
use testkit::s3;

use super::backup_target::Target;
use super::checks::secret;
use super::etcd_members::{EtcdMembers, MEMBERS};
use super::pools::said;
use super::restore_pods::RestorePods;
use super::site::{apply, tenant_namespace};
use super::{Launch, Operator, PATIENCE, Site};

/// A tenant cluster `demo` of three members that run, with a target in a claim, and its operator.
pub(crate) struct BackedUp {
    pub(crate) site: Site,
    pub(crate) target: Target,
    pub(crate) cluster: TenantCluster,
    pub(crate) namespace: String,
    pub(crate) played: EtcdMembers,
    pub(crate) operator: Operator,
    pub(crate) etcdctl: PathBuf,
    pub(crate) etcdutl: PathBuf,
}

impl BackedUp {
    /// `backup`: what its `spec.backup` says besides the target. None where programs are missing.
    pub(crate) async fn open(prefix: &str, backup: &Value) -> Result<Option<Self>> {
        let Some(site) = Site::without_etcd(prefix).await? else {
            return Ok(None);
        };
        let etcdctl = reference_or_skip(Program::ETCD, "etcdctl")?;
        let etcdutl = reference_or_skip(Program::ETCD, "etcdutl")?;
        let (Some(etcdctl), Some(etcdutl)) = (etcdctl, etcdutl) else {
            return Ok(None);
        };
        let target = Target::make(&site, &json!({ "claim": { "size": "1Gi" } })).await?;
        let mut cluster = minimal(&site.users, "demo");
        cluster.spec.etcd.replicas = i32::try_from(MEMBERS)?;
        let mut backup = backup.clone();
        backup["target"] = json!(target.name);
        cluster.spec.backup = Some(serde_json::from_value(backup)?);
        let cluster = site.create_as(&cluster).await?;
        let namespace = tenant_namespace(&cluster);
        let Some(played) = EtcdMembers::start(&site.admin, &namespace, &[]).await? else {
            return Ok(None);
        };
        let mut launch = Launch::new(&site)?.plan(&FaultPlan::none());
        launch.dial = Some(played.dial(site.dial()));
        launch.etcd_patience = Patience::default();
        // One with snapshots, so that they are looked at, too.
        launch.settings.storage.classes.push(Class {
            name: "standard".to_owned(),
            storage_class: "standard".to_owned(),
            snapshot_class: Some("snapshots".to_owned()),
            ..Class::default()
        });
        let operator = launch.start(&site)?;
        Ok(Some(Self {
            site,
            target,
            cluster,
            namespace,
            played,
            operator,
            etcdctl,
            etcdutl,
        }))
    }
}

/// A bucket that a target of the site names, and the key that opens what is in it.
pub(crate) struct Bucket {
    pub(crate) target: Target,
    recovery: RecoveryKey,
    programs: [PathBuf; 2],
    _store: Process,
    _folder: TempDir,
}

impl Bucket {
    /// None where programs are missing.
    pub(crate) async fn make(site: &Site) -> Result<Option<Self>> {
        let etcd = reference_or_skip(Program::ETCD, "etcd")?;
        let etcdutl = reference_or_skip(Program::ETCD, "etcdutl")?;
        let (Some(etcd), Some(etcdutl)) = (etcd, etcdutl) else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let Some((store, port)) = s3::serve(folder.path()).await? else {
            return Ok(None);
        };
        let recovery = RecoveryKey::generate()?;
        let key = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "backup-key", "namespace": site.system },
            "data": { "wrapping-key": k8s_openapi::ByteString(recovery.wrapping_key().reveal()) },
        });
        apply(&site.admin, &key).await?;
        let login = json!({
            "access-key-id": s3::ACCESS_KEY_ID, "secret-access-key": s3::SECRET_ACCESS_KEY,
        });
        apply(&site.admin, &secret(&site.system, "backup-bucket", &login)).await?;
        let place = json!({ "s3": {
            "endpoint": format!("http://127.0.0.1:{port}"), "bucket": "backups", "prefix": "covey",
            "credentialsSecret": "backup-bucket",
        }});
        Ok(Some(Self {
            target: Target::make(site, &place).await?,
            recovery,
            programs: [etcd, etcdutl],
            _store: store,
            _folder: folder,
        }))
    }

    /// What `spec.backup` of a TenantCluster says.
    pub(crate) fn backup(&self) -> Result<api::tenant_cluster::Backup> {
        let backup = json!({ "target": self.target.name, "delta": "1s" });
        Ok(serde_json::from_value(backup)?)
    }

    /// Gives the recovery key to the operator.
    pub(crate) async fn lend_recovery_key(&self, site: &Site) -> Result<()> {
        let text = json!({ "recovery-key": self.recovery.reveal() });
        apply(&site.admin, &secret(&site.system, "recovery-key", &text)).await?;
        let names = json!({ "encryption": { "keySecret": "backup-key", "recoverySecret": "recovery-key" } });
        self.target.change(&names).await
    }

    /// Plays the pods that back a tenant cluster up, and bring it back. `status`: where the first of them answers.
    pub(crate) fn pods(
        &self,
        site: &Site,
        namespace: &str,
        played: &EtcdMembers,
        status: &Arc<AtomicU16>,
    ) -> RestorePods {
        RestorePods {
            client: site.admin.clone(),
            namespace: namespace.to_owned(),
            status: Arc::clone(status),
            volumes: played.volume(""),
            etcd: (0..MEMBERS).map(|seat| played.client_url(seat)).collect(),
            programs: self.programs.clone(),
            runs: None,
        }
    }
}

/// What its etcd is, once its only member has run.
pub(crate) async fn cluster_id(site: &Site, name: &str) -> Result<String> {
    let known = |cluster: &TenantCluster| cluster.status.clone()?.etcd?.cluster_id;
    let clusters = site.clusters();
    let is = |cluster: Option<&TenantCluster>| cluster.and_then(known).is_some();
    let found = wait_for(&clusters, name, is, 2 * PATIENCE).await?;
    found.as_ref().and_then(known).context("it was just seen")
}

/// What a tenant cluster is.
pub(crate) async fn identity(site: &Site, ns: &str) -> Result<Vec<(String, Option<Value>)>> {
    let secrets: Api<Secret> = Api::namespaced(site.admin.clone(), ns);
    let mut all = Vec::new();
    for name in AUTHORITIES.into_iter().chain([SERVICE_ACCOUNT, ENCRYPTION]) {
        let found = secrets.get_opt(name).await?.and_then(|secret| secret.data);
        all.push((
            name.to_owned(),
            found.map(serde_json::to_value).transpose()?,
        ));
    }
    Ok(all)
}

/// Waits until a Restore says so.
pub(crate) async fn told(
    site: &Site,
    name: &str,
    type_: &str,
    wanted: (&str, Reason),
) -> Result<Restore> {
    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    let wanted = (wanted.0.to_owned(), wanted.1.as_str().to_owned());
    let is = |restore: Option<&Restore>| {
        let object = serde_json::to_value(restore).unwrap_or_default();
        said(&object, type_) == wanted
    };
    let found = wait_for(&restores, name, is, 3 * PATIENCE).await;
    if found.is_err() {
        let now = restores.get(name).await?.status;
        let clusters = site.clusters().list(&ListParams::default()).await?;
        let clusters: Vec<_> = clusters.items.into_iter().map(|c| c.status).collect();
        eprintln!("{}", serde_json::to_string_pretty(&json!([now, clusters]))?);
    }
    found?.context("it was just seen")
}

/// What a controller makes elsewhere: Jobs' pods have it. Waits for the namespace.
pub(crate) async fn give_account(site: &Site, namespace: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(site.admin.clone());
    wait_for(&namespaces, namespace, |found| found.is_some(), PATIENCE).await?;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "default", "namespace": namespace },
    });
    apply(&site.admin, &account).await?;
    Ok(())
}
