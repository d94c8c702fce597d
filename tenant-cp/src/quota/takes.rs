//! What a TenantCluster and a NodePool take of the management cluster.
//!
//! Invariant: it follows from spec and settings alone, so that admission, which sees neither UID nor
//! status, says the same as the leader. `tenant-cp/tests/quota.rs` compares it with the pods that are
//! made.

use api::node_pool::Provider;
use api::tenant_cluster::{Component, EndpointType};
use api::{NodePool, TenantCluster};

use crate::addons::registry::ALL;
use crate::amounts::{Amounts, Resource, container};
use crate::backup::process;
use crate::profile;
use crate::settings::Settings;
use crate::validate::quantity::nanos;

/// What a TenantCluster takes: the pods of its control plane, of etcd, of its backup and of addons in its tenant
/// namespace, etcd's volumes, and the load balancer that publishes its API. What a rollout has above
/// that for a while does not count.
#[must_use]
pub fn cluster(tc: &TenantCluster, settings: &Settings) -> Amounts {
    let spec = &tc.spec;
    let profile = spec.control_plane.profile.unwrap_or_default();
    let defaults = &profile::requests(profile, &settings.resources);
    let replicas = i128::from(spec.control_plane.replicas.max(0));
    let members = i128::from(spec.etcd.replicas.max(0));
    let plane = &spec.control_plane;
    let component = |component: &Component, defaults| container(&component.resources, defaults);

    let pod = component(&plane.api_server, &defaults.api_server)
        .plus(&component(
            &plane.controller_manager,
            &defaults.controller_manager,
        ))
        .plus(&component(&plane.scheduler, &defaults.scheduler));
    let mut member = container(&spec.etcd.resources, &defaults.etcd);
    let size = nanos(&spec.etcd.storage.size.0).unwrap_or_default();
    member.add(Resource::Storage, size);

    let mut all = pod.times(replicas).plus(&member.times(members));
    if let Some(events) = &spec.etcd.events {
        all = all.plus(&container(&events.resources, &defaults.etcd));
    }
    for addon in ALL {
        if addon.is_enabled(&spec.addons) {
            all = all.plus(&addon.takes(tc, settings));
        }
    }
    if spec.backup.is_some() {
        all = all.plus(&process::takes());
    }
    all.count(Resource::Clusters, 1);
    let balanced = plane.endpoint.type_ == EndpointType::LoadBalancer;
    all.count(Resource::LoadBalancers, i128::from(balanced));
    all
}

/// What a NodePool takes: its machines, as many as `replicas` says, or as the autoscaler may make
/// without asking anybody where that is more.
#[must_use]
pub fn pool(pool: &NodePool) -> Amounts {
    let most = pool.spec.autoscaling.as_ref().map(|bounds| bounds.max);
    machines(pool, pool.spec.replicas.max(most.unwrap_or_default()))
}

/// What so many machines of a NodePool take: processors and memory as the machines see them, and what
/// their further disks may hold. Their root disks are images, and go with them. In a pool over several
/// locations each counts as much as one of the largest location: where machines are is not known here, and
/// may change without anybody being asked.
pub(super) fn machines(pool: &NodePool, count: i32) -> Amounts {
    let places = pool.spec.places();
    let mut machine = places
        .iter()
        .map(|place| machine(place.provider))
        .fold(Amounts::default(), |most, one| most.max(&one));
    machine.count(Resource::Machines, 1);
    machine.times(i128::from(count.max(0)))
}

fn machine(provider: &Provider) -> Amounts {
    let mut machine = Amounts::default();
    if let Some(kubevirt) = &provider.kubevirt {
        machine.count(Resource::Cores, i128::from(kubevirt.cpu.max(0)));
        let memory = nanos(&kubevirt.memory.0).unwrap_or_default();
        machine.add(Resource::Memory, memory);
        for disk in &kubevirt.disks {
            let size = nanos(&disk.size.0).unwrap_or_default();
            machine.add(Resource::Storage, size);
        }
    }
    machine
}
