//! Both clusters, as far as one Service is concerned, carrying plans out as their APIs would.
//!
//! Invariant: an API refuses here what a real one refuses (`ccm/tests/t1/played.rs` asks it): a patch at
//! another resource version or UID, a slice of mixed families, another class, families that it does not
//! have or that cannot go ([`families`]); it fills in defaults, and a webhook that changes what is written
//! always wins. Slices of more endpoints than the program puts in one, or of one address twice, are bugs.
//! Long because every action of a plan is carried out in one place.

pub(super) mod families;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::UID;
use crate::cache::endpoint_slices::{LocalEndpoints, Slice};
use crate::cache::objects::Target;
use crate::cache::services::{Accepted, DesiredLoadBalancer, desired_load_balancer};
use crate::controllers::service::plan::types::{Action, Observed, Plan};
use crate::controllers::service::plan::{endpoint_slices, mirror, plan};
use crate::limits::Over;
use crate::names;
use crate::settings::Settings;

/// No limit.
pub(super) const ALL: usize = usize::MAX;

#[derive(Clone, Debug)]
pub(super) struct Clusters {
    pub(super) settings: Settings,
    pub(super) service: Option<Service>,
    pub(super) mirrors: BTreeMap<String, Service>,
    pub(super) slices: BTreeMap<String, EndpointSlice>,
    pub(super) targets: Vec<Target>,
    /// Nodes on machines elsewhere.
    pub(super) unmapped_nodes: usize,
    pub(super) local: BTreeMap<Arc<str>, LocalEndpoints>,
    /// A finalizer of the management cluster holds mirrors.
    pub(super) held: bool,
    /// Families of which the management cluster has cluster IPs, its first one first.
    pub(super) stacks: Vec<&'static str>,
    /// A quota or a policy refuses every mirror that is made or changed.
    pub(super) refuses: bool,
    /// What a webhook makes of every mirror: a merge patch.
    pub(super) mutation: Value,
    /// What the last reconcile ended with.
    pub(super) errors: Vec<String>,
    accepted: Option<Accepted>,
    pub(super) log: Vec<&'static str>,
    pub(super) published: Vec<&'static str>,
    pub(super) complaints: Vec<&'static str>,
    pub(super) waiting: Option<&'static str>,
    /// The limit that the Service is over.
    pub(super) over: Option<Over>,
    /// Whether a plan took an endpoint out that was ready.
    pub(super) took_out: bool,
    /// Input in the opposite order.
    pub(super) reversed: bool,
    version: u64,
}

pub(super) fn settings() -> Settings {
    Settings {
        namespace: "covey-demo".to_owned(),
        cluster_uid: "cluster".to_owned(),
        ..Settings::default()
    }
}

/// A Service of type LoadBalancer with one port, changed by `spec`.
pub(super) fn service(spec: &Value) -> Service {
    let mut object = json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": UID, "resourceVersion": "1",
        },
        "spec": {
            "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{ "port": 80, "protocol": "TCP", "nodePort": 30080 }],
        },
    });
    merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

pub(super) fn target(number: u16) -> Target {
    let [high, low] = number.to_be_bytes();
    Target {
        node: format!("node-{number}").as_str().into(),
        machine: format!("node-{number}").as_str().into(),
        ready: true,
        serving: true,
        terminating: false,
        addresses: vec![
            IpAddr::from([10, 0, high, low]),
            format!("2001:db8::{number:x}").parse().unwrap(),
        ],
        management_node: Some(format!("host-{number}").as_str().into()),
        zone: None,
    }
}

/// RFC 7386.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(into.as_object_mut().unwrap().remove(key)),
            value => merge(&mut into[key.as_str()], value),
        }
    }
}

impl Clusters {
    pub(super) fn new(service: Service) -> Self {
        Self {
            settings: settings(),
            service: Some(service),
            mirrors: BTreeMap::new(),
            slices: BTreeMap::new(),
            targets: Vec::new(),
            unmapped_nodes: 0,
            local: BTreeMap::new(),
            held: false,
            stacks: vec!["IPv4", "IPv6"],
            refuses: false,
            mutation: Value::Null,
            errors: Vec::new(),
            accepted: None,
            log: Vec::new(),
            published: Vec::new(),
            complaints: Vec::new(),
            waiting: None,
            over: None,
            took_out: false,
            reversed: false,
            version: 1,
        }
    }

