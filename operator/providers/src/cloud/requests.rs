//! From Machines and ProviderConfigs to what is asked for. Pure: no I/O, no clock, no chance.
//!
//! Invariant: all that is looked up (size, image, account) is looked up once, for `status.request`; what is asked later
//! comes from there.

use std::collections::BTreeSet;

use api::condition::is_true;
use api::machine::MachineRequest;
use api::node_pool::{CloudMachines, ProviderKind};
use api::{ConditionType, Machine, ProviderConfig, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::Cloud;
use crate::fault::FaultKind;
use crate::identity::Owner;
use crate::refused::Refused;
use crate::subject::{Asked, Subject};

/// Code of ours: the credentials are of another account than machines were made in.
pub const OTHER_ACCOUNT: &str = "other_project";
/// Code of ours: the ProviderConfig, or the Secret that it names, is not there, is not let be read or has no credentials.
pub const NO_CREDENTIALS: &str = "no_credentials";
/// Code of ours: the platform does not let the ProviderConfig use what it names.
pub const NOT_ALLOWED: &str = "not_allowed";
/// Code of ours: nobody has checked the ProviderConfig yet, so its account is not known.
const NOT_CHECKED: &str = "not_checked";
/// Code of ours: the ProviderConfig is not kept for Machines yet.
const NOT_KEPT: &str = "not_kept";
/// Code of ours: the ProviderConfig is being deleted.
const CONFIG_GOES: &str = "provider_config_is_deleted";
/// Code of ours: the ProviderConfig's credentials were refused when they were checked last.
const REFUSED: &str = "credentials_refused";
/// Code of ours: there is no image for the version.
const NO_IMAGE: &str = "no_image";

/// The account that a ProviderConfig was found to be of.
#[must_use]
pub fn account(config: &ProviderConfig) -> Option<&str> {
    config.status.as_ref()?.account.as_deref()
}

/// Whose a Machine's machine is.
#[must_use]
pub fn owner(machine: &Machine, installation: &str) -> Owner {
    Owner {
        installation: installation.to_owned(),
        tenant: machine.spec.cluster_uid.clone(),
        namespace: machine.tenant_namespace(),
        pool: machine.spec.pool_name.clone(),
        machine: machine.name_any(),
        uid: machine.uid().unwrap_or_default(),
    }
}

/// A Machine to be looked at.
#[must_use]
pub fn subject<C: Cloud>(machine: &Machine, installation: &str) -> Subject {
    subject_of(machine, installation, C::instance(machine))
}

fn subject_of(machine: &Machine, installation: &str, instance: Option<u64>) -> Subject {
    let status = machine.status.clone().unwrap_or_default();
    let deleted = machine.metadata.deletion_timestamp.as_ref();
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|c| c.type_ == ConditionType::NodeReady.as_str());
    Subject {
        owner: owner(machine, installation),
        asked: match (&status.request, &status.creation_pending_since) {
            (None, _) => Asked::Never,
            (Some(_), None) => Asked::Seen,
            (Some(_), Some(_)) => Asked::Pending {
                deleted: deleted.map(|deleted| deleted.0),
            },
        },
        instance,
        is_going: deleted.is_some(),
        node_ready: ready.and_then(|c| match c.status.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }),
    }
}

/// What is asked for of a Machine. `exhausted`: sizes of which nothing was left lately.
///
/// # Errors
/// When the ProviderConfig was not checked yet, lets nobody in, is not kept for Machines yet or goes, or there is no image.
pub fn request(
    machine: &Machine,
    wanted: &CloudMachines<'_>,
    config: &ProviderConfig,
    exhausted: &BTreeSet<String>,
) -> Result<MachineRequest, Refused> {
    let (name, field) = (config.name_any(), wanted.kind.as_str());
    let refused = |kind, code: &str, why: &str| own(wanted.kind, &name, kind, code, why);
    let account = account(config).ok_or_else(|| Refused {
        mend: Some(format!(
            "its condition Ready says why it is not: kubectl describe providerconfig {name}"
        )),
        // It goes away by itself where it was made a moment ago.
        ..refused(FaultKind::NotFound, NOT_CHECKED, "it is not Ready yet")
    })?;
    if config.metadata.deletion_timestamp.is_some() {
        return Err(Refused {
            mend: Some(format!(
                "name another ProviderConfig below spec.provider.{field}.configName of the node pool; {name} stays \
                 until its last Machine is gone"
            )),
            ..refused(FaultKind::Auth, CONFIG_GOES, "it is being deleted")
        });
    }
    let conditions = config.status.as_ref().map(|s| s.conditions.as_slice());
    if is_refused(conditions.unwrap_or_default()) {
        return Err(Refused {
            mend: Some(format!(
                "its condition Ready says why they are: kubectl describe providerconfig {name}; it is asked for as soon \
                 as they let in"
            )),
            ..refused(FaultKind::Auth, REFUSED, "its credentials are refused")
        });
    }
    if !is_true(conditions.unwrap_or_default(), ConditionType::InUse) {
        // What a machine is deleted with is kept before there is one.
        let why = "it is not kept for machines yet";
        return Err(refused(FaultKind::NotFound, NOT_KEPT, why));
    }
    let images = config.spec.cloud().map(|account| account.images);
    let version = &machine.spec.version;
    let minor = minor(version);
    let image = wanted.image.or_else(|| images?.get(minor?)).ok_or_else(|| {
        let minor = minor.unwrap_or(version);
        Refused {
            mend: Some(format!(
                "set image below spec.provider.{field} of the node pool, or {minor} below spec.{field}.images of the \
                 ProviderConfig"
            )),
            ..refused(FaultKind::Terminal, NO_IMAGE, &format!("it has no image for {version}"))
        }
    })?;
    let left = wanted.types.iter().find(|name| !exhausted.contains(*name));
    Ok(MachineRequest {
        type_: left.or(wanted.types.first()).cloned(),
        image: image.clone(),
        kernel_boot: None,
        account: Some(account.to_owned()),
    })
}

