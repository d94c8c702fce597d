//! A tenant's administrator who makes as many Services and ports as a tenant cluster holds, seen from the
//! management cluster and from another tenant.
//!
//! All API servers are real, but thousands of objects are written into the etcd behind the tenant's: the server
//! itself takes a minute for 5,000 Services on two cores, and so they are there within seconds, which is quicker
//! than any administrator is. The program is the one of a pod, with the rates that it has there.
//! Invariant: what is there before the flood is there after it, and at rest nothing is written.

mod nodes;
mod ports;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kit_client::args::{RESERVE_BURST, RESERVE_QPS, TENANT_BURST, TENANT_QPS};
use kit_objects::kinds;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::fixtures::{PATIENCE, ask_until};
use testkit::waiting::{Seen, Watched};

use crate::support::environment::ready_of;
use crate::support::{Ccm, Environment, Program};

/// Services of type LoadBalancer, all together.
const SERVICES: usize = 5_000;
/// Those of them that have a load balancer before the others come.
const BEFORE: usize = 150;
/// As many load balancers as the platform gives.
const LIMIT: usize = 200;
/// Node ports that a tenant cluster has (`--service-node-port-range`, its default, which no tenant can change).
const NODE_PORTS: usize = 2_768;
/// How long a neighbour's Service may take to be mapped. It takes a tenth of a second on an idle machine, and here
/// seven servers and programs share two cores; one that waited for the flood would wait for minutes.
const USUAL: Duration = Duration::from_secs(30);
/// How long it may take to look at everything that there is.
const THOROUGH: Duration = Duration::from_secs(180);
/// Most memory of the program in MiB, as it is built for tests: it holds 5,000 Services of a kilobyte and a half.
const MOST_MIB: u64 = 96;

fn name(number: usize) -> String {
    format!("web-{number:04}")
}

fn key(number: usize) -> String {
    format!("/registry/services/specs/default/{}", name(number))
}

/// Services as the tenant's API server would keep them, with their keys in etcd. Each has a node port, as if there
/// were enough of them.
async fn crowd(environment: &Environment, numbers: Range<usize>) -> Result<Vec<(String, Value)>> {
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let like: Service = serde_json::from_value(json!({
        "metadata": { "name": "like" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "protocol": "TCP" }] },
    }))?;
    let like = environment.services().create(&dry_run, &like).await?;
    let created = like.creation_timestamp();
    let spec = serde_json::to_value(like.spec)?;
    let one = |number: usize| {
        let mut spec = spec.clone();
        let ip = format!("10.96.{}.{}", 64 + number / 250, 1 + number % 250);
        spec["clusterIPs"] = json!([ip]);
        spec["clusterIP"] = ip.into();
        spec["ports"][0]["nodePort"] = (30_000 + number % NODE_PORTS).into();
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": name(number), "namespace": "default", "uid": testkit::names::uid(),
                "creationTimestamp": created,
            },
            "spec": spec,
            "status": { "loadBalancer": {} },
        });
        (key(number), service)
    };
    Ok(numbers.map(one).collect())
}

/// What load balancers of the management cluster are, but for their versions.
fn content(mirrors: &Seen<Service>) -> BTreeMap<String, Value> {
    let all = mirrors.all.iter();
    all.map(|(name, mirror)| (name.clone(), json!([mirror.uid(), mirror.spec])))
        .collect()
}

/// Whether there are so many slices, and all lead to just these.
fn lead_to(slices: &Seen<EndpointSlice>, count: usize, wanted: &[&str]) -> bool {
    let leads = |slice: &EndpointSlice| ready_of(std::slice::from_ref(slice)).iter().eq(wanted);
    slices.all.len() == count && slices.all.values().all(leads)
}

/// What is told of Services that get no load balancer.
fn told(events: &Seen<Event>) -> Vec<&str> {
    let all = events.all.values();
    let of = all.filter(|event| event.reason.as_deref() == Some("TooManyLoadBalancers"));
    of.filter_map(|event| event.note.as_deref()).collect()
}

async fn set_affinity(services: &Api<Service>, number: usize, affinity: &str) -> Result<()> {
    let params = PatchParams::default();
    let spec = json!({ "spec": { "sessionAffinity": affinity, "sessionAffinityConfig": null } });
    let patch = Patch::Merge(&spec);
    services.patch(&name(number), &params, &patch).await?;
    Ok(())
}

/// Changes Services that have a load balancer again and again, far more often than the management cluster's API may
/// be asked for them. Ends never.
async fn keep_changing(services: &Api<Service>) -> Result<()> {
    for turn in 0_usize.. {
        let affinity = ["ClientIP", "None"][(turn / BEFORE) % 2];
        set_affinity(services, turn % BEFORE, affinity).await?;
    }
    Ok(())
}

