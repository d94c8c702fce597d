//! The port that the Cluster Autoscaler connects to: gRPC over TLS, and a certificate of the small
//! authority from whoever connects.
//!
//! Invariant: files that cannot be used never replace what works; a new file holds for connections
//! that are made afterwards.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kit::shutdown::Shutdown;
use kit::tls_reload::{self, Certificate, Clients, Server};
use proto::autoscaler::cloud_provider_server::CloudProviderServer;

use crate::service::Service;

/// Between two looks at the files.
const EVERY: Duration = Duration::from_secs(30);

/// Where the certificates are, as PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// Certificate of the port, leaf first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authority whose certificates may connect.
    pub client_ca: PathBuf,
}

/// The present certificates. Clones share them.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: Certificate,
    clients: Clients,
}

impl Tls {
    /// From PEM: chain and key of the port, and the authority of clients.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn from_pem(chain: &[u8], key: &[u8], client_ca: &[u8]) -> anyhow::Result<Self> {
        Ok(Self {
            certificate: Certificate::from_pem(chain, key)?,
            clients: Clients::from_pem(client_ca)?,
        })
    }

    /// From files.
    ///
    /// # Errors
    /// When one cannot be read or used.
    pub fn load(files: &Files) -> anyhow::Result<Self> {
        let [chain, key, client_ca] = read(files)?;
        Self::from_pem(&chain, &key, &client_ca)
    }

    /// Reads the files again now. Gives whether the port's certificate is another one.
    ///
    /// # Errors
    /// When one cannot be read or used; what was there then stays.
    pub fn reload(&self, files: &Files) -> anyhow::Result<bool> {
        let [chain, key, client_ca] = read(files)?;
        self.clients.replace(&client_ca)?;
        Ok(self.certificate.replace(&chain, &key)?)
    }

    /// Reads the files again every 30 seconds. Ends never.
    pub async fn keep(self, files: Files) {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            match self.reload(&files) {
                Ok(true) => tracing::info!("the port has a new certificate"),
                Ok(false) => {}
                Err(error) => {
                    let error = kit::errors::chain(error.as_ref());
                    tracing::error!(error, "certificates cannot be used; the old ones stay");
                }
            }
        }
    }
}

fn read(files: &Files) -> anyhow::Result<[Vec<u8>; 3]> {
    let Files {
        certificate,
        key,
        client_ca,
    } = files;
    let read =
        |path: &PathBuf| std::fs::read(path).with_context(|| format!("read {}", path.display()));
    Ok([read(certificate)?, read(key)?, read(client_ca)?])
}

/// Opens the port and serves until the shutdown starts.
///
/// # Errors
/// When the address is taken.
pub async fn serve(
    service: Service,
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
