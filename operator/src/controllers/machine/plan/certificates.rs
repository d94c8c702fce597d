//! Answers to what the kubelet of a machine asks to have signed.
//!
//! Invariant: a token is good for one key, which is in the status before it is approved: that of the machine's first join, or
//! that of a try to tell its kubelet in place; a serving certificate has the machine's own names and addresses.

use api::Reason;
use api::machine::{KubeletRenewal, KubeletRenewalPhase};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt as _;
use tenant_cp::names::KUBELET_CLIENT_SIGNER;
use tenant_cp::node::serving_certificate::{self as csr, Verdict};
use tenant_cp::node::{bootstrap_token, client_certificate};

use super::{Action, Plan, fail, join};
use crate::controllers::machine::observed::{Observed, Seen};

/// Answers a request for the node's first client certificate, by whoever has a bootstrap token.
fn certify_client(
    plan: &mut Plan,
    observed: &Observed,
    seen: &Seen,
    request: &CertificateSigningRequest,
) {
    let machine = &observed.machine;
    let token_id = bootstrap_token::token_id(&machine.uid().unwrap_or_default());
    let renewal = plan.status.renewal.as_ref();
    let is_running = |renewal: &&KubeletRenewal| renewal.phase == KubeletRenewalPhase::Running;
    let running = renewal.filter(is_running);
    let expected = client_certificate::Expected {
        node: &machine.name_any(),
        token_id: &token_id,
        key: match running {
            Some(running) => running.key.as_deref(),
            None => plan.status.client_key.as_deref(),
        },
        // Also where the status was lost.
        has_joined: running.is_none()
            && (observed.has_joined() || join::own_node(observed, seen).is_some()),
    };
    let is_late = renewal.is_some() && running.is_none();
    let denied = match client_certificate::check(request, expected) {
        client_certificate::Verdict::NotOurs => return,
        client_certificate::Verdict::Approve => {
            if let Some(running) = running {
                // The kubelet asks once more.
                let request = Some(request.name_any());
                plan.uses_token |= running.request != request;
                plan.status.renewal = Some(KubeletRenewal {
                    request,
                    ..running.clone()
                });
            }
            None
        }
        client_certificate::Verdict::First(key) => {
            // Recorded first: who comes after a crash approves no other.
            match running {
                Some(running) => {
                    plan.status.renewal = Some(KubeletRenewal {
                        key: Some(key),
                        request: Some(request.name_any()),
                        ..running.clone()
                    });
                }
                None => plan.status.client_key = Some(key),
            }
            plan.uses_token = true;
            None
        }
        // By its own token, which was good for a try that is over.
        client_certificate::Verdict::UsedTwice(_) if is_late => {
            let message = "the try that this token was made for is over".to_owned();
            Some((Reason::WrongRequestor, message))
        }
        client_certificate::Verdict::UsedTwice(message) => {
            // Nobody knows which of both it was: neither stays. Recorded before the answer, after which nobody would
            // know.
            plan.uses_token = true;
            fail(plan, Reason::TokenUsedTwice, message.clone());
            Some((Reason::TokenUsedTwice, message))
        }
        client_certificate::Verdict::Deny { reason, message } => {
            let told = format!("denies a client certificate for the node: {message}");
            plan.publish(true, Reason::CertificateDenied, told);
            Some((reason, message))
        }
    };
    plan.actions.push(Action::Decide {
        name: request.name_any(),
        denied,
    });
}

/// Answers the kubelet's requests for serving certificates. The names and addresses in them must be
/// the machine's own.
pub(super) fn decide(plan: &mut Plan, observed: &Observed, seen: &Seen) {
    let name = observed
        .machine
        .metadata
        .name
        .as_deref()
        .unwrap_or_default();
    let addresses = observed
        .own_vm()
        .map(|vm| vm.addresses.as_slice())
        .unwrap_or_default();
    let addresses: Vec<_> = addresses
        .iter()
        .filter_map(|a| a.address.parse().ok())
        .collect();
    let expected = csr::Expected {
        node: name,
        addresses: &addresses,
        others: &observed.others,
    };
    for request in &seen.requests {
        if request.spec.signer_name == KUBELET_CLIENT_SIGNER {
            certify_client(plan, observed, seen, request);
            continue;
        }
        let denied = match csr::check(request, expected) {
            Verdict::Approve => None,
            Verdict::Deny { reason, message } => Some((reason, message)),
            // The provider's next word on the machine wakes us.
            Verdict::Wait { .. } | Verdict::NotOurs => continue,
        };
        let request = request.metadata.name.clone().unwrap_or_default();
        if let Some((_, message)) = &denied {
            let message = format!("denies the node a serving certificate ({request}): {message}");
            plan.publish(true, Reason::CertificateDenied, message);
        }
        plan.actions.push(Action::Decide {
            name: request,
            denied,
        });
    }
}
