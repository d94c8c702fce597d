//! What differs from one server to the next by nature, and what stands for it in a recording.
//!
//! Invariant: the same thing gets the same mask wherever it appears, numbered in the order of first
//! appearance; so two servers that answer alike are masked alike, and a mask leads back to what it
//! stands for on a server that has answered.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::store::BUILT_IN;

/// Masks by what they stand for, and the other way round.
#[derive(Default)]
struct Table {
    masks: BTreeMap<String, String>,
    real: BTreeMap<String, String>,
}

impl Table {
    fn mask(&mut self, real: &str, make: impl FnOnce(usize) -> String) -> String {
        if self.real.contains_key(real) {
            // A mask that came back.
            return real.to_owned();
        }
        let next = self.masks.len() + 1;
        let mask = self
            .masks
            .entry(real.to_owned())
            .or_insert_with(|| make(next))
            .clone();
        self.real
            .entry(mask.clone())
            .or_insert_with(|| real.to_owned());
        mask
    }
}

/// Everything that was seen of one server.
#[derive(Default)]
pub(super) struct Masks {
    uids: Table,
    addresses: Table,
    /// Revisions of objects, and of lists by the number of the exchange.
    objects: Table,
    lists: Table,
    times: Table,
    secrets: Table,
    texts: Table,
    words: BTreeMap<String, String>,
}

impl Masks {
    /// Takes in what a client says, which is new here and nowhere else: times, keys, names.
    pub(super) fn request(&mut self, exchange: &mut Exchange) {
        if let Some(body) = &mut exchange.body {
            let secret = exchange.uri.contains("/secrets");
            self.walk(
                body,
                &mut Place {
                    secret,
                    asked: true,
                },
            );
            if exchange.uri.contains("/events")
                && let Some(name) = body["metadata"]["name"].as_str()
                && let Some((about, _)) = name.rsplit_once('.')
            {
                let mask = format!("{about}.{:016x}", self.words.len());
                self.words.entry(name.to_owned()).or_insert(mask);
            }
            *body = self.read(&body.to_string());
        }
        exchange.uri = self.text(&exchange.uri);
        exchange.uri = replace_revision(&exchange.uri, |revision| {
            let list = self.lists.masks.get(revision);
            list.or_else(|| self.objects.masks.get(revision)).cloned()
        });
    }

    /// The answer of the `number`-th exchange.
    pub(super) fn answer(&mut self, number: usize, uri: &str, answer: &Value) -> Value {
        let mut answer = answer.clone();
        if answer["kind"] == "Status" {
            let keep = |key: &str| answer[key].clone();
            return json!({
                "kind": "Status", "status": keep("status"), "reason": keep("reason"),
            });
        }
        let list = answer["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("List"));
        if list && answer["items"].is_null() {
            answer["items"] = json!([]);
        }
        if let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) {
            items.retain(|item| !is_built_in(item));
            let metadata = &answer["metadata"];
            let revision = metadata["resourceVersion"].as_str().unwrap_or_default();
            let mask = format!("l{number}");
            self.lists.mask(revision, |_| mask.clone());
            // Two lists may have one revision here and had two there.
            self.lists.real.insert(mask, revision.to_owned());
            let more = metadata["continue"]
                .as_str()
                .is_some_and(|token| !token.is_empty());
            answer["metadata"] = json!({ "more": more });
        }
        let secret = uri.contains("/secrets");
        self.walk(
            &mut answer,
            &mut Place {
                secret,
                asked: false,
            },
        );
        self.read(&answer.to_string())
    }

    /// One event of a watch; none where it is nobody's business.
    pub(super) fn event(&mut self, uri: &str, event: &Value) -> Option<Value> {
        let object = &event["object"];
        if event["type"] == "BOOKMARK" || is_built_in(object) {
            return None;
        }
        let object = self.answer(0, uri, object);
        Some(json!({ "type": event["type"], "object": object }))
    }

    /// A recorded request as this server is to be asked.
    pub(super) fn translate(&self, exchange: &Exchange) -> Exchange {
        let back = |text: &str| {
            let tables = [&self.uids, &self.addresses].into_iter();
            tables
                .flat_map(|table| &table.real)
                .fold(text.to_owned(), |text, (mask, real)| {
                    replace_word(&text, mask, real)
                })
        };
        let mut asked = exchange.clone();
        asked.uri = replace_revision(&back(&exchange.uri), |mask| {
            let list = self.lists.real.get(mask);
            list.or_else(|| self.objects.real.get(mask)).cloned()
        });
        asked.body = exchange.body.as_ref().map(|body| {
            let mut body: Value =
                serde_json::from_str(&back(&body.to_string())).unwrap_or_default();
            self.revisions_back(&mut body);
            body
        });
        asked
    }

