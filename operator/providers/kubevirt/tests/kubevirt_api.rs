//! The calls of the KubeVirt provider, on a real kube-apiserver that has KubeVirt's definitions and
//! nobody who acts on them.
//!
//! Invariant: each test has a tenant namespace of its own.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use anyhow::{Context as _, Result};
use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::node_pool::ProviderKind;
use api::{Machine, names};
use kit_client::errors::{Class, Classify as _};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use provider_kubevirt::provider::KubeVirt;
use providers::{Checked, Error, FaultKind, Presence, Proof, Provider, Providers, Scope, State};
use serde_json::{Value, json};
use tenant_cp::settings::KubeVirtSettings;
use testkit::ManagementApi;

const MANAGER: &str = "covey-operator";
const GONE: Presence = Presence::Absent(Proof::Authoritative);

struct World {
    client: Client,
    provider: KubeVirt,
    machine: Machine,
    namespace: String,
    cluster: String,
}

impl World {
    /// A tenant namespace in the server that all tests share.
    async fn new(cluster: &str) -> Result<Option<Self>> {
        match ManagementApi::bare().await? {
            Some(api) => Self::on(api.admin()?, &api.name(cluster)).await.map(Some),
            None => Ok(None),
        }
    }

    async fn on(client: Client, cluster: &str) -> Result<Self> {
        let namespace = names::tenant_namespace(cluster, "12345");
        let object: Value = json!({"metadata": {"name": namespace}});
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(object)?;
        namespaces.create(&PostParams::default(), &object).await?;
        let provider = KubeVirt::new(client.clone(), KubeVirtSettings::default(), MANAGER);
        Ok(Self {
            client,
            provider,
            machine: machine(cluster, "workers-a", "uid-1"),
            namespace,
            cluster: cluster.to_owned(),
        })
    }

    fn vms(&self) -> Api<VirtualMachine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn scope(&self) -> Scope {
        Scope::TenantNamespace(self.namespace.clone())
    }

    fn instances(&self) -> Api<VirtualMachineInstance> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// What KubeVirt would make of the machine's VirtualMachine.
    async fn start(&self) -> Result<()> {
        let vm = self.vms().get(&self.machine.name_any()).await?;
        let instance = json!({
            "metadata": {"name": vm.name_any(), "labels": vm.labels()},
            "spec": {},
            "status": {"phase": "Running"},
        });
        let instance = serde_json::from_value(instance)?;
        self.instances()
            .create(&PostParams::default(), &instance)
            .await?;
        Ok(())
    }
}

fn machine(cluster: &str, name: &str, uid: &str) -> Machine {
    let spec = json!({
        "clusterName": cluster, "clusterUID": "12345", "poolName": "workers",
        "version": "1.35.4", "provider": {"kubevirt": {"memory": "1Gi"}},
    });
    let mut machine = Machine::new(name, serde_json::from_value(spec).unwrap());
    machine.metadata.namespace = Some("team-a".to_owned());
    machine.metadata.uid = Some(uid.to_owned());
    freeze(&mut machine, &KubeVirtSettings::default());
    machine
}

/// Stores what is asked for, as it is before anything is made.
fn freeze(machine: &mut Machine, settings: &KubeVirtSettings) {
    let request = provider_kubevirt::virtual_machine::request(machine, settings).unwrap();
    machine.status.get_or_insert_default().request = Some(request);
}

