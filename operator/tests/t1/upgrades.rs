//! What speaks against an upgrade, asked of a real kube-apiserver with the operator's own rights.
//!
//! Invariant: tables, metrics and lists are those of a released kube-apiserver; none is played.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use jiff::Timestamp;
use kube::Client;
use operator::pod_failures;
use operator::tenant_session::etcd::answers::MemberStatus;
use operator::tenant_session::preflight;
use operator::tenant_session::preflight::answers::{Inside, Responder};
use operator::upgrades::checks::{Facts, all};
use operator::upgrades::finding::{Check, Verdict};
use operator::upgrades::versions::{self, Wanted};
use semver::Version;
use serde_json::{Value, json};
use tenant_cp::Settings;
use testkit::programs::Programs;
use testkit::waiting::ask_until;

use crate::keys::{ControlPlane, tenant_of};
use crate::support::PATIENCE;
use crate::support::site::apply;

/// A control plane of 1.36 that serves what 1.37 lacks.
async fn plane() -> Result<Option<ControlPlane>> {
    let Some(programs) = Programs::of_minor_or_skip(36)? else {
        return Ok(None);
    };
    let api = "networking.k8s.io/v1beta1";
    let settings: Settings = serde_json::from_value(json!({
        "apiServer": { "runtimeConfig": [api] },
    }))?;
    let spec = json!({
        "version": "1.36.3",
        "addons": { "konnectivity": { "enabled": false } },
        "controlPlane": { "runtimeConfig": { api: true } },
    });
    let valid = tenant_of(&spec, &settings)?;
    Ok(Some(ControlPlane::start_with(valid, &programs).await?))
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    Ok(client.request(Request::get(path).body(Vec::new())?).await?)
}

fn found(inside: &Inside) -> Vec<(Check, Verdict, String)> {
    let wanted = Wanted {
        from: Version::new(1, 36, 3),
        to: Version::new(1, 37, 0),
    };
    let member = MemberStatus {
        leader: Some("1".to_owned()),
        ..MemberStatus::default()
    };
    let facts = Facts {
        wanted: &wanted,
        unrest: None,
        members: 1,
        etcd: BTreeMap::from([("etcd-0", Ok(&member))]),
        authorities: Vec::new(),
        certificates_ready: true,
        inside,
        room: &[],
        has_pools: true,
    };
    let found = all(&facts, Timestamp::now()).into_iter();
    found.map(|f| (f.check, f.verdict, f.message)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_speaks_against_an_upgrade_is_found_at_once_with_the_operators_rights()
-> Result<()> {
    let Some(plane) = plane().await? else {
        return Ok(());
    };
    let (admin, operator) = (plane.administrator()?, plane.operator()?);
    let servers = [Ok(operator.clone())];

    // Without rights nothing is known, and nothing is taken for well.
    let before = preflight::ask(&operator, &servers).await;
    let refused = |answer: Option<&String>| answer.is_some_and(|why| why.contains("forbidden"));
    ensure!(refused(before.kubelets.as_ref().err()), "{before:?}");
    ensure!(refused(before.counted.as_ref().err()), "{before:?}");
    ensure!(refused(before.webhooks.as_ref().err()), "{before:?}");
    ensure!(refused(before.unavailable.as_ref().err()), "{before:?}");
    ensure!(refused(before.tight_budgets.as_ref().err()), "{before:?}");

    plane.apply_rights().await?;
    let calm = ask_until("the operator's rights", PATIENCE, || async {
        let inside = preflight::ask(&operator, &servers).await;
        let is_known = inside.kubelets.is_ok() && inside.tight_budgets.is_ok();
        Ok(if is_known {
            Ok(inside)
        } else {
            Err(format!("{inside:?}"))
        })
    })
    .await?;
    ensure!(found(&calm).is_empty(), "{:?}", found(&calm));

    for object in troubles() {
        apply(&admin, &object).await?;
    }
    get(&admin, "/apis/networking.k8s.io/v1beta1/servicecidrs").await?;
    let inside = ask_until("an APIService that is not available", PATIENCE, || async {
        let inside = preflight::ask(&operator, &servers).await;
        let told = inside
            .unavailable
            .as_ref()
            .is_ok_and(|names| names.count == 1);
        Ok(if told {
            Ok(inside)
        } else {
            Err(format!("{inside:?}"))
        })
    })
    .await?;
    let found = found(&inside);
    let says = |check: Check, verdict: Verdict, words: &str| {
        let is_it = |(c, v, message): &(Check, Verdict, String)| {
            (*c, *v) == (check, verdict) && message.contains(words)
        };
        ensure!(found.iter().any(is_it), "{check:?} {words}: {found:#?}");
        Ok(())
    };
    says(
        Check::Kubelets,
        Verdict::Block,
        "1 node is older than Kubernetes 1.37 takes: old;",
    )?;
    says(
        Check::DeprecatedApis,
        Verdict::Block,
        "networking.k8s.io/v1beta1 servicecidrs",
    )?;
    says(Check::Webhooks, Verdict::Block, "policy/dead.example.com")?;
    says(Check::Webhooks, Verdict::Warn, "slow/slow.example.com")?;
    says(Check::ApiServices, Verdict::Warn, "v1.shop.example.com")?;
    says(Check::DisruptionBudgets, Verdict::Warn, "default/tight")?;
    ensure!(found.len() == 6, "{found:#?}");
    let webhooks = inside.webhooks.unwrap_or_default();
    ensure!(
        webhooks.iter().any(|w| w.responder == Responder::Nobody),
        "{webhooks:?}"
    );
    Ok(())
}

/// A node that is too old, webhooks that nobody answers for, an API that is away, a budget that lets nobody go.
fn troubles() -> Vec<Value> {
    let webhook = |name: &str, policy: &str, seconds: u64| {
        json!({
            "name": name, "failurePolicy": policy, "timeoutSeconds": seconds,
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "namespace": "default", "name": "absent" } },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"],
                "resources": ["serviceaccounts"],
            }],
        })
    };
    let configuration = |kind: &str, name: &str, webhook: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": { "name": name }, "webhooks": [webhook],
        })
    };
    let elsewhere = json!({
        "name": "elsewhere.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": { "service": { "namespace": "default", "name": "absent" } },
        "rules": [{
            "apiGroups": ["shop.example.com"], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["carts"],
        }],
    });
    let (validating, mutating) = (
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    );
    vec![
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "old" },
            "status": { "nodeInfo": {
                "kubeletVersion": "v1.33.4", "machineID": "", "systemUUID": "", "bootID": "",
                "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            } },
        }),
        configuration(validating, "policy", webhook("dead.example.com", "Fail", 5)),
        configuration(mutating, "slow", webhook("slow.example.com", "Ignore", 20)),
        configuration(validating, "shop", elsewhere),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1.shop.example.com" },
            "spec": {
                "group": "shop.example.com", "version": "v1", "groupPriorityMinimum": 1000,
                "versionPriority": 10, "insecureSkipTLSVerify": true,
                "service": { "namespace": "default", "name": "absent" },
            },
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "tight", "namespace": "default" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "db" } } },
        }),
    ]
}

