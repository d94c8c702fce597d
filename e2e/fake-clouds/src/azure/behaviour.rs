//! How the cloud behaves, where it has a choice.
//!
//! Invariant: the default is a cloud that has enough of everything, and in which nothing fails.

use std::time::Duration;

/// How the cloud behaves, beside what its documentation says.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// How long a virtual machine is made.
    pub create_takes: Duration,
    /// How long an interface or an address is.
    pub put_takes: Duration,
    /// How long something is deleted, or started.
    pub change_takes: Duration,
    /// How long after it was put something is not found.
    pub found_after: Duration,
    /// How long it is not listed.
    pub listed_after: Duration,
    /// How long an interface is reserved for a machine that went.
    pub reserved_for: Duration,
    /// Most machines of a subscription.
    pub machine_limit: usize,
    /// Sizes that nothing is left of, by name; that is said in the operation, and leaves a machine that failed.
    pub exhausted: Vec<String>,
    /// Deletions of machines fail so often, in the operation.
    pub deletion_fails: usize,
    /// A disk and an interface stay when their machine goes.
    pub keeps_parts: bool,
    /// The disk that is made with a machine does not get its tags.
    pub disks_have_no_tags: bool,
    /// Entries of a page.
    pub page: usize,
    /// How long a token lives.
    pub token_lives: Duration,
    /// Requests that a bucket of reads holds; 25 come back in a second.
    pub reads: u32,
    /// The same of what changes something, and again of what deletes; 10 come back in a second.
    pub writes: u32,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            create_takes: Duration::from_secs(45),
            put_takes: Duration::from_secs(3),
            change_takes: Duration::from_secs(30),
            found_after: Duration::from_secs(2),
            listed_after: Duration::from_secs(20),
            reserved_for: Duration::from_secs(180),
            machine_limit: 100,
            exhausted: Vec::new(),
            deletion_fails: 0,
            keeps_parts: false,
            disks_have_no_tags: false,
            page: 3,
            token_lives: Duration::from_secs(3599),
            reads: 250,
            writes: 200,
        }
    }
}
