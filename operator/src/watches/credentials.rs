//! Watches on the Secrets that ProviderConfigs name: each one alone, by its name.
//!
//! Invariant: metadata only; who changes a Secret is not known here, nor what is in it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::ProviderConfig;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::secrets::changes;

/// The watches, by the UIDs of ProviderConfigs.
pub struct CredentialWatches {
    client: Client,
    configs: mpsc::UnboundedSender<ObjectRef<ProviderConfig>>,
    tasks: Mutex<HashMap<String, Watched>>,
}

/// One of them.
struct Watched {
    secret: String,
    task: JoinHandle<()>,
}

impl CredentialWatches {
    /// No watches yet.
    #[must_use]
    pub fn new(client: Client, configs: mpsc::UnboundedSender<ObjectRef<ProviderConfig>>) -> Self {
        Self {
            client,
            configs,
            tasks: Mutex::default(),
        }
    }

    /// Watches the Secret that a ProviderConfig names, unless that is done. Where it names none, nothing is watched.
    pub fn ensure(&self, config: &ProviderConfig) {
        let uid = config.uid().unwrap_or_default();
        let account = config.spec.cloud();
        let Some(name) = account.and_then(|account| account.secret_name) else {
            return self.forget(&uid);
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = tasks.get(&uid) {
            if watched.secret == name && !watched.task.is_finished() {
                return;
            }
            watched.task.abort();
        }
        let namespace = config.namespace().unwrap_or_default();
        let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(self.client.clone(), &namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(secrets, only);
        let (configs, config) = (self.configs.clone(), ObjectRef::from_obj(config));
        let task = tokio::spawn(async move {
            let mut events = changes(events).boxed();
            while events.next().await.is_some() {
                if configs.send(config.clone()).is_err() {
                    return;
                }
            }
        });
        let watched = Watched {
            secret: name.to_owned(),
            task,
        };
        tasks.insert(uid, watched);
    }

    /// Ends the watch of a ProviderConfig that is gone.
    pub fn forget(&self, uid: &str) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = tasks.remove(uid) {
            watched.task.abort();
        }
    }
}

impl Drop for CredentialWatches {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.values().for_each(|watched| watched.task.abort());
    }
}
