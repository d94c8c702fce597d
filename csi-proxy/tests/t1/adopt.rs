//! `csi-proxy adopt` between two real clusters with Kubernetes' own controllers of volumes: the test plays
//! what the KubeVirt CSI driver and CDI left, and nothing of what follows.
//!
//! Invariant: the management cluster's PersistentVolume, behind which the data is, is the same object from
//! beginning to end, and never without Retain while it is without its claim.
//!
//! Long because the objects of both drivers, in both clusters, are written out once for both tests.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use csi_proxy::adopt::apply::Clients;
use csi_proxy::adopt::{DRIVER, Settings};
use csi_proxy::names;
use csi_proxy::run::adopt::adopt;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use proto::csi::ValidateVolumeCapabilitiesRequest;
use serde_json::{Value, json};
use testkit::fakes::kubevirt::{FakeKubeVirt, Selection};
use testkit::faults::{Crash, Deaths, Ledger};
use testkit::fixtures::wait_for;
use testkit::{FaultPlan, ManagementApi, Options};

use crate::support::{Driver, Environment, PATIENCE};

/// What makes volumes live: binding, protection of what is in use, and what goes with its owner.
const CONTROLLERS: &[&str] = &[
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "garbage-collector-controller",
];
const SOURCE: &str = "kubevirt-csi";
/// Volumes whose adoption is broken off side by side: most of the time each waits for Kubernetes.
const SIDE_BY_SIDE: usize = 4;

/// Both clusters.
struct Stage {
    environment: Environment,
    tenant: ManagementApi,
    inside: Client,
}

