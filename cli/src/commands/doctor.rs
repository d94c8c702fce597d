//! `covey doctor`: what is wrong, the cause first.
//!
//! Invariant: all wanted checks are made, whatever the first one finds; what cannot be read skips checks and fails none.

use insight::check::{Check, Target};
use insight::diagnosis::{diagnose, worst};
use insight::facts::{Facts, NO_ANSWER, NOT_ALLOWED};
use insight::finding::{Finding, Level};
use insight::inside::Inside;
use insight_read::before;
use insight_read::installation::{Scope, read};
use insight_read::reader::Reader;
use kit_objects::known::Known;
use serde::Serialize;

use super::connect::prepare;
use super::describe::missing;
use super::here::{seen, unusable};
use crate::args::connect::Connect;
use crate::args::doctor::{Doctor, FailOn};
use crate::args::{Format, Global};
use crate::connect::{Connection, connect, inside_of};
use crate::exit::{Exit, Failure};
use crate::output::{result, say, structured};
use crate::render::Symbols;
use crate::render::doctor::{doctor, ids};

/// `DoctorReport` of `cli.covey.dev/v1`; it only ever gains fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// Ids of the checks that were made.
    checks: Vec<&'static str>,
    /// The worst level; absent where nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Level>,
    findings: &'a [Finding],
}

pub(super) async fn run(global: &Global, args: &Doctor) -> Result<Exit, Failure> {
    let (skip, only) = (checks(&args.skip)?, checks(&args.only)?);
    let is_wanted =
        |check: Check| !skip.contains(&check) && (only.is_empty() || only.contains(&check));
    let facts = match connect(global).await {
        Ok(connection) => Box::pin(gathered(global, args, &connection)).await?,
        // It is what the first check is about.
        Err(failure) => unusable(&failure),
    };
    let is_made = |check: Check| is_wanted(check) && is_looked_at(check, args);
    let findings = diagnose(&facts, is_made);
    let made: Vec<_> = Check::ALL.iter().copied().filter(|c| is_made(*c)).collect();
    let text = match global.output {
        Format::Json | Format::Yaml => structured(&report(&findings, &made), global.output)?,
        Format::Name => {
            let told = findings.iter().filter(|f| f.level > Level::Skipped);
            told.map(|f| f.check.id().to_owned() + "\n").collect()
        }
        form => {
            let is_wide = form == Format::Wide;
            doctor(
                &findings,
                made.len(),
                is_wide,
                facts.now,
                Symbols::of(global),
            )
        }
    };
    result(&text)?;
    let from = match args.fail_on {
        FailOn::Error => Level::Error,
        FailOn::Warning => Level::Warning,
    };
    Ok(match worst(&findings) {
        Some(level) if level >= from => Exit::Answered,
        _ => Exit::Done,
    })
}

/// Whether what a check looks at is looked at.
fn is_looked_at(check: Check, args: &Doctor) -> bool {
    match check.target() {
        _ if args.pre => check.is_before(),
        Target::Management => true,
        Target::Endpoint => args.name.is_some(),
        Target::Inside => args.deep,
    }
}

/// All that is asked.
async fn gathered(
    global: &Global,
    args: &Doctor,
    connection: &Connection,
) -> Result<Facts, Failure> {
    if args.pre {
        return Ok(Box::pin(before::read(&connection.client)).await);
    }
    let scope = Scope {
        namespace: Some(connection.namespace.as_str()).filter(|_| !args.all_namespaces),
        name: args.name.as_deref(),
        operator_namespace: &args.operator_namespace,
    };
    // It is large, because many requests are made side by side.
    let mut facts = Box::pin(read(&connection.client, &scope)).await;
    // A name that nobody has is no tenant cluster that is well.
    if let (Some(name), Known::Known(found)) = (&args.name, &facts.clusters)
        && found.is_empty()
    {
        let none = kube::core::Status::failure("not found", "NotFound").with_code(404);
        let error = kube::Error::Api(Box::new(none));
        return Err(missing(&connection.client, &connection.namespace, name, &error).await);
    }
    let clusters = facts.clusters.as_ref().there();
    let one = clusters.and_then(|all| all.first());
    let one = one.filter(|_| args.name.is_some());
    facts.here = Box::pin(seen(global, one)).await;
    if let (Some(name), true) = (&args.name, args.deep) {
        let reader = Reader::default();
        facts.inside = match Box::pin(inside(global, name, &reader)).await {
            Ok(inside) => Known::Known(inside),
            Err(failure) => {
                if !global.quiet {
                    say(&format!("({})", failure.what));
                }
                let why = match failure.exit {
                    Exit::NotAllowed => NOT_ALLOWED,
                    _ => NO_ANSWER,
                };
                Known::Unknown { why }
            }
        };
        facts.not_allowed.extend(reader.not_allowed());
    }
    Ok(facts)
}

