//! The Helm chart on a real kube-apiserver: it installs and upgrades, its admission policies
//! confine the operator, and its roles grant what they should.
//!
//! Long because one installed chart is asked everything: installing takes longer than asking.
//! Invariant: whatever a policy is asked is a dry run, so one question does not change the next.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testkit::ManagementApi;
use testkit::fixtures::{PATIENCE, ask_until};
use tokio::sync::OnceCell;

mod access;
mod adapters;
mod autoscaler;
mod machines;
mod objects;
mod ownership;
mod policies;
#[path = "../support/mod.rs"]
mod support;
use objects::{
    AUTOSCALER, CCM, RESTRICTED, TENANT, UID, USER, binding, namespace, secret, tenant_cluster,
    with,
};
use support::{CHART, Helm, helm, root};

const OPERATOR: &str = "system:serviceaccount:covey-system:covey-operator";
const WEBHOOK: &str = "system:serviceaccount:covey-system:covey-webhook";

/// A management API with the chart installed.
struct Installed {
    api: ManagementApi,
    helm: Helm,
}

impl Installed {
    async fn new() -> Option<Self> {
        let api = ManagementApi::alone().await.unwrap()?;
        let helm = helm()?.with_kubeconfig(api.kubeconfig());
        let installed = Self { api, helm };
        // Nobody answers the webhook here, so it must not be asked for in vain.
        installed.upgrade(&["--install", "--create-namespace"]);
        Some(installed)
    }

