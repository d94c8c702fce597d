//! The contract of `docs/providers.md` over the inventory of Hosts.
//!
//! A machine is made by claiming a Host, and deleted by giving it up: both are one write of a Host's status. What is
//! done on the machine follows from that ([`crate::life`]) and is nobody's call here.
//!
//! Invariant: each write is guarded by the resourceVersion that it was decided with, so of two that claim one Host one
//! is refused; Hosts are read from the management cluster's API in their newest state, never from a store.

use api::host::HostStatus;
use api::machine::MachineRequest;
use api::machine_addresses::PublishedAddresses;
use api::node_pool::{HostSelector, Provider as Wanted};
use api::{Host, Machine, names};
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource as _, ResourceExt};
use providers::{
    Answer, Capabilities, Checked, Error, Inventory, Listed, Offering, Presence, Provider, Scope,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::life::choose;
use crate::programs::Archives;

mod describe;

/// Others that are quicker, before a claim is left to the next reconcile.
const TRIES: usize = 4;

/// What it can do. A machine keeps its disk whatever happens to it. It is told in a session, and Covey's own Secret is
/// all that stands of it anywhere. A Host in maintenance has its machine leave. The name of its node is known once it
/// is claimed. Hosts are watched. A machine that does not answer is not fenced, and nothing attests for it.
pub const CAPABILITIES: Capabilities = Capabilities {
    keeps_disk: true,
    blanks_user_data: true,
    user_data_limit: None,
    goes_with_namespace: false,
    id_before_create: false,
    evacuation_notice: true,
    proves_fenced: false,
    attests: false,
    restarts: false,
    watched: true,
    read_by_cloud_controller: false,
    max_name: None,
};

/// The provider.
pub struct Static {
    client: Client,
    is_enabled: bool,
    programs: Archives,
    field_manager: &'static str,
    /// Of two claims one sees the other's: which addresses are taken is no matter of one Host.
    claims: Mutex<()>,
}

impl Static {
    /// `programs`: what can be sent to machines. Writes in the name of `field_manager`, which has to be that of whoever reconciles Hosts: their status has one
    /// owner.
    #[must_use]
    pub fn new(
        client: Client,
        (is_enabled, programs): (bool, Archives),
        field_manager: &'static str,
    ) -> Self {
        Self {
            client,
            is_enabled,
            programs,
            field_manager,
            claims: Mutex::default(),
        }
    }

    fn selector<'a>(&self, provider: &'a Wanted) -> Result<&'a HostSelector, Error> {
        let wanted = provider.static_.as_ref().ok_or(Error::NoneNamed)?;
        match self.is_enabled {
            true => Ok(&wanted.selector),
            false => Err(Error::NotConfigured("static")),
        }
    }

    /// All Hosts of the Machine's namespace. No resourceVersion, no pages: the newest state, and all of it.
    async fn hosts(&self, machine: &Machine) -> Result<Vec<Host>, Error> {
        let namespace = machine.namespace().unwrap_or_default();
        let hosts = Api::<Host>::namespaced(self.client.clone(), &namespace);
        let listed = hosts.list(&ListParams::default()).await;
        let listed = listed.map_err(|source| failed("list", &namespace, "*", source))?;
        Ok(listed.items)
    }

    /// Writes a status that was decided on this very Host.
    async fn write(&self, host: &Host, status: &HostStatus) -> Result<(), kube::Error> {
        let namespace = host.namespace().unwrap_or_default();
        let hosts = Api::<Host>::namespaced(self.client.clone(), &namespace);
        let params = PatchParams::apply(self.field_manager).force();
        let object = Patch::Apply(object(host, status));
        let written = hosts.patch_status(&host.name_any(), &params, &object).await;
        written.map(drop)
    }
}

/// What is sent.
fn object(host: &Host, status: &HostStatus) -> Value {
    json!({
        "apiVersion": Host::api_version(&()),
        "kind": Host::kind(&()),
        "metadata": {
            "name": host.name_any(), "namespace": host.namespace(), "uid": host.uid(),
            "resourceVersion": host.resource_version(),
        },
        "status": status,
    })
}

