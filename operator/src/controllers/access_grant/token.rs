//! The ServiceAccount of a grant inside its tenant cluster, and a token of it, for whoever reaches the API through what ends TLS.
//!
//! Invariant: a token leaves this process sealed for whoever asked, or not at all; the account has no rights but the grant's
//! binding, so what is left of it after that opens nothing.

use std::fmt::Debug;

use api::access_grant::{ACCOUNT_NAMESPACE, ACCOUNT_PREFIX, token_purpose};
use api::{AccessGrant, names};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::Subject;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use pki::sealed::seal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Error;
use super::observe::Reached;
use super::secret::group;
use crate::FIELD_MANAGER;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A token that only whoever asked can read.
pub(super) struct Sealed {
    /// Base64.
    pub(super) sealed: String,
    /// When the token ends.
    pub(super) until: Timestamp,
}

/// Whom the grant's binding gives its role: the group of its certificate, and the account of its token where it asked for one.
pub(super) fn subjects(grant: &AccessGrant) -> Vec<Subject> {
    let group = Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "Group".to_owned(),
        name: group(grant),
        namespace: None,
    };
    let account = grant.spec.token_key.as_ref().map(|_| Subject {
        api_group: None,
        kind: "ServiceAccount".to_owned(),
        name: account(grant),
        namespace: Some(ACCOUNT_NAMESPACE.to_owned()),
    });
    [group].into_iter().chain(account).collect()
}

fn account(grant: &AccessGrant) -> String {
    format!("{ACCOUNT_PREFIX}{}", grant.uid().unwrap_or_default())
}

/// Makes the account, where it is not there yet, and a token of it.
///
/// # Errors
/// [`Error::Inside`], [`Error::Exceeded`]; [`Error::Unsealable`] where the key is none, which a plan has seen before.
pub(super) async fn issue_token(
    grant: &AccessGrant,
    inside: Option<&Reached>,
    seconds: i64,
) -> Result<Sealed, Error> {
    let reached = inside.ok_or(Error::Unreached)?;
    let labels = [(
        names::LABEL_ACCESS_GRANT.to_owned(),
        grant.uid().unwrap_or_default(),
    )];
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(ACCOUNT_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    make(reached, &Api::all(reached.client.clone()), &namespace).await?;
    let accounts = Api::<ServiceAccount>::namespaced(reached.client.clone(), ACCOUNT_NAMESPACE);
    let object = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(account(grant)),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    make(reached, &accounts, &object).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(seconds),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let (name, params) = (account(grant), PostParams::default());
    let made = accounts.create_token_request(&name, &params, &request);
    let made = reached.budget.within(made).await.map_err(Error::Exceeded)?;
    let made = made.map_err(|source| Error::Inside(Box::new(source)))?;
    let token = made.status.ok_or(Error::Unsealable)?;
    let key = grant.spec.token_key.as_deref().unwrap_or_default();
    let uid = grant.uid().unwrap_or_default();
    let sealed = seal(key, &token.token, &token_purpose(&uid));
    let sealed = sealed.ok_or(Error::Unsealable)?;
    Ok(Sealed {
        sealed,
        until: token.expiration_timestamp.0,
    })
}

/// Creates it; one that is there is as good, because its name is the grant's alone, or everybody's.
async fn make<K>(reached: &Reached, api: &Api<K>, object: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = reached.budget.within(api.create(&params, object)).await;
    match made.map_err(Error::Exceeded)? {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(source) => Err(Error::Inside(Box::new(source))),
    }
}

/// Deletes the account; that there is none is what is wanted.
///
/// # Errors
/// [`Error::Inside`], [`Error::Exceeded`].
pub(super) async fn drop_account(
    grant: &AccessGrant,
    inside: Option<&Reached>,
) -> Result<(), Error> {
    let Reached { client, budget } = inside.ok_or(Error::Unreached)?;
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), ACCOUNT_NAMESPACE);
    let (name, params) = (account(grant), DeleteParams::default());
    let deleted = budget.within(accounts.delete(&name, &params)).await;
    match deleted.map_err(Error::Exceeded)? {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(Error::Inside(Box::new(source))),
    }
}
