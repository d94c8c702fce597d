//! Carries out what the plans say, in one account and region.
//!
//! Invariant: before anything is decided on what was not found, account and region are proven to be those that machines
//! were made in, and what is not found by its ID is looked for by the token that it was asked for under too; what is
//! remembered here (looks, IDs) only saves requests, and whoever begins anew comes to the same end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use providers::by_uid::ByUid;
use providers::clock::Clock;
use providers::http_client::BuildError;
use providers::identity::{INSTALLATION, MACHINE_UID, NAMESPACE, Owner};
use providers::leaks::Suspects;
use providers::looks::Looks;
use providers::subject::{Asked, Subject};
use providers::{FaultKind, Inventory, Listed, Presence, Proof, Refused, tags};

use crate::calls::{Calls, Endpoints};
use crate::credentials::Credentials;
use crate::describe;
use crate::offerings::Offered;
use crate::parameters::run;
use crate::plan::{self, Sight, is_its};
use crate::refusal::{ENDED, MISMATCH, OTHER_PLACE, asked, of_reason};
use crate::schema::{Instance, Part, instance_id};
use crate::settings::{Place, Wanted};

/// One subnet of an account.
pub struct Cloud {
    pub(crate) calls: Calls,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) place: Place,
    looks: Mutex<Looks>,
    pub(crate) suspects: Mutex<Suspects>,
    pub(crate) account: Mutex<Option<String>>,
    /// IDs of instances, by the UID of their Machine: by its ID one is found before any list has it.
    ids: Mutex<ByUid<String>>,
    /// What there is to be had, and since when.
    pub(crate) offered: tokio::sync::Mutex<Option<(Timestamp, Offered)>>,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A filter by one of our labels.
pub(crate) fn by(label: &str) -> String {
    format!("tag:{}", tags::spelling(label).unwrap_or(label))
}

