//! A bare kube-apiserver, and children that end with whoever started them.
//!
//! Invariant: what it listens at is loopback, its keys are made for it and lie in its folder alone.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rcgen::KeyPair;

/// What differs from one to another.
#[derive(Clone, Copy, Debug)]
pub struct Flags<'a> {
    /// URL of its etcd, without TLS.
    pub etcd: &'a str,
    /// Its port.
    pub port: u16,
}

/// How one is started, and reached.
#[derive(Clone, Debug)]
pub struct Started {
    /// Its arguments.
    pub args: Vec<String>,
    /// A token of an administrator.
    pub token: String,
    /// The certificate that it makes for itself, and whom to believe.
    pub certificate: PathBuf,
}

/// Arguments of a kube-apiserver that makes what one of a tenant cluster makes: with its admission plugins and modes of
/// authorisation, and no feature gate. What it needs is written into `folder`.
///
/// # Errors
/// When the folder cannot be written, or no key be made.
pub fn apiserver_flags(folder: &Path, flags: &Flags<'_>) -> Result<Started> {
    let key = KeyPair::generate().context("make a key")?;
    // As random as the key that it is made of.
    let token = KeyPair::generate().context("make a token")?.serialize_der();
    let token = hex::encode(&token[token.len().saturating_sub(24)..]);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok::<_, anyhow::Error>(path.display().to_string())
    };
    let accounts = write("service-accounts.key", &key.serialize_pem())?;
    let verified_by = write("service-accounts.pub", &key.public_key_pem())?;
    let tokens = write(
        "tokens.csv",
        &format!("{token},admin,admin,\"system:masters\"\n"),
    )?;
    let own = folder.join("apiserver");
    let args = [
        // It is one of the names of its certificate.
        ("advertise-address", Ipv4Addr::LOCALHOST.to_string()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("bind-address", Ipv4Addr::LOCALHOST.to_string()),
        ("cert-dir", own.display().to_string()),
        (
            "enable-admission-plugins",
            "DenyServiceExternalIPs,NodeRestriction".to_owned(),
        ),
        ("endpoint-reconciler-type", "none".to_owned()),
        ("etcd-servers", flags.etcd.to_owned()),
        ("profiling", "false".to_owned()),
        ("secure-port", flags.port.to_string()),
        (
            "service-account-issuer",
            "https://kubernetes.default.svc.cluster.local".to_owned(),
        ),
        ("service-account-key-file", verified_by),
        ("service-account-signing-key-file", accounts),
        ("service-cluster-ip-range", "100.64.0.0/20".to_owned()),
        ("token-auth-file", tokens),
        ("v", "1".to_owned()),
    ];
    Ok(Started {
        args: args
            .map(|(name, value)| format!("--{name}={value}"))
            .to_vec(),
        token,
        certificate: own.join("apiserver.crt"),
    })
}

/// A child whose output is in its folder; it ends with this value.
pub(super) struct Running {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Running {
    pub(super) fn start<S: AsRef<OsStr>>(
        name: &str,
        program: &Path,
        args: &[S],
        folder: &Path,
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let said = File::create(&log).with_context(|| format!("write {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command.stdout(said.try_clone()?).stderr(said);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Fails where it has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(15)..].join("\n");
        bail!("{} ended with {status}:\n{last}", self.name)
    }

    /// Ends it at once.
    pub(super) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port of loopback that nobody listens on.
pub(super) fn unused_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
