//! The clients: one for each ProviderConfig, kept as long as its Secret, its spec and its account are the same.
//!
//! Invariant: credentials are read by name, in the ProviderConfig's own namespace alone, and kept by nobody but the client
//! that sends them; nothing of them is in an error. Whom the API does not let in does not ask again for [`REFUSED`], unless
//! the Secret changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::ProviderConfig;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::OnceCell;

use super::requests::{self, NO_CREDENTIALS, NOT_ALLOWED};
use super::{Cloud, NoClient};
use crate::clock::Clock;
use crate::error::Error;
use crate::fault::FaultKind;
use crate::refused::Refused;

/// Its UID tells one management cluster from all others; a restored backup has it.
const OF_INSTALLATION: &str = "kube-system";
/// How long a Secret is believed to be as it was read. Where somebody watches it, it is read anew at once.
const FRESH: SignedDuration = SignedDuration::from_secs(60);
/// How long nobody asks with credentials that were refused.
const REFUSED: SignedDuration = SignedDuration::from_mins(5);

/// Finds a ProviderConfig by namespace and name, as last seen.
pub type Find = Arc<dyn Fn(&str, &str) -> Option<Arc<ProviderConfig>> + Send + Sync>;

/// Namespace and name of a ProviderConfig.
pub(crate) type Key = (String, String);

/// The clients.
pub(crate) struct Clients<C: Cloud> {
    client: Client,
    endpoints: C::Endpoints,
    clock: Arc<dyn Clock>,
    find: Find,
    installation: OnceCell<String>,
    kept: Mutex<BTreeMap<Key, Kept<C>>>,
}

/// One client, and what it was made of.
struct Kept<C: Cloud> {
    secret: Read,
    project: C::Project,
    cloud: Arc<C>,
    at: Timestamp,
    refused: Option<(Timestamp, Refused)>,
}

/// Which Secret, in which state; nothing where none is named.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Read {
    name: String,
    uid: Option<String>,
    version: Option<String>,
}

impl<C: Cloud> Clone for Kept<C> {
    fn clone(&self) -> Self {
        Self {
            secret: self.secret.clone(),
            project: self.project.clone(),
            cloud: Arc::clone(&self.cloud),
            at: self.at,
            refused: self.refused.clone(),
        }
    }
}

