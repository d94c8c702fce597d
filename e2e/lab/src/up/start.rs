//! Starts the programs of the management host in the order that makes none of them back off.
//!
//! Invariant: nothing is started that would have to wait for something that is not there yet.

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::{Result, anyhow};

use super::{options::UpOptions, preload, running::Running};
use crate::{
    binaries,
    cache::cache_dir,
    cgroups::Cgroups,
    config::{self, Cluster, text},
    host::{Host, HostSpec, kubelet_sysctls},
    kubectl::{answers, kubectl},
    kubevirt,
    layout::MANAGEMENT_HOST,
    machines::settings,
    network,
    programs::Bins,
    progress::Progress,
    run,
    slot::Registry,
    state::{Phase, State},
    storage,
};

const COREDNS: &str = include_str!("coredns.yaml");

pub(super) fn start(
    cluster: &Cluster,
    options: &UpOptions,
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    let layout = &cluster.layout;
    let paths = binaries::paths(layout, bins)?;
    config::write(&cluster.files(&paths))?;

    let step = progress.step("starting the management host");
    let host = step.finish(start_host(cluster))?;
    let mut state = State::starting(cluster.slot);
    state.hosts.insert(MANAGEMENT_HOST.to_owned(), host.clone());
    state.fingerprints = cluster.fingerprints(&paths);
    state.write(layout)?;
    Registry::open()?.hand_over(cluster.slot, layout.checkout(), &host.init)?;
    binaries::link_tools(layout, bins, &host)?;

    let programs = cluster.programs(&paths).into_iter();
    let mut programs: BTreeMap<_, _> = programs.map(|p| (p.name.clone(), p)).collect();
    if options.player {
        settings::configure(layout, cluster.slot, &options.tenant_versions, progress)?;
        let told = ["--machines".to_owned(), text(&layout.machine_settings())];
        if let Some(agent) = programs.get_mut(binaries::AGENT) {
            agent.argv.extend(told);
        }
    }
    let running = Running {
        cluster,
        host,
        programs,
    };
    thread::scope(|scope| {
        let images = scope.spawn(|| preload::all(&running, options, bins, progress));
        let brought_up = control_plane(&running, progress)
            .and_then(|()| node(&running, progress))
            .and_then(|()| match options.has_storage() {
                true => storage::start(&running.host, cluster, bins, progress),
                false => Ok(()),
            });
        let images = images
            .join()
            .map_err(|_| anyhow!("loading images panicked"))?;
        brought_up.and(images)
    })?;
    if let Some(release) = options.kubevirt {
        kubevirt::apply(layout, bins, progress)?;
        state.kubevirt = Some(release);
        state.storage = options.has_storage();
    }
    state.player = options.player;
    let step = progress.step("waiting for cluster DNS");
    let rollout = [
        "-n",
        "kube-system",
        "rollout",
        "status",
        "deployment/coredns",
        "--timeout=120s",
    ];
    step.finish(run::output(kubectl(layout).args(rollout)))?;
    state.tenant_versions = options
        .tenant_versions
        .iter()
        .map(ToString::to_string)
        .collect();
    state.phase = Phase::Up;
    state.write(layout)
}

fn start_host(cluster: &Cluster) -> Result<Host> {
    let layout = &cluster.layout;
    let cgroups = Cgroups::of_slot(cluster.slot.number())?;
    cgroups.create()?;
    network::create_bridge(cluster.slot)?;
    let host = Host::start(
        &spec(cluster, &cgroups)?,
        &binaries::supervisor(layout)?,
        &layout.logs().join("supervisor.log"),
    )?;
    network::connect_host(cluster.slot, 0, host.init.pid)?;
    Ok(host)
}

fn spec(cluster: &Cluster, cgroups: &Cgroups) -> Result<HostSpec> {
    let layout = &cluster.layout;
    let pairs = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    Ok(HostSpec {
        hostname: MANAGEMENT_HOST.to_owned(),
        folder: layout.host(MANAGEMENT_HOST),
        root: Vec::new(),
        network: None,
        copy_on_write: ["/etc", "/opt", "/var"].map(Into::into).to_vec(),
        in_memory: vec!["/run".into()],
        binds: config::binds(cluster),
        keep: vec![layout.checkout().to_path_buf(), cache_dir()?],
        pretended_sysctls: kubelet_sysctls(),
        network_sysctls: pairs(&[
            ("ipv4/ip_forward", "1"),
            // A virtual machine with its pod's address takes all pods for its neighbours: the host
            // answers for them and routes. `lab-agent` makes it answer at once.
            ("ipv4/conf/all/proxy_arp", "1"),
        ]),
        cgroup_join: cgroups.join_files(),
    })
}

fn control_plane(running: &Running<'_>, progress: &Progress) -> Result<()> {
    let step = progress.step("starting etcd and kube-apiserver");
    running.order_start("etcd")?;
    running.order_start("kube-apiserver")?;
    let result = running.wait("kube-apiserver", Duration::from_secs(90), || {
        running.listens(6443) && answers(&running.cluster.layout)
    });
    step.finish(result)
}

fn node(running: &Running<'_>, progress: &Progress) -> Result<()> {
    let layout = &running.cluster.layout;
    running.order_start("kube-controller-manager")?;
    running.order_start("kube-scheduler")?;
    running.order_start("kube-proxy")?;
    let step = progress.step("starting kubelet, kube-proxy and controllers");
    running.wait("containerd", Duration::from_secs(60), || {
        running.containerd_answers()
    })?;
    running.order_start("kubelet")?;
    let dns = running.cluster.slot.dns_address().to_string();
    let manifest = COREDNS.replace("CLUSTER_DNS_ADDRESS", &dns);
    let apply = ["apply", "--server-side", "-f", "-"];
    run::output_with_input(kubectl(layout).args(apply), &manifest)?;
    running.order_start("lab-agent")?;
    let node = format!("node/{MANAGEMENT_HOST}");
    running.wait("kubelet", Duration::from_secs(90), || {
        let wait = ["wait", "--for=condition=Ready", &node, "--timeout=5s"];
        run::succeeds(kubectl(layout).args(wait))
    })?;
    step.done();
    Ok(())
}
