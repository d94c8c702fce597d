//! `covey explain-condition`: the catalogue of reasons.
//!
//! Invariant: nothing is asked of any API.

use api::Reason;
use serde::Serialize;

use super::near::nearest;
use crate::args::{Explain, Format};
use crate::exit::{Exit, Failure};
use crate::output::{result, structured};

/// `Reason` of `cli.covey.dev/v1`; it only ever gains fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    api_version: &'static str,
    kind: &'static str,
    name: &'static str,
    meaning: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cause: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    mend: &'static str,
    class: &'static str,
    runbook: String,
}

pub(super) fn run(args: &Explain, format: Format) -> Result<Exit, Failure> {
    let reason = find(&args.reason)?;
    let text = match format {
        Format::Json | Format::Yaml => {
            let explained = Explained {
                api_version: "cli.covey.dev/v1",
                kind: "Reason",
                name: reason.as_str(),
                meaning: reason.meaning(),
                cause: reason.cause(),
                mend: reason.mend(),
                class: reason.class().as_str(),
                runbook: reason.runbook(),
            };
            structured(&explained, format)?
        }
        Format::Name => format!("{reason}\n"),
        Format::Table | Format::Wide => told(reason),
    };
    result(&text)?;
    Ok(Exit::Done)
}

fn told(reason: Reason) -> String {
    let lines = [
        ("", format!("{reason}: {}", reason.meaning())),
        ("usually: ", reason.cause().to_owned()),
        ("to mend it: ", reason.mend().to_owned()),
        ("more: ", reason.runbook()),
    ];
    let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
    lines
        .map(|(what, text)| format!("{what}{text}\n"))
        .collect()
}

fn find(name: &str) -> Result<Reason, Failure> {
    let mut all = Reason::ALL.iter().copied();
    if let Some(found) = all.find(|reason| reason.as_str().eq_ignore_ascii_case(name)) {
        return Ok(found);
    }
    let mut what = format!("there is no reason {name} in the catalogue");
    if let Some(near) = nearest(name, Reason::ALL.iter().map(|reason| reason.as_str())) {
        what.push_str(&format!("; did you mean {near}?"));
    }
    let mend =
        "a later version of Covey, or Kubernetes itself, may have said it; docs/reasons.md has all";
    Err(Failure::new(Exit::NotFound, &what, mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_in_any_case_and_near_ones_are_guessed() {
        assert_eq!(find("quorumlost"), Ok(Reason::QuorumLost));
        let failure = find("QourumLost").unwrap_err();
        assert_eq!(failure.exit, Exit::NotFound);
        assert!(
            failure.what.ends_with("did you mean QuorumLost?"),
            "{failure}"
        );
        assert!(told(Reason::QuorumLost).contains("to mend it: "));
    }
}
