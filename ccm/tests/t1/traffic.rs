//! A Service's way into the management cluster, and its address's way back.

use anyhow::Result;
use ccm::names;
use k8s_openapi::api::discovery::v1::Endpoint;
use serde_json::json;

use crate::support::environment::{addresses, wait_all};
use crate::support::{Ccm, Environment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_is_mirrored_with_its_machines_and_gets_its_address() -> Result<()> {
    let Some(environment) = Environment::new("traffic").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    environment.worker("a", &["10.5.0.1", "fd00::1"]).await?;
    environment.worker("b", &["10.5.0.2", "fd00::2"]).await?;
    let ports = json!([
        { "name": "web", "port": 80, "protocol": "TCP", "appProtocol": "http" },
        { "name": "dns", "port": 53, "protocol": "UDP" },
        { "name": "assoc", "port": 9, "protocol": "SCTP" },
    ]);
    let spec = json!({
        "ports": ports, "loadBalancerSourceRanges": ["192.0.2.0/24"], "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } },
        "trafficDistribution": "PreferSameZone",
    });
    let service = environment.service("web", &spec).await?;
    let mirror = environment.mirror(&service, |_| true).await?;
    let (live, theirs) = (mirror.spec.clone().unwrap(), service.spec.clone().unwrap());
    for port in live.ports.iter().flatten() {
        let mut all = theirs.ports.iter().flatten();
        let found = all.find(|p| p.name == port.name).cloned().unwrap();
        assert_eq!((port.port, &port.protocol), (found.port, &found.protocol));
        assert_eq!(port.app_protocol, found.app_protocol);
        assert_ne!(port.node_port, None, "allocated by the management cluster");
        let target = serde_json::to_value(&port.target_port)?;
        assert_eq!(target, json!(found.node_port));
    }
    assert_eq!(
        live.load_balancer_source_ranges,
        theirs.load_balancer_source_ranges
    );
    assert_eq!(live.session_affinity, theirs.session_affinity);
    assert_eq!(live.session_affinity_config, theirs.session_affinity_config);
    // Two names for the same, of which every API server knows this one.
    assert_eq!(live.traffic_distribution.as_deref(), Some("PreferClose"));
    let name = environment.mirror_name(&service);
    environment.ready(&name, &["10.5.0.1", "10.5.0.2"]).await?;
    let hinted = |endpoint: &Endpoint| {
        let hints = endpoint.hints.as_ref().and_then(|h| h.for_zones.as_ref());
        let mut zones = hints.into_iter().flatten().map(|zone| &*zone.name);
        endpoint.zone.as_deref() == Some("zone-a") && zones.next() == Some("zone-a")
    };
    wait_all(&environment.slices(), "", |slices| {
        let mut all = slices.iter().flat_map(|slice| &slice.endpoints);
        all.clone().count() == 2 && all.all(hinted)
    })
    .await?;

    environment
        .allocate(&name, &json!([{ "ip": "192.0.2.10" }]))
        .await?;
    environment.addresses("web", &["192.0.2.10"]).await?;
    environment
        .allocate(
            &name,
            &json!([{ "hostname": "lb.example.com" }, { "ip": "192.0.2.11" }]),
        )
        .await?;
    environment
        .addresses("web", &["lb.example.com", "192.0.2.11"])
        .await?;
    environment.allocate(&name, &json!(null)).await?;
    environment.addresses("web", &[]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_nodes_excluded_nodes_and_moved_pods_change_where_traffic_goes() -> Result<()> {
    let Some(environment) = Environment::new("lost").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    let (service, name) = environment.serving_by_two().await?;
    environment.node_ready("a", "Unknown").await?;
    environment.ready(&name, &["10.5.0.2"]).await?;
    environment.node_ready("a", "True").await?;
    environment.ready(&name, &["10.5.0.1", "10.5.0.2"]).await?;
    let label = |value| json!({ "metadata": { "labels": { names::LABEL_EXCLUDE: value } } });
    let patch = |value| kube::api::Patch::Merge(label(value));
    environment
        .nodes()
        .patch("b", &Default::default(), &patch(json!("")))
        .await?;
    environment.ready(&name, &["10.5.0.1"]).await?;
    environment
        .nodes()
        .patch("b", &Default::default(), &patch(json!(null)))
        .await?;
    environment.ready(&name, &["10.5.0.1", "10.5.0.2"]).await?;
    // Another address, as after a start on another node.
    environment.instance("b", &["10.5.0.9"]).await?;
    environment.ready(&name, &["10.5.0.1", "10.5.0.9"]).await?;

    environment
        .change(
            "web",
            &json!({ "spec": { "externalTrafficPolicy": "Local" } }),
        )
        .await?;
    environment.ready(&name, &[]).await?;
    let slice = |node: &str| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": "web-1", "namespace": "default",
                "labels": { names::LABEL_SLICE_OF: "web" } },
            "addressType": "IPv4", "ports": [{ "port": 8080 }],
            "endpoints": [{ "addresses": ["10.244.0.5"], "nodeName": node }],
        })
    };
    for (node, address) in [("a", "10.5.0.1"), ("b", "10.5.0.9")] {
        crate::support::environment::apply(&environment.inside, &slice(node)).await?;
        environment.ready(&name, &[address]).await?;
    }
    let mirror = environment.mirror(&service, |m| {
        let policy = m
            .spec
            .as_ref()
            .and_then(|s| s.external_traffic_policy.as_deref());
        policy == Some("Local")
    });
    assert_eq!(addresses(&mirror.await?), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_gets_traffic_once_its_kube_proxy_is_ready() -> Result<()> {
    let Some(environment) = Environment::new("proxies").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    // Nobody says where kube-proxies are: the tenant may have something else instead.
    let (_, name) = environment.serving_by_two().await?;
    let proxies = |a: bool, b: bool| {
        let endpoint = |node, address, ready| {
            let conditions = json!({ "ready": ready });
            json!({ "addresses": [address], "nodeName": node, "conditions": conditions })
        };
        let (namespace, service) = names::KUBE_PROXY;
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": "kube-proxy-1", "namespace": namespace,
                "labels": { names::LABEL_SLICE_OF: service } },
            "addressType": "IPv4", "ports": [{ "port": 10256 }],
            "endpoints": [endpoint("a", "10.5.0.1", a), endpoint("b", "10.5.0.2", b)],
        })
    };
    for (a, b, ready) in [
        (true, false, &["10.5.0.1"][..]),
        (true, true, &["10.5.0.1", "10.5.0.2"]),
        (false, true, &["10.5.0.2"]),
        // None at all: rather to what runs than to nothing.
        (false, false, &["10.5.0.1", "10.5.0.2"]),
        (true, false, &["10.5.0.1"]),
    ] {
        crate::support::environment::apply(&environment.inside, &proxies(a, b)).await?;
        environment.ready(&name, ready).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_writer_on_the_mirror_does_not_last_and_makes_no_fight() -> Result<()> {
    let Some(environment) = Environment::new("writer").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    let (service, name) = environment.serving().await?;
    let params = kube::api::PatchParams::default();
    for round in 0..5 {
        // What is ours comes back; what is not (an annotation of a load balancer) stays.
        let patch = json!({
            "metadata": { "annotations": { "lb.io/id": format!("{round}") } },
            "spec": { "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local" },
        });
        environment
            .mirrors()
            .patch(&name, &params, &kube::api::Patch::Merge(&patch))
            .await?;
        environment
            .mirror(&service, |m| {
                let spec = m.spec.as_ref().unwrap();
                spec.session_affinity.as_deref() == Some("None")
                    && spec.external_traffic_policy.as_deref() == Some("Cluster")
            })
            .await?;
        let slice = names::slice(&name, "IPv4", 0);
        let gone = json!({ "endpoints": [] });
        environment
            .slices()
            .patch(&slice, &params, &kube::api::Patch::Merge(&gone))
            .await?;
        environment.ready(&name, &["10.5.0.1"]).await?;
    }
    let mirror = environment.mirror(&service, |_| true).await?;
    assert_eq!(mirror.metadata.annotations.unwrap()["lb.io/id"], "4");
    Ok(())
}
