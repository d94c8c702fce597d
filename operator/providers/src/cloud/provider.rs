//! The contract of `docs/providers.md` over all accounts of a cloud.
//!
//! Invariant: nothing is asked of an account for a Machine but of the one that its `status.request` names; where nobody is
//! let in, or nobody knows whose the credentials are, that is an error, and never that a machine is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use api::machine::MachineRequest;
use api::machine_addresses::PublishedAddresses;
use api::node_pool::{CloudMachines, Market, NodeTemplate, Provider as Wanted};
use api::{Machine, NodePoolSpec, ProviderConfig, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _};

use super::answers::Answers;
use super::clients::{Clients, Find, Open, held, refused};
use super::exhausted::Exhausted;
use super::requests;
use super::{Cloud, Order};
use crate::absence::Proof;
use crate::capabilities::Capabilities;
use crate::checked::Checked;
use crate::clock::Clock;
use crate::doubt::Doubt;
use crate::error::Error;
use crate::fault::FaultKind;
use crate::leaks::Outcome;
use crate::offering::Offering;
use crate::presence::{Inventory, Presence, Scope};
use crate::refused::Refused;
use crate::{Answer, Provider, template};

/// Key of a Machine's Secret with its user data (`tenant_cp::node::user_data::USER_DATA`).
const USER_DATA: &str = "userdata";
/// How long a size counts as exhausted after nothing of it was left, at least. A Machine that waits for it asks again,
/// and so makes it last.
const EXHAUSTED: SignedDuration = SignedDuration::from_mins(3);

/// A provider whose machines are made by ProviderConfigs.
pub trait AccountProvider: Provider {
    /// Proves that a ProviderConfig lets us in, and that what it names is there. Its Secret is read anew.
    ///
    /// # Errors
    /// Why machines could not be made.
    fn check_config<'a>(&'a self, config: &'a ProviderConfig) -> Answer<'a, Checked>;

    /// Finds what nobody has any more by a ProviderConfig, and deletes it. `machines` reads the UIDs of all Machines of the
    /// management cluster; it is asked once all that there is was listed. What was made in a time of `doubts` stays.
    ///
    /// # Errors
    /// When nobody knows all that there is, or a deletion was not taken.
    fn sweep<'a>(
        &'a self,
        config: &'a ProviderConfig,
        doubts: &'a [Doubt],
        machines: Answer<'a, BTreeSet<String>>,
    ) -> Answer<'a, Outcome>;

    /// Prices of an hour by size, in the currency of the account, as far as they were read: of a size that is not told
    /// nobody knows it. They are those of machines that stay, since others cost less.
    fn prices(
        &self,
        namespace: &str,
        name: &str,
        sizes: &BTreeSet<String>,
    ) -> BTreeMap<String, f64>;

    /// Whether the API of a ProviderConfig answers, as calls of the last minutes tell; none: nobody called since the
    /// operator started.
    fn answers(&self, namespace: &str, name: &str) -> Option<bool>;

    /// Whether a call by a ProviderConfig was not let in since its credentials were checked last.
    fn is_refused(&self, namespace: &str, name: &str) -> bool;

    /// Lets go of the client, and the credentials, of a ProviderConfig that is gone.
    fn forget(&self, namespace: &str, name: &str);
}

/// The provider of one cloud.
pub struct CloudProvider<C: Cloud> {
    client: Client,
    is_enabled: bool,
    clock: Arc<dyn Clock>,
    clients: Clients<C>,
    exhausted: Mutex<Exhausted>,
    answers: Answers,
}

impl<C: Cloud> CloudProvider<C> {
    /// At `endpoints`; ProviderConfigs are found by `find`. Nothing is asked yet.
    #[must_use]
    pub fn new(
        client: Client,
        is_enabled: bool,
        endpoints: C::Endpoints,
        clock: Arc<dyn Clock>,
        find: Find,
    ) -> Self {
        Self {
            clients: Clients::new(client.clone(), endpoints, Arc::clone(&clock), find),
            client,
            is_enabled,
            clock,
            exhausted: Mutex::default(),
            answers: Answers::default(),
        }
    }

