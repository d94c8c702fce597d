//! One machine's life: its disk, its namespaces, its boot, its end.
//!
//! Invariant: of an id there is one machine at most, and what is left of one that ended is removed before its id is
//! forgotten. Each begins with a new disk, as an instance of KubeVirt does.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    plan::{self, Guest, Size},
    settings::Settings,
};
use crate::{
    cgroups::{self, Cgroups},
    down,
    host::{
        Host,
        control::{Order, Program},
    },
    host_root::{self, BOOT, Identity, move_keeper, spec},
    layout::Layout,
};

/// How long the kernel may take to bury a machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The program that is started in a machine.
const PROGRAM: &str = "boot";
/// What it says, in the machine.
const SAID: &str = "var/log/machine.log";
/// Logs of a machine that are kept when it is gone.
const KEPT: [&str; 4] = [
    SAID,
    "var/log/boot.log",
    "var/log/containerd.log",
    "var/log/kubelet.log",
];
/// Which machine runs in a folder.
const RECORD: &str = "host.json";
/// What a worker does once it has network and containerd.
const NEXT: &str = include_str!("boot.sh");

/// Starts a machine in a network namespace (a file as `/proc/PID/ns/net`) and returns as soon as it boots. What there
/// is of an earlier one of this id is removed first.
///
/// # Errors
/// When the lab has no such version, the network is gone, or this machine refuses.
pub fn start(settings: &Settings, guest: &Guest, network: &Path) -> Result<Host> {
    let Some(trees) = settings.trees.get(&guest.version) else {
        let known: Vec<_> = settings.trees.keys().map(String::as_str).collect();
        bail!(
            "the lab has no machines of Kubernetes {}; there are: {}",
            guest.version,
            known.join(", ")
        )
    };
    end(settings, &guest.id, None)?;
    let started = bring_up(settings, guest, trees, network);
    started.map_err(|error| down::with_rest(error, end(settings, &guest.id, None)))
}

fn bring_up(settings: &Settings, guest: &Guest, trees: &[PathBuf], network: &Path) -> Result<Host> {
    let layout = settings.layout();
    let folder = folder(&layout, &guest.id);
    fill(settings, guest, &folder.join("root/upper"))?;
    let groups = Cgroups::of_host(settings.slot.number(), &guest.id)?;
    groups.create()?;
    let mut spec = spec(&guest.name, &folder, trees, &groups);
    spec.network = Some(network.to_path_buf());
    // A node forwards for its pods; kubeadm asks for it.
    let forwards = ("ipv4/ip_forward".to_owned(), "1".to_owned());
    spec.network_sysctls.extend([forwards]);
    let logs = logs(&layout, &guest.id);
    fs::create_dir_all(&logs)?;
    let host = Host::start(&spec, &layout.supervisor(), &logs.join("supervisor.log"))?;
    let record = serde_json::to_vec(&host)?;
    let kept = fs::write(folder.join(RECORD), record).context("a machine cannot be remembered");
    let booted = kept
        .and_then(|()| move_keeper(&host, settings.slot))
        .and_then(|()| host.order(&boot()));
    match booted {
        Ok(()) => Ok(host),
        Err(error) => Err(down::with_rest(error, down::end_hosts(&[host]))),
    }
}

fn boot() -> Order {
    Order::Start(Program {
        name: PROGRAM.to_owned(),
        argv: ["/bin/sh", "-c", &format!("{BOOT}{NEXT}")]
            .map(str::to_owned)
            .to_vec(),
        env: BTreeMap::new(),
        log: Path::new("/").join(SAID),
    })
}

/// Writes what is the machine's own.
fn fill(settings: &Settings, guest: &Guest, upper: &Path) -> Result<()> {
    let has_cgroup_v2 = cgroups::is_v2();
    let machine_id = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    let machine_id = machine_id.trim().replace('-', "");
    let identity = Identity {
        name: &guest.name,
        machine_id: &machine_id,
        // The user data says who may log in.
        login: "",
        name_server: settings.slot.dns_address(),
        has_cgroup_v2,
    };
    let servers = match guest.name_servers.is_empty() {
        true => vec![IpAddr::from(settings.slot.dns_address())],
        false => guest.name_servers.clone(),
    };
    let flags = plan::kubelet_flags(guest.size, own_size()?);
    let kubelet = host_root::kubelet_arguments(has_cgroup_v2, &flags);
    let own = identity.files().into_iter();
    let mut files: BTreeMap<_, _> = own.map(|(path, file)| (path.to_owned(), file)).collect();
    files.insert("etc/default/kubelet".to_owned(), (0o644, kubelet));
    files.extend(plan::files(guest, &servers, has_cgroup_v2));
    for (path, (mode, text)) in files {
        host_root::write(upper, &path, mode, &text)?;
    }
    let init = upper.join("usr/local/sbin/worker-init");
    host_root::make_folders(upper, &init)?;
    fs::copy(settings.layout().worker_init(), &init)
        .map(drop)
        .context("worker-init cannot be copied into a machine")
}

