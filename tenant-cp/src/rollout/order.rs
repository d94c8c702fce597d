//! What may be changed next: etcd before the kube-apiserver, then kube-controller-manager and
//! kube-scheduler, and the rest after them.
//!
//! Invariant: never two of them at once, and nothing of a rollout before its turn has come. What was lost
//! comes back at once: that is no rollout.

use crate::validate::validated::Validated;
use crate::version;

/// How far one workload is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// It makes pods from another template than the wanted one.
    Behind,
    /// It makes them from the wanted one, and not every pod is known to be of it and ready, or others have
    /// not ended yet.
    Rolling,
    /// Every pod is of the wanted template and ready, and no other is left.
    Current,
}

/// Who wants a rollout.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cause {
    /// The user, a key that ends soon, or that it does not work as it is.
    Change,
    /// The operator: it has other templates or another configuration than the one before it.
    Fleet,
}

/// What is seen of a tenant cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facts {
    /// The StatefulSet `etcd`.
    pub etcd: Progress,
    /// The Deployment `control-plane`.
    pub control_plane: Progress,
    /// The Deployment `controllers`.
    pub controllers: Progress,
    /// Whether adapters or objects inside the tenant cluster are not as they are wanted.
    pub rest_is_behind: bool,
    /// Whether its API has ever answered: what comes before that is its start and not a rollout.
    pub has_run: bool,
    /// Whether all its pods were ever seen to be of one template: until then its start goes on.
    pub was_current: bool,
    /// Whether it runs from other templates than the operator has now, or that is not known.
    pub other_templates: bool,
    /// Whether the user or a key wants something else than what runs, or it does not work as it is.
    pub wanted_now: bool,
    /// Whether the operator takes a patch of Kubernetes by itself: nothing speaks against it, or it was begun and does not
    /// serve yet.
    pub takes_patch: bool,
    /// Whether a key is lost that pods read when they start: nobody knows then what they should be made from.
    pub keys_are_lost: bool,
}

/// What may be changed now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allowed {
    /// The template of etcd, and its pods one by one.
    pub etcd: bool,
    /// The template of the control plane.
    pub control_plane: bool,
    /// The template of kube-controller-manager and kube-scheduler.
    pub controllers: bool,
    /// Templates of adapters, and of what runs inside the tenant cluster.
    pub rest: bool,
}

impl Facts {
    /// The rollout that is wanted or under way; none where nothing of a rollout is left to do.
    #[must_use]
    pub fn wanted(&self) -> Option<Cause> {
        if !self.has_run || self.keys_are_lost {
            return None;
        }
        let is_over = match self.was_current {
            true => self.is_over(),
            false => !self.parts().contains(&Progress::Behind),
        };
        let rest_is_held = self.other_templates && self.was_current && self.rest_is_behind;
        (!is_over || rest_is_held || self.takes_patch).then(|| self.cause())
    }

    fn parts(&self) -> [Progress; 3] {
        [self.etcd, self.control_plane, self.controllers]
    }

    /// Whether every pod of the tenant namespace that is rolled out is as it is wanted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.parts() == [Progress::Current; 3]
    }

    fn cause(&self) -> Cause {
        match (self.other_templates || self.takes_patch) && !self.wanted_now {
            true => Cause::Fleet,
            false => Cause::Change,
        }
    }

    /// Whether pods are being replaced already, so that it holds a place whatever the queue says.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.was_current && self.parts().contains(&Progress::Rolling)
    }

    /// What may be changed now, where it has its turn or has it not.
    #[must_use]
    pub fn allowed(&self, has_turn: bool) -> Allowed {
        let all = |allowed| Allowed {
            etcd: allowed,
            control_plane: allowed,
            controllers: allowed,
            rest: allowed,
        };
        if !self.has_run || self.keys_are_lost {
            return all(!self.has_run);
        }
        let etcd_is_over = self.etcd == Progress::Current;
        let serves = etcd_is_over && self.control_plane == Progress::Current;
        let of_the_fleet = self.was_current && self.cause() == Cause::Fleet;
        Allowed {
            etcd: has_turn,
            control_plane: has_turn && etcd_is_over,
            // Neither is ever newer than a kube-apiserver that it asks (version skew policy).
            controllers: has_turn && serves,
            // What a user changes there restarts no control plane, so it waits for none.
            rest: !of_the_fleet || (has_turn && self.is_over()),
        }
    }
}