/// Whether the last check of a ProviderConfig ended with credentials that let nobody in.
fn is_refused(conditions: &[Condition]) -> bool {
    let mut ready = conditions
        .iter()
        .filter(|c| c.type_ == ConditionType::Ready.as_str());
    ready.any(|c| c.status == "False" && c.reason == Reason::CredentialsRefused)
}

/// `1.36` of `1.36.2`.
fn minor(version: &str) -> Option<&str> {
    let (first, _) = version.split_once('.')?;
    let rest = &version[first.len() + 1..];
    let second = rest.split('.').next()?;
    version.get(..first.len() + 1 + second.len())
}

/// That a Machine is of the account that its ProviderConfig is of. Where it was made in another one, not being found
/// proves nothing, and nothing is made.
///
/// # Errors
/// When it is not, or nobody knows.
pub fn same_account(
    kind: ProviderKind,
    machine: &Machine,
    request: &MachineRequest,
    config: &ProviderConfig,
) -> Result<(), Refused> {
    let name = config.name_any();
    match (account(config), request.account.as_deref()) {
        (Some(now), Some(then)) if now == then => Ok(()),
        (Some(now), Some(then)) => Err(Refused {
            mend: Some(format!(
                "Machine {} was asked for where it is {then}: make the ProviderConfig anew for that account; \
                 nothing is deleted meanwhile",
                machine.name_any()
            )),
            ..own(
                kind,
                &name,
                FaultKind::Auth,
                OTHER_ACCOUNT,
                &format!("it is of {now}"),
            )
        }),
        _ => {
            let why = "it is not Ready yet";
            Err(own(kind, &name, FaultKind::NotFound, NOT_CHECKED, why))
        }
    }
}

/// That there is no ProviderConfig, or none of this cloud.
#[must_use]
pub fn no_config(kind: ProviderKind, namespace: &str, name: &str) -> Refused {
    let (field, name) = (kind.as_str(), format!("{namespace}/{name}"));
    let why = format!("there is none with {field}");
    Refused {
        mend: Some(format!(
            "make it, or change configName below spec.provider.{field} of the node pool; machines that are there are \
             neither deleted nor looked for meanwhile"
        )),
        ..own(kind, &name, FaultKind::Auth, NO_CREDENTIALS, &why)
    }
}

/// That a ProviderConfig cannot be used, in our own words.
fn own(cloud: ProviderKind, config: &str, kind: FaultKind, code: &str, why: &str) -> Refused {
    let object = format!("ProviderConfig {config}");
    Refused::own(cloud.as_str(), ("use", object), kind, code, why)
}

#[cfg(test)]
mod tests {
    use api::node_pool::Provider;
    use serde_json::{Value, json};

    use super::*;

