//! How the cloud behaves, where it has a choice.
//!
//! Invariant: the default is a cloud that has enough of everything, and in which nothing fails.

use std::collections::BTreeSet;
use std::time::Duration;

/// How the cloud behaves, beside what its documentation says.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// How long an instance is pending.
    pub create_takes: Duration,
    /// How long one is shutting down.
    pub change_takes: Duration,
    /// How long after it was made an instance is not found by its ID.
    pub found_after: Duration,
    /// How long it is in no list.
    pub listed_after: Duration,
    /// How long after it was made nothing is shown, or found, with its tags.
    pub tags_after: Duration,
    /// Processors that an account may have in a region.
    pub vcpus: usize,
    /// Types that nothing is left of.
    pub exhausted: Vec<String>,
    /// Instances end while they are pending, for this reason.
    pub ends_pending: Option<&'static str>,
    /// A disk and an interface stay when their instance goes.
    pub keeps_parts: bool,
    /// Entries of a page.
    pub page: usize,
    /// The first page of each list is empty.
    pub first_page_is_empty: bool,
    /// How long a session lives.
    pub session_lives: Duration,
    /// Addresses that are left in the subnet.
    pub free_addresses: u32,
    /// Regions that accounts may not use.
    pub regions_off: BTreeSet<String>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            create_takes: Duration::from_secs(20),
            change_takes: Duration::from_secs(30),
            found_after: Duration::from_secs(3),
            listed_after: Duration::from_secs(15),
            tags_after: Duration::ZERO,
            vcpus: 200,
            exhausted: Vec::new(),
            ends_pending: None,
            keeps_parts: false,
            page: 5,
            first_page_is_empty: false,
            session_lives: Duration::from_secs(3600),
            free_addresses: 200,
            regions_off: BTreeSet::new(),
        }
    }
}
