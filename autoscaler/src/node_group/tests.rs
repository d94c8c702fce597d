//! Groups, instances and options, one by one; the laws are in [`laws`].

use proptest::prelude::*;
use proto::Duration;
use proto::autoscaler::instance_status::InstanceState;
use proto::autoscaler::{LegacyDuration, NodeGroupAutoscalingOptions as Options};
use serde_json::{Value, json};

use super::decide::{Change, bring_within, decrease, delete, increase};
use super::*;
use crate::cache::state::WatchEvent;
use crate::error::Refusal;
use crate::testing::{cache, changed, machine, machine_event, named, pool, pool_event};

mod laws;

/// What is decided for pool `workers`: its replicas and who is named.
fn decided(
    seen: impl IntoIterator<Item = WatchEvent>,
    decide: impl Fn(Group<'_>, &State) -> decide::Decision,
) -> Result<Option<(i32, String)>, Refusal> {
    cache(seen).read(|state| {
        let decision = decide(find(state, "workers.x").unwrap(), state)?;
        let names = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(",");
        Ok(decision.map(|Change { replicas, named }| (replicas, names(named))))
    })
}

use std::collections::BTreeSet;

fn three(min: i32, max: i32) -> Vec<WatchEvent> {
    let mut seen = vec![pool_event(&pool("workers", 3, min, max))];
    for name in ["workers-a", "workers-b", "workers-c"] {
        seen.push(machine_event(&machine(name, "workers", "Running")));
    }
    seen.push(pool_event(&pool("others", 1, 0, 5)));
    seen.push(machine_event(&machine("others-a", "others", "Running")));
    seen
}

#[test]
fn pools_that_are_not_ours_to_scale_are_no_groups() {
    let plain = changed(
        &pool("plain", 1, 0, 5),
        json!({ "spec": { "autoscaling": null } }),
    );
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let going = changed(&pool("going", 1, 0, 5), going);
    let foreign = changed(
        &pool("foreign", 1, 0, 5),
        json!({ "spec": { "clusterName": "x" } }),
    );
    let seen = [&plain, &going, &foreign, &pool("workers", 1, 2, 1)].map(pool_event);
    cache(seen).read(|state| {
        let told: Vec<_> = groups(state).map(|g| g.told()).collect();
        assert_eq!(told.len(), 1);
        assert_eq!(
            (told[0].min_size, told[0].max_size),
            (2, 2),
            "never upside down"
        );
        assert!(find(state, &told[0].id).is_some());
        assert!(
            find(state, "workers.00000000").is_some(),
            "its shape was another one"
        );
        for unknown in [
            "workers",
            "plain.00000000",
            "going.00000000",
            "",
            "nobody.1",
        ] {
            assert!(find(state, unknown).is_none(), "{unknown}");
        }
    });
}

#[test]
fn a_node_is_found_by_its_provider_id_and_else_by_its_name() {
    cache(three(0, 5)).read(|state| {
        let pool = |provider_id: &str, name: &str| {
            let node = ExternalGrpcNode {
                provider_id: provider_id.to_owned(),
                name: name.to_owned(),
                ..ExternalGrpcNode::default()
            };
            of_node(state, &node).map_or("", |group| &group.pool.name)
        };
        assert_eq!(pool("kubevirt://workers-a", "anything"), "workers");
        assert_eq!(pool("", "others-a"), "others");
        assert_eq!(pool("kubevirt://others-a", "kubevirt://others-a"), "others");
        assert_eq!(
            pool("kubevirt://gone", "workers-a"),
            "",
            "the provider ID decides"
        );
        assert_eq!(pool("aws:///x", "x"), "");
        assert_eq!(pool("", ""), "");
    });
}

#[test]
fn a_machine_whose_provider_has_not_named_it_yet_is_being_created_and_is_found_by_its_placeholder()
{
    let of_another_kind = changed(
        &machine("workers-n", "workers", "Running"),
        json!({ "spec": { "provider": { "kubevirt": null } } }),
    );
    let chosen = "aws:///eu-central-1a/i-0abc";
    let recorded = changed(
        &of_another_kind,
        json!({ "status": { "providerID": chosen } }),
    );
    let told = |machine: &api::Machine| {
        let seen = [
            pool_event(&pool("workers", 1, 0, 5)),
            machine_event(machine),
        ];
        cache(seen).read(|state| {
            let all = instances::instances(find(state, "workers.x").unwrap(), state);
            let [only] = all.as_slice() else {
                panic!("{all:?}")
            };
            let state_of = only.status.as_ref().unwrap().instance_state();
            let node = |id: &str| ExternalGrpcNode {
                provider_id: id.to_owned(),
                ..ExternalGrpcNode::default()
            };
            let found = [only.id.as_str(), "covey://uid-workers-n"]
                .map(|id| machine_of(state, &node(id)).map(|machine| machine.name.clone()));
            assert_eq!(
                found,
                [Some("workers-n".to_owned()), Some("workers-n".to_owned())]
            );
            assert!(machine_of(state, &node("covey://another")).is_none());
            assert!(machine_of(state, &node("covey://")).is_none());
            (only.id.clone(), state_of)
        })
    };
    let placeholder = "covey://uid-workers-n".to_owned();
    assert_eq!(
        told(&of_another_kind),
        (placeholder, InstanceState::Creating)
    );
    assert_eq!(told(&recorded), (chosen.to_owned(), InstanceState::Running));
}

#[test]
fn a_pool_grows_up_to_its_most_and_not_beyond() {
    let grow = |delta| decided(three(0, 5), |g, s| increase(g, s, delta));
    assert_eq!(grow(2), Ok(Some((5, String::new()))));
    for refused in [3, i32::MAX] {
        assert!(
            matches!(grow(refused), Err(Refusal::Bounds(_))),
            "{refused}"
        );
    }
    for nonsense in [0, -1, i32::MIN] {
        assert!(
            matches!(grow(nonsense), Err(Refusal::Invalid(_))),
            "{nonsense}"
        );
    }
}

#[test]
fn a_pool_grows_no_further_than_its_locations_may() {
    let seen = |min: i32, maxima: [Option<i32>; 2]| {
        let location = |(name, max): (&str, Option<i32>)| {
            let mut location = json!({ "name": name, "provider": { "kubevirt": {} } });
            if let Some(max) = max {
                location["max"] = json!(max);
            }
            location
        };
        let locations: Vec<_> = ["a", "b"].into_iter().zip(maxima).map(location).collect();
        let spec = json!({ "provider": null, "locations": locations });
        let pool = changed(&pool("workers", 3, min, 5), json!({ "spec": spec }));
        vec![pool_event(&pool)]
    };
    for (min, maxima, most) in [
        (0, [Some(1), Some(2)], 3),
        (0, [Some(1), Some(3)], 4),
        (0, [Some(1), None], 5),
        (4, [Some(1), Some(2)], 4),
    ] {
        let seen = seen(min, maxima);
        cache(seen.clone()).read(|state| {
            let group = find(state, "workers.x").unwrap();
            assert_eq!((group.told().max_size, group.max()), (most, 5));
        });
        let one = decided(seen, |g, s| increase(g, s, 1));
        match most > 3 {
            true => assert_eq!(one, Ok(Some((4, String::new())))),
            false => assert!(matches!(one, Err(Refusal::Room(_))), "{one:?}"),
        }
    }
}

#[test]
fn a_pool_for_which_there_is_no_room_is_as_large_as_it_can_be() {
    let full = |replicas: i32, min: i32, status: &str| {
        let capacity = json!({ "type": "Capacity", "status": status, "reason": "NoRoom",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let change = json!({ "status": { "conditions": [capacity] } });
        vec![pool_event(&changed(
            &pool("workers", replicas, min, 5),
            change,
        ))]
    };
    for (replicas, min, status, most) in [
        (3, 0, "False", 3),
        (3, 0, "True", 5),
        (3, 0, "Unknown", 5),
        (1, 2, "False", 2),
        (7, 0, "False", 5),
    ] {
        let seen = full(replicas, min, status);
        cache(seen.clone()).read(|state| {
            let group = find(state, "workers.x").unwrap();
            assert_eq!(group.told().max_size, most, "{replicas} {min} {status}");
            assert_eq!(group.max(), 5, "what the user allows stays");
            let brought = bring_within(group, state).map(|change| change.replicas);
            let within = replicas.clamp(min, 5);
            assert_eq!(brought, (within != replicas).then_some(within));
        });
        let one = decided(seen, |g, s| increase(g, s, 1));
        match (replicas < most, replicas < 5) {
            (true, _) => assert_eq!(one, Ok(Some((replicas + 1, String::new())))),
            (false, true) => assert!(matches!(one, Err(Refusal::Room(_))), "{one:?}"),
            (false, false) => assert!(matches!(one, Err(Refusal::Bounds(_))), "{one:?}"),
        }
    }
}

#[test]
fn who_is_named_goes_and_the_pool_is_so_much_smaller() {
    let take = |names: &[&str]| {
        let nodes: Vec<_> = names.iter().copied().map(named).collect();
        decided(three(1, 5), |g, s| delete(g, s, &nodes))
    };
    assert_eq!(take(&["workers-b"]), Ok(Some((2, "workers-b".to_owned()))));
    let two = Ok(Some((1, "workers-a,workers-b".to_owned())));
    assert_eq!(take(&["workers-b", "workers-a", "workers-b"]), two);
    assert_eq!(take(&["gone"]), Ok(None));
    assert_eq!(take(&[]), Ok(None));
    let all = take(&["workers-a", "workers-b", "workers-c"]);
    assert!(matches!(all, Err(Refusal::Bounds(_))));
    assert!(matches!(
        take(&["workers-a", "others-a"]),
        Err(Refusal::Invalid(_))
    ));
}

#[test]
fn who_goes_already_is_not_counted_again_and_who_is_gone_is_forgotten() {
    let mut seen = three(0, 5);
    let names = json!({ "metadata": { "annotations": {
        "covey.dev/delete-machine": "workers-a,workers-gone" } }, "spec": { "replicas": 2 } });
    seen.push(pool_event(&changed(&pool("workers", 3, 0, 5), names)));
    let drains = machine("workers-b", "workers", "Draining");
    seen.push(machine_event(&drains));
    let take = |name: &str| decided(seen.clone(), |g, s| delete(g, s, &[named(name)]));
    assert_eq!(take("workers-a"), Ok(None));
    assert_eq!(take("workers-b"), Ok(None));
    assert_eq!(
        take("workers-c"),
        Ok(Some((1, "workers-a,workers-c".to_owned())))
    );
}

#[test]
fn where_some_go_anyway_those_go_who_are_named_and_nobody_on_top() {
    let take = |replicas: i32, names: &[&str]| {
        let mut seen = three(1, 5);
        seen.push(pool_event(&pool("workers", replicas, 1, 5)));
        let nodes: Vec<_> = names.iter().copied().map(named).collect();
        decided(seen, |g, s| delete(g, s, &nodes))
    };
    let two = "workers-a,workers-b".to_owned();
    assert_eq!(
        take(1, &["workers-a", "workers-b"]),
        Ok(Some((1, two.clone())))
    );
    assert_eq!(
        take(2, &["workers-a"]),
        Ok(Some((2, "workers-a".to_owned())))
    );
    assert_eq!(take(2, &["workers-a", "workers-b"]), Ok(Some((1, two))));
}

#[test]
fn only_what_does_not_exist_yet_is_cancelled() {
    let cancel = |replicas: i32, min: i32, counted: i32, delta: i32| {
        let mut seen = three(0, 9);
        let change = json!({ "status": { "replicas": counted } });
        seen.push(pool_event(&changed(
            &pool("workers", replicas, min, 9),
            change,
        )));
        let decided = decided(seen, |g, s| decrease(g, s, delta));
        decided.map(|change| change.map(|(replicas, _)| replicas))
    };
    assert_eq!(cancel(6, 0, 3, -2), Ok(Some(4)));
    assert_eq!(cancel(6, 0, 3, -5), Ok(Some(3)), "three exist");
    assert_eq!(
        cancel(6, 0, 5, -5),
        Ok(Some(5)),
        "the operator knows of five"
    );
    assert_eq!(cancel(6, 4, 3, -5), Ok(Some(4)), "four is the least");
    assert_eq!(cancel(3, 0, 3, -1), Ok(None));
    assert!(matches!(cancel(6, 0, 3, 0), Err(Refusal::Invalid(_))));
    assert!(matches!(cancel(6, 0, 3, 1), Err(Refusal::Invalid(_))));
}

#[test]
fn instances_say_how_far_each_machine_is() {
    let condition = json!({ "type": "VirtualMachineReady", "status": "False",
        "reason": "Unschedulable", "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let stuck = json!({ "status": { "conditions": [condition] } });
    let stuck = changed(&machine("workers-s", "workers", "Creating"), stuck);
    let mut seen = three(0, 9);
    seen.extend([
        machine_event(&stuck),
        machine_event(&machine("workers-f", "workers", "Failed")),
        machine_event(&machine("workers-b", "workers", "Draining")),
        machine_event(&machine("workers-c", "workers", "Joining")),
    ]);
    let all = cache(seen).read(|state| {
        let all = instances::instances(find(state, "workers.x").unwrap(), state);
        let told = all.into_iter().map(|instance| {
            let status = instance.status.unwrap();
            let class = status
                .error_info
                .as_ref()
                .map_or(0, |e| e.instance_error_class);
            (instance.id, status.instance_state(), class)
        });
        told.collect::<Vec<_>>()
    });
    let (running, creating) = (InstanceState::Running, InstanceState::Creating);
    let expected = [
        ("a", running, 0),
        ("b", InstanceState::Deleting, 0),
        ("c", creating, 0),
        ("f", creating, 99),
        ("s", creating, 1),
    ];
    let expected =
        expected.map(|(n, state, class)| (format!("kubevirt://workers-{n}"), state, class));
    assert_eq!(all, expected);
}

fn answer(pool_says: Value, phase: &str, defaults: Option<&Options>) -> Option<Options> {
    let pool = changed(
        &pool("workers", 1, 0, 5),
        json!({ "spec": { "autoscaling": pool_says } }),
    );
    let machine = machine("workers-a", "workers", phase);
    cache([pool_event(&pool), machine_event(&machine)])
        .read(|state| options::options(find(state, "workers.x").unwrap(), state, defaults))
}

#[test]
fn options_are_silent_unless_the_pool_says_something_and_nothing_starts() {
    let defaults = Options::default();
    let says = || json!({ "scaleDownDelay": "2m", "utilizationThreshold": 70 });
    assert_eq!(answer(json!({}), "Running", Some(&defaults)), None);
    assert_eq!(answer(says(), "Joining", Some(&defaults)), None);
    assert_eq!(answer(says(), "Running", None), None);
    let answered = answer(says(), "Running", Some(&defaults)).unwrap();
    assert_eq!(answered.scale_down_utilization_threshold, 0.7);
    assert_eq!(answered.scale_down_unneeded_duration.unwrap().seconds, 120);
    let legacy = answered.legacy_scale_down_unneeded_time.unwrap().duration;
    assert_eq!(legacy, 120_000_000_000);
    assert!(
        answer(says(), "Draining", Some(&defaults)).is_some(),
        "it does not start"
    );
}

fn sent() -> impl Strategy<Value = Options> {
    let time = || proptest::option::of((1..100_000_i64, 0..1_000_000_000_i32));
    let times = (time(), time(), time(), time(), time(), time());
    let new = |t: Option<(i64, i32)>| t.map(|(seconds, nanos)| Duration { seconds, nanos });
    let legacy = |t: Option<(i64, i32)>| {
        t.map(|(seconds, nanos)| LegacyDuration {
            duration: seconds * 1_000_000_000 + i64::from(nanos),
        })
    };
    (0.01..1.0, 0.01..1.0, any::<bool>(), any::<bool>(), times).prop_map(
        move |(util, gpu, zero_or_max, ignore, (a, b, c, d, e, f))| Options {
            scale_down_utilization_threshold: util,
            scale_down_gpu_utilization_threshold: gpu,
            legacy_scale_down_unneeded_time: legacy(a),
            legacy_scale_down_unready_time: legacy(b),
            legacy_max_node_provision_time: legacy(c),
            zero_or_max_node_scaling: zero_or_max,
            ignore_daemon_sets_utilization: ignore,
            scale_down_unneeded_duration: new(d),
            scale_down_unready_duration: new(e),
            max_node_provision_duration: new(f),
        },
    )
}

proptest! {
    #[test]
    fn options_never_zero_what_the_client_sent(sent in sent()) {
        let says = json!({ "utilizationThreshold": 70 });
        let answer = answer(says, "Running", Some(&sent)).unwrap();
        let mut rest = answer;
        rest.scale_down_utilization_threshold = sent.scale_down_utilization_threshold;
        for (new, legacy, sent_new, sent_legacy) in [
            (&mut rest.scale_down_unneeded_duration, &mut rest.legacy_scale_down_unneeded_time,
                sent.scale_down_unneeded_duration, sent.legacy_scale_down_unneeded_time),
            (&mut rest.scale_down_unready_duration, &mut rest.legacy_scale_down_unready_time,
                sent.scale_down_unready_duration, sent.legacy_scale_down_unready_time),
            (&mut rest.max_node_provision_duration, &mut rest.legacy_max_node_provision_time,
                sent.max_node_provision_duration, sent.legacy_max_node_provision_time),
        ] {
            let (time, old) = (new.unwrap(), legacy.unwrap());
            prop_assert!(time.seconds > 0 && old.duration > 0, "both generations are filled");
            prop_assert_eq!(old.duration, time.seconds * 1_000_000_000 + i64::from(time.nanos));
            if let Some(sent) = sent_new {
                prop_assert_eq!(time, sent);
            } else if let Some(sent) = sent_legacy {
                prop_assert_eq!(old, sent);
            }
            (*new, *legacy) = (sent_new, sent_legacy);
        }
        prop_assert_eq!(rest, sent);
    }
}
