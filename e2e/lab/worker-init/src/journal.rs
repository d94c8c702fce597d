//! What a machine is told of its boot.
//!
//! Invariant: saying something never fails and never waits.

/// To the journal and, where the kernel's log goes there, to the console.
#[expect(clippy::print_stderr, reason = "systemd takes it")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
