//! What goes wrong with which request.
//!
//! Invariant: a fault says whether the request is carried out, because that is what whoever asked cannot know.

use std::time::Duration;

/// One fault of one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The connection ends before anything is done.
    LostRequest,
    /// It is done, and the connection ends before the answer.
    LostAnswer,
    /// It is done, and the connection ends in the middle of the answer.
    CutAnswer,
    /// It is done, and the answer is 200 with what is no JSON.
    Garbage,
    /// Nothing is done, and no answer comes before this time has passed.
    StuckBefore(Duration),
    /// It is done, and no answer comes before this time has passed.
    StuckAfter(Duration),
    /// The connection ends, and it is done when this time has passed.
    Late(Duration),
    /// Nothing is done, and the answer is this.
    Refused {
        /// Status of HTTP.
        status: u16,
        /// The vendor's code; empty: a body that is not the vendor's.
        code: &'static str,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// It is done, and the answer is this all the same.
    DoneBut {
        /// Status of HTTP.
        status: u16,
        /// The vendor's code; empty: a body that is not the vendor's.
        code: &'static str,
    },
    /// A list names a next page for ever.
    EndlessPages,
}

impl Fault {
    /// Refused with a code.
    #[must_use]
    pub fn refused(status: u16, code: &'static str) -> Self {
        Self::Refused {
            status,
            code,
            retry_after: None,
        }
    }
}

/// Which requests have a fault.
#[derive(Clone, Debug, Default)]
pub struct Script {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    from: usize,
    until: usize,
    method: Option<&'static str>,
    path: Option<&'static str>,
    query: Option<&'static str>,
    fault: Fault,
}

impl Script {
    /// The request with this number, of all; the first has 0.
    #[must_use]
    pub fn at(number: usize, fault: Fault) -> Self {
        Self::default().and(number, number + 1, fault)
    }

    /// These requests too.
    #[must_use]
    pub fn and(mut self, from: usize, until: usize, fault: Fault) -> Self {
        self.rules.push(Rule {
            from,
            until,
            method: None,
            path: None,
            query: None,
            fault,
        });
        self
    }

    /// Every request of this method whose path begins so and whose query contains this.
    #[must_use]
    pub fn each(
        mut self,
        method: &'static str,
        path: &'static str,
        query: &'static str,
        fault: Fault,
    ) -> Self {
        self.rules.push(Rule {
            from: 0,
            until: usize::MAX,
            method: Some(method),
            path: Some(path),
            query: Some(query),
            fault,
        });
        self
    }

    /// What goes wrong with a request; none: nothing.
    #[must_use]
    pub fn of(&self, number: usize, method: &str, path: &str, query: &str) -> Option<Fault> {
        let rule = self.rules.iter().find(|rule| {
            (rule.from..rule.until).contains(&number)
                && rule.method.is_none_or(|m| m == method)
                && rule.path.is_none_or(|p| path.starts_with(p))
                && rule.query.is_none_or(|q| query.contains(q))
        });
        rule.map(|rule| rule.fault.clone())
    }
}
