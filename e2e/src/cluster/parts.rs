//! Pods of a tenant namespace: those of one part, and how often their containers were restarted.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use super::Tenant;

/// Selects the pods of one part, by the public label.
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
}

/// Restarts of a pod by container, those of its start included.
#[must_use]
pub fn restarts(pod: &Pod) -> BTreeMap<&str, i32> {
    let mut restarts = BTreeMap::new();
    if let Some(status) = &pod.status {
        let lists = [&status.init_container_statuses, &status.container_statuses];
        for container in lists.into_iter().flatten().flatten() {
            restarts.insert(container.name.as_str(), container.restart_count);
        }
    }
    restarts
}
