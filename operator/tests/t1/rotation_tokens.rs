//! Keys of service account tokens are turned: by the operator on a real management API, and what each phase is for tokens
//! at a real kube-apiserver and kube-controller-manager of a tenant.
//!
//! Invariant: kube-apiservers of two phases that follow each other run side by side, and neither signs what the other
//! refuses.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::{RotationPhase, RotationStatus};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kit_objects::kinds;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use operator::tenant_session::held_tokens::{self, HeldToken, key_id};
use serde_json::json;
use tenant_cp::certificates::Material;
use tenant_cp::names::{DROPPED, SIGNED_UNTIL};
use testkit::waiting::ask_until;

use crate::keys::ControlPlane;
use crate::support::site::tenant_namespace;
use crate::support::{Operator, PATIENCE, Site};

/// With these generations, of which one signs.
fn with(plane: &ControlPlane, generations: &[u32], signs: u32) -> Material {
    let mut material = plane.material.clone();
    for generation in [1, 2] {
        if !generations.contains(&generation) {
            material.service_account.remove(generation);
        }
    }
    material.service_account.hold(signs);
    material
}

/// A token of a kube-apiserver.
async fn token(plane: &ControlPlane, server: SocketAddr) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.administrator_at(server)?, "default");
    let request = TokenRequest::default();
    let create = PostParams::default();
    let made = accounts.create_token_request("probe", &create, &request);
    Ok(made.await?.status.context("no token")?.token)
}

/// Whether a kube-apiserver lets a token in.
async fn lets_in(plane: &ControlPlane, server: SocketAddr, token: &str) -> Result<bool> {
    let user = plane.user_of_token(server, token).await?;
    let wanted = "system:serviceaccount:default:probe";
    ensure!(
        user.as_deref().is_none_or(|user| user == wanted),
        "{user:?}"
    );
    Ok(user.is_some())
}

/// The key that signed the token of a Secret, once it has one that is not this.
async fn held(plane: &ControlPlane, but: &str) -> Result<HeldToken> {
    ask_until("a token in the Secret", PATIENCE * 2, || {
        let client = plane.administrator();
        async move {
            let held = held_tokens::ask(&client?).await;
            let held = held.map_err(anyhow::Error::msg)?;
            let mut new = held.iter().filter(|held| held.key != but);
            Ok(new.next().cloned().ok_or(format!("{held:?}")))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_let_in_by_every_server_until_their_key_is_dropped() -> Result<()> {
    let Some(mut plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let before = plane.server_of(&with(&plane, &[1], 1)).await?;
    plane.manage_with(&with(&plane, &[1], 1))?;
    let create = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.administrator()?, "default");
    let account = serde_json::from_value(json!({ "metadata": { "name": "probe" } }))?;
    accounts.create(&create, &account).await?;
    let secrets: Api<Secret> = Api::namespaced(plane.administrator()?, "default");
    let secret = serde_json::from_value(json!({
        "metadata": { "name": "robot", "annotations": { "kubernetes.io/service-account.name": "probe" } },
        "type": "kubernetes.io/service-account-token",
    }))?;
    secrets.create(&create, &secret).await?;
    let ids = [1, 2].map(|generation| {
        let keys = plane.material.service_account.get(generation);
        keys.and_then(|keys| key_id(&keys.public))
            .unwrap_or_default()
    });
    let robot = held(&plane, "").await?;
    ensure!(
        robot.place == "default/robot" && robot.key == ids[0],
        "{robot:?}"
    );

    let old = token(&plane, before.address).await?;
    // Verifies both, and signs as before: beside a server that knows one alone.
    let middle = plane.server_of(&with(&plane, &[1, 2], 1)).await?;
    let middle_token = token(&plane, middle.address).await?;
    for server in [before.address, middle.address] {
        for token in [&old, &middle_token] {
            ensure!(lets_in(&plane, server, token).await?, "{server}");
        }
    }
    // Signs anew: beside a server that verifies both.
    let switched = with(&plane, &[1, 2], 2);
    let after = plane.server_of(&switched).await?;
    let new = token(&plane, after.address).await?;
    for server in [middle.address, after.address] {
        for token in [&old, &new] {
            ensure!(lets_in(&plane, server, token).await?, "{server}");
        }
    }
    // That is why it is not done beside one of before.
    ensure!(!lets_in(&plane, before.address, &new).await?);
    plane.manage_with(&switched)?;
    let empty = Patch::Merge(json!({ "data": { "token": null } }));
    secrets
        .patch("robot", &PatchParams::default(), &empty)
        .await?;
    let robot = held(&plane, &ids[0]).await?;
    ensure!(robot.key == ids[1], "{robot:?}");
    // Without the key of before.
    let last = plane.server_of(&with(&plane, &[2], 2)).await?;
    ensure!(lets_in(&plane, last.address, &new).await?);
    ensure!(lets_in(&plane, after.address, &old).await?);
    ensure!(!lets_in(&plane, last.address, &old).await?);
    Ok(())
}

fn told(cluster: &TenantCluster) -> Option<&RotationStatus> {
    cluster.status.as_ref()?.rotation.first()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_turns_service_account_keys_and_waits_for_tokens() -> Result<()> {
    let Some(site) = Site::new("rotation-tokens").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let namespace = tenant_namespace(&cluster);
    let secrets = site.objects(kinds::SECRET, &namespace);

    let keys = |keys| json!({ "spec": { "rotation": { "serviceAccountKeys": keys } } });
    site.change("demo", &keys(json!({ "generation": 2 })))
        .await?;
    let waits = |cluster: &TenantCluster| {
        told(cluster).is_some_and(|told| {
            told.signs == 2 && told.phase == RotationPhase::Draining && told.believed == [1, 2]
        })
    };
    site.wait("demo", waits).await?;
    operator.settle(&site, "demo").await?;
    let before = secrets.get("service-account").await?;
    let annotations = before.metadata.annotations.unwrap_or_default();
    ensure!(annotations.contains_key(SIGNED_UNTIL), "{annotations:?}");

    site.change("demo", &keys(json!({ "complete": 2 }))).await?;
    let is_over = |cluster: &TenantCluster| {
        told(cluster).is_some_and(|told| told.phase == RotationPhase::Idle)
    };
    site.wait("demo", is_over).await?;
    operator.stop_and_settle(&site, "demo").await?;
    let dropped = secrets.get("service-account").await?;
    let annotations = dropped.metadata.annotations.unwrap_or_default();
    ensure!(annotations.contains_key(DROPPED), "{annotations:?}");
    let files = secrets.get("apiserver").await?.data;
    ensure!(files["data"].get("sa-k1.pub").is_none());
    ensure!(files["data"].get("sa-k2.pub").is_some());
    Ok(())
}
