//! The overlay among nodes: who its members are, and how it comes and goes.
//!
//! Invariant: members are read where `link-node` reads them; a node says its key as `link-node` does, in an
//! annotation of its Node.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use api::names;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::{Api, Client, Error, ResourceExt as _};
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use testkit::tokens;
use testkit::waiting::ask_until;

use super::World;
use crate::support::PATIENCE;
use crate::support::kubevirt::node_path;
use crate::support::site::apply;

const MEMBERS: &str = "/api/v1/namespaces/kube-system/configmaps/covey-overlay";
const PROGRAM: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/covey-overlay";
const FLANNEL: &str = "/apis/apps/v1/namespaces/kube-flannel/daemonsets/kube-flannel-ds";
const ACCOUNT: &str = "covey-overlay";
const A: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=";
const B: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI=";

fn overlay(enabled: bool) -> Value {
    let overlay = json!({ "enabled": enabled, "cidr": "198.18.0.0/16" });
    json!({ "spec": { "addons": { "overlay": overlay } } })
}

/// Members by the name of their node.
fn members(map: Option<&Value>) -> BTreeMap<String, Value> {
    let all = map.and_then(|map| map["data"].as_object());
    let read = |text: &Value| serde_json::from_str(text.as_str().unwrap_or_default());
    let all = all.into_iter().flatten();
    all.map(|(name, text)| (name.clone(), read(text).unwrap_or_default()))
        .collect()
}

impl World {
    async fn until_members(
        &self,
        wanted: impl Fn(&BTreeMap<String, Value>) -> bool + Send + Sync,
    ) -> Result<BTreeMap<String, Value>> {
        let found = |map: Option<&Value>| wanted(&members(map));
        self.site
            .tenants
            .wait(&self.ns, MEMBERS, found, PATIENCE)
            .await?;
        Ok(members(
            self.site.tenants.object(&self.ns, MEMBERS).as_ref(),
        ))
    }

