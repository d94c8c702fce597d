//! Reads what the plan of an AccessGrant may depend on. Decides nothing.
//!
//! Invariant: keys of authorities are read live, held while one reconcile lasts, and said nowhere; `system:masters` is held
//! in memory only, as long.

use std::sync::Arc;

use api::tenant_cluster::EndpointStatus;
use api::{AccessGrant, TenantCluster, names};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use kit_client::errors::chain;
use kit_objects::known::Known;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, ResourceExt};
use pki::{Key, KeyPair};
use tenant_cp::certificates::super_admin;
use tenant_cp::generations::authority_name;
use tenant_cp::names::{CLIENT_CA, USERS_CA};

use super::error::Error;
use super::observed::{Authority, Binding, Inside, Observed};
use super::plan::{is_in_force, needs_inside};
use super::secret::{Found, Site, group};
use super::token::subjects as subjects_of;
use crate::access::{clients_generation, is_asleep, users_generation};
use crate::context::Context;
use crate::state;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::session::Session;

/// What was seen, and what it takes to act on it.
pub(super) struct Seen {
    pub(super) observed: Observed,
    /// The tenant cluster's API; none where it was not asked.
    pub(super) inside: Option<Reached>,
    /// The authority that signs.
    pub(super) signer: Option<KeyPair>,
    /// The Secret that is asked for, with what is in it.
    pub(super) secret: Found,
}

impl Seen {
    /// What a kubeconfig needs besides a certificate.
    pub(super) fn site(&self) -> Option<Site<'_>> {
        Some(Site {
            server: self.observed.server.as_deref()?,
            authority: self.observed.believed.as_deref()?,
        })
    }
}

/// An API that may be written to as the administrator, within a budget.
pub(super) struct Reached {
    pub(super) client: Client,
    pub(super) budget: Budget,
}

/// Looks.
///
/// # Errors
/// [`Error::Read`] of what the management cluster says. That the tenant cluster does not answer is no error.
pub(super) async fn observe(
    ctx: &Context,
    grant: &AccessGrant,
    now: Timestamp,
) -> Result<Seen, Error> {
    let cluster = cluster(ctx, grant).await?;
    let status = cluster.iter().filter_map(|cluster| cluster.status.as_ref());
    let mut endpoints = status.filter_map(|status| status.endpoint.as_ref());
    let server = endpoints.next().map(EndpointStatus::url);
    let mut seen = Seen {
        observed: Observed {
            cluster: Known::found(cluster.clone()),
            server,
            others: others(ctx, grant, now),
            ..Observed::default()
        },
        inside: None,
        signer: None,
        secret: Found::NotLooked,
    };
    let known = grant.status.as_ref().and_then(|s| s.cluster_uid.as_ref());
    let uid = known.cloned().or_else(|| cluster.as_ref()?.uid());
    if let Some(name) = &grant.spec.secret_name {
        seen.secret = secret(ctx, grant, name, uid.as_deref()).await?;
    }
    let is_same = |cluster: &Arc<TenantCluster>| known.is_none() || known == cluster.uid().as_ref();
    if let Some(cluster) = cluster.filter(is_same)
        && needs_inside(grant, now)
    {
        look_inside(ctx, grant, &cluster, &mut seen, now).await?;
    }
    let (site, signer) = (seen.site(), seen.signer.as_ref());
    let held = seen.secret.held(grant, site.as_ref(), signer, now);
    seen.observed.secret = held;
    Ok(seen)
}

/// What is where the Secret is to be. `cluster`: UID of the tenant cluster, where it is known.
async fn secret(
    ctx: &Context,
    grant: &AccessGrant,
    name: &str,
    cluster: Option<&str>,
) -> Result<Found, Error> {
    let namespace = grant.namespace().unwrap_or_default();
    let suffix = names::kubeconfig_secret("");
    if let Some(of) = name.strip_suffix(&suffix) {
        let of = ObjectRef::<TenantCluster>::new(of).within(&namespace);
        if ctx.stores.clusters.get(&of).is_some() {
            let message = format!(
                "the Secret {name} is the administrator's of TenantCluster {}",
                of.name
            );
            return Ok(Found::Foreign(message));
        }
    }
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), &namespace);
    match secrets.get_opt(name).await {
        Ok(Some(secret)) => Ok(Found::read(grant, cluster, secret)),
        Ok(None) => Ok(Found::Absent),
        // As long as there is no tenant cluster in the namespace.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Found::NotLooked),
        Err(source) => Err(Error::Read {
            what: "the Secret of the AccessGrant",
            source: Box::new(source),
        }),
    }
}

