//! Addresses of machines, published for whoever maps traffic onto them.
//!
//! Invariant: they are those of the pods around the machines, whatever guests report.

use anyhow::Result;
use api::MachineAddresses;
use api::machine_addresses;
use kit_objects::kinds;
use kube::Api;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::fixtures::wait_for;

use super::World;
use crate::support::PATIENCE;
use crate::support::kubevirt::address;

impl World {
    fn published(&self) -> Api<MachineAddresses> {
        Api::namespaced(self.site.admin.clone(), &self.ns)
    }

    /// The agent in the guest of a machine says that it has these addresses, on two interfaces of one MAC.
    pub(super) async fn guest_reports(&self, name: &str, addresses: &[&str]) -> Result<()> {
        let interface = |name: &str, addresses: &[&str]| {
            json!({
                "name": name, "mac": "02:00:00:00:00:01", "ipAddress": addresses.first(),
                "ipAddresses": addresses, "infoSource": "domain, guest-agent",
            })
        };
        let interfaces: Value = json!([interface("default", addresses), interface("", addresses)]);
        let patch = Patch::Merge(json!({ "status": { "interfaces": interfaces } }));
        let instances = self.site.objects(kinds::VIRTUAL_MACHINE_INSTANCE, &self.ns);
        let params = PatchParams::default();
        instances.patch(name, &params, &patch).await?;
        Ok(())
    }
}

fn addresses_of(all: Option<&MachineAddresses>) -> Vec<(String, String)> {
    let all = all.into_iter().flat_map(|all| &all.spec.addresses);
    all.map(|(address, owner)| (owner.machine.clone(), address.clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_are_published_come_back_and_go_with_their_machine() -> Result<()> {
    let Some(world) = World::with_pool("addresses", 2).await? else {
        return Ok(());
    };
    let mut names = world.names().await?;
    let expected = |names: &[String]| {
        let mut expected: Vec<_> = names.iter().map(|n| (n.clone(), address(n))).collect();
        expected.sort();
        expected
    };
    let are = |names: &[String]| {
        let expected = expected(names);
        move |all: Option<&MachineAddresses>| {
            let mut found = addresses_of(all);
            found.sort();
            found == expected
        }
    };
    let (published, name) = (world.published(), machine_addresses::NAME);
    wait_for(&published, name, are(&names), PATIENCE).await?;

    world
        .guest_reports(&names[0], &["10.96.0.1", "fd00::1"])
        .await?;
    world.settle().await?;
    let machine = world.site.machines().get(&names[0]).await?;
    let status = machine.status.unwrap_or_default();
    assert_eq!(status.addresses[0].address, address(&names[0]));
    assert_eq!(status.addresses.len(), 1);

    // Lost or changed behind its back: nothing else tells of it.
    published.delete(name, &DeleteParams::default()).await?;
    let found = wait_for(&published, name, are(&names), PATIENCE).await?;
    let uid = found.and_then(|found| found.uid());
    let taken = json!({ "spec": { "addresses": { address(&names[1]): null } } });
    let params = PatchParams::default();
    published
        .patch(name, &params, &Patch::Merge(&taken))
        .await?;
    let found = wait_for(&published, name, are(&names), PATIENCE).await?;
    assert_eq!(found.and_then(|found| found.uid()), uid);

    world
        .site
        .change_pool("workers", &json!({ "spec": { "replicas": 1 } }))
        .await?;
    let one = |all: Option<&MachineAddresses>| addresses_of(all).len() == 1;
    wait_for(&published, name, one, PATIENCE).await?;
    world.settle().await?;
    names = world.names().await?;
    wait_for(&published, name, are(&names), PATIENCE).await?;
    world.site.nothing_is_orphaned(&world.cluster).await
}
