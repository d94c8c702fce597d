//! From a Host and its Secrets to where a session goes.
//!
//! Invariant: Secrets are read by name, in the Host's own namespace alone, and only when a session begins; nothing of
//! a key is in an error.

use api::host::{Escalation, JumpHost};
use api::{ConditionType, Host, Reason};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use provider_static::life::Failure;
use provider_static::session::{self, Hop, HostKeys, LoginKey, Target};

/// The field of a Secret that has the key, as in those of the type `kubernetes.io/ssh-auth`.
const FIELD: &str = "ssh-privatekey";

/// Where a session with the machine of a Host goes.
///
/// # Errors
/// Why not, in words.
pub async fn target(client: &Client, host: &Host) -> Result<Target, Failure> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &host.namespace().unwrap_or_default());
    let spec = &host.spec;
    let this = JumpHost {
        address: spec.address.clone(),
        port: spec.port,
        user: spec.user.clone(),
        ssh_key_secret_name: spec.ssh_key_secret_name.clone(),
        host_keys: spec.host_keys.clone(),
    };
    let mut via = Vec::with_capacity(spec.via.len());
    for (number, jump) in spec.via.iter().enumerate() {
        via.push(hop(&secrets, jump, &format!("spec.via[{number}].hostKeys")).await?);
    }
    Ok(Target {
        host: hop(&secrets, &this, "spec.hostKeys").await?,
        via,
        escalation: match spec.escalation {
            Escalation::None => session::Escalation::None,
            Escalation::Sudo => session::Escalation::Sudo,
        },
    })
}

async fn hop(secrets: &Api<Secret>, hop: &JumpHost, field: &str) -> Result<Hop, Failure> {
    let host_keys = HostKeys::parse(&hop.host_keys).map_err(|error| Failure {
        reason: Reason::HostKeyUnknown,
        message: format!("{field}: {error}"),
        about: ConditionType::Reachable,
    })?;
    Ok(Hop {
        address: hop.address.clone(),
        port: hop.port,
        user: hop.user.clone(),
        key: login_key(secrets, &hop.ssh_key_secret_name).await?,
        host_keys,
    })
}

/// That the operator may not read the Secret of this name.
#[must_use]
pub fn without_right(name: &str) -> Failure {
    Failure::of_key(format!(
        "the operator may not read Secret {name}: it can where a TenantCluster is, so create the Hosts in the namespace \
         of the TenantCluster that they are for"
    ))
}

async fn login_key(secrets: &Api<Secret>, name: &str) -> Result<LoginKey, Failure> {
    let secret = match secrets.get_opt(name).await {
        Ok(secret) => secret,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Err(without_right(name));
        }
        Err(error) => {
            let error = kit_client::errors::chain(&error);
            return Err(Failure::of_key(format!(
                "Secret {name} could not be read, which is tried again by itself: {error}"
            )));
        }
    };
    let make = format!(
        "kubectl create secret generic {name} --type=kubernetes.io/ssh-auth --from-file={FIELD}=FILE makes one"
    );
    let secret =
        secret.ok_or_else(|| Failure::of_key(format!("there is no Secret {name}: {make}")))?;
    let data = secret.data.unwrap_or_default();
    let text = data
        .get(FIELD)
        .and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
    let text = text.ok_or_else(|| {
        Failure::of_key(format!(
            "Secret {name} has no text in its field {FIELD}: {make}"
        ))
    })?;
    LoginKey::parse(text).map_err(|error| Failure::of_key(format!("Secret {name}: {error}")))
}
