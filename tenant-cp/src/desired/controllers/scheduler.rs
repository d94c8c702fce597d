//! The kube-scheduler: flags and container.
//!
//! On loopback and without probes, as the kube-controller-manager and for the same reason.
//! Invariant: nothing of it depends on the number of replicas.

use k8s_openapi::api::core::v1::Container;

use crate::desired::pod;
use crate::flags::{Program, args, features, lease_times};
use crate::names;
use crate::profile::{self, Runtime};
use crate::validate::validated::Validated;

pub(crate) fn flags(v: &Validated) -> Vec<String> {
    let extra = &v.scheduler.extra_args;
    let mut computed = lease_times(extra);
    computed.extend(features::flag("feature-gates", &v.feature_gates));
    computed.extend(profile::flags(v.profile, Program::Scheduler, extra));
    args(Program::Scheduler, &computed, extra)
}

pub(crate) fn container(v: &Validated) -> Container {
    Container {
        name: names::SCHEDULER.to_owned(),
        image: Some(format!("{}/kube-scheduler:v{}", v.registry, v.version)),
        command: Some(vec!["kube-scheduler".to_owned()]),
        args: Some(flags(v)),
        env: pod::variables(profile::environment(
            v.profile,
            Runtime::Scheduler,
            &v.scheduler.limits,
        )),
        resources: Some(pod::resources(&v.scheduler.requests, &v.scheduler.limits)),
        termination_message_policy: pod::last_lines(),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![pod::mount(names::SCHEDULER, names::SECRET_DIR, true)]),
        ..Container::default()
    }
}
