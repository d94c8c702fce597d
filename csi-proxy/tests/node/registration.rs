//! The program itself, with a kubelet and an API that are played.
//!
//! Invariant: the program ends with the test.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use proto::csi::NodeGetInfoRequest;
use proto::csi::node_client::NodeClient;
use proto::pluginregistration::registration_client::RegistrationClient;
use proto::pluginregistration::{InfoRequest, RegistrationStatus};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

struct Program {
    folder: TempDir,
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    admin: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// One that waits for the kubelet.
    fn start() -> Result<Self> {
        let mut program = Self::begin(tempfile::tempdir()?, &[])?;
        program.says("waits for the kubelet")?;
        Ok(program)
    }

    /// One that begins, with more arguments.
    fn begin(folder: TempDir, more: &[&str]) -> Result<Self> {
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("kubelet"))?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_csi-proxy"))
            .arg("node")
            .args(more)
            .env("NODE_NAME", "machine-1")
            .env("COVEY_ADMIN_ADDRESS", "127.0.0.1:0")
            .env("COVEY_CSI_SOCKET", path("plugins/csi.sock"))
            .env("COVEY_REGISTRATION_SOCKET", path("registry/reg.sock"))
            .env("COVEY_KUBELET_FOLDER", path("kubelet"))
            .stderr(Stdio::piped())
            .spawn()?;
        let log = child.stderr.take().context("it has no log")?;
        Ok(Self {
            folder,
            child,
            log: BufReader::new(log).lines(),
            admin: String::new(),
        })
    }

    /// Waits for a line of its log.
    fn says(&mut self, text: &str) -> Result<()> {
        for line in self.log.by_ref() {
            let line = line?;
            let said: Value = serde_json::from_str(&line)?;
            if let Some(address) = said["address"].as_str() {
                self.admin = address.to_owned();
            }
            if line.contains(text) {
                ensure!(
                    !self.admin.is_empty(),
                    "it does not say where its admin port is"
                );
                return Ok(());
            }
        }
        anyhow::bail!("it ended without a word of {text}")
    }

    async fn registration(&self) -> Result<RegistrationClient<Channel>> {
        let socket = self.folder.path().join("registry/reg.sock");
        Ok(RegistrationClient::new(connect(&socket).await?))
    }

    async fn answers(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.admin).await?;
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// Waits for its end, and lets connections be closed meanwhile. The kubelet has to see it go.
    async fn ended(mut self) -> Result<ExitStatus> {
        let socket = self.folder.path().join("registry/reg.sock");
        let waited = tokio::task::spawn_blocking(move || {
            let status = self.child.wait()?;
            ensure!(!socket.exists(), "its socket is still there");
            Ok(status)
        });
        waited.await?
    }
}

/// Plays the tenant cluster's API: one Node in zone `east`, which has a taint until `settled`. Returns a
/// kubeconfig. It ends with the test's process.
fn played(settled: Arc<AtomicBool>) -> Result<Value> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let asked: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let uninitialized = json!({
                "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule",
            });
            let taints = match settled.load(Ordering::SeqCst) {
                true => vec![],
                false => vec![uninitialized],
            };
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": "machine-1", "labels": {
                    "topology.kubernetes.io/zone": "east",
                } },
                "spec": { "taints": taints },
            })
            .to_string();
            let wanted = "GET /api/v1/nodes/machine-1 ";
            let code = match asked.first().is_some_and(|line| line.starts_with(wanted)) {
                true => "200 OK",
                false => "403 Forbidden",
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {code}\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{node}",
                node.len()
            );
        }
    });
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{ "name": "a", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "a", "user": {} }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
    }))
}

async fn connect(socket: &Path) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?;
    Ok(endpoint.connect().await?)
}

