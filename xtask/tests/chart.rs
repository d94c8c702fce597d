//! The Helm chart without a cluster: it lints, renders what is committed, and refuses mistakes.
//!
//! Long because every value is looked at here.
//! Invariant: with helm missing these tests say `SKIPPED` past the test runner's capture, and fail
//! instead where `COVEY_TEST_REQUIRE=1` is set. `COVEY_UPDATE_GOLDEN=1` writes the golden files.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::collections::BTreeSet;
use std::path::Path;

use insight::check::Check;
use serde_json::{Value, json};
use tenant_cp::Settings;

mod support;
use support::{CHART, Helm, VERSIONS, helm, root};

#[test]
fn chart_lints_without_a_warning() {
    let Some(helm) = helm() else { return };
    for version in VERSIONS {
        let output = helm.run(&["lint", "--strict", "--kube-version", version, CHART]);
        let output = output.unwrap_or_else(|error| panic!("{error}"));
        assert!(
            !output.contains("[WARNING]") && !output.contains("[ERROR]"),
            "{output}"
        );
    }
}

#[test]
fn rendered_objects_are_those_that_were_reviewed() {
    let Some(helm) = helm() else { return };
    let folder = root().join("deploy/tests");
    let mut cases = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(case) = name.strip_suffix(".values.yaml") else {
            continue;
        };
        let rendered = helm
            .template(&["--values", path.to_str().unwrap()])
            .unwrap();
        compare(
            &folder.join("golden").join(format!("{case}.yaml")),
            &without_generated(&rendered),
        );
        if case == "defaults" {
            compare(&folder.join("golden/roles.yaml"), &roles(&rendered));
        }
        cases += 1;
    }
    assert!(cases >= 3, "only {cases} *.values.yaml in deploy/tests");
}

#[test]
fn what_is_switched_off_is_not_rendered() {
    let Some(helm) = helm() else { return };
    for (value, kind) in [
        ("crds.install", "CustomResourceDefinition"),
        ("admissionPolicies.enabled", "ValidatingAdmissionPolicy"),
        ("networkPolicy.enabled", "NetworkPolicy"),
        ("podDisruptionBudget.enabled", "PodDisruptionBudget"),
        ("metrics.rules.enabled", "PrometheusRule"),
    ] {
        let rendered = |on: bool| {
            let objects = helm.objects(&["--set", &format!("{value}={on}")]);
            objects.iter().any(|object| object["kind"] == kind)
        };
        assert!(rendered(true) && !rendered(false), "{value}");
    }
}