    /// One for all tests that leave the release as it is.
    async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<Option<Installed>> = OnceCell::const_new();
        SHARED.get_or_init(Self::new).await.as_ref()
    }

    /// A client of the calling test's runtime.
    fn admin(&self) -> Client {
        self.api.admin().unwrap()
    }

    fn upgrade(&self, args: &[&str]) {
        let fixed = ["upgrade", "covey", CHART, "--namespace", "covey-system"];
        let webhook = [
            "--set",
            "webhook.failurePolicy=Ignore,webhook.timeoutSeconds=1",
        ];
        self.helm
            .run(&[&fixed[..], &webhook, args].concat())
            .unwrap();
    }

    async fn create(&self, object: Value) {
        write(&self.admin(), &object, "create", false)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let api_version = text("/apiVersion");
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let resource = match kind.kind.as_str() {
        // Its plural is no other word.
        "MachineAddresses" => ApiResource::from_gvk_with_plural(&kind, "machineaddresses"),
        _ => ApiResource::from_gvk(&kind),
    };
    match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// `create`, `apply` or `delete` an object; the error is what the API server says.
async fn write(client: &Client, object: &Value, verb: &str, dry: bool) -> Result<(), String> {
    let api = api_of(client, object);
    let name = object["metadata"]["name"].as_str().unwrap();
    let done = match verb {
        "create" => {
            let params = PostParams {
                dry_run: dry,
                ..PostParams::default()
            };
            let object = serde_json::from_value(object.clone()).unwrap();
            api.create(&params, &object).await.map(drop)
        }
        "apply" => {
            let params = PatchParams {
                dry_run: dry,
                ..PatchParams::apply("covey-operator")
            };
            api.patch(name, &params.force(), &Patch::Apply(object))
                .await
                .map(drop)
        }
        _ => {
            let params = kube::api::DeleteParams {
                dry_run: dry,
                ..Default::default()
            };
            api.delete(name, &params).await.map(drop)
        }
    };
    done.map_err(|error| error.to_string())
}

#[tokio::test]
async fn policies_confine_the_operator_and_nobody_else() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    let admin = installed.admin();
    for name in ["users-a", "users-b", "users-c", "users-d", "covey-docs"] {
        installed.create(namespace(name, &[])).await;
    }
    for name in ["covey-a-1111111111", "covey-b-1111111111"] {
        installed
            .create(namespace(name, &[(UID, "u1"), RESTRICTED]))
            .await;
    }
    installed.create(tenant_cluster("users-a")).await;
    // As it is left behind by the last TenantCluster of a namespace.
    let unlabelled = |name, namespace| {
        with(
            binding(name, namespace, USER),
            "/metadata/labels",
            json!({}),
        )
    };
    installed
        .create(unlabelled("covey-operator", "users-b"))
        .await;
    // Made while there was a TenantCluster.
    for (namespace, object) in [
        ("users-c", policies::needed("users-c")),
        ("users-d", binding("covey-operator", "users-d", USER)),
    ] {
        let cluster = tenant_cluster(namespace);
        installed.create(cluster.clone()).await;
        until(async || write(&admin, &object, "create", false).await.is_ok()).await;
        write(&admin, &cluster, "delete", false).await.unwrap();
    }
    installed.create(unlabelled("admins", "users-a")).await;
    installed
        .create(binding("ccm", "covey-b-1111111111", CCM))
        .await;
    installed.create(unlabelled("ccm", "users-b")).await;
    installed
        .create(binding("covey-autoscaler-a", "users-b", AUTOSCALER))
        .await;
    let theirs = binding("covey-autoscaler-theirs", "users-b", AUTOSCALER);
    installed
        .create(with(theirs, "/metadata/labels", json!({})))
        .await;
    installed
        .create(secret("ours-kubeconfig", "users-a", true))
        .await;
    installed
        .create(secret("theirs-kubeconfig", "users-a", false))
        .await;
    installed.create(secret("theirs", "users-a", false)).await;
    for (name, namespace, claim) in [
        ("of-etcd", "covey-a-1111111111", "data-etcd-0"),
        ("of-others", "users-a", "data"),
    ] {
        installed
            .create(policies::volume(name, namespace, claim))
            .await;
    }

    // With every right there is, so that it is the policies that refuse. By its group: a binding
    // would give them to the operator of the other tests, too.
    let operator = installed
        .api
        .client_as(OPERATOR, &["system:masters"])
        .unwrap();
    // Policies and their parameters reach the API server's evaluation a moment after they are
    // stored: wait for the strictest question to be answered both ways.
    let strict = binding("covey-operator", "default", USER);
    until(async || is_refused(&write(&operator, &strict, "create", true).await)).await;
    let fine = binding("covey-operator", "users-a", USER);
    until(async || write(&operator, &fine, "create", true).await.is_ok()).await;
    let namespaces = namespace("new", &[]);
    until(async || is_refused(&write(&operator, &namespaces, "create", true).await)).await;
    let left = binding("covey-operator", "users-d", USER);
    until(async || is_refused(&write(&operator, &left, "apply", true).await)).await;
    let secrets = secret("password", "users-a", false);
    until(async || is_refused(&write(&operator, &secrets, "create", true).await)).await;
    let volume = policies::volume("of-etcd", "covey-a-1111111111", "data-etcd-0");
    until(async || is_refused(&write(&operator, &volume, "delete", true).await)).await;

    for (verb, object, refusal) in policies::table() {
        let answer = write(&operator, &object, verb, true).await;
        match (refusal, answer) {
            (None, answer) => assert_eq!(answer, Ok(()), "{verb} {object}"),
            (Some(part), Err(error)) => assert!(error.contains(part), "{verb} {object}: {error}"),
            (Some(part), Ok(())) => panic!("{verb} {object} was not refused with \"{part}\""),
        }
        // Nobody else is asked anything.
        if refusal.is_some() && verb != "delete" && object["kind"] != "RoleBinding" {
            let answer = write(&admin, &object, "apply", true).await;
            assert_eq!(answer, Ok(()), "{object}");
        }
    }
}

