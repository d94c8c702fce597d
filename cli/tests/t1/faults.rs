//! The doctor and every fault that can be made without a lab: one at a time in an installation that is well. What the doctor
//! says first is the fault, what it says mends it mends it, and then it says nothing.
//!
//! Invariant: nothing reconciles here, so a fault is what the test writes into an object, and mending it is what the doctor
//! names, carried out by the test. Long because each fault is injected, told and mended by the same steps.

use anyhow::{Context as _, Result, ensure};
use api::names;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use testkit::fixtures::{self, wait_allowed};

use super::{MASTERS, Shell, condition};

const SYSTEM: &str = "covey-system";
const CLASS: &str = "storage.k8s.io/v1/StorageClass";
const CLUSTER: &str = "covey.dev/v1alpha1/TenantCluster";
const CLAIM: &str = "v1/PersistentVolumeClaim";
const POD: &str = "v1/Pod";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// When a certificate ends that is good for long.
const FAR: &str = "2099-01-01T00:00:00Z";

/// A change of one object.
struct Change {
    /// `group/version/Kind`, or `version/Kind` of the core group.
    kind: &'static str,
    namespace: Option<String>,
    name: String,
    is_status: bool,
    patch: Value,
}

/// Something that goes wrong.
struct Fault {
    /// The check that has to be the first to find it.
    check: &'static str,
    /// What its mend has to name.
    mend: &'static str,
    makes: Vec<Change>,
    mends: Vec<Change>,
}

/// An installation with the tenant cluster `demo`, all of which is well.
struct Place {
    client: Client,
    /// Who may write statuses of our kinds.
    operator: Client,
    /// The user's namespace.
    team: String,
    /// The tenant namespace.
    space: String,
    uid: String,
    /// Where something listens that takes connections.
    port: u16,
    /// In base64.
    authority: String,
}

impl Place {
    async fn set(&self, change: &Change) -> Result<()> {
        let client = match change.is_status && change.kind.starts_with("covey.dev/") {
            true => &self.operator,
            false => &self.client,
        };
        let (all, kind) = of(client, change.kind, change.namespace.as_deref());
        let params = PatchParams::default();
        let patch = &change.patch;
        let name = change.name.as_str();
        let written = match (change.is_status, kind) {
            (true, _) => all.patch_status(name, &params, &Patch::Merge(patch)).await,
            // Of its list the one of a name.
            (false, "ValidatingWebhookConfiguration") => {
                all.patch(name, &params, &Patch::Strategic(patch)).await
            }
            (false, _) => all.patch(name, &params, &Patch::Merge(patch)).await,
        };
        written.with_context(|| format!("change {} {name}", change.kind))?;
        Ok(())
    }

    /// A change of an object that is in no namespace.
    fn global(kind: &'static str, name: &str, patch: Value) -> Change {
        Change {
            kind,
            namespace: None,
            name: name.to_owned(),
            is_status: false,
            patch,
        }
    }

    /// A change of an object where the operator is.
    fn system(kind: &'static str, name: &str, patch: Value) -> Change {
        Change {
            namespace: Some(SYSTEM.to_owned()),
            ..Self::global(kind, name, patch)
        }
    }