impl Stage {
    async fn new() -> Result<Option<Self>> {
        kit_client::crypto::install_crypto();
        let Some(management) = ManagementApi::start().await? else {
            return Ok(None);
        };
        let tenant = ManagementApi::start_with(Options::default()).await?;
        let tenant = tenant.context("the programs were there a moment ago")?;
        management.install_kinds().await?;
        management.install_crd(&data_volumes()?).await?;
        // The garbage collector looks for new kinds every 30 s.
        management.with_controller_manager(CONTROLLERS).await?;
        tenant.with_controller_manager(CONTROLLERS).await?;
        let environment = Environment::on(Arc::new(management), "adopt").await?;
        let stage = Self {
            inside: tenant.admin()?,
            environment,
            tenant,
        };
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SOURCE } });
        stage.environment.apply(&namespace).await?;
        Ok(Some(stage))
    }

    /// A volume as the old driver leaves it: in the tenant cluster the claim `data-<name>`, in the
    /// management cluster a DataVolume with its claim; both are bound by Kubernetes.
    async fn volume(&self, namespace: &str, name: &str) -> Result<()> {
        self.volume_of(DRIVER, namespace, name).await
    }

    /// The same of a driver of another name, which only its own run adopts.
    async fn volume_of(&self, driver: &str, namespace: &str, name: &str) -> Result<()> {
        let (handle, store) = (format!("pvc-{name}"), format!("store-{name}"));
        let admin = &self.environment.admin;
        let labels = json!({ "csi-driver/cluster": "demo" });
        let owner = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
            "metadata": { "name": handle, "namespace": namespace, "labels": labels },
            "spec": { "source": { "blank": {} }, "storage": {} },
        });
        kit_client::write::apply(admin, &owner, "cdi", true).await?;
        let kind = kit_objects::kinds::DATA_VOLUME.resource();
        let owners: Api<DynamicObject> = Api::namespaced_with(admin.clone(), namespace, &kind);
        let uid = owners.get(&handle).await?.uid().unwrap_or_default();
        let claim = |class: &str, mode: &str, access: &str, volume: &str, size: &str| {
            json!({
                "accessModes": [access], "storageClassName": class, "volumeMode": mode,
                "volumeName": volume, "resources": { "requests": { "storage": size } },
            })
        };
        let mut source = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": handle, "namespace": namespace, "labels": labels, "ownerReferences": [{
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": handle, "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }] },
        });
        source["spec"] = claim("ceph", "Block", "ReadWriteMany", &store, "1Gi");
        let outside = persistent_volume(
            &store,
            "ceph",
            "Block",
            "ReadWriteMany",
            namespace,
            &handle,
            &json!({
                "driver": "rbd.csi.ceph.com", "volumeHandle": format!("image-{name}"),
            }),
        );
        let mut mine = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": format!("data-{name}"), "namespace": "default", "labels": { "app": "db" },
                "annotations": { "team": "one" },
            },
        });
        mine["spec"] = claim("kubevirt", "Filesystem", "ReadWriteOnce", &handle, "1Gi");
        let csi = json!({
            "driver": driver, "volumeHandle": handle, "fsType": "ext4",
            "volumeAttributes": { "bus": "scsi", "serial": uid },
        });
        let data = format!("data-{name}");
        let inside = persistent_volume(
            &handle,
            "kubevirt",
            "Filesystem",
            "ReadWriteOnce",
            "default",
            &data,
            &csi,
        );
        for (client, objects) in [(admin, [outside, source]), (&self.inside, [inside, mine])] {
            for object in objects {
                kit_client::write::apply(client, &object, "old", true).await?;
            }
        }
        bound(admin, namespace, &handle).await?;
        bound(&self.inside, "default", &data).await
    }

    /// What a run is told that adopts the volumes of a driver.
    fn settings(&self, driver: &str) -> Settings {
        Settings {
            driver: driver.to_owned(),
            namespace: SOURCE.to_owned(),
            labels: [("csi-driver/cluster".to_owned(), "demo".to_owned())].into(),
            classes: Default::default(),
            to: self.environment.settings(),
        }
    }

    /// Clients of both clusters that die by the plan.
    fn clients(&self, plan: &FaultPlan) -> Result<Clients> {
        let client = |api: &ManagementApi| -> Result<Client> {
            let config = api.config_as("admin", &["system:masters"])?;
            let (args, requests) = (ClientArgs::default(), RequestCounter::new());
            Ok(kit_client::connect::build(
                config,
                &args,
                &requests,
                &plan.layer(),
            )?)
        };
        Ok(Clients {
            tenant: client(&self.tenant)?,
            management: client(&self.environment.management)?,
        })
    }

    /// A volume is adopted by one that dies, and then by one that knows nothing of the first. Gives whether
    /// it died.
    async fn life(&self, crash: Crash) -> Result<bool> {
        let name = match crash {
            Crash::Never => "never".to_owned(),
            Crash::Before(k) => format!("before-{k}"),
            Crash::After(k) => format!("after-{k}"),
        };
        let driver = format!("{name}.csi.example.com");
        self.volume_of(&driver, SOURCE, &name).await?;
        let (store, settings) = (self.store(&name).await?, self.settings(&driver));

        let plan = FaultPlan::none();
        plan.arm(crash);
        let mortal = self.clients(&plan)?;
        tokio::select! {
            biased;
            () = plan.crashed() => {}
            done = adopt(&mortal, &settings, Some(PATIENCE)) => drop(done),
        }
        self.kept(&name, &store).await?;

        let healthy = self.clients(&FaultPlan::none())?;
        let (lines, failures) = adopt(&healthy, &settings, Some(PATIENCE)).await?;
        ensure!(failures.is_empty(), "{failures:?} {lines:?}");
        let adopted = Box::pin(self.adopted(&name, &store)).await;
        adopted.with_context(|| format!("{lines:?}"))?;

        let after = FaultPlan::none();
        adopt(&self.clients(&after)?, &settings, Some(PATIENCE)).await?;
        ensure!(after.writes() == 0, "a run after the last one writes");
        Ok(plan.is_crashed())
    }

    /// The storage is the same object, and has its claim or stays without one.
    async fn kept(&self, name: &str, store: &PersistentVolume) -> Result<()> {
        let now = self.store(name).await?;
        let claims: Api<PersistentVolumeClaim> = Api::all(self.environment.admin.clone());
        let claims = claims.list(&ListParams::default()).await?;
        let spec = now.spec.clone().unwrap_or_default();
        let holder = spec.claim_ref.and_then(|claim| claim.uid);
        let has_claim = claims.iter().any(|claim| {
            holder.is_some() && claim.uid() == holder && claim.metadata.deletion_timestamp.is_none()
        });
        let is_kept = spec.persistent_volume_reclaim_policy.as_deref() == Some("Retain");
        ensure!(
            now.uid() == store.uid()
                && now.metadata.deletion_timestamp.is_none()
                && (has_claim || is_kept),
            "{now:?}"
        );
        Ok(())
    }

    /// Runs the program; its volumes and whether it succeeded.
    async fn run(&self, source: &str, further: &[&str]) -> Result<(Vec<Value>, bool)> {
        let offer = serde_json::to_string(&self.environment.settings().offer)?;
        let path = |path: &Path| path.display().to_string();
        let mut flags = vec![
            "adopt".to_owned(),
            format!("--tenant-kubeconfig={}", path(self.tenant.kubeconfig())),
            format!(
                "--management-kubeconfig={}",
                path(self.environment.management.kubeconfig())
            ),
            format!("--namespace={}", self.environment.ns),
            format!("--cluster-uid={}", self.environment.uid),
            format!("--offer={offer}"),
            format!("--source-namespace={source}"),
            "--source-labels=csi-driver/cluster=demo".to_owned(),
            "--output=json".to_owned(),
        ];
        flags.extend(further.iter().map(|&flag| flag.to_owned()));
        let program = env!("CARGO_BIN_EXE_csi-proxy");
        let ran = tokio::task::spawn_blocking(move || {
            std::process::Command::new(program).args(flags).output()
        });
        let ran = ran.await??;
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let volumes = serde_json::from_slice(&ran.stdout);
        Ok((
            volumes.with_context(|| format!("it said {said}"))?,
            ran.status.success(),
        ))
    }

    /// All volumes and claims of both clusters, with their versions.
    async fn everything(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for client in [&self.environment.admin, &self.inside] {
            let volumes: Api<PersistentVolume> = Api::all(client.clone());
            let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
            let volumes = volumes.list(&ListParams::default()).await?;
            all.extend(
                volumes
                    .iter()
                    .map(|v| format!("{} {:?}", v.name_any(), v.resource_version())),
            );
            let claims = claims.list(&ListParams::default()).await?;
            all.extend(
                claims
                    .iter()
                    .map(|c| format!("{} {:?}", c.name_any(), c.resource_version())),
            );
        }
        Ok(all)
    }

    async fn store(&self, name: &str) -> Result<PersistentVolume> {
        let volumes: Api<PersistentVolume> = Api::all(self.environment.admin.clone());
        Ok(volumes.get(&format!("store-{name}")).await?)
    }

    /// Everything of a volume is ours, around the storage that it had.
    async fn adopted(&self, name: &str, store: &PersistentVolume) -> Result<PersistentVolumeClaim> {
        let (id, data) = (format!("vol-pvc-{name}"), format!("data-{name}"));
        let now = self.store(name).await?;
        ensure!(
            now.uid() == store.uid() && now.metadata.deletion_timestamp.is_none(),
            "{now:?}"
        );
        let spec = now.spec.unwrap();
        assert_eq!(
            spec.persistent_volume_reclaim_policy.as_deref(),
            Some("Delete")
        );
        assert_eq!(spec.csi, store.spec.as_ref().unwrap().csi);
        bound(&self.environment.admin, &self.environment.ns, &id).await?;
        let claim = self.environment.claims().get(&id).await?;
        assert_eq!(spec.claim_ref.unwrap().uid, claim.uid());
        bound(&self.inside, "default", &data).await?;
        let mine: Api<PersistentVolumeClaim> = Api::namespaced(self.inside.clone(), "default");
        let mine = mine.get(&data).await?;
        assert_eq!(
            (
                mine.labels()["app"].as_str(),
                mine.annotations()["team"].as_str()
            ),
            ("db", "one")
        );
        assert_eq!(mine.spec.unwrap().volume_name, Some(id.clone()));
        let inside: Api<PersistentVolume> = Api::all(self.inside.clone());
        let volume = inside.get(&id).await?.spec.unwrap();
        assert_eq!(
            volume.persistent_volume_reclaim_policy.as_deref(),
            Some("Delete")
        );
        assert_eq!(volume.csi.unwrap().driver, names::DRIVER);
        wait_for(
            &inside,
            &format!("pvc-{name}"),
            |old| old.is_none(),
            PATIENCE,
        )
        .await?;
        Ok(claim)
    }
}

