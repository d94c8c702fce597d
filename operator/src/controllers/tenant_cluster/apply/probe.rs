//! Probe of the tenant's API: asks whether it answers, and lists what is inside.
//!
//! Invariant: whether the API answers is asked with the operator's ordinary identity; an API that starts
//! for the first time, or did not answer, is asked here only once its probe heard somebody there, and none is
//! waited for longer than its budget says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api::tenant_cluster::EndpointStatus;
use jiff::Timestamp;
use kit_objects::object::{Key, Object};
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use serde_json::Value;
use tenant_cp::desired::bootstrap::rbac;
use tenant_cp::names;
use tokio::time::Instant;

use super::Error;
use super::sessions::{self, administrator, enter, operator, ready_pods};
use super::tenant_objects::apply_all;
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::{Observed, Pods, Seen, Tenant, Way, pods};
use crate::controllers::tenant_cluster::plan::Action;
use crate::controllers::tenant_cluster::plan::tenant_objects::recount::{self, recount};
use crate::tenant_session::api_probes::{Heard, Probed};
use crate::tenant_session::budget::Budget;
use crate::tenant_session::bulkhead::Interrupted;
use crate::tenant_session::requests::list_managed;
use crate::tenant_session::session::{self, Session};
use crate::tenant_session::{probe, registry, requests};

/// How long an API is asked again that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two such questions.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks the tenant's API, unless it is known that it does not answer.
pub(super) async fn probe(
    ctx: &Context,
    action: &Action,
    observed: &mut Observed,
    now: Timestamp,
) -> Result<(), Error> {
    let Action::Probe {
        address,
        endpoint,
        published,
        prove_write,
        apply,
        list,
        provisional,
        workloads,
        starts,
    } = action
    else {
        return Ok(());
    };
    let cluster = &observed.cluster;
    let uid = cluster.identity_uid().to_owned();
    let pods = ready_pods(observed);
    let Some(session) = operator(ctx, observed, *address) else {
        return Ok(());
    };
    let start = match starts {
        true => Some(started(ctx, observed, (&session, *address), now)?),
        false => None,
    };
    let start = start.filter(|heard| *heard != Heard::Over);
    let is_start = start.is_some();
    let recovery = || ctx.recovery_probes.heard(&uid, &session, Some(pods));
    match start.or_else(recovery) {
        Some(Heard::Silence(message)) => {
            if !is_start && !ctx.breaker.is_open(&uid) {
                ctx.breaker.trip(&uid, &message);
            }
            sessions::leave(ctx, observed);
            observed.tenant = Tenant::Silent { message };
            return Ok(());
        }
        Some(Heard::Answers) => ctx.standings.answered(&uid),
        // Somebody else finds out whether it answers, and in no place.
        Some(Heard::Nothing) => {
            sessions::leave(ctx, observed);
            observed.tenant = Tenant::Postponed;
            return Ok(());
        }
        // Machines found out that it does not.
        Some(Heard::Over) | None if ctx.breaker.is_open(&uid) => {
            return postpone(ctx, observed, (&session, *address), is_start);
        }
        Some(Heard::Over) | None => {}
    }
    let Some(pass) = enter(ctx, observed) else {
        return postpone(ctx, observed, (&session, *address), is_start);
    };
    let unreached = ctx.endpoint_breaker.message(&uid, pods);
    let published = match (published, unreached) {
        (None, _) => Published::AtTheService,
        (Some(_), Some(message)) => Published::Unreached(message),
        (Some(endpoint), None) => {
            match sessions::published(ctx, observed, *address, endpoint).await {
                None => Published::AtTheService,
                Some(Ok(session)) => Published::At(Box::new(session), endpoint),
                Some(Err(error)) => Published::Unreached(unreached_at(endpoint, &error)),
            }
        }
    };
    let (rights, others) = apply.iter().partition(|o| rbac::is_privileged(o));
    let mut prober = Prober {
        administrator: administrator(ctx, observed, *address, !apply.is_empty(), now)
            .map_err(Error::Issue)?,
        operator: session.clone(),
        published,
        prove_write: prove_write.then_some(now),
        rights,
        others,
        applied: !apply.is_empty(),
        list: list.as_deref(),
        workloads,
        settled_nodes: match workloads.is_empty() {
            true => 0,
            false => settled_nodes(ctx, &uid, now),
        },
        budget: &observed.budget,
    };
    if list.is_some() && !provisional {
        // Before it is read, so that what changes meanwhile is listed again.
        ctx.tenants.listed(&uid);
    }
    let asked = Box::pin(prober.until_it_answers(ctx));
    let result = match pass.within(asked).await {
        Ok(result) => result,
        Err(Interrupted::Exceeded(error)) => Err(error.into()),
        Err(Interrupted::Busy) => {
            if list.is_some() {
                ctx.tenants.suspect(&uid);
            }
            return postpone(ctx, observed, (&session, *address), is_start);
        }
    };
    observed.tenant = match result {
        Ok(answer) => {
            ctx.breaker.close(&uid);
            note_way(ctx, &uid, pods, &answer);
            ctx.startup_probes.forget(&uid);
            if ctx.rollout_queue.started(&uid) {
                ctx.trigger_next();
            }
            if let Some(endpoint) = endpoint {
                let tenant = registry::Tenant {
                    uid,
                    cluster: ObjectRef::from_obj(cluster),
                    session,
                    endpoint: endpoint.clone(),
                    has_nodes: observed.workers,
                    has_failover: observed.workers && ctx.stores.has_failover(cluster),
                    wait: ctx.tenant_wait,
                };
                ctx.tenants.ensure(tenant).map_err(Error::Tenant)?;
            }
            answer
        }
        Err(error) => {
            if list.is_some() {
                ctx.tenants.suspect(&uid);
            }
            let message = kit_client::errors::chain(&error);
            match is_start {
                true => ctx.startup_probes.refused(&uid, &message),
                false => sessions::fell_silent(ctx, observed, (&session, *address), &message)
                    .map_err(Error::Tenant)?,
            }
            Tenant::Silent { message }
        }
    };
    Ok(())
}

