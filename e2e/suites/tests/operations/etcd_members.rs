//! Needs: operator
//!
//! Three etcd members lose one, and then the leader, and one member becomes three and one again, under a writer: nothing
//! that was acknowledged is lost, and writes go on.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use api::tenant_cluster::EtcdMemberStatus;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use suites::{
    cluster::{Tenant, parts::restarts, wait::wait_for},
    scenario::{
        self, PATIENCE, Scenario,
        pods::{self, Command, SECRET_DIR, component},
        processes::Process,
    },
};

use crate::writer::Writer;

/// How long writes may take while a member is there and does not answer: the API server gives up a
/// connection to it after 40 s (etcd's client in `storagebackend/factory`: keep-alive of 30 s, 10 s to
/// answer).
const HUNG: Duration = Duration::from_secs(180);
/// How long members may take to be another number: each joins by itself, catches up, and is told to all others.
const CHANGED: Duration = Duration::from_secs(600);

#[tokio::test]
async fn three_members_lose_one_and_then_the_leader_without_losing_a_write() {
    scenario::run("etcd-loss", etcd_loss).await;
}

#[tokio::test]
async fn one_member_becomes_three_and_one_again_without_losing_a_write() {
    scenario::run("etcd-sizes", etcd_sizes).await;
}

async fn etcd_sizes(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    let writer = Writer::start(admin);
    writer.more(20, Duration::from_secs(60)).await?;
    for members in [3, 1] {
        let wanted = json!({ "etcd": { "replicas": members } });
        tenant.change(&wanted).await?;
        let what = format!("{members} members have votes, and no other is there");
        wait_for(&tenant.api(), &tenant.name, &what, CHANGED, |cluster| {
            let etcd = cluster.status.as_ref()?.etcd.as_ref()?;
            let vote = |member: &EtcdMemberStatus| member.started && !member.learner;
            let are = etcd.members.len() == members && etcd.members.iter().all(vote);
            (are && etcd.replacing.is_none()).then_some(())
        })
        .await?;
        tenant.settled(CHANGED).await?;
        let sets: kube::Api<StatefulSet> = tenant.parts();
        let what = format!("{members} members are ready, and no other is left");
        wait_for(&sets, "etcd", &what, CHANGED, |set| {
            let status = set.status.as_ref()?;
            let there = i32::try_from(members).ok()?;
            let ready = status.ready_replicas == Some(there);
            (ready && status.replicas == there).then_some(())
        })
        .await?;
        writer.more(20, Duration::from_secs(60)).await?;
    }
    writer.finish().await
}

async fn etcd_loss(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |spec| spec.etcd.replicas = 3).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    all_ready(&tenant).await?;
    let writer = Writer::start(admin);
    writer.more(20, Duration::from_secs(60)).await?;

    let leader = leader(&tenant).await?;
    let follower = (0..3)
        .map(|n| format!("etcd-{n}"))
        .find(|name| *name != leader.name);
    let follower = follower.context("three members, one leader")?;
    kill(&tenant, &follower).await?;
    writer.more(20, Duration::from_secs(60)).await?;
    all_ready(&tenant).await?;

    let old = self::leader(&tenant).await?;
    kill(&tenant, &old.name).await?;
    writer.more(20, Duration::from_secs(60)).await?;
    all_ready(&tenant).await?;
    let leader = elected_since(&old, &tenant).await?;

    // The process alone, without the pod noticing anything but a restart. It stands still first: what
    // is written meanwhile another member has to lead for.
    let pods: kube::Api<Pod> = tenant.parts();
    let pod = pods.get(&leader.name).await?;
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let process = Process::of_pod(&uid, "initial-cluster-token").freeze(s)?;
    writer.more(20, HUNG).await?;
    process.kill()?;
    let before = restarts(&pod, Some("etcd"));
    wait_for(&pods, &leader.name, "restarted", PATIENCE, |pod| {
        (restarts(pod, Some("etcd")) > before).then_some(())
    })
    .await?;
    writer.more(20, Duration::from_secs(60)).await?;
    all_ready(&tenant).await?;
    let last = elected_since(&leader, &tenant).await?;
    ensure!(last.name != leader.name, "{} leads again", last.name);
    writer.finish().await
}

/// Who leads, in a later term than `old`: there was an election. A member that is back within the
/// election's time-out has all records, and may win it.
async fn elected_since(old: &Leader, tenant: &Tenant) -> Result<Leader> {
    let leader = leader(tenant).await?;
    ensure!(
        leader.term > old.term,
        "{} leads in term {}: the members never missed {}",
        leader.name,
        leader.term,
        old.name
    );
    Ok(leader)
}

/// At once, as a node that vanishes would: no time to hand over.
async fn kill(tenant: &Tenant, member: &str) -> Result<()> {
    let pods: kube::Api<Pod> = tenant.parts();
    let uid = pods.get(member).await?.metadata.uid;
    pods.delete(member, &DeleteParams::default().grace_period(0))
        .await?;
    wait_for(&pods, member, "is another pod", PATIENCE, |pod| {
        (pod.metadata.uid != uid).then_some(())
    })
    .await
}

async fn all_ready(tenant: &Tenant) -> Result<()> {
    let sets: kube::Api<StatefulSet> = tenant.parts();
    wait_for(&sets, "etcd", "three members are ready", PATIENCE, |set| {
        (set.status.as_ref()?.ready_replicas == Some(3)).then_some(())
    })
    .await
}

/// The member that leads, and the term in which it was elected.
struct Leader {
    name: String,
    term: u64,
}

/// By what the members themselves say.
async fn leader(tenant: &Tenant) -> Result<Leader> {
    let endpoints = [0, 1, 2]
        .map(|n| format!("https://etcd-{n}:2379"))
        .join(",");
    let script = format!(
        "etcdctl --endpoints={endpoints} --cacert={SECRET_DIR}/etcd-ca.crt \
         --cert={SECRET_DIR}/etcd-healthcheck-client.crt \
         --key={SECRET_DIR}/etcd-healthcheck-client.key endpoint status -w json"
    );
    let command = Command {
        labels: component("control-plane"),
        script,
        secret: Some("etcd-healthcheck-client".to_owned()),
    };
    let outcome = pods::run(&tenant.management, &tenant.tenant_namespace(), command).await?;
    let line = outcome.log.lines().find(|line| line.starts_with('['));
    let line = line.with_context(|| format!("etcdctl said\n{}", outcome.log))?;
    let members: Vec<Value> = serde_json::from_str(line)?;
    ensure!(members.len() == 3, "{line}");
    let number = |value: &Value| value.as_u64();
    let by_id: BTreeMap<_, _> = members
        .iter()
        .map(|m| {
            (
                number(&m["Status"]["header"]["member_id"]),
                m["Endpoint"].as_str(),
            )
        })
        .collect();
    let leader = by_id
        .get(&number(&members[0]["Status"]["leader"]))
        .copied()
        .flatten();
    let leader = leader.context("nobody leads")?;
    let term = number(&members[0]["Status"]["raftTerm"]);
    Ok(Leader {
        name: leader
            .trim_start_matches("https://")
            .trim_end_matches(":2379")
            .to_owned(),
        term: term.with_context(|| format!("no term: {line}"))?,
    })
}
