//! The result of a check.
//!
//! Invariant: a finding that is an error or a warning says what mends it; all its texts are fit to be shown.

use api::Reason;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::check::Check;
use crate::text;

/// How bad it is. Later ones are worse.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It could not be told, or another finding explains it.
    Skipped,
    /// Worth knowing; it goes on by itself.
    Info,
    /// Something will go wrong, or goes more slowly than it should.
    Warning,
    /// Something is wrong.
    Error,
}

impl Level {
    /// One word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The object that a finding is about.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Subject {
    /// Its kind: `TenantCluster`.
    pub kind: String,
    /// Its namespace; none of what has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Subject {
    /// An object in a namespace; an empty one is none.
    #[must_use]
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Self {
            kind: kind.to_owned(),
            namespace,
            name: name.to_owned(),
        }
    }

    /// The management cluster as a whole.
    #[must_use]
    pub fn management() -> Self {
        Self::new("Cluster", "", "management cluster")
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.namespace, self.kind.as_str()) {
            (None, "Cluster") => f.write_str(&self.name),
            (Some(namespace), kind) => write!(f, "{kind} {namespace}/{}", self.name),
            (None, kind) => write!(f, "{kind} {}", self.name),
        }
    }
}

/// To what a finding belongs, and so which others it may explain: without names to everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scope {
    /// Namespace and name of the TenantCluster.
    pub cluster: Option<(String, String)>,
    /// Name of the NodePool.
    pub pool: Option<String>,
}

impl Scope {
    /// Whether what is wrong here may be felt there.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let cluster = self.cluster.is_none() || self.cluster == other.cluster;
        cluster && (self.pool.is_none() || self.pool == other.pool)
    }
}

/// The result of one check about one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which check.
    #[serde(rename = "id", serialize_with = "id")]
    pub check: Check,
    /// Its number.
    pub number: u16,
    /// How bad it is.
    pub level: Level,
    /// What it is about.
    pub subject: Subject,
    /// The reason of the catalogue, where it was read from a condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is wrong, in one sentence.
    pub cause: String,
    /// What usually makes it so; empty where that is said already.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub likely: String,
    /// The command or field that mends it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mend: String,
    /// What it was told by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Where more about it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runbook: Option<String>,
    /// Since when, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The check whose finding explains this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<&'static str>,
    /// To what it belongs.
    #[serde(skip)]
    pub scope: Scope,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn id<S: Serializer>(check: &Check, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(check.id())
}

impl Finding {
    /// A finding in words of its own. `mend` names a command or a field.
    #[must_use]
    pub fn new(check: Check, level: Level, subject: Subject, cause: &str, mend: &str) -> Self {
        Self {
            check,
            number: check.number(),
            level,
            subject,
            reason: None,
            cause: text::shown(cause),
            likely: String::new(),
            mend: text::shown(mend),
            evidence: Vec::new(),
            runbook: None,
            since: None,
            because: None,
            scope: Scope::default(),
        }
    }

    /// A finding in the catalogue's words. `message` says what the catalogue cannot: names and numbers.
    #[must_use]
    pub fn of_reason(
        check: Check,
        level: Level,
        subject: Subject,
        reason: Reason,
        message: &str,
    ) -> Self {
        let cause = if message.is_empty() {
            reason.meaning()
        } else {
            message
        };
        let mut finding = Self::new(check, level, subject, cause, reason.mend());
        finding.reason = Some(reason.as_str().to_owned());
        finding.likely = reason.cause().to_owned();
        finding.runbook = Some(reason.runbook());
        finding
    }

    /// What could not be told, and why.
    #[must_use]
    pub fn unknown(check: Check, subject: Subject, what: &str, why: &str) -> Self {
        let cause = format!("{what} is not known: {why}");
        Self::new(check, Level::Skipped, subject, &cause, "")
    }

    /// The same, belonging to this.
    #[must_use]
    pub fn within(mut self, scope: &Scope) -> Self {
        self.scope = scope.clone();
        self
    }

    /// The same, with one more thing that it was told by.
    #[must_use]
    pub fn told_by(mut self, evidence: &str) -> Self {
        if !evidence.is_empty() {
            self.evidence.push(text::shown(evidence));
        }
        self
    }
}
