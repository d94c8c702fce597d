//! What is to be done for the backup of one TenantCluster, and what is said of it. No I/O, no clock, no chance.
//!
//! Invariant: planning again after applying yields nothing. A target, a Secret or an authority that is not there takes
//! nothing away that runs. Keys are made once, and wrapped anew where the target's key is another one.
//! Long because what is said of a backup follows from everything that was looked at for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::tenant_cluster::Backup;
use api::{BackupTarget, ConditionStatus, Reason, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kit_objects::difference::difference;
use kit_objects::object::{Key, Object};
use pki::{KeyPair, Store};
use serde_json::Value;
use tenant_cp::backup::identity::Document;
use tenant_cp::backup::process::{self, Secrets};
use tenant_cp::backup::restore_test::job;
use tenant_cp::backup::source;
use tenant_cp::certificates::SecretData;
use tenant_cp::{Settings, Validated, generations};

use super::identity::{self, Sealed, Standing, Unsealable};
use super::report::{Report, to_the_second};
use super::restore_test;
use crate::backups::{Said, is_told};
use crate::hibernation;
use crate::restoring::begin::holds_backup;
use crate::status::one_line;

/// How soon it is looked again while nothing was found whole yet, or the process is silent.
const SOON: SignedDuration = SignedDuration::from_secs(10);
/// How soon afterwards: nobody tells that a backup is late.
const LATER: SignedDuration = SignedDuration::from_secs(60);
/// How long a process may take until it says something.
const YOUNG: SignedDuration = SignedDuration::from_secs(120);
/// Most bytes of what the process or its pod says.
const MOST: usize = 500;
/// What is late by less than this besides is not: a store needs some time for an object.
const MARGIN_MS: u64 = 10_000;

/// Kinds and names of what goes when no backup is wanted any more, in this order. Claim and data key stay: without
/// them there would be no backup left.
pub const GOES: [(&str, &str); 8] = [
    ("Deployment", process::BACKUP),
    ("NetworkPolicy", process::BACKUP),
    ("NetworkPolicy", process::TO_ETCD),
    ("ServiceAccount", process::BACKUP),
    ("Secret", process::CREDENTIALS),
    ("Secret", process::CERTIFICATE),
    ("Secret", process::IDENTITY),
    ("Secret", source::SOURCE),
];

/// What was seen. It is not printed: it has keys.
#[derive(Clone)]
pub struct Observed {
    /// The TenantCluster.
    pub cluster: Arc<TenantCluster>,
    /// As it is planned with; none where its spec is refused.
    pub valid: Option<Validated>,
    /// The target that it names.
    pub target: Option<Arc<BackupTarget>>,
    /// Fields of the target's Secrets: its key, and its credentials; none where there is no such Secret.
    pub wrapping_key: Option<Vec<u8>>,
    /// As above; of a bucket alone.
    pub credentials: Option<BTreeMap<String, Vec<u8>>>,
    /// Live objects of the backup in the tenant namespace.
    pub objects: BTreeMap<Key, Value>,
    /// Every generation of etcd's authority, and the client certificate.
    pub store: Store,
    /// The Secrets that are the tenant cluster's identity.
    pub secrets: SecretData,
    /// That, sealed: read from the Secret, or made just now.
    pub sealed: Option<Sealed>,
    /// The data key, and what it is wrapped for: read from the Secret, or made just now.
    pub keys: Option<DataKeys>,
    /// Newest pod of the process: since when it is there, and why it does not run.
    pub pod: Option<Pod>,
    /// UID and etcd cluster of the TenantCluster whose backup is read, where this one awaits it.
    pub awaited: Option<(String, String)>,
    /// What the process says; none where it was not asked.
    pub report: Option<Result<Report, String>>,
    /// Pods of tests of a restore; none where it was not looked for them and their Jobs.
    pub tests: Option<Vec<Value>>,
    /// Whether one more may be tested.
    pub may_test: bool,
}

impl Observed {
    /// The tenant cluster's identity as it is to be sealed.
    ///
    /// # Errors
    /// [`Unsealable`].
    pub fn identity(&self, now: Timestamp) -> Result<Document, Unsealable> {
        let wrapping = self.wrapping_key.as_deref().unwrap_or_default();
        identity::wanted(&self.cluster, &self.secrets, &wrapped_for(wrapping), now)
    }

    /// Generations of encryption keys that the target has for certain; none where that is not known.
    #[must_use]
    pub fn saved_keys(&self, now: Timestamp) -> Option<BTreeSet<u32>> {
        let report = self.report.as_ref();
        let report = report.and_then(|report| report.as_ref().ok());
        let sealed = self.sealed.as_ref();
        identity::saved_keys(&self.identity(now), sealed, report, &self.secrets)
    }
}

/// A data key, wrapped. It is not printed.
#[derive(Clone, Eq, PartialEq)]
pub struct DataKeys {
    /// 32 bytes.
    pub data: Vec<u8>,
    /// 80 bytes.
    pub wrapped: Vec<u8>,
    /// Hash of what it is wrapped for.
    pub wrapped_for: String,
}

/// A pod of the process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pod {
    /// Since when it is there.
    pub since: Timestamp,
    /// Why it does not run.
    pub failure: Option<String>,
}

