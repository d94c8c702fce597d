//! Finds what nobody has any more, and deletes it.
//!
//! Invariant: what is deleted is read once more just before, because somebody may have taken it meanwhile.

use std::collections::BTreeSet;

use providers::identity::{Owner, of_installation};
use providers::leaks::{Kind, Outcome};
use providers::{Doubt, Refused};

use crate::cloud::{Cloud, held};
use crate::leaks::{self, Found};
use crate::schema::PrimaryIp;

impl Cloud {
    /// All that the installation has in the project. Read before the Machines are, so that none of these is newer.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn found(&self) -> Result<Found, Refused> {
        self.account().await?;
        let selector = of_installation(&self.project.installation);
        Ok(Found {
            servers: self.calls.servers(&selector).await?.whole()?,
            addresses: self.calls.primary_ips(&selector).await?.whole()?,
            volumes: self.calls.volumes(&selector).await?.whole()?,
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
        let now = self.clock.now();
        let outcome = leaks::leaks(found, machines, doubts, &mut held(&self.suspects), now);
        for (kind, id) in &outcome.delete {
            let leak = outcome
                .leaks
                .iter()
                .find(|l| (l.kind, l.id) == (*kind, *id));
            let Some(uid) = leak.and_then(|leak| leak.machine_uid.clone()) else {
                continue;
            };
            let owner = Owner {
                installation: self.project.installation.clone(),
                uid,
                ..Owner::default()
            };
            // Read once more: somebody may have taken it meanwhile.
            match kind {
                Kind::Server => {
                    let servers = self.servers_of(&owner).await?;
                    if servers.iter().any(|server| server.id == *id) {
                        self.calls.delete_server(*id).await?;
                    }
                }
                Kind::Address => {
                    let addresses = self.addresses_of(&owner).await?;
                    let free = |a: &PrimaryIp| a.id == *id && a.assignee_id.is_none();
                    if addresses.iter().any(free) {
                        self.calls.delete_primary_ip(*id).await?;
                    }
                }
                Kind::Disk | Kind::Interface | Kind::Volume => {}
            }
        }
        Ok(outcome)
    }
}
