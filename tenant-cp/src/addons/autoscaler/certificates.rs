//! Certificates by which the Cluster Autoscaler and the adapter know each other, and the tenant's API
//! knows them.
//!
//! Invariant: the small authority signs two certificates, one for each end of one connection, and
//! nobody else believes it; so it is made anew without asking anybody.

use std::net::Ipv4Addr;

use pki::{Signer, Want};

use crate::addons::adapter;
use crate::addons::autoscaler::names::{
    AUTHORITY, CLIENT, GRPC_DIR, NAME, PORT, SERVER, STOCK, STOCK_USER, USER,
};
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// The file in the Secret [`CLIENT`] that the Cluster Autoscaler is pointed at.
pub(crate) const CLOUD_CONFIG: &str = "cloud-config.yaml";

/// The authority, both ends of the connection, and a client certificate of each for the tenant's
/// API, by the tenant cluster's authority `client-ca`.
pub(crate) fn certificates(v: &Validated, settings: &Settings) -> Vec<Want> {
    let authority = adapter::authority(settings, AUTHORITY);
    let leaf = |name: &str| Want {
        name: name.to_owned(),
        signer: Signer::By(AUTHORITY.to_owned()),
        common_name: name.to_owned(),
        dns_names: Vec::new(),
        lifetime_hours: settings.certificates.leaf_hours,
        ..authority.clone()
    };
    let server = Want {
        server: true,
        // Whoever looks for a mistake goes through a port-forward.
        dns_names: vec![host(v), "localhost".to_owned()],
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        ..leaf(SERVER)
    };
    let client = Want {
        client: true,
        ..leaf(CLIENT)
    };
    vec![
        authority,
        server,
        client,
        adapter::certificate(settings, NAME, USER),
        adapter::certificate(settings, STOCK, STOCK_USER),
    ]
}

/// The name by which the Cluster Autoscaler reaches the adapter.
fn host(v: &Validated) -> String {
    format!("{NAME}.{}.svc", v.tenant_namespace)
}

/// Where the Cluster Autoscaler finds the adapter (`cloudprovider/externalgrpc`).
pub(crate) fn cloud_config(v: &Validated) -> String {
    let host = host(v);
    format!(
        "address: {host}:{PORT}
cert: {GRPC_DIR}/tls.crt
key: {GRPC_DIR}/tls.key
cacert: {GRPC_DIR}/ca.crt
grpc_timeout: 5s
"
    )
}
