//! The contract of `docs/providers.md` over projects of the Hetzner Cloud.
//!
//! Invariant: nothing is asked of a project for a Machine but of the one that its `status.request` names; where nobody is
//! let in, or nobody knows whose the credentials are, that is an error, and never that a machine is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use api::machine::MachineRequest;
use api::machine_addresses::PublishedAddresses;
use api::node_pool::{Hetzner as WantedServers, NodeTemplate, Provider as Wanted};
use api::{Machine, NodePoolSpec, ProviderConfig, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _};
use providers::clock::Clock;
use providers::identity::of_namespace;
use providers::leaks::Outcome;
use providers::{
    Answer, Capabilities, Checked, Doubt, Error, FaultKind, Inventory, Offering, Presence, Proof,
    Provider, Refused, Scope,
};

use crate::capabilities::CAPABILITIES;
use crate::cloud::held;
use crate::projects::{Find, Open, Projects};
use crate::refusal::Asked as Call;
use crate::settings::Wanted as WantedServer;
use crate::subject::{self, tenant_namespace};
use crate::template;

/// Key of a Machine's Secret with its user data (`tenant_cp::node::user_data::USER_DATA`).
const USER_DATA: &str = "userdata";
/// How long a size counts as exhausted after nothing of it was left, at least. A Machine that waits for it asks again,
/// and so makes it last.
const EXHAUSTED: SignedDuration = SignedDuration::from_mins(3);

/// The provider.
pub struct Hetzner {
    client: Client,
    is_enabled: bool,
    clock: Arc<dyn Clock>,
    projects: Projects,
    /// Until when sizes are not chosen, by ProviderConfig and name.
    exhausted: Mutex<BTreeMap<(String, String, String), Timestamp>>,
}

impl Hetzner {
    /// At `endpoint`; ProviderConfigs are found by `find`. Nothing is asked yet.
    #[must_use]
    pub fn new(
        client: Client,
        is_enabled: bool,
        endpoint: &str,
        clock: Arc<dyn Clock>,
        find: Find,
    ) -> Self {
        Self {
            projects: Projects::new(client.clone(), endpoint, Arc::clone(&clock), find),
            client,
            is_enabled,
            clock,
            exhausted: Mutex::default(),
        }
    }

    /// Proves that a ProviderConfig lets us in, and that what it names is there. Its Secret is read anew.
    ///
    /// # Errors
    /// Why machines could not be made.
    pub async fn check_config(&self, config: &ProviderConfig) -> Result<Checked, Error> {
        let open = self.projects.open(config, true).await?;
        let images = config.spec.hetzner.iter().flat_map(|it| it.images.values());
        let images: Vec<String> = images.cloned().collect();
        self.projects
            .heard(&open, open.cloud.check(&[], &images).await)
    }

    /// Finds what nobody has any more in the project of a ProviderConfig, and deletes it. `machines` reads the UIDs of
    /// all Machines of the management cluster; it is asked once all of the project was listed. What was made in a time of
    /// `doubts` stays.
    ///
    /// # Errors
    /// When nobody knows all that there is, or a deletion was not taken.
    pub async fn sweep(
        &self,
        config: &ProviderConfig,
        doubts: &[Doubt],
        machines: impl Future<Output = Result<BTreeSet<String>, Error>>,
    ) -> Result<Outcome, Error> {
        let open = self.projects.open(config, false).await?;
        let found = open.cloud.found().await;
        let found = self.projects.heard(&open, found)?;
        let machines = machines.await?;
        let swept = open.cloud.sweep(&found, &machines, doubts).await;
        self.projects.heard(&open, swept)
    }

    /// Prices of an hour by size, in the currency of the account, as far as they were read: of a size that is not told
    /// nobody knows it.
    #[must_use]
    pub fn prices(
        &self,
        namespace: &str,
        name: &str,
        sizes: &BTreeSet<String>,
    ) -> BTreeMap<String, f64> {
        let Some(cloud) = self.projects.kept(namespace, name) else {
            return BTreeMap::new();
        };
        // One by one: that of the others is known where one is none.
        let price = |size: &String| {
            let known = cloud.known_sizes(std::slice::from_ref(size)).ok()??;
            Some((size.clone(), known.first()?.offering.price?))
        };
        sizes.iter().filter_map(price).collect()
    }

