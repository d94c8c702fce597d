//! The images of the lab, under the names and with the paths of those they stand for.
//!
//! Invariant: every image works as its `user` with a read-only root file system: it has users,
//! groups and a `/tmp` to mount over.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use kit_oci::image::{File, Image, Layer, NONROOT};

use crate::golden::Golden;
use crate::packages::locate;
use crate::programs::{Bins, KubernetesVersion, Program};

const BIN: &str = "/usr/local/bin";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The commands of the one binary that control planes run.
const COMMANDS: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
];

/// `registry.k8s.io/{kube-apiserver,kube-controller-manager,kube-scheduler}:v<version>`. All are
/// one layer: a node that has one has all of them.
///
/// # Errors
/// `bins` lacks this version of Kubernetes.
pub fn control_plane(bins: &Bins, version: KubernetesVersion) -> anyhow::Result<Vec<Image>> {
    let commands = [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ];
    let image = |command: &str| {
        let name = format!("registry.k8s.io/{command}:v{version}");
        Ok(image(
            &name,
            vec![kubernetes(bins, version)?],
            &format!("{BIN}/{command}"),
        ))
    };
    commands.into_iter().map(image).collect()
}

/// `registry.k8s.io/kube-proxy:v<version>`: root, as upstream, with this machine's `nft`, so only
/// nftables mode works.
///
/// # Errors
/// `bins` lacks this version of Kubernetes, or this machine lacks nftables.
pub fn kube_proxy(bins: &Bins, version: KubernetesVersion) -> anyhow::Result<Image> {
    let nft = locate("nft").context("nft is not installed: it is in Debian's package nftables")?;
    let mut files = libraries(&nft)?;
    files.push(File::program("/usr/sbin/nft", nft));
    let path = format!("{BIN}/kube-proxy");
    let program = File::program(&path, bins.kubernetes("kube-proxy", version)?);
    let layers = vec![Layer::Files(files), Layer::Files(vec![program])];
    let name = format!("registry.k8s.io/kube-proxy:v{version}");
    Ok(Image {
        user: 0,
        ..image(&name, layers, &path)
    })
}

/// `registry.k8s.io/etcd:3.6.16-0` with `etcd`, `etcdctl` and `etcdutl`.
///
/// # Errors
/// `bins` lacks etcd.
pub fn etcd(bins: &Bins) -> anyhow::Result<Image> {
    let dir = bins.dir(Program::ETCD)?;
    let program = |name: &str| File::program(format!("{BIN}/{name}"), dir.join(name));
    let files = ["etcd", "etcdctl", "etcdutl"].map(program).into();
    let name = "registry.k8s.io/etcd:3.6.16-0";
    Ok(image(
        name,
        vec![Layer::Files(files)],
        &format!("{BIN}/etcd"),
    ))
}

/// `registry.k8s.io/pause:3.10.1`, containerd's sandbox image.
///
/// # Errors
/// `bins` lacks pause.
pub fn pause(bins: &Bins) -> anyhow::Result<Image> {
    let layer = Layer::Files(vec![File::program("/pause", bins.path("pause")?)]);
    let image = image("registry.k8s.io/pause:3.10.1", vec![layer], "/pause");
    Ok(Image {
        user: 65535,
        ..image
    }) // upstream's
}

/// `registry.k8s.io/coredns/coredns:v1.13.1`. To listen on port 53 it needs root or
/// `NET_BIND_SERVICE`, and upstream's manifests run it as root.
///
/// # Errors
/// `bins` lacks CoreDNS.
pub fn coredns(bins: &Bins) -> anyhow::Result<Image> {
    let layer = Layer::Files(vec![File::program("/coredns", bins.path("coredns")?)]);
    Ok(Image {
        user: 0,
        ..image(
            "registry.k8s.io/coredns/coredns:v1.13.1",
            vec![layer],
            "/coredns",
        )
    })
}

