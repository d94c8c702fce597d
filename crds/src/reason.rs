//! The one catalogue of reasons: of conditions, of Events and of refusals.
//!
//! Invariant: a reason has one name, never changes it once released, and means one thing; whoever reads it
//! finds here, and in docs/reasons.md, whose turn it is and what to do. Reasons of others (Kubernetes,
//! KubeVirt) are not in it: [`ConditionReason::passed_on`] says them as they were read.

use std::fmt;
use std::str::FromStr;

pub mod catalogue;
pub mod class;

use catalogue::Reason;
use class::Class;

/// A name that is not in the catalogue: a later version's, or somebody else's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownReason;

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not in the catalogue of reasons (docs/reasons.md)")
    }
}

impl std::error::Error for UnknownReason {}

/// The page of [`markdown`], from the top of the repository.
const PAGE: &str = "docs/reasons.md";

impl Reason {
    /// Why a TenantCluster is not Ready although its API answers.
    pub const ANSWERS: [Self; 2] = [Self::ControllersNotReady, Self::AddonsNotReady];

    /// Where its cause and its remedy are written for people: `docs/reasons.md#paused`, from the top of the
    /// repository. It never changes, because a name does not.
    #[must_use]
    pub fn runbook(self) -> String {
        format!("{PAGE}#{}", self.anchor())
    }

    /// Its section in the pages of runbooks, below `docs/`: symptom, what is safe meanwhile, and one command. Of what is
    /// not as it should be of etcd, of backups and of restores; none of all else.
    #[must_use]
    pub fn section(self) -> Option<String> {
        let page = match self.group() {
            _ if self.class() == Class::Fine => return None,
            "Of the backup of a TenantCluster"
            | "Of a Snapshot"
            | "Of a Restore"
            | "Of a BackupTarget" => "backup",
            "Of a TenantCluster" if self.meaning().contains("etcd") => "etcd",
            _ => return None,
        };
        Some(format!("runbooks/{page}.md#{}", self.anchor()))
    }

    /// The fragment that leads to its heading, as Markdown makes it of a heading of letters and digits.
    fn anchor(self) -> String {
        self.as_str().to_ascii_lowercase()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<Reason> for &'static str {
    fn from(reason: Reason) -> Self {
        reason.as_str()
    }
}

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(name: &str) -> Result<Self, UnknownReason> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reason| reason.as_str() == name)
            .ok_or(UnknownReason)
    }
}

impl PartialEq<str> for Reason {
    fn eq(&self, name: &str) -> bool {
        self.as_str() == name
    }
}

impl PartialEq<&str> for Reason {
    fn eq(&self, name: &&str) -> bool {
        self.as_str() == *name
    }
}

impl PartialEq<Reason> for str {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.as_str()
    }
}

impl PartialEq<Reason> for String {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.as_str()
    }
}

/// What a condition of ours can say: a reason of the catalogue, or somebody else's that was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConditionReason(String);

impl ConditionReason {
    /// Somebody else's reason, as it was read: `ErrImagePull` of KubeVirt.
    #[must_use]
    pub fn passed_on(read: impl Into<String>) -> Self {
        Self(read.into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Reason> for ConditionReason {
    fn from(reason: Reason) -> Self {
        Self(reason.as_str().to_owned())
    }
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<Reason> for ConditionReason {
    fn eq(&self, reason: &Reason) -> bool {
        self.0 == reason.as_str()
    }
}

impl PartialEq<&str> for ConditionReason {
    fn eq(&self, name: &&str) -> bool {
        self.0 == *name
    }
}

/// docs/reasons.md: a heading for each reason, which its [`Reason::runbook`] leads to.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "# Reasons\nGenerated from `crds/src/reason/catalogue.rs` (`COVEY_UPDATE_GOLDEN=1 cargo test -p \
         api --test reasons`).\n\nEvery reason that Covey writes into conditions and Events, or refuses \
         with. Whose turn it is: *fine*, nobody's; *waiting*, Covey's, it goes on by itself; *person*, \
         yours; *bug*, ours. A reason that is not here is somebody else's (Kubernetes, KubeVirt) and \
         passed on as it was read. The message beside it has names and numbers. A link to one is its name \
         in small letters: `reasons.md#paused`.\n",
    );
    let mut group = "";
    for reason in Reason::ALL {
        if reason.group() != group {
            group = reason.group();
            text.push_str(&format!("\n## {group}\n"));
        }
        text.push_str(&format!(
            "\n### {reason}\n*{}*, since {}. {}\n",
            reason.class().as_str(),
            reason.since(),
            reason.meaning()
        ));
        for (what, said) in [("Cause", reason.cause()), ("Do", reason.mend())] {
            if !said.is_empty() {
                text.push_str(&format!("- {what}: {said}\n"));
            }
        }
        if let Some(section) = reason.section() {
            text.push_str(&format!("- Runbook: [{reason}]({section})\n"));
        }
    }
    text
}
