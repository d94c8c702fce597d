//! Which crate may depend on which, and how often a crate may be there.
//!
//! Invariant: a crate that the table does not know is a finding, so nobody forgets to decide.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::finding::Finding;
use crate::workspace::Metadata;

/// What one crate may depend on.
struct Rule {
    name: &'static str,
    /// Our own crates that it may use outside tests.
    uses: &'static [&'static str],
    /// No runtime and no client: it must stay usable without I/O.
    pure: bool,
}

/// docs/architecture.md, "Directions". Nobody is allowed to use `activator`, `autoscaler`, `ccm`, `cli`, `csi-proxy`, `dashboard`,
/// `etcd-agent`, `link-node`, `operator`, `lab-agent`, `bench`, `conformance`, `drill` and `xtask`, which are programs,
/// and only tests use `testkit`, `fake-clouds` and `monitoring`.
const RULES: &[Rule] = &[
    Rule {
        name: "api",
        uses: &[],
        pure: true,
    },
    Rule {
        name: "pki",
        uses: &[],
        pure: true,
    },
    Rule {
        name: "kit-objects",
        uses: &[],
        pure: true,
    },
    Rule {
        name: "tenant-cp",
        uses: &["api", "kit-objects", "pki"],
        pure: true,
    },
    Rule {
        name: "monitoring",
        uses: &[],
        pure: true,
    },
    Rule {
        name: "placement",
        uses: &[],
        pure: true,
    },
    Rule {
        name: "kit-oci",
        uses: &[],
        pure: false,
    },
    Rule {
        name: "kit-client",
        uses: &["kit-objects"],
        pure: false,
    },
    Rule {
        name: "kit",
        uses: &["kit-client", "kit-objects"],
        pure: false,
    },
    Rule {
        name: "providers",
        uses: &["api", "kit-client", "kit-objects", "placement"],
        pure: false,
    },
    Rule {
        name: "provider-aws",
        uses: &["api", "providers"],
        pure: false,
    },
    Rule {
        name: "provider-azure",
        uses: &["api", "providers"],
        pure: false,
    },
    Rule {
        name: "provider-gcp",
        uses: &["api", "providers"],
        pure: false,
    },
    Rule {
        name: "provider-hetzner",
        uses: &["api", "providers"],
        pure: false,
    },
    Rule {
        name: "provider-kubevirt",
        uses: &["api", "kit-objects", "providers", "tenant-cp"],
        pure: false,
    },
    Rule {
        name: "provider-static",
        uses: &["api", "kit-objects", "providers"],
        pure: false,
    },
    Rule {
        name: "operator",
        uses: &[
            "api",
            "backup-format",
            "kit",
            "kit-client",
            "kit-objects",
            "pki",
            "placement",
            "provider-aws",
            "provider-azure",
            "provider-gcp",
            "provider-hetzner",
            "provider-kubevirt",
            "provider-static",
            "providers",
            "tenant-cp",
        ],
        pure: false,
    },
    Rule {
        name: "ccm",
        uses: &["api", "kit", "kit-client", "kit-objects"],
        pure: false,
    },
    Rule {
        name: "insight",
        uses: &["api", "kit-objects"],
        pure: true,
    },
    Rule {
        name: "insight-read",
        uses: &["api", "insight", "kit-client", "kit-objects"],
        pure: false,
    },
    Rule {
        name: "cli",
        uses: &[
            "api",
            "insight",
            "insight-read",
            "kit-client",
            "kit-objects",
            "pki",
        ],
        pure: false,
    },
    Rule {
        name: "dashboard",
        uses: &[
            "api",
            "insight",
            "insight-read",
            "kit",
            "kit-client",
            "kit-objects",
        ],
        pure: false,
    },
    Rule {
        name: "proto",
        uses: &[],
        pure: true,
    },
    Rule {
        name: "csi-proxy",
        uses: &["api", "kit", "kit-client", "kit-objects", "proto"],
        pure: false,
    },
    Rule {
        name: "autoscaler",
        uses: &["api", "kit", "kit-client", "kit-objects", "proto"],
        pure: false,
    },
    Rule {
        name: "activator",
        uses: &["api", "kit", "kit-client", "kit-objects"],
        pure: false,
    },
    Rule {
        name: "backup-format",
        uses: &[],
        pure: true,
    },
    Rule {
        name: "backup",
        uses: &["backup-format", "proto"],
        pure: false,
    },
    Rule {
        name: "backup-s3",
        uses: &["backup"],
        pure: false,
    },
    Rule {
        name: "etcd-agent",
        uses: &["backup", "backup-format", "backup-s3"],
        pure: false,
    },
    Rule {
        name: "link-node",
        uses: &["api", "kit", "kit-client"],
        pure: false,
    },
    Rule {
        name: "lab",
        uses: &["kit-oci"],
        pure: false,
    },
    Rule {
        name: "worker-init",
        uses: &[],
        pure: false,
    },
    Rule {
        name: "fake-clouds",
        uses: &[],
        pure: false,
    },
    Rule {
        name: "testkit",
        uses: &["api", "lab", "pki"],
        pure: false,
    },
    Rule {
        name: "autoscaler-client",
        uses: &["kit-objects", "proto"],
        pure: false,
    },
    Rule {
        name: "lab-agent",
        uses: &["api", "kit-objects", "lab", "proto"],
        pure: false,
    },
    Rule {
        name: "suites",
        uses: &[
            "api",
            "autoscaler-client",
            "backup-format",
            "kit-client",
            "kit-objects",
            "lab",
            "proto",
        ],
        pure: false,
    },
    Rule {
        name: "bench",
        uses: &["api", "autoscaler-client", "kit", "lab", "suites"],
        pure: false,
    },
    Rule {
        name: "conformance",
        uses: &["api", "kit-oci", "lab", "suites"],
        pure: false,
    },
    Rule {
        name: "drill",
        uses: &["suites"],
        pure: false,
    },
    Rule {
        name: "xtask",
        uses: &["kit-oci", "lab"],
        pure: false,
    },
];