    /// What the tenant cluster says of itself: that it is well, but for these conditions and fields.
    fn says(&self, but: &[(&str, &str)], fields: Value) -> Change {
        let well = [
            ("CertificatesReady", "CertificatesValid"),
            ("ControlPlaneReady", "PodsReady"),
            ("CoreDNSReady", "PodsReady"),
            ("EndpointReady", "HasAddress"),
            ("EtcdReady", "MembersReady"),
            ("KonnectivityReady", "PodsReady"),
            ("Ready", "ApiAnswers"),
        ];
        let conditions = well.map(|(type_, reason)| {
            let bad = but.iter().find(|(of, _)| *of == type_);
            match bad {
                Some((_, reason)) => condition(type_, "False", reason, ""),
                None => condition(type_, "True", reason, ""),
            }
        });
        let mut status = json!({
            "observedGeneration": 99, "version": fixtures::VERSION, "namespace": self.space,
            "endpoint": { "host": "127.0.0.1", "port": self.port }, "conditions": conditions,
            "certificates": [{ "name": "apiserver", "notAfter": FAR }],
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        Change {
            kind: CLUSTER,
            namespace: Some(self.team.clone()),
            name: "demo".to_owned(),
            is_status: true,
            patch: json!({ "status": status }),
        }
    }

    fn is_well(&self) -> Change {
        self.says(&[], json!({}))
    }

    /// The status of something in the tenant namespace.
    fn part(&self, kind: &'static str, name: &str, status: Value) -> Change {
        Change {
            kind,
            namespace: Some(self.space.clone()),
            name: name.to_owned(),
            is_status: true,
            patch: json!({ "status": status }),
        }
    }

    fn machine(&self, status: &str, reason: &str) -> Change {
        Change {
            kind: "covey.dev/v1alpha1/Machine",
            namespace: Some(self.team.clone()),
            name: "demo-workers-aaaaa".to_owned(),
            is_status: true,
            patch: json!({ "status": {
                "phase": "Running", "conditions": [condition("Ready", status, reason, "")],
            }}),
        }
    }

    /// One that only says so, which the operator takes back once somebody mended it.
    fn said(&self, check: &'static str, but: &[(&str, &str)], fields: Value) -> Fault {
        Fault {
            check,
            mend: "",
            makes: vec![self.says(but, fields)],
            mends: vec![self.is_well()],
        }
    }

    fn faults(&self) -> Vec<Fault> {
        let marked = |is: &str| {
            let patch = json!({ "metadata": { "annotations": { DEFAULT_CLASS: is } } });
            Self::global(CLASS, "standard", patch)
        };
        let replicas = |number: i32| {
            let patch = json!({ "spec": { "replicas": number } });
            Self::system("apps/v1/Deployment", "covey-operator", patch)
        };
        let renewed = |at: &str| {
            let patch = json!({ "spec": { "renewTime": at } });
            Self::system("coordination.k8s.io/v1/Lease", "covey-operator", patch)
        };
        let bundle = |bundle: Value| {
            let hooks = ["tenantclusters", "nodepools"].map(|what| {
                json!({ "name": format!("{what}.covey.dev"), "clientConfig": { "caBundle": bundle } })
            });
            let kind = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration";
            Self::global(kind, "covey", json!({ "webhooks": hooks }))
        };
        let acts = |action: &str| {
            let kind = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding";
            let patch = json!({ "spec": { "validationActions": [action] } });
            Self::global(kind, "covey-operator-secrets", patch)
        };
        let labelled = |uid: &str| {
            let patch = json!({ "metadata": { "labels": { names::LABEL_TENANT_UID: uid } } });
            Self::global("v1/Namespace", &self.space, patch)
        };
        let claim = |phase: &str| self.part(CLAIM, "data-etcd-0", json!({ "phase": phase }));
        let is_ready = || json!({ "conditions": [{ "type": "Ready", "status": "True" }], "containerStatuses": [] });
        let pod = |name: &str, status: Value| self.part(POD, name, status);
        let killed = json!({
            "conditions": [{ "type": "Ready", "status": "False" }],
            "containerStatuses": [{
                "name": "apiserver", "image": "apiserver", "imageID": "", "ready": false, "restartCount": 4,
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": { "reason": "OOMKilled", "exitCode": 137 } },
            }],
        });
        let homeless = json!({ "conditions": [
            { "type": "Ready", "status": "False" },
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "exceeded quota: requests.cpu" },
        ]});
        let no_etcd = [("EtcdReady", "QuorumLost"), ("Ready", "ApiUnreachable")];
        vec![
            Fault {
                check: "tenant-namespace",
                mend: "--show-labels",
                makes: vec![labelled("another")],
                mends: vec![labelled(&self.uid)],
            },
            Fault {
                check: "operator-pods",
                mend: "scale deployment covey-operator --replicas 2",
                makes: vec![replicas(0)],
                mends: vec![replicas(2)],
            },
            Fault {
                check: "operator-leads",
                mend: "logs deployment/covey-operator",
                makes: vec![renewed("2020-01-01T00:00:00.000000Z")],
                mends: vec![renewed(&micros(Timestamp::now()))],
            },
            Fault {
                check: "webhook",
                mend: "the operator that leads writes it",
                makes: vec![bundle(Value::Null)],
                mends: vec![bundle(json!(self.authority))],
            },
            Fault {
                check: "policies",
                mend: "put Deny into `spec.validationActions` of covey-operator-secrets",
                makes: vec![acts("Audit")],
                mends: vec![acts("Deny")],
            },
            Fault {
                check: "storage-class",
                mend: DEFAULT_CLASS,
                makes: vec![marked("false"), claim("Pending"), self.says(&no_etcd, json!({}))],
                mends: vec![marked("true"), claim("Bound"), self.is_well()],
            },
            Fault {
                check: "etcd",
                mend: "describe pvc data-etcd-0",
                makes: vec![claim("Lost"), self.says(&no_etcd, json!({}))],
                mends: vec![claim("Bound"), self.is_well()],
            },
            Fault {
                check: "capacity",
                mend: "add nodes to the management cluster",
                makes: vec![pod("etcd-0", homeless), self.says(&no_etcd, json!({}))],
                mends: vec![pod("etcd-0", is_ready()), self.is_well()],
            },
            Fault {
                check: "control-plane-pods",
                mend: "`spec.controlPlane.apiServer.resources.limits`",
                makes: vec![
                    pod("control-plane-0", killed),
                    self.says(&[("ControlPlaneReady", "PodsNotReady"), ("Ready", "ApiUnreachable")], json!({})),
                ],
                mends: vec![pod("control-plane-0", is_ready()), self.is_well()],
            },
            Fault {
                check: "machines",
                mend: "",
                makes: vec![self.machine("False", "Booting")],
                mends: vec![self.machine("True", "NodeReady")],
            },
            Fault {
                check: "endpoint-reach",
                mend: "spec.controlPlane.endpoint.sourceRanges",
                // Nothing listens on the first port.
                makes: vec![self.says(&[], json!({ "endpoint": { "host": "127.0.0.1", "port": 1 } }))],
                mends: vec![self.is_well()],
            },
            self.said("etcd", &no_etcd, json!({})),
            self.said("etcd-space", &[("EtcdReady", "NoSpace")], json!({})),
            self.said(
                "authorities",
                &[("CertificatesReady", "CertificateAuthorityLost"), ("Ready", "ApiUnreachable")],
                json!({}),
            ),
            self.said(
                "endpoint-address",
                &[("EndpointReady", "WaitingForAddress"), ("Ready", "ApiUnreachable")],
                json!({}),
            ),
            self.said(
                "certificates",
                &[],
                json!({ "certificates": [{ "name": "apiserver", "notAfter": "2020-01-01T00:00:00Z" }] }),
            ),
            self.said("konnectivity", &[("KonnectivityReady", "PodsNotReady")], json!({})),
            self.said(
                "addons",
                &[("CoreDNSReady", "PodsNotReady"), ("Ready", "AddonsNotReady")],
                json!({}),
            ),
        ]
    }
}

/// As a Lease has times.
fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
}