/// It may not be asked now. Who has a place of its own asks whether it answers at all; with a permit it is asked
/// here.
fn postpone(
    ctx: &Context,
    observed: &mut Observed,
    at: (&Session, (IpAddr, u16)),
    is_start: bool,
) -> Result<(), Error> {
    if !is_start {
        let probed = sessions::probed(ctx, observed, at);
        let ensured = ctx.recovery_probes.ensure(probed, Heard::Nothing);
        ensured.map_err(Error::Tenant)?;
    }
    observed.tenant = Tenant::Postponed;
    Ok(())
}

/// Remembers for a while that the published endpoint was not reached: each try may wait a second.
fn note_way(ctx: &Context, uid: &str, pods: i64, answer: &Tenant) {
    let Tenant::Answers { way, .. } = answer else {
        return;
    };
    match way {
        Way::Published => ctx.endpoint_breaker.close(uid),
        Way::Service { message } if ctx.endpoint_breaker.message(uid, pods).is_none() => {
            ctx.endpoint_breaker.trip_with(uid, pods, message);
        }
        Way::Service { .. } => {}
    }
}

/// Where the published endpoint is.
enum Published<'a> {
    /// It is the Service's address, or not known.
    AtTheService,
    /// Somewhere else.
    At(Box<Session>, &'a EndpointStatus),
    /// It was not reached a moment ago, or its name is not known here.
    Unreached(String),
}

/// What is known of a first start, which is probed from now on.
fn started(
    ctx: &Context,
    observed: &Observed,
    at: (&Session, (IpAddr, u16)),
    now: Timestamp,
) -> Result<Heard, Error> {
    let ns = observed.tenant_namespace();
    let since = "/metadata/creationTimestamp";
    let since = observed.text("Deployment", &ns, names::CONTROL_PLANE, since);
    let since = since
        .there()
        .and_then(|text| text.parse::<Timestamp>().ok());
    let elapsed = since.map(|since| now.duration_since(since));
    let elapsed = elapsed.and_then(|elapsed| Duration::try_from(elapsed).ok());
    let probed = Probed {
        // One probe of a start goes on whatever its pods do.
        pods: None,
        elapsed: elapsed.unwrap_or_default(),
        ..sessions::probed(ctx, observed, at)
    };
    let known = Heard::Silence("its pods were asked for a moment ago".to_owned());
    let heard = ctx.startup_probes.ensure(probed, known);
    heard.map_err(Error::Tenant)
}

