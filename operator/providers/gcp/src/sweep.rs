//! Finds what nobody has any more, and deletes it.
//!
//! Invariant: what is deleted is read once more just before, because somebody may have taken it meanwhile.

use std::collections::BTreeSet;

use providers::identity::Owner;
use providers::leaks::{Kind, Leak, Outcome};
use providers::{Doubt, Refused};

use crate::cloud::{Cloud, held};
use crate::labels::{of_installation, of_machine};
use crate::leaks::{self, Found};
use crate::plan::is_its;

impl Cloud {
    /// All that the installation has in the zone, and in its region. Read before the Machines are, so that none of these is
    /// newer.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn found(&self) -> Result<Found, Refused> {
        self.account().await?;
        let filter = of_installation(&self.project.installation);
        Ok(Found {
            instances: self.calls.instances(&filter).await?,
            disks: self.calls.disks(&filter).await?,
            addresses: self.calls.addresses(&filter).await?,
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
        let outcome = leaks::leaks(found, machines, doubts, &mut held(&self.suspects), now);
        for key in &outcome.delete {
            let leak = outcome.leaks.iter().find(|l| (l.kind, l.id) == *key);
            if let Some(leak) = leak {
                self.remove(leak).await?;
            }
        }
        Ok(outcome)
    }

    /// Reads it once more, and asks for it to go where it is still the same thing.
    async fn remove(&self, leak: &Leak) -> Result<(), Refused> {
        let Some(uid) = leak.machine_uid.clone() else {
            return Ok(());
        };
        let owner = Owner {
            installation: self.project.installation.clone(),
            uid,
            ..Owner::default()
        };
        let is = |id: &str| id.parse().ok() == Some(leak.id);
        match leak.kind {
            Kind::Server => {
                let found = self.calls.instance(&leak.name).await?;
                match found.filter(|i| is(&i.id) && is_its(&owner, None, i)) {
                    Some(_) => self.calls.delete_instance(&leak.name).await,
                    None => Ok(()),
                }
            }
            Kind::Disk => {
                let disks = self.calls.disks(&of_machine(&owner)).await?;
                match disks.iter().any(|d| is(&d.id) && d.users.is_empty()) {
                    true => self.calls.delete_disk(&leak.name).await,
                    false => Ok(()),
                }
            }
            Kind::Address => {
                let addresses = self.calls.addresses(&of_machine(&owner)).await?;
                match addresses.iter().any(|a| is(&a.id) && a.users.is_empty()) {
                    true => self.calls.delete_address(&leak.name).await,
                    false => Ok(()),
                }
            }
            Kind::Interface | Kind::Volume => Ok(()),
        }
    }
}
