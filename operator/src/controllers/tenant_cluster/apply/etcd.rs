//! Asks the members of etcd what they are; its steps change them.
//!
//! Invariant: side by side and within the reconcile's budget; a member that does not answer is not known,
//! and holds up nothing. Of a tenant cluster that may not be asked now nothing is known either.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::join_all;
use kit_client::errors;
use kube::Client;
use kube::runtime::reflector::ObjectRef;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::{Etcd, EtcdListing, Observed};
use crate::tenant_session::etcd;
use crate::tenant_session::etcd::answers::{Alarm, DataHash, MemberStatus};
use crate::tenant_session::session;

mod copies;
pub(super) mod leases;
pub(super) mod rewriting;
pub(super) mod space;
pub(super) mod steps;

/// Longest time for all of them: where etcd cannot be reached from here, each reconcile that wants to
/// know waits so long. Less than what makes a tenant slow.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest time for a change, or for what a majority has to confirm.
const CHANGE_PATIENCE: Duration = Duration::from_secs(3);

type Members<'a> = &'a [(String, IpAddr)];

pub(super) async fn ask(ctx: &Context, members: Members<'_>, list: bool, observed: &mut Observed) {
    // Its permit counts, and nothing is noted of it: that etcd is not reached says nothing of the tenant's API.
    // Of those that start there are never many.
    if observed.has_been_ready() && !sessions::lets(ctx, observed) {
        observed.etcd = Etcd::Asked(BTreeMap::new());
        observed.etcd_listing = list.then(EtcdListing::default);
        return;
    }
    let seen: &Observed = observed;
    let each = members.iter().map(|(name, address)| async move {
        let answer = call(ctx, seen, (name, *address), PATIENCE, async |client| {
            etcd::status(&client).await
        });
        (name.clone(), answer.await)
    });
    let answers: BTreeMap<_, _> = join_all(each).await.into_iter().collect();
    for (member, answer) in &answers {
        if let Err(message) = answer {
            tracing::debug!(member, message, "etcd did not say what it is");
        }
    }
    observed.etcd = Etcd::Asked(answers);
    look_on(ctx, members, observed);
    if list {
        observed.etcd_listing = Some(listing(ctx, members, observed).await);
    }
}

/// From now on it is looked at outside of reconciles, too.
fn look_on(ctx: &Context, members: Members<'_>, observed: &Observed) {
    let uid = observed.cluster.identity_uid().to_owned();
    let cluster = ObjectRef::from_obj(&observed.cluster);
    let session =
        |(name, address): &(String, IpAddr)| sessions::etcd(ctx, observed, name, *address);
    let sessions = members.iter().filter_map(session).collect();
    if observed.has_been_ready() {
        ctx.etcd_looks.ensure(&uid, cluster, sessions);
        ctx.etcd_looks.note_answers(&uid, observed.etcd.answers());
    }
}

async fn listing(ctx: &Context, members: Members<'_>, observed: &Observed) -> EtcdListing {
    let mut listing = EtcdListing::default();
    let Some(member) = speaker(members, observed) else {
        return listing;
    };
    let asked = call(ctx, observed, member, CHANGE_PATIENCE, async |client| {
        etcd::member_list(&client).await
    });
    match asked.await {
        Ok(members) => listing.members = Some(members),
        Err(message) => tracing::debug!(message, "etcd did not say which members it has"),
    }
    let mut answers = observed.etcd.answers();
    let is_raised = answers.any(|(_, answer)| answer.alarms.contains(&Alarm::Corrupt));
    let mut pods = observed.pods.iter().flatten();
    if is_raised || pods.any(|pod| pod.disowned) {
        listing.hashes = hashes(ctx, members, observed).await;
    }
    listing
}

/// Hashes of the data of those that answer, at the newest revision that all of them have.
async fn hashes(
    ctx: &Context,
    members: Members<'_>,
    observed: &Observed,
) -> BTreeMap<String, DataHash> {
    let Some(revision) = observed.etcd.answers().map(|(_, a)| a.revision).min() else {
        return BTreeMap::new();
    };
    let answer = |name: &String| observed.etcd.answers().any(|(other, _)| other == name);
    let members = members.iter().filter(|(name, _)| answer(name));
    let each = members.map(|(name, address)| async move {
        let member = (name.as_str(), *address);
        let asked = call(ctx, observed, member, CHANGE_PATIENCE, async |client| {
            etcd::hash_of_data(&client, revision).await
        });
        Some((name.clone(), asked.await.ok()?))
    });
    join_all(each).await.into_iter().flatten().collect()
}

/// The member that leads, or one that follows it.
fn speaker<'a>(members: Members<'a>, observed: &Observed) -> Option<(&'a str, IpAddr)> {
    let votes = |answer: &MemberStatus| !answer.is_learner && answer.leader.is_some();
    let answers = observed.etcd.answers().filter(|(_, answer)| votes(answer));
    let leads = |answer: &MemberStatus| answer.leader.as_ref() == Some(&answer.member_id);
    let (speaker, _) = answers.min_by_key(|(_, answer)| !leads(answer))?;
    let member = members.iter().find(|(name, _)| name == speaker)?;
    Some((&member.0, member.1))
}

async fn call<T>(
    ctx: &Context,
    observed: &Observed,
    (name, address): (&str, IpAddr),
    patience: Duration,
    work: impl AsyncFnOnce(Client) -> Result<T, session::Error>,
) -> Result<T, String> {
    let session = sessions::etcd(ctx, observed, name, address);
    let session = session.ok_or("its keys are missing")?;
    let budget = &observed.budget;
    let client = session.client(budget).map_err(|e| errors::chain(&e))?;
    let asked = tokio::time::timeout(patience, work(client));
    match budget.within(asked).await {
        Ok(Ok(answer)) => answer.map_err(|error| errors::chain(&error)),
        Ok(Err(elapsed)) => Err(elapsed.to_string()),
        Err(exceeded) => Err(exceeded.to_string()),
    }
}
