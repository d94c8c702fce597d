//! What there is in an account, and how the API shows it.
//!
//! Invariant: what is shown has the elements that the documentation names.

use jiff::Timestamp;

use super::xml::{element, text};
use crate::journal::Labels;

/// Where something is: an account and a region.
pub type Place = (String, String);

/// An instance.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Where it is.
    pub place: Place,
    /// Its number, of which its addresses are made.
    pub number: u64,
    /// When it was made.
    pub created: Timestamp,
    /// Since when it is found by its ID.
    pub found: Timestamp,
    /// Since when it is in lists.
    pub listed: Timestamp,
    /// What it was asked for under.
    pub token: String,
    /// Its type.
    pub type_: String,
    /// Its tags.
    pub tags: Labels,
    /// Its state.
    pub state: &'static str,
    /// Why it ended, or will.
    pub reason: Option<&'static str>,
    /// It has a public address.
    pub is_public: bool,
    /// Its request, where it may be taken back.
    pub spot_request: Option<String>,
    /// Since when that says that it is taken back.
    pub marked: Option<Timestamp>,
    /// Somebody protected it against termination.
    pub protected: bool,
    /// When it runs, where it is being made or started.
    pub runs: Option<Timestamp>,
    /// When it begins to shut down by itself.
    pub ends: Option<Timestamp>,
    /// When it has shut down.
    pub ended: Option<Timestamp>,
}

/// A disk or an interface.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it is.
    pub place: Place,
    /// It is a disk; else an interface.
    pub is_disk: bool,
    /// When it was made.
    pub created: Timestamp,
    /// Its tags.
    pub tags: Labels,
    /// The instance that has it.
    pub user: Option<String>,
    /// It goes with its instance.
    pub goes_along: bool,
}

impl Part {
    /// As the journal has it.
    pub(super) fn event(&self) -> &'static str {
        if self.is_disk { "volume" } else { "interface" }
    }

    pub(super) fn show(&self, id: &str) -> String {
        let status = match self.user {
            Some(_) => "in-use",
            None => "available",
        };
        let own = match self.is_disk {
            true => "volumeId",
            false => "networkInterfaceId",
        };
        let mut inner = text(own, id) + &text("status", status);
        if self.is_disk {
            inner += &text("createTime", &self.created.to_string());
        }
        element("item", &(inner + &tags(&self.tags)))
    }
}

impl Instance {
    pub(super) fn show(&self, id: &str, zone: &str) -> String {
        let (high, low) = (self.number / 250 % 250, self.number % 250 + 2);
        let mut inner = text("instanceId", id)
            + &element("instanceState", &text("name", self.state))
            + &text("clientToken", &self.token)
            + &text("instanceType", &self.type_)
            + &text("launchTime", &self.created.to_string())
            + &element("placement", &text("availabilityZone", zone));
        if self.state != "terminated" {
            inner += &text("privateIpAddress", &format!("10.1.{high}.{low}"));
            if self.is_public && self.state == "running" {
                inner += &text("ipAddress", &format!("203.0.{high}.{low}"));
            }
        }
        if let Some(request) = &self.spot_request {
            inner += &text("spotInstanceRequestId", request);
        }
        if let Some(reason) = self.reason.filter(|_| self.ended.is_some()) {
            let shown = text("code", reason) + &text("message", &format!("{reason}: played"));
            inner += &element("stateReason", &shown);
        }
        element("item", &(inner + &tags(&self.tags)))
    }
}

fn tags(tags: &Labels) -> String {
    let each = tags.iter();
    let each =
        each.map(|(key, value)| element("item", &(text("key", key) + &text("value", value))));
    element("tagSet", &each.collect::<String>())
}