#[tokio::test]
async fn a_machine_is_made_once_described_and_deleted() -> Result<()> {
    let Some(world) = World::new("life").await? else {
        return Ok(());
    };
    let (provider, machine) = (&world.provider, &world.machine);
    assert_eq!(provider.describe(machine, None).await?, GONE);
    provider.delete(machine).await?;
    provider.create(machine).await?;
    let made = world.vms().get("workers-a").await?;
    provider.create(machine).await?;
    let again = world.vms().get("workers-a").await?;
    assert_eq!(again.resource_version(), made.resource_version());
    let seen = provider
        .describe(machine, None)
        .await?
        .present()
        .context("it is there")?;
    assert_eq!((seen.state, seen.foreign), (State::Creating, false));

    world.start().await?;
    let seen = provider
        .describe(machine, None)
        .await?
        .present()
        .context("it is there")?;
    assert_eq!(seen.state, State::Running);
    let instance = world.instances().get("workers-a").await?;
    assert_eq!(seen.instance, instance.uid());
    let listed = provider.list(&world.scope()).await?;
    assert!(listed.complete);
    let listed = listed.machines;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].machine_uid, "uid-1");

    // Nobody plays KubeVirt: the VirtualMachine goes, its instance stays, and only then is deleted.
    provider.delete(machine).await?;
    assert!(world.vms().get_opt("workers-a").await?.is_none());
    let seen = provider
        .describe(machine, None)
        .await?
        .present()
        .context("the instance is there")?;
    assert!(matches!(seen.state, State::Failing { .. }), "{seen:?}");
    provider.delete(machine).await?;
    assert_eq!(provider.describe(machine, None).await?, GONE);
    Ok(())
}

#[tokio::test]
async fn every_field_that_is_sent_is_one_that_kubevirt_knows() -> Result<()> {
    let Some(world) = World::new("fields").await? else {
        return Ok(());
    };
    let settings = KubeVirtSettings {
        nameservers: vec!["192.0.2.53".parse()?],
        ..KubeVirtSettings::default()
    };
    let provider = KubeVirt::new(world.client.clone(), settings.clone(), MANAGER);
    let mut machine = world.machine.clone();
    machine.spec.provider = serde_json::from_value(json!({"kubevirt": {
        "cpu": 4, "memory": "8Gi", "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "example.com/gpus"}],
        "dedicatedCpus": true, "hugePages": "1Gi",
        "gpus": [{"deviceName": "nvidia.com/TU104GL_Tesla_T4", "count": 2}],
        "hostDevices": [{"deviceName": "intel.com/qat"}],
    }}))?;
    freeze(&mut machine, &settings);
    provider.create(&machine).await?;
    let resource = kube::api::ApiResource::erase::<VirtualMachine>(&());
    let raw =
        Api::<DynamicObject>::namespaced_with(world.client.clone(), &world.namespace, &resource);
    // What it does not know would have been dropped.
    let stored = raw.get("workers-a").await?;
    let sent = provider_kubevirt::virtual_machine::virtual_machine(&machine, &settings)?;
    assert_eq!(stored.data["spec"], serde_json::to_value(&sent.spec)?);
    let managers = stored.metadata.managed_fields.unwrap_or_default();
    let manager = managers.first().and_then(|m| m.manager.as_deref());
    assert_eq!(manager, Some(MANAGER));
    Ok(())
}

