//! Decides from the Services which of them gets or loses an address. Pure.
//!
//! Invariant: no address is given to two Services, one that a Service has stays with it, and an
//! address of somebody else's range is never touched.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::CLASS;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Write the address into the Service's status.
    Give {
        /// The Service as it was seen.
        service: Box<Service>,
        /// Free in the range.
        address: Ipv4Addr,
    },
    /// Remove our address from the status of a Service that is no load balancer (of ours) any more.
    Take {
        /// The Service as it was seen.
        service: Box<Service>,
    },
}

impl Action {
    /// A few words for the log.
    pub(super) fn summary(&self) -> String {
        let named = |service: &Service| {
            let namespace = service.namespace().unwrap_or_default();
            format!("{namespace}/{}", service.name_any())
        };
        match self {
            Self::Give { service, address } => format!("give {address} to {}", named(service)),
            Self::Take { service } => format!("take the address of {}", named(service)),
        }
    }
}

/// Compares what is with what should be. Of two Services with one address the older keeps it.
pub(super) fn plan<S: Borrow<Service>>(range: Ipv4Net, services: &[S]) -> Vec<Action> {
    let mut services: Vec<&Service> = services.iter().map(Borrow::borrow).collect();
    services.sort_by_key(|service| {
        let created = service.creation_timestamp().map(|time| time.0);
        (created, service.namespace(), service.name_any())
    });
    let mut holders: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
    let mut actions = Vec::new();
    let mut without = Vec::new();
    for (number, service) in services.iter().enumerate() {
        let had = given(service).filter(|address| range.contains(address));
        let foreign = has_ingress(service) && had.is_none();
        match (wants(service), had) {
            (false, Some(_)) => actions.push(Action::Take {
                service: Box::new((*service).clone()),
            }),
            (true, Some(address)) if !holders.contains_key(&address) => {
                holders.insert(address, number);
            }
            (true, _) if !foreign => without.push(*service),
            _ => {}
        }
    }
    let mut taken: BTreeSet<Ipv4Addr> = holders.into_keys().collect();
    for service in without {
        let free = asked_for(service)
            .filter(|address| range.contains(address) && !taken.contains(address))
            .or_else(|| range.hosts().find(|address| !taken.contains(address)));
        // A range that is used up: the next Service that goes calls for another plan.
        let Some(address) = free else { break };
        taken.insert(address);
        actions.push(Action::Give {
            service: Box::new(service.clone()),
            address,
        });
    }
    actions
}

fn wants(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let class = spec.and_then(|spec| spec.load_balancer_class.as_deref());
    let kind = spec.and_then(|spec| spec.type_.as_deref());
    kind == Some("LoadBalancer")
        && class.is_none_or(|class| class == CLASS)
        && service.metadata.deletion_timestamp.is_none()
}

fn has_ingress(service: &Service) -> bool {
    ingress(service).next().is_some()
}

fn given(service: &Service) -> Option<Ipv4Addr> {
    ingress(service).find_map(|ip| ip.parse().ok())
}

fn ingress(service: &Service) -> impl Iterator<Item = &str> {
    let status = service.status.as_ref();
    let ingress = status
        .and_then(|status| status.load_balancer.as_ref())
        .and_then(|balancer| balancer.ingress.as_ref());
    ingress
        .into_iter()
        .flatten()
        .map(|entry| entry.ip.as_deref().unwrap_or_default())
}

fn asked_for(service: &Service) -> Option<Ipv4Addr> {
    let spec = service.spec.as_ref()?;
    spec.load_balancer_ip.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
