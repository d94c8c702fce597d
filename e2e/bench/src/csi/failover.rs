//! A machine dies, and its volume's pod is to be ready elsewhere.

use std::time::Instant;

use anyhow::{Context as _, Result};
use kube::api::DeleteParams;

use super::{Place, Report, Spread};
use crate::workers::kubeconfig_file;
use suites::{
    cluster::Management,
    scenario::{
        kubectl::Kubectl,
        stateful::{ready, stateful},
    },
};

pub(super) async fn measure(
    management: &Management,
    place: &Place<'_>,
    report: &mut Report,
) -> Result<()> {
    let patience = place.options.patience;
    let kubeconfig = place.tenant.kubeconfig(patience).await?;
    let file = kubeconfig_file(management, &kubeconfig)?;
    let kubectl = Kubectl::with(&management.layout, file);
    let mut times = Vec::new();
    for number in 0..place.options.failovers {
        place.pool.settled(place.options.nodes, patience).await?;
        if number == 0 {
            kubectl.apply(&stateful(None)).await?;
        }
        let node = ready(&kubectl, patience, None);
        let node = node.await.context("the pod is not ready")?;
        let begun = Instant::now();
        let at_once = DeleteParams::default().grace_period(0);
        place.pool.instances().delete(&node, &at_once).await?;
        let moved = ready(&kubectl, patience, Some(&node));
        moved.await.context("the pod is not ready elsewhere")?;
        let took = begun.elapsed().as_secs_f64();
        (place.say)(format!(
            "ready elsewhere {} s after the machine's end",
            super::round(took)
        ));
        times.push(took);
    }
    report.failover_s = Spread::of(&times);
    Ok(())
}
