//! How tests wait: for a state, with patience, and with no word about time (docs/testing.md, "How a
//! test waits").
//!
//! Invariant: an exception is a file, a rule and a reason, and one that is not needed any more is a
//! finding, so the list only gets shorter.

use super::finding::Finding;
use super::source::{arguments, calls, code, macros, test_lines};
use super::text::{Text, has_word};

/// Below this a time-out decides a race instead of ending a wait that is lost.
const PATIENCE_SECONDS: u64 = 20;

/// What tests must not do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rule {
    /// `sleep(`, `sleep_until(`.
    Sleep,
    /// `yield_now`.
    Yield,
    /// A measured time in an assertion.
    Time,
    /// A time-out that a busy machine exceeds.
    Haste,
    /// A port that somebody else may have.
    Port,
}

impl Rule {
    const ALL: [Self; 5] = [
        Self::Sleep,
        Self::Yield,
        Self::Time,
        Self::Haste,
        Self::Port,
    ];

    fn message(self) -> &'static str {
        match self {
            Self::Sleep => {
                "a test does not sleep: it waits for a state, by watch or by asking again"
            }
            Self::Yield => {
                "`yield_now` asks as fast as it is answered: wait for a state, or pause between two looks"
            }
            Self::Time => "a time is printed, never asserted: count requests, rounds or events",
            Self::Haste => {
                "a time-out below 20 s fails on a busy machine: use the tier's patience, or show by a \
                 canary that nothing happens"
            }
            Self::Port => "a fixed port may be taken: bind port 0 and hand the listener over",
        }
    }
}

const PAUSED: &str = "its callers run in tokio's paused time, which no machine makes slower";
const PLAYED: &str = "a server of a test that is told to be slow";
const ASKED: &str = "the pause between two looks at what has no watch";
const REST: &str = "it measures what happens while nothing is done";

/// Exceptions: file, rule, reason.
const EXCEPTIONS: &[(&str, Rule, &str)] = &[
    (
        "kit/src/tls_reload/tests.rs",
        Rule::Yield,
        "it looks whether an answer comes before its turn, which nothing tells",
    ),
    (
        "operator/src/admission/tests/pressure.rs",
        Rule::Sleep,
        PAUSED,
    ),
    (
        "operator/src/admission/tests/pressure.rs",
        Rule::Time,
        PAUSED,
    ),
    (
        "operator/src/admission/tests/pressure.rs",
        Rule::Yield,
        PAUSED,
    ),
    ("e2e/suites/src/scenario/kubectl.rs", Rule::Sleep, ASKED),
    ("e2e/suites/src/scenario/sleeping.rs", Rule::Sleep, ASKED),
    ("e2e/testkit/src/fakes/kubevirt/host.rs", Rule::Sleep, ASKED),
    ("e2e/testkit/src/waiting/ask.rs", Rule::Sleep, ASKED),
    (
        "e2e/testkit/src/fakes/tenant_api/hostile.rs",
        Rule::Sleep,
        PLAYED,
    ),
    (
        "e2e/testkit/src/fakes/tenant_api/server.rs",
        Rule::Sleep,
        PLAYED,
    ),
    ("e2e/testkit/src/proxy/server.rs", Rule::Sleep, PLAYED),
    (
        "e2e/testkit/src/disks/failing.rs",
        Rule::Sleep,
        "a disk of a test that is told to be slow",
    ),
    (
        "e2e/testkit/src/faults/shake.rs",
        Rule::Sleep,
        "the delays of shake mode, which follow from a seed",
    ),
    ("kit/client/src/deadline.rs", Rule::Sleep, PAUSED),
    ("kit/src/lease/tests.rs", Rule::Sleep, PAUSED),
    (
        "e2e/suites/tests/operations/operator_away.rs",
        Rule::Sleep,
        REST,
    ),
    (
        "e2e/suites/tests/operations/quiescence.rs",
        Rule::Sleep,
        REST,
    ),
    ("e2e/suites/tests/operations/sleep.rs", Rule::Sleep, REST),
    (
        "e2e/suites/tests/workers/volumes/outage.rs",
        Rule::Sleep,
        REST,
    ),
    ("operator/tests/t1/clouds/outage.rs", Rule::Sleep, ASKED),
    (
        "operator/tests/t1/clouds/outage.rs",
        Rule::Time,
        "it is the time in which a lost location has to be made up for",
    ),
    (
        "e2e/testkit/src/process.rs",
        Rule::Yield,
        "a program replaces another within microseconds, and nothing tells of it",
    ),
    (
        "e2e/testkit/tests/process.rs",
        Rule::Yield,
        "processes of somebody else end, and nothing tells of it; to be asked with pauses",
    ),
    (
        "kit/src/admin/tests.rs",
        Rule::Yield,
        "its own port closes, and nothing tells of it; to be asked with pauses",
    ),
    (
        "e2e/testkit/tests/stand_ins.rs",
        Rule::Time,
        "a lower bound: no machine is too slow for it",
    ),
    (
        "e2e/suites/src/scenario/steady.rs",
        Rule::Haste,
        "the client that is measured gives up after a second, as users do",
    ),
    (
        "e2e/suites/tests/workers/load_balancer.rs",
        Rule::Haste,
        "a datagram may be lost: it is sent again until patience ends",
    ),
    (
        "e2e/testkit/src/tls.rs",
        Rule::Haste,
        "one look at a server that may hang: its callers look again",
    ),
    (
        "kit/src/shutdown.rs",
        Rule::Haste,
        "it waits for what never comes, so a busy machine changes nothing",
    ),
    (
        "kit/src/tls_reload/tests.rs",
        Rule::Haste,
        "no reason: to be given the patience of its tier",
    ),
    (
        "tenant-cp/tests/autoscaler.rs",
        Rule::Port,
        "the text of a flag, and nobody listens",
    ),
];

