//! Carries out what the plans say, in one resource group.
//!
//! Invariant: before anything is decided on what was not found, the resource group is proven to be the one that machines
//! were made in, and what is not found by name is looked for in the list too, unless it is only waited for; what is
//! remembered here (looks, addresses, operations) only saves requests or tells more, and whoever begins anew comes to the
//! same end. No call waits for an operation: the next look sees what became of it.
//! Long because all that is asked of a resource group goes by what is remembered of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::machine::MachineAddress;
use jiff::{SignedDuration, Timestamp};
use providers::absence::SETTLE;
use providers::clock::Clock;
use providers::http_client::BuildError;
use providers::identity::{NAMESPACE, Owner};
use providers::leaks::Suspects;
use providers::looks::Looks;
use providers::subject::{Asked, Subject};
use providers::{Checked, Description, FaultKind, Inventory, Listed, Presence, Proof, Refused};

use crate::body::body;
use crate::calls::{Calls, Endpoints};
use crate::credentials::Credentials;
use crate::describe;
use crate::memory::{Begun, Memory};
use crate::offerings::{self, Size};
use crate::plan::{self, Creation, Leftover, Seen, failure, is_its, is_tagged, is_under_way};
use crate::refusal::{ENDED, NO_SUCH, OTHER_PLACE, answered, asked};
use crate::schema::{Sku, Vm};
use crate::settings::{Kind, Place, Wanted};
use providers::tags;

/// How old sizes may be.
const SIZES: SignedDuration = SignedDuration::from_hours(6);
/// Most things that are put in one call: an address, an interface, a machine.
const PUTS: usize = 3;

/// One resource group.
pub struct Cloud {
    pub(crate) calls: Calls,
    clock: Arc<dyn Clock>,
    pub(crate) place: Place,
    /// As nodes are labelled with it; empty: Azure chooses.
    pub(crate) zone: String,
    looks: Mutex<Looks>,
    pub(crate) suspects: Mutex<Suspects>,
    account: Mutex<Option<String>>,
    memory: Mutex<Memory>,
    skus: tokio::sync::Mutex<Option<(Timestamp, Vec<Sku>)>>,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It was asked for.
fn begun() -> Presence {
    Presence::Unknown {
        why: "it is being made, and is looked for from now on",
    }
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
        let zone = place.zone.as_ref().map(|zone| place.label_of(zone));
        Ok(Self {
            zone: zone.unwrap_or_default(),
            calls: Calls::new(endpoints, credentials, &place, Arc::clone(&clock))?,
            clock,
            place,
            looks: Mutex::default(),
            suspects: Mutex::default(),
            account: Mutex::default(),
            memory: Mutex::default(),
            skus: tokio::sync::Mutex::default(),
        })
    }

    /// Which resource group it is, with its subscription, whose ID no other ever has.
    ///
    /// # Errors
    /// Where nobody knows, or it is another one than machines were made in before.
    pub async fn account(&self) -> Result<String, Refused> {
        if let Some(known) = held(&self.account).clone() {
            return Ok(known);
        }
        let asked = asked("use", format!("resource group {}", self.place.group));
        let found = match self.calls.group().await {
            Err(refused) if refused.kind == FaultKind::NotFound => Err(Refused {
                kind: FaultKind::Auth,
                ..refused
            }),
            found => found,
        };
        // Azure compares names without case.
        let account = found?.id.to_lowercase();
        match &self.place.account {
            Some(expected) if *expected != account => Err(Refused {
                mend: Some(format!(
                    "machines were made in {expected}: name that one in another ProviderConfig; nothing is deleted meanwhile"
                )),
                ..asked.refused(FaultKind::Auth, OTHER_PLACE, format!("it is {account}"))
            }),
            _ => {
                *held(&self.account) = Some(account.clone());
                Ok(account)
            }
        }
    }

