//! The process: client, admin port, signals and device around the [`Overlay`].
//!
//! Invariant: it is not live only when it stands still or its device is broken, never because an API does not
//! answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use boringtun::x25519::StaticSecret;
use kit::admin::Admin;
use kit_client::count::RequestCounter;

use crate::args::{Args, Driver};
use crate::cache::{self, Cache};
use crate::device::Device;
use crate::device::kernel::Kernel;
use crate::device::process::Process;
use crate::key::PublicKey;
use crate::key_file;
use crate::metrics::Shown;
use crate::netlink::Netlink;
use crate::overlay::Overlay;
use crate::tunnels::Tunnels;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(5);

/// Runs until a signal.
///
/// # Errors
/// When it cannot start, or its device carries packets no more.
pub async fn run(args: Args) -> Result<()> {
    let shutdown = kit::process::begin(&args.log, GRACE)?;
    let settings = args.settings();
    if let Some(problem) = settings.problem() {
        bail!(problem);
    }
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let requests = RequestCounter::new();
    port.metrics(|registry| requests.register(registry, "tenant"));
    let client = kit_client::connect::connect(&args.client, &requests).await;
    let client = client.context("set up the client of the tenant cluster's API")?;
    let private = key_file::load(&args.folder)?;
    let key = key_file::public(&private);
    let kept = cache::restore(&args.folder);
    let cache = Arc::new(Cache::new(kept.observed));
    let shown = Shown::default();
    port.metrics(|registry| registry.register_collector(Box::new(shown.clone())));
    let state = shown.clone();
    port.state("overlay", move || state.state());
    let listed = Arc::clone(&cache);
    port.ready("watches", move || match listed.missing().as_slice() {
        [] => Ok(()),
        missing => Err(format!("not listed yet: {missing:?}")),
    });
    let netlink = Netlink::open()?;
    let device = open(&args, &netlink, private, kept.heard).await?;
    tracing::info!(
        driver = device.driver(),
        device = args.device,
        public_key = %key,
        "the overlay's device is there"
    );
    let overlay = Overlay {
        client: client.clone(),
        cache: Arc::clone(&cache),
        device,
        netlink,
        settings,
        node: args.node_name.clone(),
        key,
        port: args.port,
        below: args.below(),
        folder: args.folder.clone(),
        shown,
    };
    let watches = cache.run(&client, &args.members_namespace);
    let loops = async move {
        tokio::select! {
            () = watches => anyhow::anyhow!("the watches ended"),
            error = overlay.run() => error,
        }
    };
    let loops = port.live_while_polled("loops", loops);
    let address = port.open(&args.admin, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    tokio::select! {
        error = loops => Err(error),
        () = shutdown.triggered() => {
            tracing::info!("stops");
            Ok(())
        }
    }
}

/// The kernel's device where it is wanted and there, else one of this process.
async fn open(
    args: &Args,
    netlink: &Netlink,
    private: StaticSecret,
    heard: BTreeMap<PublicKey, SocketAddr>,
) -> Result<Box<dyn Device>> {
    if args.driver != Driver::Process {
        let kernel = Kernel::open(netlink, &args.device, args.port, &private);
        match kernel.await? {
            Some(kernel) => return Ok(Box::new(kernel)),
            None if args.driver == Driver::Kernel => {
                bail!("the kernel has no WireGuard: load its module, or use --driver=auto");
            }
            None => {}
        }
    }
    let tunnels = Tunnels::new(private, heard);
    let process = Process::open(&args.device, args.port, args.endpoint_family, tunnels);
    Ok(Box::new(process.await?))
}
