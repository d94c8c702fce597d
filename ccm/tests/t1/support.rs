//! What the tests stand on: [`Environment`] (a tenant cluster and its tenant namespace), [`Ccm`]
//! (a running cloud controller manager) and [`Program`] (the same as a process).
//!
//! Invariant: the users of a running one have exactly the rights of [`ccm::rbac`].

pub(crate) mod environment;
pub(crate) mod process;
pub(crate) mod program;

pub(crate) use self::environment::Environment;
pub(crate) use self::process::Ccm;
pub(crate) use self::program::Program;

/// How long a test waits for what takes well under a second on an idle machine.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