    pub(super) fn mirror(&self) -> &Service {
        self.mirrors.values().next().expect("there is a mirror")
    }

    /// The mirror that a Service goes on with, while it wants one.
    pub(super) fn chosen(&self) -> Option<Service> {
        let observed = self.observe();
        let service = observed.service.as_ref()?;
        let mirror = mirror::choose(&observed, &self.settings)?;
        let is_ours = desired_load_balancer(service, &self.settings) == DesiredLoadBalancer::Ours;
        let stays = mirror.metadata.deletion_timestamp.is_none();
        (is_ours && stays).then(|| mirror.clone())
    }

    /// The process ends, and another one begins with nothing in memory.
    pub(super) fn restart(&mut self) {
        self.accepted = None;
    }

    pub(super) fn mirror_mut(&mut self) -> &mut Service {
        self.mirrors.values_mut().next().expect("there is a mirror")
    }

    /// The load balancer of the management cluster gives an address.
    pub(super) fn allocate(&mut self, ip: &str) {
        let status = json!({ "loadBalancer": { "ingress": [{ "ip": ip, "ipMode": "VIP" }] } });
        self.mirror_mut().status = serde_json::from_value(status).unwrap();
    }

    /// Addresses in the tenant's status.
    pub(super) fn addresses(&self) -> Vec<String> {
        let service = serde_json::to_value(self.service.as_ref()).unwrap();
        let ingress = service["status"]["loadBalancer"]["ingress"]
            .as_array()
            .cloned();
        let ip = |i: Value| i["ip"].as_str().map(str::to_owned);
        ingress.into_iter().flatten().filter_map(ip).collect()
    }

    /// A user changes the Service.
    pub(super) fn change(&mut self, patch: &Value) {
        let mut object = serde_json::to_value(self.service.take()).unwrap();
        merge(&mut object, patch);
        self.service = serde_json::from_value(object).unwrap();
        self.bump();
    }

    fn bump(&mut self) {
        self.version += 1;
        if let Some(service) = &mut self.service {
            service.metadata.resource_version = Some(self.version.to_string());
        }
    }

    pub(super) fn delete_service(&mut self) {
        let held = |s: &Service| !s.metadata.finalizers.clone().unwrap_or_default().is_empty();
        match &mut self.service {
            Some(service) if held(service) => {
                service.metadata.deletion_timestamp = Some(Time(Default::default()));
                self.bump();
            }
            service => *service = None,
        }
    }

