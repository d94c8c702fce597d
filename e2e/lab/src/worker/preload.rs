//! Puts images into a worker's containerd while the worker is built: unpacked, as after a pull.
//!
//! The lab's own containerd works on the tree, in a mount namespace of its own. Invariant: when this
//! is done no process and no mount of it is left, and of the layers only the unpacked files are.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use kit_oci::image::Image;
use kit_oci::layout;
use serde_json::{Value, json};

use crate::{cache::cache_dir, programs::Bins, progress::Step, run};

const PATIENCE: Duration = Duration::from_secs(60);
/// The annotation by which containerd names what it imports.
const NAME: &str = "io.containerd.image.name";

/// Imports `wanted` below `root`; `scratch` is an empty folder for what is needed meanwhile.
pub(super) fn import(
    wanted: &[Image],
    root: &Path,
    scratch: &Path,
    bins: &Bins,
    step: &mut Step,
) -> Result<()> {
    let archive = archive(wanted, scratch)?;
    let data = root.join("var/lib/containerd");
    fs::create_dir_all(&data)?;
    let containerd = Containerd::start(&data, scratch, bins)?;
    step.detail("unpacking images");
    let import = ["images", "import", "--local", "--discard-unpacked-layers"];
    let mut ctr = containerd.ctr(bins)?;
    let imported = run::watched(ctr.args(import).arg(&archive), step);
    // Layers that are unpacked are nobody's any more.
    let pruned = imported.and_then(|()| {
        run::output(
            containerd
                .ctr(bins)?
                .args(["content", "prune", "references"]),
        )
    });
    containerd.end()?;
    pruned.context("containerd cannot import images")?;
    Ok(())
}

/// One archive of all images, each under its name.
fn archive(wanted: &[Image], scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("images");
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let mut manifests = Vec::new();
    for image in wanted {
        let layout = layout::write(image, &cache_dir()?.join("images"))?;
        let store = layout.dir.join("blobs/sha256");
        let index = read(&layout.dir.join("index.json"))?;
        let mut manifest = index["manifests"][0].clone();
        manifest["annotations"] = json!({ NAME: image.name });
        let content = read(&store.join(digest(&manifest)?))?;
        let layers = content["layers"].as_array().cloned().unwrap_or_default();
        for blob in [&manifest, &content["config"]].into_iter().chain(&layers) {
            let name = digest(blob)?;
            let to = blobs.join(&name);
            if !to.exists() {
                fs::hard_link(store.join(&name), &to)
                    .with_context(|| format!("{} cannot be linked", to.display()))?;
            }
        }
        manifests.push(manifest);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    });
    fs::write(folder.join("index.json"), index.to_string())?;
    fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    let archive = scratch.join("images.tar");
    let mut tar = run::command("tar", ["--create", "--file"]);
    run::output(tar.arg(&archive).arg("--directory").arg(&folder).arg("."))?;
    fs::remove_dir_all(&folder)?;
    Ok(archive)
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// The name of a blob's file.
fn digest(descriptor: &Value) -> Result<String> {
    let digest = descriptor["digest"].as_str().unwrap_or_default();
    match digest.strip_prefix("sha256:") {
        Some(hex) => Ok(hex.to_owned()),
        None => bail!("{digest:?} is no digest"),
    }
}

/// A containerd that serves images and nothing else.
struct Containerd {
    process: Child,
    socket: PathBuf,
}

impl Containerd {
    fn start(data: &Path, scratch: &Path, bins: &Bins) -> Result<Self> {
        let socket = scratch.join("containerd.sock");
        let config = scratch.join("containerd.toml");
        let text = format!(
            "version = 3\nroot = {data:?}\nstate = {:?}\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \
             \"io.containerd.cri.v1.runtime\", \"io.containerd.nri.v1.nri\", \
             \"io.containerd.internal.v1.opt\"]\n\n[grpc]\naddress = {socket:?}\n",
            scratch.join("state"),
        );
        fs::write(&config, text)?;
        let log = fs::File::create(scratch.join("containerd.log"))?;
        let process = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(bins.path("containerd")?)
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("containerd cannot be started")?;
        let mut started = Self { process, socket };
        let end = Instant::now() + PATIENCE;
        while UnixStream::connect(&started.socket).is_err() {
            let ended = started.process.try_wait()?;
            if ended.is_some() || Instant::now() > end {
                let log = fs::read_to_string(scratch.join("containerd.log")).unwrap_or_default();
                bail!("containerd does not answer; its log:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(started)
    }

    fn ctr(&self, bins: &Bins) -> Result<Command> {
        let mut ctr = Command::new(bins.path("ctr")?);
        ctr.arg("--address")
            .arg(&self.socket)
            .args(["--namespace", "k8s.io"]);
        Ok(ctr)
    }

    /// The namespace's first process is what unshare waits for.
    fn end(mut self) -> Result<()> {
        let children = run::command("pkill", ["--signal", "TERM", "--parent"])
            .arg(self.process.id().to_string())
            .status()?;
        if !children.success() {
            self.process.kill()?;
        }
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // Ended already, or ended now with all that it started (`--kill-child`).
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
