//! The provider on an API in memory: claims, of which one wins, and releases.
//!
//! Invariant: what happens to Hosts' machines is not played here (`src/life/tests`); Hosts change by the provider's
//! writes and by those that a test makes in the place of their controller.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use anyhow::{Context as _, Result};
use api::host::HostPhase;
use api::machine::MachineRequest;
use api::{Host, Machine, names};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use provider_static::life::choose;
use provider_static::programs::Archives;
use provider_static::provider::Static;
use providers::{Error, FaultKind, Presence, Proof, Provider, Scope};
use serde_json::{Value, json};
use testkit::memory::Memory;

const MANAGER: &str = "covey-operator";
const TEAM: &str = "team-a";
const GONE: Presence = Presence::Absent(Proof::Authoritative);

struct World {
    client: Client,
    provider: Static,
}

impl World {
    async fn new() -> Result<Self> {
        let client = Memory::new().admin();
        let team = serde_json::from_value(json!({"metadata": {"name": TEAM}}))?;
        let namespaces = Api::<Namespace>::all(client.clone());
        namespaces.create(&PostParams::default(), &team).await?;
        Ok(Self {
            provider: Static::new(client.clone(), (true, Archives::default()), MANAGER),
            client,
        })
    }

    fn hosts(&self) -> Api<Host> {
        Api::namespaced(self.client.clone(), TEAM)
    }

    /// A Host that is Available since then.
    async fn lists(&self, name: &str, since: &str, spec: Value) -> Result<()> {
        let last: usize = name.bytes().map(usize::from).sum();
        let address = format!("192.0.2.{}", last % 250);
        let mut whole = json!({"address": address, "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let host = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": {"name": name, "namespace": TEAM, "finalizers": [names::FINALIZER_HOST]},
            "spec": whole,
        }))?;
        let made = self.hosts().create(&PostParams::default(), &host).await?;
        let conditions: Vec<_> = ["Clean", "Reachable", "Verified"]
            .into_iter()
            .map(|type_| {
                json!({"type": type_, "status": "True", "reason": "AsExpected", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let status = json!({
            "phase": "Available", "availableSince": since, "observedGeneration": made.metadata.generation,
            "conditions": conditions,
            "facts": {"machineID": format!("id-{name}"), "hostKey": format!("key-{name}"), "architecture": "amd64",
                "cpu": 8, "memory": "16000Mi", "os": "debian 12", "kernel": "6.1.0", "cgroup2": true, "tun": true,
                "kubelet": "1.35.4"},
        });
        self.says(name, &status).await
    }

    /// Writes a status, as the controller of Hosts does.
    async fn says(&self, name: &str, status: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": {"name": name, "namespace": TEAM}, "status": status,
        });
        let params = PatchParams::apply(MANAGER).force();
        let object = Patch::Apply(object);
        self.hosts().patch_status(name, &params, &object).await?;
        Ok(())
    }

    async fn phase(&self, name: &str) -> Result<Option<HostPhase>> {
        let host = self.hosts().get(name).await?;
        Ok(host.status.and_then(|status| status.phase))
    }

    async fn owner(&self, name: &str) -> Result<Option<String>> {
        let host = self.hosts().get(name).await?;
        let claim = host.status.and_then(|status| status.claim);
        Ok(claim.map(|claim| claim.machine_uid))
    }
}

fn machine(name: &str, selector: &Value) -> Machine {
    let mut machine: Machine = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": TEAM, "uid": format!("uid-{name}")},
        "spec": {"clusterName": "demo", "clusterUID": "0123456789ab", "poolName": "w", "version": "1.35.4",
            "provider": {"static": {"selector": selector}}},
    }))
    .unwrap();
    machine.status.get_or_insert_default().request = Some(MachineRequest::default());
    machine
}

#[tokio::test]
async fn machine_claims_the_host_that_was_unused_longest_and_gives_it_up() -> Result<()> {
    let world = World::new().await?;
    let (provider, machine) = (&world.provider, machine("w-1", &json!({})));
    assert_eq!(provider.describe(&machine, None).await?, GONE);
    provider.delete(&machine).await?;
    world
        .lists("young", "2026-01-02T00:00:00Z", json!({}))
        .await?;
    world
        .lists("old", "2026-01-01T00:00:00Z", json!({}))
        .await?;
    for _ in 0..2 {
        let made = provider.create(&machine).await?;
        assert!(matches!(made, Presence::Present(_)), "{made:?}");
        assert_eq!(world.owner("old").await?.as_deref(), Some("uid-w-1"));
        assert_eq!(
            world.owner("young").await?,
            None,
            "asked again it is the same"
        );
    }
    assert_eq!(world.phase("old").await?, Some(HostPhase::Claimed));
    let there = provider.describe(&machine, None).await?.present();
    assert_eq!(
        there.context("gone")?.provider_id,
        None,
        "nobody has asked the machine"
    );
    provider.delete(&machine).await?;
    assert_eq!(world.phase("old").await?, Some(HostPhase::Resetting));
    let there = provider.describe(&machine, None).await?.present();
    assert!(there.context("gone")?.deleting);
    provider.delete(&machine).await?;
    Ok(())
}

#[tokio::test]
async fn of_two_machines_that_ask_at_once_each_gets_a_host_of_its_own() -> Result<()> {
    let world = World::new().await?;
    for name in ["a", "b"] {
        world.lists(name, "2026-01-01T00:00:00Z", json!({})).await?;
    }
    let (one, two) = (machine("w-1", &json!({})), machine("w-2", &json!({})));
    let both = tokio::try_join!(world.provider.create(&one), world.provider.create(&two));
    both?;
    let mut owners = [world.owner("a").await?, world.owner("b").await?];
    owners.sort();
    let expected = ["uid-w-1", "uid-w-2"].map(|uid| Some(uid.to_owned()));
    assert_eq!(owners, expected);
    Ok(())
}

