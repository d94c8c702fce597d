//! Laws of a backup's plan, over worlds that also lose things.
//!
//! Invariant: the world here keeps what is applied as an API server does, and nothing else. Long because the world and
//! the laws that hold whatever else is set stand together.

mod another;
mod identity;
mod restore_test;
mod restoring;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use api::{BackupTarget, ConditionStatus, Reason, TenantCluster};
use backup_format::SealedIdentity;
use backup_format::keys::WrappingKey;
use jiff::{SignedDuration, Timestamp};
use kit_objects::object::Key;
use pki::{Store, Want};
use proptest::prelude::*;
use serde_json::{Value, json};
use tenant_cp::backup::process;
use tenant_cp::certificates::{SecretData, encryption_key};
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
use tenant_cp::{Settings, validate};

use super::identity::{Sealed, next_ms};
use super::plan::{DataKeys, GOES, Make, Observed, Plan, Pod, plan, wrapped_for};
use super::report::{Full, Report, Standing};
use crate::backups::Said;
const NS: &str = "covey-demo-0a1b2c3d00";
const UID: &str = "0a1b2c3d-0011-4000-8000-000000000001";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn cluster(backup: &Value) -> TenantCluster {
    let mut cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "generation": 1,
            "uid": UID },
        "spec": { "version": "1.35.4" },
        "status": {
            "namespace": NS, "etcd": { "members": [] },
            "conditions": [{ "type": "BackupReady", "status": "Unknown", "reason": "BackupStarting", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "network": { "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local" },
        },
    });
    if !backup.is_null() {
        cluster["spec"]["backup"] = backup.clone();
    }
    serde_json::from_value(cluster).unwrap()
}

fn target(place: Value) -> BackupTarget {
    let mut spec = place;
    spec["encryption"] = json!({ "keySecret": "backup-key" });
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget", "spec": spec,
        "metadata": { "name": "main", "uid": "t", "generation": 1 },
    }))
    .unwrap()
}

fn bucket() -> Value {
    json!({ "s3": { "endpoint": "https://s3.example.com:9000", "bucket": "backups", "credentialsSecret": "b" } })
}

/// Authorities and keys of a tenant cluster.
static SECRETS: LazyLock<SecretData> = LazyLock::new(|| {
    let mut secrets: SecretData = AUTHORITIES
        .iter()
        .map(|name| ((*name).to_owned(), authority(name)))
        .collect();
    let (public, private) = pki::issue::key_pair().unwrap();
    let account = [
        ("sa-k1.pub".to_owned(), public.into_bytes()),
        ("sa-k1.key".to_owned(), private.reveal().as_bytes().to_vec()),
    ];
    secrets.insert(SERVICE_ACCOUNT.to_owned(), account.into());
    let key = encryption_key(&[7; 32]).reveal().as_bytes().to_vec();
    secrets.insert(ENCRYPTION.to_owned(), [("k1".to_owned(), key)].into());
    secrets
});

fn authority(name: &str) -> BTreeMap<String, Vec<u8>> {
    let pair = pki::issue(&Want::authority(name, name, 1000), None, at(0)).unwrap();
    let fields = [
        ("ca.crt".to_owned(), pair.certificate.into_bytes()),
        ("ca.key".to_owned(), pair.key.reveal().as_bytes().to_vec()),
    ];
    fields.into()
}

fn etcd_authority() -> Store {
    let text = |field: &str| String::from_utf8(SECRETS["etcd-ca"][field].clone()).unwrap();
    let pair = pki::KeyPair {
        certificate: text("ca.crt"),
        key: pki::Key::new(text("ca.key")),
    };
    Store::from([("etcd-ca".to_owned(), pair)])
}

/// The world of one backup.
struct World {
    observed: Observed,
    settings: Settings,
    now: Timestamp,
    writes: usize,
    seals: usize,
}

