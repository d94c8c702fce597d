//! `covey doctor`: what is wrong, the cause first.
//!
//! Invariant: all wanted checks are made, whatever the first one finds; what cannot be read skips checks and fails none.

use insight::check::Check;
use insight::diagnosis::{diagnose, worst};
use insight::finding::{Finding, Level};
use kit_objects::known::Known;
use serde::Serialize;

use super::describe::missing;
use crate::args::doctor::{Doctor, FailOn};
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::output::{result, structured};
use crate::render::Symbols;
use crate::render::doctor::{doctor, ids};
use insight_read::installation::{Scope, read};

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
    let connection = connect(global).await?;
    let scope = Scope {
        namespace: Some(connection.namespace.as_str()).filter(|_| !args.all_namespaces),
        name: args.name.as_deref(),
        operator_namespace: &args.operator_namespace,
    };
    // It is large, because many requests are made side by side.
    let facts = Box::pin(read(&connection.client, &scope)).await;
    // A name that nobody has is no tenant cluster that is well.
    if let (Some(name), Known::Known(found)) = (&args.name, &facts.clusters)
        && found.is_empty()
    {
        let none = kube::core::Status::failure("not found", "NotFound").with_code(404);
        let error = kube::Error::Api(Box::new(none));
        return Err(missing(&connection.client, &connection.namespace, name, &error).await);
    }
    let findings = diagnose(&facts, is_wanted);
    let made: Vec<_> = Check::ALL
        .iter()
        .copied()
        .filter(|c| is_wanted(*c))
        .collect();
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

    #[test]
    fn checks_are_named_or_numbered_and_others_are_listed() {
        let named = ["etcd".to_owned(), "26".to_owned()];
        assert_eq!(checks(&named), Ok(vec![Check::Etcd, Check::Etcd]));
        let failure = checks(&["etdc".to_owned()]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.mend.contains("etcd-space"), "{failure}");
    }
}
