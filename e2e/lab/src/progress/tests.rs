//! What the plain lines and the summary say.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Progress, seconds};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn a_step_says_when_it_begins_and_how_it_ended() {
    let sink = Sink::default();
    let progress = Progress::lines(Box::new(sink.clone()));
    progress.step("building etcd").done();
    let text = sink.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with("] building etcd …"), "{text}");
    assert!(
        lines[1].contains("] building etcd: done after 0.0 s"),
        "{text}"
    );
}

#[test]
fn a_step_that_is_dropped_counts_as_stopped() {
    let progress = Progress::lines(Box::new(Sink::default()));
    drop(progress.step("building etcd"));
    assert!(
        progress.summary().contains("stopped"),
        "{}",
        progress.summary()
    );
}

#[test]
fn a_step_ends_as_its_work_did() {
    let progress = Progress::lines(Box::new(Sink::default()));
    let result: Result<(), &str> = progress.step("first").finish(Err("no"));
    assert_eq!(result, Err("no"));
    progress.step("second").finish::<_, ()>(Ok(())).unwrap();
    let table = progress.summary();
    let lines: Vec<_> = table.lines().collect();
    assert!(
        lines[0].starts_with("first ") && lines[0].ends_with("failed"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("second") && lines[1].ends_with(" s"),
        "{table}"
    );
    assert!(lines[2].starts_with("altogether"), "{table}");
}

#[test]
fn times_are_readable() {
    assert_eq!(seconds(Duration::from_millis(40)), "0.0 s");
    assert_eq!(seconds(Duration::from_millis(12_340)), "12.3 s");
    assert_eq!(seconds(Duration::from_secs(245)), "4 min 05 s");
}
