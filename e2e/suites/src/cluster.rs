//! The lab's management cluster seen from outside: what the suites and the benches share.
//!
//! Invariant: everything goes through the API, the audit log and published ports; nothing here
//! knows the operator's code beyond the public names of crate `api`.

pub mod audit;
pub mod credentials;
pub mod drift;
pub mod operator;
pub mod parts;
pub mod pool;
pub mod served;
pub mod tenant;
pub mod wait;

use anyhow::{Context as _, Result};
use kube::{Client, Config, config::Kubeconfig};
use lab::{Layout, progress::Progress};

pub use pool::Pool;
pub use tenant::Tenant;

/// Where the chart is installed.
pub const OPERATOR_NAMESPACE: &str = "covey-system";
/// Deployment, ServiceAccount and Lease of the operator.
pub const OPERATOR: &str = "covey-operator";

/// The management cluster of this checkout's lab.
#[derive(Clone)]
pub struct Management {
    /// Administrator's client.
    pub client: Client,
    /// Where the lab's files are.
    pub layout: Layout,
}

impl Management {
    /// Connects; `None` when the lab is not up.
    ///
    /// # Errors
    /// When the kubeconfig is there but cannot be used.
    pub async fn connect() -> Result<Option<Self>> {
        kit_client::crypto::install_crypto();
        let layout = Layout::discover()?;
        let path = layout.kubeconfig();
        if !path.is_file() {
            return Ok(None);
        }
        let kubeconfig = Kubeconfig::read_from(&path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        let client = Client::try_from(config)?;
        client
            .apiserver_version()
            .await
            .context("the lab does not answer: `cargo xtask lab status` says why")?;
        Ok(Some(Self { client, layout }))
    }

    /// Waits until virtual machines can be made, which `lab up` leaves to others.
    ///
    /// # Errors
    /// When the lab has no KubeVirt, or that does not come up.
    pub async fn virtual_machines(&self) -> Result<()> {
        self.wait(lab::kubevirt::wait).await
    }

    /// The same, or until hosts play them.
    ///
    /// # Errors
    /// When the lab has neither, or KubeVirt does not come up.
    pub async fn machines(&self) -> Result<()> {
        self.wait(lab::machines::wait).await
    }

    async fn wait(&self, wait: fn(&Layout, &Progress) -> Result<()>) -> Result<()> {
        let layout = self.layout.clone();
        tokio::task::spawn_blocking(move || wait(&layout, &Progress::new())).await?
    }

    /// The audit log of the management API.
    #[must_use]
    pub fn audit_log(&self) -> audit::AuditLog {
        audit::AuditLog::at(self.layout.audit_log())
    }
}

/// Four letters and digits that no other run on this machine has.
#[must_use]
pub fn suffix() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = jiff::Timestamp::now().as_nanosecond().unsigned_abs();
    let mut number = nanos / 1000 + u128::from(COUNT.fetch_add(7919, Ordering::Relaxed));
    let mut text = String::new();
    for _ in 0..5 {
        let digit = u32::try_from(number % 36).unwrap_or_default();
        text.extend(char::from_digit(digit, 36));
        number /= 36;
    }
    text
}