    fn wanted<'a>(&self, provider: &'a Wanted) -> Result<CloudMachines<'a>, Error> {
        let wanted = named::<C>(provider)?;
        match self.is_enabled {
            true => Ok(wanted),
            false => Err(Error::NotConfigured(C::KIND.as_str())),
        }
    }

    /// The account that a Machine was asked for in.
    async fn account_of(
        &self,
        machine: &Machine,
        request: &MachineRequest,
    ) -> Result<Open<C>, Error> {
        // Also where it is switched off: what is there is looked after.
        let wanted = named::<C>(&machine.spec.provider)?;
        let namespace = machine.namespace().unwrap_or_default();
        let config = self.clients.config(&namespace, wanted.config_name)?;
        requests::same_account(C::KIND, machine, request, &config)?;
        self.clients.open(&config, false).await
    }

    /// Takes in what the API said.
    fn heard<T>(&self, open: &Open<C>, answer: Result<T, Refused>) -> Result<T, Error> {
        self.hears_whether_it_answers(open, &answer);
        self.clients.heard(open, answer)
    }

    fn hears_whether_it_answers<T>(&self, open: &Open<C>, answer: &Result<T, Refused>) {
        let refused = answer.as_ref().err();
        self.answers.take(&open.key, refused, self.clock.now());
    }

    /// Takes in that nothing of a size is left.
    fn hears_of(
        &self,
        open: &Open<C>,
        market: Market,
        request: &MachineRequest,
        refused: &Refused,
    ) {
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
        let (namespace, config) = &open.key;
        held(&self.exhausted).hears((namespace, config), market, size, until);
    }

    /// What a Machine boots with, as it is stored.
    async fn user_data(&self, machine: &Machine) -> Result<String, Error> {
        let namespace = machine.tenant_namespace();
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
            // It is written before a machine is asked for; nothing was asked for now.
            let why = "the user data of the Machine are not there";
            refused::<C>("read", object, FaultKind::NotFound, "no_user_data", why).into()
        })
    }
}

/// What a Machine's status says to ask for; none where nothing was asked for.
fn request_of(machine: &Machine) -> Option<&MachineRequest> {
    machine.status.as_ref()?.request.as_ref()
}

/// What is said of machines of this cloud.
fn named<C: Cloud>(provider: &Wanted) -> Result<CloudMachines<'_>, Error> {
    let wanted = provider.cloud().filter(|wanted| wanted.kind == C::KIND);
    wanted.ok_or(Error::NoneNamed)
}

impl<C: Cloud> AccountProvider for CloudProvider<C> {
    fn check_config<'a>(&'a self, config: &'a ProviderConfig) -> Answer<'a, Checked> {
        Box::pin(async move {
            let open = self.clients.open(config, true).await?;
            let images = config.spec.cloud();
            let images = images.iter().flat_map(|it| it.images.values());
            let images: Vec<String> = images.cloned().collect();
            let checked = open.cloud.check(&[], &images, Market::default()).await;
            self.heard(&open, checked)
        })
    }

    fn sweep<'a>(
        &'a self,
        config: &'a ProviderConfig,
        doubts: &'a [Doubt],
        machines: Answer<'a, BTreeSet<String>>,
    ) -> Answer<'a, Outcome> {
        Box::pin(async move {
            let open = self.clients.open(config, false).await?;
            let found = open.cloud.found().await;
            let found = self.heard(&open, found)?;
            let machines = machines.await?;
            let swept = open.cloud.sweep(&found, &machines, doubts).await;
            self.heard(&open, swept)
        })
    }

    fn prices(
        &self,
        namespace: &str,
        name: &str,
        sizes: &BTreeSet<String>,
    ) -> BTreeMap<String, f64> {
        let Some(cloud) = self.clients.kept(namespace, name) else {
            return BTreeMap::new();
        };
        // One by one: that of the others is known where one is none.
        let price = |size: &String| {
            let known = cloud.known(std::slice::from_ref(size), Market::OnDemand);
            let known = known.ok()??;
            Some((size.clone(), known.first()?.offering.price?))
        };
        sizes.iter().filter_map(price).collect()
    }

    fn answers(&self, namespace: &str, name: &str) -> Option<bool> {
        self.answers.of(namespace, name)
    }

    fn is_refused(&self, namespace: &str, name: &str) -> bool {
        self.clients.is_refused(namespace, name)
    }

    fn forget(&self, namespace: &str, name: &str) {
        self.answers.forget(namespace, name);
        self.clients.forget(namespace, name);
    }
}