    fn says(&self, node: &str, key: &str) {
        let said = json!({ "metadata": { "annotations": { names::ANNOTATION_OVERLAY_KEY: key } } });
        assert!(self.site.tenants.change(&self.ns, &node_path(node), &said));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_the_machines_with_addresses_of_their_own_and_the_first_key_that_they_say()
-> Result<()> {
    let Some(world) = World::with_pool("overlay-members", 2).await? else {
        return Ok(());
    };
    world.site.change("demo", &overlay(true)).await?;
    let names = world.names().await?;
    let all = world.until_members(|all| all.len() == 2).await?;
    assert_eq!(
        all.keys().collect::<BTreeSet<_>>(),
        names.iter().collect::<BTreeSet<_>>()
    );
    let mut given = BTreeMap::new();
    for name in &names {
        let machine = world.wait_machine(name, |_| true).await?;
        let status = machine.status.context("it has a status")?;
        let address = status.overlay.context("it has an address")?.address;
        assert_eq!(all[name]["address"], json!(address));
        assert!(address.starts_with("198.18."), "{address}");
        given.insert(address, name.clone());
    }
    assert_eq!(given.len(), 2, "one each");
    let (one, other) = (&names[0], &names[1]);
    world.says(one, A);
    let key = |all: &BTreeMap<String, Value>, name: &str| all[name]["publicKey"].clone();
    world.until_members(|all| key(all, one) == json!(A)).await?;
    // A node that was taken over says another's key, and another one changes its own: neither counts. What
    // the other one says after that does, so that it was looked at.
    world.says(other, A);
    world.says(one, B);
    let third = B.replace("AI=", "AM=");
    world.says(other, &third);
    let all = world
        .until_members(|all| key(all, other) == json!(third))
        .await?;
    assert_eq!(key(&all, one), json!(A));
    // A status that was lost is found out again: the same address.
    let before = all[other]["address"].clone();
    let machines = world.site.machines();
    let lost = Patch::Merge(json!({ "status": { "overlay": null } }));
    machines
        .patch_status(other, &PatchParams::default(), &lost)
        .await?;
    let is_back = |machine: &api::Machine| {
        let status = machine.status.as_ref().and_then(|s| s.overlay.as_ref());
        status.is_some_and(|member| member.public_key.as_deref() == Some(&third))
    };
    world.wait_machine(other, is_back).await?;
    let all = world
        .until_members(|all| key(all, other) == json!(third))
        .await?;
    assert_eq!(all[other]["address"], before);
    // Who goes is no member any more.
    machines.delete(other, &DeleteParams::default()).await?;
    world.until_members(|all| !all.contains_key(other)).await?;
    world.replaced(other).await?;
    world
        .until_members(|all| all.len() == 2 && all.contains_key(one))
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlay_that_is_switched_off_goes_after_flannel_went_back_and_leaves_nothing() -> Result<()>
{
    let Some(world) = World::with_pool("overlay-off", 1).await? else {
        return Ok(());
    };
    let tenants = &world.site.tenants;
    let before = tenants.paths(&world.ns);
    world.site.change("demo", &overlay(true)).await?;
    world.until_members(|all| all.len() == 1).await?;
    let by_overlay =
        |found: Option<&Value>| found.is_some_and(|f| f.to_string().contains("--iface=covey0"));
    tenants
        .wait(&world.ns, FLANNEL, by_overlay, PATIENCE)
        .await?;

    world.site.change("demo", &overlay(false)).await?;
    tenants
        .wait(&world.ns, FLANNEL, |found| !by_overlay(found), PATIENCE)
        .await?;
    let held = |cluster: &api::TenantCluster| {
        let mut all = cluster.status.iter().flat_map(|status| &status.conditions);
        all.any(|c| c.type_ == "Progressing" && c.reason == "SwitchingOverlayOff")
    };
    world.site.wait("demo", held).await?;
    for path in [PROGRAM, MEMBERS] {
        assert!(tenants.object(&world.ns, path).is_some(), "{path}");
    }
    // flannel is of the newest template everywhere.
    let generation = tenants.object(&world.ns, FLANNEL).context("flannel")?;
    let generation = &generation["metadata"]["generation"];
    let status = json!({ "status": { "observedGeneration": generation } });
    assert!(tenants.change(&world.ns, FLANNEL, &status));
    let gone = |found: Option<&Value>| found.is_none();
    tenants.wait(&world.ns, PROGRAM, gone, PATIENCE).await?;
    let without = |machine: &api::Machine| {
        machine
            .status
            .as_ref()
            .is_some_and(|status| status.overlay.is_none())
    };
    for name in world.names().await? {
        world.wait_machine(&name, without).await?;
    }
    world.operator.settle(&world.site, "demo").await?;
    assert_eq!(tenants.paths(&world.ns), before);
    Ok(())
}

/// What the operator lays, on a real API server: it takes it, and the policies hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_that_are_laid_keep_a_nodes_token_from_other_nodes() -> Result<()> {
    let Some(world) = World::with_pool("overlay-policies", 1).await? else {
        return Ok(());
    };
    world.site.change("demo", &overlay(true)).await?;
    world.until_members(|all| all.len() == 1).await?;
    let Some(tenant) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let admin = tenant.admin()?;
    let tenants = &world.site.tenants;
    let laid = tenants.paths(&world.ns).into_iter();
    let laid = laid.filter_map(|path| tenants.object(&world.ns, &path));
    let mut laid: Vec<_> = laid
        .filter(|object| object["metadata"]["labels"][names::LABEL_ADDON] == "overlay")
        .collect();
    assert_eq!(laid.len(), 11);
    for object in &mut laid {
        let metadata = object["metadata"].as_object_mut().context("metadata")?;
        metadata.retain(|field, _| ["name", "namespace", "labels"].contains(&field.as_str()));
        if let Some(all) = object.as_object_mut() {
            all.remove("status");
        }
        apply(&admin, object)
            .await
            .with_context(|| object.to_string())?;
    }
    let nodes = Api::<Node>::all(admin.clone());
    for name in ["a", "b"] {
        let node = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        nodes.create(&PostParams::default(), &node).await?;
    }
    let mut config = tenant.config_as("nobody", &[])?;
    config.auth_info = AuthInfo {
        token: Some(tokens::of_pod(&admin, ACCOUNT, "a").await?.into()),
        ..AuthInfo::default()
    };
    let nodes = Api::<Node>::all(Client::try_from(config)?);
    let key = json!({ "metadata": { "annotations": { names::ANNOTATION_OVERLAY_KEY: A } } });
    let say = async |node: &str| {
        let patch = Patch::Merge(&key);
        nodes.patch(node, &PatchParams::default(), &patch).await
    };
    ask_until(
        "another node's annotations are refused",
        PATIENCE,
        || async {
            Ok(match say("b").await {
                Err(Error::Api(status)) if status.message.contains("alone that it runs on") => {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            })
        },
    )
    .await?;
    let own = say("a").await?;
    assert_eq!(own.annotations()[names::ANNOTATION_OVERLAY_KEY], A);
    Ok(())
}
