//! Where machines are played, and where it stands what they are made of.

use std::path::PathBuf;

/// Where machines are played.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node that they run on.
    pub node: String,
    /// File with what they are made of.
    pub settings: PathBuf,
}
