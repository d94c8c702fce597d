//! T1: the program against a real kube-apiserver, with tenant clusters that nobody reconciles: the test says what
//! their statuses say.
//!
//! Invariant: what a command prints and how it ends is all that is looked at; no test sleeps.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::process::{Output, Stdio};

use anyhow::Result;
use api::{NodePool, TenantCluster};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use testkit::apiserver::ManagementApi;
use testkit::fixtures;
use tokio::process::Command;

mod access;
mod dashboard;
mod day_to_day;
mod faults;
mod looking;
mod outputs;
mod overview;
mod schema;
mod up;

const MASTERS: &str = "system:masters";
const CANARY: &str = "sesame-canary";

/// Somebody at a terminal, in a namespace of the test's own.
struct Shell {
    user: String,
    kubeconfig: NamedTempFile,
    namespace: String,
}

impl Shell {
    fn new(api: &ManagementApi, namespace: &str, groups: &[&str]) -> Result<Self> {
        let user = api.name("jane");
        let kubeconfig = NamedTempFile::new()?;
        std::fs::write(kubeconfig.path(), api.kubeconfig_as(&user, groups)?)?;
        Ok(Self {
            user,
            kubeconfig,
            namespace: namespace.to_owned(),
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_covey"));
        command
            .args(line.split(' '))
            .arg("--kubeconfig")
            .arg(self.kubeconfig.path())
            .args(["--namespace", &self.namespace])
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, line: &str) -> Result<Ended> {
        Ok(Ended::of(self.command(line).output().await?))
    }
}

/// How a command ended, and what it wrote.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn expect(self, code: i32, out: &[&str], err: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        for words in out {
            assert!(self.out.contains(words), "{words}: {self:#?}");
        }
        for words in err {
            assert!(self.err.contains(words), "{words}: {self:#?}");
        }
        assert!(!self.err.contains(CANARY), "{self:#?}");
        self
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-27T11:00:00Z", "observedGeneration": 1})
}

async fn say(client: &Client, namespace: &str, conditions: Vec<Value>) -> Result<()> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let generation = clusters.get("demo").await?.metadata.generation;
    let status = json!({"status": {"observedGeneration": generation, "conditions": conditions}});
    let params = PatchParams::default();
    clusters
        .patch_status("demo", &params, &Patch::Merge(&status))
        .await?;
    Ok(())
}

