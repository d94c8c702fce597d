//! Reads everything that a plan may depend on. Decides nothing.
//!
//! Invariant: what is decided once (a machine failed, its token is gone) is decided on what was read
//! live; of the tenant cluster's own state only what the plan needs now is asked for.

use api::machine::MachineRequest;
use api::machine_addresses::{self, PublishedAddresses, RemoteMachine};
use api::{Machine, MachineAddresses, TenantCluster, names};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kit_client::errors::{Class, Classify};
use kit_objects::known::Known;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, ResourceExt};
use providers::{Description, Presence, Provider};
use tenant_cp::node::bootstrap_token::{self, Token};
use tenant_cp::node::renewal;

use super::observed::{Observed, Tenant, UserData};
use super::plan::TOKEN;
use super::requests;
use crate::context::Context;
use crate::state;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::bulkhead::{Interrupted, Pass};

/// What nobody needs to know of a machine that has joined, before it goes.
const NOT_ASKED: Known<UserData> = Known::Unknown {
    why: "it is not asked for once the machine has joined",
};

/// Why an observation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused, or was not reached.
    #[error("read {what}")]
    Read {
        /// Kind and name.
        what: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The provider did not answer.
    #[error("look at the virtual machine")]
    Provider(#[source] providers::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } => source.class(),
            Self::Provider(source) => source.class(),
        }
    }
}

/// Reads the world of one Machine; none when it is gone.
///
/// # Errors
/// [`Error`]; then nothing is known and nothing may be decided.
pub async fn observe(
    ctx: &Context,
    namespace: &str,
    name: &str,
) -> Result<Option<Observed>, Error> {
    let machines = Api::<Machine>::namespaced(ctx.client.clone(), namespace);
    let found = machines.get_opt(name).await;
    let Some(machine) = found.map_err(|e| read("Machine", name, e))? else {
        return Ok(None);
    };
    let going = machine.metadata.deletion_timestamp.is_some();
    let cluster = cluster(ctx, &machine, namespace).await?;
    let is_home = |c: &TenantCluster| c.metadata.deletion_timestamp.is_none();
    let home = cluster.as_ref().is_some_and(is_home);
    let home_namespace = match home {
        true => Known::Known(()),
        false => find_namespace(ctx, &machine).await?,
    };
    let joined = machine
        .status
        .as_ref()
        .is_some_and(|s| s.node_name.is_some());
    let deep = home && (!joined || going);
    let (published, remote) = published(ctx, &machine);
    let capabilities = provider_of(ctx, &machine)
        .map(Provider::capabilities)
        .unwrap_or_default();
    let vm = async {
        match home_namespace {
            Known::Absent if capabilities.goes_with_namespace => Ok(Known::Absent),
            _ => describe(ctx, &machine, published.as_ref(), home).await,
        }
    };
    let stored = async {
        match deep {
            true => user_data(&ctx.client, &machine).await,
            false => Ok((NOT_ASKED, None)),
        }
    };
    let budget = ctx.budget();
    let renews = !going && joined && is_renewed(&machine, cluster.as_ref());
    let wanted = requests::Wanted {
        token: deep || renews,
        pods: going,
        renewal: renews,
    };
    let tenant = async {
        match home {
            true => ask(ctx, &machine, &budget, wanted).await,
            false => Tenant::NotAsked,
        }
    };
    let (vm, stored, tenant) = futures::join!(vm, stored, tenant);
    let frozen = machine.status.as_ref().and_then(|s| s.request.as_ref());
    let vm = vm?;
    let (user_data, left_user_data) = stored?;
    let others = match &tenant {
        Tenant::Answers(seen) if !seen.requests.is_empty() => ctx.stores.addresses_before(&machine),
        _ => Vec::new(),
    };
    let overlay = match (&cluster, going) {
        (Some(cluster), false) if home => ctx.decide_overlay(cluster, &machine),
        _ => None,
    };
    let asks = home && !joined && !going && frozen.is_none() && vm.is_absent();
    Ok(Some(Observed {
        request: match asks {
            true => Some(request(ctx, &machine)?),
            false => None,
        },
        creations: ctx
            .creations
            .outcome(&machine.uid().unwrap_or_default(), jiff::Timestamp::now()),
        capabilities,
        provider_id: provider_of(ctx, &machine).and_then(|provider| provider.provider_id(&machine)),
        machine,
        cluster,
        namespace: home_namespace,
        vm,
        published,
        remote,
        others,
        overlay,
        user_data,
        left_user_data,
        drawn: None,
        renewal_image: renewal::image(&ctx.settings),
        tenant,
        evicted: false,
        budget,
    }))
}

