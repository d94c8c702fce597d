//! How far a join or a reset is.
//!
//! Invariant: a node is joined when its kubelet believes our authority, never because a script said it is done.

use crate::answer::Answer;

/// What runs on a machine and outlives connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It becomes a node.
    Join,
    /// It becomes none.
    Reset,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Reset => "reset",
        }
    }
}

/// Which operation is asked about.
#[derive(Clone, Debug)]
pub struct Expected {
    /// What it is.
    pub operation: Operation,
    /// Its number: eight hexadecimal digits.
    pub id: String,
    /// UID of the Machine.
    pub machine: String,
    /// SHA-256 of the tenant cluster's authority, in hexadecimal.
    pub ca: String,
    /// The same of what a kubelet that is taken over believes until then; empty where none is.
    pub before: String,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It runs; the step for people.
    Working(String),
    /// The kubelet is a node's, by this name.
    Joined(String),
    /// Everything was undone; whether nothing is left is another question.
    Undone,
    /// Nothing runs and nothing ended: it is to be started, for the first time or again after a reboot.
    Start,
    /// The machine is somebody else's; in words.
    Foreign(String),
    /// It gave up; in words. It may be started again.
    Failed(String),
}

impl Progress {
    /// Reads the answer of `poll`.
    #[must_use]
    pub fn read(answer: &Answer, expected: &Expected) -> Self {
        let (owner, ca) = (answer.get("ownerMachine"), answer.get("kubeletCA"));
        let message = answer.words("message");
        let is_known =
            answer.get("operation") == expected.operation.name() && answer.get("id") == expected.id;
        let (result, is_join) = (answer.get("result"), expected.operation == Operation::Join);
        if !owner.is_empty() && owner != expected.machine {
            return Self::Foreign(format!(
                "owner.json names the Machine {}",
                answer.words("ownerMachine")
            ));
        }
        if is_join && !ca.is_empty() && ca != expected.ca && ca != expected.before {
            return Self::Foreign("its kubelet belongs to another cluster".to_owned());
        }
        if !is_known {
            return if answer.is("working") {
                Self::Working(answer.words("operation"))
            } else {
                Self::Start
            };
        }
        match result {
            "foreign" => Self::Foreign(message),
            "failed" => Self::Failed(format!("step {}: {message}", answer.words("step"))),
            "done" if is_join && owner == expected.machine && ca == expected.ca => {
                Self::Joined(answer.words("nodeName"))
            }
            // The owner's file goes last: while it is there, not everything is undone.
            "done" if !is_join && owner.is_empty() => Self::Undone,
            _ if answer.is("working") => Self::Working(answer.words("step")),
            _ => Self::Start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(operation: Operation, changes: &[(&str, &str)]) -> Progress {
        let expected = Expected {
            operation,
            id: "0a1b2c3d".to_owned(),
            machine: "m".to_owned(),
            ca: "ca".to_owned(),
            before: String::new(),
        };
        let mut fields = std::collections::BTreeMap::from([
            ("operation", operation.name()),
            ("id", "0a1b2c3d"),
            ("working", "false"),
            ("ownerMachine", "m"),
        ]);
        fields.extend(changes.iter().copied());
        let line = serde_json::to_string(&fields).unwrap();
        Progress::read(&Answer::parse(&line).unwrap(), &expected)
    }

    #[test]
    fn a_join_is_done_when_the_kubelet_believes_our_authority() {
        let done = |ca| {
            read(
                Operation::Join,
                &[("result", "done"), ("kubeletCA", ca), ("nodeName", "w")],
            )
        };
        assert_eq!(done("ca"), Progress::Joined("w".to_owned()));
        assert_eq!(done(""), Progress::Start, "somebody took it away");
        assert!(matches!(done("other"), Progress::Foreign(_)));
    }

    #[test]
    fn what_was_interrupted_is_started_again() {
        let join = |working| {
            read(
                Operation::Join,
                &[
                    ("result", "running"),
                    ("working", working),
                    ("step", "join"),
                ],
            )
        };
        assert_eq!(join("true"), Progress::Working("join".to_owned()));
        assert_eq!(join("false"), Progress::Start);
        assert_eq!(
            read(Operation::Join, &[("operation", ""), ("id", "")]),
            Progress::Start
        );
        assert_eq!(
            read(Operation::Join, &[("id", "other"), ("result", "done")]),
            Progress::Start
        );
    }

    #[test]
    fn a_reset_is_done_once_the_owner_is_gone() {
        let done = |owner| {
            read(
                Operation::Reset,
                &[("result", "done"), ("ownerMachine", owner)],
            )
        };
        assert_eq!(done(""), Progress::Undone);
        assert_eq!(done("m"), Progress::Start);
        assert!(matches!(done("other"), Progress::Foreign(_)));
    }

    #[test]
    fn a_failure_says_its_step() {
        let failed = read(
            Operation::Join,
            &[
                ("result", "failed"),
                ("step", "files"),
                ("message", "no kubelet"),
            ],
        );
        assert_eq!(
            failed,
            Progress::Failed("step files: no kubelet".to_owned())
        );
    }
}