/// What has to be made by chance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Make {
    /// A data key, and wrap it.
    Keys,
    /// The same data key, wrapped for another key.
    Wrap,
    /// The client certificate.
    Certificate,
    /// The identity, sealed.
    Identity,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Made in memory; the next plan writes it.
    pub make: Option<Make>,
    /// Objects that are written, one after the other.
    pub apply: Vec<Object>,
    /// Objects that go, one after the other.
    pub delete: Vec<Key>,
    /// What is said, once nothing is to be done; none: as it was.
    pub said: Option<Said>,
    /// When to look again.
    pub again: Option<SignedDuration>,
    /// Whether a restore is tested.
    pub tests: bool,
}

impl Plan {
    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.make.is_none() && self.apply.is_empty() && self.delete.is_empty()
    }

    fn told(value: ConditionStatus, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            said: Some(is(value, reason, message.into(), None)),
            again: Some(LATER),
            ..Self::default()
        }
    }
}

fn is(value: ConditionStatus, reason: Reason, message: String, report: Option<&Report>) -> Said {
    let at = |full: Option<&super::report::Full>| to_the_second(full?.taken_ms);
    Said::Is {
        value,
        reason,
        message,
        last_full: at(report.and_then(|report| report.full.as_ref())),
        verified: at(report.and_then(|report| report.verified.as_ref())),
        restore_test: None,
    }
}

/// Decides.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let Some(backup) = &observed.cluster.spec.backup else {
        return switched_off(observed);
    };
    if let Some(plan) = spent(observed) {
        return plan;
    }
    let delete = restore_test::in_the_way(&observed.cluster, observed.objects.keys());
    if !delete.is_empty() {
        return Plan {
            delete,
            ..Plan::default()
        };
    }
    let Some(valid) = &observed.valid else {
        // Why is said elsewhere, and what runs keeps running.
        return Plan {
            again: Some(LATER),
            ..Plan::default()
        };
    };
    if !is_told(&observed.cluster) {
        // It is about to be said, which wakes this; until then nothing is made that nobody would find again.
        return Plan::default();
    }
    let Some(target) = &observed.target else {
        let message = format!("there is no BackupTarget {}", backup.target);
        return Plan::told(ConditionStatus::False, Reason::TargetMissing, message);
    };
    let has_begun = observed.cluster.status.as_ref();
    if has_begun.is_none_or(|status| status.etcd.is_none()) {
        if let Some(plan) = reading(observed, valid, target, settings) {
            return plan;
        }
        let message = "it begins when etcd has had a leader";
        let unknown = ConditionStatus::Unknown;
        return Plan::told(unknown, Reason::BackupStarting, message);
    }
    match secrets(observed, target, settings, now) {
        Err(Lack::Secret(message)) => {
            let reason = Reason::TargetSecretUnusable;
            Plan::told(ConditionStatus::False, reason, message)
        }
        Err(Lack::Authority) => {
            let message = "etcd's authority is not there, so it gets no certificate";
            Plan::told(ConditionStatus::False, Reason::BackupSilent, message)
        }
        Err(Lack::Make(make)) => Plan {
            make: Some(make),
            ..Plan::default()
        },
        Ok(secrets) => {
            let mut wanted = process::base(valid, target, &secrets, settings);
            let mut deployment = process::deployment(valid, backup, target, &secrets, settings);
            let sleeps = hibernation::holds_backup(&observed.cluster);
            let is_held = sleeps || holds_backup(&observed.cluster);
            if is_held {
                // Hashes stay those of what is wanted: its template is the same.
                deployment.value["spec"]["replicas"] = 0.into();
            }
            wanted.push(deployment);
            wanted.retain(|object| {
                let live = observed.objects.get(&object.key());
                live.is_none_or(|live| difference(&object.value, live).is_some())
            });
            match wanted.is_empty() {
                true if sleeps => {
                    let message = "it goes on when the tenant cluster wakes";
                    Plan::told(ConditionStatus::Unknown, Reason::Hibernated, message)
                }
                true if is_held => {
                    let message = "it goes on when the tenant cluster is restored";
                    Plan::told(ConditionStatus::Unknown, Reason::Restoring, message)
                }
                true => looked_at(observed, backup, (valid, target), settings, now),
                false => Plan {
                    apply: wanted,
                    ..Plan::default()
                },
            }
        }
    }
}