#[test]
fn mistakes_in_values_are_refused_with_their_place() {
    let Some(helm) = helm() else { return };
    // What is set, and where the message says the mistake is.
    let table = [
        ("replica=3", "'replica'"),
        ("replicas=0", "/replicas"),
        ("replicas=two", "/replicas"),
        ("image.repo=x", "'repo'"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("image.digest=latest", "/image/digest"),
        ("image.tag=a b", "/image/tag"),
        ("activator.image.digest=latest", "/activator/image/digest"),
        ("dashboard.image.digest=latest", "/dashboard/image/digest"),
        ("doctor.image.digest=latest", "/doctor/image/digest"),
        ("config.images.ccm=a/ccm:1@sha256:0", "/config/images/ccm"),
        ("imagePullSecrets[0]=Not_A_Name", "/imagePullSecrets/0"),
        ("crds.install=maybe", "/crds/install"),
        ("resources.limits.memory=lots", "/resources/limits/memory"),
        ("resources.limits.gpu=1", "'gpu'"),
        (
            "podDisruptionBudget.maxUnavailable=0",
            "/podDisruptionBudget/maxUnavailable",
        ),
        ("tolerations[0].effect=Never", "/tolerations/0/effect"),
        ("nodeSelector.a=true", "/nodeSelector/a"),
        ("extraEnv[0].value=x", "/extraEnv/0"),
        ("webhook.failurePolicy=Maybe", "/webhook/failurePolicy"),
        ("webhook.timeoutSeconds=60", "/webhook/timeoutSeconds"),
        ("webhook.replicas=0", "/webhook/replicas"),
        (
            "webhook.resources.limits.memory=lots",
            "/webhook/resources/limits/memory",
        ),
        ("admissionPolicies=true", "/admissionPolicies"),
        ("dashboard.server=http://api", "/dashboard/server"),
        ("dashboard.replicas=2", "'replicas'"),
        (
            "metrics.serviceMonitor.interval=often",
            "/metrics/serviceMonitor/interval",
        ),
        ("metrics.rules.enabled=maybe", "/metrics/rules/enabled"),
        (
            "metrics.tenants.from[0].labels.a=b",
            "/metrics/tenants/from/0",
        ),
        ("config.metrics.from[0].pod=b", "/config/metrics/from/0"),
        ("metrics.dashboards.folder=x", "'folder'"),
        (
            "networkPolicy.managementApi.ports[0]=70000",
            "/networkPolicy/managementApi/ports/0",
        ),
        (
            "networkPolicy.managementApi.cidrs[0]=10.0.0.1",
            "/networkPolicy/managementApi/cidrs/0",
        ),
        (
            "networkPolicy.clouds.cidrs[0]=api.hetzner.cloud",
            "/networkPolicy/clouds/cidrs/0",
        ),
        ("config.registri=x", "'registri'"),
        ("config.registry=x/", "/config/registry"),
        (
            "config.allowedRegistries[0]=https://x",
            "/config/allowedRegistries/0",
        ),
        (
            "config.endpoint.types[0]=Ingress",
            "/config/endpoint/types/0",
        ),
        ("config.endpoint.hosts[0]=a", "'hosts'"),
        (
            "config.etcdStorageClasses[0]=Fast",
            "/config/etcdStorageClasses/0",
        ),
        ("config.etcdImage=etcd", "/config/etcdImage"),
        ("config.images.flannel=flannel", "/config/images/flannel"),
        ("config.images.cilium=x", "'cilium'"),
        ("config.operatorNamespace=x", "'operatorNamespace'"),
        ("config.network.pods.cidr=10.0.0.0", "/config/network/pods"),
        (
            "config.certificates.leafHours=0",
            "/config/certificates/leafHours",
        ),
        (
            "config.maxConcurrentStarts=many",
            "/config/maxConcurrentStarts",
        ),
        (
            "config.orphans.removeAfter=soon",
            "/config/orphans/removeAfter",
        ),
        ("config.providers.openstack.enabled=true", "'openstack'"),
        (
            "config.providers.kubevirt.imagePullPolicy=Sometimes",
            "/config/providers/kubevirt/imagePullPolicy",
        ),
        (
            "config.providers.kubevirt.kernel.path=vmlinuz",
            "/config/providers/kubevirt/kernel/path",
        ),
    ];
    for (mistake, place) in table {
        let error = helm.template(&["--set", mistake]).expect_err(mistake);
        assert!(
            error.contains("schema") && error.contains(place),
            "{mistake}: {error}"
        );
    }
}

#[test]
fn configuration_shown_in_the_values_is_the_operators_default() {
    let values = std::fs::read_to_string(root().join(CHART).join("values.yaml")).unwrap();
    let (_, rest) = values
        .split_once("\nconfig: {}\n")
        .expect("values.yaml has config: {}");
    let shown: Vec<&str> = rest
        .lines()
        .map_while(|line| line.strip_prefix("  # "))
        .collect();
    let settings: Settings = serde_saphyr::from_str(&shown.join("\n")).unwrap();
    assert_eq!(settings, Settings::default());
    // Every line of it counts: a setting that is left out would still be the default.
    let keys: BTreeSet<&str> = shown
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|l| l.0)
        .collect();
    for setting in users_settings() {
        assert!(
            keys.contains(setting.as_str()),
            "values.yaml does not show config.{setting}"
        );
    }
}

