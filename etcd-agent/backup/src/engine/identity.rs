//! Keeps the tenant cluster's identity in the store.
//!
//! Invariant: it is copied as it was told: this process can neither read nor make one.

use backup_format::{Header, IdentityName, Kind, Name};

use super::{Engine, Trouble};
use crate::clock::now_ms;
use crate::store::{Store, StoreError};

impl<S: Store> Engine<S> {
    /// The identity that is to be in the store, unless it was read back there already.
    pub(super) fn missing_identity(&self) -> Option<IdentityName> {
        let told = self.options.identity.borrow();
        let wanted = told.as_ref().map(|identity| identity.name());
        wanted.filter(|wanted| self.identity != Some(*wanted))
    }

    /// Writes it unless it is there, and reads it back.
    pub(super) async fn write_identity(&mut self) -> Result<(), StoreError> {
        let told = self.options.identity.borrow().clone();
        let Some(identity) = told else {
            return Ok(());
        };
        let name = identity.name();
        let header = Header {
            scope: self.writer.scope.clone(),
            kind: Kind::Identity(name),
            previous: None,
            written_ms: now_ms(),
            writer: self.options.writer.clone(),
            etcd: self.status.version.clone(),
            kubernetes: self.options.kubernetes.clone(),
        };
        let is_there = match self.writer.sealed(&header, identity.bytes()) {
            Ok(bytes) => {
                let object = Name::Identity(name);
                self.writer
                    .put_whole(object, bytes, identity.bytes())
                    .await?
            }
            Err(error) => {
                tracing::error!("{error}");
                false
            }
        };
        if !is_there {
            self.trouble(Trouble::Objects);
            self.rest();
            return Ok(());
        }
        tracing::info!(identity = %name, "the identity is in the store");
        self.identity = Some(name);
        if let Some(listing) = &mut self.listing {
            listing.insert(Name::Identity(name), 0);
        }
        self.progress
            .send_modify(|progress| progress.identity = Some(name));
        self.is_over(|trouble| matches!(trouble, Trouble::Store(..) | Trouble::Objects));
        Ok(())
    }

    pub(super) async fn delete_identity(&mut self, name: IdentityName) -> Result<(), StoreError> {
        let key = self.writer.key(Name::Identity(name));
        self.writer.store.delete(&key).await?;
        if let Some(listing) = &mut self.listing {
            listing.identities.remove(&name);
        }
        Ok(())
    }
}
