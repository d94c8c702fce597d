//! The header of an object: in the clear, so that a chain can be followed without a key, and part of
//! what is sealed, so that nobody but the key's owner writes one.

use prost::Message;

use crate::damage::Flaw;
use crate::digest::Digest;
use crate::names::{FullName, IdentityName, MOST_TENANT, Name, Scope};

/// The only format there is.
pub const FORMAT: u32 = 1;
/// Most bytes of a header; one has some 400.
pub const MOST_HEADER: usize = 4096;
/// Most bytes of a text in it.
const MOST_TEXT: usize = 256;

/// What an object is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Revisions `first..=last`, as link `number` of the chain.
    Delta {
        /// Its place in the chain, from 0.
        number: u64,
        /// First revision.
        first: u64,
        /// Last revision.
        last: u64,
        /// First revision of the deltas before this one that it follows without a hole; its own first
        /// one where it begins anew.
        since: u64,
        /// The newest full snapshot when it was written, and the sum of its head. None while there is
        /// none: the first deltas are written while the first snapshot still is.
        full: Option<(FullName, Digest)>,
    },
    /// A piece of a database.
    Part {
        /// Whose.
        full: FullName,
        /// Its place, from 0.
        part: u32,
    },
    /// The end of a full snapshot.
    Head {
        /// Which.
        full: FullName,
        /// How many parts it has.
        parts: u32,
        /// A revision that it does not go beyond: the store's after the first piece had arrived.
        most: u64,
        /// Bytes of the database.
        bytes: u64,
        /// Sum of the database, as etcd gave it.
        database: Digest,
    },
    /// What the tenant cluster is, sealed for the recovery key.
    Identity(IdentityName),
}

/// A header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Header {
    /// Whose it is.
    pub scope: Scope,
    /// What it is.
    pub kind: Kind,
    /// Sum of the object before: of a delta the delta before, of a part the part before (of the first
    /// one the delta before [`FullName::next`]), of a head the last part. None where nothing is before, and of an identity.
    pub previous: Option<Digest>,
    /// When it was written, in milliseconds since 1970 by the writer's clock.
    pub written_ms: u64,
    /// Who wrote it: a name for people.
    pub writer: String,
    /// etcd's version, as it says itself.
    pub etcd: String,
    /// Version of the tenant cluster's Kubernetes, as the operator says; may be empty.
    pub kubernetes: String,
}

/// What the seal adds to a header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Seal {
    pub(crate) key_id: Vec<u8>,
    pub(crate) wrapped_key: Vec<u8>,
    pub(crate) salt: Vec<u8>,
    pub(crate) plain_bytes: u32,
}

impl Header {
    /// The name that an object with this header has.
    #[must_use]
    pub fn name(&self) -> Name {
        match self.kind {
            Kind::Delta { number, .. } => Name::Delta(number),
            Kind::Part { full, part } => Name::Part(full, part),
            Kind::Head { full, .. } => Name::Head(full),
            Kind::Identity(identity) => Name::Identity(identity),
        }
    }

    pub(crate) fn encode(&self, seal: &Seal) -> Vec<u8> {
        let mut wire = Wire {
            format: FORMAT,
            tenant: self.scope.tenant.clone(),
            cluster: self.scope.cluster,
            previous: self.previous.map(|d| d.as_bytes().to_vec()),
            written_ms: self.written_ms,
            writer: shortened(&self.writer),
            etcd: shortened(&self.etcd),
            kubernetes: shortened(&self.kubernetes),
            key_id: seal.key_id.clone(),
            wrapped_key: seal.wrapped_key.clone(),
            salt: seal.salt.clone(),
            plain_bytes: seal.plain_bytes,
            ..Wire::default()
        };
        let full = match self.kind {
            Kind::Delta {
                number,
                first,
                last,
                since,
                full,
            } => {
                wire.kind = DELTA;
                (wire.number, wire.first, wire.last) = (number, first, last);
                wire.since = since;
                wire.digest = full.map_or_else(Vec::new, |(_, head)| head.as_bytes().to_vec());
                full.map(|(full, _)| full)
            }
            Kind::Part { full, part } => {
                wire.kind = PART;
                wire.number = part.into();
                Some(full)
            }
            Kind::Head {
                full,
                parts,
                most,
                bytes,
                database,
            } => {
                wire.kind = HEAD;
                (wire.number, wire.last, wire.bytes) = (parts.into(), most, bytes);
                wire.digest = database.as_bytes().to_vec();
                Some(full)
            }
            Kind::Identity(identity) => {
                wire.kind = IDENTITY;
                wire.number = identity.sealed_ms;
                wire.digest = identity.digest.as_bytes().to_vec();
                None
            }
        };
        let full = full.unwrap_or(FullName {
            revision: 0,
            next: 0,
            taken_ms: 0,
        });
        (wire.full_revision, wire.full_next, wire.full_taken_ms) =
            (full.revision, full.next, full.taken_ms);
        wire.encode_to_vec()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Seal), Flaw> {
        let wire = Wire::decode(bytes).map_err(|_| Flaw::Header("it is not one"))?;
        if wire.format != FORMAT {
            return Err(Flaw::Format(wire.format));
        }
        let texts = [&wire.writer, &wire.etcd, &wire.kubernetes];
        if texts.iter().any(|text| text.len() > MOST_TEXT) || wire.tenant.len() > MOST_TENANT {
            return Err(Flaw::Header("a text is too long"));
        }
        let scope = Scope::new(&wire.tenant, wire.cluster);
        let header = Self {
            scope: scope.ok_or(Flaw::Header("it names no tenant cluster"))?,
            kind: wire.kind()?,
            previous: match &wire.previous {
                None => None,
                Some(bytes) => Some(digest(bytes)?),
            },
            written_ms: wire.written_ms,
            writer: wire.writer,
            etcd: wire.etcd,
            kubernetes: wire.kubernetes,
        };
        let seal = Seal {
            key_id: wire.key_id,
            wrapped_key: wire.wrapped_key,
            salt: wire.salt,
            plain_bytes: wire.plain_bytes,
        };
        Ok((header, seal))
    }
}

