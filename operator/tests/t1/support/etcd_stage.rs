//! A tenant cluster with three members of etcd that are real processes, and what has to be so of it afterwards.
//!
//! Invariant: whatever happened to it, it is one cluster, and every write that was acknowledged is on each member.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use kube::Client;
use operator::etcd_replacement::patience::Patience;
use operator::tenant_session::etcd;
use testkit::FaultPlan;
use testkit::fixtures::{is_settled, minimal, wait_for};

use super::etcd_members::{EtcdMembers, MEMBERS, Writer, has_all, members};
use super::site::tenant_namespace;
use super::{Launch, Operator, Site};

/// StorageClasses that users may name.
pub(crate) const CLASSES: [&str; 2] = ["slow", "fast"];

/// A tenant cluster with three members of etcd that run.
pub(crate) struct Stage {
    pub(crate) site: Site,
    pub(crate) members: EtcdMembers,
    pub(crate) namespace: String,
}

impl Stage {
    /// One of three members that run with these flags instead of the StatefulSet's.
    pub(crate) async fn new(prefix: &str, instead: &[(&str, &str)]) -> Result<Option<Self>> {
        Self::of(prefix, 3, instead).await
    }

    /// One of so many members.
    pub(crate) async fn of(
        prefix: &str,
        members: i32,
        instead: &[(&str, &str)],
    ) -> Result<Option<Self>> {
        let Some(site) = Site::without_etcd(prefix).await? else {
            return Ok(None);
        };
        let mut cluster = minimal(&site.users, "demo");
        cluster.spec.etcd.replicas = members;
        let cluster = site.create_as(&cluster).await?;
        let namespace = tenant_namespace(&cluster);
        let members = EtcdMembers::start(&site.admin, &namespace, instead).await?;
        let Some(members) = members else {
            return Ok(None);
        };
        Ok(Some(Self {
            site,
            members,
            namespace,
        }))
    }

    pub(crate) fn operator(&self, plan: &FaultPlan, patience: Patience) -> Result<Operator> {
        let mut launch = Launch::new(&self.site)?.plan(plan);
        launch.dial = Some(self.members.dial(self.site.dial()));
        launch.etcd_patience = patience;
        launch.settings.etcd_storage_classes = CLASSES.map(str::to_owned).to_vec();
        launch.start(&self.site)
    }

    /// Waits until all members are known and the operator is content.
    pub(crate) async fn whole(&self, within: Duration) -> Result<EtcdStatus> {
        let is_whole = |cluster: &TenantCluster| whole(cluster).is_some() && is_settled(cluster);
        let clusters = self.site.clusters();
        let found = wait_for(&clusters, "demo", |c| c.is_some_and(is_whole), within).await;
        found
            .with_context(|| self.members.last_words())?
            .as_ref()
            .and_then(whole)
            .context("invariant: it was just seen")
    }

    pub(crate) async fn clients(&self) -> Result<Vec<Client>> {
        members(&self.site.admin, &self.namespace, &self.members).await
    }

    pub(crate) async fn writer(&self) -> Result<Writer> {
        Writer::start(self.clients().await?, &self.members.file("acknowledged"))
    }
}

/// What is known of etcd, where all members are there, have run and vote.
pub(crate) fn whole(cluster: &TenantCluster) -> Option<EtcdStatus> {
    let etcd = cluster.status.as_ref()?.etcd.clone()?;
    let is_whole = |m: &EtcdMemberStatus| m.started && !m.learner && m.id.is_some();
    let all = etcd.members.len() == MEMBERS && etcd.members.iter().all(is_whole);
    (all && etcd.cluster_id.is_some() && etcd.replacing.is_none()).then_some(etcd)
}

/// What etcd is, without how far members are known to have its log, which is noted whenever one of them ends.
pub(crate) fn without_indexes(etcd: &EtcdStatus) -> EtcdStatus {
    let mut etcd = etcd.clone();
    for member in &mut etcd.members {
        member.last_index = None;
    }
    etcd
}

/// One cluster of three members that vote, as each of them says it, with all of these writes on each.
pub(crate) async fn check(stage: &Stage, etcd: &EtcdStatus, writes: &BTreeSet<u64>) -> Result<()> {
    for (seat, client) in stage.clients().await?.iter().enumerate() {
        let status = etcd::status(client).await?;
        ensure!(
            Some(&status.cluster_id) == etcd.cluster_id.as_ref(),
            "{status:?}"
        );
        ensure!(
            Some(&status.member_id) == etcd.members[seat].id.as_ref(),
            "{status:?}"
        );
        let list = etcd::member_list(client).await?;
        ensure!(
            list.len() == MEMBERS && list.iter().all(|m| !m.is_learner),
            "{list:?}"
        );
        has_all(client, writes)
            .await
            .with_context(|| format!("etcd-{seat}"))?;
    }
    Ok(())
}
