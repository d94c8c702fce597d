//! A KMS comes and goes: what each phase is for Secrets at real kube-apiservers and in a real etcd, with a plugin of KMS v2.
//!
//! Invariant: kube-apiservers of two phases that follow each other run side by side, and each reads what the other wrote.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use http::Request;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use operator::tenant_session::etcd;
use operator::tenant_session::rewriting::{End, pass};
use serde_json::json;
use tenant_cp::certificates::Material;
use tenant_cp::encrypted_kinds::EncryptedKinds;
use tenant_cp::kms::{Kms, Provider};
use testkit::waiting::ask_until;

use crate::keys::ControlPlane;
use crate::support::PATIENCE;
use crate::support::kms_plugin::KmsPlugin;

/// What no value in etcd may have as it is.
const SECRET: &[u8] = b"nobody reads this in etcd";

fn vault() -> Option<Provider> {
    Provider::read("vault-g1")
}

/// With the first key, and this KMS.
fn with(plane: &ControlPlane, kms: Kms) -> Material {
    let mut material = plane.material.clone();
    material.encryption.remove(2);
    material.encrypted = EncryptedKinds {
        kms,
        ..EncryptedKinds::default()
    };
    material
}

fn secrets(plane: &ControlPlane, server: SocketAddr) -> Result<Api<Secret>> {
    Ok(Api::namespaced(plane.administrator_at(server)?, "default"))
}

async fn create(plane: &ControlPlane, server: SocketAddr, name: &str) -> Result<()> {
    let secret = serde_json::from_value(json!({
        "metadata": { "name": name }, "data": { "text": ByteString(SECRET.to_vec()) },
    }))?;
    let create = PostParams::default();
    secrets(plane, server)?.create(&create, &secret).await?;
    Ok(())
}

/// Reads one: a request that fails is not repeated.
async fn read(plane: &ControlPlane, server: SocketAddr, name: &str) -> Result<()> {
    let secret = secrets(plane, server)?.get(name).await?;
    let text = secret.data.unwrap_or_default().remove("text");
    let text = text.map(|text| text.0).unwrap_or_default();
    ensure!(text == SECRET, "{name} at {server} is another one");
    Ok(())
}

/// Whether every Secret in etcd begins so, and none can be read there.
async fn all_begin_with(plane: &ControlPlane, prefix: &str) -> Result<()> {
    let range: (&[u8], &[u8]) = (b"/registry/secrets/", b"/registry/secrets0");
    let all = etcd::stored(&plane.etcd()?, range, 1000).await?;
    ensure!(!all.is_empty(), "there is none");
    for stored in all {
        let begins = stored.value.starts_with(prefix.as_bytes());
        let mut parts = stored.value.windows(SECRET.len());
        ensure!(begins, "one does not begin with {prefix}");
        ensure!(!parts.any(|part| part == SECRET), "one can be read");
    }
    Ok(())
}

/// Passes until all is as this server writes it.
async fn rewrite(plane: &ControlPlane, server: SocketAddr, kinds: &EncryptedKinds) -> Result<()> {
    let (etcd, api) = (plane.etcd()?, plane.administrator_at(server)?);
    let mut reached = None;
    for _ in 0..20 {
        let passed = pass(&etcd, &api, reached, (1, kinds)).await;
        let passed = passed.map_err(anyhow::Error::msg)?;
        match passed.end {
            End::All => return Ok(()),
            End::Paused => reached = Some(passed.reached),
            end => anyhow::bail!("{end:?}"),
        }
    }
    anyhow::bail!("it never ends")
}

/// What a kube-apiserver says of its health.
async fn is_well(plane: &ControlPlane, server: SocketAddr, path: &str) -> Result<bool> {
    let request = Request::get(path).body(Vec::new())?;
    let answer = plane.administrator_at(server)?.request_text(request).await;
    Ok(answer.is_ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kms_encrypts_what_was_there_and_is_given_up_again_and_its_absence_takes_no_api_away()
-> Result<()> {
    let Some(plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let plugin = KmsPlugin::start(plane.sockets(), "vault")?;
    // Preparing: ready only with the plugin, and it writes as before.
    let coming = Kms {
        coming: vault().map(|vault| (vault, "2026-11-21T12:00:00Z".to_owned())),
        ..Kms::default()
    };
    let reading = plane.server_of(&with(&plane, coming)).await?;
    for name in ["old-0", "old-1"] {
        create(&plane, reading.address, name).await?;
    }
    all_begin_with(&plane, "k8s:enc:secretbox:v1:k1:").await?;
    // Switching: beside one that reads both.
    let writes = with(
        &plane,
        Kms {
            writes: vault(),
            ..Kms::default()
        },
    );
    let writing = plane.server_of(&writes).await?;
    create(&plane, writing.address, "new").await?;
    for server in [reading.address, writing.address] {
        for name in ["old-0", "old-1", "new"] {
            read(&plane, server, name).await?;
        }
    }
    // Draining: etcd has nothing else, and both read on.
    rewrite(&plane, writing.address, &writes.encrypted).await?;
    all_begin_with(&plane, "k8s:enc:kms:v2:vault-g1:").await?;
    for server in [reading.address, writing.address] {
        read(&plane, server, "old-1").await?;
    }
    drop(reading);
    // Its KMS is away: it is told, and what needs none is served.
    drop(plugin);
    let server = writing.address;
    ask_until("it says that its KMS is away", PATIENCE, || {
        let said = is_well(&plane, server, "/readyz/kms-providers");
        async move {
            let is_told = !said.await?;
            Ok(is_told
                .then_some(())
                .ok_or_else(|| "it does not".to_owned()))
        }
    })
    .await?;
    ensure!(is_well(&plane, server, "/readyz?exclude=kms-providers").await?);
    ensure!(is_well(&plane, server, "/livez").await?);
    let maps: Api<ConfigMap> = Api::namespaced(plane.administrator_at(server)?, "default");
    let map = serde_json::from_value(json!({ "metadata": { "name": "served" } }))?;
    maps.create(&PostParams::default(), &map).await?;
    // It is given up: Covey's key writes, and the plugin reads until nothing needs it.
    let _plugin = KmsPlugin::start(plane.sockets(), "vault")?;
    let back = with(
        &plane,
        Kms {
            reads: vault().into_iter().collect(),
            partly: true,
            ..Kms::default()
        },
    );
    let giving_up = plane.server_of(&back).await?;
    read(&plane, giving_up.address, "old-0").await?;
    rewrite(&plane, giving_up.address, &back.encrypted).await?;
    all_begin_with(&plane, "k8s:enc:secretbox:v1:k1:").await?;
    read(&plane, giving_up.address, "new").await
}
