//! The management API that the tests of plans play, compared with a real one: what it fills in, and what it refuses.
//!
//! Invariant: the table is what the played one answers (`ccm/src/controllers/service/tests/played.rs`), to a
//! server-side apply as the program makes it; here it is asked of a server of one family of addresses and of one
//! of two. What a policy changes each time is in `mutated.rs`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::Environment;

/// The table.
#[derive(Deserialize)]
struct Table {
    /// Of a Service that says nothing.
    defaults: BTreeMap<String, Value>,
    families: Vec<Case>,
}

/// What becomes of the families of a Service.
#[derive(Deserialize)]
struct Case {
    stacks: Vec<String>,
    /// What there is; nothing where it is made.
    old: Value,
    said: Value,
    /// None when it is refused.
    answer: Value,
}

const FIELDS: [&str; 2] = ["ipFamilies", "ipFamilyPolicy"];

/// Applies the Service `played`, which says this beside its type and port.
async fn apply(client: &Client, said: &Value, dry_run: bool) -> kube::Result<Value> {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "played" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "protocol": "TCP" }] },
    });
    for field in FIELDS {
        if !said[field].is_null() {
            object["spec"][field] = said[field].clone();
        }
    }
    let params = PatchParams {
        dry_run,
        ..PatchParams::apply("played").force()
    };
    let patch = Patch::Apply(&object);
    let applied = services.patch("played", &params, &patch).await?;
    serde_json::to_value(applied.spec).map_err(kube::Error::SerdeError)
}

/// Takes that Service away, if it is there.
async fn remove(client: &Client) -> Result<()> {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    match services.delete("played", &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        gone => Ok(gone.map(drop)?),
    }
}

/// What a real one answers; null when it refuses.
async fn answer(client: &Client, said: &Value) -> Result<Value> {
    match apply(client, said, true).await {
        Ok(spec) => {
            let fields = FIELDS.map(|field| (field.to_owned(), spec[field].clone()));
            Ok(Value::Object(fields.into_iter().collect()))
        }
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Value::Null),
        Err(error) => Err(error).with_context(|| said.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn played_api_fills_in_and_refuses_what_a_real_one_does() -> Result<()> {
    let Some(environment) = Environment::of_two_families("played").await? else {
        return Ok(());
    };
    let table: Table = serde_json::from_str(include_str!("played.json"))?;
    ensure!(table.families.len() > 100, "{} cases", table.families.len());
    let mut wrong = Vec::new();
    let mut there = Value::Null;
    for case in &table.families {
        let client = match case.stacks.len() {
            1 => &environment.inside,
            _ => &environment.admin,
        };
        let wanted = json!([case.stacks, case.old]);
        if there != wanted {
            remove(client).await?;
            if !case.old.is_null() {
                let spec = apply(client, &case.old, false).await?;
                let is = FIELDS.iter().all(|field| spec[field] == case.old[field]);
                ensure!(is, "{} became {spec}", case.old);
            }
            there = wanted;
        }
        let real = answer(client, &case.said).await?;
        if real != case.answer {
            let Case {
                stacks, old, said, ..
            } = case;
            wrong.push(format!(
                "{stacks:?}, there is {old}, said is {said}: {real}, and not {}",
                case.answer
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    remove(&environment.inside).await?;
    let spec = apply(&environment.inside, &json!({}), true).await?;
    for (field, value) in &table.defaults {
        assert_eq!(&spec[field.as_str()], value, "{field}");
    }
    Ok(())
}

/// The code of a refusal; 200 when it is none.
fn code<T>(answer: kube::Result<T>) -> Result<u16> {
    match answer {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error.into()),
    }
}

/// `ccm/src/controllers/service/tests/clusters.rs` panics at each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_played_api_takes_for_a_bug_is_refused_by_a_real_one() -> Result<()> {
    let Some(environment) = Environment::new("bugs").await? else {
        return Ok(());
    };
    let services = environment.mirrors();
    let slices = environment.slices();
    let force = PatchParams::apply("played").force();
    let service = |class: &str, ports: Value| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
            "spec": { "type": "LoadBalancer", "loadBalancerClass": class, "ports": ports },
        }))
    };
    let slice = |family: &str, address: &str| {
        Patch::Apply(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": { "name": "web" },
            "addressType": family, "endpoints": [{ "addresses": [address] }],
        }))
    };
    let port = json!([{ "port": 80 }]);
    services
        .patch("web", &force, &service("ours", port.clone()))
        .await?;
    slices
        .patch("web", &force, &slice("IPv4", "10.5.0.1"))
        .await?;

    let other = service("theirs", port);
    let other = services.patch("web", &force, &other).await;
    assert_eq!(code(other)?, 422, "the class of a Service changes");
    let unnamed = service("ours", json!([{ "port": 80 }, { "port": 81 }]));
    let unnamed = services.patch("web", &force, &unnamed).await;
    assert_eq!(code(unnamed)?, 422, "one of two ports has no name");
    let mixed = slices.patch("web", &force, &slice("IPv4", "fd00::1")).await;
    assert_eq!(code(mixed)?, 422, "families are mixed");
    let moved = slices.patch("web", &force, &slice("IPv6", "fd00::1")).await;
    assert_eq!(code(moved)?, 422, "the family of a slice changes");
    let merge = PatchParams::default();
    let old = json!({ "metadata": { "resourceVersion": "1", "labels": { "a": "b" } } });
    let old = services.patch("web", &merge, &Patch::Merge(old)).await;
    assert_eq!(code(old)?, 409, "it is another version");
    let uid = "00000000-0000-4000-8000-000000000000";
    let status = json!({ "metadata": { "uid": uid }, "status": { "loadBalancer": {} } });
    let status = Patch::Merge(status);
    let status = services.patch_status("web", &merge, &status).await;
    assert_eq!(code(status)?, 422, "it is another Service");
    Ok(())
}
