//! What a new tenant cluster may begin with in place of an empty etcd, and which of them do.
//!
//! A kube-apiserver makes some hundred objects when it first starts, and so does the operator, that are the same for all of
//! their version. A golden file is an etcd that has them, and nothing else (docs/adr/0023-golden-start.md).
//! Invariant: whoever chose anything that changes these objects begins without data; what is in a golden file is of no kind
//! that can be encrypted.

use kit_objects::object::{self, Object};
use serde_json::json;

use crate::certificates::etcd_identity::EtcdGolden;
use crate::desired::bootstrap::flow_schema::flow_schema;
use crate::desired::bootstrap::rbac;
use crate::names;
use crate::settings::Settings;
use crate::settings::golden_start::GoldenStart;
use crate::validate::validated::Validated;
use crate::version;

/// What keys in etcd of a golden file begin with: nothing else may be in one. A slash at the end, or a kind whose name begins
/// with another's would be among it.
pub const KEYS: [&str; 7] = [
    "/registry/clusterrolebindings/",
    "/registry/clusterroles/",
    "/registry/flowschemas/",
    "/registry/priorityclasses/",
    "/registry/prioritylevelconfigurations/",
    "/registry/rolebindings/",
    "/registry/roles/",
];

/// Flags of a kube-apiserver that change nothing of these objects; one that ends in `-` stands for all that begin so. What is
/// not here may.
const HARMLESS_FLAGS: [&str; 13] = [
    "audit-log-",
    "default-not-ready-toleration-seconds",
    "default-unreachable-toleration-seconds",
    "event-ttl",
    "goaway-chance",
    "log-flush-frequency",
    "logging-format",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "min-request-timeout",
    "request-timeout",
    "v",
    "watch-cache-sizes",
];

/// Why a tenant cluster begins without data.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Cold {
    /// Nobody made one.
    #[error("there is no golden file for Kubernetes {0}")]
    NoFile(String),
    /// It is of another etcd.
    #[error("its golden file is of etcd {found}, and etcd is {wanted}")]
    OtherEtcd {
        /// Minor of the file.
        found: String,
        /// Minor that runs.
        wanted: String,
    },
    /// It has objects of another Covey.
    #[error("its golden file has other objects of Covey ({0}) than this operator lays")]
    OtherObjects(String),
    /// Members make a cluster together.
    #[error("etcd has {0} members")]
    Members(i32),
    /// What was chosen may change what a kube-apiserver makes.
    #[error("{0} is chosen, with which a kube-apiserver may begin with other objects")]
    Chosen(String),
}

/// Objects of Covey inside a tenant cluster that are the same in every one.
#[must_use]
pub fn objects() -> Vec<Object> {
    let mut objects = rbac::equal_for_all();
    objects.push(flow_schema());
    objects
}

/// Hash of [`objects`].
#[must_use]
pub fn objects_hash() -> String {
    let objects = objects();
    object::hash(&json!(objects.iter().map(Object::hash).collect::<Vec<_>>()))
}

/// The golden file that a tenant cluster which never ran begins with.
///
/// # Errors
/// [`Cold`]: it begins without data.
pub fn start<'a>(v: &Validated, settings: &'a Settings) -> Result<&'a GoldenStart, Cold> {
    let kubernetes = v.version.to_string();
    let file = settings.golden_starts.get(&kubernetes);
    let file = file.ok_or(Cold::NoFile(kubernetes))?;
    if v.etcd.replicas != 1 || v.etcd.wanted != 1 {
        return Err(Cold::Members(v.etcd.replicas.max(v.etcd.wanted)));
    }
    if let Some(chosen) = chosen(v) {
        return Err(Cold::Chosen(chosen));
    }
    let wanted = version::etcd_version(&settings.etcd_image);
    let wanted = wanted.map_or_else(|_| String::new(), |v| format!("{}.{}", v.major, v.minor));
    if file.etcd != wanted {
        let found = file.etcd.clone();
        return Err(Cold::OtherEtcd { found, wanted });
    }
    match file.objects == objects_hash() {
        true => Ok(file),
        false => Err(Cold::OtherObjects(file.objects.clone())),
    }
}

/// What its only member is told of it.
#[must_use]
pub fn of_member(v: &Validated, start: &GoldenStart) -> EtcdGolden {
    EtcdGolden {
        file: start.file.clone(),
        sha256: start.sha256.clone(),
        token: v.identity.uid.clone(),
        peer_url: format!(
            "https://{}:{}",
            names::etcd_member(0),
            names::ETCD_PEER_PORT
        ),
    }
}

/// What a user chose that may change the objects.
fn chosen(v: &Validated) -> Option<String> {
    let gate = v.feature_gates.keys().next();
    let api = v.runtime_config.keys().next();
    let flags = v.api_server.extra_args.keys();
    let flag = flags.filter(|flag| !is_harmless(flag)).min();
    gate.map(|gate| format!("feature gate {gate}"))
        .or_else(|| api.map(|api| format!("runtime config {api}")))
        .or_else(|| {
            v.emulated
                .map(|minor| format!("emulated version 1.{minor}"))
        })
        .or_else(|| flag.map(|flag| format!("flag --{flag}")))
}

