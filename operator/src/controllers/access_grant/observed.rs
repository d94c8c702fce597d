//! What was seen of an AccessGrant's world.
//!
//! Invariant: nothing in here is secret, and what could not be looked at is neither there nor absent.

use std::sync::Arc;

use api::TenantCluster;
use jiff::Timestamp;
use kit_objects::known::Known;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The TenantCluster of the name in its namespace.
    pub cluster: Known<Arc<TenantCluster>>,
    /// The authority of people that signs; none where its Secret is not there.
    pub authority: Option<Authority>,
    /// Whom users are to believe that the API is the tenant cluster's, PEM; none where that is not known.
    pub believed: Option<String>,
    /// What is inside the tenant cluster.
    pub inside: Inside,
    /// Where its API is, as kubeconfigs have it; none where that is not known.
    pub server: Option<String>,
    /// The Secret that is asked for.
    pub secret: Held,
    /// Other grants of the tenant cluster that are in force.
    pub others: usize,
}

/// The Secret that a grant asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Held {
    /// None is asked for, or nobody lets us look.
    #[default]
    Unknown,
    /// There is none of the name.
    Absent,
    /// There is one that is not the grant's, of which this is said.
    Foreign(String),
    /// It is the grant's, with a kubeconfig in it, or with nothing that could be one.
    Own(Option<Kubeconfig>),
}

/// What stands in a Secret of a grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kubeconfig {
    /// The certificate, PEM.
    pub certificate: String,
    /// When that ends.
    pub until: Timestamp,
    /// Whether it is the grant's, by the authority that signs, and has a third of its life left.
    pub is_good: bool,
    /// Whether it has the address and the authority that are the tenant cluster's.
    pub is_current: bool,
}

/// The authority of people.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Authority {
    /// Its generation.
    pub generation: u32,
    /// When it ends.
    pub end: Timestamp,
}

/// What is inside the tenant cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Inside {
    /// It was not asked, or did not answer.
    Unknown {
        /// Whether it is worth asking again in a moment: it neither sleeps nor goes.
        soon: bool,
    },
    /// It answered: the grant's binding, where there is one.
    Answers(Option<Binding>),
}

impl Default for Inside {
    fn default() -> Self {
        Self::Unknown { soon: false }
    }
}

/// The binding of a grant inside its tenant cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Binding {
    /// Its UID.
    pub uid: String,
    /// The ClusterRole that it gives; none where it gives it to anybody but the grant's group.
    pub role: Option<String>,
}