impl World {
    fn new(place: Value) -> Self {
        let settings = Settings::default();
        let cluster = Arc::new(cluster(&json!({ "target": "main" })));
        let credentials = process::CREDENTIAL_FIELDS.map(|name| (name.to_owned(), b"x".to_vec()));
        let observed = Observed {
            awaited: None,
            valid: validate::validate(&cluster, &settings).ok(),
            cluster,
            target: Some(Arc::new(target(place))),
            wrapping_key: Some(vec![7; 64]),
            credentials: Some(BTreeMap::from(credentials)),
            objects: BTreeMap::new(),
            store: etcd_authority(),
            secrets: SECRETS.clone(),
            sealed: None,
            keys: None,
            pod: None,
            report: None,
            tests: None,
            may_test: true,
        };
        assert!(observed.valid.is_some());
        Self {
            observed,
            settings,
            now: at(10),
            writes: 0,
            seals: 0,
        }
    }

    fn plan(&self) -> Plan {
        plan(&self.observed, &self.settings, self.now)
    }

    /// One step, as `apply` takes it.
    fn step(&mut self, plan: &Plan) {
        match plan.make {
            Some(Make::Keys) => {
                self.observed.keys = Some(DataKeys {
                    data: vec![1; 32],
                    wrapped: vec![2; 80],
                    wrapped_for: self.wrapped_for(),
                });
            }
            Some(Make::Wrap) => {
                let wanted = self.wrapped_for();
                self.observed.keys.as_mut().unwrap().wrapped_for = wanted;
            }
            Some(Make::Certificate) => {
                let want = process::certificate(&self.settings);
                let wants = std::slice::from_ref(&want);
                let store = &mut self.observed.store;
                let due = pki::plan(wants, store, self.now);
                pki::renew(wants, &due, store, self.now).unwrap();
            }
            Some(Make::Identity) => {
                let wanted = self.observed.identity(self.now).unwrap();
                let sealed_ms = next_ms(self.observed.sealed.as_ref(), self.now);
                let wrapping = self.observed.wrapping_key.as_ref().unwrap();
                let wrapping = WrappingKey::read(wrapping).unwrap();
                let identity = SealedIdentity::seal(&wrapping, UID, sealed_ms, &wanted.text);
                self.observed.sealed = Some(Sealed {
                    identity: identity.unwrap(),
                    keys: wanted.keys,
                    whole: wanted.whole,
                });
                self.seals += 1;
            }
            None => {}
        }
        for object in &plan.apply {
            self.writes += 1;
            let mut live = object.value.clone();
            live["metadata"]["uid"] = json!("u");
            live["metadata"]["creationTimestamp"] = json!(self.now.to_string());
            self.observed.objects.insert(object.key(), live);
        }
        for key in &plan.delete {
            self.writes += 1;
            assert!(self.observed.objects.remove(key).is_some(), "{key}");
        }
    }

    fn wrapped_for(&self) -> String {
        wrapped_for(self.observed.wrapping_key.as_ref().unwrap())
    }

    /// Until nothing is to be done.
    fn settle(&mut self) -> Plan {
        for _ in 0..8 {
            let plan = self.plan();
            if plan.is_settled() {
                return plan;
            }
            self.step(&plan);
        }
        panic!("it does not come to rest: {:?}", self.plan());
    }

    /// The process says so, and that the identity is where it belongs.
    fn says(&mut self, report: Report) {
        let sealed = self.observed.sealed.as_ref();
        let report = Report {
            identity: sealed.map(|sealed| sealed.identity.name().to_string()),
            ..report
        };
        self.observed.pod = Some(Pod {
            since: self.now,
            failure: None,
        });
        self.observed.report = Some(Ok(report));
    }

    fn object(&self, kind: &str, name: &str) -> Option<&Value> {
        self.observed.objects.get(&Key::new(kind, NS, name))
    }
}

fn whole() -> Report {
    let full = Full {
        taken_ms: 1_800_000_050_000,
        ..Full::default()
    };
    Report {
        now_ms: 1_800_000_100_000,
        full: Some(full.clone()),
        verified: Some(full),
        ..Report::default()
    }
}

