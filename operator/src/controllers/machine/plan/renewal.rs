//! A machine whose kubelet is told of a rotation where it runs: whom to believe, and to ask for another certificate.
//!
//! A try: written into the status → a bootstrap token of this one machine → a Secret with it and the bundle → a pod on the node
//! → the kubelet asks with the token for one key, which is recorded and approved → the pod ends → the certificate of that key is
//! signed by the generation that signs, and the node is ready → all of it is taken away again. What the node says of itself
//! proves nothing: it counts as told once that certificate was signed for a key that asked with a token which stood nowhere
//! but beside the bundle.
//! Invariant: a try is in the status before anything of it is made, and leaves it when nothing of it is left; at most one pod at
//! a time, because there is one name for it; a token is valid no longer than its try may last, and is revoked with it; a try
//! ends by [`LONGEST`] and [`SPARE`], and there are [`MOST`]; then its pool replaces the machine.

use std::time::Duration;

use api::machine::{KubeletRenewal, KubeletRenewalPhase as Phase};
use api::{Machine, Reason, TenantCluster, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use kube::ResourceExt as _;
use tenant_cp::generations::authority_name;
use tenant_cp::names::CLIENT_CA;
use tenant_cp::node::bootstrap_token;
use tenant_cp::node::client_certificate::digest;
use tenant_cp::node::renewal::{self, LONGEST, Renewed};

use super::join::{own_node, whole_seconds};
use super::{Action, Plan};
use crate::controllers::machine::observed::{Node, Observed, RenewalSeen, Seen};
use crate::rotation::kubelets;
use crate::tenant_session::breaker::Breaker;

/// Tries: once, and once more.
const MOST: u32 = 2;
/// Beyond the pod's own time: until its end is seen.
const SPARE: Duration = Duration::from_secs(30);
/// Between two looks at what nobody watches.
const LOOK: Duration = Duration::from_secs(2);
/// From the beginning of a try to that of the next one, at least: what refused it may be mended.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);
/// Between two looks at what has to be there before a try.
const UNPREPARED: Duration = Duration::from_secs(10);
/// Longest reason of a failure, in characters, as the schema has it.
const LONGEST_FAILURE: usize = 512;

/// Since when its kubelet is to have been told, where it has its turn; none where it has what was asked for.
fn asked(machine: &Machine, cluster: &TenantCluster) -> Option<Timestamp> {
    let since = kubelets::renewed_before(cluster)?;
    let turn = machine.annotations().get(names::ANNOTATION_RENEW_KUBELET)?;
    let has_turn = turn.parse::<Timestamp>().is_ok_and(|turn| turn == since);
    let is_of_before = kubelets::known_since(machine).is_none_or(|known| known < since);
    (has_turn && is_of_before).then_some(since)
}

/// Whether its kubelet is to be told in place.
pub(crate) fn is_to_be_renewed(machine: &Machine, cluster: &TenantCluster) -> bool {
    let since = asked(machine, cluster);
    since.is_some_and(|since| !kubelets::is_given_up(machine, since))
}

/// What was seen, and what follows for one machine.
struct Renewing<'a> {
    observed: &'a Observed,
    seen: &'a Seen,
    found: &'a RenewalSeen,
    node: &'a Node,
    cluster: &'a TenantCluster,
    asked: Option<Timestamp>,
    now: Timestamp,
}

/// Goes on with it, or begins.
pub(super) fn plan(plan: &mut Plan, observed: &Observed, now: Timestamp) {
    let Some(cluster) = observed.home() else {
        return;
    };
    let asked = asked(&observed.machine, cluster);
    let begun = plan.status.renewal.as_ref();
    if begun.is_none() && asked.is_none() {
        return;
    }
    let Some(seen) = observed.seen() else {
        // What is not known stays.
        plan.look_after(Breaker::PAUSE);
        return;
    };
    let Some(node) = own_node(observed, seen) else {
        // Its pool replaces the machine; what is left of a try goes with the Node.
        return;
    };
    let Known::Known(found) = &seen.renewal else {
        plan.look_after(LOOK);
        return;
    };
    let it = Renewing {
        observed,
        seen,
        found,
        node,
        cluster,
        asked,
        now,
    };
    match plan.status.renewal.clone() {
        None => it.begin(plan, 1),
        Some(renewal) => match renewal.phase {
            Phase::Running => it.runs(plan, &renewal),
            Phase::Done | Phase::Failing | Phase::Cancelled => it.ends(plan, &renewal),
            Phase::GivenUp if asked == Some(renewal.since.0) => {}
            // What could not be told is dropped, or something else is asked for.
            Phase::GivenUp => {
                plan.status.renewal = None;
                it.begin(plan, 1);
            }
        },
    }
}

