//! Real SSH servers: one `sshd -i` a connection, behind a listener of the test.
//!
//! Invariant: a server listens on a port that it was given, and ends with its value.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, anyhow};
use provider_static::session::{
    AddressRules, Connector, Escalation, Hop, HostKeys, Limits, LoginKey, Target,
};
use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, EcdsaCurve, PrivateKey};
use tempfile::TempDir;
use testkit::programs::or_skip;
use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const PROGRAM: &str = "/usr/sbin/sshd";

/// A server.
pub(crate) struct Sshd {
    folder: TempDir,
    port: u16,
    pub(crate) host_keys: Vec<String>,
    login: String,
    cut: watch::Sender<()>,
    stalled: watch::Sender<bool>,
    listener: JoinHandle<()>,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Whether such servers can run here, for who is to be skipped where they cannot.
///
/// # Errors
/// Where no test may be skipped.
pub(crate) fn is_possible() -> Result<bool> {
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let able = match is_root && Path::new(PROGRAM).exists() {
        true => Ok(()),
        false => Err(anyhow!("it needs root and {PROGRAM} (openssh-server)")),
    };
    Ok(or_skip(able)?.is_some())
}

pub(crate) fn key(kind: Algorithm) -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), kind).unwrap()
}

pub(crate) fn ecdsa() -> Algorithm {
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP256,
    }
}

pub(crate) fn public(key: &PrivateKey) -> String {
    key.public_key().to_openssh().unwrap()
}

impl Sshd {
    pub(crate) async fn start() -> Result<Self> {
        Self::with("", &[Algorithm::Ed25519]).await
    }

    /// With more lines of configuration, and a host key of each kind.
    pub(crate) async fn with(more: &str, kinds: &[Algorithm]) -> Result<Self> {
        Self::begin(more, kinds, "127.0.0.1:0", None).await
    }

    /// Of a machine of its own, by the number of its first process; reached at every address of this one.
    pub(crate) async fn inside(first: u32) -> Result<Self> {
        Self::begin("", &[Algorithm::Ed25519], "0.0.0.0:0", Some(first)).await
    }

    async fn begin(
        more: &str,
        kinds: &[Algorithm],
        address: &str,
        inside: Option<u32>,
    ) -> Result<Self> {
        let folder = TempDir::new()?;
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all("/run/sshd")?;
        let login = key(Algorithm::Ed25519);
        fs::write(at("authorized_keys"), public(&login))?;
        let mut config = format!(
            "AuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
             PidFile none\nLogLevel VERBOSE\nPrintMotd no\nSetEnv HOME={}\n{more}\n",
            at("authorized_keys").display(),
            // A shell that sshd starts reads what the user's home tells it: that of whoever runs the tests may wait for
            // a lock that a connection which was cut has left.
            folder.path().display(),
        );
        let mut host_keys = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let host_key = key(kind.clone());
            let path = at(&format!("host_{number}"));
            write_private(&path, &host_key.to_openssh(LineEnding::LF)?)?;
            config.push_str(&format!("HostKey {}\n", path.display()));
            host_keys.push(public(&host_key));
        }
        fs::write(at("config"), config)?;
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        let (cut, cuts) = watch::channel(());
        let (stalled, stalls) = watch::channel(false);
        let (config, log) = (at("config"), at("log"));
        let listener = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (config, log) = (config.clone(), log.clone());
                let (cuts, stalls) = (cuts.clone(), stalls.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, inside, (&config, &log), cuts, stalls).await {
                        eprintln!("sshd: {error:#}");
                    }
                });
            }
        });
        let login = login.to_openssh(LineEnding::LF)?.to_string();
        Ok(Self {
            folder,
            port,
            host_keys,
            login,
            cut,
            stalled,
            listener,
        })
    }

    /// Ends all connections, as a cable that is pulled.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }

    /// From now on carries nothing, as a machine whose power was taken.
    pub(crate) fn stall(&self) {
        self.stalled.send_replace(true);
    }

    /// Carries everything again, of connections that come from now on; those of before end.
    pub(crate) fn resume(&self) {
        self.stalled.send_replace(false);
        self.cut();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The private key that may log in.
    pub(crate) fn login(&self) -> &str {
        &self.login
    }

    /// The way in, with all of its host keys pinned.
    pub(crate) fn hop(&self) -> Hop {
        Hop {
            address: "127.0.0.1".to_owned(),
            port: self.port,
            user: "root".to_owned(),
            key: LoginKey::parse(&self.login).unwrap(),
            host_keys: HostKeys::parse(&self.host_keys).unwrap(),
        }
    }

    /// With other pins.
    pub(crate) fn pinned(&self, lines: &[String]) -> Hop {
        Hop {
            host_keys: HostKeys::parse(lines).unwrap(),
            ..self.hop()
        }
    }

    pub(crate) fn target(&self) -> Target {
        target(self.hop(), vec![])
    }
}

pub(crate) fn target(host: Hop, via: Vec<Hop>) -> Target {
    Target {
        host,
        via,
        escalation: Escalation::None,
    }
}

pub(crate) fn connector() -> Connector {
    // A jump host's five seconds are for real networks, not for a busy machine.
    let limits = Limits {
        jump: Limits::default().silence,
        connect: Limits::default().silence,
        login: Limits::default().silence,
        ..Limits::default()
    };
    Connector::new(limits, AddressRules::everywhere())
}

async fn serve(
    stream: TcpStream,
    inside: Option<u32>,
    (config, log): (&Path, &Path),
    mut cuts: watch::Receiver<()>,
    mut stalls: watch::Receiver<bool>,
) -> Result<()> {
    let mut sshd = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .args(inside.iter().flat_map(|first| enter(*first)))
        .args([PROGRAM, "-i", "-f"])
        .arg(config)
        .arg("-E")
        .arg(log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start sshd")?;
    let mut input = sshd.stdin.take().context("no input")?;
    let mut output = sshd.stdout.take().context("no output")?;
    let (mut read, mut write) = stream.into_split();
    cuts.mark_unchanged();
    let mut ends = cuts.clone();
    let stalled = async {
        drop(stalls.wait_for(|stalled| *stalled).await);
    };
    let over = tokio::select! {
        _ = copy(&mut read, &mut input) => true,
        _ = copy(&mut output, &mut write) => true,
        _ = cuts.changed() => true,
        () = stalled => false,
    };
    if !over {
        let _ = ends.changed().await;
    }
    Ok(())
}

/// What runs a program in a machine of its own.
fn enter(first: u32) -> [String; 7] {
    let first = first.to_string();
    ["nsenter", "-t", &first, "--mount", "--pid", "--net", "--"].map(str::to_owned)
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    Ok(file?.write_all(text.as_bytes())?)
}
