//! What a TenantCluster and a NodePool take of the management cluster.
//!
//! Invariant: it follows from spec and settings alone, so that admission, which sees neither UID nor
//! status, says the same as the leader. `tenant-cp/tests/quota.rs` compares it with the pods that are
//! made.

use std::collections::BTreeMap;

use api::tenant_cluster::{Component, EndpointType, Resources};
use api::{NodePool, TenantCluster};

use super::amounts::{Amounts, Resource};
use crate::addons::cloud_controller;
use crate::addons::csi::sidecars::sidecars;
use crate::settings::Settings;
use crate::validate::quantity::{in_force, nanos};

/// What a TenantCluster takes: the pods of its control plane, of etcd and of addons in its tenant
/// namespace, etcd's volumes, and the load balancer that publishes its API. What a rollout has above
/// that for a while does not count.
#[must_use]
pub fn cluster(tc: &TenantCluster, settings: &Settings) -> Amounts {
    let spec = &tc.spec;
    let defaults = &settings.resources;
    let replicas = i128::from(spec.control_plane.replicas.max(0));
    let members = i128::from(spec.etcd.replicas.max(0));
    let plane = &spec.control_plane;
    let component = |component: &Component, defaults| container(&component.resources, defaults);
    let ours = |defaults| container(&Resources::default(), defaults);

    let mut pod = component(&plane.api_server, &defaults.api_server)
        .plus(&component(
            &plane.controller_manager,
            &defaults.controller_manager,
        ))
        .plus(&component(&plane.scheduler, &defaults.scheduler));
    if spec.addons.konnectivity.enabled {
        pod = pod.plus(&ours(&defaults.konnectivity));
    }
    let mut member = container(&spec.etcd.resources, &defaults.etcd);
    let size = nanos(&spec.etcd.storage.size.0).unwrap_or_default();
    member.add(Resource::Storage, size);

    let mut all = pod.times(replicas).plus(&member.times(members));
    if spec.addons.cloud_controller.enabled {
        let pods = replicas.min(i128::from(cloud_controller::REPLICAS));
        all = all.plus(&ours(&defaults.cloud_controller).times(pods));
    }
    if spec.addons.csi.enabled {
        let offer = settings.storage.only(spec.addons.csi.classes.as_deref());
        let beside = i128::try_from(sidecars(&offer).count()).unwrap_or_default();
        all = all
            .plus(&ours(&defaults.csi))
            .plus(&ours(&defaults.csi_sidecar).times(beside));
    }
    if spec.addons.autoscaler.enabled {
        all = all
            .plus(&ours(&defaults.autoscaler))
            .plus(&ours(&defaults.cluster_autoscaler));
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
/// their further disks may hold. Their root disks are images, and go with them.
pub(super) fn machines(pool: &NodePool, count: i32) -> Amounts {
    let mut machine = Amounts::default();
    machine.count(Resource::Machines, 1);
    if let Some(kubevirt) = &pool.spec.provider.kubevirt {
        machine.count(Resource::Cores, i128::from(kubevirt.cpu.max(0)));
        let memory = nanos(&kubevirt.memory.0).unwrap_or_default();
        machine.add(Resource::Memory, memory);
        for disk in &kubevirt.disks {
            let size = nanos(&disk.size.0).unwrap_or_default();
            machine.add(Resource::Storage, size);
        }
    }
    machine.times(i128::from(count.max(0)))
}

/// What one container takes: of cores its request, of memory the limit that a user gave it, else its
/// request. Limits of the operator's settings are far above what is taken, so they do not count.
fn container(resources: &Resources, defaults: &BTreeMap<String, String>) -> Amounts {
    let (requests, limits) = in_force(resources, defaults);
    let amount = |amounts: &BTreeMap<String, String>, name: &str| {
        amounts.get(name).and_then(|amount| nanos(amount))
    };
    let mut taken = Amounts::default();
    taken.add(
        Resource::Cores,
        amount(&requests, "cpu").unwrap_or_default(),
    );
    let memory = amount(&limits, "memory").or_else(|| amount(&requests, "memory"));
    taken.add(Resource::Memory, memory.unwrap_or_default());
    taken
}