#[tokio::test]
async fn operator_has_the_rights_of_its_roles_and_no_more() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    let admin = installed.admin();
    for name in ["rights-a", "rights-b"] {
        installed.create(namespace(name, &[])).await;
    }
    installed
        .create(namespace("covey-r-1111111111", &[(UID, "u1"), RESTRICTED]))
        .await;
    installed
        .create(binding("covey-operator", "covey-r-1111111111", TENANT))
        .await;
    // Without the labels that a policy selects by: there is no TenantCluster.
    let users = binding("covey-operator", "rights-a", USER);
    let users = with(users, "/metadata/labels", json!({}));
    installed.create(users).await;

    // verb, group, resource, namespace ("" for all), allowed
    let table = [
        ("get", "", "secrets", "", false),
        ("list", "", "secrets", "rights-b", false),
        ("get", "", "secrets", "kube-system", false),
        ("get", "", "secrets", "rights-a", true),
        ("create", "", "secrets", "rights-a", true),
        ("delete", "", "secrets", "rights-a", false),
        ("list", "", "secrets", "covey-r-1111111111", true),
        ("patch", "", "secrets", "covey-r-1111111111", true),
        // Konnectivity's when it is switched off, user data of Machines.
        ("delete", "", "secrets", "covey-r-1111111111", true),
        ("get", "", "secrets", "covey-r-1111111111", true),
        ("delete", "", "secrets", "covey-system", false),
        // Mirrors of load balancers, when the cloud controller manager is switched off.
        ("delete", "", "services", "covey-r-1111111111", true),
        ("delete", "", "services", "rights-a", false),
        (
            "create",
            "discovery.k8s.io",
            "endpointslices",
            "covey-r-1111111111",
            false,
        ),
        (
            "create",
            "kubevirt.io",
            "virtualmachines",
            "covey-r-1111111111",
            true,
        ),
        (
            "create",
            "kubevirt.io",
            "virtualmachines",
            "rights-a",
            false,
        ),
        (
            "patch",
            "kubevirt.io",
            "virtualmachines",
            "covey-r-1111111111",
            true,
        ),
        ("patch", "kubevirt.io", "virtualmachines", "rights-a", false),
        ("get", "", "nodes", "", true),
        // What is left of them for machines.
        ("list", "", "nodes", "", true),
        ("watch", "", "pods", "", true),
        ("watch", "", "resourcequotas", "", true),
        ("list", "networking.k8s.io", "servicecidrs", "", true),
        ("watch", "networking.k8s.io", "servicecidrs", "", true),
        ("delete", "networking.k8s.io", "servicecidrs", "", false),
        ("patch", "", "nodes", "", false),
        ("get", "", "pods", "covey-r-1111111111", false),
        ("delete", "", "pods", "", false),
        ("patch", "", "resourcequotas", "", false),
        ("watch", "kubevirt.io", "virtualmachineinstances", "", false),
        ("delete", "covey.dev", "machines", "rights-a", true),
        ("delete", "covey.dev", "nodepools", "rights-a", false),
        ("create", "", "secrets", "covey-system", true),
        ("list", "", "secrets", "covey-system", false),
        // What checks BackupTargets, and the Secrets that those name.
        ("create", "batch", "jobs", "covey-system", true),
        ("delete", "batch", "jobs", "covey-system", true),
        ("patch", "batch", "jobs", "covey-system", false),
        ("create", "batch", "jobs", "rights-a", false),
        ("get", "", "secrets", "covey-system", true),
        ("get", "", "secrets", "rights-b", false),
        ("create", "", "pods", "rights-a", false),
        ("create", "", "pods", "covey-r-1111111111", false),
        ("create", "apps", "statefulsets", "covey-r-1111111111", true),
        ("create", "apps", "statefulsets", "rights-a", false),
        ("watch", "apps", "statefulsets", "", true),
        ("create", "", "namespaces", "", true),
        ("watch", "covey.dev", "tenantclusters", "", true),
        ("create", "covey.dev", "tenantclusters", "", false),
        ("delete", "covey.dev", "tenantclusters", "rights-a", false),
        (
            "create",
            "rbac.authorization.k8s.io",
            "rolebindings",
            "",
            true,
        ),
        // Those of autoscalers that are switched off.
        (
            "delete",
            "rbac.authorization.k8s.io",
            "rolebindings",
            "rights-a",
            true,
        ),
        (
            "delete",
            "rbac.authorization.k8s.io",
            "rolebindings",
            "rights-b",
            false,
        ),
        (
            "create",
            "rbac.authorization.k8s.io",
            "roles",
            "covey-r-1111111111",
            false,
        ),
        (
            "create",
            "rbac.authorization.k8s.io",
            "clusterrolebindings",
            "",
            false,
        ),
        (
            "bind",
            "rbac.authorization.k8s.io",
            "clusterroles",
            "",
            false,
        ),
        (
            "escalate",
            "rbac.authorization.k8s.io",
            "clusterroles",
            "",
            false,
        ),
        (
            "create",
            "",
            "serviceaccounts/token",
            "covey-r-1111111111",
            false,
        ),
        ("create", "", "pods/exec", "covey-r-1111111111", false),
        ("patch", "covey.dev", "hosts/status", "", true),
        ("create", "covey.dev", "hosts", "", false),
        ("delete", "covey.dev", "hosts", "", false),
        (
            "update",
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies",
            "",
            false,
        ),
        (
            "patch",
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            "",
            false,
        ),
        ("get", "", "nodes/proxy", "", false),
        ("impersonate", "", "users", "", false),
        (
            "create",
            "coordination.k8s.io",
            "leases",
            "covey-system",
            true,
        ),
        (
            "create",
            "coordination.k8s.io",
            "leases",
            "kube-system",
            false,
        ),
    ];
    for question in table {
        assert_may(&admin, OPERATOR, question).await;
    }
}

