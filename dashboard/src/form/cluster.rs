//! The form of a new tenant cluster, with its first node pool where one is wanted.
//!
//! Invariant: pure. Only what was filled in is written; everything else is the definition's default.

use serde_json::{Value, json};

use super::{Field, Filled, Input, Of, object};

const fn field(
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    input: Input,
    of: Of,
    path: &'static str,
) -> Field {
    Field {
        name,
        label,
        hint,
        input,
        is_required: false,
        of,
        path,
    }
}

const fn required(field: Field) -> Field {
    Field {
        is_required: true,
        ..field
    }
}

/// How many machines the first pool has: without it there is no pool.
pub const WORKERS: &str = "workers";
/// The name of the new tenant cluster.
pub const NAME: &str = "name";
/// Its namespace.
pub const NAMESPACE: &str = "namespace";

/// The fields, in the order in which they stand.
pub const FIELDS: &[Field] = &[
    required(field(
        NAMESPACE,
        "Namespace",
        "One in which you may make tenant clusters.",
        Input::Text,
        Of::Cluster,
        "metadata.namespace",
    )),
    required(field(
        NAME,
        "Name",
        "Small letters, digits and -, at most 46 characters. Example: demo.",
        Input::Text,
        Of::Cluster,
        "metadata.name",
    )),
    required(field(
        "version",
        "Kubernetes version",
        "Example: 1.35.4.",
        Input::Text,
        Of::Cluster,
        "spec.version",
    )),
    field(
        "endpoint",
        "Endpoint",
        "How its API is reached. It cannot be changed later.",
        Input::Choice(&[
            (
                "",
                "ClusterIP (the default): from inside the management cluster",
            ),
            ("LoadBalancer", "LoadBalancer: at an address of its own"),
            (
                "NodePort",
                "NodePort: at a port of the management cluster's nodes",
            ),
        ]),
        Of::Cluster,
        "spec.controlPlane.endpoint.type",
    ),
    field(
        "host",
        "Host of the endpoint",
        "A name or an address. NodePort needs one.",
        Input::Text,
        Of::Cluster,
        "spec.controlPlane.endpoint.host",
    ),
    field(
        "replicas",
        "Pods of the control plane",
        "1 if left empty.",
        Input::Number(1, 9),
        Of::Cluster,
        "spec.controlPlane.replicas",
    ),
    field(
        "members",
        "Members of etcd",
        "Three go on when one is lost. It cannot be changed later.",
        Input::Choice(&[("", "1 (the default)"), ("3", "3")]),
        Of::Cluster,
        "spec.etcd.replicas",
    ),
    field(
        "backup",
        "Backup target",
        "Name of a BackupTarget. Without one there is no backup.",
        Input::Text,
        Of::Cluster,
        "spec.backup.target",
    ),
    field(
        WORKERS,
        "Machines",
        "Of a first node pool, virtual machines of KubeVirt. Without a number none is made.",
        Input::Number(0, 1000),
        Of::Pool,
        "spec.replicas",
    ),
    field(
        "cpu",
        "Cores of a machine",
        "2 if left empty.",
        Input::Number(1, 128),
        Of::Pool,
        "spec.provider.kubevirt.cpu",
    ),
    field(
        "memory",
        "Memory of a machine",
        "Example: 4Gi.",
        Input::Text,
        Of::Pool,
        "spec.provider.kubevirt.memory",
    ),
];

/// The TenantCluster, and the NodePool `NAME-workers` where machines are wanted.
#[must_use]
pub fn objects(filled: &Filled) -> (Value, Option<Value>) {
    let (namespace, name) = (filled.value(NAMESPACE), filled.value(NAME));
    let mut cluster = object("TenantCluster", namespace, FIELDS, Of::Cluster, filled);
    // A choice is a text in a form and a number in the spec.
    if let Some(members) = filled.number("members") {
        cluster["spec"]["etcd"]["replicas"] = json!(members);
    }
    let pool = filled.number(WORKERS).map(|_| {
        let mut pool = object("NodePool", namespace, FIELDS, Of::Pool, filled);
        pool["metadata"]["name"] = json!(format!("{name}-workers"));
        pool["spec"]["clusterName"] = json!(name);
        if pool["spec"]["provider"].is_null() {
            pool["spec"]["provider"] = json!({"kubevirt": {}});
        }
        pool
    });
    (cluster, pool)
}
