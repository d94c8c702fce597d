//! Makes golden files: an etcd with what a kube-apiserver and the operator first make, the same for all of a version, and
//! with nothing else (docs/adr/0023-golden-start.md).
//!
//! The real programs make it. Then every key goes that is not among those that were asked for, history goes with them, and
//! what is left is a snapshot that `etcdutl` makes a cluster of its own of.
//! Invariant: a file that came out has no key but those; it listens on loopback only, and ends what it starts.

mod servers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::programs::kubernetes::KubernetesVersion;
use crate::programs::{Bins, Program};
use crate::run;
pub use servers::{Flags, apiserver_flags};
use servers::{Running, unused_port};

/// The minor of the lab's etcd.
pub const ETCD_MINOR: &str = "3.6";
/// How long a kube-apiserver may take until it has made everything.
const PATIENCE: Duration = Duration::from_secs(180);
/// For so long nothing is added any more once all is there.
const CALM: Duration = Duration::from_secs(2);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Fewer objects than this are not all that a kube-apiserver makes.
const LEAST_KEYS: usize = 100;

/// What `operator print golden` says.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// Hash of the objects.
    pub hash: String,
    /// By whom they are applied.
    pub field_manager: String,
    /// What keys in etcd begin with that may be in it, sorted; each ends in `/`.
    pub keys: Vec<String>,
    /// The operator's objects.
    pub objects: Vec<Value>,
}

/// A golden file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Golden {
    /// Version of Kubernetes.
    pub version: KubernetesVersion,
    /// Where it is. Its name says what it is made of.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// SHA-256, hexadecimal.
    pub sha256: String,
    /// Hash of the operator's objects in it.
    pub objects: String,
}

impl Golden {
    /// Its entry in `config.goldenStarts`.
    #[must_use]
    pub fn entry(&self) -> Value {
        json!({
            "etcd": ETCD_MINOR,
            "objects": self.objects,
            "file": self.name,
            "sha256": self.sha256,
        })
    }
}

/// Makes the golden file of a version in `folder`, or finds it there.
///
/// # Errors
/// `bins` lacks etcd or the version, a program fails, or what comes out is not what it should be.
pub fn ensure(
    bins: &Bins,
    version: KubernetesVersion,
    wanted: &Wanted,
    folder: &Path,
) -> Result<Golden> {
    let hash = &wanted.hash;
    let name = format!("kubernetes-{version}-etcd-{ETCD_MINOR}-{hash}.db");
    let path = folder.join(&name);
    if !path.is_file() {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let site = tempfile::tempdir_in(folder).context("make a folder for a golden file")?;
        let made = make(bins, version, wanted, site.path())
            .with_context(|| format!("make the golden file of Kubernetes {version}"))?;
        fs::rename(&made, &path).with_context(|| format!("write {}", path.display()))?;
    }
    let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(Golden {
        version,
        name,
        sha256: hex::encode(Sha256::digest(content)),
        objects: hash.clone(),
        path,
    })
}

fn make(bins: &Bins, version: KubernetesVersion, wanted: &Wanted, site: &Path) -> Result<PathBuf> {
    let etcd = Etcd::start(bins, site)?;
    let port = unused_port()?;
    let flags = apiserver_flags(
        site,
        &Flags {
            etcd: &etcd.url,
            port,
        },
    )?;
    let program = bins.kubernetes("kube-apiserver", version)?;
    let mut server = Running::start("kube-apiserver", &program, &flags.args, site)?;
    let kubectl = bins.kubernetes("kubectl", version)?;
    let kubectl = |args: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.arg(format!("--server=https://127.0.0.1:{port}"));
        command
            .arg("--certificate-authority")
            .arg(&flags.certificate);
        command.arg("--token").arg(&flags.token);
        command.arg("--cache-dir").arg(site.join("cache"));
        command.args(args).env("KUBECONFIG", site.join("none"));
        command
    };
    until("kube-apiserver is ready", || {
        server.check()?;
        Ok(run::succeeds(&mut kubectl(&["get", "--raw=/readyz"])))
    })?;
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": wanted.objects });
    let manager = format!("--field-manager={}", wanted.field_manager);
    let apply = ["apply", "--server-side", &manager, "-f", "-"];
    until("namespaces are there", || {
        let named = [
            "get",
            "namespace",
            "kube-system",
            "kube-public",
            "kube-node-lease",
        ];
        Ok(run::succeeds(&mut kubectl(&named)))
    })?;
    run::output_with_input(&mut kubectl(&apply), &list.to_string())?;
    // Nothing announces the last of it.
    let mut seen = (BTreeMap::new(), Instant::now());
    until("nothing is added any more", || {
        server.check()?;
        let keys = etcd.keys(&wanted.keys)?;
        if keys != seen.0 {
            seen = (keys, Instant::now());
        }
        Ok(seen.0.len() >= LEAST_KEYS && seen.1.elapsed() >= CALM)
    })?;
    server.end();
    drop(server);
    etcd.keep_only(&wanted.keys)?;
    let left = etcd.all_keys()?;
    let foreign = left.keys().find(|key| !is_wanted(key, &wanted.keys));
    ensure!(foreign.is_none(), "{foreign:?} is left in it");
    ensure!(left == seen.0, "what is left is not what was there");
    etcd.save()
}

