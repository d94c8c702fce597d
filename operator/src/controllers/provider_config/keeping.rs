//! Keeps for Machines of clouds what they are deleted with: the ProviderConfig, the Secret that it names, and the
//! operator's right to read that. A namespace that is deleted whole takes none of it along before the last of them.
//!
//! Invariant: let go of is only what no Machine needs by the API's own answer, because a store may not have the newest
//! one yet; of Secrets nothing is read but their metadata; where nothing changes nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use api::{Machine, ProviderConfig, names};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

pub mod plan;

use self::plan::{InUse, Object, Observed, Plan, Step, User, plan};
use crate::context::Context;

/// Objects of one page.
const PAGE: u32 = 500;

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("ProviderConfigs are another replica's work now")]
    Fence(#[source] NotLeader),
    /// The API refused, or did not answer.
    #[error("{verb} the {object} of the ProviderConfig")]
    Request {
        /// `read`, `keep` or `let go of`.
        verb: &'static str,
        /// What.
        object: &'static str,
        /// What the client said.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            // Whoever leads now does it.
            Self::Fence(_) => Class::Transient,
            Self::Request { source, .. } => source.class(),
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What is said of it.
    pub in_use: InUse,
    /// Whether the ProviderConfig is kept from now on.
    pub is_kept: bool,
}

/// Keeps what is needed, and lets go of what is not.
///
/// # Errors
/// See [`Error`].
pub async fn run(ctx: &Context, config: &ProviderConfig) -> Result<Kept, Error> {
    let observed = observe(ctx, config).await?;
    let Plan { steps, in_use } = match &observed {
        Some(observed) => plan(observed),
        None => Plan {
            steps: Vec::new(),
            in_use: InUse::nobody(),
        },
    };
    let mut is_kept = Object::of(&config.metadata).is_kept();
    for step in &steps {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        write(ctx, config, observed.as_ref(), step).await?;
        match step {
            Step::KeepConfig => is_kept = true,
            Step::FreeConfig => is_kept = false,
            _ => {}
        }
    }
    Ok(Kept { in_use, is_kept })
}

/// None where nothing is kept, and nothing has to be: nothing is asked then.
async fn observe(ctx: &Context, config: &ProviderConfig) -> Result<Option<Observed>, Error> {
    let (namespace, name) = (config.namespace().unwrap_or_default(), config.name_any());
    let object = Object::of(&config.metadata);
    let known = ctx.stores.machines.state();
    let known = known
        .into_iter()
        .filter(|machine| machine.namespace().as_deref() == Some(&namespace));
    let mut machines: Vec<Arc<Machine>> = known.collect();
    if !machines.iter().any(|machine| needs(machine, &name)) {
        if !object.is_kept() {
            return Ok(None);
        }
        let live = Api::<Machine>::namespaced(ctx.client.clone(), &namespace);
        machines = all(&live, "Machines").await?;
    }
    let users = machines.iter().filter(|machine| needs(machine, &name));
    let users = users.map(|machine| User {
        pool: machine.spec.pool_name.clone(),
        machine: machine.name_any(),
    });
    let users: BTreeSet<_> = users.collect();
    let secret = named(config);
    let configs = ctx.stores.configs.state();
    let needed = configs.iter().filter(|other| {
        let name = other.name_any();
        other.namespace().as_deref() == Some(&namespace)
            && machines.iter().any(|machine| needs(machine, &name))
    });
    let mut needed: BTreeSet<_> = needed.filter_map(|other| named(other)).collect();
    // As it is reconciled, which may be newer or older than the store.
    needed.extend(secret.clone().filter(|_| !users.is_empty()));
    Ok(Some(Observed {
        secrets: secrets(ctx, &namespace, secret.as_deref()).await?,
        binding: binding(ctx, &namespace).await?,
        config: object,
        users,
        secret,
        needed,
    }))
}

fn needs(machine: &Machine, config: &str) -> bool {
    machine.spec.provider.config_name() == Some(config)
}

/// The Secret that a ProviderConfig names, if it names one.
fn named(config: &ProviderConfig) -> Option<String> {
    config.spec.cloud()?.secret_name.map(str::to_owned)
}

async fn all(machines: &Api<Machine>, object: &'static str) -> Result<Vec<Arc<Machine>>, Error> {
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = machines.list(&params).await;
        let page = page.map_err(|source| failed("read", object, source))?;
        found.extend(page.items.into_iter().map(Arc::new));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}

/// Those that are kept, and the one that is named; none where they may not be read.
async fn secrets(
    ctx: &Context,
    namespace: &str,
    secret: Option<&str>,
) -> Result<Option<BTreeMap<String, Object>>, Error> {
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), namespace);
    let mut params = ListParams::default().limit(PAGE);
    let mut found = BTreeMap::new();
    loop {
        let page = match secrets.list_metadata(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(None),
            Err(source) => return Err(failed("read", "Secrets", source)),
        };
        for one in page.items {
            let (name, object) = (one.name_any(), Object::of(&one.metadata));
            if object.is_kept() || secret == Some(&name) {
                found.insert(name, object);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(Some(found)),
        }
    }
}