/// How far the programs of a control plane are together: what follows them waits for all.
#[must_use]
pub fn programs(control_plane: Progress, controllers: Progress) -> Progress {
    match control_plane {
        Progress::Current => controllers,
        other => other,
    }
}

/// The tenant cluster as what follows sees it: of the version that serves (`status.version`), until that
/// which it follows has the one that is asked for, and is not that one before. kube-controller-manager and kube-scheduler follow the
/// kube-apiserver, addons and adapters follow all three (version skew policy: none of them may be newer
/// than a kube-apiserver).
#[must_use]
pub fn as_it_serves(valid: &Validated, before: Progress, serves: Option<&str>) -> Validated {
    let mut served = valid.clone();
    served.emulated = None;
    if (before != Progress::Current || valid.emulated.is_some())
        && let Some(Ok(version)) = serves.map(version::parse)
    {
        served.version = version;
    }
    served
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CURRENT: Facts = Facts {
        etcd: Progress::Current,
        control_plane: Progress::Current,
        controllers: Progress::Current,
        rest_is_behind: false,
        has_run: true,
        was_current: true,
        other_templates: false,
        wanted_now: false,
        takes_patch: false,
        keys_are_lost: false,
    };

    #[test]
    fn what_is_as_wanted_asks_for_nothing() {
        assert_eq!(CURRENT.wanted(), None);
        let addon = Facts {
            rest_is_behind: true,
            wanted_now: true,
            ..CURRENT
        };
        assert_eq!((addon.wanted(), addon.allowed(false).rest), (None, true));
    }

    #[test]
    fn change_of_a_user_goes_before_one_of_the_fleet() {
        let fleet = Facts {
            etcd: Progress::Behind,
            other_templates: true,
            ..CURRENT
        };
        assert_eq!(fleet.wanted(), Some(Cause::Fleet));
        let user = Facts {
            wanted_now: true,
            ..fleet
        };
        assert_eq!(user.wanted(), Some(Cause::Change));
        assert!(Cause::Change < Cause::Fleet, "the queue goes by it");
    }

    #[test]
    fn start_is_no_rollout() {
        let starts = Facts {
            etcd: Progress::Rolling,
            control_plane: Progress::Behind,
            controllers: Progress::Rolling,
            has_run: false,
            was_current: false,
            other_templates: true,
            ..CURRENT
        };
        assert_eq!(starts.wanted(), None);
        assert!(starts.allowed(false).control_plane);
        // It answers, and its pods are about to be ready.
        let answers = Facts {
            control_plane: Progress::Rolling,
            has_run: true,
            ..starts
        };
        assert_eq!(
            (answers.wanted(), answers.allowed(false).rest),
            (None, true)
        );
    }

    fn progress() -> impl Strategy<Value = Progress> {
        prop::sample::select(vec![Progress::Behind, Progress::Rolling, Progress::Current])
    }

    proptest! {
        #[test]
        fn nothing_of_a_rollout_comes_out_of_turn_or_order(
            etcd in progress(),
            control_plane in progress(),
            controllers in progress(),
            rest_is_behind in any::<bool>(),
            other_templates in any::<bool>(),
            wanted_now in any::<bool>(),
            takes_patch in any::<bool>(),
            has_turn in any::<bool>(),
        ) {
            let facts = Facts {
                etcd, control_plane, controllers, rest_is_behind, other_templates, wanted_now, takes_patch, ..CURRENT
            };
            let allowed = facts.allowed(has_turn);
            prop_assert!(
                has_turn || !(allowed.etcd || allowed.control_plane || allowed.controllers)
            );
            prop_assert!(!allowed.control_plane || etcd == Progress::Current);
            prop_assert!(!allowed.controllers || control_plane == Progress::Current);
            if facts.wanted() == Some(Cause::Fleet) {
                prop_assert!(!allowed.rest || (has_turn && facts.is_over()));
                prop_assert!(!facts.wanted_now);
            }
            // Whoever has the turn can always go on, so no place is held for nothing.
            if has_turn && facts.wanted().is_some() && !takes_patch {
                let waits_for_pods = facts.is_under_way();
                let goes_on = (etcd == Progress::Behind && allowed.etcd)
                    || (control_plane == Progress::Behind && allowed.control_plane)
                    || (controllers == Progress::Behind && allowed.controllers)
                    || (rest_is_behind && allowed.rest);
                prop_assert!(waits_for_pods || goes_on);
            }
        }
    }
}
