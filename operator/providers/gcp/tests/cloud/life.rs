//! What an operator does with one Machine, as far as a provider sees it, and a stage to do it on.
//!
//! Invariant: nothing is kept of a machine but what a Machine's status keeps; a client may be thrown away after each
//! call.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use fake_clouds::clock::VirtualClock;
use fake_clouds::faults::Script;
use fake_clouds::gcp::FakeGcp;
use fake_clouds::journal::Journal;
use jiff::{SignedDuration, Timestamp};
use provider_gcp::calls::Endpoints;
use provider_gcp::cloud::Cloud;
use provider_gcp::key::ServiceKey;
use provider_gcp::labels::SPELLED_MACHINE_UID;
use provider_gcp::settings::{Project, Wanted};
use providers::absence::SETTLE;
use providers::clock::Clock;
use providers::identity::Owner;
use providers::subject::{Asked, Subject};
use providers::{FaultKind, Presence, Proof, State};

pub(crate) const DEMO: &str = "demo";
pub(crate) const OTHER: &str = "other";
/// Rounds before a life counts as one without an end.
const ROUNDS: usize = 300;
/// Pause between two rounds.
pub(crate) const ROUND: Duration = Duration::from_secs(10);

/// The clock of whoever asks, which may be wrong.
struct Skewed(VirtualClock, SignedDuration);

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
    pub(crate) fake: FakeGcp,
    pub(crate) clock: VirtualClock,
    pub(crate) skew: SignedDuration,
    pub(crate) project: Project,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let clock = VirtualClock::default();
        let fake = FakeGcp::start(clock.clone(), &[DEMO, OTHER]).await;
        Self {
            fake: fake.unwrap(),
            clock,
            skew: SignedDuration::ZERO,
            project: project(),
        }
    }

    pub(crate) fn cloud(&self) -> Cloud {
        self.cloud_of("covey@demo")
    }

    pub(crate) fn cloud_of(&self, account: &str) -> Cloud {
        let endpoints = Endpoints {
            compute: self.fake.endpoint(),
            token_uri: self.fake.token_uri(),
        };
        let key = self.fake.key_file(account).to_string();
        let key = ServiceKey::read(&key, &endpoints.token_uri).unwrap();
        let clock = Arc::new(Skewed(self.clock.clone(), self.skew));
        Cloud::new(&endpoints, key, self.project.clone(), clock).unwrap()
    }

    pub(crate) fn script(&self, script: Script) {
        self.fake.contents().script = script;
    }

    pub(crate) fn requests(&self) -> usize {
        self.fake.contents().journal.entries.len()
    }

    /// The instance of a Machine, to be changed.
    pub(crate) fn with_instance(
        &self,
        machine: &Machine,
        change: impl FnOnce(&mut fake_clouds::gcp::project::Instance),
    ) {
        let mut contents = self.fake.contents();
        let project = contents.projects.get_mut(DEMO).unwrap();
        let key = (self.project.zone.clone(), machine.wanted.owner.name());
        change(project.instances.get_mut(&key).unwrap());
    }
}

fn project() -> Project {
    Project {
        installation: "installation-1".to_owned(),
        project: DEMO.to_owned(),
        zone: "europe-west1-b".to_owned(),
        subnet: "workers".to_owned(),
        tags: vec!["workers".to_owned()],
        public_ipv4: true,
        account: None,
    }
}

/// One Machine: what its status says, and what the process knows of its creations.
pub(crate) struct Machine {
    pub(crate) wanted: Wanted,
    pub(crate) asked: Asked,
    pub(crate) instance: Option<u64>,
    pub(crate) node_ready: Option<bool>,
    going: bool,
    /// The last creation without an answer.
    open: Option<Timestamp>,
}

impl Machine {
    pub(crate) fn new(uid: &str) -> Self {
        let wanted = Wanted {
            owner: Owner {
                installation: "installation-1".to_owned(),
                tenant: "tenant-1".to_owned(),
                namespace: "covey-demo-0a1b2c3d4e".to_owned(),
                pool: "workers".to_owned(),
                machine: format!("workers-{uid}"),
                uid: uid.to_owned(),
            },
            machine_type: "e2-medium".to_owned(),
            image: "projects/demo/global/images/worker-1-36".to_owned(),
            disk: 20,
            is_spot: false,
            user_data: "#cloud-config\n".to_owned(),
        };
        Self {
            wanted,
            asked: Asked::Never,
            instance: None,
            node_ready: None,
            going: false,
            open: None,
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

    /// One look; what it said of it, where it is there.
    async fn look(&mut self, cloud: &Cloud) -> Result<Presence, FaultKind> {
        let looked = cloud.describe(&self.subject()).await;
        let looked = looked.map_err(|refused| refused.kind)?;
        if let Presence::Present(found) = &looked
            && let Some(id) = found.instance.as_deref().and_then(|id| id.parse().ok())
        {
            self.asked = Asked::Seen;
            self.instance = Some(id);
        }
        Ok(looked)
    }

    /// One round of a Machine that is wanted; whether it runs.
    pub(crate) async fn want(&mut self, cloud: &Cloud, now: Timestamp) -> Result<bool> {
        match self.look(cloud).await {
            Ok(Presence::Present(found)) => return Ok(found.state == State::Running),
            Ok(Presence::Absent(Proof::NotSeenYet)) => {
                if self.asked == Asked::Never {
                    self.asked = Asked::Pending { deleted: None };
                }
                match cloud.create(&self.wanted).await {
                    Err(refused) if !refused.kind.leaves_outcome_unknown() => {}
                    _ => self.open = Some(now),
                }
            }
            Ok(Presence::Absent(proof)) => bail!("it is wanted, and lost by {proof:?}"),
            Ok(Presence::Unknown { .. }) | Err(_) => {}
        }
        Ok(false)
    }

    /// One round of a Machine that goes; whether it is gone.
    async fn leave(&mut self, cloud: &Cloud, now: Timestamp) -> bool {
        match self.look(cloud).await {
            Ok(Presence::Present(_)) => {
                let _ = cloud.delete(&self.wanted.owner, self.instance).await;
                false
            }
            // A creation that nobody heard of may still be carried out.
            Ok(Presence::Absent(_)) => {
                let settles = |open: Timestamp| now.duration_since(open) < SETTLE;
                !self.open.is_some_and(settles)
            }
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
    let now = stage.clock.now();
    machine.going = true;
    if let Asked::Pending { .. } = machine.asked {
        machine.asked = Asked::Pending { deleted: Some(now) };
    }
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

/// The two musts: one instance at most for each Machine at every moment, and nothing that is left.
pub(crate) fn check(journal: &Journal, context: &str) {
    let most = journal.most_at_once("instance", SPELLED_MACHINE_UID);
    assert!(most <= 1, "{context}: duplicates {}", most - 1);
    let orphans = journal.left();
    assert!(orphans.is_empty(), "{context}: orphans {orphans:?}");
    let unlabelled = journal.came_without(SPELLED_MACHINE_UID);
    assert_eq!(unlabelled, 0, "{context}");
}
