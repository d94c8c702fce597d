//! Carries out what the plans say, in one project and zone.
//!
//! Invariant: before anything is decided on what was not found, project and zone are proven to be those that machines were
//! made in, and what is not found by name is looked for by its labels too; what is remembered here (looks, lists) only
//! saves requests, and whoever begins anew comes to the same end. No call waits for an operation: the next look sees what
//! became of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use providers::clock::Clock;
use providers::http_client::BuildError;
use providers::identity::{MACHINE_UID, Owner};
use providers::leaks::Suspects;
use providers::looks::Looks;
use providers::offering::Size;
use providers::subject::{Asked, Subject};
use providers::{Checked, Description, FaultKind, Inventory, Listed, Presence, Proof, Refused};

use crate::calls::{Calls, Endpoints};
use crate::describe;
use crate::key::ServiceKey;
use crate::labels::{self, of_installation, of_machine};
use crate::offerings;
use crate::plan::{self, Creation, Seen, is_its};
use crate::refusal::{Asked as Call, ENDED, NO_SUCH, OTHER_PROJECT};
use crate::schema::{CreateInstance, Disk, Instance, MachineType};
use crate::settings::{Project, Wanted};

/// How old a list may be that a machine at rest is described by.
const FRESH: SignedDuration = SignedDuration::from_secs(100);
/// How old sizes may be.
const SIZES: SignedDuration = SignedDuration::from_hours(6);

/// One project and zone.
pub struct Cloud {
    pub(crate) calls: Calls,
    clock: Arc<dyn Clock>,
    pub(crate) project: Project,
    looks: Mutex<Looks>,
    pub(crate) suspects: Mutex<Suspects>,
    account: Mutex<Option<String>>,
    /// Held while it is read, so that many who ask at once make one list.
    list: tokio::sync::Mutex<Option<List>>,
    sizes: tokio::sync::Mutex<Option<(Timestamp, Vec<MachineType>)>>,
}

