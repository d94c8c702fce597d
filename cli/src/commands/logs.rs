//! `covey logs`: what the parts of a tenant cluster wrote, merged by time.
//!
//! Invariant: of each container a bounded part is read; what may not be read, or is not there, is a line on standard
//! error, and the rest is shown.

use futures::stream::{self, BoxStream, StreamExt as _};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};
use kube::{Client, ResourceExt as _};

use api::TenantCluster;
use api::names::{LABEL_COMPONENT, LABEL_MACHINE, NOT_OF_MACHINES};

use super::describe::find;
use crate::args::logs::{Logs, Of, Part};
use crate::args::{Format, Global};
use crate::connect::{Connection, connect};
use crate::exit::{Exit, Failure};
use crate::logs::{Source, dated, shown, sources};
use crate::output::{part, result, say};
use insight_read::request;

/// Bytes of one container's log.
const MOST: i64 = 5 << 20;
/// Logs that are read at once.
const AT_ONCE: usize = 8;

/// What is read, and where.
struct Reading {
    pods: Api<Pod>,
    sources: Vec<Source>,
    /// Of each line one of these has to be in it; none: all lines.
    names: Vec<String>,
}

pub(super) async fn run(global: &Global, args: &Logs) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let reading = reading(&connection, args).await?;
    if reading.sources.is_empty() {
        return Err(nothing(args));
    }
    if global.output == Format::Name {
        let names = reading.sources.iter().map(|s| s.label() + "\n");
        result(&names.collect::<String>())?;
        return Ok(Exit::Done);
    }
    match args.follow {
        true => follow(&reading, args).await,
        false => read(&reading, args).await,
    }
}

/// Nothing has a log, and why that may be.
fn nothing(args: &Logs) -> Failure {
    let name = &args.name;
    let (what, mend) = match &args.part {
        _ if !args.containers.is_empty() => (
            format!(
                "nothing of {name} has a container {}",
                args.containers.join(" or ")
            ),
            format!("`covey logs {name} -o name` lists the containers"),
        ),
        Some(Of::Machine(machine)) => (
            format!("the machine {machine} of {name} has no pod, and so no log here"),
            format!(
                "`covey get machines --cluster {name}` lists the machines; one of a cloud or of a host keeps its log itself"
            ),
        ),
        Some(Of::Part(_)) | None => (
            format!("nothing of {name} that has a log runs"),
            format!("`covey describe {name}` says what there is"),
        ),
    };
    Failure::new(Exit::NotFound, &what, &mend)
}

async fn reading(connection: &Connection, args: &Logs) -> Result<Reading, Failure> {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let cluster = find(client, namespace, &args.name).await?;
    let (space, labels, names) = match &args.part {
        Some(Of::Part(Part::Operator)) => {
            let labels = format!("{LABEL_COMPONENT}=operator");
            (args.operator_namespace.clone(), labels, about(&cluster))
        }
        of => {
            let space = cluster.status.and_then(|status| status.namespace);
            let space = space.ok_or_else(|| {
                let what = format!("{} has no tenant namespace yet", args.name);
                Failure::new(
                    Exit::Answered,
                    &what,
                    "`covey doctor` says what it waits for",
                )
            })?;
            let labels = match of {
                Some(Of::Machine(name)) => format!("{LABEL_MACHINE}={name}"),
                Some(Of::Part(_)) | None => NOT_OF_MACHINES.to_owned(),
            };
            (space, labels, Vec::new())
        }
    };
    let pods = pods(client, &space, &labels).await?;
    let part = match args.part {
        Some(Of::Part(part)) => Some(part),
        Some(Of::Machine(_)) | None => None,
    };
    Ok(Reading {
        pods: Api::namespaced(client.clone(), &space),
        sources: sources(&pods, part, &args.containers),
        names,
    })
}

async fn pods(client: &Client, space: &str, labels: &str) -> Result<Vec<Pod>, Failure> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), space);
    let params = ListParams::default().labels(labels);
    let all = request::all(&pods, params, request::PAGES).await;
    all.map_err(|unread| Failure::unread(&format!("list pods in {space}"), &unread))
}

