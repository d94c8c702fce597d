//! What can be wrong with an object. Each says which one it is.

use crate::digest::Digest;
use crate::names::{Name, Scope};

/// Why an object is not what its name promises.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("object {name}: {what}")]
pub struct Damage {
    /// The object.
    pub name: Name,
    /// What is wrong with it.
    pub what: Flaw,
}

/// What is wrong with an object.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Flaw {
    /// Too short for one, or it begins otherwise.
    #[error("it is no object of a backup")]
    NotAnObject,
    /// More bytes than any has.
    #[error("it has {0} bytes, more than any object of a backup")]
    TooLong(u64),
    /// Its last 32 bytes are not the sum of those before: bytes were changed, or the end is missing.
    #[error("its bytes are not those that were written")]
    Checksum,
    /// Written by a later version.
    #[error("its format is {0}, and this program reads 1")]
    Format(u32),
    /// A header that contradicts itself.
    #[error("its header is not valid: {0}")]
    Header(&'static str),
    /// Of another tenant cluster, or of another etcd.
    #[error("it belongs to {found:?}, not to {wanted:?}")]
    Foreign {
        /// Whose it says that it is.
        found: Scope,
        /// Whose was asked for.
        wanted: Scope,
    },
    /// Another object under this name.
    #[error("it is {0} by its own account")]
    Misnamed(String),
    /// Sealed with a key that is not at hand.
    #[error("it is sealed with the key {found}, and the key at hand is {have}")]
    OtherKey {
        /// The object's.
        found: String,
        /// Ours.
        have: String,
    },
    /// The recovery key does not open the key that came with it.
    #[error("the recovery key does not open its key")]
    Recovery,
    /// It was not sealed with this key, or was changed by somebody who knows the format.
    #[error("it was not sealed by the owner of its key")]
    Forged,
    /// What was sealed is not what the header says.
    #[error("its content is not valid: {0}")]
    Content(&'static str),
    /// The one before is another one than it was written after.
    #[error("it follows {wanted}, and {found} stands before it")]
    Follows {
        /// Sum of the object that it was written after.
        wanted: Digest,
        /// Sum of the one before.
        found: Digest,
    },
    /// A digest that must be there is not.
    #[error("it does not say what it follows")]
    FollowsNothing,
}

impl Flaw {
    /// The object that has it.
    #[must_use]
    pub fn of(self, name: Name) -> Damage {
        Damage { name, what: self }
    }
}
