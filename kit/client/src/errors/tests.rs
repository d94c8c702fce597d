//! The class of each status code, and chains as a person reads them.

use super::*;
use kube::core::Status;

#[derive(Debug, thiserror::Error)]
#[error("could not apply the Secret")]
struct Outer(#[source] kube::Error);

#[derive(Debug, thiserror::Error)]
#[error("outer: {0}")]
struct Repeats(#[source] std::io::Error);

fn api(code: u16, reason: &str) -> kube::Error {
    kube::Error::Api(
        Status::failure("the message", reason)
            .with_code(code)
            .boxed(),
    )
}

#[test]
fn status_codes_have_their_class() {
    let expected = [
        (Class::Conflict, vec![409]),
        (Class::Invalid, vec![422]),
        (Class::Bug, vec![400, 405, 406, 413, 415]),
        (
            Class::Transient,
            vec![401, 403, 404, 408, 410, 429, 500, 502, 503, 504],
        ),
    ];
    for (class, codes) in expected {
        for code in codes {
            assert_eq!(api(code, "").class(), class, "{code}");
        }
    }
}

#[test]
fn broken_connections_are_transient_and_undecodable_answers_are_bugs() {
    let broken = kube::Error::Service("connection reset".into());
    assert_eq!(broken.class(), Class::Transient);
    let decode = serde_json::from_str::<bool>("7").expect_err("7 is not a bool");
    assert_eq!(kube::Error::SerdeError(decode).class(), Class::Bug);
}

#[test]
fn chain_prints_an_answer_of_the_api_once() {
    let line = chain(&Outer(api(409, "Conflict")));
    assert_eq!(
        line,
        "could not apply the Secret: the message (Conflict, 409)"
    );
}

#[test]
fn chain_skips_a_cause_that_its_parent_already_printed() {
    assert_eq!(
        chain(&Repeats(std::io::Error::other("disk full"))),
        "outer: disk full"
    );
}

#[test]
fn labels_are_distinct() {
    let labels: std::collections::BTreeSet<_> = Class::ALL.map(Class::label).into();
    assert_eq!(labels.len(), 4);
}
