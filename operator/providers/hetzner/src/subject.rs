//! From Machines and ProviderConfigs to what is asked for. Pure: no I/O, no clock, no chance.
//!
//! Invariant: all that is looked up (size, image, account) is looked up once, for `status.request`; what is asked later
//! comes from there.

use std::collections::BTreeSet;

use api::condition::is_true;
use api::machine::MachineRequest;
use api::node_pool::Hetzner;
use api::provider_config::HetznerProject;
use api::{ConditionType, Machine, ProviderConfig, names};
use kube::ResourceExt as _;
use providers::identity::Owner;
use providers::subject::{Asked, Subject};
use providers::{FaultKind, Refused};

use crate::refusal::{
    Asked as Call, CONFIG_GOES, NO_CREDENTIALS, NO_IMAGE, NOT_CHECKED, NOT_KEPT, OTHER_PROJECT,
};
use crate::settings::Project;

/// What the ID of a server begins with as that of a node.
const SCHEME: &str = "hcloud://";

/// Where the machines of a ProviderConfig are made. `account`: where they were made before.
#[must_use]
pub fn project(wanted: &HetznerProject, installation: &str, account: Option<&str>) -> Project {
    Project {
        installation: installation.to_owned(),
        location: wanted.location.clone(),
        ssh_keys: wanted.ssh_keys.clone(),
        network: wanted.network.clone(),
        firewalls: wanted.firewalls.clone(),
        ipv4: wanted.public_ipv4,
        ipv6: wanted.public_ipv6,
        account: account.map(str::to_owned),
    }
}

/// The account that a ProviderConfig was found to be of.
#[must_use]
pub fn account(config: &ProviderConfig) -> Option<&str> {
    config.status.as_ref()?.account.as_deref()
}

/// The tenant namespace of a Machine.
#[must_use]
pub fn tenant_namespace(machine: &Machine) -> String {
    names::tenant_namespace(&machine.spec.cluster_name, &machine.spec.cluster_uid)
}

/// Whose a Machine's server is.
#[must_use]
pub fn owner(machine: &Machine, installation: &str) -> Owner {
    Owner {
        installation: installation.to_owned(),
        tenant: machine.spec.cluster_uid.clone(),
        namespace: tenant_namespace(machine),
        pool: machine.spec.pool_name.clone(),
        machine: machine.name_any(),
        uid: machine.uid().unwrap_or_default(),
    }
}

/// The ID of the server that a Machine was known to have.
fn instance(machine: &Machine) -> Option<u64> {
    let status = machine.status.as_ref()?;
    status
        .provider_id
        .as_deref()?
        .strip_prefix(SCHEME)?
        .parse()
        .ok()
}

