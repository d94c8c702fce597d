//! What makes Hetzner a cloud of the contract.
//!
//! Invariant: nothing is decided here; each call is handed on.

use std::sync::Arc;

use api::node_pool::{Market, ProviderKind};
use api::{Machine, ProviderConfig};
use providers::clock::Clock;
use providers::cloud::{Cloud as Contract, NoClient, Order, requests};
use providers::identity::of_namespace;
use providers::offering::Size;
use providers::token::Token;
use providers::{Capabilities, Checked, Inventory, Presence, Refused};

use crate::capabilities::CAPABILITIES;
use crate::cloud::Cloud;
use crate::leaks::Found;
use crate::offerings;
use crate::settings::{Project, Wanted};

/// What the ID of a server begins with as that of a node.
const SCHEME: &str = "hcloud://";
/// Bytes of a GB of disk.
const GB: i64 = 1_000_000_000;

impl Contract for Cloud {
    const KIND: ProviderKind = ProviderKind::Hetzner;
    const CAPABILITIES: Capabilities = CAPABILITIES;
    const FIELD: &'static str = "token";

    type Endpoints = String;
    type Project = Project;
    type Found = Found;

    fn project(config: &ProviderConfig, installation: &str) -> Option<Project> {
        let wanted = config.spec.hetzner.as_ref()?;
        Some(Project {
            installation: installation.to_owned(),
            location: wanted.location.clone(),
            ssh_keys: wanted.ssh_keys.clone(),
            network: wanted.network.clone(),
            firewalls: wanted.firewalls.clone(),
            ipv4: wanted.public_ipv4,
            ipv6: wanted.public_ipv6,
            account: requests::account(config).map(str::to_owned),
        })
    }

    fn open(
        endpoint: &String,
        credentials: &str,
        project: Project,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NoClient> {
        let token = Token::read(credentials);
        let none = || NoClient::Credentials("it has no token in its field token".to_owned());
        Ok(Self::new(
            endpoint,
            token.ok_or_else(none)?,
            project,
            clock,
        )?)
    }

    fn instance(machine: &Machine) -> Option<u64> {
        let id = machine.status.as_ref()?.provider_id.as_deref()?;
        id.strip_prefix(SCHEME)?.parse().ok()
    }

    fn zone(&self) -> &str {
        &self.project.location
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
        let known = self.known_sizes(types)?;
        Ok(known.map(|sizes| sizes.into_iter().map(size).collect()))
    }

    async fn create(&self, order: Order<'_>, user_data: String) -> Result<Presence, Refused> {
        let wanted = Wanted {
            owner: order.owner.clone(),
            server_type: order.request.type_.clone().unwrap_or_default(),
            image: order.request.image.clone(),
            user_data,
        };
        Self::create(self, &wanted).await
    }

    async fn list(&self, namespace: &str) -> Result<Inventory, Refused> {
        let selector = of_namespace(&self.project.installation, namespace);
        Self::list(self, &selector).await
    }

    providers::handed_on!();
}

fn size(size: offerings::Size) -> Size {
    Size {
        name: size.name,
        architecture: size.architecture,
        disk: i64::try_from(size.disk)
            .ok()
            .and_then(|gb| gb.checked_mul(GB)),
        exhausted: size.exhausted,
        offering: size.offering,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_is_known_by_the_id_of_its_node() {
        let machine = |id: &str| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": { "name": "w-1" },
                "spec": { "clusterName": "demo", "clusterUID": "c", "poolName": "w", "version": "1.36.2",
                    "provider": {} },
                "status": { "providerID": id },
            }))
            .unwrap()
        };
        assert_eq!(Cloud::instance(&machine("hcloud://42")), Some(42));
        assert_eq!(Cloud::instance(&machine("kubevirt://w-1")), None);
    }
}
