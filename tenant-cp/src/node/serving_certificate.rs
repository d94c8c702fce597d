//! Serving certificates of kubelets: whether one may have what it asks for.
//!
//! The kube-apiserver believes whoever has such a certificate to be the node of that name
//! (`--kubelet-certificate-authority`), so every name and address in it must be the machine's own.
//! Kubernetes checks only the form (`pkg/apis/certificates/helpers.go`, `ValidateKubeletServingCSR`)
//! and approves none by itself.
//! Invariant: [`Verdict::Approve`] only for a request of the node itself, for its own name, and for
//! addresses that the provider reports for its machine.

use std::{collections::BTreeSet, net::IpAddr};

use api::Reason;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec,
};
use pki::request::Request;

use crate::names;

/// The signer of kubelets' serving certificates.
pub const SIGNER: &str = names::KUBELET_SERVING_SIGNER;
/// Prefix of a node's user name.
pub const NODE_USER_PREFIX: &str = "system:node:";

/// What is known of the machine whose node asks.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Name of the node, which is the name of the Machine.
    pub node: &'a str,
    /// Addresses that the provider reports for the machine; empty while it reports none.
    pub addresses: &'a [IpAddr],
    /// Addresses of nodes of the tenant cluster that were there before, with whose each is.
    pub others: &'a [(IpAddr, String)],
}

/// What to do about a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Approve it.
    Approve,
    /// Deny it; it can never become right.
    Deny {
        /// For the condition.
        reason: Reason,
        /// What is wrong.
        message: String,
    },
    /// Leave it as it is until more is known of the machine.
    Wait {
        /// What is waited for.
        message: String,
    },
    /// Another signer's, or decided already.
    NotOurs,
}

/// The node that a request speaks for: `demo-a1b2c` for `system:node:demo-a1b2c`. None when it is
/// not by a node, or not for a serving certificate.
#[must_use]
pub fn node(spec: &CertificateSigningRequestSpec) -> Option<&str> {
    let name = spec.username.as_deref()?.strip_prefix(NODE_USER_PREFIX)?;
    (spec.signer_name == SIGNER && !name.is_empty()).then_some(name)
}

/// Judges a request of the node in `expected`.
#[must_use]
pub fn check(request: &CertificateSigningRequest, expected: Expected<'_>) -> Verdict {
    let decided = request
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| ["Approved", "Denied", "Failed"].contains(&condition.type_.as_str()));
    if request.spec.signer_name != SIGNER || decided {
        return Verdict::NotOurs;
    }
    match review(&request.spec, expected) {
        Ok(Some(unknown)) => Verdict::Wait {
            message: format!(
                "the provider does not report the address {unknown} for machine {} yet",
                expected.node
            ),
        },
        Ok(None) => Verdict::Approve,
        Err((reason, message)) => Verdict::Deny { reason, message },
    }
}

/// An address that may yet become known; an error is a reason to deny.
fn review(
    spec: &CertificateSigningRequestSpec,
    expected: Expected<'_>,
) -> Result<Option<IpAddr>, (Reason, String)> {
    let user = format!("{NODE_USER_PREFIX}{}", expected.node);
    let must = |holds: bool, reason, message: &dyn Fn() -> String| {
        if holds {
            Ok(())
        } else {
            Err((reason, message()))
        }
    };
    let from = spec.username.as_deref().unwrap_or_default();
    must(from == user, Reason::WrongRequestor, &|| {
        format!("{from} asks for what only {user} may have")
    })?;
    let groups = spec.groups.as_deref().unwrap_or_default();
    must(
        groups.iter().any(|group| group == names::NODES),
        Reason::WrongRequestor,
        &|| format!("{from} is not in the group {}", names::NODES),
    )?;
    let usages: BTreeSet<&str> = spec.usages.iter().flatten().map(String::as_str).collect();
    let least = BTreeSet::from(["digital signature", "server auth"]);
    let rsa = BTreeSet::from(["digital signature", "key encipherment", "server auth"]);
    must(
        usages == least || usages == rsa,
        Reason::WrongUsages,
        &|| format!("its usages are {usages:?}; those of a server are {least:?}"),
    )?;
    let read = pki::request::read(&spec.request.0).ok_or_else(|| {
        (
            Reason::Unreadable,
            "it is not a PKCS #10 request that is signed with its own key".to_owned(),
        )
    })?;
    form(&read, &user)?;
    if let Some(name) = read.dns_names.iter().find(|name| *name != expected.node) {
        let message = format!("it names {name}, which is not {}", expected.node);
        return Err((Reason::WrongName, message));
    }
    // Requests to a kubelet go to an address: of two that have the same one would be taken for the other.
    let is_asked = |(address, _): &&(IpAddr, String)| read.addresses.contains(address);
    if let Some((address, other)) = expected.others.iter().find(is_asked) {
        let message = format!(
            "it names the address {address}, which node {other} has already: give one of both machines another address \
             (that of a Host is spec.nodeAddress), and delete the Machine to have it replaced"
        );
        return Err((Reason::WrongAddress, message));
    }
    let foreign = read
        .addresses
        .iter()
        .find(|address| !expected.addresses.contains(address));
    match foreign {
        // A machine that just got its address asks before the provider has told of it.
        Some(address) if expected.addresses.is_empty() => Ok(Some(*address)),
        Some(address) => Err((
            Reason::WrongAddress,
            format!(
                "it names the address {address}; the machine has {:?}",
                expected.addresses
            ),
        )),
        None => Ok(None),
    }
}

/// What every request must look like, whoever asks.
fn form(read: &Request, user: &str) -> Result<(), (Reason, String)> {
    if read.common_names != [user] {
        let message = format!(
            "its common names are {:?} instead of {user}",
            read.common_names
        );
        return Err((Reason::WrongSubject, message));
    }
    if read.organizations != [names::NODES] {
        let message = format!(
            "its organisations are {:?} instead of {}",
            read.organizations,
            names::NODES
        );
        return Err((Reason::WrongSubject, message));
    }
    if read.authority {
        return Err((
            Reason::WrongUsages,
            "it asks for a certificate authority".to_owned(),
        ));
    }
    if read.other_names > 0 {
        let message = "it names something that is neither a DNS name nor an address".to_owned();
        return Err((Reason::WrongName, message));
    }
    if read.dns_names.is_empty() && read.addresses.is_empty() {
        return Err((
            Reason::WrongName,
            "it names neither a DNS name nor an address".to_owned(),
        ));
    }
    match &read.weak_key {
        Some(key) => Err((
            Reason::WeakKey,
            format!("it has {key}; a kubelet makes an EC P-256 key"),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
