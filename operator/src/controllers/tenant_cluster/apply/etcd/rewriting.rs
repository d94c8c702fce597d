//! Has Secrets, and other objects of a tenant cluster, written again as its kube-apiservers write them now.
//!
//! Invariant: it has a bounded time of its own, because nothing but a rotation waits for it. The operator's own user may
//! not write objects of a tenant, and does not.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use kit_client::errors::chain;
use tenant_cp::encrypted_kinds::EncryptedKinds;
use tenant_cp::names;

use super::Members;
use crate::context::Context;
use crate::controllers::tenant_cluster::apply::sessions;
use crate::controllers::tenant_cluster::observed::{Observed, Rewritten};
use crate::rewrites::Terms;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::rewriting::{End, Pass, pass};

/// Longest time for one pass: where that is too short, what it wrote is written, and the next one has less to do.
const PATIENCE: Duration = Duration::from_secs(4);

pub(in super::super) async fn rewrite(
    ctx: &Context,
    at: ((IpAddr, u16), Members<'_>),
    wanted: (u32, &EncryptedKinds),
    observed: &mut Observed,
    now: Timestamp,
) {
    let rewritten = Box::pin(answer(ctx, at, wanted, observed, now)).await;
    if let Err(why) = &rewritten {
        tracing::info!(
            tenant.namespace = observed.tenant_namespace(),
            why,
            "objects are not written with another key"
        );
    }
    observed.rewritten = Some((wanted.1.clone(), rewritten));
}

async fn answer(
    ctx: &Context,
    (address, members): ((IpAddr, u16), Members<'_>),
    (generation, kinds): (u32, &EncryptedKinds),
    observed: &Observed,
    now: Timestamp,
) -> Result<Rewritten, String> {
    let budget = Budget::waiting(PATIENCE);
    let api = sessions::administering(ctx, observed, address, &budget, now)?;
    let uid = observed.cluster.identity_uid().to_owned();
    let terms = Terms {
        generation,
        kinds: kinds.clone(),
        servers: servers(observed),
    };
    let mut last = "no member of etcd has an address".to_owned();
    for (name, address) in members {
        let Some(session) = sessions::etcd(ctx, observed, name, *address) else {
            return Err("keys for etcd are missing".to_owned());
        };
        let etcd = session.client(&budget).map_err(|error| chain(&error))?;
        let from = ctx.rewrites.reached(&uid, &terms);
        let passed = budget
            .within(pass(&etcd, &api, from, (generation, kinds)))
            .await;
        match passed.map_err(|error| error.to_string())? {
            Ok(Pass { reached, end }) => {
                ctx.rewrites.record(&uid, &terms, reached);
                return match end {
                    End::All => Ok(Rewritten::All),
                    End::Paused => Ok(Rewritten::Some),
                    End::Refused(first) => Ok(Rewritten::Refused { first }),
                    End::Failed(why) => Err(why),
                };
            }
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// What kube-apiservers are made from now.
fn servers(observed: &Observed) -> String {
    let ns = observed.tenant_namespace();
    let live = observed.find("Deployment", &ns, names::CONTROL_PLANE);
    let metadata = live.there().map(|live| &live["metadata"]);
    let text = metadata.map(|metadata| format!("{}/{}", metadata["uid"], metadata["generation"]));
    text.unwrap_or_default()
}
