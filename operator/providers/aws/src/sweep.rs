//! Finds what nobody has any more, and deletes it.
//!
//! Invariant: what is deleted is read once more just before, because somebody may have taken it meanwhile.

use std::collections::BTreeSet;

use providers::identity::{INSTALLATION, Labels, Owner};
use providers::leaks::{Kind, Leak, Outcome};
use providers::{Doubt, FaultKind, Refused};

use crate::cloud::{Cloud, by, held};
use crate::leaks::{self, Found};
use crate::plan::is_tagged;
use crate::schema::Part;

impl Cloud {
    /// All that the installation has. Read before the Machines are, so that none of these is newer.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn found(&self) -> Result<Found, Refused> {
        self.account().await?;
        let label = by(INSTALLATION);
        let filters = [(label.as_str(), self.place.installation.as_str())];
        Ok(Found {
            instances: self.calls.instances(&filters).await?,
            volumes: self.calls.volumes(&filters).await?,
            interfaces: self.calls.interfaces(&filters).await?,
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
                    // It is worked on, and is found again.
                    Err(refused) if refused.kind == FaultKind::Conflict => {}
                    removed => removed?,
                }
            }
        }
        Ok(outcome)
    }

    /// Reads it once more, and asks for it to go where it is still its Machine's and free.
    async fn remove(&self, leak: &Leak) -> Result<(), Refused> {
        let Some(uid) = leak.machine_uid.clone() else {
            return Ok(());
        };
        let owner = Owner {
            installation: self.place.installation.clone(),
            uid,
            ..Owner::default()
        };
        let is = |tags: &Labels| is_tagged(&owner, tags);
        let is_free = |all: Vec<Part>| {
            let mut all = all.iter().filter(|part| part.id == leak.name);
            all.any(|part| part.status == "available" && is(&part.tags))
        };
        let id = leak.name.as_str();
        match leak.kind {
            Kind::Server => match self.calls.instance(id).await? {
                Some(found) if is(&found.tags) && found.state != "terminated" => {
                    self.calls.terminate(id).await
                }
                _ => Ok(()),
            },
            Kind::Disk if is_free(self.calls.volumes(&[("volume-id", id)]).await?) => {
                self.calls.delete_volume(id).await
            }
            Kind::Interface => {
                let filters = [("network-interface-id", id)];
                match is_free(self.calls.interfaces(&filters).await?) {
                    true => self.calls.delete_interface(id).await,
                    false => Ok(()),
                }
            }
            // None is made: an address goes with its instance.
            Kind::Disk | Kind::Address | Kind::Volume => Ok(()),
        }
    }
}
