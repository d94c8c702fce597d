//! `covey connect`: one command with the kubeconfig of a tenant cluster, which is gone afterwards.
//!
//! Invariant: the kubeconfig is in a folder that only its owner reads, and goes with the command; a port is forwarded only
//! where the endpoint cannot be reached from here, and with no less than TLS from end to end.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use api::TenantCluster;
use api::names::LABEL_COMPONENT;
use insight::description::is_ready;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::describe::find;
use super::forwarding::{Forward, listen};
use super::kubeconfig::{administrators, own};
use crate::args::Global;
use crate::args::access::GrantWanted;
use crate::args::connect::Connect;
use crate::connect::{Connection, connect, upgradable};
use crate::exit::{Exit, Failure};
use crate::forward::{server, through};
use crate::lead::Lead;
use crate::output::say;
use insight_read::request;

/// How long the endpoint may take to be reached.
const REACH: Duration = Duration::from_secs(3);
/// Port of a kube-apiserver whose pod names none.
const API_PORT: u16 = 6443;
/// The code of a shell for a command that a signal ended is this and its number.
const SIGNALLED: i32 = 128;

pub(super) async fn run(global: &Global, args: &Connect) -> Result<Exit, Failure> {
    let prepared = tokio::select! {
        prepared = Box::pin(prepare(global, args)) => prepared?,
        _ = ctrl_c() => return Ok(Exit::Interrupted),
    };
    let folder = Folder::new()?;
    let file = folder.put(&prepared.kubeconfig)?;
    let forwarding = prepared.forward.map(|forward| tokio::spawn(forward.run()));
    let ended = child(&args.command, &file).await;
    if let Some(forwarding) = forwarding {
        forwarding.abort();
    }
    ended
}

/// What the command gets.
pub(super) struct Prepared {
    pub(super) kubeconfig: String,
    /// Where the endpoint is not reached from here: what leads to it for as long as it runs.
    pub(super) forward: Option<Forward>,
}

/// The administrator's kubeconfig, or one in the user's own name where a profile was named.
async fn of(
    global: &Global,
    connection: &Connection,
    args: &Connect,
) -> Result<(TenantCluster, String), Failure> {
    let name = &args.name;
    let Some(profile) = &args.profile else {
        return administrators(connection, name).await;
    };
    let cluster = find(&connection.client, &connection.namespace, name).await?;
    let rights = GrantWanted {
        profile: profile.clone(),
        user: None,
        group: None,
        ttl: args.ttl,
        token: false,
    };
    let lead = Lead {
        management_context: None,
        namespace: connection.namespace.clone(),
        name: name.clone(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
    };
    let kubeconfig = own(global, connection, (&cluster, &rights, true), &lead).await?;
    Ok((cluster, kubeconfig))
}

pub(super) async fn prepare(global: &Global, args: &Connect) -> Result<Prepared, Failure> {
    let name = &args.name;
    let connection = connect(global).await?;
    let (cluster, kubeconfig) = Box::pin(of(global, &connection, args)).await?;
    let (host, port) = server(&kubeconfig)?;
    let reached = timeout(REACH, TcpStream::connect((host.as_str(), port))).await;
    if matches!(reached, Ok(Ok(_))) {
        return Ok(Prepared {
            kubeconfig,
            forward: None,
        });
    }
    let space = cluster.status.and_then(|status| status.namespace);
    let space = space.unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(connection.client, &space);
    let labels = format!("{LABEL_COMPONENT}=control-plane");
    let act = format!("list pods in {space}");
    let all = request::all(&pods, ListParams::default().labels(&labels), 1).await;
    let all = all.map_err(|unread| Failure::unread(&act, &unread))?;
    let Some((pod, of)) = all.iter().find_map(ready) else {
        let what = format!(
            "{host}:{port} cannot be reached from here, and no pod of the control plane is ready that a port could be forwarded to"
        );
        let mend = format!("`covey doctor {name}`");
        return Err(Failure::new(Exit::Failed, &what, &mend));
    };
    if !global.quiet {
        say(&format!(
            "{host}:{port} cannot be reached from here: by way of pod {space}/{pod} instead"
        ));
    }
    let (listener, local) = listen(0).await?;
    let pods = Api::namespaced(upgradable(global).await?, &space);
    Ok(Prepared {
        kubeconfig: through(&kubeconfig, local)?,
        forward: Some(Forward {
            listener,
            pods,
            pod,
            port: of,
        }),
    })
}

/// Name and port of a kube-apiserver that is ready.
fn ready(pod: &Pod) -> Option<(String, u16)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut servers = containers.filter(|container| container.name == "apiserver");
    let ports = servers
        .next()
        .and_then(|container| container.ports.as_ref());
    let port = ports.and_then(|ports| u16::try_from(ports.first()?.container_port).ok());
    is_ready(pod).then(|| (pod.name_any(), port.unwrap_or(API_PORT)))
}

