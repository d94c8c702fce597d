//! Laws of tenant namespaces without a TenantCluster.

use std::time::Duration;

use api::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::prelude::*;
use serde_json::json;

use super::plan::{Action, Plan, Presence, owner, plan};

const NAME: &str = "covey-demo-0a1b2c3d40";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn namespace(mark: Option<&str>) -> ObjectMeta {
    let mut meta: ObjectMeta = serde_json::from_value(json!({
        "name": NAME, "uid": "n1", "resourceVersion": "7",
        "labels": {
            names::LABEL_MANAGED_BY: names::MANAGED_BY,
            names::LABEL_COMPONENT: names::COMPONENT_TENANT_NAMESPACE,
            names::LABEL_TENANT_NAME: "demo",
            names::LABEL_TENANT_NAMESPACE: "team",
            names::LABEL_TENANT_UID: "0a1b2c3d-4000-4000-8000-000000000000",
        },
    }))
    .unwrap();
    let mark = mark.map(|mark| (names::ANNOTATION_ORPHANED_SINCE.to_owned(), mark.to_owned()));
    meta.annotations = mark.map(|mark| [mark].into());
    meta
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn orphan_is_marked_and_told_of_and_removed_a_day_later() {
    let found = at("2026-03-01T12:00:00.5Z");
    let told = plan(&namespace(None), Presence::Absent, Some(DAY), found);
    let since = at("2026-03-01T12:00:00Z");
    assert_eq!(told.action, Some(Action::Mark(since)));
    assert_eq!(
        (told.orphan_since, told.requeue_after),
        (Some(since), Some(DAY))
    );
    let notice = told.notice.unwrap();
    assert!(notice.warning && notice.reason == "TenantClusterGone");
    assert_eq!(
        notice.message,
        "TenantCluster team/demo with the UID 0a1b2c3d-4000-4000-8000-000000000000, for which this \
         namespace was made, is gone without the operator, and control plane, volumes and load \
         balancers go on: it is deleted after 2026-03-02T12:00:00Z; to keep what is in it, take its \
         label covey.dev/tenant-cluster-uid off"
    );

    let marked = namespace(Some("2026-03-01T12:00:00Z"));
    let later = plan(
        &marked,
        Presence::Absent,
        Some(DAY),
        at("2026-03-02T11:59:00Z"),
    );
    let minute = Some(Duration::from_secs(60));
    let expected = Plan {
        orphan_since: Some(since),
        requeue_after: minute,
        ..Plan::default()
    };
    assert_eq!(later, expected);
    let end = plan(
        &marked,
        Presence::Absent,
        Some(DAY),
        at("2026-03-02T12:00:00Z"),
    );
    assert_eq!(end.action, Some(Action::Remove));
    assert_eq!((end.orphan_since, end.requeue_after), (None, None));
}

#[test]
fn orphan_is_kept_for_ever_where_the_settings_say_so() {
    let told = plan(
        &namespace(None),
        Presence::Absent,
        None,
        Timestamp::UNIX_EPOCH,
    );
    let notice = told.notice.unwrap();
    let end = "delete it if nobody needs what is in it";
    assert!(notice.message.ends_with(end), "{}", notice.message);
    assert_eq!(told.requeue_after, None);
    let marked = namespace(Some("2026-03-01T12:00:00Z"));
    let later = plan(&marked, Presence::Absent, None, at("2126-03-01T12:00:00Z"));
    assert_eq!((later.action, later.requeue_after), (None, None));
    assert!(later.orphan_since.is_some());
}

#[test]
fn namespace_whose_tenant_cluster_is_there_after_all_is_not_marked_any_more() {
    let marked = namespace(Some("2026-03-01T12:00:00Z"));
    let now = at("2026-03-09T12:00:00Z");
    let found = plan(&marked, Presence::Present, Some(DAY), now);
    let expected = Plan {
        action: Some(Action::Unmark),
        ..Plan::default()
    };
    assert_eq!(found, expected);
    let found = plan(&namespace(None), Presence::Present, Some(DAY), now);
    assert_eq!(found, Plan::default());
}

#[test]
fn mark_that_nobody_can_read_is_made_anew() {
    let now = at("2026-03-09T12:00:00Z");
    let marked = namespace(Some("yesterday"));
    let found = plan(&marked, Presence::Absent, Some(DAY), now);
    assert_eq!(found.action, Some(Action::Mark(now)));
}

#[test]
fn namespace_without_a_label_that_the_operator_gives_is_none_of_ours() {
    let labels: Vec<String> = namespace(None).labels.unwrap().into_keys().collect();
    assert_eq!(labels.len(), 5);
    for label in labels {
        for value in [None, Some("another")] {
            let mut meta = namespace(None);
            let labels = meta.labels.as_mut().unwrap();
            labels.remove(&label);
            labels.extend(value.map(|value| (label.clone(), value.to_owned())));
            // Which namespace a TenantCluster is in, nothing but its label says.
            let believed = value.is_some() && label == names::LABEL_TENANT_NAMESPACE;
            assert_eq!(owner(&meta).is_some(), believed, "{label}: {value:?}");
        }
    }
    let mut meta = namespace(None);
    meta.name = Some("covey-demo-ffffffffff".to_owned());
    assert_eq!(owner(&meta), None);
    assert!(owner(&namespace(None)).is_some());
}

fn any_meta() -> impl Strategy<Value = ObjectMeta> {
    let mark = prop::option::of(prop_oneof![
        Just("yesterday".to_owned()),
        (0_i64..1_000_000).prop_map(|s| Timestamp::from_second(s).unwrap().to_string()),
    ]);
    let lost = prop::option::weighted(0.3, 0_usize..5);
    (mark, lost, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(mark, lost, renamed, going)| {
            let mut meta = namespace(mark.as_deref());
            if let Some(lost) = lost {
                let labels = meta.labels.as_mut().unwrap();
                let key = labels.keys().nth(lost).unwrap().clone();
                labels.remove(&key);
            }
            if renamed {
                meta.name = Some("covey-docs".to_owned());
            }
            meta.deletion_timestamp = going.then_some(Time(Timestamp::UNIX_EPOCH));
            meta
        },
    )
}

proptest! {
    #[test]
    fn nothing_is_removed_but_what_was_marked_for_so_long_and_is_certainly_absent(
        meta in any_meta(),
        presence in prop_oneof![
            Just(Presence::Present), Just(Presence::Absent), Just(Presence::Unknown)
        ],
        after in prop::option::of((0_u64..2_000_000).prop_map(Duration::from_secs)),
        now in (0_i64..2_000_000).prop_map(|s| Timestamp::from_second(s).unwrap()),
    ) {
        let step = plan(&meta, presence, after, now);
        if presence == Presence::Unknown || owner(&meta).is_none() {
            prop_assert_eq!(&step, &Plan::default());
        }
        if step.action == Some(Action::Remove) {
            prop_assert_eq!(presence, Presence::Absent);
            prop_assert!(owner(&meta).is_some() && meta.deletion_timestamp.is_none());
            let mark = &meta.annotations.as_ref().unwrap()[names::ANNOTATION_ORPHANED_SINCE];
            let since: Timestamp = mark.parse().unwrap();
            let kept = Duration::try_from(now.duration_since(since)).unwrap();
            prop_assert!(kept >= after.unwrap());
        }
        // Whatever was written is not written again, and what is waited for comes.
        if let Some(Action::Mark(since)) = step.action {
            let marked = namespace(Some(&since.to_string()));
            let again = plan(&marked, presence, after, now);
            match after {
                Some(after) => {
                    let wanted = (!after.is_zero()).then_some(after);
                    prop_assert_eq!(again.requeue_after, wanted);
                    let end = plan(&marked, presence, Some(after), now.checked_add(after).unwrap());
                    prop_assert_eq!(end.action, Some(Action::Remove));
                }
                None => prop_assert_eq!((again.action, again.requeue_after), (None, None)),
            }
        }
    }
}
