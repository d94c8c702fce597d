//! What the tests stand on: [`Node`] (a running service) and its disks.
//!
//! Invariant: what a test leaves behind is gone with its process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use csi_proxy::node::host::Folders;
use csi_proxy::node::server::{self, Service, Settings};
use csi_proxy::{names, socket};
use proto::csi::node_client::NodeClient;
use proto::csi::volume_capability::access_mode::Mode;
use proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use proto::csi::{
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest, VolumeCapability,
};
use tempfile::TempDir;
use testkit::disks::LoopDevice;
use testkit::disks::failing::FailingFile;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// The volume of most tests.
pub(crate) const VOLUME: &str = "vol-1";
pub(crate) const SERIAL: &str = "0123456789abcdef0123";
/// XFS is not made smaller than 300 MiB.
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const SIZE: u64 = 320 * MIB;

/// A node that serves.
pub(crate) struct Node {
    pub(crate) folder: TempDir,
    pub(crate) disks: Vec<LoopDevice>,
    pub(crate) channel: Channel,
    server: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Node {
    /// One without a disk.
    pub(crate) async fn start() -> Result<Self> {
        Self::with_patience(Duration::from_secs(60)).await
    }

    /// One with an empty disk for [`VOLUME`].
    pub(crate) async fn with_disk() -> Result<Self> {
        let mut node = Self::start().await?;
        node.plug(SERIAL, SIZE)?;
        Ok(node)
    }

    pub(crate) async fn with_patience(patience: Duration) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["sys", "kubelet"] {
            fs::create_dir(folder.path().join(name))?;
        }
        fs::create_dir(folder.path().join("kubelet/staging"))?;
        let socket = folder.path().join("csi.sock");
        let listener = socket::bind(&socket)?;
        let service = Service::new(Settings {
            name: "a".to_owned(),
            most_volumes: 64,
            patience,
            topology: false,
            folders: folders(folder.path()),
        });
        let server = tokio::spawn(async move {
            let _ = server::serve(service, listener, std::future::pending()).await;
        });
        let uri = format!("unix://{}", socket.display());
        Ok(Self {
            folder,
            disks: Vec::new(),
            channel: Endpoint::from_shared(uri)?.connect_lazy(),
            server,
        })
    }

    pub(crate) fn client(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    /// Attaches an empty disk.
    pub(crate) fn plug(&mut self, serial: &str, bytes: u64) -> Result<()> {
        let number = self.disks.len();
        let file = self.folder.path().join(format!("disk-{number}"));
        self.attach(&file, serial, bytes)
    }

    /// Attaches this file as a disk.
    fn attach(&mut self, file: &Path, serial: &str, bytes: u64) -> Result<()> {
        let disk = LoopDevice::new(file, bytes)?;
        disk.show(&self.folder.path().join("sys"), serial)?;
        self.disks.push(disk);
        Ok(())
    }

    /// Attaches an empty disk that can be made to fail.
    pub(crate) fn plug_failing(&mut self, serial: &str, bytes: u64) -> Result<FailingFile> {
        let folder = self.folder.path().join("failing");
        fs::create_dir(&folder)?;
        let file = FailingFile::new(&folder, bytes)?;
        self.attach(file.path(), serial, bytes)?;
        Ok(file)
    }

    /// Makes the first disk larger, as the management cluster does.
    pub(crate) fn enlarge(&self, bytes: u64) -> Result<()> {
        self.disks[0].enlarge(bytes)
    }

    /// A path below the kubelet's folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder
            .path()
            .join("kubelet")
            .join(name)
            .display()
            .to_string()
    }

    pub(crate) async fn stage(&self, capability: VolumeCapability) -> Result<(), Status> {
        let request = NodeStageVolumeRequest {
            volume_id: VOLUME.to_owned(),
            publish_context: BTreeMap::from([(names::SERIAL.to_owned(), SERIAL.to_owned())]),
            staging_target_path: self.path("staging"),
            volume_capability: Some(capability),
            ..Default::default()
        };
        self.client().node_stage_volume(request).await.map(drop)
    }

    pub(crate) async fn unstage(&self) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest {
            volume_id: VOLUME.to_owned(),
            staging_target_path: self.path("staging"),
        };
        self.client().node_unstage_volume(request).await.map(drop)
    }

    pub(crate) async fn publish(
        &self,
        target: &str,
        capability: VolumeCapability,
        readonly: bool,
    ) -> Result<(), Status> {
        let request = NodePublishVolumeRequest {
            volume_id: VOLUME.to_owned(),
            publish_context: BTreeMap::from([(names::SERIAL.to_owned(), SERIAL.to_owned())]),
            staging_target_path: self.path("staging"),
            target_path: self.path(target),
            volume_capability: Some(capability),
            readonly,
            ..Default::default()
        };
        self.client().node_publish_volume(request).await.map(drop)
    }

    pub(crate) async fn unpublish(&self, target: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: VOLUME.to_owned(),
            target_path: self.path(target),
        };
        self.client().node_unpublish_volume(request).await.map(drop)
    }
}

/// Where everything is of a node that keeps it all in one folder.
pub(crate) fn folders(folder: &Path) -> Folders {
    Folders {
        disks: folder.join("sys"),
        devices: "/dev".into(),
        kubelet: folder.join("kubelet"),
        records: folder.join("records"),
    }
}

pub(crate) fn mount(filesystem: &str, flags: &[&str]) -> VolumeCapability {
    with_mode(Mode::SingleNodeWriter, filesystem, flags)
}

pub(crate) fn with_mode(mode: Mode, filesystem: &str, flags: &[&str]) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: filesystem.to_owned(),
            mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..Default::default()
        })),
    }
}

pub(crate) fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..mount("", &[])
    }
}

/// What `/proc/self/mountinfo` says of a path.
pub(crate) fn mounted(path: &str) -> Result<Vec<String>> {
    let all = fs::read_to_string("/proc/self/mountinfo")?;
    let there = |line: &&str| line.split(' ').nth(4) == Some(path);
    Ok(all.lines().filter(there).map(str::to_owned).collect())
}