/// The operator, or any one program of ours, as `/operator` under a name of the caller's. A binary
/// that is not static gets the libraries that it loads here.
///
/// # Errors
/// The binary is missing, or its libraries cannot be found.
pub fn operator(name: &str, binary: &Path) -> anyhow::Result<Image> {
    program(name, binary, "/operator")
}

/// Any one program of ours, at `place` under a name of the caller's; otherwise as [`operator`].
///
/// # Errors
/// As [`operator`].
pub fn program(name: &str, binary: &Path, place: &str) -> anyhow::Result<Image> {
    let mut layers = Vec::new();
    let files = libraries(binary)?;
    if !files.is_empty() {
        layers.push(Layer::Files(files));
    }
    layers.push(Layer::Files(vec![File::program(place, binary)]));
    Ok(image(name, layers, place))
}

/// The cloud controller manager, as `/ccm`; otherwise as [`operator`].
///
/// # Errors
/// As [`operator`].
pub fn ccm(name: &str, binary: &Path) -> anyhow::Result<Image> {
    program(name, binary, "/ccm")
}

/// What stands beside each member of etcd, as `/etcd-agent`, with golden files in `/golden` and, where there are any, the
/// `etcdutl` that restores them; otherwise as [`operator`].
///
/// # Errors
/// As [`operator`], or `bins` lacks etcd.
pub fn etcd_agent(
    name: &str,
    binary: &Path,
    bins: &Bins,
    golden: &[Golden],
) -> anyhow::Result<Image> {
    let mut image = program(name, binary, "/etcd-agent")?;
    if golden.is_empty() {
        return Ok(image);
    }
    let etcdutl = bins.dir(Program::ETCD)?.join("etcdutl");
    let etcdutl = File::program(format!("{BIN}/etcdutl"), etcdutl);
    let files = golden.iter().map(|golden| {
        let path = format!("/golden/{}", golden.name);
        File::data(path, &golden.path)
    });
    image.layers.push(Layer::Files(vec![etcdutl]));
    image.layers.push(Layer::Files(files.collect()));
    Ok(image)
}

/// The Cluster Autoscaler's adapter, as `/autoscaler`; otherwise as [`operator`].
///
/// # Errors
/// As [`operator`].
pub fn autoscaler(name: &str, binary: &Path) -> anyhow::Result<Image> {
    program(name, binary, "/autoscaler")
}

/// What waits in the place of tenant clusters that sleep, as `/activator`; otherwise as [`operator`].
///
/// # Errors
/// As [`operator`].
pub fn activator(name: &str, binary: &Path) -> anyhow::Result<Image> {
    program(name, binary, "/activator")
}

/// The overlay among nodes, as `/link-node`; otherwise as [`operator`]. Its pods say that they are root.
///
/// # Errors
/// As [`operator`].
pub fn link_node(name: &str, binary: &Path) -> anyhow::Result<Image> {
    program(name, binary, "/link-node")
}

