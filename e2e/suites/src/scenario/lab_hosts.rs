//! Hosts of the lab that are reached by SSH, made by the command that people use.
//!
//! Invariant: what a test made goes with the value, whether the test passed or not; `COVEY_KEEP=1` leaves it.

use std::{env, process::Command};

use anyhow::{Context as _, Result, ensure};
use lab::{Layout, state::State};
use serde_json::Value;

use super::Scenario;
use crate::cluster::suffix;

/// Everything of a machine that a node could change, one line each. Left out is what stays by design: tables that
/// iptables makes empty, images, and which services come with a boot.
const STATE: &str = r#"
for process in /proc/[0-9]*; do
    read -r name < "$process/comm" || continue
    case "$name" in sh | sshd | sort | awk | sed) ;; *) echo "process $name" ;; esac
done 2> /dev/null | sort
for link in /sys/class/net/*; do echo "link ${link##*/}"; done
awk '{ print "mount " $5 }' /proc/self/mountinfo | sort
find /etc /opt /root /var/lib/kubelet /var/lib/cni /run/flannel /var/log/pods /var/log/containers /run/netns \
    -type f 2> /dev/null | sort | sed 's/^/file /'
ls /var/lib/covey/owner.json /run/covey/join.yaml 2> /dev/null | sed 's/^/file /'
sed 's/^/hosts /' /etc/hosts
nft list tables | grep -vE '^table ip6? (nat|filter|mangle)$' | sort
for program in iptables-nft ip6tables-nft iptables-legacy ip6tables-legacy; do
    for table in nat filter mangle; do
        "$program" -t "$table" -S 2> /dev/null | sed -n "/^-[NA]/s/^/$program $table /p"
    done
done
ctr -n k8s.io containers ls -q | sed 's/^/container /'
ip -o address show dev lo | awk '{ print "address " $4 }'
ip route | sed 's/^/route /'
ss -Hltn | awk '$4 !~ /^127[.]/ { print "port " $4 }' | sort
"#;

/// Hosts of a test.
#[derive(Debug, Default)]
pub struct LabHosts {
    layout: Option<Layout>,
    names: Vec<String>,
}

/// One host.
#[derive(Clone, Debug)]
pub struct LabHost {
    /// Its name, which its `Host` has, too.
    pub name: String,
    /// Secret and `Host` for `kubectl apply`.
    pub objects: Vec<Value>,
}

impl LabHosts {
    /// Makes one as `lab host add` does; its name gets an ending that no other has.
    ///
    /// # Errors
    /// With what the command said.
    pub async fn add(&mut self, s: &Scenario, name: &str, options: &[&str]) -> Result<LabHost> {
        let layout = s.management.layout.clone();
        self.layout.get_or_insert_with(|| layout.clone());
        let name = format!("{name}-{}", suffix());
        let args = [&["add", &name, "--json"], options].concat();
        let args: Vec<_> = args.into_iter().map(str::to_owned).collect();
        // Remembered at once: a test may end while it is made.
        self.names.push(name.clone());
        let said = tokio::task::spawn_blocking(move || command(&layout, &args)).await??;
        let mut said: Value = serde_json::from_str(&said)?;
        let objects = serde_json::from_value(said["objects"].take())?;
        Ok(LabHost { name, objects })
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// When something of one is left on this machine.
    pub fn end(&mut self) -> Result<()> {
        let Some(layout) = &self.layout else {
            return Ok(());
        };
        let mut outcome = Ok(());
        if env::var_os("COVEY_KEEP").is_some() {
            eprintln!("COVEY_KEEP: hosts {:?} are kept", self.names);
            self.names.clear();
        }
        // The last one first: a site's gateway goes with its last host.
        while let Some(name) = self.names.pop() {
            let is_there =
                State::read(layout).is_some_and(|state| state.ssh_hosts.contains_key(&name));
            if is_there {
                let removed = command(layout, &["remove".to_owned(), name]);
                outcome = outcome.and(removed.map(drop));
            }
        }
        outcome
    }
}

impl Drop for LabHosts {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("{error:#}");
        }
    }
}

/// What a machine has that a node could have changed, as the machine itself sees it, without SSH and Covey.
///
/// # Errors
/// When it does not run.
pub fn state_of(s: &Scenario, name: &str) -> Result<Vec<String>> {
    let said = inside(s, name, STATE)?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// What is there now and was not, with +, and what was and is not, with -.
#[must_use]
pub fn difference(before: &[String], after: &[String]) -> Vec<String> {
    let lacks = |lines: &[String], line: &&String| !lines.contains(*line);
    let new = after.iter().filter(|line| lacks(before, line));
    let gone = before.iter().filter(|line| lacks(after, line));
    let new = new.map(|line| format!("+ {line}"));
    new.chain(gone.map(|line| format!("- {line}"))).collect()
}

/// Runs a script on a machine as its root, not by SSH.
///
/// # Errors
/// With what it said when it failed.
pub fn inside(s: &Scenario, name: &str, script: &str) -> Result<String> {
    let state = State::read(&s.management.layout).context("the lab went down meanwhile")?;
    let host = state.ssh_hosts.get(name);
    let host = host.with_context(|| format!("the lab has no host {name}"))?;
    let output = host.host.inside("sh", ["-c", script]).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "on {name}: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Tests are no program that a host can run, so it is the lab's own that is asked.
fn command(layout: &Layout, args: &[String]) -> Result<String> {
    let mut command = Command::new(layout.supervisor());
    command.args(["lab", "host"]).args(args);
    let output = command.current_dir(layout.checkout()).output();
    let output = output.context("the lab's program cannot be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "lab host {}: {said}",
        args.join(" ")
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_what_came_and_what_went() {
        let lines = |lines: [&str; 2]| lines.map(str::to_owned);
        let told = difference(
            &lines(["link lo", "link eth0"]),
            &lines(["link lo", "link cni0"]),
        );
        assert_eq!(told, ["+ link cni0", "- link eth0"]);
    }
}
