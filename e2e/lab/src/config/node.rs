//! containerd, kubelet, kube-proxy, CNI and `lab-agent` of a host.
//!
//! Every pod is routed (CNI `ptp`, no bridge), because `lab-agent` enforces NetworkPolicies where
//! packets are forwarded. Invariant: two labs' kubelets share no folder and no control group.

use std::path::Path;

use serde_json::json;

use super::{Cluster, PAUSE_IMAGE, ProgramPaths, control_plane::flags, text};
use crate::{
    cgroups::Cgroups,
    host::Program,
    layout::{MANAGEMENT_HOST, ZONE},
};

/// Socket of block storage inside a host: `lab-agent`'s, for the kubelet and the sidecars.
pub(crate) const BLOCK_SOCKET: &str = "/run/lab-agent/csi.sock";
/// Socket of containerd inside a host.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

pub(super) fn programs(cluster: &Cluster, paths: &ProgramPaths) -> Vec<Program> {
    let containerd = |name: &str, file: &str| {
        let argv = flags(
            &paths.get("containerd"),
            &[("config", &cluster.config_file(file))],
        );
        let mut program = cluster.program(name, argv);
        // containerd looks for its shim and runc in PATH.
        let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let path = format!(
            "{}:{}:{system}",
            paths.folder("containerd"),
            paths.folder("runc")
        );
        program.env.insert("PATH".to_owned(), path);
        program
    };
    let kubelet = flags(
        &paths.get("kubelet"),
        &[
            ("config", &cluster.config_file("kubelet.json")),
            ("hostname-override", MANAGEMENT_HOST),
            ("kubeconfig", &cluster.config_file("kubelet.kubeconfig")),
            (
                "node-labels",
                &format!("topology.kubernetes.io/zone={ZONE}"),
            ),
            ("node-ip", &cluster.slot.host_address(0).to_string()),
            ("root-dir", "/var/lib/kubelet"),
        ],
    );
    let proxy = [("config", &*cluster.config_file("kube-proxy.json"))];
    let mut all = vec![
        containerd("containerd-clean", "containerd-clean.toml"),
        containerd("containerd", "containerd.toml"),
        cluster.program("kubelet", kubelet),
        cluster.program("kube-proxy", flags(&paths.get("kube-proxy"), &proxy)),
    ];
    if paths.binaries.contains_key("lab-agent") {
        all.push(cluster.program("lab-agent", lab_agent(cluster, paths)));
    }
    all
}

fn lab_agent(cluster: &Cluster, paths: &ProgramPaths) -> Vec<String> {
    let mut argv = vec![paths.get("lab-agent")];
    for (name, value) in [
        ("--kubeconfig", cluster.config_file("lab-agent.kubeconfig")),
        ("--storage-dir", text(&cluster.layout.volumes())),
        ("--block-dir", text(&cluster.layout.blocks())),
        ("--block-socket", BLOCK_SOCKET.to_owned()),
        ("--node", MANAGEMENT_HOST.to_owned()),
        (
            "--load-balancers",
            cluster.slot.load_balancer_network().to_string(),
        ),
    ] {
        argv.extend([name.to_owned(), value]);
    }
    argv
}

/// Share of the disk that has to be free, in percent, or the node has DiskPressure. A developer's
/// disk may be nearly full: only a really full one evicts, nothing is collected that the next lab
/// wants.
pub(crate) const FULL_PERCENT: u64 = 1;

pub(super) fn kubelet(cluster: &Cluster) -> String {
    let full = format!("{FULL_PERCENT}%");
    pretty(&json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": cluster.pki_file("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": Cgroups::kubelet_root(cluster.slot.number()),
        "clusterDNS": [cluster.slot.dns_address().to_string()],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "eventBurst": 400,
        "eventRecordQPS": 200,
        "evictionHard": {
            "imagefs.available": full,
            "memory.available": "100Mi",
            "nodefs.available": full,
            "nodefs.inodesFree": "1%",
        },
        "failCgroupV1": false,
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "imageMaximumGCAge": "0s",
        "kubeAPIBurst": 400,
        "kubeAPIQPS": 200,
        "makeIPTablesUtilChains": false,
        "maxPods": 110,
        "podLogsDir": "/var/log/pods",
        "registryPullQPS": 0,
        // Nothing resolves names for the hosts; cluster DNS answers for the cluster alone.
        "resolvConf": "",
        "serializeImagePulls": false,
        "tlsCertFile": cluster.pki_file("kubelet-server.crt"),
        "tlsPrivateKeyFile": cluster.pki_file("kubelet-server.key"),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }))
}

