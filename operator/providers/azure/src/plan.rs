//! The next call of a creation. Pure: no I/O, no clock, no chance.
//!
//! A public address, an interface and a virtual machine are put one after the other, each under the Machine's own name and
//! read back before the next. The machine is put with `If-None-Match: *`, so that of two who ask at once one is refused.
//! One that failed stays there as a thing: it is deleted, and why it failed is told. What it leaves of its disk goes before
//! the next one is put.
//!
//! Invariant: nothing is put where something of somebody else's bears the name, or while what is there is worked on;
//! planning again after a call gives the next one, or none, and never another machine beside one that is there.

use jiff::Timestamp;
use providers::absence::SETTLE;
use providers::identity::{Labels, Owner};

use crate::refusal::FAILED;
use crate::schema::{Address, Disk, Fault, Nic, Vm, number};
use crate::settings::{Kind, Place, USER_DATA_LIMIT, Wanted};
use providers::tags;

/// What there is of one Machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// The virtual machine that bears its name.
    pub vm: Option<Vm>,
    /// The interface that does.
    pub nic: Option<Nic>,
    /// The public address that does.
    pub address: Option<Address>,
}

/// The next step of a creation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Creation {
    /// Put this.
    Put(Kind),
    /// It is there.
    There(Box<Vm>),
    /// Something of it is being made, or goes.
    Wait,
    /// It was asked for, and could not be made: what is left of it is to be deleted.
    Failed(Fault),
    /// A name is somebody else's.
    Taken(Kind),
    /// It cannot be made as it is.
    Impossible(String),
}

/// Whether a virtual machine is a Machine's: by its tags, or where somebody took them off by the ID that it was known to
/// have.
#[must_use]
pub fn is_its(owner: &Owner, known: Option<u64>, vm: &Vm) -> bool {
    let has_none = !vm.tags.keys().any(|name| is_ours(name));
    let is_known = known.is_some() && number(&vm.properties.vm_id) == known;
    is_tagged(owner, &vm.tags) || (is_known && has_none)
}

/// Whether something is a Machine's by its tags.
#[must_use]
pub fn is_tagged(owner: &Owner, came: &Labels) -> bool {
    owner.has(&tags::read(came))
}

fn is_ours(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("covey-")
}

/// Why a virtual machine could not be made; none where it was, or is being made. One that runs was made, whatever failed
/// since.
#[must_use]
pub fn failure(vm: &Vm) -> Option<Fault> {
    let view = vm.properties.instance_view.as_ref();
    let statuses = || view.iter().flat_map(|view| &view.statuses);
    let has_power = statuses().any(|status| status.code.starts_with("PowerState/"));
    if vm.properties.provisioning_state != "Failed" || has_power {
        return None;
    }
    let failed = statuses().find_map(|status| {
        let code = status.code.strip_prefix("ProvisioningState/failed/")?;
        let message = status.message.clone().unwrap_or_default();
        Some((code.to_owned(), message))
    });
    let (code, message) = failed.unwrap_or_else(|| (FAILED.to_owned(), String::new()));
    Some(Fault { code, message })
}

/// Whether a virtual machine goes, or is being made and may still fail for want of room: it counts as made once it runs,
/// so that whoever asks for it is told if not.
#[must_use]
pub fn is_under_way(vm: &Vm) -> bool {
    let view = vm.properties.instance_view.as_ref();
    let mut statuses = view.iter().flat_map(|view| &view.statuses);
    let runs = statuses.any(|status| status.code == "PowerState/running");
    match vm.properties.provisioning_state.as_str() {
        "Deleting" => true,
        "Creating" => !runs,
        _ => false,
    }
}

/// The next step towards a virtual machine, after what was seen.
#[must_use]
pub fn creation(wanted: &Wanted, place: &Place, seen: &Seen) -> Creation {
    let owner = &wanted.owner;
    if let Some(vm) = &seen.vm {
        return match (is_its(owner, None, vm), failure(vm)) {
            (false, _) => Creation::Taken(Kind::Vm),
            (true, Some(fault)) => Creation::Failed(fault),
            (true, None) if is_under_way(vm) => Creation::Wait,
            (true, None) => Creation::There(Box::new(vm.clone())),
        };
    }
    if let Some(why) = impossible(wanted, place) {
        return Creation::Impossible(why);
    }
    if place.public_ipv4 {
        let address = seen.address.as_ref();
        let of = address.map(|a| (&a.tags, a.properties.provisioning_state.as_str()));
        if let Some(step) = part(owner, Kind::Address, of) {
            return step;
        }
    }
    let nic = seen.nic.as_ref();
    let of = nic.map(|nic| (&nic.tags, nic.properties.provisioning_state.as_str()));
    part(owner, Kind::Nic, of).unwrap_or(Creation::Put(Kind::Vm))
}

