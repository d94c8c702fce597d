//! What holds in any life of a Machine, whatever happens around it.
//!
//! Invariant: [`World`] itself asserts that nothing boots without a stored and valid token, that
//! there is never a second virtual machine, and that none is left behind; here it only lives.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use proptest::prelude::*;
use providers::{Description, Evacuation, State};

use super::pod;
use super::world::{Api, Creation, NAME, World};
use crate::controllers::machine::observed::Observed;
use crate::controllers::machine::plan::{Action, PATIENCE, Plan, plan};

/// What may happen.
#[derive(Clone, Debug)]
enum Happening {
    Runs,
    Joins,
    NodeIs(Option<bool>),
    NodeGone,
    Vanishes,
    Stops,
    StartsAnew,
    Fails,
    Taken,
    Evacuated(Option<i64>),
    Api(u8),
    TokenGone,
    UserDataGone,
    Pods(u8, bool),
    ClusterGoes,
    Paused(bool),
    Balanced(bool),
    OutOfService,
    Later(i64),
    Crash(usize),
    Creation(Creation),
    Appears,
    Settings(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    prop_oneof![
        4 => Just(Runs),
        4 => Just(Joins),
        4 => prop_oneof![Just(Some(true)), Just(Some(false)), Just(None)].prop_map(NodeIs),
        1 => Just(NodeGone),
        1 => Just(Vanishes),
        1 => Just(Stops),
        1 => Just(StartsAnew),
        1 => Just(Fails),
        1 => Just(Taken),
        1 => proptest::option::of(0..600_i64).prop_map(Evacuated),
        2 => (0..3_u8).prop_map(Api),
        1 => Just(TokenGone),
        1 => Just(UserDataGone),
        1 => (0..4_u8, any::<bool>()).prop_map(|(n, protected)| Pods(n, protected)),
        1 => Just(ClusterGoes),
        1 => any::<bool>().prop_map(Paused),
        1 => any::<bool>().prop_map(Balanced),
        1 => Just(OutOfService),
        2 => (1..2000_i64).prop_map(Later),
        2 => (0..8_usize).prop_map(Crash),
        2 => creation(),
        1 => Just(Appears),
        1 => any::<u8>().prop_map(Settings),
    ]
}

fn creation() -> impl Strategy<Value = Happening> {
    prop_oneof![
        2 => Just(Creation::Answered),
        1 => Just(Creation::Refused),
        1 => Just(Creation::Unanswered),
        1 => Just(Creation::Lagging),
    ]
    .prop_map(Happening::Creation)
}

fn happens(world: &mut World, what: Happening) {
    match what {
        Happening::Runs => world.vm_runs(),
        Happening::Joins => world.node_joins(),
        Happening::NodeIs(ready) => world.node_is(ready),
        Happening::NodeGone => world.node = None,
        Happening::Vanishes => world.vm = None,
        Happening::Stops => world.vm.iter_mut().for_each(|vm| {
            (vm.state, vm.instance) = (State::Stopped, None);
        }),
        Happening::StartsAnew => world.vm.iter_mut().for_each(|vm| {
            vm.instance = Some(format!("{}+", vm.instance.clone().unwrap_or_default()));
        }),
        Happening::Fails => world.vm.iter_mut().for_each(|vm| {
            vm.state = State::Failing {
                reason: api::ConditionReason::passed_on("ErrImagePull"),
                message: "no such image".into(),
            };
        }),
        Happening::Taken => {
            let taken = Description {
                foreign: true,
                ..Description::default()
            };
            world.vm.get_or_insert(taken);
        }
        Happening::Evacuated(within) => {
            let now = world.now;
            let end = |seconds| {
                now.saturating_add(SignedDuration::from_secs(seconds))
                    .unwrap()
            };
            let evacuation = Evacuation {
                deadline: within.map(end),
            };
            world
                .vm
                .iter_mut()
                .for_each(|vm| vm.evacuation = Some(evacuation));
        }
        Happening::Api(n) => {
            world.api = [Api::Up, Api::Silent, Api::NotAsked, Api::Postponed][usize::from(n)];
        }
        Happening::TokenGone => world.token = None,
        Happening::UserDataGone => world.user_data = None,
        Happening::Pods(n, protected) => {
            world.pods = (0..n).map(|n| pod(&format!("pod-{n}"))).collect();
            world.protected = protected;
        }
        Happening::ClusterGoes => {
            let now = Time(world.now);
            if let Some(cluster) = &mut world.cluster {
                cluster.metadata.deletion_timestamp = Some(now);
            }
        }
        Happening::Paused(paused) => {
            world.cluster.as_mut().unwrap().spec.paused = paused;
        }
        Happening::Balanced(balanced) => {
            let cluster = world.cluster.as_mut().unwrap();
            cluster.spec.addons.cloud_controller.enabled = balanced;
        }
        Happening::OutOfService => world.node.iter_mut().for_each(|node| {
            (node.out_of_service, node.volumes_attached) = (true, true);
        }),
        Happening::Later(seconds) => world.later(seconds),
        Happening::Crash(budget) => {
            let _ = world.reconcile(&mut budget.clone());
            world.creations.forget(NAME);
        }
        Happening::Creation(creation) => world.creation = creation,
        Happening::Appears => world.appears(),
        Happening::Settings(n) => world.request.image = format!("image-{n}"),
    }
}

/// What may not be known.
#[derive(Clone, Copy, Debug)]
enum Input {
    Namespace,
    Vm,
    UserData,
    Token,
    Pods,
}

const INPUTS: [Input; 5] = [
    Input::Namespace,
    Input::Vm,
    Input::UserData,
    Input::Token,
    Input::Pods,
];

fn lose(observed: &mut Observed, input: Input) {
    match input {
        Input::Namespace => observed.namespace = Known::default(),
        Input::Vm => observed.vm = Known::default(),
        Input::UserData => observed.user_data = Known::default(),
        Input::Token => observed.seen_mut().into_iter().for_each(|seen| {
            seen.token = Known::default();
        }),
        Input::Pods => observed.seen_mut().into_iter().for_each(|seen| {
            seen.pods = Known::default();
        }),
    }
}

/// Nothing is made anew, deleted or told by what is not known.
fn is_careful(world: &World, input: Input) -> Result<(), TestCaseError> {
    let sighted = world.observe();
    let mut blind = sighted.clone();
    lose(&mut blind, input);
    let plan_of = |observed: &Observed| plan(observed, world.now);
    let blind = plan_of(&blind);
    let does = |plan: &Plan, what: fn(&Action) -> bool| plan.actions.iter().any(what);
    let said = |plan: &Plan, type_: &str| {
        let mut conditions = plan.status.conditions.iter();
        conditions.find(|c| c.type_ == type_).cloned()
    };
    match input {
        Input::Namespace => {
            let leaves = does(&blind, |a| *a == Action::RemoveFinalizer);
            let own = world.vm.as_ref().is_some_and(|vm| !vm.foreign);
            prop_assert!(!(leaves && own), "{blind:#?}");
        }
        Input::Vm => {
            let harms = does(&blind, |action| {
                matches!(
                    action,
                    Action::CreateVm
                        | Action::DeleteVm
                        | Action::DeleteSelf
                        | Action::RemoveFinalizer
                        | Action::DeleteNode { .. }
                        | Action::End(_)
                        | Action::Decide { .. }
                )
            });
            let taken_along = world.capabilities.goes_with_namespace;
            let over = sighted.home().is_none() && !world.namespace && taken_along;
            prop_assert!(!harms || over, "{blind:#?}");
            let before = world.machine.status.clone().unwrap_or_default();
            let kept = before.conditions.iter();
            let mut kept = kept.filter(|c| c.type_ == "VirtualMachineReady");
            prop_assert_eq!(said(&blind, "VirtualMachineReady"), kept.next().cloned());
            prop_assert_eq!(&blind.status.addresses, &before.addresses);
            let failed = api::machine::MachinePhase::Failed;
            let fails = |phase: Option<_>| phase == Some(failed);
            prop_assert!(!fails(blind.status.phase) || fails(before.phase));
        }
        Input::UserData => {
            let harms = does(&blind, |action| {
                matches!(
                    action,
                    Action::DrawToken
                        | Action::CreateUserData(_)
                        | Action::ChangeUserData(_)
                        | Action::DeleteUserData { .. }
                        | Action::CreateVm
                )
            });
            prop_assert!(!harms, "{blind:#?}");
            let leaves = does(&blind, |a| *a == Action::RemoveFinalizer);
            prop_assert!(!(leaves && sighted.home().is_some()), "{blind:#?}");
        }
        Input::Token => {
            let harms = does(&blind, |action| {
                matches!(
                    action,
                    Action::DrawToken
                        | Action::CreateUserData(_)
                        | Action::ApplyToken(..)
                        | Action::CreateVm
                )
            });
            let asked = sighted.seen().is_some();
            prop_assert!(!(asked && harms), "{blind:#?}");
        }
        Input::Pods => {
            // As if a pod were there.
            let mut busy = sighted;
            if let Some(seen) = busy.seen_mut() {
                seen.pods = Known::Known(vec![pod("unseen")]);
            }
            let goes = |plan: &Plan| {
                does(plan, |a| {
                    matches!(a, Action::DeleteVm | Action::Exclude { .. })
                }) || said(plan, "Drained").is_some_and(|c| c.status == "True")
            };
            prop_assert!(!goes(&blind) || goes(&plan_of(&busy)), "{blind:#?}");
        }
    }
    Ok(())
}

#[test]
fn namespace_is_absent_only_where_it_is_gone_or_says_that_it_is_anothers() {
    use k8s_openapi::api::core::v1::Namespace;
    let labelled = |uid: &str| {
        let mut namespace = Namespace::default();
        let labels = namespace.metadata.labels.get_or_insert_default();
        labels.insert(api::names::LABEL_TENANT_UID.to_owned(), uid.to_owned());
        namespace
    };
    let whose = |found: Option<&Namespace>| super::super::observe::whose(found, "ours");
    assert!(whose(None).is_absent());
    assert_eq!(whose(Some(&labelled("ours"))), Known::Known(()));
    assert!(whose(Some(&labelled("another"))).is_absent());
    // Somebody took the label off: a virtual machine may run there.
    assert!(whose(Some(&Namespace::default())).is_unknown());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_life_of_a_machine_keeps_its_promises_and_ends_in_time(
        life in proptest::collection::vec(happening(), 0..30),
        turn in any::<prop::sample::Index>(),
        taken_along in any::<bool>(),
    ) {
        let mut world = World::new();
        world.capabilities.goes_with_namespace = taken_along;
        for what in life {
            happens(&mut world, what);
            if world.gone {
                return Ok(());
            }
            // The order of what was observed does not matter.
            let mut turned = world.observe();
            let pods = turned.seen_mut().and_then(|seen| seen.pods.as_mut().there());
            if let Some(pods) = pods.filter(|pods| !pods.is_empty()) {
                let by = turn.index(pods.len());
                pods.rotate_left(by);
            }
            prop_assert_eq!(plan(&turned, world.now), world.plan());
            for input in INPUTS {
                is_careful(&world, input)?;
            }
            world.settle();
            if world.gone {
                return Ok(());
            }
            // Nothing is left to write.
            let (writes, told) = (world.writes, world.status_writes);
            let evicting = world.machine.metadata.deletion_timestamp.is_some();
            let asking = world.creation != Creation::Answered;
            world.settle();
            prop_assert!(evicting || asking || world.writes == writes, "{:#?}", world.machine.status);
            // Asking again and again writes nothing that would wake it.
            prop_assert!(evicting || world.status_writes == told, "{:#?}", world.machine.status);
            prop_assert!(world.asked.windows(2).all(|two| two[0] == two[1]), "{:?}", world.asked);
            if world.gone {
                return Ok(());
            }
        }
        let deadline = world.vm.as_ref().and_then(|vm| vm.evacuation?.deadline);
        let deadline = deadline.filter(|_| world.vm.as_ref().is_some_and(|vm| !vm.foreign));
        let mut end = world.clone();
        let took = world.goes();
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= world.now) {
            // From then on only what is inside the tenant cluster is waited for.
            end.delete();
            let left = deadline.duration_since(end.now).as_secs().max(0);
            end.later(left);
            end.settle();
            let gone = |vm: &Description| vm.deleting;
            prop_assert!(end.gone || end.vm.as_ref().is_none_or(gone), "{:#?}", end.machine.status);
        }
        let most = 300 + 2 * PATIENCE.as_secs() as i64 + 60;
        prop_assert!(took.as_secs() <= most, "{took:?}");
    }

    #[test]
    fn whatever_goes_wrong_before_the_join_a_machine_that_is_left_alone_comes_up(
        life in proptest::collection::vec(prop_oneof![
            Just(Happening::TokenGone),
            Just(Happening::UserDataGone),
            Just(Happening::Runs),
            (0..4_u8).prop_map(Happening::Api),
            (0..8_usize).prop_map(Happening::Crash),
            (1..2000_i64).prop_map(Happening::Later),
            any::<bool>().prop_map(Happening::Paused),
            creation(),
            Just(Happening::Appears),
            any::<u8>().prop_map(Happening::Settings),
        ], 0..20),
    ) {
        let mut world = World::new();
        let mut both = false;
        for what in life {
            happens(&mut world, what);
            // Both copies of a token gone at once: nobody can know it any more.
            let made = world.vm.is_some() || world.under_way.is_some();
            both |= world.token.is_none() && world.user_data.is_none() && made;
            world.settle();
        }
        if !both {
            happens(&mut world, Happening::Api(0));
            happens(&mut world, Happening::Paused(false));
            happens(&mut world, Happening::Creation(Creation::Answered));
            happens(&mut world, Happening::Appears);
            world.comes_up();
            prop_assert_eq!(world.vms_made, 1);
        }
    }
}