/// The CSI driver, as `/csi-proxy`, with this machine's tools for ext4 and XFS: root, because on a node
/// it mounts. Otherwise as [`operator`].
///
/// # Errors
/// As [`operator`], or this machine lacks one of [`crate::packages::FILESYSTEMS`].
pub fn csi(name: &str, binary: &Path) -> anyhow::Result<Image> {
    let mut files = Vec::new();
    for tool in ["e2fsck", "mkfs.ext4", "mkfs.xfs", "resize2fs", "xfs_growfs"] {
        let found = locate(tool).with_context(|| format!("{tool} is not installed"))?;
        files.extend(libraries(&found)?);
        files.push(File::program(format!("/usr/sbin/{tool}"), found));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup();
    // What an ext4 of today has; without it mkfs makes one of yesterday.
    files.push(File::data("/etc/mke2fs.conf", "/etc/mke2fs.conf"));
    let mut image = program(name, binary, "/csi-proxy")?;
    image.layers.insert(1, Layer::Files(files));
    image.user = 0;
    Ok(image)
}

/// `registry.k8s.io/sig-storage/<sidecar>:v<version>`: the stock sidecars of CSI.
///
/// # Errors
/// `bins` lacks them.
pub fn csi_sidecars(bins: &Bins) -> anyhow::Result<Vec<Image>> {
    let sidecars = [
        ("csi-provisioner", "6.3.0"),
        ("csi-attacher", "4.13.0"),
        ("csi-resizer", "2.3.0"),
        ("csi-snapshotter", "8.7.0"),
        ("snapshot-controller", "8.7.0"),
    ];
    let image = |(name, version): (&str, &str)| {
        let path = format!("/{name}");
        let layer = Layer::Files(vec![File::program(&path, bins.path(name)?)]);
        let name = format!("registry.k8s.io/sig-storage/{name}:v{version}");
        Ok(image(&name, vec![layer], &path))
    };
    sidecars.into_iter().map(image).collect()
}

/// `registry.k8s.io/kas-network-proxy/proxy-server:v0.34.0`.
///
/// # Errors
/// `bins` lacks konnectivity.
pub fn konnectivity_server(bins: &Bins) -> anyhow::Result<Image> {
    konnectivity(bins, "proxy-server")
}

/// `registry.k8s.io/kas-network-proxy/proxy-agent:v0.34.0`.
///
/// # Errors
/// `bins` lacks konnectivity.
pub fn konnectivity_agent(bins: &Bins) -> anyhow::Result<Image> {
    konnectivity(bins, "proxy-agent")
}

fn konnectivity(bins: &Bins, program: &str) -> anyhow::Result<Image> {
    let path = format!("/{program}");
    let file = File::program(&path, bins.path(program)?);
    let name = format!("registry.k8s.io/kas-network-proxy/{program}:v0.34.0");
    Ok(image(&name, vec![Layer::Files(vec![file])], &path))
}

/// `ghcr.io/flannel-io/flannel:v0.28.4`: root, as upstream, with busybox as its shell and this
/// machine's `nft` and `iptables`.
///
/// # Errors
/// `bins` lacks flannel, or this machine lacks one of [`crate::packages::FLANNEL`] or nftables.
pub fn flannel(bins: &Bins) -> anyhow::Result<Image> {
    let find = |command: &str| {
        locate(command).with_context(|| format!("{command} is not installed on this machine"))
    };
    let (nft, iptables) = (find("nft")?, find("iptables")?.canonicalize()?);
    let mut libraries = [libraries(&nft)?, libraries(&iptables)?].concat();
    libraries.sort_by(|a, b| a.path.cmp(&b.path));
    libraries.dedup();
    let tools = vec![
        File::program("/usr/sbin/nft", nft),
        File::program("/usr/sbin/xtables-nft-multi", iptables),
        File::link("/usr/sbin/iptables", "xtables-nft-multi"),
        File::link("/usr/sbin/ip6tables", "xtables-nft-multi"),
    ];
    let layers = vec![
        Layer::Files([libraries, tools].concat()),
        Layer::Files(busybox()?),
        Layer::Files(vec![File::program(
            "/opt/bin/flanneld",
            bins.path("flanneld")?,
        )]),
    ];
    let name = "ghcr.io/flannel-io/flannel:v0.28.4";
    Ok(Image {
        user: 0,
        ..image(name, layers, "/opt/bin/flanneld")
    })
}

/// `ghcr.io/covey-dev/testbox:1`: busybox with all its commands, `kubectl` and `etcdctl`. It waits
/// until it is told to end, so that tests can run commands in it. It resolves names; but Debian's
/// `wget -T` crashes, whatever it is asked for: use `nc -w`.
///
/// # Errors
/// `bins` lacks this version of Kubernetes, etcd or pause, or this machine lacks a static busybox.
pub fn testbox(bins: &Bins, version: KubernetesVersion) -> anyhow::Result<Image> {
    let mut files = busybox()?;
    files.push(File::program("/pause", bins.path("pause")?));
    files.push(File::program(
        format!("{BIN}/etcdctl"),
        bins.path("etcdctl")?,
    ));
    let layers = vec![kubernetes(bins, version)?, Layer::Files(files)];
    let mut image = image("ghcr.io/covey-dev/testbox:1", layers, "/pause");
    image.env.push("HOME=/tmp".to_owned()); // kubectl's cache
    Ok(image)
}

/// `ghcr.io/covey-dev/testserver:1`: `/testserver` and busybox, for pods of tenant clusters.
///
/// # Errors
/// `bins` lacks testserver, or this machine lacks a static busybox.
pub fn testserver(bins: &Bins) -> anyhow::Result<Image> {
    let server = File::program("/testserver", bins.path("testserver")?);
    let layers = vec![Layer::Files(busybox()?), Layer::Files(vec![server])];
    Ok(image(
        "ghcr.io/covey-dev/testserver:1",
        layers,
        "/testserver",
    ))
}

/// A busybox that needs no libraries, at /bin with all its commands.
///
/// # Errors
/// This machine lacks a static busybox.
pub fn busybox() -> anyhow::Result<Vec<File>> {
    let busybox = locate("busybox").context("busybox is not installed")?;
    if !libraries(&busybox)?.is_empty() {
        bail!(
            "{} is not static: install Debian's package busybox-static",
            busybox.display()
        );
    }
    let list = Command::new(&busybox)
        .arg("--list")
        .output()
        .context("busybox cannot be run")?;
    let mut files: Vec<_> = String::from_utf8_lossy(&list.stdout)
        .lines()
        .filter(|applet| *applet != "busybox")
        .map(|applet| File::link(format!("/bin/{applet}"), "busybox"))
        .collect();
    files.push(File::program("/bin/busybox", busybox));
    Ok(files)
}

/// `/bin/bash`, which needs no library.
///
/// # Errors
/// The machine has no static bash.
pub fn bash() -> anyhow::Result<File> {
    let bash = locate("bash-static").context("install Debian's package bash-static")?;
    Ok(File::program("/bin/bash", bash))
}

fn image(name: &str, layers: Vec<Layer>, entrypoint: &str) -> Image {
    Image {
        name: name.to_owned(),
        layers: [vec![base()], layers].concat(),
        entrypoint: vec![entrypoint.to_owned()],
        command: Vec::new(),
        user: NONROOT,
        env: vec![PATH.to_owned()],
    }
}

/// What programs expect of any system.
fn base() -> Layer {
    let passwd = "root:x:0:0:root:/root:/sbin/nologin\n\
                  nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n\
                  nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n";
    let group = "root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n";
    Layer::Files(vec![
        File::text("/etc/passwd", passwd),
        File::text("/etc/group", group),
        File::directory("/tmp", 0o1777),
    ])
}

fn kubernetes(bins: &Bins, version: KubernetesVersion) -> anyhow::Result<Layer> {
    let binary = bins.kubernetes("kubernetes", version)?;
    let links = COMMANDS.map(|command| File::link(format!("{BIN}/{command}"), "kubernetes"));
    let mut files = vec![File::program(format!("{BIN}/kubernetes"), binary)];
    files.extend(links);
    Ok(Layer::Files(files))
}

/// The shared libraries that `binary` loads, at the paths where it looks for them.
fn libraries(binary: &Path) -> anyhow::Result<Vec<File>> {
    if !binary.is_file() {
        bail!("{} is not there", binary.display());
    }
    let output = Command::new("ldd")
        .arg(binary)
        .output()
        .context("`ldd` cannot be run")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    if !output.status.success() || said.contains("not found") {
        bail!("`ldd {}` failed: {said}{complaint}", binary.display());
    }
    Ok(loaded(&said)
        .into_iter()
        .map(|path| File::program(path, path))
        .collect())
}

/// The paths in the output of `ldd`: `name => /path (address)`, or `/path (address)`.
fn loaded(ldd: &str) -> Vec<&str> {
    let path = |line| {
        let line: &str = line;
        let target = line.split_once(" => ").map_or(line, |(_, target)| target);
        let path = target.split_whitespace().next()?;
        path.starts_with('/').then_some(path)
    };
    ldd.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests;