/// The TenantCluster that the Machine was made for: as last seen, unless it is not there or going,
/// which is asked for live.
async fn cluster(
    ctx: &Context,
    machine: &Machine,
    namespace: &str,
) -> Result<Option<TenantCluster>, Error> {
    let (name, uid) = (&machine.spec.cluster_name, &machine.spec.cluster_uid);
    let same = |c: &TenantCluster| c.identity_uid() == uid;
    let known = ctx
        .stores
        .clusters
        .get(&ObjectRef::new(name).within(namespace));
    if let Some(known) = known.filter(|c| same(c) && c.metadata.deletion_timestamp.is_none()) {
        return Ok(Some((*known).clone()));
    }
    let clusters = Api::<TenantCluster>::namespaced(ctx.client.clone(), namespace);
    let found = clusters.get_opt(name).await;
    let found = found.map_err(|e| read("TenantCluster", name, e))?;
    Ok(found.filter(same))
}

/// Whether the tenant namespace of the Machine's own cluster is there.
async fn find_namespace(ctx: &Context, machine: &Machine) -> Result<Known<()>, Error> {
    let name = machine.tenant_namespace();
    let namespaces = Api::<Namespace>::all(ctx.client.clone());
    let found = namespaces.get_opt(&name).await;
    let found = found.map_err(|e| read("Namespace", &name, e))?;
    Ok(whose(found.as_ref(), &machine.spec.cluster_uid))
}

/// Whether a namespace of the right name is that of this tenant cluster: one whose label somebody took off
/// may hold virtual machines.
pub(super) fn whose(found: Option<&Namespace>, cluster_uid: &str) -> Known<()> {
    let Some(namespace) = found else {
        return Known::Absent;
    };
    match namespace.labels().get(names::LABEL_TENANT_UID) {
        Some(uid) if uid == cluster_uid => Known::Known(()),
        Some(_) => Known::Absent,
        None => Known::Unknown {
            why: "the tenant namespace does not say whose it is",
        },
    }
}

/// Its addresses, and what the cloud controller manager was told of it, as they were last published.
fn published(
    ctx: &Context,
    machine: &Machine,
) -> (Option<PublishedAddresses>, Option<RemoteMachine>) {
    let all = ObjectRef::new(machine_addresses::NAME).within(&machine.tenant_namespace());
    let seen = ctx.stores.addresses.get(&all);
    let uid = machine.uid().unwrap_or_default();
    let (name, seen) = (machine.name_any(), seen.as_deref());
    let addresses = ctx.publications.latest(&uid, seen, |all| all.of(&name));
    let of_it = |all: &MachineAddresses| all.spec.machines.get(&name).cloned();
    let remote = ctx.remote_publications.latest(&uid, seen, of_it);
    (addresses, remote)
}

async fn describe(
    ctx: &Context,
    machine: &Machine,
    published: Option<&PublishedAddresses>,
    home: bool,
) -> Result<Known<Description>, Error> {
    let provider = ctx.providers.get(&machine.spec.provider);
    let provider = provider.map_err(Error::Provider)?;
    match provider.describe(machine, published).await {
        // With a tenant namespace that goes, the right to look into it goes too; what is in there
        // goes with it, and it is not over before the namespace is gone.
        Err(error) if !home && is_forbidden(&error) => Ok(Known::Unknown {
            why: "the operator is not let into the tenant namespace any more",
        }),
        result => result.map(known).map_err(Error::Provider),
    }
}

fn request(ctx: &Context, machine: &Machine) -> Result<MachineRequest, Error> {
    let provider = ctx.providers.get(&machine.spec.provider);
    let request = provider.and_then(|provider| provider.request(machine));
    let request = request.map_err(Error::Provider)?;
    let (stores, clouds) = (&ctx.stores, &ctx.clouds);
    let (admitted, config) = ctx.cloud_limits.admit(stores, clouds, machine, &request);
    if let Some(config) = config {
        // Fails only once the controllers have ended.
        let _ = ctx.triggers.configs.send(config);
    }
    admitted.map_err(Error::Provider)?;
    Ok(request)
}

/// Whether its kubelet is told in place, or is to be.
fn is_renewed(machine: &Machine, cluster: Option<&TenantCluster>) -> bool {
    let status = machine.status.as_ref();
    let is_begun = status.is_some_and(|status| status.renewal.is_some());
    is_begun || cluster.is_some_and(|cluster| super::plan::is_to_be_renewed(machine, cluster))
}

/// Absent only where that is proven.
pub(super) fn known(presence: Presence) -> Known<Description> {
    match presence {
        Presence::Present(description) => Known::Known(*description),
        Presence::Absent(_) => Known::Absent,
        Presence::Unknown { why } => Known::Unknown { why },
    }
}

/// The machine's provider; none where it is switched off.
fn provider_of<'a>(ctx: &'a Context, machine: &Machine) -> Option<&'a dyn Provider> {
    ctx.providers.get(&machine.spec.provider).ok()
}