fn failed(verb: &'static str, namespace: &str, name: &str, source: kube::Error) -> Error {
    Error::Request {
        verb,
        object: format!("Host {namespace}/{name}"),
        source: Box::new(source),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// What to do where every Host is taken.
fn none_left(
    machine: &Machine,
    hosts: &[Host],
    (selector, programs): (&HostSelector, &Archives),
) -> Error {
    let namespace = machine.namespace().unwrap_or_default();
    if machine.adopts().is_some() {
        return Error::NoneLeft(format!(
            "no Host of namespace {namespace} is Adoptable with the node {} and the authority that the Machine was made \
             for: see kubectl get hosts -n {namespace}; its node pool replaces it after health.joinTimeout",
            machine.name_any()
        ));
    }
    let fits = |host: &&Host| {
        choose::is_free(host) && choose::matches(selector, (&machine.spec.version, programs), host)
    };
    let taken = hosts.iter().filter(fits).find_map(|host| {
        let other = choose::same_address(hosts, host, machine)?;
        let (address, in_overlay) = choose::node_address(host, machine)?;
        Some((host, other, address, in_overlay))
    });
    if let Some((host, other, address, in_overlay)) = taken {
        let mend = match in_overlay {
            true => "delete the Machine, and the one in its place has another one",
            false => {
                "give it another one that its machine has (spec.nodeAddress), or add another Host"
            }
        };
        return Error::NoneLeft(format!(
            "Host {} is not taken, because {address} is the address of a node of the tenant cluster already, that on \
             Host {}: {mend}",
            host.name_any(),
            other.name_any()
        ));
    }
    Error::NoneLeft(format!(
        "no Host of namespace {namespace} that spec.provider.static.selector matches, and whose kubelet is v{0} or to \
         which the operator can send one (config.providers.static.programs), is \
         Available and without a Machine: add one, or see kubectl get hosts -n {namespace} for what keeps the others",
        machine.spec.version
    ))
}

impl Provider for Static {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn provider_id(&self, _machine: &Machine) -> Option<String> {
        None
    }

    fn check<'a>(&'a self, _namespace: &'a str, provider: &'a Wanted) -> Answer<'a, Checked> {
        Box::pin(async move {
            self.selector(provider)?;
            // Logins are of Hosts, whose conditions say whether they work.
            Ok(Checked { account: None })
        })
    }

    /// None: what there is are the Hosts of a namespace, each of a size of its own.
    fn offerings(&self, _namespace: &str, provider: &Wanted) -> Result<Vec<Offering>, Error> {
        self.selector(provider).map(|_| Vec::new())
    }

    /// Nothing is looked up: a machine has its system already.
    fn request(&self, machine: &Machine) -> Result<MachineRequest, Error> {
        self.selector(&machine.spec.provider)?;
        Ok(MachineRequest::default())
    }

    fn create<'a>(&'a self, machine: &'a Machine) -> Answer<'a, Presence> {
        Box::pin(async move {
            let wanted = (self.selector(&machine.spec.provider)?, &self.programs);
            let status = machine.status.as_ref();
            status
                .and_then(|status| status.request.as_ref())
                .ok_or(Error::NoRequest)?;
            let uid = machine.uid().unwrap_or_default();
            let _claims = self.claims.lock().await;
            for _ in 0..TRIES {
                let hosts = self.hosts(machine).await?;
                let Some(host) = choose::choose(&hosts, wanted, machine) else {
                    return Err(none_left(machine, &hosts, wanted));
                };
                if choose::is_of(host, &uid) {
                    return Ok(describe::presence(&hosts, machine));
                }
                let Some(status) = choose::claim(host, machine, Timestamp::now()) else {
                    return Err(none_left(machine, &hosts, wanted));
                };
                match self.write(host, &status).await {
                    Ok(()) => {
                        let mut host = host.clone();
                        host.status = Some(status);
                        return Ok(describe::presence(&[host], machine));
                    }
                    // Somebody was quicker, and nothing was written.
                    Err(source) if is_conflict(&source) => {}
                    Err(source) => {
                        let namespace = host.namespace().unwrap_or_default();
                        return Err(failed("claim", &namespace, &host.name_any(), source));
                    }
                }
            }
            Err(Error::NoneLeft(format!(
                "{TRIES} Hosts were taken by others or changed in the same moment"
            )))
        })
    }

    fn describe<'a>(
        &'a self,
        machine: &'a Machine,
        _published: Option<&'a PublishedAddresses>,
    ) -> Answer<'a, Presence> {
        // Also where it is switched off: what is there stays.
        Box::pin(async move { Ok(describe::presence(&self.hosts(machine).await?, machine)) })
    }

    fn delete<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()> {
        Box::pin(async move {
            let uid = machine.uid().unwrap_or_default();
            for host in self.hosts(machine).await? {
                let Some(status) = choose::release(&host, &uid) else {
                    continue;
                };
                let namespace = host.namespace().unwrap_or_default();
                let written = self.write(&host, &status).await;
                written
                    .map_err(|source| failed("release", &namespace, &host.name_any(), source))?;
            }
            Ok(())
        })
    }

    fn list<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Inventory> {
        Box::pin(async move {
            let Scope::TenantNamespace(namespace) = scope;
            let hosts = Api::<Host>::all(self.client.clone());
            let listed = hosts.list(&ListParams::default()).await;
            let listed = listed.map_err(|source| failed("list", "*", "*", source))?;
            let mut machines: Vec<_> = listed
                .items
                .iter()
                .filter_map(|host| taken(host, namespace))
                .collect();
            machines.sort_by(|a, b| a.name.cmp(&b.name));
            let rest = listed.metadata.continue_.as_deref();
            Ok(Inventory {
                machines,
                complete: rest.is_none_or(str::is_empty),
            })
        })
    }
}

/// A Host that a Machine of a tenant namespace has.
fn taken(host: &Host, namespace: &str) -> Option<Listed> {
    let claim = host.status.as_ref()?.claim.as_ref()?;
    // A claim has the UID of the tenant cluster, of which the tenant namespace's name ends with a part.
    let part = names::tenant_namespace("", &claim.tenant_cluster_uid);
    let part = part.rsplit('-').next().unwrap_or_default();
    if part.is_empty() || namespace.rsplit('-').next() != Some(part) {
        return None;
    }
    Some(Listed {
        name: claim.machine_name.clone(),
        machine_uid: claim.machine_uid.clone(),
        description: describe::description(host, &claim.machine_name),
    })
}