    fn revisions_back(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let real = value.as_str().and_then(|mask| self.objects.real.get(mask));
                    match real.filter(|_| key == "resourceVersion") {
                        Some(real) => *value = Value::from(real.clone()),
                        None => self.revisions_back(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.revisions_back(item)),
            _ => {}
        }
    }

    fn walk(&mut self, value: &mut Value, place: &mut Place) {
        match value {
            Value::Object(map) => {
                if map.get("kind").is_some_and(|kind| kind == "TenantCluster")
                    && let Some(uid) = map.get("metadata").and_then(|meta| meta["uid"].as_str())
                    && !place.asked
                {
                    // The tenant namespace is called after it.
                    let namespace = api::names::tenant_namespace("", uid);
                    if let Some((_, short)) = namespace.rsplit_once('-') {
                        let masked = "0".repeat(short.len());
                        self.words.insert(format!("-{short}"), format!("-{masked}"));
                    }
                }
                if let Some(managers) = map.get_mut("managedFields").and_then(Value::as_array_mut) {
                    managers.iter_mut().for_each(plain_manager);
                    managers.sort_by_key(Value::to_string);
                }
                let is_secret =
                    place.secret || map.get("kind").is_some_and(|kind| kind == "Secret");
                for (key, value) in map.iter_mut() {
                    match (key.as_str(), &mut *value) {
                        ("data", Value::Object(data)) if is_secret => {
                            for value in data.values_mut() {
                                let text = value.as_str().unwrap_or_default();
                                let make = |n: usize| STANDARD.encode(format!("secret-{n}"));
                                *value = Value::from(self.secrets.mask(text, make));
                            }
                        }
                        ("uid", Value::String(uid)) if !place.asked && uid.len() == 36 => {
                            self.uids
                                .mask(uid, |n| format!("00000000-1111-4111-8111-{n:012}"));
                        }
                        ("clusterIP", Value::String(address))
                            if address != "None" && !place.asked =>
                        {
                            self.addresses.mask(address, |n| format!("198.51.100.{n}"));
                        }
                        ("nodePort", port) => *port = json!("given"),
                        // The server's own; it may be a second that a client says too.
                        ("creationTimestamp" | "deletionTimestamp", time) if !place.asked => {
                            *time = json!("now");
                        }
                        ("resourceVersion", Value::String(revision)) if revision != "0" => {
                            *revision = match place.asked {
                                true => {
                                    self.objects.masks.get(revision).unwrap_or(revision).clone()
                                }
                                false => self.objects.mask(revision, |n| format!("r{n}")),
                            };
                        }
                        (_, Value::String(text)) => {
                            if let Some(mask) = self.leaf(text, place.asked) {
                                *text = mask;
                            }
                        }
                        _ => self.walk(value, place),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, place)),
            Value::String(text) => {
                if let Some(mask) = self.leaf(text, place.asked) {
                    *text = mask;
                }
            }
            _ => {}
        }
    }

    fn leaf(&mut self, text: &str, asked: bool) -> Option<String> {
        if text.contains("-----BEGIN") {
            return Some(self.texts.mask(text, |n| format!("text-{n}")));
        }
        let time =
            text.len() >= 20 && text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok();
        if !time {
            return None;
        }
        let known = self.times.masks.contains_key(text) || self.times.real.contains_key(text);
        if !asked && !known {
            // The server's own.
            return Some("now".to_owned());
        }
        Some(self.times.mask(text, |n| {
            format!(
                "1970-01-01T{:02}:{:02}:{:02}Z",
                n / 3600,
                n / 60 % 60,
                n % 60
            )
        }))
    }

    fn read(&self, text: &str) -> Value {
        serde_json::from_str(&self.text(text)).unwrap_or_default()
    }

    fn text(&self, text: &str) -> String {
        let tables = [&self.uids, &self.addresses].into_iter();
        let tables = tables.flat_map(|table| &table.masks);
        tables
            .chain(&self.words)
            .fold(text.to_owned(), |text, (real, mask)| {
                replace_word(&text, real, mask)
            })
    }
}

struct Place {
    secret: bool,
    /// In what a client says.
    asked: bool,
}

/// Without times, and without what only says that a thing is owned of which parts are: how the server's
/// types see an empty thing is not modelled.
fn plain_manager(entry: &mut Value) {
    fn plain(fields: &mut Value) {
        if let Value::Object(map) = fields {
            map.remove(".");
            map.values_mut().for_each(plain);
        }
    }
    plain(&mut entry["fieldsV1"]);
    if let Some(map) = entry.as_object_mut() {
        map.remove("time");
    }
}

fn is_built_in(object: &Value) -> bool {
    let within = |value: &Value| value.as_str().is_some_and(|name| BUILT_IN.contains(&name));
    let meta = &object["metadata"];
    within(&meta["namespace"]) || meta["namespace"].is_null() && within(&meta["name"])
}

/// Replaces a text that no further digit follows.
fn replace_word(text: &str, from: &str, to: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let end = at + from.len();
        let longer = rest[end..].starts_with(|c: char| c.is_ascii_digit());
        replaced.push_str(&rest[..at]);
        replaced.push_str(if longer { from } else { to });
        rest = &rest[end..];
    }
    replaced.push_str(rest);
    replaced
}