/// What the operator calls a tenant cluster in its log.
fn about(cluster: &TenantCluster) -> Vec<String> {
    let namespace = cluster.namespace().unwrap_or_default();
    let status = cluster.status.as_ref();
    let space = status.and_then(|status| status.namespace.clone());
    let mut names = vec![format!("{namespace}/{}", cluster.name_any())];
    names.extend(cluster.uid());
    names.extend(space);
    names
}

fn params(source: &Source, args: &Logs) -> LogParams {
    LogParams {
        container: Some(source.container.clone()),
        follow: args.follow,
        limit_bytes: (!args.follow).then_some(MOST),
        previous: args.previous,
        since_seconds: args
            .since
            .map(|since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
        tail_lines: Some(args.tail),
        timestamps: true,
        ..LogParams::default()
    }
}

/// Whether a line was asked for.
fn is_wanted(line: &str, names: &[String], grep: Option<&str>) -> bool {
    let is_theirs = names.is_empty() || names.iter().any(|name| line.contains(name.as_str()));
    is_theirs && grep.is_none_or(|text| line.contains(text))
}

async fn read(reading: &Reading, args: &Logs) -> Result<Exit, Failure> {
    let logs = reading.sources.iter().map(|source| async move {
        let read = reading.pods.logs(&source.pod, &params(source, args)).await;
        (source, read)
    });
    let logs: Vec<_> = stream::iter(logs).buffered(AT_ONCE).collect().await;
    let mut lines = Vec::new();
    let (mut is_read, mut failure) = (false, None);
    for (source, log) in logs {
        let log = match log {
            Ok(log) => log,
            Err(error) => {
                let failed = Failure::of(&format!("read the log of {}", source.label()), &error);
                say(&format!("({})", failed.what));
                failure = failure.or(Some(failed));
                continue;
            }
        };
        is_read = true;
        for line in log.lines() {
            let (at, line) = dated(line);
            if is_wanted(line, &reading.names, args.grep.as_deref()) {
                lines.push((at, format!("{} {}\n", source.label(), shown(line))));
            }
        }
    }
    if let Some(failure) = failure.filter(|_| !is_read) {
        return Err(failure);
    }
    // In the order of each container where the times are equal.
    lines.sort_by_key(|(at, _)| *at);
    result(&lines.into_iter().map(|(_, line)| line).collect::<String>())?;
    Ok(Exit::Done)
}

async fn follow(reading: &Reading, args: &Logs) -> Result<Exit, Failure> {
    let opened = reading.sources.iter().map(|source| async move {
        let params = params(source, args);
        (source, reading.pods.log_stream(&source.pod, &params).await)
    });
    let opened: Vec<_> = stream::iter(opened).buffered(AT_ONCE).collect().await;
    let mut lines: Vec<BoxStream<'_, Result<(&Source, String), std::io::Error>>> = Vec::new();
    let mut failure = None;
    for (source, log) in opened {
        match log {
            Ok(log) => lines.push(log.lines().map_ok(move |line| (source, line)).boxed()),
            Err(error) => {
                let failed = Failure::of(&format!("read the log of {}", source.label()), &error);
                say(&format!("({})", failed.what));
                failure = failure.or(Some(failed));
            }
        }
    }
    if let Some(failure) = failure.filter(|_| lines.is_empty()) {
        return Err(failure);
    }
    let mut lines = stream::select_all(lines);
    while let Some(line) = lines.next().await {
        let Ok((source, line)) = line else {
            // One container's log broke off; the others go on.
            continue;
        };
        let line = dated(&line).1;
        if is_wanted(line, &reading.names, args.grep.as_deref()) {
            let text = format!("{} {}\n", source.label(), shown(line));
            if !part(&text)? {
                return Ok(Exit::Done);
            }
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_operator_only_lines_about_the_tenant_cluster_are_shown() {
        let names = ["team-a/demo".to_owned(), "0a1b".to_owned()];
        assert!(is_wanted("object team-a/demo: planned", &names, None));
        assert!(!is_wanted("object team-b/demo: planned", &names, None));
        assert!(!is_wanted(
            "object team-a/demo: planned",
            &names,
            Some("error")
        ));
        assert!(is_wanted("an error", &[], Some("error")));
    }
}