/// All objects of a kind, as [`Change::kind`] names it, and the kind by itself.
fn of(
    client: &Client,
    kind: &'static str,
    namespace: Option<&str>,
) -> (Api<DynamicObject>, &'static str) {
    let mut parts = kind.rsplit('/');
    let (name, version) = (parts.next().unwrap(), parts.next().unwrap());
    let group = parts.next().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, name));
    let all = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    (all, name)
}

async fn create(
    client: &Client,
    kind: &'static str,
    namespace: Option<&str>,
    object: Value,
) -> Result<DynamicObject> {
    let (all, name) = of(client, kind, namespace);
    let mut object = object;
    let (version, _) = kind.rsplit_once('/').context("no kind")?;
    object["apiVersion"] = json!(version);
    object["kind"] = json!(name);
    let object: DynamicObject = serde_json::from_value(object)?;
    let made = all.create(&PostParams::default(), &object).await;
    made.with_context(|| format!("create {kind}"))
}

/// An installation that is well. Kinds and policies are those of `covey up`.
async fn installed(api: &ManagementApi, shell: &Shell) -> Result<Place> {
    let client = api.admin()?;
    shell.run("up --wait=false").await?.expect(0, &[], &[]);
    // Nobody serves it here: what is created while it is there is refused.
    let kind = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration";
    let (hooks, _) = of(&client, kind, None);
    hooks.delete("covey", &DeleteParams::default()).await?;

    let team = shell.namespace.clone();
    let mut demo = serde_json::to_value(fixtures::minimal(&team, "demo"))?;
    demo["spec"]["controlPlane"]["endpoint"]["type"] = json!("LoadBalancer");
    let demo = create(&client, CLUSTER, Some(&team), demo).await?;
    let uid = demo.uid().context("no UID")?;
    let space = names::tenant_namespace("demo", &uid);
    let pool = json!({ "metadata": { "name": "demo-workers" },
        "spec": { "clusterName": "demo", "replicas": 1, "provider": { "kubevirt": {} } } });
    create(&client, "covey.dev/v1alpha1/NodePool", Some(&team), pool).await?;
    let machine = json!({ "metadata": { "name": "demo-workers-aaaaa" }, "spec": {
        "clusterName": "demo", "clusterUID": uid, "poolName": "demo-workers", "version": fixtures::VERSION,
        "provider": { "kubevirt": {} } } });
    // Nobody else makes any, once the policy that says so is in force.
    let operator = format!("system:serviceaccount:{SYSTEM}:covey-operator");
    let operator = api.client_as(&operator, &[MASTERS])?;
    create(
        &operator,
        "covey.dev/v1alpha1/Machine",
        Some(&team),
        machine,
    )
    .await?;
    let labels = json!({ names::LABEL_TENANT_UID: uid });
    let object = json!({ "metadata": { "name": space, "labels": labels } });
    create(&client, "v1/Namespace", None, object).await?;
    // Without its ServiceAccount, which a controller makes, a pod is refused.
    let account = json!({ "metadata": { "name": "default" } });
    create(&client, "v1/ServiceAccount", Some(&space), account).await?;
    for (name, component) in [("etcd-0", "etcd"), ("control-plane-0", "control-plane")] {
        let pod = json!({ "metadata": { "name": name, "labels": { names::LABEL_COMPONENT: component } },
            "spec": { "automountServiceAccountToken": false, "containers": [{ "name": component, "image": component }] } });
        create(&client, POD, Some(&space), pod).await?;
    }
    let claim = json!({ "metadata": { "name": "data-etcd-0" }, "spec": { "accessModes": ["ReadWriteOnce"],
        "storageClassName": "standard", "resources": { "requests": { "storage": "1Gi" } } } });
    create(&client, CLAIM, Some(&space), claim).await?;
    let class = json!({ "metadata": { "name": "standard", "annotations": { DEFAULT_CLASS: "true" } },
        "provisioner": "example.com/none" });
    create(&client, CLASS, None, class).await?;
    let lease = json!({ "metadata": { "name": "covey-operator" }, "spec": { "holderIdentity": "covey-operator-1",
        "leaseDurationSeconds": 3600, "renewTime": micros(Timestamp::now()) } });
    create(&client, "coordination.k8s.io/v1/Lease", Some(SYSTEM), lease).await?;
    shell.run("up --wait=false").await?.expect(0, &[], &[]);

    let (_, port) = api
        .url()
        .rsplit_once(':')
        .map(|(host, port)| (host.to_owned(), port.to_owned()))
        .context("no port")?;
    let authority = json!(ByteString(api.ca().into_bytes()));
    let place = Place {
        client,
        operator,
        team,
        space,
        uid,
        port: port.parse()?,
        authority: authority.as_str().context("no text")?.to_owned(),
    };
    // All that each fault is mended by is what it was before.
    let deployments = ["covey-operator", "covey-webhook"].map(|name| {
        let status = json!({ "status": { "observedGeneration": 99, "replicas": 2, "updatedReplicas": 2,
            "readyReplicas": 2, "availableReplicas": 2 } });
        let change = Place::system("apps/v1/Deployment", name, status);
        Change { is_status: true, ..change }
    });
    let mends = place.faults().into_iter().flat_map(|fault| fault.mends);
    for change in deployments.into_iter().chain(mends) {
        place.set(&change).await?;
    }
    Ok(place)
}

