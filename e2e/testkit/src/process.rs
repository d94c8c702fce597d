//! Children of a test: started without a shell, killed by pid, and never outliving the test.
//!
//! Invariant: a child ends with its [`Process`] value (also when a test panics) and with this
//! process (also when it is killed); a [`Workdir`] is removed in both cases.

use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};

/// A child whose output goes to a log file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, which lives for one test; both its outputs are appended to `log`.
    pub fn spawn(name: &str, program: &Path, args: &[String], log: &Path) -> Result<Self> {
        // A seventh of a kube-apiserver's time in a test goes to collecting garbage of requests, and
        // memory it has for much more; it collects when it would need more than that.
        let go = [("GOGC", "off"), ("GOMEMLIMIT", "1GiB")];
        Self::spawn_with(name, program, args, log, &go)
    }

    /// The same of one that many tests share: what it remembers of them, above all in caches of watches, comes near any
    /// limit in a quarter of an hour, and half of its time then goes to collecting what is no garbage.
    pub fn spawn_shared(name: &str, program: &Path, args: &[String], log: &Path) -> Result<Self> {
        Self::spawn_with(name, program, args, log, &[("GOGC", "200")])
    }

    /// The same with variables of the caller's alone: what Go's runtime is told of collecting garbage is among them.
    pub fn spawn_with(
        name: &str,
        program: &Path,
        args: &[String],
        log: &Path,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let output = File::options().create(true).append(true).open(log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        let errors = output.try_clone().context("cannot duplicate a log file")?;
        // The kernel kills the child when the thread that started it ends; that thread is
        // `starter`, which lives as long as this process.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = start(command).with_context(|| format!("cannot start {name}"))?;
        guarded(&child);
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// The child's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The child's pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that the child had at a time, in MiB (proc_pid_status(5), `VmHWM`).
    ///
    /// # Errors
    /// When it has ended.
    pub fn peak_mib(&self) -> Result<u64> {
        let status = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(status);
        let status = status.with_context(|| format!("{} has ended", self.name))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
        let peak = peak.with_context(|| format!("{} has no memory", self.name))?;
        let kib: u64 = peak.parse().context("not a number of kB")?;
        Ok(kib / 1024)
    }

    /// How the child ended, if it did.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until the child ends by itself. The kernel tells only who asks, so it is asked with pauses.
    ///
    /// # Errors
    /// When it has not ended after `patience`; the error says what it wrote last.
    pub async fn ended(&mut self, patience: Duration) -> Result<ExitStatus> {
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        let ended = tokio::time::timeout(patience, async {
            loop {
                looks.tick().await;
                if let Some(status) = self.exited() {
                    return status;
                }
            }
        });
        let ended = ended.await;
        let said = || format!("{} does not end:\n{}", self.name, self.log_tail(20));
        ended.with_context(said)
    }

    /// Sends a signal, for example [`Signal::STOP`]; nothing happens once the child has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.exited().is_some() {
            return Ok(());
        }
        // Not reaped yet, so the pid is still this child's.
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot signal {}", self.name))
    }

    /// Kills the child at once and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The last lines of what the child wrote, for the message of a failed start.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns once `setpriv` has made way for the program (or ended): before that the kernel does not
/// know yet that the child is to end with us.
fn guarded(child: &Child) {
    let exe = format!("/proc/{}/exe", child.id());
    while fs::read_link(&exe).is_ok_and(|program| program.ends_with("setpriv")) {
        thread::yield_now();
    }
}

type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

/// Starts a command on a thread that never ends (see [`Process::spawn`]).
fn start(command: Command) -> Result<Child> {
    static STARTER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, incoming) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in incoming {
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (reply, child) = mpsc::channel();
    starter
        .lock()
        .map_err(|_| anyhow!("the thread that starts processes is poisoned"))?
        .send((command, reply))
        .context("the thread that starts processes is gone")?;
    child
        .recv()
        .context("the thread that starts processes is gone")?
        .context("cannot spawn")
}

/// A temporary folder that is removed when it is dropped, or by a helper process when this
/// process ends without dropping it (a `static`, a kill).
#[derive(Debug)]
pub struct Workdir {
    dir: PathBuf,
    helper: Child,
}

impl Workdir {
    /// Makes a folder whose name starts with `covey-testkit-`.
    pub fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("covey-testkit-").tempdir();
        let dir = dir.context("cannot make a temporary folder")?;
        Self::guarding(dir.keep())
    }

    /// Makes this folder, which must not be there yet.
    pub fn at(dir: &Path) -> Result<Self> {
        let made = DirBuilder::new().mode(0o700).create(dir);
        made.with_context(|| format!("cannot make the folder {}", dir.display()))?;
        Self::guarding(dir.to_owned())
    }

    fn guarding(dir: PathBuf) -> Result<Self> {
        let mut command = Command::new("sh");
        // `read` ends when every copy of the pipe's other end is closed, that is with us.
        command
            .args(["-c", "read -r _; rm -rf -- \"$1\"", "sh"])
            .arg(&dir);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A Ctrl-C in the terminal must not reach it.
        command.process_group(0);
        let helper = command.spawn().context("cannot start sh")?;
        Ok(Self { dir, helper })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Writes a file readable by the owner only and returns its path.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.path().join(name);
        let file = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&path);
        file.and_then(|mut file| file.write_all(content.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}