fn persistent_volume(
    name: &str,
    class: &str,
    mode: &str,
    access: &str,
    namespace: &str,
    claim: &str,
    csi: &Value,
) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "accessModes": [access], "capacity": { "storage": "1Gi" }, "volumeMode": mode,
            "claimRef": { "namespace": namespace, "name": claim }, "csi": csi,
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": class,
        },
    })
}

async fn bound(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let is = |claim: Option<&PersistentVolumeClaim>| {
        claim.is_some_and(|c| {
            c.status
                .as_ref()
                .is_some_and(|s| s.phase.as_deref() == Some("Bound"))
        })
    };
    wait_for(&claims, name, is, PATIENCE).await.map(drop)
}

/// CDI's kind, as far as it matters here.
fn data_volumes() -> Result<CustomResourceDefinition> {
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": "datavolumes.cdi.kubevirt.io" },
        "spec": {
            "group": "cdi.kubevirt.io", "scope": "Namespaced",
            "names": { "kind": "DataVolume", "plural": "datavolumes", "singular": "datavolume" },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any } } },
            }],
        },
    }))?)
}

fn of<'a>(volumes: &'a [Value], claim: &str) -> &'a Value {
    volumes
        .iter()
        .find(|v| v["claim"] == format!("default/data-{claim}"))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_of_the_old_driver_are_attached_by_ours() -> Result<()> {
    let Some(stage) = Stage::new().await? else {
        return Ok(());
    };
    let ns = stage.environment.ns.clone();
    stage.volume(SOURCE, "a").await?;
    stage.volume(SOURCE, "used").await?;
    stage.volume(&ns, "same").await?;
    let (a, used, same) = (
        stage.store("a").await?,
        stage.store("used").await?,
        stage.store("same").await?,
    );
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "csi-used" },
        "spec": { "attacher": "csi.kubevirt.io", "nodeName": "n1", "source": {
            "persistentVolumeName": "pvc-used",
        } },
    });
    kit_client::write::apply(&stage.inside, &attachment, "old", true).await?;

    // Without --apply it looks, and writes nothing.
    let before = stage.everything().await?;
    let (volumes, success) = stage.run(SOURCE, &[]).await?;
    assert!(
        success && of(&volumes, "a")["state"] == "Planned",
        "{volumes:?}"
    );
    assert_eq!(stage.everything().await?, before);

    // One that is in use, and one whose claim is not in this namespace, hold up no other.
    let (volumes, success) = stage.run(SOURCE, &["--apply"]).await?;
    assert!(!success, "{volumes:?}");
    assert_eq!(of(&volumes, "a")["state"], "Adopted", "{volumes:?}");
    assert!(
        of(&volumes, "used")["next"]
            .as_str()
            .unwrap()
            .contains("attached to node n1"),
        "{volumes:?}"
    );
    assert!(
        of(&volumes, "same")["next"]
            .as_str()
            .unwrap()
            .contains("--source-namespace"),
        "{volumes:?}"
    );
    let claim = Box::pin(stage.adopted("a", &a)).await?;

    let attachments: Api<k8s_openapi::api::storage::v1::VolumeAttachment> =
        Api::all(stage.inside.clone());
    attachments
        .delete("csi-used", &DeleteParams::default())
        .await?;
    stage.run(SOURCE, &["--apply"]).await?;
    Box::pin(stage.adopted("used", &used)).await?;
    // Claims may be in the very namespace, too.
    let (volumes, success) = stage.run(&ns, &["--apply"]).await?;
    assert!(success, "{volumes:?}");
    Box::pin(stage.adopted("same", &same)).await?;
    let before = stage.everything().await?;
    let (volumes, success) = stage.run(&ns, &["--apply"]).await?;
    assert!(
        success && volumes.iter().all(|v| v["state"] == "Adopted"),
        "{volumes:?}"
    );
    assert_eq!(
        stage.everything().await?,
        before,
        "a second run writes nothing"
    );

    // And our driver takes it for its own.
    let environment = &stage.environment;
    let _kubevirt = FakeKubeVirt::start(&environment.admin, &Selection::namespace(&ns), |_| {});
    let driver = Driver::start(environment).await?;
    let id = claim.name_any();
    let request = ValidateVolumeCapabilitiesRequest {
        volume_id: id.clone(),
        volume_capabilities: vec![crate::support::driver::mount()],
        ..Default::default()
    };
    let mut controller = driver.controller();
    let validated = controller.validate_volume_capabilities(request).await?;
    assert!(validated.into_inner().confirmed.is_some());
    environment.machine("w").await?;
    assert_eq!(
        driver.publish(&id, "w").await?,
        names::serial(&claim.uid().unwrap())
    );
    environment
        .instance("w", |instance| instance.is_ready(&id))
        .await?;
    driver.unpublish(&id, "w").await.map_err(Into::into)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_at_any_write_is_followed_by_one_that_goes_on() -> Result<()> {
    let Some(stage) = Stage::new().await? else {
        return Ok(());
    };
    let ledger = Ledger::new(Deaths::asked_for());
    let lives = (0..SIDE_BY_SIDE).map(|_| {
        Box::pin(async {
            while let Some(crash) = ledger.next() {
                let died = stage.life(crash).await;
                let died = died.with_context(|| format!("died at the write {crash:?}"))?;
                ledger.ended(crash, died);
            }
            anyhow::Ok(())
        })
    });
    try_join_all(lives).await?;
    let [_, after] = ledger.outlived();
    eprintln!("died after each of {} writes", after - 1);
    ensure!(after > 10, "it died after {} writes only", after - 1);
    Ok(())
}
