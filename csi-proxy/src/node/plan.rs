//! Plan of a call on a node: its next step. After each step everything is observed again, so a call
//! that was broken off anywhere is taken up by the next one.
//!
//! Invariant: pure and total; a device is formatted only when it was seen to be empty twice; nothing
//! is ever removed but an empty folder or an empty file; and a volume is said to be unstaged only when
//! nothing on the node uses its disk.

use std::path::{Path, PathBuf};

use super::mounts::{Mount, Number, top};
use super::superblock::{Content, Filesystem};
use crate::status::Status;

/// A disk of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its name, for example `sdb`.
    pub name: String,
    /// Its numbers.
    pub number: Number,
    /// Bytes that it has.
    pub bytes: u64,
    /// It can only be read.
    pub read_only: bool,
}

/// What is at a path, links not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Nothing.
    #[default]
    Nothing,
    /// A folder.
    Folder,
    /// A file with nothing in it.
    File,
    /// A block device.
    Device(Number),
    /// Something else.
    Other,
}

/// How a volume is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As a device.
    Block,
    /// With this filesystem, or whatever is there, ext4 when nothing is.
    Mount(Option<Filesystem>),
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes down which disk the volume has.
    Remember,
    /// Makes a filesystem on an empty disk.
    Format(Filesystem),
    /// Repairs what can be repaired without asking.
    Check(Filesystem),
    /// Mounts the disk at the staging path.
    Mount(Filesystem, ReadOnly),
    /// Lets the filesystem that is mounted there have the whole disk.
    Grow(Filesystem, PathBuf),
    /// Makes one folder.
    MakeFolder(PathBuf),
    /// Makes one empty file.
    MakeFile(PathBuf),
    /// Shows what is staged at the first path at the second, too.
    Bind(PathBuf, PathBuf),
    /// Shows the disk's device there.
    BindDisk(PathBuf),
    /// Lets what is mounted there be read only.
    MakeReadOnly(PathBuf),
    /// Unmounts the last thing that was mounted there.
    Unmount(PathBuf),
    /// Removes an empty folder.
    RemoveFolder(PathBuf),
    /// Removes an empty file.
    RemoveFile(PathBuf),
    /// Strikes out which disk the volume had.
    Forget,
}

/// Whether something can only be read.
pub type ReadOnly = bool;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The disk has to be probed.
    Probe,
    /// This.
    Do(Action),
    /// Nothing: it is as it should be.
    Done,
}

/// NodeStageVolume.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// Where.
    pub path: &'a Path,
    /// How.
    pub access: Access,
    /// Whether it is to be read only.
    pub read_only: ReadOnly,
    /// The volume's disk.
    pub disk: &'a Disk,
    /// What is mounted.
    pub mounts: &'a [Mount],
    /// What is mounted there is of a disk that is gone.
    pub stale: bool,
    /// Which disk it has is written down.
    pub remembered: bool,
    /// What two probes of the disk told, if there were any.
    pub probes: Option<[Content; 2]>,
    /// This call has repaired it.
    pub checked: bool,
    /// This call has let it grow.
    pub grown: bool,
}