#[tokio::test]
async fn webhook_reads_what_it_decides_from_and_writes_nothing() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    let admin = installed.admin();
    // verb, group, resource, namespace ("" for all), allowed
    let table = [
        ("watch", "covey.dev", "tenantclusters", "", true),
        ("list", "covey.dev", "nodepools", "", true),
        ("watch", "covey.dev", "tenantquotas", "", true),
        ("watch", "", "nodes", "", true),
        ("list", "networking.k8s.io", "servicecidrs", "", true),
        ("list", "covey.dev", "machines", "", false),
        ("patch", "covey.dev", "tenantclusters", "", false),
        ("patch", "covey.dev", "tenantclusters/status", "", false),
        ("list", "", "secrets", "", false),
        // Only the one that is named.
        ("list", "", "secrets", "covey-system", false),
        ("create", "", "secrets", "covey-system", false),
        ("list", "", "pods", "", false),
        ("list", "", "namespaces", "", false),
        (
            "patch",
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            "",
            false,
        ),
        (
            "create",
            "coordination.k8s.io",
            "leases",
            "covey-system",
            false,
        ),
        ("create", "events.k8s.io", "events", "", false),
    ];
    for question in table {
        assert_may(&admin, WEBHOOK, question).await;
    }
}

/// verb, group, resource, namespace ("" for all), allowed
type Question = (&'static str, &'static str, &'static str, &'static str, bool);

async fn assert_may(admin: &Client, user: &str, question: Question) {
    let (verb, group, resource, namespace, allowed) = question;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": user,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource,
                "subresource": subresource, "namespace": namespace,
            },
        },
    });
    let expected = if allowed { "may" } else { "may not" };
    let question = format!("{user} {expected} {verb} {resource} {subresource} in \"{namespace}\"");
    if !allowed {
        assert!(!ask(admin, &review).await, "{question}");
        return;
    }
    // The authorizer sees a new binding a moment after it is stored.
    let asked = ask_until(&question, PATIENCE, || async {
        Ok(match ask(admin, &review).await {
            true => Ok(()),
            false => Err("it may not".to_owned()),
        })
    });
    asked.await.unwrap();
}

