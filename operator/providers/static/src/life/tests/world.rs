//! Machines that play along: an inventory of Hosts, the machines behind them, and Machines that come and go.
//!
//! Invariant: a machine does what the scripts do: a claim never replaces an owner, a join and a reset touch nothing
//! that has another owner.

use api::Machine;
use api::host::HostStatus;
use api::node_pool::HostSelector;

use super::*;

pub(super) fn machine(name: &str) -> Machine {
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "team-a", "uid": format!("uid-{name}")},
        "spec": {"clusterName": "demo", "clusterUID": "tc", "poolName": "w", "version": "1.35.4",
            "provider": {"static": {}}},
    }))
    .unwrap()
}

/// A machine behind a Host.
#[derive(Clone, Debug)]
pub(super) struct Real {
    pub(super) machine_id: String,
    pub(super) owner: Option<String>,
    /// What a node of this Machine has left, or is.
    pub(super) node_of: Option<String>,
    pub(super) answers: bool,
}

/// What may happen.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A Host is reconciled.
    Reconcile(usize),
    /// What is due for a Host is done; its answer may be lost.
    Run(usize, bool),
    /// A Machine looks at all Hosts; it decides by that later.
    Look(usize),
    /// A Machine claims by what it saw.
    Claim(usize),
    /// A Machine is deleted, and its node was drained.
    Delete(usize),
    /// The finalizer of a Machine is taken off, where its Host lets it go.
    Vanish(usize),
    /// The network to a machine breaks, or comes back.
    Cut(usize),
    /// A machine is installed anew.
    Reimage(usize),
    /// A person says that a machine is clean, whether or not it is.
    SayClean(usize),
    /// A person cleans a machine that nobody has any more by its Host.
    Clean(usize),
    /// A person accepts the machine that is there.
    Accept(usize),
    /// Time passes.
    Wait(u16),
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) hosts: Vec<Host>,
    pub(super) reals: Vec<Real>,
    pub(super) machines: Vec<(Machine, MachineState)>,
    looks: Vec<Option<Finding>>,
    /// What each Machine saw last.
    snapshots: Vec<Vec<Host>>,
    versions: u64,
    now: Timestamp,
    images: u32,
}

impl World {
    pub(super) fn new(hosts: usize, machines: usize) -> Self {
        let mut world = Self {
            hosts: (0..hosts).map(|n| host(&format!("h{n}"))).collect(),
            reals: Vec::new(),
            machines: (0..machines)
                .map(|n| (machine(&format!("w-{n}")), MachineState::Wanted))
                .collect(),
            looks: vec![None; hosts],
            snapshots: vec![Vec::new(); machines],
            versions: 0,
            now: now(),
            images: 0,
        };
        for n in 0..hosts {
            world.reals.push(Real {
                machine_id: format!("id-{n}"),
                owner: None,
                node_of: None,
                answers: true,
            });
            world.write(n, HostStatus::default());
        }
        world
    }

    fn write(&mut self, n: usize, status: HostStatus) {
        self.versions += 1;
        self.hosts[n].metadata.resource_version = Some(self.versions.to_string());
        self.hosts[n].status = Some(status);
    }

    fn observed(&self, n: usize) -> Observed {
        let host = self.hosts[n].clone();
        let status = host.status.as_ref();
        let claim = status.and_then(|status| status.claim.as_ref());
        let machine = claim.map_or(MachineState::Unknown, |claim| {
            let mut all = self.machines.iter();
            let found = all.find(|(m, _)| m.metadata.uid.as_ref() == Some(&claim.machine_uid));
            found.map_or(MachineState::Gone, |(_, state)| *state)
        });
        let others = self
            .hosts
            .iter()
            .filter(|other| other.metadata.uid != host.metadata.uid);
        Observed {
            machine,
            others: others.filter_map(Twin::of).collect(),
            look: self.looks[n].clone(),
            allows_cgroup1: false,
            programs: Archives::default(),
            owner_is_here: false,
            host,
        }
    }

    pub(super) fn happens(&mut self, event: &Event) {
        let (hosts, machines) = (self.hosts.len(), self.machines.len());
        match event {
            Event::Reconcile(n) => self.reconcile(n % hosts),
            Event::Run(n, is_lost) => self.run(n % hosts, *is_lost),
            Event::Look(n) => self.snapshots[n % machines] = self.hosts.clone(),
            Event::Claim(n) => self.claim(n % machines),
            Event::Delete(n) => self.delete(n % machines),
            Event::Vanish(n) => self.vanish(n % machines),
            Event::Cut(n) => self.reals[n % hosts].answers ^= true,
            Event::Reimage(n) => {
                self.images += 1;
                let real = &mut self.reals[n % hosts];
                real.machine_id = format!("image-{}", self.images);
                (real.owner, real.node_of) = (None, None);
            }
            Event::SayClean(n) => {
                let status = self.hosts[n % hosts].status.clone().unwrap_or_default();
                if let Some(claim) = status.claim {
                    self.annotate(
                        n % hosts,
                        names::ANNOTATION_HOST_IS_CLEAN,
                        claim.machine_uid,
                    );
                }
            }
            Event::Clean(n) => {
                let status = self.hosts[n % hosts].status.as_ref();
                if status.is_none_or(|status| status.claim.is_none()) {
                    let real = &mut self.reals[n % hosts];
                    (real.owner, real.node_of) = (None, None);
                }
            }
            Event::Accept(n) => {
                let there = self.reals[n % hosts].machine_id.clone();
                self.annotate(n % hosts, names::ANNOTATION_ACCEPT_MACHINE_ID, there);
            }
            Event::Wait(seconds) => self.now += SignedDuration::from_secs(i64::from(*seconds)),
        }
    }

