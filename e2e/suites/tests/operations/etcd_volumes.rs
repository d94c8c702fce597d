//! Needs: operator
//!
//! What storage does to etcd, on a filesystem of its own on a loop device: an old copy of a volume is put back (E5), bits
//! flip on the volume of one of three (E3). Nothing old is served, nothing that was acknowledged is lost.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::{EtcdStatus, HibernationPhase};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use suites::cluster::wait::wait_for;
use suites::cluster::{Tenant, parts::gate_refused};
use suites::scenario::{self, PATIENCE, Scenario};

use crate::writer::Writer;

/// Exit code of the start gate (docs/etcd.md).
const OUTDATED_DATA: i32 = 18;
/// Writes of which the operator has looked at most in their middle: it asks members what they have every 30 s.
const LOOKED: usize = 1_000;
/// How long they may take.
const WRITTEN: Duration = Duration::from_secs(240);
/// How long a member may take to be another one: it is added, catches up, and the one before it goes.
const REPLACED: Duration = Duration::from_secs(600);
/// A value that nobody else has.
const VALUE: &str = "needle-3f9c1a7e5b2d";

#[tokio::test]
async fn old_copy_of_a_volume_that_is_put_back_does_not_start() {
    scenario::run("etcd-put-back", put_back).await;
}

#[tokio::test]
async fn member_whose_bits_flipped_on_its_volume_is_replaced() {
    scenario::run("etcd-flip", flip).await;
}

/// The volume of a member, as a filesystem on a loop device in the place of the directory that the lab made.
struct Volume<'a> {
    scenario: &'a Scenario,
    directory: String,
}

impl<'a> Volume<'a> {
    /// Takes what is in the volume along. Nobody may use it meanwhile.
    async fn of(s: &'a Scenario, tenant: &Tenant, member: &str) -> Result<Self> {
        let claims: Api<PersistentVolumeClaim> = tenant.parts();
        let claim = claims.get(&format!("data-{member}")).await?;
        let name = claim.spec.and_then(|spec| spec.volume_name);
        let volumes: Api<PersistentVolume> = Api::all(s.client().clone());
        let volume = volumes.get(&name.context("not bound")?).await?;
        let local = volume.spec.and_then(|spec| spec.local);
        let volume = Self {
            scenario: s,
            directory: local.context("not a local volume")?.path,
        };
        volume.shell(
            "truncate -s 1G \"$1.image\" && mkfs.ext4 -q \"$1.image\" && mkdir -p \"$1.new\" && mount -o loop \"$1.image\" \"$1.new\" \
             && cp -a \"$1/.\" \"$1.new/\" && umount \"$1.new\" && rmdir \"$1.new\" && mount -o loop \"$1.image\" \"$1\"",
        )?;
        Ok(volume)
    }

    /// `$1` is the volume's directory.
    fn shell(&self, script: &str) -> Result<String> {
        let arguments = ["-ec", script, "sh", &self.directory];
        self.scenario.on_host("sh", &arguments)
    }

    /// Copies the file of the loop device.
    fn copy(&self, name: &str) -> Result<()> {
        let script = format!(
            "umount \"$1\"; cp --sparse=always \"$1.image\" \"$1.{name}\"; mount -o loop \"$1.image\" \"$1\""
        );
        self.shell(&script).map(drop)
    }

    /// Puts a copy in its place. A pod that is there has what was there before.
    fn put(&self, name: &str) -> Result<()> {
        let script = format!("umount -l \"$1\"; mount -o loop \"$1.{name}\" \"$1\"");
        self.shell(&script).map(drop)
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        // A pod that still has it keeps the device until it ends.
        let _ = self.shell("umount -l \"$1\"; rm -f \"$1\".image \"$1\".old \"$1\".newest");
    }
}

async fn sleeps(tenant: &Tenant, is_asleep: bool) -> Result<()> {
    let spec = json!({ "hibernation": { "enabled": is_asleep, "wake": "Manual" } });
    tenant.change(&spec).await?;
    if !is_asleep {
        return Ok(());
    }
    let asleep = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref()?.hibernation.as_ref()?;
        (status.phase == HibernationPhase::Asleep).then_some(())
    };
    wait_for(&tenant.api(), &tenant.name, "sleeps", PATIENCE, asleep).await
}

