//! Whose turn it is when a reason is told, and how the catalogue is written.
//!
//! Invariant: each entry has a name, a meaning, a class and a remedy; one that is a person's turn or a bug
//! has a cause.

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

/// The release whose reasons do not say since when they are there.
pub(super) const FIRST_RELEASE: &str = "0.1.0";

/// Makes the enum and its table. The first line of an entry's comment is its meaning, a second one that
/// begins with `Cause:` its cause; `since` stands behind the remedy where it is not the first release.
macro_rules! reasons {
    ($($group:literal { $(
        #[doc = $meaning:literal] $(#[doc = $cause:literal])?
        $name:ident: $class:ident, $mend:literal $(, since $since:literal)?;
    )+ })+) => {
        /// A reason of a condition, of an Event or of a refusal.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Reason {
            $($(#[doc = $meaning] $(#[doc = $cause])? $name,)+)+
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

            /// What usually makes it so, most likely first: one sentence. Empty where it is nobody's turn, and
            /// mostly where it is Covey's.
            #[must_use]
            pub fn cause(self) -> &'static str {
                let said = match self { $($(Self::$name => concat!($($cause)?),)+)+ }.trim();
                said.strip_prefix("Cause: ").unwrap_or(said)
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

            /// The release that said it first: `0.1.0`.
            #[must_use]
            pub fn since(self) -> &'static str {
                let said = match self { $($(Self::$name => concat!($($since)?),)+)+ };
                if said.is_empty() { $crate::reason::class::FIRST_RELEASE } else { said }
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
