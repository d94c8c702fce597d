//! What a provider offers: one size of machine, and what one of it takes.
//!
//! Invariant: what is not known is left out, and is never 0: no price is not a price of nothing.

use std::collections::BTreeMap;

use api::Quantity;
use k8s_openapi::api::core::v1::Toleration;

/// One size of machine that can be had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offering {
    /// Processors, in cores.
    pub cpu: Quantity,
    /// Memory, in bytes.
    pub memory: Quantity,
    /// Price of an hour in the provider's currency; none where it has no price.
    pub price: Option<f64>,
    /// Zones that a machine may be made in; empty where there is no choice.
    pub zones: Vec<String>,
    /// What it takes of the management cluster; none where it runs elsewhere, or where that is not
    /// known. Whether there is so much is not the provider's to say: it sees one machine, not what
    /// others have taken.
    pub needs: Option<Needs>,
}

/// One size of a cloud, in one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// Its name.
    pub name: String,
    /// `amd64` or `arm64`.
    pub architecture: &'static str,
    /// Bytes of disk; none where that is asked for beside it.
    pub disk: Option<i64>,
    /// None is left at the moment.
    pub exhausted: bool,
    /// As everybody has it.
    pub offering: Offering,
}

/// What one machine takes of the management cluster: of a single node, and of the quotas of the tenant
/// namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Thousandths of a core that are reserved for it.
    pub cpu: i64,
    /// Bytes of memory that are reserved for it.
    pub memory: i64,
    /// Bytes of the node's own disk that are reserved for it.
    pub storage: i64,
    /// Labels that a node must have to run it.
    pub node_labels: BTreeMap<String, String>,
    /// Taints of a node that do not keep it away.
    pub tolerations: Vec<Toleration>,
    /// What quotas count one of for it, as they call it.
    pub objects: &'static [&'static str],
}
