//! What a tenant cluster takes of the management cluster: it may have less than the platform gives, and no
//! more.

use pki::Store;

use super::*;
use crate::addons::addon::Addon as _;
use crate::addons::cloud_controller::CloudController;
use crate::validate::admit;

fn limited(services: &Value, volumes: &Value) -> TenantCluster {
    tc(&json!({ "spec": { "addons": {
        "cloudController": { "enabled": true, "limits": services },
        "csi": { "enabled": true, "limits": volumes },
    } } }))
}

/// Three load balancers with seven ports, to nine machines; five volumes, and snapshots by default.
fn platform() -> Settings {
    serde_json::from_value(json!({
        "loadBalancers": { "maxServices": 3, "maxPorts": 7, "maxEndpoints": 9 },
        "storage": { "classes": [{ "name": "fast", "storageClass": "ceph" }], "maxVolumes": 5 },
    }))
    .unwrap()
}

fn said(old: Option<&TenantCluster>, new: &TenantCluster, settings: &Settings) -> Vec<String> {
    let others: [TenantCluster; 0] = [];
    let problems = admit(old, new, &others, settings);
    problems.iter().map(ToString::to_string).collect()
}

/// The limits that ccm and csi are told.
fn in_force(cluster: &TenantCluster, settings: &Settings) -> Vec<String> {
    let v = validate(cluster, settings).unwrap();
    let deployment = &CloudController.deployments(&v, settings, &Store::new())[0].value;
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args: Vec<String> = serde_json::from_value(args.clone()).unwrap();
    let mut told: Vec<_> = args
        .into_iter()
        .filter(|arg| arg.starts_with("--max-"))
        .collect();
    let offer = v.storage.unwrap();
    told.push(format!("{:?} {:?}", offer.max_volumes, offer.max_snapshots));
    told
}

#[test]
fn less_than_the_platform_gives_may_be_asked_for_and_nothing_is_the_platforms_own() {
    let nothing = limited(&json!({}), &json!({}));
    assert_eq!(said(None, &nothing, &platform()), [""; 0]);
    let own = [
        "--max-services=3",
        "--max-ports=7",
        "--max-endpoints=9",
        "Some(5) None",
    ];
    assert_eq!(in_force(&nothing, &platform()), own);
    let less = limited(
        &json!({ "services": 0, "ports": 2, "endpoints": 1 }),
        &json!({ "volumes": 4, "snapshots": 0 }),
    );
    assert_eq!(said(None, &less, &platform()), [""; 0]);
    let lowered = [
        "--max-services=0",
        "--max-ports=2",
        "--max-endpoints=1",
        "Some(4) Some(0)",
    ];
    assert_eq!(in_force(&less, &platform()), lowered);
}

#[test]
fn more_than_the_platform_gives_is_refused_with_the_setting() {
    let more = limited(
        &json!({ "services": 4, "ports": 8, "endpoints": 10 }),
        &json!({ "volumes": 6, "snapshots": 1001 }),
    );
    let sentence = |field: &str, asked: u32, most: u32, setting: &str| {
        format!(
            "spec.addons.{field}: {asked} is more than {most}, which is the most here: choose {most} or \
             less, or have whoever runs the management cluster allow it (config.{setting} of the chart)"
        )
    };
    assert_eq!(
        said(None, &more, &platform()),
        [
            sentence(
                "cloudController.limits.services",
                4,
                3,
                "loadBalancers.maxServices"
            ),
            sentence(
                "cloudController.limits.ports",
                8,
                7,
                "loadBalancers.maxPorts"
            ),
            sentence(
                "cloudController.limits.endpoints",
                10,
                9,
                "loadBalancers.maxEndpoints"
            ),
            sentence("csi.limits.volumes", 6, 5, "storage.maxVolumes"),
            sentence("csi.limits.snapshots", 1001, 1000, "storage.maxSnapshots"),
        ]
    );
}

#[test]
fn what_is_no_number_of_things_is_refused_whoever_asks() {
    let negative = limited(
        &json!({ "services": -1, "endpoints": 0 }),
        &json!({ "volumes": -7 }),
    );
    assert_eq!(
        said(None, &negative, &platform()),
        [
            "spec.addons.cloudController.limits.services: -1 is below 0: choose 0 or more, or remove it for \
             what the platform gives",
            "spec.addons.cloudController.limits.endpoints: 0 is below 1: choose 1 or more, or remove it for \
             what the platform gives",
            "spec.addons.csi.limits.volumes: -7 is below 0: choose 0 or more, or remove it for what the \
             platform gives",
        ]
    );
}

#[test]
fn a_platform_that_gives_less_later_stops_nobody_and_is_obeyed() {
    let mut asked = limited(
        &json!({ "services": 3 }),
        &json!({ "volumes": 5, "snapshots": 9 }),
    );
    asked.status = Some(TenantClusterStatus {
        version: Some("1.35.4".to_owned()),
        ..TenantClusterStatus::default()
    });
    let mut stricter = platform();
    stricter.load_balancers.max_services = 2;
    stricter.storage.max_volumes = Some(4);
    let told = in_force(&asked, &stricter);
    assert_eq!(
        (&*told[0], &*told[3]),
        ("--max-services=2", "Some(4) Some(9)")
    );
    let mut other = asked.clone();
    other.spec.control_plane.replicas = 3;
    assert_eq!(said(Some(&asked), &other, &stricter), [""; 0]);
}