impl<C: Cloud> Provider for CloudProvider<C> {
    fn capabilities(&self) -> Capabilities {
        C::CAPABILITIES
    }

    fn provider_id(&self, _machine: &Machine) -> Option<String> {
        None
    }

    fn check<'a>(&'a self, namespace: &'a str, provider: &'a Wanted) -> Answer<'a, Checked> {
        Box::pin(async move {
            let wanted = self.wanted(provider)?;
            let config = self.clients.config(namespace, wanted.config_name)?;
            let open = self.clients.open(&config, true).await?;
            let images: Vec<_> = wanted.image.into_iter().cloned().collect();
            let cloud = &open.cloud;
            let checked = cloud.check(wanted.types, &images, wanted.market).await;
            self.heard(&open, checked)
        })
    }

    /// As far as sizes and prices were read: where they were not, none.
    fn offerings(&self, namespace: &str, provider: &Wanted) -> Result<Vec<Offering>, Error> {
        let wanted = self.wanted(provider)?;
        let Some(cloud) = self.clients.kept(namespace, wanted.config_name) else {
            return Ok(Vec::new());
        };
        let sizes = cloud.known(wanted.types, wanted.market)?;
        let sizes = sizes.unwrap_or_default().into_iter();
        let left = sizes.filter(|size| !size.exhausted);
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
        let cloud = self.clients.kept(namespace, wanted.config_name)?;
        let sizes = cloud.known(wanted.types, wanted.market).ok()??;
        template::node(pool, &sizes, C::disk(provider), cloud.zone())
    }

    fn request(&self, machine: &Machine) -> Result<MachineRequest, Error> {
        let wanted = self.wanted(&machine.spec.provider)?;
        let namespace = machine.namespace().unwrap_or_default();
        let config = self.clients.config(&namespace, wanted.config_name)?;
        let of = (namespace.as_str(), wanted.config_name);
        let exhausted = held(&self.exhausted).of(of, wanted.market, self.clock.now());
        Ok(requests::request(machine, &wanted, &config, &exhausted)?)
    }

    fn create<'a>(&'a self, machine: &'a Machine) -> Answer<'a, Presence> {
        Box::pin(async move {
            let request = request_of(machine).ok_or(Error::NoRequest)?;
            let open = self.account_of(machine, request).await?;
            let order = Order {
                machine,
                request,
                owner: &requests::owner(machine, &open.installation),
            };
            let user_data = self.user_data(machine).await?;
            let made = open.cloud.create(order, user_data).await;
            self.hears_whether_it_answers(&open, &made);
            if let Err(refused) = &made {
                let market = named::<C>(&machine.spec.provider)?.market;
                self.hears_of(&open, market, request, refused);
            }
            // Who is let in may still lack a right to what a creation names, which says nothing of all other machines:
            // whether the credentials let in is heard where a machine is looked for.
            Ok(made?)
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
            let open = self.account_of(machine, request).await?;
            let subject = requests::subject::<C>(machine, &open.installation);
            let described = open.cloud.describe(&subject).await;
            self.heard(&open, described)
        })
    }

    fn restart<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()> {
        Box::pin(async move {
            let request = request_of(machine).ok_or(Error::NoRequest)?;
            let open = self.account_of(machine, request).await?;
            let owner = requests::owner(machine, &open.installation);
            let restarted = open.cloud.restart(&owner).await;
            self.heard(&open, restarted)
        })
    }

    fn delete<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()> {
        Box::pin(async move {
            let Some(request) = request_of(machine) else {
                return Ok(());
            };
            let open = self.account_of(machine, request).await?;
            let subject = requests::subject::<C>(machine, &open.installation);
            let deleted = open.cloud.delete(&subject.owner, subject.instance).await;
            self.heard(&open, deleted)
        })
    }

    /// Of the accounts that were asked since the operator started: there may be others.
    fn list<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Inventory> {
        Box::pin(async move {
            let Scope::TenantNamespace(namespace) = scope;
            let mut machines = Vec::new();
            for cloud in self.clients.all() {
                machines.extend(cloud.list(namespace).await?.machines);
            }
            machines.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Inventory {
                machines,
                complete: false,
            })
        })
    }
}
