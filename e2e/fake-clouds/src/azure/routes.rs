//! Which request does what, and which action it needs.
//!
//! Invariant: who is let in is asked first, then everything else.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::catalogue::{LOCATION, has_image, skus, usages};
use super::contents::Contents;
use super::lists::list;
use super::rates;
use super::refused::{not_found, refused};
use super::thing::Kind;
use crate::answer::Answer;
use crate::faults::Script;
use crate::journal::Journal;
use crate::late::Late;
use crate::query::Query;
use crate::serve::{Asked, Vendor};

/// Where an action is needed: in the resource group.
const GROUP: &str = "group";
/// Where an action is needed: in the whole subscription.
const SUBSCRIPTION: &str = "subscription";

impl Vendor for Contents {
    const PREFIX: &'static str = "";

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
        let parts: Vec<_> = asked.path.trim_matches('/').split('/').collect();
        if let ("POST", [tenant, "oauth2", "v2.0", "token"]) = (asked.method, parts.as_slice()) {
            return self.exchange(tenant, asked.body, now);
        }
        let left = rates::take(
            &mut self.rates,
            &self.behaviour,
            asked.token,
            asked.method,
            now,
        );
        match left {
            Err(seconds) => Self::throttled().with("retry-after", seconds.to_string()),
            Ok((header, left)) => self
                .carry_out(asked, &parts, now)
                .with(header, left.to_string()),
        }
    }

    fn played(status: u16, code: &str) -> Answer {
        refused(status, code, "played")
    }

    fn throttled() -> Answer {
        Self::played(429, "SubscriptionRequestsThrottled")
    }
}

/// What a call needs, and where (documentation, "Azure permissions", of the two providers).
fn actions(method: &str, rest: &[&str], body: &Value) -> (&'static str, Vec<&'static str>) {
    let in_group = |all: &[&'static str]| (GROUP, all.to_vec());
    match (method, rest) {
        ("GET", ["resourceGroups", _]) => {
            in_group(&["Microsoft.Resources/subscriptions/resourceGroups/read"])
        }
        ("GET", ["providers", "Microsoft.Compute", "skus"]) => {
            (SUBSCRIPTION, vec!["Microsoft.Compute/skus/read"])
        }
        ("GET", ["providers", "Microsoft.Compute", "locations", _, "usages"]) => (
            SUBSCRIPTION,
            vec!["Microsoft.Compute/locations/usages/read"],
        ),
        (
            "GET",
            [
                "providers",
                "Microsoft.Compute",
                "locations",
                _,
                "operations",
                _,
            ],
        ) => in_group(&["Microsoft.Compute/locations/operations/read"]),
        (method, ["resourceGroups", _, "providers", provider, type_, rest @ ..]) => in_group(
            &of_type(method, (*provider, *type_), rest, &body["properties"]),
        ),
        _ => in_group(&[]),
    }
}

fn of_type(
    method: &str,
    type_: (&str, &str),
    rest: &[&str],
    properties: &Value,
) -> Vec<&'static str> {
    let ip = &properties["ipConfigurations"][0]["properties"];
    match (method, type_.1, rest) {
        ("GET", "galleries", _) => vec!["Microsoft.Compute/galleries/images/versions/read"],
        ("GET", "images", _) => vec!["Microsoft.Compute/images/read"],
        ("GET", "virtualMachines", _) => vec!["Microsoft.Compute/virtualMachines/read"],
        ("GET", "networkInterfaces", _) => vec!["Microsoft.Network/networkInterfaces/read"],
        ("GET", "publicIPAddresses", _) => vec!["Microsoft.Network/publicIPAddresses/read"],
        ("GET", "disks", _) => vec!["Microsoft.Compute/disks/read"],
        ("PUT", "virtualMachines", _) => {
            let image = &properties["storageProfile"]["imageReference"]["id"];
            let of_gallery = image.as_str().is_some_and(|id| id.contains("/galleries/"));
            vec![
                "Microsoft.Compute/virtualMachines/write",
                "Microsoft.Compute/disks/write",
                "Microsoft.Network/networkInterfaces/join/action",
                match of_gallery {
                    true => "Microsoft.Compute/galleries/images/versions/read",
                    false => "Microsoft.Compute/images/read",
                },
            ]
        }
        ("PUT", "networkInterfaces", _) => {
            let mut all = vec![
                "Microsoft.Network/networkInterfaces/write",
                "Microsoft.Network/virtualNetworks/subnets/join/action",
            ];
            if properties["networkSecurityGroup"].is_object() {
                all.push("Microsoft.Network/networkSecurityGroups/join/action");
            }
            if ip["publicIPAddress"].is_object() {
                all.push("Microsoft.Network/publicIPAddresses/join/action");
            }
            all
        }
        ("PUT", "publicIPAddresses", _) => vec!["Microsoft.Network/publicIPAddresses/write"],
        ("PATCH", "disks", _) => vec!["Microsoft.Compute/disks/write"],
        ("DELETE", "virtualMachines", _) => vec!["Microsoft.Compute/virtualMachines/delete"],
        ("DELETE", "networkInterfaces", _) => vec!["Microsoft.Network/networkInterfaces/delete"],
        ("DELETE", "publicIPAddresses", _) => vec!["Microsoft.Network/publicIPAddresses/delete"],
        ("DELETE", "disks", _) => vec!["Microsoft.Compute/disks/delete"],
        ("POST", "virtualMachines", [_, "start"]) => {
            vec!["Microsoft.Compute/virtualMachines/start/action"]
        }
        ("POST", "virtualMachines", [_, "restart"]) => {
            vec!["Microsoft.Compute/virtualMachines/restart/action"]
        }
        _ => Vec::new(),
    }
}

