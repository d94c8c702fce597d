//! Whose turn it is when a reason is told, and how the catalogue is written.
//!
//! Invariant: each entry has a name, a meaning, a class and a remedy.

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Class {
    /// Nobody's: it is as it should be.
    Fine,
    /// Covey's: it goes on by itself, or says another reason.
    Waiting,
    /// A person's.
    Person,
    /// The developers': it should not happen.
    Bug,
}

impl Class {
    /// One word, for tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Waiting => "waiting",
            Self::Person => "person",
            Self::Bug => "bug",
        }
    }
}

/// Makes the enum and its table. The comment of an entry is its meaning.
macro_rules! reasons {
    ($($group:literal { $(#[doc = $meaning:literal] $name:ident: $class:ident, $mend:literal;)+ })+) => {
        /// A reason of a condition, of an Event or of a refusal.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Reason {
            $($(#[doc = $meaning] $name,)+)+
        }

        impl Reason {
            /// All, in the order of docs/reasons.md.
            pub const ALL: &[Self] = &[$($(Self::$name,)+)+];

            /// The name as it stands in `status.conditions[].reason`: PascalCase.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($(Self::$name => stringify!($name),)+)+ }
            }

            /// What it means: one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $($(Self::$name => $meaning,)+)+ }.trim()
            }

            /// Whose turn it is.
            #[must_use]
            pub fn class(self) -> Class {
                match self { $($(Self::$name => Class::$class,)+)+ }
            }

            /// What to do about it; empty where nothing is.
            #[must_use]
            pub fn mend(self) -> &'static str {
                match self { $($(Self::$name => $mend,)+)+ }
            }

            /// Of what it is a reason: a heading of docs/reasons.md.
            #[must_use]
            pub fn group(self) -> &'static str {
                match self { $($(Self::$name => $group,)+)+ }
            }
        }
    };
}
pub(super) use reasons;
