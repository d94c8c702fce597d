//! The controllers of the simulated management cluster that make pods, and load balancers.
//!
//! Invariant: a pod is made from the template that its workload has then, and keeps it.

use kit_objects::object::Key;
use serde_json::{Value, json};
use tenant_cp::rollout::template;

use super::{NS, World};

impl World {
    /// The load balancer of the management cluster gives the endpoint its address.
    pub(in super::super) fn give_address(&mut self) {
        let service = self
            .objects
            .get_mut(&Key::new("Service", NS, "control-plane"))
            .unwrap();
        service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.7" }] } });
    }

    /// Version of the oldest kube-apiserver.
    pub(in super::super) fn serves(&self) -> String {
        let pods = self.pods.values();
        let of = |pod: &Value| {
            let mut containers = pod["spec"]["containers"].as_array()?.iter();
            let image = containers.find_map(|c| {
                let image = c["image"].as_str()?;
                image.contains("kube-apiserver:v").then_some(image)
            })?;
            Some(image.rsplit_once(":v")?.1.to_owned())
        };
        let oldest = pods.filter_map(of).min();
        oldest.unwrap_or_else(|| self.cluster.spec.version.clone())
    }

    /// What the controllers of the management cluster do: pods that are missing are made, and Deployments
    /// replace those of an older template, unless that is stuck.
    pub(in super::super) fn play_controllers(&mut self) {
        for (kind, name) in [
            ("StatefulSet", "etcd"),
            ("Deployment", "control-plane"),
            ("Deployment", "controllers"),
        ] {
            let Some(workload) = self.objects.get(&Key::new(kind, NS, name)) else {
                continue;
            };
            let replicas = workload["spec"]["replicas"].as_i64().unwrap_or(1);
            let template = &workload["spec"]["template"];
            let hash = template::of_workload(workload).unwrap_or("none");
            let surge = Key::new("Pod", NS, &format!("{name}-surge"));
            let before = self.pods.remove(&surge);
            let fails = self.fails.as_ref().filter(|(of, _)| of(template));
            if let Some((_, status)) = fails {
                // The ones before it stay until it is ready.
                let mut pod = template.clone();
                pod["metadata"]["name"] = json!(surge.name);
                pod["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                pod["status"] = status.clone();
                let same = before.filter(|before| {
                    template::of_pod(before) == template::of_workload(workload)
                        && before["status"] == *status
                });
                self.pods.insert(surge, same.unwrap_or(pod));
                continue;
            }
            let number_of = |key: &Key| {
                key.name
                    .strip_prefix(name)?
                    .strip_prefix('-')?
                    .parse::<i64>()
                    .ok()
            };
            self.pods
                .retain(|key, _| number_of(key).is_none_or(|number| number < replicas));
            for number in 0..replicas {
                let key = Key::new("Pod", NS, &format!("{name}-{number}"));
                if self.pods.contains_key(&key) && (kind == "StatefulSet" || self.stuck) {
                    continue;
                }
                let mut pod = template.clone();
                pod["metadata"]["uid"] = json!(format!("uid-of-{}-{hash}", key.name));
                pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
                if name == "control-plane" {
                    let ready = &mut pod["status"]["conditions"][0];
                    ready["lastTransitionTime"] = json!(self.now.to_string());
                    let same = self.pods.get(&key).filter(|before| {
                        template::of_pod(before) == template::of_workload(workload)
                    });
                    pod = same.cloned().unwrap_or(pod);
                }
                self.pods.insert(key, pod);
            }
        }
    }

    /// What the Deployment of the etcd of Events says: as before, or as one that was made now.
    pub(super) fn status_of_events(&self, before: Option<&Value>, generation: i64) -> Value {
        let of_before = |field: &str| before.map(|live| live["status"][field].clone());
        let steady = if self.steady_events { "True" } else { "False" };
        let told = json!([{ "type": "Available", "status": steady,
            "lastTransitionTime": self.now.to_string() }]);
        let told = of_before("conditions")
            .filter(Value::is_array)
            .unwrap_or(told);
        let ready = of_before("readyReplicas").filter(Value::is_number);
        let ready = ready.unwrap_or_else(|| json!(i64::from(self.steady_events)));
        json!({ "observedGeneration": generation, "readyReplicas": ready, "conditions": told })
    }

    /// Whether a pod is of the template that its workload has now.
    pub(in super::super) fn is_newest(&self, pod: &str) -> bool {
        let kind = match pod.starts_with("etcd") {
            true => "StatefulSet",
            false => "Deployment",
        };
        let (name, _) = pod.rsplit_once('-').unwrap();
        let workload = &self.objects[&Key::new(kind, NS, name)];
        template::of_pod(&self.pods[&Key::new("Pod", NS, pod)]) == template::of_workload(workload)
    }

    /// Every node (so many) runs what it should.
    pub(in super::super) fn play_nodes(&mut self, nodes: i64, ready: i64) {
        for (key, live) in &mut self.inside {
            match key.kind.as_str() {
                "DaemonSet" => {
                    live["status"] =
                        json!({ "numberReady": ready, "desiredNumberScheduled": nodes });
                }
                "Deployment" => live["status"] = json!({ "readyReplicas": ready.min(2) }),
                _ => {}
            }
        }
    }
}
