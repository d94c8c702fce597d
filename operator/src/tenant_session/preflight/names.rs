//! How many there are of something, and a few of them by name.
//!
//! Invariant: its size has a bound, whatever a tenant has and calls it.

use crate::status::one_line;

/// As many are named.
const NAMED: usize = 3;
/// Most characters of a name.
const LONGEST: usize = 253;

/// How many there are of something, and the first of them by name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Names {
    /// How many.
    pub count: usize,
    first: Vec<String>,
}

impl Names {
    /// One more; what a tenant calls it is cut to size.
    pub fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(one_line(name, LONGEST));
        }
    }

    /// Those of both.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        self.count += others.count;
        let missing = NAMED.saturating_sub(self.first.len());
        self.first
            .extend(others.first.iter().take(missing).cloned());
        self
    }

    /// The first three, and how many more there are.
    #[must_use]
    pub fn list(&self) -> String {
        let names = self.first.join(", ");
        match self.count.saturating_sub(self.first.len()) {
            0 => names,
            more => format!("{names} and {more} more"),
        }
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            all.add(name.as_ref());
        }
        all
    }
}
