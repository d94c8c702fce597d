//! What is remembered of each Machine, by its UID.
//!
//! Invariant: it has a bound, so whoever uses it comes to the same end where something was forgotten.

use std::collections::BTreeMap;

/// Machines that are remembered.
const MOST: usize = 10_000;

/// What is remembered of each Machine.
#[derive(Clone, Debug, Default)]
pub struct ByUid<T> {
    all: BTreeMap<String, T>,
}

impl<T: Default> ByUid<T> {
    /// What is remembered of a Machine.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&T> {
        self.all.get(uid)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, uid: &str) -> Option<&mut T> {
        self.all.get_mut(uid)
    }

    /// The same, from now on. Another one is forgotten where they are too many.
    pub fn known(&mut self, uid: &str) -> &mut T {
        if self.all.len() >= MOST && !self.all.contains_key(uid) {
            self.all.pop_first();
        }
        self.all.entry(uid.to_owned()).or_default()
    }

    /// Nobody asks for it any more.
    pub fn forgets(&mut self, uid: &str) {
        self.all.remove(uid);
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_is_remembered_and_never_too_many() {
        let mut all = ByUid::<usize>::default();
        for number in 0..MOST + 10 {
            *all.known(&format!("{number:08}")) = number;
        }
        assert_eq!(all.all.len(), MOST);
        let last = format!("{:08}", MOST + 9);
        assert_eq!(all.get(&last), Some(&(MOST + 9)));
        all.forgets(&last);
        assert_eq!(all.get_mut(&last), None);
    }
}
