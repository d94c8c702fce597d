//! Why pods of one component do not run, where they were looked at.

use api::Reason;
use api::names::LABEL_COMPONENT;
use tenant_cp::names;

use crate::controllers::tenant_cluster::observed::Observed;
use crate::etcd_replacement::facts::MEMBERS;
use crate::pod_failures::{self, PodFailure};
use crate::status::Waiting;

/// The first pod of a component that fails, those first that do not mend themselves.
pub(super) fn failure(observed: &Observed, component: &str) -> Option<PodFailure> {
    let pods = observed.objects.iter().filter(|(key, pod)| {
        let is_of_it = pod["metadata"]["labels"][LABEL_COMPONENT] == component;
        key.kind == "Pod" && is_of_it && !is_about_to_join(observed, &key.name, component)
    });
    pods.filter_map(|(_, pod)| pod_failures::of_object(pod))
        .min_by_key(|failure| !failure.lasts)
}

/// A pod of a member of etcd that is to be added: its gate refuses until it is a member.
fn is_about_to_join(observed: &Observed, pod: &str, component: &str) -> bool {
    let status = observed.cluster.status.as_ref();
    let known = status.and_then(|status| status.etcd.as_ref());
    known
        .filter(|_| component == names::ETCD)
        .is_some_and(|known| {
            let mut members = known.members.iter();
            let is_member = members.any(|member| member.name == pod);
            let may_be_one = (0..)
                .take(MEMBERS)
                .any(|number| names::etcd_member(number) == pod);
            !is_member && !known.members.is_empty() && may_be_one
        })
}

/// One that does not mend itself.
pub(super) fn lasting_failure(observed: &Observed, component: &str) -> Option<Waiting> {
    let failure = failure(observed, component).filter(|failure| failure.lasts)?;
    Some(Waiting {
        reason: failure.reason,
        message: failure.message,
    })
}

/// What of a Deployment's pods a person has to mend.
pub(super) fn problem(observed: &Observed, component: &str) -> Option<Waiting> {
    lasting_failure(observed, component).or_else(|| deadline_exceeded(observed, component))
}

/// The Deployment says that its new pods are not ready in time (ten minutes, its default); old ones serve on.
fn deadline_exceeded(observed: &Observed, component: &str) -> Option<Waiting> {
    let ns = observed.tenant_namespace();
    let deployment = observed.find("Deployment", &ns, component).there()?;
    let mut conditions = deployment.pointer("/status/conditions")?.as_array()?.iter();
    conditions.find(|c| c["type"] == "Progressing" && c["reason"] == "ProgressDeadlineExceeded")?;
    Some(Waiting {
        reason: Reason::RolloutStuck,
        message: format!(
            "new pods of the Deployment {component} are not ready after ten minutes; what served before \
             them goes on. Mend what the pods say, or set the spec back"
        ),
    })
}
