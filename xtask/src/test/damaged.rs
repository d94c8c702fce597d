//! Kept builds that are damaged: what somebody else published does not compile, though it once did.
//!
//! Metadata that was kept may not fit together any more, after a machine that was cut off or a cargo that
//! was killed. Cargo goes by times and hashes of inputs and takes it for fresh; rustc then cannot find a
//! crate. That says nothing of the change that is checked.
//! Invariant: an error in a package of this workspace is never taken for a damage.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::session::Session;

/// Runs cargo; where what it kept turns out to be damaged, once more without it.
///
/// # Errors
/// What cargo says.
pub(crate) fn rebuilt_where_damaged(session: &Session<'_>, command: &[&str]) -> Result<()> {
    let Err(error) = session.cargo(command) else {
        return Ok(());
    };
    let said = lab::run::cargo()
        .args(with_messages(command))
        .current_dir(session.layout.checkout())
        .output()
        .context("cargo cannot be run")?;
    let Some(package) = damaged(&String::from_utf8_lossy(&said.stdout)) else {
        return Err(error);
    };
    session.progress.note(format!(
        "kept builds are damaged ({package} does not compile any more): all is compiled again"
    ));
    session.cargo(&["clean"])?;
    session.cargo(command)
}

/// The same command, whose messages can be read: cargo's own options stand before `--`.
fn with_messages<'a>(command: &[&'a str]) -> Vec<&'a str> {
    let mut command = command.to_vec();
    let end = command.iter().position(|argument| *argument == "--");
    let end = end.unwrap_or(command.len());
    command.splice(end..end, ["--keep-going", "--message-format=json"]);
    command
}

/// The first package from a registry that has an error, of cargo's messages as JSON lines.
fn damaged(messages: &str) -> Option<String> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut packages = messages.filter_map(|message| {
        let package = message["package_id"].as_str()?;
        let is_error = message["message"]["level"] == "error";
        let others = package.strip_prefix("registry+")?;
        let name = others.rsplit_once('#').map_or(others, |(_, name)| name);
        is_error.then(|| name.to_owned())
    });
    packages.next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(package: &str, level: &str) -> String {
        let message = json!({
            "reason": "compiler-message", "package_id": package, "message": { "level": level },
        });
        format!("{message}\n")
    }

    #[test]
    fn only_what_others_published_shows_a_damage() {
        let ours = message("path+file:///covey/operator#0.1.0", "error");
        let warned = message(
            "registry+https://registry.example.com/index#russh@0.65.1",
            "warning",
        );
        let failed = message(
            "registry+https://registry.example.com/index#fuser@0.18.0",
            "error",
        );
        let ends = json!({ "reason": "build-finished", "success": false }).to_string();
        assert_eq!(damaged(&[&*ours, &*warned, &*ends].concat()), None);
        let all = [&*ours, &*warned, "no JSON\n", &*failed, &*ends].concat();
        assert_eq!(damaged(&all).as_deref(), Some("fuser@0.18.0"));
    }

    #[test]
    fn options_of_cargo_stand_before_those_of_what_it_runs() {
        assert_eq!(
            with_messages(&["clippy", "--workspace", "--", "-D", "warnings"]),
            [
                "clippy",
                "--workspace",
                "--keep-going",
                "--message-format=json",
                "--",
                "-D",
                "warnings"
            ]
        );
        assert_eq!(with_messages(&["check"]).len(), 3);
    }
}