#[tokio::test]
async fn kubelet_finds_the_driver_and_is_told_when_it_goes() -> Result<()> {
    let program = Program::start()?;
    let mut registration = program.registration().await?;
    let info = registration.get_info(InfoRequest {}).await?.into_inner();
    assert_eq!(
        (info.r#type.as_str(), info.name.as_str()),
        ("CSIPlugin", "csi.covey.dev")
    );
    assert_eq!(info.supported_versions, ["1.0.0"]);
    let mut node = NodeClient::new(connect(Path::new(&info.endpoint)).await?);
    let told = node
        .node_get_info(NodeGetInfoRequest {})
        .await?
        .into_inner();
    assert_eq!(
        (told.node_id.as_str(), told.max_volumes_per_node),
        ("machine-1", 64)
    );
    ensure!(program.answers("/livez").await?.contains(" 200 "));
    ensure!(program.answers("/readyz").await?.contains("has not asked"));
    let registered = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    registration.notify_registration_status(registered).await?;
    ensure!(program.answers("/readyz").await?.contains(" 200 "));
    drop((registration, node));
    let id = program.child.id().to_string();
    testkit::disks::tell("kill", &["-TERM", &id])?;
    ensure!(program.ended().await?.success());
    Ok(())
}

#[tokio::test]
async fn node_has_room_for_as_many_volumes_as_its_other_disks_leave() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disks = folder.path().join("disks");
    // Its root and what it was set up with have no serial number, or another one; a volume of ours has
    // ours; and what has no device behind it is no disk of the machine.
    let page = |serial: &str| [&[0, 0x80, 0, 20], serial.as_bytes()].concat();
    for (name, device, file, text) in [
        ("vda", true, "serial", b"\n".to_vec()),
        ("vdb", true, "serial", b"a-disk-of-the-node\n".to_vec()),
        ("sda", true, "device/vpd_pg80", page("0123456789abcdef0123")),
        ("loop0", false, "size", b"0\n".to_vec()),
    ] {
        let disk = disks.join(name);
        std::fs::create_dir_all(if device {
            disk.join("device")
        } else {
            disk.clone()
        })?;
        std::fs::write(disk.join(file), text)?;
    }
    let disks = format!("--disks={}", disks.display());
    let most = async |folder: TempDir, most: &str| {
        let mut program = Program::begin(folder, &[&disks, most])?;
        program.says("waits for the kubelet")?;
        let socket = program.folder.path().join("plugins/csi.sock");
        let mut node = NodeClient::new(connect(&socket).await?);
        let told = node.node_get_info(NodeGetInfoRequest {}).await?;
        anyhow::Ok(told.into_inner().max_volumes_per_node)
    };
    let other = tempfile::tempdir()?;
    assert_eq!(most(other, "--most-volumes=100").await?, 100);
    let other = tempfile::tempdir()?;
    assert_eq!(most(other, "--most-volumes=255").await?, 254);
    drop(folder);
    Ok(())
}

#[tokio::test]
async fn driver_that_the_kubelet_refuses_ends_with_an_error() -> Result<()> {
    let program = Program::start()?;
    let refused = RegistrationStatus {
        plugin_registered: false,
        error: "another one has this name".to_owned(),
    };
    let mut registration = program.registration().await?;
    // The answer may be lost with the process.
    let _ = registration.notify_registration_status(refused).await;
    ensure!(!program.ended().await?.success());
    Ok(())
}

#[tokio::test]
async fn kubelet_sees_no_driver_before_the_zone_is_certain_and_then_the_right_one() -> Result<()> {
    let settled = Arc::new(AtomicBool::new(false));
    let kubeconfig = played(Arc::clone(&settled))?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig.to_string())?;
    let file = format!("--kubeconfig={}", file.display());
    let mut program = Program::begin(folder, &["--topology", &file])?;
    program.says("is not known before")?;
    let registry = program.folder.path().join("registry/reg.sock");
    ensure!(!registry.exists(), "the kubelet could ask already");
    ensure!(
        program
            .answers("/readyz")
            .await?
            .contains("see that it runs")
    );
    // What is mounted can be taken away meanwhile, but nobody is told a zone.
    let socket = program.folder.path().join("plugins/csi.sock");
    let mut node = NodeClient::new(connect(&socket).await?);
    let early = node.node_get_info(NodeGetInfoRequest {}).await;
    assert_eq!(early.unwrap_err().code(), tonic::Code::Unavailable);

    settled.store(true, Ordering::SeqCst);
    program.says("waits for the kubelet")?;
    let told = node.node_get_info(NodeGetInfoRequest {}).await?;
    let zone = told.into_inner().accessible_topology.unwrap_or_default();
    let expected = [("topology.kubernetes.io/zone".to_owned(), "east".to_owned())];
    assert_eq!(zone.segments, expected.into());
    ensure!(program.registration().await.is_ok());
    Ok(())
}
