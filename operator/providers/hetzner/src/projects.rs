//! The clients: one for each ProviderConfig, kept as long as its Secret, its spec and its account are the same.
//!
//! Invariant: a token is read by name, in the ProviderConfig's own namespace alone, and kept by nobody but the client
//! that sends it; nothing of it is in an error. Whom the API does not let in does not ask again for [`REFUSED`], unless
//! the Secret changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::ProviderConfig;
use api::provider_config::HetznerProject;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, ResourceExt as _};
use providers::clock::Clock;
use providers::token::Token;
use providers::{Error, FaultKind, Refused};
use tokio::sync::OnceCell;

use crate::cloud::{Cloud, held};
use crate::refusal::{Asked as Call, NO_CREDENTIALS};
use crate::settings::Project;
use crate::subject;

/// The field of a Secret that has the token.
const FIELD: &str = "token";
/// Its UID tells one management cluster from all others; a restored backup has it.
const OF_INSTALLATION: &str = "kube-system";
/// How long a Secret is believed to be as it was read. Where somebody watches it, it is read anew at once.
const FRESH: SignedDuration = SignedDuration::from_secs(60);
/// How long nobody asks with a token that was refused.
const REFUSED: SignedDuration = SignedDuration::from_mins(5);

/// Finds a ProviderConfig by namespace and name, as last seen.
pub type Find = Arc<dyn Fn(&str, &str) -> Option<Arc<ProviderConfig>> + Send + Sync>;

/// Namespace and name of a ProviderConfig.
pub(crate) type Key = (String, String);

/// The clients.
pub(crate) struct Projects {
    client: Client,
    endpoint: String,
    clock: Arc<dyn Clock>,
    find: Find,
    installation: OnceCell<String>,
    kept: Mutex<BTreeMap<Key, Kept>>,
}

/// One client, and what it was made of.
#[derive(Clone)]
struct Kept {
    secret: Read,
    project: Project,
    cloud: Arc<Cloud>,
    at: Timestamp,
    refused: Option<(Timestamp, Refused)>,
}

/// Which Secret, in which state.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Read {
    name: String,
    uid: Option<String>,
    version: Option<String>,
}

/// A project that may be asked.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) key: Key,
    pub(crate) installation: String,
    pub(crate) cloud: Arc<Cloud>,
}

impl Projects {
    pub(crate) fn new(client: Client, endpoint: &str, clock: Arc<dyn Clock>, find: Find) -> Self {
        Self {
            client,
            endpoint: endpoint.to_owned(),
            clock,
            find,
            installation: OnceCell::new(),
            kept: Mutex::default(),
        }
    }