impl Cloud {
    /// With `credentials`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoints: &Endpoints,
        credentials: Credentials,
        place: Place,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            calls: Calls::new(endpoints, credentials, &place.region, Arc::clone(&clock))?,
            clock,
            place,
            looks: Mutex::default(),
            suspects: Mutex::default(),
            account: Mutex::default(),
            ids: Mutex::default(),
            offered: tokio::sync::Mutex::default(),
        })
    }

    /// Which account it is, and in which region: what is not found in another one says nothing.
    ///
    /// # Errors
    /// Where nobody knows, or it is another one than machines were made in before.
    pub async fn account(&self) -> Result<String, Refused> {
        if let Some(known) = held(&self.account).clone() {
            return Ok(known);
        }
        let found = self.calls.identity().await?;
        let account = format!("{}/{}", found.account, self.place.region);
        match &self.place.account {
            Some(expected) if *expected != account => {
                let asked = asked("use", format!("region {}", self.place.region));
                Err(Refused {
                    mend: Some(format!(
                        "machines were made in {expected}: put credentials of that account into the Secret that \
                         spec.aws.credentialsSecretName of the ProviderConfig names; nothing is deleted meanwhile"
                    )),
                    ..asked.refused(FaultKind::Auth, OTHER_PLACE, format!("it is {account}"))
                })
            }
            _ => {
                *held(&self.account) = Some(account.clone());
                Ok(account)
            }
        }
    }

    /// Asks for the machine. It counts as made once it was described: for seconds after this, nobody finds it.
    ///
    /// # Errors
    /// Where it was not made, or nobody knows: [`FaultKind::leaves_outcome_unknown`].
    pub async fn create(&self, wanted: &Wanted) -> Result<Presence, Refused> {
        let owner = &wanted.owner;
        let asked = asked("create", format!("instance {}", owner.name()));
        if let Some(why) = plan::impossible(wanted, &self.place) {
            return Err(Refused {
                mend: Some(why),
                ..asked.refused(FaultKind::Terminal, "impossible", "")
            });
        }
        // Nothing must be made in another account.
        self.account().await?;
        let form = run(wanted, &self.place);
        match self.calls.run(&form, &owner.name()).await {
            Ok(made) => {
                self.knows(owner, &made.id);
                Ok(Presence::Unknown {
                    why: "it is being made, and is looked for from now on",
                })
            }
            Err(refused) if refused.code == ENDED => {
                let found = self.found_instance(owner, None).await?;
                let ended = found.filter(|found| found.state == "terminated");
                Err(ended.map_or(refused, |ended| of_reason(&asked, &ended)))
            }
            // By other settings: what was made by those is still the Machine's.
            Err(refused) if refused.code == MISMATCH => {
                match self.found_instance(owner, None).await? {
                    Some(found) if found.state != "terminated" => Ok(Presence::Unknown {
                        why: "it was asked for with other settings, and is looked for from now on",
                    }),
                    _ => Err(refused),
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
        self.account().await?;
        let Some(found) = self.found_instance(owner, subject.instance).await? else {
            if subject.is_going && self.has_parts(owner).await? {
                // They cost, and are deleted with it.
                return Ok(Presence::Present(Box::default()));
            }
            return Ok(self.missed(subject));
        };
        match plan::sight(subject, &found) {
            // Whoever asks for it is told why.
            Sight::EndedUnseen => Ok(Presence::Absent(Proof::NotSeenYet)),
            Sight::Ends => Ok(Presence::Unknown {
                why: "its instance ends before it was seen to run, and is asked for after that",
            }),
            Sight::Ended if subject.is_going && self.has_parts(owner).await? => {
                Ok(Presence::Present(Box::default()))
            }
            Sight::Ended => {
                self.forgets(owner);
                Ok(Presence::Absent(Proof::Terminated))
            }
            Sight::There => {
                held(&self.looks).sees(&owner.uid, self.clock.now());
                self.knows(owner, &found.id);
                self.present(&found).await
            }
        }
    }

    async fn present(&self, found: &Instance) -> Result<Presence, Refused> {
        let spot = match &found.spot_request {
            Some(request) if found.state == "running" => self.calls.spot_status(request).await?,
            _ => None,
        };
        let description = describe::description(found, &self.place.region, spot.as_ref());
        Ok(Presence::Present(Box::new(description)))
    }

    /// It was looked for in its account and region, and not found.
    fn missed(&self, subject: &Subject) -> Presence {
        if matches!(subject.asked, Asked::Pending { .. }) && !subject.is_going {
            return Presence::Absent(Proof::NotSeenYet);
        }
        let proof = held(&self.looks).misses(subject, self.clock.now());
        match proof {
            Some(proof) => {
                self.forgets(&subject.owner);
                Presence::Absent(proof)
            }
            None => Presence::Unknown {
                why: "EC2 does not know its instance, which is looked for again before that is believed",
            },
        }
    }

    fn knows(&self, owner: &Owner, id: &str) {
        // Whoever is forgotten is looked for by its token.
        id.clone_into(held(&self.ids).known(&owner.uid));
    }

    fn forgets(&self, owner: &Owner) {
        held(&self.looks).forgets(&owner.uid);
        held(&self.ids).forgets(&owner.uid);
    }

    /// A Machine's instance: by its ID, where that is known, and else by the token that it was asked for under, by which
    /// there is one at most.
    pub(crate) async fn found_instance(
        &self,
        owner: &Owner,
        instance: Option<u64>,
    ) -> Result<Option<Instance>, Refused> {
        let remembered = held(&self.ids).get(&owner.uid).cloned();
        let is = |found: &Instance| is_its(owner, instance, found);
        if let Some(id) = instance.map(instance_id).or(remembered) {
            let found = self.calls.instance(&id).await?;
            if let Some(found) = found.filter(is) {
                return Ok(Some(found));
            }
        }
        let by_token = [("client-token", owner.uid.as_str())];
        let all = self.calls.instances(&by_token).await?;
        Ok(all.into_iter().find(is))
    }

    /// Whether something of a Machine is left that its instance had.
    async fn has_parts(&self, owner: &Owner) -> Result<bool, Refused> {
        let (volumes, interfaces) = self.parts(owner).await?;
        Ok(!volumes.is_empty() || !interfaces.is_empty())
    }

    async fn parts(&self, owner: &Owner) -> Result<(Vec<Part>, Vec<Part>), Refused> {
        let (uid, installation) = (by(MACHINE_UID), by(INSTALLATION));
        let filters = [
            (uid.as_str(), owner.uid.as_str()),
            (installation.as_str(), owner.installation.as_str()),
        ];
        let left = |part: &Part| part.status != "deleting" && plan::is_tagged(owner, &part.tags);
        let mut volumes = self.calls.volumes(&filters).await?;
        volumes.retain(left);
        let mut interfaces = self.calls.interfaces(&filters).await?;
        interfaces.retain(left);
        Ok((volumes, interfaces))
    }

    /// Asks for everything of a machine to go, and does not wait. `instance`: the one that it was known to have.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete(&self, owner: &Owner, instance: Option<u64>) -> Result<(), Refused> {
        self.account().await?;
        let found = self.found_instance(owner, instance).await?;
        let asked = match found {
            Some(found) if found.state == "shutting-down" => Ok(()),
            Some(found) if found.state != "terminated" => self.calls.terminate(&found.id).await,
            _ => self.delete_parts(owner).await,
        };
        match asked {
            // Something is done to it already; it is asked for again at the next look.
            Err(refused) if refused.kind == FaultKind::Conflict => Ok(()),
            asked => asked,
        }
    }

    /// What an instance had that is not there any more.
    async fn delete_parts(&self, owner: &Owner) -> Result<(), Refused> {
        let (volumes, interfaces) = self.parts(owner).await?;
        for nic in interfaces.iter().filter(|nic| nic.status == "available") {
            self.calls.delete_interface(&nic.id).await?;
        }
        for volume in volumes.iter().filter(|part| part.status == "available") {
            self.calls.delete_volume(&volume.id).await?;
        }
        Ok(())
    }

    /// Starts the machine anew on the disk that it has, and does not wait.
    ///
    /// # Errors
    /// Where that was not taken, or nothing is there.
    pub async fn restart(&self, owner: &Owner) -> Result<(), Refused> {
        self.account().await?;
        match self.found_instance(owner, None).await? {
            Some(found) if found.state == "stopped" => self.calls.start(&found.id).await,
            Some(found) if found.state == "running" => self.calls.reboot(&found.id).await,
            found => {
                let asked = asked("restart", format!("instance {}", owner.name()));
                Err(match found {
                    Some(found) if found.state != "terminated" => {
                        let why = format!("it is {}", found.state);
                        asked.refused(FaultKind::Conflict, "IncorrectInstanceState", why)
                    }
                    _ => {
                        let code = "InvalidInstanceID.NotFound";
                        asked.refused(FaultKind::NotFound, code, "it is not there")
                    }
                })
            }
        }
    }

    /// Every machine of the installation in a tenant namespace; none: in all of them.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Inventory, Refused> {
        self.account().await?;
        let (of_installation, of_namespace) = (by(INSTALLATION), by(NAMESPACE));
        let mut filters = vec![(of_installation.as_str(), self.place.installation.as_str())];
        filters.extend(namespace.map(|namespace| (of_namespace.as_str(), namespace)));
        let all = self.calls.instances(&filters).await?;
        let live = all.iter().filter(|found| found.state != "terminated");
        let machines = live.filter_map(|found| describe::listed(found, &self.place.region));
        let mut machines: Vec<Listed> = machines.collect();
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Inventory {
            machines,
            complete: true,
        })
    }
}
