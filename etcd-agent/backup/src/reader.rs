//! Reads a backup: the list of it, single objects, a full snapshot from its head on, the deltas after it.
//!
//! Invariant: what is given out was checked; memory holds one object at a time.

use backup_format::chain::{Broken, Position};
use backup_format::damage::Flaw;
use backup_format::keys::{DataKey, RecoveryKey};
use backup_format::object::{self, Cutter};
use backup_format::records::{self, Recorded};
use backup_format::{
    Damage, Digest, FullName, Header, IdentityName, Kind, Name, Scope, SealedIdentity,
};

use crate::plan::listing::Listing;
use crate::store::{Cause, Store, StoreError};

/// Why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object is not what was written.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The chain ends before it should.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// What is read is put somewhere, and that failed.
    #[error("what was read could not be written: {0}")]
    Sink(String),
}

/// With what a backup is opened.
#[derive(Clone, Debug)]
pub enum Opener {
    /// The tenant cluster's own key.
    Data(DataKey),
    /// The recovery key, which opens the key that comes with each object.
    Recovery(RecoveryKey),
}

/// A reader of one scope.
#[derive(Clone, Debug)]
pub struct Reader<'a, S> {
    /// The store.
    pub store: &'a S,
    /// Whose objects.
    pub scope: Scope,
    /// In front of the scope's folder; empty, or with a slash at its end.
    pub prefix: String,
    /// What opens them.
    pub opener: Opener,
}

/// A full snapshot that was read.
#[derive(Clone, Copy, Debug)]
pub struct FullRead {
    /// Where its deltas begin. Its revision is the least that the snapshot has.
    pub reach: Position,
    /// A revision that it does not go beyond.
    pub most: u64,
    /// When it was finished, in milliseconds since 1970: nothing in it is younger.
    pub written_ms: u64,
    /// Sum of its head.
    pub head: Digest,
}

/// Checksums are computed over pieces of so many bytes.
const PIECE: usize = 1024 * 1024;

/// Lists a scope.
///
/// # Errors
/// [`StoreError`].
pub async fn list<S: Store>(store: &S, folder: &str) -> Result<Listing, StoreError> {
    let mut listing = Listing::default();
    let (mut after, mut foreign) = (None::<String>, 0_u64);
    loop {
        let page = store.list(folder, after.as_deref()).await?;
        let last = page.objects.last().map(|entry| entry.key.clone());
        for entry in page.objects {
            let name = entry.key.strip_prefix(folder).unwrap_or(&entry.key);
            foreign += u64::from(listing.add(name, entry.bytes).is_err());
        }
        // A store that says "more" and gives nothing would be asked for ever.
        match (page.more, last) {
            (true, Some(last)) if after.as_ref() != Some(&last) => after = Some(last),
            _ => break,
        }
    }
    if foreign > 0 {
        tracing::warn!("{foreign} objects in {folder} are not of a backup and are passed over");
    }
    Ok(listing)
}

