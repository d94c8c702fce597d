//! What is kept for Machines of clouds, and let go of once none needs it. No I/O, no clock, no chance.
//!
//! Invariant: what keeps a Secret or a RoleBinding is on nothing beside which no ProviderConfig is kept that takes it off
//! again; the right to read Secrets is let go of after the Secrets, and the ProviderConfig last.

use std::collections::{BTreeMap, BTreeSet};

use api::{ConditionStatus, Reason, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Most Machines or pools that are named.
const NAMED: usize = 5;

/// Whether something is kept, and what a write of that needs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Object {
    /// All its finalizers.
    pub finalizers: Vec<String>,
    /// As it was read.
    pub resource_version: Option<String>,
    /// It is being deleted: it may not be kept any more where it is not.
    pub is_going: bool,
}

impl Object {
    /// Of any object.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            is_going: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Whether it is kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let mut all = self.finalizers.iter();
        all.any(|finalizer| finalizer == names::FINALIZER_PROVIDER_CONFIG)
    }

    fn may_be_kept(&self) -> bool {
        !self.is_kept() && !self.is_going
    }
}

/// A Machine that needs it.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct User {
    /// Its node pool.
    pub pool: String,
    /// Its name.
    pub machine: String,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The ProviderConfig.
    pub config: Object,
    /// Machines that need it. None are there only where the API was asked for them.
    pub users: BTreeSet<User>,
    /// Name of the Secret that it names; none of a cloud without one.
    pub secret: Option<String>,
    /// Secrets that Machines of the namespace need, by whichever ProviderConfig.
    pub needed: BTreeSet<String>,
    /// Those Secrets of the namespace that are kept, and the one that is named; none where the operator may not read them.
    pub secrets: Option<BTreeMap<String, Object>>,
    /// The operator's RoleBinding in the namespace; none where there is none.
    pub binding: Option<Object>,
}

/// One write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Keep the ProviderConfig.
    KeepConfig,
    /// Keep the right to read its Secret.
    KeepBinding,
    /// Keep a Secret.
    KeepSecret(String),
    /// Let go of a Secret.
    FreeSecret(String),
    /// Let go of the right to read Secrets.
    FreeBinding,
    /// Let go of the ProviderConfig.
    FreeConfig,
}

/// What the condition `InUse` says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InUse {
    /// Its status.
    pub value: ConditionStatus,
    /// Its reason.
    pub reason: Reason,
    /// Its message.
    pub message: String,
}

impl InUse {
    /// Nobody needs it.
    #[must_use]
    pub fn nobody() -> Self {
        Self {
            value: ConditionStatus::False,
            reason: Reason::NeededByNobody,
            message: String::new(),
        }
    }
}

/// What is to be done, in this order, and what is said of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// The writes.
    pub steps: Vec<Step>,
    /// What is said.
    pub in_use: InUse,
}

/// What follows.
#[must_use]
pub fn plan(observed: &Observed) -> Plan {
    let mut steps = Vec::new();
    let is_needed = !observed.users.is_empty();
    if is_needed && observed.config.may_be_kept() {
        steps.push(Step::KeepConfig);
    }
    let is_kept = observed.config.is_kept() || !steps.is_empty();
    if is_kept && is_needed && observed.binding.as_ref().is_some_and(Object::may_be_kept) {
        steps.push(Step::KeepBinding);
    }
    for (name, secret) in observed.secrets.iter().flatten().filter(|_| is_kept) {
        let is_named = observed.secret.as_ref() == Some(name);
        match observed.needed.contains(name) {
            true if is_named && secret.may_be_kept() => steps.push(Step::KeepSecret(name.clone())),
            false if secret.is_kept() => steps.push(Step::FreeSecret(name.clone())),
            _ => {}
        }
    }
    let may_free = observed.secrets.is_some();
    if is_kept && !is_needed && may_free {
        let binding = observed.binding.as_ref();
        if observed.needed.is_empty() && binding.is_some_and(Object::is_kept) {
            steps.push(Step::FreeBinding);
        }
        steps.push(Step::FreeConfig);
    }
    let in_use = match (is_needed, observed.config.is_going) {
        (true, false) => InUse {
            value: ConditionStatus::True,
            reason: Reason::NeededByMachines,
            message: format!("Machines of {} need it", pools(&observed.users)),
        },
        (true, true) => InUse {
            value: ConditionStatus::True,
            reason: Reason::Deleting,
            message: format!(
                "waits until these Machines are gone: {}; delete their node pools, or name another ProviderConfig there",
                named(observed.users.iter().map(|user| user.machine.as_str()))
            ),
        },
        (false, true) if is_kept && !may_free => InUse {
            value: ConditionStatus::True,
            reason: Reason::Deleting,
            message: format!(
                "no Machine needs it, and the operator may not let go of the Secret that it names, because there is no \
                 TenantCluster beside it: take the finalizer {} off the Secret, and then off this",
                names::FINALIZER_PROVIDER_CONFIG
            ),
        },
        (false, _) => InUse::nobody(),
    };
    Plan { steps, in_use }
}

