//! Traffic that rather stays near, and traffic of the tenant cluster's own pods.
//!
//! Invariant: a proxy goes by hints only while every endpoint that is ready has one, so all have one or it
//! makes no difference.

use k8s_openapi::api::discovery::v1::Endpoint;
use serde_json::json;

use super::clusters::{ALL, Clusters, settings};
use super::{mirror_spec, spec};
use crate::settings::{IpMode, Settings};

fn in_zones(patch: &serde_json::Value) -> Clusters {
    let mut clusters = spec(patch);
    for (target, zone) in clusters.targets.iter_mut().zip(["east", "west"]) {
        target.zone = Some(zone.into());
    }
    clusters.reconcile(ALL);
    clusters
}

fn endpoints(clusters: &Clusters) -> Vec<&Endpoint> {
    let slices = clusters.slices.values();
    slices.flat_map(|slice| &slice.endpoints).collect()
}

/// Zones of the endpoints, and those that they are hinted for.
fn zones(clusters: &Clusters) -> Vec<(Option<String>, Vec<String>)> {
    let all = endpoints(clusters).into_iter().map(|endpoint| {
        let hints = endpoint.hints.as_ref().and_then(|h| h.for_zones.clone());
        let names = hints.into_iter().flatten().map(|zone| zone.name);
        (endpoint.zone.clone(), names.collect())
    });
    all.collect()
}

fn of(zone: &str, hint: Option<&str>) -> (Option<String>, Vec<String>) {
    let hints = hint.into_iter().map(str::to_owned).collect();
    (Some(zone.to_owned()), hints)
}

#[test]
fn every_wish_for_what_is_near_is_one_that_every_management_cluster_knows() {
    for asked in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        let clusters = in_zones(&json!({ "trafficDistribution": asked }));
        let mirror = mirror_spec(&clusters);
        assert_eq!(mirror["trafficDistribution"], "PreferClose", "{asked}");
        let hinted = [of("east", Some("east")), of("west", Some("west"))];
        assert_eq!(zones(&clusters), hinted, "{asked}");
    }
    // Of a later Kubernetes: no wish is better than no load balancer.
    let clusters = in_zones(&json!({ "trafficDistribution": "PreferSameRack" }));
    assert!(mirror_spec(&clusters)["trafficDistribution"].is_null());
    assert_eq!(zones(&clusters), [of("east", None), of("west", None)]);
}

#[test]
fn hints_come_and_go_with_the_wish_and_follow_a_machine_into_another_zone() {
    let mut clusters = in_zones(&json!({}));
    assert_eq!(zones(&clusters), [of("east", None), of("west", None)]);
    clusters.change(&json!({ "spec": { "trafficDistribution": "PreferClose" } }));
    clusters.reconcile(ALL);
    let hinted = [of("east", Some("east")), of("west", Some("west"))];
    assert_eq!(zones(&clusters), hinted);
    clusters.targets[0].zone = Some("west".into());
    clusters.reconcile(ALL);
    let hinted = [of("west", Some("west")), of("west", Some("west"))];
    assert_eq!(zones(&clusters), hinted);
    clusters.change(&json!({ "spec": { "trafficDistribution": null } }));
    clusters.reconcile(ALL);
    assert_eq!(zones(&clusters), [of("west", None), of("west", None)]);
    assert_eq!(clusters.reconcile(ALL), 0, "nothing is written at rest");
}

#[test]
fn what_is_not_ready_and_what_is_in_no_zone_has_no_hint() {
    let mut clusters = in_zones(&json!({ "trafficDistribution": "PreferClose" }));
    clusters.targets[0].ready = false;
    clusters.targets[0].terminating = true;
    clusters.targets[1].zone = None;
    clusters.reconcile(ALL);
    assert_eq!(zones(&clusters), [of("east", None), (None, Vec::new())]);
}

/// A load balancer that speaks the PROXY protocol, or ends TLS, gives pods something else than the way past it.
#[test]
fn pods_go_by_way_of_the_load_balancer_where_it_says_so_or_the_platform_does() {
    let mode = |clusters: &Clusters| {
        let service = clusters.service.clone().unwrap();
        let balancer = service.status.unwrap().load_balancer.unwrap();
        let mut all = balancer.ingress.unwrap().into_iter();
        all.next().unwrap().ip_mode
    };
    let mut clusters = in_zones(&json!({}));
    clusters.allocate("192.0.2.7");
    clusters.reconcile(ALL);
    assert_eq!(mode(&clusters).as_deref(), Some("VIP"));
    clusters.settings = Settings {
        ip_mode: IpMode::Proxy,
        ..settings()
    };
    clusters.reconcile(ALL);
    assert_eq!(mode(&clusters).as_deref(), Some("Proxy"));
    assert_eq!(clusters.reconcile(ALL), 0, "nothing is written at rest");
}