fn is_forbidden(error: &providers::Error) -> bool {
    let providers::Error::Request { source, .. } = error else {
        return false;
    };
    matches!(source.as_ref(), kube::Error::Api(status) if status.code == 403)
}

/// The Machine's own, and by UID that of another Machine of its name: names of Machines are given once at a time, so that
/// one is gone.
async fn user_data(
    client: &Client,
    machine: &Machine,
) -> Result<(Known<UserData>, Option<String>), Error> {
    let name = names::user_data_secret(&machine.name_any());
    let secrets = Api::<Secret>::namespaced(client.clone(), &machine.tenant_namespace());
    let found = secrets.get_opt(&name).await;
    let found = found.map_err(|e| read("Secret", &name, e))?;
    let whose = found.as_ref();
    let whose = whose.and_then(|secret| secret.labels().get(names::LABEL_MACHINE_UID));
    let is_ours = whose == machine.uid().as_ref();
    // What says nothing of a Machine is somebody else's.
    let left = whose.filter(|_| !is_ours).and(found.as_ref());
    let left = left.and_then(ResourceExt::uid);
    let ours = found.filter(|_| is_ours);
    let ours = Known::found(ours.map(|secret| stored(&secret, machine)));
    Ok((ours, left))
}

/// What matters of the Secret with the user data.
pub(super) fn stored(secret: &Secret, machine: &Machine) -> UserData {
    let data = secret.data.as_ref();
    let text = data.and_then(|d| d.get(TOKEN)).map(|bytes| bytes.0.clone());
    let half = text.and_then(|bytes| String::from_utf8(bytes).ok());
    UserData {
        uid: secret.uid().unwrap_or_default(),
        resource_version: secret.resource_version().unwrap_or_default(),
        token: half.filter(|half| !half.is_empty()).map(|half| Token {
            id: bootstrap_token::token_id(&machine.uid().unwrap_or_default()),
            secret: pki::Key::new(half),
        }),
    }
}

/// Asks the tenant's API, unless it did not answer a moment ago. One that does not answer is told to
/// whoever finds out what is the matter.
async fn ask(
    ctx: &Context,
    machine: &Machine,
    budget: &Budget,
    wanted: requests::Wanted,
) -> Tenant {
    let uid = &machine.spec.cluster_uid;
    let Some(tenant) = ctx.tenants.client(uid, budget) else {
        return Tenant::NotAsked;
    };
    if let Some(message) = ctx.recovery_probes.silence(uid) {
        return Tenant::Silent { message };
    }
    let Some(pass) = enter(ctx, machine, budget) else {
        return Tenant::Postponed;
    };
    if let Some(message) = ctx.breaker.claim(uid) {
        return Tenant::Silent { message };
    }
    let name = machine.name_any();
    let requests = ctx.tenants.pending_csrs(uid, &name);
    let asked = requests::read(&tenant, machine, budget, &requests, wanted);
    let asked = match pass.within(asked).await {
        Ok(asked) => asked,
        Err(Interrupted::Exceeded(error)) => Err(error.into()),
        Err(Interrupted::Busy) => return Tenant::Postponed,
    };
    match asked {
        Ok(seen) => {
            ctx.breaker.close(uid);
            Tenant::Answers(Box::new(seen))
        }
        Err(error) => {
            let message = kit_client::errors::chain(&error);
            if error.is_answer() {
                ctx.breaker.close(uid);
            } else {
                trip(ctx, machine, &message);
            }
            Tenant::Silent { message }
        }
    }
}

/// Lets this reconcile ask the tenant's API; none when others that are slow have to be done with first,
/// after which it is triggered.
pub(super) fn enter(ctx: &Context, machine: &Machine, budget: &Budget) -> Option<Pass> {
    let object = ObjectRef::from_obj(machine);
    let (key, machines) = (state::key(&object), ctx.triggers.machines.clone());
    // Fails only once the controller has ended.
    let wake = Box::new(move || drop(machines.send(object)));
    ctx.machine_bulkhead
        .enter(&machine.spec.cluster_uid, &key, budget, wake)
}

/// Leaves the tenant's API in peace for a while, and has somebody find out what is the matter.
pub(super) fn trip(ctx: &Context, machine: &Machine, message: &str) {
    ctx.breaker.trip(&machine.spec.cluster_uid, message);
    let namespace = machine.namespace().unwrap_or_default();
    let cluster = ObjectRef::new(&machine.spec.cluster_name).within(&namespace);
    // Fails only once the controller has ended.
    let _ = ctx.triggers.clusters.send(cluster);
}

fn read(kind: &str, name: &str, source: kube::Error) -> Error {
    Error::Read {
        what: format!("{kind} {name}"),
        source: Box::new(source),
    }
}