/// Ends a machine and removes everything of it but what it said; one that is not there, or only in part, is fine.
///
/// # Errors
/// When something of it is left.
pub fn end(settings: &Settings, id: &str, host: Option<&Host>) -> Result<()> {
    let layout = settings.layout();
    let folder = folder(&layout, id);
    if let Some(host) = host {
        down::end_hosts(std::slice::from_ref(host))?;
    }
    // Also what nobody remembers, because who started it died then.
    Cgroups::of_host(settings.slot.number(), id)?.kill_and_remove(PATIENCE);
    keep_logs(&folder, &logs(&layout, id));
    // Mounts of a namespace that is dead are taken away in the background, and hold the folder until then.
    if !down::wait_until(PATIENCE, || down::delete(&folder).is_ok()) {
        down::delete(&folder)?;
    }
    Ok(())
}

/// Machines that run already, by id, because another `lab-agent` started them; what is left of those that do not is
/// removed.
///
/// # Errors
/// When something cannot be removed.
pub fn adopt(settings: &Settings) -> Result<BTreeMap<String, Host>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(settings.layout().machines()) else {
        return Ok(found);
    };
    for entry in entries.flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        let record = fs::read(entry.path().join(RECORD)).ok();
        let host: Option<Host> = record.and_then(|text| serde_json::from_slice(&text).ok());
        match host.filter(Host::is_alive) {
            Some(host) => drop(found.insert(id, host)),
            None => end(settings, &id, None)?,
        }
    }
    Ok(found)
}

/// The last lines of what all machines say that are there, for people.
#[must_use]
pub fn said(layout: &Layout, lines: usize) -> String {
    let entries = fs::read_dir(layout.machines()).into_iter().flatten();
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let logs = folders
        .iter()
        .flat_map(|folder| KEPT.map(|log| folder.join("root/upper").join(log)));
    let texts = logs.filter_map(|log| {
        let text = fs::read_to_string(&log).ok()?;
        Some(format!("--- {}\n{}", log.display(), last(&text, lines)))
    });
    texts.collect()
}

fn last(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    let shown = all.get(from..).unwrap_or_default().iter();
    shown.map(|line| format!("{line}\n")).collect()
}

fn folder(layout: &Layout, id: &str) -> PathBuf {
    layout.machines().join(id)
}

fn logs(layout: &Layout, id: &str) -> PathBuf {
    layout.logs().join("machines").join(id)
}

/// What cannot be kept is no reason to keep the machine.
fn keep_logs(folder: &Path, logs: &Path) {
    let upper = folder.join("root/upper");
    for log in KEPT {
        let from = upper.join(log);
        if let Some(name) = from.file_name().filter(|_| from.is_file()) {
            let _ = fs::create_dir_all(logs).and_then(|()| fs::copy(&from, logs.join(name)));
        }
    }
}

/// What a kubelet here takes this machine to have.
fn own_size() -> Result<Size> {
    let info = rustix::system::sysinfo();
    let processors = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let processors = processors
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    #[allow(
        clippy::useless_conversion,
        reason = "its width differs between architectures"
    )]
    let total = u64::from(info.totalram);
    Ok(Size {
        cores: u32::try_from(processors).context("more processors than can be counted")?,
        memory: total * u64::from(info.mem_unit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_machines_say_is_shown_by_its_last_lines() {
        let checkout = tempfile::tempdir().unwrap();
        let layout = Layout::at(checkout.path());
        assert_eq!(said(&layout, 2), "", "there is none");
        let logs = folder(&layout, "workers-a-1").join("root/upper/var/log");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("machine.log"), "one\ntwo\nthree\n").unwrap();
        let text = said(&layout, 2);
        assert!(text.ends_with("machine.log\ntwo\nthree\n"), "{text}");
        assert_eq!(last("one\n", 2), "one\n");
    }
}
