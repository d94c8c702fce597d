//! A lab with machines that are played goes over to KubeVirt, while it runs.
//!
//! Invariant: nobody's machine is lost: while there is one the lab stays as it is.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::{
    binaries,
    config::Cluster,
    down,
    host::control::Order,
    kubectl::kubectl,
    layout::{Layout, MANAGEMENT_HOST},
    programs,
    progress::Progress,
    run,
    state::State,
};

const PATIENCE: Duration = Duration::from_secs(30);
/// KubeVirt's operator makes these itself, and takes none that is there for its own.
const KINDS: [&str; 2] = [
    "virtualmachines.kubevirt.io",
    "virtualmachineinstances.kubevirt.io",
];
/// KubeVirt's agent sets it again when it is well.
const LABEL: &str = "kubevirt.io/schedulable-";

/// Ends what plays machines, and takes their kinds away.
pub(crate) fn leave(layout: &Layout, state: &mut State, progress: &Progress) -> Result<()> {
    let step = progress.step("ending what plays virtual machines");
    step.finish(left(layout, state))
}

fn left(layout: &Layout, state: &mut State) -> Result<()> {
    let get = [
        "get",
        &KINDS.join(","),
        "--all-namespaces",
        "--output",
        "name",
    ];
    let there = run::output(kubectl(layout).args(get))?;
    if !there.trim().is_empty() {
        bail!(
            "there are virtual machines that are played: delete their tenant clusters first:\n{}",
            there.trim()
        )
    }
    let host = state.hosts.get(MANAGEMENT_HOST);
    let host = host.context("the lab has no management host")?;
    host.order(&Order::Stop(binaries::AGENT.to_owned()))?;
    let ended = || {
        let programs = host.programs();
        let mut agents = programs.iter().filter(|one| one.name == binaries::AGENT);
        agents.all(|agent| agent.ended.is_some())
    };
    if !down::wait_until(PATIENCE, ended) {
        bail!("lab-agent does not end")
    }
    let delete = ["delete", "crd", "--ignore-not-found", "--timeout=60s"];
    run::output(kubectl(layout).args(delete).args(KINDS))?;
    run::output(kubectl(layout).args(["label", "node", MANAGEMENT_HOST, LABEL]))?;
    let cluster = Cluster {
        layout: layout.clone(),
        slot: state.slot,
    };
    let bins = programs::find(&binaries::wanted(&[], None, false))?;
    let programs = cluster.programs(&binaries::paths(layout, &bins)?);
    let mut agents = programs.into_iter().filter(|p| p.name == binaries::AGENT);
    let agent = agents.next().context("lab-agent is not configured")?;
    host.order(&Order::Start(agent))?;
    state.player = false;
    state.write(layout)
}
