//! Amounts of what quotas count: sums, bounds, and how they are written.
//!
//! Invariant: exact, in billionths, and never beyond all measure: what is too much stays too much.

use std::collections::BTreeMap;

use api::TenantQuota;
use api::tenant_cluster::Resources;
use api::tenant_quota::Used;

use crate::validate::quantity::{in_force, nanos};

/// Billionths of one.
pub(crate) const ONE: i128 = 1_000_000_000;
const SUFFIXES: [&str; 6] = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"];

/// What is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Resource {
    /// Tenant clusters.
    Clusters,
    /// Cores of control planes and machines.
    Cores,
    /// Bytes of memory.
    Memory,
    /// Bytes of etcd's volumes.
    Storage,
    /// Load balancers that publish APIs.
    LoadBalancers,
    /// Machines.
    Machines,
}

impl Resource {
    /// All of them, in the order of [`Amounts`].
    pub const ALL: [Self; 6] = [
        Self::Clusters,
        Self::Cores,
        Self::Memory,
        Self::Storage,
        Self::LoadBalancers,
        Self::Machines,
    ];

    /// Its field in the spec of a TenantQuota.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Cores => "cores",
            Self::Memory => "memory",
            Self::Storage => "storage",
            Self::LoadBalancers => "loadBalancers",
            Self::Machines => "machines",
        }
    }

    /// An amount with its name, for people. Example: `4 cores`, `64Gi of memory`.
    pub(crate) fn describe(self, amount: i128) -> String {
        let amount = self.write(amount);
        match self {
            Self::Clusters => format!("{amount} tenant clusters"),
            Self::Cores => format!("{amount} cores"),
            Self::Memory => format!("{amount} of memory"),
            Self::Storage => format!("{amount} of storage"),
            Self::LoadBalancers => format!("{amount} load balancers"),
            Self::Machines => format!("{amount} machines"),
        }
    }

    /// An amount as Kubernetes writes it. Example: `1500m`, `64Gi`, `3`.
    pub(crate) fn write(self, amount: i128) -> String {
        match self {
            Self::Cores => cores(amount),
            Self::Memory | Self::Storage => bytes(ceil(amount)),
            Self::Clusters | Self::LoadBalancers | Self::Machines => ceil(amount).to_string(),
        }
    }

    /// The most of it that a quota allows; none where it is not bounded.
    #[must_use]
    pub fn most(self, quota: &TenantQuota) -> Option<i128> {
        let spec = &quota.spec;
        let count = |count: Option<i64>| count.map(|count| i128::from(count) * ONE);
        // One that cannot be read, which the schema keeps out, allows nothing.
        let quantity =
            |text: &Option<api::Quantity>| text.as_ref().map(|t| nanos(&t.0).unwrap_or_default());
        match self {
            Self::Clusters => count(spec.clusters),
            Self::Cores => quantity(&spec.cores),
            Self::Memory => quantity(&spec.memory),
            Self::Storage => quantity(&spec.storage),
            Self::LoadBalancers => count(spec.load_balancers),
            Self::Machines => count(spec.machines),
        }
    }
}

/// An amount of each resource, in billionths.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amounts([i128; 6]);

impl Amounts {
    /// The larger amount of each resource.
    #[must_use]
    pub(crate) fn max(&self, other: &Self) -> Self {
        let mut both = self.0.iter().zip(&other.0);
        Self(std::array::from_fn(|_| {
            both.next().map_or(0, |(a, b)| *a.max(b))
        }))
    }

    /// The amount of one resource.
    #[must_use]
    pub fn get(&self, resource: Resource) -> i128 {
        self.0[resource as usize]
    }

    /// So much more of one resource.
    pub(crate) fn add(&mut self, resource: Resource, amount: i128) {
        let sum = &mut self.0[resource as usize];
        *sum = sum.saturating_add(amount);
    }

    /// So many of one resource.
    pub(crate) fn count(&mut self, resource: Resource, count: i128) {
        self.add(resource, count.saturating_mul(ONE));
    }

