//! `link-node renew`: tells the kubelet of this machine whom to believe, and has it ask for another client certificate.
//!
//! A pod runs it once (`tenant-cp/src/node/renewal.rs`). It keeps what was there, writes both bundles and a
//! kubeconfig with a bootstrap token, takes the certificate away, and ends the kubelet, which whatever looks after it
//! (systemd, OpenRC) starts anew. Containers run on meanwhile. Where no certificate comes in time everything is put back.
//! Invariants: nothing is changed before what was there is kept on disk; what an earlier try that was cut off left is put
//! back first; the token is on the machine's disk no longer than this program runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;

pub mod files;
pub mod kubeconfig;
pub mod processes;

use files::{Kept, Paths};
use processes::{Kubelet, Processes};

/// What the program is called by, as its first argument.
pub const COMMAND: &str = "renew";
/// Whom to believe, in the folder that it is given.
const BELIEVED: &str = "ca.crt";
/// The token, in the folder that it is given.
const TOKEN: &str = "token";
/// Longest bundle or token that is taken, in bytes.
const LONGEST: u64 = 256 * 1024;

/// Tells the kubelet of this machine whom to believe from now on, and has it ask for another certificate.
#[derive(Clone, Debug, Parser)]
#[command(name = "link-node renew", version)]
pub struct Args {
    /// Folder with `ca.crt` and `token`
    #[arg(long, env = "COVEY_FOLDER", default_value = "/renewal")]
    pub folder: PathBuf,
    /// Where the machine's /etc/kubernetes and /var/lib/kubelet/pki are seen
    #[arg(long, env = "COVEY_MACHINE", default_value = "/machine")]
    pub machine: PathBuf,
    /// Where the machine's processes are seen
    #[arg(long, env = "COVEY_PROC", default_value = "/proc")]
    pub proc: PathBuf,
    /// How long the kubelet may take to have another certificate, in seconds
    #[arg(long, env = "COVEY_PATIENCE", default_value_t = 120)]
    pub patience: u64,
}

/// What the kubelet is told.
#[derive(Clone, Debug)]
pub struct Told {
    /// Whom to believe: certificates, PEM.
    pub believed: String,
    /// The bootstrap token, as a kubelet shows it.
    pub token: String,
}

impl Told {
    /// As it stands in the folder.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(folder: &Path) -> Result<Self> {
        let text = |name: &str| {
            let path = folder.join(name);
            let size = fs::metadata(&path).with_context(|| format!("read {}", path.display()))?;
            if size.len() > LONGEST {
                bail!("{} has more than {LONGEST} bytes", path.display());
            }
            fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
        };
        let told = Self {
            believed: text(BELIEVED)?,
            token: text(TOKEN)?.trim().to_owned(),
        };
        if !told.believed.contains("-----BEGIN CERTIFICATE-----") {
            bail!("{BELIEVED} has no certificate");
        }
        let is_of_token =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.';
        if told.token.is_empty() || !told.token.bytes().all(is_of_token) {
            bail!("{TOKEN} is no bootstrap token");
        }
        Ok(told)
    }
}

/// The process: from the command line to its end.
///
/// # Errors
/// When the kubelet has no other certificate; then everything is as it was.
pub fn run(args: &Args) -> Result<()> {
    let told = Told::read(&args.folder)?;
    let patience = Duration::from_secs(args.patience);
    let mut kubelet = Processes::new(&args.proc, patience);
    renew(&Paths::below(&args.machine), &told, &mut kubelet)
}

/// Does it.
///
/// # Errors
/// As [`run`].
pub fn renew(paths: &Paths, told: &Told, kubelet: &mut impl Kubelet) -> Result<()> {
    if let Some(kept) = Kept::find(paths)? {
        kept.put_back(paths)
            .context("put back what an earlier try has left")?;
    }
    let before = kubelet.running()?;
    let Some(before) = before else {
        bail!("no kubelet runs on the machine: nothing is changed");
    };
    let conf = fs::read_to_string(&paths.kubelet_conf)
        .with_context(|| format!("read {}", paths.kubelet_conf.display()))?;
    let bundle = STANDARD.encode(&told.believed);
    let new_conf = kubeconfig::believing(&conf, &bundle).context("kubelet.conf")?;
    let bootstrap = kubeconfig::bootstrap(&conf, &bundle, &told.token).context("kubelet.conf")?;
    let kept = Kept::save(paths)?;
    let done = change(paths, told, &new_conf, &bootstrap)
        .and_then(|()| kubelet.end(before))
        .and_then(|()| wait(paths, &kept, kubelet));
    match done {
        Ok(()) => kept.forget(paths),
        Err(error) => {
            let restored = go_back(paths, &kept, kubelet);
            restored.with_context(|| format!("put everything back after: {error:#}"))?;
            Err(error.context("everything is as it was"))
        }
    }
}

fn change(paths: &Paths, told: &Told, conf: &str, bootstrap: &str) -> Result<()> {
    files::write(&paths.believed, told.believed.as_bytes(), files::EVERYBODY)?;
    files::write(&paths.kubelet_conf, conf.as_bytes(), files::OWNER)?;
    files::write(&paths.bootstrap, bootstrap.as_bytes(), files::OWNER)?;
    files::remove(&paths.current)
}

/// Until the kubelet has put another certificate in the place of the one of before.
fn wait(paths: &Paths, kept: &Kept, kubelet: &mut impl Kubelet) -> Result<()> {
    loop {
        let now = files::link(&paths.current)?;
        if let Some(now) = now.filter(|now| Some(now) != kept.current.as_ref())
            && paths.is_there(&now)
        {
            return Ok(());
        }
        if !kubelet.pause() {
            let how = match kubelet.running()? {
                Some(_) => "it runs, and asked for none or got none",
                None => "it was not started anew",
            };
            bail!("the kubelet has no other certificate in time: {how}");
        }
    }
}

/// As it was before; the kubelet reads that when it starts.
fn go_back(paths: &Paths, kept: &Kept, kubelet: &mut impl Kubelet) -> Result<()> {
    kept.put_back(paths)?;
    if let Some(running) = kubelet.running()? {
        kubelet.end(running)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
