//! An object: magic, length of the header, header, sealed content, SHA-256 of all that.
//!
//! The content is compressed (zstd) and sealed with AES-256-GCM under a key of this object alone, made
//! of the data key and 32 random bytes of the header; so the nonce is always zero. All before the sealed
//! content is its associated data.
//! Invariant: what is not what was written is found: without a key if bytes changed by themselves, with
//! it also if somebody changed them who knows the format.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::damage::{Damage, Flaw};
use crate::digest::{Digest, Hasher};
use crate::header::{Header, MOST_HEADER, Seal};
use crate::keys::{DataKey, KEY_BYTES, Keys, RecoveryKey, WrappedKey};
use crate::names::{Name, Scope};

const MAGIC: &[u8; 8] = b"COVEYBK\n";
/// Bytes before the header.
const START: usize = MAGIC.len() + 4;
const TAG: usize = 16;

/// Most bytes of content.
pub const MOST_CONTENT: usize = 16 * 1024 * 1024;
/// Most bytes of an object. What does not shrink grows by less than a 128th.
pub const MOST_OBJECT: usize = MOST_CONTENT + MOST_CONTENT / 128 + MOST_HEADER + 1024;
/// What is quick; a level more costs a half more of time and saves a twentieth of place.
const LEVEL: i32 = 1;

/// Content that cannot be sealed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotSealed {
    /// More than [`MOST_CONTENT`].
    #[error("{0} bytes are too many for one object")]
    TooLong(usize),
    /// Of a library.
    #[error("the content could not be compressed and sealed")]
    Failed,
}

/// Makes an object. `salt` is random and never used again.
///
/// # Errors
/// [`NotSealed`].
pub fn seal(
    header: &Header,
    keys: &Keys,
    salt: [u8; KEY_BYTES],
    content: &[u8],
) -> Result<Vec<u8>, NotSealed> {
    let too_long = NotSealed::TooLong(content.len());
    if content.len() > MOST_CONTENT {
        return Err(too_long);
    }
    let seal = Seal {
        key_id: keys.data.id().into_bytes(),
        wrapped_key: keys.wrapped.as_bytes().to_vec(),
        salt: salt.to_vec(),
        plain_bytes: u32::try_from(content.len()).map_err(|_| too_long)?,
    };
    let header = header.encode(&seal);
    let length = u32::try_from(header.len()).map_err(|_| NotSealed::Failed)?;
    let mut sealed = zstd::bulk::compress(content, LEVEL).map_err(|_| NotSealed::Failed)?;
    let room = START + header.len() + sealed.len() + TAG + Digest::BYTES;
    let mut object = Vec::with_capacity(room);
    object.extend_from_slice(MAGIC);
    object.extend_from_slice(&length.to_le_bytes());
    object.extend_from_slice(&header);
    let cipher = cipher(&keys.data, &salt).ok_or(NotSealed::Failed)?;
    cipher
        .seal_in_place_append_tag(nonce(), Aad::from(&object), &mut sealed)
        .map_err(|_| NotSealed::Failed)?;
    object.append(&mut sealed);
    let sum = Digest::of(&object);
    object.extend_from_slice(sum.as_bytes());
    Ok(object)
}

/// An object whose bytes are those that were written, and that is what its name says.
#[derive(Debug)]
pub struct Opened<'a> {
    /// Its header.
    pub header: Header,
    /// Its sum, which the next one names.
    pub digest: Digest,
    name: Name,
    seal: Seal,
    before: &'a [u8],
    sealed: &'a [u8],
}

/// Looks at an object without a key.
///
/// # Errors
/// [`Damage`]: another object, another tenant cluster's, or other bytes than were written.
pub fn open<'a>(name: Name, scope: &Scope, bytes: &'a [u8]) -> Result<Opened<'a>, Damage> {
    read(name, scope, bytes).map_err(|flaw| flaw.of(name))
}

fn read<'a>(name: Name, scope: &Scope, bytes: &'a [u8]) -> Result<Opened<'a>, Flaw> {
    if bytes.len() > MOST_OBJECT {
        return Err(Flaw::TooLong(bytes.len() as u64));
    }
    if !bytes.starts_with(MAGIC) {
        return Err(Flaw::NotAnObject);
    }
    let end = bytes.len().checked_sub(Digest::BYTES);
    let (content, sum) = bytes.split_at(end.ok_or(Flaw::NotAnObject)?);
    let digest = Digest::of(content);
    if Digest::read(sum) != Some(digest) {
        return Err(Flaw::Checksum);
    }
    let length = content.get(MAGIC.len()..START);
    let length = length.and_then(|bytes| bytes.try_into().ok());
    let length = u32::from_le_bytes(length.ok_or(Flaw::NotAnObject)?) as usize;
    if length > MOST_HEADER || START + length + TAG > content.len() {
        return Err(Flaw::Header("its length leads out of the object"));
    }
    let (before, sealed) = content.split_at(START + length);
    let (header, seal) = Header::decode(&before[START..])?;
    if header.scope != *scope {
        return Err(Flaw::Foreign {
            found: header.scope,
            wanted: scope.clone(),
        });
    }
    if header.name() != name {
        return Err(Flaw::Misnamed(header.name().to_string()));
    }
    if seal.plain_bytes as usize > MOST_CONTENT {
        return Err(Flaw::Header("its content is too long"));
    }
    Ok(Opened {
        header,
        digest,
        name,
        seal,
        before,
        sealed,
    })
}