/// What reads the backup of the TenantCluster that this one becomes; none where nothing of it is to be written.
fn reading(
    observed: &Observed,
    valid: &Validated,
    target: &BackupTarget,
    settings: &Settings,
) -> Option<Plan> {
    let (source, _) = observed.awaited.as_ref()?;
    let credentials = observed.credentials.as_ref()?;
    let ns = valid.tenant_namespace.as_str();
    let has_key = observed
        .objects
        .contains_key(&Key::new("Secret", ns, source::SOURCE));
    let mut wanted = source::reader(valid, target, credentials, (source, has_key), settings);
    if holds_backup(&observed.cluster) {
        for object in wanted
            .iter_mut()
            .filter(|object| object.kind == "Deployment")
        {
            object.value["spec"]["replicas"] = 0.into();
        }
    }
    wanted.retain(|object| {
        let live = observed.objects.get(&object.key());
        live.is_none_or(|live| difference(&object.value, live).is_some())
    });
    (!wanted.is_empty()).then(|| Plan {
        apply: wanted,
        ..Plan::default()
    })
}

/// What it had of another TenantCluster that it became, once that is over.
fn spent(observed: &Observed) -> Option<Plan> {
    let status = observed.cluster.status.as_ref()?;
    let is_over = status.etcd.is_some() && status.restore.is_none();
    let mut keys = observed.objects.keys();
    let secret = keys.find(|key| key.kind == "Secret" && key.name == source::SOURCE)?;
    is_over.then(|| Plan {
        delete: vec![secret.clone()],
        ..Plan::default()
    })
}

fn switched_off(observed: &Observed) -> Plan {
    let goes = |key: &&Key| GOES.contains(&(key.kind.as_str(), key.name.as_str()));
    let named = observed.objects.keys().filter(goes);
    let tests = restore_test::jobs(observed.objects.keys());
    let delete: Vec<_> = tests.chain(named).cloned().collect();
    let place = |key: &Key| {
        let mut all = GOES.iter();
        all.position(|(kind, name)| *kind == key.kind && *name == key.name)
    };
    let mut delete = delete;
    delete.sort_by_key(place);
    Plan {
        said: delete.is_empty().then_some(Said::Nothing),
        delete,
        ..Plan::default()
    }
}

/// What is not there.
enum Lack {
    Secret(String),
    Authority,
    Make(Make),
}

fn secrets(
    observed: &Observed,
    target: &BackupTarget,
    settings: &Settings,
    now: Timestamp,
) -> Result<Secrets, Lack> {
    let namespace = &settings.operator_namespace;
    let key_secret = &target.spec.encryption.key_secret;
    let wrapping = observed.wrapping_key.as_ref().ok_or_else(|| {
        Lack::Secret(format!(
            "Secret {namespace}/{key_secret} is missing, or has no field {} of 64 bytes",
            process::WRAPPING_KEY
        ))
    })?;
    let credentials = match &target.spec.s3 {
        None => None,
        Some(s3) => Some(observed.credentials.clone().ok_or_else(|| {
            let [id, key] = process::CREDENTIAL_FIELDS;
            let name = &s3.credentials_secret;
            let lacks = "is missing, or has not both fields";
            Lack::Secret(format!("Secret {namespace}/{name} {lacks} {id} and {key}"))
        })?),
    };
    let wanted_for = wrapped_for(wrapping);
    let keys = match &observed.keys {
        None => return Err(Lack::Make(Make::Keys)),
        Some(keys) if keys.wrapped_for != wanted_for => return Err(Lack::Make(Make::Wrap)),
        Some(keys) => keys,
    };
    let store = &observed.store;
    let authority = generations::bundle(store, tenant_cp::names::ETCD_CA).ok_or(Lack::Authority)?;
    let want = process::certificate(settings);
    if !pki::plan(std::slice::from_ref(&want), store, now).is_empty() {
        return Err(Lack::Make(Make::Certificate));
    }
    let certificate: KeyPair = store.get(&want.name).cloned().ok_or(Lack::Authority)?;
    let (sealed, report) = (observed.sealed.as_ref(), observed.report.as_ref());
    let report = report.and_then(|report| report.as_ref().ok());
    if identity::is_due(&observed.identity(now), sealed, report, now) {
        return Err(Lack::Make(Make::Identity));
    }
    Ok(Secrets {
        data_key: keys.data.clone(),
        wrapped_key: keys.wrapped.clone(),
        wrapped_for: keys.wrapped_for.clone(),
        certificate,
        authority,
        credentials,
        identity: sealed.map(Sealed::for_a_secret),
    })
}