fn is_harmless(flag: &str) -> bool {
    let mut harmless = HARMLESS_FLAGS.iter();
    harmless.any(|known| flag == *known || (known.ends_with('-') && flag.starts_with(known)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr};

    use api::TenantCluster;
    use serde_json::Value;

    use super::*;
    use crate::encrypted_kinds::{OTHERS, SECRETS};
    use crate::network::addresses::Addresses;
    use crate::tenant_objects::{Trust, wanted};
    use crate::validate::build;
    use crate::version::SUPPORTED_MINORS;

    fn cluster(spec: &Value) -> TenantCluster {
        let mut sample = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {
                "name": "a", "namespace": "a", "generation": 1, "uid": "0a1b2c3d-0000-4000-8000-000000000001",
            },
            "spec": { "version": "1.36.3" },
            "status": { "network": {
                "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local",
            } },
        });
        for (field, value) in spec.as_object().unwrap() {
            sample["spec"][field] = value.clone();
        }
        serde_json::from_value(sample).unwrap()
    }

    fn valid(spec: &Value) -> Validated {
        build::build(&cluster(spec), &Settings::default()).unwrap()
    }

    fn settings() -> Settings {
        let file = GoldenStart {
            etcd: "3.6".to_owned(),
            objects: objects_hash(),
            file: "a.db".to_owned(),
            sha256: "00".to_owned(),
        };
        Settings {
            golden_starts: BTreeMap::from([("1.36.3".to_owned(), file)]),
            ..Settings::default()
        }
    }

    fn cold(v: &Validated, settings: &Settings) -> Cold {
        start(v, settings).unwrap_err()
    }

    #[test]
    fn every_object_in_it_is_the_one_that_every_tenant_cluster_has() {
        for minor in SUPPORTED_MINORS {
            for addon in [false, true] {
                let v = valid(&json!({
                    "version": format!("1.{minor}.0"),
                    "addons": { "kubeProxy": { "enabled": addon }, "konnectivity": { "enabled": addon } },
                }));
                let ip = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
                let addresses = Addresses {
                    cluster_ip: ip,
                    konnectivity_ip: Some(ip),
                    endpoint: None,
                };
                let trust = Trust {
                    authority: "",
                    kubelets: None,
                    konnectivity: None,
                };
                let wanted = wanted(&v, &Settings::default(), &addresses, trust);
                for object in objects() {
                    assert!(wanted.contains(&object), "1.{minor}: {}", object.key());
                }
            }
        }
    }

    #[test]
    fn no_kind_in_it_can_be_encrypted_or_is_one_that_no_two_may_share() {
        for kind in OTHERS.iter().chain([&SECRETS]) {
            let first = String::from_utf8(kind.first_key()).unwrap();
            assert!(!KEYS.iter().any(|key| key.starts_with(&first)), "{first}");
        }
        for never in [
            "namespaces",
            "services",
            "endpointslices",
            "servicecidrs",
            "ipaddresses",
            "ranges",
            "serviceaccounts",
            "configmaps",
            "leases",
            "secrets",
            "events",
            "minions",
            "masterleases",
        ] {
            let key = format!("/registry/{never}/a");
            assert!(!KEYS.iter().any(|baked| key.starts_with(baked)), "{never}");
        }
        assert!(KEYS.iter().all(|key| key.ends_with('/')));
        let kinds = [
            "ClusterRole",
            "ClusterRoleBinding",
            "FlowSchema",
            "Role",
            "RoleBinding",
        ];
        for object in objects() {
            assert!(kinds.contains(&object.kind.as_str()), "{}", object.key());
        }
    }

    #[test]
    fn one_of_its_version_begins_with_it_and_is_told_its_own_token() {
        let (v, settings) = (valid(&json!({})), settings());
        let golden = of_member(&v, start(&v, &settings).unwrap());
        assert_eq!(
            (golden.file.as_str(), golden.sha256.as_str()),
            ("a.db", "00")
        );
        assert_eq!(golden.token, v.identity.uid);
        assert_eq!(golden.peer_url, "https://etcd-0:2380");
        let flags = json!({ "controlPlane": { "apiServer": { "extraArgs": {
            "audit-log-maxage": "3", "v": "4",
        } } } });
        assert!(start(&valid(&flags), &settings).is_ok());
        let addons = json!({ "addons": { "kubeProxy": { "enabled": true } } });
        assert!(start(&valid(&addons), &settings).is_ok());
    }

    #[test]
    fn whatever_may_change_what_is_in_it_begins_without_data() {
        let settings = settings();
        let other = valid(&json!({ "version": "1.36.2" }));
        assert_eq!(cold(&other, &settings), Cold::NoFile("1.36.2".to_owned()));
        let three = valid(&json!({ "etcd": { "replicas": 3 } }));
        assert_eq!(cold(&three, &settings), Cold::Members(3));
        let flag = valid(&json!({ "controlPlane": { "apiServer": { "extraArgs": {
            "v": "4", "enable-priority-and-fairness": "false",
        } } } }));
        let chosen = "flag --enable-priority-and-fairness".to_owned();
        assert_eq!(cold(&flag, &settings), Cold::Chosen(chosen));
        let plain = valid(&json!({}));
        let mut gate = plain.clone();
        gate.feature_gates.insert("Some".to_owned(), true);
        let mut api = plain.clone();
        api.runtime_config.insert("a/v1".to_owned(), true);
        let mut emulated = plain.clone();
        emulated.emulated = Some(35);
        for chosen in [gate, api, emulated] {
            assert!(matches!(cold(&chosen, &settings), Cold::Chosen(_)));
        }
        let etcd = Settings {
            etcd_image: "etcd:3.7.1-0".to_owned(),
            ..settings.clone()
        };
        assert!(matches!(cold(&plain, &etcd), Cold::OtherEtcd { .. }));
        let mut older = settings;
        for file in older.golden_starts.values_mut() {
            file.objects = "0".repeat(16);
        }
        assert!(matches!(cold(&plain, &older), Cold::OtherObjects(_)));
    }
}
