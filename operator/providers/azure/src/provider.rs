//! What makes Azure a cloud of the contract.
//!
//! Invariant: nothing is decided here; each call is handed on.

use std::sync::Arc;

use api::node_pool::{Market, Provider as WantedMachines, ProviderKind};
use api::{Machine, ProviderConfig};
use providers::clock::Clock;
use providers::cloud::{Cloud as Contract, NoClient, Order, requests};
use providers::offering::Size;
use providers::{Capabilities, Checked, Inventory, Presence, Refused};

use crate::calls::Endpoints;
use crate::capabilities::CAPABILITIES;
use crate::cloud::Cloud;
use crate::credentials::Credentials;
use crate::leaks::Found;
use crate::schema::number;
use crate::settings::{Place, Wanted};

impl Contract for Cloud {
    const KIND: ProviderKind = ProviderKind::Azure;
    const CAPABILITIES: Capabilities = CAPABILITIES;
    const FIELD: &'static str = "credentials.json";

    type Endpoints = Endpoints;
    type Project = Place;
    type Found = Found;

    fn project(config: &ProviderConfig, installation: &str) -> Option<Place> {
        let wanted = config.spec.azure.as_ref()?;
        Some(Place {
            installation: installation.to_owned(),
            subscription: wanted.subscription_id.clone(),
            group: wanted.resource_group.clone(),
            location: wanted.location.clone(),
            zone: wanted.zone.clone(),
            subnet: wanted.subnet_id.clone(),
            security_group: wanted.security_group_id.clone(),
            public_ipv4: wanted.public_ipv4,
            ssh_key: wanted.ssh_key.clone(),
            account: requests::account(config).map(str::to_owned),
        })
    }

    fn open(
        endpoints: &Endpoints,
        credentials: &str,
        project: Place,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NoClient> {
        let credentials = Credentials::read(credentials).map_err(|why| {
            NoClient::Credentials(format!("its field {}: {why}", <Self as Contract>::FIELD))
        })?;
        Ok(Self::new(endpoints, credentials, project, clock)?)
    }

    /// As it was when its node joined: before, whose it is its tags say alone.
    fn instance(machine: &Machine) -> Option<u64> {
        number(machine.status.as_ref()?.instance.as_deref()?)
    }

    fn disk(wanted: &WantedMachines) -> Option<i64> {
        Some(i64::from(wanted.azure.as_ref()?.disk_gib) << 30)
    }

    fn zone(&self) -> &str {
        &self.zone
    }

    async fn check(
        &self,
        types: &[String],
        images: &[String],
        market: Market,
    ) -> Result<Checked, Refused> {
        Self::check(self, types, images, market == Market::Spot).await
    }

    fn known(&self, types: &[String], _market: Market) -> Result<Option<Vec<Size>>, Refused> {
        let known = self.known_sizes(types)?;
        Ok(known.map(|sizes| sizes.into_iter().map(|known| known.size).collect()))
    }

    async fn create(&self, order: Order<'_>, user_data: String) -> Result<Presence, Refused> {
        let wanted = wanted(order, user_data);
        Self::create(self, &wanted).await
    }

    async fn list(&self, namespace: &str) -> Result<Inventory, Refused> {
        Self::list(self, Some(namespace)).await
    }

    providers::handed_on!();
}

/// The same for one Machine each time: its spec and its request never change, and its user data are stored.
fn wanted(order: Order<'_>, user_data: String) -> Wanted {
    let of_pool = order.machine.spec.provider.azure.clone();
    let of_pool = of_pool.unwrap_or_default();
    Wanted {
        owner: order.owner.clone(),
        size: order.request.type_.clone().unwrap_or_default(),
        image: order.request.image.clone(),
        disk: of_pool.disk_gib.unsigned_abs(),
        is_spot: of_pool.market == Market::Spot,
        user_data,
    }
}

#[cfg(test)]
mod tests {
    use api::machine::MachineRequest;
    use providers::clock::SystemClock;
    use providers::identity::Owner;
    use serde_json::{Value, json};

    use super::*;

    fn machine(azure: &Value, instance: &str) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": { "name": "w-1" },
            "spec": { "clusterName": "demo", "clusterUID": "c", "poolName": "w", "version": "1.36.2",
                "provider": { "azure": azure } },
            "status": { "instance": instance },
        }))
        .unwrap()
    }

    #[test]
    fn machine_is_asked_for_as_its_own_spec_and_request_say() {
        let request = MachineRequest {
            type_: Some("Standard_D2s_v5".to_owned()),
            image: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/i"
                .to_owned(),
            ..MachineRequest::default()
        };
        let of = |azure: &Value| {
            let machine = machine(azure, "");
            let order = Order {
                machine: &machine,
                request: &request,
                owner: &Owner::default(),
            };
            wanted(order, "#cloud-config".to_owned())
        };
        let plain = of(&json!({ "configName": "a", "types": ["Standard_D4s_v5"] }));
        assert_eq!(plain.size, "Standard_D2s_v5");
        assert_eq!((plain.disk, plain.is_spot), (30, false));
        let spot = json!({ "configName": "a", "types": ["a"], "diskGiB": 80, "market": "Spot" });
        let spot = of(&spot);
        assert_eq!((spot.disk, spot.is_spot), (80, true));
    }

    #[test]
    fn instance_is_the_one_that_joined() {
        let azure = json!({ "configName": "a", "types": ["a"] });
        let id = "0000002a-0000-4000-8000-00000000002a";
        let known = Cloud::instance(&machine(&azure, id));
        assert_eq!(known, Some(0x0000_002a_0000_4000));
        assert_eq!(Cloud::instance(&machine(&azure, "42")), None);
        assert_eq!(
            Cloud::disk(&machine(&azure, "").spec.provider),
            Some(30 << 30)
        );
    }

    #[test]
    fn place_is_what_the_provider_config_says() {
        let config: ProviderConfig = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig", "metadata": { "name": "a" },
            "spec": { "azure": {
                "credentialsSecretName": "a", "subscriptionID": "s", "resourceGroup": "g", "location": "westeurope",
                "subnetID": "n", "sshKey": "k",
            } },
            "status": { "account": "a" },
        }))
        .unwrap();
        let place = Cloud::project(&config, "i").unwrap();
        assert!(place.public_ipv4);
        assert_eq!((place.zone, place.security_group), (None, None));
        assert_eq!(place.account.as_deref(), Some("a"));
    }

    #[test]
    fn secret_without_a_principal_lets_nobody_in_and_is_not_repeated() {
        let secret = r#"{"appId": "s3cret", "password": "s3cret", "tenant": "t"}"#;
        for credentials in ["", secret] {
            let endpoints = Endpoints::default();
            let clock = Arc::new(SystemClock);
            let open = <Cloud as Contract>::open(&endpoints, credentials, Place::default(), clock);
            let Err(NoClient::Credentials(why)) = open else {
                panic!("it is open");
            };
            assert!(why.contains("credentials.json"), "{why}");
            assert!(!why.contains("s3cret"), "{why}");
        }
    }
}
