//! Whom aggregated API servers of a tenant cluster believe: two fields of the ConfigMap `extension-apiserver-authentication`.
//!
//! Invariant: nothing but one such field is written, and only where the ConfigMap is there: kube-apiservers make it.

use k8s_openapi::api::core::v1::ConfigMap;
use kit_client::errors::chain;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// One of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Field {
    /// Who signs clients.
    Clients,
    /// Who signs front proxies: kube-apiservers are some.
    FrontProxies,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Clients => "client-ca-file",
            Self::FrontProxies => "requestheader-client-ca-file",
        }
    }
}

/// Authorities in PEM; nothing where it says none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Believed {
    /// [`Field::Clients`].
    pub clients: String,
    /// [`Field::FrontProxies`].
    pub front_proxies: String,
}

/// Whom they believe.
///
/// # Errors
/// Why that is not known.
pub async fn read(client: &Client) -> Result<Believed, String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let found = maps.get_opt(NAME).await.map_err(|error| chain(&error))?;
    Ok(of(found.unwrap_or_default()))
}

/// Has a field hold these authorities alone, and says what it holds then. A kube-apiserver that believes another one adds
/// that again.
///
/// # Errors
/// Why it may not be so.
pub async fn write(client: &Client, field: Field, authorities: &str) -> Result<Believed, String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "data": { field.name(): authorities } }));
    let written = maps.patch(NAME, &PatchParams::default(), &patch).await;
    Ok(of(written.map_err(|error| chain(&error))?))
}

fn of(map: ConfigMap) -> Believed {
    let mut data = map.data.unwrap_or_default();
    let mut take = |field: Field| data.remove(field.name()).unwrap_or_default();
    Believed {
        clients: take(Field::Clients),
        front_proxies: take(Field::FrontProxies),
    }
}