#[test]
fn schema_knows_every_setting() {
    let schema = std::fs::read_to_string(root().join(CHART).join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let known = schema["properties"]["config"]["properties"]
        .as_object()
        .unwrap();
    assert_eq!(
        known.keys().cloned().collect::<BTreeSet<_>>(),
        users_settings()
    );
    let settings = serde_json::to_value(Settings::default()).unwrap();
    for (name, schema) in known {
        assert_known(&format!("config.{name}"), schema, &settings[name]);
    }
}

/// Below the top too, where the schema lists what there is.
fn assert_known(path: &str, schema: &Value, settings: &Value) {
    let listed = schema["properties"].as_object();
    for (name, value) in settings.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let Some(listed) = listed else { continue };
        let schema = listed.get(name);
        let schema = schema.unwrap_or_else(|| panic!("the schema refuses {path}"));
        assert_known(&path, schema, value);
    }
}

#[test]
fn configuration_file_is_one_that_the_operator_reads() {
    let Some(helm) = helm() else { return };
    let set = [
        "--namespace",
        "elsewhere",
        "--set-json",
        r#"config={"registry":"r.example/k8s"}"#,
    ];
    let objects = helm.objects(&set);
    let map = objects
        .iter()
        .find(|o| o["metadata"]["name"] == "covey-config")
        .unwrap();
    let text = map["data"]["config.yaml"].as_str().unwrap();
    let settings: Settings = serde_saphyr::from_str(text).unwrap();
    assert_eq!(settings.operator_namespace, "elsewhere");
    assert_eq!(settings.registry, "r.example/k8s");
    assert_eq!(settings.network, Settings::default().network);
}

#[test]
fn operator_has_no_right_on_all_secrets_and_no_wildcard() {
    let Some(helm) = helm() else { return };
    let objects = helm.objects(&[]);
    let bound: Vec<&Value> = objects
        .iter()
        .filter(|o| o["kind"] == "ClusterRoleBinding")
        .map(|o| &o["roleRef"]["name"])
        .collect();
    assert_eq!(bound, [&json!("covey-operator"), &json!("covey-webhook")]);
    let mut rules = 0;
    for role in objects
        .iter()
        .filter(|o| o["kind"] == "ClusterRole" || o["kind"] == "Role")
    {
        for rule in role["rules"].as_array().unwrap() {
            let text = rule.to_string();
            assert!(!text.contains('*'), "{text}");
            for verb in [
                "escalate",
                "impersonate",
                "serviceaccounts/token",
                "pods/exec",
            ] {
                assert!(!text.contains(verb), "{text}");
            }
            let cluster_wide =
                role["kind"] == "ClusterRole" && bound.contains(&&role["metadata"]["name"]);
            assert!(!(cluster_wide && text.contains("secrets")), "{text}");
            if text.contains("bind\"") {
                let roles = json!([
                    "covey-autoscaler",
                    "covey-ccm",
                    "covey-csi",
                    "covey-tenant-namespace",
                    "covey-user-namespace"
                ]);
                assert_eq!(rule["resourceNames"], roles);
            }
            rules += 1;
        }
    }
    assert!(rules > 10, "{rules}");
}

#[test]
fn webhook_writes_nothing_and_reads_no_secret_but_its_own() {
    let Some(helm) = helm() else { return };
    let objects = helm.objects(&[]);
    let mut rules = 0;
    let roles = objects.iter().filter(|object| {
        let role = object["kind"] == "ClusterRole" || object["kind"] == "Role";
        role && object["metadata"]["name"] == "covey-webhook"
    });
    for rule in roles.flat_map(|role| role["rules"].as_array().unwrap()) {
        assert_eq!(rule["verbs"], json!(["list", "watch"]), "{rule}");
        if rule["resources"].to_string().contains("secrets") {
            assert_eq!(rule["resourceNames"], json!(["covey-webhook"]), "{rule}");
        }
        rules += 1;
    }
    assert!(rules >= 4, "{rules}");
}