impl Opened<'_> {
    /// What was sealed.
    ///
    /// # Errors
    /// [`Damage`]: another key, or not written by its owner.
    pub fn content(&self, key: &DataKey) -> Result<Vec<u8>, Damage> {
        self.unseal(key).map_err(|flaw| flaw.of(self.name))
    }

    /// The data key that it was sealed with, by the recovery key.
    ///
    /// # Errors
    /// [`Flaw::Recovery`].
    pub fn data_key(&self, recovery: &RecoveryKey) -> Result<DataKey, Damage> {
        let wrapped = WrappedKey::read(&self.seal.wrapped_key);
        let key = wrapped.and_then(|w| recovery.unwrap(&w, &self.header.scope.tenant).ok());
        key.ok_or_else(|| Flaw::Recovery.of(self.name))
    }

    fn unseal(&self, key: &DataKey) -> Result<Vec<u8>, Flaw> {
        if self.seal.key_id != key.id().as_bytes() {
            return Err(Flaw::OtherKey {
                found: self.seal.key_id.escape_ascii().to_string(),
                have: key.id(),
            });
        }
        let cipher = cipher(key, &self.seal.salt).ok_or(Flaw::Forged)?;
        let mut sealed = self.sealed.to_vec();
        let packed = cipher
            .open_in_place(nonce(), Aad::from(self.before), &mut sealed)
            .map_err(|_| Flaw::Forged)?;
        let length = self.seal.plain_bytes as usize;
        let content = zstd::bulk::decompress(packed, length);
        let content = content.map_err(|_| Flaw::Content("it cannot be unpacked"))?;
        if content.len() != length {
            return Err(Flaw::Content("it has another length than its header says"));
        }
        Ok(content)
    }
}

fn cipher(key: &DataKey, salt: &[u8]) -> Option<LessSafeKey> {
    let key = UnboundKey::new(&AES_256_GCM, &key.of_object(salt)).ok()?;
    Some(LessSafeKey::new(key))
}

/// Each key seals one object, so there is one nonce.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// A database in the parts of one size that full snapshots are cut into, with its sum on the way.
///
/// etcd ends the stream of a snapshot with the SHA-256 of the database; it belongs to what is kept, so
/// that `etcdutl` checks it again, and is held back here until the end to be compared.
#[derive(Debug)]
pub struct Cutter {
    size: usize,
    waiting: Vec<u8>,
    hasher: Hasher,
    bytes: u64,
}

/// What a stream of a snapshot was.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cut {
    /// The last part.
    pub rest: Vec<u8>,
    /// Bytes of the database.
    pub bytes: u64,
    /// Its sum, which etcd sent too.
    pub database: Digest,
}

/// A stream that ended early or was changed on the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the snapshot does not end with its own checksum: its stream was cut off or changed")]
pub struct BadStream;

impl Cutter {
    /// Parts of so many bytes, 1 at least.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            size: size.clamp(1, MOST_CONTENT),
            waiting: Vec::new(),
            hasher: Hasher::new(),
            bytes: 0,
        }
    }

    /// Adds a piece of the stream; gives a part when one is full. Call it with an empty piece until it
    /// gives none.
    pub fn push(&mut self, piece: &[u8]) -> Option<Vec<u8>> {
        self.waiting.extend_from_slice(piece);
        // What may be the checksum stays.
        if self.waiting.len() < self.size + Digest::BYTES {
            return None;
        }
        let rest = self.waiting.split_off(self.size);
        let part = std::mem::replace(&mut self.waiting, rest);
        self.hasher.update(&part);
        self.bytes += part.len() as u64;
        Some(part)
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// [`BadStream`].
    pub fn finish(mut self) -> Result<Cut, BadStream> {
        let end = self.waiting.len().checked_sub(Digest::BYTES);
        let (last, sum) = self.waiting.split_at(end.ok_or(BadStream)?);
        self.hasher.update(last);
        let bytes = self.bytes + last.len() as u64;
        let database = self.hasher.finish();
        if bytes == 0 || Digest::read(sum) != Some(database) {
            return Err(BadStream);
        }
        Ok(Cut {
            rest: self.waiting,
            bytes,
            database,
        })
    }
}

#[cfg(test)]
mod tests;
