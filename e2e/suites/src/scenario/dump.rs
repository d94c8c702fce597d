//! What a failing test prints: objects, Events and logs of the namespaces concerned, and what its
//! tenant clusters say of their nodes and pods.
//!
//! Invariant: no Secret's content is printed, and a part that cannot be had does not hide others.

use std::{fmt::Write as _, path::Path, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};

use super::{Scenario, kubectl::Kubectl};
use crate::cluster::{OPERATOR_NAMESPACE, Tenant, wait::describe};

const KINDS: &str = "deployments,statefulsets,replicasets,pods,services,endpointslices,\
persistentvolumeclaims,networkpolicies,secrets";
/// So many last lines of each log of a machine.
const MACHINE: usize = 60;
/// How long a tenant's API may take to answer, which a failing test may well have lost.
const ANSWER: Duration = Duration::from_secs(20);

pub(super) async fn dump(scenario: &Scenario) -> String {
    let mut text = format!("===== {} =====\n", scenario.namespace);
    let mut namespaces = vec![OPERATOR_NAMESPACE.to_owned(), scenario.namespace.clone()];
    match scenario.tenants().list(&ListParams::default()).await {
        Ok(clusters) => {
            for cluster in clusters {
                let _ = writeln!(text, "{}", describe(&cluster));
                let tenant = Tenant {
                    management: scenario.client().clone(),
                    namespace: scenario.namespace.clone(),
                    name: cluster.name_any(),
                    uid: cluster.uid().unwrap_or_default(),
                    created: std::time::Instant::now(),
                };
                namespaces.push(tenant.tenant_namespace());
                inside(scenario, &tenant, &mut text).await;
            }
        }
        Err(error) => {
            let _ = writeln!(text, "TenantClusters cannot be listed: {error}");
        }
    }
    let kubeconfig = scenario.management.layout.kubeconfig();
    for namespace in namespaces {
        let _ = writeln!(text, "===== namespace {namespace} =====");
        for args in [
            &["get", KINDS, "-o", "wide"][..],
            &["get", "events", "--sort-by=.lastTimestamp"],
            &["describe", "pods"],
            &["describe", "nodepools,machines,hosts"],
            // A lab without KubeVirt does not know them.
            &["get", "vm,vmi", "-o", "yaml"],
        ] {
            let said = kubectl(scenario, &kubeconfig, &namespace, args).await;
            let _ = writeln!(text, "--- {}\n{said}", args.join(" "));
        }
        let pods: Api<Pod> = Api::namespaced(scenario.client().clone(), &namespace);
        let names = pods
            .list(&ListParams::default())
            .await
            .map(|list| list.items);
        for pod in names.unwrap_or_default() {
            let name = pod.name_any();
            let args = ["logs", &name, "--all-containers", "--prefix", "--tail=80"];
            let said = kubectl(scenario, &kubeconfig, &namespace, &args).await;
            let _ = writeln!(text, "--- logs {name}\n{said}");
        }
    }
    // Machines that are played have no console that a pod's log shows.
    text.push_str(&lab::machines::said(&scenario.management.layout, MACHINE));
    text
}

/// What a tenant cluster's API says of its nodes and pods.
async fn inside(scenario: &Scenario, tenant: &Tenant, text: &mut String) {
    let _ = writeln!(text, "===== inside {} =====", tenant.name);
    let asked = async {
        let kubectl = Kubectl::of(scenario, tenant).await?;
        kubectl.run_within(ANSWER, &["version"]).await?;
        for args in [
            &["get", "nodes,csr,apiservices", "-o", "wide"][..],
            &["get", "pods,services,pdb", "-A", "-o", "wide"],
            &["describe", "nodes"],
            &["describe", "pods", "-A"],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
        ] {
            let said = kubectl.run_within(ANSWER, args).await;
            let said = said.unwrap_or_else(|error| format!("{error:#}"));
            let _ = writeln!(text, "--- {}\n{said}", args.join(" "));
        }
        anyhow::Ok(())
    };
    if let Err(error) = asked.await {
        let _ = writeln!(text, "{error:#}");
    }
}

async fn kubectl(scenario: &Scenario, kubeconfig: &Path, namespace: &str, args: &[&str]) -> String {
    let args = [&["--namespace", namespace][..], args].concat();
    scenario
        .kubectl(kubeconfig, &args)
        .await
        .unwrap_or_else(|error| format!("{error:#}\n"))
}
