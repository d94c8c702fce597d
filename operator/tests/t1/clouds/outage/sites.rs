//! A site of Hosts, which has no API but SSH: two machines in namespaces of their own behind real SSH servers, beside a cloud.
//!
//! Invariant: SSH and nodes fail each alone before they do together, and what the test does to one it does not do to the
//! other.

use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use api::{Host, NodePool};
use kube::api::{Patch, PatchParams};

use super::*;
use crate::hosts::machine::{Flavour, Machine as Real};
use crate::hosts::sshd::Sshd;
use crate::hosts::{joining, own_address, prepare};
use crate::support::site::apply;

/// The location whose machines are Hosts.
pub(super) const SITE: &str = "site";
/// How many there are.
const HOSTS: usize = 2;

/// A Host's machine; it ends with its value.
struct Rack {
    _real: Real,
    sshd: Sshd,
}

/// Hosts that are ready to be taken.
async fn hosts(world: &World, address: IpAddr) -> Result<Vec<Rack>> {
    let site = &world.site;
    let cluster = site.clusters().get("demo").await?;
    let authority = joining::authority(site, &tenant_namespace(&cluster))?;
    let mut all = Vec::new();
    for n in 0..HOSTS {
        let real = Real::start(Flavour::Debian).await?;
        prepare(&real, address).await?;
        let node_address = format!("198.51.100.{}", n + 10);
        let own = format!(
            "echo {n}a1b2c3d4e5f60718293a4b5c6d7e8f9 > /etc/machine-id; ip addr add {node_address} dev lo"
        );
        real.shell(&own).await?;
        joining::programs(&real, &authority).await?;
        let sshd = Sshd::inside(real.first()).await?;
        let name = format!("host-{n}");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth",
            "metadata": { "name": name, "namespace": site.users },
            "stringData": { "ssh-privatekey": sshd.login() },
        });
        let host = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": { "name": name, "namespace": site.users },
            "spec": { "address": address, "port": sshd.port(), "user": "root", "nodeAddress": node_address,
                "sshKeySecretName": name, "hostKeys": sshd.host_keys },
        });
        apply(&site.admin, &secret).await?;
        apply(&site.admin, &host).await?;
        all.push(Rack { _real: real, sshd });
    }
    Ok(all)
}

/// Has each Host looked at now, as a changed spec does: nobody else would for minutes.
async fn look_at(world: &World, round: usize) -> Result<()> {
    let hosts = Api::<Host>::namespaced(world.site.admin.clone(), &world.site.users);
    let touch = Patch::Merge(json!({ "spec": { "labels": { "looked": round.to_string() } } }));
    for n in 0..HOSTS {
        let name = format!("host-{n}");
        hosts.patch(&name, &PatchParams::default(), &touch).await?;
    }
    Ok(())
}

/// How the site stands, and why.
fn site_is(pool: &NodePool) -> (String, String) {
    let locations = pool.status.iter().flat_map(|s| &s.locations);
    let site = locations.into_iter().find(|at| at.name == SITE);
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let state = text(site.and_then(|at| at.state.as_ref()));
    (state, text(site.and_then(|at| at.reason.as_ref())))
}

fn at_site(machines: &[Machine]) -> usize {
    let here = machines
        .iter()
        .filter(|m| m.spec.provider.static_.is_some());
    here.filter(|m| stays(&m)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn site_that_neither_speaks_nor_answers_ssh_is_replaced_and_ssh_alone_replaces_nobody()
-> Result<()> {
    let cloud = Which::Hetzner;
    let Some(address) = own_address()? else {
        return Ok(());
    };
    let Some((world, operator)) = World::new("sites-out", &[cloud]).await? else {
        return Ok(());
    };
    let racks = hosts(&world, address).await?;
    let cluster = world.site.clusters().get("demo").await?;
    let tenants = Arc::clone(&world.site.tenants);
    let kubelets = Kubelets::start(world.site.machines(), tenants, tenant_namespace(&cluster));
    let locations = json!([
        { "name": SITE, "weight": 1, "provider": { "static": {} } },
        { "name": cloud.name(), "weight": 1, "provider": cloud.provider() },
    ]);
    let spec = json!({
        "locations": locations, "placement": { "failover": { "returnAfter": "10s" } },
    });
    world.pool(4, &spec).await?;
    let ready = |pool: &NodePool| pool.status.as_ref().map_or(0, |s| s.ready_replicas);
    let all = |pool: &NodePool, machines: &[Machine]| ready(pool) == 4 && machines.len() == 4;
    let patience = Duration::from_secs(180);
    wait(&world, &operator, ("all are ready", patience), all).await?;
    let before = names(&world.machines().await?);
    ensure!(at_site(&world.machines().await?) == HOSTS);

    // SSH alone, while nodes speak.
    for each in &racks {
        each.sshd.stall();
    }
    look_at(&world, 1).await?;
    let mute = |pool: &NodePool, machines: &[Machine]| {
        assert_eq!(names(machines), before, "somebody is replaced");
        site_is(pool) == ("Suspect".to_owned(), "ApiOutage".to_owned())
    };
    let took = wait(&world, &operator, ("SSH is seen to fail", patience), mute).await?;
    eprintln!("SSH is seen to fail after {took:?}");
    for each in &racks {
        each.sshd.resume();
    }
    look_at(&world, 2).await?;
    let well = |pool: &NodePool, machines: &[Machine]| {
        assert_eq!(names(machines), before, "somebody is replaced");
        stands(pool).0 == "True"
    };
    wait(&world, &operator, ("SSH answers again", patience), well).await?;

    // Both.
    for each in &racks {
        each.sshd.stall();
    }
    kubelets.cut_off(&[SITE]);
    let elsewhere = |_: &NodePool, machines: &[Machine]| of(machines, cloud).len() == 4;
    let took = wait(
        &world,
        &operator,
        ("others are asked for", ASKED),
        elsewhere,
    )
    .await?;
    eprintln!("asked for after {took:?}");
    let out = |pool: &NodePool, _: &[Machine]| {
        site_is(pool) == ("Out".to_owned(), "SiteOutage".to_owned())
    };
    wait(&world, &operator, ("nobody answers", patience), out).await?;
    ensure!(at_site(&world.machines().await?) == HOSTS, "somebody goes");

    // Its nodes speak again, and nobody looks at the Hosts but the operator.
    for each in &racks {
        each.sshd.resume();
    }
    kubelets.cut_off(&[]);
    let seen = Mutex::new(vec![site_is(&world.site.pools().get(POOL).await?).0]);
    let back = |pool: &NodePool, machines: &[Machine]| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(site_is(pool).0);
        stands(pool).0 == "True" && names(machines) == before
    };
    wait(&world, &operator, ("it is as before", BACK), back).await?;
    let mut seen = seen.into_inner().context("poisoned")?;
    seen.dedup();
    ensure!(seen == ["Out", "Recovering", "Healthy"], "{seen:?}");
    operator.stop().await
}