    /// As last seen.
    pub(crate) fn config(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<ProviderConfig>, Refused> {
        let found = (self.find)(namespace, name);
        let found = found.filter(|config| config.spec.hetzner.is_some());
        found.ok_or_else(|| subject::no_config(namespace, name))
    }

    /// UID of the installation.
    async fn installation(&self) -> Result<&str, Error> {
        let read = || async {
            let namespaces = Api::<Namespace>::all(self.client.clone());
            let object = || format!("Namespace {OF_INSTALLATION}");
            let found = namespaces.get(OF_INSTALLATION).await;
            let found = found.map_err(|source| Error::Request {
                verb: "read",
                object: object(),
                source: Box::new(source),
            })?;
            found.uid().ok_or_else(|| {
                let call = Call::new("read", object());
                let refused = call.refused(FaultKind::Unavailable, "no_uid", "it has no UID");
                Error::from(refused)
            })
        };
        let uid = self.installation.get_or_try_init(read).await?;
        Ok(uid)
    }

    /// The project of a ProviderConfig. `anew`: its Secret is read, and who was refused asks again.
    pub(crate) async fn open(&self, config: &ProviderConfig, anew: bool) -> Result<Open, Error> {
        let key = (config.namespace().unwrap_or_default(), config.name_any());
        let wanted = config.spec.hetzner.as_ref();
        let wanted = wanted.ok_or_else(|| subject::no_config(&key.0, &key.1))?;
        let installation = self.installation().await?.to_owned();
        let project = subject::project(wanted, &installation, subject::account(config));
        let now = self.clock.now();
        let open = |cloud: &Arc<Cloud>| Open {
            key: key.clone(),
            installation: installation.clone(),
            cloud: Arc::clone(cloud),
        };
        let kept = held(&self.kept).get(&key).cloned();
        let same = kept
            .filter(|kept| kept.project == project && kept.secret.name == wanted.token_secret_name);
        if let Some(kept) = &same
            && !anew
            && now.duration_since(kept.at).abs() < FRESH
        {
            return still_refused(kept, now).map(|()| open(&kept.cloud));
        }
        let (read, token) = self.token(&key.0, wanted).await?;
        let mut all = held(&self.kept);
        if let Some(kept) = same.filter(|kept| kept.secret == read) {
            let kept = Kept {
                at: now,
                refused: kept.refused.filter(|_| !anew),
                ..kept
            };
            let answer = still_refused(&kept, now).map(|()| open(&kept.cloud));
            all.insert(key, kept);
            return answer;
        }
        let cloud = Cloud::new(
            &self.endpoint,
            token,
            project.clone(),
            Arc::clone(&self.clock),
        );
        let cloud = Arc::new(cloud.map_err(|error| {
            let call = Call::new("use", format!("the API at {}", self.endpoint));
            call.refused(FaultKind::Terminal, "no_client", error.to_string())
        })?);
        let answer = open(&cloud);
        all.insert(
            key,
            Kept {
                secret: read,
                project,
                cloud,
                at: now,
                refused: None,
            },
        );
        Ok(answer)
    }

    /// Takes in what the API said: a token that is refused is not sent again and again.
    pub(crate) fn heard<T>(&self, open: &Open, answer: Result<T, Refused>) -> Result<T, Error> {
        if let Err(refused) = &answer
            && refused.kind == FaultKind::Auth
            && let Some(kept) = held(&self.kept).get_mut(&open.key)
            && Arc::ptr_eq(&kept.cloud, &open.cloud)
        {
            kept.refused = Some((self.clock.now(), refused.clone()));
        }
        answer.map_err(Error::from)
    }

    /// A client that is there, whoever is let in; none where there is none yet.
    pub(crate) fn kept(&self, namespace: &str, name: &str) -> Option<Arc<Cloud>> {
        let kept = held(&self.kept);
        let found = kept.get(&(namespace.to_owned(), name.to_owned()));
        found.map(|kept| Arc::clone(&kept.cloud))
    }

    /// All clients that are there.
    pub(crate) fn all(&self) -> Vec<(String, Arc<Cloud>)> {
        let kept = held(&self.kept);
        let of = |kept: &Kept| (kept.project.installation.clone(), Arc::clone(&kept.cloud));
        kept.values().map(of).collect()
    }

    /// Lets go of the client, and the token, of a ProviderConfig that is gone.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        held(&self.kept).remove(&(namespace.to_owned(), name.to_owned()));
    }

    async fn token(
        &self,
        namespace: &str,
        wanted: &HetznerProject,
    ) -> Result<(Read, Token), Error> {
        let name = &wanted.token_secret_name;
        let unusable = |why: &str, mend: String| {
            let call = Call::new("use", format!("Secret {namespace}/{name}"));
            Error::from(Refused {
                mend: Some(mend),
                ..call.refused(FaultKind::Auth, NO_CREDENTIALS, why)
            })
        };
        let make = || {
            format!(
                "kubectl create secret generic {name} -n {namespace} --from-file={FIELD}=FILE makes one"
            )
        };
        let secrets = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let secret = match secrets.get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return Err(unusable("there is no such Secret", make())),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let mend = "the operator can read Secrets where a TenantCluster is: make ProviderConfig and Secret in \
                            the namespace of the TenantCluster";
                return Err(unusable("the operator may not read it", mend.to_owned()));
            }
            Err(source) => {
                return Err(Error::Request {
                    verb: "read",
                    object: format!("Secret {namespace}/{name}"),
                    source: Box::new(source),
                });
            }
        };
        let read = Read {
            name: name.clone(),
            uid: secret.uid(),
            version: secret.resource_version(),
        };
        let data = secret.data.unwrap_or_default();
        let text = data.get(FIELD);
        let text = text.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
        let token = text.and_then(Token::read);
        let token = token.ok_or_else(|| unusable("it has no token in its field token", make()))?;
        Ok((read, token))
    }
}

/// Whether nobody asks at the moment, because the token was refused.
fn still_refused(kept: &Kept, now: Timestamp) -> Result<(), Error> {
    let lately = |(at, _): &&(Timestamp, Refused)| now.duration_since(*at).abs() < REFUSED;
    match kept.refused.as_ref().filter(lately) {
        Some((_, refused)) => Err(refused.clone().into()),
        None => Ok(()),
    }
}
