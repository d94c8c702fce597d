//! `covey events`: what happened, merged by time.
//!
//! Invariant: what may not be read is a line on standard error, and the rest is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::select_all;
use insight::age::since;
use insight::description::told;
use insight::facts::Facts;
use insight_read::cluster::{about_cluster, is_of};
use insight_read::reader::Reader;
use insight_read::request::PAGES;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kit_objects::known::Known;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::describe::missing;
use super::wait::is_refused;
use crate::args::read::Events;
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::output::{part, result, say, structured};
use crate::table::{Widths, listed};
use crate::terminal::fitted;

pub(super) async fn run(global: &Global, args: &Events) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let reader = Reader::default();
    let mut spaces = vec![namespace.to_owned()];
    let mut about = None;
    if let Some(name) = &args.name {
        let read = about_cluster(&reader, client, namespace, name, PAGES).await;
        let (cluster, facts) = match read {
            Ok(read) => read,
            Err(error) => return Err(missing(client, namespace, name, &error).await),
        };
        spaces.extend(cluster.status.and_then(|status| status.namespace));
        about = Some((name.as_str(), facts));
    }
    let wanted = Wanted {
        args,
        namespace,
        about,
    };
    if args.follow {
        return follow(global, client, &spaces, &wanted).await;
    }
    let mut found = Vec::new();
    for space in &spaces {
        let api: Api<Event> = Api::namespaced(client.clone(), space);
        let params = match args.only() {
            Some(type_) => ListParams::default().fields(&format!("type={type_}")),
            None => ListParams::default(),
        };
        let what = format!("events in {space}");
        let events = reader.list(&api, params, PAGES, &what).await;
        if let Known::Unknown { why } = events {
            say(&format!("({what} are not known: {why})"));
        }
        found.extend(events.there().unwrap_or_default());
    }
    let now = Timestamp::now();
    found.retain(|event| wanted.has(event, now));
    found.sort_by_cached_key(|event| (told(event).at, event.name_any()));
    result(&fitted(written(global, found, now)?, global))?;
    Ok(Exit::Done)
}

/// Which Events were asked for.
struct Wanted<'a> {
    args: &'a Events,
    namespace: &'a str,
    /// The tenant cluster, and what belongs to it.
    about: Option<(&'a str, Facts)>,
}

impl Wanted<'_> {
    fn has(&self, event: &Event, now: Timestamp) -> bool {
        let args = self.args;
        let only = args.only();
        let is_type = only.is_none_or(|type_| event.type_.as_deref() == Some(type_));
        let is_reason = args.reason.is_none() || event.reason == args.reason;
        let is_young = args.since.is_none_or(|since| is_within(event, since, now));
        is_type && is_reason && is_young && self.is_about(event)
    }

    fn is_about(&self, event: &Event) -> bool {
        match &self.about {
            // All that happens in a tenant namespace is about its tenant cluster.
            Some(_) if event.namespace().as_deref() != Some(self.namespace) => true,
            Some((name, facts)) => {
                is_of(event, name, facts) || (self.args.follow && is_of_new(event, facts))
            }
            None => is_ours(event),
        }
    }
}

/// Whether an Event is about a machine that a pool of the tenant cluster got meanwhile: it is called after its pool.
fn is_of_new(event: &Event, facts: &Facts) -> bool {
    let about = &event.involved_object;
    let name = about.name.as_deref().unwrap_or_default();
    let (stem, _) = name.rsplit_once('-').unwrap_or_default();
    let mut pools = facts.pools.as_ref().there().into_iter().flatten();
    about.kind.as_deref() == Some("Machine") && pools.any(|pool| pool.name_any() == stem)
}

/// What there is, and then what comes, for as long as somebody reads it.
async fn follow(
    global: &Global,
    client: &Client,
    spaces: &[String],
    wanted: &Wanted<'_>,
) -> Result<Exit, Failure> {
    let streams = spaces.iter().map(|space| {
        let api: Api<Event> = Api::namespaced(client.clone(), space);
        let config = watcher::Config::default();
        let config = match wanted.args.only() {
            Some(type_) => config.fields(&format!("type={type_}")),
            None => config,
        };
        let events = watcher(api, config).default_backoff();
        events.map(move |event| (space, event)).boxed()
    });
    let mut streams = select_all(streams);
    let mut shown = Followed::default();
    // What is there is shown in the order of time, once all of it came.
    let (mut first, mut waits_for): (Vec<Event>, BTreeSet<&String>) =
        (Vec::new(), spaces.iter().collect());
    let mut failure = None;
    while let Some((space, event)) = streams.next().await {
        let mut new = Vec::new();
        match event {
            Ok(watcher::Event::InitApply(event) | watcher::Event::Apply(event)) => {
                match waits_for.is_empty() {
                    true => new.push(event),
                    false => first.push(event),
                }
            }
            Ok(watcher::Event::InitDone) => {
                waits_for.remove(space);
            }
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) => {}
            Err(error) if is_refused(&error) => {
                let act = format!("watch events in {space}");
                let said = kit_client::errors::chain(&error);
                let what = format!("cannot {act}: {said}");
                let mend = "ask for the right to watch them: `kubectl auth can-i --list` says what you have";
                if waits_for.remove(space) {
                    say(&format!("({what})"));
                }
                failure = failure.or(Some(Failure::new(Exit::NotAllowed, &what, mend)));
                shown.refused.insert(space.clone());
                if shown.refused.len() == spaces.len() {
                    return failure.map_or(Ok(Exit::Done), Err);
                }
            }
            // The watch comes back by itself.
            Err(_) => {}
        }
        if waits_for.is_empty() && !first.is_empty() {
            new.append(&mut first);
            new.sort_by_cached_key(|event| (told(event).at, event.name_any()));
        }
        let now = Timestamp::now();
        new.retain(|event| wanted.has(event, now) && shown.is_new(event));
        if !new.is_empty() && !shown.write(global, new, now)? {
            return Ok(Exit::Done);
        }
    }
    Ok(Exit::Done)
}