/// The next step of NodeStageVolume.
///
/// # Errors
/// When something else is mounted there, or the disk holds something else.
pub fn stage(call: &Stage<'_>) -> Result<Step, Status> {
    let Stage { path, disk, .. } = call;
    if !call.remembered {
        return Ok(Step::Do(Action::Remember));
    }
    let Access::Mount(wanted) = call.access else {
        // A device is published as it is.
        return Ok(Step::Done);
    };
    let read_only = call.read_only || disk.read_only;
    let mounted = top(call.mounts, path);
    if let Some(mount) = mounted.filter(|mount| mount.number != disk.number) {
        if !call.stale {
            return Err(occupied(path, mount));
        }
        // The disk came back under another number.
        let used = |other: &&Mount| other.number == mount.number && other.point != *path;
        if let Some(other) = call.mounts.iter().find(used) {
            return Err(Status::failed_precondition(format!(
                "the disk of the volume went and came back, and {} shows the one that is gone; \
                 delete the pod that uses it",
                other.point.display()
            )));
        }
        return Ok(Step::Do(Action::Unmount(path.to_path_buf())));
    }
    if let Some(mount) = mounted {
        if mount.read_only != read_only {
            return Err(Status::already_exists(format!(
                "the volume is staged at {} already, for {}; unstage it first",
                path.display(),
                if mount.read_only {
                    "reading alone"
                } else {
                    "writing"
                },
            )));
        }
        let Some(filesystem) = Filesystem::named(&mount.kind) else {
            return Err(occupied(path, mount));
        };
        if read_only || call.grown {
            return Ok(Step::Done);
        }
        let Some([_, found]) = call.probes else {
            return Ok(Step::Probe);
        };
        // A volume that was made larger while it was nowhere, or of a smaller snapshot.
        let smaller = matches!(found, Content::Filesystem(_, bytes) if bytes < disk.bytes);
        return Ok(match smaller {
            true => Step::Do(Action::Grow(filesystem, path.to_path_buf())),
            false => Step::Done,
        });
    }
    let Some([first, second]) = call.probes else {
        return Ok(Step::Probe);
    };
    if first != second {
        return Err(Status::unavailable(format!(
            "disk {} shows {first:?} at first and {second:?} then; it is not touched, try again",
            disk.name
        )));
    }
    let found = match first {
        Content::Empty if read_only => {
            return Err(Status::failed_precondition(format!(
                "disk {} is empty and can only be read, so there is nothing to mount; use the \
                 volume for writing first",
                disk.name
            )));
        }
        Content::Empty => {
            if let Some(mount) = call.mounts.iter().find(|mount| shows(mount, disk)) {
                return Err(Status::failed_precondition(format!(
                    "disk {} is in use at {}, so it is not formatted",
                    disk.name,
                    mount.point.display()
                )));
            }
            let filesystem = wanted.unwrap_or(Filesystem::Ext4);
            return Ok(Step::Do(Action::Format(filesystem)));
        }
        Content::Filesystem(found, _) => found,
        Content::Foreign(what) => return Err(not_ours(disk, what)),
        Content::Unknown => return Err(not_ours(disk, "something unknown")),
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        return Err(Status::failed_precondition(format!(
            "the volume has a filesystem {} and {} is asked for; it is not made anew, correct \
             csi.storage.k8s.io/fstype of the StorageClass",
            found.name(),
            wanted.name()
        )));
    }
    Ok(Step::Do(match call.checked || read_only {
        true => Action::Mount(found, read_only),
        false => Action::Check(found),
    }))
}

fn not_ours(disk: &Disk, what: &str) -> Status {
    Status::failed_precondition(format!(
        "disk {} holds {what}, which is not a filesystem that can be mounted here; it is not \
         formatted. Use the volume with volumeMode Block to see what it is, or another volume",
        disk.name
    ))
}

fn occupied(path: &Path, mount: &Mount) -> Status {
    let (major, minor) = mount.number;
    Status::failed_precondition(format!(
        "something else is mounted at {}: {} of device {major}:{minor}; unmount it",
        path.display(),
        mount.kind
    ))
}

/// NodeUnstageVolume.
#[derive(Clone, Copy, Debug)]
pub struct Unstage<'a> {
    /// Where.
    pub path: &'a Path,
    /// What is mounted.
    pub mounts: &'a [Mount],
    /// Which disk it has is written down.
    pub remembered: bool,
    /// That disk, if there is one.
    pub disk: Option<&'a Disk>,
    /// Whether something uses the disk; none when nobody asked.
    pub busy: Option<bool>,
}

/// The next step of NodeUnstageVolume.
///
/// # Errors
/// When something on the node still uses the disk.
pub fn unstage(call: &Unstage<'_>) -> Result<Step, Status> {
    // Of whatever disk it is: one that went and came back has another number.
    let staged = top(call.mounts, call.path);
    let used = |mount: &&Mount| {
        mount.point != call.path
            && (staged.is_some_and(|staged| staged.number == mount.number)
                || call.disk.is_some_and(|disk| shows(mount, disk)))
    };
    if let Some(mount) = call.mounts.iter().find(used) {
        return Err(Status::failed_precondition(format!(
            "the volume is in use at {}; it can be unstaged once that is unmounted",
            mount.point.display()
        )));
    }
    if staged.is_some() {
        return Ok(Step::Do(Action::Unmount(call.path.to_path_buf())));
    }
    match (call.remembered, call.disk, call.busy) {
        (false, ..) => Ok(Step::Done),
        (true, Some(_), None) => Ok(Step::Probe),
        (true, Some(disk), Some(true)) => Err(Status::failed_precondition(format!(
            "disk {} is unmounted here and still in use, by a mount in another namespace or by a \
             device above it; look for it with: grep {}:{} /proc/*/mountinfo",
            disk.name, disk.number.0, disk.number.1
        ))),
        (true, ..) => Ok(Step::Do(Action::Forget)),
    }
}

