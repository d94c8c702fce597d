//! One TenantCluster under test: create, use, delete.
//!
//! Invariant: times count from the moment just before the create call.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::{ConditionType, TenantCluster, TenantClusterSpec, condition};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube::{
    Api, Client,
    api::{
        DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    },
    config::Kubeconfig,
};
use serde_json::{Value, json};

use super::{
    credentials,
    wait::{wait_for, wait_gone},
};

/// Time between two tries while a new API does not answer yet.
const TRY_EVERY: Duration = Duration::from_millis(25);

/// One TenantCluster.
#[derive(Clone)]
pub struct Tenant {
    /// Client of the management cluster.
    pub management: Client,
    /// The user's namespace.
    pub namespace: String,
    /// Name of the TenantCluster.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Just before the create call.
    pub created: Instant,
}

/// The first write that was accepted.
pub struct Usable {
    /// Administrator's client.
    pub client: Client,
    /// From the create call to the answer.
    pub after: Duration,
}

impl Tenant {
    /// Creates it.
    ///
    /// # Errors
    /// When the management API refuses it.
    pub async fn create(
        management: &Client,
        namespace: &str,
        name: &str,
        spec: TenantClusterSpec,
    ) -> Result<Self> {
        let api: Api<TenantCluster> = Api::namespaced(management.clone(), namespace);
        let created = Instant::now();
        let cluster = TenantCluster::new(name, spec);
        let cluster = api
            .create(&PostParams::default(), &cluster)
            .await
            .with_context(|| format!("create the TenantCluster {namespace}/{name}"))?;
        Ok(Self {
            management: management.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: cluster
                .metadata
                .uid
                .context("the API gives every object a UID")?,
            created,
        })
    }

    /// TenantClusters of its namespace.
    #[must_use]
    pub fn api(&self) -> Api<TenantCluster> {
        Api::namespaced(self.management.clone(), &self.namespace)
    }

    /// Its present state.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn get(&self) -> Result<TenantCluster> {
        Ok(self.api().get(&self.name).await?)
    }

    /// The tenant namespace's name, by the public rule.
    #[must_use]
    pub fn tenant_namespace(&self) -> String {
        api::names::tenant_namespace(&self.name, &self.uid)
    }

    /// An API for objects of the tenant namespace.
    #[must_use]
    pub fn parts<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.management.clone(), &self.tenant_namespace())
    }

    /// One key of a Secret in the tenant namespace.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn secret(&self, name: &str, key: &str) -> Result<Vec<u8>> {
        let secret = self.parts::<Secret>().get(name).await?;
        let data = secret.data.unwrap_or_default();
        let bytes = data
            .get(key)
            .with_context(|| format!("Secret {name} has no key {key}"))?;
        Ok(bytes.0.clone())
    }

    /// Waits for the kubeconfig's text.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn kubeconfig(&self, timeout: Duration) -> Result<String> {
        let secrets: Api<Secret> = Api::namespaced(self.management.clone(), &self.namespace);
        let name = api::names::kubeconfig_secret(&self.name);
        let bytes = wait_for(&secrets, &name, "key value is there", timeout, |secret| {
            secret.data.as_ref()?.get("value").cloned()
        })
        .await?;
        String::from_utf8(bytes.0).context("the kubeconfig is not text")
    }

    /// A client of the administrator, whether or not the API answers.
    ///
    /// # Errors
    /// When there is no kubeconfig in time.
    pub async fn admin(&self, timeout: Duration) -> Result<Client> {
        let text = self.kubeconfig(timeout).await?;
        credentials::from_kubeconfig(Kubeconfig::from_yaml(&text)?).await
    }

    /// Waits until a ConfigMap could be created through the generated kubeconfig.
    ///
    /// # Errors
    /// When it takes longer; names the last refusal.
    pub async fn usable(&self, timeout: Duration) -> Result<Usable> {
        let client = self.admin(timeout).await?;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let map = ConfigMap {
            metadata: ObjectMeta {
                generate_name: Some("first-write-".to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let mut ticks = tokio::time::interval(TRY_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let answer = maps.create(&PostParams::default(), &map).await;
            let after = self.created.elapsed();
            match answer {
                Ok(_) => return Ok(Usable { client, after }),
                Err(error) if after > timeout => {
                    let name = &self.name;
                    return Err(anyhow::Error::from(error))
                        .with_context(|| format!("{name} takes no write after {after:?}"));
                }
                Err(_) => {}
            }
        }
    }

    /// Waits for the condition Ready and returns the object with the time since the create call.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn ready(&self, timeout: Duration) -> Result<(TenantCluster, Duration)> {
        let found = self.condition(ConditionType::Ready, true, timeout).await?;
        Ok((found, self.created.elapsed()))
    }

    /// Waits until a condition of the present generation is (not) True.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn condition(
        &self,
        type_: ConditionType,
        value: bool,
        timeout: Duration,
    ) -> Result<TenantCluster> {
        let what = format!("condition {} is {value}", type_.as_str());
        wait_for(&self.api(), &self.name, &what, timeout, |cluster| {
            let status = cluster.status.as_ref()?;
            let current = status.observed_generation == cluster.metadata.generation;
            (current && condition::is_true(&status.conditions, type_) == value)
                .then(|| cluster.clone())
        })
        .await
    }

    /// Waits until it is Ready, every pod serves the wanted version and nothing is under way.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn settled(&self, timeout: Duration) -> Result<TenantCluster> {
        wait_for(
            &self.api(),
            &self.name,
            "Ready, of the wanted version, not Progressing",
            timeout,
            |cluster| {
                let status = cluster.status.as_ref()?;
                let is = |type_| condition::is_true(&status.conditions, type_);
                let current = status.observed_generation == cluster.metadata.generation;
                let version = status.version.as_deref();
                let done = is(ConditionType::Ready)
                    && !is(ConditionType::Progressing)
                    && version == Some(cluster.spec.version.trim_start_matches('v'));
                (current && done).then(|| cluster.clone())
            },
        )
        .await
    }

    /// Changes its spec by a merge patch.
    ///
    /// # Errors
    /// When the management API refuses it.
    pub async fn change(&self, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let changed = self
            .api()
            .patch(&self.name, &PatchParams::default(), &patch)
            .await;
        changed.with_context(|| format!("change the spec by {spec}"))?;
        Ok(())
    }

    /// Plays the load balancers of the management cluster: the endpoint's Service is reached at these
    /// (`status.loadBalancer.ingress`).
    ///
    /// # Errors
    /// When the management API refuses.
    pub async fn balance(&self, ingress: &Value) -> Result<()> {
        let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
        let services: Api<Service> = self.parts();
        services
            .patch_status("control-plane", &params, &patch)
            .await?;
        Ok(())
    }

    /// Asks for its deletion.
    ///
    /// # Errors
    /// When the management API refuses.
    pub async fn delete(&self) -> Result<()> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                ..Default::default()
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.api().delete(&self.name, &params).await {
            Ok(_) => Ok(()),
            // Gone, or another one of that name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("delete {}", self.name)),
        }
    }

    /// Waits until it and its tenant namespace are gone.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn gone(&self, timeout: Duration) -> Result<()> {
        wait_gone(&self.api(), &self.name, Some(&self.uid), timeout).await?;
        let namespaces: Api<Namespace> = Api::all(self.management.clone());
        if namespaces
            .get_opt(&self.tenant_namespace())
            .await?
            .is_some()
        {
            bail!(
                "{} is gone but {} is not",
                self.name,
                self.tenant_namespace()
            );
        }
        Ok(())
    }
}