    /// Lets go of the client, and the token, of a ProviderConfig that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.projects.forget(namespace, name);
    }

    fn wanted<'a>(&self, provider: &'a Wanted) -> Result<&'a WantedServers, Error> {
        let wanted = provider.hetzner.as_ref().ok_or(Error::NoneNamed)?;
        match self.is_enabled {
            true => Ok(wanted),
            false => Err(Error::NotConfigured("hetzner")),
        }
    }

    /// The project that a Machine was asked for in.
    async fn project_of(&self, machine: &Machine, request: &MachineRequest) -> Result<Open, Error> {
        // Also where it is switched off: what is there is looked after.
        let wanted = machine.spec.provider.hetzner.as_ref();
        let wanted = wanted.ok_or(Error::NoneNamed)?;
        let namespace = machine.namespace().unwrap_or_default();
        let config = self.projects.config(&namespace, &wanted.config_name)?;
        subject::same_account(machine, request, &config)?;
        self.projects.open(&config, false).await
    }

    fn exhausted(&self, namespace: &str, config: &str) -> BTreeSet<String> {
        let now = self.clock.now();
        let mut all = held(&self.exhausted);
        all.retain(|_, until| *until > now);
        let of_it = all
            .keys()
            .filter(|key| key.0 == namespace && key.1 == config);
        of_it.map(|key| key.2.clone()).collect()
    }

    /// Takes in that nothing of a size is left.
    fn hears_of(&self, open: &Open, request: &MachineRequest, refused: &Refused) {
        let FaultKind::Capacity { again } = refused.kind else {
            return;
        };
        let Some(size) = &request.type_ else { return };
        let again = again.and_then(|again| SignedDuration::try_from(again).ok());
        let until = self
            .clock
            .now()
            .saturating_add(again.unwrap_or(EXHAUSTED).max(EXHAUSTED))
            .unwrap_or(Timestamp::MAX);
        let (namespace, config) = open.key.clone();
        held(&self.exhausted).insert((namespace, config, size.clone()), until);
    }

    /// What a Machine boots with, as it is stored.
    async fn user_data(&self, machine: &Machine) -> Result<String, Error> {
        let namespace = tenant_namespace(machine);
        let name = names::user_data_secret(&machine.name_any());
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &namespace);
        let object = format!("Secret {namespace}/{name}");
        let found = secrets.get_opt(&name).await;
        let found = found.map_err(|source| Error::Request {
            verb: "read",
            object: object.clone(),
            source: Box::new(source),
        })?;
        let is_its =
            |s: &Secret| s.labels().get(names::LABEL_MACHINE_UID) == machine.uid().as_ref();
        let data = found.filter(is_its).and_then(|secret| secret.data);
        let text = data.and_then(|mut data| data.remove(USER_DATA));
        let text = text.and_then(|bytes| String::from_utf8(bytes.0).ok());
        text.ok_or_else(|| {
            let call = Call::new("read", object);
            // It is written before a machine is asked for; nothing was asked for now.
            let why = "the user data of the Machine are not there";
            call.refused(FaultKind::NotFound, "no_user_data", why)
                .into()
        })
    }
}

/// What a Machine's status says to ask for; none where nothing was asked for.
fn request_of(machine: &Machine) -> Option<&MachineRequest> {
    machine.status.as_ref()?.request.as_ref()
}

impl Provider for Hetzner {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn provider_id(&self, _machine: &Machine) -> Option<String> {
        None
    }