pub(super) fn kube_proxy(cluster: &Cluster) -> String {
    pretty(&json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": cluster.slot.host_address(0).to_string(),
        "clientConnection": {
            "burst": 200,
            "kubeconfig": cluster.config_file("proxy.kubeconfig"),
            "qps": 100,
        },
        "clusterCIDR": cluster.slot.pod_network().to_string(),
        // Zero leaves the machine's connection tracking table as it is.
        "conntrack": {"maxPerCore": 0, "min": 0},
        "detectLocalMode": "ClusterCIDR",
        "hostnameOverride": MANAGEMENT_HOST,
        "metricsBindAddress": "127.0.0.1:10249",
        "mode": "nftables",
        "nftables": {"minSyncPeriod": "50ms", "syncPeriod": "30s"},
    }))
}

/// `serve_pods` false: without the part that serves the kubelet, to clear away what an earlier lab
/// left, before that part reads it.
pub(super) fn containerd(cluster: &Cluster, paths: &ProgramPaths, serve_pods: bool) -> String {
    let config = cluster.layout.config();
    let runc = paths.get("runc");
    let cni_bin = text(&paths.cni);
    let (certs, cni) = (text(&config.join("certs.d")), text(&config.join("cni")));
    let disabled = if serve_pods {
        "[]"
    } else {
        "[\"io.containerd.grpc.v1.cri\"]"
    };
    format!(
        "version = 3
root = \"/var/lib/containerd\"
state = \"/run/containerd\"
disabled_plugins = {disabled}

[grpc]
address = {CONTAINERD_SOCKET:?}

[plugins.'io.containerd.cri.v1.images']
snapshotter = \"overlayfs\"
max_concurrent_downloads = 4

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = {PAUSE_IMAGE:?}

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = {certs:?}

[plugins.'io.containerd.cri.v1.runtime']
# Without CAP_SYS_RESOURCE a lower score than one's own is refused, and every sandbox with it.
restrict_oom_score_adj = true
# Every second otherwise, of each container: half of what the shims do (docs/benchmarks.md). The
# kubelet asks every ten.
stats_collect_period = \"10s\"

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [{cni_bin:?}, \"/opt/cni/bin\"]
conf_dir = {cni:?}

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = \"runc\"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = \"io.containerd.runc.v2\"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = {runc:?}
SystemdCgroup = false
"
    )
}

/// Every registry's name leads to the local one over plain HTTP, so manifests keep public names.
pub(super) fn hosts_toml(cluster: &Cluster) -> String {
    let registry = cluster.slot.registry();
    format!(
        "server = \"http://{registry}\"

[host.\"http://{registry}\"]
capabilities = [\"pull\", \"resolve\"]
"
    )
}

pub(super) fn cni(cluster: &Cluster) -> String {
    pretty(&json!({
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    // In memory: no address stays taken by a pod of an earlier lab.
                    "dataDir": "/run/cni-addresses",
                    "ranges": [[{"subnet": cluster.slot.host_pod_network(0).to_string()}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}},
        ],
    }))
}

/// What a host shows where: (what, where). Data that must outlive it are below `.lab/`.
pub(crate) fn binds(cluster: &Cluster) -> Vec<(std::path::PathBuf, std::path::PathBuf)> {
    let folder = cluster.host_folder();
    let logs = cluster.layout.logs();
    [
        (folder.join("kubelet"), "/var/lib/kubelet"),
        (
            cluster.layout.containerd_data(MANAGEMENT_HOST),
            "/var/lib/containerd",
        ),
        (logs.join("pods"), "/var/log/pods"),
        (logs.join("containers"), "/var/log/containers"),
        (cluster.layout.config().join("cni"), "/etc/cni/net.d"),
        (folder.join("tmp"), "/tmp"),
    ]
    .map(|(source, target)| (source, Path::new(target).to_path_buf()))
    .to_vec()
}

/// One JSON object as text; YAML readers take it too.
fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}
