//! What only looks: lists that are followed and sorted, one tenant cluster at several depths, what a condition means, and
//! the doctor before an installation and without a kubeconfig.
//!
//! Invariant: what is followed is read line by line, and a line is waited for.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::{NodePool, TenantCluster};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::{Ended, MASTERS, Shell, broken};

/// A command that goes on.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn of(shell: &Shell, line: &str) -> Result<Self> {
        let mut child = shell.command(line).spawn()?;
        let out = child.stdout.take().context("it has no standard output")?;
        let lines = BufReader::new(out).lines();
        Ok(Self { child, lines })
    }

    /// The next line with these words.
    async fn line(&mut self, words: &str) -> Result<String> {
        let found = async {
            loop {
                let line = self.lines.next_line().await?;
                let line = line.with_context(|| format!("it ended before it said {words}"))?;
                if line.contains(words) {
                    return Ok(line);
                }
            }
        };
        timeout(Duration::from_secs(60), found).await?
    }

    async fn end(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}

#[tokio::test]
async fn lists_and_events_are_followed() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), &namespace);

    let mut table = Following::of(&shell, "get pools -w")?;
    let mut names = Following::of(&shell, "get pools --watch -o name")?;
    let heads = table.line("NAME").await?;
    table.line("demo-workers").await?;
    names.line("nodepool.covey.dev/demo-workers").await?;
    let pool: NodePool = serde_json::from_value(
        json!({"apiVersion": "covey.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "web"},
            "spec": {"clusterName": "demo", "replicas": 1, "provider": {"kubevirt": {}}}}),
    )?;
    pools.create(&PostParams::default(), &pool).await?;
    let line = table.line("web").await?;
    // It stands in the columns of the first list.
    assert_eq!(
        heads.find("CLUSTER").map(|at| &line[at..at + 4]),
        Some("demo"),
        "{heads}\n{line}"
    );
    names.line("nodepool.covey.dev/web").await?;
    let grown = json!({"spec": {"replicas": 4}});
    pools
        .patch("web", &PatchParams::default(), &Patch::Merge(&grown))
        .await?;
    table.line("web").await?;
    table.end().await?;
    names.end().await?;
    let several = shell.run("get pools web demo-workers -w").await?;
    several.expect(2, &[], &["one object is followed"]);
    shell
        .run("get pools none -w")
        .await?
        .expect(5, &[], &["no NodePool none"]);

    let mut events = Following::of(&shell, "events demo -f --types warning")?;
    let event = |name: &str, type_: &str, about: &str| {
        json!({"metadata": {"name": name}, "type": type_, "reason": "QuorumLost", "message": "1 of 3",
            "involvedObject": {"apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "name": about, "namespace": namespace},
            "lastTimestamp": "2026-11-27T11:00:00Z"})
    };
    let api_of_events: Api<Event> = Api::namespaced(client, &namespace);
    for (name, type_, about) in [
        ("a", "Normal", "demo-workers-aaaaa"),
        ("b", "Warning", "other-workers-aaaaa"),
        ("c", "Warning", "demo-workers-bbbbb"),
    ] {
        let event = serde_json::from_value(event(name, type_, about))?;
        api_of_events.create(&PostParams::default(), &event).await?;
    }
    let line = events.line("Machine/").await?;
    assert!(
        line.contains("Machine/demo-workers-bbbbb   QuorumLost"),
        "{line}"
    );
    events.end().await?;
    Ok(())
}

