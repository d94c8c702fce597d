//! Finds what nobody has any more, and deletes it.
//!
//! Invariant: what is deleted is read once more just before, because somebody may have taken it meanwhile.

use std::collections::BTreeSet;

use providers::identity::{Labels, Owner};
use providers::leaks::{Kind as Leaked, Leak, Outcome};
use providers::{Doubt, FaultKind, Refused};

use crate::cloud::{Cloud, held};
use crate::leaks::{self, Found};
use crate::plan::is_tagged;
use crate::schema::number;
use crate::settings::Kind;

impl Cloud {
    /// All that there is in the resource group. Read before the Machines are, so that none of these is newer.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn found(&self) -> Result<Found, Refused> {
        self.account().await?;
        Ok(Found {
            vms: self.calls.all(Kind::Vm).await?,
            nics: self.calls.all(Kind::Nic).await?,
            disks: self.calls.all(Kind::Disk).await?,
            addresses: self.calls.all(Kind::Address).await?,
        })
    }

    /// Deletes what nobody has any more. `machines`: UIDs of all Machines, read after `found`; `doubts`: of which times it
    /// is not known who made what.
    ///
    /// # Errors
    /// Where a deletion was not taken; the others are asked for at the next look.
    pub async fn sweep(
        &self,
        found: &Found,
        machines: &BTreeSet<String>,
        doubts: &[Doubt],
    ) -> Result<Outcome, Refused> {
        let now = self.calls.now();
        let installation = &self.place.installation;
        let outcome = {
            let mut suspects = held(&self.suspects);
            leaks::leaks(found, installation, machines, doubts, &mut suspects, now)
        };
        for key in &outcome.delete {
            let leak = outcome.leaks.iter().find(|l| (l.kind, l.id) == *key);
            if let Some(leak) = leak {
                match self.remove(leak).await {
                    // It is reserved or worked on, and is found again.
                    Err(refused) if refused.kind == FaultKind::Conflict => {}
                    removed => removed?,
                }
            }
        }
        Ok(outcome)
    }

    /// Reads it once more, and asks for it to go where it is still the same thing and free.
    async fn remove(&self, leak: &Leak) -> Result<(), Refused> {
        let Some(uid) = leak.machine_uid.clone() else {
            return Ok(());
        };
        let owner = Owner {
            installation: self.place.installation.clone(),
            uid,
            ..Owner::default()
        };
        let is =
            |guid: &str, tags: &Labels| number(guid) == Some(leak.id) && is_tagged(&owner, tags);
        let name = leak.name.as_str();
        let (kind, is_free) = match leak.kind {
            Leaked::Server => {
                let found = self.calls.vm(name).await?;
                return match found.filter(|vm| is(&vm.properties.vm_id, &vm.tags)) {
                    Some(vm) => self.delete_vm(&owner, &vm).await,
                    None => Ok(()),
                };
            }
            Leaked::Interface => {
                let found = self.calls.nic(name).await?;
                let is_free = found.is_some_and(|nic| {
                    let of_it = &nic.properties;
                    is(&of_it.resource_guid, &nic.tags) && of_it.virtual_machine.is_none()
                });
                (Kind::Nic, is_free)
            }
            Leaked::Disk => {
                let found = self.calls.disk(name).await?;
                let is_free = found.is_some_and(|disk| {
                    is(&disk.properties.unique_id, &disk.tags) && disk.managed_by.is_none()
                });
                (Kind::Disk, is_free)
            }
            Leaked::Address => {
                let found = self.calls.address(name).await?;
                let is_free = found.is_some_and(|address| {
                    let of_it = &address.properties;
                    is(&of_it.resource_guid, &address.tags) && of_it.ip_configuration.is_none()
                });
                (Kind::Address, is_free)
            }
            Leaked::Volume => return Ok(()),
        };
        match is_free {
            true => self.calls.delete(kind, name).await,
            false => Ok(()),
        }
    }
}
