//! Manager: cache, watches, controllers and the gRPC server of one process, without the process.
//!
//! Invariant: nothing runs before it is asked to; nothing is kept that another start would miss.

use std::net::SocketAddr;
use std::sync::Arc;

use kit::admin::Admin;
use kit::events::Publisher;
use kit::shutdown::Shutdown;
use kit::tls_reload::Server;
use kube::Client;

use crate::cache::staleness::Staleness;
use crate::cache::{Cache, watches};
use crate::client::NodePools;
use crate::context::Context;
use crate::metrics::Metrics;
use crate::names::REPORTING_CONTROLLER;
use crate::server::calls::Service;
use crate::server::counted::Counted;
use crate::server::tls::Tls;
use crate::settings::Settings;
use crate::{controllers, server};

/// Everything of a running process but the process around it; tests run it too.
#[derive(Clone)]
pub struct Manager {
    /// Shared by all.
    pub context: Arc<Context>,
}

impl Manager {
    /// Wires everything; nothing runs yet. `instance` is the name in Events.
    #[must_use]
    pub fn new(
        tenant: Client,
        management: Client,
        settings: Settings,
        instance: &str,
        port: &Admin,
    ) -> Self {
        let staleness = Staleness::default();
        Self::with_staleness(tenant, management, settings, instance, port, staleness)
    }

    /// The same with a clock of the caller's in `staleness`.
    #[must_use]
    pub fn with_staleness(
        tenant: Client,
        management: Client,
        settings: Settings,
        instance: &str,
        port: &Admin,
        staleness: Staleness,
    ) -> Self {
        let cache = Arc::new(Cache::new(&settings));
        let listed = Arc::clone(&cache);
        port.ready("watches", move || match listed.missing().as_slice() {
            [] => Ok(()),
            missing => Err(format!("not listed yet: {missing:?}")),
        });
        let staleness = Arc::new(staleness);
        let (shown, doubted) = (Arc::clone(&cache), Arc::clone(&staleness));
        port.state("autoscaler", move || {
            shown.read(|state| {
                serde_json::json!({
                    "nodePools": state.pools.len(),
                    "machines": state.machines.len(),
                    "nodes": state.nodes.len(),
                    "silentSeconds": doubted.broken_for().map(|time| time.as_secs()),
                })
            })
        });
        let metrics = Metrics::default();
        let (counted, judged) = (Arc::clone(&cache), Arc::clone(&staleness));
        port.metrics(|registry| metrics.register(registry, counted, judged));
        let context = Arc::new(Context {
            node_pools: NodePools::new(&management, &settings, Arc::clone(&cache)),
            events: Publisher::new(management.clone(), REPORTING_CONTROLLER, instance),
            tenant,
            management,
            settings,
            cache,
            staleness,
            metrics,
        });
        Self { context }
    }

    /// Watches and controllers. Ends never.
    pub fn run(&self) -> impl Future<Output = ()> + Send + 'static {
        let ctx = Arc::clone(&self.context);
        let (tenant, management) = (&ctx.tenant, &ctx.management);
        let watches = watches::run(
            &ctx.cache,
            &ctx.staleness,
            tenant,
            management,
            &ctx.settings,
        );
        let probe = Arc::clone(&ctx.staleness).probe(management, &ctx.settings);
        async move {
            tokio::join!(watches, probe, controllers::run(ctx));
        }
    }

    /// Opens the port, and serves the Cluster Autoscaler until the shutdown starts.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn serve(
        &self,
        address: SocketAddr,
        tls: &Tls,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Server> {
        let service = Service::new(Arc::clone(&self.context));
        let service = Counted::new(service, self.context.metrics.clone());
        server::serve(service, address, tls, shutdown).await
    }
}
