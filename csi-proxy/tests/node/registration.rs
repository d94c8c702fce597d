//! The program itself, with a kubelet that is played.
//!
//! Invariant: the program ends with the test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use proto::csi::NodeGetInfoRequest;
use proto::csi::node_client::NodeClient;
use proto::pluginregistration::registration_client::RegistrationClient;
use proto::pluginregistration::{InfoRequest, RegistrationStatus};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

struct Program {
    folder: TempDir,
    child: Child,
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
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("kubelet"))?;
        let child = Command::new(env!("CARGO_BIN_EXE_csi-proxy"))
            .arg("node")
            .env("NODE_NAME", "machine-1")
            .env("COVEY_ADMIN_ADDRESS", "127.0.0.1:0")
            .env("COVEY_CSI_SOCKET", path("plugins/csi.sock"))
            .env("COVEY_REGISTRATION_SOCKET", path("registry/reg.sock"))
            .env("COVEY_KUBELET_FOLDER", path("kubelet"))
            .stderr(Stdio::piped())
            .spawn()?;
        let admin = String::new();
        let mut program = Self {
            folder,
            child,
            admin,
        };
        let log = program.child.stderr.take().context("it has no log")?;
        let mut lines = BufReader::new(log).lines();
        for line in lines.by_ref() {
            let line = line?;
            let said: serde_json::Value = serde_json::from_str(&line)?;
            if let Some(address) = said["address"].as_str() {
                program.admin = address.to_owned();
            }
            if line.contains("waits for the kubelet") {
                break;
            }
        }
        // So that it never waits for a reader.
        thread::spawn(move || lines.for_each(drop));
        ensure!(
            !program.admin.is_empty(),
            "it does not say where its admin port is"
        );
        Ok(program)
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