    /// Proves that machines can be made as they are asked for, as far as that can be asked without making one: whether the
    /// subnet is there, Azure says only when something is made.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn check(
        &self,
        types: &[String],
        images: &[String],
        is_spot: bool,
    ) -> Result<Checked, Refused> {
        // What was known of credentials may have changed since.
        *held(&self.account) = None;
        let account = self.account().await?;
        for image in images {
            let is_there =
                plan::is_image(image) && self.calls.has_image(image).await.map_err(no_right_to)?;
            if !is_there {
                let asked = asked("use", format!("image {image}"));
                return Err(Refused {
                    mend: Some(
                        "name a version of an image of a gallery, or a managed image, by its ID: change the image of the \
                         node pool, or spec.azure.images of the ProviderConfig"
                            .to_owned(),
                    ),
                    ..asked.refused(FaultKind::Terminal, NO_SUCH, "there is no such image")
                });
            }
        }
        let sizes = self.sizes(types).await?;
        if !sizes.is_empty() {
            let usages = self.calls.usages().await?;
            let has_room = |size: &Size| offerings::capacity(&usages, size, is_spot) != Some(0);
            if !sizes.iter().any(has_room) {
                let asked = asked("use", format!("sizes of {}", self.place.location));
                return Err(Refused {
                    mend: Some(
                        "ask Azure for a higher quota (portal, Quotas), or name another size below \
                         spec.provider.azure.types of the node pool"
                            .to_owned(),
                    ),
                    ..asked.refused(
                        FaultKind::Quota { again: None },
                        "QuotaExceeded",
                        "the subscription may have no more of any of them",
                    )
                });
            }
        }
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
        let mut known = self.skus.lock().await;
        let old = |(at, _): &(Timestamp, Vec<Sku>)| now.duration_since(*at) >= SIZES;
        if known.as_ref().is_none_or(old) {
            *known = Some((now, self.calls.skus().await?));
        }
        let all = known.as_ref().map_or(&[][..], |(_, all)| all);
        self.of_skus(all, types)
    }

    /// The same as far as it is known already, however old; none where nothing is, or somebody asks at the moment.
    ///
    /// # Errors
    /// As [`Self::sizes`].
    pub fn known_sizes(&self, types: &[String]) -> Result<Option<Vec<Size>>, Refused> {
        let known = self.skus.try_lock().ok();
        let known = known.as_ref().and_then(|known| known.as_ref());
        known.map(|(_, all)| self.of_skus(all, types)).transpose()
    }

    fn of_skus(&self, all: &[Sku], types: &[String]) -> Result<Vec<Size>, Refused> {
        let Place { location, zone, .. } = &self.place;
        offerings::sizes(all, types, location, zone.as_deref())
    }

    /// Makes the machine, unless it is there. It counts as made once it was described.
    ///
    /// # Errors
    /// Where it was not made, or nobody knows: [`FaultKind::leaves_outcome_unknown`].
    pub async fn create(&self, wanted: &Wanted) -> Result<Presence, Refused> {
        // Nothing must be made in another resource group.
        self.account().await?;
        let owner = &wanted.owner;
        let mut last = None;
        for _ in 0..=PUTS {
            let seen = self.seen(owner).await?;
            match plan::creation(wanted, &self.place, &seen) {
                Creation::There(vm) => {
                    self.sees(owner);
                    return self.present(&vm, owner).await;
                }
                // It was put a moment ago, and is not found yet.
                Creation::Put(kind) if last == Some(kind) => break,
                Creation::Put(Kind::Vm) => return self.put_machine(wanted).await,
                Creation::Put(kind) => {
                    let body = body(kind, wanted, &self.place, self.calls.now());
                    self.calls.put(kind, &kind.name(owner), body, false).await?;
                    last = Some(kind);
                }
                Creation::Wait => break,
                Creation::Failed(fault) => {
                    let asked = asked("create", format!("virtual machine {}", owner.name()));
                    if let Some(vm) = &seen.vm {
                        self.delete_vm(owner, vm).await?;
                    }
                    return Err(answered(&asked, 500, &fault, None));
                }
                Creation::Taken(kind) => return Err(taken(kind, owner)),
                Creation::Impossible(why) => {
                    let asked = asked("create", format!("virtual machine {}", owner.name()));
                    let refused = asked.refused(FaultKind::Terminal, "impossible", "");
                    return Err(Refused {
                        mend: Some(why),
                        ..refused
                    });
                }
            }
        }
        Ok(begun())
    }

    /// What bears the names of a Machine's.
    async fn seen(&self, owner: &Owner) -> Result<Seen, Refused> {
        let vm = self.calls.vm(&Kind::Vm.name(owner)).await?;
        if vm.is_some() {
            return Ok(Seen {
                vm,
                ..Seen::default()
            });
        }
        Ok(Seen {
            vm,
            nic: self.calls.nic(&Kind::Nic.name(owner)).await?,
            address: match self.place.public_ipv4 {
                true => self.calls.address(&Kind::Address.name(owner)).await?,
                false => None,
            },
        })
    }

    async fn put_machine(&self, wanted: &Wanted) -> Result<Presence, Refused> {
        let owner = &wanted.owner;
        if let Some(told) = self.became(owner).await? {
            return Ok(told);
        }
        if self.is_in_the_way(owner).await? {
            return Ok(Presence::Unknown {
                why: "a disk that is left of it goes first, and it is asked for after that",
            });
        }
        let name = Kind::Vm.name(owner);
        let body = body(Kind::Vm, wanted, &self.place, self.calls.now());
        match self.calls.put(Kind::Vm, &name, body, true).await {
            Ok(operation) => {
                if let Some(operation) = operation {
                    let at = self.calls.now();
                    held(&self.memory).begins(&owner.uid, Begun { operation, at });
                }
                Ok(begun())
            }
            // Of an earlier call of ours, or of somebody else.
            Err(taken) if taken.kind == FaultKind::Taken => match self.calls.vm(&name).await? {
                Some(vm) if is_its(owner, None, &vm) => Ok(begun()),
                Some(_) => Err(taken),
                None => Err(Refused {
                    kind: FaultKind::Conflict,
                    mend: None,
                    ..taken
                }),
            },
            Err(refused) => Err(refused),
        }
    }

    /// Whether a disk that an earlier virtual machine of its left bears the name of the one that would be made: Azure makes
    /// none then. It is asked to go.
    async fn is_in_the_way(&self, owner: &Owner) -> Result<bool, Refused> {
        let name = Kind::Disk.name(owner);
        let disk = self.calls.disk(&name).await?;
        match plan::leftover(owner, disk.as_ref(), self.calls.now()) {
            Leftover::Nothing => return Ok(false),
            Leftover::Wait => {}
            Leftover::Taken => return Err(taken(Kind::Disk, owner)),
            Leftover::Delete => match self.calls.delete(Kind::Disk, &name).await {
                // Something is done to it already.
                Err(refused) if refused.kind == FaultKind::Conflict => {}
                asked => asked?,
            },
        }
        Ok(true)
    }

    /// What became of the call that was to make a virtual machine, which is not found; none where that is not known.
    async fn became(&self, owner: &Owner) -> Result<Option<Presence>, Refused> {
        let known = held(&self.memory).begun(&owner.uid);
        let Some(Begun { operation, at }) = known else {
            return Ok(None);
        };
        let asked = asked("create", format!("virtual machine {}", owner.name()));
        let operation = match self.calls.operation(&operation, &asked).await {
            // It is known no more, or not to us: what is there says it too.
            Err(refused) if matches!(refused.kind, FaultKind::NotFound | FaultKind::Auth) => {
                held(&self.memory).ends(&owner.uid);
                return Ok(None);
            }
            told => told?,
        };
        match operation.status.as_str() {
            "Failed" | "Canceled" => {
                held(&self.memory).ends(&owner.uid);
                Err(answered(&asked, 500, &operation.error, None))
            }
            "Succeeded" if self.calls.now().duration_since(at) >= SETTLE => {
                let why = "it was made, and is not there any more";
                let mend = Some("delete the Machine to have it replaced".to_owned());
                let refused = asked.refused(FaultKind::Gone, ENDED, why);
                Err(Refused { mend, ..refused })
            }
            _ => Ok(Some(begun())),
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
        let is_wanted = matches!(subject.asked, Asked::Pending { .. }) && !subject.is_going;
        let found = match is_wanted {
            // That it is not there proves nothing, and whoever asks for it is refused where it is: no list is worth that.
            true => self.calls.vm(&Kind::Vm.name(owner)).await?,
            false => self.found_vm(owner).await?,
        };
        if let Some(vm) = found.filter(|vm| is_its(owner, subject.instance, vm)) {
            if is_wanted && failure(&vm).is_some() {
                // Nothing was made. Whoever asks for it is told why, and has what is left deleted.
                return Ok(Presence::Absent(Proof::NotSeenYet));
            }
            if is_wanted && is_under_way(&vm) {
                return Ok(Presence::Unknown {
                    why: "its virtual machine is being made, or goes and is asked for after that",
                });
            }
            self.sees(owner);
            return self.present(&vm, owner).await;
        }
        if subject.is_going && self.has_parts(owner).await? {
            // They cost, and are deleted with it.
            return Ok(Presence::Present(Box::default()));
        }
        Ok(self.missed(subject))
    }

    fn sees(&self, owner: &Owner) {
        held(&self.looks).sees(&owner.uid, self.clock.now());
        held(&self.memory).ends(&owner.uid);
    }

    async fn present(&self, vm: &Vm, owner: &Owner) -> Result<Presence, Refused> {
        let addresses = self.addresses_of(vm, owner).await?;
        let description: Description = describe::description(vm, &self.place, addresses);
        Ok(Presence::Present(Box::new(description)))
    }

    /// Its addresses, which are asked for until all are known.
    async fn addresses_of(&self, vm: &Vm, owner: &Owner) -> Result<Vec<MachineAddress>, Refused> {
        let id = &vm.properties.vm_id;
        if let Some(known) = held(&self.memory).addresses(&owner.uid, id) {
            return Ok(known);
        }
        let nic = self.calls.nic(&Kind::Nic.name(owner)).await?;
        let public = match self.place.public_ipv4 {
            true => self.calls.address(&Kind::Address.name(owner)).await?,
            false => None,
        };
        let addresses = describe::addresses(nic.as_ref(), public.as_ref());
        if addresses.len() > usize::from(self.place.public_ipv4) {
            held(&self.memory).has(&owner.uid, id, addresses.clone());
        }
        Ok(addresses)
    }

    /// It was looked for in its resource group, and not found.
    fn missed(&self, subject: &Subject) -> Presence {
        if matches!(subject.asked, Asked::Pending { .. }) && !subject.is_going {
            return Presence::Absent(Proof::NotSeenYet);
        }
        let mut looks = held(&self.looks);
        match looks.misses(subject, self.clock.now()) {
            Some(proof) => {
                looks.forgets(&subject.owner.uid);
                held(&self.memory).forgets(&subject.owner.uid);
                Presence::Absent(proof)
            }
            None => Presence::Unknown {
                why: "Azure does not know its virtual machine, which is looked for again before that is believed",
            },
        }
    }

    /// The virtual machine that bears a Machine's name; where that is not found, by the list, which is another place to
    /// ask.
    async fn found_vm(&self, owner: &Owner) -> Result<Option<Vm>, Refused> {
        let name = Kind::Vm.name(owner);
        if let Some(found) = self.calls.vm(&name).await? {
            return Ok(Some(found));
        }
        let all: Vec<Vm> = self.calls.all(Kind::Vm).await?;
        let mut own = all.into_iter().filter(|vm| is_tagged(owner, &vm.tags));
        Ok(own.next())
    }

    /// Whether something of a Machine is left that its virtual machine had.
    async fn has_parts(&self, owner: &Owner) -> Result<bool, Refused> {
        let nic = self.calls.nic(&Kind::Nic.name(owner)).await?;
        let disk = self.calls.disk(&Kind::Disk.name(owner)).await?;
        let address = self.calls.address(&Kind::Address.name(owner)).await?;
        let tags = [
            nic.map(|nic| nic.tags),
            disk.map(|disk| disk.tags),
            address.map(|address| address.tags),
        ];
        Ok(tags.iter().flatten().any(|tags| is_tagged(owner, tags)))
    }

    /// Asks for everything of a machine to go, and does not wait. `instance`: the one that it was known to have.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete(&self, owner: &Owner, instance: Option<u64>) -> Result<(), Refused> {
        self.account().await?;
        let found = self.found_vm(owner).await?;
        let asked = match found.filter(|found| is_its(owner, instance, found)) {
            Some(vm) => self.delete_vm(owner, &vm).await,
            None => self.delete_parts(owner).await,
        };
        match asked {
            // Something is done to it already, or it is reserved; it is asked for again at the next look.
            Err(refused) if refused.kind == FaultKind::Conflict => Ok(()),
            asked => asked,
        }
    }

    /// Its disk and its interface go with it. That the disk gets its tags Azure does not document, so they are put there
    /// first: what stays behind is known by them.
    pub(crate) async fn delete_vm(&self, owner: &Owner, vm: &Vm) -> Result<(), Refused> {
        if vm.properties.provisioning_state == "Deleting" {
            return Ok(());
        }
        held(&self.memory).forgets(&owner.uid);
        if let Some(name) = &vm.properties.storage_profile.os_disk.name
            && let Some(disk) = self.calls.disk(name).await?
            && !is_tagged(owner, &disk.tags)
        {
            let mut all = disk.tags;
            all.extend(tags::spelled(owner, self.calls.now()));
            self.calls.tag_disk(name, &all).await?;
        }
        self.calls.delete(Kind::Vm, &vm.name).await
    }

    /// What a virtual machine had that is not there: the interface first, since it has the address.
    async fn delete_parts(&self, owner: &Owner) -> Result<(), Refused> {
        let name = Kind::Nic.name(owner);
        if let Some(nic) = self.calls.nic(&name).await?
            && is_tagged(owner, &nic.tags)
            && nic.properties.provisioning_state != "Deleting"
            && nic.properties.virtual_machine.is_none()
        {
            self.calls.delete(Kind::Nic, &name).await?;
        }
        let name = Kind::Disk.name(owner);
        if let Some(disk) = self.calls.disk(&name).await?
            && is_tagged(owner, &disk.tags)
            && disk.managed_by.is_none()
        {
            self.calls.delete(Kind::Disk, &name).await?;
        }
        let name = Kind::Address.name(owner);
        if let Some(address) = self.calls.address(&name).await?
            && is_tagged(owner, &address.tags)
            && address.properties.ip_configuration.is_none()
        {
            self.calls.delete(Kind::Address, &name).await?;
        }
        Ok(())
    }

    /// Starts the machine anew on the disk that it has, and does not wait.
    ///
    /// # Errors
    /// Where that was not taken, or nothing is there.
    pub async fn restart(&self, owner: &Owner) -> Result<(), Refused> {
        self.account().await?;
        let found = self.calls.vm(&Kind::Vm.name(owner)).await?;
        let Some(found) = found.filter(|found| is_its(owner, None, found)) else {
            let asked = asked("restart", format!("virtual machine {}", owner.name()));
            return Err(asked.refused(FaultKind::NotFound, "ResourceNotFound", "it is not there"));
        };
        let view = found.properties.instance_view.as_ref();
        let mut statuses = view.iter().flat_map(|view| &view.statuses);
        let runs = statuses.any(|status| status.code == "PowerState/running");
        let command = if runs { "restart" } else { "start" };
        self.calls.start(&found.name, command).await
    }

    /// Every machine of the installation in a tenant namespace; none: in all of them.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Inventory, Refused> {
        self.account().await?;
        let all: Vec<Vm> = self.calls.all(Kind::Vm).await?;
        let is_its = |vm: &&Vm| {
            let labels = tags::read(&vm.tags);
            let is = |key: &str, value: &str| labels.get(key).is_some_and(|v| v == value);
            is(providers::identity::INSTALLATION, &self.place.installation)
                && namespace.is_none_or(|namespace| is(NAMESPACE, namespace))
        };
        let machines = all.iter().filter(is_its);
        let machines = machines.filter_map(|vm| describe::listed(vm, &self.place));
        let mut machines: Vec<Listed> = machines.collect();
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Inventory {
            machines,
            complete: true,
        })
    }
}

/// That a name is somebody else's.
fn taken(kind: Kind, owner: &Owner) -> Refused {
    let asked = asked("create", format!("{} {}", kind.word(), kind.name(owner)));
    let why = format!("there is another {} of its name", kind.word());
    Refused {
        mend: Some("delete it, or delete the Machine to have it replaced".to_owned()),
        ..asked.refused(FaultKind::Taken, "name_taken", why)
    }
}

/// The resource group has just let us in: it is the image's that does not.
fn no_right_to(image: Refused) -> Refused {
    match image.kind {
        FaultKind::Auth => Refused {
            kind: FaultKind::Terminal,
            mend: Some(
                "assign Covey's role to the principal in the image's resource group, too, or name another image".to_owned(),
            ),
            ..image
        },
        _ => image,
    }
}
