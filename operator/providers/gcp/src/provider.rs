//! What makes Google's Compute Engine a cloud of the contract.
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
use crate::key::ServiceKey;
use crate::leaks::Found;
use crate::settings::{Project, Wanted};

impl Contract for Cloud {
    const KIND: ProviderKind = ProviderKind::Gcp;
    const CAPABILITIES: Capabilities = CAPABILITIES;
    const FIELD: &'static str = "key.json";

    type Endpoints = Endpoints;
    type Project = Project;
    type Found = Found;

    fn project(config: &ProviderConfig, installation: &str) -> Option<Project> {
        let wanted = config.spec.gcp.as_ref()?;
        Some(Project {
            installation: installation.to_owned(),
            project: wanted.project.clone(),
            zone: wanted.zone.clone(),
            subnet: wanted.subnet.clone(),
            tags: wanted.network_tags.clone(),
            public_ipv4: wanted.public_ipv4,
            account: requests::account(config).map(str::to_owned),
        })
    }

    fn open(
        endpoints: &Endpoints,
        credentials: &str,
        project: Project,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NoClient> {
        let key = ServiceKey::read(credentials, &endpoints.token_uri);
        let key = key.map_err(|why| NoClient::Credentials(format!("its field key.json: {why}")))?;
        Ok(Self::new(endpoints, key, project, clock)?)
    }

    /// As it was when its node joined: before, whose it is its labels say alone.
    fn instance(machine: &Machine) -> Option<u64> {
        machine.status.as_ref()?.instance.as_deref()?.parse().ok()
    }

    fn disk(wanted: &WantedMachines) -> Option<i64> {
        Some(i64::from(wanted.gcp.as_ref()?.disk_gib) << 30)
    }

    fn zone(&self) -> &str {
        &self.project.zone
    }

    async fn check(
        &self,
        types: &[String],
        images: &[String],
        _market: Market,
    ) -> Result<Checked, Refused> {
        Self::check(self, types, images).await
    }

    fn known(&self, types: &[String], _market: Market) -> Result<Option<Vec<Size>>, Refused> {
        self.known_sizes(types)
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
    let of_pool = order.machine.spec.provider.gcp.clone().unwrap_or_default();
    Wanted {
        owner: order.owner.clone(),
        machine_type: order.request.type_.clone().unwrap_or_default(),
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

    fn machine(gcp: &Value, instance: &str) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": { "name": "w-1" },
            "spec": { "clusterName": "demo", "clusterUID": "c", "poolName": "w", "version": "1.36.2",
                "provider": { "gcp": gcp } },
            "status": { "instance": instance },
        }))
        .unwrap()
    }

    #[test]
    fn machine_is_asked_for_as_its_own_spec_and_request_say() {
        let request = MachineRequest {
            type_: Some("e2-medium".to_owned()),
            image: "projects/p/global/images/i".to_owned(),
            ..MachineRequest::default()
        };
        let of = |gcp: &Value| {
            let machine = machine(gcp, "42");
            let order = Order {
                machine: &machine,
                request: &request,
                owner: &Owner::default(),
            };
            wanted(order, "#cloud-config".to_owned())
        };
        let plain = of(&json!({ "configName": "g", "types": ["e2-standard-4"] }));
        assert_eq!(plain.machine_type, "e2-medium");
        assert_eq!((plain.disk, plain.is_spot), (30, false));
        let spot = json!({ "configName": "g", "types": ["a"], "diskGiB": 80, "market": "Spot" });
        let spot = of(&spot);
        assert_eq!((spot.disk, spot.is_spot), (80, true));
    }

    #[test]
    fn instance_is_the_one_that_joined() {
        let gcp = json!({ "configName": "g", "types": ["a"] });
        assert_eq!(Cloud::instance(&machine(&gcp, "42")), Some(42));
        assert_eq!(Cloud::instance(&machine(&gcp, "5d2f1c1e-8a52")), None);
        assert_eq!(
            Cloud::disk(&machine(&gcp, "").spec.provider),
            Some(30 << 30)
        );
    }

    #[test]
    fn secret_without_a_key_of_a_service_account_lets_nobody_in_and_is_not_repeated() {
        let secret = r#"{"type": "external_account", "token_url": "https://s3cret.example.com"}"#;
        for credentials in ["", secret] {
            let endpoints = Endpoints::default();
            let clock = Arc::new(SystemClock);
            let open =
                <Cloud as Contract>::open(&endpoints, credentials, Project::default(), clock);
            let Err(NoClient::Credentials(why)) = open else {
                panic!("it is open");
            };
            assert!(why.contains("key.json") && !why.contains("s3cret"), "{why}");
        }
    }
}
