//! What a tenant sees of a cloud controller manager, as lines that can be compared.
//!
//! Invariant: everything about nodes and Services that a cloud controller manager may write is in
//! the lines, and nothing that differs from one API server to another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::{Event, EventSource, Node, Service};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

/// Effects at one time.
pub(super) type Effects = BTreeSet<String>;

/// Beginning of the names of what only finds out whether all is done.
pub(super) const CANARY: &str = "canary";

/// A Service that nobody made.
const OF_THE_API_SERVER: &str = "kubernetes";

/// What there is now. `versions` gets UIDs and resource versions by `<Kind> <name>`.
pub(super) async fn read(
    client: &Client,
    versions: &mut BTreeMap<String, (String, String)>,
) -> Result<Effects> {
    let params = Default::default();
    let mut lines = Effects::new();
    let mut see = |kind: &str, object: &kube::api::ObjectMeta| {
        let name = object.name.clone().unwrap_or_default();
        let version = (
            object.uid.clone().unwrap_or_default(),
            object.resource_version.clone().unwrap_or_default(),
        );
        versions.insert(format!("{kind} {name}"), version);
    };
    for node in Api::<Node>::all(client.clone()).list(&params).await? {
        see("Node", &node.metadata);
        of_node(&node, &mut lines);
    }
    let services = Api::<Service>::namespaced(client.clone(), "default");
    for service in services.list(&params).await? {
        if service.name_any() != OF_THE_API_SERVER {
            see("Service", &service.metadata);
        }
        of_service(&service, &mut lines);
    }
    for event in Api::<Event>::all(client.clone()).list(&params).await? {
        of_event(&event, &mut lines);
    }
    Ok(lines)
}

/// The same of a tenant's API, kept up to date by one watch of each kind.
pub(super) struct View {
    nodes: Store<Node>,
    services: Store<Service>,
    events: Store<Event>,
    changes: BoxStream<'static, ()>,
}

fn follow<K>(api: Api<K>) -> (Store<K>, BoxStream<'static, ()>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    (
        store,
        reflector::reflector(writer, events).map(drop).boxed(),
    )
}

impl View {
    pub(super) fn new(client: &Client) -> Self {
        let (nodes, of_nodes) = follow(Api::all(client.clone()));
        let (services, of_services) = follow(Api::namespaced(client.clone(), "default"));
        let (events, of_events) = follow(Api::all(client.clone()));
        Self {
            nodes,
            services,
            events,
            changes: stream::select_all([of_nodes, of_services, of_events]).boxed(),
        }
    }

    /// What it has heard of so far.
    fn effects(&self) -> Effects {
        let mut lines = Effects::new();
        for node in self.nodes.state() {
            of_node(&node, &mut lines);
        }
        for service in self.services.state() {
            of_service(&service, &mut lines);
        }
        for event in self.events.state() {
            of_event(&event, &mut lines);
        }
        lines
    }

    /// Waits until it has heard of effects as they are wanted. They may have changed since: that is for
    /// the caller to know, or to ask for.
    pub(super) async fn wait(
        &mut self,
        patience: Duration,
        mut wanted: impl FnMut(&Effects) -> bool,
    ) -> Result<()> {
        let mut last = self.effects();
        let wait = async {
            while !wanted(&last) {
                let change = self.changes.next().await;
                change.context("the watches ended")?;
                last = self.effects();
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(patience, wait).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!(
                "not as wanted after {patience:?}; there is\n  {}",
                last.into_iter().collect::<Vec<_>>().join("\n  ")
            )),
        }
        .context("wait for effects in the tenant cluster")
    }

    /// Waits until it has heard of another change.
    pub(super) async fn change(&mut self, patience: Duration) -> Result<()> {
        let change = tokio::time::timeout(patience, self.changes.next()).await;
        let change = change.context("nothing changes any more in the tenant cluster")?;
        change.context("the watches ended")
    }
}

