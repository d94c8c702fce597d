//! Calls of the service Node: each observes what there is, has the next step planned, does it, and
//! observes again.
//!
//! Invariant: what was told of a disk is forgotten after anything was done to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proto::csi::volume_capability::AccessType;
use proto::csi::volume_capability::access_mode::Mode;
use proto::csi::volume_health::VolumeHealthEntry;
use proto::csi::volume_usage::Unit;
use proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeHealthRequest,
    NodeGetVolumeHealthResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, VolumeCapability, VolumeHealth,
    VolumeHealthErrorType, VolumeUsage,
};

use crate::names;
use crate::node::host::{Host, Scene};
use crate::node::mounts::{self, Flag, Options, top};
use crate::node::plan::{self, Access, Action, Disk, Place, Step};
use crate::node::superblock::Filesystem;
use crate::status::Status;

/// How often it is asked for a disk that is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// More steps than any call has.
const MOST_STEPS: usize = 16;

/// What a call works with.
pub(super) struct Node {
    pub(super) host: Host,
    /// How long it waits.
    pub(super) patience: Duration,
}

/// How a volume is to be used.
struct Use {
    access: Access,
    options: Options,
    read_only: bool,
    alone: bool,
}

impl Use {
    fn read(capability: Option<&VolumeCapability>) -> Result<Self, Status> {
        let missing =
            || Status::invalid_argument("say how the volume is to be used: volume_capability");
        let capability = capability.ok_or_else(missing)?;
        let mode = capability.access_mode.as_ref().map(|mode| mode.mode());
        let (access, options) = match capability.access_type.as_ref().ok_or_else(missing)? {
            AccessType::Block(_) => (Access::Block, Options::default()),
            AccessType::Mount(mount) => {
                let name = mount.fs_type.as_str();
                let filesystem = Filesystem::named(name);
                if filesystem.is_none() && !name.is_empty() {
                    return Err(Status::invalid_argument(format!(
                        "nodes cannot make a filesystem {name}; set csi.storage.k8s.io/fstype to \
                         ext4 or xfs"
                    )));
                }
                let flags = mount.mount_flags.iter().map(String::as_str);
                (Access::Mount(filesystem), mounts::options(flags))
            }
        };
        let reads = matches!(
            mode,
            Some(Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
        );
        Ok(Self {
            access,
            read_only: reads || options.flags.contains(&Flag::ReadOnly),
            options,
            alone: mode == Some(Mode::SingleNodeSingleWriter),
        })
    }
}

fn is_volume(id: &str) -> Result<(), Status> {
    match names::is_volume(id) {
        true => Ok(()),
        false => Err(Status::not_found(format!("there is no volume {id}"))),
    }
}

fn endless(call: &str) -> Status {
    Status::internal(format!(
        "{call} does not come to an end; tell the maintainers"
    ))
}

impl Node {
    /// The path of a call, which has to be there.
    fn path(&self, given: &str, field: &str) -> Result<PathBuf, Status> {
        if given.is_empty() {
            return Err(Status::invalid_argument(format!("say where: {field}")));
        }
        self.host.path(given)?.ok_or_else(|| {
            Status::failed_precondition(format!(
                "there is no folder for {given}; the kubelet makes it before it calls"
            ))
        })
    }

    /// Serial number of a volume's disk: what the controller told, or what is written down.
    fn serial(&self, id: &str, told: &BTreeMap<String, String>) -> Result<String, Status> {
        if let Some(serial) = told.get(names::SERIAL).filter(|serial| !serial.is_empty()) {
            return Ok(serial.clone());
        }
        self.host.remembered(id)?.ok_or_else(|| {
            Status::invalid_argument(format!(
                "say which disk volume {id} has: publish_context needs {}, as the controller told",
                names::SERIAL
            ))
        })
    }

