//! Somebody of the management cluster changes each mirror that is applied: that is accepted once it is known,
//! told once, and written no more.
//!
//! Invariant: the API server itself changes it, by a policy, each time that a mirror is written.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::{Value, json};
use testkit::fixtures::{PATIENCE, ask_until};
use testkit::{ManagementApi, Options};

use crate::support::{Ccm, Environment};

/// Where load balancers let clients come from, whatever they ask for.
const GIVEN: &str = "192.0.2.0/24";
/// What the tenant's Service asks for.
const ASKED: &str = "10.0.0.0/8";

/// A tenant cluster in a management API that knows MutatingAdmissionPolicies, which are off by default in
/// Kubernetes 1.35.
async fn environment() -> Result<Option<Environment>> {
    let options = Options {
        apiserver_flags: vec![
            "--feature-gates=MutatingAdmissionPolicy=true".to_owned(),
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true".to_owned(),
        ],
        ..Options::default()
    };
    let Some(management) = ManagementApi::start_with(options).await? else {
        return Ok(None);
    };
    management.install_kinds().await?;
    let tenant = ManagementApi::start_with(Options::alone()).await?;
    let tenant = tenant.context("the programs were there a moment ago")?;
    let environment = Environment::on(Arc::new(management), "mutated", tenant);
    environment.await.map(Some)
}

/// Makes an object of a kind that nothing of Covey's uses.
async fn create(environment: &Environment, plural: &str, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.as_ref().context("it has a kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    let all: Api<DynamicObject> = Api::all_with(environment.admin.clone(), &kind);
    all.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// How many Events tell the tenant of a field that is another one.
async fn times_told(environment: &Environment) -> Result<usize> {
    let events: Api<Event> = Api::namespaced(environment.inside.clone(), "default");
    let all = events.list(&ListParams::default()).await?.items.into_iter();
    let of = all.filter(|event| event.reason.as_deref() == Some("LoadBalancerDiffers"));
    Ok(of.count())
}

/// A policy of the management cluster: every Service of the tenant namespace has these source ranges. In force
/// from the return on.
async fn give_ranges(environment: &Environment) -> Result<()> {
    let name = format!("ranges-{}", environment.uid);
    let group = "admissionregistration.k8s.io/v1beta1";
    // Lists that are replaced as a whole a policy cannot apply, so it patches.
    let expression = format!(
        "[JSONPatch{{op: 'add', path: '/spec/loadBalancerSourceRanges', value: ['{GIVEN}']}}]"
    );
    let namespace = json!({ "kubernetes.io/metadata.name": environment.ns });
    create(
        environment,
        "mutatingadmissionpolicies",
        json!({
            "apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["services"],
                }] },
                "mutations": [{
                    "patchType": "JSONPatch", "jsonPatch": { "expression": expression },
                }],
            },
        }),
    )
    .await?;
    create(
        environment,
        "mutatingadmissionpolicybindings",
        json!({
            "apiVersion": group, "kind": "MutatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": {
                "policyName": name,
                "matchResources": { "namespaceSelector": { "matchLabels": namespace } },
            },
        }),
    )
    .await?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let probe: Service = serde_json::from_value(json!({
        "metadata": { "name": "probe" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    }))?;
    let mirrors = environment.mirrors();
    ask_until("the policy is in force", PATIENCE, || async {
        let made = mirrors.create(&dry_run, &probe).await?;
        Ok(match ranges(&made) == [GIVEN] {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        })
    })
    .await
}

fn ranges(service: &Service) -> Vec<String> {
    let spec = service.spec.as_ref();
    let ranges = spec.and_then(|spec| spec.load_balancer_source_ranges.clone());
    ranges.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_policy_changes_in_each_mirror_is_accepted_told_once_and_written_no_more()
-> Result<()> {
    let Some(environment) = environment().await? else {
        return Ok(());
    };
    give_ranges(&environment).await?;
    let ccm = Ccm::start(&environment)?;
    environment.worker("a", &["10.5.0.1"]).await?;
    let asks = json!({ "loadBalancerSourceRanges": [ASKED] });
    let service = environment.service("web", &asks).await?;
    let name = environment.mirror_name(&service);
    // It costs neither endpoints nor the address.
    environment.ready(&name, &["10.5.0.1"]).await?;
    environment
        .allocate(&name, &json!([{ "ip": "192.0.2.10" }]))
        .await?;
    environment.addresses("web", &["192.0.2.10"]).await?;
    let told = environment.event("LoadBalancerDiffers").await?;
    ensure!(told.contains("spec.loadBalancerSourceRanges"), "{told}");
    ensure!(!told.contains(&name) && !told.contains("ranges-"), "{told}");
    let mirror = environment.mirror(&service, |_| true).await?;
    assert_eq!(ranges(&mirror), [GIVEN], "the policy wins");

    // At rest nothing is written to either cluster, however often it is looked at.
    ccm.rest().await;
    let windows = || {
        anyhow::Ok([
            (environment.management.audit().window()?, environment.user()),
            (
                environment.tenant.audit().window()?,
                environment.tenant_user(),
            ),
        ])
    };
    let still = windows()?;
    for _ in 0..3 {
        ccm.rest().await;
    }
    for (window, user) in &still {
        window.assert_no_writes(user)?;
    }
    assert_eq!(times_told(&environment).await?, 1);

    // Machines come and go beside it, and the mirror is not asked for again.
    let beside = environment.management.audit().window()?;
    environment.worker("b", &["10.5.0.2"]).await?;
    environment.ready(&name, &["10.5.0.1", "10.5.0.2"]).await?;
    let writes = beside.writes_of(&environment.user())?;
    ensure!(
        writes.iter().all(|write| write.kind != "services"),
        "{writes:#?}"
    );

    // Another process asks for it once, is given the same, and leaves it at that.
    ccm.rest().await;
    drop(ccm);
    let again = environment.management.audit().window()?;
    let ccm = Ccm::start(&environment)?;
    ccm.rest().await;
    let mut writes = again.writes_of(&environment.user())?;
    writes.retain(|write| write.kind == "services");
    assert_eq!(writes.len(), 1, "{writes:#?}");
    let [(management, user), _] = windows()?;
    ccm.rest().await;
    management.assert_no_writes(&user)
}
