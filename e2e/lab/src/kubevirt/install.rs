//! Installs KubeVirt in a running lab, and waits for it when asked to.
//!
//! Installing is writing objects; the operator then works in the cluster, so `lab up` need not
//! wait. Invariant: whoever needs virtual machines calls [`wait`] first.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{NAMESPACE, objects};
use crate::{
    kubectl::{answers, kubectl},
    layout::Layout,
    programs::{Bins, kubevirt::Release},
    progress::Progress,
    run,
    state::State,
};

/// Ten minutes: the machine may be busy with other suites.
const PATIENCE: &str = "--timeout=600s";

/// Applies the operator's manifest and the `KubeVirt` object.
pub(crate) fn apply(layout: &Layout, bins: &Bins, progress: &Progress) -> Result<()> {
    let step = progress.step("asking for KubeVirt");
    step.finish(write(layout, bins))
}

fn write(layout: &Layout, bins: &Bins) -> Result<()> {
    let release = run::output(&mut run::command(
        bins.path("manifests")?,
        ["install", NAMESPACE],
    ))?;
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    run::output_with_input(kubectl(layout).args(apply), &objects::manifest(&release)?)?;
    let definition = ["crd/kubevirts.kubevirt.io", "--timeout=60s"];
    run::output(
        kubectl(layout)
            .args(["wait", "--for=condition=Established"])
            .args(definition),
    )?;
    run::output_with_input(
        kubectl(layout).args(apply),
        &objects::kubevirt(Release::of(bins)),
    )?;
    Ok(())
}

/// Waits until virtual machines can be made; returns at once when they can.
///
/// # Errors
/// The lab is down, has no KubeVirt, or KubeVirt does not come up in ten minutes;
/// the error then shows its pods and Events.
pub fn wait(layout: &Layout, progress: &Progress) -> Result<()> {
    let state = State::read(layout).filter(State::is_up);
    let state = state.context("the lab is not up: run `cargo xtask lab up` first")?;
    if state.player {
        bail!(
            "the lab's machines are played by hosts: `cargo xtask lab up --nodes vm` goes over to KubeVirt"
        );
    }
    if state.kubevirt.is_none() || !answers(layout) {
        bail!("the lab has no KubeVirt: run `cargo xtask lab up`, without --no-kubevirt");
    }
    if seen(layout).is_some_and(|seen| seen.ready) {
        return Ok(());
    }
    let step = progress.step("waiting for KubeVirt");
    let waited = ["jsonpath={.status.phase}=Deployed", "condition=Available"]
        .into_iter()
        .try_for_each(|state| {
            let wait = [
                "wait",
                "kubevirt/kubevirt",
                "--namespace",
                NAMESPACE,
                "--for",
            ];
            run::output(kubectl(layout).args(wait).args([state, PATIENCE])).map(drop)
        });
    step.finish(waited.map_err(|error| {
        let pods = ["get", "pods,events", "--namespace", NAMESPACE];
        let pods = run::output(kubectl(layout).args(pods)).unwrap_or_default();
        error.context(format!("KubeVirt does not become ready:\n{pods}"))
    }))
}

struct Seen {
    ready: bool,
    phase: String,
}

/// One line for `lab status`.
pub(crate) fn summary(layout: &Layout, state: &State) -> String {
    let Some(release) = state.kubevirt else {
        if state.player {
            return "none: machines are played by hosts, `cargo xtask lab up --nodes vm` goes over to it"
                .to_owned();
        }
        return "none: `cargo xtask lab up` installs it".to_owned();
    };
    match seen(layout) {
        Some(seen) if seen.ready => format!("{release} is ready"),
        Some(seen) => format!(
            "{release} is {} (`cargo xtask lab wait` waits for it)",
            seen.phase.to_lowercase()
        ),
        None => format!("{release} is asked for"),
    }
}

/// What the `KubeVirt` object says about itself. `Available` becomes true once, when all parts
/// serve; the phase says how an installation goes.
fn seen(layout: &Layout) -> Option<Seen> {
    let get = ["get", "kubevirt/kubevirt", "--namespace", NAMESPACE];
    let mut get_object = kubectl(layout);
    get_object
        .args(get)
        .args(["-o", "json", "--request-timeout=5s"]);
    let object: Value = serde_json::from_str(&run::output(&mut get_object).ok()?).ok()?;
    Some(read(&object))
}

fn read(object: &Value) -> Seen {
    let status = &object["status"];
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let available = conditions
        .iter()
        .any(|condition| condition["type"] == "Available" && condition["status"] == "True");
    let phase = status["phase"].as_str().unwrap_or("Pending").to_owned();
    Seen {
        ready: available && phase == "Deployed",
        phase,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn kubevirt_is_ready_when_it_is_deployed_and_available() {
        let object = |phase: &str, available: &str| {
            let condition = json!({ "type": "Available", "status": available });
            json!({ "status": { "phase": phase, "conditions": [condition] } })
        };
        assert!(read(&object("Deployed", "True")).ready);
        assert!(!read(&object("Deploying", "True")).ready);
        assert!(!read(&object("Deployed", "False")).ready);
        assert!(!read(&json!({})).ready);
    }
}