/// A tenant cluster with [`BEFORE`] load balancers that lead to two machines.
async fn with_load_balancers(
    environment: &Environment,
    slices: &Watched<EndpointSlice>,
) -> Result<()> {
    for (name, address) in [("a", "10.5.0.1"), ("b", "10.5.0.2")] {
        environment.worker(name, &[address]).await?;
    }
    let services = crowd(environment, 0..BEFORE).await?;
    environment.tenant.etcd().write(&services).await?;
    // What there was before did not come within a second, but here it has to.
    let quick = [
        ("management-qps", "500".to_owned()),
        ("management-burst", "1000".to_owned()),
    ];
    let program = Program::start(environment, "quick", &quick)?;
    let both = ["10.5.0.1", "10.5.0.2"];
    let led = |seen: &Seen<EndpointSlice>| lead_to(seen, BEFORE, &both);
    slices
        .until("all lead to both machines", PATIENCE, led)
        .await?;
    program.rest(BEFORE, PATIENCE).await?;
    program.stop().await
}

/// The longest that a neighbour's Services took to be mapped, one after the other.
async fn of_neighbours(neighbour: &Environment, numbers: Range<usize>) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for number in numbers {
        let begin = Instant::now();
        let service = neighbour
            .service(&format!("later-{number}"), &json!({}))
            .await?;
        let mirror = neighbour.mirror_name(&service);
        neighbour.ready(&mirror, &["10.6.0.1"]).await?;
        longest = longest.max(begin.elapsed());
    }
    Ok(longest)
}

