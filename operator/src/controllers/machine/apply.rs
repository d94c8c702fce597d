//! Carries a plan out, one action after the other.
//!
//! Invariant: every write is fenced by the Lease; the first error ends the step, and whatever was
//! done until then is found by the next observation. A Machine that goes is not held up by errors
//! inside the tenant cluster: they count as silence, which has an end. Nor is any by a tenant that takes more
//! than one reconcile has for it.

use api::{Machine, Reason, names};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify};
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kit_objects::known::Known;
use kube::api::{Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, Client, ResourceExt};
use providers::{Answer, Provider};
use serde_json::json;
use tenant_cp::node::bootstrap_token::Token;

use super::observed::{Observed, Pod, RenewalSeen, Tenant};
use super::plan::{Action, Plan};
use super::requests::renewal::Started;
use super::{addresses, observe, requests};
use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::status::reason_of;
use crate::tenant_session::bulkhead::Interrupted;

/// Why a plan could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another operator may lead.
    #[error("stop writing")]
    Fence(#[source] NotLeader),
    /// The Secret with the user data could not be written.
    #[error("{verb} the user data")]
    UserData {
        /// `create` or `change`.
        verb: &'static str,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// Something could not be deleted, or the status not be written.
    #[error("write")]
    Write(#[source] write::Error),
    /// The finalizers of the Machine could not be written.
    #[error("write the finalizers of the Machine")]
    Own(#[source] Box<kube::Error>),
    /// Its addresses could not be published.
    #[error("publish the addresses of the machine")]
    Addresses(#[source] Box<kube::Error>),
    /// The provider refused, or was not reached.
    #[error("{verb} the virtual machine")]
    Provider {
        /// `make`, `label`, `restart` or `delete`.
        verb: &'static str,
        /// What it said.
        #[source]
        source: providers::Error,
    },
    /// The tenant's API refused, or was not reached.
    #[error("work inside the tenant cluster")]
    Tenant(#[source] requests::Error),
    /// Other tenants that are slow have to be done with first.
    #[error("wait for a turn to ask the tenant's API")]
    Postponed,
    /// There was no chance to be had.
    #[error("draw a bootstrap token")]
    Draw(#[source] pki::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Fence(_) | Self::Postponed => Class::Transient,
            Self::UserData { source, .. } | Self::Own(source) | Self::Addresses(source) => {
                source.class()
            }
            Self::Write(source) => source.class(),
            Self::Provider { source, .. } => source.class(),
            Self::Tenant(source) => source.class(),
            Self::Draw(_) => Class::Bug,
        }
    }
}

impl Error {
    /// Whether a provider answered that it does not do it: nothing comes of it later.
    fn is_refusal(&self) -> bool {
        match self {
            Self::Provider { source, .. } => !source.fault().leaves_outcome_unknown(),
            _ => false,
        }
    }

    /// Reason for a condition; what a provider says is more telling than a class.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Provider { source, .. } => source.reason(),
            other => reason_of(other.class()),
        }
    }
}

/// Carries a plan out and takes its results into the observation.
///
/// # Errors
/// The first one; see [`Error`].
pub async fn apply(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    for action in &plan.actions {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        match act(ctx, action, observed).await {
            // It is triggered when its turn has come.
            Err(Error::Postponed) => {
                observed.tenant = Tenant::Postponed;
                return Ok(());
            }
            Err(Error::Tenant(error)) if error.is_exceeded() || observed.is_going() => {
                let message = kit_client::errors::chain(&error);
                if error.is_exceeded() {
                    observe::trip(ctx, &observed.machine, &message);
                }
                observed.tenant = Tenant::Silent { message };
                return Ok(());
            }
            result => result?,
        }
    }
    Ok(())
}

async fn act(ctx: &Context, action: &Action, observed: &mut Observed) -> Result<(), Error> {
    match action {
        Action::AddFinalizer | Action::RemoveFinalizer => {
            write_finalizers(ctx, action, observed).await
        }
        Action::DeleteSelf => {
            let machine = &observed.machine;
            let namespace = machine.namespace().unwrap_or_default();
            let version = machine.resource_version();
            let own = Deletion {
                kind: kinds::MACHINE,
                namespace: Some(&namespace),
                name: &machine.name_any(),
                uid: &machine.uid().unwrap_or_default(),
                resource_version: version.as_deref(),
                propagation: PropagationPolicy::Background,
            };
            delete(&ctx.client, &own).await?;
            let now = Time(jiff::Timestamp::now());
            observed
                .machine
                .metadata
                .deletion_timestamp
                .get_or_insert(now);
            Ok(())
        }
        Action::DrawToken => {
            let random = pki::issue::random_bytes::<16>().map_err(Error::Draw)?;
            let uid = observed.machine.uid().unwrap_or_default();
            observed.drawn = Some(Token::from_random(&random, &uid));
            Ok(())
        }
        Action::CreateUserData(_) | Action::ChangeUserData(_) | Action::DeleteUserData { .. } => {
            write_user_data(ctx, action, observed).await
        }
        Action::CreateVm => {
            let uid = observed.machine.uid().unwrap_or_default();
            ctx.creations.asks(&uid, jiff::Timestamp::now());
            let made = vm(ctx, observed, "make", |p, machine| p.create(machine)).await;
            if made.as_ref().map_or_else(Error::is_refusal, |_| true) {
                ctx.creations.answers(&uid, made.is_ok());
            }
            observed.creations = ctx.creations.outcome(&uid, jiff::Timestamp::now());
            observed.vm = observe::known(made?);
            Ok(())
        }
        Action::LabelVm(topology) => {
            let labelled = vm(ctx, observed, "label", |p, machine| {
                p.label(machine, topology)
            });
            labelled.await?;
            if let Known::Known(vm) = &mut observed.vm {
                vm.labelled = topology.clone();
            }
            Ok(())
        }
        Action::PublishAddresses(now) => {
            let published = addresses::publish(ctx, observed, now.as_ref()).await;
            published.map_err(|source| Error::Addresses(Box::new(source)))?;
            observed.published.clone_from(now);
            Ok(())
        }
        Action::PublishMachine(now) => {
            let published = addresses::publish_machine(ctx, observed, now.as_ref()).await;
            published.map_err(|source| Error::Addresses(Box::new(source)))?;
            observed.remote.clone_from(now);
            Ok(())
        }
        Action::RestartVm => {
            let restarted = vm(ctx, observed, "restart", |p, machine| p.restart(machine));
            restarted.await
        }
        Action::DeleteVm => {
            let deleted = vm(ctx, observed, "delete", |p, machine| p.delete(machine));
            deleted.await?;
            if let Known::Known(vm) = &mut observed.vm {
                vm.deleting = true;
            }
            Ok(())
        }
        action => {
            let pass = observe::enter(ctx, &observed.machine, &observed.budget);
            let pass = pass.ok_or(Error::Postponed)?;
            let acted = Box::pin(act_in_tenant(ctx, action, observed));
            match pass.within(acted).await {
                Ok(acted) => acted,
                Err(Interrupted::Exceeded(error)) => Err(Error::Tenant(error.into())),
                Err(Interrupted::Busy) => Err(Error::Postponed),
            }
        }
    }
}

/// What the provider is asked to do about the Machine's virtual machine.
async fn vm<'a, T>(
    ctx: &'a Context,
    observed: &'a Observed,
    verb: &'static str,
    ask: impl FnOnce(&'a dyn Provider, &'a Machine) -> Answer<'a, T>,
) -> Result<T, Error> {
    let failed = |source| Error::Provider { verb, source };
    let machine = &observed.machine;
    let provider = ctx.providers.get(&machine.spec.provider);
    let asked = ask(provider.map_err(failed)?, machine);
    asked.await.map_err(failed)
}

/// What is done in the tenant cluster.
async fn act_in_tenant(
    ctx: &Context,
    action: &Action,
    observed: &mut Observed,
) -> Result<(), Error> {
    let name = observed.machine.name_any();
    let machine = observed.machine.clone();
    let (Some(tenant), Some(seen)) = (
        ctx.tenants
            .client(&machine.spec.cluster_uid, &observed.budget),
        observed.seen_mut(),
    ) else {
        return Err(Error::Tenant(requests::Error::TimedOut));
    };
    let client = &tenant.client;
    match action {
        Action::ApplyToken(object, _) => {
            let token = requests::apply_token(client, object, &machine).await;
            seen.token = Known::found(token.map_err(Error::Tenant)?);
        }
        Action::RevokeToken { name, uid } => {
            let revoked = requests::revoke_token(client, name, uid).await;
            revoked.map_err(Error::Tenant)?;
            seen.token = Known::Absent;
        }
        Action::StoreRenewal(_)
        | Action::StartRenewal(_)
        | Action::EndRenewal { .. }
        | Action::DeleteRenewal { .. } => {
            let Known::Known(found) = &mut seen.renewal else {
                return Ok(());
            };
            let renewed = renew(client, action, &machine, found).await;
            renewed.map_err(Error::Tenant)?;
        }
        Action::LabelNode(patch) => {
            let labelled = requests::label_node(client, patch).await;
            labelled.map_err(Error::Tenant)?;
            let labels = patch["metadata"]["labels"]
                .as_object()
                .into_iter()
                .flatten();
            if let Some(node) = &mut seen.node {
                let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
                node.labels
                    .extend(labels.map(|(k, v)| (k.clone(), text(v))));
            }
        }
        Action::NameNode { uid, provider_id } => {
            let named = requests::name_node(client, &name, uid, provider_id).await;
            named.map_err(Error::Tenant)?;
            if let Some(node) = &mut seen.node {
                node.provider_id.clone_from(provider_id);
            }
        }
        Action::Decide { name, denied } => {
            let at = seen.requests.iter().position(|r| r.name_any() == *name);
            if let Some(at) = at {
                let decided = requests::decide(client, &seen.requests[at], denied.as_ref()).await;
                decided.map_err(Error::Tenant)?;
                seen.requests.remove(at);
            }
        }
        Action::Cordon { uid } => {
            let cordoned = requests::cordon(client, &name, uid).await;
            cordoned.map_err(Error::Tenant)?;
            if let Some(node) = &mut seen.node {
                node.unschedulable = true;
            }
        }
        Action::Exclude { uid } => {
            let excluded = requests::exclude(client, &name, uid).await;
            excluded.map_err(Error::Tenant)?;
            if let Some(node) = &mut seen.node {
                node.excluded = true;
            }
        }
        Action::Evict(pods) | Action::End(pods) => {
            let grace = matches!(action, Action::End(_)).then_some(0);
            let asked = pods.iter().map(|pod| requests::evict(client, pod, grace));
            let asked = join_all(asked).await;
            observed.evicted = true;
            for (pod, asked) in pods.iter().zip(asked) {
                take_in(observed, pod, asked.map_err(Error::Tenant)?);
            }
        }
        Action::DeleteNode { uid } => {
            let deleted = requests::delete_node(client, &name, uid).await;
            deleted.map_err(Error::Tenant)?;
            seen.node = None;
        }
        // The rest is not inside.
        _ => {}
    }
    Ok(())
}

/// What is made, or taken away, to tell its kubelet in place.
async fn renew(
    client: &Client,
    action: &Action,
    machine: &Machine,
    found: &mut RenewalSeen,
) -> Result<(), requests::Error> {
    let name = tenant_cp::node::renewal::name(&machine.uid().unwrap_or_default());
    match action {
        Action::StoreRenewal(object) => {
            let uid = requests::renewal::store(client, object).await?;
            let begun = &object.value["metadata"]["annotations"][names::ANNOTATION_RENEWAL];
            found.secret = Some((uid, begun.as_str().unwrap_or_default().to_owned()));
        }
        Action::StartRenewal(object) => match requests::renewal::start(client, object).await? {
            Started::Is(pod) => found.pod = Some(pod),
            // What it is of is not known before it is read.
            Started::Taken => return Err(requests::Error::TimedOut),
            Started::Refused(why) => found.refused = Some(why),
        },
        Action::EndRenewal { uid } => {
            requests::renewal::end_pod(client, &name, uid).await?;
            if let Some(pod) = &mut found.pod {
                pod.going = true;
            }
        }
        Action::DeleteRenewal { uid } => {
            requests::renewal::delete_secret(client, &name, uid).await?;
            found.secret = None;
        }
        // The rest is not of it.
        _ => {}
    }
    Ok(())
}

fn take_in(observed: &mut Observed, pod: &Pod, evicted: requests::Evicted) {
    let seen = observed.seen_mut();
    let Some(pods) = seen.and_then(|seen| seen.pods.as_mut().there()) else {
        return;
    };
    match evicted {
        requests::Evicted::Leaves => {
            let found = pods.iter_mut().filter(|p| p.uid == pod.uid);
            found.for_each(|p| p.going = true);
        }
        requests::Evicted::Gone => pods.retain(|p| p.uid != pod.uid),
        requests::Evicted::Blocked => {}
    }
}

async fn delete(client: &Client, deletion: &Deletion<'_>) -> Result<(), Error> {
    write::delete(client, deletion)
        .await
        .map(drop)
        .map_err(Error::Write)
}

async fn write_user_data(
    ctx: &Context,
    action: &Action,
    observed: &mut Observed,
) -> Result<(), Error> {
    let machine = &observed.machine;
    let namespace = machine.tenant_namespace();
    let name = names::user_data_secret(&machine.name_any());
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), &namespace);
    let failed = |verb| {
        move |source: kube::Error| Error::UserData {
            verb,
            source: Box::new(source),
        }
    };
    let written = match action {
        // Created, not applied: what is there may be what a machine booted with.
        Action::CreateUserData(object) => {
            let typed = serde_json::from_value::<Secret>(object.value.clone());
            let typed = typed
                .map_err(kube::Error::SerdeError)
                .map_err(failed("create"))?;
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            secrets
                .create(&params, &typed)
                .await
                .map_err(failed("create"))?
        }
        Action::ChangeUserData(patch) => {
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let patched = secrets.patch(&name, &params, &Patch::Merge(patch)).await;
            patched.map_err(failed("change"))?
        }
        Action::DeleteUserData { uid } => {
            let own = Deletion {
                kind: kinds::SECRET,
                namespace: Some(&namespace),
                name: &name,
                uid,
                resource_version: None,
                propagation: PropagationPolicy::Background,
            };
            delete(&ctx.client, &own).await?;
            observed.user_data = Known::Absent;
            observed.left_user_data = None;
            return Ok(());
        }
        _ => return Ok(()),
    };
    observed.user_data = Known::Known(observe::stored(&written, machine));
    Ok(())
}

async fn write_finalizers(
    ctx: &Context,
    action: &Action,
    observed: &mut Observed,
) -> Result<(), Error> {
    let machine = &observed.machine;
    let mut finalizers = machine.finalizers().to_vec();
    match action {
        Action::AddFinalizer => finalizers.push(names::FINALIZER_MACHINE.to_owned()),
        _ => finalizers.retain(|f| f != names::FINALIZER_MACHINE),
    }
    // The resource version makes it a conflict when somebody else changed the list meanwhile.
    let patch = json!({ "metadata": {
        "finalizers": finalizers, "resourceVersion": machine.resource_version(),
    }});
    let namespace = machine.namespace().unwrap_or_default();
    let machines = Api::<Machine>::namespaced(ctx.client.clone(), &namespace);
    let name = machine.name_any();
    let written = machines
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    match written {
        Ok(machine) => observed.machine = machine,
        // Gone: that is what taking the finalizer off is for.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            observed.machine.metadata.finalizers = Some(finalizers);
        }
        Err(error) => return Err(Error::Own(Box::new(error))),
    }
    Ok(())
}