async fn wakes(tenant: &Tenant) -> Result<()> {
    sleeps(tenant, false).await?;
    tenant.settled(PATIENCE).await.map(drop)
}

async fn put_back(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    sleeps(&tenant, true).await?;
    let volume = Volume::of(s, &tenant, "etcd-0").await?;
    wakes(&tenant).await?;
    let writer = Writer::start(admin);
    writer.more(20, PATIENCE).await?;

    sleeps(&tenant, true).await?;
    volume.copy("old")?;
    wakes(&tenant).await?;
    writer.more(LOOKED, WRITTEN).await?;
    sleeps(&tenant, true).await?;
    volume.copy("newest")?;
    volume.put("old")?;
    sleeps(&tenant, false).await?;

    let pods: Api<Pod> = tenant.parts();
    wait_for(&pods, "etcd-0", "does not start", PATIENCE, |pod| {
        (gate_refused(pod) == Some(OUTDATED_DATA)).then_some(())
    })
    .await?;
    let says = |cluster: &TenantCluster| {
        let conditions = &cluster.status.as_ref()?.conditions;
        let mut degraded = conditions.iter().filter(|c| c.type_ == "Degraded");
        let says = degraded.any(|c| c.status == "True" && c.reason == "OutdatedData");
        says.then_some(())
    };
    wait_for(&tenant.api(), "demo", "says why", PATIENCE, says).await?;
    let before = writer.acknowledged();

    // It cannot be put to sleep while nobody knows what is left on its nodes.
    volume.put("newest")?;
    ensure!(
        writer.acknowledged() == before,
        "the old copy was written to"
    );
    let now = DeleteParams::default().grace_period(0);
    pods.delete("etcd-0", &now).await?;
    tenant.settled(PATIENCE).await?;
    writer.more(20, PATIENCE).await?;
    writer.finish().await
}

fn etcd(cluster: &TenantCluster) -> Option<&EtcdStatus> {
    cluster.status.as_ref()?.etcd.as_ref()
}

async fn flip(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |spec| spec.etcd.replicas = 3).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    sleeps(&tenant, true).await?;
    let volume = Volume::of(s, &tenant, "etcd-2").await?;
    wakes(&tenant).await?;
    let before = etcd(&tenant.get().await?).context("no etcd")?.clone();

    let maps: Api<ConfigMap> = Api::default_namespaced(admin.clone());
    let needle = ConfigMap {
        metadata: ObjectMeta {
            name: Some("needle".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("value".to_owned(), VALUE.to_owned())].into()),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &needle).await?;
    let writer = Writer::start(admin);
    // Its page is full then, and is written no more.
    writer.more(LOOKED, WRITTEN).await?;
    let flipped = volume.shell(&format!(
        "db=$(find \"$1\" -path '*member/snap/db'); LC_ALL=C grep -abo {VALUE} \"$db\" | cut -d: -f1 | while read -r at; do\n\
         printf N | dd of=\"$db\" bs=1 seek=\"$at\" conv=notrunc,fsync 2> /dev/null; echo \"$at\"; done"
    ))?;
    ensure!(!flipped.is_empty(), "the value is not in the database");
    let pods: Api<Pod> = tenant.parts();
    let now = DeleteParams::default().grace_period(0);
    pods.delete("etcd-2", &now).await?;

    let uid = |etcd: &EtcdStatus| etcd.members.get(2).map(|member| member.volume_uid.clone());
    let replaced = |cluster: &TenantCluster| {
        let etcd = etcd(cluster)?;
        let all = etcd.members.iter();
        let vote = all
            .filter(|member| member.started && !member.learner)
            .count();
        (uid(etcd)? != uid(&before)? && vote == 3 && etcd.replacing.is_none()).then(|| etcd.clone())
    };
    let after = wait_for(&tenant.api(), "demo", "it is replaced", REPLACED, replaced).await?;
    ensure!(after.cluster_id == before.cluster_id, "{after:?}");
    let read = maps.get("needle").await?.data.unwrap_or_default();
    ensure!(
        read.get("value").is_some_and(|value| value == VALUE),
        "{read:?}"
    );
    writer.more(20, PATIENCE).await?;
    writer.finish().await?;
    ensure!(maps.get("needle").await?.uid().is_some());
    Ok(())
}