/// What is wrong with a staged volume as far as the kernel shows: a word for programs, and a sentence.
/// `mounted` is the device whose filesystem is at the staging path, if there is one.
#[must_use]
pub fn health(
    disk: Option<&Disk>,
    mounted: Option<Number>,
) -> Option<(&'static str, &'static str)> {
    match (disk, mounted) {
        (None, _) => Some((
            "DiskGone",
            "the machine has lost the disk of this volume; it comes back when the platform attaches it \
             again, and then the pods that use it have to be deleted",
        )),
        (Some(disk), Some(number)) if disk.number != number => Some((
            "DiskReplaced",
            "the disk of this volume went and came back, and what is mounted is the one that is gone; \
             delete the pods that use it",
        )),
        (Some(_), _) => None,
    }
}

/// Whether a mount shows a disk: its filesystem, or the device itself.
fn shows(mount: &Mount, disk: &Disk) -> bool {
    mount.number == disk.number || is_device(mount, disk)
}

/// Devices that are bound somewhere come from the filesystem of devices.
fn is_device(mount: &Mount, disk: &Disk) -> bool {
    mount.kind == "devtmpfs" && mount.root == Path::new("/").join(&disk.name)
}

/// NodePublishVolume.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Where it is staged.
    pub staging: &'a Path,
    /// Where it is to be.
    pub target: &'a Path,
    /// How.
    pub access: Access,
    /// Whether it is to be read only.
    pub read_only: ReadOnly,
    /// Whether it may be in one place alone (SINGLE_NODE_SINGLE_WRITER).
    pub alone: bool,
    /// The volume's disk.
    pub disk: &'a Disk,
    /// What is mounted.
    pub mounts: &'a [Mount],
    /// What is at the target.
    pub place: Place,
}

/// The next step of NodePublishVolume.
///
/// # Errors
/// When it is not staged, or something else is there.
pub fn publish(call: &Publish<'_>) -> Result<Step, Status> {
    let Publish {
        staging,
        target,
        disk,
        mounts,
        ..
    } = call;
    let block = call.access == Access::Block;
    let staged = top(mounts, staging).filter(|mount| mount.number == disk.number);
    if !block && staged.is_none() {
        return Err(Status::failed_precondition(format!(
            "the volume is not staged at {}; stage it first",
            staging.display()
        )));
    }
    if let Some(mount) = top(mounts, target) {
        let same = match block {
            true => call.place == Place::Device(disk.number),
            false => mount.number == disk.number,
        };
        if !same {
            return Err(occupied(target, mount));
        }
        if call.read_only && !mount.read_only {
            return Ok(Step::Do(Action::MakeReadOnly(target.to_path_buf())));
        }
        if !call.read_only && mount.read_only && staged.is_none_or(|staged| !staged.read_only) {
            return Err(Status::already_exists(format!(
                "the volume is published at {} already, for reading alone; unpublish it first",
                target.display()
            )));
        }
        return Ok(Step::Done);
    }
    let elsewhere = |mount: &&Mount| {
        let shown = match block {
            true => is_device(mount, disk),
            false => mount.number == disk.number,
        };
        shown && mount.point != *staging
    };
    if let Some(other) = mounts.iter().find(elsewhere).filter(|_| call.alone) {
        return Err(Status::failed_precondition(format!(
            "the volume is for one pod alone (ReadWriteOncePod), and is at {}; it is free once \
             that pod is gone",
            other.point.display()
        )));
    }
    Ok(Step::Do(match (block, call.place) {
        (true, Place::Nothing) => Action::MakeFile(target.to_path_buf()),
        (true, Place::File) => Action::BindDisk(target.to_path_buf()),
        (false, Place::Nothing) => Action::MakeFolder(target.to_path_buf()),
        (false, Place::Folder) => Action::Bind(staging.to_path_buf(), target.to_path_buf()),
        (_, place) => {
            return Err(Status::failed_precondition(format!(
                "{place:?} is in the way at {}; remove it",
                target.display()
            )));
        }
    }))
}

/// The next step of NodeUnpublishVolume.
///
/// # Errors
/// When something that nobody published is there.
pub fn unpublish(target: &Path, mounts: &[Mount], place: Place) -> Result<Step, Status> {
    let target = target.to_path_buf();
    if top(mounts, &target).is_some() {
        return Ok(Step::Do(Action::Unmount(target)));
    }
    Ok(match place {
        Place::Nothing => Step::Done,
        Place::Folder => Step::Do(Action::RemoveFolder(target)),
        Place::File => Step::Do(Action::RemoveFile(target)),
        Place::Device(_) | Place::Other => {
            return Err(Status::failed_precondition(format!(
                "{} was not made by this driver; look what it is and remove it",
                target.display()
            )));
        }
    })
}

#[cfg(test)]
mod tests;
