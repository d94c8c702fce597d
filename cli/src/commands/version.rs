//! `covey version`: whether this program, the operator and the API fit together.
//!
//! Invariant: what could not be read is said, and is never taken for something that does not fit.

use k8s_openapi::api::apps::v1::Deployment;
use kit_objects::known::Known;
use kube::api::Api;
use serde::Serialize;

use crate::args::{Format, Global, Version};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::output::{result, structured};
use insight_read::reader::Reader;

/// Where the chart writes the version of a release (Helm's recommended labels).
const LABEL_VERSION: &str = "app.kubernetes.io/version";
const CLIENT: &str = env!("CARGO_PKG_VERSION");

/// `VersionReport` of `cli.covey.dev/v1`; it only ever gains fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    api_version: &'static str,
    kind: &'static str,
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    management: Option<String>,
    /// What does not fit, or is not known, and what mends it.
    notes: Vec<String>,
    supported: bool,
}

pub(super) async fn run(global: &Global, args: &Version) -> Result<Exit, Failure> {
    let mut report = Report {
        api_version: "cli.covey.dev/v1",
        kind: "VersionReport",
        client: CLIENT.to_owned(),
        operator: None,
        management: None,
        notes: Vec::new(),
        supported: true,
    };
    if !args.client {
        let client = connect(global).await?.client;
        let reader = Reader::default();
        let deployments: Api<Deployment> =
            Api::namespaced(client.clone(), &args.operator_namespace);
        let what = format!("deployments in {}", args.operator_namespace);
        let (operator, management) = tokio::join!(
            reader.get(&deployments, "covey-operator", &what),
            client.apiserver_version(),
        );
        match management {
            Ok(version) => report.management = Some(version.git_version),
            Err(error) => return Err(Failure::of("ask the API for its version", &error)),
        }
        let operator = operator.map(|operator| {
            let labels = operator.metadata.labels.unwrap_or_default();
            labels.get(LABEL_VERSION).cloned()
        });
        judge(&mut report, operator, &args.operator_namespace);
    }
    let text = match global.output {
        Format::Json | Format::Yaml => structured(&report, global.output)?,
        Format::Name => format!("{}\n", report.client),
        Format::Table | Format::Wide => written(&report),
    };
    result(&text)?;
    Ok(match report.supported {
        true => Exit::Done,
        false => Exit::Answered,
    })
}

fn judge(report: &mut Report, operator: Known<Option<String>>, namespace: &str) {
    let note = match operator {
        Known::Known(Some(version)) => {
            let fits = distance(CLIENT, &version).is_none_or(|minors| minors <= 1);
            report.supported = fits;
            report.operator = Some(insight::text::shown(&version));
            (!fits).then(|| {
                format!("the operator is more than one minor version away: take covey {version}")
            })
        }
        Known::Known(None) => Some("the operator does not say its version".to_owned()),
        Known::Absent => {
            report.supported = false;
            Some(format!(
                "there is no operator in {namespace}: install Covey (`covey up`), or name its namespace with \
                 `--operator-namespace`"
            ))
        }
        Known::Unknown { why } => Some(format!("the operator's version is not known: {why}")),
    };
    report.notes.extend(note);
}

/// How many minor versions are between two; None where one of them is none, or their majors differ by more than one can
/// count.
fn distance(one: &str, other: &str) -> Option<u64> {
    let parts = |text: &str| {
        let mut parts = text
            .trim_start_matches('v')
            .split('.')
            .map(str::parse::<u64>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    let (one, other) = (parts(one)?, parts(other)?);
    match one.0 == other.0 {
        true => Some(one.1.abs_diff(other.1)),
        false => Some(u64::MAX),
    }
}

fn written(report: &Report) -> String {
    let line = |name: &str, value: &Option<String>| {
        let value = value.as_ref();
        value
            .map(|value| format!("{name:<12}{value}\n"))
            .unwrap_or_default()
    };
    let mut text = line("client", &Some(report.client.clone()));
    text += &line("operator", &report.operator);
    text += &line("management", &report.management);
    for note in &report.notes {
        text += &format!("! {note}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(operator: Known<Option<String>>) -> (bool, String) {
        let mut report = Report {
            api_version: "",
            kind: "",
            client: CLIENT.to_owned(),
            operator: None,
            management: None,
            notes: Vec::new(),
            supported: true,
        };
        judge(&mut report, operator, "covey-system");
        (report.supported, report.notes.join("; "))
    }

    #[test]
    fn what_is_not_known_fits() {
        assert_eq!(
            judged(Known::Known(Some(CLIENT.to_owned()))),
            (true, String::new())
        );
        assert!(judged(Known::Unknown { why: "not allowed" }).0);
        assert!(judged(Known::Known(Some("latest".to_owned()))).0);
        let (supported, notes) = judged(Known::Absent);
        assert!(
            !supported && notes.contains("--operator-namespace"),
            "{notes}"
        );
        let (supported, notes) = judged(Known::Known(Some("99.0.0".to_owned())));
        assert!(!supported && notes.contains("take covey 99.0.0"), "{notes}");
    }

    #[test]
    fn versions_are_minors_apart() {
        assert_eq!(distance("0.3.1", "v0.1.9"), Some(2));
        assert_eq!(distance("1.0.0", "1.0.7-rc.1"), Some(0));
        assert_eq!(distance("1.0.0", "2.0.0"), Some(u64::MAX));
        assert_eq!(distance("1.0.0", "main"), None);
    }
}
