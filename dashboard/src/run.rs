//! The process: the server, its certificate, sessions that end, admin port and signals.
//!
//! Invariant: it is ready only while it serves a certificate; one that is replaced on disk is taken within a minute, and
//! one that does not fit changes nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::tls_reload::{Certificate, Settings, serve};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::args::Args;
use crate::router::router;
use crate::sessions::Sessions;
use crate::upstream::Api;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(10);
/// How often sessions are looked at, and the certificate.
const LOOK: Duration = Duration::from_secs(60);

/// Runs until a signal.
///
/// # Errors
/// When it cannot start.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let shutdown = kit::process::begin(&args.log, GRACE)?;
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let logged_in = port.metrics(logged_in);
    let upstream = Api::read(&args.server, &args.server_ca_file)?;
    let sessions = Sessions::new(usize::from(args.sessions));
    let certificate = Certificate::empty();
    let is_loaded = load(&certificate, &args.tls_cert_file, &args.tls_key_file);
    is_loaded.context("read --tls-cert-file and --tls-key-file")?;
    let served = certificate.clone();
    port.ready("certificate", move || match served.is_set() {
        true => Ok(()),
        false => Err("none is served".to_owned()),
    });
    let service = router(&sessions, Arc::new(upstream), args.read_only);
    let config = certificate.server_config()?;
    let settings = Settings::default();
    let server = serve(args.listen, config, service, settings, &shutdown).await;
    let server = server.with_context(|| format!("listen on {}", args.listen))?;
    tracing::info!(address = %server.address, "pages are served");
    let looks = async move {
        loop {
            tokio::time::sleep(LOOK).await;
            sessions.sweep(Instant::now());
            logged_in.set(i64::try_from(sessions.count()).unwrap_or(i64::MAX));
            match load(&certificate, &args.tls_cert_file, &args.tls_key_file) {
                Ok(true) => tracing::info!("the certificate was replaced"),
                Ok(false) => {}
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "the certificate stays as it was");
                }
            }
        }
    };
    let looks = port.live_while_polled("loops", looks);
    let address = port.open(&args.admin, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    shutdown.until(looks).await;
    server.ended().await;
    Ok(())
}

/// How many people are logged in.
fn logged_in(registry: &mut Registry) -> Gauge {
    let gauge = Gauge::default();
    let help = "People who are logged in";
    registry.register("covey_dashboard_sessions", help, gauge.clone());
    gauge
}

fn load(certificate: &Certificate, chain: &Path, key: &Path) -> anyhow::Result<bool> {
    let read = |path: &Path| -> io::Result<Vec<u8>> { std::fs::read(path) };
    let chain = read(chain).with_context(|| format!("read {}", chain.display()))?;
    let key = read(key).with_context(|| format!("read {}", key.display()))?;
    Ok(certificate.replace(&chain, &key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_shown_stands_in_the_catalogue_as_it_is_shown() {
        let mut registry = Registry::default();
        logged_in(&mut registry).set(1);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let listed = [monitoring::catalogue::DASHBOARD];
        let found = monitoring::exposition::differences(&listed, &text);
        assert_eq!(found, [""; 0]);
    }
}
