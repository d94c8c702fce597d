//! What is wanted in the tenant namespace, part by part.
//!
//! Invariant: what follows the kube-apiservers is of the version that serves.

use std::collections::BTreeSet;

use api::Reason;
use api::names::LABEL_COMPONENT;
use jiff::Timestamp;
use kit_objects::known::Known;
use kit_objects::object::Object;
use tenant_cp::rollout::order::{self, Allowed, Facts, Progress};
use tenant_cp::rollout::template;
use tenant_cp::{Addresses, Settings, Validated, management_objects, names};

use super::etcd::{self, Care};
use super::hibernation::Sleep;
use super::rotation::Rotations;
use super::types::Part;
use super::workloads::{self, Objects};
use super::{certificates, endpoint, events, kubeconfig, pods, restoring, rollout, tenant_objects};
use crate::controllers::tenant_cluster::observed::component_pods::ComponentPod;
use crate::controllers::tenant_cluster::observed::{Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::restoring::Workload;
use crate::rollouts::queue::Answer;
use crate::status::Waiting;

/// Whether kube-controller-manager, kube-scheduler and the Cluster Autoscaler may be there. They wait for an API
/// that does not answer yet, but longer after each try, up to ten seconds, or end: made when it answers they
/// work sooner, and take no processors from a kube-apiserver that starts.
fn has_answered(observed: &Observed) -> bool {
    observed.has_been_ready() || matches!(observed.tenant, Tenant::Answers { .. })
}

/// What is wanted in the tenant namespace, before anybody asks whether it may be changed now.
pub(super) struct NamespacePlan {
    addresses: Option<Addresses>,
    /// Whether it may start, or has.
    its_turn: bool,
    /// None while pods cannot be asked for.
    workloads: Vec<Object>,
    /// How far etcd, the control plane and its controllers are.
    pub(super) progress: [Progress; 3],
    /// Why etcd stays as it is.
    etcd_is_held: Option<Waiting>,
    /// The tenant cluster as what follows its control plane and controllers sees it.
    served: Validated,
}

impl NamespacePlan {
    pub(super) fn new(valid: &Validated, observed: &Observed, settings: &Settings) -> Self {
        let addresses = endpoint::addresses(valid, observed);
        let is_started = observed.started().there().is_some();
        let its_turn = is_started || observed.start == Answer::Go;
        let can_start =
            |addresses: &&Addresses| its_turn && (addresses.endpoint.is_some() || is_started);
        let material = &observed.material;
        let of = |valid: &Validated| match addresses.as_ref().filter(can_start) {
            Some(addresses) => management_objects::workloads(valid, settings, addresses, material),
            None => Vec::new(),
        };
        let smaller = etcd::volumes::smaller(valid, observed);
        let mut workloads = of(smaller.as_ref().unwrap_or(valid));
        let etcd_is_held = rollout::hold_etcd(&mut workloads, observed);
        let progress = |workloads: &[Object], kind, name, replicas| {
            rollout::progress(observed, workloads, (kind, name), replicas)
        };
        // What follows is of the version that serves.
        let follow = |workloads: &mut Vec<Object>, served: &Validated, part: PartName| {
            let follows = |object: &Object| workloads::part_of(object) == part;
            if served.version != valid.version {
                workloads.retain(|object| !follows(object));
                workloads.extend(of(served).into_iter().filter(follows));
            }
        };
        let etcd = progress(&workloads, "StatefulSet", names::ETCD, valid.etcd.replicas);
        let deployment =
            |workloads: &[Object], name| progress(workloads, "Deployment", name, valid.replicas);
        let control_plane = deployment(&workloads, names::CONTROL_PLANE);
        let served = rollout::as_seen_after(valid, observed, control_plane);
        follow(&mut workloads, &served, PartName::Controllers);
        let has_answered = has_answered(observed);
        workloads.retain(|object| has_answered || !workloads::needs_the_api(object));
        let controllers = deployment(&workloads, names::CONTROLLERS);
        let programs = order::programs(control_plane, controllers);
        let served = rollout::as_seen_after(valid, observed, programs);
        follow(&mut workloads, &served, PartName::Adapters);
        workloads.retain(|object| has_answered || !workloads::needs_the_api(object));
        Self {
            addresses,
            its_turn,
            workloads,
            progress: [etcd, control_plane, controllers],
            etcd_is_held,
            served,
        }
    }

    /// What is wanted inside the tenant cluster: dozens of objects, so nobody asks who need not know.
    pub(super) fn inside(
        &self,
        observed: &Observed,
        settings: &Settings,
    ) -> Option<tenant_objects::Wanted> {
        let addresses = self.addresses.as_ref()?;
        tenant_objects::Wanted::new(&self.served, observed, settings, addresses)
    }

    /// What a rollout is decided by; `goes_on`: an upgrade that its user asked for does; `takes_patch`: the operator takes one by
    /// itself.
    pub(super) fn facts(
        &self,
        observed: &Observed,
        settings: &Settings,
        (goes_on, takes_patch): (bool, bool),
    ) -> Facts {
        let [etcd, control_plane, controllers] = self.progress;
        let known = observed.rollout();
        let other_templates = known.and_then(|r| r.templates.as_ref()) != Some(&observed.templates);
        let is_behind = |wanted: &Object| {
            let live = observed.objects.get(&wanted.key());
            let follows = [PartName::Adapters, PartName::EtcdEvents];
            follows.contains(&workloads::part_of(wanted))
                && live.is_some_and(|live| template::is_behind(wanted, live))
        };
        // Where the templates are those that it runs from, only its user can want something else.
        let rest_is_behind = other_templates
            && observed.has_been_ready()
            && (self.workloads.iter().any(is_behind)
                || self
                    .inside(observed, settings)
                    .is_some_and(|inside| !inside.is_in_place(observed)));
        Facts {
            etcd,
            control_plane,
            controllers,
            rest_is_behind,
            has_run: observed.has_been_ready() && !self.workloads.is_empty(),
            was_current: known.is_some_and(|r| {
                // Before there were controllers apart, all was current with the other two.
                let controllers = r.controllers.is_some() || r.templates.is_some();
                r.etcd.is_some() && r.control_plane.is_some() && controllers
            }),
            other_templates,
            wanted_now: goes_on || rollout::is_wanted_now(observed, &self.workloads),
            takes_patch,
            keys_are_lost: rollout::are_keys_lost(observed),
        }
    }

    /// Whether kube-apiservers run, or would be made, with another hash in this annotation than the wanted one.
    pub(super) fn has_other(&self, annotation: &str, observed: &Observed) -> bool {
        let mut workloads = self.workloads.iter();
        let is_it =
            |object: &&Object| object.kind == "Deployment" && object.name == names::CONTROL_PLANE;
        let Some(wanted) = workloads.find(is_it) else {
            return false;
        };
        let mut pods = observed.objects.iter().filter(|(key, pod)| {
            key.kind == "Pod" && pod["metadata"]["labels"][LABEL_COMPONENT] == names::CONTROL_PLANE
        });
        let live = observed.objects.get(&wanted.key());
        live.is_some_and(|live| template::has_other(annotation, wanted, live))
            || pods.any(|(_, pod)| template::pod_has_other(annotation, wanted, pod))
    }

    /// Whether no pod of an addon in the tenant namespace is left that was made from another template than the wanted one.
    pub(super) fn are_addons_current(&self, observed: &Observed) -> Known<bool> {
        let Some(pods) = &observed.pods else {
            return Known::Unknown {
                why: "pods of addons were not listed",
            };
        };
        let is_current = |wanted: &Object| {
            let labels = &wanted.value["spec"]["template"]["metadata"]["labels"];
            let is_its = |pod: &&ComponentPod| labels[LABEL_COMPONENT] == pod.component.as_str();
            let mut its = pods.iter().filter(is_its);
            match observed.objects.get(&wanted.key()) {
                Some(live) => {
                    let hash = template::of_workload(live);
                    !template::is_behind(wanted, live)
                        && its.all(|pod| pod.template.as_deref() == hash)
                }
                None => its.next().is_none(),
            }
        };
        let mut adapters = self.workloads.iter().filter(|object| {
            object.kind == "Deployment" && workloads::part_of(object) == PartName::Adapters
        });
        Known::Known(adapters.all(is_current))
    }

    pub(super) fn parts(
        &self,
        valid: &Validated,
        observed: &Observed,
        settings: &Settings,
        (allowed, rests, care, (held, sleep)): (
            Allowed,
            bool,
            Care,
            (&BTreeSet<Workload>, Option<&Sleep>),
        ),
        rotations: &Rotations,
        now: Timestamp,
    ) -> [Part; 10] {
        let addresses = self.addresses.as_ref();
        let mut base = Objects::base(valid, settings);
        let mut workloads = rollout::held_back(self.workloads.clone(), observed, allowed);
        restoring::hold(&mut workloads, held);
        if let Some(sleep) = sleep {
            sleep.hold(&mut workloads);
        }
        if care == Care::Awaited {
            // Not one pod is asked for yet, and no place among those that start.
            workloads.clear();
        }
        let mut pods = Objects::workloads(workloads, observed);
        let mut part = |name, base_stage, pods_stage| {
            let mut part = Part::new(name);
            part.apply(base_stage, observed, base.take(name));
            part.apply(pods_stage, observed, pods.take(name));
            part
        };
        let policies = part(PartName::NetworkPolicies, "network policies", "");
        let mut control_plane = part(PartName::ControlPlane, "base of the control plane", "pods");
        let base_of_controllers = "base of the controllers";
        let mut controllers = part(PartName::Controllers, base_of_controllers, "controllers");
        let adapters = part(PartName::Adapters, "base of the adapters", "adapters");
        control_plane.problem = pods::problem(observed, names::CONTROL_PLANE);
        controllers.problem = pods::problem(observed, names::CONTROLLERS);
        if !self.its_turn {
            control_plane.waiting = Some(Waiting {
                reason: Reason::WaitingForStart,
                message: "other control planes start first: users' namespaces take turns"
                    .to_owned(),
            });
        }
        let members = pods.take(PartName::Etcd).pop();
        let etcd_base = base.take(PartName::Etcd);
        let is_claim = |object: &&Object| object.kind == "PersistentVolumeClaim";
        let claims = etcd_base.iter().filter(is_claim).cloned().collect();
        let of_events = base.take(PartName::EtcdEvents);
        let of_events = (of_events, pods.take(PartName::EtcdEvents));
        let events = events::plan(valid, observed, of_events, self.progress[1], now);
        let may = (allowed.etcd, rests, care);
        let mut etcd = etcd::plan(valid, observed, etcd_base, members, may, now);
        etcd.problem = etcd.problem.or_else(|| self.etcd_is_held.clone());
        [
            certificates::plan(
                valid,
                observed,
                settings,
                addresses,
                (self.its_turn, rotations),
                now,
            ),
            endpoint::plan(valid, observed, base.take(PartName::Endpoint), addresses),
            policies,
            etcd,
            etcd::volumes::plan(valid, observed, claims),
            events,
            control_plane,
            controllers,
            adapters,
            kubeconfig::plan(valid, observed, addresses, self.its_turn),
        ]
    }
}