/// Which key a wrapped key is for, without saying it.
#[must_use]
pub fn wrapped_for(wrapping_key: &[u8]) -> String {
    kit_objects::object::hash(&serde_json::json!([
        "covey backup wrapping key",
        wrapping_key
    ]))
}

/// Everything is in place: what the process says.
fn looked_at(
    observed: &Observed,
    backup: &Backup,
    (valid, target): (&Validated, &BackupTarget),
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    let report = match &observed.report {
        Some(Ok(report)) => report,
        Some(Err(why)) => return silent(observed, why, now),
        None => return silent(observed, "it has no pod that runs", now),
    };
    let since = [
        report.waiting_since_ms,
        report.trouble.as_ref().map(|trouble| trouble.since_ms),
    ];
    let waits = since
        .into_iter()
        .flatten()
        .map(|since| report.now_ms.saturating_sub(since))
        .max();
    let delta = backup.delta.get().unwrap_or_default().as_millis();
    let delta = u64::try_from(delta).unwrap_or(u64::MAX);
    let allowed = delta.saturating_mul(2).saturating_add(MARGIN_MS);
    let is_late = waits.is_some_and(|waits| waits > allowed);
    let seen = (&observed.objects, observed.tests.as_deref());
    let standing = restore_test::standing(&observed.cluster, report, seen, now);
    if let (restore_test::Standing::Due, Some(cluster_id)) = (&standing, &report.cluster)
        && observed.may_test
    {
        let least = report.verified.as_ref().map_or(0, |full| full.revision);
        let (of, after) = (
            (&**cluster_id, least),
            restore_test::after(&observed.cluster),
        );
        return Plan {
            apply: vec![job(valid, target, of, after, settings)],
            ..Plan::default()
        };
    }
    let (tests, newest) = match standing {
        restore_test::Standing::Runs => (true, None),
        restore_test::Standing::Over(test) => (false, Some(test)),
        restore_test::Standing::Rests | restore_test::Standing::Due => (false, None),
    };
    let (identity, sealed) = (observed.identity(now), observed.sealed.as_ref());
    let (value, reason, message) = match identity::standing(&identity, sealed, report, now) {
        _ if is_late => {
            let why = match &report.trouble {
                Some(trouble) => format!(": {}", one_line(&trouble.what, MOST)),
                None => ", and the process does not say why".to_owned(),
            };
            let message = format!("changes are not in the target{why}");
            (ConditionStatus::False, Reason::BackupLate, message)
        }
        Standing::Late(message) => (ConditionStatus::False, Reason::BackupLate, message),
        Standing::There if report.verified.is_some() => {
            let failed = restore_test::told(&observed.cluster, newest.as_ref());
            failed.unwrap_or((ConditionStatus::True, Reason::BackedUp, String::new()))
        }
        standing => {
            let what = match standing == Standing::Awaited && report.verified.is_some() {
                true => "authorities, keys and addresses are not in the target yet",
                false => "nothing was found whole in the target yet",
            };
            let starting = Reason::BackupStarting;
            (ConditionStatus::Unknown, starting, what.to_owned())
        }
    };
    // Whoever turns keys waits for it.
    let lacks = identity.is_ok() && observed.saved_keys(now).is_none();
    let is_awaited = value == ConditionStatus::Unknown || (value == ConditionStatus::True && lacks);
    let again = if is_awaited || tests { SOON } else { LATER };
    let mut said = is(value, reason, message, Some(report));
    if let Said::Is { restore_test, .. } = &mut said {
        *restore_test = newest;
    }
    Plan {
        said: Some(said),
        again: Some(again),
        tests,
        ..Plan::default()
    }
}

fn silent(observed: &Observed, why: &str, now: Timestamp) -> Plan {
    let failure = observed.pod.as_ref().and_then(|pod| pod.failure.clone());
    let deployment = observed
        .objects
        .iter()
        .find(|(key, _)| key.kind == "Deployment" && key.name == process::BACKUP);
    let made = deployment.and_then(|(_, live)| {
        let created = live.pointer("/metadata/creationTimestamp")?;
        created.as_str()?.parse::<Timestamp>().ok()
    });
    let since = observed.pod.as_ref().map(|pod| pod.since).or(made);
    let is_young = since.is_some_and(|since| now.duration_since(since) < YOUNG);
    let said = match (failure, is_young) {
        (Some(failure), _) => Some(is(
            ConditionStatus::False,
            Reason::BackupSilent,
            failure,
            None,
        )),
        (None, true) => None,
        (None, false) => Some(is(
            ConditionStatus::False,
            Reason::BackupSilent,
            one_line(why, MOST),
            None,
        )),
    };
    Plan {
        said,
        again: Some(SOON),
        ..Plan::default()
    }
}
