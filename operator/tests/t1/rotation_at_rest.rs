//! The keys of encryption at rest are turned: what each phase is for Secrets at real kube-apiservers and in a real etcd.
//!
//! Invariant: kube-apiservers of two phases that follow each other run side by side, and each reads what the other wrote.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use operator::tenant_session::etcd;
use operator::tenant_session::rewriting::{End, pass};
use serde_json::json;
use tenant_cp::certificates::Material;
use tenant_cp::encrypted_kinds::EncryptedKinds;

use crate::keys::ControlPlane;

/// More than are written in one pass.
const SECRETS: usize = 70;

/// With these keys, of which one writes.
fn with(plane: &ControlPlane, generations: &[u32], writes: u32) -> Material {
    let mut material = plane.material.clone();
    for generation in [1, 2] {
        if !generations.contains(&generation) {
            material.encryption.remove(generation);
        }
    }
    material.encryption.hold(writes);
    material
}

fn secrets(plane: &ControlPlane, server: SocketAddr) -> Result<Api<Secret>> {
    Ok(Api::namespaced(plane.administrator_at(server)?, "default"))
}

async fn create(plane: &ControlPlane, server: SocketAddr, name: &str) -> Result<()> {
    let secret = serde_json::from_value(json!({
        "metadata": { "name": name }, "immutable": true,
        "data": { "text": ByteString(name.as_bytes().to_vec()) },
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
    ensure!(text == name.as_bytes(), "{name} at {server} is another one");
    Ok(())
}

/// How many Secrets etcd has under a key, and how many it has.
async fn under(plane: &ControlPlane, key: &str) -> Result<(usize, usize)> {
    let prefix = format!("k8s:enc:secretbox:v1:{key}:");
    let range: (&[u8], &[u8]) = (b"/registry/secrets/", b"/registry/secrets0");
    let all = etcd::stored(&plane.etcd()?, range, 1000).await?;
    let its = all.iter();
    let its = its.filter(|stored| stored.value.starts_with(prefix.as_bytes()));
    Ok((its.count(), all.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_read_by_every_server_and_are_under_the_new_key_before_the_old_one_is_dropped()
-> Result<()> {
    let Some(plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let before = plane.server_of(&with(&plane, &[1], 1)).await?;
    for number in 0..SECRETS {
        create(&plane, before.address, &format!("old-{number}")).await?;
    }
    // Preparing: reads both, and writes as before; beside one that has one alone.
    let middle = plane.server_of(&with(&plane, &[1, 2], 1)).await?;
    create(&plane, middle.address, "middle").await?;
    for server in [before.address, middle.address] {
        read(&plane, server, "old-0").await?;
        read(&plane, server, "middle").await?;
    }
    // Switching: beside one that reads both.
    let after = plane.server_of(&with(&plane, &[1, 2], 2)).await?;
    create(&plane, after.address, "new").await?;
    for server in [middle.address, after.address] {
        for name in ["old-0", "middle", "new"] {
            read(&plane, server, name).await?;
        }
    }
    let (new, _) = under(&plane, "k2").await?;
    ensure!(new >= 1, "nothing is written with the new key");
    // All is written again, in more than one pass, and read meanwhile.
    let (etcd, api) = (plane.etcd()?, plane.administrator_at(after.address)?);
    let (mut reached, mut passes) = (None, 0);
    loop {
        passes += 1;
        ensure!(passes < 20, "it never ends");
        let passed = pass(&etcd, &api, reached, (2, &EncryptedKinds::default())).await;
        let passed = passed.map_err(anyhow::Error::msg)?;
        reached = Some(passed.reached);
        for server in [middle.address, after.address] {
            read(&plane, server, "old-0").await?;
            read(&plane, server, "old-69").await?;
        }
        match passed.end {
            End::All => break,
            End::Paused => {}
            end => anyhow::bail!("{end:?}"),
        }
    }
    ensure!(passes > 1, "it is bounded");
    let (new, all) = under(&plane, "k2").await?;
    ensure!(new == all && all > SECRETS, "{new} of {all}");
    // Dropping: one that has the new key alone.
    let last = plane.server_of(&with(&plane, &[2], 2)).await?;
    for number in 0..SECRETS {
        read(&plane, last.address, &format!("old-{number}")).await?;
    }
    read(&plane, last.address, "middle").await?;
    read(&plane, last.address, "new").await?;
    Ok(())
}

/// With the first key, and what it does with ConfigMaps.
fn with_kinds(plane: &ControlPlane, written: bool, read: bool) -> Material {
    let one = |is: bool| -> BTreeSet<String> {
        is.then(|| "configmaps".to_owned()).into_iter().collect()
    };
    let mut material = with(plane, &[1, 2], 1);
    material.encrypted = EncryptedKinds {
        written: one(written),
        read: one(read),
        ..EncryptedKinds::default()
    };
    material
}

fn maps(plane: &ControlPlane, server: SocketAddr) -> Result<Api<ConfigMap>> {
    Ok(Api::namespaced(plane.administrator_at(server)?, "default"))
}

async fn create_map(plane: &ControlPlane, server: SocketAddr, name: &str) -> Result<()> {
    let map = serde_json::from_value(json!({
        "metadata": { "name": name }, "data": { "text": name },
    }))?;
    let create = PostParams::default();
    maps(plane, server)?.create(&create, &map).await?;
    Ok(())
}

async fn read_map(plane: &ControlPlane, server: SocketAddr, name: &str) -> Result<()> {
    let map = maps(plane, server)?.get(name).await?;
    let text = map.data.unwrap_or_default().remove("text");
    ensure!(
        text.as_deref() == Some(name),
        "{name} at {server} is another one"
    );
    Ok(())
}

/// How many ConfigMaps etcd has encrypted, and how many it has.
async fn encrypted_maps(plane: &ControlPlane) -> Result<(usize, usize)> {
    let range: (&[u8], &[u8]) = (b"/registry/configmaps/", b"/registry/configmaps0");
    let all = etcd::stored(&plane.etcd()?, range, 1000).await?;
    let its = all.iter();
    let its = its.filter(|stored| stored.value.starts_with(b"k8s:enc:secretbox:v1:k1:"));
    Ok((its.count(), all.len()))
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kind_that_is_added_is_encrypted_and_plain_again_before_it_is_left_out() -> Result<()> {
    let Some(mut plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    // Every kube-apiserver reads it either way before one writes it encrypted.
    let reads = with_kinds(&plane, false, true);
    let reading = plane.server_of(&reads).await?;
    let reader = reading.address;
    plane.serve_by(reading);
    for number in 0..40 {
        create_map(&plane, reader, &format!("old-{number}")).await?;
    }
    let writes = with_kinds(&plane, true, false);
    let writer = plane.server_of(&writes).await?;
    create_map(&plane, writer.address, "new").await?;
    for server in [reader, writer.address] {
        read_map(&plane, server, "old-0").await?;
        read_map(&plane, server, "new").await?;
    }
    rewrite(&plane, writer.address, &writes.encrypted).await?;
    let (encrypted, all) = encrypted_maps(&plane).await?;
    ensure!(encrypted > 40 && encrypted == all, "{encrypted} of {all}");
    for server in [reader, writer.address] {
        read_map(&plane, server, "old-39").await?;
    }
    // And back: the one that reads it either way writes it as it is.
    drop(writer);
    rewrite(&plane, reader, &reads.encrypted).await?;
    let (encrypted, all) = encrypted_maps(&plane).await?;
    ensure!(encrypted == 0 && all > 40, "{encrypted} of {all}");
    let last = plane.server_of(&with_kinds(&plane, false, false)).await?;
    read_map(&plane, last.address, "old-39").await?;
    read_map(&plane, last.address, "new").await
}
