//! TLS of the gRPC port: its certificate, and the authority whose client certificates may connect.
//!
//! Invariant: files that cannot be used never replace what works; a new file holds for connections
//! that are made afterwards.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kit::tls_reload::{Certificate, Clients};

use crate::settings::Files;

/// Between two times that the files are read.
const EVERY: Duration = Duration::from_secs(30);

/// The present certificates. Clones share them.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(super) certificate: Certificate,
    pub(super) clients: Clients,
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
    pub async fn run(self, files: Files) {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            match self.reload(&files) {
                Ok(true) => tracing::info!("the port has a new certificate"),
                Ok(false) => {}
                Err(error) => {
                    let error = kit_client::errors::chain(error.as_ref());
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
