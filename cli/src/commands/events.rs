//! `covey events`: what happened, merged by time.
//!
//! Invariant: what may not be read is a line on standard error, and the rest is shown.

use std::time::Duration;

use insight::description::told;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kit_objects::known::Known;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::describe::missing;
use crate::args::{Events, Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::output::{result, say, structured};
use crate::table::aligned;
use insight::age::since;
use insight_read::cluster::{about_cluster, is_of};
use insight_read::reader::Reader;
use insight_read::request::PAGES;

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
        about = Some((name, facts));
    }
    let mut found = Vec::new();
    for space in &spaces {
        let api: Api<Event> = Api::namespaced(client.clone(), space);
        let params = match args.warnings {
            true => ListParams::default().fields("type=Warning"),
            false => ListParams::default(),
        };
        let what = format!("events in {space}");
        let events = reader.list(&api, params, PAGES, &what).await;
        if let Known::Unknown { why } = events {
            say(&format!("({what} are not known: {why})"));
        }
        let is_theirs = space == namespace;
        let events = events.there().unwrap_or_default().into_iter();
        found.extend(events.filter(|event| match &about {
            // All that happens in a tenant namespace is about its tenant cluster.
            Some((name, facts)) => !is_theirs || is_of(event, name, facts),
            None => is_ours(event),
        }));
    }
    if let Some(reason) = &args.reason {
        found.retain(|event| event.reason.as_ref() == Some(reason));
    }
    let now = Timestamp::now();
    if let Some(since) = args.since {
        found.retain(|event| is_within(event, since, now));
    }
    found.sort_by_cached_key(|event| (told(event).at, event.name_any()));
    result(&written(global.output, found, now)?)?;
    Ok(Exit::Done)
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

fn written(form: Format, mut events: Vec<Event>, now: Timestamp) -> Result<String, Failure> {
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
        Format::Table | Format::Wide => {
            let heads = ["AGE", "TYPE", "OBJECT", "REASON", "MESSAGE"];
            let mut lines = vec![heads.map(str::to_owned).to_vec()];
            lines.extend(events.iter().map(|event| {
                let said = told(event);
                let age = said.at.map(|at| since(at, now)).unwrap_or_default();
                let type_ = insight::text::shown(event.type_.as_deref().unwrap_or_default());
                vec![age, type_, said.object, said.reason, said.message]
            }));
            Ok(aligned(&lines))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn an_event_is_a_line() {
        let events = fixture::events().there().unwrap();
        let now = "2026-11-27T12:00:00Z".parse().unwrap();
        let told = written(Format::Table, events.clone(), now).unwrap();
        let expected = "\
AGE   TYPE      OBJECT               REASON           MESSAGE
5m    Warning   TenantCluster/demo   AddonsNotReady   coreDNS: 0 of 2 pods are ready
";
        assert_eq!(told, expected);
        let is_within =
            |minutes: u64| is_within(&events[0], Duration::from_secs(60 * minutes), now);
        assert!(is_within(5) && !is_within(4));
        assert_eq!(written(Format::Name, events, now).unwrap(), "event/a\n");
    }
}
