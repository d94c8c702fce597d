//! The first message of TLS: whether what a client sent so far is a whole ClientHello.
//!
//! A client of a Kubernetes API speaks first, and begins with this message (RFC 8446 §4.1.2, in records of §5.1). A
//! health check or a scan of ports sends nothing or something else, and must wake nobody.
//! Invariant: pure and total; what is once [`Hello::Not`] is so with whatever bytes follow, and nothing but a message
//! whose every length is right is [`Hello::Whole`].

/// The most bytes that are read of a client before its control plane is there: no client that means well sends more.
pub const MOST: usize = 64 * 1024;

/// Bytes in front of each record: type, version, length.
const RECORD: usize = 5;
/// The most bytes of one record (RFC 8446 §5.1).
const RECORD_MOST: usize = 1 << 14;
/// Bytes in front of a handshake message: type, length.
const MESSAGE: usize = 4;
const TYPE_HANDSHAKE: u8 = 22;
const TYPE_CLIENT_HELLO: u8 = 1;
const RANDOM: usize = 32;
const SESSION_MOST: usize = 32;
const LENGTHS: &str = "a ClientHello whose lengths are wrong";

/// What the bytes are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hello {
    /// The beginning of one; with fewer bytes in all than `needed` it stays that.
    Partial {
        /// So many bytes at least, from the first one on.
        needed: usize,
    },
    /// A whole one; more may follow.
    Whole,
    /// None, for this reason, whatever follows.
    Not(&'static str),
}

/// Reads all bytes that came so far, from the first one on.
#[must_use]
pub fn read(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        let Some((header, body)) = rest.split_at_checked(RECORD) else {
            return partial_header(bytes, rest, &message);
        };
        if let Some(wrong) = wrong_header(header) {
            return Hello::Not(wrong);
        }
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 {
            return Hello::Not("an empty record");
        }
        if length > RECORD_MOST {
            return Hello::Not("a record that is too long");
        }
        let (fragment, after) = body.split_at(length.min(body.len()));
        message.extend_from_slice(fragment);
        let missing = length - fragment.len();
        match wanted(&message) {
            Err(wrong) => return Hello::Not(wrong),
            // Another handshake message would follow, and a client has none to send.
            Ok(Some(wanted)) if message.len() + missing > wanted => return Hello::Not(LENGTHS),
            Ok(Some(wanted)) if message.len() == wanted => return judged(&message),
            Ok(_) => {}
        }
        if missing > 0 {
            return needs(bytes.len() + missing);
        }
        rest = after;
    }
}

/// The bytes end within, or right before, the header of a record.
fn partial_header(bytes: &[u8], rest: &[u8], message: &[u8]) -> Hello {
    match wrong_header(rest) {
        Some(wrong) => Hello::Not(wrong),
        // At least one byte of the message follows the header.
        None => match wanted(message) {
            Err(wrong) => Hello::Not(wrong),
            Ok(_) => needs(bytes.len() - rest.len() + RECORD + 1),
        },
    }
}

fn needs(needed: usize) -> Hello {
    match needed > MOST {
        true => Hello::Not("longer than 64 KiB"),
        false => Hello::Partial { needed },
    }
}

/// What is wrong with a header, or with as much of it as there is.
fn wrong_header(header: &[u8]) -> Option<&'static str> {
    if header.first().is_some_and(|kind| *kind != TYPE_HANDSHAKE) {
        return Some("no handshake of TLS");
    }
    if header.get(1).is_some_and(|major| *major != 3)
        || header.get(2).is_some_and(|minor| *minor > 4)
    {
        return Some("a version that is none of TLS");
    }
    None
}

/// How long the message is with its header, once that is known.
fn wanted(message: &[u8]) -> Result<Option<usize>, &'static str> {
    if message
        .first()
        .is_some_and(|kind| *kind != TYPE_CLIENT_HELLO)
    {
        return Err("a handshake that begins with something else than ClientHello");
    }
    let Some(header) = message.get(..MESSAGE) else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([0, header[1], header[2], header[3]]);
    let wanted = usize::try_from(length)
        .unwrap_or(usize::MAX)
        .saturating_add(MESSAGE);
    match wanted > MOST - RECORD {
        true => Err("longer than 64 KiB"),
        false => Ok(Some(wanted)),
    }
}

fn judged(message: &[u8]) -> Hello {
    match is_client_hello(&message[MESSAGE..]) {
        true => Hello::Whole,
        false => Hello::Not(LENGTHS),
    }
}

/// Version, random, session, cipher suites, compression methods, and maybe extensions; nothing after them.
fn is_client_hello(body: &[u8]) -> bool {
    let mut rest = body;
    let is_hello = (|| {
        let version = take(&mut rest, 2)?;
        take(&mut rest, RANDOM)?;
        let session = take_counted(&mut rest, 1)?;
        let suites = take_counted(&mut rest, 2)?;
        let compression = take_counted(&mut rest, 1)?;
        let extensions = match rest {
            [] => true,
            _ => are_extensions(take_counted(&mut rest, 2)?),
        };
        let lengths = session.len() <= SESSION_MOST
            && !suites.is_empty()
            && suites.len() % 2 == 0
            && !compression.is_empty();
        Some(version[0] == 3 && lengths && extensions)
    })();
    is_hello == Some(true) && rest.is_empty()
}

fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        if take(&mut rest, 2)
            .and_then(|_| take_counted(&mut rest, 2))
            .is_none()
        {
            return false;
        }
    }
    true
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

/// As many bytes as a number in front of them says, which has `size` bytes.
fn take_counted<'a>(rest: &mut &'a [u8], size: usize) -> Option<&'a [u8]> {
    let count = take(rest, size)?;
    let count = count
        .iter()
        .fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
    take(rest, count)
}

#[cfg(test)]
mod tests;
