//! How the cloud behaves, where it has a choice.
//!
//! Invariant: the default is a cloud that has enough of everything, and in which nothing fails.

use std::time::Duration;

/// How the cloud behaves, beside what its documentation says.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// How long a server is made.
    pub create_takes: Duration,
    /// How long one starts.
    pub start_takes: Duration,
    /// How long one is deleted.
    pub delete_takes: Duration,
    /// How long after its creation a thing is in no list.
    pub visible_after: Duration,
    /// Most servers of a project.
    pub server_limit: usize,
    /// Most primary IPs of a project.
    pub address_limit: usize,
    /// Sizes that nothing is left of, by name.
    pub exhausted: Vec<String>,
    /// Servers are made, and the action fails.
    pub creation_fails: bool,
    /// Servers are deleted, and the action fails so often.
    pub deletion_fails: usize,
    /// Requests in an hour.
    pub rate_limit: u32,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            create_takes: Duration::from_secs(15),
            start_takes: Duration::from_secs(5),
            delete_takes: Duration::from_secs(5),
            visible_after: Duration::ZERO,
            server_limit: 100,
            address_limit: 100,
            exhausted: Vec::new(),
            creation_fails: false,
            deletion_fails: 0,
            rate_limit: 3600,
        }
    }
}
