//! The page that tells users which flags they may set.
//!
//! Invariant: it is compared with the list that admission asks, so neither changes alone.

use std::fmt::Write as _;

use tenant_cp::flags::features::{API_VERSIONS, FEATURE_GATES, Switch};
use tenant_cp::flags::{Program, allowed_flags};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/flags.md");
const HEAD: &str = "# Flags that may be set\n\n\
`spec.controlPlane.<component>.extraArgs` of a TenantCluster takes these and no others. They tune; \
whatever names a file or an address, opens an API or a feature that is not finished, or prints bodies \
of requests is left out. `v` is at most 4. A flag that a newer Kubernetes brings is added once \
somebody has read what it does. A tenant cluster that has another one from before keeps it until it \
is changed.\n";
const GATES: &str = "\n## `featureGates`\n\n\
`spec.controlPlane.featureGates` takes these, as far as the platform allows them \
(`config.apiServer.featureGates` of the chart). Each is told to the kube-apiserver, the \
kube-controller-manager and the kube-scheduler, and to kubelets that know it and whose machines are made \
afterwards. A version that does not have one is refused until the gate is removed.\n\n";
const APIS: &str = "\n## `runtimeConfig`\n\n\
`spec.controlPlane.runtimeConfig` takes these, as far as the platform allows them \
(`config.apiServer.runtimeConfig` of the chart). Some serve nothing without a gate. Objects of a version \
that is no longer served are out of reach: remove them before.\n\n";

fn switches(text: &mut String, head: &str, list: &[Switch]) {
    text.push_str(head);
    for switch in list {
        let minors = match (switch.since, switch.until) {
            (34, 36) => String::new(),
            (since, until) if since == until => format!(" in 1.{since}"),
            (since, until) => format!(" in 1.{since} to 1.{until}"),
        };
        let needs = switch.needs.map(|needs| format!(", with `{needs}`"));
        let _ = writeln!(
            text,
            "- `{}`{minors}{}",
            switch.name,
            needs.unwrap_or_default()
        );
    }
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    for (program, field, name) in [
        (Program::ApiServer, "apiServer", "kube-apiserver"),
        (
            Program::ControllerManager,
            "controllerManager",
            "kube-controller-manager",
        ),
        (Program::Scheduler, "scheduler", "kube-scheduler"),
    ] {
        let _ = writeln!(text, "\n## `{field}`: {name}\n");
        for (flag, minor) in allowed_flags(program) {
            let from = match minor {
                34 => String::new(),
                minor => format!(" from 1.{minor} on"),
            };
            let _ = writeln!(text, "- `{flag}`{from}");
        }
    }
    switches(&mut text, GATES, FEATURE_GATES);
    switches(&mut text, APIS, API_VERSIONS);
    text
}

#[test]
fn page_lists_the_flags_that_are_let_in() {
    if std::env::var_os("COVEY_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(PAGE, page()).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(
        written,
        page(),
        "write it anew with COVEY_UPDATE_GOLDEN=1 and review it"
    );
}
