//! What of the last TenantCluster goes on to Hosts that Machines have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn binding() -> Key {
    Key::new("RoleBinding", "team-a", api::names::OPERATOR_BINDING)
}

fn owners(world: &World) -> Vec<String> {
    let live = world.objects.get(&binding());
    let owners = live.and_then(|live| live["metadata"]["ownerReferences"].as_array().cloned());
    let of = |owner: &Value| {
        let text = |key: &str| owner[key].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("kind"), text("name"))
    };
    owners.iter().flatten().map(of).collect()
}

/// A tenant cluster that was ready and is being deleted, with two Hosts that Machines have.
fn going() -> World {
    let mut world = ready(minimal());
    world.cluster.metadata.deletion_timestamp = Some(Time(now()));
    world.claimed_hosts = vec![
        ("rack-b".to_owned(), "u-2".to_owned()),
        ("rack-a".to_owned(), "u-1".to_owned()),
    ];
    world
}

fn end(world: &mut World) {
    for _ in 0..3 {
        let _ = world.reconcile(&mut 1_000);
    }
}

#[test]
fn the_last_tenant_cluster_gives_the_binding_to_hosts_that_machines_have_and_to_nobody_else() {
    let mut world = going();
    end(&mut world);
    assert_eq!(world.cluster.metadata.finalizers, None);
    assert_eq!(owners(&world), ["Host/rack-a", "Host/rack-b"]);
    let mut alone = going();
    alone.claimed_hosts.clear();
    end(&mut alone);
    assert_eq!(
        owners(&alone),
        ["TenantCluster/demo"],
        "it is left as it is"
    );
}

#[test]
fn machines_of_clouds_get_the_binding_too() {
    let mut world = going();
    world.claimed_hosts.clear();
    world.cloud_machines = vec![("workers-x".to_owned(), "u-3".to_owned())];
    end(&mut world);
    assert_eq!(world.cluster.metadata.finalizers, None);
    assert_eq!(owners(&world), ["Machine/workers-x"]);
}

#[test]
fn crash_after_any_write_of_the_end_leaves_the_binding_to_hosts() {
    for cut in 0..4 {
        let mut world = going();
        let _ = world.reconcile(&mut cut.clone());
        let is_gone = world.cluster.metadata.finalizers.is_none();
        assert!(!is_gone || owners(&world)[0] == "Host/rack-a", "cut {cut}");
        end(&mut world);
        assert_eq!(owners(&world), ["Host/rack-a", "Host/rack-b"], "cut {cut}");
    }
}

#[test]
fn binding_that_the_garbage_collector_took_first_is_made_anew_for_hosts() {
    let mut world = going();
    world.objects.remove(&binding());
    end(&mut world);
    assert_eq!(owners(&world), ["Host/rack-a", "Host/rack-b"]);
}

#[test]
fn binding_that_another_tenant_cluster_keeps_is_left_to_it_and_one_that_goes_too_does_not_count() {
    let other = |going: bool| {
        let mut other = cluster("other", "0f0f0f0f-1111-4222-8333-444455556666", minimal());
        other.metadata.deletion_timestamp = going.then(|| Time(now()));
        Arc::new(other)
    };
    let mut world = ready(minimal());
    world.others = vec![other(false)];
    world.settle();
    let shared = ["TenantCluster/demo", "TenantCluster/other"];
    assert_eq!(owners(&world), shared);
    let with = |going_too: bool| {
        let mut world = world.clone();
        world.cluster.metadata.deletion_timestamp = Some(Time(now()));
        world.claimed_hosts = vec![("rack-a".to_owned(), "u-1".to_owned())];
        world.others = vec![other(going_too)];
        end(&mut world);
        owners(&world)
    };
    assert_eq!(with(false), shared);
    assert_eq!(with(true), ["Host/rack-a"]);
}

#[test]
fn binding_that_cannot_be_written_holds_the_end_up_for_a_minute_and_no_longer() {
    let mut world = going();
    world.refused.push(binding());
    end(&mut world);
    assert!(world.cluster.metadata.finalizers.is_some());
    let conditions = world.cluster.status.clone().unwrap().conditions;
    let mut said = conditions.iter().filter(|c| c.type_ == "Progressing");
    let said = said.next().map(|c| c.message.as_str()).unwrap_or_default();
    assert!(said.contains("admission webhook says no"), "{said}");
    assert!(
        !world.objects.contains_key(&Key::new("Namespace", "", NS)),
        "nothing else waits for it"
    );
    world.now += jiff::SignedDuration::from_secs(61);
    end(&mut world);
    assert_eq!(world.cluster.metadata.finalizers, None);
}
