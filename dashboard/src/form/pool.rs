//! The form of another node pool of a tenant cluster, and that of its number of machines.
//!
//! Invariant: pure. Only what was filled in is written; everything else is the definition's default.

use serde_json::{Value, json};

use super::{Field, Filled, Input, Of, object};

/// The name of the new pool.
pub const NAME: &str = "name";

/// The field in which a pool's machines are counted.
pub const REPLICAS: Field = Field {
    name: "replicas",
    label: "Machines",
    hint: "How many machines the pool has.",
    input: Input::Number(0, 1000),
    is_required: true,
    of: Of::Pool,
    path: "spec.replicas",
};

/// The fields, in the order in which they stand.
pub const FIELDS: &[Field] = &[
    Field {
        name: NAME,
        label: "Name",
        hint: "Small letters, digits and -, at most 46 characters. Example: demo-large.",
        input: Input::Text,
        is_required: true,
        of: Of::Pool,
        path: "metadata.name",
    },
    REPLICAS,
    Field {
        name: "cpu",
        label: "Cores of a machine",
        hint: "2 if left empty.",
        input: Input::Number(1, 128),
        is_required: false,
        of: Of::Pool,
        path: "spec.provider.kubevirt.cpu",
    },
    Field {
        name: "memory",
        label: "Memory of a machine",
        hint: "Example: 4Gi.",
        input: Input::Text,
        is_required: false,
        of: Of::Pool,
        path: "spec.provider.kubevirt.memory",
    },
    Field {
        name: "image",
        label: "Image of its root disk",
        hint: "The one of the installation if left empty.",
        input: Input::Text,
        is_required: false,
        of: Of::Pool,
        path: "spec.provider.kubevirt.image",
    },
];

/// The NodePool.
#[must_use]
pub fn new(filled: &Filled, namespace: &str, cluster: &str) -> Value {
    let mut pool = object("NodePool", namespace, FIELDS, Of::Pool, filled);
    pool["spec"]["clusterName"] = json!(cluster);
    if pool["spec"]["provider"].is_null() {
        pool["spec"]["provider"] = json!({"kubevirt": {}});
    }
    pool
}

/// The change of a pool's machines.
#[must_use]
pub fn scaled(machines: i64) -> Value {
    json!({"spec": {"replicas": machines}})
}