#[tokio::test]
async fn upgrades_keep_the_webhooks_authority_and_uninstalling_keeps_tenant_clusters() {
    let Some(installed) = Installed::new().await else {
        return;
    };
    let admin = installed.admin();
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "covey" },
    });
    let webhooks = api_of(&admin, &webhook);
    // A bundle must hold a certificate; base64 of the PEM text.
    let ca = serde_json::to_value(k8s_openapi::ByteString(
        installed.api.ca().as_bytes().to_vec(),
    ))
    .unwrap();
    let patch = json!([{ "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ca }]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    webhooks
        .patch("covey", &PatchParams::default(), &patch)
        .await
        .unwrap();

    installed.upgrade(&["--set", "webhook.timeoutSeconds=7"]);
    let live = webhooks.get("covey").await.unwrap();
    assert_eq!(live.data["webhooks"][0]["timeoutSeconds"], json!(7));
    assert_eq!(live.data["webhooks"][0]["clientConfig"]["caBundle"], ca);

    installed
        .helm
        .run(&["rollback", "covey", "1", "--namespace", "covey-system"])
        .unwrap();
    let live = webhooks.get("covey").await.unwrap();
    assert_eq!(live.data["webhooks"][0]["timeoutSeconds"], json!(1));
    assert_eq!(live.data["webhooks"][0]["clientConfig"]["caBundle"], ca);

    installed.create(namespace("team-a", &[])).await;
    installed.create(tenant_cluster("team-a")).await;
    installed
        .helm
        .run(&["uninstall", "covey", "--namespace", "covey-system"])
        .unwrap();
    let clusters = api_of(&admin, &tenant_cluster("team-a"));
    assert_eq!(clusters.get("demo").await.unwrap().name_any(), "demo");
    // And the chart takes them over again.
    installed.upgrade(&["--install"]);
    assert_eq!(clusters.get("demo").await.unwrap().name_any(), "demo");
}

#[tokio::test]
async fn examples_are_accepted_and_pods_meet_the_restricted_profile() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    let admin = installed.admin();
    let mut examples = 0;
    for entry in std::fs::read_dir(root().join("deploy/examples")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for document in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            installed.create(object).await;
            examples += 1;
        }
    }
    assert!(examples >= 6, "{examples}");

    installed.create(namespace("strict", &[RESTRICTED])).await;
    let objects = installed.helm.objects(&[]);
    installed
        .create(json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": "default", "namespace": "strict" },
        }))
        .await;
    let deployments = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment");
    let mut pods = 0;
    for deployment in deployments {
        let template = deployment["spec"]["template"].clone();
        let mut pod =
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template["spec"] });
        pod["metadata"] = json!({ "name": "operator", "namespace": "strict" });
        pod["spec"]["serviceAccountName"] = json!("default");
        assert_eq!(write(&admin, &pod, "create", true).await, Ok(()));
        let careless = with(
            pod,
            "/spec/containers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
        );
        let refused = write(&admin, &careless, "create", true).await.unwrap_err();
        assert!(refused.contains("restricted"), "{refused}");
        pods += 1;
    }
    assert_eq!(pods, 2, "operator and webhook");
}

async fn ask(client: &Client, review: &Value) -> bool {
    let object = serde_json::from_value(review.clone()).unwrap();
    let answer = api_of(client, review)
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    answer.data["status"]["allowed"].as_bool().unwrap()
}

/// Whether a policy refuses it for what it says: one whose parameters are not found yet refuses everything.
fn is_refused(answer: &Result<(), String>) -> bool {
    let told = answer.as_ref().err();
    told.is_some_and(|told| !told.contains("failed to configure policy"))
}

async fn until(condition: impl AsyncFn() -> bool) {
    let asked = ask_until("the policies are in force", PATIENCE, || async {
        Ok(match condition().await {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        })
    });
    asked.await.unwrap();
}