/// An account that may be asked.
pub(crate) struct Open<C> {
    pub(crate) key: Key,
    pub(crate) installation: String,
    pub(crate) cloud: Arc<C>,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Cloud> Clients<C> {
    pub(crate) fn new(
        client: Client,
        endpoints: C::Endpoints,
        clock: Arc<dyn Clock>,
        find: Find,
    ) -> Self {
        Self {
            client,
            endpoints,
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
        let is_its =
            |config: &Arc<ProviderConfig>| config.spec.cloud().is_some_and(|of| of.kind == C::KIND);
        let found = found.filter(is_its);
        found.ok_or_else(|| requests::no_config(C::KIND, namespace, name))
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
                let (kind, why) = (FaultKind::Unavailable, "it has no UID");
                Error::from(refused::<C>("read", object(), kind, "no_uid", why))
            })
        };
        let uid = self.installation.get_or_try_init(read).await?;
        Ok(uid)
    }

    /// The account of a ProviderConfig. `anew`: its Secret is read, and who was refused asks again.
    pub(crate) async fn open(&self, config: &ProviderConfig, anew: bool) -> Result<Open<C>, Error> {
        let key = (config.namespace().unwrap_or_default(), config.name_any());
        let none = || requests::no_config(C::KIND, &key.0, &key.1);
        let secret = config.spec.cloud().ok_or_else(none)?.secret_name;
        let named = secret.unwrap_or_default();
        let installation = self.installation().await?.to_owned();
        let project = C::project(config, &installation);
        let project = project.ok_or_else(none)?;
        let now = self.clock.now();
        let open = |cloud: &Arc<C>| Open {
            key: key.clone(),
            installation: installation.clone(),
            cloud: Arc::clone(cloud),
        };
        let kept = held(&self.kept).get(&key).cloned();
        let same = kept.filter(|kept| kept.project == project && kept.secret.name == named);
        if let Some(kept) = &same
            && !anew
            && now.duration_since(kept.at).abs() < FRESH
        {
            return still_refused(kept, now).map(|()| open(&kept.cloud));
        }
        let (read, credentials) = match secret {
            Some(secret) => self.credentials(&key.0, secret).await?,
            None => (Read::default(), String::new()),
        };
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
        let clock = Arc::clone(&self.clock);
        let cloud = C::open(&self.endpoints, &credentials, project.clone(), clock);
        let cloud = Arc::new(cloud.map_err(|error| match error {
            NoClient::Credentials(why) => unusable::<C>(&key.0, named, &why),
            NoClient::NotAllowed { object, why, mend } => Error::from(Refused {
                mend: Some(mend),
                ..refused::<C>("use", object, FaultKind::Auth, NOT_ALLOWED, why)
            }),
            NoClient::Build(error) => {
                let (kind, object) = (FaultKind::Terminal, "the API".to_owned());
                refused::<C>("use", object, kind, "no_client", error.to_string()).into()
            }
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

    /// Takes in what the API said: credentials that are refused are not sent again and again.
    pub(crate) fn heard<T>(&self, open: &Open<C>, answer: Result<T, Refused>) -> Result<T, Error> {
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
    pub(crate) fn kept(&self, namespace: &str, name: &str) -> Option<Arc<C>> {
        let kept = held(&self.kept);
        let found = kept.get(&(namespace.to_owned(), name.to_owned()));
        found.map(|kept| Arc::clone(&kept.cloud))
    }

    /// Whether the API did not let one in since that was last asked anew.
    pub(crate) fn is_refused(&self, namespace: &str, name: &str) -> bool {
        let kept = held(&self.kept);
        let found = kept.get(&(namespace.to_owned(), name.to_owned()));
        found.is_some_and(|kept| kept.refused.is_some())
    }

    /// All clients that are there.
    pub(crate) fn all(&self) -> Vec<Arc<C>> {
        let kept = held(&self.kept);
        kept.values().map(|kept| Arc::clone(&kept.cloud)).collect()
    }

    /// Lets go of the client, and the credentials, of a ProviderConfig that is gone.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        held(&self.kept).remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// What the Secret has; empty where it has nothing.
    async fn credentials(&self, namespace: &str, name: &str) -> Result<(Read, String), Error> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let secret = match secrets.get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return Err(unusable::<C>(namespace, name, "there is no such Secret")),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let mend = "the operator can read Secrets where a TenantCluster is: make ProviderConfig and Secret in \
                            the namespace of the TenantCluster";
                let why = "the operator may not read it";
                return Err(of_secret::<C>(namespace, name, why, mend.to_owned()));
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
            name: name.to_owned(),
            uid: secret.uid(),
            version: secret.resource_version(),
        };
        let data = secret.data.unwrap_or_default();
        let text = data.get(C::FIELD);
        let text = text.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
        Ok((read, text.unwrap_or_default().to_owned()))
    }
}

/// That a Secret has nothing that lets anybody in.
fn unusable<C: Cloud>(namespace: &str, name: &str, why: &str) -> Error {
    let field = C::FIELD;
    let make = format!(
        "kubectl create secret generic {name} -n {namespace} --from-file={field}=FILE makes one"
    );
    of_secret::<C>(namespace, name, why, make)
}

fn of_secret<C: Cloud>(namespace: &str, name: &str, why: &str, mend: String) -> Error {
    let object = format!("Secret {namespace}/{name}");
    Error::from(Refused {
        mend: Some(mend),
        ..refused::<C>("use", object, FaultKind::Auth, NO_CREDENTIALS, why)
    })
}

/// That something was not done, in our own words.
pub(crate) fn refused<C: Cloud>(
    verb: &'static str,
    object: String,
    kind: FaultKind,
    code: &str,
    why: impl Into<String>,
) -> Refused {
    Refused::own(C::KIND.as_str(), (verb, object), kind, code, why)
}

/// Whether nobody asks at the moment, because the credentials were refused.
fn still_refused<C: Cloud>(kept: &Kept<C>, now: Timestamp) -> Result<(), Error> {
    let lately = |(at, _): &&(Timestamp, Refused)| now.duration_since(*at).abs() < REFUSED;
    match kept.refused.as_ref().filter(lately) {
        Some((_, refused)) => Err(refused.clone().into()),
        None => Ok(()),
    }
}