/// A tenant cluster whose etcd has lost its quorum, with a pool, a pod and a Secret.
async fn broken(api: &ManagementApi, namespace: &str) -> Result<()> {
    let (client, create) = (api.admin()?, PostParams::default());
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let minimal = Box::new(fixtures::minimal(namespace, "demo"));
    let made = Box::pin(clusters.create(&create, &minimal)).await?;
    let uid = made.metadata.uid.unwrap();
    let space = api::names::tenant_namespace(namespace, &uid);
    let conditions = [
        condition(
            "EtcdReady",
            "False",
            "QuorumLost",
            "1 of 3 members are ready",
        ),
        condition(
            "Ready",
            "False",
            "ApiUnreachable",
            "the API does not answer",
        ),
    ];
    let status = json!({"status": {"observedGeneration": 1, "version": "1.35.4", "namespace": space,
        "endpoint": {"host": "10.96.3.7", "port": 6443}, "conditions": conditions}});
    let params = PatchParams::default();
    clusters
        .patch_status("demo", &params, &Patch::Merge(&status))
        .await?;

    let pool: NodePool = serde_json::from_value(
        json!({"apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "demo-workers"}, "spec": {"clusterName": "demo", "replicas": 2, "provider": {"kubevirt": {}}}}),
    )?;
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    pools.create(&create, &pool).await?;

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let labels = json!({ api::names::LABEL_TENANT_UID: uid });
    let object = serde_json::from_value(json!({"metadata": {"name": space, "labels": labels}}))?;
    namespaces.create(&create, &object).await?;
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "etcd-0",
        "annotations": {"example.com/note": CANARY}, "labels": {api::names::LABEL_COMPONENT: "etcd"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "etcd", "image": "etcd", "env": [{"name": "KEY", "value": CANARY}]}]}}))?;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "demo-kubeconfig"},
        "stringData": {"value": format!("clusters: [{{cluster: {{server: \"https://127.0.0.1:1\"}}}}]\nusers: [{{user: {{token: {CANARY}}}}}]\n")}}))?;
    for space in [namespace, &space] {
        Api::<Secret>::namespaced(client.clone(), space)
            .create(&create, &secret)
            .await?;
    }
    // Without its ServiceAccount, which a controller makes, a pod is refused.
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
    let accounts =
        Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(client.clone(), &space);
    accounts.create(&create, &account).await?;
    Api::<Pod>::namespaced(client, &space)
        .create(&create, &pod)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_broken_tenant_cluster_is_listed_described_and_explained() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let shell = Shell::new(api, &namespace, &[MASTERS])?;

    let listed = shell
        .run("get")
        .await?
        .expect(0, &["NAME", "demo", "1.35.4"], &[]);
    assert!(!listed.out.contains("NAMESPACE"), "{listed:?}");
    shell
        .run("list np -o name")
        .await?
        .expect(0, &["nodepool.covey.dev/demo-workers\n"], &[]);
    let json = shell.run("get tc demo -o json").await?.expect(0, &[], &[]);
    let object: Value = serde_json::from_str(&json.out)?;
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("TenantCluster"), &json!("demo"))
    );
    assert_eq!(object["metadata"].get("managedFields"), None);
    shell
        .run("get machines")
        .await?
        .expect(0, &[], &["no machines in"]);
    shell
        .run("get tc dmeo")
        .await?
        .expect(5, &[], &["not found", "covey get"]);

    let requests = api.audit().window()?;
    let described = shell.run("describe demo").await?;
    described.expect(
        3,
        &[
            "not Ready",
            "ApiUnreachable: the API does not answer",
            "✗ 0 of 1",
            "1 of 3 members",
            "demo-workers",
            "why: covey doctor demo",
        ],
        &[],
    );
    let asked: usize = requests.counts(&shell.user)?.values().sum();
    assert!(
        (1..=6).contains(&asked),
        "{:?}",
        requests.counts(&shell.user)?
    );
    shell.run("describe dmeo").await?.expect(
        5,
        &[],
        &["no TenantCluster dmeo", "did you mean demo?"],
    );

    let doctor = shell.run("doctor demo -o json").await?.expect(3, &[], &[]);
    let report: Value = serde_json::from_str(&doctor.out)?;
    assert_eq!(
        (&report["kind"], &report["worst"]),
        (&json!("DoctorReport"), &json!("error"))
    );
    let findings = report["findings"].as_array().unwrap();
    let find = |id: &str| findings.iter().find(|f| f["id"] == id);
    // Nobody has installed an operator here, and all kinds are there.
    assert_eq!(find("operator-pods").unwrap()["level"], "error");
    assert_eq!(find("etcd").unwrap()["reason"], "QuorumLost");
    assert_eq!(find("etcd").unwrap()["because"], "storage-class");
    assert_eq!(find("api-ready").unwrap()["because"], "etcd");
    assert_eq!(find("definitions"), None, "{report:#}");
    assert_eq!(find("tenant-namespace"), None, "{report:#}");
    shell.run("doctor demo --only etcd").await?.expect(
        3,
        &["✗ etcd  TenantCluster", "to mend it: ", "1 check: 1 error"],
        &[],
    );
    shell
        .run("doctor demo --skip nothing")
        .await?
        .expect(2, &[], &["there is no check nothing"]);
    shell
        .run("doctor dmeo")
        .await?
        .expect(5, &[], &["did you mean demo?"]);

    let event = json!({"metadata": {"name": "one"}, "type": "Warning", "reason": "QuorumLost", "message": "1 of 3",
        "involvedObject": {"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "name": "demo", "namespace": namespace},
        "lastTimestamp": "2026-11-27T11:00:00Z"});
    let events: Api<Event> = Api::namespaced(api.admin()?, &namespace);
    events
        .create(&PostParams::default(), &serde_json::from_value(event)?)
        .await?;
    for line in ["events", "events demo --warnings --reason QuorumLost"] {
        shell.run(line).await?.expect(
            0,
            &["Warning", "TenantCluster/demo   QuorumLost   1 of 3"],
            &[],
        );
    }
    let other = shell
        .run("events demo --reason NoSpace")
        .await?
        .expect(0, &["AGE"], &[]);
    assert!(!other.out.contains("QuorumLost"), "{other:?}");

    // A kubeconfig goes where it was asked to go, and nowhere else.
    shell.run("kubeconfig demo --break-glass").await?.expect(
        0,
        &[CANARY],
        &["keep it as a secret"],
    );
    let mut merge = shell.command("kubeconfig demo --break-glass --merge --set-current");
    let merged = Ended::of(
        merge
            .env("KUBECONFIG", shell.kubeconfig.path())
            .output()
            .await?,
    );
    merged.expect(0, &[], &["has the context"]);
    assert!(std::fs::read_to_string(shell.kubeconfig.path())?.contains(CANARY));
    // The current context leads into the tenant cluster by now, and commands go to the management cluster.
    for line in ["get", "get -o yaml", "describe demo", "doctor demo -o wide"] {
        let ended = shell.run(line).await?;
        assert!(!ended.out.contains(CANARY), "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn missing_rights_skip_checks_and_refuse_what_cannot_do_without() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let nobody = Shell::new(api, &namespace, &[])?;
    let doctor = nobody.run("doctor demo").await?;
    doctor.expect(0, &["rights", "not allowed to", "0 errors"], &[]);
    let describe = nobody.run("describe demo").await?;
    describe.expect(
        6,
        &[],
        &["cannot get the TenantCluster demo", "kubectl auth can-i"],
    );
    nobody.run("kubeconfig demo").await?.expect(6, &[], &[]);
    nobody.run("get").await?.expect(6, &[], &["forbidden"]);
    Ok(())
}

#[tokio::test]
async fn waiting_ends_with_what_is_waited_for_with_its_time_or_with_the_object() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);

    let late = shell.run("wait demo --timeout 1s").await?;
    late.expect(
        4,
        &[],
        &[
            "EtcdReady False QuorumLost",
            "was not there within 1 s",
            "ApiUnreachable",
        ],
    );

    let waiting = shell.command("wait demo --timeout 60s").spawn()?;
    let ready = vec![condition("Ready", "True", "Answering", "")];
    say(&client, &namespace, ready).await?;
    let ended = Ended::of(waiting.wait_with_output().await?);
    let ended = ended.expect(0, &[], &["Ready True Answering"]);
    assert_eq!(ended.out, "");
    shell
        .run("describe demo")
        .await?
        .expect(0, &["Ready for"], &[]);
    // Of several all are waited for.
    let several = shell.run("wait demo dmeo").await?;
    several.expect(5, &[], &["did you mean demo?"]);

    let waiting = shell
        .command("delete cluster demo --yes --wait --timeout 60s")
        .spawn()?;
    let ended = Ended::of(waiting.wait_with_output().await?);
    ended.expect(0, &[], &["etcd with all data"]);
    shell
        .run("wait demo --for deleted")
        .await?
        .expect(0, &[], &[]);
    Ok(())
}

