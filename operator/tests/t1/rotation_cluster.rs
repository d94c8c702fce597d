//! The authority of the cluster is turned: by the operator on a real management API, and what each phase is for who believes
//! a real kube-apiserver by one generation alone, in Rust (rustls) and in Go (the kube-controller-manager).
//!
//! Invariant: who asks is strict: each request is a connection of its own, made once, and one that fails fails the test.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::{RotationPhase, RotationStatus};
use jiff::Timestamp;
use kit_objects::kinds;
use operator::tenant_session::roots;
use pki::{KeyPair, Want};
use serde_json::json;
use tenant_cp::certificates::{Material, OF_CLUSTER};
use tenant_cp::generations::bundle;
use tenant_cp::names::{BELIEVED_SINCE, CA, CLIENT_CA, DROPPED};
use testkit::waiting::ask_until;

use crate::keys::ControlPlane;
use crate::support::site::tenant_namespace;
use crate::support::{Operator, PATIENCE, Site};

const SCHEDULER: &str = "system:kube-scheduler";
/// How often each asks in a phase.
const TIMES: usize = 5;

/// Who believes this generation alone.
struct Believer(String);

impl Believer {
    async fn reaches(&self, plane: &ControlPlane, server: SocketAddr) -> Result<()> {
        let who = &plane.material.store["scheduler"];
        for _ in 0..TIMES {
            let user = plane.user_believing(server, &self.0, who).await?;
            ensure!(user.as_deref() == Some(SCHEDULER), "{server}: {user:?}");
        }
        Ok(())
    }

    /// It breaks off the handshake, so nobody is asked.
    async fn refuses(&self, plane: &ControlPlane, server: SocketAddr) -> Result<()> {
        let who = &plane.material.store["scheduler"];
        let user = plane.user_believing(server, &self.0, who).await;
        ensure!(user.is_err(), "{server} is believed");
        Ok(())
    }
}

/// These keys for a program that was started before there was this generation.
fn without(material: &Material, generation: &str) -> Material {
    let mut material = material.clone();
    material.store.remove(generation);
    material
}

/// A program in Go that believes as little reaches the API: it signs a request.
async fn works(plane: &mut ControlPlane, (request, material): (&str, &Material)) -> Result<()> {
    plane.manage_with(material)?;
    let request = (
        request,
        "kubernetes.io/kube-apiserver-client-kubelet",
        "client auth",
    );
    let node = ("system:node:worker", "system:nodes");
    let by = plane.sign_as(request, node, material).await?;
    ensure!(by == CLIENT_CA, "{by}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_believes_one_generation_alone_reaches_the_api_until_that_is_dropped() -> Result<()> {
    let Some(mut plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let prepared = plane.prepared(CA)?;
    let switched = plane.switched(&prepared, (CA, &OF_CLUSTER))?;
    let dropped = without(&switched, CA);
    let alone = |generation: &str| Believer(prepared.store[generation].certificate.clone());
    let (old, new) = (alone(CA), alone("ca-g2"));

    // Preparing: everybody is told of both, and nothing is signed by the new one.
    let before = plane.address();
    old.reaches(&plane, before).await?;
    new.refuses(&plane, before).await?;
    plane.manage_with(&prepared)?;
    let wanted = bundle(&prepared.store, CA).unwrap_or_default();
    ask_until("pods are told of both", PATIENCE * 2, || {
        let client = plane.administrator();
        let wanted = wanted.clone();
        async move {
            let told = roots::ask(&client?).await.map_err(anyhow::Error::msg)?;
            // Nobody laid `cluster-info` here.
            let mut told = told.into_iter().filter(|told| !told.is_empty());
            let is_told = told.next().as_ref() == Some(&wanted) && told.next().is_none();
            Ok(if is_told {
                Ok(())
            } else {
                Err("not yet".to_owned())
            })
        }
    })
    .await?;
    // Switching: servers of before and after side by side.
    let after = plane.server_of(&switched).await?;
    for server in [before, after.address] {
        old.reaches(&plane, server).await?;
    }
    new.reaches(&plane, after.address).await?;
    plane.serve_by(after);
    works(&mut plane, ("old", &without(&switched, "ca-g2"))).await?;
    works(&mut plane, ("new", &dropped)).await?;
    // Dropping: the cross-certificate goes, and with it who believes nothing else.
    let last = plane.server_of(&dropped).await?;
    new.reaches(&plane, plane.address()).await?;
    new.reaches(&plane, last.address).await?;
    old.reaches(&plane, plane.address()).await?;
    old.refuses(&plane, last.address).await?;
    Ok(())
}

/// What a kubelet does with the kube-apiserver's client certificate a kube-apiserver does with any client's: the same package
/// of Kubernetes verifies it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_in_go_believes_a_client_by_its_cross_certificate_and_by_nothing_less() -> Result<()>
{
    let Some(plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let now = Timestamp::now();
    let believed = &plane.material.store[CLIENT_CA];
    let next = pki::issue(&Want::authority("next", "next", 24), None, now)?;
    let leaf = Want::client("leaf", "next", SCHEDULER, 1);
    let leaf = pki::issue(&leaf, Some(&next), now)?;
    let cross = pki::cross(("next", &next), (CLIENT_CA, believed), now)?;
    let with = KeyPair {
        certificate: leaf.certificate.clone() + &cross,
        key: leaf.key.clone(),
    };
    let user = plane.user_at(plane.address(), &with).await?;
    ensure!(user.as_deref() == Some(SCHEDULER), "{user:?}");
    let user = plane.user_at(plane.address(), &leaf).await?;
    ensure!(user.is_none(), "{user:?}");
    Ok(())
}

fn told(cluster: &TenantCluster) -> Option<&RotationStatus> {
    cluster.status.as_ref()?.rotation.first()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_turns_the_authority_by_which_it_believes_the_api_and_is_at_rest_afterwards()
-> Result<()> {
    let Some(site) = Site::new("rotation-cluster").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let namespace = tenant_namespace(&cluster);
    let secret = async |name: &str| {
        let secrets = site.objects(kinds::SECRET, &namespace);
        anyhow::Ok(secrets.get(name).await?)
    };
    let before = secret("operator-client").await?.data;

    site.change(
        "demo",
        &json!({ "spec": { "rotation": { "clusterCA": { "generation": 2 } } } }),
    )
    .await?;
    let is_over = |cluster: &TenantCluster| {
        told(cluster).is_some_and(|told| told.signs == 2 && told.phase == RotationPhase::Idle)
    };
    site.wait("demo", is_over).await?;
    operator.stop_and_settle(&site, "demo").await?;
    let dropped = secret("ca").await?.metadata.annotations;
    ensure!(dropped.unwrap_or_default().contains_key(DROPPED));
    let noted = secret("ca-g2").await?.metadata.annotations;
    ensure!(noted.unwrap_or_default().contains_key(BELIEVED_SINCE));
    let after = secret("operator-client").await?.data;
    ensure!(before["data"]["ca.crt"] != after["data"]["ca.crt"]);
    ensure!(before["data"]["operator.crt"] == after["data"]["operator.crt"]);
    Ok(())
}
