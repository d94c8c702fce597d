//! Parts of what runs in a tenant namespace: their objects, and restarts of their pods.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::Tenant;

/// Selects what belongs to one part, by the public label.
#[must_use]
pub fn selector(component: &str) -> String {
    format!("{}={component}", api::names::LABEL_COMPONENT)
}

impl Tenant {
    /// The pods of one part.
    ///
    /// # Errors
    /// When the management API does not list them.
    pub async fn pods_of(&self, component: &str) -> Result<Vec<Pod>> {
        let those = ListParams::default().labels(&selector(component));
        Ok(self.parts::<Pod>().list(&those).await?.items)
    }

    /// UIDs of the pods of one part, in order: whether one of them is another than before.
    ///
    /// # Errors
    /// When the management API does not list them.
    pub async fn pod_uids(&self, component: &str) -> Result<Vec<String>> {
        let pods = self.pods_of(component).await?;
        let mut uids: Vec<_> = pods.iter().filter_map(|pod| pod.uid()).collect();
        uids.sort();
        Ok(uids)
    }
}

/// Restarts of a pod's containers, those of its start included, or only of those with this name.
#[must_use]
pub fn restarts(pod: &Pod, container: Option<&str>) -> i32 {
    let Some(status) = &pod.status else { return 0 };
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let all = lists.into_iter().flatten().flatten();
    all.filter(|status| container.is_none_or(|name| status.name == name))
        .map(|status| status.restart_count)
        .sum()
}

/// With what the start gate of etcd in this pod ended last (exit codes: docs/etcd.md); none where it never refused.
#[must_use]
pub fn gate_refused(pod: &Pod) -> Option<i32> {
    let gate = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    let gate = gate.iter().find(|container| container.name == "gate")?;
    let states = [&gate.state, &gate.last_state].into_iter().flatten();
    let mut ended = states.filter_map(|state| state.terminated.as_ref());
    ended.next().map(|ended| ended.exit_code)
}
