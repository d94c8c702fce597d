//! What provider, tenant cluster and time do by themselves.
//!
//! Invariant: a creation is done once at most, whatever became of its answer: all of them have the same key.

use api::machine::MachineAddress;
use jiff::SignedDuration;
use providers::absence::SETTLE;
use providers::{Description, State};

use super::{NAME, World};
use crate::controllers::machine::observed::Node;

/// What becomes of a creation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) enum Creation {
    /// It is done and answered.
    Answered,
    /// It is answered that it is not done.
    Refused,
    /// It is done later and never answered.
    Unanswered,
    /// It is answered at once, done, and seen only later.
    Lagging,
}

impl World {
    /// The provider is asked for the machine; false when it did not say that it is made.
    pub(super) fn create(&mut self) -> bool {
        let status = self.machine.status.clone().unwrap_or_default();
        assert!(status.creation_pending_since.is_some(), "nobody would know");
        self.asked.push(status.request.expect("for what is stored"));
        self.creations.asks(NAME, self.now);
        if self.creation != Creation::Unanswered {
            let made = self.creation != Creation::Refused;
            self.creations.answers(NAME, made);
        }
        match self.creation {
            Creation::Answered => {
                // What is under way has the same key, and finds it.
                self.under_way = None;
                self.vms_made += 1;
                self.vm = Some(Description::default());
            }
            Creation::Refused => {}
            Creation::Unanswered | Creation::Lagging => {
                let last = SETTLE - SignedDuration::from_secs(1);
                self.under_way = Some(self.now.checked_add(last).unwrap());
                self.lags = self.creation == Creation::Lagging;
            }
        }
        matches!(self.creation, Creation::Answered | Creation::Lagging)
    }

    /// A creation that was not answered is done.
    pub(in super::super) fn appears(&mut self) {
        self.lags = false;
        if self.under_way.take().is_some() && self.vm.is_none() {
            self.vms_made += 1;
            self.vm = Some(Description::default());
        }
    }

    pub(in super::super) fn later(&mut self, seconds: i64) {
        self.now = self
            .now
            .checked_add(SignedDuration::from_secs(seconds))
            .unwrap();
        if self.under_way.is_some_and(|at| at <= self.now) {
            self.appears();
        }
    }

    pub(in super::super) fn vm_runs(&mut self) {
        if let Some(vm) = self.vm.as_mut().filter(|vm| !vm.deleting) {
            vm.state = State::Running;
            vm.instance.get_or_insert("instance-1".into());
            vm.addresses = vec![MachineAddress {
                type_: "InternalIP".into(),
                address: "10.0.1.7".into(),
            }];
        }
    }

    /// The kubelet registers its node, where the token lets it.
    pub(in super::super) fn node_joins(&mut self) {
        let runs = self
            .vm
            .as_ref()
            .is_some_and(|vm| vm.state == State::Running);
        let has = self.booted_with.as_ref();
        let let_in = self.token.as_ref().is_some_and(|t| {
            Some(&t.token) == has && t.expires.is_some_and(|expires| expires > self.now)
        });
        if runs && let_in && self.node.is_none() {
            self.node = Some(Node {
                uid: "uid-of-node".into(),
                provider_id: format!("kubevirt://{NAME}"),
                ready: Some(false),
                message: "container runtime network not ready".into(),
                ..Node::default()
            });
        }
    }

    pub(in super::super) fn node_is(&mut self, ready: Option<bool>) {
        if let Some(node) = &mut self.node {
            node.ready = ready;
        }
    }

    /// Lets the Machine go, with a provider that does its part at once; gives how long it took.
    pub(in super::super) fn goes(&mut self) -> SignedDuration {
        self.delete();
        let begin = self.now;
        for _ in 0..2000 {
            self.settle();
            if self.gone {
                return self.now.duration_since(begin);
            }
            self.vm = self.vm.take().filter(|vm| !vm.deleting);
            self.pods.retain(|p| !p.going);
            let wait = self.plan().requeue_after;
            let wait = wait.map_or(1, |w| w.as_secs_f64().ceil() as i64);
            self.later(wait.clamp(1, 60));
        }
        panic!("it does not go: {:#?}", self.machine.status);
    }
}
