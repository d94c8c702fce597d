//! The facts of a whole installation: the management cluster, the operator, and the tenant clusters asked about.
//!
//! Invariant: that of [`crate::cluster`]; besides, of many tenant clusters only those are looked into that are not
//! Ready, [`MOST_NAMESPACES`] of them at most.

use std::collections::BTreeSet;

use http_body_util::BodyExt as _;
use insight::facts::{ApiAnswer, Facts, Management, accounts};
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::StorageClass;
use kit_client::errors::chain;
use kit_objects::known::Known;
use kube::api::{Api, ListParams};
use kube::client::Body;
use kube::{Client, ResourceExt as _};

use api::condition::is_true;
use api::{ConditionType, TenantCluster};

use crate::cluster::tenant_namespaces;
use crate::reader::Reader;
use crate::request::PAGES;

/// Tenant namespaces that are looked into at most.
const MOST_NAMESPACES: usize = 20;
/// Name of the operator's Deployment and of its Lease.
const OPERATOR: &str = "covey-operator";
/// Name of the webhook's configuration.
const WEBHOOK: &str = "covey";

/// What is asked about.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// The namespace; none: all of them.
    pub namespace: Option<&'a str>,
    /// The tenant cluster; none: all of the namespace.
    pub name: Option<&'a str>,
    /// Where the operator is.
    pub operator_namespace: &'a str,
}

/// Reads it all. An API that does not answer is a fact like others.
pub async fn read(client: &Client, scope: &Scope<'_>) -> Facts {
    let (api, clock_ahead) = version(client).await;
    let now = Timestamp::now();
    if let ApiAnswer::Failed { .. } = api {
        let management = Management {
            api,
            ..Management::default()
        };
        return Facts {
            now,
            management,
            ..Facts::default()
        };
    }
    let reader = Reader::default();
    let (management, mut facts) = tokio::join!(
        management(&reader, client, scope),
        objects(&reader, client, scope)
    );
    facts.now = now;
    facts.management = Management {
        api,
        clock_ahead,
        ..management
    };
    let spaces = spaces(&facts, scope.name.is_some());
    let read = tenant_namespaces(&reader, client, spaces).await;
    facts.tenant_namespaces.extend(read);
    facts.not_allowed = reader.not_allowed();
    facts
}

/// Which tenant namespaces are looked into.
fn spaces(facts: &Facts, is_one: bool) -> Vec<String> {
    let clusters = facts.clusters.as_ref().there().into_iter().flatten();
    let spaces = clusters.filter_map(|cluster: &TenantCluster| {
        let status = cluster.status.as_ref()?;
        let is_ready = is_true(&status.conditions, ConditionType::Ready);
        status.namespace.clone().filter(|_| is_one || !is_ready)
    });
    spaces.take(MOST_NAMESPACES).collect()
}

/// What the API says of itself, and how far its clock is ahead.
pub(crate) async fn version(client: &Client) -> (ApiAnswer, Known<SignedDuration>) {
    let failed = |error: &kube::Error| ApiAnswer::Failed {
        what: format!(
            "the management cluster's API does not answer: {}",
            chain(error)
        ),
        mend: mend(error).to_owned(),
    };
    let unknown = Known::default;
    let request = match http::Request::get("/version").body(Body::empty()) {
        Ok(request) => request,
        Err(error) => return (failed(&kube::Error::HttpError(error)), unknown()),
    };
    let answer = match client.send(request).await {
        Ok(answer) => answer,
        Err(error) => return (failed(&error), unknown()),
    };
    let date = answer.headers().get(http::header::DATE);
    let date = date.and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| rfc2822::parse(date).ok());
    let ahead = date.map(|date| date.timestamp().duration_since(Timestamp::now()));
    let ahead = ahead.map_or_else(unknown, Known::Known);
    let status = answer.status();
    if status.as_u16() == 401 {
        let answer = ApiAnswer::Failed {
            what: "the management cluster's API does not accept the credentials of this context"
                .to_owned(),
            mend: "log in again, or choose another context with `--context`".to_owned(),
        };
        return (answer, ahead);
    }
    let body = answer.into_body().collect().await;
    let text = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let said: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    match said["gitVersion"].as_str() {
        Some(version) => (ApiAnswer::Version(version.to_owned()), ahead),
        // 403 and the like: it answers, and that is what was asked.
        None => (ApiAnswer::Version(String::new()), ahead),
    }
}

/// What mends it that nothing answers, by the words of the error.
fn mend(error: &kube::Error) -> &'static str {
    let said = chain(error).to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["certificate", "unknownissuer", "tls"]) {
        "the kubeconfig has the authority of another cluster, or a certificate that ended: get it anew, or choose another `--context`"
    } else if has(&["dns", "lookup", "resolve"]) {
        "the server's name is not known here: check `kubectl config view --minify`, the VPN and DNS"
    } else if has(&["refused"]) {
        "nothing listens there: check the server in `kubectl config view --minify`, or choose another `--context`"
    } else {
        "check the network, the VPN and the server in `kubectl config view --minify`, or choose another `--context`"
    }
}