fn of_1_36() -> Result<tenant_cp::Validated> {
    let spec = json!({
        "version": "1.36.3",
        "addons": { "konnectivity": { "enabled": false } },
    });
    tenant_of(&spec, &Settings::default())
}

/// Whether it serves what 1.36 has and 1.35 has not unless that is switched on.
async fn serves_1_36(client: &Client) -> Result<bool> {
    let all = get(client, "/apis/admissionregistration.k8s.io/v1").await?;
    let mut resources = all["resources"].as_array().into_iter().flatten();
    Ok(resources.any(|resource| resource["name"] == "mutatingadmissionpolicies"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiserver_of_1_36_serves_1_35_and_says_so() -> Result<()> {
    let Some(programs) = Programs::of_minor_or_skip(36)? else {
        return Ok(());
    };
    let valid = of_1_36()?;
    let plane = ControlPlane::start_with(versions::emulating(&valid, 35), &programs).await?;
    let admin = plane.administrator()?;
    let version = get(&admin, "/version").await?;
    ensure!(
        version["gitVersion"]
            .as_str()
            .is_some_and(|v| v.starts_with("v1.36.")),
        "{version}"
    );
    ensure!(
        version["emulationMajor"] == "1" && version["emulationMinor"] == "35",
        "{version}"
    );
    // What etcd is written in is what the one before reads too.
    ensure!(version["minCompatibilityMinor"] == "34", "{version}");
    ensure!(
        !serves_1_36(&admin).await?,
        "it serves what 1.35 does not have"
    );
    drop(plane);

    let plane = ControlPlane::start_with(valid, &programs).await?;
    let admin = plane.administrator()?;
    let version = get(&admin, "/version").await?;
    ensure!(
        version["emulationMinor"] == "36" || version["emulationMinor"].is_null(),
        "{version}"
    );
    ensure!(serves_1_36(&admin).await?, "it does not serve what it has");
    Ok(())
}

/// That is why gates which the version before does not have are left out while it is emulated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiserver_does_not_start_that_is_told_of_a_gate_which_it_does_not_emulate()
-> Result<()> {
    let Some(programs) = Programs::of_minor_or_skip(36)? else {
        return Ok(());
    };
    let mut valid = of_1_36()?;
    let gate = "PersistentVolumeClaimUnusedSinceTime";
    valid.feature_gates.insert(gate.to_owned(), true);
    let left_out = versions::emulating(&valid, 35);
    ensure!(!left_out.feature_gates.contains_key(gate));
    valid.emulated = Some(35);
    let Err(error) = ControlPlane::start_with(valid, &programs).await else {
        anyhow::bail!("it starts");
    };
    let said = format!("{error:#}");
    ensure!(
        said.contains(gate) && said.contains("emulated version"),
        "{said}"
    );
    let quoted = quoted(&said)?;
    ensure!(
        quoted.contains(gate) && quoted.contains("emulated version"),
        "{quoted}"
    );
    Ok(())
}

/// What a condition says of a kube-apiserver that ended with this log, of which a pod's status has the end.
fn quoted(log: &str) -> Result<String> {
    let kept = &log.as_bytes()[log.len().saturating_sub(2048)..];
    let pod = json!({
        "metadata": { "name": "a" },
        "status": { "containerStatuses": [{
            "name": "kube-apiserver", "restartCount": 3,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": {
                "exitCode": 1, "reason": "Error", "message": String::from_utf8_lossy(kept),
            } },
        }] },
    });
    pod_failures::ends_often(&pod, 3).context("nothing is said")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiserver_that_does_not_know_a_flag_is_quoted_with_it() -> Result<()> {
    let Some(programs) = Programs::of_minor_or_skip(36)? else {
        return Ok(());
    };
    let mut valid = of_1_36()?;
    let flags = &mut valid.api_server.extra_args;
    flags.insert("gone-since".to_owned(), "1.36".to_owned());
    let Err(error) = ControlPlane::start_with(valid, &programs).await else {
        anyhow::bail!("it starts");
    };
    let quoted = quoted(&format!("{error:#}"))?;
    ensure!(quoted.ends_with(": unknown flag: --gone-since"), "{quoted}");
    Ok(())
}
