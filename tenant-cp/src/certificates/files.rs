//! Files of one Secret, under the names that programs look for.
//!
//! A certificate `x` with its key is always `x.crt` and `x.key`.
//! Invariant: a file is complete or its Secret is not made.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use pki::{KeyPair, Store};

use crate::certificates::kubeconfig;
use crate::certificates::material::ServiceAccountKeys;
use crate::desired::services;
use crate::meta::meta;
use crate::names;
use crate::object::Object;
use crate::validate::validated::Validated;

/// Contents of one Secret.
#[derive(Default)]
pub(crate) struct Files(BTreeMap<String, ByteString>);

impl From<BTreeMap<String, ByteString>> for Files {
    fn from(data: BTreeMap<String, ByteString>) -> Self {
        Self(data)
    }
}

impl Files {
    pub(crate) fn into_data(self) -> BTreeMap<String, ByteString> {
        self.0
    }

    pub(crate) fn put(&mut self, name: &str, content: &str) {
        self.0
            .insert(name.to_owned(), ByteString(content.as_bytes().to_vec()));
    }

    pub(crate) fn pair(&mut self, name: &str, pair: &KeyPair) {
        self.put(&format!("{name}.crt"), &pair.certificate);
        self.put(&format!("{name}.key"), pair.key.reveal());
    }

    /// For a client of the tenant's API in a pod of its own.
    pub(crate) fn client(&mut self, v: &Validated, store: &Store, name: &str) -> Option<()> {
        self.pair(name, store.get(name)?);
        self.certificate("ca", store)?;
        let server = format!("https://{}:{}", names::CONTROL_PLANE, services::port(v));
        self.put("kubeconfig", &kubeconfig::of_client(name, &server));
        Some(())
    }

    pub(crate) fn certificate(&mut self, name: &str, store: &Store) -> Option<()> {
        self.put(&format!("{name}.crt"), &store.get(name)?.certificate);
        Some(())
    }

    pub(crate) fn service_account(&mut self, keys: &ServiceAccountKeys) {
        self.put("sa.pub", &keys.public);
        self.put("sa.key", keys.private.reveal());
    }

    pub(crate) fn into_secret(self, v: &Validated, name: &str) -> Object {
        Object::new(&Secret {
            metadata: meta(v, name, "certificates"),
            data: Some(self.0),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        })
    }
}
