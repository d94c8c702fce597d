//! The webhook behind the management API of the tests: the very parts of its process, minus signals and the
//! admin port, and the keeper of its certificate, which is the operator's.
//!
//! Invariant: it asks for objects of one site only, so other tests are not touched; the webhook's user has
//! exactly the rights that [`operator::rbac`] gives it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kit::lease::Leadership;
use kit::shutdown::Shutdown;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;
use kit_objects::rbac::Rule;
use kube::Client;
use kube::api::Api;
use operator::admission::certificate::NAME;
use operator::admission::keeper::{self, Keeper};
use operator::admission::router::{NODE_POOLS, TENANT_CLUSTERS};
use operator::admission::server::{self, Webhook};
use operator::admission::stores::Stores;
use serde_json::{Value, json};
use testkit::fixtures::{wait_allowed_to, wait_for};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::scope::Scope;
use super::site::apply;
use super::{PATIENCE, Site};

/// Name of the ValidatingWebhookConfiguration in the chart: for one test alone.
pub(crate) use operator::admission::keeper::CONFIGURATION;

const RBAC: &str = "rbac.authorization.k8s.io";

/// One that runs, with watches of its own.
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    stores: Arc<Stores>,
    shutdown: Shutdown,
    filled: JoinHandle<()>,
    served: JoinHandle<std::result::Result<(), server::Error>>,
}

impl Running {
    /// One that has listed everything.
    pub(crate) async fn start(site: &Site, listener: TcpListener) -> Result<Self> {
        let address = listener.local_addr().context("no port")?;
        let client = client(site)?;
        let (stores, writers) = Stores::new(site.settings());
        let webhook = Webhook::new(stores.validator());
        let filled = tokio::spawn(writers.run(client.clone()));
        let shutdown = Shutdown::new();
        let (until, namespace) = (shutdown.clone(), site.system.clone());
        let served = tokio::spawn(async move {
            let serve = webhook.run_on(client, &namespace, listener, &until);
            serve.await
        });
        let running = Self {
            address,
            stores: Arc::new(stores),
            shutdown,
            filled,
            served,
        };
        let listed = tokio::time::timeout(PATIENCE, running.stores.wait_until_ready());
        listed.await.context("the webhook lists nothing")??;
        Ok(running)
    }

    /// Ends it and all that it had open.
    pub(crate) async fn stop(self) -> Result<()> {
        self.shutdown.trigger();
        self.filled.abort();
        Ok(self.served.await??)
    }
}

/// The webhook's user.
pub(crate) fn user(site: &Site) -> String {
    format!(
        "system:serviceaccount:{}:{}",
        site.system,
        ::operator::rbac::WEBHOOK
    )
}

fn client(site: &Site) -> Result<Client> {
    // The tests share two cores and one server; what is tested is not the rate limit.
    let args = ClientArgs {
        qps: 500.0,
        burst: 1000,
        ..ClientArgs::default()
    };
    let config = site
        .api
        .config_as(&user(site), &["system:serviceaccounts"])?;
    let scope = Scope::new(&site.users);
    Ok(kit_client::connect::build(
        config,
        &args,
        &RequestCounter::new(),
        &scope,
    )?)
}

/// The operator's part, for the ValidatingWebhookConfiguration of this name.
pub(crate) fn keep(
    site: &Site,
    client: Client,
    configuration: &str,
    leadership: Leadership,
) -> JoinHandle<std::result::Result<(), keeper::Error>> {
    let keeper = Keeper::new(client, &site.system, leadership).of(configuration);
    tokio::spawn(keeper.run())
}

/// Waits until the configuration says whom to trust.
pub(crate) async fn wait_trusted(site: &Site, configuration: &str) -> Result<()> {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(site.admin.clone());
    let trusted = |seen: Option<&ValidatingWebhookConfiguration>| {
        let mut webhooks = seen.and_then(|c| c.webhooks.as_ref()).into_iter().flatten();
        webhooks.any(|w| w.client_config.ca_bundle.is_some())
    };
    wait_for(&configurations, configuration, trusted, PATIENCE)
        .await
        .map(drop)
}

/// Name of a ValidatingWebhookConfiguration that no other site has.
pub(crate) fn name(site: &Site) -> String {
    format!("covey-{}", site.system)
}

/// A port for a webhook.
pub(crate) async fn listener() -> Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    listener.context("no free port")
}