/// As last seen, unless it is not there or going, which is asked for live.
async fn cluster(ctx: &Context, grant: &AccessGrant) -> Result<Option<Arc<TenantCluster>>, Error> {
    let namespace = grant.namespace().unwrap_or_default();
    let name = &grant.spec.cluster_name;
    let named = ObjectRef::<TenantCluster>::new(name).within(&namespace);
    let found = ctx.stores.clusters.get(&named);
    if let Some(found) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) {
        return Ok(Some(found));
    }
    let clusters = Api::<TenantCluster>::namespaced(ctx.client.clone(), &namespace);
    let live = clusters.get_opt(name).await;
    let live = live.map_err(|source| Error::Read {
        what: "the TenantCluster",
        source: Box::new(source),
    })?;
    Ok(live.map(Arc::new))
}

/// Other grants of the tenant cluster that are in force.
fn others(ctx: &Context, grant: &AccessGrant, now: Timestamp) -> usize {
    let all = ctx.stores.access_grants.state().into_iter();
    let its = all.filter(|other| {
        other.spec.cluster_name == grant.spec.cluster_name
            && other.metadata.namespace == grant.metadata.namespace
            && other.metadata.uid != grant.metadata.uid
    });
    its.filter(|other| is_in_force(other, now)).count()
}

async fn look_inside(
    ctx: &Context,
    grant: &AccessGrant,
    cluster: &TenantCluster,
    seen: &mut Seen,
    now: Timestamp,
) -> Result<(), Error> {
    if is_asleep(cluster) {
        // It is told when that changes, and nothing is woken by this.
        return Ok(());
    }
    seen.observed.inside = Inside::Unknown { soon: true };
    let (uid, budget) = (cluster.identity_uid(), ctx.budget());
    let Some(session) = ctx.tenants.session(uid) else {
        return Ok(());
    };
    let may = ctx.recovery_probes.silence(uid).is_none()
        && ctx
            .cluster_bulkhead
            .lets(uid, &state::key_of(grant), &budget);
    if !may {
        return Ok(());
    }
    let space = cluster.tenant_namespace();
    let generation = users_generation(cluster);
    let users = pair(ctx, &space, &authority_name(USERS_CA, generation)).await?;
    let clients = authority_name(CLIENT_CA, clients_generation(cluster));
    let Some(clients) = pair(ctx, &space, &clients).await? else {
        return Ok(());
    };
    ctx.leadership.ensure().map_err(Error::Fence)?;
    seen.observed.believed = Some(session.authority.clone());
    let administrator = pki::issue(&super_admin(), Some(&clients), now).map_err(Error::Make)?;
    let session = Session {
        identity: administrator,
        ..session
    };
    let client = session.client(&budget).map_err(Error::Session)?;
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    let name = group(grant);
    let found = budget.within(bindings.get_opt(&name)).await;
    let found = match found {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            unanswered(grant, &chain(&error));
            return Ok(());
        }
        Err(error) => {
            unanswered(grant, &chain(&error));
            return Ok(());
        }
    };
    let found = found.map(|found| Binding {
        uid: found.uid().unwrap_or_default(),
        role: gives(&found, grant),
    });
    seen.observed.inside = Inside::Answers(found);
    seen.observed.authority = users.as_ref().and_then(|users| {
        Some(Authority {
            generation,
            end: pki::not_after(&users.certificate)?,
        })
    });
    seen.signer = users;
    seen.inside = Some(Reached { client, budget });
    Ok(())
}

fn unanswered(grant: &AccessGrant, error: &str) {
    tracing::debug!(
        grant.name = grant.name_any(),
        grant.namespace = grant.namespace().unwrap_or_default(),
        error,
        "the tenant cluster of an AccessGrant does not answer"
    );
}

/// The role that a binding gives to this grant; none where it gives it to others.
fn gives(binding: &ClusterRoleBinding, grant: &AccessGrant) -> Option<String> {
    let subjects = binding.subjects.as_deref().unwrap_or_default();
    let wanted = subjects_of(grant);
    let names = |subject: &Subject| {
        let Subject {
            kind,
            name,
            namespace,
            ..
        } = subject;
        (kind.clone(), name.clone(), namespace.clone())
    };
    let is_its = subjects.iter().map(names).eq(wanted.iter().map(names));
    let role = &binding.role_ref;
    (is_its && role.kind == "ClusterRole").then(|| role.name.clone())
}

/// An authority, from its Secret; none where that is not there, or nobody lets us read it yet.
async fn pair(ctx: &Context, namespace: &str, name: &str) -> Result<Option<KeyPair>, Error> {
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), namespace);
    let found = match secrets.get_opt(name).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(source) => {
            return Err(Error::Read {
                what: "an authority of the tenant cluster",
                source: Box::new(source),
            });
        }
    };
    let data = found.and_then(|secret| secret.data).unwrap_or_default();
    let text = |key: &str| {
        let bytes = data.get(key)?.0.clone();
        String::from_utf8(bytes).ok()
    };
    let (certificate, key) = (text("ca.crt"), text("ca.key"));
    Ok(certificate.zip(key).map(|(certificate, key)| KeyPair {
        certificate,
        key: Key::new(key),
    }))
}