async fn management(reader: &Reader, client: &Client, scope: &Scope<'_>) -> Management {
    let at = scope.operator_namespace;
    let all = ListParams::default;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), at);
    let leases: Api<Lease> = Api::namespaced(client.clone(), at);
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let classes: Api<StorageClass> = Api::all(client.clone());
    let (quotas, targets) = (Api::all(client.clone()), Api::all(client.clone()));
    let policies = Api::all(client.clone());
    let (deployment_is, lease_is) = (
        format!("deployment {OPERATOR} in {at}"),
        format!("lease {OPERATOR} in {at}"),
    );
    let webhook_is = format!("validatingwebhookconfiguration {WEBHOOK}");
    let (definitions, operator, lease, webhook, bindings, classes, quotas, targets, policies) = tokio::join!(
        definitions(client),
        reader.get(&deployments, OPERATOR, &deployment_is),
        reader.get(&leases, OPERATOR, &lease_is),
        reader.get(&webhooks, WEBHOOK, &webhook_is),
        reader.list(&bindings, all(), PAGES, "validatingadmissionpolicybindings"),
        reader.list(&classes, all(), PAGES, "storageclasses"),
        reader.list(&quotas, all(), PAGES, "tenantquotas"),
        reader.list(&targets, all(), PAGES, "backuptargets"),
        reader.list(&policies, all(), PAGES, "fleetpolicies"),
    );
    Management {
        operator_pods: operator_pods(reader, client, at, &operator).await,
        definitions,
        operator,
        lease,
        webhook,
        policy_bindings: bindings,
        storage_classes: classes,
        quotas,
        backup_targets: targets,
        fleet_policies: policies,
        ..Management::default()
    }
}

/// Pods by the selector of the Deployment, where that is known.
async fn operator_pods(
    reader: &Reader,
    client: &Client,
    namespace: &str,
    operator: &Known<Deployment>,
) -> Known<Vec<Pod>> {
    let Known::Known(deployment) = operator else {
        return Known::default();
    };
    let spec = deployment.spec.as_ref();
    let labels = spec.and_then(|spec| spec.selector.match_labels.as_ref());
    let labels = labels.into_iter().flatten();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if labels.is_empty() {
        return Known::default();
    }
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&labels.join(","));
    let what = format!("pods in {namespace}");
    reader.list(&api, params, 2, &what).await
}

/// Kinds of our group that are served, by discovery, which everybody may read.
async fn definitions(client: &Client) -> Known<Vec<String>> {
    match client.list_api_group_resources("covey.dev/v1alpha1").await {
        Ok(served) => {
            let names = served.resources.iter().map(|one| one.name.as_str());
            let names = names.filter(|name| !name.contains('/'));
            Known::Known(names.map(|name| format!("{name}.covey.dev")).collect())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Known::Known(Vec::new()),
        Err(_) => Known::Unknown {
            why: insight::facts::NO_ANSWER,
        },
    }
}

async fn objects(reader: &Reader, client: &Client, scope: &Scope<'_>) -> Facts {
    let all = ListParams::default;
    let place = |what: &str| match scope.namespace {
        Some(namespace) => format!("{what} in {namespace}"),
        None => format!("{what} in all namespaces"),
    };
    let named = match scope.name {
        Some(name) => all().fields(&format!("metadata.name={name}")),
        None => all(),
    };
    let (clusters, pools, machines) = (of(client, scope), of(client, scope), of(client, scope));
    let (hosts, snapshots, restores) = (of(client, scope), of(client, scope), of(client, scope));
    let (configs, grants) = (of(client, scope), of(client, scope));
    let words = [
        "tenantclusters",
        "nodepools",
        "machines",
        "hosts",
        "snapshots",
        "restores",
        "providerconfigs",
        "accessgrants",
    ]
    .map(place);
    let (clusters, pools, machines, hosts, snapshots, restores, configs, grants) = tokio::join!(
        reader.list(&clusters, named, PAGES, &words[0]),
        reader.list(&pools, all(), PAGES, &words[1]),
        reader.list(&machines, all(), PAGES, &words[2]),
        reader.list(&hosts, all(), PAGES, &words[3]),
        reader.list(&snapshots, all(), PAGES, &words[4]),
        reader.list(&restores, all(), PAGES, &words[5]),
        reader.list(&configs, all(), PAGES, &words[6]),
        reader.list(&grants, all(), PAGES, &words[7]),
    );
    let mut facts = Facts {
        clusters,
        pools,
        machines,
        hosts,
        snapshots,
        restores,
        provider_configs: configs,
        grants,
        ..Facts::default()
    };
    if let Some(name) = scope.name {
        only(&mut facts, name);
    }
    facts
}

/// Without what belongs to other tenant clusters. Hosts belong to none.
fn only(facts: &mut Facts, name: &str) {
    if let Known::Known(all) = &mut facts.clusters {
        all.retain(|one| one.name_any() == name);
    }
    if let Known::Known(all) = &mut facts.pools {
        all.retain(|one| one.spec.cluster_name == name);
    }
    if let Known::Known(all) = &mut facts.machines {
        all.retain(|one| one.spec.cluster_name == name);
    }
    if let Known::Known(all) = &mut facts.snapshots {
        all.retain(|one| one.spec.cluster_name == name);
    }
    if let Known::Known(all) = &mut facts.restores {
        all.retain(|one| one.spec.cluster_name == name);
    }
    if let Known::Known(all) = &mut facts.grants {
        all.retain(|one| one.spec.cluster_name == name);
    }
    // Accounts by which its machines are made; of pools that are not known nobody can say so.
    if let (Known::Known(all), Known::Known(pools)) = (&mut facts.provider_configs, &facts.pools) {
        let named: BTreeSet<_> = pools.iter().flat_map(accounts).collect();
        all.retain(|one| named.contains(one.name_any().as_str()));
    }
}

fn of<K>(client: &Client, scope: &Scope<'_>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    match scope.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
