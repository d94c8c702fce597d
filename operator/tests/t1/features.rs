//! Feature gates and API versions that users may switch, on real programs of both minors that the lab has.
//!
//! Invariant: all of the lists are tried, so one that a program does not start with fails here and not in
//! somebody's tenant cluster.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use serde_json::{Map, Value, json};
use tenant_cp::Settings;
use tenant_cp::flags::features::{API_VERSIONS, FEATURE_GATES, Switch};
use testkit::programs::Programs;
use testkit::waiting::ask_until;

use crate::keys::{ControlPlane, tenant_of};
use crate::support::PATIENCE;

fn of_minor(list: &'static [Switch], minor: u64) -> impl Iterator<Item = &'static Switch> {
    list.iter().filter(move |switch| switch.is_in(minor))
}

/// What a program says that is told of a gate and of nothing else: it ends, and had it not known the gate, or
/// not taken the value, it would have said that instead.
fn says(program: &Path, gates: &str) -> Result<String> {
    let output = Command::new(program)
        // It ends within a moment, and is started some hundred times: nothing is worth collecting.
        .env("GOGC", "off")
        .arg(format!("--feature-gates={gates}"))
        .args(
            ["--config=/nonexistent", "--etcd-servers=http://127.0.0.1:1"]
                .into_iter()
                .filter(|flag| {
                    let takes_etcd = program.ends_with("kube-apiserver");
                    takes_etcd == flag.starts_with("--etcd")
                }),
        )
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What a program that takes the gate asks for next.
const NEXT: [(&str, &str); 2] = [
    (
        "kube-apiserver",
        "service-account-issuer is a required flag",
    ),
    ("kube-scheduler", "/nonexistent"),
];

fn each_alone(minor: u64) -> Result<()> {
    let Some(programs) = Programs::of_minor_or_skip(minor)? else {
        return Ok(());
    };
    for (name, next) in NEXT {
        let program = programs.kube_apiserver.with_file_name(name);
        let odd = says(&program, "NobodyHasThisGate=true")?;
        ensure!(!odd.contains(next), "{name} takes any gate: {odd}");
        for gate in of_minor(FEATURE_GATES, minor) {
            for on in [true, false] {
                let needed = gate.needs.filter(|_| on);
                let needed = needed.map(|needed| format!(",{needed}=true"));
                let gates = format!("{}={on}{}", gate.name, needed.unwrap_or_default());
                let said = says(&program, &gates)?;
                ensure!(said.contains(next), "{name} 1.{minor} with {gates}: {said}");
            }
        }
    }
    Ok(())
}

async fn all_together(minor: u64) -> Result<()> {
    let Some(programs) = Programs::of_minor_or_skip(minor)? else {
        return Ok(());
    };
    let names = |list| -> Vec<&str> { of_minor(list, minor).map(|it| it.name).collect() };
    let on = |names: &[&str]| -> Value {
        let all = names.iter().map(|name| ((*name).to_owned(), json!(true)));
        Value::Object(all.collect::<Map<_, _>>())
    };
    let (gates, apis) = (names(FEATURE_GATES), names(API_VERSIONS));
    let settings: Settings = serde_json::from_value(json!({
        "apiServer": { "featureGates": gates, "runtimeConfig": apis },
    }))?;
    let spec = json!({
        "version": format!("1.{minor}.3"),
        "addons": { "konnectivity": { "enabled": false } },
        "controlPlane": { "featureGates": on(&gates), "runtimeConfig": on(&apis) },
    });
    let valid = tenant_of(&spec, &settings)?;
    let plane = ControlPlane::start_with(valid, &programs).await?;
    let client = plane.administrator()?;
    for api in apis {
        let request = Request::get(format!("/apis/{api}")).body(Vec::new())?;
        let served: Value = client
            .request(request)
            .await
            .with_context(|| api.to_owned())?;
        let resources = served["resources"].as_array().map_or(0, Vec::len);
        ensure!(resources > 0, "1.{minor} serves nothing of {api}: {served}");
    }
    // The kube-controller-manager makes it.
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client);
    ask_until("the ServiceAccount of a namespace", PATIENCE, || {
        let accounts = accounts.clone();
        async move {
            Ok(accounts
                .get("default")
                .await
                .map(drop)
                .map_err(|e| e.to_string()))
        }
    })
    .await
}

#[test]
fn programs_of_1_35_take_every_gate_alone() -> Result<()> {
    each_alone(35)
}

#[test]
fn programs_of_1_36_take_every_gate_alone() -> Result<()> {
    each_alone(36)
}

#[tokio::test]
async fn control_plane_of_1_35_starts_with_every_gate_and_serves_every_version() -> Result<()> {
    Box::pin(all_together(35)).await
}

#[tokio::test]
async fn control_plane_of_1_36_starts_with_every_gate_and_serves_every_version() -> Result<()> {
    Box::pin(all_together(36)).await
}
