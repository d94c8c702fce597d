//! How much Machines may take by a ProviderConfig: who is let, and what is said of it.
//!
//! Invariant: who was let once counts from then on, also before a store shows that something was asked for it, so that
//! two that are let at one moment do not take one place; nothing is ever deleted because of a limit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::machine::MachineRequest;
use api::node_pool::Provider;
use api::node_pool::locations::LocationRef;
use api::{ConditionType, Machine, NodePool, ProviderConfig};
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use providers::{Error, FaultKind, Refused};

pub mod costs;
pub mod plan;

use self::costs::{Cost, Costs};
use self::plan::{Budget, Limits, Money, Reached, Taken};
use crate::clouds::Clouds;
use crate::stores::Stores;

/// Who was let, and has nothing in its status yet: sizes by UIDs of Machines.
#[derive(Debug, Default)]
pub struct CloudLimits(Mutex<HashMap<String, Option<String>>>);

impl CloudLimits {
    /// Forgets a Machine that is gone.
    pub fn forget(&self, uid: &str) {
        self.held().remove(uid);
    }

    /// Whether a Machine may be asked for. Also gives its ProviderConfig where that says otherwise still.
    pub fn admit(
        &self,
        stores: &Stores,
        clouds: &Clouds,
        machine: &Machine,
        request: &MachineRequest,
    ) -> (Result<(), Error>, Option<ObjectRef<ProviderConfig>>) {
        let Some(name) = machine.spec.provider.config_name() else {
            return (Ok(()), None);
        };
        let namespace = machine.namespace().unwrap_or_default();
        let key = ObjectRef::<ProviderConfig>::new(name).within(&namespace);
        // Where there is none whoever makes machines says what follows.
        let config = stores.configs.get(&key);
        let Some((config, limits)) = config.and_then(|it| limits(&it).map(|limits| (it, limits)))
        else {
            return (Ok(()), None);
        };
        let uid = machine.uid().unwrap_or_default();
        let mut held = self.held();
        let mut taken = taken(stores, &config, &held);
        taken.remove(&uid);
        let size = request.type_.clone();
        let prices = prices(clouds, &config, taken.values().chain([&size]));
        let answer = plan::admit(&limits, &taken, size.as_deref(), &prices);
        match &answer {
            Ok(()) => held.insert(uid, size),
            Err(_) => held.remove(&uid),
        };
        drop(held);
        let is_news = answer.is_err() != is_told(&config);
        let answer = answer.map_err(|reached| refused(name, &reached));
        (answer, is_news.then_some(key))
    }

    /// What is said of the limits of a ProviderConfig; none where it has none.
    #[must_use]
    pub fn budget(
        &self,
        stores: &Stores,
        clouds: &Clouds,
        config: &ProviderConfig,
    ) -> Option<Budget> {
        let limits = limits(config)?;
        let taken = taken(stores, config, &self.held());
        let all = machines(stores, config);
        let waiting = all.iter().filter(|machine| {
            let uid = machine.uid().unwrap_or_default();
            machine.metadata.deletion_timestamp.is_none() && !taken.contains_key(&uid)
        });
        // The first choice: of which size they will be is not known before.
        let first = |machine: &Arc<Machine>| {
            let cloud = machine.spec.provider.cloud();
            cloud.and_then(|wanted| wanted.types.first().cloned())
        };
        let waiting: Vec<_> = waiting.map(first).collect();
        let prices = prices(clouds, config, taken.values().chain(&waiting));
        Some(plan::budget(&limits, &taken, &waiting, &prices))
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of its Machines for which something was, or is about to be, asked: their sizes by UID.
fn taken(
    stores: &Stores,
    config: &ProviderConfig,
    held: &HashMap<String, Option<String>>,
) -> Taken {
    let of = |machine: Arc<Machine>| {
        let uid = machine.uid().unwrap_or_default();
        let status = machine.status.as_ref();
        let asked = status.and_then(|status| status.request.as_ref());
        let size = match asked {
            Some(request) => request.type_.clone(),
            None => held.get(&uid)?.clone(),
        };
        Some((uid, size))
    };
    machines(stores, config)
        .into_iter()
        .filter_map(of)
        .collect()
}

fn machines(stores: &Stores, config: &ProviderConfig) -> Vec<Arc<Machine>> {
    let name = config.name_any();
    let all = stores.machines.state().into_iter();
    all.filter(|machine| {
        machine.namespace() == config.namespace()
            && machine.spec.provider.config_name() == Some(&name)
    })
    .collect()
}

fn limits(config: &ProviderConfig) -> Option<Limits> {
    let limits = config.spec.limits.as_ref()?;
    Some(Limits {
        machines: limits
            .machines
            .map(|most| usize::try_from(most).unwrap_or_default()),
        hourly: limits.hourly.as_deref().and_then(Money::read),
    })
}

/// What an hour of a machine costs in each location of a pool, of the first size that it names, in millionths; who is
/// missing has no price, or nobody knows it yet. Nothing of a pool with one location, which has no choice.
#[must_use]
pub fn hourly(stores: &Stores, clouds: &Clouds, pool: &NodePool) -> BTreeMap<String, u64> {
    let places = pool.spec.places();
    if places.len() < 2 {
        return BTreeMap::new();
    }
    let namespace = pool.namespace().unwrap_or_default();
    let price = |place: LocationRef<'_>| {
        let cloud = place.provider.cloud()?;
        let config = ObjectRef::new(cloud.config_name).within(&namespace);
        let (config, size) = (stores.configs.get(&config)?, cloud.types.first().cloned());
        let price = prices(clouds, &config, std::iter::once(&size));
        let price = price.get(&size?).copied()?;
        Some((place.shown().to_owned(), price.millionths()))
    };
    places.into_iter().filter_map(price).collect()
}

/// What the Machines of a pool cost, and what one more would in each location; nothing where the pool has no budget.
#[must_use]
pub fn costs<'a>(
    stores: &Stores,
    clouds: &Clouds,
    pool: &NodePool,
    machines: impl Iterator<Item = &'a Machine>,
) -> Costs {
    if pool.spec.placement.budget.is_none() {
        return Costs::default();
    }
    let namespace = pool.namespace().unwrap_or_default();
    // The dearest of the sizes: which of them is left is known only when it is asked for.
    let cost = |provider: &Provider, size: Option<&String>| {
        let Some(cloud) = provider.cloud() else {
            return Cost::NotBilled;
        };
        let key = ObjectRef::<ProviderConfig>::new(cloud.config_name).within(&namespace);
        let Some(config) = stores.configs.get(&key) else {
            return Cost::Unknown;
        };
        let sizes: Vec<_> = match size {
            Some(size) => vec![Some(size.clone())],
            None => cloud.types.iter().cloned().map(Some).collect(),
        };
        let prices = prices(clouds, &config, sizes.iter());
        Cost::dearest(
            sizes.iter().flatten(),
            &prices,
            config.spec.currency.as_deref(),
        )
    };
    let of = machines.map(|machine| {
        let request = machine
            .status
            .as_ref()
            .and_then(|status| status.request.as_ref());
        let size = request.and_then(|request| request.type_.as_ref());
        (machine.name_any(), cost(&machine.spec.provider, size))
    });
    let places = pool.spec.places().into_iter();
    Costs {
        machines: of.collect(),
        next: places
            .map(|place| (place.shown().to_owned(), cost(place.provider, None)))
            .collect(),
    }
}

