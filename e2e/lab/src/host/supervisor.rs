//! The first process of a host: sets up mounts, starts programs as ordered, reaps the dead.
//!
//! Nothing is ever started again by itself: a program that ends is a finding, and `lab status`
//! shows it. Invariant: when this process ends, the kernel kills everything in the host.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{BufRead as _, BufReader},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use super::{
    control::{self, Order, Program, ProgramState},
    mounts, rootfs,
    spec::HostSpec,
};
use crate::procfs::{self, ProcessId};

/// The folders that every program finds its helpers in (runc, nft, mount …).
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long etcd may take to close its files at a shutdown.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(3);

enum Event {
    Ordered(Order),
    Ended(i32, String),
}

pub(super) fn ready_file(folder: &Path) -> PathBuf {
    folder.join("ready.json")
}

pub(super) fn read_ready(folder: &Path) -> Result<(ProcessId, String)> {
    let file = ready_file(folder);
    let text = fs::read(&file).with_context(|| format!("{}: not readable", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}: not valid", file.display()))
}

/// Runs as process 1 of the host whose folder is `folder`, until it is told to end.
///
/// # Errors
/// When a mount or a control group is refused.
pub fn run(folder: &Path) -> Result<()> {
    let spec = fs::read(HostSpec::file(folder)).context("the host's specification is missing")?;
    let mut spec: HostSpec = serde_json::from_slice(&spec).context("the host's specification")?;

    // While /proc is still the machine's, it tells our number outside.
    let outside = fs::read_link("/proc/self").context("/proc is not mounted")?;
    let outside: i32 = outside
        .to_string_lossy()
        .parse()
        .context("/proc/self is no number")?;
    let me = ProcessId::of(outside).context("our own process is missing in /proc")?;
    let namespace = procfs::pid_namespace(outside).context("our PID namespace has no name")?;

    // Held to the end: with a root of its own no path of its tree leads there any more.
    let open = File::open(folder)?;
    if spec.has_own_root() {
        rootfs::set_up(&spec)?;
        spec.folder = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    } else {
        for file in &spec.cgroup_join {
            fs::write(file, "0")
                .with_context(|| format!("{}: cannot be joined", file.display()))?;
        }
        mounts::set_up(&spec)?;
    }
    let folder = &*spec.folder;
    fs::write("/proc/sys/kernel/hostname", &spec.hostname).context("no host name")?;
    for (name, value) in &spec.network_sysctls {
        let file = Path::new("/proc/sys/net").join(name);
        fs::write(&file, value).with_context(|| format!("{}: refused", file.display()))?;
    }

    let (sender, events) = mpsc::channel();
    read_orders(folder, sender.clone())?;
    thread::spawn(move || reap(&sender));
    control::replace(&ready_file(folder), &serde_json::to_vec(&(me, namespace))?)?;

    let mut running = BTreeMap::new();
    for event in events {
        match event {
            Event::Ordered(Order::Start(program)) => start(&spec, &program, &mut running),
            Event::Ordered(Order::Stop(name)) => {
                let found = running.iter().find(|(_, running)| **running == name);
                found.into_iter().for_each(|(pid, _)| terminate(*pid));
            }
            Event::Ordered(Order::Shutdown) => return shut_down(&running),
            Event::Ended(pid, how) => {
                if let Some(name) = running.remove(&pid) {
                    record(
                        folder,
                        &ProgramState {
                            name,
                            pid,
                            ended: Some(how),
                        },
                    );
                }
            }
        }
    }
    Ok(())
}

fn start(spec: &HostSpec, program: &Program, running: &mut BTreeMap<i32, String>) {
    if running.values().any(|name| *name == program.name) {
        return;
    }
    let state = |pid, ended| ProgramState {
        name: program.name.clone(),
        pid,
        ended,
    };
    match spawn(program) {
        Ok(pid) => {
            running.insert(pid, program.name.clone());
            record(&spec.folder, &state(pid, None));
        }
        Err(error) => record(
            &spec.folder,
            &state(0, Some(format!("not started: {error:#}"))),
        ),
    }
}

fn spawn(program: &Program) -> Result<i32> {
    let (path, args) = program.argv.split_first().context("the command is empty")?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&program.log)?;
    let child = Command::new(path)
        .args(args)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .envs(&program.env)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| path.clone())?;
    // Not waited for here: `reap` waits for every child of process 1.
    Ok(i32::try_from(child.id())?)
}

fn terminate(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// A restart on the same data (`up --keep`) is quicker when etcd closed its files.
fn shut_down(running: &BTreeMap<i32, String>) -> Result<()> {
    let named = |name: &str| {
        running
            .iter()
            .filter(move |(_, n)| *n == name)
            .map(|(pid, _)| *pid)
            .collect::<Vec<_>>()
    };
    // etcd waits for its clients otherwise.
    named("kube-apiserver").into_iter().for_each(procfs::kill);
    let etcd = named("etcd");
    etcd.iter().for_each(|pid| terminate(*pid));
    let end = Instant::now() + SHUTDOWN_PATIENCE;
    while etcd.iter().any(|pid| ProcessId::of(*pid).is_some()) && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Reads and writes the FIFO, so that it never ends while nobody has orders.
fn read_orders(folder: &Path, events: Sender<Event>) -> Result<()> {
    let fifo = control::fifo(folder);
    let orders: File = OpenOptions::new().read(true).write(true).open(&fifo)?;
    thread::spawn(move || {
        for line in BufReader::new(orders).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(order) => drop(events.send(Event::Ordered(order))),
                Err(error) => say(&format!("not an order: {error}: {line}")),
            }
        }
    });
    Ok(())
}

/// Waits for every child, orphans of the containers included.
fn reap(events: &Sender<Event>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let _ = events.send(Event::Ended(pid.as_raw_nonzero().get(), shown(status)));
            }
            // No child yet.
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn shown(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        _ => "ended".to_owned(),
    }
}

fn record(folder: &Path, state: &ProgramState) {
    if let Some(how) = &state.ended {
        say(&format!("{} ended: {how}", state.name));
    }
    if let Err(error) = control::write_state(folder, state) {
        say(&format!(
            "the state of {} cannot be written: {error}",
            state.name
        ));
    }
}

/// Into the supervisor's own log.
fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