/// A Machine to be looked at.
#[must_use]
pub fn subject(machine: &Machine, installation: &str) -> Subject {
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
        instance: instance(machine),
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
/// When the ProviderConfig was not checked yet, is not kept for Machines yet or goes, or there is no image.
pub fn request(
    machine: &Machine,
    wanted: &Hetzner,
    config: &ProviderConfig,
    exhausted: &BTreeSet<String>,
) -> Result<MachineRequest, Refused> {
    let name = config.name_any();
    let call = || Call::new("use", format!("ProviderConfig {name}"));
    let account = account(config).ok_or_else(|| Refused {
        mend: Some(format!(
            "its condition Ready says why it is not: kubectl describe providerconfig {name}"
        )),
        // It goes away by itself where it was made a moment ago.
        ..call().refused(FaultKind::NotFound, NOT_CHECKED, "it is not Ready yet")
    })?;
    if config.metadata.deletion_timestamp.is_some() {
        return Err(Refused {
            mend: Some(format!(
                "name another ProviderConfig below spec.provider.hetzner.configName of the node pool; {name} stays \
                 until its last Machine is gone"
            )),
            ..call().refused(FaultKind::Auth, CONFIG_GOES, "it is being deleted")
        });
    }
    let conditions = config.status.as_ref().map(|s| s.conditions.as_slice());
    if !is_true(conditions.unwrap_or_default(), ConditionType::InUse) {
        // What a server is deleted with is kept before there is one.
        return Err(call().refused(
            FaultKind::NotFound,
            NOT_KEPT,
            "it is not kept for machines yet",
        ));
    }
    let images = config.spec.hetzner.as_ref().map(|project| &project.images);
    let version = &machine.spec.version;
    let minor = minor(version);
    let image = wanted.image.as_ref();
    let image = image.or_else(|| images?.get(minor?)).ok_or_else(|| {
        let minor = minor.unwrap_or(version);
        Refused {
            mend: Some(format!(
                "set image below spec.provider.hetzner of the node pool, or {minor} below spec.hetzner.images of the \
                 ProviderConfig"
            )),
            ..call().refused(FaultKind::Terminal, NO_IMAGE, format!("it has no image for {version}"))
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
    machine: &Machine,
    request: &MachineRequest,
    config: &ProviderConfig,
) -> Result<(), Refused> {
    let name = config.name_any();
    let call = Call::new("use", format!("ProviderConfig {name}"));
    match (account(config), request.account.as_deref()) {
        (Some(now), Some(then)) if now == then => Ok(()),
        (Some(now), Some(then)) => Err(Refused {
            mend: Some(format!(
                "Machine {} was asked for where it is {then}: make the ProviderConfig anew with a token of that \
                 project; nothing is deleted meanwhile",
                machine.name_any()
            )),
            ..call.refused(FaultKind::Auth, OTHER_PROJECT, format!("it is of {now}"))
        }),
        _ => Err(call.refused(FaultKind::NotFound, NOT_CHECKED, "it is not Ready yet")),
    }
}

/// That there is no ProviderConfig, or none of Hetzner.
#[must_use]
pub fn no_config(namespace: &str, name: &str) -> Refused {
    let call = Call::new("use", format!("ProviderConfig {namespace}/{name}"));
    Refused {
        mend: Some(
            "make it, or change configName below spec.provider.hetzner of the node pool; machines that are there are \
             neither deleted nor looked for meanwhile"
                .to_owned(),
        ),
        ..call.refused(FaultKind::Auth, NO_CREDENTIALS, "there is none with hetzner")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
        let of_pool: Hetzner = serde_json::from_value(wanted()).unwrap();
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
        let of_pool: Hetzner = serde_json::from_value(wanted()).unwrap();
        let config = config(&json!({ "1.36": "1" }), None);
        let told = request(&machine(&json!({})), &of_pool, &config, &BTreeSet::new());
        assert_eq!(told.unwrap_err().kind, FaultKind::NotFound);
    }

    #[test]
    fn nothing_is_asked_for_by_a_config_that_is_not_kept_or_goes() {
        let of_pool: Hetzner = serde_json::from_value(wanted()).unwrap();
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
        let mut free = kept;
        free.status.get_or_insert_default().conditions.clear();
        assert_eq!(kind(&free), Err(FaultKind::NotFound));
    }

    #[test]
    fn subject_says_how_far_a_creation_is() {
        let of = |status: Value| subject(&machine(&status), "i").asked;
        assert_eq!(of(json!({})), Asked::Never);
        let request = json!({ "image": "1", "account": "a" });
        let pending = json!({ "request": request, "creationPendingSince": "2026-07-01T12:00:00Z" });
        assert_eq!(of(pending), Asked::Pending { deleted: None });
        let seen = json!({ "request": request, "providerID": "hcloud://42" });
        assert_eq!(of(seen.clone()), Asked::Seen);
        assert_eq!(subject(&machine(&seen), "i").instance, Some(42));
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
            let same = same_account(&machine, &request(then), &config);
            same.map_err(|refused| refused.kind)
        };
        assert_eq!(of(Some("a"), Some("a")), Ok(()));
        assert_eq!(of(Some("b"), Some("a")), Err(FaultKind::Auth));
        assert_eq!(of(None, Some("a")), Err(FaultKind::NotFound));
        assert_eq!(of(Some("a"), None), Err(FaultKind::NotFound));
    }
}
