//! What a node itself says of its boot, read through a pod of the tenant cluster.
//!
//! The node's clock is brought to the bench's by the moment in which the node was asked, which is
//! right to about half of how long the question took.
//! Invariant: what the node does not say is none, never a guess.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use suites::scenario::{kubectl::Kubectl, workload::on_node};

/// The node's own account, in words of systemd.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Systemd {
    /// `systemd-analyze time`.
    pub time: String,
    /// `systemd-analyze blame`: the slowest units.
    pub blame: Vec<String>,
    /// `systemd-analyze critical-chain`, down to the kubelet.
    pub chain: Vec<String>,
}

/// A node's boot.
#[derive(Clone, Debug, Default)]
pub(super) struct Boot {
    /// From the kernel's start until systemd took over, seconds.
    pub(super) kernel: Option<f64>,
    /// From there until the commands of the user data began, which join, seconds.
    pub(super) set_up: Option<f64>,
    /// When they began, by the bench's clock.
    pub(super) joining: Option<Instant>,
    /// What systemd says.
    pub(super) systemd: Systemd,
}

/// Seconds of uptime first, then one `name=value` per line: microseconds since the kernel started.
const ASK: &str = "\
read up rest </proc/uptime; echo uptime=$up
systemctl show --property=UserspaceTimestampMonotonic
systemctl show worker-run.service --property=ExecMainStartTimestampMonotonic
echo --- time; systemd-analyze time
echo --- blame; systemd-analyze blame --no-pager | head -20
echo --- chain; systemd-analyze critical-chain --no-pager kubelet.service | head -30";

/// Asks a node.
///
/// # Errors
/// When no pod can be run on it.
pub(super) async fn ask(kubectl: &Kubectl, node: &str, patience: Duration) -> Result<Boot> {
    // The pod is there once this is answered, so the second question is a short one.
    on_node(kubectl, node, patience, "true").await?;
    let before = Instant::now();
    let said = on_node(kubectl, node, patience, ASK).await?;
    let middle = before + before.elapsed() / 2;
    Ok(read(&said, middle))
}

fn read(said: &str, now: Instant) -> Boot {
    let number = |name: &str| {
        let prefix = format!("{name}=");
        let value = said.lines().find_map(|line| line.strip_prefix(&prefix))?;
        value
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|value| *value > 0.0)
    };
    let kernel = number("UserspaceTimestampMonotonic").map(|us| us / 1_000_000.0);
    let commands = number("ExecMainStartTimestampMonotonic").map(|us| us / 1_000_000.0);
    let joining = || {
        let ago = Duration::try_from_secs_f64(number("uptime")? - commands?).ok()?;
        now.checked_sub(ago)
    };
    let part = |name: &str| {
        let begin = format!("--- {name}");
        let lines = said.lines().skip_while(|line| *line != begin).skip(1);
        let lines = lines.take_while(|line| !line.starts_with("--- "));
        lines
            .map(|line| line.trim_end().to_owned())
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
    };
    Boot {
        kernel,
        set_up: commands.zip(kernel).map(|(to, from)| to - from),
        joining: joining(),
        systemd: Systemd {
            time: part("time").join(" "),
            blame: part("blame"),
            chain: part("chain"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_the_node_are_told_by_the_benchs_clock() {
        let now = Instant::now() + Duration::from_secs(1000);
        let said = "uptime=100.5\nUserspaceTimestampMonotonic=20500000\n\
                    ExecMainStartTimestampMonotonic=50500000\n--- time\n\
                    Startup finished in 1s\n--- blame\n\
                    5s a.service\n3s b.service\n--- chain\nkubelet.service @1s\n";
        let boot = read(said, now);
        assert_eq!((boot.kernel, boot.set_up), (Some(20.5), Some(30.0)));
        assert_eq!(boot.joining, Some(now - Duration::from_secs(50)));
        assert_eq!(boot.systemd.time, "Startup finished in 1s");
        assert_eq!(boot.systemd.blame, ["5s a.service", "3s b.service"]);
    }

    #[test]
    fn what_the_node_does_not_say_is_none() {
        let boot = read(
            "uptime=x\nExecMainStartTimestampMonotonic=0\n",
            Instant::now(),
        );
        assert_eq!((boot.kernel, boot.set_up, boot.joining), (None, None, None));
    }
}
