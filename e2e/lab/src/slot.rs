//! Slots: which names and addresses a lab uses, so that labs of several checkouts never meet.
//!
//! Invariant: two live labs never hold the same slot. The claim is a file in the user's cache
//! folder, written under a file lock; it is taken over only from a lab that is provably dead: its owner is,
//! and so are its hosts that are reached by SSH.

pub(crate) mod addresses;
mod routes;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{cache::cache_dir, cgroups::Cgroups, procfs::ProcessId};
pub use addresses::{COUNT, REGISTRY_PORT, Slot};

/// Who holds a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Root of the checkout.
    pub checkout: PathBuf,
    /// The process that keeps the claim alive: the command that is at work on the lab, then a host's first
    /// process.
    pub owner: ProcessId,
}

/// The claims of this user's labs.
#[derive(Debug)]
pub struct Registry {
    folder: PathBuf,
}

impl Registry {
    /// In the user's cache folder.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open() -> Result<Self> {
        Self::at(&cache_dir()?.join("lab-slots"))
    }

    fn at(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be made", folder.display()))?;
        Ok(Self {
            folder: folder.to_path_buf(),
        })
    }

    /// Takes the slot that this checkout has already, or the first free one whose addresses
    /// nobody else on the machine uses.
    ///
    /// # Errors
    /// When none is left; the message says who has each.
    pub fn claim(&self, checkout: &Path, owner: &ProcessId) -> Result<Slot> {
        let used = routes::used_networks()?;
        self.claim_beside(checkout, owner, |slot| {
            routes::conflict(slot, &used).or_else(|| self.lives(slot, checkout))
        })
    }

    fn lives(&self, slot: Slot, checkout: &Path) -> Option<String> {
        let has = |groups: Result<Cgroups>| groups.is_ok_and(|g| !g.processes().is_empty());
        let number = slot.number();
        inhabited(
            self.read(slot).as_ref(),
            checkout,
            || has(Cgroups::of_slot(number)),
            || has(Cgroups::of_hosts(number)),
        )
    }

    fn claim_beside(
        &self,
        checkout: &Path,
        owner: &ProcessId,
        conflict: impl Fn(Slot) -> Option<String>,
    ) -> Result<Slot> {
        let _lock = self.lock()?;
        let mut slots: Vec<Slot> = Slot::all().collect();
        // Its own first: addresses stay the same from one lab to the next where possible.
        slots.sort_by_key(|slot| {
            self.read(*slot)
                .is_none_or(|claim| claim.checkout != checkout)
        });
        let mut reasons = Vec::new();
        for slot in slots {
            if let Some(claim) = self.read(slot)
                && claim.checkout != checkout
                && claim.owner.is_alive()
            {
                reasons.push(format!(
                    "slot {slot} belongs to {}",
                    claim.checkout.display()
                ));
                continue;
            }
            if let Some(reason) = conflict(slot) {
                reasons.push(format!("slot {slot}: {reason}"));
                continue;
            }
            self.write(
                slot,
                &Claim {
                    checkout: checkout.to_path_buf(),
                    owner: owner.clone(),
                },
            )?;
            return Ok(slot);
        }
        bail!(
            "no slot for a lab is free ({}): take one of them down",
            reasons.join("; ")
        )
    }

    /// Hands a claim over to another process of the same lab.
    ///
    /// # Errors
    /// When the slot is another checkout's by now, or the claim cannot be written.
    pub fn hand_over(&self, slot: Slot, checkout: &Path, owner: &ProcessId) -> Result<()> {
        let _lock = self.lock()?;
        if self.is_foreign(slot, checkout) {
            let holder = self.holder(slot).unwrap_or_default();
            bail!("slot {slot} belongs to {} by now", holder.display())
        }
        self.write(
            slot,
            &Claim {
                checkout: checkout.to_path_buf(),
                owner: owner.clone(),
            },
        )
    }

    /// Gives up every slot of this checkout.
    ///
    /// # Errors
    /// When a claim cannot be removed.
    pub fn release(&self, checkout: &Path) -> Result<()> {
        let _lock = self.lock()?;
        for slot in self.of_checkout(checkout) {
            let file = self.file(slot);
            fs::remove_file(&file)
                .with_context(|| format!("{}: cannot be removed", file.display()))?;
        }
        Ok(())
    }

    /// The slots that this checkout holds, dead or alive.
    #[must_use]
    pub fn of_checkout(&self, checkout: &Path) -> Vec<Slot> {
        Slot::all()
            .filter(|slot| {
                self.read(*slot)
                    .is_some_and(|claim| claim.checkout == checkout)
            })
            .collect()
    }

    /// The checkout that holds `slot`, dead or alive.
    #[must_use]
    pub fn holder(&self, slot: Slot) -> Option<PathBuf> {
        self.read(slot).map(|claim| claim.checkout)
    }

    /// Whether another checkout holds `slot`, dead or alive: nothing in it is this one's.
    #[must_use]
    pub fn is_foreign(&self, slot: Slot, checkout: &Path) -> bool {
        self.holder(slot).is_some_and(|holder| holder != checkout)
    }

    fn file(&self, slot: Slot) -> PathBuf {
        self.folder.join(format!("{slot}.json"))
    }

    fn read(&self, slot: Slot) -> Option<Claim> {
        serde_json::from_slice(&fs::read(self.file(slot)).ok()?).ok()
    }

    fn write(&self, slot: Slot, claim: &Claim) -> Result<()> {
        let file = self.file(slot);
        fs::write(&file, serde_json::to_vec(claim)?)
            .with_context(|| format!("{}: cannot be written", file.display()))
    }

    /// Held until the returned file is dropped.
    fn lock(&self) -> Result<File> {
        let path = self.folder.join("lock");
        let file =
            File::create(&path).with_context(|| format!("{}: cannot be opened", path.display()))?;
        file.lock()
            .with_context(|| format!("{}: cannot be locked", path.display()))?;
        Ok(file)
    }
}

/// Why a slot that nobody alive has claimed is not free: processes in its control groups, of anybody or of
/// hosts that are reached by SSH.
fn inhabited(
    claim: Option<&Claim>,
    checkout: &Path,
    has_processes: impl Fn() -> bool,
    has_hosts: impl Fn() -> bool,
) -> Option<String> {
    match claim {
        // Its claim is in the cache folder of somebody else: another user's, or one with another
        // `XDG_CACHE_HOME`. A dead lab of this user has a claim here.
        None => has_processes()
            .then(|| "processes are in its control group, of a lab with another cache".to_owned()),
        // The owner is one host of several, and the others may outlive it.
        Some(claim) if claim.checkout != checkout => {
            has_hosts().then(|| format!("hosts of {} live in it", claim.checkout.display()))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