/// What was shown of Events that are followed.
#[derive(Debug, Default)]
struct Followed {
    /// Versions, by UID.
    told: BTreeMap<String, String>,
    widths: Option<Widths>,
    /// Namespaces whose Events may not be watched.
    refused: BTreeSet<String>,
}

impl Followed {
    /// Whether it was not shown as it is; after a watch that broke off all come again.
    fn is_new(&mut self, event: &Event) -> bool {
        let (uid, version) = (event.uid(), event.resource_version());
        let (Some(uid), Some(version)) = (uid, version) else {
            return true;
        };
        self.told.insert(uid, version.clone()) != Some(version)
    }

    /// False: nobody reads on.
    fn write(
        &mut self,
        global: &Global,
        events: Vec<Event>,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        if matches!(global.output, Format::Json | Format::Yaml) {
            for mut event in events {
                event.metadata.managed_fields = None;
                let text = structured(&event, global.output)?;
                let text = match global.output {
                    Format::Yaml => format!("---\n{text}"),
                    _ => text,
                };
                if !part(&text)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        if global.output == Format::Name {
            return part(&written(global, events, now)?);
        }
        let is_first = self.widths.is_none();
        let lines = lines(&events, now);
        let widths = self.widths.get_or_insert_with(|| Widths::of(&lines));
        let from = usize::from(!is_first || global.no_headers);
        part(&fitted(widths.aligned(&lines[from..]), global))
    }
}

/// Whether it was so long ago at most. One that says no time may be of any.
fn is_within(event: &Event, since: Duration, now: Timestamp) -> bool {
    let at = told(event).at;
    at.is_none_or(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default() <= since)
}

/// Whether an Event is about an object of Covey.
fn is_ours(event: &Event) -> bool {
    let version = event.involved_object.api_version.as_deref();
    version.is_some_and(|version| version.starts_with("covey.dev/"))
}

fn written(global: &Global, mut events: Vec<Event>, now: Timestamp) -> Result<String, Failure> {
    let form = global.output;
    match form {
        Format::Json | Format::Yaml => {
            for event in &mut events {
                event.metadata.managed_fields = None;
            }
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": events});
            structured(&list, form)
        }
        Format::Name => Ok(events
            .iter()
            .map(|e| format!("event/{}\n", e.name_any()))
            .collect()),
        Format::Table | Format::Wide => Ok(listed(lines(&events, now), global.no_headers)),
    }
}

/// A line of headings, and one for each.
fn lines(events: &[Event], now: Timestamp) -> Vec<Vec<String>> {
    let heads = ["AGE", "TYPE", "OBJECT", "REASON", "MESSAGE"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    lines.extend(events.iter().map(|event| {
        let said = told(event);
        let age = said.at.map(|at| since(at, now)).unwrap_or_default();
        let type_ = insight::text::shown(event.type_.as_deref().unwrap_or_default());
        vec![age, type_, said.object, said.reason, said.message]
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use crate::fixture;
    use clap::Parser as _;

    fn parsed(line: &str) -> (Global, Events) {
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        match args.command {
            Command::Events(events) => (args.global, events),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_is_a_line() {
        let events = fixture::events().there().unwrap();
        let now = "2026-11-27T12:00:00Z".parse().unwrap();
        let told = |line: &str| written(&parsed(line).0, events.clone(), now).unwrap();
        let expected = "\
AGE   TYPE      OBJECT               REASON           MESSAGE
5m    Warning   TenantCluster/demo   AddonsNotReady   coreDNS: 0 of 2 pods are ready
";
        assert_eq!(told("covey events"), expected);
        let expected =
            "5m   Warning   TenantCluster/demo   AddonsNotReady   coreDNS: 0 of 2 pods are ready\n";
        assert_eq!(told("covey events --no-headers"), expected);
        let is_within =
            |minutes: u64| is_within(&events[0], Duration::from_secs(60 * minutes), now);
        assert!(is_within(5) && !is_within(4));
        assert_eq!(told("covey events -o name"), "event/a\n");
    }

    #[test]
    fn only_what_was_asked_for_is_shown_and_nothing_twice() {
        let event = fixture::events().there().unwrap().remove(0);
        let facts = fixture::facts();
        let now = "2026-11-27T12:00:00Z".parse().unwrap();
        let has = |line: &str, event: &Event| {
            let (_, args) = parsed(line);
            let about = Some(("demo", facts.clone()));
            let namespace = "team-a";
            Wanted {
                args: &args,
                namespace,
                about,
            }
            .has(event, now)
        };
        assert!(
            has("covey events demo", &event) && has("covey events demo --types warning", &event)
        );
        assert!(!has("covey events demo --types normal", &event));
        assert!(!has("covey events demo --reason NoSpace", &event));
        let mut machine = event.clone();
        machine.involved_object.kind = Some("Machine".to_owned());
        machine.involved_object.name = Some("demo-workers-ccccc".to_owned());
        // One that was made after the question was asked.
        assert!(!has("covey events demo", &machine) && has("covey events demo -f", &machine));
        machine.involved_object.name = Some("other-workers-ccccc".to_owned());
        assert!(!has("covey events demo -f", &machine));

        let mut shown = Followed::default();
        let mut event = event;
        event.metadata.uid = Some("u".to_owned());
        event.metadata.resource_version = Some("1".to_owned());
        assert!(shown.is_new(&event) && !shown.is_new(&event));
        event.metadata.resource_version = Some("2".to_owned());
        assert!(shown.is_new(&event));
    }
}
