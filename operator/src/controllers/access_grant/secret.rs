//! The Secret that an AccessGrant's kubeconfig is written to: whose it is, what is in it, and how it looks.
//!
//! Invariant: pure. A Secret is the grant's only where label, owner and tenant cluster all say so, and nothing that stands in
//! it is believed: what the authority did not sign for this grant is no certificate of it.

use api::access_grant::USER_PREFIX;
use api::{AccessGrant, names};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use pki::{KeyPair, Store, Want};
use serde_json::{Value, json};
use tenant_cp::names::USERS_CA;

use super::observed::{Held, Kubeconfig};

/// Key of the kubeconfig, as in the administrator's Secret.
const KUBECONFIG: &str = "value";
/// Value of the component's label.
const COMPONENT: &str = "access-grant";
/// What its certificate is called among those of a store.
const NAME: &str = "grant";
/// Longest life of a certificate by itself, in hours; the plan's end is sooner.
const HOURS: u32 = 48;

/// What was read where the Secret is to be.
pub(super) enum Found {
    /// It was not looked for.
    NotLooked,
    /// There is none of the name.
    Absent,
    /// It is not the grant's, and so this is said of it.
    Foreign(String),
    /// It is the grant's.
    Own(Own),
}

/// A Secret that is the grant's.
pub(super) struct Own {
    /// What it was seen as; it is written only as long as it is that.
    pub(super) version: String,
    value: Vec<u8>,
    /// Certificate and key, where it has some.
    pub(super) pair: Option<KeyPair>,
}

/// Where the API of a tenant cluster is, and whom to believe that it is that.
pub(super) struct Site<'a> {
    /// URL.
    pub(super) server: &'a str,
    /// PEM.
    pub(super) authority: &'a str,
}

/// The group, and the binding, of a grant inside its tenant cluster.
pub(super) fn group(grant: &AccessGrant) -> String {
    let prefix = api::access_grant::GROUP_PREFIX;
    format!("{prefix}{}", grant.uid().unwrap_or_default())
}

/// The certificate of a grant: names come from the grant, never from who asks.
pub(super) fn want(grant: &AccessGrant) -> Want {
    let user = format!("{USER_PREFIX}{}", grant.spec.user);
    let mut organizations = vec![group(grant)];
    organizations.extend(grant.spec.groups.iter().cloned());
    Want {
        organizations,
        ..Want::client(NAME, USERS_CA, &user, HOURS)
    }
}

impl Found {
    /// A Secret of the name that is there. `cluster`: UID of the tenant cluster, where it is known.
    pub(super) fn read(grant: &AccessGrant, cluster: Option<&str>, secret: Secret) -> Self {
        let name = secret.name_any();
        if !is_of(grant, cluster, &secret) {
            let message = format!("the Secret {name} is there, and it is not this grant's");
            return Self::Foreign(message);
        }
        let version = secret.resource_version().unwrap_or_default();
        let value = secret.data.unwrap_or_default().remove(KUBECONFIG);
        let value = value.map(|value| value.0).unwrap_or_default();
        Self::Own(Own {
            pair: tenant_cp::kubeconfig::read(&value),
            version,
            value,
        })
    }

    /// What the plan is told: no key. Without an authority nothing is known to be good.
    pub(super) fn held(
        &self,
        grant: &AccessGrant,
        site: Option<&Site<'_>>,
        signer: Option<&KeyPair>,
        now: Timestamp,
    ) -> Held {
        let own = match self {
            Self::NotLooked => return Held::Unknown,
            Self::Absent => return Held::Absent,
            Self::Foreign(message) => return Held::Foreign(message.clone()),
            Self::Own(own) => own,
        };
        let kubeconfig = own.pair.as_ref().and_then(|pair| {
            Some(Kubeconfig {
                certificate: pair.certificate.clone(),
                until: pki::not_after(&pair.certificate)?,
                is_good: signer.is_some_and(|signer| is_good(grant, pair, signer, now)),
                is_current: site
                    .is_some_and(|site| kubeconfig(grant, site, pair).as_bytes() == own.value),
            })
        });
        Held::Own(kubeconfig)
    }
}

fn is_of(grant: &AccessGrant, cluster: Option<&str>, secret: &Secret) -> bool {
    let (uid, labels) = (grant.uid().unwrap_or_default(), secret.labels());
    let label = |name: &str| labels.get(name).map(String::as_str);
    let mut owners = secret.owner_references().iter();
    label(names::LABEL_ACCESS_GRANT) == Some(uid.as_str())
        && cluster.is_some()
        && label(names::LABEL_TENANT_UID) == cluster
        && owners.any(|owner| owner.uid == uid)
}

/// Whether a certificate is the grant's, with its key, by the authority that signs, and for another third of its life.
fn is_good(grant: &AccessGrant, pair: &KeyPair, signer: &KeyPair, now: Timestamp) -> bool {
    let store = Store::from([
        (NAME.to_owned(), pair.clone()),
        (USERS_CA.to_owned(), signer.clone()),
    ]);
    pki::plan(&[want(grant)], &store, now).is_empty()
}

/// The kubeconfig of a grant.
pub(super) fn kubeconfig(grant: &AccessGrant, site: &Site<'_>, pair: &KeyPair) -> String {
    // A grant may be called what YAML takes for a number.
    let user = format!("covey-{}", grant.name_any());
    let names = [grant.spec.cluster_name.as_str(), &user];
    tenant_cp::kubeconfig::render(names, site.server, site.authority, pair)
}

