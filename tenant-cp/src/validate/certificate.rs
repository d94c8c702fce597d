//! Certificates that people paste.
//!
//! Invariant: no message repeats what was pasted, because it may be a key.

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What is wrong with certificates as PEM.
pub(super) fn problem(pem: &str) -> Option<&'static str> {
    if pem.contains("PRIVATE KEY") {
        return Some(
            "there is a private key in it: give certificates alone, and make a new key, because this \
             one is no secret any more",
        );
    }
    (!are_certificates(pem)).then_some(
        "it is not certificates as PEM: write all of it from -----BEGIN CERTIFICATE----- to \
         -----END CERTIFICATE-----",
    )
}

/// Certificates, one or more, and nothing but comments between them.
fn are_certificates(pem: &str) -> bool {
    let mut blocks = pem.split(BEGIN).skip(1).peekable();
    blocks.peek().is_some()
        && blocks.all(|block| {
            let body = block.split_once(END).map(|(body, _)| body);
            body.is_some_and(|body| {
                pki::public_key_pins(&format!("{BEGIN}{body}{END}\n")).is_some()
            })
        })
}