fn prices<'a>(
    clouds: &Clouds,
    config: &ProviderConfig,
    sizes: impl Iterator<Item = &'a Option<String>>,
) -> BTreeMap<String, Money> {
    let sizes: BTreeSet<String> = sizes.flatten().cloned().collect();
    let said = clouds.prices(config, &sizes).into_iter();
    let said = said.filter_map(|(size, price)| Some((size, Money::of(price)?)));
    let mut prices: BTreeMap<_, _> = said.collect();
    for (size, price) in &config.spec.prices {
        if let Some(price) = Money::read(price) {
            prices.insert(size.clone(), price);
        }
    }
    prices
}

fn is_told(config: &ProviderConfig) -> bool {
    let mut conditions = config.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == ConditionType::Budget.as_str() && c.status == "False")
}

fn refused(config: &str, reached: &Reached) -> Error {
    let refused = Refused {
        provider: "covey",
        verb: "make a machine by",
        object: format!("ProviderConfig {config}"),
        // It is known at once when there is room, so whoever waits asks as usual.
        kind: FaultKind::Quota { again: None },
        code: "limit_reached".to_owned(),
        message: reached.to_string(),
        request: None,
        mend: Some(reached.remedy().to_owned()),
    };
    refused.into()
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use tenant_cp::settings::ProviderSettings;

    use super::*;

    fn machine(name: &str, request: &Value) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": { "name": name, "namespace": "team-a", "uid": name },
            "spec": { "clusterName": "demo", "clusterUID": "tc", "poolName": "w", "version": "1.35.4",
                "provider": { "hetzner": { "configName": "h", "types": ["cx22"] } } },
            "status": { "request": request },
        }))
        .unwrap()
    }

    fn config(limits: &Value) -> ProviderConfig {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": "h", "namespace": "team-a" },
            "spec": { "limits": limits, "prices": { "cx22": "0.01" },
                "hetzner": { "tokenSecretName": "t", "location": "fsn1", "sshKeys": ["covey"] } },
        }))
        .unwrap()
    }

    fn clouds(stores: &Stores) -> Clouds {
        let address = "http://127.0.0.1:1".parse().unwrap();
        let client = kube::Client::try_from(kube::Config::new(address)).unwrap();
        Clouds::new(client, &ProviderSettings::default(), stores.configs.clone())
    }

    #[tokio::test]
    async fn two_that_are_let_at_one_moment_do_not_take_one_place() {
        kit_client::crypto::install_crypto();
        for limits in [json!({ "machines": 2 }), json!({ "hourly": "0.02" })] {
            let (stores, mut writers) = Stores::new();
            let asked = json!({ "image": "1", "type": "cx22" });
            writers
                .configs
                .apply_watcher_event(&Event::Apply(config(&limits)));
            for (name, request) in [("a", &asked), ("b", &json!(null)), ("c", &json!(null))] {
                writers
                    .machines
                    .apply_watcher_event(&Event::Apply(machine(name, request)));
            }
            let (clouds, of) = (clouds(&stores), CloudLimits::default());
            let request: MachineRequest = serde_json::from_value(asked).unwrap();
            let ask = |name: &str| {
                let machine = machine(name, &json!(null));
                let (answer, news) = of.admit(&stores, &clouds, &machine, &request);
                (answer.map_err(|error| error.to_string()), news.is_some())
            };
            assert_eq!(ask("b"), (Ok(()), false));
            assert_eq!(ask("b"), (Ok(()), false), "it counts once");
            let (answer, news) = ask("c");
            let told = answer.unwrap_err();
            assert!(told.contains("raise spec.limits."), "{told}");
            assert!(news, "nobody said so yet");
            let said = of.budget(&stores, &clouds, &config(&limits)).unwrap();
            assert_eq!(said.reason, api::Reason::LimitReached);
            of.forget("b");
            assert_eq!(ask("c").0, Ok(()));
        }
        let (stores, _writers) = Stores::new();
        let none = CloudLimits::default();
        let without = config(&json!(null));
        assert_eq!(none.budget(&stores, &clouds(&stores), &without), None);
    }
}