#[tokio::test]
async fn what_is_not_this_machines_is_neither_taken_nor_deleted() -> Result<()> {
    let Some(world) = World::new("foreign").await? else {
        return Ok(());
    };
    world.provider.create(&world.machine).await?;
    world.start().await?;
    let namesake = machine(&world.cluster, "workers-a", "uid-2");
    let error = world.provider.create(&namesake).await.unwrap_err();
    assert_eq!(
        (error.reason().as_str(), error.class()),
        ("NameTaken", Class::Invalid)
    );
    let seen = world.provider.describe(&namesake, None).await?.present();
    assert!(seen.is_some_and(|seen| seen.foreign));
    world.provider.delete(&namesake).await?;
    assert!(world.vms().get_opt("workers-a").await?.is_some());
    assert!(world.instances().get_opt("workers-a").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_deletion_under_way_is_not_asked_for_again() -> Result<()> {
    let Some(world) = World::new("going").await? else {
        return Ok(());
    };
    world.provider.create(&world.machine).await?;
    // As KubeVirt does, until the instance is gone.
    let finalizer = json!({"metadata": {"finalizers": ["kubevirt.io/test"]}});
    let finalizer = Patch::Merge(&finalizer);
    let params = PatchParams::default();
    world.vms().patch("workers-a", &params, &finalizer).await?;
    world.provider.delete(&world.machine).await?;
    let going = world.vms().get("workers-a").await?;
    assert!(going.metadata.deletion_timestamp.is_some());
    world.provider.delete(&world.machine).await?;
    let still = world.vms().get("workers-a").await?;
    assert_eq!(still.resource_version(), going.resource_version());
    let seen = world
        .provider
        .describe(&world.machine, None)
        .await?
        .present();
    assert!(seen.is_some_and(|seen| seen.deleting));
    Ok(())
}

#[tokio::test]
async fn a_management_cluster_without_kubevirt_says_so() -> Result<()> {
    let Some(api) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let world = World::on(api.admin()?, "none").await?;
    let (provider, machine) = (&world.provider, &world.machine);
    let errors = [
        provider
            .check("team-a", &machine.spec.provider)
            .await
            .unwrap_err(),
        provider.create(machine).await.unwrap_err(),
        provider.describe(machine, None).await.unwrap_err(),
        provider.delete(machine).await.unwrap_err(),
        provider.list(&world.scope()).await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(error, Error::NotInstalled("KubeVirt")),
            "{error:?}"
        );
        assert_eq!(error.class(), Class::Invalid);
        assert!(error.to_string().contains("install it"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_check_says_whether_machines_could_be_made_and_makes_none() -> Result<()> {
    let Some(world) = World::new("check").await? else {
        return Ok(());
    };
    let wanted = &world.machine.spec.provider;
    assert_eq!(
        world.provider.check("team-a", wanted).await?,
        Checked::default()
    );
    assert!(
        world
            .vms()
            .list(&ListParams::default())
            .await?
            .items
            .is_empty()
    );
    let off = KubeVirtSettings {
        enabled: false,
        ..KubeVirtSettings::default()
    };
    let off = KubeVirt::new(world.client.clone(), off, MANAGER);
    let error = off.check("team-a", wanted).await.unwrap_err();
    assert!(matches!(error, Error::NotConfigured(_)), "{error:?}");
    let error = world
        .provider
        .check("team-a", &Default::default())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoneNamed), "{error:?}");
    Ok(())
}

/// Its root disk begins anew with each instance, so there is nothing that a restart would keep.
#[tokio::test]
async fn a_restart_is_refused_and_touches_nothing() -> Result<()> {
    let Some(world) = World::new("restart").await? else {
        return Ok(());
    };
    world.provider.create(&world.machine).await?;
    world.start().await?;
    let before = world.instances().get("workers-a").await?;
    assert!(!world.provider.capabilities().restarts);
    let error = world.provider.restart(&world.machine).await.unwrap_err();
    assert!(
        matches!(error, Error::NotSupported { verb: "restart" }),
        "{error:?}"
    );
    assert_eq!(error.fault(), FaultKind::Terminal);
    let after = world.instances().get("workers-a").await?;
    assert_eq!(after.resource_version(), before.resource_version());
    Ok(())
}

#[tokio::test]
async fn a_tenant_namespace_that_is_not_there_is_not_a_missing_kubevirt() -> Result<()> {
    let Some(world) = World::new("somewhere").await? else {
        return Ok(());
    };
    let elsewhere = machine("elsewhere", "workers-a", "uid-1");
    let error = world.provider.create(&elsewhere).await.unwrap_err();
    assert_eq!(error.class(), Class::Transient, "{error:?}");
    assert_eq!(world.provider.describe(&elsewhere, None).await?, GONE);
    Ok(())
}

#[tokio::test]
async fn a_pool_gets_the_provider_that_it_names() -> Result<()> {
    let Some(world) = World::new("names").await? else {
        return Ok(());
    };
    let wanted = &world.machine.spec.provider;
    let none = Providers::default();
    let error = none.get(wanted).err().context("there is none")?;
    assert_eq!(error.reason(), "ProviderNotConfigured");
    let known = none.with(ProviderKind::KubeVirt, std::sync::Arc::new(world.provider));
    let provider = known.get(wanted)?;
    let id = provider.provider_id(&world.machine);
    assert_eq!(id.as_deref(), Some("kubevirt://workers-a"));
    assert!(provider.capabilities().id_before_create);
    assert_eq!(provider.offerings("team-a", wanted)?[0].memory.0, "1Gi");
    Ok(())
}