/// All instances of the installation, by the UID of their Machine.
struct List {
    at: Timestamp,
    instances: BTreeMap<String, Instance>,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cloud {
    /// With `key`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoints: &Endpoints,
        key: ServiceKey,
        project: Project,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            calls: Calls::new(endpoints, key, &project, Arc::clone(&clock))?,
            clock,
            project,
            looks: Mutex::default(),
            suspects: Mutex::default(),
            account: Mutex::default(),
            list: tokio::sync::Mutex::default(),
            sizes: tokio::sync::Mutex::default(),
        })
    }

    /// Which project it is, by its number, which no other project ever has, and in which zone machines are looked for: what
    /// one zone has not got says nothing of another one.
    ///
    /// # Errors
    /// Where nobody knows, or it is another project or zone than machines were made in before.
    pub async fn account(&self) -> Result<String, Refused> {
        if let Some(known) = held(&self.account).clone() {
            return Ok(known);
        }
        let asked = Call::new("use", format!("project {}", self.project.project));
        let found = match self.calls.project().await {
            Err(refused) if refused.kind == FaultKind::NotFound => Err(Refused {
                kind: FaultKind::Auth,
                mend: Some(
                    "see that spec.gcp.project of the ProviderConfig is its ID, and give the service account a role in it"
                        .to_owned(),
                ),
                ..refused
            }),
            found => found,
        };
        let account = format!("{}/{}", found?.id, self.project.zone);
        match &self.project.account {
            Some(expected) if *expected != account => Err(Refused {
                mend: Some(format!(
                    "machines were made where it is {expected}: name that project and zone in another ProviderConfig; nothing \
                     is deleted meanwhile"
                )),
                ..asked.refused(FaultKind::Auth, OTHER_PROJECT, format!("it is {account}"))
            }),
            _ => {
                *held(&self.account) = Some(account.clone());
                Ok(account)
            }
        }
    }

    /// Proves that machines can be made as they are asked for, as far as that can be asked without making one: what the
    /// project may have, and whether the subnet is there, Google says only when something is made.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn check(&self, types: &[String], images: &[String]) -> Result<Checked, Refused> {
        // What was known of a key may have changed since.
        *held(&self.account) = None;
        let account = self.account().await?;
        for image in images {
            let asked = Call::new("use", format!("image {image}"));
            let found = match plan::is_image(image) {
                true => self.calls.image(image).await.map_err(no_right_to)?,
                false => None,
            };
            if found.is_none_or(|found| found.status != "READY") {
                return Err(Refused {
                    mend: Some(
                        "name one that is ready, as projects/PROJECT/global/images/NAME: change the image of the node \
                         pool, or spec.gcp.images of the ProviderConfig"
                            .to_owned(),
                    ),
                    ..asked.refused(FaultKind::Terminal, NO_SUCH, "there is no such image")
                });
            }
        }
        self.sizes(types).await?;
        Ok(Checked {
            account: Some(account),
        })
    }

    /// The sizes of these names, at most six hours old.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub async fn sizes(&self, types: &[String]) -> Result<Vec<Size>, Refused> {
        let now = self.clock.now();
        let mut known = self.sizes.lock().await;
        let old = |(at, _): &(Timestamp, _)| now.duration_since(*at) >= SIZES;
        if known.as_ref().is_none_or(old) {
            *known = Some((now, self.calls.machine_types().await?));
        }
        let all = known.as_ref().map_or(&[][..], |(_, all)| all);
        offerings::sizes(all, types, &self.project.zone)
    }

    /// The same as far as it is known already, however old; none where nothing is, or somebody asks at the moment.
    ///
    /// # Errors
    /// As [`Self::sizes`].
    pub fn known_sizes(&self, types: &[String]) -> Result<Option<Vec<Size>>, Refused> {
        let known = self.sizes.try_lock().ok();
        let known = known.as_ref().and_then(|known| known.as_ref());
        let of = |(_, all): &(Timestamp, Vec<MachineType>)| {
            offerings::sizes(all, types, &self.project.zone)
        };
        known.map(of).transpose()
    }

    /// Makes the machine, unless it is there. It counts as made once it was described.
    ///
    /// # Errors
    /// Where it was not made, or nobody knows: [`FaultKind::leaves_outcome_unknown`].
    pub async fn create(&self, wanted: &Wanted) -> Result<Presence, Refused> {
        // Nothing must be made in another project.
        self.account().await?;
        let owner = &wanted.owner;
        let name = owner.name();
        let asked = Call::new("create", format!("instance {name}"));
        let mut seen = Seen {
            instance: self.found_instance(owner).await?,
            insertions: Vec::new(),
        };
        if seen.instance.is_none() {
            seen.insertions = self.calls.insertions(&name).await?;
        }
        match plan::creation(wanted, &self.project, &seen, self.calls.now()) {
            Creation::There(instance) => {
                held(&self.looks).sees(&owner.uid, self.clock.now());
                Ok(self.present(&instance))
            }
            Creation::Insert { request, body } => self.insert(owner, &request, &body).await,
            Creation::Wait => Ok(Presence::Unknown {
                why: "it is being made, and is looked for from now on",
            }),
            Creation::Failed(operation) => Err(asked.failed(&operation).unwrap_or_else(|| {
                let why = "its operation failed without a reason";
                asked.refused(FaultKind::Unavailable, "no_reason", why)
            })),
            Creation::Ended => {
                let why = "it was made, and is not there any more";
                let mend = Some("delete the Machine to have it replaced".to_owned());
                let refused = asked.refused(FaultKind::Gone, ENDED, why);
                Err(Refused { mend, ..refused })
            }
            Creation::Taken => {
                let why = "there is another instance of its name";
                let mend = Some("delete it, or delete the Machine to have it replaced".to_owned());
                let refused = asked.refused(FaultKind::Taken, "alreadyExists", why);
                Err(Refused { mend, ..refused })
            }
            Creation::Impossible(why) => {
                let refused = asked.refused(FaultKind::Terminal, "impossible", "");
                let mend = Some(why);
                Err(Refused { mend, ..refused })
            }
        }
    }

    async fn insert(
        &self,
        owner: &Owner,
        request: &str,
        body: &CreateInstance,
    ) -> Result<Presence, Refused> {
        let asked = Call::new("create", format!("instance {}", body.name));
        match self.calls.create(request, body).await {
            // The operation of before, where this is not the first call.
            Ok(operation) => match asked.failed(&operation) {
                Some(refused) => Err(refused),
                None => Ok(Presence::Unknown {
                    why: "it is being made, and is looked for from now on",
                }),
            },
            // Of an earlier call of ours, or of somebody else.
            Err(taken) if taken.kind == FaultKind::Taken => {
                match self.found_instance(owner).await? {
                    Some(instance) if is_its(owner, None, &instance) => Ok(Presence::Unknown {
                        why: "it was made before, and is looked for from now on",
                    }),
                    Some(_) => Err(taken),
                    None => Err(Refused {
                        kind: FaultKind::Conflict,
                        mend: None,
                        ..taken
                    }),
                }
            }
            Err(refused) => Err(refused),
        }
    }

    /// What is there of a machine.
    ///
    /// # Errors
    /// Then nobody knows.
    pub async fn describe(&self, subject: &Subject) -> Result<Presence, Refused> {
        let owner = &subject.owner;
        if subject.asked == Asked::Never {
            return Ok(Presence::Absent(Proof::NotSeenYet));
        }
        if subject.asked == Asked::Seen
            && !subject.is_going
            && let Some(instance) = self.listed(owner).await?
            && instance.status == "RUNNING"
        {
            return Ok(self.present(&instance));
        }
        self.account().await?;
        let found = self.found_instance(owner).await?;
        if let Some(instance) = found.filter(|i| is_its(owner, subject.instance, i)) {
            held(&self.looks).sees(&owner.uid, self.clock.now());
            return Ok(self.present(&instance));
        }
        if subject.is_going && !self.disks_of(owner).await?.is_empty() {
            // They cost, and are deleted with it.
            return Ok(Presence::Present(Box::default()));
        }
        Ok(self.missed(subject))
    }

    fn present(&self, instance: &Instance) -> Presence {
        let description: Description = describe::description(instance, &self.project);
        Presence::Present(Box::new(description))
    }

    /// It was looked for in its project, and not found.
    fn missed(&self, subject: &Subject) -> Presence {
        if matches!(subject.asked, Asked::Pending { .. }) && !subject.is_going {
            return Presence::Absent(Proof::NotSeenYet);
        }
        let mut looks = held(&self.looks);
        match looks.misses(subject, self.clock.now()) {
            Some(proof) => {
                looks.forgets(&subject.owner.uid);
                Presence::Absent(proof)
            }
            None => Presence::Unknown {
                why: "Google does not know its instance, which is looked for again before that is believed",
            },
        }
    }

    /// The instance that bears a Machine's name; where there is none, the one that bears its labels, which somebody may
    /// have given another name.
    async fn found_instance(&self, owner: &Owner) -> Result<Option<Instance>, Refused> {
        if let Some(found) = self.calls.instance(&owner.name()).await? {
            return Ok(Some(found));
        }
        let labelled = self.calls.instances(&of_machine(owner)).await?;
        let mut own = labelled.into_iter().filter(|i| is_its(owner, None, i));
        Ok(own.next())
    }

    /// An instance by the last list of all, which is read anew where it is old.
    async fn listed(&self, owner: &Owner) -> Result<Option<Instance>, Refused> {
        let mut list = self.list.lock().await;
        let now = self.clock.now();
        let fresh = |list: &List| now.duration_since(list.at).abs() < FRESH;
        if !list.as_ref().is_some_and(fresh) {
            self.account().await?;
            let filter = of_installation(&self.project.installation);
            let instances = self.calls.instances(&filter).await?.into_iter();
            let uid = |i: &Instance| labels::read(&i.labels).remove(MACHINE_UID);
            let instances = instances.filter_map(|i| Some((uid(&i)?, i)));
            *list = Some(List {
                at: now,
                instances: instances.collect(),
            });
        }
        let found = list
            .as_ref()
            .and_then(|list| list.instances.get(&owner.uid));
        Ok(found.filter(|i| is_its(owner, None, i)).cloned())
    }

    /// Asks for everything of a machine to go, and does not wait. `instance`: the one that it was known to have.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete(&self, owner: &Owner, instance: Option<u64>) -> Result<(), Refused> {
        self.account().await?;
        self.forget_listed(owner).await;
        let found = self.found_instance(owner).await?;
        if let Some(found) = found.filter(|found| is_its(owner, instance, found)) {
            if found.deletion_protection {
                let asked = Call::new("delete", format!("instance {}", found.name));
                let refused = asked.refused(FaultKind::Terminal, "protected", "");
                let mend = "somebody protected it against deletion: take that off in the console, since Covey does not";
                return Err(Refused {
                    mend: Some(mend.to_owned()),
                    ..refused
                });
            }
            return match self.calls.delete_instance(&found.name).await {
                // Something is done to it already; it is asked for again at the next look.
                Err(refused) if refused.kind == FaultKind::Conflict => Ok(()),
                asked => asked,
            };
        }
        for disk in self.disks_of(owner).await? {
            if disk.users.is_empty() {
                self.calls.delete_disk(&disk.name).await?;
            }
        }
        Ok(())
    }

    async fn disks_of(&self, owner: &Owner) -> Result<Vec<Disk>, Refused> {
        let mut disks = self.calls.disks(&of_machine(owner)).await?;
        disks.retain(|disk| owner.has(&labels::read(&disk.labels)));
        Ok(disks)
    }

    /// Starts the machine anew on the disk that it has, and does not wait.
    ///
    /// # Errors
    /// Where that was not taken, or nothing is there.
    pub async fn restart(&self, owner: &Owner) -> Result<(), Refused> {
        self.account().await?;
        self.forget_listed(owner).await;
        let found = self.found_instance(owner).await?;
        let Some(found) = found.filter(|found| is_its(owner, None, found)) else {
            let asked = Call::new("restart", format!("instance {}", owner.name()));
            return Err(asked.refused(FaultKind::NotFound, "notFound", "it is not there"));
        };
        let command = match found.status.as_str() {
            "TERMINATED" => "start",
            _ => "reset",
        };
        self.calls.start(&found.name, command).await
    }

    /// Every machine of the installation in a tenant namespace; none: in all of them.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Inventory, Refused> {
        self.account().await?;
        let filter = labels::of_namespace(&self.project.installation, namespace);
        let instances = self.calls.instances(&filter).await?;
        let machines = instances.iter();
        let machines = machines.filter_map(|i| describe::listed(i, &self.project));
        let mut machines: Vec<Listed> = machines.collect();
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Inventory {
            machines,
            complete: true,
        })
    }

    async fn forget_listed(&self, owner: &Owner) {
        if let Some(list) = self.list.lock().await.as_mut() {
            list.instances.remove(&owner.uid);
        }
    }
}

/// The project has just let us in: it is the image's that does not.
fn no_right_to(image: Refused) -> Refused {
    match image.kind {
        FaultKind::Auth => Refused {
            kind: FaultKind::Terminal,
            mend: Some(
                "let the service account use images of that project (compute.images.get and \
                 compute.images.useReadOnly), or name another image"
                    .to_owned(),
            ),
            ..image
        },
        _ => image,
    }
}