#[test]
fn dashboard_has_no_rights_no_token_and_no_plain_port() {
    let Some(helm) = helm() else { return };
    let off = helm.objects(&[]);
    let is_its = |object: &&Value| object["metadata"]["name"] == "covey-dashboard";
    assert_eq!(off.iter().filter(is_its).count(), 0, "it is off by default");
    let error = helm.template(&["--set", "dashboard.enabled=true"]);
    let error = error.expect_err("it needs a certificate");
    assert!(error.contains("dashboard.tlsSecretName"), "{error}");
    let set = "dashboard.enabled=true,dashboard.tlsSecretName=tls";
    let objects = helm.objects(&["--set", set]);
    let kinds: BTreeSet<_> = objects
        .iter()
        .filter(is_its)
        .map(|o| o["kind"].as_str().unwrap())
        .collect();
    let expected = ["Deployment", "NetworkPolicy", "Service", "ServiceAccount"];
    assert_eq!(kinds, BTreeSet::from(expected));
    // Nobody binds its account to anything, under whatever name.
    let bindings = objects
        .iter()
        .filter(|o| o["kind"].as_str().unwrap().ends_with("RoleBinding"));
    for binding in bindings {
        assert!(
            !binding["subjects"].to_string().contains("dashboard"),
            "{binding}"
        );
    }
    let its = |kind: &str| {
        objects
            .iter()
            .filter(is_its)
            .find(|o| o["kind"] == kind)
            .unwrap()
    };
    assert_eq!(its("ServiceAccount")["automountServiceAccountToken"], false);
    let pod = &its("Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    let volumes = pod["volumes"].to_string();
    assert!(!volumes.contains("serviceAccountToken"), "{volumes}");
    assert_eq!(
        pods(&objects, "covey-dashboard").2,
        ["admin", "probes", "https"]
    );
    assert_eq!(its("Service")["spec"]["ports"][0]["targetPort"], "https");
}

#[test]
fn a_digest_wins_over_a_tag_in_every_image() {
    let Some(helm) = helm() else { return };
    let digest = format!("sha256:{}", "0a".repeat(32));
    let set = format!(
        "activator.enabled=true,dashboard.enabled=true,dashboard.tlsSecretName=tls,image.digest={digest},\
         activator.image.digest={digest},dashboard.image.digest={digest},doctor.image.digest={digest},\
         config.images.ccm=covey-dev/ccm:1@{digest}"
    );
    let rendered = helm
        .run(&["template", "covey", CHART, "--set", &set])
        .unwrap();
    for name in ["operator", "activator", "dashboard", "covey"] {
        let image = format!("image: ghcr.io/covey-dev/{name}@{digest}");
        assert!(rendered.contains(&image), "{image}");
        assert!(
            !rendered.contains(&format!("ghcr.io/covey-dev/{name}:")),
            "{name}"
        );
    }
    assert!(rendered.contains(&format!("ccm: covey-dev/ccm:1@{digest}")));
}

/// What `helm test` makes.
fn tests_of(helm: &Helm, args: &[&str]) -> Vec<Value> {
    let shown = ["--show-only", "templates/tests/doctor.yaml"];
    let fixed = ["template", "covey", CHART, "--namespace", "elsewhere"];
    let rendered = helm.run(&[&fixed[..], &shown, args].concat()).unwrap();
    let documents = rendered.split("\n---\n").filter(|d| d.contains("kind:"));
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

#[test]
fn helm_test_asks_the_doctor_about_the_installation_and_nothing_of_it_stays() {
    let Some(helm) = helm() else { return };
    let objects = tests_of(&helm, &[]);
    assert_eq!(objects.len(), 6);
    for object in &objects {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "test", "{object}");
        let delete = annotations["helm.sh/hook-delete-policy"].as_str().unwrap();
        assert!(delete.contains("hook-succeeded"), "{delete}");
    }
    let pod = objects
        .iter()
        .find(|object| object["kind"] == "Pod")
        .unwrap();
    let args: Vec<_> = pod["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| argument.as_str().unwrap())
        .collect();
    assert!(args.contains(&"--operator-namespace=elsewhere"), "{args:?}");
    let checks = |args: &[&str]| {
        let only = args
            .iter()
            .find_map(|argument| argument.strip_prefix("--only="));
        let only = only.unwrap().split(',');
        only.map(|check| Check::find(check).unwrap_or_else(|| panic!("{check}")))
            .collect::<Vec<_>>()
    };
    let all = Check::ALL.iter().copied();
    let all: Vec<_> = all
        // Whether the operator moves is seen at tenant clusters, which are no part of a release.
        .filter(|check| (5..=14).contains(&check.number()) && *check != Check::OperatorMoves)
        .collect();
    assert_eq!(checks(&args), all);
    // Without the policies nobody asks for them.
    let objects = tests_of(&helm, &["--set", "admissionPolicies.enabled=false"]);
    let text = objects.last().unwrap().to_string();
    assert!(text.contains("--only=5,6,7,8,10,12,13,14"), "{text}");
}

#[test]
fn the_doctor_may_read_no_secret_and_write_nothing() {
    let Some(helm) = helm() else { return };
    let objects = tests_of(&helm, &[]);
    let roles = objects
        .iter()
        .filter(|o| o["kind"] == "Role" || o["kind"] == "ClusterRole");
    let rules: Vec<_> = roles
        .flat_map(|role| role["rules"].as_array().unwrap())
        .collect();
    assert!(rules.len() >= 7, "{rules:?}");
    for rule in rules {
        let text = rule.to_string();
        assert!(!text.contains("secrets") && !text.contains('*'), "{text}");
        for verb in rule["verbs"].as_array().unwrap() {
            assert!(verb == "get" || verb == "list", "{text}");
        }
    }
    let bound = objects
        .iter()
        .filter(|o| o["kind"].as_str().unwrap().ends_with("RoleBinding"));
    for binding in bound {
        assert_eq!(binding["subjects"][0]["name"], "covey-doctor");
        assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
    }
}

/// The labels of a Deployment's pods, its container and its ports.
fn pods<'a>(objects: &'a [Value], name: &str) -> (&'a Value, &'a Value, Vec<&'a Value>) {
    let deployment = objects
        .iter()
        .find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no Deployment {name}"));
    let template = &deployment["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let ports = container["ports"].as_array().unwrap();
    let ports = ports.iter().map(|port| &port["name"]).collect();
    (&template["metadata"]["labels"], container, ports)
}

#[test]
fn only_pods_of_the_webhook_answer_it_and_each_kind_of_pod_has_rules_of_its_own() {
    let Some(helm) = helm() else { return };
    let objects = helm.objects(&[]);
    let (operator, webhook) = (
        pods(&objects, "covey-operator"),
        pods(&objects, "covey-webhook"),
    );
    assert_eq!(operator.2, ["admin", "probes"]);
    assert_eq!(webhook.2, ["admin", "probes", "webhook"]);
    assert_eq!(operator.1["args"][0], "run");
    assert_eq!(webhook.1["args"][0], "webhook");
    // A selector is one of these labels exactly where all it asks for is there.
    let selects = |selector: &Value, labels: &Value| {
        let selector = selector.as_object().unwrap();
        selector.iter().all(|(key, value)| labels[key] == *value)
    };
    for (kind, selector) in [
        ("Service", "/spec/selector"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ("Deployment", "/spec/selector/matchLabels"),
    ] {
        let of = |name: &str| {
            let found = objects
                .iter()
                .find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
            found.and_then(|object| object.pointer(selector))
        };
        let own = of("covey-webhook").unwrap_or_else(|| panic!("no {kind} covey-webhook"));
        assert!(
            selects(own, webhook.0) && !selects(own, operator.0),
            "{kind}"
        );
        if let Some(other) = of("covey-operator") {
            assert!(
                selects(other, operator.0) && !selects(other, webhook.0),
                "{kind}"
            );
        }
    }
}

#[test]
fn rules_are_those_of_the_file_that_is_generated() {
    let Some(helm) = helm() else { return };
    let objects = helm.objects(&[
        "--set",
        "metrics.rules.enabled=true,metrics.rules.labels.release=prometheus",
    ]);
    let rule = objects
        .iter()
        .find(|object| object["kind"] == "PrometheusRule");
    let rule = rule.unwrap();
    let file = root().join(CHART).join("files/rules.yaml");
    let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(rule["spec"], file);
    assert!(rule["spec"]["groups"][0]["rules"][0]["expr"].is_string());
    assert_eq!(rule["metadata"]["labels"]["release"], "prometheus");
}

#[test]
fn programs_of_tenant_clusters_are_scraped_by_who_is_named_alone() {
    let Some(helm) = helm() else { return };
    let error = helm.template(&["--set", "metrics.tenants.enabled=true"]);
    let error = error.expect_err("nobody is named");
    assert!(error.contains("metrics.tenants.from"), "{error}");
    let scraper = "metrics.tenants.from[0].namespace=monitoring";
    let objects = helm.objects(&["--set", &format!("metrics.tenants.enabled=true,{scraper}")]);
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    assert_eq!(of_kind("PodMonitor").count(), 1);
    let map = of_kind("ConfigMap").find(|map| map["metadata"]["name"] == "covey-config");
    let text = map.unwrap()["data"]["config.yaml"].as_str().unwrap();
    let settings: Settings = serde_saphyr::from_str(text).unwrap();
    assert_eq!(settings.metrics.from.len(), 1);
    assert_eq!(settings.metrics.from[0].namespace, "monitoring");
    // Not enabled: nobody.
    let objects = helm.objects(&["--set", scraper]);
    assert!(!objects.iter().any(|object| object["kind"] == "PodMonitor"));
}

#[test]
fn dashboards_are_those_of_the_files_that_are_generated() {
    let Some(helm) = helm() else { return };
    let maps = |on: bool| {
        let objects = helm.objects(&["--set", &format!("metrics.dashboards.enabled={on}")]);
        let labelled = objects.into_iter();
        let labelled =
            labelled.filter(|object| object["metadata"]["labels"]["grafana_dashboard"] == "1");
        labelled.collect::<Vec<_>>()
    };
    assert!(maps(false).is_empty());
    let maps = maps(true);
    assert_eq!(maps.len(), 3);
    for map in maps {
        let (name, text) = map["data"].as_object().unwrap().iter().next().unwrap();
        let file = root().join(CHART).join("files/dashboards").join(name);
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let file = read(&std::fs::read_to_string(file).unwrap());
        assert_eq!(read(text.as_str().unwrap()), file, "{name}");
    }
}

/// The settings that users choose; the chart itself decides the others.
fn users_settings() -> BTreeSet<String> {
    let decided = [
        "operatorNamespace",
        "operatorServiceAccount",
        "tenantNamespaceRole",
        "userNamespaceRole",
    ];
    let settings = serde_json::to_value(Settings::default()).unwrap();
    let all = settings.as_object().unwrap().keys().cloned();
    all.filter(|name| !decided.contains(&name.as_str()))
        .collect()
}

/// Leaves out the objects that are generated from code: they have a comparison of their own.
fn without_generated(rendered: &str) -> String {
    let generated = [
        "# Source: covey/templates/crds.yaml",
        "# Source: covey/templates/rbac-rules.yaml",
        "# Source: covey/templates/grafana.yaml",
        "# Source: covey/templates/prometheusrule.yaml",
    ];
    let documents = rendered
        .split("---\n")
        .filter(|d| !generated.iter().any(|g| d.starts_with(g)));
    documents.collect::<Vec<_>>().join("---\n")
}

/// The roles as they are rendered, which `covey up` has besides the other objects.
fn roles(rendered: &str) -> String {
    let documents = rendered.split("---\n").filter(|document| {
        document.starts_with("# Source: covey/templates/rbac-rules.yaml")
            && document.contains("\nkind: ")
    });
    documents.collect::<Vec<_>>().join("---\n")
}

fn compare(path: &Path, rendered: &str) {
    if std::env::var_os("COVEY_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(path, rendered).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    for (number, (golden, rendered)) in golden.lines().zip(rendered.lines()).enumerate() {
        assert_eq!(
            rendered,
            golden,
            "{}:{}: if the change is meant, run with COVEY_UPDATE_GOLDEN=1 and review it",
            path.display(),
            number + 1
        );
    }
    assert_eq!(
        rendered.lines().count(),
        golden.lines().count(),
        "{}",
        path.display()
    );
}
