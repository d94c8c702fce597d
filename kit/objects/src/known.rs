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

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self::Unknown {
            why: "it was not looked at",
        }
    }
}

impl<T> Known<T> {
    /// What a look found that missed nothing.
    #[must_use]
    pub fn found(found: Option<T>) -> Self {
        found.map_or(Self::Absent, Self::Known)
    }

    /// The value; none where it is absent and where it is not known alike. Only for who does the same
    /// about both: nothing.
    #[must_use]
    pub fn there(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Unknown { .. } => None,
        }
    }

    /// The same, lent.
    #[must_use]
    pub fn as_ref(&self) -> Known<&T> {
        match self {
            Self::Known(value) => Known::Known(value),
            Self::Absent => Known::Absent,
            Self::Unknown { why } => Known::Unknown { why },
        }
    }

    /// The same, lent to be changed.
    pub fn as_mut(&mut self) -> Known<&mut T> {
        match self {
            Self::Known(value) => Known::Known(value),
            Self::Absent => Known::Absent,
            Self::Unknown { why } => Known::Unknown { why },
        }
    }

    /// Something that follows from it.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Known<U> {
        self.and_then(|value| Known::Known(of(value)))
    }

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

    /// Whether it is certain that it is not there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
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
        assert!(!unknown.is_absent() && Known::<i32>::Absent.is_absent());
        assert!(Known::<i32>::default().is_unknown());
        assert_eq!(
            [Known::found(Some(3)), Known::found(None)],
            [Known::Known(3), Known::Absent]
        );
        assert_eq!((Known::Known(3).there(), unknown.there()), (Some(3), None));
        assert_eq!(unknown.map(|n| n + 1), unknown);
    }
}
