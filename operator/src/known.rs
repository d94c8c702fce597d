//! What is known of a thing that was looked for.
//!
//! Invariant: what could not be read is neither there nor absent, and whoever decides by it has to say what
//! then: nothing is deleted, made anew or told by what is not known.

/// A thing that was looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known<T> {
    /// It is there.
    Known(T),
    /// It is certain that it is not there.
    Absent,
    /// It could not be looked at.
    Unknown {
        /// Why, for people.
        why: &'static str,
    },
}

impl<T> Known<T> {
    /// The same of something in it.
    pub fn and_then<U>(self, of: impl FnOnce(T) -> Known<U>) -> Known<U> {
        match self {
            Self::Known(value) => of(value),
            Self::Absent => Known::Absent,
            Self::Unknown { why } => Known::Unknown { why },
        }
    }

    /// The value, or what stands for one that is absent; none where it is not known.
    #[must_use]
    pub fn or_absent(self, absent: T) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent => Some(absent),
            Self::Unknown { .. } => None,
        }
    }

    /// Whether that is not known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_absent() {
        let unknown = Known::Unknown { why: "it is dark" };
        assert_eq!(Known::Known(3).or_absent(0), Some(3));
        assert_eq!(Known::Absent.or_absent(0), Some(0));
        assert_eq!(unknown.or_absent(0), None);
        assert_eq!(
            unknown.and_then(|_: i32| Known::Known(1)),
            Known::Unknown { why: "it is dark" }
        );
        assert_eq!(
            Known::Absent.and_then(|_: i32| Known::Known(1)),
            Known::Absent
        );
        assert!(unknown.is_unknown() && !Known::Known(1).is_unknown());
    }
}
