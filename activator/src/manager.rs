//! Manager: the watch of the ConfigMap, and a port for each sleeper in it, without the process.
//!
//! Invariant: a port is open for as long as the ConfigMap names it for that UID; connections that were accepted outlive
//! it. A ConfigMap that cannot be read leaves everything as it is.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::names::SLEEPERS;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::admin::Admin;
use kit::watch::Event;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use crate::relay;
use crate::relay::shared::{Limits, Relay, Sleepers};
use crate::sleepers;
use crate::wakes::{Leases, Waker};
use crate::{metrics, plan};

/// A port that is taken is tried again so often.
const AGAIN: Duration = Duration::from_secs(5);

/// Everything of a running process but the process around it; tests run it too.
pub struct Manager {
    client: Client,
    namespace: String,
    listen: IpAddr,
    metrics: Metrics,
    sleepers: watch::Sender<Sleepers>,
    listed: watch::Sender<bool>,
}

impl Manager {
    /// Wires everything; nothing runs yet.
    #[must_use]
    pub fn new(client: Client, namespace: &str, listen: IpAddr, port: &Admin) -> Self {
        let metrics = port.metrics(Metrics::register);
        let listed = watch::Sender::new(false);
        let (shown, seen) = (metrics.clone(), listed.clone());
        port.state("activator", move || shown.state());
        port.ready("sleepers", move || match *seen.borrow() {
            true => Ok(()),
            false => Err(format!("the ConfigMap {SLEEPERS} was not looked for yet")),
        });
        Self {
            client,
            namespace: namespace.to_owned(),
            listen,
            metrics,
            sleepers: watch::Sender::new(Sleepers::default()),
            listed,
        }
    }

    /// Connections that are held now.
    #[must_use]
    pub fn held(&self) -> metrics::Held {
        metrics::Held::of(&self.metrics)
    }

    /// The watch and the ports. Ends never.
    pub async fn run(&self) {
        let waker = Leases::new(self.client.clone(), &self.namespace);
        let sleepers = self.sleepers.subscribe();
        let relay = Relay::new(waker, sleepers, Limits::default(), self.metrics.clone());
        tokio::join!(
            self.watch(),
            serve(relay, self.sleepers.subscribe(), self.listen)
        );
    }

    async fn watch(&self) {
        let api: Api<DeserializeGuard<ConfigMap>> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let selected = Config::default().fields(&format!("metadata.name={SLEEPERS}"));
        let (sleepers, listed) = (self.sleepers.clone(), self.listed.clone());
        let named = Mutex::new(false);
        kit::watch::keep(api, selected, SLEEPERS, move |event| {
            let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                Event::Begin => *named = false,
                Event::Applied(map) => {
                    *named = true;
                    publish(&sleepers, &map);
                }
                Event::Unreadable(_) => *named = true,
                Event::Deleted(_) | Event::DeletedUnread(_) => {
                    publish(&sleepers, &ConfigMap::default());
                }
                Event::End => {
                    if !*named {
                        publish(&sleepers, &ConfigMap::default());
                    }
                    listed.send_replace(true);
                }
            }
        })
        .await;
    }
}

fn publish(sleepers: &watch::Sender<Sleepers>, map: &ConfigMap) {
    let (read, wrong) = sleepers::read(map.data.as_ref().unwrap_or(&BTreeMap::new()));
    for wrong in wrong {
        tracing::error!("entry of the ConfigMap {SLEEPERS} that is left out: {wrong}");
    }
    sleepers.send_if_modified(|before| {
        let changes = **before != read;
        *before = Arc::new(read);
        changes
    });
}

/// Opens and closes ports as the sleepers come and go. Ends with who tells of them.
pub async fn serve<W: Waker>(
    relay: Arc<Relay<W>>,
    mut sleepers: watch::Receiver<Sleepers>,
    listen: IpAddr,
) {
    let mut open: BTreeMap<u16, Open> = BTreeMap::new();
    loop {
        let wanted = Arc::clone(&sleepers.borrow_and_update());
        let uids = open
            .iter()
            .map(|(port, open)| (*port, open.uid.clone()))
            .collect();
        let changes = plan::ports(&uids, &wanted);
        for port in &changes.close {
            if let Some(closed) = open.remove(port) {
                closed.close().await;
            }
        }
        relay.forget(&wanted);
        let mut is_missing = false;
        for port in changes.open {
            let Some(waited) = wanted.get(&port) else {
                continue;
            };
            match relay::open(listen, port).await {
                Ok(listener) => {
                    let accept = Arc::clone(&relay).accept(listener, port, waited.uid.clone());
                    let (uid, task) = (waited.uid.clone(), tokio::spawn(accept));
                    open.insert(port, Open { uid, task });
                }
                Err(error) => {
                    tracing::error!(%error, port, uid = waited.uid, "cannot open the port of a sleeper; tried again");
                    is_missing = true;
                }
            }
        }
        let changed = sleepers.changed();
        let ended = match is_missing {
            true => matches!(tokio::time::timeout(AGAIN, changed).await, Ok(Err(_))),
            false => changed.await.is_err(),
        };
        if ended {
            return;
        }
    }
}

/// A port that is open; closed when this is dropped.
#[derive(Debug)]
struct Open {
    uid: String,
    task: JoinHandle<()>,
}

impl Open {
    /// Closes it, and waits until it is.
    async fn close(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}
