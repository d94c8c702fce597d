//! What the cache is told (events of watches, answers to writes) and what it says in return: what
//! changed by it.
//!
//! Invariant: an event names one object; which others it concerns is for the triggers to say.

use std::sync::Arc;

use api::MachineAddresses;
use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::core::v1::{Node as ApiNode, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cache::endpoint_slices::Slice;
use crate::cache::objects::Node;
use crate::cache::services::Place;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Services of the tenant cluster.
    Service,
    /// EndpointSlices of the tenant cluster.
    Local,
    /// Nodes of the tenant cluster.
    Node,
    /// Virtual machines of the tenant namespace.
    Vm,
    /// Their instances.
    Instance,
    /// Their addresses, as the operator publishes them.
    Addresses,
    /// Services of the tenant namespace.
    Mirror,
    /// EndpointSlices of the tenant namespace.
    Slice,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Service,
        Self::Local,
        Self::Node,
        Self::Vm,
        Self::Instance,
        Self::Addresses,
        Self::Mirror,
        Self::Slice,
    ];

    /// What an object of this kind is remembered by.
    #[must_use]
    pub fn key(self, meta: &ObjectMeta) -> String {
        let name = meta.name.clone().unwrap_or_default();
        match self {
            Self::Service | Self::Mirror => meta.uid.clone().unwrap_or_default(),
            Self::Local => format!("{}/{name}", meta.namespace.as_deref().unwrap_or_default()),
            Self::Node | Self::Vm | Self::Instance | Self::Addresses | Self::Slice => name,
        }
    }
}

/// An object as a watch tells it.
pub enum WatchEvent {
    /// Of the tenant cluster.
    Service(Service),
    /// Of the tenant cluster.
    Local(EndpointSlice),
    /// Of the tenant cluster.
    Node(Box<ApiNode>),
    /// Of the tenant namespace.
    Vm(Box<VirtualMachine>),
    /// Of the tenant namespace.
    Instance(VirtualMachineInstance),
    /// Of the tenant namespace.
    Addresses(MachineAddresses),
    /// Of the tenant namespace.
    Mirror(Service),
    /// Of the tenant namespace.
    Slice(EndpointSlice),
}

impl WatchEvent {
    /// Whose watch told it.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Service(_) => Kind::Service,
            Self::Local(_) => Kind::Local,
            Self::Node(_) => Kind::Node,
            Self::Vm(_) => Kind::Vm,
            Self::Instance(_) => Kind::Instance,
            Self::Addresses(_) => Kind::Addresses,
            Self::Mirror(_) => Kind::Mirror,
            Self::Slice(_) => Kind::Slice,
        }
    }

    /// Its metadata.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Service(o) | Self::Mirror(o) => &o.metadata,
            Self::Local(o) | Self::Slice(o) => &o.metadata,
            Self::Node(o) => &o.metadata,
            Self::Vm(o) => &o.metadata,
            Self::Instance(o) => &o.metadata,
            Self::Addresses(o) => &o.metadata,
        }
    }

    /// What it is remembered by.
    #[must_use]
    pub fn key(&self) -> String {
        self.kind().key(self.meta())
    }
}

/// An API's answer to a write of ours.
pub enum Write {
    /// A Service of the tenant cluster, as it is now.
    Service(Arc<Service>),
    /// A node, as it is now.
    Node(Box<Node>),
    /// A mirror, as it is now.
    Mirror(Arc<Service>),
    /// The mirror with this UID is gone for certain.
    MirrorGone(String),
    /// An EndpointSlice of the tenant namespace, as it is now.
    Slice(Slice),
    /// The EndpointSlice of the tenant namespace with this name is gone for certain.
    SliceGone(String),
}

/// What is otherwise than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The tenant's Service with this UID, which may be gone.
    Service(String),
    /// A mirror, or an EndpointSlice of one, of the tenant's Service with this UID.
    Mirror(String),
    /// A mirror that does not say any more whose it is: that of the tenant's Service with this UID.
    Disowned(String),
    /// On which nodes that Service of the tenant cluster has endpoints.
    LocalEndpoints(Place),
    /// The node of this name, which may be gone.
    Node(String),
    /// The virtual machine of this name, or its instance.
    Machine(String),
    /// Which machines take traffic, as nodes and those who watch them say.
    Targets,
    /// A machine takes none any more for certain: it does not run, or has another address.
    Lost,
    /// There may be a place for a Service that is over a limit.
    Room,
}