    fn check<'a>(&'a self, namespace: &'a str, provider: &'a Wanted) -> Answer<'a, Checked> {
        Box::pin(async move {
            let wanted = self.wanted(provider)?;
            let config = self.projects.config(namespace, &wanted.config_name)?;
            let open = self.projects.open(&config, true).await?;
            let images: Vec<_> = wanted.image.iter().cloned().collect();
            let checked = open.cloud.check(&wanted.types, &images).await;
            self.projects.heard(&open, checked)
        })
    }

    /// As far as sizes and prices were read: where they were not, none.
    fn offerings(&self, namespace: &str, provider: &Wanted) -> Result<Vec<Offering>, Error> {
        let wanted = self.wanted(provider)?;
        let Some(cloud) = self.projects.kept(namespace, &wanted.config_name) else {
            return Ok(Vec::new());
        };
        let sizes = cloud.known_sizes(&wanted.types)?.unwrap_or_default();
        let left = sizes.into_iter().filter(|size| !size.exhausted);
        Ok(left.map(|size| size.offering).collect())
    }

    /// Of all sizes that are named, also those of which nothing is left: it does not change with each that is taken.
    fn template(
        &self,
        namespace: &str,
        pool: &NodePoolSpec,
        provider: &Wanted,
    ) -> Option<NodeTemplate> {
        let wanted = self.wanted(provider).ok()?;
        let cloud = self.projects.kept(namespace, &wanted.config_name)?;
        let sizes = cloud.known_sizes(&wanted.types).ok()??;
        template::node(pool, &sizes, &cloud.project.location)
    }

    fn request(&self, machine: &Machine) -> Result<MachineRequest, Error> {
        let wanted = self.wanted(&machine.spec.provider)?;
        let namespace = machine.namespace().unwrap_or_default();
        let config = self.projects.config(&namespace, &wanted.config_name)?;
        let exhausted = self.exhausted(&namespace, &wanted.config_name);
        Ok(subject::request(machine, wanted, &config, &exhausted)?)
    }

    fn create<'a>(&'a self, machine: &'a Machine) -> Answer<'a, Presence> {
        Box::pin(async move {
            let request = request_of(machine).ok_or(Error::NoRequest)?;
            let open = self.project_of(machine, request).await?;
            let wanted = WantedServer {
                owner: subject::owner(machine, &open.installation),
                server_type: request.type_.clone().unwrap_or_default(),
                image: request.image.clone(),
                user_data: self.user_data(machine).await?,
            };
            let made = open.cloud.create(&wanted).await;
            if let Err(refused) = &made {
                self.hears_of(&open, request, refused);
            }
            self.projects.heard(&open, made)
        })
    }

    fn describe<'a>(
        &'a self,
        machine: &'a Machine,
        _published: Option<&'a PublishedAddresses>,
    ) -> Answer<'a, Presence> {
        Box::pin(async move {
            let Some(request) = request_of(machine) else {
                // Nothing is asked for before it is stored what for.
                return Ok(Presence::Absent(Proof::NotSeenYet));
            };
            let open = self.project_of(machine, request).await?;
            let subject = subject::subject(machine, &open.installation);
            let described = open.cloud.describe(&subject).await;
            self.projects.heard(&open, described)
        })
    }

    fn restart<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()> {
        Box::pin(async move {
            let request = request_of(machine).ok_or(Error::NoRequest)?;
            let open = self.project_of(machine, request).await?;
            let owner = subject::owner(machine, &open.installation);
            let restarted = open.cloud.restart(&owner).await;
            self.projects.heard(&open, restarted)
        })
    }

    fn delete<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()> {
        Box::pin(async move {
            let Some(request) = request_of(machine) else {
                return Ok(());
            };
            let open = self.project_of(machine, request).await?;
            let subject = subject::subject(machine, &open.installation);
            let deleted = open.cloud.delete(&subject.owner, subject.instance).await;
            self.projects.heard(&open, deleted)
        })
    }

    /// Of the projects that were asked since the operator started: there may be others.
    fn list<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Inventory> {
        Box::pin(async move {
            let Scope::TenantNamespace(namespace) = scope;
            let mut machines = Vec::new();
            for (installation, cloud) in self.projects.all() {
                let selector = of_namespace(&installation, namespace);
                machines.extend(cloud.list(&selector).await?.machines);
            }
            machines.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Inventory {
                machines,
                complete: false,
            })
        })
    }
}
