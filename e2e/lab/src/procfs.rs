//! Reads /proc: which processes live, since when, in which PID namespace.
//!
//! Invariant: a process is known by its pid, its start time and the machine's boot id together,
//! so a recycled pid is never taken for the process that had it before.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// One process of this machine, as seen from the machine's own PID namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Number of the process.
    pub pid: i32,
    /// Clock ticks from boot to its start (field 22 of /proc/PID/stat, proc(5)).
    pub start_ticks: u64,
    /// The boot in which that number means something.
    pub boot_id: String,
}

impl ProcessId {
    /// The process `pid` as it is now, when there is one.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        Self::with_state(pid).and_then(|(process, state)| (state != 'Z').then_some(process))
    }

    fn with_state(pid: i32) -> Option<(Self, char)> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_ticks) = parse_stat(&stat)?;
        let process = Self {
            pid,
            start_ticks,
            boot_id: boot_id(),
        };
        Some((process, state))
    }

    /// This process.
    ///
    /// # Errors
    /// When /proc does not show it.
    pub fn own() -> Result<Self> {
        let pid = i32::try_from(std::process::id()).ok();
        let own = pid.and_then(Self::of);
        own.context("our own process is missing in /proc")
    }

    /// Whether exactly this process still runs. A zombie does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Whether exactly this process is there, be it that it only waits for somebody to hear of its end.
    #[must_use]
    pub fn is_there(&self) -> bool {
        Self::with_state(self.pid).is_some_and(|(process, _)| process == *self)
    }

    /// Sends SIGKILL, if it is still this process.
    pub fn kill(&self) {
        if self.is_alive() {
            kill(self.pid);
        }
    }
}

/// Sends SIGKILL to `pid`; a process that is gone is fine.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Identity of the running kernel's boot.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Name of the PID namespace of `pid`, for example `pid:[4026532281]`.
#[must_use]
pub fn pid_namespace(pid: i32) -> Option<String> {
    let link = fs::read_link(Path::new("/proc").join(pid.to_string()).join("ns/pid")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Every process number there is now.
#[must_use]
pub fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether somebody listens on a TCP port in the network namespace of `pid`.
#[must_use]
pub fn listens(pid: i32, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}"));
        table.is_ok_and(|table| has_listener(&table, port))
    })
}

/// The state of a listening socket is 0A (proc_net_tcp in the kernel's documentation).
fn has_listener(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        local.is_some_and(|local| local.ends_with(&port)) && state == Some("0A")
    })
}

/// Command line of `pid` for messages.
#[must_use]
pub fn command_line(pid: i32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut text = String::from_utf8_lossy(&raw).replace('\0', " ");
    text.truncate(text.char_indices().nth(80).map_or(text.len(), |(at, _)| at));
    text.trim_end().to_owned()
}

/// State and start time. The name in parentheses may itself hold blanks and parentheses.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // `rest` begins with field 3; field 22 is 18 after the state.
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some((state, start_ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_read_behind_a_name_with_blanks_and_parentheses() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        assert_eq!(parse_stat(stat), Some(('S', 987_654)));
    }

    #[test]
    fn a_connection_from_a_port_is_no_listener() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 00000000:0016 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:0050 0100007F:9C40 01 00000000:00000000\n";
        assert!(has_listener(table, 22));
        assert!(!has_listener(table, 80));
        assert!(!has_listener(table, 0x16_00));
    }

    #[test]
    fn another_boot_or_start_time_is_another_process() {
        let me = ProcessId::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(me.is_alive());
        let mut other = me.clone();
        other.boot_id = "an earlier boot".into();
        assert!(!other.is_alive());
        assert!(
            !ProcessId {
                start_ticks: me.start_ticks + 1,
                ..me
            }
            .is_alive()
        );
    }
}