/// Applies the objects where that is due, then asks with our ordinary identity, so that an answer
/// means that this identity is let in too.
struct Prober<'a> {
    /// Applies only rights.
    administrator: Option<Session>,
    operator: Session,
    published: Published<'a>,
    /// When, if the API has to show that it takes a write.
    prove_write: Option<Timestamp>,
    /// Rights that are still to be applied.
    rights: Vec<&'a Object>,
    /// Everything else that is still to be applied.
    others: Vec<&'a Object>,
    applied: bool,
    /// What is read in full where the objects inside are listed.
    list: Option<&'a [Key]>,
    workloads: &'a [Key],
    /// Nodes that each DaemonSet of an addon has to know.
    settled_nodes: i64,
    budget: &'a Budget,
}

impl Prober<'_> {
    async fn until_it_answers(&mut self, ctx: &Context) -> Result<Tenant, session::Error> {
        let deadline = Instant::now() + PATIENCE;
        let mut result = self.once().await;
        while result.as_ref().is_err_and(|e| !is_exceeded(e))
            && Instant::now() < deadline
            && ctx.leadership.is_leader()
        {
            tokio::time::sleep(PAUSE).await;
            result = self.once().await;
        }
        result
    }

    async fn once(&mut self) -> Result<Tenant, session::Error> {
        if let Some(administrator) = &self.administrator
            && !self.rights.is_empty()
        {
            apply_all(&administrator.client(self.budget)?, &mut self.rights).await?;
        }
        let client = self.operator.client(self.budget)?;
        apply_all(&client, &mut self.others).await?;
        let version = probe::version(&client).await?;
        let way = self.read(&client).await?;
        if let Some(now) = self.prove_write {
            probe::write(&client, now).await?;
        }
        let seen = match self.list {
            Some(wanted) => match list_managed(&client, self.budget, wanted).await? {
                Some(objects) => Seen::Objects(objects),
                // An authorizer does not know a binding for a moment after it is made.
                None if self.applied => return Err(session::Error::RightsNotInForce),
                None => Seen::Hidden,
            },
            None if self.applied => Seen::Applied,
            None => Seen::Nothing,
        };
        let read;
        let live = match &seen {
            Seen::Objects(live) => live,
            _ => {
                read = requests::workloads(&client, self.workloads).await?;
                &read
            }
        };
        let pods = count(live, self.workloads);
        for key in self.workloads {
            if let Some(patch) = live
                .get(key)
                .and_then(|found| recount(found, self.settled_nodes))
            {
                requests::patch_workload(&client, key, &patch).await?;
            }
        }
        Ok(Tenant::Answers {
            version,
            way,
            seen,
            pods,
        })
    }

    /// One consistent read, where users ask if that can be reached from here.
    async fn read(&self, service: &Client) -> Result<Way, session::Error> {
        let message = match &self.published {
            Published::AtTheService => return probe::read(service).await.map(|()| Way::Published),
            Published::Unreached(message) => message.clone(),
            Published::At(session, endpoint) => {
                match probe::read(&session.client(self.budget)?).await {
                    Ok(()) => return Ok(Way::Published),
                    Err(error) if is_exceeded(&error) => return Err(error),
                    Err(error) => unreached_at(endpoint, &error),
                }
            }
        };
        probe::read(service).await?;
        Ok(Way::Service { message })
    }
}

/// Users choose the host and the port: why there is no answer would tell them what else is there.
fn unreached_at(endpoint: &EndpointStatus, error: &(dyn std::error::Error + 'static)) -> String {
    let (host, port) = (&endpoint.host, endpoint.port);
    tracing::debug!(
        host,
        port,
        error = kit_client::errors::chain(error),
        "a published endpoint is not reached"
    );
    format!(
        "the operator got no answer at {host}, port {port}, that this tenant cluster's authority vouches for"
    )
}

fn is_exceeded(error: &session::Error) -> bool {
    matches!(error, session::Error::Exceeded(_))
}

fn settled_nodes(ctx: &Context, cluster_uid: &str, now: Timestamp) -> i64 {
    let machines = ctx.stores.machines.state();
    let of_it = machines
        .iter()
        .filter(|machine| machine.spec.cluster_uid == cluster_uid);
    recount::settled_nodes(of_it.map(|machine| &**machine), now)
}

fn count(live: &BTreeMap<Key, Value>, workloads: &[Key]) -> BTreeMap<Key, Pods> {
    let of = |key: &Key| Some((key.clone(), pods(live.get(key)?)));
    workloads.iter().filter_map(of).collect()
}
