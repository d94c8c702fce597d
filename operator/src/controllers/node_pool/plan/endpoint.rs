//! Whether all nodes that come by the published endpoint are silent together: the condition `EndpointUnreachable`.
//!
//! Invariant: it only says so: that nobody is replaced because of it is decided with the outages. While nothing is known
//! anew, what was said stays said.

use api::{ConditionStatus, ConditionType, Reason, remove_condition};
use jiff::Timestamp;
use placement::endpoint::{Probe, Standing};

use super::outage::Outlook;
use super::status::set;
use super::{Observed, Plan};

pub(super) fn say(plan: &mut Plan, observed: &Observed, outlook: &Outlook, now: Timestamp) {
    let type_ = ConditionType::EndpointUnreachable;
    match outlook.endpoint() {
        None | Some(Standing::Fine) => {
            remove_condition(&mut plan.status.conditions, type_);
            return;
        }
        Some(Standing::Unknown) => return,
        Some(Standing::Unreachable) => {}
    }
    let (reason, message) = words(observed);
    let status = observed.pool.status.as_ref();
    let mut said = status.into_iter().flat_map(|status| &status.conditions);
    let is_news = !said.any(|said| said.type_ == type_.as_str() && said.reason == reason);
    // Only what is written is told, so that it is told once.
    if is_news && plan.is_settled() {
        plan.publish(true, reason, message.clone());
    }
    set(
        plan,
        observed,
        now,
        [(type_, ConditionStatus::True, reason, message)],
    );
}

fn words(observed: &Observed) -> (Reason, String) {
    let status = observed.cluster.as_ref().there();
    let status = status.and_then(|cluster| cluster.status.as_ref());
    let at = status.and_then(|status| status.endpoint.as_ref());
    let at = at.map(|at| format!(" {}", at.url())).unwrap_or_default();
    let word = &observed.endpoint;
    let (reason, found) = match word.probe {
        Probe::Fails => (
            Reason::EndpointNotAnswering,
            format!("the operator does not get in there either ({})", word.words),
        ),
        Probe::Answers => (
            Reason::EndpointSilent,
            "the operator gets in there from where it runs, which need not be the way of nodes"
                .to_owned(),
        ),
        Probe::Unknown => (
            Reason::EndpointSilent,
            "whether the operator gets in there is not known yet".to_owned(),
        ),
    };
    let message = format!(
        "all nodes that come by the published endpoint{at} are silent together, and {found}: nobody is replaced because of \
         that, until the API of a cloud says that its machines have ended"
    );
    (reason, message)
}
