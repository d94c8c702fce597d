//! The wiring of the process: watches, keepers and the port.
//!
//! Invariant: calls that are under way when the process stops are answered first, within the grace;
//! nothing is kept that another start would miss.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::args::ClientArgs;
use kit::client::RequestCounter;
use kit::events::Publisher;
use kit::shutdown::Shutdown;
use kit::tls_reload::Server;
use kube::Client;

use crate::args::Args;
use crate::reach::Reach;
use crate::serve::{self, Tls};
use crate::service::Service;
use crate::settings::Settings;
use crate::store::Store;
use crate::world::World;
use crate::{bounds, priorities, refusals, rollout, watch};

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(15);

/// What calls and keepers share.
pub struct Context {
    /// The tenant cluster's API.
    pub tenant: Client,
    /// The management cluster's API.
    pub management: Client,
    /// What can be configured.
    pub settings: Settings,
    /// What the watches told.
    pub world: Arc<World>,
    /// Whether it can be believed.
    pub reach: Arc<Reach>,
    /// The writes to NodePools.
    pub store: Store,
    /// Events about NodePools.
    pub events: Publisher,
}

/// Runs until a signal.
///
/// # Errors
/// When it cannot start.
pub async fn run(args: Args) -> anyhow::Result<()> {
    kit::telemetry::init(&args.log)?;
    kit::client::install_crypto();
    let shutdown = Shutdown::on_signals(GRACE)?;
    let (settings, files) = (args.settings(), args.files());
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let client = async |api: &'static str, kubeconfig| {
        let requests = RequestCounter::new();
        let client = ClientArgs {
            kubeconfig,
            qps: args.client_qps,
            burst: args.client_burst,
        };
        let client = kit::client::connect(&client, &requests).await;
        port.metrics(|r| requests.register(r.sub_registry_with_label(("api".into(), api.into()))));
        client.with_context(|| format!("set up the client of the {api} cluster's API"))
    };
    let tenant = client("tenant", Some(args.tenant_kubeconfig.clone())).await?;
    let management = client("management", args.management_kubeconfig.clone()).await?;
    let tls = Tls::load(&files).context("use the certificates of the port")?;
    let parts = Parts::new(tenant, management, settings, &args.identity, &port);
    let address = port.serve(args.admin.address, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    let background = tokio::spawn(parts.background());
    let reload = tokio::spawn(tls.clone().keep(files));
    let server = parts.serve(args.listen, &tls, &shutdown).await?;
    tracing::info!(address = %server.address, "waits for the Cluster Autoscaler");
    server.ended().await;
    tracing::info!("stops");
    background.abort();
    reload.abort();
    Ok(())
}

/// Everything of a running process but the process around it; tests run it too.
#[derive(Clone)]
pub struct Parts {
    /// Shared by all.
    pub context: Arc<Context>,
}

impl Parts {
    /// Puts the parts together; nothing runs yet. `instance` is the name in Events.
    #[must_use]
    pub fn new(
        tenant: Client,
        management: Client,
        settings: Settings,
        instance: &str,
        port: &Admin,
    ) -> Self {
        let reach = Reach::default();
        Self::with(tenant, management, settings, instance, port, reach)
    }

    /// The same with a clock of the caller's in `reach`.
    #[must_use]
    pub fn with(
        tenant: Client,
        management: Client,
        settings: Settings,
        instance: &str,
        port: &Admin,
        reach: Reach,
    ) -> Self {
        let world = Arc::new(World::new(&settings));
        let listed = Arc::clone(&world);
        port.ready("watches", move || match listed.missing().as_slice() {
            [] => Ok(()),
            missing => Err(format!("not listed yet: {missing:?}")),
        });
        let reach = Arc::new(reach);
        let (shown, reached) = (Arc::clone(&world), Arc::clone(&reach));
        port.state("autoscaler", move || {
            shown.look(|state| {
                serde_json::json!({
                    "nodePools": state.pools.len(),
                    "machines": state.machines.len(),
                    "nodes": state.nodes.len(),
                    "silentSeconds": reached.broken_for().map(|time| time.as_secs()),
                })
            })
        });
        let context = Arc::new(Context {
            store: Store::new(&management, &settings, Arc::clone(&world)),
            events: Publisher::new(management.clone(), "covey.dev/autoscaler", instance),
            tenant,
            management,
            settings,
            world,
            reach,
        });
        Self { context }
    }

    /// Watches and keepers. Ends never.
    pub fn background(&self) -> impl Future<Output = ()> + Send + 'static {
        let ctx = Arc::clone(&self.context);
        let (tenant, management) = (&ctx.tenant, &ctx.management);
        let watches = watch::all(&ctx.world, &ctx.reach, tenant, management, &ctx.settings);
        let asking = Arc::clone(&ctx.reach).ask(management, &ctx.settings);
        async move {
            tokio::join!(
                watches,
                asking,
                bounds::keep(Arc::clone(&ctx)),
                rollout::keep(Arc::clone(&ctx)),
                priorities::keep(Arc::clone(&ctx)),
                refusals::keep(Arc::clone(&ctx)),
            );
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
        serve::serve(service, address, tls, shutdown).await
    }
}
