//! The key by which the accounts of the fake are let in.
//!
//! Invariant: it is of nobody: made for tests.

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{KeyPair as _, RsaKeyPair};

/// In PKCS #8.
pub(super) const KEY: &str = include_str!("key_of_tests.pem");

/// Its public half: DER of `RSAPublicKey`.
pub(super) fn public() -> Result<Vec<u8>> {
    let body = KEY.lines().filter(|line| !line.starts_with("-----"));
    let der = STANDARD.decode(body.collect::<String>());
    let der = der.context("the key of tests is no PEM")?;
    let pair = RsaKeyPair::from_pkcs8(&der);
    let pair = pair.map_err(|error| anyhow!("the key of tests cannot be used: {error}"))?;
    Ok(pair.public_key().as_ref().to_vec())
}
