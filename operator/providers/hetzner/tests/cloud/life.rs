//! What an operator does with one Machine, as far as a provider sees it, and a stage to do it on.
//!
//! Invariant: nothing is kept of a machine but what a Machine's status keeps; a client may be thrown away after each
//! call.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use fake_clouds::clock::VirtualClock;
use fake_clouds::faults::Script;
use fake_clouds::hetzner::FakeHetzner;
use fake_clouds::journal::Journal;
use jiff::{SignedDuration, Timestamp};
use provider_hetzner::cloud::Cloud;
use provider_hetzner::settings::{Project, Wanted};
use providers::absence::SETTLE;
use providers::clock::Clock;
use providers::identity::{MACHINE_UID, Owner};
use providers::subject::{Asked, Subject};
use providers::token::Token;
use providers::{Description, Presence, Proof, State};

pub(crate) const TOKEN: &str = "token-of-the-project";
pub(crate) const OTHER: &str = "token-of-another-project";
/// Rounds before a life counts as one without an end.
const ROUNDS: usize = 300;
/// Pause between two rounds.
pub(crate) const ROUND: Duration = Duration::from_secs(10);

/// The clock of whoever asks, which may be wrong.
pub(crate) struct Skewed(pub(crate) VirtualClock, pub(crate) SignedDuration);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        self.0.now().saturating_add(self.1).unwrap()
    }

    fn wait(&self, time: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.wait(time))
    }
}

/// A fake, and clients of it.
pub(crate) struct Stage {
    pub(crate) fake: FakeHetzner,
    pub(crate) clock: VirtualClock,
    pub(crate) skew: SignedDuration,
    pub(crate) project: Project,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let clock = VirtualClock::default();
        let fake = FakeHetzner::start(clock.clone(), &[TOKEN, OTHER]).await;
        Self {
            fake: fake.unwrap(),
            clock,
            skew: SignedDuration::ZERO,
            project: project(),
        }
    }

    pub(crate) fn cloud(&self) -> Cloud {
        self.cloud_with(TOKEN)
    }

    pub(crate) fn cloud_with(&self, token: &str) -> Cloud {
        let clock = Arc::new(Skewed(self.clock.clone(), self.skew));
        let token = Token::read(token).unwrap();
        Cloud::new(&self.fake.endpoint(), token, self.project.clone(), clock).unwrap()
    }

    pub(crate) fn script(&self, script: Script) {
        self.fake.contents().script = script;
    }

    pub(crate) fn requests(&self) -> usize {
        self.fake.contents().journal.entries.len()
    }
}

pub(crate) fn project() -> Project {
    Project {
        installation: "installation-1".to_owned(),
        location: "fsn1".to_owned(),
        ssh_keys: vec!["covey".to_owned()],
        network: Some("workers".to_owned()),
        firewalls: vec!["closed".to_owned()],
        ipv4: true,
        ipv6: true,
        account: None,
    }
}

pub(crate) fn wanted(uid: &str) -> Wanted {
    Wanted {
        owner: Owner {
            installation: "installation-1".to_owned(),
            tenant: "tenant-1".to_owned(),
            namespace: "covey-demo-0a1b2c3d4e".to_owned(),
            pool: "workers".to_owned(),
            machine: format!("workers-{uid}"),
            uid: uid.to_owned(),
        },
        server_type: "cx22".to_owned(),
        image: "worker-1.35.4".to_owned(),
        user_data: "#cloud-config\n".to_owned(),
    }
}

/// Puts servers of Machines `u1`, `u2`, … there, as if they had run for long.
pub(crate) fn fill(stage: &Stage, count: u64) {
    let mut contents = stage.fake.contents();
    let project = contents.projects.get_mut(TOKEN).unwrap();
    for id in 1..=count {
        let owner = wanted(&format!("u{id}")).owner;
        let server = fake_clouds::hetzner::project::Server {
            id,
            name: owner.name(),
            status: "running",
            created: Timestamp::from_second(1_780_000_000).unwrap(),
            server_type: "cx22".to_owned(),
            location: "fsn1".to_owned(),
            user_data: String::new(),
            networks: Vec::new(),
            protected: false,
            labels: owner.labels(),
        };
        project.servers.insert(id, server);
    }
}

/// One Machine: what its status says, and what the process knows of its creations.
pub(crate) struct Machine {
    pub(crate) wanted: Wanted,
    pub(crate) asked: Asked,
    pub(crate) instance: Option<u64>,
    pub(crate) node_ready: Option<bool>,
    going: bool,
    deleted: Option<Timestamp>,
    /// Creations without an answer, and the last of them.
    open: usize,
    /// One was answered, and not refused.
    made: bool,
    last: Option<Timestamp>,
}

