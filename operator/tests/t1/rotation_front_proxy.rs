//! The authority of front proxies is turned: what real kube-apiservers of each phase make of the ConfigMap that aggregated
//! API servers believe.
//!
//! Invariant: what is shown is never older than what stands there, and what was dropped stands there no more at the end.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use operator::tenant_session::aggregated::{self, Field};
use tenant_cp::generations::bundle;
use tenant_cp::names::FRONT_PROXY_CA;
use testkit::waiting::ask_until;

use crate::keys::ControlPlane;
use crate::support::PATIENCE;

/// What stands in the ConfigMap, once that is so much.
async fn once(plane: &ControlPlane, server: SocketAddr, certificates: usize) -> Result<String> {
    let wanted = format!("{certificates} authorities in the ConfigMap");
    ask_until(&wanted, PATIENCE * 4, || {
        let client = plane.administrator_at(server);
        async move {
            let told = aggregated::read(&client?).await;
            let told = told.map_err(anyhow::Error::msg)?.front_proxies;
            Ok(match count(&told) == certificates {
                true => Ok(told),
                false => Err(told),
            })
        }
    })
    .await
}

fn count(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_authority_stands_there_before_it_signs_and_the_old_one_does_until_it_is_taken_out()
-> Result<()> {
    let Some(mut plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let prepared = plane.prepared(FRONT_PROXY_CA)?;
    let mut dropped = plane.switched(&prepared, (FRONT_PROXY_CA, &["front-proxy-client"]))?;
    once(&plane, plane.address(), 1).await?;
    // Preparing: one that believes both adds the new one, beside one that does not know it.
    let middle = plane.server_of(&prepared).await?;
    once(&plane, middle.address, 2).await?;
    // Dropping: those of before end, and the one that is left takes nothing out.
    dropped.store.remove(FRONT_PROXY_CA);
    let last = plane.server_of(&dropped).await?;
    let server = last.address;
    plane.serve_by(last);
    drop(middle);
    let both = once(&plane, server, 2).await?;
    let new = bundle(&dropped.store, FRONT_PROXY_CA).context("no authority")?;
    let client = plane.administrator_at(server)?;
    for _ in 0..2 {
        let told = aggregated::write(&client, Field::FrontProxies, &new).await;
        let told = told.map_err(anyhow::Error::msg)?.front_proxies;
        ensure!(told == new && told != both, "{told}");
    }
    // It adds nothing to what it believes itself.
    let told = once(&plane, server, 1).await?;
    ensure!(told.trim() == new.trim(), "{told}");
    Ok(())
}
