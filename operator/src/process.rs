//! What every process of ours begins with: log, TLS, signals, configuration, and an admin port that says when
//! everything was listed.
//!
//! Invariant: nobody is ready before what it decides from was listed once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kit::admin::Admin;
use kit::shutdown::Shutdown;
use kit_client::count::RequestCounter;
use kube::runtime::reflector::store::WriterDropped;
use tenant_cp::Settings;

use crate::args::ProcessArgs;
use crate::configuration;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(25);

/// A process that has begun.
pub(crate) struct Process {
    /// Ends it.
    pub(crate) shutdown: Shutdown,
    /// The configuration.
    pub(crate) settings: Settings,
    /// Counts what its client sends.
    pub(crate) requests: RequestCounter,
    /// Its admin port, which is not open yet.
    pub(crate) port: Admin,
}

impl Process {
    /// Begins one.
    ///
    /// # Errors
    /// When the log cannot be set up, signals cannot be caught, or the configuration is wrong.
    pub(crate) fn begin(args: &ProcessArgs) -> anyhow::Result<Self> {
        let shutdown = kit::process::begin(&args.log, GRACE)?;
        let settings = configuration::read(args.config.as_deref())?;
        let (requests, port) = (RequestCounter::new(), Admin::new());
        port.metrics(|registry| requests.register(registry, "management"));
        port.metrics(kit::metrics::ProcessMetrics::register);
        Ok(Self {
            shutdown,
            settings,
            requests,
            port,
        })
    }
}

/// Whether everything was listed once.
#[derive(Default)]
pub(crate) struct Synced(Arc<AtomicBool>);

impl Synced {
    /// Makes the port's readiness wait for it; `what` is the kinds, for people.
    pub(crate) fn gate(&self, port: &Admin, what: &'static str) {
        let flag = Arc::clone(&self.0);
        port.ready("store", move || match flag.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(format!("{what} are not listed yet")),
        });
    }

    /// Notes when `listed` comes to its end, and never ends itself: a process goes on without.
    pub(crate) async fn note(self, listed: impl Future<Output = Result<(), WriterDropped>>) {
        if listed.await.is_ok() {
            self.0.store(true, Ordering::Relaxed);
        }
        std::future::pending::<()>().await;
    }
}
