//! What a watch told of one kind.
//!
//! Invariant: only a whole list takes something away that no event took away; a list that breaks off takes
//! nothing away, and what cannot be read holds as it was.

use std::collections::BTreeMap;

use kit::watch::Event;
use kube::core::ObjectMeta;

/// Objects by name, a few fields of each.
#[derive(Debug)]
pub struct Listing<T> {
    held: BTreeMap<String, T>,
    /// What a list has named so far.
    begun: Option<BTreeMap<String, T>>,
    whole: bool,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            begun: None,
            whole: false,
        }
    }
}

impl<T: Clone + PartialEq> Listing<T> {
    /// All of them; none while no whole list was seen.
    pub fn known(&self) -> Option<&BTreeMap<String, T>> {
        self.whole.then_some(&self.held)
    }

    /// Takes an event in, and says whether anything is otherwise now.
    pub fn take<K>(&mut self, event: Event<K>, read: impl Fn(&K) -> (Option<String>, T)) -> bool {
        match event {
            Event::Begin => {
                self.begun = Some(BTreeMap::new());
                false
            }
            Event::Applied(object) => {
                let (Some(name), value) = read(&object) else {
                    return false;
                };
                if let Some(begun) = &mut self.begun {
                    begun.insert(name, value);
                    return false;
                }
                let before = self.held.insert(name, value.clone());
                self.whole && before != Some(value)
            }
            Event::Unreadable(meta) => {
                let held = name(&meta).and_then(|name| self.held.get_key_value(name));
                if let (Some(begun), Some((name, value))) = (&mut self.begun, held) {
                    begun.insert(name.clone(), value.clone());
                }
                false
            }
            Event::Deleted(object) => {
                let (name, _) = read(&object);
                name.is_some_and(|name| self.remove(&name))
            }
            Event::DeletedUnread(meta) => name(&meta).is_some_and(|name| self.remove(name)),
            Event::End => {
                let Some(begun) = self.begun.take() else {
                    return false;
                };
                let new = !self.whole || begun != self.held;
                self.held = begun;
                self.whole = true;
                new
            }
        }
    }

    fn remove(&mut self, name: &str) -> bool {
        if let Some(begun) = &mut self.begun {
            begun.remove(name);
        }
        self.held.remove(name).is_some() && self.whole
    }
}

fn name(meta: &ObjectMeta) -> Option<&str> {
    meta.name.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Object = (&'static str, u8);

    fn take(listing: &mut Listing<u8>, events: Vec<Event<Object>>) -> bool {
        let mut changed = false;
        for event in events {
            changed |= listing.take(event, |(name, value)| (Some((*name).to_owned()), *value));
        }
        changed
    }

    fn names(listing: &Listing<u8>) -> Option<Vec<&str>> {
        let known = listing.known()?;
        Some(known.keys().map(String::as_str).collect())
    }

    fn meta(name: &str) -> Box<ObjectMeta> {
        Box::new(ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn nothing_is_known_before_the_first_whole_list() {
        let mut listing = Listing::default();
        assert!(!take(
            &mut listing,
            vec![Event::Begin, Event::Applied(("a", 1))]
        ));
        assert_eq!(names(&listing), None);
        assert!(take(&mut listing, vec![Event::End]));
        assert_eq!(names(&listing), Some(vec!["a"]));
    }

    #[test]
    fn a_list_that_breaks_off_takes_nothing_away() {
        let mut listing = Listing::default();
        let all = vec![
            Event::Begin,
            Event::Applied(("a", 1)),
            Event::Applied(("b", 1)),
            Event::End,
        ];
        take(&mut listing, all);
        assert!(!take(
            &mut listing,
            vec![Event::Begin, Event::Applied(("b", 1))]
        ));
        assert_eq!(names(&listing), Some(vec!["a", "b"]));
        // The next one begins anew, and a whole one counts.
        let next = vec![Event::Begin, Event::Applied(("a", 1)), Event::End];
        assert!(take(&mut listing, next));
        assert_eq!(names(&listing), Some(vec!["a"]));
    }

    #[test]
    fn what_cannot_be_read_holds_as_it_was() {
        let mut listing = Listing::default();
        take(
            &mut listing,
            vec![Event::Begin, Event::Applied(("a", 1)), Event::End],
        );
        let events = vec![Event::Begin, Event::Unreadable(meta("a")), Event::End];
        assert!(!take(&mut listing, events));
        assert_eq!(names(&listing), Some(vec!["a"]));
        assert!(take(&mut listing, vec![Event::DeletedUnread(meta("a"))]));
        assert_eq!(names(&listing), Some(Vec::new()));
    }

    #[test]
    fn only_what_is_otherwise_is_told() {
        let mut listing = Listing::default();
        take(&mut listing, vec![Event::Begin, Event::End]);
        assert!(take(&mut listing, vec![Event::Applied(("a", 1))]));
        assert!(!take(&mut listing, vec![Event::Applied(("a", 1))]));
        assert!(take(&mut listing, vec![Event::Deleted(("a", 1))]));
        assert!(!take(&mut listing, vec![Event::Deleted(("a", 1))]));
    }
}
