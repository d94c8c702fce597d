//! At the fixed point nothing is written; what others change of ours comes back, and what is theirs
//! stays.
//!
//! Invariant: writes are counted by the audit log, not by the operator.

use anyhow::{Context as _, Result};
use api::names;
use api::tenant_cluster::EndpointStatus;
use kit_objects::kinds::{self, Kind};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
use testkit::fixtures::wait_for;

use crate::support::site::tenant_namespace;
use crate::support::state::differences;
use crate::support::{Operator, PATIENCE, Site, settled};

/// Secrets that are created once and never written again.
fn is_created_once(kind: Kind, name: &str) -> bool {
    kind == kinds::SECRET
        && (AUTHORITIES.contains(&name) || [SERVICE_ACCOUNT, ENCRYPTION].contains(&name))
}

async fn ready(prefix: &str) -> Result<Option<(Site, Operator)>> {
    let begun = settled(prefix).await?;
    Ok(begun.map(|(site, operator, _)| (site, operator)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_reconciles_at_the_fixed_point_write_nothing() -> Result<()> {
    let Some((site, operator)) = ready("quiet").await? else {
        return Ok(());
    };
    let window = site.api.audit().window()?;
    for _ in 0..20 {
        operator.reconcile(&site, "demo").await?;
    }
    window.assert_no_writes(&site.user())?;
    // Nor does an operator that knows nothing yet.
    drop(operator);
    let operator = Operator::start(&site)?;
    for _ in 0..3 {
        operator.reconcile(&site, "demo").await?;
    }
    window.assert_no_writes(&site.user())
}

/// A change of something that is ours, as a merge patch.
fn vandalism(kind: Kind, object: &DynamicObject) -> Value {
    let mut patch = match kind.kind {
        "Deployment" | "StatefulSet" => json!({ "spec": { "replicas": 5 } }),
        "Service" => json!({ "spec": { "selector": { names::LABEL_COMPONENT: "other" } } }),
        "ServiceAccount" => json!({ "automountServiceAccountToken": true }),
        "NetworkPolicy" if object.name_any() == "default-deny" => {
            json!({ "spec": { "ingress": [{}], "egress": [{}] } })
        }
        "NetworkPolicy" => json!({ "spec": { "policyTypes": ["Ingress"], "podSelector": null } }),
        "PodDisruptionBudget" => json!({ "spec": { "maxUnavailable": "100%" } }),
        "RoleBinding" => json!({ "subjects": [] }),
        "Namespace" => {
            json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "privileged" } } })
        }
        "Secret" => {
            let data = object.data["data"].as_object();
            let first = data
                .and_then(|data| data.keys().next())
                .expect("a Secret holds something");
            json!({ "data": { first: null } })
        }
        _ => json!({}),
    };
    // The label by which the operator watches it goes, too.
    patch["metadata"]["labels"][names::LABEL_TENANT_UID] = Value::Null;
    patch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_part_that_is_edited_becomes_what_it_was() -> Result<()> {
    let Some((site, operator)) = ready("edited").await? else {
        return Ok(());
    };
    let (masks, objects) = site.look("demo").await?;
    let before = site.state("demo").await?;
    for (kind, object) in objects {
        let name = object.name_any();
        if kind == kinds::TENANT_CLUSTER || is_created_once(kind, &name) {
            continue;
        }
        let (key, wanted) = masks.masked(kind, &object);
        let api = site.objects(kind, &object.namespace().unwrap_or_default());
        let patch = vandalism(kind, &object);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("edit {key}"))?;
        let restored = |found: Option<&DynamicObject>| {
            found.is_some_and(|found| masks.masked(kind, found).1 == wanted)
        };
        wait_for(&api, &name, restored, PATIENCE)
            .await
            .with_context(|| format!("{key} was changed by {patch}"))?;
    }
    operator.settle(&site, "demo").await?;
    assert_eq!(differences(&before, &site.state("demo").await?), [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_part_that_is_deleted_is_made_again() -> Result<()> {
    let Some((site, operator)) = ready("deleted").await? else {
        return Ok(());
    };
    let before = site.state("demo").await?;
    let (_, objects) = site.look("demo").await?;
    for (kind, object) in objects {
        let (name, uid) = (object.name_any(), object.uid());
        // These two exist nowhere else; `identity` tests what then happens.
        let unique =
            kind == kinds::SECRET && ["ca", "etcd-ca", "front-proxy-ca"].contains(&name.as_str());
        // Nor does data come back with a claim of the same name.
        let data = kind == kinds::PERSISTENT_VOLUME_CLAIM;
        if kind == kinds::TENANT_CLUSTER || kind == kinds::NAMESPACE || unique || data {
            continue;
        }
        let api = site.objects(kind, &object.namespace().unwrap_or_default());
        api.delete(&name, &Default::default()).await?;
        let back = |found: Option<&DynamicObject>| found.is_some_and(|found| found.uid() != uid);
        wait_for(&api, &name, back, PATIENCE)
            .await
            .with_context(|| format!("{} {name} was deleted", kind.kind))?;
    }
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    assert_eq!(differences(&before, &site.state("demo").await?), [""; 0]);
    Ok(())
}

/// It has no TenantCluster's labels, and nothing else changes with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binding_in_the_users_namespace_comes_back_whatever_is_done_to_it() -> Result<()> {
    let Some((site, operator)) = ready("user-binding").await? else {
        return Ok(());
    };
    let bindings = site.objects(kinds::ROLE_BINDING, &site.users);
    let before = bindings.get(names::OPERATOR_BINDING).await?;
    let is_whole = |found: &DynamicObject| {
        found.labels() == before.labels() && found.data["subjects"] == before.data["subjects"]
    };
    let edited = json!({ "metadata": { "labels": null }, "subjects": [] });
    bindings
        .patch(
            names::OPERATOR_BINDING,
            &PatchParams::default(),
            &Patch::Merge(edited),
        )
        .await?;
    let mended = |found: Option<&DynamicObject>| found.is_some_and(is_whole);
    wait_for(&bindings, names::OPERATOR_BINDING, mended, PATIENCE).await?;
    operator.settle(&site, "demo").await?;

    bindings
        .delete(names::OPERATOR_BINDING, &Default::default())
        .await?;
    let back = |found: Option<&DynamicObject>| {
        found.is_some_and(|found| found.uid() != before.uid() && is_whole(found))
    };
    wait_for(&bindings, names::OPERATOR_BINDING, back, PATIENCE).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_that_somebody_edits_is_corrected_and_foreign_finalizers_stay() -> Result<()> {
    let Some((site, operator)) = ready("status-edit").await? else {
        return Ok(());
    };
    let clusters = site.clusters();
    let was = clusters.get("demo").await?.status.unwrap().endpoint;
    let lie = json!({ "status": { "endpoint": { "host": "evil.example.com" } } });
    clusters
        .patch_status("demo", &PatchParams::default(), &Patch::Merge(lie))
        .await?;
    let finalizers =
        json!({ "metadata": { "finalizers": ["example.com/backup", names::FINALIZER] } });
    site.change("demo", &finalizers).await?;
    site.wait("demo", |cluster| {
        let endpoint: Option<&EndpointStatus> =
            cluster.status.as_ref().and_then(|s| s.endpoint.as_ref());
        endpoint == was.as_ref()
    })
    .await?;
    operator.settle(&site, "demo").await?;
    let cluster = clusters.get("demo").await?;
    assert_eq!(
        cluster.finalizers(),
        ["example.com/backup", names::FINALIZER]
    );
    Ok(())
}

/// Objects that others are likely to write to, too.
const SHARED: [(Kind, &str); 6] = [
    (kinds::SERVICE, "control-plane"),
    (kinds::DEPLOYMENT, "control-plane"),
    (kinds::STATEFUL_SET, "etcd"),
    (kinds::NETWORK_POLICY, "default-deny"),
    (kinds::SECRET, "apiserver"),
    (kinds::PERSISTENT_VOLUME_CLAIM, "data-etcd-0"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_annotations_and_fields_of_others_stay_and_cost_no_write() -> Result<()> {
    let Some((site, operator)) = ready("foreign").await? else {
        return Ok(());
    };
    let ns = tenant_namespace(&site.clusters().get("demo").await?);
    let window = site.api.audit().window()?;
    let foreign = |round: u32| {
        json!({
            "labels": { "example.com/team": format!("t{round}") },
            "annotations": { "example.com/touched": round.to_string() },
        })
    };
    const ROUNDS: u32 = 10;
    for round in 0..=ROUNDS {
        for (kind, name) in SHARED {
            let mut object = json!({
                "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": foreign(round),
            });
            object["metadata"]["name"] = json!(name);
            object["metadata"]["namespace"] = json!(ns);
            if kind == kinds::DEPLOYMENT {
                // They would count as a new generation, and so as a rollout that has to be told of.
                object["metadata"]["annotations"] = json!({});
            }
            if kind == kinds::SECRET {
                object["data"] = json!({ "extra": "eA==" });
            }
            if kind == kinds::SERVICE {
                object["spec"] = json!({ "sessionAffinity": "ClientIP" });
            }
            kit_client::write::apply(&site.admin, &object, "somebody", false).await?;
        }
        let own = json!({ "metadata": foreign(round) });
        site.change("demo", &own).await?;
        let namespaces = site.objects(kinds::NAMESPACE, "");
        namespaces
            .patch(&ns, &PatchParams::default(), &Patch::Merge(&own))
            .await?;
    }
    operator.reconcile(&site, "demo").await?;
    window.assert_no_writes(&site.user())?;
    for (kind, name) in SHARED {
        let object = site.objects(kind, &ns).get(name).await?;
        assert_eq!(
            object.labels()["example.com/team"],
            format!("t{ROUNDS}"),
            "{name}"
        );
        let touched = object.annotations().get("example.com/touched");
        assert!(
            kind == kinds::DEPLOYMENT || touched == Some(&ROUNDS.to_string()),
            "{name}"
        );
    }
    let service = site
        .objects(kinds::SERVICE, &ns)
        .get("control-plane")
        .await?;
    assert_eq!(service.data["spec"]["sessionAffinity"], "ClientIP");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_that_insists_on_our_fields_gets_an_answer_each_time_and_no_more() -> Result<()> {
    let Some((site, operator)) = ready("racing").await? else {
        return Ok(());
    };
    let ns = tenant_namespace(&site.clusters().get("demo").await?);
    let deployments = site.objects(kinds::DEPLOYMENT, &ns);
    let path = format!("/apis/apps/v1/namespaces/{ns}/deployments/control-plane?");
    const ROUNDS: usize = 25;
    let window = site.api.audit().window()?;
    for round in 0..ROUNDS {
        // As an autoscaler would, which does not wait for anybody.
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "control-plane", "namespace": ns,
                          "annotations": { "example.com/round": round.to_string() } },
            "spec": { "replicas": 2 + round % 3 },
        });
        kit_client::write::apply(&site.admin, &object, "autoscaler", true).await?;
    }
    let ours =
        |found: Option<&DynamicObject>| found.is_some_and(|d| d.data["spec"]["replicas"] == 1);
    let found = wait_for(&deployments, "control-plane", ours, PATIENCE).await?;
    let last = (ROUNDS - 1).to_string();
    assert_eq!(
        found.context("gone")?.annotations()["example.com/round"],
        last
    );
    operator.settle(&site, "demo").await?;
    let writes = window.writes_of(&site.user())?;
    let answers = writes
        .iter()
        .filter(|write| write.uri.starts_with(&path))
        .count();
    assert!(
        (1..=ROUNDS).contains(&answers),
        "{answers} answers to {ROUNDS} writes"
    );
    let others: Vec<_> = writes
        .iter()
        .filter(|write| {
            !write.uri.starts_with(&path) && write.kind != "covey.dev/tenantclusters/status"
        })
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    Ok(())
}
