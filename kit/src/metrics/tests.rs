//! The text that is scraped.

use super::*;

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "no {line:?} in\n{text}");
}

#[tokio::test(start_paused = true)]
async fn runs_errors_and_durations_are_counted_per_controller() {
    let mut registry = Registry::default();
    let metrics = ControllerMetrics::register(&mut registry);
    let controller = metrics.controller("tenant-cluster");
    let run = controller.begin(Duration::from_millis(1500));
    tokio::time::advance(Duration::from_secs(2)).await;
    run.finish(Some(Class::Conflict));
    controller.begin(Duration::from_millis(500)).finish(None);
    drop(metrics.controller("other").begin(Duration::ZERO));
    controller.ready_after(Duration::from_secs(4));
    let text = text(&registry);
    has(
        &text,
        r#"covey_reconcile_runs_total{controller="tenant-cluster"} 2"#,
    );
    has(
        &text,
        r#"covey_reconcile_errors_total{controller="tenant-cluster",class="conflict"} 1"#,
    );
    has(
        &text,
        r#"covey_reconcile_duration_seconds_sum{controller="tenant-cluster"} 2.0"#,
    );
    has(
        &text,
        r#"covey_reconcile_duration_seconds_count{controller="other"} 1"#,
    );
    has(
        &text,
        r#"covey_queue_wait_seconds_sum{controller="tenant-cluster"} 2.0"#,
    );
    has(
        &text,
        r#"covey_time_to_ready_seconds_bucket{le="4.0",controller="tenant-cluster"} 1"#,
    );
}

#[test]
fn waiting_objects_are_counted_by_reason_and_taken_out_again() {
    let mut registry = Registry::default();
    let controller = ControllerMetrics::register(&mut registry).controller("c");
    let line = |reason: &str, count| {
        format!(r#"covey_waiting_objects{{controller="c",reason="{reason}"}} {count}"#)
    };
    for key in ["1", "2", "2", "3"] {
        controller.waiting(key, Some("Etcd"));
    }
    controller.waiting("2", Some("Endpoint"));
    has(&text(&registry), &line("Etcd", 2));
    has(&text(&registry), &line("Endpoint", 1));
    controller.waiting("1", None);
    controller.waiting("1", None);
    controller.retain(|key| key != "2");
    has(&text(&registry), &line("Etcd", 1));
    has(&text(&registry), &line("Endpoint", 0));
}

#[test]
fn all_that_is_shown_stands_in_the_catalogue_as_it_is_shown() {
    use monitoring::catalogue::{CONTROLLERS, PROCESS, SHARES};

    let mut registry = Registry::default();
    let controller = ControllerMetrics::register(&mut registry).controller("c");
    controller
        .begin(Duration::ZERO)
        .finish(Some(Class::Transient));
    controller.waiting("1", Some("Etcd"));
    controller.ready_after(Duration::from_secs(4));
    ShareMetrics::register(&mut registry).set(2, 7);
    ProcessMetrics::register(&mut registry);
    let groups = [CONTROLLERS, SHARES, PROCESS];
    let found = monitoring::exposition::differences(&groups, &text(&registry));
    assert_eq!(found, [""; 0]);
}

#[test]
fn readings_are_read_anew_for_each_answer() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::metrics::readings::{Reading, Readings};

    let there = Arc::new(AtomicUsize::new(2));
    let read = Arc::clone(&there);
    let mut registry = Registry::default();
    Readings::register(&mut registry, move || {
        let number = read.load(Ordering::Relaxed);
        let some = (number > 0).then_some((("state", "a"), number));
        vec![
            Reading::number("covey_all", "All", number),
            Reading::numbers("covey_some", "Some", some),
            Reading::seconds("covey_age", "Age", 1.5),
        ]
    });
    let before = text(&registry);
    has(&before, "covey_all 2.0");
    has(&before, r#"covey_some{state="a"} 2.0"#);
    has(&before, "covey_age_seconds 1.5");
    there.store(0, Ordering::Relaxed);
    let after = text(&registry);
    has(&after, "covey_all 0.0");
    assert!(!after.contains("covey_some{"), "{after}");
}
