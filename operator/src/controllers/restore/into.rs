//! A TenantCluster that is to become another one, of which there is a backup: whether it may, and what it gets of that one
//! before anything of it starts.
//!
//! What the recovery key opens goes into one Secret of the tenant namespace, at once and once, so there is no moment in
//! which half of it is there. Of a copy that is the data key, and the encryption keys of then below one of its own.
//! Invariant: the recovery key is read where it is needed and goes nowhere; no error has a word of what was opened. A
//! backup of another namespace than the Restore's is nobody's who made the Restore.

use std::collections::BTreeSet;

use api::{BackupTarget, Restore, TenantCluster};
use backup_format::keys::{DataKey, RecoveryKey};
use backup_format::{Name, Scope, SealedIdentity, object};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt as _};
use tenant_cp::backup::identity::{self, Identity};
use tenant_cp::backup::source;
use tenant_cp::{Settings, certificates, validate};

use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::controllers::tenant_backup::observe::newest_pod;
use crate::controllers::tenant_backup::report::{self, Sealed};
use crate::restoring::begin::{self, short};
use crate::restoring::into::{Facts, Source, Verdict, Way, decide};

/// Field of the recovery key's Secret.
pub const RECOVERY_KEY: &str = "recovery-key";

/// How it stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Into {
    /// It is not known yet; why, for people.
    Waits(String),
    /// Not before people change something.
    Refused(String),
    /// It has what it needs of the tenant cluster of then.
    Ready,
}

impl Into {
    fn waits(why: &str) -> Self {
        Self::Waits(why.to_owned())
    }
}

/// Looks, and gives the TenantCluster what it gets of the one of then where it may have it.
///
/// # Errors
/// [`Error`]; what could not be read is not known.
pub async fn reconcile(
    ctx: &Context,
    restore: &Restore,
    cluster: &TenantCluster,
    uid: &str,
) -> Result<Into, Error> {
    let settings = ctx.reserved_ranges.settings();
    let Some(inside) = cluster.status.as_ref().and_then(|s| s.namespace.clone()) else {
        return Ok(Into::waits("the TenantCluster has no namespace yet"));
    };
    let named = cluster.spec.backup.as_ref().map(|backup| &backup.target);
    let target = named.and_then(|name| ctx.stores.targets.get(&ObjectRef::new(name)));
    let Some(target) = target else {
        return Ok(Into::waits("there is no BackupTarget of its name"));
    };
    if target.spec.s3.is_none() {
        let why = "its target is a claim, and the claim of then went with its tenant cluster: only what is in a bucket is there for another one";
        return Ok(Into::Refused(why.to_owned()));
    }
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), &inside);
    let there = secrets.get_opt(source::SOURCE).await;
    if let Some(there) = there.map_err(|error| read("what it has of the one of then", error))? {
        let of = there.annotations().get(source::ANNOTATION_SOURCE);
        return Ok(match of.map(String::as_str) == Some(uid) {
            true => Into::Ready,
            false => Into::Refused(format!(
                "it has authorities and keys of TenantCluster {} already: make another TenantCluster for this one",
                of.map_or("another UID", String::as_str)
            )),
        });
    }
    let recovery = match recovery_key(ctx, &target, &settings).await? {
        Ok(recovery) => recovery,
        Err(why) => return Ok(Into::Refused(why)),
    };
    let pod = newest_pod(ctx, &inside).await?;
    let Some(address) = pod.and_then(|(_, address)| address) else {
        return Ok(Into::waits(
            "the process that reads the backup has no pod that runs",
        ));
    };
    let id = begin::source(restore, cluster)
        .map(short)
        .unwrap_or_default();
    let sealed = match report::ask_identity(address, id).await {
        Ok(Some(sealed)) => sealed,
        Ok(None) => {
            let why =
                format!("the target has no identity of TenantCluster {uid} and etcd cluster {id}");
            return Ok(Into::Refused(why));
        }
        Err(why) => {
            tracing::info!(restore.name = restore.name_any(), why, "no identity yet");
            return Ok(Into::waits(
                "the process that reads the backup does not answer",
            ));
        }
    };
    let scope = u64::from_str_radix(id, 16).ok();
    let scope = scope.and_then(|cluster| Scope::new(uid, cluster));
    let now = Timestamp::now();
    let opened = scope.and_then(|scope| open(&recovery, &scope, &sealed, now));
    let Some((key, its)) = opened else {
        let why = "the recovery key does not open what is in the target, or that is no identity";
        return Ok(Into::Refused(why.to_owned()));
    };
    let is_there = ctx.stores.clusters.state();
    let is_there = is_there.iter().any(|other| other.identity_uid() == uid);
    let known = settings.encryption.kms.iter();
    let known = known.map(|plugin| plugin.name.clone()).collect();
    match judge(restore, cluster, &its, (is_there, known)) {
        Verdict::Waits(what) => return Ok(Into::Waits(format!("it is not known {what}"))),
        Verdict::Refused(why) => return Ok(Into::Refused(why)),
        Verdict::Go(_) => {}
    }
    let Ok(valid) = validate::validate(cluster, &settings) else {
        return Ok(Into::waits("its spec is refused"));
    };
    let carried = match begin::way(cluster) {
        Way::Move => identity::to_carry(&its.secrets),
        Way::Copy => {
            let own = pki::issue::random_bytes().map_err(|e| Error::Make(e.to_string()))?;
            let own = certificates::encryption_key(&own);
            identity::to_carry(&identity::of_copy(&its.secrets, &own))
        }
    };
    let wanted = source::secret(&valid, uid, key.reveal(), &carried);
    let wanted = source::saying_what_was_encrypted(wanted, &its.cluster);
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let unmade = |error: kube::Error| Error::Create(Box::new(error));
    let wanted = serde_json::from_value(wanted.value);
    let wanted = wanted.map_err(|error| unmade(kube::Error::SerdeError(error)))?;
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    // Never over another one, of which we may not know yet.
    secrets.create(&params, &wanted).await.map_err(unmade)?;
    Ok(Into::Ready)
}

