//! Fingerprints of watched objects: what is new in a watch, also across a list that was read anew.
//!
//! Invariant: whatever the order of events and however often they come, a name is reported exactly
//! when its fingerprint differs from the one reported last, or when it is gone.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;

/// Fingerprints of what was seen, by name.
#[derive(Debug)]
pub(super) struct Fingerprints<F> {
    seen: BTreeMap<String, F>,
    listed: Option<BTreeMap<String, F>>,
}

impl<F> Default for Fingerprints<F> {
    fn default() -> Self {
        Self {
            seen: BTreeMap::new(),
            listed: None,
        }
    }
}

/// What became of one name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Change {
    /// New, or another fingerprint.
    Changed(String),
    /// It was there and is no more.
    Gone(String),
    /// An event without news.
    Same,
}

impl<F: PartialEq> Fingerprints<F> {
    /// Takes in one event; the object is reduced to name and fingerprint.
    pub(super) fn take(&mut self, event: Event<(String, F)>) -> Vec<Change> {
        match event {
            Event::Init => {
                self.listed = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply((name, fingerprint)) => {
                let change = self.apply(name, fingerprint, true);
                vec![change]
            }
            Event::InitDone => {
                let Some(listed) = self.listed.take() else {
                    return Vec::new();
                };
                let gone = self.seen.keys().filter(|name| !listed.contains_key(*name));
                let gone = gone.map(|name| Change::Gone(name.clone())).collect();
                self.seen = listed;
                gone
            }
            Event::Apply((name, fingerprint)) => vec![self.apply(name, fingerprint, false)],
            Event::Delete((name, _)) => match self.seen.remove(&name) {
                Some(_) => vec![Change::Gone(name)],
                None => Vec::new(),
            },
        }
    }

    fn apply(&mut self, name: String, fingerprint: F, listed: bool) -> Change {
        let same = self.seen.get(&name) == Some(&fingerprint);
        let into = match &mut self.listed {
            Some(list) if listed => list,
            _ => &mut self.seen,
        };
        into.insert(name.clone(), fingerprint);
        if same {
            Change::Same
        } else {
            Change::Changed(name)
        }
    }

    /// Everything that is known.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &F)> {
        // While a list is read, what was known before still counts.
        self.seen.iter().chain(self.listed.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(name: &str) -> Vec<Change> {
        vec![Change::Changed(name.to_owned())]
    }

    #[test]
    fn only_news_are_reported_also_across_a_new_list() {
        let mut known = Fingerprints::default();
        let at = |name: &str, fingerprint: u8| (name.to_owned(), fingerprint);
        assert_eq!(known.take(Event::Init), []);
        assert_eq!(known.take(Event::InitApply(at("a", 1))), changed("a"));
        assert_eq!(known.take(Event::InitApply(at("b", 1))), changed("b"));
        assert_eq!(known.take(Event::InitDone), []);
        assert_eq!(known.take(Event::Apply(at("a", 1))), [Change::Same]);
        assert_eq!(known.take(Event::Apply(at("a", 2))), changed("a"));
        // The connection broke; meanwhile b went and c came.
        assert_eq!(known.take(Event::Init), []);
        assert_eq!(known.take(Event::InitApply(at("a", 2))), [Change::Same]);
        assert_eq!(known.take(Event::InitApply(at("c", 1))), changed("c"));
        assert_eq!(known.take(Event::InitDone), [Change::Gone("b".to_owned())]);
        assert_eq!(known.take(Event::Delete(at("b", 1))), []);
        assert_eq!(
            known.take(Event::Delete(at("c", 1))),
            [Change::Gone("c".to_owned())]
        );
        assert_eq!(known.iter().collect::<Vec<_>>(), [(&"a".to_owned(), &2)]);
    }

    #[test]
    fn list_that_breaks_off_forgets_nothing() {
        let mut known = Fingerprints::default();
        known.take(Event::Init);
        known.take(Event::InitApply(("a".to_owned(), 1)));
        known.take(Event::InitDone);
        known.take(Event::Init);
        known.take(Event::Init);
        known.take(Event::InitApply(("a".to_owned(), 1)));
        assert_eq!(known.take(Event::InitDone), []);
    }
}
