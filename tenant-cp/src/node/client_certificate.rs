//! First client certificates of kubelets: whether whoever shows a bootstrap token may have one.
//!
//! Kubernetes lets the holders of a group of tokens have any node's name (`nodeclient`), so a token that leaks could be
//! any node, and nobody would notice a second use. Here a token is its one Machine's, for one key.
//! Invariant: approved only for the name of the Machine that the token was made for, and for one public key in the
//! Machine's life: the first that asked, which is recorded before the answer.

use std::collections::BTreeSet;

use api::Reason;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec,
};
use pki::request::Request;
use sha2::{Digest as _, Sha256};

use crate::names;

/// Prefix of the user that a bootstrap token makes; its public half follows.
const TOKEN_USER_PREFIX: &str = "system:bootstrap:";
/// Longest name of a node, in bytes (RFC 1123 subdomain).
const MAX_NODE: usize = 253;

/// What is known of the machine whose name is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Name of the node, which is the name of the Machine.
    pub node: &'a str,
    /// Public half of the Machine's token.
    pub token_id: &'a str,
    /// [`digest`] of the key that the token was used for; none: for none yet.
    pub key: Option<&'a str>,
    /// Its node joined: no other key is a first one any more.
    pub has_joined: bool,
}

/// What to do about a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Record this [`digest`], then approve it.
    First(String),
    /// Approve it: the same key asks again.
    Approve,
    /// Deny it: somebody else has the token, too.
    UsedTwice(String),
    /// Deny it; it can never become right.
    Deny {
        /// For the condition.
        reason: Reason,
        /// What is wrong.
        message: String,
    },
    /// Another signer's, not by a token, or decided already.
    NotOurs,
}

/// The node whose certificate a holder of a bootstrap token asks for. None where the request is another one.
#[must_use]
pub fn node(spec: &CertificateSigningRequestSpec) -> Option<String> {
    is_by_token(spec).then_some(())?;
    let read = pki::request::read(&spec.request.0)?;
    let [name] = read.common_names.as_slice() else {
        return None;
    };
    let node = name.strip_prefix(super::serving_certificate::NODE_USER_PREFIX)?;
    // Kept while it waits, so no longer than any name of a Machine.
    (1..=MAX_NODE)
        .contains(&node.len())
        .then(|| node.to_owned())
}

fn is_by_token(spec: &CertificateSigningRequestSpec) -> bool {
    let user = spec.username.as_deref().unwrap_or_default();
    spec.signer_name == names::KUBELET_CLIENT_SIGNER && user.starts_with(TOKEN_USER_PREFIX)
}

/// Digest (SHA-256, hexadecimal) of a public key: SubjectPublicKeyInfo, DER.
#[must_use]
pub fn digest(public_key: &[u8]) -> String {
    hex::encode(Sha256::digest(public_key))
}

/// Judges a request for the certificate of the node in `expected`.
#[must_use]
pub fn check(request: &CertificateSigningRequest, expected: Expected<'_>) -> Verdict {
    let status = request.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    let is_answer = |type_: &str| ["Approved", "Denied", "Failed"].contains(&type_);
    if !is_by_token(&request.spec) || conditions.any(|c| is_answer(&c.type_)) {
        return Verdict::NotOurs;
    }
    let read = match review(&request.spec, expected) {
        Ok(read) => read,
        Err((reason, message)) => return Verdict::Deny { reason, message },
    };
    let asked = digest(&read.public_key);
    match expected.key {
        Some(known) if known == asked => Verdict::Approve,
        None if !expected.has_joined => Verdict::First(asked),
        _ => Verdict::UsedTwice(format!(
            "the bootstrap token of {} was used for another key before: whoever asks now, or whoever asked first, has it \
             without being that machine",
            expected.node
        )),
    }
}

/// What is asked for; an error is a reason to deny.
fn review(
    spec: &CertificateSigningRequestSpec,
    expected: Expected<'_>,
) -> Result<Request, (Reason, String)> {
    let user = format!("{TOKEN_USER_PREFIX}{}", expected.token_id);
    let from = spec.username.as_deref().unwrap_or_default();
    if from != user {
        let message = format!(
            "{from} asks for the certificate of {}, whose token is another one",
            expected.node
        );
        return Err((Reason::WrongRequestor, message));
    }
    let usages: BTreeSet<&str> = spec.usages.iter().flatten().map(String::as_str).collect();
    let least = BTreeSet::from(["client auth", "digital signature"]);
    let rsa = BTreeSet::from(["client auth", "digital signature", "key encipherment"]);
    if usages != least && usages != rsa {
        let message = format!("its usages are {usages:?}; those of a client are {least:?}");
        return Err((Reason::WrongUsages, message));
    }
    let read = pki::request::read(&spec.request.0).ok_or_else(|| {
        let message = "it is not a PKCS #10 request that is signed with its own key";
        (Reason::Unreadable, message.to_owned())
    })?;
    let node = format!(
        "{}{}",
        super::serving_certificate::NODE_USER_PREFIX,
        expected.node
    );
    if read.common_names != [node.as_str()] || read.organizations != [names::NODES] {
        let message = format!(
            "its subject is {:?} of {:?} instead of {node} of {}",
            read.common_names,
            read.organizations,
            names::NODES
        );
        return Err((Reason::WrongSubject, message));
    }
    if read.authority {
        let message = "it asks for a certificate authority".to_owned();
        return Err((Reason::WrongUsages, message));
    }
    if read.other_names > 0 || !read.dns_names.is_empty() || !read.addresses.is_empty() {
        let message = "a client certificate has no other names, and it asks for some".to_owned();
        return Err((Reason::WrongName, message));
    }
    match &read.weak_key {
        Some(key) => Err((
            Reason::WeakKey,
            format!("it has {key}; a kubelet makes an EC P-256 key"),
        )),
        None => Ok(read),
    }
}

#[cfg(test)]
mod tests;
