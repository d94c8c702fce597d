//! Which request does what, and which right it needs.
//!
//! Invariant: who is let in is asked first, then everything else.

use jiff::Timestamp;

use super::contents::Contents;
use super::rates;
use super::xml::refused;
use crate::answer::Answer;
use crate::faults::Script;
use crate::journal::Journal;
use crate::late::Late;
use crate::query::Query;
use crate::serve::{Asked, Vendor};

/// The version of the Security Token Service's API.
const STS: &str = "2011-06-15";

impl Vendor for Contents {
    const PREFIX: &'static str = "";

    /// The action, and what it is asked with.
    fn line(_: &str, _: &str, body: &[u8]) -> (String, String) {
        let text = String::from_utf8_lossy(body).into_owned();
        let action = Query::read(&text)
            .get("Action")
            .unwrap_or_default()
            .to_owned();
        (format!("/{action}"), text)
    }

    fn script(&self) -> &Script {
        &self.script
    }

    fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    fn late(&mut self) -> &mut Vec<Late> {
        &mut self.late
    }

    /// Requests are counted by what they do, with their answer.
    fn count(&mut self, _: &str, _: Timestamp) -> (bool, Vec<(&'static str, String)>) {
        (true, Vec::new())
    }

    fn answer(&mut self, asked: &Asked<'_>, now: Timestamp) -> Answer {
        self.settle(now);
        let text = String::from_utf8_lossy(asked.body).into_owned();
        let form = Query::read(&text);
        let action = form.get("Action").unwrap_or_default();
        if form.get("Version") == Some(STS) {
            return self.sts(action, &form, asked, now);
        }
        let (key, place) = match self.who(asked, now, false) {
            Ok(who) => who,
            Err(refused) => return refused,
        };
        if !rates::take(&mut self.rates, &place, action, now) {
            return Self::throttled();
        }
        let mut needed = vec![format!("ec2:{action}")];
        if form.get("TagSpecification.1.ResourceType").is_some() {
            needed.push("ec2:CreateTags".to_owned());
        }
        let principal = self.principals.get(&key);
        let allowed = principal.and_then(|principal| principal.actions.as_ref());
        let missing = needed
            .iter()
            .find(|right| allowed.is_some_and(|allowed| !allowed.contains(*right)));
        if let Some(missing) = missing {
            if action.starts_with("Describe") {
                // Of looks it is not said which.
                let why = "You are not authorized to perform this operation.";
                return refused(403, "UnauthorizedOperation", why);
            }
            let why = format!(
                "You are not authorized to perform this operation. User: arn:aws:iam::{}:user/covey is not authorized to \
                 perform: {missing} on resource: arn:aws:ec2:{}:{}:* because no identity-based policy allows the \
                 {missing} action. Encoded authorization failure message: 0a1b2c3d",
                place.0, place.1, place.0
            );
            return refused(403, "UnauthorizedOperation", &why);
        }
        self.used.extend(needed);
        if form.get("DryRun") == Some("true") && action.starts_with("Describe") {
            let why = "Request would have succeeded, but DryRun flag is set.";
            return refused(412, "DryRunOperation", why);
        }
        match action {
            "RunInstances" => self.run(&place, &form, now),
            "TerminateInstances" | "StartInstances" | "RebootInstances" => {
                self.change(&place, action, &form, now)
            }
            "DeleteVolume" => {
                let id = form.get("VolumeId").unwrap_or_default();
                self.delete_part(&place, action, id, now)
            }
            "DeleteNetworkInterface" => {
                let id = form.get("NetworkInterfaceId").unwrap_or_default();
                self.delete_part(&place, action, id, now)
            }
            _ => self.describe(&place, action, &form, asked.endless, now),
        }
    }

    fn played(status: u16, code: &str) -> Answer {
        refused(status, code, "played")
    }

    fn throttled() -> Answer {
        refused(503, "RequestLimitExceeded", "Request limit exceeded.")
    }
}