/// What the chart installs (`templates/webhook.yaml`). The Service is an ExternalName, because there
/// is no pod network here: the kube-apiserver then dials localhost, and still checks the
/// certificate for the Service's name.
///
/// The operator's role is for [`CONFIGURATION`]; for another name the site gets the same rights. The
/// webhook's are bound here.
pub(crate) async fn install(
    site: &Site,
    configuration: &str,
    listener: &TcpListener,
    failure_policy: &str,
) -> Result<()> {
    let port = listener.local_addr().context("no port")?.port();
    bind(site).await?;
    if configuration != CONFIGURATION {
        grant_configuration(site, configuration).await?;
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": NAME, "namespace": site.system },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    apply(&site.admin, &service).await?;
    let not_the_operator = format!("request.userInfo.username != '{}'", site.user());
    let webhook = |plural: &str, path: &str| {
        json!({
            "name": format!("{plural}.covey.dev"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": {
                "name": NAME, "namespace": site.system, "path": path, "port": port,
            }},
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": site.users } },
            "rules": [{
                "apiGroups": ["covey.dev"], "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"], "resources": [plural],
                "scope": "Namespaced",
            }],
            "matchConditions": [
                { "name": "not-by-the-operator", "expression": not_the_operator },
                { "name": "not-while-deleting",
                  "expression": "!has(object.metadata.deletionTimestamp)" },
            ],
            "failurePolicy": failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 5,
        })
    };
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": configuration },
        "webhooks": [
            webhook("tenantclusters", TENANT_CLUSTERS),
            webhook("nodepools", NODE_POOLS),
        ],
    });
    apply(&site.admin, &object).await.map(drop)
}

/// The webhook's rights, as the chart binds them.
async fn bind(site: &Site) -> Result<()> {
    let name = format!("{}-webhook", site.system);
    let subject = json!({
        "kind": "ServiceAccount", "name": ::operator::rbac::WEBHOOK, "namespace": site.system,
    });
    let cluster = ::operator::rbac::webhook();
    grant(
        site,
        &name,
        None,
        kit_objects::rbac::render(&cluster),
        &subject,
    )
    .await?;
    let own = ::operator::rbac::webhook_system_namespace();
    let system = Some(site.system.as_str());
    grant(
        site,
        &name,
        system,
        kit_objects::rbac::render(&own),
        &subject,
    )
    .await?;
    for Rule {
        groups, resources, ..
    } in cluster
    {
        let attributes = ResourceAttributes {
            group: groups.first().map(|group| (*group).to_owned()),
            resource: resources.first().map(|resource| (*resource).to_owned()),
            verb: Some("watch".to_owned()),
            ..ResourceAttributes::default()
        };
        wait_allowed_to(&site.admin, &user(site), &attributes).await?;
    }
    let secret = ResourceAttributes {
        resource: Some("secrets".to_owned()),
        name: Some(NAME.to_owned()),
        namespace: Some(site.system.clone()),
        verb: Some("watch".to_owned()),
        ..ResourceAttributes::default()
    };
    wait_allowed_to(&site.admin, &user(site), &secret).await
}

/// A role of this name with these rules, and its binding; without a namespace everywhere.
async fn grant(
    site: &Site,
    name: &str,
    namespace: Option<&str>,
    rules: Value,
    subject: &Value,
) -> Result<()> {
    let kind = if namespace.is_some() {
        "Role"
    } else {
        "ClusterRole"
    };
    let mut role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind,
        "metadata": { "name": name }, "rules": rules,
    });
    let mut binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"),
        "metadata": { "name": name },
        "roleRef": { "apiGroup": RBAC, "kind": kind, "name": name },
        "subjects": [subject],
    });
    if let Some(namespace) = namespace {
        role["metadata"]["namespace"] = json!(namespace);
        binding["metadata"]["namespace"] = json!(namespace);
    }
    apply(&site.admin, &role).await?;
    apply(&site.admin, &binding).await.map(drop)
}

/// What the operator's role lets it do with [`CONFIGURATION`], for another one.
async fn grant_configuration(site: &Site, configuration: &str) -> Result<()> {
    const RESOURCE: &str = "validatingwebhookconfigurations";
    let mut rules = ::operator::rbac::cluster();
    rules.retain(|rule| rule.resources.contains(&RESOURCE));
    let mut rules = kit_objects::rbac::render(&rules);
    for rule in rules.as_array_mut().into_iter().flatten() {
        ensure!(
            rule["resourceNames"] == json!([CONFIGURATION]),
            "not of one configuration: {rule}"
        );
        rule["resourceNames"] = json!([configuration]);
    }
    let name = format!("{configuration}-webhook-configuration");
    let user = site.user();
    let subject = json!({ "apiGroup": RBAC, "kind": "User", "name": user });
    grant(site, &name, None, rules, &subject).await?;
    let patch = ResourceAttributes {
        group: Some("admissionregistration.k8s.io".to_owned()),
        resource: Some(RESOURCE.to_owned()),
        name: Some(configuration.to_owned()),
        verb: Some("patch".to_owned()),
        ..ResourceAttributes::default()
    };
    wait_allowed_to(&site.admin, &user, &patch).await
}

/// Removes what each request would be compared with from now on.
pub(crate) async fn uninstall(site: &Site, configuration: &str) -> Result<()> {
    let configurations = site.objects(kit_objects::kinds::VALIDATING_WEBHOOK_CONFIGURATION, "");
    configurations
        .delete(configuration, &Default::default())
        .await?;
    Ok(())
}