/// Runs the command until it ends; whoever interrupts it interrupts the command.
async fn child(command: &[OsString], kubeconfig: &Path) -> Result<Exit, Failure> {
    let (program, rest) = command
        .split_first()
        .ok_or_else(|| Failure::new(Exit::Usage, "there is no command", "name one behind `--`"))?;
    let failed = |error: io::Error| {
        let what = format!("cannot run {}: {error}", program.display());
        Failure::new(
            Exit::Failed,
            &what,
            "name a program that is in PATH behind `--`",
        )
    };
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut running = Command::new(program);
    running.args(rest).env("KUBECONFIG", kubeconfig);
    let mut child = running.spawn().map_err(failed)?;
    loop {
        tokio::select! {
            ended = child.wait() => return Ok(Exit::Passed(code(ended.map_err(failed)?))),
            // The terminal tells the command too.
            _ = ctrl_c() => {}
            // It may be gone by now, and then its end is read next.
            _ = terminated.recv() => { let _ = child.start_kill(); }
        }
    }
}

fn code(ended: ExitStatus) -> u8 {
    let signalled = ended.signal().map(|signal| SIGNALLED + signal);
    let code = ended.code().or(signalled).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// A folder that only its owner reads, and that goes when this does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let place = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let place = place.filter(|place| place.is_absolute() && place.is_dir());
        let place = place.unwrap_or_else(env::temp_dir);
        Self::below(&place)
    }

    /// A new one: whatever is there already is somebody else's.
    fn below(place: &Path) -> Result<Self, Failure> {
        let mut made = Err(io::Error::from(io::ErrorKind::AlreadyExists));
        for attempt in 0..16 {
            let path = place.join(format!("covey-connect-{}-{attempt}", std::process::id()));
            made = DirBuilder::new().mode(0o700).create(&path).map(|()| path);
            let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
            if !made.as_ref().is_err_and(is_taken) {
                break;
            }
        }
        made.map(Self).map_err(|error| unwritten(place, &error))
    }

    fn put(&self, kubeconfig: &str) -> Result<PathBuf, Failure> {
        let path = self.0.join("kubeconfig");
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(kubeconfig.as_bytes()));
        written.map_err(|error| unwritten(&path, &error))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody could do more about it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot write {}: {error}", path.display());
    let mend = "name a folder that you may write to by the variable TMPDIR";
    Failure::new(Exit::Failed, &what, mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_kubeconfig_is_the_owners_alone_and_goes() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (
            Folder::below(place.path()).unwrap(),
            Folder::below(place.path()).unwrap(),
        );
        assert_ne!(first.0, second.0);
        let file = first.put("a").unwrap();
        assert_eq!((mode(&first.0), mode(&file)), (0o700, 0o600));
        drop(first);
        assert!(!file.exists());
        drop(second);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_code_is_the_commands() {
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(0)), 0);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }

    #[test]
    fn only_a_pod_that_is_ready_is_led_to() {
        let pod = |ready: &str| {
            let container = serde_json::json!({"name": "apiserver", "image": "x", "ports": [{"containerPort": 6444}]});
            let pod = serde_json::json!({"metadata": {"name": "control-plane-1"}, "spec": {"containers": [container]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        assert_eq!(
            ready(&pod("True")),
            Some(("control-plane-1".to_owned(), 6444))
        );
        assert_eq!(ready(&pod("False")), None);
    }
}
