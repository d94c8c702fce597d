//! Whether anything of a node is left on a machine.
//!
//! Invariant: only a machine that says "clean", and names no trace, is.

use crate::answer::Answer;

/// What is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleanliness {
    /// Nothing.
    Clean,
    /// These, in words: "folder /etc/kubernetes", "link cni0".
    Traces(Vec<String>),
    /// It did not say.
    Unknown,
}

impl Cleanliness {
    /// Reads the answer of `clean`.
    #[must_use]
    pub fn read(answer: &Answer) -> Self {
        let traces = answer
            .get("traces")
            .split(';')
            .map(str::trim)
            .filter(|trace| !trace.is_empty());
        let traces: Vec<_> = traces
            .take(16)
            .map(|trace| trace.chars().take(128).collect())
            .collect();
        match (answer.get("result"), traces.is_empty()) {
            ("clean", true) => Self::Clean,
            (_, false) => Self::Traces(traces),
            (_, true) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_without_traces_is_clean() {
        let read = |fields: [(&str, &str); 2]| Cleanliness::read(&fields.into());
        assert_eq!(
            read([("result", "clean"), ("traces", "")]),
            Cleanliness::Clean
        );
        let traces = Cleanliness::Traces(vec!["link cni0".to_owned(), "port 10250".to_owned()]);
        assert_eq!(
            read([("result", "traces"), ("traces", "link cni0;port 10250")]),
            traces
        );
        assert_eq!(
            read([("result", "clean"), ("traces", "link cni0;port 10250;")]),
            traces
        );
        assert_eq!(read([("result", ""), ("traces", "")]), Cleanliness::Unknown);
    }
}