async fn binding(ctx: &Context, namespace: &str) -> Result<Option<Object>, Error> {
    let bindings = Api::<RoleBinding>::namespaced(ctx.client.clone(), namespace);
    let found = bindings.get_metadata_opt(names::OPERATOR_BINDING).await;
    let found = found.map_err(|source| failed("read", "operator's RoleBinding", source))?;
    // One that somebody else made is theirs.
    let ours = found.filter(|one| {
        one.labels()
            .get(names::LABEL_MANAGED_BY)
            .map(String::as_str)
            == Some(names::MANAGED_BY)
    });
    Ok(ours.map(|one| Object::of(&one.metadata)))
}

async fn write(
    ctx: &Context,
    config: &ProviderConfig,
    observed: Option<&Observed>,
    step: &Step,
) -> Result<(), Error> {
    let Some(observed) = observed else {
        return Ok(());
    };
    let namespace = config.namespace().unwrap_or_default();
    let client = || ctx.client.clone();
    let secret = |name: &String| observed.secrets.as_ref().and_then(|all| all.get(name));
    match step {
        Step::KeepConfig | Step::FreeConfig => {
            let configs = Api::<ProviderConfig>::namespaced(client(), &namespace);
            let keeps = *step == Step::KeepConfig;
            let name = config.name_any();
            let done = patch(&configs, &name, &observed.config, keeps, None).await;
            done.map_err(|source| failed(verb(keeps), "finalizer", source))
        }
        Step::KeepBinding | Step::FreeBinding => {
            let Some(object) = &observed.binding else {
                return Ok(());
            };
            let bindings = Api::<RoleBinding>::namespaced(client(), &namespace);
            let keeps = *step == Step::KeepBinding;
            // It stays afterwards: an admission policy of the chart forgives no taking it off.
            let label = keeps.then_some(names::LABEL_NEEDED_BY_MACHINES);
            let done = patch(&bindings, names::OPERATOR_BINDING, object, keeps, label).await;
            done.map_err(|source| failed(verb(keeps), "operator's RoleBinding", source))
        }
        Step::KeepSecret(name) | Step::FreeSecret(name) => {
            let Some(object) = secret(name) else {
                return Ok(());
            };
            let secrets = Api::<Secret>::namespaced(client(), &namespace);
            let keeps = matches!(step, Step::KeepSecret(_));
            let done = patch(&secrets, name, object, keeps, None).await;
            done.map_err(|source| failed(verb(keeps), "Secret", source))
        }
    }
}

fn verb(keeps: bool) -> &'static str {
    match keeps {
        true => "keep",
        false => "let go of",
    }
}

/// Puts our finalizer on, or takes it off. What was written meanwhile makes it a conflict.
async fn patch<K>(
    objects: &Api<K>,
    name: &str,
    object: &Object,
    keeps: bool,
    label: Option<&str>,
) -> Result<(), kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let mut finalizers = object.finalizers.clone();
    finalizers.retain(|finalizer| finalizer != names::FINALIZER_PROVIDER_CONFIG);
    if keeps {
        finalizers.push(names::FINALIZER_PROVIDER_CONFIG.to_owned());
    }
    let mut metadata = json!({
        "finalizers": finalizers, "resourceVersion": object.resource_version,
    });
    if let Some(label) = label {
        metadata["labels"] = json!({ label: "true" });
    }
    let (params, patch) = (
        PatchParams::default(),
        Patch::Merge(json!({ "metadata": metadata })),
    );
    match objects.patch_metadata(name, &params, &patch).await {
        Ok(_) => Ok(()),
        // Gone: there is nothing to keep any more.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

fn failed(verb: &'static str, object: &'static str, source: kube::Error) -> Error {
    Error::Request {
        verb,
        object,
        source: Box::new(source),
    }
}
