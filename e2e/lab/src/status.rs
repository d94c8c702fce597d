//! One screen about the lab.
//!
//! Invariant: reads only; works whatever state the lab is in.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;

use crate::{
    kubectl::{answers, kubectl},
    kubevirt,
    layout::Layout,
    leftovers,
    progress::seconds,
    run,
    slot::Registry,
    state::{Phase, State},
};

/// The state of the lab of this checkout, as text.
///
/// # Errors
/// When the machine cannot be looked at.
pub fn status(layout: &Layout) -> Result<String> {
    let Some(state) = State::read(layout) else {
        let slots = Registry::open()?.of_checkout(layout.checkout());
        let left = leftovers::find(layout, &slots, &[])?;
        let mut text = "the lab is down: `cargo xtask lab up` starts it\n".to_owned();
        for line in left {
            let _ = writeln!(text, "  left behind: {line}");
        }
        return Ok(text);
    };
    let mut text = String::new();
    let _ = writeln!(text, "lab        {}", headline(layout, &state));
    let slot = state.slot;
    let _ = writeln!(
        text,
        "slot       {slot}: nodes {}, pods {}, Services {}, load balancers {}, interfaces {}*",
        slot.node_network(),
        slot.pod_network(),
        slot.service_network(),
        slot.load_balancer_network(),
        slot.bridge()
    );
    let _ = writeln!(text, "API        {}", slot.api_url());
    let _ = writeln!(text, "registry   {}", slot.registry());
    let _ = writeln!(text, "kubeconfig {}", layout.kubeconfig().display());
    let _ = writeln!(text, "tenants    {}", state.tenant_versions.join(", "));
    let _ = writeln!(text, "kubevirt   {}", kubevirt::summary(layout, &state));
    for (name, host) in &state.hosts {
        let life = if host.is_alive() {
            "runs"
        } else {
            "is dead: `cargo xtask lab down`"
        };
        let _ = writeln!(text, "\n{name} {life} (process {})", host.init.pid);
        for program in host.programs() {
            let how = match (&program.ended, host.is_alive()) {
                (Some(how), _) if program.name == "containerd-clean" => format!("done ({how})"),
                (Some(how), _) => format!("ENDED: {how}"),
                (None, true) => "runs".to_owned(),
                (None, false) => "dead with its host".to_owned(),
            };
            let _ = writeln!(text, "  {:<26}{how}", program.name);
        }
    }
    for (name, host) in &state.ssh_hosts {
        let life = if host.host.is_alive() {
            "runs"
        } else {
            "is dead: `cargo xtask lab host remove` clears it away"
        };
        let address = host.place.address(slot);
        let via = host.place.via.iter();
        let via: String = via.map(|via| format!(" through {via}")).collect();
        let _ = writeln!(text, "\n{name} {life}, SSH at {address}{via}");
    }
    if state.is_up() && answers(layout) {
        let mut get = kubectl(layout);
        get.args([
            "get",
            "nodes,pods",
            "-A",
            "-o",
            "wide",
            "--request-timeout=5s",
        ]);
        let objects = run::output(&mut get).unwrap_or_else(|error| format!("{error:#}\n"));
        let _ = write!(text, "\n{objects}");
    }
    Ok(text)
}

fn headline(layout: &Layout, state: &State) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let age = seconds(now.saturating_sub(Duration::from_secs(state.since)));
    match state.phase {
        Phase::Up if !state.is_up() => "crashed: `cargo xtask lab down`, then `up`".to_owned(),
        Phase::Up if !answers(layout) => format!("up since {age}, but its API does not answer"),
        Phase::Up => format!("up since {age}"),
        Phase::HostsAlone => format!("hosts alone since {age}, no management cluster"),
        Phase::Starting => format!("starting since {age}, or interrupted"),
    }
}
