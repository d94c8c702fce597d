//! Which Host a Machine takes.

use api::node_pool::HostSelector;

use super::*;

#[test]
fn machine_takes_who_fits_and_was_unused_longest() {
    let free = |name: &str, since: &str, spec: serde_json::Value| {
        let mut case = Case::new();
        case.observed.host = host(name);
        case.sees(Errand::Inspect, seen(name));
        let status = case.observed.host.status.as_mut().unwrap();
        let since = since.parse::<Timestamp>().unwrap();
        status.available_since = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
        case.observed.host.spec.labels = serde_json::from_value(spec).unwrap();
        case.observed.host
    };
    let mut hosts = vec![
        free("c", "2026-01-03T00:00:00Z", json!({"rack": "a"})),
        free("b", "2026-01-02T00:00:00Z", json!({"rack": "a"})),
        free("a", "2026-01-02T00:00:00Z", json!({"rack": "b"})),
    ];
    let selector = |value| serde_json::from_value::<HostSelector>(value).unwrap();
    let chosen = |hosts: &[Host], value| {
        let chosen = choose::choose(hosts, &selector(value), &world::machine("w-1"));
        chosen.and_then(|host| host.metadata.name.clone())
    };
    assert_eq!(chosen(&hosts, json!({})).as_deref(), Some("a"));
    let rack = json!({"matchLabels": {"rack": "a"}});
    assert_eq!(chosen(&hosts, rack.clone()).as_deref(), Some("b"));
    hosts[1].spec.maintenance = true;
    assert_eq!(chosen(&hosts, rack.clone()).as_deref(), Some("c"));
    hosts[0].metadata.generation = Some(2);
    assert_eq!(chosen(&hosts, rack), None, "another spec was verified");
    for (asked, fits) in [
        (
            json!({"architecture": "amd64", "cpu": 8, "memory": "15Gi"}),
            true,
        ),
        (json!({"architecture": "arm64"}), false),
        (json!({"cpu": 9}), false),
        (json!({"memory": "16Gi"}), false),
        (json!({"memory": "lots"}), false),
    ] {
        assert_eq!(chosen(&hosts, asked.clone()).is_some(), fits, "{asked}");
    }
    let facts = |host: &mut Host, kubelet: Option<&str>| {
        let facts = host.status.as_mut().and_then(|it| it.facts.as_mut());
        facts.unwrap().kubelet = kubelet.map(str::to_owned);
    };
    for kubelet in [Some("1.36.3"), None] {
        facts(&mut hosts[2], kubelet);
        assert_eq!(chosen(&hosts, json!({})), None, "{kubelet:?}");
    }
    facts(&mut hosts[2], Some("1.35.4"));
    // A claim whose answer was lost.
    hosts[0].status = choose::claim(&hosts[2], &world::machine("w-1"), now());
    assert_eq!(chosen(&hosts, json!({"cpu": 9})).as_deref(), Some("c"));
    assert_eq!(
        choose::claim(&hosts[0], &world::machine("w-2"), now()),
        None
    );
    assert_eq!(choose::release(&hosts[0], "uid-w-2"), None);
    let released = choose::release(&hosts[0], "uid-w-1").unwrap();
    assert_eq!(released.phase, Some(HostPhase::Resetting));
}
