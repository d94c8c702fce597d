//! Writing results: standard output holds the result and nothing else, standard error all that is said about it.
//!
//! Invariant: a reader that went away is no failure.

use std::io::{self, Write as _};

use serde::Serialize;
use serde_json::Value;

use crate::args::Format;
use crate::exit::{Exit, Failure};

/// Writes the result, as it is.
pub(crate) fn result(text: &str) -> Result<(), Failure> {
    // `covey get | head` reads no further.
    part(text).map(|_| ())
}

/// Writes a part of a result that has no end; false: nobody reads it any more.
pub(crate) fn part(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unwritable(&error)),
    }
}

fn unwritable(error: &io::Error) -> Failure {
    let what = format!("cannot write the result: {error}");
    Failure::new(Exit::Failed, &what, "look whether the disk is full")
}

/// Says something about it: one line on standard error.
pub(crate) fn say(line: &str) {
    // Where nobody can read it, nobody can be told so either.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Without what only the API server needs.
pub(crate) fn without_managers(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// A value as JSON, or as YAML.
pub(crate) fn structured(value: &impl Serialize, format: Format) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let what = format!("cannot write the result: {error}");
        Failure::new(Exit::Failed, &what, "")
    };
    if format == Format::Yaml {
        return serde_saphyr::to_string(value).map_err(|error| failed(&error));
    }
    let text = serde_json::to_string_pretty(value).map_err(|error| failed(&error))?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let value = json!({"version": "1.35", "on": "on", "empty": "", "n": 3, "list": [{"a": null}],
            "text": "two\nlines: # no comment", "off": false, "evil": "a\u{1b}[31m\u{9b}b\u{202e}c", "time": "2026-11-27T12:00:00Z"});
        let json = structured(&value, Format::Json).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        let yaml = structured(&value, Format::Yaml).unwrap();
        assert!(
            !json.contains('\u{1b}') && !yaml.contains('\u{1b}'),
            "{yaml:?}"
        );
        assert_eq!(
            serde_saphyr::from_str::<Value>(&yaml).unwrap(),
            value,
            "{yaml}"
        );
    }
}
