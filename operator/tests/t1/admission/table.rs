//! Mistakes that people make in a TenantCluster, and what they are told.
//!
//! Invariant: each row is one mistake; everything else in the object is right.

use serde_json::{Value, json};

pub(super) fn spec(value: Value) -> Value {
    json!({ "spec": value })
}

pub(super) fn endpoint(value: Value) -> Value {
    spec(json!({ "controlPlane": { "endpoint": value } }))
}

pub(super) fn args(name: &str, value: &str) -> Value {
    spec(json!({ "controlPlane": { "apiServer": { "extraArgs": { name: value } } } }))
}

/// What is wrong, and what a user is told about it (a part of the message).
pub(super) fn refused() -> Vec<(Value, &'static str)> {
    let network = |value: Value| spec(json!({ "network": value }));
    let etcd = |value: Value| spec(json!({ "etcd": value }));
    let long = "n".repeat(47);
    vec![
        (
            spec(json!({ "version": null })),
            "spec.version: Required value",
        ),
        (
            spec(json!({ "version": "latest" })),
            "spec.version in body should match '^v?[0-9]+",
        ),
        (
            spec(json!({ "version": "1.35" })),
            "spec.version in body should match '^v?[0-9]+",
        ),
        (
            spec(json!({ "version": "1.30.1" })),
            "spec.version: Kubernetes 1.30.1 is not supported: choose a patch release of 1.34, 1.35 or 1.36",
        ),
        (
            spec(json!({ "version": "1.99.0" })),
            "spec.version: Kubernetes 1.99.0 is not supported: choose a patch release of 1.34, 1.35 or 1.36",
        ),
        (
            spec(
                json!({ "maintenance": { "windows": [{ "opens": "0 4 * * *", "closes": "0 4 * * *" }] } }),
            ),
            "opens and closes are the same moments: write two, as",
        ),
        (
            spec(
                json!({ "maintenance": { "windows": [{ "opens": "0 22 31 2 *", "closes": "0 4 * * *" }] } }),
            ),
            "spec.maintenance.windows[0].opens: \"0 22 31 2 *\" never comes: no such month has that day; choose another day",
        ),
        (
            spec(json!({ "maintenance": { "windows": [
                { "opens": "0 22 * * *", "closes": "0 4 * * *", "timeZone": "CEST" },
            ] } })),
            "spec.maintenance.windows[0].timeZone: \"CEST\" is no time zone of the IANA database",
        ),
        (
            json!({ "metadata": { "name": long } }),
            "the name may have at most 46 characters, because the tenant namespace is called covey-<name>-<10 characters>; choose a shorter one",
        ),
        (
            json!({ "metadata": { "name": "1demo" } }),
            "the name must be a DNS label that starts with a letter (lower-case letters, digits and -, no dots), because it becomes part of a namespace's name",
        ),
        (
            json!({ "metadata": { "name": "a.b" } }),
            "the name must be a DNS label that starts with a letter (lower-case letters, digits and -, no dots), because it becomes part of a namespace's name",
        ),
        (
            spec(json!({ "controlPlane": { "replicas": 0 } })),
            "spec.controlPlane.replicas: Invalid value: 0: spec.controlPlane.replicas in body should be greater than or equal to 1",
        ),
        (
            spec(json!({ "controlPlane": { "replicas": 10 } })),
            "spec.controlPlane.replicas: Invalid value: 10: spec.controlPlane.replicas in body should be less than or equal to 9",
        ),
        (
            spec(json!({ "controlPlane": { "replicas": "two" } })),
            r#"spec.controlPlane.replicas: Invalid value: "string": spec.controlPlane.replicas in body must be of type integer: "string""#,
        ),
        (
            endpoint(json!({ "type": "Ingress" })),
            r#"spec.controlPlane.endpoint.type: Unsupported value: "Ingress": supported values: "ClusterIP", "NodePort", "LoadBalancer""#,
        ),
        (
            endpoint(json!({ "type": "NodePort" })),
            "spec.controlPlane.endpoint.host: Invalid value: endpoint.type NodePort needs endpoint.host: the address or DNS name under which clients reach the management cluster's nodes",
        ),
        (
            endpoint(json!({ "host": "https://a.example.com" })),
            r#"spec.controlPlane.endpoint.host: "https://a.example.com" is neither an IP address nor a DNS name: leave out the scheme"#,
        ),
        (
            endpoint(json!({ "host": "a.example.com:6443" })),
            r#"spec.controlPlane.endpoint.host: "a.example.com:6443" is neither an IP address nor a DNS name: put the port into endpoint.port"#,
        ),
        (
            endpoint(json!({ "port": 70000 })),
            "spec.controlPlane.endpoint.port: Invalid value: 70000: spec.controlPlane.endpoint.port in body should be less than or equal to 65535",
        ),
        (
            endpoint(json!({ "certSANs": ["a.*.example.com"] })),
            r#"spec.controlPlane.endpoint.certSANs[0]: "a.*.example.com" has a * that is not the whole first part: write *.example.com"#,
        ),
        (
            endpoint(json!({ "certSANs": ["not a name"] })),
            r#"spec.controlPlane.endpoint.certSANs[0]: "not a name" is neither an IP address nor a DNS name: use lower-case letters, digits and -, in parts of at most 63 characters separated by dots"#,
        ),
        (
            endpoint(json!({ "certSANs": ["a", "a"] })),
            r#"spec.controlPlane.endpoint.certSANs[1]: Duplicate value: "a""#,
        ),
        (
            endpoint(json!({ "loadBalancerClass": "example.com/a" })),
            "spec.controlPlane.endpoint.loadBalancerClass: Invalid value: endpoint.loadBalancerClass is for endpoint.type LoadBalancer only; remove it or change the type",
        ),
        (
            endpoint(json!({ "sourceRanges": ["10.0.0.0/8"] })),
            "spec.controlPlane.endpoint.sourceRanges: Invalid value: endpoint.sourceRanges is for endpoint.type LoadBalancer only; remove it or change the type",
        ),
        (
            endpoint(json!({ "type": "LoadBalancer", "sourceRanges": ["10.0.0.1"] })),
            "spec.controlPlane.endpoint.sourceRanges[0]: 10.0.0.1 lacks its prefix: write 10.0.0.1/32",
        ),
        (
            endpoint(json!({ "type": "LoadBalancer", "loadBalancerClass": "a b" })),
            r#"spec.controlPlane.endpoint.loadBalancerClass: "a b" is not a class: write a name such as example.com/internal"#,
        ),
        (
            endpoint(json!({ "annotations": { "covey.dev/hash": "x" } })),
            r#"spec.controlPlane.endpoint.annotations[covey.dev/hash]: "covey.dev/hash" is written by Covey or kubectl themselves: remove it"#,
        ),
        (
            endpoint(json!({ "annotations": { "not a key": "x" } })),
            r#"spec.controlPlane.endpoint.annotations[not a key]: "not a key" is not a key of an annotation: write prefix/name, with a DNS name as prefix and at most 63 letters, digits and - _ . as name"#,
        ),
        (
            endpoint(json!({ "annotations": { "external-dns.io/hostname": "victim.example" } })),
            r#"spec.controlPlane.endpoint.annotations[external-dns.io/hostname]: "external-dns.io/hostname" is not allowed here: choose of example.com/, or have whoever runs the management cluster allow it (config.endpoint.annotations of the chart)"#,
        ),
        (
            endpoint(json!({ "type": "LoadBalancer", "loadBalancerClass": "other.example/x" })),
            r#"spec.controlPlane.endpoint.loadBalancerClass: "other.example/x" is not allowed here: choose of example.com/balancer, or"#,
        ),
        (
            etcd(json!({ "storage": { "storageClassName": "gold" } })),
            r#"spec.etcd.storage.storageClassName: "gold" is not allowed here: choose of fast, slow, or"#,
        ),
        (
            etcd(json!({ "podMetadata": { "labels": { "app.kubernetes.io/component": "x" } } })),
            r#"spec.etcd.podMetadata.labels[app.kubernetes.io/component]: "app.kubernetes.io/component" is Covey's or Kubernetes' own: remove it"#,
        ),
        (
            etcd(json!({ "quotaBackendBytes": "2Gi" })),
            "spec.etcd.quotaBackendBytes: 2Gi and 512Mi for log and snapshots are more than a volume of 2Gi holds: choose less, or raise spec.etcd.storage.size",
        ),
        (
            args("etcd-servers", "https://evil"),
            "spec.controlPlane.apiServer.extraArgs[etcd-servers]: --etcd-servers is set by Covey and would break the tenant cluster: remove it",
        ),
        (
            args("--event-ttl", "2h"),
            r#"spec.controlPlane.apiServer.extraArgs[--event-ttl]: "--event-ttl" is not the name of a flag: leave out the dashes in front"#,
        ),
        (
            args("feature-gates", "AllAlpha=true"),
            "spec.controlPlane.apiServer.extraArgs[feature-gates]: --feature-gates is not set this way: use spec.controlPlane.featureGates instead",
        ),
        (
            spec(json!({ "controlPlane": { "featureGates": { "Nonsense": true } } })),
            r#"spec.controlPlane.featureGates[Nonsense]: "Nonsense" is not one of the feature gates that can be set: remove it (docs/flags.md lists those that can)"#,
        ),
        (
            spec(json!({ "controlPlane": { "featureGates": { "EnvFiles": "yes" } } })),
            r#"spec.controlPlane.featureGates.EnvFiles: Invalid value: "string": spec.controlPlane.featureGates.EnvFiles in body must be of type boolean: "string""#,
        ),
        (
            spec(
                json!({ "controlPlane": { "runtimeConfig": { "resource.k8s.io/v1beta2": true } } }),
            ),
            r#"spec.controlPlane.runtimeConfig[resource.k8s.io/v1beta2]: "resource.k8s.io/v1beta2" is not allowed here: remove it, or"#,
        ),
        (
            args("v", "8"),
            r#"spec.controlPlane.apiServer.extraArgs[v]: "8" is not allowed: choose 0 to 4, because with more the log holds Secrets"#,
        ),
        (
            args("anonymous-auth", "true"),
            "spec.controlPlane.apiServer.extraArgs[anonymous-auth]: --anonymous-auth is set by Covey and would break the tenant cluster: remove it",
        ),
        (
            spec(
                json!({ "controlPlane": { "scheduler": { "extraArgs": { "bind-address": "0.0.0.0" } } } }),
            ),
            "spec.controlPlane.scheduler.extraArgs[bind-address]: --bind-address is set by Covey and would break the tenant cluster: remove it",
        ),
        (
            spec(
                json!({ "controlPlane": { "apiServer": { "resources": { "requests": { "cpu": "lots" } } } } }),
            ),
            "requests.cpu in body should match '^([0-9]+|",
        ),
        (
            spec(json!({ "controlPlane": { "apiServer": { "resources": {
            "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } } } } })),
            "spec.controlPlane.apiServer.resources.requests[memory]: the request 2Gi is above the limit 1Gi: lower the request or raise the limit",
        ),
        (
            spec(
                json!({ "controlPlane": { "apiServer": { "resources": { "requests": { "nvidia.com/gpu": "1" } } } } }),
            ),
            r#"spec.controlPlane.apiServer.resources.requests[nvidia.com/gpu]: "nvidia.com/gpu" cannot be set here: use cpu, memory or ephemeral-storage"#,
        ),
        (
            etcd(json!({ "replicas": 2 })),
            "spec.etcd.replicas: Invalid value: 2: etcd.replicas must be 1 or 3",
        ),
        (
            etcd(json!({ "storage": { "size": "1Mi" } })),
            "spec.etcd.storage.size: 1Mi is too small for etcd's data and log: use 1Gi or more",
        ),
        (
            etcd(json!({ "storage": { "size": "big" } })),
            "spec.etcd.storage.size in body should match '^([0-9]+|",
        ),
        (
            network(json!({ "podCIDR": "10.0.0.0" })),
            r#"spec.network.podCIDR: "10.0.0.0" is not an address range: write address/prefix, such as 10.128.0.0/18"#,
        ),
        (
            network(json!({ "podCIDR": "10.0.0.1/16" })),
            "spec.network.podCIDR: 10.0.0.1/16 starts in the middle of a range: write 10.0.0.0/16",
        ),
        (
            network(json!({ "podCIDR": "10.0.0.0/30" })),
            "spec.network.podCIDR: 10.0.0.0/30 is too small: use a prefix from /8 (largest) to /24 (smallest)",
        ),
        (
            network(json!({ "podCIDR": "fd00::/48" })),
            "spec.network.podCIDR: fd00::/48 is IPv6, but tenant clusters of this management cluster speak IPv4 (the operator's pool is 10.128.0.0/9): use an IPv4 range",
        ),
        (
            network(json!({ "podCIDR": "10.20.0.0/16", "serviceCIDR": "10.20.128.0/20" })),
            "spec.network.serviceCIDR: 10.20.128.0/20 overlaps podCIDR 10.20.0.0/16 of the same tenant cluster: choose ranges that do not meet",
        ),
        (
            network(json!({ "podCIDR": "10.128.0.0/18" })),
            "/demo: choose another range, or leave the field out to be given a free one",
        ),
        (
            network(json!({ "dnsDomain": "Not_A_Domain" })),
            r#"spec.network.dnsDomain: "Not_A_Domain" is not a DNS name: use lower-case letters, digits and -, in parts of at most 63 characters separated by dots"#,
        ),
        (
            spec(json!({ "images": { "registry": "https://mirror.example.com" } })),
            r#"spec.images.registry: "https://mirror.example.com" is not a registry: leave out the scheme, as in mirror.example.com/k8s"#,
        ),
        (
            spec(json!({ "images": { "registry": "evil.example" } })),
            r#"spec.images.registry: "evil.example" is not allowed here: choose of registry.k8s.io, mirror.example.com, or have whoever runs the management cluster allow it (config.allowedRegistries of the chart)"#,
        ),
    ]
}