/// Crates that a pure crate must not use outside tests.
const IMPURE: &[&str] = &[
    "tokio",
    "async-std",
    "futures",
    "hyper",
    "hyper-util",
    "reqwest",
    "rand",
    "tower",
    "axum",
];
/// Features of `kube` that bring a client.
const CLIENT_FEATURES: &[&str] = &["client", "runtime", "ws", "config"];
/// Types of these crates meet in one program, so there is one version of each.
const ONE_VERSION: &[&str] = &[
    "kube",
    "kube-core",
    "k8s-openapi",
    "rustls",
    "rcgen",
    "schemars",
];
/// A second TLS or crypto library; deny.toml says the same for those who run cargo-deny.
const BANNED: &[&str] = &[
    "aws-lc-rs",
    "aws-lc-sys",
    "native-tls",
    "openssl",
    "openssl-sys",
];

/// Dependencies that point the wrong way.
pub(super) fn directions(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let mut find = |message: String| {
            let path = format!("Cargo.toml of {}", package.name);
            findings.push(Finding {
                path,
                line: 0,
                message,
            });
        };
        let Some(rule) = RULES.iter().find(|rule| rule.name == package.name) else {
            find("add this crate to RULES in xtask/src/tidy/crates.rs".to_owned());
            continue;
        };
        let outside_tests = package.dependencies.iter().filter(|d| !d.is_of_tests());
        for dependency in outside_tests {
            let name = dependency.name.as_str();
            if dependency.path.is_some() && !rule.uses.contains(&name) {
                find(match rule.uses {
                    [] => format!("must not depend on {name}: it uses no crate of ours"),
                    uses => format!("must not depend on {name}, only on {}", uses.join(", ")),
                });
            }
            if rule.pure && IMPURE.contains(&name) {
                find(format!(
                    "must not depend on {name}: it does no I/O and waits for nothing"
                ));
            }
            let client = dependency
                .features
                .iter()
                .find(|f| CLIENT_FEATURES.contains(&f.as_str()));
            if let ("kube", true, Some(feature)) = (name, rule.pure, client) {
                find(format!(
                    "must not use kube's feature {feature}: it does no I/O"
                ));
            }
        }
    }
    findings
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
}

/// Crates that are there twice and must not be, or must not be there at all.
pub(super) fn versions(lock: &str) -> Result<Vec<Finding>> {
    let lock: Lock = toml::from_str(lock).context("could not read Cargo.lock")?;
    let mut findings = Vec::new();
    let mut find = |message| {
        findings.push(Finding {
            path: "Cargo.lock".to_owned(),
            line: 0,
            message,
        });
    };
    for name in ONE_VERSION {
        let found: Vec<_> = lock
            .package
            .iter()
            .filter(|package| package.name == *name)
            .collect();
        if found.len() > 1 {
            let versions: Vec<_> = found
                .iter()
                .map(|package| package.version.as_str())
                .collect();
            find(format!(
                "{name} is there {} times ({}): `cargo tree -d -i {name}` says who wants them",
                found.len(),
                versions.join(", ")
            ));
        }
    }
    for package in lock
        .package
        .iter()
        .filter(|p| BANNED.contains(&p.name.as_str()))
    {
        let name = &package.name;
        find(format!(
            "{name} must not be used: `cargo tree -i {name}` says who wants it"
        ));
    }
    Ok(findings)
}