const DELTA: u32 = 1;
const PART: u32 = 2;
const HEAD: u32 = 3;
const IDENTITY: u32 = 4;

#[derive(Clone, PartialEq, Message)]
struct Wire {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(string, tag = "2")]
    tenant: String,
    #[prost(fixed64, tag = "3")]
    cluster: u64,
    #[prost(uint32, tag = "4")]
    kind: u32,
    #[prost(uint64, tag = "5")]
    number: u64,
    #[prost(uint64, tag = "6")]
    first: u64,
    #[prost(uint64, tag = "7")]
    last: u64,
    #[prost(uint64, tag = "8")]
    full_revision: u64,
    #[prost(uint64, tag = "9")]
    full_next: u64,
    #[prost(uint64, tag = "10")]
    full_taken_ms: u64,
    #[prost(bytes = "vec", tag = "11")]
    digest: Vec<u8>,
    #[prost(uint64, tag = "12")]
    bytes: u64,
    #[prost(bytes = "vec", optional, tag = "13")]
    previous: Option<Vec<u8>>,
    #[prost(uint64, tag = "14")]
    written_ms: u64,
    #[prost(string, tag = "15")]
    writer: String,
    #[prost(string, tag = "16")]
    etcd: String,
    #[prost(string, tag = "17")]
    kubernetes: String,
    #[prost(bytes = "vec", tag = "18")]
    key_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "19")]
    wrapped_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "20")]
    salt: Vec<u8>,
    #[prost(uint32, tag = "21")]
    plain_bytes: u32,
    #[prost(uint64, tag = "22")]
    since: u64,
}

impl Wire {
    fn kind(&self) -> Result<Kind, Flaw> {
        let full = FullName {
            revision: self.full_revision,
            next: self.full_next,
            taken_ms: self.full_taken_ms,
        };
        let small = |number| u32::try_from(number).map_err(|_| Flaw::Header("a number is too big"));
        match self.kind {
            DELTA if self.since == 0 || self.first < self.since || self.last < self.first => {
                Err(Flaw::Header("its revisions are none"))
            }
            DELTA => Ok(Kind::Delta {
                number: self.number,
                first: self.first,
                last: self.last,
                since: self.since,
                full: match self.digest.is_empty() {
                    true => None,
                    false => Some((full, digest(&self.digest)?)),
                },
            }),
            PART => Ok(Kind::Part {
                full,
                part: small(self.number)?,
            }),
            HEAD if self.number == 0 || self.last < full.revision => {
                Err(Flaw::Header("its snapshot is empty"))
            }
            HEAD => Ok(Kind::Head {
                full,
                parts: small(self.number)?,
                most: self.last,
                bytes: self.bytes,
                database: digest(&self.digest)?,
            }),
            IDENTITY => Ok(Kind::Identity(IdentityName {
                sealed_ms: self.number,
                digest: digest(&self.digest)?,
            })),
            _ => Err(Flaw::Header("its kind is not known")),
        }
    }
}

fn digest(bytes: &[u8]) -> Result<Digest, Flaw> {
    Digest::read(bytes).ok_or(Flaw::Header("a sum has another length than 32 bytes"))
}

/// At most as many bytes as a reader takes.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(MOST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
