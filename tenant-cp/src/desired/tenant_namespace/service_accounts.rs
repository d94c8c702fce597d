//! ServiceAccounts of the tenant namespace: names for the pods, without any right.
//!
//! Invariant: no token is mounted; no part of the control plane speaks to the management API.

use k8s_openapi::api::core::v1::ServiceAccount;
use kit_objects::object::Object;

use crate::meta::meta;
use crate::names;
use crate::validate::validated::Validated;

pub(crate) fn service_accounts(v: &Validated) -> Vec<Object> {
    [names::CONTROL_PLANE, names::CONTROLLERS, names::ETCD]
        .map(|name| {
            Object::new(&ServiceAccount {
                metadata: meta(v, name, name),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            })
        })
        .into()
}