    pub(super) fn foreign_mirror(&mut self, name: &str, spec: &Value) {
        let mut object = json!({
            "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
                "labels": { names::LEGACY_SERVICE: "web", names::LEGACY_NAMESPACE: "default" } },
            "spec": { "type": "LoadBalancer" },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.99", "ipMode": "VIP" }] } },
        });
        merge(&mut object["spec"], spec);
        let mirror = serde_json::from_value(object).unwrap();
        self.mirrors.insert(name.to_owned(), mirror);
    }

    pub(super) fn slice_of_selector(&mut self, mirror: &str) {
        let name = format!("{mirror}-abcde");
        let object = json!({
            "metadata": { "name": name, "uid": "s", "labels": {
                names::LABEL_SLICE_OF: mirror,
                names::LABEL_SLICES_MANAGED_BY: names::SLICES_OF_SELECTOR,
            } },
            "addressType": "IPv4", "endpoints": [],
        });
        self.slices
            .insert(name, serde_json::from_value(object).unwrap());
    }

    pub(super) fn observe(&self) -> Observed {
        let mut observed = Observed {
            uid: UID.to_owned(),
            service: self.service.clone().map(Arc::new),
            mirrors: self.mirrors.values().cloned().map(Arc::new).collect(),
            slices: self.slices.values().map(Slice::from).collect(),
            certain: false,
            targets: Arc::default(),
            unmapped_nodes: self.unmapped_nodes,
            local: self.local.clone(),
            accepted: self.accepted.clone(),
            over: self.over,
            refused: Vec::new(),
        };
        let mut targets = one_per_machine(self.targets.clone());
        if self.reversed {
            observed.mirrors.reverse();
            observed.slices.reverse();
            targets.reverse();
        }
        observed.targets = Arc::new(targets);
        observed
    }

    /// One reconcile, as `service::reconcile`; dies after `budget` writes. Gives the writes.
    pub(super) fn reconcile(&mut self, budget: usize) -> usize {
        let mut writes = 0;
        let mut certain = false;
        let mut refused = Vec::new();
        self.errors.clear();
        for _ in 0..12 {
            let mut observed = self.observe();
            observed.certain = certain && observed.mirrors.is_empty();
            observed.refused = refused;
            let Plan {
                actions,
                events,
                complaints,
                waiting_on,
                takes_out,
            } = plan(&observed, &self.settings);
            self.took_out |= takes_out;
            if actions.is_empty() {
                self.published.extend(events.iter().map(|e| e.reason));
                self.complaints = complaints.iter().map(|c| c.reason).collect();
                self.waiting = waiting_on.map(|reason| reason.as_str());
                return writes;
            }
            for action in &actions {
                if observed.leaves_out(action) {
                    continue;
                }
                if *action == Action::MakeSure {
                    certain = true;
                    continue;
                }
                if writes == budget {
                    return writes;
                }
                match self.write(action) {
                    Ok(again) => {
                        writes += 1;
                        if again {
                            break;
                        }
                    }
                    Err(error) => {
                        self.errors.push(error);
                        if observed.refuse(action) {
                            break;
                        }
                    }
                }
            }
            if actions.iter().all(|action| !observed.leaves_out(action)) {
                self.published.extend(events.iter().map(|e| e.reason));
            }
            refused = observed.refused;
        }
        panic!("the plan does not come to an end: {self:#?}");
    }

    /// The urgent turn of a Service, as `service::take_out`; dies after `budget` writes.
    pub(super) fn take_out(&mut self, budget: usize) {
        let observed = self.observe();
        let plan = plan(&observed, &self.settings);
        let slices = plan.actions.iter().filter(|action| action.is_of_slices());
        for action in slices.filter(|_| plan.takes_out).take(budget) {
            let _ = self.write(action);
        }
    }

    /// True when the rest of a plan is to be made anew.
    fn write(&mut self, action: &Action) -> Result<bool, String> {
        let again = match action {
            Action::MakeSure => unreachable!("it is no write"),
            Action::PatchService(patch) => {
                self.log.push("PatchService");
                let service = self.service.as_ref().expect("there is a Service");
                let version = service.metadata.resource_version.as_deref();
                assert_eq!(patch["metadata"]["resourceVersion"].as_str(), version);
                let off = patch["metadata"]["finalizers"] == json!([]);
                assert!(
                    !off || (self.mirrors.is_empty() && self.our_slices() == 0),
                    "let go too early"
                );
                let mut patch = patch.clone();
                patch["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("resourceVersion");
                self.change(&patch);
                let service = self.service.as_ref().unwrap();
                if off && service.metadata.deletion_timestamp.is_some() {
                    self.service = None;
                }
                true
            }
            Action::PatchStatus(patch) => {
                self.log.push("PatchStatus");
                assert_eq!(patch["metadata"]["uid"], UID);
                self.change(patch);
                false
            }
            Action::ApplyMirror(object) => {
                self.log.push("ApplyMirror");
                self.apply_mirror(object)?;
                true
            }
            Action::PatchMirror { name, patch } => {
                self.log.push("PatchMirror");
                let mirror = self.mirrors.get_mut(name).expect("there is such a mirror");
                let version = mirror.metadata.resource_version.as_deref();
                assert_eq!(patch["metadata"]["resourceVersion"].as_str(), version);
                let mut merged = serde_json::to_value(&*mirror).unwrap();
                for part in ["metadata", "spec"] {
                    if let Some(patch) = patch.get(part) {
                        merge(&mut merged[part], patch);
                    }
                }
                *mirror = serde_json::from_value(merged).unwrap();
                true
            }
            Action::DeleteMirror { name, uid } => {
                self.log.push("DeleteMirror");
                let mirror = self.mirrors.get_mut(name).expect("there is such a mirror");
                assert_eq!(mirror.metadata.uid.as_ref(), Some(uid));
                if self.held {
                    mirror.metadata.deletion_timestamp = Some(Time(Default::default()));
                } else {
                    self.mirrors.remove(name);
                }
                true
            }
            Action::ApplySlice(object) => {
                self.log.push("ApplySlice");
                self.apply_slice(object);
                false
            }
            Action::DeleteSlice { name, uid } => {
                self.log.push("DeleteSlice");
                let slice = self.slices.remove(name).expect("there is such a slice");
                assert_eq!(slice.metadata.uid.as_ref(), Some(uid));
                false
            }
        };
        Ok(again)
    }

    fn our_slices(&self) -> usize {
        self.slices
            .values()
            .filter(|slice| Slice::from(*slice).ours)
            .count()
    }

    /// What server-side apply does to a Service that only we apply to.
    fn apply_mirror(&mut self, asked: &Value) -> Result<(), String> {
        if self.refuses {
            return Err("exceeded quota".to_owned());
        }
        let name = asked["metadata"]["name"].as_str().unwrap().to_owned();
        let live = self.mirrors.get(&name);
        let mut object = asked.clone();
        if !self.mutation.is_null() {
            merge(&mut object, &self.mutation);
        }
        for (field, value) in families::DEFAULTS {
            if object["spec"][field].is_null() {
                object["spec"][field] = value.into();
            }
        }
        let old = live.and_then(|live| live.spec.as_ref());
        if name == names::legacy_mirror(UID) {
            // The KubeVirt CCM has a share in its ports: what is left of one has no name.
            let has = old.and_then(|spec| spec.ports.as_deref());
            let has = has.unwrap_or_default().iter();
            let asked = asked["spec"]["ports"].as_array().unwrap();
            let is_left = |port: i32| asked.iter().all(|asked| asked["port"] != json!(port));
            if has.map(|port| port.port).any(is_left) {
                return Err("spec.ports[0].name: Required value".to_owned());
            }
        }
        families::admit(&mut object["spec"], old, &self.stacks)?;
        self.version += 1;
        let uid = live.and_then(|m| m.metadata.uid.clone());
        object["metadata"]["uid"] = uid.unwrap_or_else(|| format!("uid-{name}")).into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        for port in object["spec"]["ports"].as_array_mut().unwrap() {
            port["nodePort"] = json!(32000);
        }
        let mut applied: Service = serde_json::from_value(object).unwrap();
        if let Some(live) = live {
            applied.status = live.status.clone();
            applied.metadata.deletion_timestamp = live.metadata.deletion_timestamp.clone();
            let (spec, of_live) = (applied.spec.as_mut().unwrap(), live.spec.as_ref().unwrap());
            assert_eq!(
                spec.load_balancer_class, of_live.load_balancer_class,
                "immutable"
            );
            if spec.selector.is_none() {
                // Somebody else's field stays.
                spec.selector = of_live.selector.clone();
            }
        }
        self.accepted = mirror::accepted(asked, &applied);
        self.mirrors.insert(name, applied);
        Ok(())
    }

    fn apply_slice(&mut self, object: &Value) {
        self.version += 1;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut slice: EndpointSlice = serde_json::from_value(object.clone()).unwrap();
        let live = self.slices.get(&name);
        let family = live.map_or(&slice.address_type, |live| &live.address_type);
        assert_eq!(slice.address_type, *family, "immutable");
        assert!(
            slice.endpoints.len() <= endpoint_slices::MOST,
            "more than the most"
        );
        let mut seen = BTreeSet::new();
        for endpoint in &slice.endpoints {
            for address in &endpoint.addresses {
                let ip: IpAddr = address.parse().unwrap();
                assert_eq!(
                    ip.is_ipv4(),
                    slice.address_type == "IPv4",
                    "families are mixed"
                );
                assert!(seen.insert(ip), "twice in one slice");
            }
        }
        let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
        let mut mirrors = self.mirrors.values();
        assert!(
            mirrors.any(|m| m.metadata.uid.as_ref() == Some(&owner.uid)),
            "no such owner"
        );
        slice.metadata.uid = Some(format!("uid-{name}"));
        slice.metadata.resource_version = Some(self.version.to_string());
        self.slices.insert(name, slice);
    }
}

/// One target for each machine, by machine, as the cache gives them.
fn one_per_machine(mut targets: Vec<Target>) -> Vec<Target> {
    targets.sort_by(|a, b| {
        let rank = |t: &Target| t.node != t.machine;
        (&a.machine, rank(a), &a.node).cmp(&(&b.machine, rank(b), &b.node))
    });
    targets.dedup_by(|later, first| later.machine == first.machine);
    targets
}
