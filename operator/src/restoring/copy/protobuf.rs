//! Fields of a message of Protocol Buffers, as they stand in it: what is not looked at stays byte for byte, known or not.
//!
//! Invariant: fields put together again are the message; what is none is not read.

/// Length-delimited, of the wire types that there are.
const NESTED: u64 = 2;

/// One field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Field<'a> {
    /// Its number.
    pub(super) number: u64,
    /// All of it.
    pub(super) whole: &'a [u8],
    /// What is in it; empty where it is a number.
    pub(super) content: &'a [u8],
}

/// All fields of a message, in order; none where it is no message.
pub(super) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let (mut found, mut rest) = (Vec::new(), message);
    while !rest.is_empty() {
        let (tag, after) = varint(rest)?;
        let (number, wire) = (tag >> 3, tag & 7);
        let (content, after): (&[u8], &[u8]) = match wire {
            0 => (&[], varint(after)?.1),
            1 => (&[], after.get(8..)?),
            NESTED => {
                let (length, after) = varint(after)?;
                after.split_at_checked(usize::try_from(length).ok()?)?
            }
            5 => (&[], after.get(4..)?),
            _ => return None,
        };
        let whole = rest.get(..rest.len() - after.len())?;
        found.push(Field {
            number,
            whole,
            content,
        });
        rest = after;
    }
    Some(found)
}

/// A field with something in it.
pub(super) fn nested(number: u64, content: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    write_varint((number << 3) | NESTED, &mut field);
    // No memory has more.
    write_varint(u64::try_from(content.len()).unwrap_or(u64::MAX), &mut field);
    field.extend(content);
    field
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(at).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

fn write_varint(mut value: u64, to: &mut Vec<u8>) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            to.push(low & 0x7f);
            return;
        }
        to.push(low | 0x80);
    }
}
