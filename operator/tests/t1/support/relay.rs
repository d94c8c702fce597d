//! Connections between an operator and some of its tenants, counted by nobody who is tested.
//!
//! Invariant: each connection of the operator is counted from when it is accepted until the operator
//! closes it; what is relayed is not looked into.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use operator::tenant_session::session::Dial;
use tenant_cp::names;
use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{PATIENCE, Site};

/// Open connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Open {
    pub(crate) now: usize,
    /// At once, so far.
    pub(crate) most: usize,
}

/// What stands before the tenant clusters whose names begin with a prefix.
pub(crate) struct Relay {
    dial: Dial,
    open: watch::Sender<Open>,
    _tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Relay {
    /// One that hands everything on, or, `silent`, accepts and never says a word, as a host does that is
    /// cut off half.
    pub(crate) fn start(site: &Site, prefix: &str, silent: bool) -> Self {
        let (straight, prefix) = (site.dial(), format!("covey-{prefix}-"));
        let open = watch::Sender::new(Open::default());
        let tasks = Arc::new(Mutex::new(JoinSet::new()));
        let known = Mutex::new(HashMap::<String, SocketAddr>::new());
        let (counted, spawned) = (open.clone(), Arc::clone(&tasks));
        let dial: Dial = Arc::new(move |namespace: &str, address: SocketAddr| {
            let is_etcd = i32::from(address.port()) == names::ETCD_HTTP_PORT;
            if is_etcd || !namespace.starts_with(&prefix) {
                return straight(namespace, address);
            }
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(relay) = known.get(namespace) {
                return *relay;
            }
            let listener = listener().expect("a port of the loopback");
            let relay = listener.local_addr().expect("it listens");
            known.insert(namespace.to_owned(), relay);
            let (straight, namespace) = (Arc::clone(&straight), namespace.to_owned());
            let target = move || (!silent).then(|| straight(&namespace, address));
            let mut tasks = spawned.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.spawn(accept(listener, counted.clone(), target));
            relay
        });
        Self {
            dial,
            open,
            _tasks: tasks,
        }
    }

    /// The way through it.
    pub(crate) fn dial(&self) -> Dial {
        Arc::clone(&self.dial)
    }

    pub(crate) fn open(&self) -> Open {
        *self.open.borrow()
    }

    /// Waits until so many are open at once.
    pub(crate) async fn wait_open(&self, wanted: usize) -> Result<()> {
        let mut open = self.open.subscribe();
        let found = open.wait_for(|open| open.now >= wanted);
        let found = tokio::time::timeout(PATIENCE, found).await;
        let said = || format!("{wanted} are never open at once: {:?}", self.open());
        found.with_context(said)?.map(drop).context("it ended")
    }
}

fn listener() -> Result<TcpListener> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

/// Counts until it is dropped.
struct Counted(watch::Sender<Open>);

impl Counted {
    fn new(open: watch::Sender<Open>) -> Self {
        open.send_modify(|open| {
            open.now += 1;
            open.most = open.most.max(open.now);
        });
        Self(open)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|open| open.now -= 1);
    }
}

async fn accept(
    listener: TcpListener,
    open: watch::Sender<Open>,
    target: impl Fn() -> Option<SocketAddr>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let counted = Counted::new(open.clone());
        connections.spawn(relay(stream, target(), counted));
        while connections.try_join_next().is_some() {}
    }
}

async fn relay(mut stream: TcpStream, target: Option<SocketAddr>, _counted: Counted) {
    match target {
        Some(target) => {
            if let Ok(mut other) = TcpStream::connect(target).await {
                // An end that goes away is no error of ours.
                let _ = copy_bidirectional(&mut stream, &mut other).await;
            }
        }
        None => while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {},
    }
}
