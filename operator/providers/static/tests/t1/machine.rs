//! A machine to play with: namespaces for mounts, processes and network, with everything that scripts write in
//! memory.
//!
//! Invariant: nothing outside is written, and the machine ends with its value, with every process in it.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use provider_static::answer::Answer;
use provider_static::scripts::{CLEAN_ENVIRONMENT, LOADER, Parameters, Script, sent};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// Which programs it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// dash and coreutils, as Debian has them.
    Debian,
    /// busybox for everything it can do.
    Busybox,
}

pub(crate) const FLAVOURS: [Flavour; 2] = [Flavour::Debian, Flavour::Busybox];

const SETUP: &str = r#"set -e
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir /run/etc
for name in alternatives ld.so.cache ld.so.conf machine-id os-release passwd group nsswitch.conf; do
    if [ -e /etc/$name ]; then cp -a /etc/$name /run/etc/; fi
done
mount -t tmpfs tmpfs /etc
cp -a /run/etc/. /etc/
rm -r /run/etc
# Without this file nss-systemd makes up a root that is locked (!*), and sshd lets nobody in. Of "*" there is no password.
echo 'root:*:20000:0:99999:7:::' > /etc/shadow
chmod 0600 /etc/shadow
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /var/log
mount -t tmpfs tmpfs /usr/local/bin
mount -t tmpfs tmpfs /opt
ip link set lo up
if [ "$1" = Busybox ]; then busybox --install -s /usr/local/bin; fi
echo ready
exec cat
"#;

pub(crate) struct Machine {
    /// Holds the namespaces; its first child is their first process.
    holder: Child,
    first: u32,
}

impl Machine {
    pub(crate) async fn start(flavour: Flavour) -> Result<Self> {
        let mut holder = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "--",
                "unshare",
                "--mount",
                "--pid",
                "--net",
                "--fork",
            ])
            .args([
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                SETUP,
                "sh",
                &format!("{flavour:?}"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = holder.stdout.take().context("no output")?;
        let line = BufReader::new(output).lines().next_line().await?;
        ensure!(
            line.as_deref() == Some("ready"),
            "the machine does not start: {line:?}"
        );
        let id = holder.id().context("ended")?;
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let first = children.trim().parse().context("no first process")?;
        Ok(Self { holder, first })
    }

    /// Number of its first process.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Runs a command inside and gives what it printed.
    async fn enter(&self, shell: &str, input: &str) -> Result<(i32, String, String)> {
        let mut child = Command::new("nsenter")
            .args([
                "-t",
                &self.first.to_string(),
                "--mount",
                "--pid",
                "--net",
                "--",
            ])
            .args(["sh", "-c", shell])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().context("no input")?;
        let write = async {
            // A script that has ended takes no more.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), write);
        let output = output?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((
            output.status.code().unwrap_or(-1),
            text(output.stdout),
            text(output.stderr),
        ))
    }

    /// Runs shell text of a test, which must succeed.
    pub(crate) async fn shell(&self, text: &str) -> Result<String> {
        let (status, said, complaint) = self.enter(text, "").await?;
        ensure!(status == 0, "{text}: {status}: {said}{complaint}");
        Ok(said)
    }

    /// Writes a program that plays another.
    pub(crate) async fn program(&self, name: &str, text: &str) -> Result<()> {
        let write = format!(
            "rm -f /usr/local/bin/{name}; cat > /usr/local/bin/{name}; chmod 0755 /usr/local/bin/{name}"
        );
        let (status, _, complaint) = self.enter(&write, &format!("#!/bin/sh\n{text}\n")).await?;
        ensure!(status == 0, "{complaint}");
        Ok(())
    }

    /// Runs a script as a session does.
    pub(crate) async fn run(&self, script: &Script, parameters: &Parameters) -> Result<Answer> {
        let line = format!("{CLEAN_ENVIRONMENT} {LOADER}");
        let (status, said, complaint) = self.enter(&line, &sent(script, parameters)).await?;
        ensure!(
            status == 0,
            "{} ended with {status}: {said}{complaint}",
            script.name
        );
        let answer = said.trim().lines().last().unwrap_or_default();
        Answer::parse(answer).map_err(|why| anyhow::anyhow!("{why}: {said}{complaint}"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.start_kill();
    }
}