fn of_event(event: &Event, lines: &mut Effects) {
    if is_of_the_api_server(event) {
        return;
    }
    let about = &event.involved_object;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    lines.insert(format!(
        "Event {} {} {} {}",
        text(&about.kind),
        text(&about.name),
        text(&event.type_),
        text(&event.reason)
    ));
}

/// Whether the API server's own repair of addresses and ports wrote an Event: it looks at all
/// Services when it starts and every three minutes, and what it finds depends on when a Service was
/// made (`pkg/registry/core/service/ipallocator/controller/repairip.go`).
fn is_of_the_api_server(event: &Event) -> bool {
    let deprecated = event.source.as_ref().and_then(|s| s.component.as_deref());
    let by = event.reporting_component.as_deref().or(deprecated);
    by.is_some_and(|by| by.ends_with("allocator-repair-controller"))
}

fn of_node(node: &Node, lines: &mut Effects) {
    let name = node.name_any();
    lines.insert(format!("Node {name}"));
    let mut add = |text: String| lines.insert(format!("Node {name} {text}"));
    for (key, value) in node.labels() {
        add(format!("label {key}={value}"));
    }
    for (key, value) in node.annotations() {
        add(format!("annotation {key}={value}"));
    }
    let spec = node.spec.clone().unwrap_or_default();
    if let Some(id) = spec.provider_id.filter(|id| !id.is_empty()) {
        add(format!("providerID {id}"));
    }
    for taint in spec.taints.into_iter().flatten() {
        let value = taint.value.map(|v| format!("={v}")).unwrap_or_default();
        add(format!("taint {}{value}:{}", taint.key, taint.effect));
    }
    let addresses = node.status.as_ref().and_then(|s| s.addresses.as_ref());
    for (index, address) in addresses.into_iter().flatten().enumerate() {
        add(format!(
            "address {} {} {}",
            index + 1,
            address.type_,
            address.address
        ));
    }
}

fn of_service(service: &Service, lines: &mut Effects) {
    let name = service.name_any();
    if name == OF_THE_API_SERVER {
        return;
    }
    lines.insert(format!("Service {name}"));
    let mut add = |text: String| lines.insert(format!("Service {name} {text}"));
    for finalizer in service.finalizers() {
        add(format!("finalizer {finalizer}"));
    }
    for (key, value) in service.labels() {
        add(format!("label {key}={value}"));
    }
    for (key, value) in service.annotations() {
        add(format!("annotation {key}={value}"));
    }
    let status = service.status.clone().unwrap_or_default();
    for condition in status.conditions.into_iter().flatten() {
        add(format!(
            "condition {}={}",
            condition.type_, condition.status
        ));
    }
    let ingress = status.load_balancer.and_then(|b| b.ingress);
    for (index, ingress) in ingress.into_iter().flatten().enumerate() {
        let mut text = ingress.ip.or(ingress.hostname).unwrap_or_default();
        if let Some(mode) = ingress.ip_mode {
            text += &format!(" {mode}");
        }
        for port in ingress.ports.into_iter().flatten() {
            text += &format!(" {}/{}", port.port, port.protocol);
        }
        add(format!("ingress {} {text}", index + 1));
    }
}

/// Without those of canaries.
pub(super) fn of_interest(effects: Effects) -> Effects {
    let own = |line: &String| !line.split(' ').any(|word| word.starts_with(CANARY));
    effects.into_iter().filter(own).collect()
}

#[test]
fn events_of_the_api_servers_repair_are_nobodys_effect() {
    let by = |reporter: Option<&str>, source: Option<&str>| Event {
        reporting_component: reporter.map(str::to_owned),
        source: source.map(|component| EventSource {
            component: Some(component.to_owned()),
            ..EventSource::default()
        }),
        ..Event::default()
    };
    let repair = Some("ipallocator-repair-controller");
    assert!(is_of_the_api_server(&by(repair, None)));
    assert!(is_of_the_api_server(&by(None, repair)));
    assert!(!is_of_the_api_server(&by(Some("covey.dev/ccm"), None)));
    let stock = Some("service-controller");
    assert!(!is_of_the_api_server(&by(stock, stock)));
}
