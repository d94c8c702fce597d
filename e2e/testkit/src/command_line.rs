//! Command lines of programs.

/// Has clap look for contradictions, and asserts that every flag has an environment variable.
///
/// # Panics
/// Where one has none, or clap finds something.
#[track_caller]
pub fn assert_consistent_with_variables(command: clap::Command) {
    command.clone().debug_assert();
    for flag in command
        .get_arguments()
        .filter(|a| a.get_id() != "help" && a.get_id() != "version")
    {
        assert!(flag.get_env().is_some(), "{} has none", flag.get_id());
    }
}
