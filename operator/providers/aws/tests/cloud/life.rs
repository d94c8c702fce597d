//! What an operator does with one Machine, as far as a provider sees it, and a stage to do it on.
//!
//! Invariant: nothing is kept of a machine but what a Machine's status keeps; a client may be thrown away after each
//! call.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use fake_clouds::aws::thing::Instance;
use fake_clouds::aws::{FakeAws, SECRET};
use fake_clouds::clock::VirtualClock;
use fake_clouds::faults::Script;
use fake_clouds::journal::Journal;
use jiff::{SignedDuration, Timestamp};
use provider_aws::calls::Endpoints;
use provider_aws::cloud::Cloud;
use provider_aws::credentials::{Credentials, Keys, WebIdentity};
use provider_aws::schema::number;
use provider_aws::settings::{Place, Wanted};
use providers::absence::SETTLE;
use providers::clock::Clock;
use providers::identity::Owner;
use providers::subject::{Asked, Subject};
use providers::tags::SPELLED_MACHINE_UID;
use providers::{FaultKind, Presence, Proof, State};

pub(crate) const DEMO: &str = "111111111111";
pub(crate) const OTHER: &str = "222222222222";
pub(crate) const REGION: &str = "eu-central-1";
pub(crate) const SIZE: &str = "m7i.large";
pub(crate) const IMAGE: &str = "ami-0123456789abcdef0";
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
    pub(crate) fake: FakeAws,
    pub(crate) clock: VirtualClock,
    pub(crate) skew: SignedDuration,
    pub(crate) place: Place,
    pub(crate) credentials: Credentials,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let clock = VirtualClock::default();
        let fake = FakeAws::start(clock.clone(), &[DEMO, OTHER]).await;
        Self {
            fake: fake.unwrap(),
            clock,
            skew: SignedDuration::ZERO,
            place: place(),
            credentials: Credentials::Keys(keys(DEMO)),
        }
    }

    pub(crate) fn cloud(&self) -> Cloud {
        let endpoints = Endpoints {
            ec2: self.fake.endpoint(),
            sts: self.fake.endpoint(),
            web_identity: WebIdentity::default(),
        };
        let clock = Arc::new(Skewed(self.clock.clone(), self.skew));
        let credentials = self.credentials.clone();
        Cloud::new(&endpoints, credentials, self.place.clone(), clock).unwrap()
    }

    pub(crate) fn script(&self, script: Script) {
        self.fake.contents().script = script;
    }

    pub(crate) fn requests(&self) -> usize {
        self.fake.contents().journal.entries.len()
    }

    /// A Machine's instance, to be changed.
    pub(crate) fn with(&self, machine: &Machine, change: impl FnOnce(&mut Instance)) {
        let mut contents = self.fake.contents();
        let mut all = contents.instances.values_mut();
        let uid = &machine.wanted.owner.uid;
        change(all.find(|instance| instance.token == *uid).unwrap());
    }

    /// Its ID.
    pub(crate) fn id_of(&self, machine: &Machine) -> String {
        let contents = self.fake.contents();
        let uid = &machine.wanted.owner.uid;
        let mut all = contents.instances.iter();
        all.find(|(_, found)| found.token == *uid)
            .unwrap()
            .0
            .clone()
    }
}

/// The key of the user that may do everything in an account.
pub(crate) fn keys(account: &str) -> Keys {
    Keys {
        id: format!("AKIA{account}"),
        secret: SECRET.to_owned(),
        session: None,
    }
}

fn place() -> Place {
    Place {
        installation: "installation-1".to_owned(),
        region: REGION.to_owned(),
        zone: "eu-central-1a".to_owned(),
        subnet: "subnet-0123456789abcdef0".to_owned(),
        security_groups: vec!["sg-0123456789abcdef0".to_owned()],
        public_ipv4: true,
        root_device: "/dev/xvda".to_owned(),
        role: None,
        without_key: None,
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
            since: Timestamp::from_second(1_789_999_000).unwrap(),
            size: SIZE.to_owned(),
            image: IMAGE.to_owned(),
            disk: 30,
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
            && let Some(id) = found.instance.as_deref().and_then(number)
        {
            self.asked = Asked::Seen;
            self.instance = Some(id);
            // Asked for once more, the same token makes no other.
            self.open = None;
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

/// The two musts: one machine at most for each Machine at every moment, and nothing that is left.
pub(crate) fn check(journal: &Journal, context: &str) {
    for kind in ["instance", "volume", "interface"] {
        let most = journal.most_at_once(kind, SPELLED_MACHINE_UID);
        assert!(most <= 1, "{context}: duplicates {} of {kind}", most - 1);
    }
    let orphans = journal.left();
    assert!(orphans.is_empty(), "{context}: orphans {orphans:?}");
    let unlabelled = journal.came_without(SPELLED_MACHINE_UID);
    assert_eq!(unlabelled, 0, "{context}");
}