/// The Secret as it is made. The collector of garbage takes it away with the grant.
pub(super) fn object(grant: &AccessGrant, cluster: &str, value: String) -> Value {
    let namespace = grant.namespace().unwrap_or_default();
    let uid = grant.uid().unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": grant.spec.secret_name,
            "namespace": namespace,
            "labels": {
                names::LABEL_MANAGED_BY: names::MANAGED_BY,
                names::LABEL_COMPONENT: COMPONENT,
                names::LABEL_TENANT_UID: cluster,
                names::LABEL_TENANT_NAME: grant.spec.cluster_name,
                names::LABEL_TENANT_NAMESPACE: namespace,
                names::LABEL_ACCESS_GRANT: uid,
            },
            "ownerReferences": [{
                "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
                "name": grant.name_any(), "uid": uid, "controller": true,
            }],
        },
        "data": { KUBECONFIG: ByteString(value.into_bytes()) },
    })
}

/// The change that puts another kubeconfig, or none, into a Secret that is as it was seen.
pub(super) fn change(own: &Own, value: String) -> Value {
    json!({
        "metadata": { "resourceVersion": own.version },
        "data": { KUBECONFIG: ByteString(value.into_bytes()) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    const SITE: Site<'_> = Site {
        server: "https://10.96.3.7:6443",
        authority: "CA",
    };

    fn now() -> Timestamp {
        "2027-01-31T12:00:00Z".parse().unwrap()
    }

    fn grant() -> AccessGrant {
        let grant = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
            "metadata": { "name": "123", "namespace": "team-a", "uid": "g1" },
            "spec": {
                "clusterName": "demo", "profile": "view", "user": "flux", "groups": ["team-a"],
                "secretName": "flux-kubeconfig",
            },
        });
        serde_json::from_value(grant).unwrap()
    }

    fn authority() -> KeyPair {
        pki::issue(&Want::authority(USERS_CA, "users", 1000), None, now()).unwrap()
    }

    fn signed(grant: &AccessGrant, signer: &KeyPair, seconds: i64) -> KeyPair {
        let (request, key) = pki::issue::request("anybody").unwrap();
        let read = pki::request::read(request.as_bytes()).unwrap();
        let until = now() + SignedDuration::from_secs(seconds);
        let certificate =
            pki::issue::sign(&want(grant), &read.public_key, signer, until, now()).unwrap();
        KeyPair { certificate, key }
    }

    fn stored(value: String) -> Secret {
        let mut secret = object(&grant(), "u1", value);
        secret["metadata"]["resourceVersion"] = json!("7");
        serde_json::from_value(secret).unwrap()
    }

    fn held(secret: Secret, signer: &KeyPair, at: i64) -> Held {
        let at = now() + SignedDuration::from_secs(at);
        let found = Found::read(&grant(), Some("u1"), secret);
        found.held(&grant(), Some(&SITE), Some(signer), at)
    }

    #[test]
    fn what_is_written_is_read_back_and_good_for_two_thirds_of_its_life() {
        let signer = authority();
        let pair = signed(&grant(), &signer, 3600);
        let secret = stored(kubeconfig(&grant(), &SITE, &pair));
        let value = secret.data.clone().unwrap().remove(KUBECONFIG).unwrap();
        let text = String::from_utf8(value.0).unwrap();
        let read = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("covey-123@demo"));
        let of = |at| match held(secret.clone(), &signer, at) {
            Held::Own(Some(kubeconfig)) => kubeconfig,
            other => panic!("{other:?}"),
        };
        let first = of(0);
        assert!(first.is_good && first.is_current);
        assert_eq!(first.certificate, pair.certificate);
        assert_eq!(first.until, now() + SignedDuration::from_secs(3600));
        // It begins five minutes early.
        assert!(of(2290).is_good && !of(2410).is_good);
        // By another authority, or of another grant.
        let Held::Own(Some(other)) = held(secret, &authority(), 0) else {
            panic!("it is the grant's");
        };
        assert!(!other.is_good && other.is_current);
        let mut another = grant();
        another.metadata.uid = Some("g2".to_owned());
        let pair = signed(&another, &signer, 3600);
        let secret = stored(kubeconfig(&grant(), &SITE, &pair));
        assert!(matches!(held(secret, &signer, 0), Held::Own(Some(it)) if !it.is_good));
    }

    #[test]
    fn secret_that_somebody_else_made_or_changed_is_no_longer_the_grants() {
        let signer = authority();
        let is_foreign = |change: fn(&mut Secret)| {
            let mut secret = stored(String::new());
            change(&mut secret);
            matches!(held(secret, &signer, 0), Held::Foreign(_))
        };
        assert!(!is_foreign(|_| ()));
        assert!(is_foreign(|secret| secret.metadata.labels = None));
        assert!(is_foreign(|secret| secret.metadata.owner_references = None));
        assert!(is_foreign(|secret| {
            // The administrator's of another tenant cluster took its place.
            let labels = secret.metadata.labels.get_or_insert_default();
            labels.insert(names::LABEL_TENANT_UID.to_owned(), "u2".to_owned());
        }));
        for value in ["", "no kubeconfig", "users: [{name: x}]"] {
            let held = held(stored(value.to_owned()), &signer, 0);
            assert_eq!(held, Held::Own(None), "{value}");
        }
    }
}
