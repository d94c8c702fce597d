//! A simulated host: a machine inside the machine, made of namespaces.
//!
//! Network, PID, mount and UTS namespaces of its own; its first process is this crate's
//! [`supervisor`], whose death ends everything in it. Invariant: a host changes no file of the
//! machine outside `.lab/`: /etc, /opt and /var are copy-on-write, /run and /tmp its own; or all of its
//! root is.

pub(crate) mod control;
mod mounts;
mod overlay;
mod rootfs;
pub(crate) mod spec;
pub mod supervisor;

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{procfs::ProcessId, run};
pub use control::{Order, Program, ProgramState};
pub use spec::{HostSpec, kubelet_sysctls};

/// Joins control groups before the namespace is made whose top they will be, then becomes what follows.
const JOIN: &str =
    r#"while [ "$1" != -- ]; do echo 0 > "$1" || exit 1; shift; done; shift; exec "$@""#;

/// How long namespaces and mounts may take.
const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

/// A host that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its folder below `.lab/hosts/`.
    pub folder: PathBuf,
    /// The process that waits for the first one outside.
    pub keeper: ProcessId,
    /// The first process inside, by its number outside.
    pub init: ProcessId,
    /// Its PID namespace: who is in it belongs to the lab.
    pub pid_namespace: String,
}

impl Host {
    /// Starts the namespaces and returns when the mounts stand; no program runs yet.
    ///
    /// # Errors
    /// When the machine refuses a namespace or a mount; the message ends with what it said.
    pub fn start(spec: &HostSpec, supervisor: &Path, log: &Path) -> Result<Self> {
        fs::create_dir_all(spec.folder.join("programs"))?;
        let ready = supervisor::ready_file(&spec.folder);
        let _ = fs::remove_file(&ready);
        let fifo = control::fifo(&spec.folder);
        let _ = fs::remove_file(&fifo);
        run::output(run::command("mkfifo", ["-m", "600"]).arg(&fifo))?;
        fs::write(
            HostSpec::file(&spec.folder),
            serde_json::to_vec_pretty(spec)?,
        )?;

        let output =
            File::create(log).with_context(|| format!("{}: not writable", log.display()))?;
        // setsid: the host outlives the terminal and its Ctrl-C.
        let mut keeper = Command::new("setsid");
        if spec.has_own_root() {
            keeper.args(["sh", "-c", JOIN, "sh"]);
            keeper.args(&spec.cgroup_join).arg("--");
        }
        match &spec.network {
            // Another's, entered before all else: `/proc` is still the one that the path is meant in.
            Some(network) => {
                keeper.arg("nsenter");
                keeper.arg(format!("--net={}", network.display()));
                keeper.args(["--", "unshare"])
            }
            None => keeper.args(["unshare", "--net"]),
        };
        keeper.args(["--mount", "--uts", "--pid", "--fork", "--kill-child"]);
        if spec.has_own_root() {
            keeper.arg("--cgroup");
        }
        let mut keeper = keeper
            .args(["--propagation", "private", "--"])
            .arg(supervisor)
            .arg("lab-host")
            .arg(&spec.folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("a host's namespaces cannot be made: is util-linux installed?")?;
        let end = Instant::now() + SETUP_TIMEOUT;
        while !ready.exists() {
            let ended = keeper.try_wait()?.is_some();
            if ended || Instant::now() > end {
                let _ = keeper.kill();
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!("the host {} did not start: {}", spec.hostname, said.trim())
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (init, pid_namespace) = supervisor::read_ready(&spec.folder)?;
        let keeper = i32::try_from(keeper.id()).ok().and_then(ProcessId::of);
        let keeper = keeper.context("the host's keeper ended at once")?;
        Ok(Self {
            folder: spec.folder.clone(),
            keeper,
            init,
            pid_namespace,
        })
    }

    /// Whether its first process lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.init.is_alive()
    }

    /// Gives the supervisor an order; it is carried out soon after.
    ///
    /// # Errors
    /// When the supervisor does not read its orders any more.
    pub fn order(&self, order: &Order) -> Result<()> {
        let fifo = control::fifo(&self.folder);
        // O_NONBLOCK: opening fails instead of waiting when nobody reads.
        let mut file = OpenOptions::new()
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(&fifo)
            .with_context(|| format!("{}: the host's supervisor is gone", fifo.display()))?;
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        file.write_all(&line)
            .context("the host's supervisor takes no orders")
    }

    /// What is known of the programs started so far, by name.
    #[must_use]
    pub fn programs(&self) -> Vec<ProgramState> {
        control::read_states(&self.folder)
    }

    /// A command that runs inside all of the host's namespaces.
    #[must_use]
    pub fn inside<I, S>(&self, program: impl AsRef<std::ffi::OsStr>, args: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.init.pid.to_string()])
            .args(["--net", "--mount", "--uts", "--pid", "--cgroup", "--"])
            .arg(program)
            .args(args);
        command
    }
}
