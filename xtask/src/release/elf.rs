//! Whether a program is what a release says it is: of its architecture, and in need of no library.
//!
//! Invariant: pure. What is no ELF file of 64 bits is refused.

use anyhow::{Result, bail, ensure};

use super::architecture::Architecture;

/// `PT_INTERP` (elf.h): the program asks for the loader of shared libraries.
const INTERPRETER: u32 = 3;

/// Checks one program by its bytes.
///
/// # Errors
/// It is for another architecture, or loads shared libraries.
pub(crate) fn check(bytes: &[u8], architecture: Architecture) -> Result<()> {
    ensure!(
        bytes.starts_with(b"\x7fELF\x02\x01"),
        "it is no program of 64 bits for Linux"
    );
    let machine = u16::try_from(number(bytes, 18, 2)?)?;
    if machine != architecture.elf_machine() {
        bail!(
            "it is for another architecture than {}",
            architecture.name()
        );
    }
    let (start, size, count) = (
        number(bytes, 32, 8)?,
        number(bytes, 54, 2)?,
        number(bytes, 56, 2)?,
    );
    for at in 0..count {
        let header = usize::try_from(start + at * size)?;
        if number(bytes, header, 4)? == u64::from(INTERPRETER) {
            bail!("it is not static: it loads shared libraries");
        }
    }
    Ok(())
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Result<u64> {
    let Some(found) = at.checked_add(length).and_then(|end| bytes.get(at..end)) else {
        bail!("it ends in the middle of its headers");
    };
    Ok(found
        .iter()
        .rev()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::super::architecture::Architecture::{Amd64, Arm64};
    use super::check;

    /// A file with nothing but headers, one of which is of this type.
    fn program(machine: u16, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 2 * 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&2_u16.to_le_bytes());
        bytes[64..68].copy_from_slice(&1_u32.to_le_bytes());
        bytes[120..124].copy_from_slice(&kind.to_le_bytes());
        bytes
    }

    fn refused(bytes: &[u8]) -> String {
        check(bytes, Amd64).unwrap_err().to_string()
    }

    #[test]
    fn a_static_program_of_its_architecture_is_taken() {
        check(&program(62, 2), Amd64).unwrap();
        check(&program(183, 2), Arm64).unwrap();
    }

    #[test]
    fn others_are_refused_and_why() {
        assert!(refused(&program(183, 2)).contains("architecture"));
        assert!(refused(&program(62, 3)).contains("not static"));
        assert!(refused(b"#!/bin/sh\n").contains("no program"));
        assert!(refused(&program(62, 2)[..100]).contains("ends"));
        let mut far = program(62, 2);
        far[32..40].copy_from_slice(&(u64::MAX - 200).to_le_bytes());
        assert!(check(&far, Amd64).is_err());
    }

    #[test]
    fn a_test_program_is_told_from_a_static_one() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let architecture = super::Architecture::own().unwrap();
        let error = check(&own, architecture).unwrap_err().to_string();
        assert!(error.contains("not static"), "{error}");
    }
}
