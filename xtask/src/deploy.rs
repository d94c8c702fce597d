//! `cargo xtask deploy`: writes the chart's roles from the rights that the code declares.
//!
//! Invariant: the chart grants exactly what operator/src/rbac.rs lists; nobody edits the output.

use anyhow::{Result, ensure};

use crate::generated::{self, Args, File};

const ROLES: &str = "deploy/charts/covey/templates/rbac-rules.yaml";
/// What the other templates and the admission policies refer to.
const NAMES: [&str; 9] = [
    "covey-autoscaler",
    "covey-ccm",
    "covey-csi",
    "covey-edit",
    "covey-operator",
    "covey-tenant-namespace",
    "covey-user-namespace",
    "covey-view",
    "covey-webhook",
];

/// Runs the command.
///
/// # Errors
/// When the operator does not compile, a file cannot be written, or with `--check` it differs.
pub(crate) fn run(args: Args) -> Result<()> {
    let printed = generated::printed(Some("operator"), &["print", "rbac"])?;
    let file = File {
        path: ROLES.into(),
        text: roles(&printed)?,
    };
    generated::sync(args, &[file], &[], "cargo xtask deploy")
}

fn roles(printed: &str) -> Result<String> {
    for name in NAMES {
        ensure!(
            printed
                .lines()
                .any(|line| line.trim() == format!("name: {name}")),
            "`operator print rbac` printed no role called {name}"
        );
    }
    ensure!(
        !printed.contains('*'),
        "`operator print rbac` printed a wildcard"
    );
    Ok(printed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(names: &[&str]) -> String {
        let role =
            |name: &&str| format!("kind: ClusterRole\nmetadata:\n  name: {name}\nrules: []\n");
        names.iter().map(role).collect::<Vec<_>>().join("---\n")
    }

    #[test]
    fn all_roles_are_written_as_they_were_printed() {
        assert_eq!(roles(&printed(&NAMES)).unwrap(), printed(&NAMES));
    }

    #[test]
    fn a_missing_role_and_a_wildcard_are_refused() {
        let error = roles(&printed(&NAMES[..NAMES.len() - 1]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("covey-webhook"), "{error}");
        assert!(roles(&(printed(&NAMES) + "verbs: ['*']\n")).is_err());
    }
}
