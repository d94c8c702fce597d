//! What is not as the rule on modules wants it yet.
//!
//! Invariant: these lists only get shorter. A line that is not needed any more is a finding.

/// Where this is.
pub(super) const PLACE: &str = "xtask/src/tidy/modules/exceptions.rs";

/// Reasons, each with its lines: "file -> file".
pub(super) type Exceptions = [(&'static str, &'static [&'static str])];

/// Imports that close a circle.
pub(super) const CIRCLES: &Exceptions = &[
    (
        "what a folder's own file defines and the files below it use is still to move to a leaf",
        &[
            "e2e/autoscaler-client/src/protocol.rs -> e2e/autoscaler-client/src/protocol/options.rs",
            "e2e/bench/src/csi.rs -> e2e/bench/src/csi/attach.rs",
            "e2e/bench/src/csi.rs -> e2e/bench/src/csi/failover.rs",
            "e2e/bench/src/lib.rs -> e2e/bench/src/control_plane.rs",
            "e2e/bench/src/lib.rs -> e2e/bench/src/report.rs",
            "e2e/bench/src/machine.rs -> e2e/bench/src/lib.rs",
            "e2e/lab/agent/src/balancer/plan.rs -> e2e/lab/agent/src/balancer.rs",
            "e2e/lab/agent/src/block/service.rs -> e2e/lab/agent/src/block.rs",
            "e2e/lab/agent/src/storage.rs -> e2e/lab/agent/src/storage/apply.rs",
            "e2e/lab/agent/src/storage.rs -> e2e/lab/agent/src/storage/plan.rs",
            "e2e/lab/src/config/control_plane.rs -> e2e/lab/src/config.rs",
            "e2e/lab/src/config/node.rs -> e2e/lab/src/config.rs",
            "e2e/lab/src/images.rs -> e2e/lab/src/images/layout.rs",
            "e2e/lab/src/images.rs -> e2e/lab/src/images/push.rs",
            "e2e/lab/src/images/catalogue.rs -> e2e/lab/src/images.rs",
            "e2e/lab/src/kubevirt.rs -> e2e/lab/src/kubevirt/images.rs",
            "e2e/lab/src/kubevirt.rs -> e2e/lab/src/kubevirt/install.rs",
            "e2e/lab/src/programs.rs -> e2e/lab/src/programs/kubernetes.rs",
            "e2e/lab/src/programs/build.rs -> e2e/lab/src/programs.rs",
            "e2e/lab/src/programs/catalogue.rs -> e2e/lab/src/programs.rs",
            "e2e/suites/src/cluster.rs -> e2e/suites/src/cluster/audit.rs",
            "e2e/suites/src/scenario.rs -> e2e/suites/src/scenario/dump.rs",
            "e2e/testkit/src/apiserver.rs -> e2e/testkit/src/apiserver/keep.rs",
            "e2e/testkit/src/apiserver.rs -> e2e/testkit/src/apiserver/own.rs",
            "e2e/testkit/src/apiserver/flags.rs -> e2e/testkit/src/apiserver.rs",
            "e2e/testkit/src/apiserver/lent.rs -> e2e/testkit/src/apiserver.rs",
            "e2e/testkit/src/apiserver/rewind.rs -> e2e/testkit/src/apiserver.rs",
            "e2e/testkit/src/apiserver/start.rs -> e2e/testkit/src/apiserver.rs",
            "e2e/testkit/src/faults.rs -> e2e/testkit/src/faults/layer.rs",
            "e2e/testkit/src/faults.rs -> e2e/testkit/src/faults/lives.rs",
            "e2e/testkit/src/memory.rs -> e2e/testkit/src/memory/watch.rs",
            "e2e/testkit/src/memory/store.rs -> e2e/testkit/src/memory.rs",
            "e2e/testkit/src/memory/store.rs -> e2e/testkit/src/memory/store/deletion.rs",
            "e2e/testkit/src/memory/store.rs -> e2e/testkit/src/memory/store/write.rs",
            "e2e/testkit/src/proxy.rs -> e2e/testkit/src/proxy/server.rs",
            "operator/providers/src/kubevirt/describe.rs -> operator/providers/src/kubevirt.rs",
            "operator/providers/src/kubevirt/virtual_machine.rs -> operator/providers/src/kubevirt.rs",
            "operator/src/controllers/machine/apply.rs -> operator/src/controllers/machine.rs",
            "operator/src/controllers/machine/observe.rs -> operator/src/controllers/machine.rs",
            "operator/src/controllers/machine/plan.rs -> operator/src/controllers/machine/plan/conditions.rs",
            "operator/src/controllers/machine/plan.rs -> operator/src/controllers/machine/plan/deletion.rs",
            "operator/src/controllers/machine/plan.rs -> operator/src/controllers/machine/plan/join.rs",
            "operator/src/controllers/machine/plan/join.rs -> operator/src/controllers/machine.rs",
            "operator/src/controllers/node_pool/plan.rs -> operator/src/controllers/node_pool/plan/autoscaling.rs",
            "operator/src/controllers/node_pool/plan.rs -> operator/src/controllers/node_pool/plan/capacity.rs",
            "operator/src/controllers/node_pool/plan.rs -> operator/src/controllers/node_pool/plan/deletion.rs",
            "operator/src/controllers/node_pool/plan/status.rs -> operator/src/controllers/node_pool/plan.rs",
            "operator/src/controllers/node_pool/plan/template.rs -> operator/src/controllers/node_pool/plan.rs",
            "operator/src/controllers/tenant_cluster/apply.rs -> operator/src/controllers/tenant_cluster/apply/probe.rs",
            "operator/src/controllers/tenant_cluster/apply.rs -> operator/src/controllers/tenant_cluster/apply/tenant_objects.rs",
            "operator/src/controllers/tenant_cluster/plan.rs -> operator/src/controllers/tenant_cluster/plan/deletion.rs",
            "operator/src/controllers/tenant_cluster/plan/prune.rs -> operator/src/controllers/tenant_cluster/plan.rs",
            "operator/src/controllers/tenant_cluster/plan/status.rs -> operator/src/controllers/tenant_cluster/plan.rs",
            "operator/src/controllers/tenant_cluster/plan/status/addons.rs -> operator/src/controllers/tenant_cluster/plan/status.rs",
            "operator/src/controllers/tenant_cluster/plan/tenant_objects.rs -> operator/src/controllers/tenant_cluster/plan.rs",
            "tenant-cp/src/network.rs -> tenant-cp/src/network/reservations.rs",
            "xtask/src/test.rs -> xtask/src/test/tiers.rs",
        ],
    ),
    (
        "what both modules use is still to move to a leaf",
        &[
            "operator/src/controllers/node_pool/apply.rs -> operator/src/controllers/node_pool/report.rs",
            "operator/src/controllers/tenant_cluster/apply.rs -> operator/src/controllers/tenant_cluster/report.rs",
            "operator/src/controllers/tenant_cluster/observed.rs -> operator/src/controllers/tenant_cluster/plan/tenant_objects.rs",
            "tenant-cp/src/desired.rs -> tenant-cp/src/addons/addon.rs",
            "tenant-cp/src/desired.rs -> tenant-cp/src/addons/autoscaler.rs",
            "tenant-cp/src/desired.rs -> tenant-cp/src/addons/cloud_controller.rs",
            "tenant-cp/src/desired.rs -> tenant-cp/src/addons/csi.rs",
            "tenant-cp/src/desired.rs -> tenant-cp/src/management_objects.rs",
            "tenant-cp/src/desired.rs -> tenant-cp/src/tenant_objects.rs",
            "xtask/src/test/built.rs -> xtask/src/test/session.rs",
            "xtask/src/test/shake.rs -> xtask/src/test/tiers.rs",
        ],
    ),
];

/// The two sides of every line. One that has no second side matches nothing, and so is a finding.
pub(super) fn pairs(exceptions: &Exceptions) -> Vec<(&str, &str)> {
    let lines = exceptions.iter().flat_map(|(_, lines)| lines.iter());
    lines
        .map(|line| line.split_once(" -> ").unwrap_or((*line, "")))
        .collect()
}
