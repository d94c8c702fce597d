//! What a failing test prints: objects, Events and logs of the namespaces concerned.
//!
//! Invariant: no Secret's content is printed, and a part that cannot be had does not hide others.

use std::fmt::Write as _;

use kube::{Api, ResourceExt as _, api::ListParams};

use super::Scenario;
use crate::cluster::{OPERATOR_NAMESPACE, wait::describe};

const KINDS: &str = "deployments,statefulsets,replicasets,pods,services,endpointslices,\
persistentvolumeclaims,networkpolicies,secrets";

pub(super) async fn dump(scenario: &Scenario) -> String {
    let mut text = format!("===== {} =====\n", scenario.namespace);
    let mut namespaces = vec![OPERATOR_NAMESPACE.to_owned(), scenario.namespace.clone()];
    match scenario.tenants().list(&ListParams::default()).await {
        Ok(clusters) => {
            for cluster in clusters {
                let _ = writeln!(text, "{}", describe(&cluster));
                let uid = cluster.uid().unwrap_or_default();
                namespaces.push(api::names::tenant_namespace(&cluster.name_any(), &uid));
            }
        }
        Err(error) => {
            let _ = writeln!(text, "TenantClusters cannot be listed: {error}");
        }
    }
    for namespace in namespaces {
        let _ = writeln!(text, "===== namespace {namespace} =====");
        for args in [
            &["get", KINDS, "-o", "wide"][..],
            &["get", "events", "--sort-by=.lastTimestamp"],
            &["describe", "pods"],
        ] {
            let _ = writeln!(
                text,
                "--- {}\n{}",
                args.join(" "),
                kubectl(scenario, &namespace, args).await
            );
        }
        let pods: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(scenario.client().clone(), &namespace);
        let names = pods
            .list(&ListParams::default())
            .await
            .map(|list| list.items);
        for pod in names.unwrap_or_default() {
            let name = pod.name_any();
            let args = ["logs", &name, "--all-containers", "--prefix", "--tail=80"];
            let _ = writeln!(
                text,
                "--- logs {name}\n{}",
                kubectl(scenario, &namespace, &args).await
            );
        }
    }
    text
}

async fn kubectl(scenario: &Scenario, namespace: &str, args: &[&str]) -> String {
    let kubeconfig = scenario.management.layout.kubeconfig();
    let args = [&["--namespace", namespace][..], args].concat();
    scenario
        .kubectl(&kubeconfig, &args)
        .await
        .unwrap_or_else(|error| format!("{error:#}\n"))
}
