//! What is done to what is there: deletions, starts.
//!
//! Invariant: what is in use is not deleted.

use jiff::Timestamp;
use serde_json::Value;

use super::contents::Contents;
use super::creation::{Place, reserved};
use super::refused::{not_found, refused};
use super::thing::Kind;
use crate::answer::Answer;
use crate::serve::later;

impl Contents {
    /// `DELETE`.
    pub(super) fn delete(
        &mut self,
        place: &Place,
        (kind, name): (Kind, &str),
        now: Timestamp,
    ) -> Answer {
        let key = (kind, name.to_owned());
        let Some(thing) = self.thing(place, &key).filter(|thing| thing.found <= now) else {
            return Answer::empty();
        };
        if thing.locked {
            let why = "The scope cannot perform delete operation because it is locked.";
            return refused(409, "ScopeLocked", why);
        }
        if let Some(change) = thing.change.clone() {
            return match thing.state {
                "Deleting" => self.accepted(place, change.operation),
                _ => {
                    let why = "Another operation is in progress.";
                    refused(409, "AnotherOperationInProgress", why)
                }
            };
        }
        let is_reserved = thing
            .reserved
            .as_ref()
            .is_some_and(|(_, until)| *until > now);
        match (kind, thing.user.is_some()) {
            (Kind::Nic, true) => {
                let why =
                    "The network interface is used by a virtual machine and cannot be deleted.";
                return refused(400, "NicInUse", why);
            }
            (Kind::Nic, false) if is_reserved => return reserved(),
            (Kind::Disk, true) => {
                let why = "The disk is attached to a VM.";
                return refused(409, "OperationNotAllowed", why);
            }
            (Kind::Address, true) => {
                let why = "The public IP address is still allocated to a resource.";
                return refused(400, "PublicIPAddressCannotBeDeleted", why);
            }
            _ => {}
        }
        self.start(place, &key, "delete", now)
    }

    /// `POST`: started or restarted.
    pub(super) fn power(&mut self, place: &Place, name: &str, now: Timestamp) -> Answer {
        let key = (Kind::Vm, name.to_owned());
        match self.thing(place, &key).filter(|thing| thing.found <= now) {
            None => not_found(name),
            Some(thing) if thing.change.is_some() => refused(
                409,
                "AnotherOperationInProgress",
                "Another operation is in progress.",
            ),
            Some(_) => self.start(place, &key, "start", now),
        }
    }

    fn start(
        &mut self,
        place: &Place,
        key: &(Kind, String),
        what: &'static str,
        now: Timestamp,
    ) -> Answer {
        let change = self.begin(what, later(now, self.behaviour.change_takes));
        let operation = change.operation;
        if let Some(thing) = self.thing(place, key) {
            thing.state = if what == "delete" {
                "Deleting"
            } else {
                "Updating"
            };
            thing.change = Some(change);
        }
        self.accepted(place, operation)
    }

    fn accepted(&self, place: &Place, operation: u64) -> Answer {
        let address = self.address_of(&place.0, operation);
        Answer::ok(202, Value::Null).with("azure-asyncoperation", address)
    }
}
