//! How the cloud behaves, where it has a choice.
//!
//! Invariant: the default is a cloud that has enough of everything, and in which nothing fails.

use std::time::Duration;

/// How the cloud behaves, beside what its documentation says.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// How long an instance is made.
    pub create_takes: Duration,
    /// How long one is deleted, or started.
    pub change_takes: Duration,
    /// How long after it was asked for an instance is not found.
    pub visible_after: Duration,
    /// Most instances of a project; more fail in the operation.
    pub instance_limit: usize,
    /// That they are too many is said at once.
    pub limit_is_told_at_once: bool,
    /// Sizes that nothing is left of, by name; that is said in the operation.
    pub exhausted: Vec<String>,
    /// Deletions fail so often, in the operation.
    pub deletion_fails: usize,
    /// A boot disk stays when its instance goes.
    pub keeps_disks: bool,
    /// Lists are partial, and say so.
    pub is_partial: bool,
    /// How long a token lives.
    pub token_lives: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            create_takes: Duration::from_secs(25),
            change_takes: Duration::from_secs(15),
            visible_after: Duration::from_secs(5),
            instance_limit: 100,
            limit_is_told_at_once: false,
            exhausted: Vec::new(),
            deletion_fails: 0,
            keeps_disks: false,
            is_partial: false,
            token_lives: Duration::from_secs(3599),
        }
    }
}