/// What is inside a tenant cluster, by way of a pod of its control plane where its endpoint is not reached from here.
async fn inside(global: &Global, name: &str, reader: &Reader) -> Result<Inside, Failure> {
    let as_administrator = Connect::administrators(name);
    let prepared = prepare(global, &as_administrator).await?;
    let client = inside_of(&prepared.kubeconfig, global).await?;
    let forwarding = prepared.forward.map(|forward| tokio::spawn(forward.run()));
    let inside = Box::pin(insight_read::inside::read(reader, &client)).await;
    if let Some(forwarding) = forwarding {
        forwarding.abort();
    }
    Ok(inside)
}

/// The report of checks that were made.
pub(super) fn report<'a>(findings: &'a [Finding], made: &[Check]) -> Report<'a> {
    Report {
        api_version: "cli.covey.dev/v1",
        kind: "DoctorReport",
        checks: made.iter().map(|check| check.id()).collect(),
        worst: worst(findings),
        findings,
    }
}

fn checks(names: &[String]) -> Result<Vec<Check>, Failure> {
    let found = names.iter().map(|name| {
        Check::find(name).ok_or_else(|| {
            let what = format!("there is no check {name}");
            let mut failure = Failure::new(Exit::Usage, &what, "");
            failure.mend = format!("name one of {}", ids());
            failure
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser as _;

    #[test]
    fn checks_are_named_or_numbered_and_others_are_listed() {
        let named = ["etcd".to_owned(), "26".to_owned()];
        assert_eq!(checks(&named), Ok(vec![Check::Etcd, Check::Etcd]));
        let failure = checks(&["etdc".to_owned()]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.mend.contains("etcd-space"), "{failure}");
    }

    #[test]
    fn a_report_is_as_the_schema_has_it() {
        let mut facts = crate::fixture::facts();
        let all = [diagnose(&facts, |_| true), {
            facts.clusters = Known::Unknown { why: NOT_ALLOWED };
            diagnose(&facts, |_| true)
        }];
        for findings in all {
            assert!(!findings.is_empty());
            let report = serde_json::to_value(report(&findings, Check::ALL)).unwrap();
            assert_eq!(crate::schema::findings(&report), [""; 0], "{report:#}");
        }
    }

    #[test]
    fn what_is_not_looked_at_is_no_check_that_is_made() {
        let made = |line: &str| {
            let parsed = Args::try_parse_from(line.split(' ')).unwrap();
            let Command::Doctor(args) = parsed.command else {
                panic!("{line}");
            };
            let all = Check::ALL.iter().copied();
            all.filter(|check| is_looked_at(*check, &args))
                .collect::<Vec<_>>()
        };
        let all = made("covey doctor");
        assert!(all.contains(&Check::Etcd) && !all.contains(&Check::EndpointTls));
        let one = made("covey doctor demo");
        assert!(one.contains(&Check::EndpointTls) && !one.contains(&Check::Dns));
        assert_eq!(made("covey doctor demo --deep").len(), Check::ALL.len());
        let pre = made("covey doctor --pre");
        assert!(pre.contains(&Check::Virtualization) && !pre.contains(&Check::Etcd));
    }
}
