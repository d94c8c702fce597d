//! Starts one host: its disk, its namespaces, its cable, its SSH server.
//!
//! Invariant: it is remembered before anything in it is started, and one that does not come up is ended.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use super::{end, keys, network};
use crate::{
    binaries,
    cgroups::{self, Cgroups},
    down,
    host::{
        Host,
        control::{Order, Program},
    },
    host_root::{self, BOOT, Disk, Identity, move_keeper, spec},
    layout::Layout,
    procfs,
    ssh_host::{PORT, Place, Role, SshHost},
    state::State,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// The program that is started in every host.
const SSHD: &str = "sshd";
const LOG: &str = "var/log/sshd.log";
/// The SSH server, last.
const SERVE: &str = "exec /usr/sbin/sshd -D -e\n";

/// Starts the host and adds it to `state`; returns when its SSH server answers.
pub(super) fn start(
    layout: &Layout,
    state: &mut State,
    name: &str,
    place: Place,
    disk: &Disk,
) -> Result<()> {
    let folder = layout.host(name);
    // A command that was killed may have left one that runs on this disk and that nobody remembers.
    end::end(layout, state, name)?;
    bring_up(layout, state, name, place, disk).map_err(|error| {
        let said = fs::read_to_string(folder.join("root/upper").join(LOG)).unwrap_or_default();
        let error = error.context(format!("the host {name} did not come up: {}", said.trim()));
        down::with_rest(error, end::end(layout, state, name))
    })
}

fn bring_up(
    layout: &Layout,
    state: &mut State,
    name: &str,
    place: Place,
    disk: &Disk,
) -> Result<()> {
    let folder = layout.host(name);
    let upper = folder.join("root/upper");
    let machine_id = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    let machine_id = machine_id.trim().replace('-', "");
    let login = keys::public(&keys::of_user(layout)?)?;
    let identity = Identity {
        name,
        machine_id: &machine_id,
        login: &login,
        name_server: state.slot.dns_address(),
        has_cgroup_v2: cgroups::is_v2(),
    };
    for (path, (mode, text)) in identity.files() {
        host_root::write(&upper, path, mode, &text)?;
    }
    let host_key = upper.join("etc/ssh/ssh_host_ed25519_key");
    keys::of_host(&host_key, name)?;
    fs::create_dir_all(layout.logs())?;

    let slot = state.slot;
    let groups = Cgroups::of_host(slot.number(), name)?;
    groups.create()?;
    // Jump hosts have no programs of a node.
    let is_machine = place.role == Role::Machine;
    let trees = match is_machine {
        true => &disk.trees[..],
        false => &disk.trees[disk.trees.len() - 1..],
    };
    let mut spec = spec(name, &folder, trees, &groups);
    if place.role == Role::Gateway {
        let forwards = ("ipv4/ip_forward".to_owned(), "1".to_owned());
        spec.network_sysctls.extend([forwards]);
    }
    let host = Host::start(
        &spec,
        &binaries::supervisor(layout)?,
        &layout.logs().join(format!("host-{name}.log")),
    )?;
    let there = SshHost {
        host: host.clone(),
        place: place.clone(),
        machine_id,
        host_key: keys::public(&host_key)?,
        version: disk
            .version
            .filter(|_| is_machine)
            .map(|version| version.to_string()),
    };
    state.ssh_hosts.insert(name.to_owned(), there);
    state.write(layout)?;
    move_keeper(&host, slot)?;
    connect(state, &host, &place)?;
    host.order(&Order::Start(Program {
        name: SSHD.to_owned(),
        argv: ["/bin/sh", "-c", &format!("{BOOT}{SERVE}")]
            .map(str::to_owned)
            .to_vec(),
        env: BTreeMap::new(),
        log: Path::new("/").join(LOG),
    }))?;
    wait(&host)
}

fn connect(state: &State, host: &Host, place: &Place) -> Result<()> {
    let slot = state.slot;
    let pid = host.init.pid;
    let via = place.via.as_ref().and_then(|via| state.ssh_hosts.get(via));
    match via {
        Some(gateway) if place.is_private() => {
            let there = place.address(slot);
            return network::connect_private(&gateway.host, place.number, there, pid);
        }
        _ => network::connect(slot, place.number, pid)?,
    }
    if place.role == Role::Gateway {
        network::open_site(host)?;
    }
    match via {
        Some(jump) => network::only_from(host, jump.place.address(slot)),
        None => Ok(()),
    }
}

/// Until the SSH server listens; seen from within, as the host may be out of reach.
fn wait(host: &Host) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !procfs::listens(host.init.pid, PORT) {
        let programs = host.programs();
        let ended = programs.iter().find_map(|program| program.ended.as_ref());
        if let Some(how) = ended {
            bail!("its SSH server ended: {how}")
        }
        if !host.is_alive() {
            bail!("it ended")
        }
        if Instant::now() > end {
            bail!("its SSH server does not listen")
        }
        thread::sleep(down::TICK);
    }
    Ok(())
}