    /// All of it so many times.
    pub(crate) fn times(&self, count: i128) -> Self {
        Self(self.0.map(|amount| amount.saturating_mul(count)))
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        for resource in Resource::ALL {
            sum.add(resource, other.get(resource));
        }
        sum
    }

    /// The lesser of both, resource by resource.
    pub(crate) fn least(&self, other: &Self) -> Self {
        let mut least = *self;
        for resource in Resource::ALL {
            let amount = &mut least.0[resource as usize];
            *amount = other.get(resource).min(*amount);
        }
        least
    }

    /// As the status of a TenantQuota has it.
    #[must_use]
    pub fn used(&self) -> Used {
        let count = |resource| i64::try_from(ceil(self.get(resource))).unwrap_or(i64::MAX);
        let quantity = |resource: Resource| api::Quantity(resource.write(self.get(resource)));
        Used {
            clusters: count(Resource::Clusters),
            cores: quantity(Resource::Cores),
            memory: quantity(Resource::Memory),
            storage: quantity(Resource::Storage),
            load_balancers: count(Resource::LoadBalancers),
            machines: count(Resource::Machines),
        }
    }
}

fn ceil(amount: i128) -> i128 {
    amount / ONE + i128::from(amount % ONE > 0)
}

fn cores(amount: i128) -> String {
    let units = [("", ONE), ("m", 1_000_000), ("u", 1_000)];
    let exact = units.iter().find(|(_, unit)| amount % unit == 0);
    exact.map_or_else(
        || format!("{amount}n"),
        |(suffix, unit)| format!("{}{suffix}", amount / unit),
    )
}

/// With the largest suffix that says it exactly.
fn bytes(bytes: i128) -> String {
    let unit = |at: usize| 1_i128 << (10 * (SUFFIXES.len() - at));
    let exact = (0..SUFFIXES.len()).find(|at| bytes > 0 && bytes % unit(*at) == 0);
    exact.map_or_else(
        || bytes.to_string(),
        |at| format!("{}{}", bytes / unit(at), SUFFIXES[at]),
    )
}

/// What one container of ours takes, which no user gives resources to.
pub(crate) fn program(defaults: &BTreeMap<String, String>) -> Amounts {
    container(&Resources::default(), defaults)
}

/// What one container takes: of cores its request, of memory the limit that a user gave it, else its
/// request. Limits of the operator's settings are far above what is taken, so they do not count.
pub(crate) fn container(resources: &Resources, defaults: &BTreeMap<String, String>) -> Amounts {
    let (requests, limits) = in_force(resources, defaults);
    let amount = |amounts: &BTreeMap<String, String>, name: &str| {
        amounts.get(name).and_then(|amount| nanos(amount))
    };
    let mut taken = Amounts::default();
    taken.add(
        Resource::Cores,
        amount(&requests, "cpu").unwrap_or_default(),
    );
    let memory = amount(&limits, "memory").or_else(|| amount(&requests, "memory"));
    taken.add(Resource::Memory, memory.unwrap_or_default());
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_exactly_and_read_back_the_same() {
        for (resource, text) in [
            (Resource::Cores, "4"),
            (Resource::Cores, "1500m"),
            (Resource::Cores, "7u"),
            (Resource::Cores, "3n"),
            (Resource::Cores, "0"),
            (Resource::Memory, "64Gi"),
            (Resource::Memory, "1500Mi"),
            (Resource::Memory, "1000"),
            (Resource::Memory, "0"),
            (Resource::Storage, "2Ti"),
        ] {
            assert_eq!(resource.write(nanos(text).unwrap()), text);
        }
        assert_eq!(Resource::Machines.write(3 * ONE), "3");
        assert_eq!(Resource::Memory.write(1), "1", "rounded up");
    }

    #[test]
    fn too_much_stays_too_much() {
        let mut much = Amounts::default();
        much.add(Resource::Memory, i128::MAX);
        let more = much.plus(&much).times(1000);
        assert_eq!(more.get(Resource::Memory), i128::MAX);
        assert_eq!(more.get(Resource::Cores), 0);
    }
}
