//! Where objects are kept: a bucket or a directory.
//!
//! Invariant: [`Store::create`] is the only way to write, and it never replaces anything.

pub mod directory;

use std::fmt;
use std::future::Future;

use bytes::Bytes;

/// What a backup asks of a store. Keys are paths without a slash in front.
pub trait Store: Send + Sync + 'static {
    /// Writes an object unless there is one of this name, atomically.
    ///
    /// # Errors
    /// [`StoreError`]. The object may be there all the same: the answer may have been lost.
    fn create(
        &self,
        key: &str,
        bytes: Bytes,
    ) -> impl Future<Output = Result<Created, StoreError>> + Send;

    /// Reads an object whole.
    ///
    /// # Errors
    /// [`StoreError`]; [`Cause::TooLong`] for more than `most` bytes.
    fn get(&self, key: &str, most: usize)
    -> impl Future<Output = Result<Bytes, StoreError>> + Send;

    /// The objects whose names begin with `folder`, which ends with a slash, in the order of their
    /// names: those after `after`, a page at most.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list(
        &self,
        folder: &str,
        after: Option<&str>,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Deletes an object. One that is not there is no error.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&self, key: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What came of [`Store::create`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Created {
    /// It was written.
    New,
    /// There is one of this name, and it is as it was.
    Exists,
}

/// Some objects of a folder.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Page {
    /// Keys, sorted.
    pub objects: Vec<Entry>,
    /// Whether there may be more after the last one.
    pub more: bool,
}

/// An object in a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Its bytes.
    pub bytes: u64,
}

/// What was asked of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Call {
    /// [`Store::create`].
    Create,
    /// [`Store::get`].
    Get,
    /// [`Store::list`].
    List,
    /// [`Store::delete`].
    Delete,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Delete => "delete",
        })
    }
}

/// Why a store did not do it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// There is no such object.
    NotFound,
    /// There is no such bucket or directory.
    NoBucket,
    /// The credentials may not, or are wrong.
    Rights,
    /// The bucket is in another region.
    Region,
    /// The two clocks differ too much.
    Clock,
    /// Its certificate is not trusted, or it speaks no TLS.
    Tls,
    /// It cannot be reached, or did not answer in time.
    Unreachable,
    /// It says that it cannot now.
    Busy,
    /// It knows no conditional put.
    NotConditional,
    /// More bytes than were asked for at most.
    TooLong,
    /// No place is left.
    Full,
    /// Anything else.
    Other,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "there is no such object",
            Self::NoBucket => "there is no such bucket or directory",
            Self::Rights => "the credentials do not allow it, or are wrong",
            Self::Region => "the bucket is in another region",
            Self::Clock => "the clock here and the clock there differ too much",
            Self::Tls => {
                "the TLS connection failed: its certificate is not trusted, or it has none"
            }
            Self::Unreachable => "it cannot be reached or does not answer",
            Self::Busy => "it says that it is busy",
            Self::NotConditional => "it does not know If-None-Match (conditional put)",
            Self::TooLong => "the object is too long",
            Self::Full => "no place is left",
            Self::Other => "it failed",
        })
    }
}

/// A call that failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{call} of {key}: {cause} ({detail})")]
pub struct StoreError {
    /// What was asked.
    pub call: Call,
    /// Of which object or folder.
    pub key: String,
    /// Why not.
    pub cause: Cause,
    /// What the store, or the library that asks it, said.
    pub detail: String,
}

/// Most bytes of what a store says that are kept.
const MOST_DETAIL: usize = 400;

impl StoreError {
    /// Of a call, with what was said about it, shortened.
    #[must_use]
    pub fn new(call: Call, key: &str, cause: Cause, detail: &str) -> Self {
        let line = |c: char| if c.is_control() { ' ' } else { c };
        Self {
            call,
            key: key.to_owned(),
            cause,
            detail: detail.chars().take(MOST_DETAIL).map(line).collect(),
        }
    }
}