fn told(plan: &Plan) -> (ConditionStatus, Reason, String) {
    match plan.said.clone() {
        Some(Said::Is {
            value,
            reason,
            message,
            ..
        }) => (value, reason, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn backup_gets_keys_a_certificate_and_a_way_to_etcd_and_to_the_bucket_alone() {
    let mut world = World::new(bucket());
    let plan = world.settle();
    assert_eq!(plan.said, None, "a pod has two minutes to say something");
    let deployment = world.object("Deployment", "backup").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(
        pod["containers"][0]["resources"]["limits"]["memory"],
        "256Mi"
    );
    let args = pod["containers"][0]["args"].as_array().unwrap();
    for arg in [
        "run",
        "--etcd=https://etcd-0:2379",
        "--tenant=0a1b2c3d-0011-4000-8000-000000000001",
        "--delta-ms=10000",
        "--full-seconds=86400",
        "--keep-days=7",
        "--s3-bucket=backups",
        "--identity=/run/covey/identity/identity",
    ] {
        assert!(args.contains(&json!(arg)), "{arg}: {args:?}");
    }
    let policy = &world.object("NetworkPolicy", "backup").unwrap()["spec"];
    let ports: Vec<_> = policy["egress"].as_array().unwrap().iter().collect();
    assert_eq!(ports.len(), 2);
    assert_eq!(ports[1]["ports"][0]["port"], 9000);
    assert!(world.object("Secret", process::CREDENTIALS).is_some());
    let annotations = &world.object("Secret", process::KEYS).unwrap()["metadata"]["annotations"];
    assert_eq!(
        annotations[process::ANNOTATION_WRAPPED_FOR],
        json!(world.wrapped_for())
    );
}

#[test]
fn claim_is_made_in_the_tenant_namespace_and_nothing_leads_out() {
    let mut world = World::new(json!({ "claim": { "size": "20Gi" } }));
    world.observed.credentials = None;
    world.settle();
    let claim = world.object("PersistentVolumeClaim", "backup").unwrap();
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");
    let policy = &world.object("NetworkPolicy", "backup").unwrap()["spec"];
    assert_eq!(policy["egress"].as_array().unwrap().len(), 1);
    assert!(world.object("Secret", process::CREDENTIALS).is_none());
}

#[test]
fn nothing_begins_before_etcd_had_a_leader() {
    let mut world = World::new(bucket());
    Arc::make_mut(&mut world.observed.cluster)
        .status
        .as_mut()
        .unwrap()
        .etcd = None;
    let plan = world.settle();
    assert_eq!(world.writes, 0);
    assert_eq!(told(&plan).1, Reason::BackupStarting);
}

#[test]
fn nothing_is_made_that_would_not_be_found_again_when_it_is_switched_off() {
    let mut world = World::new(bucket());
    let cluster = Arc::make_mut(&mut world.observed.cluster);
    cluster.status.as_mut().unwrap().conditions.clear();
    assert_eq!(world.settle(), Plan::default());
    assert_eq!(world.writes, 0);
}

#[test]
fn age_of_what_waits_decides_and_not_how_much_is_written() {
    let mut world = World::new(bucket());
    world.settle();
    world.says(Report {
        waiting_since_ms: Some(1_800_000_100_000 - 29_000),
        ..whole()
    });
    let plan = world.settle();
    assert_eq!(
        told(&plan),
        (ConditionStatus::True, Reason::BackedUp, String::new())
    );
    let Some(Said::Is {
        verified,
        last_full,
        ..
    }) = plan.said
    else {
        panic!("nothing said")
    };
    assert_eq!((verified, last_full), (Some(at(50)), Some(at(50))));
    world.says(Report {
        trouble: Some(Standing {
            what: "create: no place is left".to_owned(),
            since_ms: 1_800_000_100_000 - 31_000,
        }),
        ..whole()
    });
    let (value, reason, message) = told(&world.settle());
    assert_eq!(
        (value, reason),
        (ConditionStatus::False, Reason::BackupLate)
    );
    assert_eq!(
        message,
        "changes are not in the target: create: no place is left"
    );
    // What is young is not late, and what nobody verified is not said to be whole.
    world.says(Report {
        trouble: Some(Standing {
            what: "list: it is busy".to_owned(),
            since_ms: 1_800_000_099_000,
        }),
        verified: None,
        ..whole()
    });
    assert_eq!(told(&world.settle()).1, Reason::BackupStarting);
}

#[test]
fn process_that_says_nothing_is_told_once_it_is_not_young_or_at_once_where_its_pod_says_why() {
    let mut world = World::new(bucket());
    world.settle();
    world.observed.report = Some(Err("it does not answer".to_owned()));
    world.observed.pod = Some(Pod {
        since: world.now,
        failure: None,
    });
    assert_eq!(world.settle().said, None);
    world.now += SignedDuration::from_secs(121);
    let (value, reason, message) = told(&world.settle());
    assert_eq!(
        (value, reason),
        (ConditionStatus::False, Reason::BackupSilent)
    );
    assert_eq!(message, "it does not answer");
    world.observed.pod = Some(Pod {
        since: world.now,
        failure: Some("pod backup-x: no such image".to_owned()),
    });
    assert_eq!(told(&world.settle()).2, "pod backup-x: no such image");
}

#[test]
fn lost_target_secret_or_authority_takes_nothing_away_that_runs() {
    type Lose = fn(&mut Observed);
    let losses: [(&str, Lose, Reason); 4] = [
        ("target", |o| o.target = None, Reason::TargetMissing),
        (
            "key",
            |o| o.wrapping_key = None,
            Reason::TargetSecretUnusable,
        ),
        (
            "credentials",
            |o| o.credentials = None,
            Reason::TargetSecretUnusable,
        ),
        (
            "authority",
            |o| {
                o.store.remove("etcd-ca");
            },
            Reason::BackupSilent,
        ),
    ];
    for (what, lose, reason) in losses {
        let mut world = World::new(bucket());
        world.settle();
        let (writes, before) = (world.writes, world.observed.objects.clone());
        lose(&mut world.observed);
        let plan = world.settle();
        assert_eq!((world.writes, told(&plan).1), (writes, reason), "{what}");
        assert_eq!(world.observed.objects, before, "{what}");
    }
}

#[test]
fn another_key_to_wrap_with_keeps_the_data_key() {
    let mut world = World::new(bucket());
    world.settle();
    let before = world.object("Secret", process::KEYS).unwrap()["data"]["data-key"].clone();
    world.observed.wrapping_key = Some(vec![8; 64]);
    let plan = world.plan();
    assert_eq!(plan.make, Some(Make::Wrap));
    world.settle();
    let after = world.object("Secret", process::KEYS).unwrap();
    assert_eq!(after["data"]["data-key"], before);
    assert_eq!(
        after["metadata"]["annotations"][process::ANNOTATION_WRAPPED_FOR],
        json!(world.wrapped_for())
    );
}

#[test]
fn switched_off_it_goes_with_its_process_first_and_leaves_claim_and_data_key() {
    let mut world = World::new(json!({ "claim": { "size": "20Gi" } }));
    world.settle();
    Arc::make_mut(&mut world.observed.cluster).spec.backup = None;
    let plan = world.plan();
    assert_eq!(plan.delete.first().unwrap().kind, "Deployment");
    assert_eq!(world.settle().said, Some(Said::Nothing));
    let left: Vec<_> = world
        .observed
        .objects
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(world.object("Secret", process::KEYS).is_some());
    assert!(world.object("PersistentVolumeClaim", "backup").is_some());
}

proptest! {
    #[test]
    fn whatever_is_lost_comes_back_and_then_nothing_is_written(
        lost in proptest::collection::vec(0..8_usize, 0..4), keys in any::<bool>(), is_bucket in any::<bool>(),
    ) {
        let mut world = World::new(if is_bucket { bucket() } else { json!({ "claim": { "size": "1Gi" } }) });
        world.settle();
        let before: Vec<_> = world.observed.objects.keys().cloned().collect();
        for index in lost {
            if let Some(key) = before.get(index % before.len()) {
                world.observed.objects.remove(key);
            }
        }
        if keys {
            world.observed.keys = None;
            world.observed.sealed = None;
        }
        world.settle();
        let after: Vec<_> = world.observed.objects.keys().cloned().collect();
        prop_assert_eq!(&before, &after);
        let writes = world.writes;
        let plan = world.settle();
        prop_assert!(plan.is_settled() && world.writes == writes);
        // Only by the spec's will anything goes.
        prop_assert!(plan.delete.is_empty());
        prop_assert!(after.iter().all(|key| key.namespace == NS));
        let can_go = |key: &Key| GOES.contains(&(key.kind.as_str(), key.name.as_str()));
        prop_assert!(after.iter().filter(|key| !can_go(key)).count() <= 2);
    }
}