impl Contents {
    fn carry_out(&mut self, asked: &Asked<'_>, parts: &[&str], now: Timestamp) -> Answer {
        let ["subscriptions", subscription, rest @ ..] = parts else {
            return not_found(asked.path);
        };
        let query = Query::read(asked.query);
        if query.get("api-version").is_none() {
            let why =
                "The api-version query parameter (?api-version=) is required for all requests.";
            return refused(400, "MissingApiVersionParameter", why);
        }
        let body = match asked.body {
            [] => Value::Null,
            bytes => match serde_json::from_slice(bytes) {
                Ok(body) => body,
                Err(_) => return refused(400, "InvalidRequestContent", "It is no JSON."),
            },
        };
        let (scope, needed) = actions(asked.method, rest, &body);
        if let Err(refused) = self.let_in(asked.token, subscription, scope, &needed, now) {
            return refused;
        }
        if let ["resourceGroups", name, ..] = rest {
            let key = ((*subscription).to_owned(), (*name).to_owned());
            if !self.groups.contains_key(&key) {
                let why = format!("Resource group '{name}' could not be found.");
                return refused(404, "ResourceGroupNotFound", &why);
            }
        }
        self.route(asked, subscription, rest, &body, now)
    }

    fn route(
        &mut self,
        asked: &Asked<'_>,
        subscription: &str,
        rest: &[&str],
        body: &Value,
        now: Timestamp,
    ) -> Answer {
        let query = Query::read(asked.query);
        let here = format!("{}{}", self.base, asked.path);
        let (size, endless) = (self.behaviour.page, asked.endless);
        let shown = |all: Vec<Value>| list(all, &here, &query, size, endless);
        match (asked.method, rest) {
            ("GET", ["resourceGroups", name]) => {
                let group = &self.groups[&(subscription.to_owned(), (*name).to_owned())];
                Answer::ok(
                    200,
                    json!({ "id": group.id(), "name": name, "location": LOCATION }),
                )
            }
            ("GET", ["providers", "Microsoft.Compute", "skus"]) => shown(skus()),
            ("GET", ["providers", "Microsoft.Compute", "locations", _, "usages"]) => {
                let things = self.groups.values().flat_map(|group| group.things.keys());
                let machines = things.filter(|(kind, _)| *kind == Kind::Vm).count();
                shown(usages(machines, self.behaviour.machine_limit))
            }
            (
                "GET",
                [
                    "providers",
                    "Microsoft.Compute",
                    "locations",
                    _,
                    "operations",
                    id,
                ],
            ) => self.show_operation(id),
            (
                method,
                [
                    "resourceGroups",
                    name,
                    "providers",
                    provider,
                    type_,
                    rest @ ..,
                ],
            ) => {
                let place = (subscription.to_owned(), (*name).to_owned());
                let Some(kind) = Kind::of(provider, type_) else {
                    return self.image(asked);
                };
                let group = &self.groups[&place];
                match (method, rest) {
                    ("GET", []) => {
                        let listed = group.things.iter();
                        let listed = listed.filter(|((k, _), t)| *k == kind && t.listed <= now);
                        let listed = listed.map(|((_, name), t)| group.show(kind, name, t, false));
                        shown(listed.collect())
                    }
                    ("GET", [name]) => {
                        let status = query.get("$expand") == Some("instanceView");
                        let found = group.things.get(&(kind, (*name).to_owned()));
                        match found.filter(|thing| thing.found <= now) {
                            Some(thing) => Answer::ok(200, group.show(kind, name, thing, status)),
                            None => not_found(asked.path),
                        }
                    }
                    ("PUT", [name]) => self.put(&place, (kind, name), body, asked.is_new, now),
                    ("PATCH", [name]) => self.patch(&place, (kind, name), body, now),
                    ("DELETE", [name]) => self.delete(&place, (kind, name), now),
                    ("POST", [name, "start" | "restart"]) => self.power(&place, name, now),
                    _ => not_found(asked.path),
                }
            }
            _ => not_found(asked.path),
        }
    }

    fn show_operation(&self, id: &str) -> Answer {
        let found = id.parse().ok().and_then(|id: u64| self.operations.get(&id));
        let Some(operation) = found else {
            return refused(404, "NotFound", "The operation was not found.");
        };
        let status = match (operation.is_done, operation.error) {
            (false, _) => "InProgress",
            (true, None) => "Succeeded",
            (true, Some(_)) => "Failed",
        };
        let mut shown = json!({ "name": id, "status": status });
        if let (true, Some((code, message))) = (operation.is_done, operation.error) {
            shown["error"] = json!({ "code": code, "message": message });
        }
        Answer::ok(200, shown)
    }

    fn image(&self, asked: &Asked<'_>) -> Answer {
        match asked.method == "GET" && has_image(asked.path) {
            true => Answer::ok(
                200,
                json!({ "properties": { "provisioningState": "Succeeded" } }),
            ),
            false => not_found(asked.path),
        }
    }
}
