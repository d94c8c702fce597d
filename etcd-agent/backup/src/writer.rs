//! Writes objects so that they count: created, read back, compared.
//!
//! Invariant: what [`write`] returned from is in the store byte for byte, and nobody else's object was
//! written over or deleted.

use std::sync::Arc;
use std::time::Duration;

use backup_format::keys::Keys;
use backup_format::object::{self, NotSealed, Opened};
use backup_format::{Digest, Header, Name, Scope, keys};
use bytes::Bytes;

use crate::store::{Call, Cause, Created, Store, StoreError};

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWritten {
    /// There is another one of this name, and it is whole: somebody else writes.
    #[error("{0} was written by somebody else: another backup of this tenant cluster runs")]
    Another(Name),
    /// There is one of this name that is damaged, and it is not of this process.
    #[error("{0} is there, and damaged")]
    Damaged(Name),
    /// It could not be made.
    #[error("{name} cannot be made")]
    Seal {
        /// Which.
        name: Name,
        /// Why.
        #[source]
        source: NotSealed,
    },
    /// No random numbers.
    #[error(transparent)]
    Key(#[from] keys::BadKey),
}

/// An object that is in the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Its sum.
    pub(crate) digest: Digest,
    /// Its bytes.
    pub(crate) bytes: u64,
}

/// Where one backup writes.
#[derive(Debug)]
pub(crate) struct Writer<S> {
    /// The store.
    pub(crate) store: Arc<S>,
    /// What it seals with.
    pub(crate) keys: Keys,
    /// Whose objects they are.
    pub(crate) scope: Scope,
    /// In front of the scope's folder; empty, or with a slash at its end.
    pub(crate) prefix: String,
    /// The longest pause after a failed call. The first one is a 20th of it, and they double.
    pub(crate) longest_pause: Duration,
}

impl<S> Clone for Writer<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            keys: self.keys.clone(),
            scope: self.scope.clone(),
            prefix: self.prefix.clone(),
            longest_pause: self.longest_pause,
        }
    }
}

impl<S: Store> Writer<S> {
    /// The folder of the scope.
    pub(crate) fn folder(&self) -> String {
        format!("{}{}", self.prefix, self.scope.folder())
    }

    /// The key of an object.
    pub(crate) fn key(&self, name: Name) -> String {
        format!("{}{name}", self.folder())
    }

    /// Seals and writes an object. A store that fails is asked again until it does not.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub(crate) async fn write(
        &self,
        header: &Header,
        content: &[u8],
    ) -> Result<Written, NotWritten> {
        let name = header.name();
        let bytes = self.sealed(header, content)?;
        let opened = object::open(name, &self.scope, &bytes).map(|opened| opened.digest);
        let digest = opened.map_err(|_| NotWritten::Seal {
            name,
            source: NotSealed::Failed,
        })?;
        self.place(name, &bytes).await?;
        Ok(Written {
            digest,
            bytes: bytes.len() as u64,
        })
    }

    /// Seals an object.
    ///
    /// # Errors
    /// [`NotWritten::Seal`], [`NotWritten::Key`].
    pub(crate) fn sealed(&self, header: &Header, content: &[u8]) -> Result<Bytes, NotWritten> {
        let name = header.name();
        let salt = keys::random()?;
        let sealed = object::seal(header, &self.keys, salt, content);
        let sealed = sealed.map_err(|source| NotWritten::Seal { name, source })?;
        Ok(Bytes::from(sealed))
    }

    /// Creates an object whose name is a function of its content, so that one of this name which another process wrote
    /// is as good; reads it back, and says whether it is whole. One that is not is deleted: nobody can want it.
    ///
    /// # Errors
    /// [`StoreError`], of one try.
    pub(crate) async fn put_whole(
        &self,
        name: Name,
        bytes: Bytes,
        content: &[u8],
    ) -> Result<bool, StoreError> {
        let key = self.key(name);
        self.store.create(&key, bytes).await?;
        let found = match self.store.get(&key, object::MOST_OBJECT).await {
            Err(error) if error.cause == Cause::NotFound => return Ok(false),
            Err(error) if error.cause == Cause::TooLong => Bytes::new(),
            found => found?,
        };
        let opened = object::open(name, &self.scope, &found);
        let opened = opened.and_then(|opened| opened.content(&self.keys.data));
        match opened {
            Ok(found) if found == content => return Ok(true),
            Ok(_) => tracing::error!("{name} has another content: deleted"),
            Err(damage) => tracing::error!("{damage}: deleted"),
        }
        self.store.delete(&key).await?;
        Ok(false)
    }

    /// Creates an object and reads it back.
    async fn place(&self, name: Name, bytes: &Bytes) -> Result<(), NotWritten> {
        let key = self.key(name);
        let mut pause = self.longest_pause / 20;
        // Whether what is there may be what this process wrote.
        let mut ours = false;
        loop {
            match self.try_place(name, &key, bytes, &mut ours).await {
                Ok(Some(found)) => return found,
                Ok(None) => {}
                Err(error) => {
                    // Written, perhaps: its answer may be what was lost.
                    ours |= error.call == Call::Create;
                    tracing::warn!(object.name = %name, "{error}; asked again in {pause:?}");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(self.longest_pause);
        }
    }

    /// One try; None to try again.
    async fn try_place(
        &self,
        name: Name,
        key: &str,
        bytes: &Bytes,
        ours: &mut bool,
    ) -> Result<Option<Result<(), NotWritten>>, StoreError> {
        let created = self.store.create(key, bytes.clone()).await?;
        *ours |= created == Created::New;
        let found = match self.store.get(key, object::MOST_OBJECT).await {
            Err(error) if error.cause == Cause::NotFound => return Ok(None),
            found => found?,
        };
        if found == *bytes {
            return Ok(Some(Ok(())));
        }
        if let Ok(Opened { .. }) = object::open(name, &self.scope, &found) {
            return Ok(Some(Err(NotWritten::Another(name))));
        }
        if !*ours {
            return Ok(Some(Err(NotWritten::Damaged(name))));
        }
        // What this process wrote was changed or cut off on its way. Nobody counted on it.
        tracing::warn!(object.name = %name, "what was read back is not what was written: deleted");
        self.store.delete(key).await?;
        Ok(None)
    }
}
