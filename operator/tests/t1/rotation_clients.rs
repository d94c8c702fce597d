//! The authority of machinery's client certificates is turned: by the operator on a real management API, and what each phase
//! is for components and kubelets of a tenant with a real kube-apiserver and kube-controller-manager.
//!
//! Invariant: who asks is strict: each request is a connection of its own, made once, and one that is refused fails the test.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::{RotationPhase, RotationStatus};
use kit_objects::kinds;
use pki::{KeyPair, Signer};
use serde_json::json;
use tenant_cp::names::{CLIENT_CA, DROPPED, SIGNED_UNTIL};

use crate::keys::ControlPlane;
use crate::support::site::tenant_namespace;
use crate::support::{Operator, Site};

const SCHEDULER: &str = "system:kube-scheduler";
/// How often each asks in a phase.
const TIMES: usize = 10;

/// It is let in each time.
async fn is_let_in(plane: &ControlPlane, servers: &[SocketAddr], who: &KeyPair) -> Result<()> {
    for server in servers {
        for time in 0..TIMES {
            let user = plane.user_at(*server, who).await;
            let user = user.with_context(|| format!("{server}, time {time}"))?;
            ensure!(user.as_deref() == Some(SCHEDULER), "{server}: {user:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machinery_is_let_in_all_the_time_and_with_a_certificate_of_before_no_more_at_the_end()
-> Result<()> {
    let Some(mut plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let first = plane.material.clone();
    let prepared = plane.prepared(CLIENT_CA)?;
    let wants = plane.wants(&first);
    let of_it = Signer::By(CLIENT_CA.to_owned());
    let leaves = wants.iter().filter(|want| want.signer == of_it);
    let leaves: Vec<&str> = leaves.map(|want| want.name.as_str()).collect();
    let switched = plane.switched(&prepared, (CLIENT_CA, &leaves))?;
    let mut dropped = switched.clone();
    dropped.store.remove(CLIENT_CA);
    let (old, new) = (&first.store["scheduler"], &switched.store["scheduler"]);
    let before = plane.address();

    // Preparing: servers of before and after run side by side. That is why nothing signs anew yet.
    let middle = plane.server_of(&prepared).await?;
    let both = middle.address;
    is_let_in(&plane, &[before, both], old).await?;
    ensure!(plane.user_at(before, new).await?.is_none());
    // Switching: components of before and after, and the next kubelet has the new one.
    plane.serve_by(middle);
    plane.manage_with(&switched)?;
    is_let_in(&plane, &[both], old).await?;
    is_let_in(&plane, &[both], new).await?;
    let request = (
        "worker",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "client auth",
    );
    let node = ("system:node:worker", "system:nodes");
    let by = plane.sign_as(request, node, &switched).await?;
    ensure!(by == "client-ca-g2", "{by}");
    // Dropping: servers of both, and who has a certificate of before is let in by those that have not ended.
    let after = plane.server_of(&dropped).await?;
    is_let_in(&plane, &[both, after.address], new).await?;
    is_let_in(&plane, &[both], old).await?;
    let user = plane.user_at(after.address, old).await?;
    ensure!(user.is_none(), "{user:?} is let in with what was dropped");
    // People are not touched.
    let user = plane.user_at(after.address, &first.store["admin"]).await?;
    ensure!(user.as_deref() == Some("kubernetes-admin"), "{user:?}");
    Ok(())
}

fn told(cluster: &TenantCluster) -> Option<&RotationStatus> {
    cluster.status.as_ref()?.rotation.first()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_turns_the_authority_of_its_own_certificate_and_is_at_rest_afterwards()
-> Result<()> {
    let Some(site) = Site::new("rotation-clients").await? else {
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
        &json!({ "spec": { "rotation": { "clientCA": { "generation": 2 } } } }),
    )
    .await?;
    let is_over = |cluster: &TenantCluster| {
        told(cluster).is_some_and(|told| told.signs == 2 && told.phase == RotationPhase::Idle)
    };
    site.wait("demo", is_over).await?;
    operator.stop_and_settle(&site, "demo").await?;
    let dropped = secret("client-ca").await?;
    let annotations = dropped.metadata.annotations.unwrap_or_default();
    for annotation in [DROPPED, SIGNED_UNTIL] {
        ensure!(annotations.contains_key(annotation), "{annotations:?}");
    }
    let signers = secret("controller-manager").await?.data;
    ensure!(signers["data"].get("client-ca.key").is_none());
    ensure!(signers["data"].get("client-ca-g2.key").is_some());
    let after = secret("operator-client").await?.data;
    ensure!(before["data"]["operator.crt"] != after["data"]["operator.crt"]);
    Ok(())
}
