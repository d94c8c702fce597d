//! Asks a store for everything that a backup will ask of it, and says which call failed and why.
//!
//! Invariant: nothing is left behind but where deleting is what fails.

use bytes::Bytes;

use crate::store::{Call, Cause, Created, Store, StoreError};

/// Where the check writes, beside the folders of tenants.
pub const FOLDER: &str = "covey-check/";

/// Why a store cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// A call failed.
    #[error(transparent)]
    Failed(#[from] StoreError),
    /// It answered, and the answer is wrong.
    #[error("{call} of {key}: {what}")]
    Wrong {
        /// What was asked.
        call: Call,
        /// Of which object.
        key: String,
        /// What is wrong.
        what: &'static str,
    },
}

impl Unusable {
    /// Why, in a word.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Failed(error) => error.cause,
            Self::Wrong {
                call: Call::Create, ..
            } => Cause::NotConditional,
            Self::Wrong { .. } => Cause::Other,
        }
    }
}

/// Puts, puts again, gets, lists and deletes one object whose name nobody else has: `unique` is a word
/// of letters, digits and hyphens.
///
/// # Errors
/// [`Unusable`], for the first call that failed.
pub async fn check<S: Store>(store: &S, unique: &str) -> Result<(), Unusable> {
    let key = format!("{FOLDER}{unique}");
    let wrong = |call, what| Unusable::Wrong {
        call,
        key: key.clone(),
        what,
    };
    // Rights to list are told before anything is written.
    store.list(FOLDER, None).await?;
    let content = Bytes::from_static(b"covey asks whether this store can hold backups\n");
    if store.create(&key, content.clone()).await? == Created::Exists {
        return Err(wrong(
            Call::Create,
            "there is said to be such an object, and it was just named",
        ));
    }
    let asked = async {
        let other = Bytes::from_static(b"this must never be stored\n");
        let again = store.create(&key, other).await?;
        let read = store.get(&key, 1024).await?;
        if again == Created::New || read != content {
            return Err(wrong(
                Call::Create,
                "an object was written over, although only a new one was to be created: \
                 it does not know If-None-Match (conditional put)",
            ));
        }
        let page = store.list(FOLDER, None).await?;
        if !page.objects.iter().any(|entry| entry.key == key) {
            return Err(wrong(
                Call::List,
                "an object that was just written is not listed",
            ));
        }
        Ok(())
    };
    let asked = asked.await;
    let deleted = store.delete(&key).await;
    asked?;
    deleted?;
    match store.get(&key, 1024).await {
        Err(StoreError {
            cause: Cause::NotFound,
            ..
        }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(wrong(
            Call::Delete,
            "an object that was just deleted is still there",
        )),
    }
}