/// Not the Machines: they change more often than somebody wants to read of it.
fn pools(users: &BTreeSet<User>) -> String {
    let pools: BTreeSet<_> = users.iter().map(|user| user.pool.as_str()).collect();
    let word = match pools.len() {
        1 => "node pool",
        _ => "node pools",
    };
    format!("{word} {}", named(pools.iter().copied()))
}

fn named<'a>(all: impl Iterator<Item = &'a str> + Clone) -> String {
    let count = all.clone().count();
    let first: Vec<_> = all.take(NAMED).collect();
    let first = first.join(", ");
    match count.saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Object {
        Object {
            finalizers: vec![
                "example.com/other".to_owned(),
                names::FINALIZER_PROVIDER_CONFIG.to_owned(),
            ],
            ..Object::default()
        }
    }

    fn user(machine: &str) -> User {
        User {
            pool: "workers".to_owned(),
            machine: machine.to_owned(),
        }
    }

    /// One that a Machine needs, and of which nothing is kept yet.
    fn needed() -> Observed {
        Observed {
            config: Object::default(),
            users: [user("a")].into(),
            secret: Some("token".to_owned()),
            needed: ["token".to_owned()].into(),
            secrets: Some([("token".to_owned(), Object::default())].into()),
            binding: Some(Object::default()),
        }
    }

    /// The same, carried out.
    fn held() -> Observed {
        Observed {
            config: kept(),
            secrets: Some([("token".to_owned(), kept())].into()),
            binding: Some(kept()),
            ..needed()
        }
    }

    /// The same without a Machine.
    fn left() -> Observed {
        Observed {
            users: BTreeSet::new(),
            needed: BTreeSet::new(),
            ..held()
        }
    }

    fn going(mut observed: Observed) -> Observed {
        observed.config.is_going = true;
        observed
    }

    fn secret(name: &str) -> String {
        name.to_owned()
    }

    #[test]
    fn what_a_machine_needs_is_kept_the_config_first_and_once() {
        let plan_of = plan(&needed());
        let all = [
            Step::KeepConfig,
            Step::KeepBinding,
            Step::KeepSecret(secret("token")),
        ];
        assert_eq!(plan_of.steps, all);
        assert_eq!(plan_of.in_use.reason, Reason::NeededByMachines);
        assert!(plan_of.in_use.message.contains("node pool workers"));
        assert_eq!(plan(&held()).steps, []);
        assert_eq!(
            plan(&going(held())).steps,
            [],
            "a deletion lets go of nothing"
        );
    }

    #[test]
    fn after_the_last_machine_the_secret_goes_first_and_the_config_last() {
        for observed in [left(), going(left())] {
            let plan_of = plan(&observed);
            let all = [
                Step::FreeSecret(secret("token")),
                Step::FreeBinding,
                Step::FreeConfig,
            ];
            assert_eq!(plan_of.steps, all);
            assert_eq!(plan_of.in_use, InUse::nobody());
        }
        assert_eq!(plan(&Observed::default()).steps, [], "nothing was kept");
    }

    #[test]
    fn what_another_config_needs_stays() {
        let shared = Observed {
            needed: ["token".to_owned()].into(),
            ..left()
        };
        assert_eq!(plan(&shared).steps, [Step::FreeConfig]);
        let beside = Observed {
            needed: ["theirs".to_owned()].into(),
            secrets: Some([("token".to_owned(), kept()), ("theirs".to_owned(), kept())].into()),
            ..left()
        };
        let all = [Step::FreeSecret(secret("token")), Step::FreeConfig];
        assert_eq!(plan(&beside).steps, all);
    }

    #[test]
    fn secret_that_is_not_named_any_more_is_let_go_of() {
        let renamed = Observed {
            secret: Some("new".to_owned()),
            needed: ["new".to_owned()].into(),
            secrets: Some(
                [
                    ("token".to_owned(), kept()),
                    ("new".to_owned(), Object::default()),
                ]
                .into(),
            ),
            ..held()
        };
        let all = [
            Step::KeepSecret(secret("new")),
            Step::FreeSecret(secret("token")),
        ];
        assert_eq!(plan(&renamed).steps, all);
    }

    #[test]
    fn what_is_being_deleted_already_is_not_kept_anew() {
        let mut observed = needed();
        let gone = Object {
            is_going: true,
            ..Object::default()
        };
        observed.binding = Some(gone.clone());
        observed.secrets = Some([("token".to_owned(), gone.clone())].into());
        assert_eq!(plan(&observed).steps, [Step::KeepConfig]);
        observed.config = gone;
        assert_eq!(plan(&observed).steps, []);
    }

    #[test]
    fn deletion_names_the_machines_that_it_waits_for() {
        let mut observed = going(held());
        observed.users = ["g", "f", "e", "d", "c", "b", "a"].map(user).into();
        let said = plan(&observed).in_use;
        assert_eq!(said.reason, Reason::Deleting);
        assert!(
            said.message.contains("a, b, c, d, e and 2 more;"),
            "{}",
            said.message
        );
    }

    #[test]
    fn config_stays_where_nobody_knows_whether_its_secret_is_free() {
        let blind = Observed {
            secrets: None,
            binding: None,
            ..left()
        };
        assert_eq!(plan(&blind).steps, []);
        let said = plan(&going(blind)).in_use;
        assert_eq!(said.value, ConditionStatus::True);
        assert!(said.message.contains("covey.dev/provider-config"));
    }

    #[test]
    fn law_no_step_lets_go_of_what_a_machine_needs_and_carried_out_nothing_is_left_to_do() {
        let states = [None, Some(Object::default()), Some(kept())];
        for config in [Object::default(), kept()] {
            for token in &states {
                for binding in &states {
                    for machines in 0..2 {
                        let mut observed = Observed {
                            config: config.clone(),
                            binding: binding.clone(),
                            secrets: Some(
                                token
                                    .iter()
                                    .map(|t| ("token".to_owned(), t.clone()))
                                    .collect(),
                            ),
                            ..needed()
                        };
                        if machines == 0 {
                            observed.users.clear();
                            observed.needed.clear();
                        }
                        carry_out(&mut observed);
                        assert_eq!(plan(&observed).steps, [], "{observed:?}");
                    }
                }
            }
        }
    }

    fn carry_out(observed: &mut Observed) {
        let is_needed = !observed.users.is_empty();
        for step in plan(observed).steps {
            let frees = matches!(
                step,
                Step::FreeSecret(_) | Step::FreeBinding | Step::FreeConfig
            );
            assert!(!frees || !is_needed, "{step:?}");
            let secrets = observed.secrets.get_or_insert_default();
            match step {
                Step::KeepConfig => observed.config = kept(),
                Step::FreeConfig => observed.config = Object::default(),
                Step::KeepBinding => observed.binding = Some(kept()),
                Step::FreeBinding => observed.binding = Some(Object::default()),
                Step::KeepSecret(name) => drop(secrets.insert(name, kept())),
                Step::FreeSecret(name) => drop(secrets.insert(name, Object::default())),
            }
        }
    }
}