/// Everything in tests that waits as it should not.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    check_but(texts, EXCEPTIONS)
}

fn check_but(texts: &[Text], exceptions: &[(&str, Rule, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; exceptions.len()];
    // The rules themselves spell out what they look for.
    let is_judged =
        |text: &&Text| text.path.ends_with(".rs") && !text.path.starts_with("xtask/src/tidy");
    for text in texts.iter().filter(is_judged) {
        for rule in Rule::ALL {
            let lines = broken(rule, text);
            let excepted = exceptions
                .iter()
                .position(|(path, of, _)| *path == text.path && *of == rule);
            match excepted {
                Some(exception) => needed[exception] |= !lines.is_empty(),
                None => findings.extend(lines.into_iter().map(|line| Finding {
                    path: text.path.clone(),
                    line,
                    message: rule.message().to_owned(),
                })),
            }
        }
        findings.extend(examples(text));
    }
    for ((path, rule, _), needed) in exceptions.iter().zip(needed) {
        if !needed {
            findings.push(Finding {
                path: (*path).to_owned(),
                line: 0,
                message: format!(
                    "take the exception {rule:?} out of xtask/src/tidy/waiting.rs: it is not needed any \
                     more"
                ),
            });
        }
    }
    findings
}

/// The lines of the tests in `text` that break `rule`.
fn broken(rule: Rule, text: &Text) -> Vec<usize> {
    let all = test_lines(text);
    let lines = without_paused(&all);
    match rule {
        Rule::Sleep => having(&lines, |code| {
            calls_word(code, "sleep") || calls_word(code, "sleep_until")
        }),
        Rule::Yield => having(&lines, |code| has_word(code, "yield_now")),
        Rule::Port => having(&all, has_fixed_port),
        Rule::Time => asserted_times(&lines),
        Rule::Haste => hasty(&lines),
    }
}

/// The lines but for tests in tokio's paused time: there a sleep takes none, and a time is exact.
fn without_paused<'a>(lines: &[(usize, &'a str)]) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    let mut paused: Option<&str> = None;
    for (number, line) in lines {
        let trimmed = line.trim_start();
        let indent = &line[..line.len() - trimmed.len()];
        match paused {
            Some(end) if trimmed == "}" && indent == end => paused = None,
            Some(_) => {}
            None if trimmed.starts_with("#[tokio::test(") && trimmed.contains("start_paused") => {
                paused = Some(indent);
            }
            None => found.push((*number, *line)),
        }
    }
    found
}