fn replace_revision(uri: &str, other: impl Fn(&str) -> Option<String>) -> String {
    const KEY: &str = "resourceVersion=";
    let Some(at) = uri.find(KEY) else {
        return uri.to_owned();
    };
    let (before, rest) = uri.split_at(at + KEY.len());
    let end = rest.find('&').unwrap_or(rest.len());
    let (revision, after) = rest.split_at(end);
    match other(revision) {
        Some(other) => format!("{before}{other}{after}"),
        None => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(uri: &str, body: Option<Value>) -> Exchange {
        Exchange {
            uri: uri.to_owned(),
            body,
            ..Exchange::default()
        }
    }

    #[test]
    fn what_was_masked_on_one_server_leads_to_the_same_thing_on_another() {
        let answer = |uid: &str, revision: &str, address: &str| {
            json!({
                "kind": "Service", "metadata": { "uid": uid, "resourceVersion": revision },
                "spec": { "clusterIP": address },
            })
        };
        let (one, two) = (
            "11111111-2222-4333-8444-555555555555",
            "a1111111-2222-4333-8444-555555555555",
        );
        let (mut real, mut model) = (Masks::default(), Masks::default());
        let seen = real.answer(0, "/api/v1/services", &answer(one, "17", "10.96.0.1"));
        assert_eq!(
            seen,
            model.answer(0, "/api/v1/services", &answer(two, "4", "10.96.0.11"))
        );
        let said = json!({
            "metadata": { "resourceVersion": "17" }, "owner": one,
            "args": ["--address=10.96.0.1", "--address=10.96.0.12"], "at": "2026-01-01T00:00:00Z",
        });
        let mut recorded = exchange("/api/v1/services?resourceVersion=17", Some(said));
        real.request(&mut recorded);
        let asked = model.translate(&recorded);
        assert_eq!(asked.uri, "/api/v1/services?resourceVersion=4");
        let body = asked.body.unwrap();
        assert_eq!(
            (&body["metadata"]["resourceVersion"], &body["owner"]),
            (&json!("4"), &json!(two))
        );
        assert_eq!(
            body["args"],
            json!(["--address=10.96.0.11", "--address=10.96.0.12"])
        );
        assert_eq!(body["at"], "1970-01-01T00:00:01Z");
    }

    #[test]
    fn data_of_secrets_is_nowhere_in_a_recording() {
        let mut masks = Masks::default();
        let list = json!({ "items": [{ "metadata": { "name": "a" }, "data": { "key": "cHJpdmF0ZQ==" } }] });
        let seen = masks
            .answer(0, "/api/v1/namespaces/a/secrets", &list)
            .to_string();
        assert!(!seen.contains("cHJpdmF0ZQ"), "{seen}");
        let body = json!({ "kind": "Secret", "data": { "key": "cHJpdmF0ZQ==" } });
        let mut said = exchange("/api/v1/namespaces/a/secrets", Some(body));
        masks.request(&mut said);
        assert!(!format!("{said:?}").contains("cHJpdmF0ZQ"), "{said:?}");
    }
}