/// An etcd of our own.
struct Etcd {
    ctl: PathBuf,
    url: String,
    site: PathBuf,
    process: Running,
}

impl Etcd {
    fn start(bins: &Bins, site: &Path) -> Result<Self> {
        let programs = bins.dir(Program::ETCD)?;
        let (client, peer) = (unused_port()?, unused_port()?);
        let url = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        let args = [
            format!("--data-dir={}", site.join("etcd").display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=warn".to_owned(),
        ];
        let process = Running::start("etcd", &programs.join("etcd"), &args, site)?;
        let mut etcd = Self {
            ctl: programs.join("etcdctl"),
            url,
            site: site.to_owned(),
            process,
        };
        until("etcd answers", || {
            etcd.process.check()?;
            Ok(run::succeeds(&mut etcd.command(&["endpoint", "health"])))
        })?;
        Ok(etcd)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.ctl);
        command.args(["--endpoints", &self.url]).args(args);
        command
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        let said = run::output(self.command(args).args(["--write-out", "json"]))?;
        serde_json::from_str(&said).context("etcdctl did not answer with JSON")
    }

    /// Every key, and the revision of its last change.
    fn all_keys(&self) -> Result<BTreeMap<String, i64>> {
        let found = self.json(&["get", "", "--from-key", "--keys-only"])?;
        let found = found["kvs"].as_array().cloned().unwrap_or_default();
        let one = |kv: &Value| {
            let key = kv["key"].as_str().context("a key has no name")?;
            let key = STANDARD.decode(key).context("a key is not base64")?;
            let key = String::from_utf8(key)?;
            Ok((
                key,
                kv["mod_revision"].as_i64().context("it has no revision")?,
            ))
        };
        found.iter().map(one).collect()
    }

    /// The same of what is wanted.
    fn keys(&self, wanted: &[String]) -> Result<BTreeMap<String, i64>> {
        let mut keys = self.all_keys()?;
        keys.retain(|key, _| is_wanted(key, wanted));
        Ok(keys)
    }

    /// Deletes what is between the wanted ones, before and after them.
    fn keep_only(&self, wanted: &[String]) -> Result<()> {
        ensure!(
            wanted.is_sorted(),
            "the keys that are wanted are not sorted"
        );
        // Nothing of Kubernetes begins with less.
        let mut from = "\u{1}".to_owned();
        for prefix in wanted {
            let Some(stem) = prefix.strip_suffix('/') else {
                bail!("{prefix} does not end in /");
            };
            run::output(&mut self.command(&["del", &from, prefix]))?;
            // The character after the slash.
            from = format!("{stem}0");
        }
        run::output(&mut self.command(&["del", &from, "--from-key"])).map(drop)
    }

    /// Drops history, has the file written anew, and saves it.
    fn save(mut self) -> Result<PathBuf> {
        let status = self.json(&["endpoint", "status"])?;
        let revision = &status[0]["Status"]["header"]["revision"];
        let revision = revision.as_i64().context("etcd gave no revision")?;
        run::output(&mut self.command(&["compact", "--physical", &revision.to_string()]))?;
        run::output(&mut self.command(&["defrag"]))?;
        let file = self.site.join("golden.db");
        let path = file.to_string_lossy();
        run::output(&mut self.command(&["snapshot", "save", &path]))?;
        self.process.end();
        Ok(file)
    }
}

fn is_wanted(key: &str, wanted: &[String]) -> bool {
    wanted.iter().any(|prefix| key.starts_with(prefix.as_str()))
}

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            bail!("{what}: not after {} seconds", PATIENCE.as_secs());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_whose_names_begin_alike_are_told_apart() {
        let wanted = ["/registry/roles/".to_owned()];
        assert!(is_wanted("/registry/roles/kube-system/a", &wanted));
        assert!(!is_wanted("/registry/rolesets/kube-system/a", &wanted));
        assert!("/registry/roles/z" < "/registry/roles0");
        assert!("/registry/roles0" < "/registry/rolesets/a");
    }
}
