//! Files of one Secret, under the names that programs look for.
//!
//! A certificate `x` with its key is always `x.crt` and `x.key`: one certificate, which is shown or signs.
//! `x.crt` without a key beside it is trusted: a bundle of every generation of the authority `x`.
//! Invariant: a file is complete or its Secret is not made.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kit_objects::object::Object;
use pki::{KeyPair, Store};

use crate::desired::services;
use crate::generations::{self, Generations};
use crate::kubeconfig;
use crate::material::{ServiceAccountKeys, service_account_file};
use crate::meta::meta;
use crate::names;
use crate::validate::validated::Validated;

/// What a Secret with one certificate for a connection calls it (`kubernetes.io/tls`).
pub(crate) const TLS: &str = "tls";

/// Contents of one Secret.
#[derive(Default)]
pub struct Files(BTreeMap<String, ByteString>);

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

    /// The same of one that is shown with another certificate beside it, PEM.
    pub(crate) fn chain(&mut self, name: &str, pair: &KeyPair, beside: &str) {
        self.pair(name, pair);
        if !beside.is_empty() {
            let first = pair.certificate.trim_end_matches('\n');
            self.put(&format!("{name}.crt"), &format!("{first}\n{beside}"));
        }
    }

    /// For a client of the tenant's API in a pod of its own.
    pub(crate) fn client(&mut self, v: &Validated, store: &Store, name: &str) -> Option<()> {
        self.pair(name, store.get(name)?);
        self.trusted(names::CA, store)?;
        let server = format!("https://{}:{}", names::CONTROL_PLANE, services::port(v));
        self.put("kubeconfig", &kubeconfig::of_client(name, &server));
        Some(())
    }

    /// All that a client of the tenant's API in a pod of its own needs.
    pub(crate) fn of_client(v: &Validated, store: &Store, name: &str) -> Option<Self> {
        let mut files = Self::default();
        files.client(v, store, name)?;
        Some(files)
    }

    /// The bundle of an authority.
    pub(crate) fn trusted(&mut self, authority: &str, store: &Store) -> Option<()> {
        let bundle = generations::bundle(store, authority)?;
        self.put(&format!("{authority}.crt"), &bundle);
        Some(())
    }

    /// The bundle of who signs clients of the kube-apiserver.
    pub(crate) fn clients(&mut self, store: &Store) -> Option<()> {
        self.put("clients.crt", &generations::clients(store)?);
        Some(())
    }

    /// Every generation of an authority with its key, for who signs with it.
    pub(crate) fn signers(&mut self, authority: &str, store: &Store) -> Option<()> {
        generations::bundle(store, authority)?;
        for (name, pair) in store {
            if generations::of_authority(name, authority).is_some() {
                self.pair(name, pair);
            }
        }
        Some(())
    }

    /// Keys of service account tokens; none when there is none.
    pub(crate) fn service_account(&mut self, keys: &Generations<ServiceAccountKeys>) -> Option<()> {
        for (generation, keys) in keys.active_first() {
            let file = service_account_file(generation);
            self.put(&format!("{file}.pub"), &keys.public);
        }
        self.service_account_signers(keys)
    }

    /// What verified before and is still named.
    pub(crate) fn service_account_dropped(&mut self, keys: &Generations<String>) {
        for (generation, public) in keys.active_first() {
            let file = service_account_file(generation);
            self.put(&format!("{file}.pub"), public);
        }
    }

    /// The private ones alone.
    pub(crate) fn service_account_signers(
        &mut self,
        keys: &Generations<ServiceAccountKeys>,
    ) -> Option<()> {
        keys.active()?;
        for (generation, keys) in keys.active_first() {
            let file = service_account_file(generation);
            self.put(&format!("{file}.key"), keys.private.reveal());
        }
        Some(())
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
