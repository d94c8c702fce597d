//! Tenant clusters never meet, also where they should not be together at all.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use ccm::limits::Limits;
use ccm::settings::Settings;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::fixtures::wait_gone;

use crate::support::environment::{ready_of, registered};
use crate::support::{Ccm, Environment, PATIENCE};

/// Services, and Nodes that all claim one machine, of an administrator who means harm.
const MANY: usize = 40;
/// What the platform gives each.
const LIMITS: Limits = Limits {
    services: 5,
    ports: 8,
    endpoints: 250,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_with_the_same_service_names_do_not_meet_in_one_namespace() -> Result<()> {
    let Some([one, two]) = Environment::together("meet").await? else {
        return Ok(());
    };
    let _both = (Ccm::start(&one)?, Ccm::start(&two)?);
    let mut names = Vec::new();
    for (environment, ip) in [(&one, "192.0.2.1"), (&two, "192.0.2.2")] {
        let service = environment.service("web", &json!({})).await?;
        let name = environment.mirror_name(&service);
        environment.mirror(&service, |_| true).await?;
        environment.allocate(&name, &json!([{ "ip": ip }])).await?;
        environment.addresses("web", &[ip]).await?;
        names.push(name);
    }
    assert_ne!(names[0], names[1]);
    one.services().delete("web", &Default::default()).await?;
    wait_gone(&one.services(), "web", PATIENCE).await?;
    let left = two.mirrors().list(&ListParams::default()).await?;
    let left: Vec<_> = left
        .items
        .into_iter()
        .filter_map(|m| m.metadata.name)
        .collect();
    assert_eq!(left, names[1..]);
    two.addresses("web", &["192.0.2.2"]).await
}

/// Everything of a tenant namespace that leads traffic, with its version.
async fn versions(environment: &Environment) -> Result<BTreeSet<(String, Option<String>)>> {
    let all = ListParams::default();
    let mirrors = environment.mirrors().list(&all).await?.items.into_iter();
    let slices = environment.slices().list(&all).await?.items.into_iter();
    let mirrors = mirrors.map(|mirror| (mirror.name_any(), mirror.resource_version()));
    let slices = slices.map(|slice| (slice.name_any(), slice.resource_version()));
    Ok(mirrors.chain(slices).collect())
}

/// A Node that says of itself what it likes.
async fn forge(environment: &Environment, name: &str, provider_id: &str) -> Result<()> {
    let mut node = registered(name);
    node["spec"]["providerID"] = provider_id.into();
    node["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "10.6.0.1" }]);
    let node = serde_json::from_value(node)?;
    environment
        .nodes()
        .create(&Default::default(), &node)
        .await?;
    Ok(())
}

/// Everything that an administrator can write into their own tenant cluster to get more of the management
/// cluster, or of a neighbour: `victim` has the machine `v`, at 10.6.0.1 and behind 192.0.2.6.
async fn attack(hostile: &Environment, victim: &Environment, address: &str) -> Result<()> {
    forge(hostile, "foreign", "kubevirt://v").await?;
    forge(hostile, "query", "kubevirt://?watch=1").await?;
    forge(hostile, "path", "kubevirt://../../../../api/v1/secrets").await?;
    let elsewhere = format!("kubevirt://../../{}/virtualmachines/v", victim.ns);
    forge(hostile, "elsewhere", &elsewhere).await?;
    for number in 0..MANY {
        forge(hostile, &format!("forged-{number}"), "kubevirt://a").await?;
    }
    let ports: Vec<Value> = (1..=200)
        .map(|port| json!({ "name": format!("p{port}"), "port": port, "protocol": "TCP" }))
        .collect();
    hostile.service("ports", &json!({ "ports": ports })).await?;
    for number in 0..MANY {
        let wishes = json!({
            "externalIPs": [address], "loadBalancerIP": address,
            "selector": { "kubernetes.io/cluster-service": "true" },
        });
        hostile.service(&format!("web-{number}"), &wishes).await?;
    }
    let labels = json!({ "metadata": {
        "labels": { api::names::LABEL_TENANT_UID: victim.uid },
        "annotations": { "metallb.io/loadBalancerIPs": address },
    } });
    hostile.change("web-0", &labels).await?;
    // Slices of their own that name the neighbour's machine.
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": { "name": "web-0-forged", "labels": { "kubernetes.io/service-name": "web-0" } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["10.6.0.1"] }],
        "ports": [{ "name": "", "port": 80, "protocol": "TCP" }],
    }))?;
    let slices: Api<EndpointSlice> = Api::namespaced(hostile.inside.clone(), "default");
    slices.create(&Default::default(), &slice).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_who_means_harm_gets_what_the_platform_gives_and_a_neighbour_notices_nothing()
-> Result<()> {
    let Some([hostile, victim]) = Environment::pair(["hostile", "victim"]).await? else {
        return Ok(());
    };
    let start = |environment: &Environment| {
        let settings = Settings {
            limits: LIMITS,
            ..environment.settings()
        };
        Ccm::with(environment, settings, &FaultPlan::none())
    };
    let (theirs, _neighbours) = (start(&hostile)?, start(&victim)?);
    victim.worker("v", &["10.6.0.1"]).await?;
    let served = victim.service("web", &json!({})).await?;
    let mirror = victim.mirror_name(&served);
    victim.ready(&mirror, &["10.6.0.1"]).await?;
    let address = "192.0.2.6";
    victim
        .allocate(&mirror, &json!([{ "ip": address }]))
        .await?;
    victim.addresses("web", &[address]).await?;
    let before = versions(&victim).await?;
    let window = hostile.management.audit().window()?;

    hostile.worker("a", &["10.5.0.1"]).await?;
    attack(&hostile, &victim, address).await?;
    let told = hostile.event("TooManyLoadBalancers").await?;
    ensure!(
        !told.contains(&victim.ns) && !told.contains(&hostile.ns),
        "{told}"
    );
    theirs.rest().await;

    // What the management cluster has of it.
    let all = ListParams::default();
    let mirrors: Vec<Service> = hostile.mirrors().list(&all).await?.items;
    ensure!(
        mirrors.len() == LIMITS.services,
        "{} Services",
        mirrors.len()
    );
    let specs: Vec<_> = mirrors.iter().filter_map(|m| m.spec.as_ref()).collect();
    let ports: usize = specs.iter().map(|s| s.ports.iter().flatten().count()).sum();
    ensure!(ports <= LIMITS.ports, "{ports} ports");
    for (mirror, spec) in mirrors.iter().zip(&specs) {
        assert_eq!(mirror.labels()[api::names::LABEL_TENANT_UID], hostile.uid);
        assert_eq!((&spec.external_ips, &spec.load_balancer_ip), (&None, &None));
        assert_eq!(spec.selector, None);
        ensure!(
            !mirror
                .annotations()
                .contains_key("metallb.io/loadBalancerIPs")
        );
    }
    let slices = hostile.slices().list(&all).await?.items;
    let addresses = ready_of(&slices);
    ensure!(addresses.iter().eq(["10.5.0.1"]), "{addresses:?}");
    for slice in &slices {
        assert_eq!(slice.endpoints.len(), 1, "one machine is one endpoint");
    }
    // Nothing was asked for beyond its namespace, by whatever name.
    window.assert_stays_in(&hostile.user(), &hostile.ns)?;

    // What the neighbour has of it: all is as it was, and what it does goes on.
    assert_eq!(versions(&victim).await?, before);
    let later = victim.service("later", &json!({})).await?;
    victim
        .ready(&victim.mirror_name(&later), &["10.6.0.1"])
        .await
}
