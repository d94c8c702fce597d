//! The rights are enough, and none is superfluous: what [`ccm::rbac`] grants is compared with what
//! the audit logs of a whole life show.

use std::collections::BTreeSet;

use anyhow::Result;
use ccm::names::NAMESPACE_LEASES;
use kit::lease::{Election, LeaseConfig, Timing};
use kit_objects::kinds;
use kit_objects::rbac::Rule;
use serde_json::json;
use testkit::fixtures::wait_gone;
use testkit::{AuditEntry, FaultPlan};

use crate::support::{Ccm, Environment, PATIENCE, environment::apply};

fn granted(rules: &[Rule]) -> BTreeSet<(String, String)> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        for (group, resource) in rule
            .groups
            .iter()
            .flat_map(|g| rule.resources.iter().map(move |r| (g, r)))
        {
            let kind = match *group {
                "" => (*resource).to_owned(),
                group => format!("{group}/{resource}"),
            };
            rights.extend(rule.verbs.iter().map(|v| ((*v).to_owned(), kind.clone())));
        }
    }
    rights
}

fn used(entries: &[AuditEntry]) -> BTreeSet<(String, String)> {
    let mut rights = BTreeSet::new();
    for entry in entries {
        rights.insert((entry.verb.clone(), entry.kind.clone()));
        // An apply that makes the object needs the right to create it, too.
        if entry.verb == "patch" && entry.code == Some(201) {
            rights.insert(("create".to_owned(), entry.kind.clone()));
        }
    }
    rights
}

async fn live(environment: &Environment) -> Result<()> {
    let management =
        kube::Client::try_from(environment.management.config_as(&environment.user(), &[])?)?;
    let lease = LeaseConfig {
        namespace: environment.ns.clone(),
        name: ccm::names::LEASE.to_owned(),
        identity: "ccm-1".to_owned(),
        timing: Timing::default(),
    };
    let (leadership, election) = Election::start(management, lease);
    leadership.acquired().await;
    // As Covey runs it.
    let _ccm = Ccm::with(environment, environment.published(), &FaultPlan::none())?;
    environment.machine("a", &["10.5.0.1"]).await?;
    environment.publish(&[("a", "10.5.0.1")]).await?;
    let (_, name) = environment.serving().await?;
    environment
        .allocate(&name, &json!([{ "ip": "192.0.2.1" }]))
        .await?;
    environment.addresses("web", &["192.0.2.1"]).await?;
    environment
        .services()
        .delete("web", &Default::default())
        .await?;
    wait_gone(&environment.services(), "web", PATIENCE).await?;
    // Its kubelet is silent: the Lease is looked at.
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "a", "namespace": NAMESPACE_LEASES }, "spec": { "holderIdentity": "a" },
    });
    apply(&environment.inside, &lease).await?;
    environment.delete(kinds::VIRTUAL_MACHINE, "a").await?;
    environment
        .delete(kinds::VIRTUAL_MACHINE_INSTANCE, "a")
        .await?;
    wait_gone(&environment.nodes(), "a", PATIENCE).await?;
    election.release().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_right_is_used_and_none_is_lacking() -> Result<()> {
    let Some(environment) = Environment::new("rights").await? else {
        return Ok(());
    };
    let windows = [
        (
            environment.management.audit().window()?,
            environment.user(),
            ccm::rbac::management(),
        ),
        (
            environment.tenant.audit().window()?,
            environment.tenant_user(),
            ccm::rbac::tenant(),
        ),
    ];
    live(&environment).await?;
    for (window, user, rules) in windows {
        let mut entries = window.entries()?;
        entries.retain(|entry| entry.user == user);
        let refused: Vec<_> = entries.iter().filter(|e| e.code == Some(403)).collect();
        assert!(refused.is_empty(), "lacking: {refused:#?}");
        let (granted, used) = (granted(&rules), used(&entries));
        assert_eq!(granted, used, "granted, and used");
        let elsewhere = entries.iter().filter(|e| {
            let ours = e
                .namespace
                .as_deref()
                .is_none_or(|ns| ns == environment.ns || ns == "default" || ns == NAMESPACE_LEASES);
            !ours
        });
        assert_eq!(elsewhere.count(), 0, "outside of its namespace");
    }
    Ok(())
}