/// The recovery key, or why there is none.
async fn recovery_key(
    ctx: &Context,
    target: &BackupTarget,
    settings: &Settings,
) -> Result<Result<RecoveryKey, String>, Error> {
    let Some(name) = &target.spec.encryption.recovery_secret else {
        return Ok(Err(format!(
            "BackupTarget {} names no recovery key (encryption.recoverySecret)",
            target.name_any()
        )));
    };
    let namespace = &settings.operator_namespace;
    let secrets = Api::<Secret>::namespaced(ctx.client.clone(), namespace);
    let found = secrets.get_opt(name).await;
    let found = found.map_err(|error| read("the Secret of the recovery key", error))?;
    let text = found.and_then(|secret| secret.data?.remove(RECOVERY_KEY));
    let text = text.and_then(|text| String::from_utf8(text.0).ok());
    let key = text.and_then(|text| RecoveryKey::read(text.trim()).ok());
    Ok(key.ok_or_else(|| {
        format!(
            "Secret {namespace}/{name} is missing, or its field {RECOVERY_KEY} is no recovery key"
        )
    }))
}

/// What was sealed, with the data key of its object. None of what is none, or is somebody else's.
fn open(
    recovery: &RecoveryKey,
    scope: &Scope,
    sealed: &Sealed,
    now: Timestamp,
) -> Option<(DataKey, Identity)> {
    let name: Name = sealed.name.parse().ok()?;
    let Name::Identity(of) = name else {
        return None;
    };
    let object = object::open(name, scope, &sealed.object).ok()?;
    let key = object.data_key(recovery).ok()?;
    let inner = SealedIdentity::read(&object.content(&key).ok()?)?;
    let inner = Some(inner).filter(|inner| inner.name() == of)?;
    let document = inner.open(recovery, &scope.tenant).ok()?;
    let its = identity::read(&document, now).ok()?;
    let is_its = its.cluster.identity_uid() == scope.tenant.as_str();
    is_its.then_some((key, its))
}