    fn annotate(&mut self, n: usize, key: &str, value: String) {
        let annotations = self.hosts[n].metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value);
        self.versions += 1;
        self.hosts[n].metadata.resource_version = Some(self.versions.to_string());
    }

    fn reconcile(&mut self, n: usize) {
        let observed = self.observed(n);
        let decided = plan(&observed, self.now);
        let mut again = observed;
        again.host.status = Some(decided.status.clone());
        if again.machine == MachineState::Unknown || again.look.is_none() {
            // Planned again on its own status nothing changes.
            assert_eq!(plan(&again, self.now).status, decided.status);
        }
        if self.hosts[n].status.as_ref() != Some(&decided.status) {
            self.write(n, decided.status);
        }
    }

    /// Does on the machine what is due, as the scripts do.
    fn run(&mut self, n: usize, is_lost: bool) {
        let observed = self.observed(n);
        let Some((errand, due)) = plan(&observed, self.now).errand else {
            return;
        };
        let status = observed.host.status.clone().unwrap_or_default();
        // What is due is what the stored status says, not what a plan would make of it.
        let stored = plan(&observed, self.now).status == status;
        if due > self.now || !stored {
            return;
        }
        let uid = status.claim.map(|claim| claim.machine_uid);
        let expected = identity::expected(&observed.host);
        let real = &mut self.reals[n];
        let outcome = if !real.answers {
            failed(Reason::HostUnreachable)
        } else if !expected.is_empty() && !expected.contains(&real.machine_id) {
            Outcome::AnotherMachine {
                machine_id: real.machine_id.clone(),
            }
        } else {
            perform(real, errand, uid.as_deref())
        };
        let outcome = match is_lost {
            true => failed(Reason::HostUnreachable),
            false => outcome,
        };
        let mut look = look_of(&observed.host, errand, outcome);
        look.at = self.now;
        self.looks[n] = Some(look.after(self.looks[n].as_ref()));
    }

    fn claim(&mut self, n: usize) {
        let (machine, state) = &self.machines[n];
        if *state != MachineState::Wanted {
            return;
        }
        let chosen = choose::choose(
            &self.snapshots[n],
            (&HostSelector::default(), &Archives::default()),
            machine,
        );
        let Some(chosen) = chosen.cloned() else {
            return;
        };
        let Some(status) = choose::claim(&chosen, machine, self.now) else {
            return;
        };
        let mut live = self.hosts.iter();
        let at = live.position(|host| host.metadata.uid == chosen.metadata.uid);
        let at = at.unwrap();
        // The guard of the write.
        if self.hosts[at].metadata.resource_version == chosen.metadata.resource_version {
            self.write(at, status);
        }
    }

    fn delete(&mut self, n: usize) {
        if self.machines[n].1 != MachineState::Gone {
            self.machines[n].1 = MachineState::Going;
        }
        let uid = self.machines[n].0.metadata.uid.clone().unwrap();
        for at in 0..self.hosts.len() {
            if let Some(status) = choose::release(&self.hosts[at], &uid) {
                self.write(at, status);
            }
        }
    }

    fn vanish(&mut self, n: usize) {
        let uid = self.machines[n].0.metadata.uid.clone().unwrap();
        let lets_go = self.hosts.iter().all(|host| lets_go(host, &uid));
        if self.machines[n].1 == MachineState::Going && lets_go {
            self.machines[n].1 = MachineState::Gone;
        }
    }
}

fn perform(real: &mut Real, errand: Errand, uid: Option<&str>) -> Outcome {
    let owner = |real: &Real| Owner {
        installation: "i".to_owned(),
        tenant_cluster: "tc".to_owned(),
        machine: real.owner.clone().unwrap_or_default(),
    };
    let is_ours = real.owner.is_some() && real.owner.as_deref() == uid;
    let cleanliness = |real: &Real| match (&real.node_of, &real.owner) {
        (None, None) => Cleanliness::Clean,
        _ => Cleanliness::Traces(vec!["folder /etc/kubernetes".to_owned()]),
    };
    match errand {
        Errand::Inspect => {
            let mut facts = facts(&real.machine_id);
            facts.owner = real.owner.is_some().then(|| owner(real));
            Outcome::Seen {
                facts: Box::new(facts),
                host_key: format!("key-{}", real.machine_id),
                clean: cleanliness(real),
            }
        }
        Errand::Claim if real.owner.is_none() => {
            real.owner = uid.map(ToOwned::to_owned);
            Outcome::Claim(Claim::Ours)
        }
        Errand::Claim if is_ours => Outcome::Claim(Claim::Ours),
        Errand::Claim => Outcome::Claim(Claim::Foreign(owner(real))),
        Errand::Join if is_ours => {
            real.node_of = real.owner.clone();
            Outcome::Join(Progress::Joined("w".to_owned()))
        }
        Errand::Join => Outcome::Join(Progress::Foreign("another owner".to_owned())),
        Errand::Reset if real.owner.is_some() && !is_ours => Outcome::Reset {
            progress: Progress::Foreign("another owner".to_owned()),
            clean: Cleanliness::Unknown,
            kubelet: Some("1.35.4".to_owned()),
        },
        Errand::Reset => {
            if is_ours {
                (real.owner, real.node_of) = (None, None);
            }
            Outcome::Reset {
                progress: Progress::Undone,
                clean: cleanliness(real),
                kubelet: Some("1.35.4".to_owned()),
            }
        }
    }
}