/// The next step towards something that a virtual machine needs; none where it is there.
fn part(owner: &Owner, kind: Kind, there: Option<(&Labels, &str)>) -> Option<Creation> {
    match there {
        None => Some(Creation::Put(kind)),
        Some((tags, _)) if !is_tagged(owner, tags) => Some(Creation::Taken(kind)),
        Some((_, "Succeeded")) => None,
        // The same put again mends it.
        Some((_, "Failed")) => Some(Creation::Put(kind)),
        Some(_) => Some(Creation::Wait),
    }
}

/// What a disk is that bears the name of the one which is made with a virtual machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leftover {
    /// There is none, or it has its machine.
    Nothing,
    /// One was left, and is to be deleted: Azure makes no other under its name.
    Delete,
    /// It goes, or it may be of a machine that is being made.
    Wait,
    /// It is somebody else's.
    Taken,
}

/// What is left under the name of a Machine's disk, where no virtual machine of its is found. `now`: by Azure's clock.
#[must_use]
pub fn leftover(owner: &Owner, disk: Option<&Disk>, now: Timestamp) -> Leftover {
    let Some(disk) = disk else {
        return Leftover::Nothing;
    };
    let user = disk.managed_by.as_deref().unwrap_or_default();
    if let Some(user) = user.rsplit('/').next().filter(|user| !user.is_empty()) {
        return match user.eq_ignore_ascii_case(&Kind::Vm.name(owner)) {
            true => Leftover::Nothing,
            false => Leftover::Taken,
        };
    }
    if !is_tagged(owner, &disk.tags) {
        return Leftover::Taken;
    }
    let created = disk.properties.time_created.as_deref();
    let created = created.and_then(|created| created.parse::<Timestamp>().ok());
    let is_settled = created.is_some_and(|created| now.duration_since(created) >= SETTLE);
    match disk.properties.provisioning_state.as_str() {
        "Deleting" => Leftover::Wait,
        _ if is_settled => Leftover::Delete,
        _ => Leftover::Wait,
    }
}

/// Why it cannot be made, which would only be found out by asking; none where it can.
fn impossible(wanted: &Wanted, place: &Place) -> Option<String> {
    let size = wanted.user_data.len();
    if size > USER_DATA_LIMIT {
        return Some(format!(
            "its user data have {size} bytes and may have {USER_DATA_LIMIT}: give the node pool fewer labels, taints \
             and SSH keys"
        ));
    }
    if place.ssh_key.trim().is_empty() {
        return Some(
            "no public key of SSH is named, and Azure makes no machine without: name one as spec.azure.sshKey of the \
             ProviderConfig"
                .to_owned(),
        );
    }
    if !is_image(&wanted.image) {
        return Some(format!(
            "{} is no image: name one as /subscriptions/…/images/NAME/versions/VERSION or /subscriptions/…/images/NAME, \
             and not latest, which changes",
            wanted.image
        ));
    }
    wanted.owner.unusable()
}

/// A version of an image of a gallery, or a managed image.
#[must_use]
pub fn is_image(text: &str) -> bool {
    let parts: Vec<_> = text.split('/').collect();
    let has_all = parts.iter().skip(1).all(|part| !part.is_empty());
    let is = match parts.as_slice() {
        [
            "",
            "subscriptions",
            _,
            "resourceGroups",
            _,
            "providers",
            "Microsoft.Compute",
            "images",
            _,
        ] => true,
        [
            "",
            "subscriptions",
            _,
            "resourceGroups",
            _,
            "providers",
            "Microsoft.Compute",
            "galleries",
            _,
            "images",
            _,
            "versions",
            version,
        ] => !version.eq_ignore_ascii_case("latest"),
        _ => false,
    };
    is && has_all
}

#[cfg(test)]
mod tests;
