//! Termination signals: handed on to the cargo or nextest that runs, which ends its tests by them.
//!
//! A Ctrl-C reaches the whole group of processes, a TERM or HUP to this one alone would leave the tests
//! and their servers running. Invariant: while a child runs, this process ends after it; without one, the
//! signal does what it always does.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;

/// The child that runs now, if one does.
static CHILD: Mutex<Option<Pid>> = Mutex::new(None);

/// From here on signals are handed on to what [`status`] runs.
///
/// # Errors
/// When the kernel refuses a handler.
pub(crate) fn hand_on() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGTERM])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            // The lock is held for the sending, so the number is still the child's.
            let child = CHILD.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = child.map(|child| kill_process(child, Signal::TERM));
            if !matches!(sent, Some(Ok(()))) {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
    Ok(())
}

/// Runs a command to its end; a signal that ends this process ends the command first.
///
/// # Errors
/// When it cannot be started or waited for.
pub(crate) fn status(command: &mut Command) -> io::Result<ExitStatus> {
    run(command, || {})
}

fn run(command: &mut Command, once_it_runs: impl FnOnce()) -> io::Result<ExitStatus> {
    let set = |pid| *CHILD.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    set(Some(pid));
    once_it_runs();
    // Its number is given back by the wait below, when nobody sends to it any more.
    let ends = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let ended = retry_on_intr(|| waitid(WaitId::Pid(pid), ends));
    set(None);
    ended?;
    child.wait()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_signal_ends_the_child_and_not_this_process() {
        hand_on().unwrap();
        let tell = || kill_process(rustix::process::getpid(), Signal::TERM).unwrap();
        let ended = run(Command::new("sleep").arg("1000"), tell).unwrap();
        assert_eq!(ended.signal(), Some(SIGTERM));
    }
}