    /// Looks for a disk until it is there.
    fn disk(&self, id: &str, serial: &str) -> Result<Disk, Status> {
        let begun = Instant::now();
        loop {
            if let Some(disk) = self.host.disk(serial)? {
                return Ok(disk);
            }
            if begun.elapsed() >= self.patience {
                return Err(Status::deadline_exceeded(format!(
                    "the machine has no disk with serial number {serial} yet, which volume {id} is \
                     on; the management cluster attaches it, try again"
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub(super) fn node_stage_volume(
        &self,
        request: &NodeStageVolumeRequest,
    ) -> Result<NodeStageVolumeResponse, Status> {
        let id = &request.volume_id;
        let wanted = Use::read(request.volume_capability.as_ref())?;
        let path = self.path(&request.staging_target_path, "staging_target_path")?;
        is_volume(id)?;
        let serial = self.serial(id, &request.publish_context)?;
        self.disk(id, &serial)?;
        let (mut probes, mut checked, mut grown) = (None, false, false);
        for _ in 0..MOST_STEPS {
            let disk = self.disk(id, &serial)?;
            let mounts = self.host.mounts()?;
            let mounted = top(&mounts, &path);
            let step = plan::stage(&plan::Stage {
                path: &path,
                stale: mounted.is_some_and(|mount| self.host.numbered(mount.number).is_none()),
                access: wanted.access,
                read_only: wanted.read_only,
                disk: &disk,
                mounts: &mounts,
                remembered: self.host.remembered(id)?.as_ref() == Some(&serial),
                probes,
                checked,
                grown,
            })?;
            match step {
                Step::Done => return Ok(NodeStageVolumeResponse {}),
                Step::Probe => probes = Some(self.host.probe(&disk)?),
                Step::Do(action) => {
                    let scene = Scene {
                        volume: id,
                        serial: &serial,
                        disk: Some(&disk),
                        staging: &path,
                        options: &wanted.options,
                    };
                    self.host.act(&action, &scene)?;
                    checked |= matches!(action, Action::Check(_));
                    grown |= matches!(action, Action::Grow(..));
                    probes = None;
                }
            }
        }
        Err(endless("NodeStageVolume"))
    }

    pub(super) fn node_unstage_volume(
        &self,
        request: &NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse, Status> {
        let id = &request.volume_id;
        if request.staging_target_path.is_empty() {
            return Err(Status::invalid_argument("say where: staging_target_path"));
        }
        let given = &request.staging_target_path;
        // A folder that is gone has nothing mounted; what is written down is struck out all the same.
        let path = self.host.path(given)?;
        let path = path.unwrap_or_else(|| PathBuf::from(given));
        if !names::is_volume(id) {
            return Ok(NodeUnstageVolumeResponse {});
        }
        let mut busy = None;
        for _ in 0..MOST_STEPS {
            let serial = self.host.remembered(id)?;
            let disk = match &serial {
                Some(serial) => self.host.disk(serial)?,
                None => None,
            };
            let step = plan::unstage(&plan::Unstage {
                path: &path,
                mounts: &self.host.mounts()?,
                remembered: serial.is_some(),
                disk: disk.as_ref(),
                busy,
            })?;
            match (step, &disk) {
                (Step::Done, _) => return Ok(NodeUnstageVolumeResponse {}),
                (Step::Probe, Some(disk)) => busy = Some(self.host.is_busy(disk)?),
                (Step::Probe, None) => busy = Some(false),
                (Step::Do(action), _) => {
                    let scene = Scene {
                        volume: id,
                        serial: serial.as_deref().unwrap_or_default(),
                        disk: disk.as_ref(),
                        staging: &path,
                        options: &Options::default(),
                    };
                    self.host.act(&action, &scene)?;
                    busy = None;
                }
            }
        }
        Err(endless("NodeUnstageVolume"))
    }

    pub(super) fn node_publish_volume(
        &self,
        request: &NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        let id = &request.volume_id;
        let wanted = Use::read(request.volume_capability.as_ref())?;
        let target = self.path(&request.target_path, "target_path")?;
        let staging = self.path(&request.staging_target_path, "staging_target_path")?;
        is_volume(id)?;
        let serial = self.serial(id, &request.publish_context)?;
        for _ in 0..MOST_STEPS {
            let disk = self.disk(id, &serial)?;
            let step = plan::publish(&plan::Publish {
                staging: &staging,
                target: &target,
                access: wanted.access,
                read_only: wanted.read_only || request.readonly,
                alone: wanted.alone,
                disk: &disk,
                mounts: &self.host.mounts()?,
                place: self.host.place(&target)?,
            })?;
            let action = match step {
                Step::Done => return Ok(NodePublishVolumeResponse {}),
                Step::Probe => continue,
                Step::Do(action) => action,
            };
            let scene = Scene {
                volume: id,
                serial: &serial,
                disk: Some(&disk),
                staging: &staging,
                options: &wanted.options,
            };
            self.host.act(&action, &scene)?;
        }
        Err(endless("NodePublishVolume"))
    }

    pub(super) fn node_unpublish_volume(
        &self,
        request: &NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        if request.target_path.is_empty() {
            return Err(Status::invalid_argument("say where: target_path"));
        }
        let Some(target) = self.host.path(&request.target_path)? else {
            return Ok(NodeUnpublishVolumeResponse {});
        };
        for _ in 0..MOST_STEPS {
            let mounts = self.host.mounts()?;
            let place = match top(&mounts, &target) {
                // A filesystem that is shut down tells nothing of its own root.
                Some(_) => Place::Other,
                None => self.host.place(&target)?,
            };
            let action = match plan::unpublish(&target, &mounts, place)? {
                Step::Done => return Ok(NodeUnpublishVolumeResponse {}),
                Step::Probe => continue,
                Step::Do(action) => action,
            };
            let scene = Scene {
                volume: &request.volume_id,
                serial: "",
                disk: None,
                staging: Path::new(""),
                options: &Options::default(),
            };
            self.host.act(&action, &scene)?;
        }
        Err(endless("NodeUnpublishVolume"))
    }

    /// What is published or staged at a path: the disk, and how, with its mount.
    fn published(
        &self,
        id: &str,
        given: &str,
    ) -> Result<(Disk, Option<mounts::Mount>, PathBuf), Status> {
        let nothing = || Status::not_found(format!("volume {id} is not at {given}"));
        if given.is_empty() {
            return Err(Status::invalid_argument("say where: volume_path"));
        }
        is_volume(id)?;
        let path = self.host.path(given).ok().flatten().ok_or_else(nothing)?;
        let mounts = self.host.mounts()?;
        let mount = top(&mounts, &path).ok_or_else(nothing)?;
        let (number, mount) = match self.host.place(&path)? {
            Place::Device(number) => (number, None),
            Place::Folder => (mount.number, Some(mount.clone())),
            _ => return Err(nothing()),
        };
        let disk = self.host.numbered(number).ok_or_else(nothing)?;
        Ok((disk, mount, path))
    }

    pub(super) fn node_get_volume_stats(
        &self,
        request: &NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse, Status> {
        let (disk, mount, path) = self.published(&request.volume_id, &request.volume_path)?;
        let amount = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        let usage = |unit: Unit, total: u64, free: u64, available: u64| VolumeUsage {
            available: amount(available),
            total: amount(total),
            used: amount(total.saturating_sub(free)),
            unit: unit.into(),
        };
        if mount.is_none() {
            let total = VolumeUsage {
                total: amount(disk.bytes),
                unit: Unit::Bytes.into(),
                ..Default::default()
            };
            return Ok(NodeGetVolumeStatsResponse { usage: vec![total] });
        }
        let stat = rustix::fs::statvfs(&path).map_err(|error| {
            Status::internal(format!("ask for the room at {}: {error}", path.display()))
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(NodeGetVolumeStatsResponse {
            usage: vec![
                usage(
                    Unit::Bytes,
                    bytes(stat.f_blocks),
                    bytes(stat.f_bfree),
                    bytes(stat.f_bavail),
                ),
                usage(Unit::Inodes, stat.f_files, stat.f_ffree, stat.f_favail),
            ],
        })
    }

    /// Asks the kernel alone: nothing is read from the disk, which may never answer.
    pub(super) fn node_get_volume_health(
        &self,
        request: &NodeGetVolumeHealthRequest,
    ) -> Result<NodeGetVolumeHealthResponse, Status> {
        let id = &request.volume_id;
        is_volume(id)?;
        let serial = self.host.remembered(id)?;
        let serial = serial
            .ok_or_else(|| Status::not_found(format!("volume {id} is not staged on this node")))?;
        let disk = self.host.disk(&serial)?;
        let staged = match request.staging_target_path.as_str() {
            "" => None,
            given => self.host.path(given)?,
        };
        let mounts = self.host.mounts()?;
        let mounted = staged.and_then(|path| top(&mounts, &path).map(|mount| mount.number));
        let wrong = plan::health(disk.as_ref(), mounted);
        let entry = |(reason, message): (&str, &str)| VolumeHealthEntry {
            status: VolumeHealthErrorType::Inaccessible.into(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        Ok(NodeGetVolumeHealthResponse {
            volume_health: Some(VolumeHealth {
                volume_id: id.clone(),
                health_statuses: wrong.map(entry).into_iter().collect(),
            }),
        })
    }

    pub(super) fn node_expand_volume(
        &self,
        request: &NodeExpandVolumeRequest,
    ) -> Result<NodeExpandVolumeResponse, Status> {
        let id = &request.volume_id;
        let (disk, mount, path) = self.published(id, &request.volume_path)?;
        let range = request.capacity_range.unwrap_or_default();
        let wanted = u64::try_from(range.required_bytes).unwrap_or(0);
        let disk = self.enlarged(id, &disk, wanted)?;
        if let Some(mount) = mount {
            if mount.read_only {
                return Err(Status::failed_precondition(format!(
                    "the filesystem at {} can only be read, so it cannot grow; it does when the \
                     volume is staged for writing",
                    path.display()
                )));
            }
            let filesystem = Filesystem::named(&mount.kind).ok_or_else(|| {
                Status::internal(format!("filesystems {} do not grow here", mount.kind))
            })?;
            let scene = Scene {
                volume: id,
                serial: "",
                disk: Some(&disk),
                staging: Path::new(""),
                options: &Options::default(),
            };
            self.host.act(&Action::Grow(filesystem, path), &scene)?;
        }
        Ok(NodeExpandVolumeResponse {
            capacity_bytes: i64::try_from(disk.bytes).unwrap_or(i64::MAX),
        })
    }

    /// The disk once it has this many bytes.
    fn enlarged(&self, id: &str, disk: &Disk, wanted: u64) -> Result<Disk, Status> {
        let begun = Instant::now();
        loop {
            self.host.rescan(disk);
            let gone = || Status::not_found(format!("the disk of volume {id} is gone"));
            let now = self.host.read(disk.name.clone()).ok_or_else(gone)?;
            if now.bytes >= wanted {
                return Ok(now);
            }
            if begun.elapsed() >= self.patience {
                return Err(Status::deadline_exceeded(format!(
                    "disk {} has {} bytes yet, and {wanted} are to come; try again",
                    now.name, now.bytes
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