impl Renewing<'_> {
    /// Begins a try, where the node can be told, and there is what it is to be told.
    fn begin(&self, plan: &mut Plan, attempt: u32) {
        let Some(since) = self.asked else {
            return;
        };
        let told = pki::certificate_fingerprints(&self.seen.authority);
        let is_complete = told.is_some_and(|told| told.len() == kubelets::believed(self.cluster));
        if self.node.ready != Some(true) || !is_complete {
            plan.look_after(UNPREPARED);
            return;
        }
        let renewal = KubeletRenewal {
            since: Time(since),
            attempt,
            // Clocks differ: what it gets is of a time after that for which it is asked.
            begun: Time(whole_seconds(self.now).max(since)),
            phase: Phase::Running,
            key: None,
            request: None,
            failure: None,
        };
        plan.status.renewal = Some(renewal.clone());
        plan.renews = true;
        self.runs(plan, &renewal);
    }

    fn runs(&self, plan: &mut Plan, renewal: &KubeletRenewal) {
        if self.asked != Some(renewal.since.0) {
            return self.turns(plan, renewal, Phase::Cancelled);
        }
        let begun = renewal.begun.0.to_string();
        let pod = self.found.pod.as_ref();
        if let Some(other) = pod.filter(|pod| pod.begun != begun) {
            // Of a try that the status has lost.
            self.end_pod(plan, &other.uid, other.going);
            plan.look_after(LOOK);
            return;
        }
        let until = until(renewal);
        if let Some(why) = self.failure(until) {
            let mut failed = renewal.clone();
            let why: String = why.chars().take(LONGEST_FAILURE).collect();
            failed.failure = Some(why.clone());
            let message = format!(
                "its kubelet was not told of the rotation in place (try {} of {MOST}): {why}",
                renewal.attempt
            );
            plan.publish(true, Reason::RenewalFailed, message);
            return self.turns(plan, &failed, Phase::Failing);
        }
        plan.look_after(LOOK);
        match pod {
            Some(pod) if pod.succeeded == Some(true) => {
                if self.is_proven(renewal) && self.node.ready == Some(true) {
                    self.turns(plan, renewal, Phase::Done);
                }
            }
            Some(_) => {}
            None => self.make(plan, &begun, until),
        }
    }

    /// Why a try failed; none while it did not.
    fn failure(&self, until: Timestamp) -> Option<String> {
        if let Some(refused) = &self.found.refused {
            return Some(format!("the tenant cluster refuses the pod: {refused}"));
        }
        let pod = self.found.pod.as_ref();
        if let Some(pod) = pod.filter(|pod| pod.succeeded == Some(false)) {
            return Some(pod.message.clone());
        }
        (self.now >= until).then(|| match pod {
            Some(pod) if pod.succeeded == Some(true) => {
                "the pod says that it is done, and no certificate was signed for the key that asked by the token, or its \
                 node is not ready"
                    .to_owned()
            }
            Some(pod) if !pod.message.is_empty() => {
                format!("the pod did not end in time: {}", pod.message)
            }
            Some(_) | None => "the pod did not end in time".to_owned(),
        })
    }

    /// Whether the generation that signs has signed a certificate for the one key that asked by the token of this try.
    fn is_proven(&self, renewal: &KubeletRenewal) -> bool {
        let signed = self.found.signed.as_deref();
        let Some(issued) = signed.and_then(pki::issued) else {
            return false;
        };
        let by = authority_name(CLIENT_CA, kubelets::signs_clients(self.cluster));
        issued.by.as_ref() == Some(&by) && renewal.key == Some(digest(&issued.public_key))
    }

    /// Makes what is missing: the pod last.
    fn make(&self, plan: &mut Plan, begun: &str, until: Timestamp) {
        let known = match &self.seen.token {
            Known::Known(token) => Some(&token.token),
            Known::Absent => None,
            Known::Unknown { .. } => return,
        };
        let Some(token) = known.or(self.observed.drawn.as_ref()) else {
            plan.actions.push(Action::DrawToken);
            return;
        };
        let machine = &self.observed.machine;
        let (name, machine_uid) = (machine.name_any(), machine.uid().unwrap_or_default());
        if known.is_none() {
            let expires = whole_seconds(until);
            let object = bootstrap_token::token_secret(token, expires, &name);
            plan.actions.push(Action::ApplyToken(object, expires));
        }
        let of = Renewed {
            node: &name,
            node_uid: &self.node.uid,
            machine_uid: &machine_uid,
            begun,
        };
        let secret = self.found.secret.as_ref();
        if secret.is_none_or(|(_, of)| of != begun) {
            let secret = renewal::secret(of, &self.seen.authority, token);
            plan.actions.push(Action::StoreRenewal(secret));
        }
        let pod = renewal::pod(of, &self.observed.renewal_image);
        plan.actions.push(Action::StartRenewal(pod));
    }

    /// Writes down how it ended, because that cannot be seen once the rest is gone, and takes that away.
    fn turns(&self, plan: &mut Plan, renewal: &KubeletRenewal, phase: Phase) {
        let ended = KubeletRenewal {
            phase,
            ..renewal.clone()
        };
        plan.status.renewal = Some(ended.clone());
        plan.renews = true;
        self.ends(plan, &ended);
    }

    fn ends(&self, plan: &mut Plan, renewal: &KubeletRenewal) {
        let machine_uid = self.observed.machine.uid().unwrap_or_default();
        let mut is_gone = true;
        match &self.seen.token {
            Known::Known(token) => {
                is_gone = false;
                plan.actions.push(Action::RevokeToken {
                    name: bootstrap_token::token_secret_name(&machine_uid),
                    uid: token.uid.clone(),
                });
            }
            Known::Absent => {}
            Known::Unknown { .. } => is_gone = false,
        }
        if let Some(pod) = &self.found.pod {
            is_gone = false;
            self.end_pod(plan, &pod.uid, pod.going);
        }
        if let Some((uid, _)) = &self.found.secret {
            is_gone = false;
            plan.actions
                .push(Action::DeleteRenewal { uid: uid.clone() });
        }
        match is_gone {
            true => self.is_over(plan, renewal),
            false => plan.look_after(LOOK),
        }
    }

    fn end_pod(&self, plan: &mut Plan, uid: &str, is_going: bool) {
        if !is_going {
            plan.actions.push(Action::EndRenewal {
                uid: uid.to_owned(),
            });
        }
    }

    /// Nothing of the try is left.
    fn is_over(&self, plan: &mut Plan, renewal: &KubeletRenewal) {
        let name = self.observed.machine.name_any();
        match renewal.phase {
            Phase::Done => {
                plan.status.renewed = Some(renewal.begun.clone());
                // From now on it is this key that the machine's token was good for.
                plan.status.client_key.clone_from(&renewal.key);
                plan.status.renewal = None;
                let message =
                    format!("the kubelet of node {name} was told of the rotation in place");
                plan.publish(false, Reason::RenewedInPlace, message.clone());
                plan.renewed = Some((true, Reason::RenewedInPlace, message));
            }
            Phase::Failing if self.asked != Some(renewal.since.0) => plan.status.renewal = None,
            Phase::Failing if renewal.attempt < MOST => {
                let again = renewal.begun.0.saturating_add(AGAIN);
                let again = again.unwrap_or(self.now);
                match again <= self.now {
                    true => self.begin(plan, renewal.attempt.saturating_add(1)),
                    false => plan.look_at(again, self.now),
                }
            }
            Phase::Failing => {
                let given_up = KubeletRenewal {
                    phase: Phase::GivenUp,
                    ..renewal.clone()
                };
                let why = renewal.failure.clone().unwrap_or_default();
                plan.status.renewal = Some(given_up);
                let message = format!(
                    "its kubelet could not be told of the rotation in place, {MOST} times; its node pool replaces the \
                     machine: {why}"
                );
                plan.publish(true, Reason::RenewalFailed, message.clone());
                plan.renewed = Some((false, Reason::RenewalFailed, message));
            }
            Phase::Cancelled => plan.status.renewal = None,
            Phase::Running | Phase::GivenUp => {}
        }
    }
}

/// Until when a try has to have ended: its token is valid until then.
fn until(renewal: &KubeletRenewal) -> Timestamp {
    let longest = SignedDuration::try_from(LONGEST + SPARE).unwrap_or_default();
    let until = renewal.begun.0.saturating_add(longest);
    until.unwrap_or(Timestamp::MAX)
}
