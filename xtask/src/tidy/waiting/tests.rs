//! Each rule on a test that breaks it and on one that does not.

use super::{EXCEPTIONS, Rule, check_but};
use crate::tidy::text::Text;

fn text(path: &str, text: &str) -> Text {
    Text {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

/// The lines that are found in a test of that body.
fn lines(body: &str) -> Vec<usize> {
    let found = check_but(&[text("a/tests/t1/b.rs", body)], &[]);
    found.iter().map(|finding| finding.line).collect()
}

#[test]
fn sleeps_and_busy_loops_are_found_in_tests_alone() {
    assert_eq!(lines("tokio::time::sleep(PAUSE).await;\n"), [1]);
    assert_eq!(lines("\nthread::sleep(PAUSE);\n"), [2]);
    assert_eq!(lines("sleep_until(at).await; // sleep(\n"), [1]);
    assert_eq!(lines("tokio::task::yield_now().await;\n"), [1]);
    for fine in [
        "// no sleep(\n",
        "let script = \"sleep 5\";\n",
        "fn asleep() {}\nasleep();\n",
    ] {
        assert_eq!(lines(fine), [0; 0], "{fine}");
    }
    let product = "fn f() { thread::sleep(PAUSE); }\n#[cfg(test)]\nmod tests {\n    fn g() {\n        \
                   thread::sleep(PAUSE);\n    }\n}\n";
    let found = check_but(&[text("a/src/b.rs", product)], &[]);
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [5]);
    for path in [
        "a/src/b/tests.rs",
        "e2e/testkit/src/a.rs",
        "e2e/suites/src/a.rs",
        "a/src/tests/c.rs",
    ] {
        let found = check_but(&[text(path, "thread::sleep(PAUSE);\n")], &[]);
        assert_eq!(found.len(), 1, "{path}");
    }
}

#[test]
fn an_assertion_on_time_is_found_and_a_printed_time_is_not() {
    assert_eq!(lines("assert!(begin.elapsed() < LONG);\n"), [1]);
    assert_eq!(
        lines("ensure!(\n    ready && begin.elapsed() < LONG,\n    \"late\"\n);\n"),
        [1]
    );
    assert_eq!(lines("assert_eq!(2, begin.elapsed().as_secs());\n"), [1]);
    assert_eq!(
        lines("let took = begin.elapsed();\nassert!(took < LONG);\n"),
        [2]
    );
    for fine in [
        "assert!(ready, \"not after {:?}\", begin.elapsed());\n",
        "assert_eq!(a, b, \"{:?}\", begin.elapsed());\n",
        "let took = begin.elapsed();\nassert!(ready, \"{took:?}, (, {}\", took);\n",
        "eprintln!(\"{:?}\", begin.elapsed());\n",
    ] {
        assert_eq!(lines(fine), [0; 0], "{fine}");
    }
}

#[test]
fn a_time_out_that_a_busy_machine_exceeds_is_found() {
    assert_eq!(
        lines("timeout(Duration::from_millis(300), watch.next()).await\n"),
        [1]
    );
    assert_eq!(
        lines("timeout(\n    Duration::from_secs(5),\n    a,\n)\n"),
        [1]
    );
    assert_eq!(
        lines("const HASTE: Duration = Duration::from_millis(800);\nwait_for(HASTE, f)\n"),
        [2]
    );
    for fine in [
        "timeout(Duration::from_secs(60), a)\n",
        "timeout(PATIENCE, ask(Duration::from_millis(20)))\n",
        "interval(Duration::from_millis(50))\n",
        "fn wait_for(patience: Duration) {}\n",
    ] {
        assert_eq!(lines(fine), [0; 0], "{fine}");
    }
}

#[test]
fn fixed_ports_are_found() {
    assert_eq!(lines("TcpListener::bind(\"127.0.0.1:8080\")\n"), [1]);
    assert_eq!(lines("let url = \"http://127.0.0.1:8080/x\";\n"), [0; 0]);
    assert_eq!(
        lines("bind(\"127.0.0.1:0\"); f(\"http://127.0.0.1:{port}\");\n"),
        [0; 0]
    );
}

#[test]
fn paused_time_is_not_the_machines() {
    let paused = "#[tokio::test(start_paused = true)]\nasync fn a() {\n    sleep(LONG).await;\n    \
                  assert_eq!(begin.elapsed(), LONG);\n}\n";
    assert_eq!(lines(paused), [0; 0]);
    assert_eq!(lines(&format!("{paused}sleep(LONG).await;\n")), [6]);
}

#[test]
fn examples_in_comments_are_found_everywhere() {
    let found = check_but(
        &[text(
            "a/src/b.rs",
            "//! Does.\n\n/// F.\n///\n/// ```\n/// f();\n/// ```\n",
        )],
        &[],
    );
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [5]);
}

#[test]
fn an_exception_holds_for_its_rule_and_must_be_needed() {
    let exceptions = [("a/tests/b.rs", Rule::Sleep, "it measures rest")];
    let both = text(
        "a/tests/b.rs",
        "thread::sleep(PAUSE);\nthread::yield_now();\n",
    );
    let found = check_but(&[both], &exceptions);
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2]);
    let found = check_but(&[text("a/tests/b.rs", "wait();\n")], &exceptions);
    assert!(
        found[0].message.contains("not needed any more"),
        "{found:?}"
    );
}

#[test]
fn every_exception_has_a_reason() {
    for (path, rule, reason) in EXCEPTIONS {
        assert!(reason.contains(' '), "{path} {rule:?}");
    }
}
