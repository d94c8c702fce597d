//! gRPC server that the Cluster Autoscaler connects to.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`calls`] | the 15 calls; thin |
//! | [`counted`] | counts them |
//! | [`tls`] | the certificates of the port, and whose may connect |
//!
//! Invariant: nobody is answered who has not shown a certificate of the small authority.

pub mod calls;
pub mod counted;
pub mod tls;

use std::net::SocketAddr;

use anyhow::Context as _;
use kit::shutdown::Shutdown;
use kit::tls_reload::{self, Server};
use proto::autoscaler::cloud_provider_server::CloudProviderServer;

use self::counted::Counted;
use self::tls::Tls;

/// Opens the port and serves until the shutdown starts.
///
/// # Errors
/// When the address is taken.
pub async fn serve(
    service: Counted,
    address: SocketAddr,
    tls: &Tls,
    shutdown: &Shutdown,
) -> anyhow::Result<Server> {
    let service = CloudProviderServer::new(service);
    let config = tls.certificate.server_config_for(&tls.clients)?;
    let settings = tls_reload::Settings {
        // One client, and the one that takes its place.
        connections: 16,
        // The client asks thousands of times in a loop, one thing after another.
        at_once: true,
        ..tls_reload::Settings::default()
    };
    let served = tls_reload::serve(address, config, service, settings, shutdown).await;
    served.with_context(|| format!("open port {address}"))
}