#[tokio::test]
async fn claim_that_was_decided_on_an_older_state_is_refused() -> Result<()> {
    let world = World::new().await?;
    world.lists("a", "2026-01-01T00:00:00Z", json!({})).await?;
    let before = world.hosts().get("a").await?;
    world.provider.create(&machine("w-1", &json!({}))).await?;
    let late = choose::claim(&before, &machine("w-2", &json!({})), jiff::Timestamp::now());
    let object = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": {"name": "a", "namespace": TEAM, "resourceVersion": before.resource_version()},
        "status": late.context("it was free")?,
    });
    let params = PatchParams::apply(MANAGER).force();
    let written = world
        .hosts()
        .patch_status("a", &params, &Patch::Apply(object))
        .await;
    assert!(written.is_err(), "both have it");
    assert_eq!(world.owner("a").await?.as_deref(), Some("uid-w-1"));
    Ok(())
}

#[tokio::test]
async fn none_is_left_where_none_matches_and_nothing_was_made_by_that() -> Result<()> {
    let world = World::new().await?;
    world
        .lists(
            "a",
            "2026-01-01T00:00:00Z",
            json!({"labels": {"rack": "a"}}),
        )
        .await?;
    let maintained = json!({"labels": {"rack": "b"}, "maintenance": true});
    world.lists("b", "2026-01-01T00:00:00Z", maintained).await?;
    let machine = machine("w-1", &json!({"matchLabels": {"rack": "b"}}));
    let error = world.provider.create(&machine).await.unwrap_err();
    assert!(matches!(error, Error::NoneLeft(_)), "{error}");
    assert_eq!(error.fault(), FaultKind::Capacity { again: None });
    assert!(!error.fault().leaves_outcome_unknown());
    assert_eq!(world.owner("a").await?, None);
    Ok(())
}

#[tokio::test]
async fn nothing_is_claimed_without_a_request_or_where_it_is_switched_off() -> Result<()> {
    let world = World::new().await?;
    world.lists("a", "2026-01-01T00:00:00Z", json!({})).await?;
    let mut machine = machine("w-1", &json!({}));
    let off = Static::new(world.client.clone(), (false, Archives::default()), MANAGER);
    let error = off.create(&machine).await.unwrap_err();
    assert!(matches!(error, Error::NotConfigured("static")), "{error}");
    machine.status = None;
    let error = world.provider.create(&machine).await.unwrap_err();
    assert!(matches!(error, Error::NoRequest), "{error}");
    assert_eq!(world.owner("a").await?, None);
    Ok(())
}

#[tokio::test]
async fn list_has_the_machines_of_a_tenant_cluster_and_no_others() -> Result<()> {
    let world = World::new().await?;
    world.lists("a", "2026-01-01T00:00:00Z", json!({})).await?;
    world.lists("b", "2026-01-01T00:00:00Z", json!({})).await?;
    world.provider.create(&machine("w-1", &json!({}))).await?;
    let scope = |uid: &str| Scope::TenantNamespace(names::tenant_namespace("demo", uid));
    let own = world.provider.list(&scope("0123456789ab")).await?;
    assert!(own.complete);
    let found: Vec<_> = own
        .machines
        .iter()
        .map(|machine| machine.machine_uid.as_str())
        .collect();
    assert_eq!(found, ["uid-w-1"]);
    assert_eq!(
        world.provider.list(&scope("ba9876543210")).await?.machines,
        []
    );
    Ok(())
}

#[tokio::test]
async fn address_that_a_node_of_the_tenant_cluster_has_is_not_given_to_another_and_that_is_said()
-> Result<()> {
    let world = World::new().await?;
    let same = json!({"nodeAddress": "10.0.0.4"});
    world
        .lists("a", "2026-01-01T00:00:00Z", same.clone())
        .await?;
    world.lists("b", "2026-01-02T00:00:00Z", same).await?;
    let (one, two) = (machine("w-1", &json!({})), machine("w-2", &json!({})));
    let both = tokio::join!(world.provider.create(&one), world.provider.create(&two));
    let refused = match both {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
        both => anyhow::bail!("{both:?}"),
    };
    assert_eq!(refused.fault(), FaultKind::Capacity { again: None });
    let words = refused.to_string();
    assert!(
        words.contains("10.0.0.4") && words.contains("spec.nodeAddress"),
        "{words}"
    );
    // In another tenant cluster it is another network.
    let mut other = machine("w-3", &json!({}));
    other.spec.cluster_uid = "ba9876543210".to_owned();
    let made = world.provider.create(&other).await?;
    assert!(matches!(made, Presence::Present(_)), "{made:?}");
    Ok(())
}

#[tokio::test]
async fn machine_keeps_the_address_that_it_was_claimed_with() -> Result<()> {
    let world = World::new().await?;
    world
        .lists(
            "a",
            "2026-01-01T00:00:00Z",
            json!({"nodeAddress": "10.0.0.4"}),
        )
        .await?;
    let machine = machine("w-1", &json!({}));
    world.provider.create(&machine).await?;
    let moved = Patch::Merge(json!({"spec": {"nodeAddress": "10.0.0.5"}}));
    world
        .hosts()
        .patch("a", &PatchParams::default(), &moved)
        .await?;
    let there = world.provider.describe(&machine, None).await?.present();
    assert_eq!(there.context("gone")?.addresses[0].address, "10.0.0.4");
    Ok(())
}
