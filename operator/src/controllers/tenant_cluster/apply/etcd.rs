//! Asks the members of etcd what they are.
//!
//! Invariant: side by side and within the reconcile's budget; a member that does not answer is not known,
//! and holds up nothing. Of a tenant cluster that may not be asked now nothing is known either.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::join_all;

use super::sessions;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::{Etcd, Observed};
use crate::tenant_session::etcd;

/// Longest time for all of them: where etcd cannot be reached from here, each reconcile that wants to
/// know waits so long. Less than what makes a tenant slow.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) async fn ask(ctx: &Context, members: &[(String, IpAddr)], observed: &mut Observed) {
    // Its permit counts, and nothing is noted of it: that etcd is not reached says nothing of the tenant's API.
    // Of those that start there are never many.
    if observed.has_been_ready() && sessions::enter(ctx, observed).is_none() {
        observed.etcd = Etcd::Asked(BTreeMap::new());
        return;
    }
    let seen: &Observed = observed;
    let each = members.iter().map(|(name, address)| async move {
        let answer = one(ctx, seen, name, *address).await;
        (name.clone(), answer)
    });
    let answers: BTreeMap<_, _> = join_all(each).await.into_iter().collect();
    for (member, answer) in &answers {
        if let Err(message) = answer {
            tracing::debug!(member, message, "etcd did not say what it is");
        }
    }
    observed.etcd = Etcd::Asked(answers);
}

async fn one(
    ctx: &Context,
    observed: &Observed,
    name: &str,
    address: IpAddr,
) -> Result<etcd::MemberStatus, String> {
    let session = sessions::etcd(ctx, observed, name, address);
    let session = session.ok_or("its keys are missing")?;
    let budget = &observed.budget;
    let client = session
        .client(budget)
        .map_err(|e| kit_client::errors::chain(&e))?;
    let asked = tokio::time::timeout(PATIENCE, etcd::status(&client));
    match budget.within(asked).await {
        Ok(Ok(answer)) => answer.map_err(|error| kit_client::errors::chain(&error)),
        Ok(Err(elapsed)) => Err(elapsed.to_string()),
        Err(exceeded) => Err(exceeded.to_string()),
    }
}