fn having(lines: &[(usize, &str)], is_broken: impl Fn(&str) -> bool) -> Vec<usize> {
    lines
        .iter()
        .filter(|(_, line)| is_broken(code(line)))
        .map(|(number, _)| *number)
        .collect()
}

/// Whether `word(` stands there, not as the end of a longer name.
fn calls_word(code: &str, word: &str) -> bool {
    code.match_indices(&format!("{word}(")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && !code[..at].ends_with("fn ")
    })
}

/// A port that is listened on: elsewhere an address is mere text.
fn has_fixed_port(code: &str) -> bool {
    if !["bind(", "listen", "serve("]
        .iter()
        .any(|word| code.contains(word))
    {
        return false;
    }
    ["127.0.0.1:", "localhost:", "0.0.0.0:"].iter().any(|host| {
        code.match_indices(host).any(|(at, _)| {
            let port: String = code[at + host.len()..]
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            port.parse::<u32>().is_ok_and(|port| port != 0)
        })
    })
}

/// Assertions whose condition holds `elapsed()`, or a name that was given its value.
fn asserted_times(lines: &[(usize, &str)]) -> Vec<usize> {
    let mut times = vec!["elapsed()".to_owned()];
    for (_, line) in lines {
        if let Some((name, value)) = code(line)
            .trim_start()
            .strip_prefix("let ")
            .and_then(|l| l.split_once(" = "))
            && value.trim_end().ends_with(".elapsed();")
        {
            times.push(name.trim_start_matches("mut ").to_owned());
        }
    }
    let is_time = |condition: &str| {
        times.iter().any(|time| match time.as_str() {
            "elapsed()" => condition.contains("elapsed()"),
            name => has_word(condition, name),
        })
    };
    macros(lines, &["assert!", "ensure!", "assert_eq!", "assert_ne!"])
        .into_iter()
        .filter(|found| {
            let compared = if found.name.contains("_eq") || found.name.contains("_ne") {
                2
            } else {
                1
            };
            arguments(&found.inner)
                .iter()
                .take(compared)
                .any(|argument| is_time(argument))
        })
        .map(|found| found.line)
        .collect()
}

/// Calls of `timeout` and of what waits, with a duration that is too short; by a constant of the
/// same file, too.
fn hasty(lines: &[(usize, &str)]) -> Vec<usize> {
    let mut short = Vec::new();
    for (_, line) in lines {
        let code = code(line);
        if let Some((name, value)) = code
            .trim_start()
            .trim_start_matches("pub(crate) ")
            .strip_prefix("const ")
            .and_then(|l| l.split_once(": Duration = "))
            && is_short(value)
        {
            short.push(name.to_owned());
        }
    }
    calls(lines, |name| {
        name == "timeout"
            || ["wait", "until", "within", "eventually"]
                .iter()
                .any(|w| name.starts_with(w))
    })
    .into_iter()
    .filter(|call| {
        arguments(&call.inner).iter().any(|argument| {
            is_short(argument) && argument.trim_start().starts_with(['D', 's', 't'])
                || short.contains(&argument.trim().to_owned())
        })
    })
    .map(|call| call.line)
    .collect()
}

/// Whether a text is a `Duration` of some milliseconds, or of fewer seconds than patience has.
fn is_short(text: &str) -> bool {
    let number = |from: &str| {
        let (_, rest) = text.split_once(from)?;
        let digits: String = rest
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '_')
            .filter(char::is_ascii_digit)
            .collect();
        digits.parse::<u64>().ok()
    };
    number("Duration::from_millis(").is_some_and(|millis| millis < PATIENCE_SECONDS * 1000)
        || number("Duration::from_secs(").is_some_and(|seconds| seconds < PATIENCE_SECONDS)
}

/// Examples in comments: each one is compiled and linked by itself, so they are unit tests instead.
fn examples(text: &Text) -> Vec<Finding> {
    let is_fence = |line: &str| {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        comment.is_some_and(|comment| comment.trim_start().starts_with("```"))
    };
    let first = text.text.lines().position(is_fence);
    first
        .map(|line| Finding {
            path: text.path.clone(),
            line: line + 1,
            message: "make the example of this comment a unit test: no run builds doc tests"
                .to_owned(),
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests;