/// How long a dead machine is in load balancers while everything else that may be asked is asked. It is judged by the
/// order of what the API was sent: what takes it out waits for none of the rest.
async fn failover(hostile: &Environment, slices: &Watched<EndpointSlice>) -> Result<Duration> {
    let (audit, user) = (hostile.management.audit(), hostile.user());
    let window = audit.window()?;
    ask_until("the budget is used up", PATIENCE, || async {
        let asked = window.writes_of(&user)?.len();
        Ok(match asked > TENANT_BURST as usize {
            true => Ok(()),
            false => Err(format!("{asked} writes")),
        })
    })
    .await?;
    let (window, begin) = (audit.window()?, Instant::now());
    for kind in [kinds::VIRTUAL_MACHINE, kinds::VIRTUAL_MACHINE_INSTANCE] {
        hostile.delete(kind, "a").await?;
    }
    let out = |seen: &Seen<EndpointSlice>| lead_to(seen, LIMIT, &["10.5.0.2"]);
    slices
        .until("none leads to the dead machine", PATIENCE, out)
        .await?;
    let took = begin.elapsed();
    let writes = window.writes_of(&user)?;
    let of = |kind: &str| writes.iter().filter(|write| write.kind == kind).count();
    let (urgent, others) = (of("discovery.k8s.io/endpointslices"), of("services"));
    // By one budget for both there would be two of the others for each.
    ensure!(
        others < urgent,
        "{others} other writes came beside {urgent} of slices"
    );
    Ok(took)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_services_get_what_the_platform_gives_and_delay_neither_neighbours_nor_failovers()
-> Result<()> {
    let Some([hostile, victim]) = Environment::pair(["flood", "beside"]).await? else {
        return Ok(());
    };
    let begin = Instant::now();
    let said = |what: &str| eprintln!("{:>5.1} s: {what}", begin.elapsed().as_secs_f64());
    let (mirrors, slices) = (
        Watched::start(hostile.mirrors()),
        Watched::start(hostile.slices()),
    );
    let events: Api<Event> = Api::namespaced(hostile.inside.clone(), "default");
    let events = Watched::start(events);
    with_load_balancers(&hostile, &slices).await?;
    let neighbour = Ccm::paced(&victim)?;
    victim.worker("v", &["10.6.0.1"]).await?;
    of_neighbours(&victim, 0..1).await?;
    neighbour.rest().await;
    let (theirs, their_slices) = (
        Watched::start(victim.mirrors()),
        Watched::start(victim.slices()),
    );
    theirs
        .until("one", PATIENCE, |seen| seen.all.len() == 1)
        .await?;
    their_slices
        .until("one", PATIENCE, |seen| seen.all.len() == 1)
        .await?;
    let (before, theirs_before) = (mirrors.read(content), theirs.read(|seen| seen.all.clone()));
    let their_slices_before = their_slices.read(|seen| seen.all.clone());
    said("all is as ever");

    let flood = crowd(&hostile, BEFORE..SERVICES).await?;
    let limit = ("max-services", LIMIT.to_string());
    let program = Program::start(&hostile, "paced", &[limit])?;
    program.rest(BEFORE, PATIENCE).await?;
    let window = hostile.management.audit().window()?;
    let (written, longest) = tokio::join!(
        hostile.tenant.etcd().write(&flood),
        of_neighbours(&victim, 1..8),
    );
    written?;
    let longest = longest?;
    said(&format!(
        "the flood is there; Services of a neighbour took {longest:.1?} at most"
    ));
    ensure!(longest < USUAL, "a neighbour's Service took {longest:?}");
    program.rest(SERVICES, THOROUGH).await?;
    said("each Service was looked at");
    mirrors
        .until("the limit is reached", PATIENCE, |seen| {
            seen.all.len() == LIMIT
        })
        .await?;
    let all_told = |seen: &Seen<Event>| told(seen).len() >= SERVICES - LIMIT;
    events
        .until("all others are told", PATIENCE, all_told)
        .await?;
    events.read(|seen| {
        let of_others = |note: &&&str| note.contains(&hostile.ns) || note.contains(&victim.ns);
        for note in told(seen) {
            assert!(
                note.contains("as it may have (200)") && note.contains("delete a Service"),
                "{note}"
            );
        }
        assert_eq!(told(seen).iter().find(of_others), None);
    });
    window.assert_paced(&hostile.user(), TENANT_QPS, TENANT_BURST)?;

    let services = hostile.services();
    let during = async {
        let (took, longest) =
            tokio::join!(failover(&hostile, &slices), of_neighbours(&victim, 8..12),);
        anyhow::Ok((took?, longest?))
    };
    let (took, longest) = tokio::select! {
        done = during => done?,
        changing = keep_changing(&services) => return changing.context("it never ends"),
    };
    said(&format!(
        "a dead machine was out after {took:.1?}; a neighbour's took {longest:.1?} at most"
    ));
    ensure!(longest < USUAL, "a neighbour's Service took {longest:?}");

    // The flood goes, but for those that got a load balancer: they go as the tenant's API lets them.
    let finalizers = hostile.services().list(&Default::default()).await?;
    let (with, without): (Vec<_>, Vec<_>) = finalizers
        .items
        .into_iter()
        .filter(|service| service.name_any() >= name(BEFORE) && service.name_any() < name(SERVICES))
        .partition(|service| !service.finalizers().is_empty());
    ensure!(
        with.len() == LIMIT - BEFORE,
        "{} have a load balancer",
        with.len()
    );
    let keys: Vec<_> = without
        .iter()
        .map(|service| format!("/registry/services/specs/default/{}", service.name_any()))
        .collect();
    hostile.tenant.etcd().remove(&keys).await?;
    said("those without a load balancer are gone");
    let gone = with.iter().map(|service| {
        let (services, name) = (services.clone(), service.name_any());
        async move { services.delete(&name, &Default::default()).await }
    });
    try_join_all(gone).await?;
    for number in 0..BEFORE {
        set_affinity(&services, number, "None").await?;
    }
    program.rest(BEFORE, THOROUGH).await?;
    said("the flood is gone");
    let as_before = |seen: &Seen<Service>| content(seen) == before;
    mirrors
        .until("all is as before", PATIENCE, as_before)
        .await?;
    let out = |seen: &Seen<EndpointSlice>| lead_to(seen, BEFORE, &["10.5.0.2"]);
    slices
        .until("slices of the flood are gone", PATIENCE, out)
        .await?;
    let most = mirrors.read(|seen| seen.most);
    ensure!(most == LIMIT, "{most} load balancers at a time");
    let peak = program.process.peak_mib()?;
    said(&format!("{peak} MiB at most"));
    ensure!(peak < MOST_MIB, "{peak} MiB");
    let (qps, burst) = (TENANT_QPS + RESERVE_QPS, TENANT_BURST + RESERVE_BURST);
    window.assert_paced(&hostile.user(), qps, burst)?;
    window.assert_stays_in(&hostile.user(), &hostile.ns)?;
    for (name, mirror) in theirs_before {
        assert_eq!(
            theirs.read(|seen| seen.all.get(&name).cloned()),
            Some(mirror)
        );
    }
    for (name, slice) in their_slices_before {
        assert_eq!(
            their_slices.read(|seen| seen.all.get(&name).cloned()),
            Some(slice)
        );
    }

    // Whoever takes over looks at everything, twice, and writes nothing.
    program.stop().await?;
    let outside = hostile.management.audit().window()?;
    let inside = hostile.tenant.audit().window()?;
    let next = Ccm::start(&hostile)?;
    next.rest().await;
    next.rest().await;
    outside.assert_no_writes(&hostile.user())?;
    inside.assert_no_writes(&hostile.tenant_user())?;
    said("nothing is written any more");
    Ok(())
}
