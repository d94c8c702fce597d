//! Keys: who has one, who is forgotten, and what a restart changes.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use anyhow::Result;
use api::names;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testkit::waiting::{PATIENCE, ask_until};

use crate::cluster::{Cluster, address, peers};
use crate::sites::NODES;
use crate::traffic::stream;

async fn key(cluster: &Cluster, node: &str) -> Result<String> {
    let node = Api::<Node>::all(cluster.client.clone()).get(node).await?;
    let annotations = node.metadata.annotations.unwrap_or_default();
    Ok(annotations[names::ANNOTATION_OVERLAY_KEY].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_removed_is_forgotten_by_all_and_a_new_one_known_to_all() -> Result<()> {
    let Some(mut cluster) = Cluster::new().await? else {
        return Ok(());
    };
    for node in NODES {
        cluster.start(node).await?;
    }
    cluster.until_connected(&NODES).await?;
    let (a1, c1) = (("a1", address("a1")), ("c1", address("c1")));
    stream(&cluster.sites, a1, c1, 1024);
    let begin = Instant::now();
    let rest = ["a1", "a2", "b1"];
    cluster.set_members(&rest).await?;
    // Each is waited for 60 s at most, which is what is promised.
    cluster.until_connected(&rest).await?;
    println!("removed everywhere after {:?}", begin.elapsed());
    // Its own node takes everything down too.
    let gone = |state: &serde_json::Value| peers(state).is_empty() && state["address"].is_null();
    cluster.until("c1", "has nothing any more", gone).await?;
    // And what is for it ends at the device: by the default route it would leave the machine as it is.
    let route = cluster
        .sites
        .ip_in("a1", &format!("route get {}", address("c1")));
    assert!(route.contains("dev covey0"), "{route}");
    let addresses = cluster.sites.ip_in("c1", "addr show covey0");
    assert!(!addresses.contains("10.200.0"), "{addresses}");
    stream(&cluster.sites, a1, ("b1", address("b1")), 1024);

    let begin = Instant::now();
    cluster.set_members(&NODES).await?;
    cluster.until_connected(&NODES).await?;
    println!("known everywhere after {:?}", begin.elapsed());
    stream(&cluster.sites, a1, c1, 1024);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_the_key_and_goes_on_without_the_api() -> Result<()> {
    let Some(mut cluster) = Cluster::new().await? else {
        return Ok(());
    };
    let nodes = ["a1", "b1", "c1"];
    cluster.set_members(&nodes).await?;
    for node in nodes {
        cluster.start(node).await?;
    }
    cluster.until_connected(&nodes).await?;
    let before = key(&cluster, "b1").await?;
    let file = cluster.folder("b1").join("private.key");
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    let private = fs::read_to_string(&file)?;

    // b1 is where nobody can dial it, so it has to begin again by itself, and the API is away.
    cluster.kill("b1");
    cluster.close_way("b1").await;
    cluster.run("b1")?;
    cluster.until_connected(&nodes).await?;
    let (b1, c1) = (("b1", address("b1")), ("c1", address("c1")));
    stream(&cluster.sites, b1, c1, 65_536);
    stream(&cluster.sites, ("a1", address("a1")), b1, 65_536);

    // c1 is where everybody dials, and cannot dial b1 itself: it knows where it heard it.
    let heard = || async {
        let kept = fs::read_to_string(cluster.folder("c1").join("kept.json"));
        let kept = kept.unwrap_or_default();
        Ok(if kept.contains("203.0.113.20:") {
            Ok(())
        } else {
            Err(kept)
        })
    };
    ask_until("c1 keeps where it heard b1", PATIENCE, heard).await?;
    cluster.kill("c1");
    cluster.start("c1").await?;
    cluster.until_connected(&nodes).await?;
    stream(&cluster.sites, c1, b1, 65_536);

    cluster.open_way("b1").await?;
    assert_eq!(fs::read_to_string(&file)?, private);
    assert_eq!(key(&cluster, "b1").await?, before);
    // The key leaves the machine nowhere.
    let known = fs::read_to_string(cluster.folder("b1").join("kept.json"))?;
    assert!(!known.contains(private.trim()));
    let state = cluster.state("b1").unwrap().to_string();
    assert!(!state.contains(private.trim()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_says_anothers_key_or_pods_gets_nothing_of_it() -> Result<()> {
    let Some(mut cluster) = Cluster::new().await? else {
        return Ok(());
    };
    for node in ["a1", "c1"] {
        cluster.start(node).await?;
    }
    let with = |peer: &'static str| {
        move |state: &serde_json::Value| peers(state).contains(&peer.to_owned())
    };
    cluster.until("a1", "knows c1", with("c1")).await?;
    // b1's program does not run; somebody with its identity writes c1's key, and an endpoint to flood.
    let stolen = key(&cluster, "c1").await?;
    cluster.accept("c1", &stolen).await?;
    let victim = cluster
        .sites
        .within("nata", || UdpSocket::bind("127.0.0.1:0"))?;
    let annotations = json!({
        names::ANNOTATION_OVERLAY_KEY: stolen,
        names::ANNOTATION_OVERLAY_ENDPOINT: victim.local_addr()?.to_string(),
    });
    let patch = json!({ "metadata": { "annotations": annotations } });
    let nodes = Api::<Node>::all(cluster.client.clone());
    nodes
        .patch("b1", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    let told = |state: &serde_json::Value| {
        let words = state["refused"]["b1"].to_string();
        words.contains("its key is that of node c1")
    };
    let state = cluster.until("a1", "refuses b1", told).await?;
    assert_eq!(peers(&state), ["c1"], "{state:#}");
    // c1 itself knows best whose its key is.
    let own = |state: &serde_json::Value| {
        let words = state["refused"]["b1"].to_string();
        words.contains("its key is that of node c1")
    };
    cluster.until("c1", "refuses b1", own).await?;
    let (a1, c1) = (("a1", address("a1")), ("c1", address("c1")));
    stream(&cluster.sites, a1, c1, 1024);
    Ok(())
}