impl<S: Store> Reader<'_, S> {
    /// The folder of the scope.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}{}", self.prefix, self.scope.folder())
    }

    /// Lists the scope.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list(&self) -> Result<Listing, StoreError> {
        list(self.store, &self.folder()).await
    }

    /// Reads and opens an object.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn object(&self, name: Name) -> Result<(Header, Digest, Vec<u8>), ReadError> {
        let key = format!("{}{name}", self.folder());
        let bytes = match self.store.get(&key, object::MOST_OBJECT).await {
            Err(error) if error.cause == Cause::TooLong => {
                return Err(Flaw::TooLong(object::MOST_OBJECT as u64 + 1)
                    .of(name)
                    .into());
            }
            bytes => bytes?,
        };
        let opened = object::open(name, &self.scope, &bytes)?;
        let content = match &self.opener {
            Opener::Data(key) => opened.content(key)?,
            Opener::Recovery(key) => opened.content(&opened.data_key(key)?)?,
        };
        Ok((opened.header.clone(), opened.digest, content))
    }

    /// Reads a full snapshot and gives its database, with etcd's checksum at the end, to `sink` in
    /// pieces.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn full(
        &self,
        full: FullName,
        mut sink: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<FullRead, ReadError> {
        let name = Name::Head(full);
        let (head, head_digest, _) = self.object(name).await?;
        let Kind::Head {
            parts,
            most,
            bytes,
            database,
            ..
        } = head.kind
        else {
            return Err(Flaw::Misnamed(head.name().to_string()).of(name).into());
        };
        let (mut previous, mut before) = (None, None);
        let mut cutter = Cutter::new(PIECE);
        for part in 0..parts {
            let name = Name::Part(full, part);
            let (header, digest, content) = self.object(name).await?;
            match part {
                0 => before = header.previous,
                _ => follows(name, header.previous, previous)?,
            }
            previous = Some(digest);
            let mut filled = cutter.push(&content);
            while filled.is_some() {
                filled = cutter.push(&[]);
            }
            sink(&content).map_err(ReadError::Sink)?;
        }
        follows(name, head.previous, previous)?;
        let whole = cutter.finish();
        let whole =
            whole.map_err(|_| Flaw::Content("its database has another checksum").of(name))?;
        if (whole.bytes, whole.database) != (bytes, database) {
            return Err(
                Flaw::Content("its database is another one than its head says")
                    .of(name)
                    .into(),
            );
        }
        Ok(FullRead {
            reach: Position {
                next: full.next,
                revision: full.revision,
                previous: before,
            },
            most,
            written_ms: head.written_ms,
            head: head_digest,
        })
    }

    /// Reads an identity, as it was sealed.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn identity(&self, identity: IdentityName) -> Result<SealedIdentity, ReadError> {
        let name = Name::Identity(identity);
        let (_, _, content) = self.object(name).await?;
        let sealed = SealedIdentity::read(&content).filter(|sealed| sealed.name() == identity);
        sealed.ok_or_else(|| {
            Flaw::Content("what is sealed has another sum")
                .of(name)
                .into()
        })
    }

    /// Reads and opens an identity: what was sealed.
    ///
    /// # Errors
    /// [`ReadError`]; [`Flaw::Recovery`] where it was sealed for somebody else, or by nobody who may.
    pub async fn open_identity(
        &self,
        identity: IdentityName,
        recovery: &RecoveryKey,
    ) -> Result<Vec<u8>, ReadError> {
        let sealed = self.identity(identity).await?;
        let document = sealed.open(recovery, &self.scope.tenant);
        document.map_err(|_| Flaw::Recovery.of(Name::Identity(identity)).into())
    }

    /// Follows the next delta; None when it has nothing that was not had.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn delta(&self, reach: &mut Position) -> Result<Option<Recorded>, ReadError> {
        let name = Name::Delta(reach.next);
        let (header, digest, content) = self.object(name).await?;
        let Kind::Delta { first, last, .. } = header.kind else {
            return Err(Flaw::Misnamed(header.name().to_string()).of(name).into());
        };
        if !reach.follow(&header, digest)? {
            return Ok(None);
        }
        let recorded = records::read(&content, first, last);
        let recorded = recorded
            .map_err(|_| Flaw::Content("its revisions are not those of its header").of(name))?;
        Ok(Some(recorded))
    }

    /// Reads a full snapshot and every delta after it; how far it came.
    ///
    /// # Errors
    /// [`ReadError`], for the first thing that is wrong.
    pub async fn verify(&self, full: FullName, listing: &Listing) -> Result<Position, ReadError> {
        let mut reach = self.full(full, |_| Ok(())).await?.reach;
        while listing
            .newest_delta()
            .is_some_and(|last| reach.next <= last)
        {
            self.next_delta(&mut reach, listing).await?;
        }
        Ok(reach)
    }

    /// As [`Self::delta`], and says which deltas are missing where the next one is.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn next_delta(
        &self,
        reach: &mut Position,
        listing: &Listing,
    ) -> Result<Option<Recorded>, ReadError> {
        let there = listing
            .deltas
            .range(reach.next..)
            .next()
            .map(|(number, _)| *number);
        match there {
            Some(number) if number > reach.next => Err(Broken::Missing {
                from: reach.next,
                to: number - 1,
                after: reach.revision,
            }
            .into()),
            _ => self.delta(reach).await,
        }
    }
}

fn follows(name: Name, wanted: Option<Digest>, found: Option<Digest>) -> Result<(), Damage> {
    match (wanted, found) {
        (Some(wanted), Some(found)) if wanted == found => Ok(()),
        (Some(wanted), Some(found)) => Err(Flaw::Follows { wanted, found }.of(name)),
        _ => Err(Flaw::FollowsNothing.of(name)),
    }
}
