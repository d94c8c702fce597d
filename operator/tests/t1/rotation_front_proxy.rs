//! The authority of front proxies is turned: what real kube-apiservers of each phase make of the ConfigMap that aggregated
//! API servers believe.
//!
//! Invariant: what is shown is never older than what stands there, and what was dropped stands there no more at the end.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use operator::tenant_session::front_proxies;
use tenant_cp::certificates::{self, Material};
use tenant_cp::generations::bundle;
use tenant_cp::names::FRONT_PROXY_CA;
use testkit::waiting::ask_until;

use crate::keys::ControlPlane;
use crate::support::PATIENCE;

/// With a second generation beside the first, which signs.
fn prepared(plane: &ControlPlane) -> Result<Material> {
    let mut material = plane.material.clone();
    let next = certificates::next(&plane.wants(&material), FRONT_PROXY_CA, 2);
    let next = next.context("it cannot be turned")?;
    let pair = pki::issue(&next, None, Timestamp::now())?;
    material.store.insert(next.name, pair);
    Ok(material)
}

/// The second generation signs, and what the first one signed is made anew.
fn switched(plane: &ControlPlane, prepared: &Material) -> Result<Material> {
    let mut material = prepared.clone();
    material.signing.insert(FRONT_PROXY_CA.to_owned(), 2);
    let (wants, now) = (plane.wants(&material), Timestamp::now());
    let due = certificates::plan(&wants, &material, true, now).due;
    let names: Vec<_> = due.iter().map(|due| due.name.as_str()).collect();
    ensure!(
        names == ["front-proxy-client"],
        "nothing else is made anew: {names:?}"
    );
    pki::renew(&wants, &due, &mut material.store, now)?;
    Ok(material)
}

/// What stands in the ConfigMap, once that is so much.
async fn once(plane: &ControlPlane, server: SocketAddr, certificates: usize) -> Result<String> {
    let wanted = format!("{certificates} authorities in the ConfigMap");
    ask_until(&wanted, PATIENCE * 4, || {
        let client = plane.administrator_at(server);
        async move {
            let told = front_proxies::read(&client?).await;
            let told = told.map_err(anyhow::Error::msg)?;
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
    let prepared = prepared(&plane)?;
    let mut dropped = switched(&plane, &prepared)?;
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
        let told = front_proxies::write(&client, &new).await;
        let told = told.map_err(anyhow::Error::msg)?;
        ensure!(told == new && told != both, "{told}");
    }
    // It adds nothing to what it believes itself.
    let told = once(&plane, server, 1).await?;
    ensure!(told.trim() == new.trim(), "{told}");
    Ok(())
}
