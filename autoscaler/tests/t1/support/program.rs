//! The program itself, with the flags that the operator gives it.
//!
//! Invariant: it has one port for all its lives, so that a client finds the next one as the stock
//! client does; dropping it kills it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use autoscaler_client::{Generation, Protocol};
use testkit::process::{Process, Workdir};

use super::certs::SERVER;
use super::environment::CLUSTER;
use super::{Environment, PATIENCE};

/// The program, which can be started again at the same port.
pub(crate) struct Program {
    address: String,
    flags: Vec<String>,
    dir: Workdir,
    pub(crate) process: Option<Process>,
}

impl Program {
    /// Nothing runs yet.
    pub(crate) fn new(environment: &Environment) -> Result<Self> {
        // Free until the first life listens, and between two: nobody else has the address.
        let [_, a, b, c] = std::process::id().to_be_bytes();
        let own = Ipv4Addr::new(127, a, b, c);
        let address = TcpListener::bind((own, 0))?.local_addr()?.to_string();
        let dir = Workdir::new()?;
        let file =
            |name: &str, text: &str| anyhow::Ok(dir.write(name, text)?.display().to_string());
        let (chain, key) = &environment.authority.server;
        let tenant = environment
            .tenant
            .kubeconfig_as(&environment.tenant_user(), &[])?;
        let management = environment
            .management
            .kubeconfig_as(&environment.user(), &[])?;
        let flags = [
            ("tenant-kubeconfig", file("tenant.kubeconfig", &tenant)?),
            (
                "management-kubeconfig",
                file("management.kubeconfig", &management)?,
            ),
            ("namespace", "covey-demo-0123456789".to_owned()),
            ("user-namespace", environment.ns.clone()),
            ("cluster-name", CLUSTER.to_owned()),
            ("cluster-uid", environment.uid.clone()),
            ("listen", address.clone()),
            ("grpc-certificate", file("tls.crt", chain)?),
            ("grpc-key", file("tls.key", key)?),
            (
                "grpc-client-ca",
                file("ca.crt", &environment.authority.pem())?,
            ),
            ("admin-address", "127.0.0.1:0".to_owned()),
        ];
        let flags = flags.map(|(name, value)| format!("--{name}={value}"));
        Ok(Self {
            address,
            flags: flags.into(),
            dir,
            process: None,
        })
    }

    /// Kills what runs, and starts it anew.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.process = None;
        let log = self.dir.path().join("autoscaler.log");
        let program = Path::new(env!("CARGO_BIN_EXE_autoscaler"));
        self.process = Some(Process::spawn("autoscaler", program, &self.flags, &log)?);
        Ok(())
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        let process = self.process.as_ref();
        process.map(|p| p.log_tail(20)).unwrap_or_default()
    }

    /// A client of whatever life it is in.
    pub(crate) fn client(
        &self,
        environment: &Environment,
        generation: Generation,
    ) -> Result<Protocol> {
        let shown = environment.authority.client()?;
        Protocol::new(&self.address, SERVER, &shown, generation)
    }

    /// Begins a loop as often as it takes: the stock client begins one every ten seconds.
    pub(crate) async fn begin(&self, client: &mut Protocol) -> Result<()> {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        let begun = tokio::time::timeout(PATIENCE, async {
            loop {
                ticks.tick().await;
                if client.refresh().await.is_ok() {
                    return;
                }
            }
        });
        begun.await.with_context(|| self.log())
    }
}