impl Machine {
    pub(crate) fn new(uid: &str) -> Self {
        Self {
            wanted: wanted(uid),
            asked: Asked::Never,
            instance: None,
            node_ready: None,
            going: false,
            deleted: None,
            open: 0,
            made: false,
            last: None,
        }
    }

    pub(crate) fn goes(&mut self, now: Timestamp) {
        self.going = true;
        self.deleted = Some(now);
        if let Asked::Pending { .. } = self.asked {
            self.asked = Asked::Pending { deleted: Some(now) };
        }
    }

    pub(crate) fn subject(&self) -> Subject {
        Subject {
            owner: self.wanted.owner.clone(),
            asked: self.asked,
            instance: self.instance,
            is_going: self.going,
            node_ready: self.node_ready,
        }
    }

    fn sees(&mut self, description: &Description) {
        let id = description.instance.as_deref();
        if let Some(id) = id.and_then(|id| id.parse().ok()) {
            self.asked = Asked::Seen;
            self.instance = Some(id);
        }
    }

    /// Whether another creation may still be carried out.
    fn may_appear(&self, now: Timestamp) -> bool {
        let Some(last) = self.last.filter(|_| self.open > 0) else {
            return false;
        };
        // The only one that is open is what was seen (`operator/src/creations.rs`).
        let is_seen = self.asked == Asked::Seen && self.open == 1 && !self.made;
        !is_seen && now.duration_since(last) < SETTLE
    }

    /// One round of a Machine that is wanted; whether it runs.
    pub(crate) async fn want(&mut self, cloud: &Cloud, now: Timestamp) -> Result<bool> {
        match cloud.describe(&self.subject()).await {
            Ok(Presence::Present(found)) => {
                self.sees(&found);
                return Ok(found.state == State::Running);
            }
            Ok(Presence::Absent(Proof::NotSeenYet)) => {
                if self.asked == Asked::Never {
                    self.asked = Asked::Pending { deleted: None };
                }
                self.last = Some(now);
                match cloud.create(&self.wanted).await {
                    Err(refused) if refused.kind.leaves_outcome_unknown() => self.open += 1,
                    Err(_) => {}
                    Ok(_) => self.made = true,
                }
            }
            Ok(Presence::Absent(proof)) => bail!("it is wanted, and lost by {proof:?}"),
            Ok(Presence::Unknown { .. }) | Err(_) => {}
        }
        Ok(false)
    }

    /// One round of a Machine that goes; whether it is gone.
    pub(crate) async fn leave(&mut self, cloud: &Cloud, now: Timestamp) -> bool {
        match cloud.describe(&self.subject()).await {
            Ok(Presence::Present(found)) => {
                self.sees(&found);
                if !found.deleting {
                    let _ = cloud.delete(&self.wanted.owner, self.instance).await;
                }
                false
            }
            Ok(Presence::Absent(_)) => !self.may_appear(now),
            Ok(Presence::Unknown { .. }) | Err(_) => false,
        }
    }
}

/// Until it runs. `anew`: each round has a client that remembers nothing.
pub(crate) async fn until_running(stage: &Stage, machine: &mut Machine, anew: bool) -> Result<()> {
    let mut cloud = stage.cloud();
    for _ in 0..ROUNDS {
        if machine.want(&cloud, stage.clock.now()).await? {
            return Ok(());
        }
        if anew {
            cloud = stage.cloud();
        }
        stage.clock.advance(ROUND);
    }
    bail!("it does not run after {ROUNDS} rounds")
}

/// Until it is gone. `anew`: a client that remembers nothing, as often as an absence can still be proven.
pub(crate) async fn until_gone(stage: &Stage, machine: &mut Machine, anew: bool) -> Result<()> {
    machine.goes(stage.clock.now());
    let mut cloud = stage.cloud();
    for round in 0..ROUNDS {
        if machine.leave(&cloud, stage.clock.now()).await {
            return Ok(());
        }
        if anew && round % 3 == 0 {
            cloud = stage.cloud();
        }
        stage.clock.advance(ROUND);
    }
    bail!("it is not gone after {ROUNDS} rounds")
}

/// The two musts: one server at most for each Machine at every moment, and nothing that is left.
pub(crate) fn check(journal: &Journal, context: &str) {
    let duplicates = journal
        .most_at_once("server", MACHINE_UID)
        .saturating_sub(1);
    assert_eq!(duplicates, 0, "{context}");
    let orphans = journal.left();
    assert!(orphans.is_empty(), "{context}: {orphans:?}");
    assert_eq!(journal.came_without(MACHINE_UID), 0, "{context}");
}
