//! Asks the lab's own API.
//!
//! Invariant: nothing that was asked goes on after whoever asked.

use std::process::Command;

use crate::{layout::Layout, run};

/// The lab's kubectl with the lab's kubeconfig. It dies with us: a killed `up` leaves nothing that
/// goes on asking a lab that is gone.
pub(crate) fn kubectl(layout: &Layout) -> Command {
    let mut kubectl = Command::new("setpriv");
    kubectl
        .args(["--pdeathsig", "KILL", "--"])
        .arg(layout.tool("kubectl"));
    kubectl.arg("--kubeconfig").arg(layout.kubeconfig());
    kubectl
}

/// Whether the API answers.
pub(crate) fn answers(layout: &Layout) -> bool {
    run::succeeds(kubectl(layout).args(["get", "--raw", "/livez", "--request-timeout=5s"]))
}