#[tokio::test]
async fn what_is_made_and_changed_is_what_was_asked_for_and_refusals_say_why() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let pools: Api<NodePool> = Api::namespaced(client, &namespace);

    let bad = shell.run("create cluster Demo_1 --version 1.35.4").await?;
    bad.expect(7, &[], &["Demo_1", "try: covey create cluster demo-1"]);
    let dry = shell
        .run("create cluster demo --version 1.35.4 --dry-run client")
        .await?;
    dry.expect(0, &["kind: TenantCluster"], &[]);
    assert_eq!(clusters.get_opt("demo").await?, None);
    let made = shell
        .run("create cluster demo --version 1.35.4 --workers 2")
        .await?;
    made.expect(
        0,
        &["tenantcluster.covey.dev/demo\nnodepool.covey.dev/demo-workers\n"],
        &["covey wait demo"],
    );
    assert_eq!(pools.get("demo-workers").await?.spec.replicas, 2);
    let again = shell.run("create cluster demo --version 1.35.4").await?;
    again.expect(1, &[], &["already exists"]);

    shell
        .run("scale demo-workers 3")
        .await?
        .expect(0, &[], &["2 -> 3 machines"]);
    assert_eq!(pools.get("demo-workers").await?.spec.replicas, 3);
    let autoscaled = shell
        .run("create pool web --cluster demo --min 1 --max 5")
        .await?;
    autoscaled.expect(0, &["nodepool.covey.dev/web"], &[]);
    let scaled = shell.run("scale web 3").await?;
    scaled.expect(7, &[], &["between 1 and 5", "spec.autoscaling.max"]);

    shell
        .run("pause demo")
        .await?
        .expect(0, &[], &["covey resume demo"]);
    assert!(clusters.get("demo").await?.spec.paused);
    shell.run("resume demo").await?.expect(0, &[], &[]);
    assert!(!clusters.get("demo").await?.spec.paused);

    let dry = shell.run("upgrade demo --to 1.36.1 --dry-run").await?;
    dry.expect(
        0,
        &[
            "TenantCluster demo: 1.35.4 -> 1.36.1",
            "NodePool web: follows",
        ],
        &[],
    );
    assert_eq!(clusters.get("demo").await?.spec.version, "1.35.4");
    shell
        .run("upgrade demo --to one")
        .await?
        .expect(7, &[], &["change the version"]);
    shell
        .run("upgrade demo --to 1.36.1")
        .await?
        .expect(0, &[], &["--for version=1.36.1"]);
    assert_eq!(clusters.get("demo").await?.spec.version, "1.36.1");

    let unasked = shell.run("delete cluster demo").await?;
    unasked.expect(2, &[], &["there is no terminal to ask at", "--yes"]);
    assert!(clusters.get_opt("demo").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn without_a_kubeconfig_it_is_said_where_it_was_looked_for() -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey"));
    command.arg("get").env_clear().env("HOME", "/nonexistent");
    let ended = Ended::of(command.output().await?);
    ended.expect(
        1,
        &[],
        &[
            "KUBECONFIG is unset",
            "/nonexistent/.kube/config is absent",
            "--kubeconfig FILE",
        ],
    );
    Ok(())
}