    fn machine(status: &Value) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": { "name": "w-1", "namespace": "team-a", "uid": "5d2f1c1e" },
            "spec": { "clusterName": "demo", "clusterUID": "c", "poolName": "w", "version": "1.36.2",
                "provider": { "hetzner": wanted() } },
            "status": status,
        }))
        .unwrap()
    }

    fn wanted() -> Value {
        json!({ "configName": "h", "types": ["cx22", "cx32"] })
    }

    fn of_pool() -> Provider {
        serde_json::from_value(json!({ "hetzner": wanted() })).unwrap()
    }

    fn config(images: &Value, account: Option<&str>) -> ProviderConfig {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": "h", "namespace": "team-a" },
            "spec": { "hetzner": {
                "tokenSecretName": "t", "location": "fsn1", "sshKeys": ["covey"], "images": images,
            } },
            "status": { "account": account, "conditions": [{
                "type": "InUse", "status": "True", "reason": "NeededByMachines", "message": "",
                "lastTransitionTime": "2026-07-01T12:00:00Z",
            }] },
        }))
        .unwrap()
    }

    fn asked(images: &Value, exhausted: &[&str]) -> Result<MachineRequest, Refused> {
        let of_pool = of_pool();
        let of_pool = of_pool.cloud().unwrap();
        let exhausted = exhausted.iter().map(|name| (*name).to_owned()).collect();
        let config = config(images, Some("ssh-key-1"));
        request(&machine(&json!({})), &of_pool, &config, &exhausted)
    }

    #[test]
    fn request_has_the_versions_image_the_first_size_that_is_left_and_the_account() {
        let images = json!({ "1.36": "4711" });
        let first = asked(&images, &[]).unwrap();
        assert_eq!(first.type_.as_deref(), Some("cx22"));
        assert_eq!(first.image, "4711");
        assert_eq!(first.account.as_deref(), Some("ssh-key-1"));
        let second = asked(&images, &["cx22"]).unwrap();
        assert_eq!(second.type_.as_deref(), Some("cx32"));
        // Where nothing is left the first one is asked for again.
        let none = asked(&images, &["cx22", "cx32"]).unwrap();
        assert_eq!(none.type_.as_deref(), Some("cx22"));
    }

    #[test]
    fn without_an_image_the_field_to_set_is_told() {
        let told = asked(&json!({ "1.35": "1" }), &[]).unwrap_err();
        assert_eq!(told.kind, FaultKind::Terminal);
        let told = told.to_string();
        assert!(told.contains("1.36 below spec.hetzner.images"), "{told}");
    }

    #[test]
    fn nothing_is_asked_for_before_the_account_is_known() {
        let of_pool = of_pool();
        let of_pool = of_pool.cloud().unwrap();
        let config = config(&json!({ "1.36": "1" }), None);
        let told = request(&machine(&json!({})), &of_pool, &config, &BTreeSet::new());
        assert_eq!(told.unwrap_err().kind, FaultKind::NotFound);
    }

    #[test]
    fn nothing_is_asked_for_by_a_config_that_is_not_kept_or_goes_or_lets_nobody_in() {
        let of_pool = of_pool();
        let of_pool = of_pool.cloud().unwrap();
        let kind = |config: &ProviderConfig| {
            let asked = request(&machine(&json!({})), &of_pool, config, &BTreeSet::new());
            asked.map(drop).map_err(|refused| refused.kind)
        };
        let kept = config(&json!({ "1.36": "1" }), Some("a"));
        assert_eq!(kind(&kept), Ok(()));
        let mut going = kept.clone();
        going.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-07-01T12:00:00Z")).unwrap());
        assert_eq!(kind(&going), Err(FaultKind::Auth));
        let mut refused = kept.clone();
        let ready = |value: &str, reason: &str| {
            serde_json::from_value(json!({
                "type": "Ready", "status": value, "reason": reason, "message": "",
                "lastTransitionTime": "2026-07-01T12:00:00Z",
            }))
            .unwrap()
        };
        let all = &mut refused.status.get_or_insert_default().conditions;
        all.push(ready("False", "CredentialsRefused"));
        assert_eq!(kind(&refused), Err(FaultKind::Auth));
        // Nobody knows whether they still are; who asks is told.
        let all = &mut refused.status.get_or_insert_default().conditions;
        all.pop();
        all.push(ready("Unknown", "ProviderFailed"));
        assert_eq!(kind(&refused), Ok(()));
        let mut free = kept;
        free.status.get_or_insert_default().conditions.clear();
        assert_eq!(kind(&free), Err(FaultKind::NotFound));
    }

    #[test]
    fn subject_says_how_far_a_creation_is() {
        let of = |status: Value| subject_of(&machine(&status), "i", None).asked;
        assert_eq!(of(json!({})), Asked::Never);
        let request = json!({ "image": "1", "account": "a" });
        let pending = json!({ "request": request, "creationPendingSince": "2026-07-01T12:00:00Z" });
        assert_eq!(of(pending), Asked::Pending { deleted: None });
        let seen = json!({ "request": request, "providerID": "hcloud://42" });
        assert_eq!(of(seen), Asked::Seen);
    }

    #[test]
    fn account_of_a_machine_is_that_of_its_config_or_nothing_is_done() {
        let request = |account: Option<&str>| MachineRequest {
            account: account.map(str::to_owned),
            ..MachineRequest::default()
        };
        let machine = machine(&json!({}));
        let of = |now: Option<&str>, then: Option<&str>| {
            let config = config(&json!({}), now);
            let same = same_account(ProviderKind::Hetzner, &machine, &request(then), &config);
            same.map_err(|refused| refused.kind)
        };
        assert_eq!(of(Some("a"), Some("a")), Ok(()));
        assert_eq!(of(Some("b"), Some("a")), Err(FaultKind::Auth));
        assert_eq!(of(None, Some("a")), Err(FaultKind::NotFound));
        assert_eq!(of(Some("a"), None), Err(FaultKind::NotFound));
    }
}
