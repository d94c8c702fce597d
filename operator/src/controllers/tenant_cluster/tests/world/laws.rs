//! What holds of every plan, and what is asked of a world at rest.
//!
//! Invariant: no plan deletes what the spec wants.

use api::Reason;
use api::tenant_cluster::RotationStatus;
use kit_objects::object::Key;
use serde_json::Value;

use super::{NS, World};
use crate::controllers::stored::keep_their_times;
use crate::controllers::tenant_cluster::plan::{Action, Plan, plan};

impl World {
    /// The plan deletes this Deployment with its pods, and nothing else yet.
    pub(in super::super) fn only_deletes(&self, deployment: &Key) {
        let plan = plan(&self.observe(), &self.settings, self.now);
        let targets: Vec<_> = plan.deletions().collect();
        let [first] = &targets[..] else {
            panic!("{targets:?}")
        };
        assert_eq!(
            (&first.key, first.with_dependents),
            (deployment, true),
            "only it, and with its pods"
        );
    }

    /// No plan deletes what the spec wants, or tells of a condition that stayed that it changed.
    pub(in super::super) fn is_lawful(&self, plan: &Plan) {
        if self.cluster.metadata.deletion_timestamp.is_some() {
            return;
        }
        let inside = plan.actions().filter_map(|action| match action {
            Action::ApplyTenantObjects { changes, .. } => Some(&changes.delete),
            _ => None,
        });
        let outside = plan.parts.iter().map(|part| &part.deletions);
        for target in inside.chain(outside).flatten() {
            assert!(!self.wanted.contains(&target.key), "{}", target.key);
        }
        let before = self.cluster.status.as_ref();
        let before = before.map(|before| &before.conditions);
        // That the API answers after silence is a transition of Ready, though it stays False.
        let told = plan.status.conditions.iter();
        let told = told.filter(|c| {
            let answers = Reason::ANSWERS.iter().any(|why| c.reason == *why);
            !(c.type_ == "Ready" && answers)
        });
        keep_their_times(before, told);
    }

    /// Reconciles until nothing is written any more: a rotation has the most steps.
    pub(in super::super) fn settle(&mut self) {
        for _ in 0..24 {
            let before = self.writes;
            assert!(self.reconcile(&mut usize::MAX.clone()));
            if before == self.writes {
                return;
            }
        }
        panic!("writes never end");
    }

    /// What the status says of a rotation.
    pub(in super::super) fn rotation(&self, name: &str) -> Option<RotationStatus> {
        let status = self.cluster.status.as_ref()?;
        let mut all = status.rotation.iter();
        all.find(|told| told.name == name).cloned()
    }

    pub(in super::super) fn secret(&self, name: &str) -> Option<&Value> {
        self.objects.get(&Key::new("Secret", NS, name))
    }

    pub(in super::super) fn condition(&self, type_: &str) -> (String, String) {
        let conditions = self.cluster.status.iter().flat_map(|s| &s.conditions);
        let found = conditions.into_iter().find(|c| c.type_ == type_);
        found
            .map(|c| (c.status.clone(), c.reason.clone()))
            .unwrap_or_default()
    }
}