/// Whether it may become the one of then. `is_there`: whether there is a TenantCluster of that UID.
fn judge(
    restore: &Restore,
    cluster: &TenantCluster,
    its: &Identity,
    (is_there, known_kms): (bool, BTreeSet<String>),
) -> Verdict {
    if its.cluster.metadata.namespace != restore.metadata.namespace {
        return Verdict::Refused("it was of another namespace".to_owned());
    }
    let status = cluster.status.as_ref();
    let Some(network) = status.and_then(|status| status.network.clone()) else {
        return Verdict::Waits("which addresses the TenantCluster has");
    };
    let before = its.cluster.status.as_ref();
    let version = before.and_then(|status| status.version.as_deref());
    let version = version.unwrap_or(&its.cluster.spec.version);
    decide(&Facts {
        source: match is_there {
            true => Source::Lives,
            false => Source::Gone,
        },
        its_network: before.and_then(|status| status.network.clone()),
        network,
        its_minor: minor(version),
        minor: minor(&cluster.spec.version).unwrap_or_default(),
        // An identity is whole or there is none.
        has_keys: Some(true),
        kms: source::needed_kms(&its.cluster)
            .into_iter()
            .map(|kms| kms.name)
            .collect(),
        known_kms,
        way: begin::way(cluster),
    })
}

fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn read(what: &'static str, source: kube::Error) -> Error {
    Error::Read {
        what,
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use backup_format::keys::Keys;
    use backup_format::{Header, Kind};
    use pki::Want;
    use serde_json::json;
    use tenant_cp::certificates::{SecretData, encryption_key};
    use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};

    use super::*;

    const UID: &str = "0a1b2c3d-0011-4000-8000-000000000001";
    const ETCD: u64 = 0xcdf8_1819_4e3a_8c32;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn cluster(uid: &str) -> TenantCluster {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "namespace": "team-a", "uid": uid },
            "spec": { "version": "1.35.4" },
            "status": { "version": "1.35.4", "network": { "podCIDR": "10.128.0.0/18",
                "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local" } },
        }))
        .unwrap()
    }

    fn secrets() -> SecretData {
        let authority = |name: &&str| {
            let pair = pki::issue(&Want::authority(name, name, 1000), None, now()).unwrap();
            let key = pair.key.reveal().as_bytes().to_vec();
            let fields = [("ca.crt", pair.certificate.into_bytes()), ("ca.key", key)];
            let fields = fields.map(|(field, value)| (field.to_owned(), value));
            ((*name).to_owned(), BTreeMap::from(fields))
        };
        let mut secrets: SecretData = AUTHORITIES.iter().map(authority).collect();
        let (public, private) = pki::issue::key_pair().unwrap();
        let account = [
            ("sa-k1.pub".to_owned(), public.into_bytes()),
            ("sa-k1.key".to_owned(), private.reveal().as_bytes().to_vec()),
        ];
        secrets.insert(SERVICE_ACCOUNT.to_owned(), account.into());
        let key = encryption_key(&[7; 32]).reveal().as_bytes().to_vec();
        secrets.insert(ENCRYPTION.to_owned(), [("k1".to_owned(), key)].into());
        secrets
    }

    /// As the process that backs up writes it.
    fn sealed(recovery: &RecoveryKey, of: &str, folder: &str) -> Sealed {
        let scope = Scope::new(folder, ETCD).unwrap();
        let wrapping = recovery.wrapping_key();
        let keys = Keys::generate(&wrapping, &scope).unwrap();
        let document = identity::document(&cluster(of), &secrets(), now()).unwrap();
        let inner = SealedIdentity::seal(&wrapping, folder, 7, &document.text).unwrap();
        let header = Header {
            scope,
            kind: Kind::Identity(inner.name()),
            previous: None,
            written_ms: 1,
            writer: "w".to_owned(),
            etcd: String::new(),
            kubernetes: String::new(),
        };
        Sealed {
            name: Name::Identity(inner.name()).to_string(),
            object: object::seal(&header, &keys, [1; 32], inner.bytes()).unwrap(),
        }
    }

    #[test]
    fn identity_is_opened_by_the_recovery_key_alone_and_only_where_it_is_of_whom_it_says() {
        let recovery = RecoveryKey::generate().unwrap();
        let scope = Scope::new(UID, ETCD).unwrap();
        let good = sealed(&recovery, UID, UID);
        let (_, its) = open(&recovery, &scope, &good, now()).unwrap();
        assert_eq!(its.cluster.metadata.uid.as_deref(), Some(UID));
        assert!(its.secrets.contains_key("ca") && its.secrets.contains_key(ENCRYPTION));

        let none = |recovery: &RecoveryKey, scope: &Scope, sealed: &Sealed| {
            assert!(open(recovery, scope, sealed, now()).is_none());
        };
        none(&RecoveryKey::generate().unwrap(), &scope, &good);
        none(&recovery, &Scope::new("other", ETCD).unwrap(), &good);
        none(&recovery, &Scope::new(UID, ETCD + 1).unwrap(), &good);
        // Of another one, in this one's folder.
        none(&recovery, &scope, &sealed(&recovery, "other", UID));
        for at in [9, 200, good.object.len() - 40] {
            let mut spoilt = good.clone();
            spoilt.object[at] ^= 1;
            none(&recovery, &scope, &spoilt);
        }
        for name in ["", "head", "identity/000000000000007-00", "../x"] {
            let name = name.to_owned();
            none(
                &recovery,
                &scope,
                &Sealed {
                    name,
                    ..good.clone()
                },
            );
        }
    }

    #[test]
    fn backup_of_another_namespace_is_nobodys_and_one_that_is_there_does_not_become_another() {
        let restore = |namespace: &str| -> Restore {
            serde_json::from_value(json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
                "metadata": { "name": "back", "namespace": namespace },
                "spec": { "clusterName": "demo" },
            }))
            .unwrap()
        };
        let its = Identity {
            cluster: cluster(UID),
            secrets: secrets(),
        };
        let into = cluster("new");
        let go = judge(&restore("team-a"), &into, &its, (false, BTreeSet::new()));
        assert_eq!(go, Verdict::Go(Way::Move));
        let refused =
            |verdict: Verdict| assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        refused(judge(
            &restore("team-b"),
            &into,
            &its,
            (false, BTreeSet::new()),
        ));
        refused(judge(
            &restore("team-a"),
            &into,
            &its,
            (true, BTreeSet::new()),
        ));
        // A copy is one whether or not the other one is there, and never of another namespace.
        let mut copy = into.clone();
        copy.spec.etcd.copy_of = Some(UID.to_owned());
        for is_there in [true, false] {
            let go = judge(&restore("team-a"), &copy, &its, (is_there, BTreeSet::new()));
            assert_eq!(go, Verdict::Go(Way::Copy));
            refused(judge(
                &restore("team-b"),
                &copy,
                &its,
                (is_there, BTreeSet::new()),
            ));
        }
        let mut older = into.clone();
        older.spec.version = "1.34.0".to_owned();
        refused(judge(
            &restore("team-a"),
            &older,
            &its,
            (false, BTreeSet::new()),
        ));
        let mut elsewhere = into.clone();
        let network = elsewhere.status.as_mut().unwrap().network.as_mut().unwrap();
        network.pod_cidr = "10.129.0.0/18".to_owned();
        refused(judge(
            &restore("team-a"),
            &elsewhere,
            &its,
            (false, BTreeSet::new()),
        ));
        let mut unknown = into;
        unknown.status = None;
        let waits = judge(&restore("team-a"), &unknown, &its, (false, BTreeSet::new()));
        assert!(matches!(waits, Verdict::Waits(_)), "{waits:?}");
    }
}