#[tokio::test]
async fn one_tenant_cluster_is_shown_as_deep_as_is_asked_for_and_its_conditions_are_explained()
-> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let upgrade = json!({"status": {"upgrade": {"from": "1.35.4", "to": "1.36.3", "phase": "Checking",
        "since": "2026-11-27T11:00:00Z", "blockers": [{"check": "Kubelets", "message": "2 nodes are too old"}]}}});
    clusters
        .patch_status("demo", &PatchParams::default(), &Patch::Merge(&upgrade))
        .await?;

    let shallow = shell.run("describe demo --depth 1").await?;
    let shallow = shallow.expect(
        3,
        &[
            "1 node pool",
            "1.35.4 -> 1.36.3 Checking; Kubelets: 2 nodes",
        ],
        &[],
    );
    assert!(!shallow.out.contains("demo-workers"), "{shallow:?}");
    let requests = api.audit().window()?;
    let all = shell.run("describe demo --all").await?;
    all.expect(
        3,
        &[
            "conditions",
            "EtcdReady False for",
            "QuorumLost: 1 of 3 members are ready",
        ],
        &[],
    );
    let asked: usize = requests.counts(&shell.user)?.values().sum();
    assert!(
        (1..=6).contains(&asked),
        "{:?}",
        requests.counts(&shell.user)?
    );
    let json = shell.run("describe demo --all -o json").await?;
    let object: Value = serde_json::from_str(&json.expect(3, &[], &[]).out)?;
    assert_eq!(object["conditions"][0]["type"], "EtcdReady");
    let coloured = shell.run("describe demo --color always").await?;
    coloured.expect(3, &["\u{1b}[31m✗\u{1b}[0m 0 of 1"], &[]);
    let plain = shell.run("describe demo").await?.expect(3, &[], &[]);
    assert!(!plain.out.contains('\u{1b}'), "{plain:?}");

    let why = shell.run("why QuorumLost demo").await?;
    why.expect(
        0,
        &[
            "to mend it: ",
            "now: TenantCluster/demo EtcdReady False QuorumLost: 1 of 3",
        ],
        &[],
    );
    let why = shell
        .run("explain-condition EtcdReady demo -o json")
        .await?;
    let object: Value = serde_json::from_str(&why.expect(0, &[], &[]).out)?;
    assert_eq!(
        (&object["kind"], &object["now"][0]["object"]),
        (&json!("ConditionType"), &json!("TenantCluster/demo"))
    );
    shell
        .run("why NoSpace demo")
        .await?
        .expect(0, &[], &["no condition of demo says so now"]);
    shell
        .run("why NoSpace dmeo")
        .await?
        .expect(5, &[], &["did you mean demo?"]);

    let sorted = shell.run("get tc -A --sort-by NAME --no-headers").await?;
    let sorted = sorted.expect(0, &["demo"], &[]);
    assert!(!sorted.out.contains("VERSION"), "{sorted:?}");
    shell
        .run("get pools --sort-by .spec.replicas")
        .await?
        .expect(0, &["demo-workers"], &[]);
    shell.run("get pools --sort-by SIZE").await?.expect(
        2,
        &[],
        &["there is no column SIZE", "NAME"],
    );
    shell.run("get pools --cluster demo -o name").await?.expect(
        0,
        &["nodepool.covey.dev/demo-workers\n"],
        &[],
    );
    shell
        .run("get pools --cluster other")
        .await?
        .expect(0, &[], &["no nodepools in"]);
    let told = shell.run("get pools -v").await?;
    told.expect(
        0,
        &["demo-workers"],
        &["GET /apis/covey.dev/v1alpha1/namespaces/", " 200 "],
    );
    shell
        .run("logs demo machine/none")
        .await?
        .expect(5, &[], &["machine none of demo has no pod"]);
    shell
        .run("logs demo etcd -c none")
        .await?
        .expect(5, &[], &["container none", "-o name"]);

    let late = shell.run("wait demo --for nodes=2 --timeout 1s").await?;
    late.expect(
        4,
        &[],
        &["0 of 2 nodes are ready", "was not there within 1 s"],
    );
    let pools: Api<NodePool> = Api::namespaced(client, &namespace);
    let ready = json!({"status": {"readyReplicas": 2, "replicas": 2}});
    pools
        .patch_status(
            "demo-workers",
            &PatchParams::default(),
            &Patch::Merge(&ready),
        )
        .await?;
    shell
        .run("wait demo --for nodes=2 --timeout 60s")
        .await?
        .expect(0, &[], &[]);
    Ok(())
}

#[tokio::test]
async fn the_doctor_looks_before_an_installation_and_says_what_a_kubeconfig_lacks() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    let shell = Shell::new(api, &namespace, &[MASTERS])?;
    let pre = shell.run("doctor --pre -o json").await?;
    let report: Value = serde_json::from_str(&pre.out)?;
    // Which StorageClasses there are is others' to say on a server that is shared; none is the default one in any case.
    let is_error = report["worst"] == "error";
    pre.expect(if is_error { 3 } else { 0 }, &[], &[]);
    let findings = report["findings"].as_array().context("no findings")?;
    let find = |id: &str| findings.iter().find(|f| f["id"] == id);
    let of_storage = find("storage-class").map(|f| &f["level"]);
    let level = if is_error { "error" } else { "warning" };
    assert_eq!(of_storage, Some(&json!(level)), "{report:#}");
    assert_eq!(
        find("virtualization").map(|f| &f["level"]),
        Some(&json!("info")),
        "{report:#}"
    );
    assert_eq!(find("rights"), None, "{report:#}");
    assert_eq!(find("operator-pods"), None, "{report:#}");
    let nobody = Shell::new(api, &namespace, &[])?;
    nobody
        .run("doctor --pre")
        .await?
        .expect(0, &["! rights", "cluster-admin"], &[]);

    let mut command = Command::new(env!("CARGO_BIN_EXE_covey"));
    command
        .args(["doctor", "-o", "json"])
        .env_clear()
        .env("HOME", "/nonexistent");
    let ended = Ended::of(command.output().await?).expect(3, &[], &[]);
    let report: Value = serde_json::from_str(&ended.out)?;
    assert_eq!(report["findings"][0]["id"], "kubeconfig", "{report:#}");
    Ok(())
}

#[tokio::test]
async fn what_is_inside_is_looked_at_only_where_that_is_asked_for() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let shell = Shell::new(api, &namespace, &[MASTERS])?;
    let requests = api.audit().window()?;
    let doctor = shell.run("doctor demo -o json").await?.expect(3, &[], &[]);
    let report: Value = serde_json::from_str(&doctor.out)?;
    let checks = report["checks"].as_array().context("no checks")?;
    assert!(!checks.contains(&json!("dns")), "{report:#}");
    let asked = requests.counts(&shell.user)?;
    assert!(!format!("{asked:?}").contains("secrets"), "{asked:?}");
    // The Secret's kubeconfig leads nowhere, and no pod is ready: that is said, and nothing fails for it.
    let deep = shell.run("doctor demo --deep --only nodes").await?;
    deep.expect(
        0,
        &["nodes", "what is inside is not known"],
        &["cannot be reached from here"],
    );
    Ok(())
}
