//! What is done to what is there: deletions, starts.
//!
//! Invariant: what is in use is not deleted.

use jiff::Timestamp;

use super::contents::Contents;
use super::creation::number;
use super::thing::Place;
use super::xml::{done, element, refused, text};
use crate::answer::Answer;
use crate::journal::event;
use crate::query::Query;
use crate::serve::later;

impl Contents {
    /// `TerminateInstances`, `StartInstances`, `RebootInstances`: all of them or none.
    pub(super) fn change(
        &mut self,
        place: &Place,
        action: &str,
        form: &Query,
        now: Timestamp,
    ) -> Answer {
        let ids: Vec<String> = form
            .each("InstanceId")
            .iter()
            .map(|id| (*id).to_owned())
            .collect();
        let takes = later(now, self.behaviour.change_takes);
        for id in &ids {
            let found = self.instances.get(id);
            let Some(found) = found.filter(|i| i.place == *place && i.found <= now) else {
                let why = format!("The instance ID '{id}' does not exist");
                return refused(400, "InvalidInstanceID.NotFound", &why);
            };
            let wrong = match action {
                "TerminateInstances" if found.protected => {
                    let why = "The instance may not be terminated. Modify its 'disableApiTermination' instance attribute.";
                    return refused(400, "OperationNotPermitted", why);
                }
                "TerminateInstances" => false,
                "StartInstances" => !matches!(found.state, "stopped" | "running" | "pending"),
                _ => found.state != "running",
            };
            if wrong {
                let why =
                    format!("The instance '{id}' is not in a state from which it can be changed.");
                return refused(400, "IncorrectInstanceState", &why);
            }
        }
        let mut shown = String::new();
        for id in &ids {
            let Some(instance) = self.instances.get_mut(id) else {
                continue;
            };
            match action {
                "TerminateInstances" if instance.ended.is_none() => {
                    instance.state = "shutting-down";
                    instance
                        .reason
                        .get_or_insert("Client.UserInitiatedShutdown");
                    (instance.runs, instance.ends) = (None, None);
                    instance.ended = Some(takes);
                }
                "StartInstances" if instance.state == "stopped" => {
                    instance.state = "pending";
                    instance.runs = Some(takes);
                }
                _ => {}
            }
            let state = element("currentState", &text("name", instance.state));
            shown += &element("item", &(text("instanceId", id) + &state));
        }
        done(action, &element("instancesSet", &shown))
    }

    /// `DeleteVolume`, `DeleteNetworkInterface`.
    pub(super) fn delete_part(
        &mut self,
        place: &Place,
        action: &str,
        id: &str,
        now: Timestamp,
    ) -> Answer {
        let is_disk = action == "DeleteVolume";
        let (missing, in_use) = match is_disk {
            true => ("InvalidVolume.NotFound", "VolumeInUse"),
            false => (
                "InvalidNetworkInterfaceID.NotFound",
                "InvalidParameterValue.NetworkInterfaceInUse",
            ),
        };
        let found = self.parts.get(id);
        let Some(found) = found.filter(|part| part.place == *place && part.is_disk == is_disk)
        else {
            return refused(400, missing, "It does not exist.");
        };
        if found.user.is_some() {
            return refused(400, in_use, "It is in use.");
        }
        let went = event(now, found.event(), number(id), &found.tags, false);
        self.journal.events.push(went);
        self.parts.remove(id);
        done(action, &text("return", "true"))
    }
}