/// What the doctor says, but for what it skipped.
async fn told(shell: &Shell) -> Result<(i32, Vec<Value>)> {
    let ended = shell.run("doctor demo -o json").await?;
    let report: Value = serde_json::from_str(&ended.out).with_context(|| format!("{ended:?}"))?;
    let found = report["findings"].as_array().context("no findings")?.iter();
    let told = found
        .filter(|finding| finding["level"] != "skipped")
        .cloned();
    Ok((ended.code, told.collect()))
}

#[tokio::test]
async fn each_fault_is_the_first_that_is_told_and_its_mend_mends_it() -> Result<()> {
    let Some(api) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let team = api.namespace("team").await?;
    let shell = Shell::new(&api, &team, &[MASTERS])?;
    let place = installed(&api, &shell).await?;
    let (code, before) = told(&shell).await?;
    ensure!(
        code == 0 && before.is_empty(),
        "it is not well: {before:#?}"
    );
    for fault in place.faults() {
        for change in &fault.makes {
            place.set(change).await?;
        }
        let (code, found) = told(&shell).await?;
        let first = found
            .first()
            .with_context(|| format!("{}: nothing", fault.check))?;
        ensure!(first["id"] == fault.check, "{}: {found:#?}", fault.check);
        ensure!(
            code == 3 || first["level"] == "warning",
            "{code}: {first:#}"
        );
        let mend = first["mend"].as_str().unwrap_or_default();
        ensure!(
            !mend.is_empty() && mend.contains(fault.mend),
            "{}: {mend}",
            fault.check
        );
        for change in &fault.mends {
            place.set(change).await?;
        }
        let (code, after) = told(&shell).await?;
        ensure!(code == 0 && after.is_empty(), "{}: {after:#?}", fault.check);
    }

    // A context of an earlier tenant cluster of the name, in the kubeconfig itself.
    let well = std::fs::read_to_string(shell.kubeconfig.path())?;
    let mut kubeconfig: Value = serde_json::from_str(&well)?;
    let lead = json!({ "name": "covey.dev/tenant-cluster",
        "extension": { "namespace": team, "name": "demo", "uid": "another" } });
    let clusters = kubeconfig["clusters"]
        .as_array_mut()
        .context("no clusters")?;
    clusters.push(json!({ "name": "old", "cluster": {
        "server": format!("https://127.0.0.1:{}", place.port), "extensions": [lead] } }));
    let contexts = kubeconfig["contexts"]
        .as_array_mut()
        .context("no contexts")?;
    contexts.push(json!({ "name": "old", "context": { "cluster": "old", "user": "testkit" } }));
    std::fs::write(shell.kubeconfig.path(), kubeconfig.to_string())?;
    let (_, found) = told(&shell).await?;
    ensure!(
        found.first().is_some_and(|first| first["id"] == "api-auth"),
        "{found:#?}"
    );
    std::fs::write(shell.kubeconfig.path(), well)?;
    let (code, after) = told(&shell).await?;
    ensure!(code == 0 && after.is_empty(), "{after:#?}");

    // Whoever may look at tenant clusters, and not into their namespaces.
    let viewer = Shell::new(&api, &team, &[])?;
    let binding = json!({ "metadata": { "name": "viewer" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "covey-view" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": viewer.user }] });
    create(
        &place.client,
        "rbac.authorization.k8s.io/v1/RoleBinding",
        Some(&team),
        binding,
    )
    .await?;
    wait_allowed(
        &place.client,
        &viewer.user,
        "list",
        "covey.dev/tenantclusters",
        Some(&team),
    )
    .await?;
    let ended = viewer.run("doctor demo -o json").await?.expect(0, &[], &[]);
    let report: Value = serde_json::from_str(&ended.out)?;
    let found = report["findings"].as_array().context("no findings")?;
    ensure!(
        !found.is_empty() && found.iter().all(|one| one["level"] == "skipped"),
        "{found:#?}"
    );
    let cause = |one: &Value| one["cause"].as_str().unwrap_or_default().to_owned();
    for check in ["tenant-namespace", "etcd", "control-plane-pods"] {
        let one = found.iter().find(|one| one["id"] == check);
        let one = one
            .map(cause)
            .with_context(|| format!("{check}: {found:#?}"))?;
        ensure!(
            one.contains(&place.space) && one.contains("not allowed"),
            "{check}: {one}"
        );
    }
    let rights = found.iter().find(|one| one["id"] == "rights").map(cause);
    let rights = rights.context("rights are not told")?;
    ensure!(rights.starts_with("not allowed to "), "{rights}");
    Ok(())
}
